//! Calibration: from measured latencies to time-outs, sizes and risks.
//!
//! Every model here is a pure computation over rounds ([`round::Round`]) in the order of time, or
//! over laws of latencies that were collected from them ([`tail::Tail`]). Memory is bounded: it
//! grows with pairs, groups and windows, and not with samples.
//!
//! | module | question |
//! |---|---|
//! | [`suspicion`] | how often would a time-out have suspected a node that was alive? |
//! | [`gamma`] | how many nodes never suspect, or are never suspected, wrongly? |
//! | [`visigoth`] | how many replies must one do without by a time-out, and how many replicas does that take? |
//! | [`xft`] | how likely is a group consistent and available, if faults and slowness meet? |
//! | [`accrual`] | which threshold of an accrual detector gives which rate of mistakes? |
//! | [`raft`] | which election time-out, heartbeat and lease? |
//! | [`hedge`] | when to ask a second replica, and who should lead? |
//! | [`downtime`] | when was a node down, so that suspecting it was right? |
//! | [`settings`] | how do other systems call that? |
//!
//! What is printed says how much data it rests on ([`Evidence`]), and whether it goes beyond it.

pub mod accrual;
pub mod downtime;
pub mod gamma;
pub mod hedge;
pub mod numeric;
pub mod pareto;
pub mod pauses;
pub mod raft;
pub mod round;
pub mod settings;
pub mod suspicion;
pub mod tail;
pub mod visigoth;
pub mod xft;

use serde::Serialize;

/// What a figure rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Samples, rounds, windows or slots that were looked at.
    pub count: u64,
    /// What they are worth if those that come together count once.
    pub effective_count: f64,
    /// Lower end of the 95 % interval of the figure; none if it has no interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// The figure lies beyond what was observed, by a fitted law.
    pub extrapolated: bool,
}

impl Evidence {
    /// A figure that was counted, without an interval.
    pub const fn counted(count: u64) -> Self {
        let (low, high) = (None, None);
        Self { count, effective_count: count as f64, low, high, extrapolated: false }
    }
}

/// A fitted law is believed up to so many times what was observed.
pub const BEYOND_MAX: f64 = 10.0;

/// How much data a figure needs before it is worth acting on, and how much there is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Needs {
    /// As much is needed.
    pub needed: f64,
    /// As much is there.
    pub there: f64,
    /// Of what.
    pub unit: &'static str,
    /// It is enough.
    pub enough: bool,
}

impl Needs {
    /// So much of something that is counted in this unit.
    pub fn of(needed: f64, there: f64, unit: &'static str) -> Self {
        Self { needed, there, unit, enough: there >= needed }
    }
}

/// Nanoseconds as milliseconds; none for what never comes.
pub fn ms(ns: u64) -> Option<f64> {
    (ns != tail::LOST).then_some(ns as f64 / 1e6)
}
