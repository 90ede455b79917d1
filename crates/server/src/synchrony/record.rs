//! Recording of all single measurements, as rows of the table `rpc`, like those of the agents of
//! `claret probe`.
//!
//! Storage is not the server's business: it passes the measurements to a [`Record`]. A question is
//! recorded as a call of the workload that does nothing, of group 0; an append as one of the
//! workload that syncs, of group 1. Machines are nodes by their numbers, the first being node 0.

use super::Synchrony;
use engine::ids::MachineId;
use probe::schedule::{epoch_of, epoch_start_ns};
use probe::watch::Seen;
use probe::{Sample, Status, Workload};
use std::fmt::Debug;
use std::path::Path;

/// Group of questions.
pub const QUESTIONS: u16 = 0;
/// Group of appends.
pub const APPENDS: u16 = 1;

/// Destination of measurements.
#[derive(Clone, Copy, Debug)]
pub struct RecordTo<'a> {
    /// Folder.
    pub dir: &'a Path,
    /// Name of the cluster.
    pub cluster: &'a str,
    /// Days for which single measurements are kept.
    pub keep_days: u16,
}

/// Recorder of measurements.
pub trait Record: Debug + Send {
    /// Sets this machine and the machines of its cluster; called before the first sample, and
    /// whenever the machines change.
    fn machines(&mut self, own: MachineId, machines: &[MachineId]);

    /// Records a question or an append. Samples come in any order, at most some seconds late.
    fn sample(&mut self, sample: Sample);
}

/// Node number of a machine.
pub fn node_of(machine: MachineId) -> u16 {
    machine.0.saturating_sub(1)
}

impl Synchrony {
    /// Passes all measurements to `record` from now on.
    pub fn record(&mut self, record: Box<dyn Record>) {
        self.record = Some(record);
        self.asker.keep_seen();
        self.look();
    }

    /// Passes on the measurements that are ready.
    pub(super) fn pass_on(&mut self) {
        let seen = self.asker.take_seen();
        let Some(record) = self.record.as_mut().filter(|_| !seen.is_empty()) else { return };
        let now = self.around.clock.now();
        let wall_ns = |mono_us: u64| {
            let ago_us = now.mono_us.saturating_sub(mono_us);
            i64::try_from(now.wall_us.saturating_sub(ago_us)).unwrap_or(i64::MAX / 1_000) * 1_000
        };
        let machines = self.around.map.machines().map_or(0, |machines| machines.len());
        let size = u8::try_from(machines).unwrap_or(u8::MAX);
        let src = node_of(self.around.own);
        for seen in seen {
            record.sample(sample(&seen, wall_ns(seen.due_us), (src, size)));
        }
    }
}

fn sample(seen: &Seen, t_sched_ns: i64, (src, group_size): (u16, u8)) -> Sample {
    let day = epoch_of(t_sched_ns);
    let status = match seen.rtt_us {
        Some(_) => Status::Ok,
        None if seen.linked => Status::NoReply,
        None => Status::Refused,
    };
    Sample {
        epoch: u16::try_from(day).unwrap_or(u16::MAX),
        group: if seen.append { APPENDS } else { QUESTIONS },
        group_size,
        workload: if seen.append { Workload::Disk } else { Workload::Null },
        src,
        dst: node_of(MachineId(seen.machine)),
        round: u32::try_from((t_sched_ns - epoch_start_ns(day)) / 1_000_000_000).unwrap_or(0),
        t_sched_ns,
        lag_ns: seen.lag_us.saturating_mul(1_000),
        rtt_100ns: seen.rtt_us.map(|us| us.saturating_mul(10)),
        svc_100ns: seen.service_us.map(|us| us.saturating_mul(10)),
        // The other machine's wall clock is not known.
        rx_off_us: None,
        status,
        incarnation: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_appends_are_calls_of_two_groups() {
        let seen = Seen {
            machine: 3,
            append: false,
            due_us: 5,
            lag_us: 250,
            rtt_us: Some(1_000),
            service_us: Some(40),
            linked: true,
        };
        let noon_ns = epoch_start_ns(20_000) + 43_200_000_000_000;
        let of = |seen: &Seen| sample(seen, noon_ns, (0, 3));
        let question = of(&seen);
        assert_eq!(
            (question.epoch, question.round, question.src, question.dst),
            (20_000, 43_200, 0, 2)
        );
        assert_eq!((question.group, question.workload), (QUESTIONS, Workload::Null));
        assert_eq!((question.latency_ns(), question.svc_100ns), (Some(1_250_000), Some(400)));
        let append = Seen { append: true, lag_us: 0, service_us: None, ..seen };
        let append = of(&append);
        assert_eq!(
            (append.group, append.workload, append.svc_100ns),
            (APPENDS, Workload::Disk, None)
        );
        let lost = Seen { rtt_us: None, service_us: None, ..seen };
        assert_eq!(of(&lost).status, Status::NoReply);
        let unlinked = of(&Seen { linked: false, ..lost });
        assert_eq!(unlinked.status, Status::Refused, "there was no connection");
        assert_eq!(unlinked.latency_ns(), None);
    }
}
