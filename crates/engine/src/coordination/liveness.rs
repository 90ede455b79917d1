//! Detection of silent sessions, in the leader's memory. The leader decides that a session has
//! ended, and only the log makes that effective.

use super::request::TreeSessionId;
use crate::limits::LOOK_AGAIN_US;
use std::collections::{BTreeMap, BTreeSet};

/// Deadline of each session without a sign of life, by the leader's monotonic clock.
#[derive(Debug, Default)]
pub struct Liveness {
    sessions: BTreeMap<TreeSessionId, Heard>,
    /// Times of the next checks, the earliest first. A session with a later sign of life keeps its
    /// old time here until that comes.
    due: BTreeSet<(u64, TreeSessionId)>,
}

#[derive(Debug)]
struct Heard {
    timeout_us: u64,
    /// Deadline of the session.
    ends_us: u64,
    /// Time of its next check, as in `due`.
    due_us: u64,
}

impl Liveness {
    /// Starts a session's deadline anew, when it begins or when a leader begins to watch over it.
    pub fn begin(&mut self, session: TreeSessionId, timeout_ms: i32, now_us: u64) {
        self.end(session);
        let timeout_us = u64::try_from(timeout_ms).unwrap_or(0) * 1000;
        let ends_us = now_us + timeout_us;
        self.sessions.insert(session, Heard { timeout_us, ends_us, due_us: ends_us });
        self.due.insert((ends_us, session));
    }

    /// Records a sign of life of a session.
    pub fn hear(&mut self, session: TreeSessionId, now_us: u64) {
        if let Some(heard) = self.sessions.get_mut(&session) {
            heard.ends_us = now_us + heard.timeout_us;
        }
    }

    /// Forgets a session that has ended.
    pub fn end(&mut self, session: TreeSessionId) {
        if let Some(heard) = self.sessions.remove(&session) {
            self.due.remove(&(heard.due_us, session));
        }
    }

    /// Time of the next call of [`Liveness::silent`].
    pub fn next_us(&self) -> Option<u64> {
        self.due.first().map(|(at_us, _)| *at_us)
    }

    /// Returns the sessions that have been silent for too long. Each is returned once; the caller
    /// ends it or starts its deadline anew. Sessions that must not end yet, by `waits`, are checked
    /// again shortly.
    pub fn silent(
        &mut self,
        now_us: u64,
        waits: impl Fn(TreeSessionId) -> bool,
    ) -> Vec<TreeSessionId> {
        let mut silent = Vec::new();
        while let Some((at_us, session)) = self.due.first().copied()
            && at_us <= now_us
        {
            self.due.pop_first();
            let Some(heard) = self.sessions.get_mut(&session) else { continue };
            if heard.ends_us > now_us {
                heard.due_us = heard.ends_us;
                self.due.insert((heard.due_us, session));
            } else if waits(session) {
                heard.due_us = now_us + LOOK_AGAIN_US;
                self.due.insert((heard.due_us, session));
            } else {
                self.sessions.remove(&session);
                silent.push(session);
            }
        }
        silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: TreeSessionId = TreeSessionId(1);
    const BEN: TreeSessionId = TreeSessionId(2);

    #[test]
    fn a_session_with_signs_of_life_stays_and_a_silent_one_is_reported_once() {
        let mut liveness = Liveness::default();
        liveness.begin(ANN, 10, 0);
        liveness.begin(BEN, 10, 0);
        assert_eq!(liveness.next_us(), Some(10_000));
        liveness.hear(ANN, 9_000);
        assert_eq!(liveness.silent(9_999, |_| false), []);
        assert_eq!(liveness.silent(10_000, |_| false), [BEN]);
        assert_eq!(liveness.next_us(), Some(19_000));
        assert_eq!(liveness.silent(18_999, |_| false), []);
        assert_eq!(liveness.silent(30_000, |session| session == ANN), [], "it waits");
        assert_eq!(liveness.next_us(), Some(30_000 + LOOK_AGAIN_US));
        assert_eq!(liveness.silent(30_000 + LOOK_AGAIN_US, |_| false), [ANN]);
        assert_eq!(liveness.next_us(), None);
        liveness.hear(ANN, 90_000);
        assert_eq!(liveness.silent(99_000, |_| false), []);
    }

    #[test]
    fn an_ended_session_is_not_reported() {
        let mut liveness = Liveness::default();
        liveness.begin(ANN, 10, 0);
        liveness.hear(ANN, 5_000);
        liveness.end(ANN);
        assert_eq!(liveness.silent(99_000, |_| false), []);
        liveness.begin(ANN, 10, 100_000);
        liveness.begin(ANN, 20, 100_000);
        assert_eq!(liveness.silent(110_000, |_| false), []);
        assert_eq!(liveness.silent(120_000, |_| false), [ANN]);
    }
}
