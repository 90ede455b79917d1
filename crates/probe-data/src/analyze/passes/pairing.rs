//! O12: pairing of calls with rows of a host's resources.
//!
//! A call belongs to the row of its callee that is nearest in time to the arrival of the request,
//! by the callee's own clock; of two equally near ones, to the earlier. Only the file of the same
//! day is searched.

use crate::error::Error;
use crate::tables::dataset::Source;
use crate::tables::hosts::{Host, metric_names};
use serde_json::{Value, json};

/// Maximum distance between a call and its row.
pub const FARTHEST_NS: i64 = 2_000_000_000;

/// Rows of one host and day, ready for look-ups.
pub struct Rows {
    /// Rows of the host, ascending in time, with the requested metrics.
    pub host: Host,
    /// Number of rows that were out of order and left out.
    pub out_of_order: u64,
}

impl Rows {
    /// Reads a host's day, with these metrics.
    ///
    /// # Errors
    /// A file cannot be read to its end.
    pub fn read(source: &Source, metrics: &[String]) -> Result<Self, Error> {
        let mut host = Host::default();
        for file in source.open()? {
            let there = metric_names(&file);
            let found: Vec<String> =
                metrics.iter().filter(|name| there.contains(name)).cloned().collect();
            for group in 0..file.groups() {
                let mut part = Host::default();
                part.read(&file, group, &found)?;
                let rows = part.t_ns.len();
                host.t_ns.append(&mut part.t_ns);
                host.metrics.resize(metrics.len(), Vec::new());
                for (to, name) in host.metrics.iter_mut().zip(metrics) {
                    match found.iter().position(|there| there == name) {
                        Some(at) => to.append(&mut part.metrics[at]),
                        None => to.resize(to.len() + rows, None),
                    }
                }
            }
        }
        let out_of_order = if host.t_ns.is_sorted() { 0 } else { sort(&mut host) };
        Ok(Self { host, out_of_order })
    }

    /// Row that a call belongs to, and its distance in time. The search begins at `cursor`, which
    /// makes it cheap for calls in the order of time.
    pub fn nearest(&self, received_ns: i64, cursor: &mut usize) -> Option<(usize, i64)> {
        let t_ns = &self.host.t_ns;
        // Whether a row is nearer than the one before it: the boundary is half-way.
        let reached = |row: usize| {
            let (before, after) = (i128::from(t_ns[row - 1]), i128::from(t_ns[row]));
            2 * i128::from(received_ns) > before + after
        };
        let mut at = (*cursor).min(t_ns.len().checked_sub(1)?);
        while at > 0 && !reached(at) {
            at -= 1;
        }
        while at + 1 < t_ns.len() && reached(at + 1) {
            at += 1;
        }
        *cursor = at;
        Some((at, received_ns.abs_diff(t_ns[at]).try_into().unwrap_or(i64::MAX)))
    }
}

/// Sorts rows by time, and returns their number.
fn sort(host: &mut Host) -> u64 {
    let mut order: Vec<usize> = (0..host.t_ns.len()).collect();
    order.sort_by_key(|row| host.t_ns[*row]);
    host.t_ns = order.iter().map(|row| host.t_ns[*row]).collect();
    for metric in &mut host.metrics {
        *metric = order.iter().map(|row| metric[*row]).collect();
    }
    order.len() as u64
}

/// Statistics of pairing.
#[derive(Clone, Debug, Default)]
pub struct Pairing {
    /// Number of calls that were answered in time.
    pub ok: u64,
    /// Number of those that belong to a row.
    pub paired: u64,
    /// Number of those whose nearest row is too far away.
    pub too_far: u64,
    /// Number of those whose callee has no rows on that day.
    pub no_rows: u64,
    /// Number of those whose arrival at the callee is unknown.
    pub no_time: u64,
    /// Sum and maximum of the distances.
    pub distance_ns: (u128, i64),
}

impl Pairing {
    /// Counts a pair.
    pub fn pair(&mut self, distance_ns: i64) {
        self.paired += 1;
        self.distance_ns.0 += u128::from(distance_ns.unsigned_abs());
        self.distance_ns.1 = self.distance_ns.1.max(distance_ns);
    }

    /// Adds another thread's counts.
    pub fn merge(&mut self, other: &Self) {
        self.ok += other.ok;
        self.paired += other.paired;
        self.too_far += other.too_far;
        self.no_rows += other.no_rows;
        self.no_time += other.no_time;
        self.distance_ns.0 += other.distance_ns.0;
        self.distance_ns.1 = self.distance_ns.1.max(other.distance_ns.1);
    }

    /// Builds document O12.
    pub fn document(&self) -> Value {
        json!({
            "ok_calls": self.ok,
            "paired": self.paired,
            "unpaired": {
                "too_far": self.too_far,
                "callee_without_rows": self.no_rows,
                "no_receive_time": self.no_time,
            },
            "distance_mean_ms": self.distance_ns.0 as f64 / self.paired.max(1) as f64 / 1e6,
            "distance_max_ms": self.distance_ns.1 as f64 / 1e6,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_row_is_found_from_anywhere_and_ties_go_to_the_earlier() {
        let t_ns = vec![0, 1_000, 2_000, 2_000, 5_000];
        let rows = Rows { host: Host { t_ns: t_ns.clone(), metrics: Vec::new() }, out_of_order: 0 };
        for received in [-700, 0, 499, 500, 501, 1_500, 1_501, 2_000, 3_500, 3_501, 9_000] {
            let by_hand = (0..t_ns.len())
                .min_by_key(|row| (i64::abs_diff(t_ns[*row], received), *row))
                .unwrap();
            for start in 0..t_ns.len() {
                let mut cursor = start;
                let (row, distance) = rows.nearest(received, &mut cursor).unwrap();
                assert_eq!(t_ns[row], t_ns[by_hand], "{received} from {start}");
                assert_eq!(distance.unsigned_abs(), t_ns[row].abs_diff(received));
            }
        }
    }
}
