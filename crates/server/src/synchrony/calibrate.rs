//! Calibration: derives time-outs from this machine's measurements, once an hour on its own thread.
//! The result is reported, and the machines agree on a time-out (`agree`).

use super::Synchrony;
use engine::limits::{CLOCK_DRIFT_PERCENT_MAX, REPLICAS_MAX};
use engine::replication::Pace;
use probe::calibrate::protocols::raft::Report;
use probe::watch::{Collected, Event, InUse, QUESTIONS_MIN};
use serde::Serialize;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// Interval between calibrations.
const EVERY_US: u64 = 3_600_000_000;
/// Factor by which a time-out must differ from the last reported one to be reported.
const NEWS_FACTOR: f64 = 1.5;

/// Time-outs in use and derived ones. Milliseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Timers {
    /// Lower bound of the election time-out in use.
    pub election_in_use_ms: f64,
    /// Heartbeat interval in use.
    pub heartbeat_in_use_ms: f64,
    /// Least election time-out with one false suspicion in thirty days; none if none has so few.
    pub election_ms: Option<f64>,
    /// Lower end of its interval.
    pub low_ms: Option<f64>,
    /// Upper end of its interval.
    pub high_ms: Option<f64>,
    /// Heartbeat interval for this time-out.
    pub heartbeat_ms: Option<f64>,
    /// Lease for this time-out.
    pub lease_ms: Option<f64>,
    /// False suspicions of a group per day with the time-out in use, or with the nearest one
    /// examined.
    pub false_per_day_in_use: Option<f64>,
    /// Whether the result relies on a fitted law and not on observations.
    pub extrapolated: bool,
    /// Questions on which the result relies.
    pub questions: u64,
    /// Observed time, in days times machines.
    pub observed_node_days: f64,
    /// Time that would have to be observed to be certain without a law.
    pub needed_node_days: f64,
}

/// State and last result of the calibration.
#[derive(Debug, Default)]
pub struct Calibration {
    looked_us: Option<u64>,
    running: Option<Receiver<Option<Timers>>>,
    found: Option<Timers>,
    /// Time-out that the last event reported.
    reported_ms: Option<f64>,
}

impl Calibration {
    /// Last result.
    pub fn found(&self) -> Option<&Timers> {
        self.found.as_ref()
    }
}

fn in_use(machines: usize, election_us: u32) -> InUse {
    let pace = Pace::of_election(election_us.into());
    InUse {
        size: machines.min(REPLICAS_MAX) as u8,
        election_ms: f64::from(election_us) / 1e3,
        heartbeat_ms: pace.heartbeat_us() as f64 / 1e3,
        drift: CLOCK_DRIFT_PERCENT_MAX as f64 / 100.0,
    }
}

/// Derives time-outs from the measurements.
fn look(collected: Collected, in_use: InUse) -> Option<Timers> {
    let questions = collected.questions();
    let report: Report = collected.propose(in_use)?;
    let distance = |at_ms: f64| (at_ms - in_use.election_ms).abs();
    let nearest = report
        .curve
        .iter()
        .min_by(|a, b| distance(a.timeout_ms).total_cmp(&distance(b.timeout_ms)));
    Some(Timers {
        election_in_use_ms: in_use.election_ms,
        heartbeat_in_use_ms: in_use.heartbeat_ms,
        election_ms: report.election_timeout_ms,
        low_ms: report.evidence.low,
        high_ms: report.evidence.high,
        heartbeat_ms: report.timers.map(|timers| timers.heartbeat_ms),
        lease_ms: report.timers.and_then(|timers| timers.lease_ms),
        false_per_day_in_use: nearest.map(|point| point.false_suspicions_per_day),
        extrapolated: report.evidence.extrapolated,
        questions,
        observed_node_days: report.observed_node_days,
        needed_node_days: report.needed_node_days,
    })
}

impl Synchrony {
    /// Starts a calibration if it is due, and collects the result of the last one.
    pub(super) fn calibrate(&mut self, now_us: u64) {
        if let Some(running) = &self.calibration.running
            && let Ok(found) = running.try_recv()
        {
            self.calibration.running = None;
            self.take_timers(found);
        }
        let collected = self.asker.collected();
        let last = self.calibration.looked_us;
        let due = last.is_none_or(|at| now_us.saturating_sub(at) >= EVERY_US);
        let idle = self.calibration.running.is_none();
        if !due || !idle || collected.questions() < QUESTIONS_MIN {
            return;
        }
        self.calibration.looked_us = Some(now_us);
        let in_use = in_use(1 + self.asker.lost_totals().count(), self.agreement.used_us());
        let (sender, receiver) = channel();
        let collected = collected.clone();
        let begun = thread::Builder::new().name("calibrate".to_owned()).spawn(move || {
            // The receiver may be gone.
            let _ = sender.send(look(collected, in_use));
        });
        match begun {
            Ok(_) => self.calibration.running = Some(receiver),
            Err(error) => tracing::warn!("time-outs cannot be calibrated: {error}"),
        }
    }

    fn take_timers(&mut self, found: Option<Timers>) {
        let Some(timers) = found else { return };
        let reported = self.calibration.reported_ms;
        if let Some(election_ms) = timers.election_ms
            && reported
                .is_none_or(|last| election_ms.max(last) >= election_ms.min(last) * NEWS_FACTOR)
        {
            self.calibration.reported_ms = Some(election_ms);
            let Timers { questions, observed_node_days, needed_node_days, .. } = &timers;
            let how = if timers.extrapolated { "extrapolated" } else { "observed" };
            let evidence = format!(
                "{questions} questions, {observed_node_days:.2} of {needed_node_days:.0} node-days, {how}"
            );
            let before = format!("{:.0} ms", timers.election_in_use_ms);
            let after = format!("{election_ms:.0} ms");
            tracing::info!(
                "an election time-out of {after} instead of {before} would be enough ({evidence})"
            );
            let what = "election time-out: proposed".to_owned();
            let at_ms = self.around.clock.now().wall_us / 1000;
            self.judge.note(Event { at_ms, what, before, after, evidence });
        }
        self.calibration.found = Some(timers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_is_what_the_engine_uses() {
        let InUse { size, election_ms, heartbeat_ms, drift } = in_use(3, 950_000);
        assert_eq!((size, election_ms, heartbeat_ms, drift), (3, 950.0, 100.0, 0.1));
        assert_eq!(in_use(32, 950_000).size, 5);
    }

    #[test]
    fn a_proposal_says_what_it_rests_on() {
        let mut collected = Collected::default();
        assert!(look(collected.clone(), in_use(3, 950_000)).is_none());
        for question in 0..20_000 {
            let pause_us = if question % 500 == 0 { question * 3 } else { 0 };
            collected.add(2, 50, 300 + question % 97 + pause_us);
        }
        let timers = look(collected, in_use(3, 950_000)).unwrap();
        assert_eq!((timers.questions, timers.election_in_use_ms), (20_000, 950.0));
        assert!(timers.observed_node_days < 1.0 && timers.needed_node_days > 80.0);
        assert!(timers.extrapolated && timers.election_ms.is_some());
    }
}
