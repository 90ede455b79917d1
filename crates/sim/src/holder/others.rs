//! What clients of locks do besides: they are elected, follow leaders, and meet at a barrier.

use super::open::words;
use super::{Holder, Stage};
use crate::client::Wish;
use check::locks::What;

/// At which all meet.
const BARRIER: &str = "barrier";

impl Holder {
    /// Whether it is about leaders this time.
    pub(super) fn elects(&mut self) -> bool {
        let percent = self.habits.elections_percent;
        percent > 0 && self.random.percent(percent)
    }

    /// Something that nobody else says.
    pub(super) fn says(&self, what: &str) -> String {
        format!("{what}.{}.{}", self.id, self.acts.len())
    }

    /// It waits for another leader, or for something else that the leader says, than it was told last;
    /// sometimes as if it had been told nothing.
    pub(super) fn observe(&mut self, now_us: u64, lock: String) -> Vec<Wish> {
        let seen = self.seen.get(&lock).copied().unwrap_or_default();
        let seen = if self.random.percent(50) { seen } else { 0 };
        let timeout_ms = self.random.between(1, 2 * self.habits.lease_ms);
        let question = format!("election.observe {lock} after {seen} timeout {timeout_ms}");
        let act = self.act(now_us, What::Observe { lock, seen });
        self.send(act, vec![words(&question)])
    }

    /// It says something as a leader, or as one who thinks that it leads.
    pub(super) fn proclaim(&mut self, now_us: u64, lock: String, token: u64) -> Vec<Wish> {
        let value = self.says("proclaimed");
        let proclamation = format!("election.proclaim {lock} {token} {value}");
        let act = self.act(now_us, What::Proclaim { lock, token, value });
        self.send(act, vec![words(&proclamation)])
    }

    /// It comes to the barrier.
    pub(super) fn meet(&mut self, now_us: u64, number: Option<u64>) -> Vec<Wish> {
        let (barrier, parties) = (BARRIER.to_owned(), self.habits.parties);
        let act = self.act(now_us, What::Meet { barrier, parties, again: false });
        self.stage = Stage::Asking(act, number);
        self.ask(act, number)
    }
}
