//! One call from a caller to a callee, as a row of the table `rpc`.
//!
//! A row stores times that were each measured on one clock: the caller's own delay, the round trip
//! and the callee's own delay. The latency that a user sees is computed from them
//! ([`Sample::latency_ns`]), and so is the time at which the callee received the call
//! ([`Sample::received_ns`]).

use serde::{Deserialize, Serialize};

/// Work of the callee before it answers, in the order in which a caller cycles through the
/// workloads.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Workload {
    /// A: nothing.
    Null = 0,
    /// B: a hash of the request, and a signature of the hash if agents are configured to sign.
    Crypto = 1,
    /// C: a write to a file that is synced before the reply.
    Disk = 2,
    /// D: a payload both ways.
    Network = 3,
    /// E: all of these.
    All = 4,
}

impl Workload {
    /// Every workload, in the order in which they take turns.
    pub const ALL: [Self; 5] = [Self::Null, Self::Crypto, Self::Disk, Self::Network, Self::All];

    /// Workload that is stored as `code`.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Code in the file.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Crypto => "crypto",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::All => "all",
        }
    }
}

/// Result of a call.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Status {
    /// A reply within 10 s.
    Ok = 0,
    /// No reply within 60 s.
    NoReply = 1,
    /// The connection was refused or reset, or there was none.
    Refused = 2,
    /// A reply after 10 s and within 60 s.
    Late = 3,
    /// The callee was down, or had restarted: suspicion was right.
    Down = 4,
    /// The caller was too late to send at all.
    Skipped = 5,
    /// A reply, but a clock was set in between: the row may not be paired with others.
    ClockStep = 6,
    /// The callee had left the group.
    Absent = 7,
}

impl Status {
    /// Every status, by its code.
    pub const ALL: [Self; 8] = [
        Self::Ok,
        Self::NoReply,
        Self::Refused,
        Self::Late,
        Self::Down,
        Self::Skipped,
        Self::ClockStep,
        Self::Absent,
    ];

    /// Status that is stored as `code`.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Code in the file.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NoReply => "no_reply",
            Self::Refused => "refused",
            Self::Late => "late",
            Self::Down => "down",
            Self::Skipped => "skipped",
            Self::ClockStep => "clock_step",
            Self::Absent => "absent",
        }
    }

    /// Whether there was a reply, and so a round trip.
    pub const fn has_reply(self) -> bool {
        matches!(self, Self::Ok | Self::Late | Self::ClockStep)
    }

    /// Whether the call measures the latency of a live callee: a reply, or its absence. A callee
    /// that is down or gone, or a caller that did not send, measures nothing.
    pub const fn counts(self) -> bool {
        matches!(self, Self::Ok | Self::NoReply | Self::Refused | Self::Late | Self::ClockStep)
    }
}

/// One call: a row of the table `rpc`. The comments give the column's name where it differs.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Sample {
    /// Day, counted from the first epoch of the data set (in its metadata).
    pub epoch: u16,
    /// Group, counted within the epoch.
    pub group: u16,
    /// Number of members of the group (`gsize`).
    pub group_size: u8,
    /// Work of the callee (`wl`).
    pub workload: Workload,
    /// The caller.
    pub src: u16,
    /// The callee.
    pub dst: u16,
    /// Round (`seq`): the caller's tick within the epoch.
    pub round: u32,
    /// Due time of the tick (`t_sched`): nanoseconds since 1970 on the caller's wall clock.
    pub t_sched_ns: i64,
    /// Time from then until the caller sent (`lag`); saturates.
    pub lag_ns: u32,
    /// Time from sending to the reply (`rtt`), in units of 100 ns; saturates at 429 s.
    pub rtt_100ns: Option<u32>,
    /// Time from the arrival of the request at the callee to the departure of the reply (`svc`), in
    /// units of 100 ns; saturates.
    pub svc_100ns: Option<u32>,
    /// Arrival at the callee, by its own clock, minus [`Self::t_sched_ns`] (`rx_off`), in
    /// microseconds; saturates.
    pub rx_off_us: Option<i32>,
    /// Result of the call.
    pub status: Status,
    /// Incarnation of the callee (`inc`): an index into the table of the file's metadata.
    pub incarnation: u8,
}

impl Sample {
    /// Latency in an open loop, which is a user's waiting time: from the moment at which the call
    /// was due until the reply. `None` without a reply.
    pub fn latency_ns(&self) -> Option<u64> {
        let rtt_100ns = self.rtt_100ns.filter(|_| self.status.has_reply())?;
        Some(u64::from(self.lag_ns) + u64::from(rtt_100ns) * 100)
    }

    /// Time at which the callee received the request, in nanoseconds of its own wall clock.
    pub fn received_ns(&self) -> Option<i64> {
        self.rx_off_us.map(|offset_us| self.t_sched_ns + i64::from(offset_us) * 1000)
    }
}

/// Columns of the table `rpc`, in the order of the file.
pub const COLUMNS: [&str; 14] = [
    "epoch", "group", "gsize", "wl", "src", "dst", "seq", "t_sched", "lag", "rtt", "svc", "rx_off",
    "status", "inc",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_one_to_one() {
        for (code, status) in (0..).zip(Status::ALL) {
            assert_eq!((status.code(), Status::from_code(code)), (code, Some(status)));
        }
        for (code, workload) in (0..).zip(Workload::ALL) {
            assert_eq!((workload.code(), Workload::from_code(code)), (code, Some(workload)));
        }
        assert_eq!((Status::from_code(8), Workload::from_code(5)), (None, None));
    }

    #[test]
    fn the_latency_of_a_call_begins_when_it_was_due() {
        let mut sample = Sample {
            epoch: 0,
            group: 0,
            group_size: 3,
            workload: Workload::Disk,
            src: 0,
            dst: 1,
            round: 2,
            t_sched_ns: 5_000_000_000,
            lag_ns: 250,
            rtt_100ns: Some(10_000),
            svc_100ns: Some(9_000),
            rx_off_us: Some(-3),
            status: Status::Ok,
            incarnation: 0,
        };
        assert_eq!(sample.latency_ns(), Some(1_000_250));
        assert_eq!(sample.received_ns(), Some(4_999_997_000));
        sample.status = Status::NoReply;
        assert_eq!(sample.latency_ns(), None);
    }
}
