//! Interface of a service with nodes, as recipes and single operations need it: sessions that send
//! requests and receive answers and notifications.
//!
//! ZooKeeper's protocol is one implementation ([`Client`]). Another program can have another one,
//! and all code that is written for this trait runs there unchanged
//! ([`tasks`](crate::coordination::services::tasks)).

use crate::coordination::services::client::{Answer, Client, Counts, Heard};
use std::io::{self, ErrorKind};
use wire::jute::{Ask, Code, Reply};

/// Time limit of an awaited answer.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Sessions of clients.
pub trait Nodes {
    /// Nanoseconds on the clock of all reported times.
    fn now_ns(&self) -> u64;

    /// Number of sessions.
    fn sessions(&self) -> usize;

    /// Queues a request; `tag` comes back with the answer. The next wait sends it.
    fn ask(&mut self, session: usize, tag: u64, what: Ask);

    /// Schedules a [`Heard::Due`] event.
    fn remind(&mut self, at_ns: u64, what: usize);

    /// Sends the queued requests, and waits for an event, at most until `until_ns`.
    ///
    /// # Errors
    /// A session was lost, or the service sends an invalid answer.
    fn wait(&mut self, until_ns: u64, heard: &mut Vec<Heard>) -> io::Result<()>;

    /// Messages sent and received so far.
    fn counts(&self) -> Counts;

    /// Sends a request and waits for its answer, discarding other events.
    ///
    /// # Errors
    /// See [`Nodes::wait`]; also if the answer takes too long.
    fn call(&mut self, session: usize, what: Ask) -> io::Result<Result<Reply, Code>> {
        const TAG: u64 = u64::MAX;
        self.ask(session, TAG, what);
        let until_ns = self.now_ns() + PATIENCE_NS;
        let mut heard = Vec::new();
        while self.now_ns() < until_ns {
            self.wait(until_ns, &mut heard)?;
            for heard in heard.drain(..) {
                if let Heard::Answer(Answer { tag: TAG, result, .. }) = heard {
                    return Ok(result);
                }
            }
        }
        Err(io::Error::new(ErrorKind::TimedOut, "a server does not answer"))
    }
}

impl Nodes for Client {
    fn now_ns(&self) -> u64 {
        Client::now_ns(self)
    }

    fn sessions(&self) -> usize {
        Client::sessions(self)
    }

    fn ask(&mut self, session: usize, tag: u64, what: Ask) {
        Client::ask(self, session, tag, what);
    }

    fn remind(&mut self, at_ns: u64, what: usize) {
        Client::remind(self, at_ns, what);
    }

    fn wait(&mut self, until_ns: u64, heard: &mut Vec<Heard>) -> io::Result<()> {
        Client::wait(self, until_ns, heard)
    }

    fn counts(&self) -> Counts {
        Client::counts(self)
    }
}
