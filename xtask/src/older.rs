//! An older build of the product, for the tests of upgrades.

use crate::paths;
use crate::process::{cargo, command, start, succeeds};
use crate::report::{Count, Outcome};
use std::fs;
use std::path::PathBuf;

/// The last commit before level 3 (`crates/engine/src/level.rs`): it knows neither levels nor what
/// they have brought.
const COMMIT: &str = "077d8e2dfa76c8a07716d1c71edf9ac55c280510";

/// The older binary, which may not have been built yet.
pub fn binary() -> PathBuf {
    folder().join(format!("claret-{}", &COMMIT[..12]))
}

fn folder() -> PathBuf {
    paths::target().join("older")
}

/// Builds it, unless that was done before: its sources come out of the repository's history, if that
/// reaches so far back. What it shares with the present build is compiled once for both.
///
/// # Errors
/// If it does not build.
pub fn build() -> Result<Outcome, String> {
    if binary().exists() {
        return Ok(Outcome::Ran(Count::ONE));
    }
    if !succeeds(&mut command("git", &["cat-file", "-e", &format!("{COMMIT}^{{commit}}")])) {
        let reason = "the history is cut short; `git fetch --unshallow` brings the rest of it";
        return Ok(Outcome::NotRun(reason.into()));
    }
    let sources = folder().join("sources");
    let failed = |error: std::io::Error| format!("cannot make {}: {error}", sources.display());
    if sources.exists() {
        fs::remove_dir_all(&sources).map_err(failed)?;
    }
    fs::create_dir_all(&sources).map_err(failed)?;
    let archive = folder().join("sources.tar");
    let (archive_text, sources_text) = (archive.to_string_lossy(), sources.to_string_lossy());
    start(&mut command("git", &["archive", "--output", &archive_text, COMMIT]))?;
    start(&mut command("tar", &["-xf", &archive_text, "-C", &sources_text]))?;
    let manifest = sources.join("Cargo.toml");
    let mut build = cargo(&["build", "--release", "--locked", "--package", "claret"]);
    build.arg("--manifest-path").arg(&manifest).arg("--target-dir").arg(paths::target());
    start(&mut build)?;
    fs::copy(paths::claret(), binary()).map_err(failed)?;
    // Whoever takes it for the present build shall find nothing.
    fs::remove_file(paths::claret()).map_err(failed)?;
    fs::remove_dir_all(&sources).map_err(failed)?;
    fs::remove_file(&archive).map_err(failed)?;
    Ok(Outcome::Ran(Count::ONE))
}
