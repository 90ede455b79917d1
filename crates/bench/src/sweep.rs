//! Cells for several contestants, in turns, each driven to its peak.

use crate::cell::{Contestant, Setting, measure};
use crate::load::workload::Workload;
use crate::servers::control::Control;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value};
use std::io;

/// Numbers of clients that are tried by default.
const CLIENTS: [usize; 6] = [4, 16, 64, 128, 256, 384];
/// Most clients in the cell beyond saturation.
const OVERLOAD_CLIENTS_MAX: usize = 1_024;
/// Ratio of that cell's clients to the saturating number.
const OVERLOAD_FACTOR: usize = 4;

/// Results of one contestant.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    /// Numbers of clients with transactions per second.
    pub cells: Vec<(usize, f64)>,
    /// Throughput at several times the saturating number of clients, relative to the peak.
    pub overload: Option<f64>,
}

impl Reached {
    /// Peak throughput, in transactions per second.
    pub fn peak(&self) -> Option<f64> {
        self.cells.iter().map(|cell| cell.1).reduce(f64::max)
    }

    /// Smallest number of clients that nearly reaches the peak.
    fn saturating(&self) -> Option<usize> {
        let enough = self.peak()? * 0.95;
        self.cells.iter().find(|cell| cell.1 >= enough).map(|cell| cell.0)
    }

    /// Whether more clients cannot be expected to help.
    fn is_falling(&self) -> bool {
        let peak = self.peak().unwrap_or(0.0);
        self.cells.len() > 2 && self.cells.iter().rev().take(2).all(|cell| cell.1 < 0.9 * peak)
    }
}

/// Results of all contestants.
pub struct Outcome {
    /// A row for each cell.
    pub rows: Vec<Map<String, Value>>,
    /// Results by contestant, in their order.
    pub reached: Vec<Reached>,
}

/// A progress bar on standard error.
pub fn progress(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {elapsed} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Measures all contestants. `prepare` makes the data of a cell and the load for it, given the
/// load of the cell before on the same server.
///
/// # Errors
/// A server fails.
pub fn sweep<W: Workload>(
    contestants: &[Contestant<'_>],
    clients: &[usize],
    setting: &Setting,
    mut prepare: impl FnMut(&Contestant<'_>, &mut Control, Option<W>) -> io::Result<W>,
) -> io::Result<Outcome> {
    let to_peak = clients.is_empty();
    let counts = if to_peak { &CLIENTS } else { clients };
    let bar = progress(contestants.len() * (counts.len() + usize::from(to_peak)));
    let mut rows = Vec::new();
    let mut reached = vec![Reached::default(); contestants.len()];
    let mut loads: Vec<Option<W>> = contestants.iter().map(|_| None).collect();
    let mut cell = |who: usize, clients: usize, rows: &mut Vec<_>| -> io::Result<f64> {
        let contestant = &contestants[who];
        let name = contestant.labels.get("cc").and_then(Value::as_str).unwrap_or("redis");
        bar.set_message(format!("{name} {} with {clients} clients", contestant.api.name()));
        let mut control = Control::connect(contestant.server.address())?;
        let mut load = prepare(contestant, &mut control, loads[who].take())?;
        let row = measure(contestant, &mut control, &mut load, clients, setting)
            .map_err(|error| io::Error::other(format!("{name}, {clients} clients: {error}")))?;
        loads[who] = Some(load);
        let txn_per_s = row.get("txn_per_s").and_then(Value::as_f64).unwrap_or(0.0);
        rows.push(row);
        bar.inc(1);
        Ok(txn_per_s)
    };
    for &clients in counts {
        for (who, reached) in reached.iter_mut().enumerate() {
            // The behaviour of another server far beyond its peak is part of the picture.
            if !(to_peak && contestants[who].claret && reached.is_falling()) {
                reached.cells.push((clients, cell(who, clients, &mut rows)?));
            }
        }
    }
    for (who, reached) in reached.iter_mut().enumerate() {
        let Some((saturating, peak)) = reached.saturating().zip(reached.peak()) else { continue };
        let beyond = (OVERLOAD_FACTOR * saturating).min(OVERLOAD_CLIENTS_MAX);
        let known = reached.cells.iter().find(|cell| cell.0 == beyond).map(|cell| cell.1);
        let there = match known {
            None if to_peak => Some(cell(who, beyond, &mut rows)?),
            known => known,
        };
        reached.overload = there.map(|txn_per_s| txn_per_s / peak);
    }
    bar.finish_and_clear();
    Ok(Outcome { rows, reached })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_and_saturation_are_found() {
        let cells = vec![(4, 10.0), (16, 96.0), (64, 100.0), (128, 80.0)];
        let mut reached = Reached { cells, overload: None };
        assert_eq!((reached.peak(), reached.saturating()), (Some(100.0), Some(16)));
        assert!(!reached.is_falling());
        reached.cells.push((256, 70.0));
        assert!(reached.is_falling());
        assert_eq!(Reached::default().peak(), None);
    }
}
