//! `claret sim`: runs seeds under virtual time and checks the histories.

use clap::Args;
use sim::{Focus, Plant, Report};
use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Arguments of `claret sim`.
#[derive(Args, Debug)]
pub struct SimArgs {
    /// Run this seed alone.
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run this many seeds.
    #[arg(long, value_name = "N", default_value_t = 20)]
    seeds: u64,
    /// First of the seeds.
    #[arg(long, value_name = "N", default_value_t = 1)]
    first: u64,
    /// Plant a bug, by name, or `all` to plant each in turn: the run succeeds if the checkers find
    /// it.
    #[arg(long, value_name = "NAME")]
    plant: Option<String>,
    /// Run clusters whose clients send pipelines over several shards while leaders change, instead
    /// of everything.
    #[arg(long)]
    pipelines: bool,
    /// Run clients that hold locks, pause, leave, and write under their tokens, instead of
    /// everything.
    #[arg(long, conflicts_with = "pipelines")]
    locks: bool,
    /// Run clients of the coordination service, whose tree is spread over several shards, instead of
    /// everything.
    #[arg(long, conflicts_with_all = ["pipelines", "locks"])]
    trees: bool,
    /// Run clients that send scripts, instead of everything.
    #[arg(long, conflicts_with_all = ["pipelines", "locks", "trees"])]
    scripts: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Write the history of the (last) seed to this file, for `claret check`.
    #[arg(long, value_name = "FILE")]
    history: Option<std::path::PathBuf>,
}

impl SimArgs {
    fn focus(&self) -> Focus {
        match () {
            () if self.pipelines => Focus::Pipelines,
            () if self.locks => Focus::Locks,
            () if self.trees => Focus::Trees,
            () if self.scripts => Focus::Scripts,
            () => Focus::Everything,
        }
    }
}

thread_local! {
    /// Seed that this thread simulates, for the message of a failed assertion.
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

fn name_seeds_that_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if let Some(seed) = SEED.get() {
            eprintln!("claret sim --seed {seed} panicked:");
        }
        before(panic);
    }));
}

/// Runs the command.
pub fn main(args: &SimArgs) -> ExitCode {
    name_seeds_that_panic();
    match args.plant.as_deref() {
        None => one(args),
        Some("all") => all_plants(args),
        Some(name) => match Plant::named(name) {
            Some(plant) => planted(args, plant),
            None => {
                let names: Vec<&str> = Plant::ALL.iter().map(|p| p.name()).collect();
                eprintln!("unknown planted bug {name}; known are: all, {}", names.join(", "));
                ExitCode::from(2)
            }
        },
    }
}

fn range(args: &SimArgs) -> std::ops::Range<u64> {
    match args.seed {
        Some(seed) => seed..seed + 1,
        None => args.first..args.first + args.seeds,
    }
}

/// Runs seeds on all cores; reports them in order.
fn run_all(args: &SimArgs, plant: Option<Plant>, until_found: bool) -> Report {
    let seeds = range(args);
    let (total, next) = (seeds.end - seeds.start, AtomicU64::new(seeds.start));
    let cpu_us = bench::servers::process::cpu_us("self");
    let runs = Mutex::new(std::collections::BTreeMap::new());
    let found = AtomicU64::new(u64::MAX);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || (until_found && seed > found.load(Ordering::Relaxed)) {
                        return;
                    }
                    SEED.set(Some(seed));
                    let run = sim::run(seed, args.focus(), plant);
                    if run.failure.is_some() {
                        found.fetch_min(seed, Ordering::Relaxed);
                    }
                    // A run's result takes megabytes, and there may be many thousands.
                    let mut shown = Report::default();
                    shown.add(&run);
                    let is_last = seed + 1 == seeds.end;
                    let events = is_last.then_some(run.outcome.events);
                    let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
                    runs.insert(seed, (shown, events));
                    progress(runs.len() as u64, total, plant);
                }
            });
        }
    });
    let runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    let last = if until_found { found.load(Ordering::Relaxed) } else { u64::MAX };
    let cpu_us = bench::servers::process::cpu_us("self") - cpu_us;
    let mut report = Report { cpu_us, ..Report::default() };
    let mut history = None;
    for (_, (shown, events)) in runs.into_iter().filter(|(seed, _)| *seed <= last) {
        report.absorb(shown);
        history = events.or(history);
    }
    if let (Some(path), Some(events)) = (&args.history, history) {
        let lines: Vec<String> = events.iter().map(|e| e.to_json_line()).collect();
        if let Err(error) = std::fs::write(path, lines.join("\n") + "\n") {
            eprintln!("cannot write {}: {error}", path.display());
        }
    }
    report
}

fn progress(done: u64, total: u64, plant: Option<Plant>) {
    if std::io::stderr().is_terminal() {
        let what = plant.map_or("", Plant::name);
        eprint!("\r{done} of {total} seeds {what}   ");
        let _ = std::io::stderr().flush();
        if done == total {
            eprintln!();
        }
    }
}

fn one(args: &SimArgs) -> ExitCode {
    let report = run_all(args, None, false);
    print(args, &report, None);
    if report.failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Checks that a planted bug is found: succeeds if some seed fails.
fn planted(args: &SimArgs, plant: Plant) -> ExitCode {
    let report = run_all(args, Some(plant), true);
    print(args, &report, Some(plant));
    if report.failures > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn all_plants(args: &SimArgs) -> ExitCode {
    let mut missed = Vec::new();
    let mut rows = Vec::new();
    for plant in Plant::ALL {
        let report = run_all(args, Some(plant), true);
        if report.failures == 0 {
            missed.push(plant.name());
        }
        rows.push(serde_json::json!({
            "plant": plant.name(),
            "found": report.failures > 0,
            "seeds": report.seeds,
        }));
        if !args.json {
            let verdict = if report.failures > 0 { "found after" } else { "NOT FOUND in" };
            say(&format!("{:20} {verdict} {} seeds", plant.name(), report.seeds));
        }
    }
    if args.json {
        say(&serde_json::json!({ "plants": rows, "missed": missed }).to_string());
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(args: &SimArgs, report: &Report, plant: Option<Plant>) {
    if args.json {
        return say(&report.to_json(args.focus(), plant).to_string());
    }
    say(&format!(
        "{} seeds, {} failures, {:.1} s simulated, {} transactions, {} operations",
        report.seeds,
        report.failures,
        report.simulated_us as f64 / 1e6,
        report.transactions,
        report.operations
    ));
    say(&format!(
        "{:.1} s of processor time, {:.1} simulated seconds in each",
        report.cpu_us as f64 / 1e6,
        report.speed()
    ));
    say("failures:");
    for (kind, count) in &report.faults {
        say(&format!("  {count} {kind}"));
    }
    say("observations:");
    for (kind, count) in &report.marks {
        say(&format!("  {count} {kind}"));
    }
    if report.seeds == 1 {
        say(&format!("  trace {:016x}", report.trace_hash));
    }
    if let Some((seed, why)) = &report.first_failure {
        say(&format!("seed {seed} fails:\n{why}"));
    }
}

fn say(text: &str) {
    // A closed pipe is the reader's decision and no error.
    let _ = writeln!(std::io::stdout(), "{text}");
}
