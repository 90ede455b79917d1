//! Replicas without work: their groups sleep, and their worker does not look at them.

use super::Replica;
use crate::entry::EntryCodec;
use crate::ids::MachineId;
use crate::limits::QUIET_US;
use crate::now::Now;

impl<C: EntryCodec> Replica<C> {
    /// Puts the group to sleep if it is led here and has been idle for long enough; returns whether
    /// it sleeps now. [`Replica::take_lull`] lists the machines to inform.
    pub(super) fn falls_asleep(&mut self, now: Now) -> bool {
        let quiet = now.mono_us.saturating_sub(self.busy_us) >= QUIET_US && self.is_quiet();
        if self.leading.is_none() || !quiet || !self.group.may_sleep() {
            return false;
        }
        self.lulls = self.group.sleep(now.mono_us);
        true
    }

    fn is_quiet(&self) -> bool {
        let waits = self.wants_round || self.handover.is_some() || self.incoming.is_some();
        let waits = waits || self.splitting.is_some() || self.stands > 0;
        let empty = self.parked.is_empty() && self.proposed.is_empty();
        empty && !waits && self.shard.is_quiet()
    }

    /// Machines to inform that the group sleeps, with the term and the index of the last entry.
    pub fn take_lull(&mut self) -> (Vec<MachineId>, u64, u64) {
        let (index, _) = self.group.last();
        (std::mem::take(&mut self.lulls), self.group.term(), index)
    }

    /// Takes the message of another replica that is awake, so that this one must not sleep.
    pub fn wake(&mut self, now: Now) {
        let slept = self.group.is_asleep();
        self.group.wake(now.mono_us, 0);
        self.woke(now, slept);
    }

    /// Notes that a machine was silent for `silent_us`, that its connection is lost, or that it is
    /// connected again.
    pub fn doubt(&mut self, now: Now, machine: MachineId, silent_us: u64) {
        let slept = self.group.is_asleep();
        self.group.doubt(now.mono_us, machine, silent_us);
        self.woke(now, slept);
    }

    pub(super) fn woke(&mut self, now: Now, slept: bool) {
        if slept && !self.group.is_asleep() {
            self.busy_us = now.mono_us;
        }
    }

    /// Whether there is no work here until a message arrives, or until [`Replica::next_timeout`].
    pub fn rests(&self) -> bool {
        let still = self.group.membership().is_alone() || self.group.is_asleep();
        still && self.lulls.is_empty() && self.group.is_idle() && self.is_quiet()
    }
}
