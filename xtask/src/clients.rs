//! The clients of other languages and the examples: built and tested with the tools of their
//! languages, side by side, because the tests mostly wait. Then the clients are led through the
//! stories of `clients/conformance` on a server that is killed in between.

use crate::process::{
    cargo, command, judge, limited, output, per_core, side_by_side, start, watch,
};
use crate::report::{Count, Outcome};
use crate::{paths, setup, test};
use std::process::Command;

/// Longest time of what a tool does for one client, in seconds: most of it waits for downloads.
const BUILD_SECONDS: u64 = 900;

/// Longest time of the stories with all clients, in seconds.
const STORIES_SECONDS: u64 = 900;

/// Clients, by the names of `clients/conformance/run.py`.
const CLIENTS: [&str; 8] = [
    "python",
    "python-asyncio",
    "typescript",
    "typescript-node-redis",
    "go",
    "java",
    "java-lettuce",
    "rust",
];

/// Clients that carry out stories side by side on each core: a story waits more than it computes.
const CLIENTS_PER_CORE: usize = 2;

/// A command in a folder.
type Check = (&'static str, &'static [&'static str]);

/// Commands for the clients and examples, by language: an example is built with the client before it.
const CHECKS: [&[Check]; 3] = [
    &[
        ("clients/typescript", &["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]),
        ("clients/typescript", &["npm", "test", "--silent"]),
        ("examples/auction", &["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]),
        ("examples/auction", &["npm", "test", "--silent"]),
    ],
    &[
        ("clients/go", &["go", "vet", "./..."]),
        ("clients/go", &["go", "test", "-count=1", "./..."]),
        ("examples/flags", &["go", "test", "-count=1", "./..."]),
    ],
    &[
        ("clients/java", &["mvn", "-q", "-B", "install"]),
        ("examples/inventory", &["mvn", "-q", "-B", "test"]),
    ],
];

/// Tests of the example in Python, with the fixtures of the package, which is not installed.
const PYTHON_EXAMPLE: [&str; 8] =
    ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "claret.pytest_plugin", "examples/jobs"];

/// Build of the agent of the client for Rust; its tests are those of the workspace. With the features
/// of the tests of the workspace, which have built it, there is nothing left to compile.
const RUST_AGENT: [&str; 7] =
    ["build", "--locked", "--workspace", "--exclude", test::APART, "--example", "agent"];

/// Folders of Go programs.
const GO: [&str; 2] = ["clients/go", "examples/flags"];

/// Builds and tests the clients, and carries out the stories with them.
pub fn check() -> Result<Outcome, String> {
    start(&mut cargo(&RUST_AGENT))?;
    for folder in GO {
        let (_, unformatted) = output(&mut tool(folder, &["gofmt", "-l", "."]))?;
        if !unformatted.trim().is_empty() {
            return Err(format!("gofmt would change {} in {folder}", unformatted.trim()));
        }
    }
    let lane =
        |checks: &[Check]| checks.iter().map(|(folder, words)| tool(folder, words)).collect();
    let mut lanes: Vec<Vec<Command>> = CHECKS.into_iter().map(lane).collect();
    lanes.push(vec![python(&PYTHON_EXAMPLE)?]);
    let mut total = Count { passed: side_by_side(lanes)?, failed: 0 };
    let stories = stories()?;
    total.passed += stories.passed;
    total.failed += stories.failed;
    Ok(Outcome::Ran(total))
}

/// A tool in a folder of the repository.
fn tool(folder: &str, words: &[&str]) -> Command {
    let mut tool = limited(BUILD_SECONDS, &command(words[0], &words[1..]));
    tool.current_dir(paths::root().join(folder)).env("CLARET_BIN", paths::claret());
    tool
}

/// Python with our client and with what the tests need.
fn python(arguments: &[&str]) -> Result<Command, String> {
    let mut python = command(setup::python()?, arguments);
    python.env("CLARET_BIN", paths::claret()).env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("PYTHONPATH", paths::root().join("python"));
    Ok(limited(STORIES_SECONDS, &python))
}

fn stories() -> Result<Count, String> {
    let jobs = per_core(CLIENTS_PER_CORE);
    let mut run = python(&["clients/conformance/run.py", "--jobs", &jobs])?;
    run.args(CLIENTS);
    let mut count = Count::default();
    let status = watch(&mut run, |line| {
        let mut words = line.split_whitespace();
        let sum = match words.next() {
            Some("ok") => &mut count.passed,
            Some("failed") => &mut count.failed,
            _ => return,
        };
        *sum += words.filter_map(|word| word.parse::<u64>().ok()).sum::<u64>();
    })?;
    if count.failed == 0 {
        judge(&run, status)?;
    }
    if count.passed == 0 {
        return Err("no story was carried out".into());
    }
    Ok(count)
}
