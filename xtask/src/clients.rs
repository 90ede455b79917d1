//! The clients of other languages: built and tested with the tools of their languages, and then led through
//! the stories of `clients/conformance` on a server that is killed in between.

use crate::process::{command, judge, limited, output, start, watch};
use crate::report::{Count, Outcome};
use crate::{paths, setup};
use std::process::Command;

/// Longest time of what a tool does for one client, in seconds: most of it waits for downloads.
const BUILD_SECONDS: u64 = 900;

/// Longest time of the stories with all clients, in seconds.
const STORIES_SECONDS: u64 = 900;

/// Clients, by the names of `clients/conformance/run.py`.
const CLIENTS: [&str; 6] =
    ["python", "typescript", "typescript-node-redis", "go", "java", "java-lettuce"];

/// Commands for each client before the stories, in its folder of `clients`.
const CHECKS: [(&str, &[&str]); 5] = [
    ("typescript", &["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]),
    ("typescript", &["npm", "test", "--silent"]),
    ("go", &["go", "vet", "./..."]),
    ("go", &["go", "test", "-count=1", "./..."]),
    ("java", &["mvn", "-q", "-B", "package"]),
];

/// Builds and tests the clients, and carries out the stories with them.
pub fn check() -> Result<Outcome, String> {
    let mut total = Count::default();
    for (client, words) in CHECKS {
        start(&mut tool(client, words))?;
        total.passed += 1;
    }
    let (_, unformatted) = output(&mut tool("go", &["gofmt", "-l", "."]))?;
    if !unformatted.trim().is_empty() {
        return Err(format!("gofmt would change {}", unformatted.trim()));
    }
    let stories = stories()?;
    total.passed += stories.passed;
    total.failed += stories.failed;
    Ok(Outcome::Ran(total))
}

/// A tool in the folder of a client.
fn tool(client: &str, words: &[&str]) -> Command {
    let mut tool = limited(BUILD_SECONDS, &command(words[0], &words[1..]));
    tool.current_dir(paths::root().join("clients").join(client)).env("CLARET_BIN", paths::claret());
    tool
}

fn stories() -> Result<Count, String> {
    let mut run = command(setup::python()?, &["clients/conformance/run.py"]);
    run.args(CLIENTS).env("CLARET_BIN", paths::claret());
    run.env("PYTHONPATH", paths::root().join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut limited = limited(STORIES_SECONDS, &run);
    let mut count = Count::default();
    let status = watch(&mut limited, |line| {
        let mut words = line.split_whitespace();
        let sum = match words.next() {
            Some("ok") => &mut count.passed,
            Some("failed") => &mut count.failed,
            _ => return,
        };
        *sum += words.filter_map(|word| word.parse::<u64>().ok()).sum::<u64>();
    })?;
    if count.failed == 0 {
        judge(&limited, status)?;
    }
    if count.passed == 0 {
        return Err("no story was carried out".into());
    }
    Ok(count)
}
