//! What was found in synthetic data, beside what was planted there.

use super::correlate::Metric;
use super::observe::{PAUSES_MS, Pauses};
use super::slow::{ObserverDay, Rule, Variant, compare};
use crate::error::Error;
use crate::simulate::{TRUTH, Truth};
use serde_json::{Value, json};
use std::path::Path;

/// The truth of a data set, if it has one.
///
/// # Errors
/// The file with it cannot be read.
pub fn read(root: &Path) -> Result<Option<Truth>, Error> {
    let path = root.join(TRUTH);
    if !path.is_file() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&path).map_err(Error::io(&path))?;
    serde_json::from_str(&text).map(Some).map_err(|error| Error::content(&path, error.to_string()))
}

/// Adds recall and precision: those of the remote variant first, which is how it is asked for.
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

/// How often nodes pause for longer than something, from how often calls were so late.
///
/// A probe at a random instant finds what is left of a pause. So the density of round trips at a
/// length is the rate of pauses that are longer; it is taken over a tenth to either side.
pub fn pauses(found: &Pauses, truth: Option<&Truth>) -> Value {
    let rows = PAUSES_MS.iter().zip(found.longer).map(|(ms, (low, high))| {
        let width_s = *ms as f64 / 1000.0 * 0.2;
        let rate = (low - high) as f64 / (found.calls.max(1) as f64 * width_s);
        let mut row = json!({
            "longer_than_ms": ms,
            "calls_near": low - high,
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

/// Adds the true coefficients, and how far the found ones are from them.
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
    // Nothing may have been planted: too many pauses.
    let exact = checks.iter().all(|check| check["exact"] == true);
    json!({"exact": (!checks.is_empty()).then_some(exact), "checks": checks})
}
