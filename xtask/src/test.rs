//! `cargo xtask test`: everything that a change must pass, in one command and within a budget.
//!
//! All steps run even when one fails, so that one run shows everything that must be mended; only
//! steps that need the program wait for it. Everything is built with one profile and one set of
//! features, because compiling a crate twice took most of the time of a change.

use crate::process::{cargo, command, judge, limited, per_core, show, start, watch};
use crate::report::{Count, Outcome, Report, libtest_count, pytest_count};
use crate::{clients, deny, docs, paths, setup, simulation, site, tidy};
use std::process::Command;

/// Longest time of the whole on two cores, from a fresh clone, because a change waits for it. It
/// takes 25 to 40 minutes; the rest is for slower machines.
const BUDGET_SECONDS: u64 = 3600;

/// Bound on each step that runs our own code, which may hang when it is wrong. Building is not
/// included.
const TEST_SECONDS: u64 = 900;
const BLACK_BOX_SECONDS: u64 = 1200;

/// Limit on the tests of libraries of other languages, in seconds.
const LIBRARIES_SECONDS: u64 = 7200;

/// Black-box tests that run side by side on each core: they wait most of the time.
const BLACK_BOX_PER_CORE: usize = 3;

/// The specification of the order across shards is built separately: its checker requires features
/// of common crates that the program does without, and all of these would be compiled twice.
pub const APART: &str = "claret-order-spec";

/// Runs the steps. The last line of output is `N passed, N failed`.
pub fn run() -> Result<(), String> {
    let mut report = Report::new(BUDGET_SECONDS);
    report.check("packages", setup::packages);
    report.check("Python environment", || setup::python().map(drop));
    report.check("formatting", || start(&mut cargo(&["fmt", "--all", "--check"])));
    report.step("tidy", || tidy::count().map(Outcome::Ran));
    let built = report.check("build of the program", || start(&mut cargo(docs::BUILD)));
    report.check("build of the tests", || {
        let rest = ["test", "--locked", "--no-run", "--workspace", "--exclude", APART];
        start(&mut cargo(&rest))?;
        start(&mut cargo(&["test", "--locked", "--no-run", "--package", APART]))
    });
    report.check("lints", || start(&mut clippy()));
    report.step("tests", || {
        let rest = ["test", "--locked", "--no-fail-fast", "--workspace", "--exclude", APART];
        counted(&cargo(&rest), TEST_SECONDS, libtest_count)
    });
    report.step("tests of the specification", || {
        let spec = ["test", "--locked", "--no-fail-fast", "--package", APART];
        counted(&cargo(&spec), TEST_SECONDS, libtest_count)
    });
    report.check("documentation site", site::make);
    report.check("dependencies", deny::run_checks);
    if built {
        report.check("command reference", docs::compare);
        report.step("black-box tests", black_box);
        report.step("clients of other languages", clients::check);
        report.step("simulation", simulation::short);
        report.step("simulation of pipelines", simulation::short_of_pipelines);
        report.step("simulation of locks", simulation::short_of_locks);
        report.step("simulation of trees", simulation::short_of_trees);
        report.step("simulation of scripts", simulation::short_of_scripts);
        report.step("planted bugs", simulation::planted_bugs);
    }
    report.finish()
}

/// Runs only the step of the clients.
pub fn clients() -> Result<(), String> {
    let mut report = Report::new(BUDGET_SECONDS);
    report.step("clients of other languages", clients::check);
    report.finish()
}

fn clippy() -> Command {
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
}

/// A step whose output contains the numbers of passed and failed tests.
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
    // A failure that no test accounts for: a compile error, or a time-out.
    if total.failed == 0 {
        judge(&limited, status)?;
    }
    if total == Count::default() {
        return Err("no test was run".into());
    }
    Ok(Outcome::Ran(total))
}

/// Random scripts of a night, and the seed of the first one: those before are in every test.
const RANDOM_SCRIPTS: &str = "10000";
const RANDOM_SCRIPTS_FROM: &str = "1000";

/// Tests that install much or take long: libraries of other languages at work, on a server that is killed
/// again and again, and many random scripts. Needs a program that `cargo xtask test` or `cargo build` has
/// made, and Node.js.
pub fn libraries() -> Result<(), String> {
    let root = paths::root();
    let mut pytest = command(setup::python()?, &["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    pytest.args(["-s", "--durations=15", "tests/night", "tests/compat/test_random_scripts.py"]);
    pytest.env("RANDOM_SCRIPTS", RANDOM_SCRIPTS).env("RANDOM_SCRIPTS_FROM", RANDOM_SCRIPTS_FROM);
    pytest.env("CLARET_BIN", paths::claret());
    let folders = ["python", "tests/blackbox", "tests/compat"].map(|folder| root.join(folder));
    let path = std::env::join_paths(folders).map_err(|error| error.to_string())?;
    pytest.env("PYTHONPATH", path);
    pytest.env("PYTHONDONTWRITEBYTECODE", "1");
    println!("$ {}", show(&pytest));
    let mut limited = limited(LIBRARIES_SECONDS, &pytest);
    let status = limited.status().map_err(|error| error.to_string())?;
    judge(&limited, status)
}

/// Tests in Python against the program, from the view of a user's programs. Most of the time they
/// wait, so several run side by side; the slowest ones are the last lines of the output.
fn black_box() -> Result<Outcome, String> {
    let root = paths::root();
    let folders = ["tests/blackbox", "tests/compat", "python/tests"];
    let present: Vec<&str> = folders.into_iter().filter(|dir| root.join(dir).is_dir()).collect();
    if present.is_empty() {
        return Ok(Outcome::NotRun(format!("there is no {}", folders.join(" or "))));
    }
    let side_by_side = per_core(BLACK_BOX_PER_CORE);
    let mut pytest = command(setup::python()?, &["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    pytest.args(["--durations=15", "--dist", "worksteal", "-n", &side_by_side]).args(&present);
    pytest.env("CLARET_BIN", paths::claret());
    pytest.env("PYTHONPATH", root.join("python"));
    pytest.env("PYTHONDONTWRITEBYTECODE", "1");
    counted(&pytest, BLACK_BOX_SECONDS, pytest_count)
}
