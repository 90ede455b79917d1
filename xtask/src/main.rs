//! The one door for developers: `cargo xtask <task>`.
//!
//! Every task is ordinary Rust that starts ordinary programs, so that it runs the same on a
//! laptop and in continuous integration. Nothing outside `target/` is written, except by `docs`
//! and `night`, whose purpose it is.

// A developer's tool prints to standard output.
#![allow(clippy::print_stdout)]

mod background;
mod clients;
mod deny;
mod dist;
mod docs;
mod first_hour;
mod fuzz;
mod measure;
mod night;
mod paths;
mod process;
mod report;
mod setup;
mod simulation;
mod site;
mod test;
mod tidy;

use simulation::{LOCKS, PIPELINES, SCRIPTS, TREES};
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask <task>

  test             everything that a change must pass: installs what is missing, then formatting,
                   tidy, builds, lints, tests, dependencies, black-box tests, simulation; prints
                   the duration of each step and fails when all of them take too long
  setup            only the first step of `test`: install what the tests need
  tidy             only the rules about the repository itself (also: cargo test -p xtask)
  measure [NAME [FOLDER]]
                   measure the structure and wording of the code; with a name, list the items
                   that a measure counts
  docs [--check]   generate the documents on commands from the binary, or compare them
  site             make the documentation site in target/site
  clients          only the step of `test` about the clients of other languages
  dist [--binary PATH] [--only wheel | npm | deb | image] [--out DIR] [--install]
                   build packages with the program and try each: wheels, npm packages, a Debian
                   package, the recipe of the image; with the program of a release build, into
                   target/dist, if not said otherwise; --install (root) also installs the Debian
                   package on this machine and purges it. Without packages, the program is
                   installed by `cargo install --locked --path crates/claret`
  first-hour [--binary PATH]
                   go through a new user's first hour by the pages, with the time of each step:
                   install, tutorial, kill -9, a cluster of three (needs redis-cli)
  night [pipelines | locks | trees | scripts] [MINUTES]
                   simulate new seeds for so long (default 480), with the program as it is
                   shipped, and add a row to the ledger; without a kind, after dist and first-hour
  night libraries  let libraries of JavaScript, Go, Java and Ruby do their work on Claret and on
                   redis-server, and on a Claret that is killed again and again (needs npm, go, mvn
                   and sidekiq, and skips what is missing), and run many random scripts on both
                   servers
  fuzz [SECONDS]   run every fuzz target for so long (default 60)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test"] => test::run(),
        ["setup"] => setup::run(),
        ["tidy"] => tidy::run(),
        ["measure", words @ ..] => measure::run(words),
        ["docs"] => docs::write(),
        ["docs", "--check"] => docs::check(),
        ["site"] => site::make(),
        ["clients"] => test::clients(),
        ["dist", words @ ..] => dist::run(words),
        ["first-hour", words @ ..] => first_hour::run(words),
        ["night", "pipelines", rest @ ..] => night(rest, PIPELINES),
        ["night", "locks", rest @ ..] => night(rest, LOCKS),
        ["night", "trees", rest @ ..] => night(rest, TREES),
        ["night", "scripts", rest @ ..] => night(rest, SCRIPTS),
        ["night", "libraries"] => test::libraries(),
        ["night", rest @ ..] => night(rest, &[]),
        ["fuzz"] => fuzz::run(60),
        ["fuzz", seconds] => number("SECONDS", seconds).and_then(fuzz::run),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        [] => Err(format!("a task is missing\n\n{HELP}")),
        _ => Err(format!("no such task: {}\n\n{HELP}", words.join(" "))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Simulates for a night with these arguments, for the given minutes or eight hours.
fn night(words: &[&str], about: &'static [&'static str]) -> Result<(), String> {
    match words {
        [] => night::run(480, about),
        [minutes] => number("MINUTES", minutes).and_then(|minutes| night::run(minutes, about)),
        _ => Err(format!("night takes MINUTES only\n\n{HELP}")),
    }
}

fn number(name: &str, word: &str) -> Result<u64, String> {
    match word.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(format!("{name} must be a whole number above 0, not {word:?}")),
    }
}
