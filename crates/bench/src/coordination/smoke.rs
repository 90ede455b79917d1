//! `claret bench smoke`: single operations, pipelines of them, and a lock with and without
//! contention, on services that run at the same time and are measured in turns.

use super::args::{ETCD_MUTEX, SmokeArgs, backends};
use super::generator::{Arrivals, Load, Outcome};
use super::grants;
use super::locks::{self, Services, base, stretch};
use super::operations::{Timed, quantile};
use crate::coordination::grants::sections;
use crate::coordination::points::plan;
use crate::coordination::points::plan::{Measure, Point};
use crate::coordination::results::forecast;
use crate::coordination::results::forecast::Base;
use crate::coordination::services::backend::{Attach, Backend, Protocol};
use crate::coordination::services::sessions::Sessions;
use crate::coordination::services::tasks::{CREATE, DELETE, OPERATIONS, Task};
use crate::report::{Report, fields, ratio, rounded};
use model::operation::Operation;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Columns of the printed table.
pub const COLUMNS: [&str; 9] = [
    "servers",
    "backend",
    "operation",
    "mode",
    "mean_ms",
    "p50_ms",
    "p99_ms",
    "per_s",
    "predicted_ms",
];

/// Recipe of client libraries, which all services have.
const RECIPE: &str = "sync-queue-relist";

/// Pipelines of sets: of one node at the top of the tree, and of several in turn, which may be on
/// different shards.
const SETS: [(&str, usize); 2] = [("set-pipelined", 1), ("set-names-pipelined", 8)];

/// Operations that are measured in turns, by their place in [`OPERATIONS`], on one service.
struct Turns {
    sessions: Sessions,
    base: String,
    data: usize,
    /// Number of top-level nodes created so far.
    tops: usize,
}

impl Turns {
    fn new(mut sessions: Sessions, base: String, data: usize) -> io::Result<Self> {
        sessions.carry_out(&Task::Make { node: base.clone() })?;
        Ok(Self { sessions, base, data, tops: 0 })
    }

    /// Sets data `count` times, of several top-level nodes in turn.
    fn set(
        &mut self,
        names: usize,
        count: usize,
        outstanding: usize,
    ) -> io::Result<Vec<(usize, Timed)>> {
        self.tops += 1;
        let base = format!("{}-{}", self.base, self.tops);
        let data = self.data;
        let task = Task::Names { base, names, count, outstanding, data };
        self.sessions.carry_out(&task)?.timed()
    }

    /// Carries out an operation `count` times, at most `outstanding` at a time; deletes of
    /// ephemeral nodes include the notifications of them.
    fn take(
        &mut self,
        operation: usize,
        count: usize,
        outstanding: usize,
    ) -> io::Result<Vec<(usize, Timed)>> {
        let (base, data) = (self.base.clone(), self.data);
        let task = Task::Operation { base, operation, count, outstanding, data };
        self.sessions.carry_out(&task)?.timed()
    }
}

/// Modes with their number of concurrent operations.
fn modes() -> [(&'static str, usize); 2] {
    [("sync", 1), ("async", usize::MAX)]
}

/// Point of a smoke test.
fn point(args: &SmokeArgs, backend: Backend, servers: u16) -> Point {
    Point {
        experiment: "smoke".into(),
        measure: Measure::Smoke,
        backend,
        servers,
        stretched: args.server_rtt > 0.0 && servers > 1,
        attach: args.attach,
        algorithm: "none".into(),
        client_rtt_ms: args.client_rtt,
        distances_ms: Vec::new(),
        server_rtt_ms: args.server_rtt,
        service_ms: 0.0,
        interarrival_ms: 0.0,
        poll_ms: 10.0,
        arrivals: Arrivals::Poisson,
        closed: false,
        think_ms: 0.0,
        clients: 1,
        requests: args.requests,
        seeds: args.rounds,
        seed: 1,
        scale: 1.0,
        ephemeral: true,
    }
}

/// The model's prediction; null for reads on etcd over long links, where the leader asks other
/// servers.
fn predicted(point: &Point, base: &Base, mode: &str, operation: Operation) -> Value {
    let asks_others = point.backend == Backend::Etcd && point.server_rtt_ms > 0.0;
    if asks_others && operation == Operation::Read {
        return Value::Null;
    }
    let expected = match mode {
        "sync" => forecast::operation_ms(point, base, operation),
        _ => forecast::pipelined_ms(point, base, operation),
    };
    expected.map_or(Value::Null, rounded)
}

/// A row of an operation.
fn row(point: &Point, mode: &str, operation: &str, timed: &Timed) -> Map<String, Value> {
    let scale = point.scale;
    fields([
        ("servers", point.servers.into()),
        ("backend", point.backend.name().into()),
        ("operation", operation.into()),
        ("mode", mode.into()),
        ("mean_ms", rounded(timed.per_operation_ms() * scale)),
        ("p50_ms", rounded(timed.quantile_ms(0.5) * scale)),
        ("p99_ms", rounded(timed.quantile_ms(0.99) * scale)),
        ("per_s", rounded(1e3 / timed.per_operation_ms())),
    ])
}

/// Measures the operations of the smoke test at a point of a larger plan.
///
/// # Errors
/// The service fails.
pub fn at(
    services: &mut Services<'_>,
    point: &Point,
    base: &Base,
) -> io::Result<Vec<Map<String, Value>>> {
    let node = services.name("smoke");
    let ensemble = stretch(services, point)?;
    let sessions = Sessions::begin(ensemble, &ensemble.entrances(1, point.attach))?;
    let mut turns = Turns::new(sessions, node, 25)?;
    let mut rows = Vec::new();
    for (mode, outstanding) in modes() {
        let mut all = vec![Timed::default(); OPERATIONS.len()];
        for _ in 0..point.seeds {
            for operation in 0..OPERATIONS.len() - 1 {
                for (which, timed) in turns.take(operation, point.requests as usize, outstanding)? {
                    all[which].add(timed);
                }
            }
        }
        for ((name, operation), timed) in OPERATIONS.iter().zip(&all) {
            let mut row = row(point, mode, name, timed);
            row.insert("predicted_ms".into(), predicted(point, base, mode, *operation));
            rows.push(row);
        }
    }
    turns.sessions.close()?;
    Ok(rows)
}

/// One service of a comparison.
struct Contestant {
    point: Point,
    base: Base,
    turns: Turns,
    /// Times by mode and operation.
    timed: BTreeMap<(usize, usize), Timed>,
    /// Times of creates and deletes, by number of concurrent operations.
    pipelined: BTreeMap<(u32, &'static str), Timed>,
    /// Outcomes by algorithm and number of clients.
    locks: BTreeMap<(&'static str, u32), Vec<Outcome>>,
    /// Times of sections by number of clients: acquisition, action and release in one request.
    sections: BTreeMap<u32, Timed>,
}

impl Contestant {
    fn start(services: &mut Services<'_>, args: &SmokeArgs, point: Point) -> io::Result<Self> {
        warm_up(services, &point, args.warmup, args.data)?;
        let base = base(services, &point)?;
        let node = services.name("smoke");
        let ensemble = stretch(services, &point)?;
        let sessions = Sessions::begin(ensemble, &ensemble.entrances(1, point.attach))?;
        let turns = Turns::new(sessions, node, args.data as usize)?;
        let (timed, pipelined) = (BTreeMap::new(), BTreeMap::new());
        let (locks, sections) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { point, base, turns, timed, pipelined, locks, sections })
    }

    fn add_pipelined(&mut self, row: (u32, &'static str), timed: Vec<(usize, Timed)>) {
        let sum = self.pipelined.entry(row).or_default();
        timed.into_iter().for_each(|(_, timed)| sum.add(timed));
    }

    fn rows(&self) -> Vec<Map<String, Value>> {
        let (point, mut rows) = (&self.point, Vec::new());
        for ((mode, operation), timed) in &self.timed {
            let (mode, _) = modes()[*mode];
            let (name, operation) = OPERATIONS[*operation];
            let mut row = row(point, mode, name, timed);
            let predicted = predicted(point, &self.base, mode, operation);
            row.insert("predicted_ms".into(), predicted);
            rows.push(row);
        }
        for ((outstanding, name), timed) in &self.pipelined {
            rows.push(row(point, &format!("{outstanding} at a time"), name, timed));
        }
        for ((way, clients), outcomes) in &self.locks {
            rows.push(lock_row(point, way, *clients, outcomes));
        }
        for (clients, timed) in &self.sections {
            rows.push(row(point, &format!("{clients} clients"), sections::NAME, timed));
        }
        for row in &mut rows {
            row.insert("client_rtt_ms".into(), rounded(point.client_rtt_ms));
            row.insert("server_rtt_ms".into(), rounded(point.server_rtt_ms));
            row.insert("base_read_ms".into(), rounded(self.base.read_ms));
            row.insert("base_write_ms".into(), rounded(self.base.write_ms));
        }
        rows
    }
}

/// Row of a lock: without contention the time of acquisition plus release, with contention the
/// hand-over time.
fn lock_row(point: &Point, way: &str, clients: u32, outcomes: &[Outcome]) -> Map<String, Value> {
    let all = |of: fn(&Outcome) -> &Vec<u64>| -> Vec<u64> {
        outcomes.iter().flat_map(|outcome| of(outcome).iter().copied()).collect()
    };
    let (name, times) = match clients {
        1 => ("lock-unlock", all(|outcome| &outcome.cycle_ns)),
        _ => ("hand-off", all(|outcome| &outcome.hand_off_ns)),
    };
    let elapsed_ns = outcomes.iter().map(|outcome| outcome.elapsed_ns).sum();
    let timed = Timed { elapsed_ns, latency_ns: times };
    let grants: usize = outcomes.iter().map(|outcome| outcome.served_ns().count()).sum();
    let mean_ms = elapsed_ns as f64 / 1e6 / grants.max(1) as f64;
    let name = if way == RECIPE { name.to_owned() } else { format!("{way}-{name}") };
    let mut row = row(point, &format!("{clients} clients"), &name, &timed);
    row.insert("mean_ms".into(), rounded(mean_ms));
    row.insert("per_s".into(), rounded(1e3 / mean_ms));
    row.insert("p50_ms".into(), rounded(quantile(&timed.latency_ns, 0.5) / 1e6));
    row
}

/// Starts the service of a point, if it is not running yet, and carries out each operation `count`
/// times, since programs get faster while they run.
///
/// # Errors
/// The service fails.
pub fn warm_up(
    services: &mut Services<'_>,
    point: &Point,
    count: u32,
    data: u32,
) -> io::Result<()> {
    let node = services.name("warm-up");
    let ensemble = services.ensemble(point.backend, point.servers, point.stretched)?;
    if std::mem::replace(&mut ensemble.is_warm, true) {
        return Ok(());
    }
    ensemble.stretch([0; crate::coordination::services::backend::DISTANCES], 0)?;
    let sessions = Sessions::begin(ensemble, &ensemble.entrances(1, Attach::Leader))?;
    let mut turns = Turns::new(sessions, node, data as usize)?;
    for operation in 0..OPERATIONS.len() - 1 {
        turns.take(operation, count as usize, 64)?;
    }
    turns.sessions.close().map(|_| ())
}

/// Lock algorithms of a service: the recipe of client libraries, and its own locks.
fn ways(backend: Backend) -> impl Iterator<Item = &'static str> {
    let ways = [RECIPE, grants::NAME, ETCD_MUTEX].into_iter();
    ways.filter(move |way| plan::has(backend, way))
}

/// Number of acquisitions.
fn acquisitions(point: &Point, clients: u32) -> usize {
    (point.requests as usize / 4).max(clients as usize)
}

fn lock_run(
    services: &mut Services<'_>,
    point: &Point,
    way: &str,
    clients: u32,
) -> io::Result<Outcome> {
    let node = services.name("lock");
    let ensemble = stretch(services, point)?;
    let load = Load {
        requests: acquisitions(point, clients),
        clients: clients as usize,
        arrivals: Arrivals::Poisson,
        interarrival_ns: 0.0,
        closed_think_ns: Some(0.0),
        service_ns: 0.0,
        limit_ns: 60_000_000_000,
        seed: 1,
    };
    let protocol = if way == grants::NAME { Protocol::Redis } else { Protocol::Nodes };
    let at = |session| ensemble.entrance(protocol, session, point.attach, 0);
    let entrances: Vec<_> = (0..clients as usize).map(at).collect();
    let outcome = if way == grants::NAME {
        locks::grants(ensemble, &entrances, &node, &load)?
    } else {
        let (way, poll_ns) = (way.to_owned(), 10_000_000);
        let task = Task::Lock { way, node, poll_ns, ephemeral: true, load };
        locks::on_nodes(ensemble, &entrances, &task)?
    };
    if let Some(wrong) = &outcome.wrong {
        let backend = point.backend.name();
        return Err(io::Error::other(format!("{backend}: mutual exclusion is broken: {wrong}")));
    }
    Ok(outcome)
}

fn section_run(services: &mut Services<'_>, point: &Point, clients: u32) -> io::Result<Timed> {
    let node = services.name("section");
    let ensemble = stretch(services, point)?;
    let at = |session| ensemble.entrance(Protocol::Redis, session, point.attach, 0);
    let entrances: Vec<_> = (0..clients as usize).map(at).collect();
    sections::run(&entrances, &node, acquisitions(point, clients))
}

/// Runs the bench.
///
/// # Errors
/// A service cannot be started or fails, or Ctrl-C was pressed.
pub fn run(args: &SmokeArgs, program: &Path) -> io::Result<Report> {
    let backends = backends(&args.vs, program)?;
    let mut report = Report::default();
    let steps = args.servers.len() as u64 * u64::from(args.rounds);
    let bar = crate::sweep::progress(steps as usize);
    for servers in &args.servers {
        let mut services = Services::new(program, &args.dir, 60_000_000_000).over(args.shards);
        bar.set_message(format!("starting {servers} servers"));
        let mut contestants = Vec::new();
        for backend in &backends {
            let point = point(args, *backend, *servers);
            contestants.push(Contestant::start(&mut services, args, point)?);
        }
        for round in 0..args.rounds {
            bar.set_message(format!("{servers} servers, round {}", round + 1));
            take_turns(args, &mut services, &mut contestants)?;
            bar.inc(1);
        }
        for contestant in contestants {
            report.rows.extend(contestant.rows());
            contestant.turns.sessions.close()?;
        }
    }
    bar.finish_and_clear();
    report.ratios = ratios(&report.rows);
    Ok(report)
}

fn take_turns(
    args: &SmokeArgs,
    services: &mut Services<'_>,
    contestants: &mut [Contestant],
) -> io::Result<()> {
    let count = args.requests as usize;
    for (mode, (_, outstanding)) in modes().into_iter().enumerate() {
        for operation in 0..OPERATIONS.len() - 1 {
            for contestant in &mut *contestants {
                for (which, timed) in contestant.turns.take(operation, count, outstanding)? {
                    contestant.timed.entry((mode, which)).or_default().add(timed);
                }
            }
        }
    }
    for &outstanding in &args.outstanding {
        let count = count.max(4 * outstanding as usize);
        for (operation, name) in [(CREATE, "create-pipelined"), (DELETE, "delete-pipelined")] {
            for contestant in &mut *contestants {
                let timed = contestant.turns.take(operation, count, outstanding as usize)?;
                contestant.add_pipelined((outstanding, name), timed);
            }
        }
        for (name, names) in SETS {
            for contestant in &mut *contestants {
                let timed = contestant.turns.set(names, count, outstanding as usize)?;
                contestant.add_pipelined((outstanding, name), timed);
            }
        }
    }
    for &clients in [1].iter().chain(&args.waiters) {
        for contestant in &mut *contestants {
            for way in ways(contestant.point.backend) {
                let outcome = lock_run(services, &contestant.point, way, clients)?;
                contestant.locks.entry((way, clients)).or_default().push(outcome);
            }
            if contestant.point.backend == Backend::Claret {
                let timed = section_run(services, &contestant.point, clients)?;
                contestant.sections.entry(clients).or_default().add(timed);
            }
        }
    }
    Ok(())
}

/// Ratios of the other services' times to Claret's, per measurement; and, per service, the cost of
/// waiting for each answer.
fn ratios(rows: &[Map<String, Value>]) -> Map<String, Value> {
    let mut ratios = Map::new();
    let text = |row: &Map<String, Value>, field: &str| {
        row.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mean = |servers: &Value, backend: &str, operation: &str, mode: &str| {
        let found = rows.iter().find(|row| {
            row.get("servers") == Some(servers)
                && text(row, "backend") == backend
                && text(row, "operation") == operation
                && text(row, "mode") == mode
        });
        found.and_then(|row| row.get("mean_ms")?.as_f64())
    };
    for row in rows {
        let (operation, mode, backend) =
            (text(row, "operation"), text(row, "mode"), text(row, "backend"));
        let servers = row.get("servers").cloned().unwrap_or(Value::Null);
        let at = |backend: &str, mode: &str| mean(&servers, backend, &operation, mode);
        // A service's own lock is compared by its use, not as a recipe.
        let common = operation.trim_start_matches(&format!("{ETCD_MUTEX}-")).to_owned();
        if backend != "claret" {
            let own = format!("{}-{common}", grants::NAME);
            let section = sections::NAME.to_owned();
            let section = ["lock-unlock", "hand-off"].contains(&&*common).then_some(&section);
            let ways = [("claret", &common), (grants::NAME, &own)];
            for (name, over) in ways.into_iter().chain(section.map(|own| (sections::NAME, own))) {
                let over = mean(&servers, "claret", over, &mode);
                if over.is_some() {
                    let way = if common == operation { "" } else { "_mutex" };
                    let name = format!("{backend}{way}_over_{name} {servers} {common} {mode}");
                    ratios.insert(name, ratio(at(&backend, &mode), over));
                }
            }
        }
        if mode == "async" && matches!(operation.as_str(), "create-permanent" | "get") {
            let name = format!("sync_over_async {servers} {operation} {backend}");
            ratios.insert(name, ratio(at(&backend, "sync"), at(&backend, "async")));
        }
    }
    ratios
}
