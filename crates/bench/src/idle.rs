//! Cost of an idle cluster: processor time, and memory per Raft group.

use crate::args::IdleArgs;
use crate::report::{Report, fields, rounded};
use crate::servers::process::{ClaretOptions, Server};
use crate::stop;
use crate::sweep::progress;
use serde_json::{Map, Value};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Columns of the printed table.
pub const COLUMNS: [&str; 9] = [
    "shards",
    "replicas",
    "seconds",
    "cpu_percent",
    "rss_mb",
    "turns_per_s",
    "peer_messages_per_s",
    "fsyncs_per_s",
    "allocated_mb",
];

/// Measurements of an idle cluster.
struct Seen {
    row: Map<String, Value>,
    resident_bytes: u64,
}

/// Starts a cluster with this number of shards, lets it settle, and measures it.
fn watch(args: &IdleArgs, program: &Path, shards: u16) -> io::Result<Seen> {
    let options = ClaretOptions {
        program: program.to_owned(),
        cc: "full".to_owned(),
        shards,
        workers: 1,
        durability: "always".to_owned(),
        replicas: args.replicas,
    };
    let server = Server::claret(&options, &args.dir)?;
    stop::sleep(Duration::from_secs_f64(args.settle))?;
    let metrics = server.metrics()?;
    let (began, cpu_us) = (Instant::now(), server.cpu_us());
    stop::sleep(Duration::from_secs_f64(args.seconds))?;
    let (elapsed_s, used_us) = (began.elapsed().as_secs_f64(), server.cpu_us() - cpu_us);
    let after = server.metrics()?;
    let resident_bytes = server.resident_bytes();
    let grown = |prefix: &str| {
        let sum = |of: &std::collections::BTreeMap<String, u64>| -> u64 {
            of.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, value)| value).sum()
        };
        rounded(sum(&after).saturating_sub(sum(&metrics)) as f64 / elapsed_s)
    };
    let allocated = after.get("memory_bytes").copied().unwrap_or(0);
    let mega = |bytes: u64| rounded(bytes as f64 / 1e6);
    let row = fields([
        ("shards", Value::from(shards)),
        ("replicas", Value::from(args.replicas)),
        ("seconds", rounded(elapsed_s)),
        ("cpu_percent", rounded(used_us as f64 / elapsed_s / 1e4)),
        ("rss_mb", mega(resident_bytes)),
        ("turns_per_s", grown("turns_total")),
        ("peer_messages_per_s", grown("peer_messages_total:")),
        ("fsyncs_per_s", grown("log_syncs_total")),
        ("allocated_mb", mega(allocated)),
    ]);
    Ok(Seen { row, resident_bytes })
}

/// Runs the bench.
///
/// # Errors
/// A server cannot be started or fails.
pub fn run(args: &IdleArgs, program: &Path) -> io::Result<Report> {
    let bar = progress(2);
    let mut seen = Vec::new();
    for shards in [1, args.shards] {
        bar.set_message(format!("{shards} shards"));
        seen.push(watch(args, program, shards)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let [few, many] = &seen[..] else { return Ok(Report::default()) };
    // Each process has a replica of every group.
    let groups = f64::from(args.shards.max(2) - 1) * f64::from(args.replicas);
    let more = many.resident_bytes.saturating_sub(few.resident_bytes) as f64;
    let ratios = fields([("memory_bytes_per_replica_of_a_group", rounded(more / groups))]);
    Ok(Report {
        rows: seen.into_iter().map(|seen| seen.row).collect(),
        ratios,
        ..Report::default()
    })
}
