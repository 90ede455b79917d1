//! What recipes and single operations need of a service that has nodes: sessions that ask, are
//! answered and are told what happens.
//!
//! ZooKeeper's protocol is one way to have them ([`Client`]). Another program can have others, and
//! everything that is written for this trait runs there as it is ([`super::tasks`]).

use super::client::{Answer, Client, Counts, Heard};
use std::io::{self, ErrorKind};
use wire::jute::{Ask, Code, Reply};

/// How long an answer may take that is waited for.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Sessions of clients.
pub trait Nodes {
    /// Nanoseconds on the clock that all moments are told by.
    fn now_ns(&self) -> u64;

    /// How many sessions there are.
    fn sessions(&self) -> usize;

    /// Asks for something; `tag` comes back with the answer. It is sent by the next wait.
    fn ask(&mut self, session: usize, tag: u64, what: Ask);

    /// Lets [`Heard::Due`] be heard at a moment.
    fn remind(&mut self, at_ns: u64, what: usize);

    /// Sends what was asked, and waits until something is heard, at most until a moment.
    ///
    /// # Errors
    /// A session was lost, or the service answers what cannot be understood.
    fn wait(&mut self, until_ns: u64, heard: &mut Vec<Heard>) -> io::Result<()>;

    /// What was sent and received so far.
    fn counts(&self) -> Counts;

    /// Asks for something and waits for the answer, in which nothing else is heard.
    ///
    /// # Errors
    /// As for [`Nodes::wait`], and if the answer takes too long.
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
