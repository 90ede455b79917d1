//! What a gateway does when time has passed.

use super::Gateway;
use crate::message::Now;

/// Something that is to happen at a moment. What it is about is found in the table of its kind: two
/// tables may give out the same handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A refused program is tried again.
    Again { job: u64 },
    /// The time of a blocking command is over.
    Deadline { job: u64 },
    /// Somebody has waited for so long that it may wait in a circle.
    Circle { job: u64 },
    /// A lock that the gateway keeps is to be looked at.
    Near { job: u64 },
    /// A cut has not come about.
    Cut { job: u64 },
    /// A session's commands that have failed are dispatched again.
    Dispatch { session: u64 },
    /// A `multi` over several shards of a tree goes on.
    Joint { job: u64 },
}

impl Gateway {
    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        self.core.now = now;
        while self.core.timers.first().is_some_and(|(at_us, _)| *at_us <= now.mono_us) {
            let Some((_, timer)) = self.core.timers.pop_first() else { break };
            match timer {
                Timer::Again { job } => self.again(job),
                Timer::Deadline { job } => self.timed_out(job),
                Timer::Circle { job } => self.look_for_circle(job),
                Timer::Near { job } => self.near_due(job),
                Timer::Cut { job } => self.backups.overdue(&mut self.core, job),
                Timer::Dispatch { session } => self.dispatch_again(session),
                Timer::Joint { job } => self.joint_again(job),
            }
        }
        self.give_up_unled();
        self.settle();
    }

    /// When [`Gateway::tick`] has something to do, on the monotonic clock in microseconds.
    pub fn next_timeout(&self) -> Option<u64> {
        let timer = self.core.timers.first().map(|(at_us, _)| *at_us);
        timer.into_iter().chain(self.admission.next_timeout()).chain(self.unled_due_us()).min()
    }
}
