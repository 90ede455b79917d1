//! Data types, their operations and replies, and the commutativity of operations.
//!
//! This crate is pure. It contains no clock, randomness, IO, threads or async, and it does not know
//! where keys are placed, nor shards, logs or locks: an operation is given a state and returns a
//! reply. One file per data type holds everything about it (state, operations, command table, lock
//! modes, commutativity, serialization, tests); [`record`] is the registry.

mod blob;
pub mod collections;
pub mod command;
pub mod key;
pub mod kinds;
pub mod known;
pub mod laws;
mod number;
pub mod random;
pub mod record;
mod reply;
mod types;
mod waiter;
mod whole;

pub use crate::command::args::{ArgBuf, Args, format_float, parse_float, parse_int};
pub use blob::Blob;
pub use command::{
    Attempt, Awaiting, Begins, Blocking, Command, CommandSpec, Compound, Flags, Handler, Keys,
    Merge, Next, NextFn, Plan,
};
pub use kinds::extension;
pub use record::{Mode, Op, Record, Value};
pub use reply::{ErrorReply, Reply};
pub use types::escrow;
pub use types::{
    Access, CameOf, Corrupt, Ctx, DataType, Forecast, Foresight, Meta, MortalParts, NUMBER_MAX,
    OtherType, Timestamp, ValueSink, ValueSource, bounded_count, load_count,
};
pub use waiter::{Waiter, in_the_way, naming};
pub use whole::Whole;
