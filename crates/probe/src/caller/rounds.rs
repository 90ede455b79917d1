//! Rounds that are not written down yet.

use crate::sample::{Sample, Status, Workload};

/// One tick.
#[derive(Clone, Debug)]
pub struct Round {
    /// The day, counted since 1970.
    pub day: i64,
    /// The group, counted within the epoch.
    pub group: u16,
    /// Members of the group.
    pub size: u8,
    /// What callees do.
    pub workload: Workload,
    /// The tick within the epoch.
    pub number: u32,
    /// When it was due, on the wall clock.
    pub due_wall_ns: i64,
    /// The same on the monotonic one.
    pub due_mono_ns: i64,
    /// The wall clock was set while it was under way.
    pub clock_step: bool,
    /// One per member.
    pub calls: Vec<Call>,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The callee.
    pub to: u16,
    /// What became of it.
    pub fate: Fate,
    /// The life of the callee that was called, as an index.
    pub incarnation: u8,
    /// How late it was sent, or could have been.
    pub lag_ns: i64,
    /// What was measured, if there was a reply.
    pub reply: Option<Measured>,
}

/// What a reply says.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// From sending to the reply.
    pub rtt_ns: i64,
    /// Within the callee.
    pub svc_ns: i64,
    /// When the callee had it, by its clock, after it was due by the caller's.
    pub rx_off_ns: i64,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It may still be answered.
    Waiting {
        /// When it was sent; none while it waits to be.
        sent_mono_ns: Option<i64>,
    },
    /// There is no connection any more, or was none: refused, unless the callee was down.
    Broken,
    /// This.
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
    /// Whether the fate of every call is known.
    pub fn is_settled(&self) -> bool {
        self.calls.iter().all(|call| matches!(call.fate, Fate::Settled(_)))
    }
}

impl Call {
    /// The row of a call that is settled.
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
