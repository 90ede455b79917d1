//! Hash: fields with values.
//!
//! Every field is a register of its own: operations on different fields always commute. On one
//! field, writes of the same value commute, and so do increments with unobserved sums (far from the
//! ends of the range), and removals; a change and a read conflict unless the state makes the change
//! invisible to the read. All rules concern single fields, so they are stable for any number of
//! holders. Semantics, replies and errors follow the Redis documentation of the `H...` commands.

mod table;
#[cfg(test)]
mod tests;

use crate::collections::Compact;
use crate::command::scan::ScanArgs;
use crate::number::{add_float, far_from_overflow, int_blob};
use crate::random;
use crate::{
    Access, ArgBuf, Blob, CommandSpec, Corrupt, Ctx, DataType, Foresight, Meta, Reply, ValueSink,
    ValueSource, load_count, parse_float, parse_int,
};
use smallvec::SmallVec;

/// Fields named by one operation; one is the usual number.
pub type Fields = SmallVec<[Blob; 1]>;

/// Fields with new values. No field is named twice.
pub type Pairs = SmallVec<[(Blob, Blob); 1]>;

/// The state: fields in order of insertion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value {
    fields: Compact<Blob>,
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
    /// One step of an iteration.
    Scan(ScanArgs),
}

/// Effect of a write on one field.
#[derive(Clone, Copy, PartialEq)]
enum Change<'a> {
    Set(&'a Blob),
    SetIfAbsent(&'a Blob),
    Remove,
    Incr(i64),
    IncrFloat,
}

/// Part of a hash that a read depends on.
enum Look<'a> {
    /// The values of these fields.
    Values(&'a [Blob]),
    /// Whether this field exists.
    Presence(&'a Blob),
    /// The names of all fields.
    Names,
    /// Everything.
    All,
}

fn look(op: &Op) -> Look<'_> {
    match op {
        Op::Get(field) | Op::ValueLen(field) => Look::Values(std::slice::from_ref(field)),
        Op::GetEach(fields) => Look::Values(fields),
        Op::Contains(field) => Look::Presence(field),
        Op::Len | Op::Fields => Look::Names,
        _ => Look::All,
    }
}

fn changes(op: &Op) -> SmallVec<[(&Blob, Change<'_>); 1]> {
    match op {
        Op::Set(pairs) | Op::Put(pairs) => pairs.iter().map(|(f, v)| (f, Change::Set(v))).collect(),
        Op::SetIfAbsent(f, v) => [(f, Change::SetIfAbsent(v))].into_iter().collect(),
        Op::Remove(fields) | Op::Take(fields) => {
            fields.iter().map(|f| (f, Change::Remove)).collect()
        }
        Op::Incr(f, delta) => [(f, Change::Incr(*delta))].into_iter().collect(),
        Op::IncrFloat(f, _) => [(f, Change::IncrFloat)].into_iter().collect(),
        _ => SmallVec::new(),
    }
}

/// Whether the write's reply reveals something about the state.
fn tells(access: Access<'_, Op>) -> bool {
    access.observed && !matches!(access.op, Op::Put(_))
}

impl Change<'_> {
    /// Whether the change leaves a field with this value, or an absent field, as it is.
    fn is_void(self, old: Option<&Blob>) -> bool {
        match (self, old) {
            (Self::Set(new), old) => old == Some(new),
            (Self::SetIfAbsent(_), old) => old.is_some(),
            (Self::Remove, old) => old.is_none(),
            (Self::Incr(delta), Some(old)) => {
                // A value that is not an integer is refused.
                parse_int(old).map_or(true, |_| delta == 0)
            }
            (Self::IncrFloat, Some(old)) => parse_float(old).is_err(),
            (Self::Incr(_) | Self::IncrFloat, None) => false,
        }
    }

    /// Whether the change leaves the presence of a field as it is.
    fn keeps_presence(self, present: bool) -> bool {
        present != (self == Self::Remove)
    }
}

/// Whether two changes of one field commute. `blind`: neither reply depends on the field.
fn changes_commute(a: Change<'_>, b: Change<'_>, blind: bool, old: Option<&Blob>) -> bool {
    if a.is_void(old) && b.is_void(old) {
        return true;
    }
    let keeps = |c: Change<'_>| c.keeps_presence(true);
    match (a, b) {
        (Change::Set(v), Change::Set(w)) => v == w && (blind || old.is_some()),
        (Change::SetIfAbsent(v), Change::SetIfAbsent(w)) => v == w && blind,
        (Change::SetIfAbsent(_), other) | (other, Change::SetIfAbsent(_)) => {
            old.is_some() && keeps(other)
        }
        (Change::Remove, Change::Remove) => blind,
        (Change::Incr(d), Change::Incr(e)) => {
            let value = old.map_or(Ok(0), |old| parse_int(old));
            let safe = value.is_ok_and(|n| far_from_overflow(n, d) && far_from_overflow(n, e));
            blind && safe
        }
        _ => false,
    }
}

fn pair((field, value): (Blob, Blob)) -> (Reply, Reply) {
    (Reply::Bulk(field), Reply::Bulk(value))
}

impl Value {
    fn unseen(&self, write: &Op, read: &Op) -> bool {
        let look = look(read);
        changes(write).into_iter().all(|(field, change)| {
            let old = self.fields.get(field);
            let old = old.as_ref();
            match look {
                Look::Values(fields) => !fields.contains(field) || change.is_void(old),
                Look::Presence(f) => f != field || change.keeps_presence(old.is_some()),
                Look::Names => change.keeps_presence(old.is_some()),
                Look::All => change.is_void(old),
            }
        })
    }

    fn get(&self, field: &Blob) -> Reply {
        self.fields.get(field).map_or(Reply::Nil, Reply::Bulk)
    }

    fn set(&mut self, pairs: &Pairs) -> i64 {
        let mut new = 0;
        for (field, value) in pairs {
            new += i64::from(self.fields.insert(field, value.clone()));
        }
        new
    }

    fn incr(&mut self, field: &Blob, delta: i64) -> Reply {
        let Ok(value) = self.fields.get(field).map_or(Ok(0), |v| parse_int(&v)) else {
            return Reply::err("hash value is not an integer");
        };
        let Some(sum) = value.checked_add(delta) else {
            return Reply::err("increment or decrement would overflow");
        };
        self.fields.insert(field, int_blob(sum));
        Reply::Int(sum)
    }

    fn incr_float(&mut self, field: &Blob, delta: &Blob) -> Reply {
        let current = self.fields.get(field).unwrap_or_else(|| Blob::new(b"0"));
        if parse_float(&current).is_err() {
            return Reply::err("hash value is not a float");
        }
        let Some(sum) = add_float(&current, delta) else {
            return Reply::err("increment would produce NaN or Infinity");
        };
        let sum = Blob::from(sum);
        self.fields.insert(field, sum.clone());
        Reply::Bulk(sum)
    }

    fn random(&self, count: Option<(i64, bool)>, seed: u64) -> Reply {
        let Some((count, values)) = count else {
            let chosen = random::choose(self.fields.len(), 1, seed);
            let field = chosen.first().and_then(|&i| self.fields.at(i));
            return field.map_or(Reply::Nil, |(field, _)| Reply::Bulk(field));
        };
        let chosen = random::choose(self.fields.len(), count, seed).into_iter();
        let chosen = chosen.filter_map(|position| self.fields.at(position));
        if values {
            Reply::Pairs(chosen.collect())
        } else {
            Reply::Array(chosen.map(|(field, _)| Reply::Bulk(field)).collect())
        }
    }

    fn scan(&self, scan: &ScanArgs) -> Reply {
        scan.run(self.fields.len(), |position, found| {
            if let Some((field, value)) = self.fields.at(position)
                && scan.passes(&field)
            {
                found.extend([Reply::Bulk(field), Reply::Bulk(value)]);
            }
        })
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "hash";
    const FORESIGHT: Option<Foresight<Self, Op>> = Some(Foresight {
        follows: |_| true,
        follows_in_time: |_| true,
        cost: |value| value.fields.len(),
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
        )
    }

    fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    fn creates(op: &Op) -> bool {
        Self::is_write(op) && !matches!(op, Op::Remove(_) | Op::Take(_))
    }

    fn preserves_key(op: &Op) -> bool {
        !matches!(op, Op::Remove(_) | Op::Take(_))
    }

    fn query(&self, op: &Op, ctx: &Ctx) -> Reply {
        match op {
            Op::Get(field) => self.get(field),
            Op::GetEach(fields) => Reply::Array(fields.iter().map(|f| self.get(f)).collect()),
            Op::Contains(field) => Reply::Int(i64::from(self.fields.contains(field))),
            Op::ValueLen(field) => Reply::Int(self.fields.get(field).map_or(0, |v| v.len() as i64)),
            Op::Len => Reply::Int(self.fields.len() as i64),
            Op::All => Reply::Map(self.fields.iter().map(pair).collect()),
            Op::Fields => Reply::Array(self.fields.iter().map(|(f, _)| Reply::Bulk(f)).collect()),
            Op::Values => Reply::Array(self.fields.iter().map(|(_, v)| Reply::Bulk(v)).collect()),
            Op::Random(count) => self.random(*count, ctx.seed),
            Op::Scan(scan) => self.scan(scan),
            _ => Reply::err("a write cannot be answered without being applied"),
        }
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        let before = self.fields.len();
        let reply = match op {
            Op::Set(pairs) => Reply::Int(self.set(pairs)),
            Op::Put(pairs) => {
                self.set(pairs);
                Reply::Ok
            }
            Op::SetIfAbsent(field, value) => {
                let absent = !self.fields.contains(field);
                if absent {
                    self.fields.insert(field, value.clone());
                }
                Reply::Int(i64::from(absent))
            }
            Op::Remove(fields) => {
                let gone = fields.iter().filter(|f| self.fields.remove(f));
                Reply::Int(gone.count() as i64)
            }
            Op::Take(fields) => {
                let take = |field| {
                    let value = self.get(field);
                    self.fields.remove(field);
                    value
                };
                Reply::Array(fields.iter().map(take).collect())
            }
            Op::Incr(field, delta) => self.incr(field, *delta),
            Op::IncrFloat(field, delta) => self.incr_float(field, delta),
            read => self.query(read, ctx),
        };
        let shows_in_len = matches!(op, Op::SetIfAbsent(..) | Op::Remove(_) | Op::Take(_));
        meta.untouched = shows_in_len && self.fields.len() == before;
        reply
    }

    fn may_be_idle(op: &Op) -> bool {
        matches!(op, Op::SetIfAbsent(..) | Op::Remove(_) | Op::Take(_))
    }

    fn idle(&self, op: &Op, _now_ms: u64) -> Option<Reply> {
        let idle =
            |(field, change): (&Blob, Change<'_>)| change.is_void(self.fields.get(field).as_ref());
        let reply = || match op {
            Op::Take(fields) => Reply::Array(vec![Reply::Nil; fields.len()]),
            _ => Reply::Int(0),
        };
        changes(op).into_iter().all(idle).then(reply)
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        match (Self::is_write(a.op), Self::is_write(b.op)) {
            (false, false) => true,
            (true, false) => self.unseen(a.op, b.op),
            (false, true) => self.unseen(b.op, a.op),
            (true, true) => {
                let blind = !tells(a) && !tells(b);
                let others = changes(b.op);
                changes(a.op).into_iter().all(|(field, x)| {
                    let old = self.fields.get(field);
                    let old = old.as_ref();
                    let same = others.iter().filter(|(f, _)| *f == field);
                    same.into_iter().all(|(_, y)| changes_commute(x, *y, blind, old))
                })
            }
        }
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

    fn save(&self, sink: &mut dyn ValueSink) {
        sink.number(self.fields.len() as u64);
        for (field, value) in self.fields.iter() {
            sink.bytes(&field);
            sink.bytes(&value);
        }
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let count = load_count(source, 2)?;
        let mut value = Self::default();
        for _ in 0..count {
            let field = Blob::new(source.bytes()?);
            if !value.fields.insert(&field, Blob::new(source.bytes()?)) {
                return Err(Corrupt);
            }
        }
        Ok(value)
    }
}
