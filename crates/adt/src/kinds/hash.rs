//! Hash: fields with values.
//!
//! Every field is a register of its own: operations on different fields always commute. On one
//! field, writes of the same value commute, and so do increments with unobserved sums (far from the
//! ends of the range), and removals; a change and a read conflict unless the state makes the change
//! invisible to the read. All rules concern single fields, so they are stable for any number of
//! holders. Semantics, replies and errors follow the Redis documentation of the `H...` commands.
//!
//! A field can expire (`HEXPIRE`). It is there until the log says that it has expired, as a key is, so no
//! rule depends on time; a change of when it expires shows in its value only if the moment may have passed.

mod commuting;
mod deadlines;
mod entries;
mod reads;
mod table;
#[cfg(test)]
mod tests;

use crate::command::scan::ScanArgs;
use crate::key::{ExpireIf, TtlForm, When};
use crate::number::{add_float, int_blob};
use crate::{
    Access, ArgBuf, Blob, CommandSpec, Corrupt, Ctx, DataType, Forecast, Foresight, Meta,
    MortalParts, Reply, ValueSink, ValueSource, bounded_count, load_count, parse_float, parse_int,
};
use commuting::{is_ahead, tells};
use entries::{DEADLINE_MS_MAX, Entries, Seen};
use smallvec::SmallVec;
use std::iter;

pub use deadlines::{FieldsIf, Life};

/// Fields named by one operation; one is the usual number.
pub type Fields = SmallVec<[Blob; 1]>;

/// Fields with new values. No field is named twice.
pub type Pairs = SmallVec<[(Blob, Blob); 1]>;

/// The state: fields in order of insertion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value {
    entries: Entries,
}

/// Operations on a hash.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `HSET`: sets fields; answers how many are new.
    Set(Pairs),
    /// `HMSET`: sets fields; answers `OK`.
    Put(Pairs),
    /// Sets an absent field; answers 1 if it did.
    SetIfAbsent(Blob, Blob),
    /// Removes fields; answers how many were there.
    Remove(Fields),
    /// Removes fields; answers the value or nil for each.
    Take(Fields),
    /// Adds to an integer field; answers the sum.
    Incr(Blob, i64),
    /// Adds to a decimal field a number as the client wrote it; answers the sum.
    IncrFloat(Blob, Blob),
    /// A field's value, or nil.
    Get(Blob),
    /// The value or nil for each field.
    GetEach(Fields),
    /// 1 if the field exists.
    Contains(Blob),
    /// Length of a field's value in bytes.
    ValueLen(Blob),
    /// Number of fields.
    Len,
    /// All fields with their values.
    All,
    /// All fields.
    Fields,
    /// All values.
    Values,
    /// Arbitrary fields: one; or up to a number of them (negative: that many with repetitions), and
    /// whether to answer their values too.
    Random(Option<(i64, bool)>),
    /// One step of an iteration, and whether to answer the values too.
    Scan(ScanArgs, bool),
    /// Sets when fields expire, on a condition; answers for each what came of it.
    Expire(Fields, When, ExpireIf),
    /// `HPERSIST`: lets fields stay for ever; answers for each what came of it.
    Persist(Fields),
    /// When each field expires.
    Ttl(Fields, TtlForm),
    /// `HGETEX`: answers the value or nil for each field, and sets when they expire, or lets them stay for
    /// ever.
    GetUntil(Fields, Option<When>),
    /// `HSETEX`: sets fields, on a condition, and when they expire; answers 1 if it did.
    SetUntil {
        /// The fields, in a box so that all operations stay small.
        pairs: Box<Pairs>,
        /// The condition.
        only: FieldsIf,
        /// How long they stay.
        life: Life,
    },
}

/// Whether an operation is one that changes when fields expire. It may set them as well.
fn is_timed(op: &Op) -> bool {
    matches!(op, Op::Expire(..) | Op::Persist(_) | Op::GetUntil(..) | Op::SetUntil { .. })
}

/// Whether an operation compares moments with its time.
fn depends_on_time(op: &Op) -> bool {
    matches!(
        op,
        Op::Expire(..) | Op::GetUntil(_, Some(_)) | Op::SetUntil { life: Life::Until(_), .. }
    )
}

impl Value {
    fn set(&mut self, pairs: &Pairs) -> i64 {
        let mut new = 0;
        for (field, value) in pairs {
            new += i64::from(self.entries.set(field, value.clone()));
        }
        new
    }

    fn incr(&mut self, field: &Blob, delta: i64) -> Reply {
        let Ok(value) = self.entries.get(field).map_or(Ok(0), |v| parse_int(&v)) else {
            return Reply::err("hash value is not an integer");
        };
        let Some(sum) = value.checked_add(delta) else {
            return Reply::err("increment or decrement would overflow");
        };
        self.entries.change(field, int_blob(sum));
        Reply::Int(sum)
    }

    fn incr_float(&mut self, field: &Blob, delta: &Blob) -> Reply {
        let current = self.entries.get(field).unwrap_or_else(|| Blob::new(b"0"));
        if parse_float(&current).is_err() {
            return Reply::err("hash value is not a float");
        }
        let Some(sum) = add_float(&current, delta) else {
            return Reply::err("increment would produce NaN or Infinity");
        };
        let sum = Blob::from(sum);
        self.entries.change(field, sum.clone());
        Reply::Bulk(sum)
    }

    /// Reply of a write that is not carried out: that of the fields that it names.
    fn foretell(&self, op: &Op, ctx: &Ctx) -> Option<Reply> {
        let fields = |fields: &Fields| self.entries.part(fields.iter());
        let keys = |pairs: &Pairs| self.entries.part(pairs.iter().map(|(field, _)| field));
        let entries = match op {
            Op::Set(pairs) => keys(pairs),
            Op::SetUntil { pairs, .. } => keys(pairs),
            Op::Put(_) => return Some(Reply::Ok),
            Op::SetIfAbsent(field, _) | Op::Incr(field, _) | Op::IncrFloat(field, _) => {
                self.entries.part(iter::once(field))
            }
            Op::Remove(of) | Op::Take(of) | Op::Persist(of) => fields(of),
            Op::Expire(of, ..) | Op::GetUntil(of, _) => fields(of),
            _ => return None,
        };
        Some(Self { entries }.apply(op, ctx, &mut Meta::default()))
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "hash";
    const FORECAST: Option<Forecast<Self, Op>> = Some(Forecast {
        reply: Self::foretell,
        is_always_possible: |op| !matches!(op, Op::Incr(..) | Op::IncrFloat(..)),
    });
    const FORESIGHT: Option<Foresight<Self, Op>> = Some(Foresight {
        follows: |op| !depends_on_time(op),
        follows_in_time: |_| true,
        cost: |value| value.entries.len(),
    });
    const PARTS: Option<MortalParts<Self, Op>> = Some(MortalParts {
        next_expiry_ms: |value, after_ms| value.entries.next_deadline(after_ms),
        outlives: |value, now_ms| value.entries.outlives(now_ms),
        expire: |value, now_ms, most| value.entries.expire(now_ms, most),
        query_left: |value, op, ctx| reads::answer(Seen::at(&value.entries, ctx.now_ms), op, ctx),
    });

    const COMMANDS: &'static [CommandSpec] = table::COMMANDS;
    const MODES: &'static [&'static str] = &["read", "set", "remove", "increment", "write+reply"];
    const SHARED: [u8; 8] = [0b1, 0, 0b100, 0, 0, 0, 0, 0];

    fn is_write(op: &Op) -> bool {
        matches!(
            op,
            Op::Set(_)
                | Op::Put(_)
                | Op::SetIfAbsent(..)
                | Op::Remove(_)
                | Op::Take(_)
                | Op::Incr(..)
                | Op::IncrFloat(..)
        ) || is_timed(op)
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn creates(op: &Op) -> bool {
        let changes_what_is_there =
            matches!(op, Op::Expire(..) | Op::Persist(_) | Op::GetUntil(..));
        Self::is_write(op) && !changes_what_is_there && !matches!(op, Op::Remove(_) | Op::Take(_))
    }

    fn preserves_key(op: &Op) -> bool {
        match op {
            Op::Remove(_) | Op::Take(_) => false,
            Op::Expire(_, at, _)
            | Op::GetUntil(_, Some(at))
            | Op::SetUntil { life: Life::Until(at), .. } => is_ahead(*at),
            _ => true,
        }
    }

    fn query(&self, op: &Op, ctx: &Ctx) -> Reply {
        reads::answer(Seen::all(&self.entries), op, ctx)
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        let before = self.entries.len();
        let reply = match op {
            op if is_timed(op) => {
                let (reply, changed) = self.change_deadlines(op, ctx.now_ms);
                meta.untouched = !changed;
                return reply;
            }
            Op::Set(pairs) => Reply::Int(self.set(pairs)),
            Op::Put(pairs) => {
                self.set(pairs);
                Reply::Ok
            }
            Op::SetIfAbsent(field, value) => {
                let absent = !self.entries.contains(field);
                if absent {
                    self.entries.set(field, value.clone());
                }
                Reply::Int(i64::from(absent))
            }
            Op::Remove(fields) => {
                let gone = fields.iter().filter(|f| self.entries.remove(f));
                Reply::Int(gone.count() as i64)
            }
            Op::Take(fields) => {
                let take = |field: &Blob| {
                    let value = self.entries.get(field);
                    self.entries.remove(field);
                    value.map_or(Reply::Nil, Reply::Bulk)
                };
                Reply::Array(fields.iter().map(take).collect())
            }
            Op::Incr(field, delta) => self.incr(field, *delta),
            Op::IncrFloat(field, delta) => self.incr_float(field, delta),
            read => self.query(read, ctx),
        };
        let shows_in_len = matches!(op, Op::SetIfAbsent(..) | Op::Remove(_) | Op::Take(_));
        meta.untouched = shows_in_len && self.entries.len() == before;
        reply
    }

    fn may_be_idle(op: &Op) -> bool {
        matches!(op, Op::SetIfAbsent(..) | Op::Remove(_) | Op::Take(_)) || is_timed(op)
    }

    fn idle(&self, op: &Op, now_ms: u64) -> Option<Reply> {
        match op {
            _ if is_timed(op) => self.idle_deadlines(op, now_ms),
            _ if !self.is_void(op) => None,
            Op::Take(fields) => Some(Reply::Array(vec![Reply::Nil; fields.len()])),
            _ => Some(Reply::Int(0)),
        }
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        self.accesses_commute(a, b)
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        match access.op {
            op if !Self::is_write(op) => 0,
            _ if tells(access) => 4,
            Op::Set(_) | Op::Put(_) => 1,
            Op::Remove(_) | Op::Take(_) => 2,
            Op::Incr(..) => 3,
            _ => 4,
        }
    }

    fn combine(earlier: &Op, next: &Op) -> Option<Op> {
        match (earlier, next) {
            (Op::Set(a) | Op::Put(a), Op::Set(b) | Op::Put(b)) => {
                let kept = a.iter().filter(|(field, _)| b.iter().all(|(f, _)| f != field));
                Some(Op::Put(kept.chain(b).cloned().collect()))
            }
            (Op::Remove(a), Op::Remove(b)) => {
                let kept = a.iter().filter(|field| !b.contains(field));
                Some(Op::Remove(kept.chain(b).cloned().collect()))
            }
            _ => None,
        }
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        table::encode(op, key, out);
    }

    /// The number of fields and the fields with their values. If some expire, the complement of the number
    /// stands in its place, and behind the fields the number of those that expire and these with the moments,
    /// the first to expire first.
    fn save(&self, sink: &mut dyn ValueSink) {
        let expiring = self.entries.expiring().count() as u64;
        let len = self.entries.len() as u64;
        sink.number(if expiring > 0 { !len } else { len });
        for (field, value) in self.entries.iter() {
            sink.bytes(&field);
            sink.bytes(&value);
        }
        if expiring > 0 {
            sink.number(expiring);
        }
        for (at, field) in self.entries.expiring() {
            sink.bytes(field);
            sink.number(at);
        }
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let number = source.number()?;
        let some_expire = number > u64::MAX / 2;
        let len = if some_expire { !number } else { number };
        let len = bounded_count(source, len, 2)?;
        let mut entries = Entries::default();
        for _ in 0..len {
            let field = Blob::new(source.bytes()?);
            if !entries.change(&field, Blob::new(source.bytes()?)) {
                return Err(Corrupt);
            }
        }
        let expiring = if some_expire { load_count(source, 2)? } else { 0 };
        for _ in 0..expiring {
            let field = Blob::new(source.bytes()?);
            let at = source.number()?;
            let fits = at <= DEADLINE_MS_MAX && entries.contains(&field);
            if !fits || entries.set_deadline(&field, Some(at)) {
                return Err(Corrupt);
            }
        }
        Ok(Self { entries })
    }
}
