//! Selection of the calls that a callee records itself: slow ones, with a breakdown of their time.
//!
//! While a call is answered, only clocks are read for this: counters of a thread are read when it
//! becomes idle, and again after a slow call.

use crate::files::Message;
use crate::host::clock;
use probe::message::Request;
use probe::proc::{Threads, Work};
use probe::slow_call::{SlowCall, Threshold};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

/// Bytes of a `stat` that are needed.
const TEXT_BYTES: usize = 1_024;

/// Wait times and page faults of a thread, as raw counters.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Counted {
    wait_ns: Option<i64>,
    faults: Option<i64>,
}

/// Counters of one thread, and their values when it last became idle.
pub struct Counters {
    schedstat: Option<File>,
    stat: Option<File>,
    idle: Counted,
}

impl Counters {
    /// Counters of the calling thread. Without support by the kernel they are empty.
    pub fn of_this_thread() -> Self {
        let open = |name: &str| File::open(format!("/proc/thread-self/{name}")).ok();
        let (schedstat, stat) = (open("schedstat"), open("stat"));
        let mut counters = Self { schedstat, stat, idle: Counted::default() };
        counters.idle();
        counters
    }

    /// Records that the thread is idle now.
    pub fn idle(&mut self) {
        self.idle = self.now();
    }

    fn now(&self) -> Counted {
        let wait_ns = text(self.schedstat.as_ref()).map(|text| {
            let mut threads = Threads::default();
            threads.schedstat(&text);
            threads.wait_ns
        });
        let faults = text(self.stat.as_ref()).and_then(|text| {
            let mut work = Work::default();
            work.stat(&text);
            Some(work.minor_faults? + work.major_faults?)
        });
        Counted { wait_ns, faults }
    }

    /// Time waiting for a processor since then, in units of 100 ns, and page faults.
    pub fn since_idle(&self) -> (Option<u32>, Option<u32>) {
        let now = self.now();
        let since = |now: Option<i64>, then: Option<i64>, unit: i64| {
            let passed: i64 = now?.checked_sub(then?)? / unit;
            Some(u32::try_from(passed.max(0)).unwrap_or(u32::MAX))
        };
        let runq_100ns = since(now.wait_ns, self.idle.wait_ns, 100);
        (runq_100ns, since(now.faults, self.idle.faults, 1))
    }
}

fn text(file: Option<&File>) -> Option<String> {
    let mut bytes = [0; TEXT_BYTES];
    let len = file?.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(&bytes[..len]).into_owned())
}

/// Breakdown of a call's time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Time computing the digest.
    pub handler_ns: u64,
    /// Time on the disk thread, if the call wrote to the disk.
    pub disk: Option<OnDisk>,
}

/// Breakdown of a call's time on the disk thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnDisk {
    /// Time waiting for earlier calls.
    pub queue_ns: u64,
    /// Time writing and syncing.
    pub sync_ns: u64,
    /// Counters of the disk thread, if the call was slow by that alone.
    pub counted: Option<(Option<u32>, Option<u32>)>,
}

/// An answered call.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Request of the call.
    pub request: Request,
    /// Time at which its header had been read.
    pub t_rx_ns: i64,
    /// Time at which the reply was written.
    pub t_tx_ns: i64,
    /// Breakdown of its time.
    pub spent: Spent,
}

/// Recorder of slow calls.
pub struct Exemplars {
    own: u16,
    threshold: Threshold,
    counters: Counters,
    to: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

fn hundreds(ns: u64) -> u32 {
    u32::try_from(ns / 100).unwrap_or(u32::MAX)
}

impl Exemplars {
    /// Creates a recorder for the calling thread of agent `own`. Calls that cannot be queued are
    /// counted in `dropped`.
    pub fn new(own: u16, to: SyncSender<Message>, dropped: Arc<AtomicU64>) -> Self {
        let (threshold, counters) = (Threshold::default(), Counters::of_this_thread());
        Self { own, threshold, counters, to, dropped }
    }

    /// Records that the thread is idle now.
    pub fn idle(&mut self) {
        self.counters.idle();
    }

    /// Handles an answered call of this caller and incarnation.
    pub fn done(&mut self, (src, incarnation): (u16, u64), done: &Done) {
        let Done { request, t_rx_ns, t_tx_ns, spent } = *done;
        let svc_ns = t_tx_ns.saturating_sub(t_rx_ns).max(0).unsigned_abs();
        let now_us = clock::mono_ns().unsigned_abs() / 1_000;
        let svc_us = u32::try_from(svc_ns / 1_000).unwrap_or(u32::MAX - 1);
        if !self.threshold.is_slow(now_us, request.workload, svc_us) {
            return;
        }
        let counted = spent.disk.and_then(|disk| disk.counted);
        let (runq_100ns, faults) = counted.unwrap_or_else(|| self.counters.since_idle());
        let call = SlowCall {
            t_rx_ns,
            src,
            incarnation,
            dst: self.own,
            group: request.group,
            round: request.round,
            workload: request.workload,
            svc_100ns: hundreds(svc_ns),
            queue_100ns: hundreds(spent.disk.map_or(0, |disk| disk.queue_ns)),
            handler_100ns: hundreds(spent.handler_ns),
            sync_100ns: spent.disk.map(|disk| hundreds(disk.sync_ns)),
            runq_100ns,
            faults,
        };
        if self.to.try_send(Message::Slow(call)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe::Workload;
    use std::sync::mpsc::{Receiver, sync_channel};

    fn done(workload: Workload, svc_ns: i64, spent: Spent) -> Done {
        let (signs, t_sched_ns, t_send_ns) = (false, 0, 0);
        let request = Request { workload, signs, group: 1, round: 7, t_sched_ns, t_send_ns };
        Done { request, t_rx_ns: 1_000, t_tx_ns: 1_000 + svc_ns, spent }
    }

    fn told(messages: &Receiver<Message>) -> Option<SlowCall> {
        match messages.try_recv() {
            Ok(Message::Slow(call)) => Some(call),
            _ => None,
        }
    }

    #[test]
    fn what_took_long_is_told_with_its_parts_and_nothing_else_is() {
        let (to, messages) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let mut exemplars = Exemplars::new(1, to, Arc::clone(&dropped));
        exemplars.done((3, 9), &done(Workload::Null, 40_000, Spent::default()));
        assert_eq!(told(&messages), None);
        let counted = Some((Some(12), None));
        let disk = Some(OnDisk { queue_ns: 2_000_000, sync_ns: 8_000_000, counted });
        let slow = done(Workload::All, 11_000_000, Spent { handler_ns: 300, disk });
        exemplars.done((3, 9), &slow);
        exemplars.done((3, 9), &slow);
        let call = told(&messages).unwrap();
        assert_eq!((call.src, call.incarnation, call.dst, call.round), (3, 9, 1, 7));
        assert_eq!(call.svc_100ns, 110_000);
        assert_eq!(
            (call.queue_100ns, call.sync_100ns, call.handler_100ns),
            (20_000, Some(80_000), 3)
        );
        assert_eq!((call.runq_100ns, call.faults), (Some(12), None));
        assert_eq!((told(&messages), dropped.load(Ordering::Relaxed)), (None, 1));
    }

    #[test]
    fn the_counters_of_a_thread_go_on_from_when_it_was_idle() {
        let mut counters = Counters::of_this_thread();
        // Memory that has not been touched yet.
        let touched: u64 = vec![1_u8; 8 << 20].iter().map(|byte| u64::from(*byte)).sum();
        assert_eq!(touched, 8 << 20);
        let (runq_100ns, faults) = counters.since_idle();
        assert!(runq_100ns.is_some());
        assert!(faults.is_some_and(|faults| faults > 0), "{faults:?}");
        counters.idle();
        assert!(counters.since_idle().1.is_some_and(|after| after < faults.unwrap()));
    }
}
