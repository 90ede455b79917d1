//! Rounds that are not written yet.

use crate::sample::{Sample, Status, Workload};

/// One tick.
#[derive(Clone, Debug)]
pub struct Round {
    /// Day, counted since 1970.
    pub day: i64,
    /// Group, counted within the epoch.
    pub group: u16,
    /// Number of members of the group.
    pub size: u8,
    /// Workload of the callees.
    pub workload: Workload,
    /// Tick within the epoch.
    pub number: u32,
    /// Due time, on the wall clock.
    pub due_wall_ns: i64,
    /// Due time on the monotonic clock.
    pub due_mono_ns: i64,
    /// Whether the wall clock was set while the round was in flight.
    pub clock_step: bool,
    /// One call per member.
    pub calls: Vec<Call>,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The callee.
    pub to: u16,
    /// Result of the call.
    pub fate: Fate,
    /// Life of the called node, as an index.
    pub incarnation: u8,
    /// Lag at which the request was sent, or could have been.
    pub lag_ns: i64,
    /// Measurements, if there was a reply.
    pub reply: Option<Measured>,
}

/// Measurements of a reply.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Time from sending to the reply.
    pub rtt_ns: i64,
    /// Time within the callee.
    pub svc_ns: i64,
    /// Arrival at the callee by its clock, relative to the due time by the caller's.
    pub rx_off_ns: i64,
}

/// Result of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// A reply may still arrive.
    Waiting {
        /// Time of sending; `None` while it is queued.
        sent_mono_ns: Option<i64>,
    },
    /// There is no connection any more, or was none: refused, unless the callee was down.
    Broken,
    /// The result is final.
    Settled(Status),
}

fn hundreds(ns: i64) -> u32 {
    u32::try_from((ns.max(0) + 50) / 100).unwrap_or(u32::MAX)
}

fn micros(ns: i64) -> i32 {
    let us = ns.div_euclid(1_000);
    i32::try_from(us).unwrap_or(if us < 0 { i32::MIN } else { i32::MAX })
}

impl Round {
    /// Whether the result of every call is known.
    pub fn is_settled(&self) -> bool {
        self.calls.iter().all(|call| matches!(call.fate, Fate::Settled(_)))
    }
}

impl Call {
    /// Row of a settled call.
    pub fn row(&self, round: &Round, epoch: u16, src: u16) -> Option<Sample> {
        let Fate::Settled(status) = self.fate else { return None };
        let stepped = round.clock_step && status == Status::Ok;
        Some(Sample {
            epoch,
            group: round.group,
            group_size: round.size,
            workload: round.workload,
            src,
            dst: self.to,
            round: round.number,
            t_sched_ns: round.due_wall_ns,
            lag_ns: u32::try_from(self.lag_ns.max(0)).unwrap_or(u32::MAX),
            rtt_100ns: self.reply.map(|reply| hundreds(reply.rtt_ns)),
            svc_100ns: self.reply.map(|reply| hundreds(reply.svc_ns)),
            rx_off_us: self.reply.map(|reply| micros(reply.rx_off_ns)),
            status: if stepped { Status::ClockStep } else { status },
            incarnation: self.incarnation,
        })
    }
}
