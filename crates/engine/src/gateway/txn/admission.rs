//! Admission: how many interactive transactions are under way at once.
//!
//! Where transactions conflict, more of them at once means longer waits under more locks, and past
//! a point less gets done. So a gateway watches how often its transactions wait or give way, and
//! lets as many run as do well together; the others begin when one has ended. No session is held back
//! for long: after [`PARKED_US_MAX`] a transaction begins whatever the figures say, so that idle
//! clients cannot keep others out. The limit follows additive-increase, multiplicative-decrease
//! (Chiu and Jain, 1989).

use crate::gateway::api::SessionId;
use crate::limits::{ADMITTED_MAX, ADMITTED_MIN, IDLE_LOAD_US, PARKED_US_MAX};
use std::collections::VecDeque;

/// Ended transactions after which the limit is looked at again.
const WINDOW: u32 = 32;
/// Hundredths of waits per transaction above which fewer run at once.
const WAITS_HIGH: u32 = 75;
/// Hundredths of waits per transaction below which more may run at once.
const WAITS_LOW: u32 = 50;
/// Cost of giving way, in waits.
const ABORT_WAITS: u32 = 2;
/// Limit before anything is known.
const BEGINNING: usize = 128;

/// Admittance of a session to a transaction of its own.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Admittance {
    /// Whether the session is held back.
    parked: bool,
    /// Whether the session may begin its transaction now.
    admitted: bool,
}

impl Admittance {
    /// Lets the session begin its transaction, since its turn has come.
    pub fn let_in(&mut self) {
        (self.parked, self.admitted) = (false, true);
    }
}

/// Number of transactions that run, and sessions that are to begin one.
#[derive(Debug)]
pub(super) struct Admission {
    limit: usize,
    active: usize,
    /// Jobs of the transactions that count, and of some that are over, each with the time when it was
    /// looked at last (µs).
    running: VecDeque<(u64, u64)>,
    /// Sessions whose transaction was aborted, with the time when each begins at the latest (µs). They
    /// go first.
    again: VecDeque<(u64, SessionId)>,
    /// Sessions that begin anew, likewise.
    fresh: VecDeque<(u64, SessionId)>,
    ended: u32,
    waits: u32,
    /// Whether a session was held back in this window.
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
    /// Counts a transaction that has begun, or counts again.
    pub fn begun(&mut self, now_us: u64, job: u64) {
        self.active += 1;
        self.running.push_back((now_us, job));
    }

    /// The job that was not looked at for longest, if it is time for that. [`Admission::stays`] or
    /// [`Admission::discounted`] follows.
    pub fn oldest(&mut self, now_us: u64) -> Option<u64> {
        let due = self.running.front().is_some_and(|(us, _)| us + IDLE_LOAD_US <= now_us);
        if due { self.running.pop_front().map(|(_, job)| job) } else { None }
    }

    /// Lets a transaction that was looked at go on counting.
    pub fn stays(&mut self, now_us: u64, job: u64) {
        self.running.push_back((now_us, job));
    }

    /// Discounts a transaction that was looked at, until its client sends something.
    pub fn discounted(&mut self) {
        self.active -= 1;
    }

    /// Counts a request that waits for locks.
    pub fn waits(&mut self) {
        self.waits += 1;
    }

    /// Counts a transaction that has given way.
    pub fn aborted(&mut self) {
        self.waits += ABORT_WAITS;
    }

    /// Notes the end of a transaction, which has counted or not.
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

    /// Whether a session may begin a transaction now; `again` if its last one was aborted. If it may not,
    /// [`Admission::next`] gives it in its turn.
    pub fn admit(
        &mut self,
        now_us: u64,
        (id, admittance): (SessionId, &mut Admittance),
        again: bool,
    ) -> bool {
        if std::mem::take(&mut admittance.admitted) || self.parked() == 0 && self.is_open() {
            return true;
        }
        if !std::mem::replace(&mut admittance.parked, true) {
            self.park(now_us + PARKED_US_MAX, id, again);
        }
        false
    }

    /// The session that is to begin next, if there is room or it has waited long enough.
    pub fn next(&mut self, now_us: u64) -> Option<SessionId> {
        let open = self.is_open();
        for queue in [&mut self.again, &mut self.fresh] {
            if queue.front().is_some_and(|(until_us, _)| open || *until_us <= now_us) {
                return queue.pop_front().map(|(_, id)| id);
            }
        }
        None
    }

    /// Time at which a session has waited long enough, in microseconds.
    pub fn next_timeout(&self) -> Option<u64> {
        let fronts = [self.again.front(), self.fresh.front()];
        let look = self.running.front().map(|(us, _)| us + IDLE_LOAD_US);
        let due = fronts.into_iter().flatten().map(|(until_us, _)| *until_us).min()?;
        Some(look.map_or(due, |look| look.min(due)))
    }

    /// Number of sessions that are held back.
    pub fn parked(&self) -> usize {
        self.again.len() + self.fresh.len()
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
        assert_eq!(admission.limit, ADMITTED_MIN, "no session was held back");
        for _ in 0..1000 {
            admission.bound = true;
            end_a_window(&mut admission, 0);
        }
        assert_eq!(admission.limit, ADMITTED_MAX);
    }

    #[test]
    fn aborted_transactions_begin_first_and_no_session_waits_for_long() {
        let mut admission = Admission { limit: 1, ..Admission::default() };
        admission.begun(0, 0);
        admission.park(10, SessionId(1), false);
        admission.park(20, SessionId(2), true);
        assert_eq!(admission.next(0), None);
        assert_eq!(admission.next_timeout(), Some(10), "before a transaction is looked at");
        assert_eq!(admission.next(10), Some(SessionId(1)));
        admission.ended(true);
        assert_eq!(admission.next(10), Some(SessionId(2)));
        assert_eq!((admission.next(100), admission.parked()), (None, 0));
    }
}
