//! Sums over a callee's rows while calls are still added to them.
//!
//! Calls are nearly in the order of time, so that only the last minutes of rows are touched: these
//! stay in the processor's caches, unlike sums of a whole day.

use crate::analyze::correlate::RowSums;
use std::collections::VecDeque;

/// Maximum number of open rows: some minutes, one per second.
const ROWS: usize = 512;

/// Sums of neighbouring rows, by workload.
#[derive(Debug, Default)]
pub struct Recent {
    begin: usize,
    sums: VecDeque<[RowSums; 5]>,
}

impl Recent {
    /// Whether rows must be closed to make room for this one.
    pub fn is_full(&self, row: usize) -> bool {
        !self.sums.is_empty() && row >= self.begin + ROWS
    }

    /// First row that stays open when room is made for this one.
    pub const fn keeps_from(row: usize) -> usize {
        row.saturating_sub(ROWS / 2)
    }

    /// Sums of a row; `None` if it is already closed.
    pub fn at(&mut self, row: usize) -> Option<&mut [RowSums; 5]> {
        if self.sums.is_empty() {
            self.begin = self.begin.max(Self::keeps_from(row));
        }
        let at = row.checked_sub(self.begin)?;
        if at >= self.sums.len() {
            self.sums.resize(at + 1, [RowSums::default(); 5]);
        }
        self.sums.get_mut(at)
    }

    /// Closes the rows before one, and returns their sums.
    pub fn close(&mut self, before: usize) -> Vec<(usize, [RowSums; 5])> {
        let count = before.saturating_sub(self.begin).min(self.sums.len());
        let begin = self.begin;
        self.begin += count;
        (begin..).zip(self.sums.drain(..count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_told_of_once_and_only_the_last_rows_are_open() {
        let mut recent = Recent::default();
        let mut told: Vec<(usize, u32)> = Vec::new();
        let mut tell = |closed: Vec<(usize, [RowSums; 5])>| {
            told.extend(closed.iter().map(|(row, sums)| (*row, sums[3].n)));
        };
        let mut late = 0;
        // One per second from row 5,000 on, a pause, and some that are much later than they should
        // be.
        for row in (5_000..7_000).chain([7_100, 20_000, 6_000, 19_990]) {
            if recent.is_full(row) {
                tell(recent.close(Recent::keeps_from(row)));
            }
            match recent.at(row) {
                Some(sums) => sums[3].add(10, 1),
                None => late += 1,
            }
            assert!(recent.sums.len() <= ROWS);
        }
        tell(recent.close(usize::MAX));
        assert!(told.is_sorted() && late == 1);
        told.retain(|(_, n)| *n > 0);
        let rows: Vec<usize> = told.iter().map(|(row, _)| *row).collect();
        assert_eq!(rows, (5_000..7_000).chain([7_100, 19_990, 20_000]).collect::<Vec<_>>());
    }
}
