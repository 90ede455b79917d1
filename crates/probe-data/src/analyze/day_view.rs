//! O6: one group on one day, by caller and by callee.

use super::latency::{QUANTILES_PPM, latency, quantile_name};
use crate::analyze::passes::sessions::Session;
use crate::analyze::passes::spread::{NEVER, Points};
use probe::rank::of_sorted;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Step between the reported points of a distribution function.
const STEP: usize = 10;

/// Latencies of one group and day.
#[derive(Default)]
pub struct DayView {
    latencies: BTreeMap<(u16, u16), Vec<u64>>,
}

impl DayView {
    /// Keeps a session of the chosen group and day.
    pub fn add(&mut self, caller: u16, session: &Session<'_>) {
        for call in session.calls {
            self.latencies.entry((caller, call.dst)).or_default().push(call.latency_ns);
        }
    }

    /// Adds another thread's latencies.
    pub fn merge(&mut self, other: Self) {
        for (pair, mut latencies) in other.latencies {
            self.latencies.entry(pair).or_default().append(&mut latencies);
        }
    }

    /// Statistics of all calls by caller or by callee.
    fn side(
        &self,
        names: &[String],
        of: impl Fn(&(u16, u16)) -> u16,
        cuts: [u64; 2],
        points: &Points,
    ) -> Value {
        let mut nodes: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
        for (pair, latencies) in &self.latencies {
            nodes.entry(of(pair)).or_default().extend(latencies);
        }
        let mut rows = Vec::new();
        for (node, mut latencies) in nodes {
            latencies.sort_unstable();
            let all = latencies.len();
            let replied = latencies.partition_point(|latency| *latency != NEVER);
            let at_most = |ns: u64| latencies.partition_point(|latency| *latency <= ns);
            let quantiles =
                QUANTILES_PPM.map(|ppm| (quantile_name(ppm), latency(of_sorted(&latencies, ppm))));
            let told: Vec<(u64, usize)> = points
                .ns
                .iter()
                .step_by(STEP)
                .map(|ns| (*ns, at_most(*ns)))
                .filter(|(_, count)| *count > 0 && *count < replied)
                .collect();
            let share = |count: usize| count as f64 / all.max(1) as f64;
            rows.push(json!({
                "node": node,
                "name": names.get(usize::from(node)),
                "calls": all,
                "no_reply": all - replied,
                "all_ns": quantiles.into_iter().collect::<Map<String, Value>>(),
                "share_under_low_cut": share(latencies.partition_point(|latency| *latency < cuts[0])),
                "share_over_high_cut": share(all - at_most(cuts[1])),
                "cdf": {
                    "at_most_ns": told.iter().map(|(ns, _)| ns).collect::<Vec<_>>(),
                    "calls": told.iter().map(|(_, count)| count).collect::<Vec<_>>(),
                },
            }));
        }
        rows.into()
    }

    /// Builds document O6.
    pub fn document(
        &self,
        day: i64,
        group: u16,
        names: &[String],
        cuts: [u64; 2],
        points: &Points,
    ) -> Value {
        json!({
            "day": day,
            "group": group,
            "low_cut_ns": cuts[0],
            "high_cut_ns": cuts[1],
            "by_initiator": self.side(names, |pair| pair.0, cuts, points),
            "by_receiver": self.side(names, |pair| pair.1, cuts, points),
        })
    }
}
