//! Fields that expire: `HEXPIRE` and its kin, `HGETEX` and `HSETEX`.

use super::entries::{DEADLINE_MS_MAX, Entries, Seen};
use super::{Fields, Op, Pairs, Value, table};
use crate::key::{ExpireIf, TtlForm, When, invalid_expiry};
use crate::{ArgBuf, Args, Blob, Command, ErrorReply, Reply, parse_int};

/// Replies for a field: it is not there, it does not expire or the condition does not hold, it was changed,
/// and it was removed because the moment has passed.
const ABSENT: i64 = -2;
const LASTS: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
const REMOVED: i64 = 2;

/// How long a field stays that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// For ever.
    Forever,
    /// `KEEPTTL`: as long as before.
    AsBefore,
    /// Until a moment.
    Until(When),
}

/// Condition of `HSETEX` on the fields that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldsIf {
    /// Unconditionally.
    Always,
    /// `FNX`: only if none of them is there.
    NoneThere,
    /// `FXX`: only if all of them are there.
    AllThere,
}

impl FieldsIf {
    fn allows(self, entries: &Entries, pairs: &Pairs) -> bool {
        let mut there = pairs.iter().map(|(field, _)| entries.contains(field));
        match self {
            Self::Always => true,
            Self::NoneThere => !there.any(|there| there),
            Self::AllThere => there.all(|there| there),
        }
    }
}

/// Milliseconds since 1970.
fn moment(at: When, now_ms: u64) -> u64 {
    at.resolve(now_ms).min(DEADLINE_MS_MAX)
}

fn ints(replies: impl Iterator<Item = i64>) -> Reply {
    Reply::Array(replies.map(Reply::Int).collect())
}

/// Reply of a change that would do nothing to a field.
fn refusal(entries: &Entries, field: &Blob, at: u64, only: ExpireIf) -> Option<i64> {
    match entries.contains(field) {
        false => Some(ABSENT),
        true => (!only.allows(entries.deadline(field), at)).then_some(REFUSED),
    }
}

/// Reply of `HPERSIST` for a field that does not expire.
fn lasting(entries: &Entries, field: &Blob) -> Option<i64> {
    match entries.contains(field) {
        false => Some(ABSENT),
        true => entries.deadline(field).is_none().then_some(LASTS),
    }
}

/// Lets a field that is there expire at a moment, which may have passed.
fn expire_at(entries: &mut Entries, field: &Blob, at: u64, now_ms: u64) -> i64 {
    if at <= now_ms {
        entries.remove(field);
        return REMOVED;
    }
    entries.set_deadline(field, Some(at));
    DONE
}

impl Value {
    /// Carries out a change of when fields expire. Returns also whether it has changed anything.
    pub(super) fn change_deadlines(&mut self, op: &Op, now_ms: u64) -> (Reply, bool) {
        let entries = &mut self.entries;
        let mut changed = false;
        let reply = match op {
            Op::Expire(fields, at, only) => {
                let at = moment(*at, now_ms);
                ints(fields.iter().map(|field| {
                    refusal(entries, field, at, *only).unwrap_or_else(|| {
                        changed = true;
                        expire_at(entries, field, at, now_ms)
                    })
                }))
            }
            Op::Persist(fields) => ints(fields.iter().map(|field| {
                lasting(entries, field).unwrap_or_else(|| {
                    changed |= entries.set_deadline(field, None);
                    DONE
                })
            })),
            Op::GetUntil(fields, until) => {
                let at = until.map(|at| moment(at, now_ms));
                let get = |field: &Blob| {
                    let Some(value) = entries.get(field) else { return Reply::Nil };
                    changed |= match at {
                        Some(at) => expire_at(entries, field, at, now_ms) > REFUSED,
                        None => entries.set_deadline(field, None),
                    };
                    Reply::Bulk(value)
                };
                Reply::Array(fields.iter().map(get).collect())
            }
            Op::SetUntil { pairs, only, life } => {
                changed = only.allows(entries, pairs);
                if changed {
                    pairs.iter().for_each(|pair| set_until(entries, pair, *life, now_ms));
                }
                Reply::Int(i64::from(changed))
            }
            _ => Reply::err("an operation of another kind"),
        };
        (reply, changed)
    }

    /// Reply of a change of when fields expire that would change nothing.
    pub(super) fn idle_deadlines(&self, op: &Op, now_ms: u64) -> Option<Reply> {
        let entries = &self.entries;
        match op {
            Op::Expire(fields, at, only) => {
                let at = moment(*at, now_ms);
                let replies = fields.iter().map(|field| refusal(entries, field, at, *only));
                replies.collect::<Option<Vec<_>>>().map(|replies| ints(replies.into_iter()))
            }
            Op::Persist(fields) => {
                let replies = fields.iter().map(|field| lasting(entries, field));
                replies.collect::<Option<Vec<_>>>().map(|replies| ints(replies.into_iter()))
            }
            Op::GetUntil(fields, until) => {
                let stays = |field: &Blob| match until {
                    Some(_) => !entries.contains(field),
                    None => entries.deadline(field).is_none(),
                };
                let get = |field: &Blob| entries.get(field).map_or(Reply::Nil, Reply::Bulk);
                let idle = fields.iter().all(stays);
                idle.then(|| Reply::Array(fields.iter().map(get).collect()))
            }
            Op::SetUntil { pairs, only, .. } => {
                (!only.allows(entries, pairs)).then_some(Reply::Int(REFUSED))
            }
            _ => None,
        }
    }
}

fn set_until(entries: &mut Entries, (field, value): &(Blob, Blob), life: Life, now_ms: u64) {
    match life {
        Life::Forever => _ = entries.set(field, value.clone()),
        Life::AsBefore => _ = entries.change(field, value.clone()),
        Life::Until(at) => {
            entries.change(field, value.clone());
            expire_at(entries, field, moment(at, now_ms), now_ms);
        }
    }
}

/// Answers the `HTTL` family. Seconds are rounded up.
pub(super) fn ttl(seen: Seen<'_>, fields: &Fields, form: TtlForm, now_ms: u64) -> Reply {
    let of = |field: &Blob| {
        if !seen.contains(field) {
            return ABSENT;
        }
        let Some(at) = seen.deadline(field) else { return LASTS };
        let left = at.saturating_sub(now_ms);
        (match form {
            TtlForm::Seconds => left.div_ceil(1000),
            TtlForm::Millis => left,
            TtlForm::AtSeconds => at.div_ceil(1000),
            TtlForm::AtMillis => at,
        }) as i64
    };
    ints(fields.iter().map(of))
}

const NO_FIELDS: &str = "Mandatory argument FIELDS is missing or not at the right position";
const NO_COUNT: &str = "Number of fields must be a positive integer";
const NO_COUNT_TO_EXPIRE: &str = "Parameter `numFields` should be greater than 0";
const WRONG_COUNT: &str = "The `numfields` parameter must match the number of arguments";

/// Latest moment after the time of the operation that is not refused. The clock is past 2004; a moment that
/// is too late for the clock of the operation becomes the latest one.
const IN_MS_MAX: u64 = DEADLINE_MS_MAX - (1 << 40);

/// The fields behind the words `FIELDS` and their number, which begin at a word.
fn fields_at(args: &Args<'_>, at: usize, no_count: &'static str) -> Result<Fields, ErrorReply> {
    if !args.is(at, "FIELDS") {
        return Err(ErrorReply::err(NO_FIELDS));
    }
    let count = args.at_least(at + 1, 1, no_count)?;
    let fields: Fields = args.iter_from(at + 2).map(Blob::new).collect();
    if count == fields.len() as u64 { Ok(fields) } else { Err(ErrorReply::err(WRONG_COUNT)) }
}

/// A moment at a word, in a unit.
fn when(
    args: &Args<'_>,
    at: usize,
    (unit_ms, absolute): (u64, bool),
    command: &str,
) -> Result<When, ErrorReply> {
    let word = args.get(at).ok_or_else(|| ErrorReply::err("missing expire time"))?;
    let Ok(number) = u64::try_from(parse_int(word)?) else {
        return Err(ErrorReply::err("invalid expire time, must be >= 0"));
    };
    let latest = if absolute { DEADLINE_MS_MAX } else { IN_MS_MAX };
    let ms = number.checked_mul(unit_ms).filter(|ms| *ms <= latest);
    let ms = ms.ok_or_else(|| invalid_expiry(command))? as i64;
    Ok(if absolute { When::At(ms) } else { When::In(ms) })
}

/// The unit of an option that names a moment.
fn unit_of(args: &Args<'_>, at: usize) -> Option<(u64, bool)> {
    let units = [("EX", (1000, false)), ("PX", (1, false)), ("EXAT", (1000, true))];
    let mut units = units.into_iter().chain([("PXAT", (1, true))]);
    units.find(|(name, _)| args.is(at, name)).map(|(_, unit)| unit)
}

/// `HEXPIRE` and its kin, which are told apart by the unit.
pub(super) fn parse_expire(args: &Args<'_>, unit: (u64, bool)) -> Result<Command, ErrorReply> {
    let name = match unit {
        (1, false) => "hpexpire",
        (1, true) => "hpexpireat",
        (_, false) => "hexpire",
        (_, true) => "hexpireat",
    };
    let at = when(args, 2, unit, name)?;
    let conditions = [
        ("NX", ExpireIf::None),
        ("XX", ExpireIf::Some),
        ("GT", ExpireIf::Later),
        ("LT", ExpireIf::Earlier),
    ];
    let named = conditions.into_iter().find(|(name, _)| args.is(3, name));
    let fields = fields_at(args, if named.is_some() { 4 } else { 3 }, NO_COUNT_TO_EXPIRE)?;
    let only = named.map_or(ExpireIf::Always, |(_, only)| only);
    table::one(args, Op::Expire(fields, at, only))
}

pub(super) fn parse_persist(args: &Args<'_>) -> Result<Command, ErrorReply> {
    table::one(args, Op::Persist(fields_at(args, 2, NO_COUNT)?))
}

pub(super) fn parse_ttl(args: &Args<'_>, form: TtlForm) -> Result<Command, ErrorReply> {
    table::one(args, Op::Ttl(fields_at(args, 2, NO_COUNT)?, form))
}

pub(super) fn parse_take(args: &Args<'_>) -> Result<Command, ErrorReply> {
    table::one(args, Op::Take(fields_at(args, 2, NO_COUNT)?))
}

pub(super) fn parse_get_until(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let op = if let Some(unit) = unit_of(args, 2) {
        let until = when(args, 3, unit, "hgetex")?;
        Op::GetUntil(fields_at(args, 4, NO_COUNT)?, Some(until))
    } else if args.is(2, "PERSIST") {
        Op::GetUntil(fields_at(args, 3, NO_COUNT)?, None)
    } else {
        Op::GetEach(fields_at(args, 2, NO_COUNT)?)
    };
    table::one(args, op)
}

pub(super) fn parse_set_until(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let arity = || ErrorReply::arity("hsetex");
    let (mut only, mut life) = (FieldsIf::Always, Life::Forever);
    let mut i = 2;
    while !args.is(i, "FIELDS") {
        let Some(word) = args.get(i) else { return Err(arity()) };
        let condition = [("FNX", FieldsIf::NoneThere), ("FXX", FieldsIf::AllThere)];
        let unit = unit_of(args, i);
        if let Some((_, named)) = condition.into_iter().find(|(name, _)| args.is(i, name)) {
            if only != FieldsIf::Always {
                let text = "Only one of FXX or FNX arguments can be specified";
                return Err(ErrorReply::err(text));
            }
            only = named;
        } else if unit.is_some() || args.is(i, "KEEPTTL") {
            if life != Life::Forever {
                let text = "Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
                return Err(ErrorReply::err(text));
            }
            life = match unit {
                Some(unit) => Life::Until(when(args, i + 1, unit, "hsetex")?),
                None => Life::AsBefore,
            };
            i += usize::from(unit.is_some());
        } else {
            return Err(ErrorReply::err(format!("unknown argument: {}", word.escape_ascii())));
        }
        i += 1;
    }
    if i + 3 >= args.len() {
        return Err(arity());
    }
    let count = args.at_least(i + 1, 1, "invalid number of fields")?;
    let words = args.len() - i - 2;
    if words % 2 == 1 || count != words as u64 / 2 {
        return Err(arity());
    }
    let pairs = Box::new(table::pairs(args, i + 2)?);
    table::one(args, Op::SetUntil { pairs, only, life })
}

fn push_fields(fields: &Fields, out: &mut ArgBuf) {
    out.push("fields").push_int(fields.len() as i64);
    for field in fields {
        out.push(field);
    }
}

fn push_until(at: When, out: &mut ArgBuf) {
    match at {
        When::At(ms) => out.push("pxat").push_int(ms),
        When::In(ms) => out.push("px").push_int(ms),
    };
}

/// Writes the words of the operations in this file, with those of `HGETDEL`.
pub(super) fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
    let mut begin = |name: &str| {
        out.push(name).push(key);
    };
    match op {
        Op::Take(fields) => {
            begin("hgetdel");
            push_fields(fields, out);
        }
        Op::Expire(fields, at, only) => {
            let ms = match at {
                When::At(ms) => {
                    begin("hpexpireat");
                    ms
                }
                When::In(ms) => {
                    begin("hpexpire");
                    ms
                }
            };
            out.push_int(*ms);
            match only {
                ExpireIf::Always => {}
                ExpireIf::None => _ = out.push("nx"),
                ExpireIf::Some => _ = out.push("xx"),
                ExpireIf::Later => _ = out.push("gt"),
                ExpireIf::Earlier | ExpireIf::SomeEarlier => _ = out.push("lt"),
            }
            push_fields(fields, out);
        }
        Op::Persist(fields) => {
            begin("hpersist");
            push_fields(fields, out);
        }
        Op::Ttl(fields, form) => {
            begin(match form {
                TtlForm::Seconds => "httl",
                TtlForm::Millis => "hpttl",
                TtlForm::AtSeconds => "hexpiretime",
                TtlForm::AtMillis => "hpexpiretime",
            });
            push_fields(fields, out);
        }
        Op::GetUntil(fields, until) => {
            begin("hgetex");
            match until {
                Some(at) => push_until(*at, out),
                None => _ = out.push("persist"),
            }
            push_fields(fields, out);
        }
        Op::SetUntil { pairs, only, life } => {
            begin("hsetex");
            match only {
                FieldsIf::Always => {}
                FieldsIf::NoneThere => _ = out.push("fnx"),
                FieldsIf::AllThere => _ = out.push("fxx"),
            }
            match life {
                Life::Forever => {}
                Life::AsBefore => _ = out.push("keepttl"),
                Life::Until(at) => push_until(*at, out),
            }
            out.push("fields").push_int(pairs.len() as i64);
            for (field, value) in pairs.iter() {
                out.push(field).push(value);
            }
        }
        _ => {}
    }
}
