//! `claret bench crowd`: cost of many mostly idle sessions at one service.
//!
//! In production a coordination service serves crowds: thousands of programs, each with a session
//! and an ephemeral node, that watch a few nodes and send nothing but heartbeats until a node
//! changes that all of them watch. A machine is sized by a few numbers: memory per session, node
//! and watch, processor time of heartbeats, and the time until the last session is notified of a
//! change.

use super::args::{SmokePeer, backends};
use super::locks::Services;
use super::operations::quantile;
use super::recipes::create;
use crate::args::parse_seconds;
use crate::coordination::recipes::nodes::Nodes;
use crate::coordination::services::backend::{Attach, Backend};
use crate::coordination::services::client::{
    Answer, Client, Heard, SESSION_TIMEOUT_MS, exists, get,
};
use crate::coordination::services::tasks::set;
use crate::report::{Report, fields, ratio, rounded};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Map, Value};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;
use wire::jute::{Ask, CreateMode, Lasts};

/// Columns of the printed table.
pub const COLUMNS: [&str; 12] = [
    "servers",
    "backend",
    "sessions",
    "session_bytes",
    "ephemeral_bytes",
    "watch_bytes",
    "rss_mb",
    "heartbeat_cpu_percent",
    "notify_p50_ms",
    "notify_last_ms",
    "create_per_s",
    "close_s",
];

/// Tag of the answers that all sessions wait for.
const ONE_OF_ALL: u64 = 1;

/// Seconds between the heartbeats of a session: three within its time-out.
const HEARTBEAT_S: f64 = SESSION_TIMEOUT_MS as f64 / 3e3;
/// Files that a process has open in addition to its connections.
const FILES_BESIDE: u64 = 256;

/// Another service that can be measured with many sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CrowdPeer {
    /// Apache ZooKeeper, of the Debian package `zookeeper`.
    Zookeeper,
}

/// Options of `crowd`.
#[derive(Clone, Debug, Args)]
pub struct CrowdArgs {
    /// Sessions.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=11_000))]
    pub sessions: u32,
    /// Ephemeral nodes, assigned to the sessions in turn.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub ephemerals: u32,
    /// Watches. The first watch of each session is on one node that all sessions watch, the others
    /// are on ephemeral nodes of other sessions.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub watches: u32,
    /// Number of changes of the node that all sessions watch; all of them watch it again in
    /// between.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub changes: u32,
    /// Seconds of heartbeats only, during which processor time is measured. A session sends a
    /// heartbeat every ten seconds.
    #[arg(long, default_value_t = 20.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// Servers of each service; sessions are spread over them in turn.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=5))]
    pub servers: u16,
    /// Another service to measure after Claret.
    #[arg(long, value_enum)]
    pub vs: Option<CrowdPeer>,
    /// Parent directory of the servers' data directories.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Sessions of one service and their joint actions.
struct Crowd<'a> {
    args: &'a CrowdArgs,
    client: Client,
    /// Node that is the parent of all others.
    base: String,
}

impl Crowd<'_> {
    fn hot(&self) -> String {
        format!("{}/hot", self.base)
    }

    fn ephemeral(&self, number: u32) -> String {
        format!("{}/e-{number}", self.base)
    }

    /// Sends `count` requests, tagged by their number, in the sessions in turn; returns the
    /// nanoseconds until all are answered.
    fn all(&mut self, count: u32, ask: impl Fn(&Self, u32) -> Ask) -> io::Result<u64> {
        let begin_ns = self.client.now_ns();
        for number in 0..count {
            let what = ask(self, number);
            self.client.ask((number % self.args.sessions) as usize, ONE_OF_ALL, what);
        }
        let (mut missing, mut heard) = (count, Vec::new());
        while missing > 0 {
            self.wait(&mut heard)?;
            for heard in heard.drain(..) {
                // The answer to a change may arrive after all notifications of it.
                let Heard::Answer(Answer { tag: ONE_OF_ALL, result, .. }) = heard else { continue };
                result.map_err(|code| io::Error::other(format!("refused: {code:?}")))?;
                missing -= 1;
            }
        }
        Ok(self.client.now_ns() - begin_ns)
    }

    fn wait(&mut self, heard: &mut Vec<Heard>) -> io::Result<()> {
        let patience_ns = self.client.now_ns() + 60_000_000_000;
        self.client.wait(patience_ns, heard)?;
        match heard.is_empty() {
            true => Err(io::Error::other("the service does not answer")),
            false => Ok(()),
        }
    }

    fn make_ephemerals(&mut self) -> io::Result<u64> {
        let ephemeral = CreateMode { lasts: Lasts::Session, sequential: false };
        self.all(self.args.ephemerals, |own, n| create(&own.ephemeral(n), b"", ephemeral))
    }

    fn watch(&mut self) -> io::Result<u64> {
        let (sessions, ephemerals) = (self.args.sessions, self.args.ephemerals);
        self.all(self.args.watches, |own, n| match n / sessions {
            0 => get(&own.hot(), true),
            layer => exists(&own.ephemeral((n % sessions + layer) % ephemerals), true),
        })
    }

    /// Sends nothing but heartbeats for a while.
    fn rest(&mut self) -> io::Result<()> {
        let until_ns = self.client.now_ns() + (self.args.seconds * 1e9) as u64;
        let mut heard = Vec::new();
        while self.client.now_ns() < until_ns {
            self.client.wait(until_ns, &mut heard)?;
            heard.clear();
        }
        Ok(())
    }

    /// Changes the node that all sessions watch; returns the nanoseconds until the notification of
    /// each.
    fn change(&mut self) -> io::Result<Vec<u64>> {
        let watchers = self.args.sessions.min(self.args.watches) as usize;
        let begin_ns = self.client.now_ns();
        self.client.ask(0, 0, set(&self.hot(), b"other"));
        let (mut times, mut heard) = (Vec::with_capacity(watchers), Vec::new());
        while times.len() < watchers {
            self.wait(&mut heard)?;
            let now_ns = self.client.now_ns() - begin_ns;
            for heard in heard.drain(..) {
                if let Heard::Event { .. } = heard {
                    times.push(now_ns);
                }
            }
        }
        self.all(watchers as u32, |own, _| get(&own.hot(), true))?;
        Ok(times)
    }
}

/// Raises this process' limit of open files to the number of sessions.
fn allow(sessions: u32) -> io::Result<()> {
    let (limit, needed) = (getrlimit(Resource::Nofile), u64::from(sessions) + FILES_BESIDE);
    if limit.current.is_some_and(|current| current < needed) {
        let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised).map_err(|error| {
            let what = format!("{sessions} sessions need {needed} open files (ulimit -n): {error}");
            io::Error::other(what)
        })?;
    }
    Ok(())
}

/// Measures a service.
fn measure(
    args: &CrowdArgs,
    backend: Backend,
    program: &Path,
    bar: &ProgressBar,
) -> io::Result<Map<String, Value>> {
    let say = |what: &str| {
        bar.set_message(format!("{}: {what}", backend.name()));
        bar.inc(1);
    };
    say("starts");
    let mut services = Services::new(program, &args.dir, 60_000_000_000);
    let base = services.name("crowd");
    let ensemble = services.ensemble(backend, args.servers, false)?;
    let mut resident_bytes = vec![ensemble.resident_bytes()];
    say("beginning sessions");
    let client = Client::connect(&ensemble.entrances(args.sessions as usize, Attach::Any))?;
    let mut crowd = Crowd { args, client, base };
    for path in [crowd.base.clone(), crowd.hot()] {
        let made = crowd.client.call(0, create(&path, b"one", CreateMode::default()))?;
        made.map_err(|code| io::Error::other(format!("{path} was not created: {code:?}")))?;
    }
    resident_bytes.push(ensemble.resident_bytes());
    say("creating ephemeral nodes");
    let create_ns = crowd.make_ephemerals()?;
    resident_bytes.push(ensemble.resident_bytes());
    say("setting watches");
    let watch_ns = crowd.watch()?;
    resident_bytes.push(ensemble.resident_bytes());
    say("measuring idle sessions");
    let before_us = ensemble.cpu_us();
    crowd.rest()?;
    let rest_us = ensemble.cpu_us().saturating_sub(before_us);
    say("changing the watched node");
    let (mut times, mut lasts, before_us) = (Vec::new(), Vec::new(), ensemble.cpu_us());
    for _ in 0..args.changes {
        let mut heard_ns = crowd.change()?;
        lasts.extend(heard_ns.last());
        times.append(&mut heard_ns);
    }
    let change_us = ensemble.cpu_us().saturating_sub(before_us);
    say("ending sessions");
    let begun = Instant::now();
    crowd.client.close()?;
    let close_s = begun.elapsed().as_secs_f64();
    let per_s = |count: u32, ns: u64| rounded(f64::from(count) / (ns as f64 / 1e9));
    let heartbeats = f64::from(args.sessions) * args.seconds / HEARTBEAT_S;
    let mut row = memory(args, &resident_bytes);
    row.extend(fields([
        ("servers", args.servers.into()),
        ("backend", backend.name().into()),
        ("create_per_s", per_s(args.ephemerals, create_ns)),
        ("watch_per_s", per_s(args.watches, watch_ns)),
        ("heartbeat_cpu_percent", rounded(rest_us as f64 / args.seconds / 1e4)),
        ("heartbeat_cpu_us", rounded(rest_us as f64 / heartbeats)),
        ("notify_p50_ms", rounded(quantile(&times, 0.5) / 1e6)),
        ("notify_last_ms", rounded(quantile(&lasts, 0.5) / 1e6)),
        ("notify_and_watch_cpu_us", rounded(change_us as f64 / times.len().max(1) as f64)),
        ("close_s", rounded(close_s)),
    ]));
    Ok(row)
}

/// Counts, and the memory that each session, node and watch has added to a service:
/// `resident_bytes` is measured with nothing, with the sessions, with their nodes, and with the
/// watches.
fn memory(args: &CrowdArgs, resident_bytes: &[u64]) -> Map<String, Value> {
    let counts = [
        ("sessions", "session_bytes", args.sessions),
        ("ephemerals", "ephemeral_bytes", args.ephemerals),
        ("watches", "watch_bytes", args.watches),
    ];
    let mega = |bytes: Option<&u64>| bytes.map_or(Value::Null, |b| rounded(*b as f64 / 1e6));
    let mut row = fields([
        ("empty_rss_mb", mega(resident_bytes.first())),
        ("rss_mb", mega(resident_bytes.last())),
    ]);
    for ((what, each, count), steps) in counts.into_iter().zip(resident_bytes.windows(2)) {
        let more = steps[1].saturating_sub(steps[0]) as f64;
        row.insert(what.to_owned(), count.into());
        row.insert(each.to_owned(), rounded(more / f64::from(count)));
    }
    row
}

/// Runs the bench.
///
/// # Errors
/// A service cannot be started or fails, this process may not open enough connections, or Ctrl-C
/// was pressed.
pub fn run(args: &CrowdArgs, program: &Path) -> io::Result<Report> {
    allow(args.sessions)?;
    let others: &[SmokePeer] = match args.vs {
        Some(CrowdPeer::Zookeeper) => &[SmokePeer::Zookeeper],
        None => &[],
    };
    let backends = backends(others, program)?;
    let bar = crate::sweep::progress(backends.len() * 7);
    let mut report = Report::default();
    for backend in &backends {
        report.rows.push(measure(args, *backend, program, &bar)?);
    }
    bar.finish_and_clear();
    if let [own, other] = &report.rows[..] {
        let of = |row: &Map<String, Value>, what: &str| row.get(what).and_then(Value::as_f64);
        for what in ["rss_mb", "heartbeat_cpu_percent", "notify_last_ms"] {
            let name = format!("zookeeper_over_claret {what}");
            report.ratios.insert(name, ratio(of(other, what), of(own, what)));
        }
    }
    Ok(report)
}
