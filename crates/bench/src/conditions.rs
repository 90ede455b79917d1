//! Conditions of the study, each with a server of its own, for any load.

use crate::args::Common;
use crate::cell::{Contestant, Setting};
use crate::load::runner::{Api, Retry};
use crate::load::workload::Workload;
use crate::report::{Report, fields, ratio, rounded};
use crate::servers::control::Control;
use crate::servers::process::{ClaretOptions, Server};
use crate::sweep::{Outcome, Reached, sweep};
use serde_json::{Map, Value};
use std::io;
use std::path::Path;

/// Interface and retry behaviour of a condition's clients.
pub fn manner(condition: &str) -> (Api, Retry) {
    match condition {
        "none" => (Api::Plain, Retry::PATIENT),
        "full" => (Api::Client, Retry::PATIENT),
        "rw" | "boost" => (Api::Interactive, Retry::NO_WAIT),
        _ => (Api::Interactive, Retry::PATIENT),
    }
}

/// A server with the fields that identify its rows.
pub type Labelled = (Server, Map<String, Value>);

/// Starts a server for each condition.
///
/// # Errors
/// A server cannot be started.
pub fn start(common: &Common, program: &Path) -> io::Result<Vec<Labelled>> {
    let start = |cc: &str| {
        let options = ClaretOptions {
            program: program.to_owned(),
            cc: cc.to_owned(),
            shards: common.shards,
            workers: common.workers,
            durability: common.durability.clone(),
            replicas: common.replicas,
        };
        Ok((Server::claret(&options, &common.dir)?, labels(&options)))
    };
    common.conditions().into_iter().map(start).collect()
}

fn labels(options: &ClaretOptions) -> Map<String, Value> {
    fields([
        ("server", Value::from("claret")),
        ("cc", Value::from(options.cc.as_str())),
        ("durability", Value::from(options.durability.as_str())),
        ("shards", Value::from(options.shards)),
        ("workers", Value::from(options.workers)),
        ("replicas", Value::from(options.replicas)),
    ])
}

/// Condition that a contestant represents.
pub fn condition(labels: &Map<String, Value>) -> &str {
    labels.get("cc").and_then(Value::as_str).unwrap_or_default()
}

/// Contestants of [`start`], each with the interface of its condition.
pub fn contestants<'s>(
    servers: &'s [Labelled],
    fields: &Map<String, Value>,
) -> Vec<Contestant<'s>> {
    let contestant = |(server, labels): &'s Labelled| {
        let (api, retry) = manner(condition(labels));
        let mut labels = labels.clone();
        labels.extend(fields.clone());
        Contestant { server, claret: true, labels, api, retry }
    };
    servers.iter().map(contestant).collect()
}

/// Settings that all loads take from the command line.
pub fn setting(common: &Common) -> (Setting, Vec<usize>) {
    let setting = Setting {
        rtt: common.rtt,
        seconds: common.seconds,
        warmup: common.warmup,
        seed: common.seed,
    };
    (setting, common.clients.iter().map(|clients| *clients as usize).collect())
}

/// Ratios of the conditions' peaks: `full_over_none` and similar, and `overload`.
pub fn ratios(contestants: &[Contestant<'_>], reached: &[Reached]) -> Map<String, Value> {
    let find = |cc: &str| {
        let is =
            |c: &Contestant<'_>| c.claret && condition(&c.labels) == cc && c.api == manner(cc).0;
        contestants.iter().position(is).and_then(|at| reached.get(at))
    };
    let peak = |cc: &str| find(cc).and_then(Reached::peak);
    let mut ratios = Map::new();
    for (name, cc) in
        [("full_over_none", "none"), ("full_over_rw", "rw"), ("full_over_rw_phase", "rw+phase")]
    {
        ratios.insert(name.into(), ratio(peak("full"), peak(cc)));
    }
    let overload = find("full").and_then(|full| full.overload);
    ratios.insert("overload".into(), overload.map_or(Value::Null, rounded));
    ratios
}

/// Runs a load over the conditions. `prepare` makes the data of a cell, given the load of the cell
/// before on the same server.
///
/// # Errors
/// A server cannot be started or fails.
pub fn run<W: Workload>(
    common: &Common,
    program: &Path,
    fields: &Map<String, Value>,
    mut prepare: impl FnMut(&mut Control, Option<W>) -> io::Result<W>,
) -> io::Result<Report> {
    let servers = start(common, program)?;
    let contestants = contestants(&servers, fields);
    let (setting, clients) = setting(common);
    let Outcome { rows, reached } =
        sweep(&contestants, &clients, &setting, |_, control, load| prepare(control, load))?;
    let mut ratios = ratios(&contestants, &reached);
    let worst = rows
        .iter()
        .filter(|row| condition(row) == "full")
        .filter_map(|row| row.get("worst_5s_over_mean").and_then(Value::as_f64));
    if let Some(worst) = worst.reduce(f64::min) {
        ratios.insert("full_worst_5s_over_mean".into(), rounded(worst));
    }
    Ok(Report { rows, ratios, ..Report::default() })
}

/// Columns of the printed table.
pub const COLUMNS: [&str; 23] = [
    "server",
    "cc",
    "api",
    "clients",
    "txn_per_s",
    "p50_us",
    "p99_us",
    "aborts_per_commit",
    "given_up_share",
    "round_trips_per_txn",
    "messages_per_txn",
    "log_records_per_txn",
    "log_appends_per_txn",
    "fsyncs_per_txn",
    "peer_requests_per_txn",
    "peer_raft_per_txn",
    "peer_sends_per_txn",
    "server_cpu_us_per_txn",
    "client_cpu_us_per_txn",
    "client_cpus",
    "limit",
    "foreign_cpus",
    "worst_5s_over_mean",
];
