//! Simulator: the product's own gateways, shards and replicated logs under virtual time.
//!
//! A run is drawn from one seed: sizes, delays, crashes, disks that lose unsynced writes, clocks
//! that jump, clients that vanish and come back. Two checkers judge the clients' observations. The
//! same seed gives the same run, to the last event; a failing seed is repeated with the command
//! that the report names.

mod clients;
pub mod elections;
pub mod lab;
mod machine;
mod plant;
mod random;
mod swarm;
mod traces;
mod world;

pub use plant::Plant;
pub use swarm::Focus;
pub use world::Outcome;

use crate::clients::workload::{ACCOUNTS, DEPOSIT, account};
use check::{Bank, History, Verdict, coordination};
use engine::coordination::spread::{HOME, Spread};
use std::collections::BTreeMap;
use world::World;

/// Result of one seed.
#[derive(Debug)]
pub struct Run {
    /// Seed.
    pub seed: u64,
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Verdicts of the checkers.
    pub verdicts: Vec<Verdict>,
    /// Reason of the failure, if the seed fails.
    pub failure: Option<String>,
}

/// Runs one seed. A planted bug that needs pipelines or locks selects runs that focus on them.
pub fn run(seed: u64, focus: Focus, plant: Option<Plant>) -> Run {
    let focus = plant.and_then(Plant::focus).unwrap_or(focus);
    let mut outcome = World::new(seed, focus, plant).run();
    let mut failure = outcome.failure.take();
    let mut verdicts = Vec::new();
    match judge(&mut outcome) {
        Ok(judged) => verdicts = judged,
        Err(error) => failure = failure.or(Some(error)),
    }
    let wrong = verdicts.iter().find(|v| !v.valid).map(Verdict::to_text);
    Run { seed, outcome, verdicts, failure: failure.or(wrong) }
}

fn judge(outcome: &mut Outcome) -> Result<Vec<Verdict>, String> {
    crate::traces::positions::stamp(&mut outcome.events, &outcome.disk, &outcome.held)?;
    let mut history =
        History::from_events(outcome.events.iter().cloned()).map_err(|e| e.to_string())?;
    let accounts = (0..ACCOUNTS).map(|i| account(i).into_bytes()).collect();
    history.bank = Some(Bank { accounts, total: ACCOUNTS as i64 * DEPOSIT });
    let mut verdicts = check::check_all(&history);
    if let Some(sessions) = &mut outcome.sessions {
        verdicts.extend(judge_sessions(sessions, outcome.tree, &outcome.disk)?);
        for (kind, count) in crate::traces::joints::counts(sessions) {
            *outcome.marks.entry(kind).or_default() += count;
        }
    }
    verdicts.extend(outcome.locks.as_ref().map(check::locks::check));
    Ok(verdicts)
}

/// Judges the sessions. A tree at one shard is one history. A tree over several shards has one
/// history per shard, and the rules for a session hold over all of them together.
fn judge_sessions(
    sessions: &mut coordination::History,
    over: Spread,
    disk: &crate::machine::disk::Disk,
) -> Result<Vec<Verdict>, String> {
    if !over.is_spread() {
        crate::traces::zxids::stamp(sessions, disk, HOME)?;
        return Ok(vec![coordination::check(sessions)]);
    }
    let changes: Result<BTreeMap<_, _>, String> = over
        .shards()
        .map(|shard| Ok((shard, crate::traces::zxids::changes(disk, shard)?)))
        .collect();
    let changes = changes?;
    let votes = crate::traces::joints::stamp(sessions, &changes, over)?;
    let mut parts = Vec::new();
    for (shard, changes) in changes {
        let mut part = crate::traces::spread::part(sessions, over, shard);
        crate::traces::zxids::stamp_part(&mut part, changes, votes.get(&shard));
        if shard != HOME {
            crate::traces::spread::leave_sessions_alone(&mut part);
        }
        parts.push(part);
    }
    let mut verdicts: Vec<Verdict> = parts.iter().map(coordination::check).collect();
    crate::traces::spread::join(sessions, over, &parts);
    verdicts.push(coordination::check_together(sessions, &parts, |request| {
        crate::traces::spread::concerns(over, request)
    }));
    Ok(verdicts)
}

/// Summary of many seeds.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of seeds.
    pub seeds: u64,
    /// Seeds that failed.
    pub failures: u64,
    /// Trace hash of the last seed.
    pub trace_hash: u64,
    /// Virtual time of all runs, in microseconds.
    pub simulated_us: u64,
    /// Transactions that the checkers saw.
    pub transactions: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Number of occurrences of rare events, by name.
    pub marks: BTreeMap<&'static str, u64>,
    /// Processor time of all runs, in microseconds, if the caller has measured it.
    pub cpu_us: u64,
    /// Operations that the checkers saw.
    pub operations: u64,
    /// Failed seeds.
    pub failed: Vec<u64>,
    /// First failing seed, and the reason.
    pub first_failure: Option<(u64, String)>,
}

impl Report {
    /// Adds a run.
    pub fn add(&mut self, run: &Run) {
        self.seeds += 1;
        self.trace_hash = run.outcome.trace_hash;
        self.simulated_us += run.outcome.simulated_us;
        self.transactions += (run.outcome.events.len() / 2) as u64;
        for (kind, count) in &run.outcome.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (kind, count) in &run.outcome.marks {
            *self.marks.entry(kind).or_default() += count;
        }
        self.operations +=
            run.outcome.events.iter().map(|event| event.txn.len() as u64).sum::<u64>();
        if let Some(failure) = &run.failure {
            self.failures += 1;
            self.failed.push(run.seed);
            self.first_failure.get_or_insert((run.seed, failure.clone()));
        }
    }

    /// Adds the results of other seeds, which come after these.
    pub fn absorb(&mut self, others: Self) {
        self.seeds += others.seeds;
        self.failures += others.failures;
        self.trace_hash = others.trace_hash;
        self.simulated_us += others.simulated_us;
        self.transactions += others.transactions;
        self.operations += others.operations;
        for (kind, count) in others.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (kind, count) in others.marks {
            *self.marks.entry(kind).or_default() += count;
        }
        self.failed.extend(others.failed);
        self.first_failure = self.first_failure.take().or(others.first_failure);
    }

    /// Simulated seconds per second of processor time.
    pub fn speed(&self) -> f64 {
        self.simulated_us as f64 / self.cpu_us.max(1) as f64
    }

    /// Report as one JSON document, in the form that scripts rely on.
    pub fn to_json(&self, focus: Focus, plant: Option<Plant>) -> serde_json::Value {
        let mut document = serde_json::json!({
            "seeds": self.seeds,
            "failures": self.failures,
            "failed": self.failed,
            "simulated_s": self.simulated_us as f64 / 1e6,
            "transactions": self.transactions,
            "operations": self.operations,
            "cpu_s": self.cpu_us as f64 / 1e6,
            "simulated_s_per_cpu_s": self.speed(),
            "faults": self.faults,
            "seen": self.marks,
        });
        if self.seeds == 1 {
            document["trace_hash"] = format!("{:016x}", self.trace_hash).into();
        }
        if let Some((seed, why)) = &self.first_failure {
            let mut command = format!("claret sim --seed {seed}");
            command.push_str(match focus {
                Focus::Everything => "",
                Focus::Pipelines => " --pipelines",
                Focus::Locks => " --locks",
                Focus::Trees => " --trees",
                Focus::Scripts => " --scripts",
            });
            if let Some(plant) = plant {
                command.push_str(&format!(" --plant {}", plant.name()));
            }
            document["first_failure"] =
                serde_json::json!({ "seed": seed, "command": command, "why": why });
        }
        document
    }
}
