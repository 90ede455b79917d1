//! `cargo xtask test`: everything that a change must pass, in one command.
//!
//! All steps run even when one fails, so that one run shows everything there is to mend; only
//! what needs the release binary waits for it.

use crate::process::{cargo, command, judge, limited, output, start, watch};
use crate::report::{Count, Outcome, Report, libtest_count, pytest_count};
use crate::{deny, paths, setup, tidy};
use std::path::Path;
use std::process::Command;

/// Bounds on the steps that run our own code, which may hang when it is wrong.
const TEST_SECONDS: u64 = 1200;
const BLACK_BOX_SECONDS: u64 = 600;
const SIMULATION_SECONDS: u64 = 600;

/// Seeds per change; the long form is `cargo xtask night`.
const SEEDS: &str = "200";

/// Runs the steps. The last line of output is `N passed, N failed`.
pub fn run() -> Result<(), String> {
    let mut report = Report::new();
    report.step("packages", || one(setup::packages()));
    report.step("Python environment", || one(setup::python().map(|_| ())));
    report.step("formatting", || one(start(&mut cargo(&["fmt", "--all", "--check"]))));
    report.step("tidy", || tidy::count().map(Outcome::Ran));
    report.step("lints", || one(start(&mut clippy())));
    report.step("tests", || counted(&tests(), TEST_SECONDS, libtest_count));
    report.step("dependencies", || one(deny::run_checks()));
    let build = ["build", "--release", "--locked", "--package", "claret"];
    if report.step("release build", || one(start(&mut cargo(&build)))) {
        report.step("black-box tests", black_box);
        report.step("simulation", simulation);
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
    let folders = ["tests/blackbox", "python/tests"];
    let present: Vec<&str> = folders.into_iter().filter(|dir| root.join(dir).is_dir()).collect();
    if present.is_empty() {
        return Ok(Outcome::NotRun(format!("there is no {}", folders.join(" or "))));
    }
    let mut pytest = command(setup::python()?, &["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    pytest.args(&present);
    pytest.env("CLARET_BIN", paths::claret());
    pytest.env("PYTHONPATH", root.join("python"));
    pytest.env("PYTHONDONTWRITEBYTECODE", "1");
    counted(&pytest, BLACK_BOX_SECONDS, pytest_count)
}

/// A short simulation; a failing seed is shown with the command that repeats it.
fn simulation() -> Result<Outcome, String> {
    let claret = paths::claret();
    if !offers(&claret, "sim")? {
        return Ok(Outcome::NotRun("the binary has no `sim` command".into()));
    }
    let inner = command(&claret, &["sim", "--seeds", SEEDS, "--json"]);
    let mut limited = limited(SIMULATION_SECONDS, &inner);
    println!("$ {}", crate::process::show(&inner));
    let (status, text) = output(&mut limited)?;
    let summary = match Summary::read(&text) {
        Ok(summary) => summary,
        // Without a document the exit status tells more than the parser's complaint.
        Err(why) => return Err(judge(&limited, status).err().unwrap_or(why)),
    };
    println!("{} seeds, {:.0} simulated seconds", summary.seeds, summary.simulated_s);
    if let Some(repeat) = &summary.repeat {
        println!("repeat the first failure with: {repeat}");
    }
    if summary.failures == 0 {
        judge(&limited, status)?;
    }
    let passed = summary.seeds.saturating_sub(summary.failures);
    Ok(Outcome::Ran(Count { passed, failed: summary.failures }))
}

/// Whether the binary's help names a command.
pub fn offers(claret: &Path, name: &str) -> Result<bool, String> {
    let (_, help) = output(&mut command(claret, &["--help"]))?;
    Ok(help.lines().any(|line| line.split_whitespace().next() == Some(name)))
}

/// What `claret sim --json` says.
#[derive(Debug, PartialEq)]
pub struct Summary {
    /// How many seeds were run.
    pub seeds: u64,
    /// How many of them failed.
    pub failures: u64,
    /// Virtual time of all seeds, in seconds.
    pub simulated_s: f64,
    /// Injected faults by kind.
    pub faults: Vec<(String, u64)>,
    /// The command that repeats the first failure.
    pub repeat: Option<String>,
}

impl Summary {
    /// Reads the JSON document.
    pub fn read(text: &str) -> Result<Self, String> {
        let json: serde_json::Value = serde_json::from_str(text)
            .map_err(|e| format!("claret sim did not print a JSON document: {e}"))?;
        let number = |name: &str| {
            json[name].as_u64().ok_or_else(|| format!("claret sim printed no number `{name}`"))
        };
        let faults = json["faults"].as_object().into_iter().flatten();
        Ok(Self {
            seeds: number("seeds")?,
            failures: number("failures")?,
            simulated_s: json["simulated_s"].as_f64().unwrap_or(0.0),
            faults: faults.map(|(k, v)| (k.clone(), v.as_u64().unwrap_or(0))).collect(),
            repeat: json["first_failure"]["command"].as_str().map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_summary_is_read() {
        let text = r#"{"seeds":20,"failures":1,"simulated_s":12.5,"faults":{"crash":7},
            "first_failure":{"seed":3,"command":"claret sim --seed 3"}}"#;
        let expected = Summary {
            seeds: 20,
            failures: 1,
            simulated_s: 12.5,
            faults: vec![("crash".into(), 7)],
            repeat: Some("claret sim --seed 3".into()),
        };
        assert_eq!(Summary::read(text), Ok(expected));
    }

    #[test]
    fn an_incomplete_summary_is_refused() {
        assert!(Summary::read("").is_err());
        assert!(Summary::read(r#"{"seeds":20}"#).unwrap_err().contains("`failures`"));
    }
}
