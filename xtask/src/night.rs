//! `cargo xtask night`: the long form of the simulation, and its row in the ledger.

use crate::paths;
use crate::process::{cargo, command, output, start};
use crate::simulation::{self, Summary};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LEDGER: &str = "docs/reliability/ledger.md";

/// Seeds per call of the binary: small enough that a night ends near its time.
const BATCH: u64 = 100;

const HEAD: &str = "\
# Reliability ledger

One row per `cargo xtask night`: the real gateway, shard and replication code on virtual time,
network and disk, under faults drawn from the seed, with every history checked. A run can be
repeated from its first seed and its commit. Failures are kept here for ever; each has a scenario
or a fix that names it.

| date (UTC) | commit | minutes | seeds (from) | simulated hours | transactions | faults injected | failures |
|---|---|---|---|---|---|---|---|
";

/// Simulates seeds that no night had before, for `minutes`.
pub fn run(minutes: u64) -> Result<(), String> {
    start(&mut cargo(&["build", "--release", "--locked", "--package", "claret"]))?;
    let now_s = unix_seconds();
    // A night's seeds start at its second, times the most that a machine does in one: so nights
    // do not overlap, and the start says when it was.
    let first = now_s * 1000;
    let begin = Instant::now();
    let end = Duration::from_secs(minutes * 60);
    let mut night = Night::default();
    while begin.elapsed() < end {
        let summary = batch(first + night.seeds)?;
        night.add(summary);
        println!(
            "{} seeds, {:.1} simulated hours, {} failures",
            night.seeds,
            night.simulated_s / 3600.0,
            night.failures
        );
    }
    let row = night.row(&date(now_s), &commit()?, begin.elapsed().as_secs() / 60, first);
    append(&row)?;
    match night.failures {
        0 => Ok(()),
        n => Err(format!("{n} seeds failed; repeat with:\n  {}", night.repeat.join("\n  "))),
    }
}

/// One call of the simulator, from `first` on.
fn batch(first: u64) -> Result<Summary, String> {
    let (first, count) = (first.to_string(), BATCH.to_string());
    simulation::run(&["--first", &first, "--seeds", &count]).map(|(_, summary)| summary)
}

/// Sums over a night.
#[derive(Default)]
struct Night {
    seeds: u64,
    failures: u64,
    simulated_s: f64,
    transactions: u64,
    faults: BTreeMap<String, u64>,
    repeat: Vec<String>,
}

impl Night {
    fn add(&mut self, summary: Summary) {
        self.seeds += summary.seeds.max(1);
        self.failures += summary.failures;
        self.simulated_s += summary.simulated_s;
        self.transactions += summary.transactions;
        for (kind, count) in summary.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        self.repeat.extend(summary.first_failure.map(|failure| failure.command));
    }

    fn row(&self, date: &str, commit: &str, minutes: u64, first: u64) -> String {
        let faults: Vec<String> = self.faults.iter().map(|(k, n)| format!("{k} {n}")).collect();
        let failures = match self.repeat.as_slice() {
            [] => self.failures.to_string(),
            commands => format!("{} (`{}`)", self.failures, commands.join("`, `")),
        };
        format!(
            "| {date} | {commit} | {minutes} | {} ({first}) | {:.1} | {} | {} | {failures} |\n",
            self.seeds,
            self.simulated_s / 3600.0,
            self.transactions,
            faults.join(", "),
        )
    }
}

fn append(row: &str) -> Result<(), String> {
    let path = paths::root().join(LEDGER);
    let mut text = if path.exists() {
        fs::read_to_string(&path).map_err(|e| format!("cannot read {LEDGER}: {e}"))?
    } else {
        HEAD.into()
    };
    text.push_str(row);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| format!("cannot make the folder: {e}"))?;
    }
    fs::write(&path, text).map_err(|e| format!("cannot write {LEDGER}: {e}"))?;
    print!("{LEDGER}: {row}");
    Ok(())
}

/// The commit that was simulated, with a plus when the tree differs from it.
fn commit() -> Result<String, String> {
    let (_, commit) = output(&mut command("git", &["rev-parse", "--short", "HEAD"]))?;
    let (_, changes) = output(&mut command("git", &["status", "--porcelain"]))?;
    Ok(format!("{}{}", commit.trim(), if changes.trim().is_empty() { "" } else { "+" }))
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The day of a time in seconds since 1970, as `YYYY-MM-DD` in UTC.
fn date(unix_s: u64) -> String {
    let mut days = unix_s / 86_400;
    let mut year = 1970;
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let february = days_of(year) - 337;
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
}

fn days_of(year: u64) -> u64 {
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    if leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Failure;

    #[test]
    fn days_are_named_as_in_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_709_251_199), "2024-02-29");
        assert_eq!(date(1_709_251_200), "2024-03-01");
        assert_eq!(date(4_102_444_799), "2099-12-31");
        assert_eq!(date(4_107_542_400), "2100-03-01");
    }

    #[test]
    fn a_night_is_one_row() {
        let mut night = Night::default();
        let failure = Failure { command: "claret sim --seed 9".into(), why: "lost".into() };
        for first_failure in [None, Some(failure)] {
            night.add(Summary {
                seeds: 100,
                failures: u64::from(first_failure.is_some()),
                simulated_s: 5400.0,
                transactions: 50,
                faults: vec![("crash".to_owned(), 3)],
                first_failure,
            });
        }
        let row = night.row("2030-01-02", "abc1234", 60, 7);
        let expected = "| 2030-01-02 | abc1234 | 60 | 200 (7) | 3.0 | 100 | crash 6 | 1 (`claret sim \
                        --seed 9`) |\n";
        assert_eq!(row, expected);
        assert_eq!(HEAD.lines().last().unwrap().matches('|').count(), row.matches('|').count());
    }
}
