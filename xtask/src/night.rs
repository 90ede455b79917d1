//! `cargo xtask night`: the long form of the simulation, and its row in the ledger.

use crate::process::{cargo, command, output, start};
use crate::simulation::{self, Summary};
use crate::{dist, first_hour, paths};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LEDGER: &str = "docs/reliability/ledger.md";

/// Seeds per call of the binary: small enough that a night ends near its time.
const BATCH: u64 = 100;

/// The first seed of the first night: tests and people have the small ones.
const FIRST: u64 = 1_000_000;

const HEAD: &str = "\
# Reliability ledger

One row per `cargo xtask night`: the real gateway, shard and replication code on virtual time,
network and disk, under faults drawn from the seed, with the history of every seed checked. A night
continues with the seeds after those of the last row, so all rows together are one long run, and any
seed can be repeated with its commit (a plus means that the tree differed from it). Failures are
kept here for ever; each has a scenario or a fix that names it.

## Faults survived

All nights together:

| fault | times |
|---|---|

## Nights

| date (UTC) | commit | minutes | seeds (from) | simulated hours | transactions | operations | \
faults survived | unexplained failures |
|---|---|---|---|---|---|---|---|---|
";

/// Head of the table of faults.
const FAULTS: &str = "| fault | times |\n|---|---|\n";

/// Simulates seeds that no night had before, for `minutes`. The row is written after every batch,
/// so an interrupted night counts for the time it ran. The arguments of `claret sim` select the
/// kind of runs; without them all kinds run, after the packages and a new user's first hour.
pub fn run(minutes: u64, about: &'static [&'static str]) -> Result<(), String> {
    dist::build()?;
    let packages = if about.is_empty() { packages() } else { Ok(()) };
    let (ledger, commit, date) = (read()?, commit()?, date(unix_seconds()));
    let first = next_seed(&ledger);
    let begin = Instant::now();
    let end = Duration::from_secs(minutes * 60);
    let mut night = Night { about, ..Night::default() };
    while begin.elapsed() < end {
        night.add(batch(first + night.seeds, about)?);
        let minutes = begin.elapsed().as_secs() / 60;
        let row = night.row(&date, &commit, minutes, first);
        write(&format!("{}{row}", with_faults(&ledger, &night.faults)))?;
        println!(
            "{} seeds, {:.1} simulated hours, {:.1} simulated seconds per second of a processor, {} \
             failures",
            night.seeds,
            night.simulated_s / 3600.0,
            night.simulated_s / night.cpu_s.max(0.001),
            night.failed.len()
        );
    }
    match night.failed.len() {
        0 => packages,
        n => Err(format!("{n} seeds failed; repeat with:\n  {}", night.commands().join("\n  "))),
    }
}

/// Builds and tries the packages of the program, goes through a new user's first hour, and tests the example
/// of a data type in Rust. A failure is told at once and again after the night.
fn packages() -> Result<(), String> {
    let (packages, hour) = (dist::run(&[]), first_hour::run(&[]));
    // A crate outside of the workspace, as a user's is, shares no build with it.
    let example = ["test", "--locked", "--manifest-path", "examples/rust-type/Cargo.toml"];
    let example = start(&mut cargo(&example));
    packages.and(hour).and(example).inspect_err(|why| eprintln!("xtask: packages: {why}"))
}

/// One call of the simulator, which uses all cores, from `first` on.
fn batch(first: u64, about: &[&str]) -> Result<Summary, String> {
    let (first, count) = (first.to_string(), BATCH.to_string());
    let words = [&["--first", &first, "--seeds", &count], about].concat();
    simulation::run(&paths::shipped(), &words).map(|(_, summary)| summary)
}

/// The seed after those of the last row.
fn next_seed(ledger: &str) -> u64 {
    let after = |row: &str| {
        let cell = row.split('|').nth(4)?.trim();
        let (count, first) = cell.strip_suffix(')')?.split_once(" (")?;
        Some(count.parse::<u64>().ok()? + first.parse::<u64>().ok()?)
    };
    ledger.lines().filter_map(after).max().unwrap_or(FIRST)
}

/// Sums over a night.
#[derive(Default)]
struct Night {
    /// Arguments of `claret sim` besides the seeds.
    about: &'static [&'static str],
    seeds: u64,
    simulated_s: f64,
    cpu_s: f64,
    transactions: u64,
    operations: u64,
    faults: BTreeMap<String, u64>,
    failed: Vec<u64>,
}

impl Night {
    fn add(&mut self, summary: Summary) {
        self.seeds += summary.seeds.max(1);
        self.simulated_s += summary.simulated_s;
        self.cpu_s += summary.cpu_s;
        self.transactions += summary.transactions;
        self.operations += summary.operations;
        for (kind, count) in summary.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        self.failed.extend(summary.failed);
    }

    fn commands(&self) -> Vec<String> {
        let about: String = self.about.iter().map(|word| format!(" {word}")).collect();
        self.failed.iter().map(|seed| format!("claret sim --seed {seed}{about}")).collect()
    }

    fn row(&self, date: &str, commit: &str, minutes: u64, first: u64) -> String {
        let failures = match self.commands().as_slice() {
            [] => "0".to_owned(),
            commands => format!("{} (`{}`)", commands.len(), commands.join("`, `")),
        };
        let about: String = self.about.iter().map(|w| w.replace("--", ", ")).collect();
        format!(
            "| {date}{about} | {commit} | {minutes} | {} ({first}) | {:.1} | {} | {} | {} | {failures} |\n",
            self.seeds,
            self.simulated_s / 3600.0,
            self.transactions,
            self.operations,
            self.faults.values().sum::<u64>(),
        )
    }
}

/// The ledger with the faults of a night added to its table of them.
fn with_faults(ledger: &str, faults: &BTreeMap<String, u64>) -> String {
    let Some((before, rest)) = ledger.split_once(FAULTS) else { return ledger.to_owned() };
    let rows = rest.lines().take_while(|line| line.starts_with('|'));
    let after = &rest[rows.clone().map(|row| row.len() + 1).sum()..];
    let known = rows.filter_map(|row| {
        let (kind, times) = row.trim_matches(['|', ' ']).split_once(" | ")?;
        Some((kind.to_owned(), times.parse::<u64>().ok()?))
    });
    let mut sums: BTreeMap<String, u64> = known.collect();
    for (kind, times) in faults {
        *sums.entry(kind.clone()).or_default() += times;
    }
    let rows: String = sums.iter().map(|(kind, n)| format!("| {kind} | {n} |\n")).collect();
    format!("{before}{FAULTS}{rows}{after}")
}

/// The ledger so far.
fn read() -> Result<String, String> {
    let path = paths::root().join(LEDGER);
    if !path.exists() {
        return Ok(HEAD.into());
    }
    fs::read_to_string(&path).map_err(|e| format!("cannot read {LEDGER}: {e}"))
}

fn write(text: &str) -> Result<(), String> {
    let path = paths::root().join(LEDGER);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| format!("cannot make the folder: {e}"))?;
    }
    fs::write(&path, text).map_err(|e| format!("cannot write {LEDGER}: {e}"))
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

    #[test]
    fn days_are_named_as_in_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_709_251_199), "2024-02-29");
        assert_eq!(date(1_709_251_200), "2024-03-01");
        assert_eq!(date(4_102_444_799), "2099-12-31");
        assert_eq!(date(4_107_542_400), "2100-03-01");
    }

    fn night(failed: &[&[u64]]) -> Night {
        let mut night = Night::default();
        for failed in failed {
            night.add(Summary {
                seeds: 100,
                failures: failed.len() as u64,
                simulated_s: 5400.0,
                transactions: 50,
                operations: 120,
                cpu_s: 10.0,
                faults: vec![("crash".to_owned(), 3)],
                failed: failed.to_vec(),
                first_failure: None,
            });
        }
        night
    }

    #[test]
    fn a_night_is_one_row() {
        let row = night(&[&[], &[9, 11]]).row("2030-01-02", "abc1234", 60, 7);
        let expected = "| 2030-01-02 | abc1234 | 60 | 200 (7) | 3.0 | 100 | 240 | 6 | 2 \
                        (`claret sim --seed 9`, `claret sim --seed 11`) |\n";
        assert_eq!(row, expected);
        assert_eq!(HEAD.lines().last().unwrap().matches('|').count(), row.matches('|').count());
    }

    #[test]
    fn faults_are_added_to_those_of_earlier_nights() {
        let faults = |kind: &str, times| BTreeMap::from([(kind.to_owned(), times)]);
        let once = with_faults(HEAD, &faults("cuts", 3));
        let twice = with_faults(&with_faults(&once, &faults("crashes", 2)), &faults("cuts", 4));
        assert!(twice.contains("\n|---|---|\n| crashes | 2 |\n| cuts | 7 |\n\n## Nights\n"));
        let back = twice.replace("| crashes | 2 |\n| cuts | 7 |\n", "");
        assert_eq!(back, HEAD);
    }

    #[test]
    fn a_night_goes_on_where_the_last_one_ended() {
        assert_eq!(next_seed(HEAD), FIRST);
        let first = night(&[&[], &[]]).row("2030-01-02", "abc1234", 60, FIRST);
        let second = night(&[&[3]]).row("2030-01-03", "abc1235+", 30, FIRST + 200);
        assert_eq!(next_seed(&format!("{HEAD}{first}")), FIRST + 200);
        assert_eq!(next_seed(&format!("{HEAD}{first}{second}")), FIRST + 300);
    }
}
