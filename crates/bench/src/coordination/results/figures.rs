//! Figures from the runs of a point.

use super::forecast::Forecast;
use crate::coordination::generator::Outcome;
use crate::coordination::operations::quantile;
use crate::coordination::points::plan::Point;
use crate::coordination::services::backend::Ensemble;
use crate::report::{fields, ratio, rounded};
use serde_json::{Map, Value};

/// Student's t for a 95 % interval, by degrees of freedom from 1 on; beyond the table the normal
/// distribution is close enough.
const STUDENT: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// Jain's fairness index of these shares: 1 if all are equal, 1/n if one has everything. `None` if
/// there is nothing to share.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// Half-width of the 95 % confidence interval of the mean of these values; `None` for fewer than
/// two.
pub fn interval(means: &[f64]) -> Option<f64> {
    let count = means.len() as f64;
    let mean = means.iter().sum::<f64>() / count;
    let square = means.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
    let freedom = means.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let student = STUDENT.get(freedom - 1).copied().unwrap_or(1.96);
    Some(student * (square / freedom as f64 / count).sqrt())
}

/// Fairness measure of each client: in a closed loop its number of grants; in an open loop, in
/// which every request is granted, its mean latency.
fn shares(point: &Point, outcome: &Outcome) -> Vec<f64> {
    let clients = point.clients as usize;
    let (mut counts, mut sums) = (vec![0.0; clients], vec![0.0; clients]);
    for (client, latency) in outcome.client.iter().zip(&outcome.latency_ns) {
        if let Some(latency_ns) = latency {
            counts[*client] += 1.0;
            sums[*client] += *latency_ns as f64;
        }
    }
    if point.closed {
        return counts;
    }
    let means = sums.iter().zip(&counts).filter(|(_, count)| **count > 0.0);
    means.map(|(sum, count)| sum / count).collect()
}

/// Figures of a lock from all runs of its point, in the experiment's milliseconds. Without a
/// forecast, the predicted figures are null.
pub fn of_lock(
    point: &Point,
    outcomes: &[Outcome],
    forecast: Option<&Forecast>,
) -> Map<String, Value> {
    let ms = |ns: f64| ns / 1e6 * point.scale;
    let mean_of = |outcome: &Outcome| {
        let served: Vec<u64> = outcome.served_ns().collect();
        ms(served.iter().sum::<u64>() as f64 / served.len().max(1) as f64)
    };
    let means: Vec<f64> = outcomes.iter().map(mean_of).collect();
    let served: Vec<u64> = outcomes.iter().flat_map(Outcome::served_ns).collect();
    let hand_offs: Vec<u64> =
        outcomes.iter().flat_map(|outcome| outcome.hand_off_ns.iter().copied()).collect();
    let cycles: Vec<u64> =
        outcomes.iter().flat_map(|outcome| outcome.cycle_ns.iter().copied()).collect();
    let mean = ms(served.iter().sum::<u64>() as f64 / served.len() as f64);
    let acquisitions = served.len() as f64;
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>() as f64;
    // Each of a recipe's writes is one log entry, including refused ones.
    let writes = |outcome: &Outcome| outcome.log_entries.unwrap_or(outcome.counts.writes);
    let fair: Vec<f64> =
        outcomes.iter().filter_map(|outcome| jain(&shares(point, outcome))).collect();
    let option = |value: Option<f64>| value.map_or(Value::Null, rounded);
    let expected = |of: fn(&Forecast) -> Option<f64>| forecast.and_then(of);
    let predicted = expected(|forecast| forecast.mean_ms);
    let state = forecast.map(|forecast| forecast.state);
    let state = serde_json::to_value(state).unwrap_or_default();
    let mut row = fields([
        ("state", state),
        ("load", option(expected(|forecast| Some(forecast.load)))),
        ("mean_ms", rounded(mean)),
        ("predicted_ms", option(predicted)),
        ("error", option(predicted.map(|predicted| mean / predicted - 1.0))),
        ("mean_95_ms", option(interval(&means))),
        ("p50_ms", rounded(ms(quantile(&served, 0.5)))),
        ("p99_ms", rounded(ms(quantile(&served, 0.99)))),
        ("predicted_p99_ms", option(expected(|forecast| forecast.p99_ms))),
        ("max_ms", rounded(ms(quantile(&served, 1.0)))),
        ("hand_off_p50_ms", rounded(ms(quantile(&hand_offs, 0.5)))),
        ("lock_unlock_p50_ms", rounded(ms(quantile(&cycles, 0.5)))),
        ("jain", option((!fair.is_empty()).then(|| fair.iter().sum::<f64>() / fair.len() as f64))),
        (
            "writes_per_acquisition",
            ratio(Some(outcomes.iter().map(writes).sum::<u64>() as f64), Some(acquisitions)),
        ),
        ("predicted_writes", option(expected(|forecast| forecast.writes))),
        ("messages_per_acquisition", ratio(Some(sum(|o| o.counts.messages())), Some(acquisitions))),
        ("predicted_messages", option(expected(|forecast| forecast.messages))),
        ("bytes_per_acquisition", ratio(Some(sum(|o| o.counts.bytes)), Some(acquisitions))),
        ("unfinished", outcomes.iter().map(Outcome::unfinished).sum::<usize>().into()),
        ("growth_ms_per_request", option(expected(|forecast| forecast.growth_ms))),
        ("acquisitions_per_s", rounded(acquisitions / (sum(|o| o.elapsed_ns) / 1e9 * point.scale))),
    ]);
    if !point.distances_ms.is_empty() {
        for (distance, rtt_ms) in point.distances_ms.iter().enumerate() {
            let at = |client: &usize| client % point.distances_ms.len() == distance;
            let mut far = Vec::new();
            for outcome in outcomes {
                let of = outcome.client.iter().zip(&outcome.latency_ns).filter(|(c, _)| at(c));
                far.extend(of.filter_map(|(_, latency)| *latency));
            }
            let share = far.len() as f64 / acquisitions;
            row.insert(format!("share_at_{rtt_ms}ms"), rounded(share));
            row.insert(format!("max_at_{rtt_ms}ms"), rounded(ms(quantile(&far, 1.0))));
        }
    }
    row
}

/// Processor time that other programs used during a measurement.
pub struct Watch {
    costs: crate::load::sample::Costs,
    elsewhere_us: u64,
    begun: std::time::Instant,
}

impl Watch {
    /// Starts watching.
    pub fn begin(ensemble: &Ensemble) -> Self {
        let costs = crate::load::sample::Costs::now(&ensemble.processes());
        let elsewhere_us = ensemble.elsewhere_us;
        Self { costs, elsewhere_us, begun: std::time::Instant::now() }
    }

    /// Number of processors busy with other work than the service and its load.
    pub fn foreign_cpus(&self, ensemble: &Ensemble) -> f64 {
        let after = crate::load::sample::Costs::now(&ensemble.processes());
        let recorder = crate::load::recorder::Recorder::new(1, 0);
        let elapsed_ns = self.begun.elapsed().as_nanos() as u64;
        let costs = (self.costs, after);
        let mut sample = crate::load::sample::Sample::new(&recorder, 1, elapsed_ns.max(1), costs);
        sample.client_cpu_us += ensemble.elsewhere_us - self.elsewhere_us;
        sample.foreign_cpus()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_one_over_n_for_a_single_owner_and_one_for_equals() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert!((jain(&[1.0, 2.0]).unwrap() - 0.9).abs() < 1e-12);
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[]), None);
    }

    #[test]
    fn an_interval_is_that_of_the_textbook() {
        assert_eq!(interval(&[5.0]), None);
        let found = interval(&[9.0, 10.0, 11.0]).unwrap();
        assert!((found - 4.303 / 3f64.sqrt()).abs() < 1e-9, "{found}");
    }
}
