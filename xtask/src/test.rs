//! `cargo xtask test`: everything that a change must pass, in one command.
//!
//! All steps run even when one fails, so that one run shows everything there is to mend; only
//! what needs the release binary waits for it.

use crate::process::{cargo, command, judge, limited, start, watch};
use crate::report::{Count, Outcome, Report, libtest_count, pytest_count};
use crate::{deny, older, paths, setup, simulation, tidy};
use std::process::Command;

/// Bounds on the steps that run our own code, which may hang when it is wrong. Building is not in them.
const TEST_SECONDS: u64 = 1200;
const BLACK_BOX_SECONDS: u64 = 2700;

/// Runs the steps. The last line of output is `N passed, N failed`.
pub fn run() -> Result<(), String> {
    let mut report = Report::new();
    report.step("packages", || one(setup::packages()));
    report.step("Python environment", || one(setup::python().map(|_| ())));
    report.step("formatting", || one(start(&mut cargo(&["fmt", "--all", "--check"]))));
    report.step("tidy", || tidy::count().map(Outcome::Ran));
    report.step("lints", || one(start(&mut clippy())));
    report.step("build of the tests", || {
        one(start(&mut cargo(&["test", "--workspace", "--locked", "--no-run"])))
    });
    report.step("tests", || counted(&tests(), TEST_SECONDS, libtest_count));
    report.step("dependencies", || one(deny::run_checks()));
    // Before the present build, which takes its place.
    report.step("older build", older::build);
    let build = ["build", "--release", "--locked", "--package", "claret"];
    if report.step("release build", || one(start(&mut cargo(&build)))) {
        // By itself: built together, each would have what only the other needs.
        let load = ["build", "--release", "--locked", "--package", "claret-etcd-load"];
        report.step("release build of the load for etcd", || one(start(&mut cargo(&load))));
        report.step("command reference", || one(crate::docs::check()));
        report.step("black-box tests", black_box);
        report.step("simulation", simulation::short);
        report.step("simulation of pipelines", simulation::short_of_pipelines);
        report.step("simulation of locks", simulation::short_of_locks);
        report.step("planted bugs", simulation::planted_bugs);
    }
    report.finish()
}

fn clippy() -> Command {
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
}

fn tests() -> Command {
    cargo(&["test", "--workspace", "--locked", "--no-fail-fast"])
}

/// A step that is one check.
fn one(result: Result<(), String>) -> Result<Outcome, String> {
    result.map(|()| Outcome::Ran(Count::ONE))
}

/// A step whose output tells how many tests passed and failed.
fn counted(
    inner: &Command,
    seconds: u64,
    read: fn(&str) -> Option<Count>,
) -> Result<Outcome, String> {
    let mut total = Count::default();
    let mut limited = limited(seconds, inner);
    let status = watch(&mut limited, |line| {
        let count = read(line).unwrap_or_default();
        total.passed += count.passed;
        total.failed += count.failed;
    })?;
    // A failure that no test accounts for: it did not compile, or ran out of time.
    if total.failed == 0 {
        judge(&limited, status)?;
    }
    if total == Count::default() {
        return Err("no test was run".into());
    }
    Ok(Outcome::Ran(total))
}

/// Tests in Python against the release binary, as a user's programs see it.
fn black_box() -> Result<Outcome, String> {
    let root = paths::root();
    let folders = ["tests/blackbox", "tests/compat", "python/tests"];
    let present: Vec<&str> = folders.into_iter().filter(|dir| root.join(dir).is_dir()).collect();
    if present.is_empty() {
        return Ok(Outcome::NotRun(format!("there is no {}", folders.join(" or "))));
    }
    let mut pytest = command(setup::python()?, &["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    pytest.args(&present);
    pytest.env("CLARET_BIN", paths::claret());
    if older::binary().exists() {
        pytest.env("CLARET_OLDER_BIN", older::binary());
    }
    pytest.env("PYTHONPATH", root.join("python"));
    pytest.env("PYTHONDONTWRITEBYTECODE", "1");
    counted(&pytest, BLACK_BOX_SECONDS, pytest_count)
}
