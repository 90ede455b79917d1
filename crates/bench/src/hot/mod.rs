//! Hot records: read-modify-write, a guarded decrement, a bounded stock and an auction, as a newcomer
//! writes them for Claret, Redis, PostgreSQL and etcd, with a commit flushed to disk each.

pub mod answer;
pub mod args;
mod plot;
mod postgres;
mod scripts;
pub mod tasks;

use crate::load::random::Zipf;
use crate::load::recorder::Recorder;
use crate::load::runner::Runner;
use crate::load::sample::{self, Costs, Sample};
use crate::load::threads::{Driven, Recorded, Span, drive, limit, shares};
use crate::report::{Report, fields, median, number, ratio, rounded, text};
use crate::servers::control::Control;
use crate::servers::etcd;
use crate::servers::postgres as postgres_server;
use crate::servers::process::Server;
use crate::sweep::progress;
use answer::Answer;
use args::{HotArgs, Skew, System};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tasks::{KINDS, Load, Program, Task};
use wire::resp::ClientReply;

/// Columns of the printed table.
pub const COLUMNS: [&str; 17] = [
    "task",
    "skew",
    "clients",
    "server",
    "program",
    "commits_per_s",
    "over_eval",
    "over_eval_per_cpu",
    "over_postgres",
    "p50_us",
    "p99_us",
    "aborts_per_commit",
    "refused_per_commit",
    "server_cpu_us_per_commit",
    "client_cpus",
    "limit",
    "foreign_cpus",
];

/// All servers, in the order of the rows.
const SYSTEMS: [System; 4] = [System::Claret, System::Redis, System::Postgres, System::Etcd];

/// Load before each measurement, in nanoseconds: enough for a thousand sessions to begin.
pub const WARMUP_NS: u64 = 500_000_000;

/// A way to do a task on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Resp(Program),
    Sql,
    /// Reads the record, then writes it if it has not been changed since, again if it has.
    Etcd,
}

impl Way {
    fn name(self, task: Task) -> &'static str {
        match self {
            Self::Resp(program) => program.name(),
            Self::Sql if task == Task::Rewrite => "for update",
            Self::Sql => "update",
            Self::Etcd => "txn",
        }
    }
}

/// Ways of a task on a server.
fn ways(system: System, task: Task) -> Vec<Way> {
    let programs: &[Program] = match (system, task) {
        (System::Postgres, task) if task.is_script() => return Vec::new(),
        (System::Etcd, Task::Auction) => return vec![Way::Etcd],
        (System::Etcd, _) => return Vec::new(),
        (System::Postgres, _) => return vec![Way::Sql],
        (System::Claret, Task::Rewrite) => {
            &[Program::Txn, Program::Watch, Program::Eval, Program::Multi]
        }
        (System::Claret, Task::Take | Task::Stock) => &[Program::Txn, Program::Try, Program::Eval],
        (System::Redis, Task::Rewrite) => &[Program::Watch, Program::Eval, Program::Multi],
        (System::Redis, Task::Take | Task::Stock) => &[Program::Eval],
        (System::Claret, Task::Auction) => {
            &[Program::Hash, Program::Txn, Program::Type, Program::Watch, Program::Eval]
        }
        (System::Redis, Task::Auction) => &[Program::Watch, Program::Eval],
        (_, Task::Bucket | Task::Release | Task::Fetch) => &[Program::Eval],
    };
    programs.iter().copied().map(Way::Resp).collect()
}

/// One line of a picture: a task under a skew, done in one way on one server.
#[derive(Clone, Copy)]
struct Contest<'s> {
    task: Task,
    skew: Skew,
    system: System,
    server: &'s Server,
    way: Way,
    /// Path of this program.
    program: &'s Path,
}

/// Definition of the type of auctions.
const AUCTION: &str = include_str!("../../../../examples/types/auction.type");

/// Events and costs of a run. A load generator in a process of its own writes it as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct Run {
    /// Commits and costs.
    pub sample: Sample,
    /// Attempts that were begun again.
    pub aborts: u64,
    /// Commits that a guard refused.
    pub refused: u64,
}

impl Run {
    /// Builds the result from a recording between two readings of the costs.
    pub fn new(recorder: &Recorder, elapsed_ns: u64, costs: (Costs, Costs)) -> Self {
        let sample = Sample::new(recorder, 1, elapsed_ns, costs);
        Self { sample, aborts: recorder.aborts(), refused: recorder.committed[1] }
    }
}

impl Contest<'_> {
    fn records(&self, args: &HotArgs) -> u32 {
        match self.skew {
            Skew::One => 1,
            Skew::Zipf(_) => args.records,
        }
    }

    fn exponent(&self) -> f64 {
        match self.skew {
            Skew::One => 0.0,
            Skew::Zipf(exponent) => exponent,
        }
    }

    /// Threads of the load.
    fn threads(&self, args: &HotArgs, clients: u32) -> usize {
        match self.way {
            Way::Etcd => 1,
            Way::Resp(_) | Way::Sql => args.threads(clients),
        }
    }

    /// Creates the records and loads the scripts; returns the names of the scripts.
    fn prepare(&self, args: &HotArgs) -> io::Result<Arc<[String]>> {
        let records = self.records(args);
        let program = match self.way {
            Way::Resp(program) => program,
            Way::Sql => {
                postgres::fill(self.server, self.task, records)?;
                return Ok(Arc::default());
            }
            // The generator does it.
            Way::Etcd => return Ok(Arc::default()),
        };
        let mut control = Control::connect(self.server.address())?;
        control.call(&["FLUSHALL"])?;
        let create = |record| program.create(self.task, record);
        control.load((0..u64::from(records)).flat_map(create))?;
        if program == Program::Type {
            control.call(&["TYPE.DEFINE", "auction", AUCTION])?;
        }
        if program != Program::Eval {
            return Ok(Arc::default());
        }
        let load = |text: &&str| match control.call(&["SCRIPT", "LOAD", text])? {
            ClientReply::Bulk(name) => Ok(String::from_utf8_lossy(&name).into_owned()),
            reply => Err(io::Error::other(format!("SCRIPT LOAD answered {reply:?}"))),
        };
        scripts::texts(self.task).iter().map(load).collect()
    }

    fn run(&self, args: &HotArgs, clients: u32, seed: u64) -> io::Result<Run> {
        let scripts = self.prepare(args)?;
        let (records, exponent) = (self.records(args), self.exponent());
        let popularity = Zipf::new(records as usize, exponent);
        let shares = shares(clients as usize, args.threads(clients));
        let seeds = (0..).map(|thread: u64| seed.wrapping_add(thread << 32));
        match self.way {
            Way::Sql => {
                let task = self.task;
                let fleet = |(clients, seed)| {
                    (clients, postgres::Clients::new(task, &popularity, clients, seed))
                };
                let mut fleets: Vec<_> = shares.into_iter().zip(seeds).map(fleet).collect();
                let run = self.drive(args, &mut fleets)?;
                let answers = fleets.iter().map(|(_, fleet)| fleet.answer());
                self.verify(answers, clients, || postgres::read(self.server))?;
                Ok(run)
            }
            Way::Etcd => {
                let generator = etcd::load_program(self.program)?;
                let load = sample::Load {
                    command: "BID",
                    pipeline: 1,
                    clients,
                    seconds: args.seconds,
                    seed,
                };
                etcd::auction(&generator, self.server, records, exponent, &load)
            }
            Way::Resp(program) => {
                let load = Load::new(self.task, program, popularity, scripts);
                let mut loads: Vec<_> = (0..shares.len()).map(|n| load.numbered(n)).collect();
                let (api, retry) = program.manner();
                let fleet = |((load, clients), seed)| {
                    let unused = Recorder::new(KINDS.len(), u64::MAX);
                    (clients, Runner::new(load, api, retry, clients, seed, unused))
                };
                let mut fleets: Vec<_> =
                    loads.iter_mut().zip(shares).zip(seeds).map(fleet).collect();
                let run = self.drive(args, &mut fleets)?;
                drop(fleets);
                self.verify(loads.iter().map(Load::answer), clients, || {
                    answer::read(&mut Control::connect(self.server.address())?, program, records)
                })?;
                Ok(run)
            }
        }
    }

    /// Checks that auctions have the bids that their clients know to be taken. Each client may have
    /// had one more on its way.
    fn verify(
        &self,
        taken: impl Iterator<Item = Answer>,
        clients: u32,
        read: impl FnOnce() -> io::Result<Answer>,
    ) -> io::Result<()> {
        if self.task != Task::Auction {
            return Ok(());
        }
        let mut all = Answer::default();
        taken.for_each(|answer| all.add(answer));
        all.check(read()?, u64::from(clients))
    }

    fn drive<F: Recorded + Send>(
        &self,
        args: &HotArgs,
        fleets: &mut [(usize, F)],
    ) -> io::Result<Run> {
        let span = Span { warmup_ns: WARMUP_NS, measured_ns: (args.seconds * 1e9) as u64 };
        let costs = || Costs::now(&self.server.processes());
        let driven = drive(&self.server.addresses(), fleets, KINDS.len(), span, costs)?;
        let Driven { recorder, elapsed_ns, costs } = driven;
        Ok(Run::new(&recorder, elapsed_ns, costs))
    }

    /// Medians of the runs.
    fn row(&self, args: &HotArgs, clients: u32, runs: &[Run]) -> Map<String, Value> {
        let of = |field: &dyn Fn(&Run) -> f64| median(runs.iter().map(field).collect());
        let (client_cpus, threads) =
            (of(&|run| run.sample.client_cpus()), self.threads(args, clients));
        let limit = limit(client_cpus, threads, of(&|run| run.sample.machine_cpus()));
        let aborts = of(&|run| run.aborts as f64 / run.sample.ops.max(1) as f64);
        let refused = of(&|run| run.refused as f64 / run.sample.ops.max(1) as f64);
        fields([
            ("task", self.task.name().into()),
            ("skew", self.skew.name().into()),
            ("records", self.records(args).into()),
            ("clients", clients.into()),
            ("server", self.system.name().into()),
            ("program", self.way.name(self.task).into()),
            ("commits_per_s", rounded(of(&|run| run.sample.ops_per_s()))),
            ("p50_us", rounded(of(&|run| run.sample.latency_us(0.5)))),
            ("p99_us", rounded(of(&|run| run.sample.latency_us(0.99)))),
            ("aborts_per_commit", rounded(aborts)),
            ("refused_per_commit", rounded(refused)),
            ("server_cpu_us_per_commit", rounded(of(&|run| run.sample.cpu_us_per_op()))),
            ("client_cpus", rounded(client_cpus)),
            ("load_threads", threads.into()),
            ("limit", limit.map_or(Value::Null, Value::from)),
            ("foreign_cpus", rounded(of(&|run| run.sample.foreign_cpus()))),
        ])
    }
}

/// Starts the servers that take part; one that is not installed is left out with a note, unless it
/// was named.
fn start(
    args: &HotArgs,
    program: &Path,
    notes: &mut Vec<String>,
) -> io::Result<Vec<(System, Server)>> {
    let clients = args.clients.iter().copied().max().unwrap_or(1);
    let mut servers = Vec::new();
    for system in SYSTEMS {
        let (wanted, named) = args.wants(system);
        let useful = args.tasks.iter().any(|task| !ways(system, *task).is_empty());
        if !wanted || !useful {
            continue;
        }
        let server = match system {
            System::Claret => Server::shipped(program, &["--durability", "always"], &args.dir),
            System::Redis => Server::redis("always", &args.dir),
            System::Postgres => postgres_server::start(clients, &args.dir),
            System::Etcd => etcd::load_program(program).and_then(|_| etcd::start(1, &args.dir)),
        };
        match server {
            Ok(server) => servers.push((system, server)),
            Err(error) if !named && error.kind() == io::ErrorKind::NotFound => {
                notes.push(format!("{} is left out: {error}", system.name()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(servers)
}

/// Checks that every program that was asked for by name is one of the tasks and servers that take
/// part.
fn check(args: &HotArgs, systems: &[System]) -> io::Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for &task in &args.tasks {
        for way in systems.iter().flat_map(|system| ways(*system, task)) {
            let name = way.name(task);
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let Some(unknown) = args.programs.iter().find(|asked| !names.contains(&&asked[..])) else {
        return Ok(());
    };
    let text = format!(
        "--programs: there is no {unknown} for these tasks and servers; possible are {}",
        names.join(", ")
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Lines to measure, those of one task and skew together.
fn contests<'s>(
    args: &HotArgs,
    program: &'s Path,
    servers: &'s [(System, Server)],
) -> Vec<Contest<'s>> {
    let mut contests = Vec::new();
    for &task in &args.tasks {
        for &skew in &args.skew {
            for (system, server) in servers {
                for way in ways(*system, task) {
                    let name = way.name(task);
                    if args.programs.is_empty() || args.programs.iter().any(|asked| asked == name) {
                        let system = *system;
                        contests.push(Contest { task, skew, system, server, way, program });
                    }
                }
            }
        }
    }
    contests
}

/// Adds to each row its commits relative to those of Redis' script and of PostgreSQL in the same
/// cell, and its commits per processor second relative to those of Redis' script.
fn compare(rows: &mut [Map<String, Value>]) {
    let cell = |row: &Map<String, Value>| ["task", "skew", "clients"].map(|field| text(row, field));
    let rates: Vec<_> = rows
        .iter()
        .map(|row| {
            let who = (text(row, "server"), text(row, "program"));
            let cpu = number(row, "server_cpu_us_per_commit");
            (cell(row), who, number(row, "commits_per_s"), cpu)
        })
        .collect();
    for row in rows {
        let here = cell(row);
        let of = |server: &str, program: Option<&str>| {
            let is = |who: &(String, String)| {
                who.0 == server && program.is_none_or(|program| who.1 == program)
            };
            let found = rates.iter().find(|(cell, who, ..)| *cell == here && is(who));
            found.map_or((None, None), |(_, _, rate, cpu)| (*rate, *cpu))
        };
        let (eval, postgres) = (of("redis", Some("eval")), of("postgres", None));
        let own = number(row, "commits_per_s");
        let own_cpu = number(row, "server_cpu_us_per_commit");
        row.insert("over_eval".into(), ratio(own, eval.0));
        row.insert("over_eval_per_cpu".into(), ratio(eval.1, own_cpu));
        row.insert("over_postgres".into(), ratio(own, postgres.0));
    }
}

/// Runs the bench.
///
/// # Errors
/// A server cannot be started or fails, or the picture cannot be written.
pub fn run(args: &HotArgs, program: &Path) -> io::Result<Report> {
    let mut report = Report::default();
    let wanted: Vec<_> = SYSTEMS.into_iter().filter(|system| args.wants(*system).0).collect();
    check(args, &wanted)?;
    let servers = start(args, program, &mut report.notes)?;
    let contests = contests(args, program, &servers);
    if contests.is_empty() {
        let none = "the tasks have no program on these servers".to_owned();
        let why = if report.notes.is_empty() { none } else { report.notes.join("; ") };
        return Err(io::Error::other(format!("nothing to measure: {why}")));
    }
    let bar = progress(contests.len() * args.clients.len() * args.runs as usize);
    for cell in contests.chunk_by(|one, next| (one.task, one.skew) == (next.task, next.skew)) {
        for &clients in &args.clients {
            let mut runs: Vec<Vec<Run>> = cell.iter().map(|_| Vec::new()).collect();
            for number in 0..args.runs {
                // All take turns, so that a change of the machine affects all of them.
                for (contest, runs) in cell.iter().zip(&mut runs) {
                    let Contest { task, skew, system, way, .. } = contest;
                    let name = format!("{} {}", system.name(), way.name(*task));
                    let what = format!("{name}: {}, {}, {clients}", task.name(), skew.name());
                    bar.set_message(what.clone());
                    let seed = args.seed.wrapping_add(u64::from(number) << 48);
                    let run = contest.run(args, clients, seed);
                    runs.push(run.map_err(|e| io::Error::other(format!("{what} clients: {e}")))?);
                    bar.inc(1);
                }
            }
            let rows =
                cell.iter().zip(&runs).map(|(contest, runs)| contest.row(args, clients, runs));
            report.rows.extend(rows);
        }
    }
    bar.finish_and_clear();
    compare(&mut report.rows);
    if let Some(file) = &args.plot {
        plot::draw(&report, file)?;
    }
    report.more.insert("seed".into(), args.seed.into());
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_has_a_program_on_every_server() {
        for task in [Task::Rewrite, Task::Take, Task::Stock] {
            for system in [System::Claret, System::Redis, System::Postgres] {
                let names: Vec<_> = ways(system, task).iter().map(|way| way.name(task)).collect();
                assert!(!names.is_empty(), "{task:?} on {system:?}");
                assert_eq!(names.contains(&"eval"), system != System::Postgres);
            }
        }
        for task in [Task::Bucket, Task::Release, Task::Fetch] {
            let eval = [Way::Resp(Program::Eval)];
            assert_eq!(ways(System::Claret, task), eval);
            assert_eq!(ways(System::Redis, task), eval);
            assert_eq!(ways(System::Postgres, task), []);
        }
        let auction = ways(System::Claret, Task::Auction);
        assert_eq!(auction[..2], [Program::Hash, Program::Txn].map(Way::Resp));
        assert_eq!(ways(System::Postgres, Task::Auction), [Way::Sql]);
        assert_eq!(ways(System::Etcd, Task::Auction), [Way::Etcd]);
        assert_eq!(ways(System::Etcd, Task::Take), []);
        assert_eq!(Way::Sql.name(Task::Rewrite), "for update");
    }

    #[test]
    fn a_program_that_does_not_take_part_is_refused() {
        let command = <HotArgs as clap::Args>::augment_args(clap::Command::new("hot"));
        let args = |words: &[&str]| {
            let words = ["hot"].iter().chain(words);
            let found = command.clone().get_matches_from(words);
            <HotArgs as clap::FromArgMatches>::from_arg_matches(&found).expect("valid words")
        };
        assert!(check(&args(&["--programs", "txn,for update"]), &SYSTEMS).is_ok());
        let typo = check(&args(&["--programs", "txn,evil"]), &SYSTEMS).expect_err("a typo");
        assert!(typo.to_string().contains("no evil"), "{typo}");
        assert!(
            typo.to_string().ends_with("txn, watch, eval, multi, for update, try, update"),
            "{typo}"
        );
        let take = args(&["--tasks", "take", "--programs", "watch"]);
        assert!(check(&take, &SYSTEMS).is_err(), "nothing would be measured");
        assert!(check(&args(&["--programs", "eval"]), &[System::Postgres]).is_err());
    }

    #[test]
    fn rows_are_compared_within_their_cell() {
        let row = |clients: u32, server: &str, program: &str, rate: u32| {
            fields([
                ("server_cpu_us_per_commit", (3000 / rate).into()),
                ("task", "take".into()),
                ("skew", "one".into()),
                ("clients", clients.into()),
                ("server", server.into()),
                ("program", program.into()),
                ("commits_per_s", rate.into()),
            ])
        };
        let mut rows = [
            row(1, "claret", "txn", 300),
            row(1, "redis", "eval", 200),
            row(1, "postgres", "update", 100),
            row(8, "claret", "txn", 300),
        ];
        compare(&mut rows);
        assert_eq!((&rows[0]["over_eval"], &rows[0]["over_postgres"]), (&1.5.into(), &3.into()));
        assert_eq!(rows[0]["over_eval_per_cpu"], 1.5);
        assert_eq!(rows[3]["over_eval"], Value::Null);
    }
}
