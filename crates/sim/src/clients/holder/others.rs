//! Further acts of clients of locks: they stand for election, follow leaders, and meet at a
//! barrier.

use crate::clients::client::Action;
use crate::clients::holder::open::words;
use crate::clients::holder::{Holder, Stage};
use check::locks::What;

/// Barrier of all clients.
const BARRIER: &str = "barrier";

impl Holder {
    /// Draws whether the act concerns leaders.
    pub(in crate::clients::holder) fn elects(&mut self) -> bool {
        let percent = self.habits.elections_percent;
        percent > 0 && self.random.percent(percent)
    }

    /// Value that no other client writes.
    pub(in crate::clients::holder) fn unique_value(&self, what: &str) -> String {
        format!("{what}.{}.{}", self.id, self.acts.len())
    }

    /// Waits for a new leader, or for a new value of the leader, since the last observation;
    /// sometimes as if there had been none.
    pub(in crate::clients::holder) fn observe(&mut self, now_us: u64, lock: String) -> Vec<Action> {
        let seen = self.seen.get(&lock).copied().unwrap_or_default();
        let seen = if self.random.percent(50) { seen } else { 0 };
        let timeout_ms = self.random.between(1, 2 * self.habits.lease_ms);
        let question = format!("election.observe {lock} after {seen} timeout {timeout_ms}");
        let act = self.act(now_us, What::Observe { lock, seen });
        self.send(act, vec![words(&question)])
    }

    /// Publishes a value as the leader, or as a client that believes to be the leader.
    pub(in crate::clients::holder) fn proclaim(
        &mut self,
        now_us: u64,
        lock: String,
        token: u64,
    ) -> Vec<Action> {
        let value = self.unique_value("proclaimed");
        let proclamation = format!("election.proclaim {lock} {token} {value}");
        let act = self.act(now_us, What::Proclaim { lock, token, value });
        self.send(act, vec![words(&proclamation)])
    }

    /// Waits at the barrier.
    pub(in crate::clients::holder) fn meet(
        &mut self,
        now_us: u64,
        number: Option<u64>,
    ) -> Vec<Action> {
        let (barrier, parties) = (BARRIER.to_owned(), self.habits.parties);
        let act = self.act(now_us, What::Meet { barrier, parties, again: false });
        self.stage = Stage::Asking(act, number);
        self.ask(act, number)
    }
}
