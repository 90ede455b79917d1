//! Commutativity of operations on hashes.

use super::deadlines::Life;
use super::entries::Entries;
use super::{Fields, Op, Value};
use crate::key::{ExpireIf, When};
use crate::number::far_from_overflow;
use crate::{Access, Blob, DataType, parse_float, parse_int};
use smallvec::SmallVec;

/// Effect of a write on one field.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Change<'a> {
    /// Sets it for ever.
    Set(&'a Blob),
    SetIfAbsent(&'a Blob),
    Remove,
    Incr(i64),
    IncrFloat,
    /// Sets when it expires, on a condition. Past moments remove it.
    Expire(When, ExpireIf),
    /// Lets it stay for ever.
    Persist,
    /// Sets it, which may depend on the presence of other fields, until some time.
    SetUntil(Life),
}

/// Fields with what a write does to them.
type Changes<'o> = SmallVec<[(&'o Blob, Change<'o>); 1]>;

/// A field as it is.
pub(super) struct Present {
    value: Blob,
    deadline: Option<u64>,
}

/// Part of a hash that a read depends on.
enum Look<'a> {
    /// The values of these fields.
    Values(&'a [Blob]),
    /// When these fields expire, and whether they are there.
    Deadlines(&'a [Blob]),
    /// Whether this field exists.
    Presence(&'a Blob),
    /// The names of all fields.
    Names,
    /// All names and values.
    All,
}

fn look(op: &Op) -> Look<'_> {
    match op {
        Op::Get(field) | Op::ValueLen(field) => Look::Values(std::slice::from_ref(field)),
        Op::GetEach(fields) => Look::Values(fields),
        Op::Ttl(fields, _) => Look::Deadlines(fields),
        Op::Contains(field) => Look::Presence(field),
        Op::Len | Op::Fields => Look::Names,
        _ => Look::All,
    }
}

fn each<'o>(fields: &'o Fields, change: Change<'o>) -> Changes<'o> {
    fields.iter().map(|field| (field, change)).collect()
}

/// The fields that an operation may change, each as often as it is named.
pub(super) fn changes(op: &Op) -> Changes<'_> {
    match op {
        Op::Set(pairs) | Op::Put(pairs) => pairs.iter().map(|(f, v)| (f, Change::Set(v))).collect(),
        Op::SetIfAbsent(f, v) => [(f, Change::SetIfAbsent(v))].into_iter().collect(),
        Op::Remove(fields) | Op::Take(fields) => each(fields, Change::Remove),
        Op::Incr(f, delta) => [(f, Change::Incr(*delta))].into_iter().collect(),
        Op::IncrFloat(f, _) => [(f, Change::IncrFloat)].into_iter().collect(),
        Op::Expire(fields, at, only) => each(fields, Change::Expire(*at, *only)),
        Op::Persist(fields) => each(fields, Change::Persist),
        Op::GetUntil(fields, Some(at)) => each(fields, Change::Expire(*at, ExpireIf::Always)),
        Op::GetUntil(fields, None) => each(fields, Change::Persist),
        Op::SetUntil { pairs, life, .. } => {
            pairs.iter().map(|(f, _)| (f, Change::SetUntil(*life))).collect()
        }
        _ => SmallVec::new(),
    }
}

/// Whether the write's reply reveals something about the state.
pub(super) fn tells(access: Access<'_, Op>) -> bool {
    access.observed && !matches!(access.op, Op::Put(_))
}

impl Change<'_> {
    /// Whether the change may remove the field although it is there.
    fn may_remove(self) -> bool {
        match self {
            Self::Remove => true,
            Self::Expire(at, _) | Self::SetUntil(Life::Until(at)) => !is_ahead(at),
            _ => false,
        }
    }

    /// Whether the change leaves a field, or an absent field, as it is, whatever the time.
    pub(super) fn is_void(self, old: Option<&Present>) -> bool {
        let Some(Present { value, deadline }) = old else {
            return matches!(self, Self::Remove | Self::Expire(..) | Self::Persist);
        };
        match self {
            Self::Set(new) => value == new && deadline.is_none(),
            Self::SetIfAbsent(_) => true,
            Self::Remove | Self::SetUntil(_) => false,
            // A value that is not an integer is refused.
            Self::Incr(delta) => parse_int(value).map_or(true, |_| delta == 0),
            Self::IncrFloat => parse_float(value).is_err(),
            Self::Expire(_, ExpireIf::None) => deadline.is_some(),
            Self::Expire(_, ExpireIf::Some | ExpireIf::Later) => deadline.is_none(),
            Self::Expire(..) => false,
            Self::Persist => deadline.is_none(),
        }
    }

    /// Whether the change leaves the presence of a field as it is.
    fn keeps_presence(self, present: bool) -> bool {
        match self {
            _ if present => !self.may_remove(),
            Self::Remove | Self::Expire(..) | Self::Persist => true,
            _ => false,
        }
    }

    /// Whether the change leaves the presence and the value of a field as they are.
    fn keeps_value(self, old: Option<&Present>) -> bool {
        let only_time = matches!(self, Self::Expire(..) | Self::Persist) && !self.may_remove();
        only_time || self.is_void(old)
    }

    /// Whether the change leaves the presence of a field, and when it expires, as they are.
    fn keeps_deadline(self, old: Option<&Present>) -> bool {
        let only_value = matches!(self, Self::Incr(_) | Self::IncrFloat) && old.is_some();
        only_value || self.is_void(old)
    }
}

/// Whether a moment is certainly later than the time of the operation that names it.
pub(super) fn is_ahead(at: When) -> bool {
    matches!(at, When::In(ms) if ms > 0)
}

/// Whether two changes of one field commute. `blind`: neither reply depends on the field.
fn changes_commute(a: Change<'_>, b: Change<'_>, blind: bool, old: Option<&Present>) -> bool {
    if a.is_void(old) && b.is_void(old) {
        return true;
    }
    let keeps = |c: Change<'_>| c.keeps_presence(true);
    match (a, b) {
        // Whether it sets the field can depend on others.
        (Change::SetUntil(_), _) | (_, Change::SetUntil(_)) => false,
        (Change::Set(v), Change::Set(w)) => v == w && (blind || old.is_some()),
        (Change::SetIfAbsent(v), Change::SetIfAbsent(w)) => v == w && blind,
        (Change::SetIfAbsent(_), other) | (other, Change::SetIfAbsent(_)) => {
            old.is_some() && keeps(other)
        }
        (Change::Remove, Change::Remove) => blind,
        (Change::Incr(d), Change::Incr(e)) => {
            let value = old.map_or(Ok(0), |old| parse_int(&old.value));
            let safe = value.is_ok_and(|n| far_from_overflow(n, d) && far_from_overflow(n, e));
            blind && safe
        }
        // Increments let the field expire when it would have, and make one that does not.
        (Change::Incr(_) | Change::IncrFloat, Change::Expire(..))
        | (Change::Expire(..), Change::Incr(_) | Change::IncrFloat) => {
            blind && old.is_some() && keeps(a) && keeps(b)
        }
        // All others make fields that do not expire, or none.
        (Change::Persist, other) | (other, Change::Persist) => {
            blind && !matches!(other, Change::Expire(..))
        }
        _ => false,
    }
}

fn present(entries: &Entries, field: &Blob) -> Option<Present> {
    let value = entries.get(field)?;
    Some(Present { value, deadline: entries.deadline(field) })
}

impl Value {
    fn unseen(&self, write: &Op, read: &Op) -> bool {
        let look = look(read);
        changes(write).into_iter().all(|(field, change)| {
            let old = present(&self.entries, field);
            let old = old.as_ref();
            match look {
                Look::Values(fields) => !fields.contains(field) || change.keeps_value(old),
                Look::Deadlines(fields) => !fields.contains(field) || change.keeps_deadline(old),
                Look::Presence(f) => f != field || change.keeps_presence(old.is_some()),
                Look::Names => change.keeps_presence(old.is_some()),
                Look::All => change.keeps_value(old),
            }
        })
    }

    /// Whether a write leaves all fields as they are, whatever the time.
    pub(super) fn is_void(&self, op: &Op) -> bool {
        let is_void = |(field, change): (&Blob, Change<'_>)| {
            change.is_void(present(&self.entries, field).as_ref())
        };
        changes(op).into_iter().all(is_void)
    }

    pub(super) fn accesses_commute(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        match (Self::is_write(a.op), Self::is_write(b.op)) {
            (false, false) => true,
            (true, false) => self.unseen(a.op, b.op),
            (false, true) => self.unseen(b.op, a.op),
            (true, true) => {
                let blind = !tells(a) && !tells(b);
                let others = changes(b.op);
                changes(a.op).into_iter().all(|(field, x)| {
                    let old = present(&self.entries, field);
                    let old = old.as_ref();
                    let same = others.iter().filter(|(f, _)| *f == field);
                    same.into_iter().all(|(_, y)| changes_commute(x, *y, blind, old))
                })
            }
        }
    }
}
