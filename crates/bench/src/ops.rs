//! Throughput of single commands: processor time per operation compared with `redis-server`, and
//! throughput and latency of replicated commands compared with `etcd`.

use crate::args::{OpsArgs, OpsPeer, Size};
use crate::load::driver::{Fleet, Turn};
use crate::load::random::Rng;
use crate::load::recorder::Recorder;
use crate::load::resp;
use crate::load::resp::Frame;
use crate::load::sample::{Costs, Load, Sample};
use crate::load::threads::{Driven, Recorded, Span, drive, limit, shares};
use crate::report::{Report, median, ratio, rounded};
use crate::servers::control::Control;
use crate::servers::etcd;
use crate::servers::process::{Beside, ClaretOptions, Server};
use crate::sweep::progress;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Keys, and members of the one set and the one sorted set.
pub const KEYS: u64 = 10_000;
/// Digits of a key or member, as `redis-benchmark` writes them.
const DIGITS: usize = 12;
/// Value of writes.
pub const VALUE: &[u8] = b"0123456789abcdef";
/// Load before each measurement, in nanoseconds.
pub const WARMUP_NS: u64 = 300_000_000;

/// Name of a key, or of a member with another prefix.
pub fn key(prefix: &str, number: u64) -> String {
    format!("{prefix}:{number:0width$}", width = DIGITS)
}

/// Connections that send one command over and over.
struct Hammer<'a> {
    command: &'a str,
    pipeline: u32,
    rng: Rng,
    started_ns: Vec<u64>,
    recorder: Recorder,
}

fn padded(out: &mut Vec<u8>, prefix: &str, number: u64) {
    resp::word(out, key(prefix, number).as_bytes());
}

/// Appends one command with a random key or member.
fn push_command(out: &mut Vec<u8>, command: &str, number: u64) {
    let name = command.as_bytes();
    match command {
        "GET" | "INCR" => {
            resp::header(out, 2);
            resp::word(out, name);
            padded(out, if command == "GET" { "key" } else { "counter" }, number);
        }
        "SET" => {
            resp::header(out, 3);
            resp::word(out, name);
            padded(out, "key", number);
            resp::word(out, VALUE);
        }
        "SADD" => {
            resp::header(out, 3);
            resp::word(out, name);
            resp::word(out, b"myset");
            padded(out, "element", number);
        }
        _ => {
            resp::header(out, 4);
            resp::word(out, name);
            resp::word(out, b"myzset");
            resp::numbered(out, b"", number % 1_000);
            padded(out, "element", number);
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

impl Recorded for Hammer<'_> {
    fn record(&mut self, recorder: Recorder) -> Recorder {
        std::mem::replace(&mut self.recorder, recorder)
    }
}

/// Measures RESP with this number of threads.
fn hammer(
    server: &Server,
    machines: &[SocketAddr],
    load: &Load<'_>,
    threads: usize,
) -> io::Result<Sample> {
    let fleet = |(number, clients): (usize, usize)| {
        let hammer = Hammer {
            command: load.command,
            pipeline: load.pipeline,
            rng: Rng::new(load.seed.wrapping_add((number as u64) << 32)),
            started_ns: vec![0; clients],
            recorder: Recorder::new(1, u64::MAX),
        };
        (clients, hammer)
    };
    let shares = shares(load.clients as usize, threads);
    let mut fleets: Vec<_> = shares.into_iter().enumerate().map(fleet).collect();
    let span = Span { warmup_ns: WARMUP_NS, measured_ns: (load.seconds * 1e9) as u64 };
    let costs = || Costs::now(&server.processes());
    let Driven { recorder, elapsed_ns, costs } = drive(machines, &mut fleets, 1, span, costs)?;
    Ok(Sample::new(&recorder, load.pipeline, elapsed_ns, costs))
}

/// Server under measurement.
#[derive(Clone, Debug)]
enum Kind {
    /// Claret.
    Claret(Claret),
    Redis,
    /// etcd, with the path of the load generator.
    Etcd(PathBuf),
}

/// A Claret server under measurement.
#[derive(Clone, Debug)]
struct Claret {
    size: Size,
    /// Workers and shards that it has.
    has: (u64, u64),
    /// Order protocol as in the options.
    order: String,
}

impl Claret {
    /// Name of this server in the ratios.
    fn label(&self) -> String {
        let size = match self.size {
            Size::Shipped => "shipped".to_owned(),
            Size::Of(workers, shards) => format!("{workers}x{shards}"),
        };
        match self.order.as_str() {
            "default" => size,
            order => format!("{size}_order_{order}"),
        }
    }
}

struct Contestant {
    kind: Kind,
    server: Server,
}

impl Contestant {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Claret(..) => "claret",
            Kind::Redis => "redis",
            Kind::Etcd(_) => "etcd",
        }
    }

    /// Removes the data of other cells, and writes all keys if the cell needs them.
    fn prepare(&self, keys: bool) -> io::Result<()> {
        if matches!(self.kind, Kind::Etcd(_)) {
            // No cell removes keys or creates others, so they are written once, at the start.
            return Ok(());
        }
        let mut control = Control::connect(self.server.address())?;
        control.call(&["FLUSHALL"])?;
        let set = |key| {
            let mut bytes = Vec::new();
            push_command(&mut bytes, "SET", key);
            bytes
        };
        control.load((0..KEYS).take_while(|_| keys).map(set))
    }

    /// Carries out one run. With fewer connections than machines the choice of machines matters, so
    /// each machine is the first one for an equal part of the run.
    fn measure(&self, load: &Load<'_>, threads: usize) -> io::Result<Sample> {
        let mut machines = self.server.addresses();
        let parts = if (load.clients as usize) < machines.len() { machines.len() } else { 1 };
        let part = Load { seconds: load.seconds / parts as f64, ..*load };
        let mut whole = Sample::default();
        for _ in 0..parts {
            whole.add(match &self.kind {
                Kind::Etcd(program) => etcd::run(program, &self.server, &machines, &part)?,
                _ => hammer(&self.server, &machines, &part, threads)?,
            });
            machines.rotate_left(1);
        }
        Ok(whole)
    }
}

/// Starts a Claret server and asks it what it has.
fn start_claret(
    args: &OpsArgs,
    size: Size,
    order: &str,
    durability: &str,
    program: &Path,
) -> io::Result<Contestant> {
    let flags: &[&str] = if order == "default" { &[] } else { &["--order", order] };
    let server = match size {
        Size::Shipped => {
            let flags = [&["--durability", durability], flags].concat();
            Server::shipped(program, &flags, &args.dir)?
        }
        Size::Of(workers, shards) => {
            let options = ClaretOptions {
                program: program.to_owned(),
                cc: "full".into(),
                shards,
                workers,
                durability: durability.into(),
                replicas: args.replicas,
            };
            Server::claret_with(&options, flags, &args.dir)?
        }
    };
    let info = Control::connect(server.address())?.info(&["server"])?;
    let shards = info.get("shards").and_then(|shards| shards.parse().ok()).unwrap_or(0);
    let workers = server.metrics()?.get("workers").copied().unwrap_or(0);
    let has = (workers / u64::from(args.replicas), shards);
    Ok(Contestant { kind: Kind::Claret(Claret { size, has, order: order.into() }), server })
}

/// Starts the servers of one durability; the other server is the first one.
fn start(
    args: &OpsArgs,
    fsync: &str,
    program: &Path,
    report: &mut Report,
) -> io::Result<Vec<Contestant>> {
    let durability = if fsync == "no" { "none" } else { fsync };
    let mut contestants = Vec::new();
    match args.vs {
        Some(OpsPeer::Etcd) => {
            let load = etcd::load_program(program)?;
            let server = etcd::start(args.replicas, &args.dir)?;
            etcd::write_keys(&load, &server)?;
            contestants.push(Contestant { kind: Kind::Etcd(load), server });
        }
        vs => {
            let wanted = vs.map(|vs| match vs {
                OpsPeer::Redis => Beside::Redis,
                OpsPeer::None | OpsPeer::Etcd => Beside::None,
            });
            let redis = Server::redis_beside(wanted, durability, &args.dir, &mut report.notes)?;
            contestants.extend(redis.map(|server| Contestant { kind: Kind::Redis, server }));
        }
    }
    for (size, order) in args.servers() {
        contestants.push(start_claret(args, size, order, durability, program)?);
    }
    Ok(contestants)
}

/// Columns of the printed table.
pub const COLUMNS: [&str; 20] = [
    "server",
    "setting",
    "workers",
    "shards",
    "replicas",
    "command",
    "pipeline",
    "fsync",
    "clients",
    "ops_per_s",
    "ops_ratio",
    "ops_ratio_range",
    "cpu_us_per_op",
    "cpu_ratio",
    "client_cpu_us_per_op",
    "client_cpus",
    "limit",
    "p50_us",
    "p99_us",
    "foreign_cpus",
];

/// Parameters that all servers are measured with in turns, by their indices in the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    command: usize,
    pipeline: usize,
    clients: usize,
}

fn cells(args: &OpsArgs) -> Vec<Cell> {
    let mut cells = Vec::new();
    for command in 0..args.commands.len() {
        for pipeline in 0..args.pipeline.len() {
            cells.extend((0..args.clients.len()).map(|clients| Cell {
                command,
                pipeline,
                clients,
            }));
        }
    }
    cells
}

/// Runs the bench.
///
/// # Errors
/// A server cannot be started or fails, or does not support an option.
pub fn run(args: &OpsArgs, program: &Path) -> io::Result<Report> {
    if let Some(why) = args.impossible() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let mut report = Report::default();
    if args.vs == Some(OpsPeer::Etcd) {
        report.more.insert("etcd_version".into(), etcd::version()?.into());
    }
    let cells = cells(args);
    let servers = args.servers().len() + usize::from(args.vs != Some(OpsPeer::None));
    let bar = progress(args.fsync.len() * cells.len() * args.runs as usize * servers);
    // For the comparison with etcd all commands use all keys: they are never removed.
    let all_keys = args.vs == Some(OpsPeer::Etcd);
    for fsync in &args.fsync {
        let contestants = start(args, fsync, program, &mut report)?;
        let mut samples: BTreeMap<(Cell, usize), Vec<Sample>> = BTreeMap::new();
        for run in 0..args.runs {
            for &cell in &cells {
                let load = Load {
                    command: &args.commands[cell.command],
                    pipeline: args.pipeline[cell.pipeline],
                    clients: args.clients[cell.clients],
                    seconds: args.seconds,
                    seed: u64::from(run),
                };
                for (who, contestant) in contestants.iter().enumerate() {
                    let Load { command, pipeline, clients, .. } = load;
                    let name = contestant.name();
                    bar.set_message(format!("{name} {command} {pipeline}x{clients} fsync {fsync}"));
                    contestant.prepare(all_keys || command == "GET")?;
                    let sample = contestant.measure(&load, args.threads(clients))?;
                    samples.entry((cell, who)).or_default().push(sample);
                    bar.inc(1);
                }
            }
        }
        add_rows(args, fsync, &contestants, &samples, &mut report);
    }
    bar.finish_and_clear();
    Ok(report)
}

/// Medians of the runs of one cell.
#[derive(Clone, Copy, Debug)]
struct Figures {
    ops_per_s: f64,
    cpu_us_per_op: f64,
    client_cpu_us_per_op: f64,
    client_cpus: f64,
    machine_cpus: f64,
    p50_us: f64,
    p99_us: f64,
    foreign_cpus: f64,
}

impl Figures {
    fn of(samples: &[Sample]) -> Self {
        let of = |field: fn(&Sample) -> f64| median(samples.iter().map(field).collect());
        Self {
            ops_per_s: of(Sample::ops_per_s),
            cpu_us_per_op: of(Sample::cpu_us_per_op),
            client_cpu_us_per_op: of(Sample::client_cpu_us_per_op),
            client_cpus: of(Sample::client_cpus),
            machine_cpus: of(Sample::machine_cpus),
            p50_us: of(|sample| sample.latency_us(0.5)),
            p99_us: of(|sample| sample.latency_us(0.99)),
            foreign_cpus: of(Sample::foreign_cpus),
        }
    }
}

fn add_rows(
    args: &OpsArgs,
    fsync: &str,
    contestants: &[Contestant],
    samples: &BTreeMap<(Cell, usize), Vec<Sample>>,
    report: &mut Report,
) {
    // The other server is measured first in every cell.
    let mut other: Option<(Cell, &[Sample])> = None;
    for (&(cell, who), samples) in samples {
        let other_there = other.filter(|(known, _)| *known == cell).map(|(_, samples)| samples);
        let contestant = &contestants[who];
        let figures = Figures::of(samples);
        let mut row = Map::new();
        let mut put = |field: &str, value: Value| row.insert(field.to_owned(), value);
        put("server", contestant.name().into());
        if let Kind::Claret(claret) = &contestant.kind {
            put("setting", claret.label().into());
            put("workers", claret.has.0.into());
            put("shards", claret.has.1.into());
            put("order", claret.order.as_str().into());
        }
        if !matches!(contestant.kind, Kind::Redis) {
            put("replicas", args.replicas.into());
        }
        put("command", args.commands[cell.command].as_str().into());
        put("pipeline", args.pipeline[cell.pipeline].into());
        put("fsync", fsync.into());
        let clients = args.clients[cell.clients];
        put("clients", clients.into());
        put("ops_per_s", rounded(figures.ops_per_s));
        put("cpu_us_per_op", rounded(figures.cpu_us_per_op));
        put("client_cpu_us_per_op", rounded(figures.client_cpu_us_per_op));
        put("client_cpus", rounded(figures.client_cpus));
        let threads = args.threads(clients);
        put("load_threads", threads.into());
        let limit = limit(figures.client_cpus, threads, figures.machine_cpus);
        put("limit", limit.map_or(Value::Null, Value::from));
        put("p50_us", rounded(figures.p50_us));
        put("p99_us", rounded(figures.p99_us));
        put("foreign_cpus", rounded(figures.foreign_cpus));
        if let (Kind::Claret(claret), Some(theirs)) = (&contestant.kind, other_there) {
            compare_runs(samples, theirs, &mut row);
            let label = format!("fsync_{fsync}_{}", claret.label());
            add_ratios(args, cell, &label, Figures::of(theirs), figures, report);
        }
        report.rows.push(row);
        if matches!(contestant.kind, Kind::Redis | Kind::Etcd(_)) {
            other = Some((cell, samples));
        }
    }
}

/// Compares the runs of Claret with those of the other server, which took place in turns: medians
/// of the ratios of two runs beside each other, above 1 where Claret is better.
fn compare_runs(ours: &[Sample], theirs: &[Sample], row: &mut Map<String, Value>) {
    let pairs = || ours.iter().zip(theirs);
    let mut rates: Vec<f64> =
        pairs().map(|(our, their)| our.ops_per_s() / their.ops_per_s()).collect();
    let costs = pairs().map(|(our, their)| their.cpu_us_per_op() / our.cpu_us_per_op()).collect();
    rates.sort_by(f64::total_cmp);
    if let (Some(least), Some(most)) = (rates.first(), rates.last()) {
        row.insert("ops_ratio_range".into(), format!("{least:.2}..{most:.2}").into());
    }
    row.insert("ops_ratio".into(), rounded(median(rates)));
    row.insert("cpu_ratio".into(), rounded(median(costs)));
}

/// Adds ratios: Redis' processor time over Claret's; for etcd, the figures that clients see,
/// Claret's over etcd's.
fn add_ratios(
    args: &OpsArgs,
    cell: Cell,
    label: &str,
    other: Figures,
    claret: Figures,
    report: &mut Report,
) {
    let command = &args.commands[cell.command];
    let etcd = args.vs == Some(OpsPeer::Etcd);
    let name = if etcd { format!("{command}_claret_over_etcd") } else { command.clone() };
    let entry = report.ratios.entry(name).or_insert(Map::new().into());
    let Value::Object(ratios) = entry else { return };
    let clients = args.clients[cell.clients];
    if etcd {
        let mut put = |field: &str, of: fn(&Figures) -> f64| {
            let label = format!("clients_{clients}_{label}_{field}");
            ratios.insert(label, ratio(Some(of(&claret)), Some(of(&other))));
        };
        put("ops_per_s", |figures| figures.ops_per_s);
        put("p50_us", |figures| figures.p50_us);
        put("p99_us", |figures| figures.p99_us);
        return;
    }
    let mut label = format!("pipeline_{}_{label}", args.pipeline[cell.pipeline]);
    if args.clients.len() > 1 {
        label = format!("{label}_clients_{clients}");
    }
    let cpu = |figures: Figures| figures.cpu_us_per_op;
    ratios.insert(label, ratio(Some(cpu(other)), Some(cpu(claret))));
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
    fn runs_are_compared_with_the_ones_beside_them() {
        let sample = |ops: u64, server_cpu_us: u64| Sample {
            ops,
            elapsed_s: 1.0,
            server_cpu_us,
            ..Sample::default()
        };
        let theirs = [sample(100, 100), sample(10, 10), sample(50, 50)];
        let ours = [sample(200, 100), sample(20, 20), sample(25, 100)];
        let mut row = Map::new();
        compare_runs(&ours, &theirs, &mut row);
        assert_eq!((&row["ops_ratio"], &row["cpu_ratio"]), (&2.into(), &1.into()));
        assert_eq!(row["ops_ratio_range"], "0.50..2.00");
    }
}
