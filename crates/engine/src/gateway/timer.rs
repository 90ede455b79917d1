//! What a gateway does when time has passed.

use super::Gateway;
use crate::message::Now;

/// Something that is to happen at a moment.
#[derive(Clone, Copy, Debug)]
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
    Dispatch { job: u64 },
    /// A `multi` over several shards of a tree goes on.
    Joint { job: u64 },
}

impl Gateway {
    pub(super) fn set_timer(&mut self, in_us: u64, timer: Timer) {
        let (Timer::Again { job }
        | Timer::Deadline { job }
        | Timer::Circle { job }
        | Timer::Near { job }
        | Timer::Cut { job }
        | Timer::Dispatch { job }
        | Timer::Joint { job }) = timer;
        self.timers.insert((self.now.mono_us.saturating_add(in_us), job), timer);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        self.now = now;
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > now.mono_us {
                break;
            }
            match entry.remove() {
                Timer::Again { job } => self.again(job),
                Timer::Deadline { job } => self.timed_out(job),
                Timer::Circle { job } => self.look_for_circle(job),
                Timer::Near { job } => self.near_due(job),
                Timer::Cut { job } => self.cut_late(job),
                Timer::Dispatch { job } => self.dispatch_again(job),
                Timer::Joint { job } => self.joint_again(job),
            }
        }
        self.give_up_unled();
        self.settle();
    }

    /// When [`Gateway::tick`] has something to do, on the monotonic clock in microseconds.
    pub fn next_timeout(&self) -> Option<u64> {
        let timer = self.timers.first_key_value().map(|(key, _)| key.0);
        timer.into_iter().chain(self.admission.next_timeout()).chain(self.unled_due_us()).min()
    }

    /// A random number (SplitMix64).
    pub(super) fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        crate::shard::apply::mix(self.seed)
    }
}
