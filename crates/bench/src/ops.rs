//! Single commands as fast as they go: processor time per operation beside `redis-server`.

use crate::args::{OpsArgs, Peer};
use crate::control::Control;
use crate::driver::{Driver, Fleet, Turn};
use crate::process::{self, ClaretOptions, Server};
use crate::random::Rng;
use crate::recorder::Recorder;
use crate::report::{Report, ratio, rounded};
use crate::resp::{self, Frame};
use crate::sweep::progress;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Keys, and members of the one set and the one sorted set.
const KEYS: u64 = 10_000;
/// Digits of a key or member, as `redis-benchmark` writes them.
const DIGITS: usize = 12;
const VALUE: &[u8] = b"0123456789abcdef";
const WARMUP_NS: u64 = 300_000_000;

/// Connections that send one command over and over.
struct Hammer<'a> {
    command: &'a str,
    pipeline: u32,
    rng: Rng,
    started_ns: Vec<u64>,
    recorder: Recorder,
}

fn padded(out: &mut Vec<u8>, prefix: &[u8], number: u64) {
    let digits = format!("{number:0width$}", width = DIGITS);
    resp::word(out, &[prefix, digits.as_bytes()].concat());
}

/// Appends one command with a random key or member.
fn push_command(out: &mut Vec<u8>, command: &str, number: u64) {
    let name = command.as_bytes();
    match command {
        "GET" | "INCR" => {
            resp::header(out, 2);
            resp::word(out, name);
            padded(out, if command == "GET" { b"key:" } else { b"counter:" }, number);
        }
        "SET" => {
            resp::header(out, 3);
            resp::word(out, name);
            padded(out, b"key:", number);
            resp::word(out, VALUE);
        }
        "SADD" => {
            resp::header(out, 3);
            resp::word(out, name);
            resp::word(out, b"myset");
            padded(out, b"element:", number);
        }
        _ => {
            resp::header(out, 4);
            resp::word(out, name);
            resp::word(out, b"myzset");
            resp::numbered(out, b"", number % 1_000);
            padded(out, b"element:", number);
        }
    }
}

impl Fleet for Hammer<'_> {
    fn reply(&mut self, _client: usize, frame: Frame<'_>) -> Result<(), String> {
        frame.error().map_or(Ok(()), |error| Err(format!("the server answered: {error}")))
    }

    fn turn(&mut self, client: usize, now_ns: u64, out: &mut Vec<u8>) -> Turn {
        let started_ns = std::mem::replace(&mut self.started_ns[client], now_ns);
        if started_ns > 0 {
            self.recorder.commit(0, started_ns, now_ns);
        }
        for _ in 0..self.pipeline {
            push_command(out, self.command, self.rng.below(KEYS));
        }
        Turn { replies: self.pipeline, hold_ns: 0 }
    }
}

/// One run of one cell.
#[derive(Clone, Copy, Debug)]
struct Run {
    ops_per_s: f64,
    cpu_us_per_op: f64,
    client_cpu_us_per_op: f64,
    p99_us: f64,
    foreign_cpus: f64,
}

fn run_cell(
    server: &Server,
    command: &str,
    pipeline: u32,
    args: &OpsArgs,
    seed: u64,
) -> io::Result<Run> {
    let mut control = Control::connect(server.address())?;
    control.call(&["FLUSHALL"])?;
    if command == "GET" {
        let set = |key| {
            let mut bytes = Vec::new();
            push_command(&mut bytes, "SET", key);
            bytes
        };
        control.load((0..KEYS).map(set))?;
    }
    let clients = args.clients as usize;
    let mut driver = Driver::connect(&server.addresses(), clients, 0).map_err(io::Error::other)?;
    let mut hammer = Hammer {
        command,
        pipeline,
        rng: Rng::new(seed),
        started_ns: vec![0; clients],
        recorder: Recorder::new(1, u64::MAX),
    };
    let from_ns = driver.now_ns() + WARMUP_NS;
    driver.run(&mut hammer, from_ns).map_err(io::Error::other)?;
    let costs = || (server.cpu_us(), process::cpu_us("self"), process::machine_cpu_us());
    let before = costs();
    let from_ns = driver.now_ns();
    hammer.recorder = Recorder::new(1, from_ns);
    let until_ns = from_ns + (args.seconds * 1e9) as u64;
    driver.run(&mut hammer, until_ns).map_err(io::Error::other)?;
    let elapsed_s = (driver.now_ns() - from_ns) as f64 / 1e9;
    let after = costs();
    let ops = (hammer.recorder.commits() * u64::from(pipeline)).max(1) as f64;
    let server_us = (after.0 - before.0) as f64;
    let client_us = (after.1 - before.1) as f64;
    let machine_us = after.2.saturating_sub(before.2) as f64;
    Ok(Run {
        ops_per_s: ops / elapsed_s,
        cpu_us_per_op: server_us / ops,
        client_cpu_us_per_op: client_us / ops,
        p99_us: hammer.recorder.latency.value_at_quantile(0.99) as f64 / 1e3,
        foreign_cpus: (machine_us - server_us - client_us).max(0.0) / (elapsed_s * 1e6),
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Who is measured: a label, the numbers of workers and shards, the server.
type Entry = (&'static str, Option<(u16, u16)>, Server);

fn start(args: &OpsArgs, fsync: &str, program: &Path) -> io::Result<Vec<Entry>> {
    let durability = if fsync == "no" { "none" } else { fsync };
    let mut servers = Vec::new();
    if args.vs == Some(Peer::Redis) {
        servers.push(("redis", None, Server::redis(durability, &args.dir)?));
    }
    for &(workers, shards) in &args.sizes {
        let options = ClaretOptions {
            program: program.to_owned(),
            cc: "full".into(),
            shards,
            workers,
            durability: durability.into(),
            replicas: args.replicas,
        };
        let server = Server::claret(&options, &args.dir)?;
        servers.push(("claret", Some((workers, shards)), server));
    }
    Ok(servers)
}

/// Columns of the table for people.
pub const COLUMNS: [&str; 12] = [
    "server",
    "workers",
    "shards",
    "replicas",
    "command",
    "pipeline",
    "fsync",
    "ops_per_s",
    "cpu_us_per_op",
    "client_cpu_us_per_op",
    "p99_us",
    "foreign_cpus",
];

/// Runs the bench.
///
/// # Errors
/// A server cannot be started or fails.
pub fn run(args: &OpsArgs, program: &Path) -> io::Result<Report> {
    let mut report = Report::default();
    let per_fsync = args.commands.len() * args.pipeline.len() * args.runs as usize;
    let servers = args.sizes.len() + usize::from(args.vs.is_some());
    let bar = progress(args.fsync.len() * per_fsync * servers);
    for fsync in &args.fsync {
        let servers = start(args, fsync, program)?;
        let mut cells: BTreeMap<(usize, usize, usize), Vec<Run>> = BTreeMap::new();
        for run in 0..args.runs {
            for (c, command) in args.commands.iter().enumerate() {
                for (p, &pipeline) in args.pipeline.iter().enumerate() {
                    for (who, (name, _, server)) in servers.iter().enumerate() {
                        bar.set_message(format!("{name} {command} {pipeline} fsync {fsync}"));
                        let done = run_cell(server, command, pipeline, args, u64::from(run))?;
                        cells.entry((c, p, who)).or_default().push(done);
                        bar.inc(1);
                    }
                }
            }
        }
        add_rows(args, fsync, &servers, &cells, &mut report);
    }
    bar.finish_and_clear();
    Ok(report)
}

fn add_rows(
    args: &OpsArgs,
    fsync: &str,
    servers: &[Entry],
    cells: &BTreeMap<(usize, usize, usize), Vec<Run>>,
    report: &mut Report,
) {
    let of = |runs: &[Run], field: fn(&Run) -> f64| median(runs.iter().map(field).collect());
    let mut redis_cpu = None;
    for (&(c, p, who), runs) in cells {
        let (name, size, _) = &servers[who];
        let (command, pipeline) = (&args.commands[c], args.pipeline[p]);
        let cpu = of(runs, |run| run.cpu_us_per_op);
        let mut row = Map::new();
        let mut put = |field: &str, value: Value| row.insert(field.to_owned(), value);
        put("server", (*name).into());
        if let Some((workers, shards)) = *size {
            put("workers", workers.into());
            put("shards", shards.into());
            put("replicas", args.replicas.into());
        }
        put("command", command.as_str().into());
        put("pipeline", pipeline.into());
        put("fsync", fsync.into());
        put("clients", args.clients.into());
        put("ops_per_s", rounded(of(runs, |run| run.ops_per_s)));
        put("cpu_us_per_op", rounded(cpu));
        put("client_cpu_us_per_op", rounded(of(runs, |run| run.client_cpu_us_per_op)));
        put("p99_us", rounded(of(runs, |run| run.p99_us)));
        put("foreign_cpus", rounded(of(runs, |run| run.foreign_cpus)));
        report.rows.push(row);
        match size {
            None => redis_cpu = Some((c, p, cpu)),
            Some((workers, shards)) => {
                // Redis comes first in every cell.
                let redis = redis_cpu.filter(|known| (known.0, known.1) == (c, p)).map(|k| k.2);
                let commands = report.ratios.entry(command.as_str()).or_insert(Map::new().into());
                let label = format!("pipeline_{pipeline}_fsync_{fsync}_{workers}x{shards}");
                if let Value::Object(commands) = commands {
                    commands.insert(label, ratio(redis, Some(cpu)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_shape_of_the_usual_benchmark() {
        let mut out = Vec::new();
        push_command(&mut out, "ZADD", 1_234);
        let text = String::from_utf8(out).expect("text");
        assert_eq!(
            text,
            "*4\r\n$4\r\nZADD\r\n$6\r\nmyzset\r\n$3\r\n234\r\n$20\r\nelement:000000001234\r\n"
        );
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert!(median(Vec::new()).is_nan());
    }
}
