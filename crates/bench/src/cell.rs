//! One cell of a measurement: one server, one way of sending operations, one number of clients.

use crate::load::driver::Driver;
use crate::load::recorder::Recorder;
use crate::load::runner::{Api, Retry, Runner};
use crate::load::threads::limit;
use crate::load::workload::Workload;
use crate::report::rounded;
use crate::servers::control::Control;
use crate::servers::process;
use crate::servers::process::Server;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// Duration and circumstances of a measurement.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Emulated round trip.
    pub rtt: Duration,
    /// Measured seconds.
    pub seconds: f64,
    /// Seconds of load before the measurement.
    pub warmup: f64,
    /// Seed of the random choices.
    pub seed: u64,
}

/// Server under measurement, with the way its clients use it.
pub struct Contestant<'s> {
    /// The server.
    pub server: &'s Server,
    /// Whether it is Claret, which reports our counters.
    pub claret: bool,
    /// Fields that identify the contestant in its rows.
    pub labels: Map<String, Value>,
    /// Interface that operations use.
    pub api: Api,
    /// Behaviour of its clients after an abort.
    pub retry: Retry,
}

/// Counters before or after a measurement window.
struct Sample {
    server_us: u64,
    client_us: u64,
    machine_us: u64,
    counters: BTreeMap<String, u64>,
    /// Metrics of its processes, added up.
    metrics: BTreeMap<String, u64>,
}

const COUNTERS: [&str; 4] = ["shard_requests", "log_appends", "log_records", "lock_waits"];
/// Columns per transaction, summed over all machines, and the metrics that each column adds up.
const METRICS: [(&str, &[&str]); 7] = [
    ("log_entries_per_txn", &["log_entries_total"]),
    ("log_writes_per_txn", &["log_writes_total"]),
    ("fsyncs_per_txn", &["log_syncs_total"]),
    ("peer_raft_per_txn", &["peer_messages_total:entries", "peer_messages_total:consensus"]),
    ("peer_requests_per_txn", &["peer_messages_total:requests", "peer_messages_total:answers"]),
    ("peer_sends_per_txn", &["peer_sends_total"]),
    ("peer_bytes_per_txn", &["peer_sent_bytes_total"]),
];

fn sample(contestant: &Contestant<'_>, control: &mut Control) -> io::Result<Sample> {
    let mut counters = BTreeMap::new();
    if contestant.claret {
        for (name, value) in control.info(&["stats", "transactions", "contention"])? {
            if COUNTERS.contains(&name.as_str()) {
                counters.insert(name, value.parse().unwrap_or(0));
            } else if name.starts_with("conflict_") {
                let pair = value.rsplit_once(",count=");
                let pair = pair.and_then(|(pair, count)| Some((pair, count.parse().ok()?)));
                let Some((pair, count)) = pair else { continue };
                counters.insert(format!("conflict {pair}"), count);
            }
        }
    }
    Ok(Sample {
        server_us: contestant.server.cpu_us(),
        client_us: process::cpu_us("self"),
        machine_us: process::machine_cpu_us(),
        counters,
        metrics: contestant.server.metrics()?,
    })
}

/// Runs one cell and makes its row.
///
/// # Errors
/// The server fails or sends a reply that no correct server sends.
pub fn measure<W: Workload>(
    contestant: &Contestant<'_>,
    control: &mut Control,
    workload: &mut W,
    clients: usize,
    setting: &Setting,
) -> io::Result<Map<String, Value>> {
    let kinds = workload.kinds();
    let rtt_ns = setting.rtt.as_nanos() as u64;
    let nanos = |seconds: f64| (seconds * 1e9) as u64;
    let mut driver = Driver::connect(&contestant.server.addresses(), clients, rtt_ns)
        .map_err(io::Error::other)?;
    let unused = Recorder::new(kinds.len(), u64::MAX);
    let mut runner =
        Runner::new(workload, contestant.api, contestant.retry, clients, setting.seed, unused);
    let from_ns = driver.now_ns() + nanos(setting.warmup);
    driver.run(&mut runner, from_ns).map_err(io::Error::other)?;
    let before = sample(contestant, control)?;
    let from_ns = driver.now_ns();
    runner.recorder = Recorder::new(kinds.len(), from_ns);
    let turns = runner.turns;
    driver.run(&mut runner, from_ns + nanos(setting.seconds)).map_err(io::Error::other)?;
    let elapsed_s = (driver.now_ns() - from_ns) as f64 / 1e9;
    let after = sample(contestant, control)?;
    let turns = runner.turns - turns;
    let recorder = runner.recorder;
    let mut row = contestant.labels.clone();
    row.insert("api".into(), contestant.api.name().into());
    row.insert("clients".into(), clients.into());
    row.insert("rtt_us".into(), rounded(setting.rtt.as_nanos() as f64 / 1e3));
    row.insert("seconds".into(), rounded(elapsed_s));
    describe(&recorder, kinds, elapsed_s, &mut row);
    let commits = recorder.commits().max(1) as f64;
    row.insert("round_trips_per_txn".into(), rounded(turns as f64 / commits));
    account(&before, &after, commits, elapsed_s, &mut row);
    Ok(row)
}

/// Adds the results that the clients observed.
fn describe(recorder: &Recorder, kinds: &[&str], elapsed_s: f64, row: &mut Map<String, Value>) {
    let commits = recorder.commits();
    let latency_us = |quantile: f64| {
        if commits == 0 {
            return Value::Null;
        }
        rounded(recorder.latency.value_at_quantile(quantile) as f64 / 1e3)
    };
    row.insert("txn_per_s".into(), rounded(commits as f64 / elapsed_s));
    row.insert("p50_us".into(), latency_us(0.5));
    row.insert("p99_us".into(), latency_us(0.99));
    row.insert("mean_us".into(), rounded(recorder.latency.mean() / 1e3));
    let per_commit = |count: u64| rounded(count as f64 / commits.max(1) as f64);
    row.insert("retries_per_txn".into(), per_commit(recorder.aborts()));
    row.insert("aborts_per_commit".into(), per_commit(recorder.aborts()));
    let ended = (commits + recorder.given_up).max(1);
    row.insert("given_up_share".into(), rounded(recorder.given_up as f64 / ended as f64));
    if kinds.len() > 1 {
        let by_kind = |counts: &[u64]| -> Value {
            let pairs = kinds.iter().zip(counts);
            pairs
                .map(|(kind, n)| ((*kind).to_owned(), Value::from(*n)))
                .collect::<Map<_, _>>()
                .into()
        };
        row.insert("committed_by_kind".into(), by_kind(&recorder.committed));
        row.insert("aborted_by_kind".into(), by_kind(&recorder.aborted));
    }
    if let Some(worst) = recorder.worst_5s_over_mean(elapsed_s as u64) {
        row.insert("worst_5s_over_mean".into(), rounded(worst));
    }
}

/// Adds the cost on the servers.
fn account(
    before: &Sample,
    after: &Sample,
    commits: f64,
    elapsed_s: f64,
    row: &mut Map<String, Value>,
) {
    let mut conflicts = Map::new();
    for (name, value) in &after.counters {
        let grown = value.saturating_sub(before.counters.get(name).copied().unwrap_or(0)) as f64;
        let field = match name.as_str() {
            "shard_requests" => "messages_per_txn",
            "log_appends" => "log_appends_per_txn",
            "log_records" => "log_records_per_txn",
            "lock_waits" => "lock_waits_per_txn",
            pair => {
                let pair = pair.strip_prefix("conflict ").unwrap_or(pair);
                if grown > 0.0 {
                    conflicts.insert(pair.to_owned(), rounded(grown / elapsed_s));
                }
                continue;
            }
        };
        row.insert(field.into(), rounded(grown / commits));
    }
    for (field, metrics) in METRICS {
        let sum = |sample: &Sample| -> Option<u64> {
            metrics.iter().map(|name| sample.metrics.get(*name).copied()).sum()
        };
        if let Some((before, after)) = sum(before).zip(sum(after)) {
            row.insert(field.into(), rounded(after.saturating_sub(before) as f64 / commits));
        }
    }
    if !conflicts.is_empty() {
        row.insert("conflicts_per_s".into(), conflicts.into());
    }
    let server_us = after.server_us.saturating_sub(before.server_us) as f64;
    let client_us = after.client_us.saturating_sub(before.client_us) as f64;
    let machine_us = after.machine_us.saturating_sub(before.machine_us) as f64;
    row.insert("server_cpu_us_per_txn".into(), rounded(server_us / commits));
    row.insert("client_cpu_us_per_txn".into(), rounded(client_us / commits));
    let foreign = (machine_us - server_us - client_us).max(0.0) / (elapsed_s * 1e6);
    row.insert("foreign_cpus".into(), rounded(foreign));
    let client_cpus = client_us / (elapsed_s * 1e6);
    row.insert("client_cpus".into(), rounded(client_cpus));
    // The clients of these loads share state, so they have one thread.
    let limit = limit(client_cpus, 1, machine_us / (elapsed_s * 1e6));
    row.insert("limit".into(), limit.map_or(Value::Null, Value::from));
}
