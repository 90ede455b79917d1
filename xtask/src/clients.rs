//! The clients of other languages and the examples: built and tested with the tools of their languages. Then
//! the clients are led through the stories of `clients/conformance` on a server that is killed in between.

use crate::process::{cargo, command, judge, limited, output, start, watch};
use crate::report::{Count, Outcome};
use crate::{paths, setup};
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

/// Clients that carry out stories side by side: a story waits more than it computes.
const SIDE_BY_SIDE: &str = "2";

/// Commands for each client and example, each in its folder.
const CHECKS: [(&str, &[&str]); 9] = [
    ("clients/typescript", &["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]),
    ("clients/typescript", &["npm", "test", "--silent"]),
    ("clients/go", &["go", "vet", "./..."]),
    ("clients/go", &["go", "test", "-count=1", "./..."]),
    ("clients/java", &["mvn", "-q", "-B", "install"]),
    ("examples/auction", &["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]),
    ("examples/auction", &["npm", "test", "--silent"]),
    ("examples/flags", &["go", "test", "-count=1", "./..."]),
    ("examples/inventory", &["mvn", "-q", "-B", "test"]),
];

/// Build of the agent of the client for Rust; its tests are those of the workspace.
const RUST_AGENT: [&str; 6] =
    ["build", "--locked", "--package", "claret-client", "--example", "agent"];

/// Folders of Go programs.
const GO: [&str; 2] = ["clients/go", "examples/flags"];

/// Builds and tests the clients, and carries out the stories with them.
pub fn check() -> Result<Outcome, String> {
    let mut total = Count::default();
    for (folder, words) in CHECKS {
        start(&mut tool(folder, words))?;
        total.passed += 1;
    }
    for folder in GO {
        let (_, unformatted) = output(&mut tool(folder, &["gofmt", "-l", "."]))?;
        if !unformatted.trim().is_empty() {
            return Err(format!("gofmt would change {} in {folder}", unformatted.trim()));
        }
    }
    // The fixtures of the package, which is not installed.
    let pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "claret.pytest_plugin"];
    start(python(&pytest)?.arg("examples/jobs"))?;
    total.passed += 1;
    start(&mut cargo(&RUST_AGENT))?;
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
    let mut run = python(&["clients/conformance/run.py", "--jobs", SIDE_BY_SIDE])?;
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
