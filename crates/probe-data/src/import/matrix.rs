//! Matrices of round trips: a file for each source, with `min/avg/max/mdev:target` in each line,
//! in milliseconds, as `ping` says it.
//!
//! Three numbers of a law are not its samples. They become three calls, a second apart: the
//! fastest, the mean and the slowest, so that the median of a pair is its mean.

use super::{Rows, latency_of};
use crate::error::Error;
use std::path::{Path, PathBuf};

const MS: f64 = 1e6;

/// Reads every file of a folder that ends in `.dat`.
pub fn read(folder: &Path, rows: &mut Rows) -> Result<(), Error> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        if path.extension().is_some_and(|extension| extension == "dat") {
            files.push(path);
        }
    }
    files.sort();
    for path in files {
        let source = path.file_stem().unwrap_or_default().display().to_string();
        let text = std::fs::read_to_string(&path).map_err(Error::io(&path))?;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            if let Err(reason) = row(line, &source, rows) {
                rows.refuse(&path, number + 1, reason, line);
            }
        }
    }
    Ok(())
}

fn row(line: &str, source: &str, rows: &mut Rows) -> Result<(), &'static str> {
    let (numbers, target) = line.split_once(':').ok_or("fields_missing")?;
    let numbers: Vec<&str> = numbers.split('/').collect();
    let [min, avg, max, _] = numbers[..] else { return Err("fields_missing") };
    let parse = |text: &str| latency_of(text.trim(), MS);
    let three = [parse(min)?, parse(avg)?, parse(max)?];
    if !three.is_sorted() {
        return Err("min_avg_max_not_in_order");
    }
    for (second, latency_ns) in (0..).zip(three) {
        rows.push((source, target.trim()), second * 1_000_000_000, Some(latency_ns))?;
    }
    Ok(())
}
