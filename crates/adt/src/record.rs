//! The registry of data types, and [`Record`]: the content of a key.
//!
//! **To add a data type**: write its file, then add one line to `registry!` below, which also says
//! whether a record holds the value itself or a pointer to it. Nothing else in
//! the product changes: the gateway finds its commands in the table, the lock manager asks for its
//! modes, the log and the snapshots write its words and parts.

pub mod events;

use crate::escrow::{Amount, Share};
use crate::key::sort::Sortable;
use crate::key::{self, KeyOp};
use crate::kinds::{self, extension};
use crate::types::{Corrupt, ValueSink, ValueSource};
use crate::{
    Access, ArgBuf, Args, Awaiting, Blob, Command, CommandSpec, Compound, Ctx, DataType, Meta,
    OtherType, Reply, Timestamp, Whole,
};
use crate::{ErrorReply, Handler};
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::OnceLock;

macro_rules! registry {
    ($($variant:ident => $module:ident as $held:ty),* $(,)?) => {
        /// A value of any data type.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum Value { $($variant($held)),* }

        /// An operation of any data type, or on the key itself.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum Op { Key(KeyOp), $($variant(crate::kinds::$module::Op)),* }

        impl Value {
            /// The type's name in the reply of `TYPE`.
            pub fn type_name(&self) -> &'static str {
                match self { $(Self::$variant(_) => <crate::kinds::$module::Value as DataType>::NAME),* }
            }

            /// Whether the value is empty in a way that removes its key.
            fn is_empty(&self) -> bool {
                match self { $(Self::$variant(v) => v.is_empty()),* }
            }

            /// Whether its key is kept for a notified client: see [`DataType::KEPT_FOR_WAITERS`].
            pub fn is_kept_for_waiters(&self) -> bool {
                match self {
                    $(Self::$variant(_) =>
                        <crate::kinds::$module::Value as DataType>::KEPT_FOR_WAITERS),*
                }
            }

            /// Elements that `SORT` takes: see [`DataType::ELEMENTS`].
            pub(crate) fn elements(&self) -> Option<Sortable<'_>> {
                match self {
                    $(Self::$variant(value) => {
                        let elements = <crate::kinds::$module::Value as DataType>::ELEMENTS;
                        elements.map(|elements| elements(value))
                    }),*
                }
            }

            /// The first moment at which a part of the value expires, of those after `after_ms` if that
            /// is given; in milliseconds since 1970.
            #[inline]
            fn next_part_expiry_ms(&self, after_ms: Option<u64>) -> Option<u64> {
                match self {
                    $(Self::$variant(value) => {
                        let parts = <crate::kinds::$module::Value as DataType>::PARTS;
                        parts.and_then(|parts| (parts.next_expiry_ms)(value, after_ms))
                    }),*
                }
            }

            /// Whether something is left of the value at a moment, in milliseconds since 1970.
            fn outlives(&self, now_ms: u64) -> bool {
                match self {
                    $(Self::$variant(value) => {
                        let parts = <crate::kinds::$module::Value as DataType>::PARTS;
                        parts.is_none_or(|parts| (parts.outlives)(value, now_ms))
                    }),*
                }
            }

            /// Removes up to `most` parts of the value that have expired at a moment, in milliseconds
            /// since 1970. Returns how many.
            pub(crate) fn expire_parts(&mut self, now_ms: u64, most: usize) -> usize {
                match self {
                    $(Self::$variant(value) => {
                        let parts = <crate::kinds::$module::Value as DataType>::PARTS;
                        parts.map_or(0, |parts| (parts.expire)(value, now_ms, most))
                    }),*
                }
            }

            /// Writes the value's parts.
            pub fn save(&self, sink: &mut dyn ValueSink) {
                match self { $(Self::$variant(v) => v.save(sink)),* }
            }

            /// Reads a value of the type called `name` from its parts.
            pub fn load(name: &[u8], source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
                $(if name == <crate::kinds::$module::Value as DataType>::NAME.as_bytes() {
                    return <crate::kinds::$module::Value as DataType>::load(source)
                        .map(|value| Self::$variant(value.into()));
                })*
                Err(Corrupt)
            }
        }

        impl Op {
            /// Whether the operation can change its record.
            pub fn is_write(&self) -> bool {
                match self {
                    Self::Key(op) => op.is_write(),
                    $(Self::$variant(op) => <crate::kinds::$module::Value as DataType>::is_write(op)),*
                }
            }

            /// Writes the operation as the words of a command that parses to the same operation.
            pub fn encode(&self, key: &[u8], out: &mut ArgBuf) {
                match self {
                    Self::Key(op) => op.encode(key, out),
                    $(Self::$variant(op) => {
                        <crate::kinds::$module::Value as DataType>::encode(op, key, out)
                    })*
                }
            }

            /// One operation with the effect of `self` and then `next`, if there is one.
            pub fn combine(&self, next: &Self) -> Option<Self> {
                match (self, next) {
                    $((Self::$variant(a), Self::$variant(b)) =>
                        <crate::kinds::$module::Value as DataType>::combine(a, b).map(Self::$variant),)*
                    _ => None,
                }
            }

            /// Two-step form of a write that leaves the store a choice: see
            /// [`DataType::chosen_first`].
            pub fn chosen_first(&self, key: &Blob) -> Option<Compound> {
                match self {
                    Self::Key(_) => None,
                    $(Self::$variant(op) => {
                        <crate::kinds::$module::Value as DataType>::chosen_first(key, op)
                    })*
                }
            }

            /// Use that it makes of the quantity of its record: see [`DataType::QUANTITY`].
            pub fn share(&self) -> Option<Share> {
                match self {
                    Self::Key(_) => None,
                    $(Self::$variant(op) => {
                        let quantity = <crate::kinds::$module::Value as DataType>::QUANTITY;
                        quantity.and_then(|quantity| (quantity.share)(op))
                    })*
                }
            }

            /// Whether [`idle`] is worth asking.
            pub fn may_be_idle(&self) -> bool {
                match self {
                    Self::Key(op) => {
                        use KeyOp::{Put, Reap, ReapParts, Whole};
                        !matches!(op, Put(..) | Reap { .. } | ReapParts { .. } | Whole(_))
                            && op.is_write()
                    }
                    $(Self::$variant(op) => <crate::kinds::$module::Value as DataType>::may_be_idle(op)),*
                }
            }

            /// Whether it depends on the key's value whether it takes effect or answers an error.
            pub fn may_be_refused(&self) -> bool {
                match self {
                    Self::Key(_) => false,
                    $(Self::$variant(op) => {
                        let other = <crate::kinds::$module::Value as DataType>::on_other_type(op);
                        other == OtherType::Refuse
                    }),*
                }
            }

            /// Name of the data type that it belongs to; `None` if that is the key itself.
            pub fn type_name(&self) -> Option<&'static str> {
                match self {
                    Self::Key(_) => None,
                    $(Self::$variant(_) => Some(<crate::kinds::$module::Value as DataType>::NAME)),*
                }
            }

            pub(crate) fn preserves_key(&self) -> bool {
                match self {
                    Self::Key(op) => !op.is_write(),
                    $(Self::$variant(op) => !<crate::kinds::$module::Value as DataType>::is_write(op)
                        || <crate::kinds::$module::Value as DataType>::preserves_key(op)),*
                }
            }
        }

        /// Whether effect and reply of an operation follow from the value, and whether they follow from
        /// value and time; `None` if its type does not know.
        pub(crate) fn follows_by_type(op: &Op) -> Option<(bool, bool)> {
            match op {
                Op::Key(op) => Some((
                    matches!(op, KeyOp::Del | KeyOp::Leave(_) | KeyOp::Persist),
                    !matches!(op, KeyOp::Whole(_)),
                )),
                $(Op::$variant(op) => {
                    let foresight = <crate::kinds::$module::Value as DataType>::FORESIGHT;
                    foresight.map(|known| ((known.follows)(op), (known.follows_in_time)(op)))
                }),*
            }
        }

        fn copy_cost_by_type(value: &Value) -> Option<usize> {
            match value {
                $(Value::$variant(value) => {
                    let foresight = <crate::kinds::$module::Value as DataType>::FORESIGHT;
                    foresight.map(|foresight| (foresight.cost)(value))
                }),*
            }
        }

        /// The lock mode of an access.
        pub fn mode(access: Access<'_, Op>) -> Mode {
            #[allow(clippy::enum_variant_names)]
            #[repr(u8)]
            enum Type { Key, $($variant),* }
            let observed = access.observed;
            if let Op::Extension(op) = access.op {
                // The last variant: the types that it stands for have the numbers behind it.
                return op.mode(Type::Extension as u8, observed);
            }
            match access.op {
                Op::Key(op) => Mode { data_type: Type::Key as u8, mode: u8::from(op.is_write()),
                    shared: if op.is_write() { 0 } else { 1 }, reads: !op.is_write() },
                $(Op::$variant(op) => {
                    let mode = <crate::kinds::$module::Value as DataType>::mode(Access { op, observed });
                    Mode {
                        data_type: Type::$variant as u8,
                        mode,
                        shared: <crate::kinds::$module::Value as DataType>::SHARED[usize::from(mode & 7)],
                        reads: !<crate::kinds::$module::Value as DataType>::is_write(op),
                    }
                }),*
            }
        }

        /// Names of a mode's type and of the mode, for display.
        pub fn mode_name(access: Access<'_, Op>) -> (&'static str, &'static str) {
            if let Op::Extension(op) = access.op {
                return op.mode_name(access.observed);
            }
            let mode = usize::from(mode(access).mode);
            match access.op {
                Op::Key(_) => ("key", ["read", "write"][mode.min(1)]),
                $(Op::$variant(_) => (<crate::kinds::$module::Value as DataType>::NAME,
                    <crate::kinds::$module::Value as DataType>::MODES.get(mode).copied().unwrap_or("?"))),*
            }
        }

        fn amount_by_type(record: &Record) -> Option<Amount> {
            match &record.value {
                $(Value::$variant(value) => {
                    let quantity = <crate::kinds::$module::Value as DataType>::QUANTITY;
                    quantity.map(|quantity| (quantity.amount)(value))
                })*
            }
        }

        fn commutes_by_type(record: Option<&Record>, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
            let (a_observed, b_observed) = (a.observed, b.observed);
            match (a.op, b.op) {
                $((Op::$variant(a), Op::$variant(b)) => {
                    let a = Access { op: a, observed: a_observed };
                    let b = Access { op: b, observed: b_observed };
                    match record.map(|r| &r.value) {
                        Some(Value::$variant(value)) => value.commutes(a, b),
                        Some(_) => false,
                        None => <crate::kinds::$module::Value as Default>::default().commutes(a, b),
                    }
                })*
                _ => false,
            }
        }

        fn query_value(value: Option<&Value>, op: &Op, ctx: &Ctx) -> Reply {
            match (op, value) {
                (Op::Key(_), _) => unreachable!("key operations are answered by the record"),
                $((Op::$variant(op), Some(Value::$variant(value))) => value.query(op, ctx),
                (Op::$variant(op), None) =>
                    <crate::kinds::$module::Value as Default>::default().query(op, ctx),)*
                _ => Reply::Error(ErrorReply::wrong_type()),
            }
        }

        fn query_left_of(value: &Value, op: &Op, ctx: &Ctx) -> Reply {
            match (op, value) {
                $((Op::$variant(of), Value::$variant(held)) => {
                    match <crate::kinds::$module::Value as DataType>::PARTS {
                        Some(parts) => (parts.query_left)(held, of, ctx),
                        None => held.query(of, ctx),
                    }
                })*
                _ => query_value(Some(value), op, ctx),
            }
        }

        /// The reply of a write, and whether it has changed anything.
        fn apply_value(slot: &mut Option<Record>, op: &Op, ctx: &Ctx) -> (Reply, bool) {
            match op {
                Op::Key(op) => {
                    let reply = op.apply(slot, ctx.now_ms);
                    let changed = reply != Reply::Int(0);
                    (reply, changed)
                }
                $(Op::$variant(op) => {
                    type V = crate::kinds::$module::Value;
                    let mut meta = Meta::of(slot.as_ref());
                    match slot {
                        Some(record) => {
                            let reply = if let Value::$variant(value) = &mut record.value {
                                value.apply(op, ctx, &mut meta)
                            } else {
                                match V::on_other_type(op) {
                                    OtherType::Refuse => {
                                        return (Reply::Error(ErrorReply::wrong_type()), false);
                                    }
                                    OtherType::Skip => {
                                        return (V::default().apply(op, ctx, &mut meta), false);
                                    }
                                    OtherType::Replace => {
                                        let mut value = V::default();
                                        let reply = value.apply(op, ctx, &mut meta);
                                        record.value = Value::$variant(value.into());
                                        reply
                                    }
                                }
                            };
                            record.set_expiry(meta.expire_at_ms);
                            if !meta.present {
                                *slot = None;
                            }
                            (reply, !meta.untouched)
                        }
                        None => {
                            let mut value = V::default();
                            let reply = value.apply(op, ctx, &mut meta);
                            if V::creates(op) && !reply.is_error() && !value.is_empty() {
                                let record = Record::new(Value::$variant(value.into()));
                                *slot = Some(record.expiring(meta.expire_at_ms));
                            }
                            let made = slot.is_some();
                            (reply, made)
                        }
                    }
                }),*
            }
        }

        fn foretell_by_type(record: Option<&Record>, op: &Op, ctx: &Ctx) -> Option<Reply> {
            match op {
                Op::Key(op) => op.foretell(record, ctx.now_ms),
                $(Op::$variant(op) => {
                    type V = crate::kinds::$module::Value;
                    match record.map(|record| &record.value) {
                        Some(Value::$variant(value)) => {
                            V::FORECAST.and_then(|known| (known.reply)(value, op, ctx))
                        }
                        Some(_) if V::on_other_type(op) == OtherType::Refuse => {
                            Some(Reply::Error(ErrorReply::wrong_type()))
                        }
                        _ => Some(V::default().apply(op, ctx, &mut Meta::of(record))),
                    }
                }),*
            }
        }

        /// Whether a write is answered without an error by the record under a key, and by every other one of
        /// its own type.
        pub fn is_always_possible(record: Option<&Record>, op: &Op) -> bool {
            op.is_write() && match op {
                Op::Key(op) => !matches!(op, KeyOp::Whole(_)),
                $(Op::$variant(op) => {
                    type V = crate::kinds::$module::Value;
                    let fits = match record.map(|record| &record.value) {
                        None | Some(Value::$variant(_)) => true,
                        Some(_) => V::on_other_type(op) != OtherType::Refuse,
                    };
                    fits && V::FORECAST.is_some_and(|known| (known.is_always_possible)(op))
                }),*
            }
        }

        fn idle_by_type(record: Option<&Record>, op: &Op, now_ms: u64) -> Option<Reply> {
            let value = record.map(|record| &record.value);
            match op {
                Op::Key(op) => op.idle(record, now_ms),
                $(Op::$variant(op) => {
                    type V = crate::kinds::$module::Value;
                    match value {
                        Some(Value::$variant(value)) => value.idle(op, now_ms),
                        Some(_) => (V::on_other_type(op) == OtherType::Refuse)
                            .then(|| Reply::Error(ErrorReply::wrong_type())),
                        None => (!V::creates(op)).then(|| {
                            V::default().apply(op, &Ctx::default(), &mut Meta::default())
                        }),
                    }
                }),*
            }
        }

        /// For each data type its name, the names of its lock modes, and the modes that share a
        /// lock in every state (see [`DataType::SHARED`]): the tables of the reference page.
        pub fn lock_modes() -> Vec<(&'static str, &'static [&'static str], [u8; 8])> {
            let mut all = vec![$((
                <crate::kinds::$module::Value as DataType>::NAME,
                <crate::kinds::$module::Value as DataType>::MODES,
                <crate::kinds::$module::Value as DataType>::SHARED,
            )),*];
            // The last one stands for types that a build adds.
            all.pop();
            all.extend(extension::lock_modes());
            all
        }

        /// Whether a built-in type has this name.
        pub(crate) fn is_built_in_type(name: &str) -> bool {
            [$(<crate::kinds::$module::Value as DataType>::NAME),*].contains(&name)
        }

        /// The commands of all built-in data types and of keys.
        pub(crate) fn built_in_commands() -> impl Iterator<Item = &'static CommandSpec> {
            let types = [$(<crate::kinds::$module::Value as DataType>::COMMANDS),*];
            key::COMMANDS.iter().chain(types.into_iter().flatten())
        }
    };
}

/// The commands of all data types and of keys.
pub fn data_commands() -> impl Iterator<Item = &'static CommandSpec> {
    built_in_commands().chain(extension::commands())
}

// A value of more than 16 bytes is boxed, so that it does not make the records of all other types
// larger. (A string has its tag in common with the registry's.)
registry! {
    String => string as kinds::string::Value,
    Hash => hash as kinds::hash::Value,
    List => list as Box<kinds::list::Value>,
    Set => set as kinds::set::Value,
    Counter => counter as Box<kinds::counter::Value>,
    ZSet => zset as Box<kinds::zset::Value>,
    Uid => uid as Box<kinds::uid::Value>,
    TopK => topk as Box<kinds::topk::Value>,
    Bag => bag as Box<kinds::bag::Value>,
    Log => log as Box<kinds::log::Value>,
    Stream => stream as Box<kinds::stream::Value>,
    Lock => lock as Box<kinds::lock::Value>,
    Barrier => barrier as kinds::barrier::Value,
    Composed => composed as Box<kinds::composed::Value>,
    Extension => extension as Box<kinds::extension::Value>,
}

impl Value {
    /// Name of the type for clients: that of its definition, if the type is a composed one.
    pub fn shown_type(&self) -> &str {
        match self {
            Self::Composed(value) => value.name(),
            Self::Extension(value) => value.name(),
            other => other.type_name(),
        }
    }
}

impl Op {
    /// The operation on all keys of a shard, if it is one.
    #[inline]
    pub fn whole(&self) -> Option<&Whole> {
        match self {
            Self::Key(KeyOp::Whole(whole)) => Some(whole),
            _ => None,
        }
    }
}

/// A lock mode: comparing two of them is one mask test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    data_type: u8,
    mode: u8,
    shared: u8,
    reads: bool,
}

impl Mode {
    /// A mode of a type of which the built-in types know nothing.
    pub(crate) const fn new(data_type: u8, (mode, shared): (u8, u8), reads: bool) -> Self {
        Self { data_type, mode, shared, reads }
    }

    /// Whether accesses in the two modes commute in every state.
    #[inline]
    pub fn shares(self, other: Self) -> bool {
        (self.reads && other.reads)
            || (self.data_type == other.data_type && self.shared & (1 << (other.mode & 7)) != 0)
    }
}

/// Content of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The value.
    pub value: Value,
    /// When the key ceases to exist, in milliseconds since 1970, plus one.
    expiry: Option<NonZeroU64>,
    /// Commit timestamp of the last operation that changed the record.
    pub modified: Timestamp,
}

/// Latest moment at which a key can expire, in milliseconds since 1970.
pub const EXPIRE_AT_MS_MAX: u64 = i64::MAX as u64;

impl Record {
    /// A record without expiry.
    pub fn new(value: Value) -> Self {
        Self { value, expiry: None, modified: Timestamp::ZERO }
    }

    /// When the key ceases to exist, in milliseconds since 1970.
    #[inline]
    pub fn expire_at_ms(&self) -> Option<u64> {
        self.expiry.map(|at| at.get() - 1)
    }

    /// The first moment at which a part of the value expires, of those after `after_ms` if that is given; in
    /// milliseconds since 1970.
    #[inline]
    pub fn next_part_expiry_ms(&self, after_ms: Option<u64>) -> Option<u64> {
        self.value.next_part_expiry_ms(after_ms)
    }

    /// The record without the parts that have expired at a moment, in milliseconds since 1970; `None` if
    /// nothing is left.
    pub fn left_at(mut self, now_ms: u64) -> Option<Self> {
        self.value.expire_parts(now_ms, usize::MAX);
        if self.value.is_empty() { None } else { Some(self) }
    }

    /// Whether neither the key nor a part of the value expires.
    pub fn lasts(&self) -> bool {
        self.expiry.is_none() && self.next_part_expiry_ms(None).is_none()
    }

    /// Whether the key is there at a moment, in milliseconds since 1970.
    pub fn is_live(&self, now_ms: u64) -> bool {
        self.expire_at_ms().is_none_or(|at| at > now_ms) && self.value.outlives(now_ms)
    }

    /// Sets when the key ceases to exist, in milliseconds since 1970; [`EXPIRE_AT_MS_MAX`] at the latest.
    #[inline]
    pub fn set_expiry(&mut self, at_ms: Option<u64>) {
        self.expiry = at_ms.and_then(|at| NonZeroU64::new(at.min(EXPIRE_AT_MS_MAX) + 1));
    }

    /// The record with another expiry.
    #[must_use]
    pub fn expiring(mut self, at_ms: Option<u64>) -> Self {
        self.set_expiry(at_ms);
        self
    }

    /// Approximate size in memory, by counting the parts that a snapshot would write.
    pub fn heap_bytes(&self) -> usize {
        struct Sizer(usize);
        impl ValueSink for Sizer {
            fn bytes(&mut self, bytes: &[u8]) {
                self.0 += bytes.len() + 24;
            }
            fn number(&mut self, _: u64) {
                self.0 += 8;
            }
        }
        let mut sizer = Sizer(size_of::<Self>());
        self.value.save(&mut sizer);
        sizer.0
    }
}

/// Answers a read on the record under a key.
pub fn query(record: Option<&Record>, op: &Op, ctx: &Ctx) -> Reply {
    match op {
        Op::Key(op) => op.query(record, ctx.now_ms),
        _ => query_value(record.map(|r| &r.value), op, ctx),
    }
}

/// [`query`] from what is left at the time of the context, by which the record, or parts of its value, may
/// have expired that the log has not removed yet.
pub fn query_left(record: Option<&Record>, op: &Op, ctx: &Ctx) -> Reply {
    match record.filter(|record| record.is_live(ctx.now_ms)) {
        Some(record) if !matches!(op, Op::Key(_)) => query_left_of(&record.value, op, ctx),
        record => query(record, op, ctx),
    }
}

/// Carries out an operation on the record under a key, and answers it. A read changes nothing.
pub fn apply(slot: &mut Option<Record>, op: &Op, ctx: &Ctx) -> Reply {
    carry_out(slot, op, ctx).0
}

/// [`apply`], which also returns whether anything has changed.
pub fn carry_out(slot: &mut Option<Record>, op: &Op, ctx: &Ctx) -> (Reply, bool) {
    if !op.is_write() {
        return (query(slot.as_ref(), op, ctx), false);
    }
    let (reply, changed) = apply_value(slot, op, ctx);
    match slot {
        Some(record) if record.value.is_empty() => *slot = None,
        // Operations that commute may be carried out in another order when the log is replayed; the
        // largest timestamp is the same in every order, and guards compare it. An operation that
        // changed nothing counts as well: whether it did may depend on the order.
        Some(record) if !reply.is_error() => record.modified = record.modified.max(ctx.ts),
        _ => {}
    }
    (reply, changed)
}

/// The reply of a write that would change nothing on the record under a key at a time, in
/// milliseconds since 1970: see [`DataType::idle`].
pub fn idle(record: Option<&Record>, op: &Op, now_ms: u64) -> Option<Reply> {
    if op.may_be_idle() { idle_by_type(record, op, now_ms) } else { None }
}

/// The reply that [`apply`] would give for a write on the record under a key, which is neither changed nor
/// copied, however large it is; `None` if its type does not know it as cheaply, and for a read: see
/// [`DataType::FORECAST`].
pub fn foretell(record: Option<&Record>, op: &Op, ctx: &Ctx) -> Option<Reply> {
    if op.is_write() { foretell_by_type(record, op, ctx) } else { None }
}

/// Whether a write may be carried out on a copy of the record under a key ahead of the log: see
/// [`DataType::FORESIGHT`]. Nothing is foreseen of a record that expires, or of which a part does.
pub fn is_foreseeable(record: Option<&Record>, op: &Op) -> bool {
    let is_cheap = matches!(op, Op::Key(_)) || record.is_none_or(costs_little);
    is_cheap && stays_foreseeable(record, op)
}

/// [`is_foreseeable`] for a copy that was made before, however large it is.
pub fn stays_foreseeable(record: Option<&Record>, op: &Op) -> bool {
    record.is_none_or(Record::lasts) && follows_by_type(op).is_some_and(|(follows, _)| follows)
}

/// Whether the effect and the reply of a write follow from the record and the time, so that it can be carried
/// out on a copy at a time that the log will name; `None` if its type does not know: see
/// [`DataType::FORESIGHT`].
pub fn follows_in_time(op: &Op) -> Option<bool> {
    follows_by_type(op).map(|(_, in_time)| in_time)
}

/// Highest cost of a copy that is made without need.
const COPY_COST_SMALL: usize = 64;

/// Cost of a copy of a record: the number of its members, or of pieces of 64 bytes. None if its type does
/// not know it.
pub fn copy_cost(record: &Record) -> Option<usize> {
    copy_cost_by_type(&record.value)
}

/// Whether a copy of a record costs little; it may expire.
pub fn costs_little(record: &Record) -> bool {
    copy_cost(record).is_some_and(|cost| cost <= COPY_COST_SMALL)
}

/// Whether a copy of a record costs little, and a read of it gives the same at any time: neither it nor a
/// part of it expires, and its type knows what a copy costs (see [`DataType::FORESIGHT`]).
pub fn is_small(record: &Record) -> bool {
    record.lasts() && costs_little(record)
}

/// The quantity that a record is: see [`DataType::QUANTITY`]. A record that expires is none.
pub fn amount(record: Option<&Record>) -> Option<Amount> {
    record.filter(|record| record.expire_at_ms().is_none()).and_then(amount_by_type)
}

/// Whether two accesses to the record under a key commute: see [`DataType::commutes`].
pub fn commutes(record: Option<&Record>, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
    match (a.op.is_write(), b.op.is_write()) {
        (false, false) => return true,
        // A write that may remove the key forgets its expiry, so its order with a write that
        // would make the key anew shows in the expiry.
        (true, true) if record.is_some_and(|r| r.expire_at_ms().is_some()) => {
            return a.op.preserves_key() && b.op.preserves_key() && commutes_by_type(record, a, b);
        }
        _ => {}
    }
    match (a.op, b.op) {
        (Op::Key(KeyOp::Exists | KeyOp::Type | KeyOp::Ttl(_)), other)
        | (other, Op::Key(KeyOp::Exists | KeyOp::Type | KeyOp::Ttl(_))) => {
            record.is_some() && other.preserves_key()
        }
        (Op::Key(_), _) | (_, Op::Key(_)) => false,
        _ => commutes_by_type(record, a, b),
    }
}

/// The data command called `name` (any case), internal forms excluded.
pub fn command(name: &[u8]) -> Option<&'static CommandSpec> {
    static TABLE: OnceLock<HashMap<&'static [u8], &'static CommandSpec>> = OnceLock::new();
    lookup(TABLE.get_or_init(|| data_commands().map(|c| (c.name.as_bytes(), c)).collect()), name)
}

fn lookup(
    table: &HashMap<&'static [u8], &'static CommandSpec>,
    name: &[u8],
) -> Option<&'static CommandSpec> {
    let mut lower = [0; 32];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    table.get(&*lower).copied()
}

/// Forms that only the log uses.
fn internal() -> impl Iterator<Item = &'static CommandSpec> {
    let types = [
        crate::whole::INTERNAL,
        crate::kinds::zset::INTERNAL,
        crate::kinds::lock::INTERNAL,
        crate::kinds::barrier::INTERNAL,
        crate::kinds::log::INTERNAL,
        crate::kinds::uid::INTERNAL,
        crate::kinds::stream::INTERNAL,
    ];
    key::INTERNAL.iter().chain(types.into_iter().flatten())
}

/// Reads an operation back from the words that [`Op::encode`] wrote.
pub fn decode(args: &Args<'_>) -> Result<(crate::Blob, Op), ErrorReply> {
    let name = args.get(0).unwrap_or_default();
    let spec = command(name)
        .or_else(|| internal().find(|c| c.name.as_bytes() == name))
        .ok_or_else(|| ErrorReply::err("unknown operation in the log"))?;
    spec.check_arity(args.len())?;
    let Handler::Data(parse) = spec.handler else {
        return Err(ErrorReply::err("not a data command"));
    };
    match parse(args)? {
        Command::Single(key, op) | Command::Awaiting(Awaiting { key, op, .. }) => Ok((key, op)),
        _ => Err(ErrorReply::err("not an operation on one key")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_record_takes_forty_bytes_besides_what_its_value_points_to() {
        // A value is a string of up to 22 bytes, or a pointer or two. What is rare or large is behind it.
        assert_eq!(size_of::<Value>(), 24);
        // With the expiry and the time of the last change.
        assert_eq!(size_of::<Record>(), 40);
        // An absent record has its tag in common with the value.
        assert_eq!(size_of::<Option<Record>>(), 40);
    }

    #[test]
    fn an_expiry_is_held_as_it_was_set() {
        let record = Record::new(Value::Barrier(Default::default()));
        assert_eq!(record.expire_at_ms(), None);
        for at in [0, 1, 1_700_000_000_999, EXPIRE_AT_MS_MAX] {
            assert_eq!(record.clone().expiring(Some(at)).expire_at_ms(), Some(at));
        }
        let latest = record.clone().expiring(Some(u64::MAX));
        assert_eq!(latest.expire_at_ms(), Some(EXPIRE_AT_MS_MAX));
        assert_eq!(latest.expiring(None), record);
    }
}
