//! The contract of a data type, and the small values that every type uses.

pub mod escrow;

use crate::escrow::Quantity;
use crate::key::sort::ElementsOf;
use crate::{ArgBuf, Blob, CommandSpec, Compound, ErrorReply, Record, Reply};
use std::fmt;

/// A point in a shard's logical time: microseconds since 1970 in the upper bits, a counter in the
/// lower eleven. Commit timestamps are totally ordered within a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// Number of bits of the counter. With one more the microseconds would end in 2112.
const COUNTER_BITS: u32 = 11;

impl Timestamp {
    /// How many timestamps share a microsecond.
    pub const PER_MICROSECOND: u64 = 1 << COUNTER_BITS;

    /// Before everything.
    pub const ZERO: Self = Self(0);

    /// The first timestamp of a microsecond since 1970.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros << COUNTER_BITS)
    }

    /// The microsecond since 1970 that this timestamp lies in.
    pub const fn micros(self) -> u64 {
        self.0 >> COUNTER_BITS
    }

    /// The timestamp as a number for clients: its microsecond. Many clients hold integers in
    /// floats, which are exact below 2^53 ([`NUMBER_MAX`]): microseconds stay below it until the
    /// year 2255. Timestamps that share a microsecond share a number; the log therefore gives
    /// operations that need a number of their own ([`crate::Waiter::reserves`]) timestamps in different
    /// microseconds.
    pub const fn number(self) -> u64 {
        self.micros()
    }

    /// The first microsecond that begins after this timestamp.
    pub const fn after_us(self) -> u64 {
        self.micros() + 1
    }

    /// The next timestamp.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The timestamp `us` microseconds later.
    #[must_use]
    pub const fn later_by_us(self, us: u64) -> Self {
        Self(self.0 + (us << COUNTER_BITS))
    }
}

/// Largest integer that the store generates: up to here 64-bit floats, in which JavaScript, Lua and
/// most readers of JSON hold integers, are exact.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;

/// Facts about a type for carrying out its writes ahead of the log.
#[derive(Clone, Copy, Debug)]
pub struct Foresight<V, O> {
    /// Whether the effect and the reply of a write follow from the value alone: not from time, timestamp or
    /// random number.
    pub follows: fn(&O) -> bool,
    /// Whether they follow from the value and the time: not from timestamp or random number.
    pub follows_in_time: fn(&O) -> bool,
    /// Cost of a copy of a value: the number of its members, or of pieces of 64 bytes.
    pub cost: fn(&V) -> usize,
}

/// Facts about a type's replies to writes that are not carried out.
#[derive(Clone, Copy, Debug)]
pub struct Forecast<V, O> {
    /// Reply that [`DataType::apply`] would give for a write on a key that holds a value, which is neither
    /// changed nor copied. A larger value takes no longer, but for a logarithm. `None`, which is always safe,
    /// where the reply is not known as cheaply.
    pub reply: fn(&V, &O, &Ctx) -> Option<Reply>,
    /// Whether a write is answered with an error by no value of the type. `false` is always safe.
    pub is_always_possible: fn(&O) -> bool,
}

/// Parts of a value that expire, each at a moment of its own: as a key does, a part stays until the log says
/// that it has expired. All moments are in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct MortalParts<V, O> {
    /// The first moment at which a part expires, of those after a moment if that is given.
    pub next_expiry_ms: fn(&V, Option<u64>) -> Option<u64>,
    /// Whether something is left at a moment, if the parts that have expired by then are removed.
    pub outlives: fn(&V, u64) -> bool,
    /// Removes up to a number of parts that have expired at a moment, the longest overdue first. Returns how
    /// many.
    pub expire: fn(&mut V, u64, usize) -> usize,
    /// Answers a read from what is left at the time of the context.
    pub query_left: fn(&V, &O, &Ctx) -> Reply,
}

/// Inputs of an operation besides the state. The leader chooses them and they travel in the log, so
/// that every replica computes the same result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ctx {
    /// Wall-clock time in milliseconds since 1970.
    pub now_ms: u64,
    /// Commit timestamp of the transaction that the operation belongs to.
    pub ts: Timestamp,
    /// Random number for operations whose specification leaves a choice (`SPOP`).
    pub seed: u64,
}

/// One operation, and whether the program sees its reply before the transaction commits.
///
/// A *void* access (`observed == false`) may be applied later, in commit-timestamp order, because
/// its reply has not been observed. See Weihl, "The impact of recovery on concurrency control"
/// (1989): with deferred update, forward commutativity is the right condition.
#[derive(Debug)]
pub struct Access<'a, O> {
    /// The operation.
    pub op: &'a O,
    /// Whether its reply constrains the order.
    pub observed: bool,
}

impl<O> Clone for Access<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Access<'_, O> {}

/// Attributes of a key besides its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Whether the key existed before the operation. An operation on a present key that sets this
    /// to `false` removes the key (`GETDEL`).
    pub present: bool,
    /// When the key ceases to exist, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
    /// Whether the operation left the value and the key as they were, so that watchers of the key
    /// need no notification. Writing the same value again counts as a change, as in Redis.
    pub untouched: bool,
}

impl Meta {
    /// Attributes of the key of a record, before an operation.
    pub(crate) fn of(record: Option<&Record>) -> Self {
        Self {
            present: record.is_some(),
            expire_at_ms: record.and_then(Record::expire_at_ms),
            untouched: false,
        }
    }
}

/// Behaviour of an operation if the key holds a value of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherType {
    /// Answers `WRONGTYPE` and changes nothing.
    Refuse,
    /// Replaces the value (`SET`).
    Replace,
    /// Answers as if the key existed and changes nothing (`SET NX`, `SETNX`).
    Skip,
}

/// Outcome of an operation on a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CameOf {
    /// The lock was granted.
    Granted,
    /// The lock was not granted, and the request does not wait.
    Refused,
    /// The holder has released the lock after this time.
    Ended {
        /// In microseconds.
        held_us: u64,
    },
    /// The client believed that it held the lock, but its grant had ended.
    Gone,
}

/// A data type: its state, its operations and their commutativity.
///
/// One file implements it, `record.rs` registers it, and no other code knows that it exists. An
/// implementation is a pure value: it never sees its key, its shard, a clock or a lock. The
/// contract is kept narrow enough to be offered to sandboxed guests one day: values and words in,
/// replies out.
pub trait DataType: Clone + fmt::Debug + PartialEq + Default {
    /// The operations.
    type Op: Clone + fmt::Debug + PartialEq;

    /// Name in the reply of `TYPE`.
    const NAME: &'static str;

    /// The commands of this type.
    const COMMANDS: &'static [CommandSpec];

    /// Whether `op` can change the state.
    fn is_write(op: &Self::Op) -> bool;

    /// Whether the value holds nothing, so that its key ceases to exist (Redis' rule). Types that
    /// exist while empty say `false`.
    fn is_empty(&self) -> bool;

    /// Whether a key is kept for a client that waits for what the value holds and was notified. It is not
    /// where most that is there stays for the others.
    const KEPT_FOR_WAITERS: bool = true;

    /// Whether `op` on an absent key creates a value. A write that does not create answers as if
    /// the value were empty and changes nothing.
    fn creates(op: &Self::Op) -> bool;

    /// Answers a read; `&Default::default()` stands for an absent key.
    fn query(&self, op: &Self::Op, ctx: &Ctx) -> Reply;

    /// Carries out a write and answers it. An error changes nothing. `meta` holds the attributes of
    /// the key besides the value; most operations leave it alone.
    fn apply(&mut self, op: &Self::Op, ctx: &Ctx, meta: &mut Meta) -> Reply;

    /// Whether `op` can be without effect, on a present or an absent key, in a way that is worth
    /// checking: [`DataType::idle`] is called for such operations only.
    fn may_be_idle(_op: &Self::Op) -> bool {
        false
    }

    /// Reply of a write that is *idle* in this state at `now_ms` (wall clock, milliseconds since 1970): it
    /// changes nothing, so that it need not be written into the log. `None` is always safe.
    fn idle(&self, _op: &Self::Op, _now_ms: u64) -> Option<Reply> {
        None
    }

    /// Behaviour of `op` if the key holds a value of another type.
    fn on_other_type(_op: &Self::Op) -> OtherType {
        OtherType::Refuse
    }

    /// Whether a write neither removes anything (so it cannot end the key) nor touches the key's
    /// expiry. `false` is always safe.
    fn preserves_key(op: &Self::Op) -> bool;

    /// Whether `a` and `b` commute in this state and in every state that other holders granted by
    /// the same rule can bring about (*stable* for any number of holders): the same final state
    /// and, for observed accesses, the same replies in both orders.
    ///
    /// Symmetric. `false` is always safe.
    fn commutes(&self, a: Access<'_, Self::Op>, b: Access<'_, Self::Op>) -> bool;

    /// How values and operations are a quantity and changes of it, if they are: such operations also
    /// commute while the quantity leaves room for all of them, see [`crate::escrow`].
    const QUANTITY: Option<Quantity<Self, Self::Op>> = None;

    /// Which writes may be carried out on a copy of a value ahead of the log, if any may.
    const FORESIGHT: Option<Foresight<Self, Self::Op>> = None;

    /// Which replies to writes are known without carrying them out, if any are.
    const FORECAST: Option<Forecast<Self, Self::Op>> = None;

    /// Parts of the value that expire by themselves, if the type has any.
    const PARTS: Option<MortalParts<Self, Self::Op>> = None;

    /// Elements that `SORT` takes, if the type has any.
    const ELEMENTS: Option<ElementsOf<Self>> = None;

    /// The lock mode of an access: a number below 8. Accesses whose modes are in each other's
    /// [`DataType::SHARED`] mask commute in every state, so that the usual grant is one mask test.
    fn mode(access: Access<'_, Self::Op>) -> u8;

    /// For each mode, the set of modes (bit i for mode i) that commute with it in every state.
    const SHARED: [u8; 8];

    /// Names of the modes, for display (metrics, `COMMAND DOCS`).
    const MODES: &'static [&'static str];

    /// Two-step form of a write that leaves the store a choice: a read that chooses and the writes
    /// that follow from it. An interactive transaction uses this form: its client learns the choice
    /// before the commit, which must not choose again. `None` for a write whose effect the state
    /// decides.
    fn chosen_first(_key: &Blob, _op: &Self::Op) -> Option<Compound> {
        None
    }

    /// Folds `next` into `earlier` (both void, on one key, `earlier` applied first) so that one
    /// operation has the effect of both, if there is such an operation.
    fn combine(earlier: &Self::Op, next: &Self::Op) -> Option<Self::Op>;

    /// Writes `op` as the words of a command that parses to the same operation. `key` is the word
    /// for the key. This is how operations are written into the log.
    fn encode(op: &Self::Op, key: &[u8], out: &mut ArgBuf);

    /// Writes the state, for snapshots and for moving a value between keys.
    fn save(&self, sink: &mut dyn ValueSink);

    /// Reads the output of [`DataType::save`]. The input is hostile: lengths are checked before
    /// anything is allocated, and every fault is [`Corrupt`].
    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt>;
}

/// Receiver of the parts of a value, one after another.
pub trait ValueSink {
    /// A byte string.
    fn bytes(&mut self, bytes: &[u8]);
    /// A number: a count, an integer's two's complement, a float's bits.
    fn number(&mut self, number: u64);
}

/// Source of the parts that a [`ValueSink`] received.
pub trait ValueSource {
    /// The next part, which must be a byte string.
    fn bytes(&mut self) -> Result<&[u8], Corrupt>;
    /// The next part, which must be a number.
    fn number(&mut self) -> Result<u64, Corrupt>;
    /// Most parts that can follow: a bound for counts before allocating.
    fn remaining(&self) -> usize;
}

/// A saved value that does not read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a saved value does not read back")
    }
}

impl std::error::Error for Corrupt {}

impl From<Corrupt> for ErrorReply {
    fn from(_: Corrupt) -> Self {
        ErrorReply::err("bad data format of a saved value")
    }
}

/// A count read from a [`ValueSource`], bounded by what can still follow at `parts` parts each.
pub fn load_count(source: &mut dyn ValueSource, parts: usize) -> Result<usize, Corrupt> {
    let count = source.number()?;
    bounded_count(source, count, parts)
}

/// [`load_count`] of a count that was read in another form.
pub fn bounded_count(source: &dyn ValueSource, count: u64, parts: usize) -> Result<usize, Corrupt> {
    let limit = source.remaining() / parts.max(1);
    if count <= limit as u64 { Ok(count as usize) } else { Err(Corrupt) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_timestamps_fit_into_floats_for_two_hundred_years_and_more() {
        let (year, in_2026) = (31_557_600_000_000, 1_767_225_600_000_000);
        let moments = [0, 1, in_2026, in_2026 + 1, in_2026 + 228 * year];
        let numbers = moments.map(|micros| Timestamp::from_micros(micros).number());
        assert!(numbers.is_sorted() && numbers[4] <= NUMBER_MAX, "{numbers:?}");
        assert!(numbers.iter().all(|number| (*number as f64) as u64 == *number));
        assert_eq!(Timestamp(u64::MAX).number(), NUMBER_MAX, "there are no later ones");
        let later = Timestamp(5).later_by_us(3);
        assert_eq!((later.number(), later), (3, Timestamp(5 + 3 * Timestamp::PER_MICROSECOND)));
    }
}
