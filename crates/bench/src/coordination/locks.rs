//! `claret bench locks`: measures the points of a plan, one after the other, and sets each beside
//! the model's prediction.

use super::args::{ETCD_MUTEX, LocksArgs, recipe};
use super::generator::{Load, Outcome, run as generate};
use super::grants::{self, Grants};
use super::operations::Timed;
use super::{echoes, failure, plot, smoke};
use crate::coordination::grants::keepers;
use crate::coordination::grants::keepers::Keepers;
use crate::coordination::points::experiments::Experiment;
use crate::coordination::points::plan;
use crate::coordination::points::plan::{Measure, Point, points};
use crate::coordination::points::resume;
use crate::coordination::recipes::adaptive::Adaptive;
use crate::coordination::recipes::barrier;
use crate::coordination::results::figures::{Watch, of_lock};
use crate::coordination::results::forecast;
use crate::coordination::results::forecast::Base;
use crate::coordination::results::{agreement, regions};
use crate::coordination::services::backend::{
    Attach, Backend, DISTANCES, Ensemble, Host, Protocol,
};
use crate::coordination::services::client::Client;
use crate::coordination::services::sessions::Sessions;
use crate::coordination::services::tasks::Task;
use crate::report::{Report, fields, rounded};
use crate::servers::control::Control;
use model::Algorithm;
use model::operation::Operation;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

/// Columns of the printed table.
pub const COLUMNS: [&str; 22] = [
    "experiment",
    "backend",
    "servers",
    "algorithm",
    "measure",
    "client_rtt_ms",
    "server_rtt_ms",
    "service_ms",
    "interarrival_ms",
    "poll_ms",
    "clients",
    "state",
    "load",
    "mean_ms",
    "predicted_ms",
    "error",
    "p50_ms",
    "p99_ms",
    "max_ms",
    "jain",
    "writes_per_acquisition",
    "unfinished",
];

/// Operations over the Redis protocol whose mean is the service's base time.
const BASE_OPERATIONS: usize = 40;

/// Running services, and their use so far.
pub struct Services<'a> {
    host: Host<'a>,
    started: BTreeMap<(Backend, u16, bool), Ensemble>,
    /// Counter that makes names of nodes unique.
    names: u64,
    /// Time limit of a run after its last request has arrived, in nanoseconds.
    limit_ns: u64,
}

impl<'a> Services<'a> {
    /// Creates an empty set of services.
    pub fn new(program: &'a Path, dir: &'a Path, limit_ns: u64) -> Self {
        let host = Host { program, dir, shards: 1 };
        Self { host, started: BTreeMap::new(), names: 0, limit_ns }
    }

    /// Sets the number of Claret's shards; its tree is spread over all of them.
    pub fn over(mut self, shards: u16) -> Self {
        self.host.shards = shards;
        self
    }

    /// Path of a node that does not exist yet.
    pub fn name(&mut self, what: &str) -> String {
        self.names += 1;
        format!("/{what}-{}", self.names)
    }

    /// Returns the service, and starts it if it is not running yet.
    ///
    /// # Errors
    /// The service does not start.
    pub fn ensemble(
        &mut self,
        backend: Backend,
        servers: u16,
        stretched: bool,
    ) -> io::Result<&mut Ensemble> {
        let key = (backend, servers, stretched);
        if !self.started.contains_key(&key) {
            let count = usize::from(servers);
            let started = Ensemble::start(backend, count, stretched, self.host)?;
            self.started.insert(key, started);
        }
        Ok(self.started.get_mut(&key).expect("it was started"))
    }

    /// Starts a separate service for exclusive use.
    ///
    /// # Errors
    /// The service does not start.
    pub fn another(&self, backend: Backend, servers: u16) -> io::Result<Ensemble> {
        Ensemble::start(backend, usize::from(servers), false, self.host)
    }

    /// Stops the services that none of these points needs.
    fn keep_for(&mut self, points: &[&Point]) {
        self.started.retain(|(backend, servers, stretched), _| {
            let same = |point: &&Point| {
                (point.backend, point.servers, point.stretched) == (*backend, *servers, *stretched)
            };
            points.iter().any(same)
        });
    }
}

/// Converts the experiment's milliseconds to nanoseconds of the real run.
fn real_ns(point: &Point, ms: f64) -> u64 {
    (ms / point.scale * 1e6) as u64
}

/// Round trips of clients by distance. If `through`, clients connect through a line even without a
/// delay.
fn round_trips(point: &Point, through: bool) -> [u64; DISTANCES] {
    let mut all = [real_ns(point, point.client_rtt_ms); DISTANCES];
    for (own, ms) in all.iter_mut().zip(&point.distances_ms) {
        *own = real_ns(point, *ms);
    }
    if through { all.map(|ns| ns.min(1)) } else { all }
}

/// Measures the base times of a point's service, over the relays that the point uses.
///
/// # Errors
/// The service fails.
pub fn base(services: &mut Services<'_>, point: &Point) -> io::Result<Base> {
    let node = services.name("base");
    let ensemble = services.ensemble(point.backend, point.servers, point.stretched)?;
    ensemble.stretch(round_trips(point, true), 0)?;
    if protocol_of(recipe(&point.algorithm)) == Protocol::Redis {
        return base_of_redis(ensemble, &node);
    }
    let mut sessions = Sessions::begin(ensemble, &ensemble.entrances(1, Attach::Leader))?;
    let pipelined = point.measure != Measure::Lock;
    let timed = sessions.carry_out(&Task::Base { node, pipelined })?.timed()?;
    sessions.close()?;
    let of = |which: usize| timed.iter().find(|(what, _)| *what == which).map(|(_, timed)| timed);
    let mean_ms = |which| of(which).map_or(f64::NAN, |timed| timed.mean_ms());
    let per_s = |which| of(which).map_or(f64::INFINITY, |timed| 1e3 / timed.per_operation_ms());
    Ok(Base {
        read_ms: mean_ms(1),
        write_ms: mean_ms(0).max(mean_ms(1)),
        reads_per_s: per_s(3),
        writes_per_s: per_s(2),
    })
}

/// Measures the base times over the Redis protocol, by commands that have nothing to do with locks.
fn base_of_redis(ensemble: &Ensemble, key: &str) -> io::Result<Base> {
    let mut control = Control::connect(ensemble.entrance(Protocol::Redis, 0, Attach::Leader, 0))?;
    let mut mean_ms = |words: &[&str]| {
        let begun = Instant::now();
        for _ in 0..BASE_OPERATIONS {
            control.call(words)?;
        }
        Ok::<f64, io::Error>(begun.elapsed().as_secs_f64() * 1e3 / BASE_OPERATIONS as f64)
    };
    let write_ms = mean_ms(&["SET", key, "x"])?;
    let read_ms = mean_ms(&["GET", key])?;
    Ok(Base {
        read_ms,
        write_ms: write_ms.max(read_ms),
        reads_per_s: f64::INFINITY,
        writes_per_s: f64::INFINITY,
    })
}

/// Sets the delays of a point's links.
///
/// # Errors
/// The service was started without lines.
pub fn stretch<'s>(services: &'s mut Services<'_>, point: &Point) -> io::Result<&'s mut Ensemble> {
    let ensemble = services.ensemble(point.backend, point.servers, point.stretched)?;
    ensemble.stretch(round_trips(point, false), real_ns(point, point.server_rtt_ms))?;
    Ok(ensemble)
}

fn invalid(error: model::Invalid) -> io::Error {
    io::Error::other(error.to_string())
}

/// Measures a point and returns its rows.
fn measure(
    services: &mut Services<'_>,
    point: &Point,
    warmup: u32,
) -> io::Result<Vec<Map<String, Value>>> {
    if point.measure.is_network() {
        return Ok(whole(point, echoes::measure(point)?));
    }
    smoke::warm_up(services, point, warmup, 0)?;
    let base = base(services, point)?;
    let mut rows = match point.measure {
        Measure::Lock => vec![lock(services, point, &base)?],
        Measure::CreateSync | Measure::CreateAsync => vec![creates(services, point, &base)?],
        Measure::Smoke => smoke::at(services, point, &base)?,
        Measure::Failure => failures(services, point, &base)?,
        _ => vec![barriers(services, point, &base)?],
    };
    for row in &mut rows {
        row.insert("base_read_ms".into(), rounded(base.read_ms));
        row.insert("base_write_ms".into(), rounded(base.write_ms));
    }
    Ok(whole(point, rows))
}

/// Adds the parameters of the point to the front of its rows.
fn whole(point: &Point, rows: Vec<Map<String, Value>>) -> Vec<Map<String, Value>> {
    let whole = |mut row: Map<String, Value>| {
        let mut all = point.fields();
        all.append(&mut row);
        all
    };
    rows.into_iter().map(whole).collect()
}

fn failures(
    services: &mut Services<'_>,
    point: &Point,
    base: &Base,
) -> io::Result<Vec<Map<String, Value>>> {
    let known =
        |algorithm: &Algorithm| algorithm.needs_nodes_only() || *algorithm == Algorithm::Grant;
    let algorithm = recipe(&point.algorithm).filter(known).ok_or_else(|| {
        io::Error::other("this measurement needs a single algorithm, not an adaptive choice")
    })?;
    let mut names: Vec<String> = (0..4).map(|_| services.name("failure")).collect();
    let mut name = || names.pop().unwrap_or_default();
    let ensemble = stretch(services, point)?;
    let mut rows = if algorithm == Algorithm::Grant {
        let server = ensemble.entrance(Protocol::Redis, 0, point.attach, 0);
        failure::grants::measure(server, base, name)?
    } else {
        failure::measure(ensemble, point, algorithm, base, &mut name)?
    };
    if point.servers > 1 {
        let alone = services.another(point.backend, point.servers)?;
        rows.push(failure::leader::measure(alone, point, algorithm)?);
    }
    Ok(rows)
}

fn barriers(
    services: &mut Services<'_>,
    point: &Point,
    base: &Base,
) -> io::Result<Map<String, Value>> {
    if point.algorithm == barrier::NAME {
        let key = services.name("barrier");
        let ensemble = stretch(services, point)?;
        let at = |session| ensemble.entrance(Protocol::Redis, session, point.attach, 0);
        let entrances: Vec<_> = (0..point.clients as usize).map(at).collect();
        let timing = forecast::timing(point, base).map_err(invalid)?;
        return barrier::measure_own(&entrances, point, &timing, &key);
    }
    let names: Vec<String> = (0..point.requests).map(|_| services.name("barrier")).collect();
    let ensemble = stretch(services, point)?;
    let entrances = ensemble.entrances(point.clients as usize, point.attach);
    let mut client = Client::connect(&entrances)?;
    let timing = forecast::timing(point, base).map_err(invalid)?;
    let mut names = names.into_iter();
    let row = barrier::measure(&mut client, point, &timing, || names.next().unwrap_or_default())?;
    client.close()?;
    Ok(row)
}

fn lock(services: &mut Services<'_>, point: &Point, base: &Base) -> io::Result<Map<String, Value>> {
    let forecast = forecast::of(point, base).map_err(invalid)?;
    let mut chosen = BTreeMap::new();
    let mut outcomes = Vec::new();
    let watch = Watch::begin(services.ensemble(point.backend, point.servers, point.stretched)?);
    for seed in 0..point.seeds {
        let outcome = one_run(services, point, point.seed + u64::from(seed), &mut chosen)?;
        if let Some(wrong) = &outcome.wrong {
            let what = format!("{}: mutual exclusion is broken: {wrong}", point.says());
            return Err(io::Error::other(what));
        }
        outcomes.push(outcome);
    }
    let mut row = of_lock(point, &outcomes, forecast.as_ref());
    if !chosen.is_empty() {
        row.insert("chosen".into(), serde_json::to_value(&chosen).unwrap_or_default());
    }
    let ensemble = services.ensemble(point.backend, point.servers, point.stretched)?;
    row.insert("foreign_cpus".into(), rounded(watch.foreign_cpus(ensemble)));
    Ok(row)
}

/// Protocol that an algorithm needs.
fn protocol_of(algorithm: Option<Algorithm>) -> Protocol {
    match algorithm {
        Some(Algorithm::Grant | Algorithm::Successor | Algorithm::Retained | Algorithm::Cohort) => {
            Protocol::Redis
        }
        _ => Protocol::Nodes,
    }
}

/// Carries out one run of a lock's point. The choices of a lock that changes its recipe are added
/// to `chosen`: the number of grants by each recipe, and the number of changes.
fn one_run(
    services: &mut Services<'_>,
    point: &Point,
    seed: u64,
    chosen: &mut BTreeMap<&'static str, u64>,
) -> io::Result<Outcome> {
    let (node, limit_ns) = (services.name("lock"), services.limit_ns);
    let ensemble = stretch(services, point)?;
    let distances = point.distances_ms.len().clamp(1, DISTANCES);
    let clients = point.clients as usize;
    let algorithm = recipe(&point.algorithm);
    let near = point.algorithm == grants::NEAR;
    // On Claret it chooses among the own locks, elsewhere among recipes.
    let by_itself = point.keeps_while_it_pays();
    let protocol = if near || by_itself { Protocol::Redis } else { protocol_of(algorithm) };
    let places = keepers::processes(&point.algorithm, clients);
    let entrances: Vec<_> = (0..places)
        .map(|session| ensemble.entrance(protocol, session, point.attach, session % distances))
        .collect();
    let poll_ns = real_ns(point, point.poll_ms);
    let load = Load {
        requests: point.requests as usize,
        clients,
        arrivals: point.arrivals,
        interarrival_ns: point.interarrival_ms / point.scale * 1e6,
        closed_think_ns: point.closed.then_some(point.think_ms / point.scale * 1e6),
        service_ns: point.service_ms / point.scale * 1e6,
        limit_ns,
        seed,
    };
    if algorithm == Some(Algorithm::Grant) {
        return grants(ensemble, &entrances, &node, &load);
    }
    if near || algorithm == Some(Algorithm::Successor) {
        let locker = Grants::connect(&entrances, &node, load.closed_think_ns.is_none())?;
        return granted(ensemble, if near { locker.near() } else { locker.named() }, &load);
    }
    if protocol == Protocol::Redis {
        let locker = processes(&entrances, &node)?;
        let (locker, chosen) =
            if by_itself { (locker.adaptive(), Some(chosen)) } else { (locker, None) };
        return kept(ensemble, locker, &load, chosen);
    }
    if algorithm.is_none() && point.algorithm != ETCD_MUTEX {
        let client = Client::connect(&entrances)?;
        let mut locker = Adaptive::new(client, &node, poll_ns, point.ephemeral)?;
        let outcome = generate(&mut locker, &load)?;
        let (changes, used) = locker.history();
        *chosen.entry("changes").or_default() += changes;
        for (algorithm, times) in used {
            *chosen.entry(algorithm.name()).or_default() += u64::from(*times);
        }
        locker.close()?;
        return Ok(outcome);
    }
    let (way, ephemeral) = (point.algorithm.clone(), point.ephemeral);
    let task = Task::Lock { way, node, poll_ns, ephemeral, load };
    on_nodes(ensemble, &entrances, &task)
}

/// Carries out one run on nodes, with sessions of its own.
///
/// # Errors
/// The service fails.
pub fn on_nodes(
    ensemble: &mut Ensemble,
    entrances: &[SocketAddr],
    task: &Task,
) -> io::Result<Outcome> {
    let mut sessions = Sessions::begin(ensemble, entrances)?;
    let outcome = sessions.carry_out(task)?.outcome()?;
    ensemble.elsewhere_us += sessions.close()?;
    Ok(outcome)
}

/// Carries out one run on the service's own lock, by commands of the Redis protocol, and counts the
/// log entries that the service proposes meanwhile.
///
/// # Errors
/// The service fails.
pub fn grants(
    ensemble: &Ensemble,
    entrances: &[SocketAddr],
    key: &str,
    load: &Load,
) -> io::Result<Outcome> {
    let locker = Grants::connect(entrances, key, load.closed_think_ns.is_none())?;
    granted(ensemble, locker, load)
}

/// Runs a load on a locker that uses the server's own lock.
fn granted(ensemble: &Ensemble, mut locker: Grants, load: &Load) -> io::Result<Outcome> {
    let before = ensemble.log_entries()?;
    let mut outcome = generate(&mut locker, load)?;
    outcome.log_entries = ensemble.log_entries()?.zip(before).map(|(now, before)| now - before);
    Ok(outcome)
}

/// Creates processes that keep the lock, one at each of these addresses.
fn processes(entrances: &[SocketAddr], key: &str) -> io::Result<Keepers> {
    // Listening needs a connection in addition to the one that acquired the lock.
    let grants = Grants::connect(entrances, key, true)?.with_tokens(keepers::TOKENS);
    Ok(Keepers::new(grants, entrances.len()))
}

/// Runs a load on processes that keep the lock; adds to `chosen` how the lock was acquired.
fn kept(
    ensemble: &Ensemble,
    mut locker: Keepers,
    load: &Load,
    chosen: Option<&mut BTreeMap<&'static str, u64>>,
) -> io::Result<Outcome> {
    let before = ensemble.log_entries()?;
    let mut outcome = generate(&mut locker, load)?;
    outcome.log_entries = ensemble.log_entries()?.zip(before).map(|(now, before)| now - before);
    if let Some(chosen) = chosen {
        let (asked, kept) = locker.history();
        *chosen.entry(grants::NAME).or_default() += asked;
        *chosen.entry(keepers::RETAINED).or_default() += kept;
    }
    Ok(outcome)
}

fn creates(
    services: &mut Services<'_>,
    point: &Point,
    base: &Base,
) -> io::Result<Map<String, Value>> {
    let node = services.name("creates");
    let ensemble = stretch(services, point)?;
    let sessions = match point.attach {
        Attach::Leader => 1,
        Attach::Any => ensemble.servers(),
    };
    let mut begun = Sessions::begin(ensemble, &ensemble.entrances(sessions, point.attach))?;
    let outstanding = if point.measure == Measure::CreateSync { 1 } else { usize::MAX };
    let count = (point.requests as usize).div_ceil(sessions);
    let task = Task::Creates { node, count, rounds: point.seeds, outstanding };
    let mut timed = Timed::default();
    for (_, some) in begun.carry_out(&task)?.timed()? {
        timed.add(some);
    }
    begun.close()?;
    let predicted = match point.measure {
        Measure::CreateSync => forecast::operation_ms(point, base, Operation::Write),
        _ => forecast::pipelined_ms(point, base, Operation::Write),
    };
    let predicted = predicted.map_err(invalid)?;
    let mean = timed.per_operation_ms() * point.scale;
    Ok(fields([
        ("mean_ms", rounded(mean)),
        ("predicted_ms", rounded(predicted)),
        ("error", rounded(mean / predicted - 1.0)),
        ("p50_ms", rounded(timed.quantile_ms(0.5) * point.scale)),
        ("p99_ms", rounded(timed.quantile_ms(0.99) * point.scale)),
    ]))
}

/// Columns of the printed table with these options.
pub fn columns(args: &LocksArgs) -> &'static [&'static str] {
    match args.experiment[..] {
        _ if args.report.is_some() => &agreement::COLUMNS,
        [Experiment::E15] => &failure::COLUMNS,
        _ => &COLUMNS,
    }
}

/// Runs the bench.
///
/// # Errors
/// A service cannot be started or fails, two requests held a lock at the same time, or Ctrl-C was
/// pressed.
pub fn run(args: &LocksArgs, program: &Path) -> io::Result<Report> {
    if let Some(file) = &args.report {
        if let Some(picture) = &args.plot {
            plot::draw(&Report { rows: resume::read(file)?, ..Report::default() }, picture)?;
        }
        return match agreement::of_file(file) {
            // Rows without a prediction are drawn all the same.
            Err(error) if args.plot.is_some() && error.kind() == ErrorKind::InvalidData => {
                Ok(Report { rows: resume::read(file)?, ..Report::default() })
            }
            agreement => agreement,
        };
    }
    for backend in &args.backend {
        backend.is_installed(program)?;
    }
    let plan = args.experiment.contains(&Experiment::E7);
    if plan && args.experiment.len() > 1 {
        let what = "E7 is the plan of E8 to E11 and measures nothing: use it alone";
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    let points = points(args);
    if points.is_empty() {
        let what = "none of these services has what was asked for: only claret knows locks itself \
            (grant, successor, near, retained, cohort), only etcd has etcd-mutex, and it has none of \
            async-queue-watch, adaptive, adaptive-recipe, E15 and E16";
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    let mut report = Report::default();
    let mut file = resume::Rows::open(args.resume.as_deref())?;
    report.rows.extend(file.of(&points));
    let todo: Vec<&Point> = points.iter().filter(|point| !file.has(point)).collect();
    let expected_s: f64 = todo.iter().map(|point| point.expected_s()).sum();
    let asked = args.algorithm.iter().map(String::as_str);
    for (only, ways) in plan::left_out(asked, &args.backend) {
        report.more.insert(only.into(), ways.into());
    }
    report.more.insert("points".into(), points.len().into());
    report.more.insert("to_measure".into(), todo.len().into());
    report.more.insert("expected_s".into(), rounded(expected_s));
    if args.dry_run || plan {
        report.rows.extend(todo.iter().map(|point| point.fields()));
        if let Some(picture) = &args.plot {
            plot::draw(&report, picture)?;
        }
        return Ok(report);
    }
    let bar = super::progress(expected_s);
    let mut services = Services::new(program, &args.dir, (args.limit * 1e6) as u64);
    for (number, point) in todo.iter().enumerate() {
        services.keep_for(&todo[number..]);
        bar.set_message(format!("{}/{} {}", number + 1, todo.len(), point.says()));
        let rows = measure(&mut services, point, args.warmup)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", point.says())))?;
        file.add(&rows)?;
        report.rows.extend(rows);
        bar.inc(point.expected_s().ceil() as u64);
    }
    bar.finish_and_clear();
    if regions::is_about(&points) {
        report.more.insert("regions".into(), regions::of(&report.rows).into());
    }
    if let Some(picture) = &args.plot {
        plot::draw(&report, picture)?;
    }
    Ok(report)
}
