//! Distribution of round trips, or of synced writes, as weights of times: input for other models.

use crate::error::{Error, Exclusions};
use crate::tables::calls::NONE;
use crate::tables::dataset::DataSet;
use crate::tables::meta::Metadata;
use probe::Workload;
use probe::calibrate::tail::bucket_around;
use std::collections::BTreeMap;
use std::path::Path;

/// Number of buckets per power of two, as a power of two: a time is within a quarter of a percent.
const STEP_BITS: u32 = 8;

/// Kind of distribution.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Of {
    /// Time from sending to the reply, with the workload that does nothing.
    RoundTrip,
    /// Delay in the callee, with the workload that writes to its disk and syncs.
    DiskWrite,
}

/// Weights of times in milliseconds, and the number of calls. Calls of a node to itself count for
/// disks only; calls without reply count for neither.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights {
    /// Times, ascending, each with its count.
    pub bars: Vec<(f64, f64)>,
    /// Number of calls.
    pub calls: u64,
    /// Unusable files.
    pub excluded: Exclusions,
}

fn node(metadata: &Metadata, name: &str, root: &Path) -> Result<u16, Error> {
    let at = metadata.nodes.iter().position(|found| found == name);
    let known = || format!("has no node {name:?}; its nodes are {}", metadata.nodes.join(", "));
    let at = at.ok_or_else(|| Error::content(root, known()))?;
    Ok(u16::try_from(at).unwrap_or(u16::MAX))
}

/// Weights of all pairs of nodes, or of one pair (caller and callee, by name).
///
/// # Errors
/// The folder has no readable calls, no such node, or no such call.
pub fn weights(root: &Path, of: Of, pair: Option<(&str, &str)>) -> Result<Weights, Error> {
    let data = DataSet::open(root)?.with_calls()?;
    let wanted = match pair {
        Some((from, to)) => {
            Some((node(&data.metadata, from, root)?, node(&data.metadata, to, root)?))
        }
        None => None,
    };
    let mut found = Weights { excluded: data.exclusions, ..Weights::default() };
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for ((_, from), source) in &data.calls {
        if wanted.is_some_and(|(caller, _)| caller != *from) {
            continue;
        }
        let calls = source.calls(&["wl", "dst", "rtt", "svc"])?;
        let (workload, times) = match of {
            Of::RoundTrip => (Workload::Null, &calls.rtt_100ns),
            Of::DiskWrite => (Workload::Disk, &calls.svc_100ns),
        };
        for (at, time) in times.iter().enumerate() {
            let to = calls.dst[at] as u16;
            let of_workload = calls.workload[at] == i32::from(workload.code());
            let of_pair = match wanted {
                Some((_, callee)) => callee == to,
                None => to != *from || of == Of::DiskWrite,
            };
            if of_workload && of_pair && *time != NONE {
                *counts.entry(middle(u64::from(*time) * 100)).or_default() += 1;
            }
        }
    }
    found.calls = counts.values().sum();
    if found.calls == 0 {
        return Err(Error::content(root, "has no answered call of this kind"));
    }
    let bars = counts.into_iter().map(|(ns, count)| (ns as f64 / 1e6, count as f64));
    found.bars = bars.collect();
    Ok(found)
}

/// Middle of the bucket of a time.
fn middle(ns: u64) -> u64 {
    let (first, last) = bucket_around(ns, STEP_BITS);
    first.midpoint(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;
    use crate::simulate::{self, simulate};
    use probe::groups::Plan;

    #[test]
    fn the_law_of_a_pair_is_that_of_its_calls() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("data");
        let options = simulate::Options {
            nodes: 3,
            plan: Plan::new(&[3]).unwrap(),
            days: 1,
            slow: 0,
            seed: 2,
            rounds: 1_000,
            pauses_per_hour: 0.0,
            resources: false,
            threads: 1,
        };
        simulate(&options, &root, &Silent).unwrap();
        let all = weights(&root, Of::RoundTrip, None).unwrap();
        let one = weights(&root, Of::RoundTrip, Some(("n0", "n2"))).unwrap();
        assert_eq!(all.calls, one.calls * 6);
        let mean = |of: &Weights| {
            of.bars.iter().map(|(ms, weight)| ms * weight).sum::<f64>() / of.calls as f64
        };
        // The expected values are computed from the rows.
        let source = &DataSet::open(&root).unwrap().calls[&(19_723, 0)];
        let calls = source.calls(&probe::sample::COLUMNS).unwrap();
        let rows = (0..calls.len()).filter_map(|at| calls.get(at));
        let rows = rows.filter(|row| row.dst == 2 && row.workload == Workload::Null);
        let rtts: Vec<f64> =
            rows.filter_map(|row| row.rtt_100ns).map(|rtt| f64::from(rtt) / 1e4).collect();
        let exact = rtts.iter().sum::<f64>() / rtts.len() as f64;
        assert_eq!(rtts.len() as u64, one.calls);
        assert!((mean(&one) / exact - 1.0).abs() < 0.0025, "{} {exact}", mean(&one));
        let disk = weights(&root, Of::DiskWrite, None).unwrap();
        assert!(disk.calls > all.calls, "a node's own disk counts");
        let error = weights(&root, Of::RoundTrip, Some(("n0", "n9"))).unwrap_err().to_string();
        assert!(error.contains("n0, n1, n2"), "{error}");
    }
}
