//! Order of operations across shards: a specification that is small enough for checking all its
//! executions. See `docs/internals/order/`.
//!
//! Some clients issue a few operations without waiting for replies. Messages may be late,
//! duplicated and reordered; leaders may change at any moment, and a deposed one may go on for a
//! while without noticing. [`constant::Constant`] and [`chain::Chained`] define the behaviour of
//! shards, and [`judge`] the invariants of every state:
//!
//! - no client receives two different results of an operation;
//! - there is one order of all operations that agrees with all results, with the order in which
//!   each client has issued its own, and with real time;
//! - an operation reported as failed has no effect;
//! - no operation waits for ever.
//!
//! Every operation appends its name to a list and returns the list before that, or only reads the
//! list: no other operations reveal more about the order.
//!
//! For each rule of a protocol that must not be weakened there is a `Mutant` that weakens it, and
//! the tests require an execution in which that violates an invariant.
//!
//! [`successor`] specifies a lock whose next holder is named in the log before the release: the
//! guarantees for clients if a leader notifies the successor at once, and is lost with the release.
//!
//! The state space is searched by the library `stateright`.

pub mod chain;
pub mod clients;
pub mod constant;
pub mod judge;
pub mod story;
pub mod successor;
pub mod world;
