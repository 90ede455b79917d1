//! String: one byte string, which may also be an integer, a float or a field of bits.
//!
//! Two writes of the same value commute, and so do increments with unobserved replies (far from the
//! ends of the range), changes of different bits, and operations that the state already makes
//! no-ops. `SET NX` on an existing key commutes with everything that keeps the key. See the Redis
//! documentation of the string and bitmap commands for semantics, replies and errors, and Valkey's of
//! `DELIFEQ`.

mod bitfield;
mod bitop;
mod digest;
mod increx;
mod lcs;
mod table;
#[cfg(test)]
mod tests;

use crate::key::When;
use crate::number::{add_float, far_from_overflow, int_blob};
use crate::{
    Access, ArgBuf, Blob, CommandSpec, Corrupt, Ctx, DataType, ErrorReply, Forecast, Foresight,
    Meta, OtherType, Reply, ValueSink, ValueSource, parse_float, parse_int,
};
use increx::Outcome;
use std::ops::Range;
use std::sync::Arc;

pub use bitfield::{Encoding, Field, FieldAction, Overflow};
pub use digest::Compared;
pub use increx::{By, Increment};
pub use lcs::LCS_CELLS_MAX;

/// Longest string that `APPEND`, `SETRANGE` and `SETBIT` make, in bytes.
pub const VALUE_BYTES_MAX: usize = 8 << 20;

/// The state. A byte string that is an integer in canonical form is always held as
/// [`Value::Int`].
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// No value: the key is not there. Never stored.
    #[default]
    Absent,
    /// An integer.
    Int(i64),
    /// Any other byte string.
    Bytes(Blob),
}

/// Condition of `SET` on what the key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Only {
    /// Unconditionally.
    Always,
    /// `NX`: only if the key is not there.
    IfAbsent,
    /// `XX`: only if the key is there.
    IfPresent,
    /// `IFEQ`, `IFDEQ`: only if it holds this string.
    IfEqual(Compared),
    /// `IFNE`, `IFDNE`: only if it is not there or holds another string.
    IfOther(Compared),
}

/// Effect of `SET` on the key's expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Removes it.
    Clear,
    /// `KEEPTTL`: leaves it.
    Keep,
    /// Sets it.
    Set(When),
}

/// Reply of `SET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetReply {
    /// `OK`, or nil if the condition did not hold.
    Status,
    /// `GET`: the value before.
    Old,
    /// `SETNX`: 1, or 0 if the condition did not hold.
    Flag,
}

/// Operations on a string.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// The value, or nil.
    Get,
    /// Replaces the value.
    Set {
        /// The new value.
        value: Blob,
        /// Condition on the key's presence.
        only: Only,
        /// Effect on the expiry.
        expiry: Expiry,
        /// Form of the reply.
        reply: SetReply,
    },
    /// `GETDEL`: removes the key and answers its value.
    Take,
    /// `DELEX`: removes the key if it holds this string, or if it holds another one; answers 1 or 0.
    Remove {
        /// The string that is compared.
        value: Compared,
        /// Whether the key must hold it (`IFEQ`, `IFDEQ`), or another one (`IFNE`, `IFDNE`).
        equal: bool,
    },
    /// `GETEX`: answers the value and changes the expiry ([`Expiry::Clear`] or a moment).
    GetEx(Expiry),
    /// Adds to an integer; answers the sum.
    Incr(i64),
    /// Adds a number as the client wrote it, which may have more digits than a float; answers the
    /// sum.
    IncrFloat(Blob),
    /// `INCREX`: adds within bounds; answers the sum and what was added.
    Increment(Box<Increment>),
    /// Adds bytes at the end; answers the length.
    Append(Blob),
    /// The length in bytes.
    Len,
    /// The digest, or nil.
    Digest,
    /// The bytes from a first to a last position; negative ones count from the end.
    GetRange(i64, i64),
    /// Overwrites bytes from a position on, padding with zeros; answers the length.
    SetRange(u64, Blob),
    /// The bit at a position, the highest bit of the first byte being number 0.
    GetBit(u64),
    /// Sets the bit at a position; answers its old value.
    SetBit(u64, bool),
    /// Counts the set bits, of all or of a range.
    BitCount(Option<BitRange>),
    /// The position of the first bit that is set, or clear, in a range; whether the range has an end.
    BitPos(bool, BitRange, bool),
    /// `BITFIELD`: reads and changes integers of some bits; answers one reply for each.
    BitField(Arc<[Field]>),
}

/// A range for `BITCOUNT` and `BITPOS`; negative positions count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRange {
    /// First position.
    pub start: i64,
    /// Last position.
    pub end: i64,
    /// Whether positions are bits, not bytes.
    pub bits: bool,
}

/// `start` to `end` (inclusive, negative from the end) within `len`, as `GETRANGE` understands it:
/// an end before the beginning means position 0, unless both are negative and reversed.
fn positions(start: i64, end: i64, len: usize) -> Range<usize> {
    if len == 0 || (start < 0 && end < 0 && start > end) {
        return 0..0;
    }
    let absolute = |i: i64| if i < 0 { len as i64 + i } else { i }.max(0) as usize;
    let (start, end) = (absolute(start), absolute(end).min(len - 1));
    if start > end { 0..0 } else { start..end + 1 }
}

impl Value {
    /// A value from bytes.
    pub fn new(bytes: Blob) -> Self {
        parse_int(&bytes).map_or(Self::Bytes(bytes), Self::Int)
    }

    fn present(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// The bytes; none if absent.
    fn bytes(&self) -> Blob {
        match self {
            Self::Absent => Blob::default(),
            Self::Int(n) => int_blob(*n),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }

    fn is(&self, value: &Compared) -> bool {
        self.present() && value.is(&self.bytes())
    }

    /// Whether the condition of a `SET` holds.
    fn allows(&self, only: &Only) -> bool {
        match only {
            Only::Always => true,
            Only::IfAbsent => !self.present(),
            Only::IfPresent => self.present(),
            Only::IfEqual(value) => self.is(value),
            Only::IfOther(value) => !self.is(value),
        }
    }

    fn get(&self) -> Reply {
        if self.present() { Reply::Bulk(self.bytes()) } else { Reply::Nil }
    }

    fn int(&self) -> Result<i64, ErrorReply> {
        match self {
            Self::Absent => Ok(0),
            Self::Int(n) => Ok(*n),
            Self::Bytes(_) => Err(ErrorReply::not_integer()),
        }
    }

    fn bit(&self, at: u64) -> bool {
        let byte = usize::try_from(at / 8).ok().and_then(|i| self.bytes().get(i).copied());
        byte.is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0)
    }

    fn bit_count(&self, range: Option<BitRange>) -> i64 {
        let bytes = self.bytes();
        let Some(range) = range else { return ones(&bytes) };
        if !range.bits {
            return ones(&bytes[positions(range.start, range.end, bytes.len())]);
        }
        let bits = positions(range.start, range.end, bytes.len() * 8);
        if bits.is_empty() {
            return 0;
        }
        // Whole bytes from the first to the last bit, minus the excess bits at both ends.
        let (first, last) = (bits.start / 8, (bits.end - 1) / 8);
        let before = bytes[first] & !(0xff_u8 >> (bits.start % 8));
        let after = bytes[last] & (0x7f_u8 >> ((bits.end - 1) % 8));
        ones(&bytes[first..=last]) - ones(&[before, after])
    }

    /// Position of the first such bit in a range, or -1. A string is followed by clear bits, which count if
    /// the range has no end.
    fn bit_pos(&self, on: bool, range: BitRange, has_end: bool) -> i64 {
        if !self.present() {
            return if on { -1 } else { 0 };
        }
        let bytes = self.bytes();
        let len = bytes.len() as i64 * if range.bits { 8 } else { 1 };
        let absolute = |at: i64| if at < 0 { (len + at).max(0) } else { at };
        let (start, end) = (absolute(range.start), absolute(range.end).min(len - 1));
        if start > end {
            return -1;
        }
        let (first, last) = if range.bits { (start, end) } else { (start * 8, end * 8 + 7) };
        // Bytes without such a bit are skipped at once.
        let none = if on { 0 } else { 0xff };
        let mut at = first;
        while at <= last {
            let byte = bytes[(at / 8) as usize];
            if at % 8 == 0 && byte == none {
                at += 8;
            } else if (byte & (0x80 >> (at % 8)) != 0) == on {
                return at;
            } else {
                at += 1;
            }
        }
        if on || has_end { -1 } else { bytes.len() as i64 * 8 }
    }

    fn set(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        let Op::Set { value, only, expiry, reply } = op else { return Reply::Nil };
        let old = if *reply == SetReply::Old { self.get() } else { Reply::Nil };
        let done = match only {
            // Whatever the key holds: it may be of another type.
            Only::IfAbsent => !meta.present,
            Only::IfPresent => meta.present,
            only => self.allows(only),
        };
        meta.untouched = !done;
        if done {
            *self = Self::new(value.clone());
            self.expire(*expiry, ctx, meta);
        }
        match reply {
            SetReply::Status if done => Reply::Ok,
            SetReply::Status => Reply::Nil,
            SetReply::Old => old,
            SetReply::Flag => Reply::Int(i64::from(done)),
        }
    }

    fn expire(&mut self, expiry: Expiry, ctx: &Ctx, meta: &mut Meta) {
        match expiry {
            Expiry::Keep => {}
            Expiry::Clear => meta.expire_at_ms = None,
            Expiry::Set(when) => {
                let at = when.resolve(ctx.now_ms);
                meta.expire_at_ms = Some(at);
                if at <= ctx.now_ms {
                    *self = Self::Absent;
                }
            }
        }
    }

    fn incr(&mut self, delta: i64) -> Reply {
        match self.int().map(|n| n.checked_add(delta)) {
            Ok(Some(sum)) => {
                *self = Self::Int(sum);
                Reply::Int(sum)
            }
            Ok(None) => Reply::err("increment or decrement would overflow"),
            Err(error) => Reply::Error(error),
        }
    }

    fn incr_float(&mut self, delta: &Blob) -> Reply {
        let current = if self.present() { self.bytes() } else { Blob::new(b"0") };
        if let Err(error) = parse_float(&current) {
            return Reply::Error(error);
        }
        let Some(sum) = add_float(&current, delta) else {
            return Reply::err("increment would produce NaN or Infinity");
        };
        let sum = Blob::from(sum);
        *self = Self::new(sum.clone());
        Reply::Bulk(sum)
    }

    /// Reply of [`Op::Append`].
    fn appended(&self, bytes: &[u8]) -> Reply {
        let len = self.bytes().len() + bytes.len();
        if len > VALUE_BYTES_MAX { Reply::Error(too_long()) } else { Reply::Int(len as i64) }
    }

    fn append(&mut self, bytes: &[u8]) -> Reply {
        let reply = self.appended(bytes);
        if !reply.is_error() {
            let joined = [&self.bytes(), bytes].concat();
            *self = Self::new(Blob::from(joined));
        }
        reply
    }

    /// Length after [`Op::SetRange`].
    fn overwritten(&self, at: u64, bytes: &[u8]) -> usize {
        let len = self.bytes().len();
        // The parser has checked that the end is within the limit.
        if bytes.is_empty() { len } else { len.max(at as usize + bytes.len()) }
    }

    fn overwrite(&mut self, at: u64, bytes: &[u8]) -> usize {
        let len = self.overwritten(at, bytes);
        if !bytes.is_empty() {
            let mut all = self.bytes().to_vec();
            let at = at as usize;
            all.resize(len, 0);
            all[at..at + bytes.len()].copy_from_slice(bytes);
            *self = Self::new(Blob::from(all));
        }
        len
    }

    fn set_bit(&mut self, at: u64, on: bool) -> Reply {
        let was = self.bit(at);
        let old = self.bytes().get((at / 8) as usize).copied().unwrap_or(0);
        let mask = 0x80 >> (at % 8);
        self.overwrite(at / 8, &[if on { old | mask } else { old & !mask }]);
        Reply::Int(i64::from(was))
    }

    /// Whether `op` leaves this value as it is.
    fn unchanged_by(&self, op: &Op) -> bool {
        let bytes_at = |at: u64, len: usize| {
            let at = usize::try_from(at).ok()?;
            self.bytes().get(at..at.checked_add(len)?).map(<[u8]>::to_vec)
        };
        match op {
            Op::Set { only, .. } if !self.allows(only) => true,
            Op::Remove { value, equal } => !self.present() || self.is(value) != *equal,
            Op::Set { value, expiry, .. } => {
                self.present() && !matches!(expiry, Expiry::Set(_)) && self.bytes() == *value
            }
            Op::Take | Op::GetEx(_) => !self.present(),
            Op::Incr(delta) => matches!((self, delta), (Self::Bytes(_), _) | (Self::Int(_), 0)),
            Op::IncrFloat(_) => matches!(self, Self::Bytes(b) if parse_float(b).is_err()),
            Op::Increment(increment) => !matches!(increment.of(self), Outcome::Changed(..)),
            Op::Append(bytes) => self.present() && bytes.is_empty(),
            Op::SetRange(at, bytes) => {
                bytes.is_empty() || bytes_at(*at, bytes.len()).is_some_and(|b| b == **bytes)
            }
            Op::SetBit(at, on) => bytes_at(at / 8, 1).is_some() && self.bit(*at) == *on,
            Op::BitField(fields) => !bitfield::writes(fields),
            _ => true,
        }
    }

    /// Reply of a write that is not carried out. A copy shares the bytes, so one answers for the value,
    /// unless the write would look at all bytes or make new ones.
    fn foretell(&self, op: &Op, ctx: &Ctx) -> Option<Reply> {
        Some(match op {
            Op::Append(bytes) => self.appended(bytes),
            Op::SetRange(at, bytes) => Reply::Int(self.overwritten(*at, bytes) as i64),
            Op::SetBit(at, _) => Reply::Int(i64::from(self.bit(*at))),
            Op::BitField(_) | Op::IncrFloat(_) => return None,
            Op::Increment(increment) if matches!(increment.by, By::Float { .. }) => return None,
            Op::Set { only: Only::IfEqual(Compared::Digest(_)), .. }
            | Op::Set { only: Only::IfOther(Compared::Digest(_)), .. }
            | Op::Remove { value: Compared::Digest(_), .. } => return None,
            op => {
                let mut meta = Meta { present: self.present(), ..Meta::default() };
                self.clone().apply(op, ctx, &mut meta)
            }
        })
    }
}

fn ones(bytes: &[u8]) -> i64 {
    bytes.iter().map(|b| i64::from(b.count_ones())).sum()
}

fn too_long() -> ErrorReply {
    ErrorReply::err(format!(
        "string exceeds maximum allowed size (at most {VALUE_BYTES_MAX} bytes)"
    ))
}

/// The value that an access writes whatever the state is, with a reply that is unobserved or
/// constant.
fn blind<'a>(access: Access<'a, Op>) -> Option<&'a Blob> {
    match access.op {
        Op::Set { value, only: Only::Always, expiry: Expiry::Clear | Expiry::Keep, reply } => {
            (!access.observed || *reply == SetReply::Status).then_some(value)
        }
        _ => None,
    }
}

/// The bits that an access reads or writes, if it depends on nothing else.
fn bits(access: Access<'_, Op>) -> Option<Range<u64>> {
    match access.op {
        Op::GetBit(at) | Op::SetBit(at, _) => Some(*at..at + 1),
        Op::SetRange(at, bytes) if !access.observed => {
            Some(at.saturating_mul(8)..at.saturating_add(bytes.len() as u64).saturating_mul(8))
        }
        Op::BitField(fields) => bitfield::span(fields),
        _ => None,
    }
}

/// Whether the operation neither removes the key nor sets an expiry.
fn keeps_key(op: &Op) -> bool {
    match op {
        Op::Set { expiry, .. } => !matches!(expiry, Expiry::Set(_)),
        Op::Increment(increment) => !matches!(increment.expiry, Expiry::Set(_)),
        op => !matches!(op, Op::Take | Op::Remove { .. } | Op::GetEx(_)),
    }
}

/// Whether an access is a `SET NX`, which depends only on the presence of the key.
fn asks_presence(access: Access<'_, Op>) -> bool {
    matches!(access.op, Op::Set { only: Only::IfAbsent, reply, .. }
        if !access.observed || *reply != SetReply::Old)
}

/// Whether the operation's effect depends on the time of its execution.
fn timed(op: &Op) -> bool {
    match op {
        Op::Set { expiry, .. } | Op::GetEx(expiry) => matches!(expiry, Expiry::Set(_)),
        Op::Increment(increment) => matches!(increment.expiry, Expiry::Set(_)),
        _ => false,
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "string";
    const FORECAST: Option<Forecast<Self, Op>> = Some(Forecast {
        reply: Self::foretell,
        is_always_possible: |op| {
            !matches!(op, Op::Incr(_) | Op::IncrFloat(_) | Op::Increment(_) | Op::Append(_))
        },
    });
    const FORESIGHT: Option<Foresight<Self, Op>> = Some(Foresight {
        follows: |op| match op {
            op if timed(op) => false,
            // They may make the value far larger.
            Op::SetRange(..) | Op::SetBit(..) => false,
            Op::BitField(fields) => !bitfield::writes(fields),
            _ => true,
        },
        follows_in_time: |_| true,
        cost: |value| match value {
            Self::Absent | Self::Int(_) => 1,
            Self::Bytes(bytes) => bytes.len() / 64,
        },
    });

    const COMMANDS: &'static [CommandSpec] = table::COMMANDS;
    const MODES: &'static [&'static str] = &["read", "set", "increment", "other"];
    const SHARED: [u8; 8] = [0b1, 0, 0, 0, 0, 0, 0, 0];

    fn is_write(op: &Op) -> bool {
        match op {
            Op::Get | Op::Len | Op::Digest | Op::GetRange(..) | Op::GetBit(_) => false,
            Op::BitCount(_) | Op::BitPos(..) => false,
            Op::BitField(fields) => bitfield::writes(fields),
            _ => true,
        }
    }

    fn is_empty(&self) -> bool {
        !self.present()
    }

    fn creates(op: &Op) -> bool {
        !matches!(op, Op::Take | Op::Remove { .. } | Op::GetEx(_))
    }

    fn on_other_type(op: &Op) -> OtherType {
        match op {
            Op::Set { reply: SetReply::Old, .. }
            | Op::Set { only: Only::IfEqual(_) | Only::IfOther(_), .. } => OtherType::Refuse,
            Op::Set { only: Only::IfAbsent, .. } => OtherType::Skip,
            Op::Set { .. } => OtherType::Replace,
            _ => OtherType::Refuse,
        }
    }

    fn preserves_key(op: &Op) -> bool {
        match op {
            Op::Set { only: Only::IfAbsent, expiry, .. } => !matches!(expiry, Expiry::Set(_)),
            Op::Set { .. } => false,
            Op::Increment(increment) => increment.expiry == Expiry::Keep,
            op => keeps_key(op),
        }
    }

    fn query(&self, op: &Op, _ctx: &Ctx) -> Reply {
        match op {
            Op::Get => self.get(),
            Op::Len => Reply::Int(self.bytes().len() as i64),
            Op::Digest if !self.present() => Reply::Nil,
            Op::Digest => digest::reply(&self.bytes()),
            Op::GetRange(start, end) => {
                let bytes = self.bytes();
                let range = positions(*start, *end, bytes.len());
                // The whole string is shared rather than copied.
                let whole = range.len() == bytes.len();
                if whole { Reply::Bulk(bytes) } else { Reply::bulk(&bytes[range]) }
            }
            Op::GetBit(at) => Reply::Int(i64::from(self.bit(*at))),
            Op::BitCount(range) => Reply::Int(self.bit_count(*range)),
            Op::BitPos(on, range, has_end) => Reply::Int(self.bit_pos(*on, *range, *has_end)),
            Op::BitField(fields) if !bitfield::writes(fields) => {
                bitfield::run(&mut self.bytes().to_vec(), fields)
            }
            _ => Reply::err("a write cannot be answered without being applied"),
        }
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        match op {
            Op::Set { .. } => self.set(op, ctx, meta),
            Op::Take => {
                let old = self.get();
                *self = Self::Absent;
                old
            }
            Op::Remove { .. } => {
                meta.untouched = self.unchanged_by(op);
                if !meta.untouched {
                    *self = Self::Absent;
                }
                Reply::Int(i64::from(!meta.untouched))
            }
            Op::GetEx(expiry) => {
                let old = self.get();
                if self.present() {
                    meta.untouched = *expiry == Expiry::Clear && meta.expire_at_ms.is_none();
                    self.expire(*expiry, ctx, meta);
                }
                old
            }
            Op::Incr(delta) => self.incr(*delta),
            Op::IncrFloat(delta) => self.incr_float(delta),
            Op::Increment(increment) => increment.apply(self, ctx, meta),
            Op::Append(bytes) => self.append(bytes),
            Op::SetRange(at, bytes) => {
                meta.untouched = bytes.is_empty();
                Reply::Int(self.overwrite(*at, bytes) as i64)
            }
            Op::SetBit(at, on) => {
                meta.untouched = self.unchanged_by(op);
                self.set_bit(*at, *on)
            }
            Op::BitField(fields) if bitfield::writes(fields) => {
                let old = self.bytes();
                let mut bytes = old.to_vec();
                let reply = bitfield::run(&mut bytes, fields);
                meta.untouched = *bytes == *old;
                if !meta.untouched {
                    *self = Self::new(Blob::from(bytes));
                }
                reply
            }
            read => self.query(read, ctx),
        }
    }

    fn may_be_idle(op: &Op) -> bool {
        match op {
            Op::Set { only: Only::IfAbsent | Only::IfEqual(_) | Only::IfOther(_), .. }
            | Op::Take
            | Op::Remove { .. }
            | Op::GetEx(_) => true,
            Op::SetRange(_, bytes) => bytes.is_empty(),
            Op::Increment(increment) => increment.is_bounded(),
            _ => false,
        }
    }

    fn idle(&self, op: &Op, _now_ms: u64) -> Option<Reply> {
        match op {
            Op::Set { only, reply, .. } if !self.allows(only) => Some(match reply {
                SetReply::Status => Reply::Nil,
                SetReply::Old => self.get(),
                SetReply::Flag => Reply::Int(0),
            }),
            Op::Remove { .. } if self.unchanged_by(op) => Some(Reply::Int(0)),
            Op::Increment(increment) => match increment.of(self) {
                Outcome::Refused(reply) => Some(reply),
                Outcome::Changed(..) | Outcome::Failed(_) => None,
            },
            Op::SetRange(_, bytes) if bytes.is_empty() => {
                Some(Reply::Int(self.bytes().len() as i64))
            }
            _ => None,
        }
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        if self.unchanged_by(a.op) && self.unchanged_by(b.op) {
            return true;
        }
        if !a.observed && !b.observed && a.op == b.op && !timed(a.op) {
            return true;
        }
        if let (Some(v), Some(w)) = (blind(a), blind(b)) {
            return v == w;
        }
        if let (Some(x), Some(y)) = (bits(a), bits(b)) {
            return x.end <= y.start || y.end <= x.start;
        }
        if self.present() && Self::is_write(a.op) && Self::is_write(b.op) {
            let idle = |x, y: Access<'_, Op>| asks_presence(x) && keeps_key(y.op);
            if idle(a, b) || idle(b, a) {
                return true;
            }
        }
        match (a.op, b.op, self) {
            (Op::Incr(d), Op::Incr(e), Self::Absent | Self::Int(_)) => {
                let n = if let Self::Int(n) = self { *n } else { 0 };
                let safe = far_from_overflow(n, *d) && far_from_overflow(n, *e);
                !a.observed && !b.observed && safe
            }
            _ => false,
        }
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        match access.op {
            op if !Self::is_write(op) => 0,
            _ if blind(access).is_some() => 1,
            Op::Incr(_) if !access.observed => 2,
            _ => 3,
        }
    }

    fn combine(_earlier: &Op, next: &Op) -> Option<Op> {
        // Sums of increments are not combined: if one of them overflows, each needs its own result.
        match next {
            Op::Set { only: Only::Always, expiry, reply: SetReply::Status, .. }
                if *expiry != Expiry::Keep =>
            {
                Some(next.clone())
            }
            _ => None,
        }
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        table::encode(op, key, out);
    }

    fn save(&self, sink: &mut dyn ValueSink) {
        sink.bytes(&self.bytes());
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        Ok(Self::new(Blob::new(source.bytes()?)))
    }
}
