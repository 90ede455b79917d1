//! Admission: how many interactive transactions are under way at once.
//!
//! Where transactions conflict, more of them at once means longer waits under more locks, and past
//! a point less gets done. So a gateway watches how often its transactions wait or give way, and
//! lets as many run as do well together; the others begin when one has ended. Nobody is held back
//! for long: after [`PARKED_US_MAX`] a transaction begins whatever the figures say, so that idle
//! clients cannot keep others out. The limit follows additive-increase, multiplicative-decrease
//! (Chiu and Jain, 1989).

use crate::gateway::Gateway;
use crate::gateway::api::SessionId;
use crate::limits::{ADMITTED_MAX, ADMITTED_MIN, IDLE_LOAD_US, PARKED_US_MAX};
use std::collections::VecDeque;

/// Ended transactions after which the limit is looked at again.
const WINDOW: u32 = 32;
/// Hundredths of waits per transaction above which fewer run at once.
const WAITS_HIGH: u32 = 75;
/// Hundredths of waits per transaction below which more may run at once.
const WAITS_LOW: u32 = 50;
/// What giving way costs, in waits.
const ABORT_WAITS: u32 = 2;
/// How many may run before anything is known.
const BEGINNING: usize = 128;

/// Who runs and who is to begin.
#[derive(Debug)]
pub(in crate::gateway) struct Admission {
    limit: usize,
    active: usize,
    /// Those that count, each with the time when it was looked at last (µs), and the jobs of some that
    /// are over.
    running: VecDeque<(u64, u64)>,
    /// With the time when each begins at the latest (µs); those that were aborted go first.
    again: VecDeque<(u64, SessionId)>,
    fresh: VecDeque<(u64, SessionId)>,
    ended: u32,
    waits: u32,
    /// Somebody was held back in this window.
    bound: bool,
}

impl Default for Admission {
    fn default() -> Self {
        let (again, fresh) = Default::default();
        let running = VecDeque::new();
        let limit = BEGINNING;
        Self { limit, active: 0, running, again, fresh, ended: 0, waits: 0, bound: false }
    }
}

impl Admission {
    /// A transaction has begun, or begins to count again.
    pub fn begun(&mut self, now_us: u64, job: u64) {
        self.active += 1;
        self.running.push_back((now_us, job));
    }

    /// The one that was not looked at for longest, if it is time for that: it is said next what comes of it.
    pub fn oldest(&mut self, now_us: u64) -> Option<u64> {
        let due = self.running.front().is_some_and(|(us, _)| us + IDLE_LOAD_US <= now_us);
        if due { self.running.pop_front().map(|(_, job)| job) } else { None }
    }

    /// It goes on counting.
    pub fn stays(&mut self, now_us: u64, job: u64) {
        self.running.push_back((now_us, job));
    }

    /// It does not count any more, until its client sends something.
    pub fn discounted(&mut self) {
        self.active -= 1;
    }

    /// A request of a transaction waits for locks.
    pub fn waits(&mut self) {
        self.waits += 1;
    }

    /// A transaction has given way.
    pub fn aborted(&mut self) {
        self.waits += ABORT_WAITS;
    }

    /// A transaction is over, which has counted or not.
    pub fn ended(&mut self, counted: bool) {
        self.active -= usize::from(counted);
        self.ended += 1;
        if self.ended < WINDOW {
            return;
        }
        let hundredths = self.waits.saturating_mul(100) / WINDOW;
        if hundredths > WAITS_HIGH {
            let running = self.limit.min(self.active + 1);
            self.limit = (running - running.div_ceil(8)).max(ADMITTED_MIN);
        } else if hundredths < WAITS_LOW && self.bound {
            self.limit = (self.limit + self.limit / 16 + 1).min(ADMITTED_MAX);
        }
        (self.ended, self.waits) = (0, 0);
        self.bound = !(self.again.is_empty() && self.fresh.is_empty());
    }

    fn is_open(&self) -> bool {
        self.active < self.limit
    }

    fn park(&mut self, until_us: u64, id: SessionId, again: bool) {
        self.bound = true;
        let queue = if again { &mut self.again } else { &mut self.fresh };
        queue.push_back((until_us, id));
    }

    /// Whoever is to begin next, if there is room for one or one has waited long enough.
    fn next(&mut self, now_us: u64) -> Option<SessionId> {
        let open = self.is_open();
        for queue in [&mut self.again, &mut self.fresh] {
            if queue.front().is_some_and(|(until_us, _)| open || *until_us <= now_us) {
                return queue.pop_front().map(|(_, id)| id);
            }
        }
        None
    }

    /// When somebody has waited long enough, in microseconds.
    pub fn next_timeout(&self) -> Option<u64> {
        let fronts = [self.again.front(), self.fresh.front()];
        let look = self.running.front().map(|(us, _)| us + IDLE_LOAD_US);
        let due = fronts.into_iter().flatten().map(|(until_us, _)| *until_us).min()?;
        Some(look.map_or(due, |look| look.min(due)))
    }

    /// Sessions that are held back.
    pub fn parked(&self) -> usize {
        self.again.len() + self.fresh.len()
    }
}

impl Gateway {
    /// Whether the session may begin a transaction now. If not, it will be resumed.
    pub(in crate::gateway) fn admit(&mut self, id: SessionId) -> bool {
        self.discount_idle();
        if !self.core.config.concurrency.deferred {
            return true;
        }
        let Some(session) = self.sessions.get_mut(id.0) else { return true };
        if std::mem::take(&mut session.admitted) {
            return true;
        }
        if self.admission.parked() == 0 && self.admission.is_open() {
            return true;
        }
        if !std::mem::replace(&mut session.parked, true) {
            let until_us = self.core.now.mono_us + PARKED_US_MAX;
            self.admission.park(until_us, id, session.retry.is_some());
        }
        false
    }

    /// Lets the next session begin its transaction, if there is room.
    pub(in crate::gateway) fn admit_next(&mut self) -> bool {
        self.discount_idle();
        let Some(id) = self.admission.next(self.core.now.mono_us) else { return false };
        if let Some(session) = self.sessions.get_mut(id.0) {
            (session.parked, session.admitted) = (false, true);
            self.resumable.push(id);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_a_window(admission: &mut Admission, waits: u32) {
        for _ in 0..WINDOW {
            admission.begun(0, 0);
        }
        (0..waits).for_each(|_| admission.waits());
        for _ in 0..WINDOW {
            admission.ended(true);
        }
    }

    #[test]
    fn the_limit_follows_the_waits() {
        let mut admission = Admission::default();
        for _ in 0..100 {
            (0..500).for_each(|_| admission.begun(0, 0));
            end_a_window(&mut admission, WINDOW);
            admission.active = 0;
        }
        assert_eq!(admission.limit, ADMITTED_MIN);
        end_a_window(&mut admission, 0);
        assert_eq!(admission.limit, ADMITTED_MIN, "nobody was held back");
        for _ in 0..1000 {
            admission.bound = true;
            end_a_window(&mut admission, 0);
        }
        assert_eq!(admission.limit, ADMITTED_MAX);
    }

    #[test]
    fn those_that_gave_way_begin_first_and_nobody_waits_for_long() {
        let mut admission = Admission { limit: 1, ..Admission::default() };
        admission.begun(0, 0);
        admission.park(10, SessionId(1), false);
        admission.park(20, SessionId(2), true);
        assert_eq!(admission.next(0), None);
        assert_eq!(admission.next_timeout(), Some(10), "before anybody is looked at");
        assert_eq!(admission.next(10), Some(SessionId(1)));
        admission.ended(true);
        assert_eq!(admission.next(10), Some(SessionId(2)));
        assert_eq!((admission.next(100), admission.parked()), (None, 0));
    }
}
