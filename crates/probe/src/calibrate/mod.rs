//! Calibration: from measured latencies to time-outs, sizes and risks.
//!
//! Every model here is a pure computation over rounds ([`round::Round`]) in the order of time, or
//! over distributions of latencies that were collected from them ([`tail::Tail`]). Memory is
//! bounded: it grows with pairs, groups and windows, and not with samples.
//!
//! | module | result |
//! |---|---|
//! | [`suspicion`] | rate of false suspicions of a live node, by time-out |
//! | [`gamma`] | number of nodes that never suspect, or are never suspected, wrongly |
//! | [`visigoth`] | number of replies missing at a time-out, and the replicas needed for that |
//! | [`xft`] | probability that a group is consistent and available under faults and slowness |
//! | [`accrual`] | rate of mistakes for each threshold of an accrual detector |
//! | [`raft`] | election time-out, heartbeat and lease |
//! | [`hedge`] | delay before a second replica is asked, and the best leader |
//! | [`downtime`] | times in which a node was down, so that suspicion was right |
//! | [`settings`] | the same results as settings of other systems |
//!
//! Every result states the amount of data behind it ([`Evidence`]), and whether it extrapolates.

pub mod accrual;
pub mod downtime;
pub mod gamma;
pub mod numeric;
pub mod pareto;
pub mod pauses;
pub mod protocols;
pub mod round;
pub mod settings;
pub mod suspicion;
pub mod tail;

use serde::Serialize;

/// Evidence for a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Number of samples, rounds, windows or slots.
    pub count: u64,
    /// Effective number, in which clustered samples count once.
    pub effective_count: f64,
    /// Lower end of the figure's 95 % interval; `None` without an interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Whether the figure lies beyond the observations, by a fitted distribution.
    pub extrapolated: bool,
}

impl Evidence {
    /// Evidence for a counted figure, without an interval.
    pub const fn counted(count: u64) -> Self {
        let (low, high) = (None, None);
        Self { count, effective_count: count as f64, low, high, extrapolated: false }
    }
}

/// Factor beyond the observations up to which a fitted distribution is trusted.
pub const BEYOND_MAX: f64 = 10.0;

/// Amount of data that a figure needs before it is worth acting on, and the amount available.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Needs {
    /// Amount needed.
    pub needed: f64,
    /// Amount available.
    pub there: f64,
    /// Unit of the amounts.
    pub unit: &'static str,
    /// Whether the data suffices.
    pub enough: bool,
}

impl Needs {
    /// Compares the amounts needed and available.
    pub fn of(needed: f64, there: f64, unit: &'static str) -> Self {
        Self { needed, there, unit, enough: there >= needed }
    }
}

/// Converts nanoseconds to milliseconds; `None` for a reply that never arrives.
pub fn ms(ns: u64) -> Option<f64> {
    (ns != tail::LOST).then_some(ns as f64 / 1e6)
}
