//! How operations are ordered across shards: a specification that is small enough to be checked in every
//! possible course. See `docs/internals/order.md`.
//!
//! Some clients issue a few operations without waiting for replies. Messages may be late, come twice
//! and overtake each other; leaders may change at any moment, and a deposed one may go on for a while
//! without noticing. [`constant::Constant`] and [`chain::Chained`] say what shards do then, and
//! [`judge`] says what must be true of every state:
//!
//! - nobody is told two different results;
//! - there is one order of all operations that agrees with all results, with the order in which each
//!   client has issued its own, and with real time;
//! - an operation that is said to have failed has no effect;
//! - nothing waits for ever.
//!
//! Every operation appends its name to a list and returns what the list was before, or only reads the
//! list: nothing tells more about the order.
//!
//! Each rule of a protocol that must not be weakened is weakened by a `Mutant`, and the tests hold that a
//! course is found in which that goes wrong.
//!
//! [`successor`] is about a lock, whose next holder is named in the log before the release: what
//! clients may rely on if a leader tells whoever is next at once, and is lost with the release.
//!
//! The state space is searched by the library `stateright`.

pub mod chain;
pub mod clients;
pub mod constant;
pub mod judge;
pub mod story;
pub mod successor;
pub mod world;
