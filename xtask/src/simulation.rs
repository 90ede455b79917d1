//! Runs of the simulator: the short one of every change, and planted bugs that it must find.

use crate::paths;
use crate::process::{command, judge, limited, output, show};
use crate::report::{Count, Outcome};
use serde_json::Value;
use std::path::Path;
use std::process::ExitStatus;

/// Bound on one run, in seconds; a simulation that hangs has found something.
const RUN_SECONDS: u64 = 600;

/// Seeds of each kind per change, after those that the tests of the simulator run. The long form is
/// `cargo xtask night`.
const SEEDS: &[&str] = &["--first", "101", "--seeds", "100"];

/// Seeds within which every planted bug must be found.
const PLANT_SEEDS: &str = "600";

/// Arguments for runs of pipelines over several shards.
pub const PIPELINES: &[&str] = &["--pipelines"];

/// Arguments for runs of locks.
pub const LOCKS: &[&str] = &["--locks"];

/// Arguments for runs of trees of the coordination service over several shards.
pub const TREES: &[&str] = &["--trees"];

/// Arguments for runs of scripts.
pub const SCRIPTS: &[&str] = &["--scripts"];

/// The short simulation; a failing seed is shown with the command that repeats it.
pub fn short() -> Result<Outcome, String> {
    judged(SEEDS)
}

/// The short simulation of pipelines.
pub fn short_of_pipelines() -> Result<Outcome, String> {
    judged(&[SEEDS, PIPELINES].concat())
}

/// The short simulation of locks.
pub fn short_of_locks() -> Result<Outcome, String> {
    judged(&[SEEDS, LOCKS].concat())
}

/// The short simulation of trees.
pub fn short_of_trees() -> Result<Outcome, String> {
    judged(&[SEEDS, TREES].concat())
}

/// The short simulation of scripts.
pub fn short_of_scripts() -> Result<Outcome, String> {
    judged(&[SEEDS, SCRIPTS].concat())
}

fn judged(words: &[&str]) -> Result<Outcome, String> {
    let (status, summary) = run(&paths::claret(), words)?;
    let Summary { seeds, failures, simulated_s, transactions, cpu_s, .. } = summary;
    println!(
        "{seeds} seeds, {simulated_s:.0} simulated seconds in {cpu_s:.0} of a processor, \
         {transactions} transactions"
    );
    if let Some(failure) = &summary.first_failure {
        println!("{}\nrepeat with: {}", failure.why, failure.command);
    }
    if failures == 0 && !status.success() {
        return Err(format!("no seed failed, but claret sim ended with {status}"));
    }
    Ok(Outcome::Ran(Count { passed: seeds.saturating_sub(failures), failed: failures }))
}

/// Runs the planted bugs, each of which must be found: a simulation that cannot fail proves
/// nothing.
pub fn planted_bugs() -> Result<Outcome, String> {
    let (_, document) = sim(&paths::claret(), &["--plant", "all", "--seeds", PLANT_SEEDS])?;
    let plants = document["plants"].as_array().ok_or("claret sim printed no `plants`")?;
    let mut count = Count::default();
    for plant in plants {
        let (name, seeds) = (plant["plant"].as_str().unwrap_or("?"), &plant["seeds"]);
        if plant["found"] == true {
            count.passed += 1;
            println!("{name}: found after {seeds} seeds");
        } else {
            count.failed += 1;
            println!("{name}: NOT FOUND in {seeds} seeds");
        }
    }
    if count == Count::default() {
        return Err("claret sim has no planted bugs".into());
    }
    Ok(Outcome::Ran(count))
}

/// Simulates some seeds with a program. A seed that fails is not an error: it is in the summary.
pub fn run(program: &Path, words: &[&str]) -> Result<(ExitStatus, Summary), String> {
    let (status, document) = sim(program, words)?;
    Ok((status, Summary::read(&document)?))
}

fn sim(program: &Path, words: &[&str]) -> Result<(ExitStatus, Value), String> {
    let mut inner = command(program, &["sim", "--json"]);
    inner.args(words);
    println!("$ {}", show(&inner));
    let mut limited = limited(RUN_SECONDS, &inner);
    let (status, text) = output(&mut limited)?;
    match serde_json::from_str(&text) {
        Ok(document) => Ok((status, document)),
        // Without a document the exit status is more informative than the parser's complaint.
        Err(e) => {
            judge(&limited, status)?;
            Err(format!("claret sim did not print one JSON document: {e}"))
        }
    }
}

/// Document that `claret sim --json` prints.
#[derive(Debug, PartialEq)]
pub struct Summary {
    /// Number of seeds.
    pub seeds: u64,
    /// Number of failed seeds.
    pub failures: u64,
    /// Virtual time of all seeds, in seconds.
    pub simulated_s: f64,
    /// Transactions of all seeds.
    pub transactions: u64,
    /// Operations of all seeds.
    pub operations: u64,
    /// Processor time, in seconds.
    pub cpu_s: f64,
    /// Injected faults by kind.
    pub faults: Vec<(String, u64)>,
    /// The seeds that failed.
    pub failed: Vec<u64>,
    /// The first seed that failed.
    pub first_failure: Option<Failure>,
}

/// A seed that failed.
#[derive(Debug, PartialEq)]
pub struct Failure {
    /// The command that repeats it.
    pub command: String,
    /// Description of the failure.
    pub why: String,
}

impl Summary {
    fn read(document: &Value) -> Result<Self, String> {
        let number = |name: &str| {
            document[name].as_u64().ok_or_else(|| format!("claret sim printed no number `{name}`"))
        };
        let faults = document["faults"].as_object().into_iter().flatten();
        let failed = document["failed"].as_array().into_iter().flatten();
        let failure = document["first_failure"].as_object().map(|failure| {
            let text = |name: &str| failure.get(name).and_then(Value::as_str).unwrap_or_default();
            Failure { command: text("command").to_owned(), why: text("why").to_owned() }
        });
        Ok(Self {
            seeds: number("seeds")?,
            failures: number("failures")?,
            simulated_s: document["simulated_s"].as_f64().unwrap_or(0.0),
            transactions: document["transactions"].as_u64().unwrap_or(0),
            operations: document["operations"].as_u64().unwrap_or(0),
            cpu_s: document["cpu_s"].as_f64().unwrap_or(0.0),
            failed: failed.filter_map(Value::as_u64).collect(),
            faults: faults.map(|(kind, n)| (kind.clone(), n.as_u64().unwrap_or(0))).collect(),
            first_failure: failure,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_summary_is_read() {
        let document = json!({
            "seeds": 20, "failures": 1, "simulated_s": 12.5, "transactions": 99,
            "operations": 200, "cpu_s": 1.5, "faults": {"crash": 7}, "failed": [3],
            "first_failure": {"seed": 3, "command": "claret sim --seed 3", "why": "lost"},
        });
        let expected = Summary {
            seeds: 20,
            failures: 1,
            simulated_s: 12.5,
            transactions: 99,
            operations: 200,
            cpu_s: 1.5,
            faults: vec![("crash".into(), 7)],
            failed: vec![3],
            first_failure: Some(Failure {
                command: "claret sim --seed 3".into(),
                why: "lost".into(),
            }),
        };
        assert_eq!(Summary::read(&document), Ok(expected));
    }

    #[test]
    fn an_incomplete_summary_is_refused() {
        let error = Summary::read(&json!({"seeds": 20})).unwrap_err();
        assert!(error.contains("`failures`"), "{error}");
    }
}
