//! Timing messages: round-trip questions of other machines, and their answers to this one's.
//!
//! A question is answered in the turn in which it was read, by the event loop that carries all
//! other messages as well: the measurement is what consensus experiences.

use super::Worker;
use crate::control::Notice;
use engine::ids::{MachineId, ShardId};
use engine::node::{Parcel, Timing};
use engine::now::Now;
use std::sync::atomic::Ordering;

/// Timing message to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    /// Question with a number.
    Question(u32),
    /// Answer to a question with a number: the time of its sending by the asker's clock, and the
    /// time of its arrival by this machine's clock.
    Answer { number: u32, sent_us: u64, came_us: u64 },
}

impl Due {
    /// Message as it is sent now.
    pub fn parcel(self, now_us: u64) -> Parcel {
        Parcel::Timing(match self {
            Self::Question(number) => Timing::Question { number, sent_us: now_us },
            Self::Answer { number, sent_us, came_us } => {
                let service_us = micros(now_us.saturating_sub(came_us));
                Timing::Answer { number, sent_us, service_us }
            }
        })
    }
}

fn micros(us: u64) -> u32 {
    u32::try_from(us).unwrap_or(u32::MAX)
}

impl Worker {
    /// Handles a timing message of another machine.
    pub(super) fn handle_timing(&mut self, now: Now, machine: MachineId, timing: Timing) {
        match timing {
            Timing::Question { number, sent_us } => {
                let came_us = now.mono_us;
                self.links.say_time(machine, Due::Answer { number, sent_us, came_us });
            }
            Timing::Answer { number, sent_us, service_us } => {
                let rtt_us = micros(now.mono_us.saturating_sub(sent_us));
                self.notify_control(Notice::Answered { machine, number, rtt_us, service_us });
            }
            Timing::Figures(figures) => {
                self.notify_control(Notice::Figures(machine, Box::new(figures)));
            }
            Timing::Wish(wish) => self.notify_control(Notice::Wish(machine, wish)),
            Timing::Appends(rows) => self.notify_control(Notice::Appends(machine, rows)),
        }
    }

    /// Handles another machine's request to move the leadership of a shard. Returns whether this
    /// machine complies.
    pub(super) fn may_obey(&self, from: MachineId, shard: ShardId, to: MachineId) -> bool {
        self.notify_control(Notice::LeadElsewhere { from, shard, to });
        self.peers.obeys.load(Ordering::Relaxed)
    }

    /// Reports how long appends took on other machines.
    pub(super) fn report_appends(&mut self) {
        for (machine, us) in self.node.take_appended() {
            // As in `notify_control`.
            let _ = self.peers.control.send(Notice::Appended(machine, us));
        }
    }

    /// Sends a message to the control thread, which is gone only when the process ends.
    pub(super) fn notify_control(&self, notice: Notice) {
        let _ = self.peers.control.send(notice);
    }
}
