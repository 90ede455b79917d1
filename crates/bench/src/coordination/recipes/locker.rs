//! Interface between the load generator and the lock algorithms.
//!
//! Each algorithm family is one file: [`super::znodes`] has the recipes on nodes of ZooKeeper's
//! protocol, [`crate::coordination::grants`] the server's own lock, over the Redis protocol.

use crate::coordination::services::client::Counts;
use std::io;

/// An event that a locker reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A request has been granted the lock.
    Granted {
        /// The request.
        request: usize,
        /// Fencing token of the grant: later grants have larger ones.
        token: i64,
    },
    /// The release is complete at the service.
    Released {
        /// The request.
        request: usize,
    },
}

/// An algorithm for one lock, used by many clients.
pub trait Locker {
    /// Nanoseconds on the clock of all reported times.
    fn now_ns(&self) -> u64;

    /// Requests the lock for a client. The caller numbers the requests, using each number once.
    fn acquire(&mut self, request: usize, client: usize);

    /// Releases the lock that the request holds.
    fn release(&mut self, request: usize);

    /// Runs until there is an event to report, at most until `until_ns`.
    ///
    /// # Errors
    /// A session is lost or the service sends an invalid answer.
    fn wait(&mut self, until_ns: u64, told: &mut Vec<Told>) -> io::Result<()>;

    /// Messages sent and received so far.
    fn counts(&self) -> Counts;
}
