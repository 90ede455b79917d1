//! A queue of deadlines with a kernel timer under it, so that an emulated round trip ends within
//! tens of microseconds of its time without busy waiting.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::time::Instant;

/// Deadlines within this time of each other are handled together, in nanoseconds.
pub const TOGETHER_NS: u64 = 10_000;

/// Deadlines in nanoseconds since the queue was created, each with a number that identifies it.
pub struct Timers {
    epoch: Instant,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    kernel: OwnedFd,
    /// Time at which the kernel's timer fires; `u64::MAX` when it is disarmed.
    armed_ns: u64,
}

impl Timers {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// The kernel provides no timer.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let kernel = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { epoch: Instant::now(), due: BinaryHeap::new(), kernel, armed_ns: u64::MAX })
    }

    /// Nanoseconds since the queue was created.
    pub fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Descriptor that becomes readable when a deadline is due.
    pub fn descriptor(&self) -> i32 {
        self.kernel.as_raw_fd()
    }

    /// Duplicate of the timer's descriptor, for a caller that wants to own it. Reading from it
    /// returns how often the timer has fired, if it has.
    ///
    /// # Errors
    /// There are too many descriptors.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.kernel.try_clone()
    }

    /// Schedules `what` for a moment.
    pub fn add(&mut self, at_ns: u64, what: usize) {
        self.due.push(Reverse((at_ns, what)));
    }

    /// Takes the next entry that is due by `now_ns`.
    pub fn pop(&mut self, now_ns: u64) -> Option<usize> {
        let Reverse((at_ns, what)) = *self.due.peek()?;
        if at_ns > now_ns.saturating_add(TOGETHER_NS) {
            return None;
        }
        self.due.pop();
        Some(what)
    }

    /// Sets the kernel's timer to the earliest deadline, at the latest to `until_ns`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn arm(&mut self, until_ns: u64) -> io::Result<()> {
        let next_ns = self.due.peek().map_or(until_ns, |Reverse((at, _))| (*at).min(until_ns));
        let now_ns = self.now_ns();
        if self.armed_ns == next_ns && next_ns > now_ns {
            return Ok(());
        }
        self.armed_ns = next_ns;
        let wait_ns = next_ns.saturating_sub(now_ns).max(1);
        let it_value = Timespec {
            tv_sec: (wait_ns / 1_000_000_000) as i64,
            tv_nsec: (wait_ns % 1_000_000_000) as i64,
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval, it_value };
        timerfd_settime(&self.kernel, TimerfdTimerFlags::empty(), &spec)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_come_in_order_and_not_early() {
        let mut timers = Timers::new().expect("a kernel timer");
        for (at, what) in [(3_000_000, 3), (1_000_000, 1), (2_000_000, 2)] {
            timers.add(at, what);
        }
        assert_eq!(timers.pop(900_000), None);
        assert_eq!(timers.pop(1_000_000), Some(1));
        assert_eq!(timers.pop(1_000_000), None);
        assert_eq!(timers.pop(9_000_000), Some(2));
        assert_eq!(timers.pop(9_000_000), Some(3));
        assert_eq!(timers.pop(9_000_000), None);
        timers.arm(5_000_000).expect("the timer is set");
    }
}
