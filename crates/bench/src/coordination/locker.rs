//! What the generator of load knows of a way to take locks.
//!
//! Everything below it is one file per way: [`super::znodes`] has the recipes on nodes of
//! ZooKeeper's protocol, [`super::grants`] the server's own lock, over the Redis protocol.

use super::client::Counts;
use std::io;

/// What a locker tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A request has the lock.
    Granted {
        /// Which.
        request: usize,
        /// The change by which it has it: whoever has the lock later has a larger one.
        token: i64,
    },
    /// The lock was given back, as far as the service is concerned.
    Released {
        /// By this request.
        request: usize,
    },
}

/// A way to take one lock, for many clients.
pub trait Locker {
    /// Nanoseconds on the clock that all moments are told by.
    fn now_ns(&self) -> u64;

    /// A client wants the lock. Requests are numbered by the caller, each number once.
    fn acquire(&mut self, request: usize, client: usize);

    /// Gives the lock back, which the request has.
    fn release(&mut self, request: usize);

    /// Goes on until there is something to tell, at most until a moment.
    ///
    /// # Errors
    /// A session is lost or the service answers what it must not.
    fn wait(&mut self, until_ns: u64, told: &mut Vec<Told>) -> io::Result<()>;

    /// What was sent and received so far.
    fn counts(&self) -> Counts;
}
