//! Licences, sources, banned crates and advisories of the dependencies, by cargo-deny.

use crate::process::{cargo, command, limited, start, succeeds};
use crate::setup;

/// How long fetching the advisory database may take before it counts as out of reach.
const FETCH_SECONDS: u64 = 120;

/// Runs the checks of `deny.toml`. The advisory database lives on a Git host; where that cannot
/// be reached the other checks run alone, and the output says so.
pub fn run_checks() -> Result<(), String> {
    let deny = setup::cargo_deny()?;
    let fetch = command(&deny, &["--locked", "fetch", "db"]);
    let mut checks = vec!["--locked", "check"];
    if succeeds(&mut limited(FETCH_SECONDS, &fetch)) {
        checks.push("advisories");
    } else {
        println!("ADVISORIES ARE NOT CHECKED: the advisory database cannot be fetched from here");
    }
    checks.extend(["licenses", "bans", "sources"]);
    // cargo-deny asks cargo for the dependency graph and must find the same one.
    let toolchain = cargo(&[]).get_program().to_owned();
    start(command(&deny, &checks).env("CARGO", toolchain))
}
