//! Input of calibration: a round, one request of a caller to all members of its group.

use super::tail::LOST;

/// One callee of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The callee.
    pub to: u16,
    /// Time from the moment at which the request was due until its reply; [`LOST`] without a reply.
    pub latency_ns: u64,
    /// Time from sending to the reply; [`LOST`] without a reply.
    pub rtt_ns: u64,
}

/// One round, without callees that were down or absent, whose suspicion would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Due time, in wall-clock nanoseconds of the caller.
    pub at_ns: i64,
    /// Instance of the group: epoch and number.
    pub group: Group,
    /// Number of members of the group, including members without an edge.
    pub size: u8,
    /// Handler, 0 to 4 for A to E.
    pub workload: u8,
    /// The caller.
    pub from: u16,
    /// Lag of the caller itself; [`LOST`] if it skipped the round.
    pub lag_ns: u64,
    /// Callees, including the caller itself; empty if the round was skipped.
    pub edges: Vec<Edge>,
    /// Callees that were down.
    pub down: Vec<u16>,
}

/// A group of one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Days since the beginning of 1970.
    pub epoch: u32,
    /// Number within the epoch.
    pub number: u16,
}

/// Workload whose handler writes to a disk.
pub const DISK: u8 = 2;

impl Round {
    /// Callees without the caller itself.
    pub fn others(&self) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(|edge| edge.to != self.from)
    }

    /// Latency of the `rank`-th fastest of the others; the first has rank 1. [`LOST`] if there are
    /// fewer.
    pub fn fastest_other_ns(&self, rank: usize) -> u64 {
        let mut latencies: Vec<u64> = self.others().map(|edge| edge.latency_ns).collect();
        latencies.sort_unstable();
        latencies.get(rank - 1).copied().unwrap_or(LOST)
    }
}

/// Rounds for tests: groups whose latencies are computed.
#[cfg(test)]
pub mod made {
    use super::*;

    /// Creates one round of caller `from` at second `second`, with one latency for each member.
    pub fn round(second: i64, from: u16, latencies_ns: &[u64]) -> Round {
        let edges = latencies_ns.iter().zip(0u16..);
        Round {
            at_ns: second * 1_000_000_000 + i64::from(from) * 1_000_000,
            group: Group { epoch: (second / 86_400) as u32, number: 0 },
            size: latencies_ns.len() as u8,
            workload: (second.rem_euclid(5)) as u8,
            from,
            lag_ns: 0,
            edges: edges.map(|(ns, to)| Edge { to, latency_ns: *ns, rtt_ns: *ns }).collect(),
            down: Vec::new(),
        }
    }
}
