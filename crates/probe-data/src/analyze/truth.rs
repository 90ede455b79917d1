//! Comparison of findings in synthetic data with the planted truth.

use super::correlate::Metric;
use super::slow::{ObserverDay, Rule, Variant, compare};
use crate::analyze::passes::observe::{PAUSES_MS, Pauses};
use crate::error::Error;
use crate::simulate::{TRUTH, Truth};
use serde_json::{Value, json};
use std::path::Path;

/// Reads the truth of a data set, if it has one.
///
/// # Errors
/// Its file cannot be read.
pub fn read(root: &Path) -> Result<Option<Truth>, Error> {
    let path = root.join(TRUTH);
    if !path.is_file() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&path).map_err(Error::io(&path))?;
    serde_json::from_str(&text).map(Some).map_err(|error| Error::content(&path, error.to_string()))
}

/// Adds recall and precision, of the remote variant first, which is the one in question.
pub fn slow_nodes(told: &mut Value, days: &[ObserverDay], floor_ns: u64, truth: &Truth) {
    let remote = compare(days, &Rule::plain(Variant::Remote, floor_ns), &truth.slow_nodes);
    told["recall"] = remote["recall"].clone();
    told["precision"] = remote["precision"].clone();
    told["planted"] = json!(truth.slow_nodes);
    for variant in Variant::ALL {
        let rule = Rule::plain(variant, floor_ns);
        told[variant.name()]["truth"] = compare(days, &rule, &truth.slow_nodes);
    }
}

/// Rates of pauses longer than some lengths, from the numbers of calls that late.
///
/// A probe at a random instant meets the rest of a pause. So the density of round trips at a length
/// is the rate of longer pauses; it is measured over a tenth to either side, and the value in the
/// middle follows from that mean.
pub fn pauses(found: &Pauses, truth: Option<&Truth>) -> Value {
    let rows = PAUSES_MS.iter().zip(found.longer).map(|(ms, [low, middle, high])| {
        let width_s = *ms as f64 / 1000.0 * 0.2;
        let mean = (low - high) as f64 / (found.calls.max(1) as f64 * width_s);
        let rate = mean * middle_of_mean(low - middle, middle - high);
        let mut row = json!({
            "longer_than_ms": ms,
            "calls_near": low - high,
            "calls_below": low - middle,
            "mean_per_node_s": mean,
            "per_node_s": rate,
        });
        let true_rate =
            truth.and_then(|truth| truth.pauses.iter().find(|pause| pause.longer_than_ms == *ms));
        if let Some(pause) = true_rate {
            row["true_per_node_s"] = json!(pause.per_node_s);
            if pause.count > 0 {
                row["error"] = json!(rate / pause.per_node_s - 1.0);
            }
        }
        row
    });
    json!({"calls": found.calls, "rates": rows.collect::<Vec<_>>()})
}

/// Ratio of an exponentially falling density in the middle of an interval to its mean over the
/// interval, from the counts in the lower and upper half.
///
/// With u the half-width over the mean of the distribution, the halves are as e^u to 1, and the
/// mean is sinh(u)/u times the middle. The result is one if a half has too few values.
fn middle_of_mean(lower: u64, upper: u64) -> f64 {
    const FEW: u64 = 30;
    if lower < FEW || upper < FEW {
        return 1.0;
    }
    let u = (lower as f64 / upper as f64).ln().abs();
    if u < 1e-6 { 1.0 } else { u / u.sinh() }
}

/// Adds the true coefficients, and the differences of the measured ones from them.
pub fn correlations(rows: &mut [Value], names: &[String], metrics: &[Metric], truth: &Truth) {
    for ((row, name), metric) in rows.iter_mut().zip(names).zip(metrics) {
        let Some(known) = truth.correlations.iter().find(|known| known.metric == *name) else {
            continue;
        };
        let (n, r) = metric.pooled_r();
        row["truth"] = json!({"n": known.n, "r": known.r, "same_n": n == known.n});
        if let Some(r) = r {
            row["truth"]["error"] = json!((r - known.r).abs());
        }
    }
}

/// Adds, to each planted s and T, whether it was found.
pub fn s_and_t(told: &Value, truth: &Truth) -> Value {
    let mut checks = Vec::new();
    for row in told.as_array().into_iter().flatten() {
        let size = &row["group_size"];
        for planted in &truth.t_of_s {
            let found = row["t_of_s"].as_array().into_iter().flatten();
            let mut found = found
                .filter(|one| one["s"] == planted.s && one["eps_ppm"] == planted.eps_ppm)
                .map(|one| one["t_ns"].clone());
            let t_ns = found.next().unwrap_or_default();
            checks.push(json!({
                "group_size": size,
                "given": {"s": planted.s, "eps_ppm": planted.eps_ppm},
                "planted_t_ns": planted.t_ns,
                "t_ns": t_ns,
                "exact": t_ns == planted.t_ns,
            }));
        }
        for planted in &truth.s_of_t {
            let mut curves = row["s_of_t"].as_array().into_iter().flatten();
            let curve = curves.find(|curve| curve["eps_ppm"] == planted.eps_ppm);
            let steps = curve.and_then(|curve| curve["steps"].as_array()).into_iter().flatten();
            let mut before = steps.filter(|step| step["from_t_ns"].as_u64() <= Some(planted.t_ns));
            let s = before.next_back().map(|step| step["s"].clone()).unwrap_or_default();
            checks.push(json!({
                "group_size": size,
                "given": {"t_ns": planted.t_ns, "eps_ppm": planted.eps_ppm},
                "planted_s": planted.s,
                "s": s,
                "exact": s == planted.s,
            }));
        }
    }
    // Nothing may have been planted because of too many pauses.
    let exact = checks.iter().all(|check| check["exact"] == true);
    json!({"exact": (!checks.is_empty()).then_some(exact), "checks": checks})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_over_an_interval_says_what_an_exponential_law_is_in_its_middle() {
        // At 2 s, a distribution with a mean of half a second, over a fifth of a second to either
        // side.
        let beyond = |s: f64| 1e9 * (-s / 0.5).exp();
        let [low, middle, high] = [1.8, 2.0, 2.2].map(beyond);
        let mean = (low - high) / 0.4;
        let density = beyond(2.0) / 0.5;
        assert!((mean / density - 1.0269).abs() < 1e-4, "{}", mean / density);
        let factor = middle_of_mean((low - middle) as u64, (middle - high) as u64);
        assert!((mean * factor / density - 1.0).abs() < 1e-6, "{factor}");
        assert_eq!([middle_of_mean(1_000, 1_000), middle_of_mean(29, 5)], [1.0, 1.0]);
    }
}
