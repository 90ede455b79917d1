//! Reader of matrices of round trips: a file for each source, with `min/avg/max/mdev:target` in
//! each line, in milliseconds, in the format of `ping`.
//!
//! Three numbers do not give the samples of a distribution. They become three calls, a second
//! apart: the fastest, the mean and the slowest, so that the median of a pair is its mean.

use super::runs::Row;
use super::{Rows, latency_of};
use crate::error::Error;
use std::path::{Path, PathBuf};

const MS: f64 = 1e6;

/// Reads every file of a folder whose name ends in `.dat`; others are reported.
pub fn read(folder: &Path, rows: &mut Rows) -> Result<(), Error> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        files.push(path);
    }
    files.sort();
    for path in files {
        if path.extension().is_none_or(|extension| extension != "dat") {
            rows.refuse(&path, 0, "file_without_dat_at_its_end", "");
            continue;
        }
        let source = path.file_stem().unwrap_or_default().display().to_string();
        let text = std::fs::read_to_string(&path).map_err(Error::io(&path))?;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match pair(line, &source, rows) {
                Ok(three) => three.into_iter().try_for_each(|row| rows.runs.push(row))?,
                Err(reason) => rows.refuse(&path, number + 1, reason, line),
            }
        }
    }
    Ok(())
}

/// Builds the three calls of a pair.
fn pair(line: &str, source: &str, rows: &mut Rows) -> Result<[Row; 3], &'static str> {
    let (numbers, target) = line.split_once(':').ok_or("fields_missing")?;
    let numbers: Vec<&str> = numbers.split('/').collect();
    let [min, avg, max, _] = numbers[..] else { return Err("fields_missing") };
    let parse = |text: &str| latency_of(text.trim(), MS);
    let three = [parse(min)?, parse(avg)?, parse(max)?];
    if !three.is_sorted() {
        return Err("min_avg_max_not_in_order");
    }
    let mut of = |second: i64, latency_ns| {
        rows.row((source, target.trim()), second * 1_000_000_000, Some(latency_ns))
    };
    Ok([of(0, three[0])?, of(1, three[1])?, of(2, three[2])?])
}
