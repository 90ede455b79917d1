//! Pipelines over several shards at one of their shards (`docs/internals/order/streams.md`).
//!
//! [`KeptStreams`] is the replicated memory of them, a part of the state. [`Streams`] is a leader's
//! knowledge beyond the log; its fields are parts with state of their own: messages and dirty streams
//! (`agenda`), streams that are not let in (`refusals`), the time until streams are forgotten (`memory`),
//! and streams whose order is handed on (`chain`). `wiring` connects them with the rest of the shard.

mod agenda;
mod chain;
mod inherit;
mod kept;
mod leader;
mod live;
mod memory;
mod refusals;
mod wiring;

pub use chain::KeptChain;
pub(super) use chain::{ChainEffect, RECOVERY, claim_class, is_own};
pub use kept::{KeptStream, KeptStreams};
pub use leader::Streams;
