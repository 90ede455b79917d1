//! Data types, their operations and replies, and the commutativity of operations.
//!
//! This crate is pure. It contains no clock, randomness, IO, threads or async, and it does not know
//! where keys are placed, nor shards, logs or locks: an operation is given a state and returns a
//! reply. One file per data type holds everything about it (state, operations, command table, lock
//! modes, commutativity, serialization, tests); [`record`] is the registry.

mod args;
pub mod bag;
pub mod barrier;
mod blob;
pub mod collections;
mod command;
pub mod counter;
pub mod glob;
pub mod hash;
pub mod key;
pub mod known;
#[cfg(test)]
mod laws;
pub mod list;
pub mod lock;
pub mod log;
mod number;
pub mod random;
pub mod record;
mod reply;
pub mod scan;
pub mod set;
pub mod string;
pub mod syntax;
pub mod topk;
mod types;
pub mod uid;
mod waiter;
mod whole;
pub mod zset;

pub use args::{ArgBuf, Args, format_float, parse_float, parse_int};
pub use blob::Blob;
pub use command::{
    Attempt, Awaiting, Blocking, Command, CommandSpec, Compound, Flags, Handler, Keys, Merge, Plan,
    PlanFn,
};
pub use record::{Mode, Op, Record, Value};
pub use reply::{ErrorReply, Reply};
pub use types::{
    Access, CameOf, Corrupt, Ctx, DataType, Meta, NUMBER_MAX, OtherType, Timestamp, ValueSink,
    ValueSource, load_count,
};
pub use waiter::{Waiter, in_the_way, naming};
pub use whole::Whole;
