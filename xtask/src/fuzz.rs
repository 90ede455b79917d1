//! Runs every fuzz target for a while. Needs a nightly toolchain and cargo-fuzz, which nothing
//! else in the repository needs.

use crate::paths;
use crate::process::{command, start, succeeds};
use std::fs;

const HOW: &str = "fuzzing needs two tools that nothing else here needs:
  rustup toolchain install nightly
  cargo install --locked cargo-fuzz";

/// Runs each target of `fuzz/fuzz_targets` for `seconds`.
pub fn run(seconds: u64) -> Result<(), String> {
    let targets = targets()?;
    if !succeeds(&mut command("rustup", &["run", "nightly", "cargo", "fuzz", "--version"])) {
        return Err(HOW.into());
    }
    let limit = format!("-max_total_time={seconds}");
    for target in targets {
        let words = ["run", "nightly", "cargo", "fuzz", "run", &target, "--", &limit];
        start(&mut command("rustup", &words))?;
    }
    Ok(())
}

/// Names of the targets, sorted.
fn targets() -> Result<Vec<String>, String> {
    let folder = paths::root().join("fuzz/fuzz_targets");
    let entries =
        fs::read_dir(&folder).map_err(|e| format!("there are no fuzz targets to run: {e}"))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".rs").map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}
