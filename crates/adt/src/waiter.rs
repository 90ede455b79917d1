//! The contract of data types whose operations wait: locks and barriers.
//!
//! Waiting is not part of a value's state. An operation that cannot go on answers nil, the shard
//! keeps it in a queue in the order of arrival, and asks the type what wakes it, what takes a grant
//! back, and who can be named as the next holder before the lock is released
//! (`docs/adr/0018-named-successor.md`).

use crate::types::CameOf;
use crate::{Blob, Ctx, DataType, Op, Record, Reply, Value};

/// A data type with operations that wait in the shard's queue of a record.
pub trait Waiter: DataType {
    /// Whether `op`, by itself and outside of transactions, waits while its reply is nil. The client
    /// is answered when the reply is another one, in the order of arrival, or when the wait is over.
    fn waits(op: &Self::Op) -> bool;

    /// Whether the operations that follow `op` in one request are carried out only if the reply of
    /// `op` is a number, which is then their fencing token.
    fn opens_section(_op: &Self::Op) -> bool {
        false
    }

    /// Number of waiters with such an operation that are released together as soon as so many have
    /// arrived; `None` if they are served one by one.
    fn parties(_op: &Self::Op) -> Option<u32> {
        None
    }

    /// Log operation of a waiter that is released together with others, `in_front` of them before it.
    fn together(_op: &Self::Op, _in_front: u32) -> Option<Self::Op> {
        None
    }

    /// How many numbers `op` takes, of which the last is the number of its commit timestamp
    /// ([`crate::Timestamp::number`]), so that all of them are larger than the numbers of all
    /// timestamps before it.
    fn reserves(_op: &Self::Op) -> u32 {
        0
    }

    /// Whether `op` waits beside the queue: it changes nothing, is never carried out, and is answered
    /// when its reply is not nil, or with the length of the queue as soon as that is not empty.
    fn listens(_op: &Self::Op) -> bool {
        false
    }

    /// Operation that takes back a grant with this reply whose waiter is gone.
    fn undone(_op: &Self::Op, _reply: &Reply) -> Option<Self::Op> {
        None
    }

    /// Name of the waiter, if it has one: a waiter with a name waits for nothing else at the same time.
    fn waiter(_op: &Self::Op) -> Option<&Blob> {
        None
    }

    /// Ticket of a waiter that can be named as a successor: the same in every repetition of the
    /// request, and empty until the shard has given one.
    fn ticket(_op: &Self::Op) -> Option<&Blob> {
        None
    }

    /// Gives a waiter without a ticket this one.
    fn give_ticket(_op: &mut Self::Op, _ticket: Blob) {}

    /// Whether `op` names a waiter as the last successor, and does nothing else.
    fn names(_op: &Self::Op) -> bool {
        false
    }

    /// Ticket of the current holder, if exactly one exists. The grant may not have been delivered yet.
    fn whose_turn(&self) -> Option<&Blob> {
        None
    }

    /// Tickets of all named successors, each with the lease that its owner was promised, in
    /// milliseconds.
    fn named(&self) -> Vec<(&Blob, u64)> {
        Vec::new()
    }

    /// Whether the waiter with this ticket is a named successor whose grant will have this reply.
    fn is_named(&self, _ticket: &Blob, _reply: &Reply) -> bool {
        false
    }

    /// Log operation that names the waiter of `op` as the last successor, if that is possible now.
    fn naming(&self, _op: &Self::Op, _now_ms: u64) -> Option<Self::Op> {
        None
    }

    /// Log operation that removes the waiter of `op`, which has left, from the successors.
    fn unnaming(_op: &Self::Op) -> Option<Self::Op> {
        None
    }

    /// Log operation that removes a stale successor, unless it has become the holder.
    fn forgetting(_ticket: &Blob) -> Option<Self::Op> {
        None
    }

    /// Whether `op` is refused rather than kept waiting in a deadlock cycle.
    fn detects(_op: &Self::Op) -> bool {
        false
    }

    /// Names of all holders that must release before `op`, which waits, can be carried out.
    fn in_the_way(&self, _op: &Self::Op, _now_ms: u64) -> Vec<Blob> {
        Vec::new()
    }

    /// Outcome of an operation on a lock, for the counters; `None` if there is none to count.
    fn came_of(_op: &Self::Op, _reply: &Reply, _ctx: &Ctx) -> Option<CameOf> {
        None
    }

    /// Columns that describe a waiter in the list of waiters.
    fn wish(_op: &Self::Op) -> Vec<Reply> {
        Vec::new()
    }

    /// Whether a waiter is likely to go on after `op`, so that its grant is worth writing into the log
    /// right behind it.
    fn lets_go(_op: &Self::Op) -> bool {
        false
    }
}

/// The types that wait. All others answer as an operation that never does.
macro_rules! waiters {
    ($($variant:ident => $module:ident),* $(,)?) => {
        impl Op {
            /// Whether the operation waits while its reply is nil: see [`Waiter::waits`].
            pub fn waits(&self) -> bool {
                match self {
                    $(Self::$variant(op) => <crate::kinds::$module::Value as Waiter>::waits(op),)*
                    _ => false,
                }
            }

            /// Whether the operations behind it depend on its reply: see [`Waiter::opens_section`].
            pub fn opens_section(&self) -> bool {
                match self {
                    $(Self::$variant(op) => <crate::kinds::$module::Value as Waiter>::opens_section(op),)*
                    _ => false,
                }
            }

            /// How many waiters are released together: see [`Waiter::parties`].
            pub fn parties(&self) -> Option<u32> {
                match self {
                    $(Self::$variant(op) => <crate::kinds::$module::Value as Waiter>::parties(op),)*
                    _ => None,
                }
            }

            /// Log operation of a waiter that is released with others: see [`Waiter::together`].
            pub fn together(&self, in_front: u32) -> Option<Self> {
                match self {
                    $(Self::$variant(op) => {
                        let op = <crate::kinds::$module::Value as Waiter>::together(op, in_front);
                        op.map(Self::$variant)
                    })*
                    _ => None,
                }
            }

            /// How many numbers it takes that end with its timestamp: see [`Waiter::reserves`].
            pub fn reserves(&self) -> u32 {
                match self {
                    $(Self::$variant(op) => <crate::kinds::$module::Value as Waiter>::reserves(op),)*
                    _ => 0,
                }
            }

            /// Whether it waits beside the queue: see [`Waiter::listens`].
            pub fn listens(&self) -> bool {
                match self {
                    $(Self::$variant(op) => <crate::kinds::$module::Value as Waiter>::listens(op),)*
                    _ => false,
                }
            }

            /// Operation that takes back a grant whose waiter is gone: see [`Waiter::undone`].
            pub fn undone(&self, reply: &Reply) -> Option<Self> {
                match self {
                    $(Self::$variant(op) => {
                        <crate::kinds::$module::Value as Waiter>::undone(op, reply).map(Self::$variant)
                    })*
                    _ => None,
                }
            }

            /// Name of the waiter: see [`Waiter::waiter`].
            pub fn waiter(&self) -> Option<&Blob> {
                match self {
                    $(Self::$variant(op) => <crate::kinds::$module::Value as Waiter>::waiter(op),)*
                    _ => None,
                }
            }

            /// Ticket of a waiter that can be named as a successor: see [`Waiter::ticket`].
            pub fn ticket(&self) -> Option<&Blob> {
                match self {
                    $(Self::$variant(op) => <crate::kinds::$module::Value as Waiter>::ticket(op),)*
                    _ => None,
                }
            }

            /// Gives a waiter without a ticket this one: see [`Waiter::give_ticket`].
            pub fn give_ticket(&mut self, ticket: Blob) {
                match self {
                    $(Self::$variant(op) => {
                        <crate::kinds::$module::Value as Waiter>::give_ticket(op, ticket)
                    })*
                    _ => {}
                }
            }

            /// Whether it names a successor: see [`Waiter::names`].
            pub fn names(&self) -> bool {
                match self {
                    $(Self::$variant(op) => <crate::kinds::$module::Value as Waiter>::names(op),)*
                    _ => false,
                }
            }

            /// Log operation that removes a waiter that has left: see [`Waiter::unnaming`].
            pub fn unnaming(&self) -> Option<Self> {
                match self {
                    $(Self::$variant(op) => {
                        <crate::kinds::$module::Value as Waiter>::unnaming(op).map(Self::$variant)
                    })*
                    _ => None,
                }
            }

            /// Whether it is refused in a deadlock cycle: see [`Waiter::detects`].
            pub fn detects(&self) -> bool {
                match self {
                    $(Self::$variant(op) => <crate::kinds::$module::Value as Waiter>::detects(op),)*
                    _ => false,
                }
            }

            /// Outcome of an operation on a lock: see [`Waiter::came_of`].
            pub fn came_of(&self, reply: &Reply, ctx: &Ctx) -> Option<CameOf> {
                match self {
                    $(Self::$variant(op) => {
                        <crate::kinds::$module::Value as Waiter>::came_of(op, reply, ctx)
                    })*
                    _ => None,
                }
            }

            /// Columns that describe a waiter: see [`Waiter::wish`].
            pub fn wish(&self) -> Vec<Reply> {
                match self {
                    $(Self::$variant(op) => <crate::kinds::$module::Value as Waiter>::wish(op),)*
                    _ => Vec::new(),
                }
            }

            /// Whether a waiter may go on after it: see [`Waiter::lets_go`].
            pub fn lets_go(&self) -> bool {
                match self {
                    $(Self::$variant(op) => <crate::kinds::$module::Value as Waiter>::lets_go(op),)*
                    _ => false,
                }
            }
        }

        impl Value {
            /// Ticket of the current holder: see [`Waiter::whose_turn`].
            pub fn whose_turn(&self) -> Option<&Blob> {
                match self {
                    $(Self::$variant(value) => value.whose_turn(),)*
                    _ => None,
                }
            }

            /// Log operation that removes a stale successor: see [`Waiter::forgetting`].
            pub fn forgetting(&self, ticket: &Blob) -> Option<Op> {
                match self {
                    $(Self::$variant(_) => {
                        let op = <crate::kinds::$module::Value as Waiter>::forgetting(ticket);
                        op.map(Op::$variant)
                    })*
                    _ => None,
                }
            }

            /// Tickets of all named successors: see [`Waiter::named`].
            pub fn named(&self) -> Vec<(&Blob, u64)> {
                match self {
                    $(Self::$variant(value) => value.named(),)*
                    _ => Vec::new(),
                }
            }

            /// Whether a waiter is a named successor: see [`Waiter::is_named`].
            pub fn is_named(&self, ticket: &Blob, reply: &Reply) -> bool {
                match self {
                    $(Self::$variant(value) => value.is_named(ticket, reply),)*
                    _ => false,
                }
            }
        }

        /// Names of all holders that must release before an operation that waits can be carried
        /// out: see [`Waiter::in_the_way`].
        pub fn in_the_way(record: Option<&Record>, op: &Op, now_ms: u64) -> Vec<Blob> {
            match (record.map(|record| &record.value), op) {
                $((Some(Value::$variant(value)), Op::$variant(op)) => value.in_the_way(op, now_ms),)*
                _ => Vec::new(),
            }
        }

        /// Log operation that names a waiter as the last successor: see [`Waiter::naming`].
        pub fn naming(record: Option<&Record>, op: &Op, now_ms: u64) -> Option<Op> {
            match (record.map(|record| &record.value), op) {
                $((Some(Value::$variant(value)), Op::$variant(op)) => {
                    value.naming(op, now_ms).map(Op::$variant)
                })*
                _ => None,
            }
        }
    };
}

waiters! {
    Lock => lock,
    Barrier => barrier,
}
