//! Points to measure: the parameters of the study's experiments, overridden by the command line.

use super::experiments::{Preset, custom};
use crate::coordination::args::{ADAPTIVE_RECIPE, ASYNC_QUEUE_WATCH, ETCD_MUTEX, LocksArgs};
use crate::coordination::generator::Arrivals;
use crate::coordination::grants;
use crate::coordination::grants::keepers;
use crate::coordination::recipes::barrier;
use crate::coordination::services::backend::{Attach, Backend};
use model::Algorithm;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Kind of measurement at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Requests for a lock.
    Lock,
    /// Creates, each after the one before was answered.
    CreateSync,
    /// Creates that are all sent before the first answer.
    CreateAsync,
    /// The smoke test.
    Smoke,
    /// Round trips.
    RoundTrips,
    /// Waiting for several replies.
    Replies,
    /// Behaviour of a lock when a client dies.
    Failure,
    /// Parties that wait for each other.
    Barrier,
}

impl Measure {
    /// Whether the measurement is about lock recipes.
    fn locks(self) -> bool {
        matches!(self, Self::Lock | Self::Failure)
    }

    /// Whether the measurement is about the network alone.
    pub fn is_network(self) -> bool {
        matches!(self, Self::RoundTrips | Self::Replies)
    }
}

/// One point: all parameters of a measurement. Times are milliseconds before the division by the
/// scale.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Experiment that the point belongs to.
    pub experiment: String,
    /// Kind of measurement.
    pub measure: Measure,
    /// Service.
    pub backend: Backend,
    /// Number of servers.
    pub servers: u16,
    /// Whether servers reach each other over a relay; they do if any point of the plan adds to
    /// their round trips.
    pub stretched: bool,
    /// Servers that sessions are connected to.
    pub attach: Attach,
    /// Algorithm of the lock.
    pub algorithm: String,
    /// Round trip that is added between clients and servers.
    pub client_rtt_ms: f64,
    /// Round trips of the three thirds of the clients, instead; empty if all are the same.
    pub distances_ms: Vec<f64>,
    /// Round trip that is added between servers.
    pub server_rtt_ms: f64,
    /// Mean time in the critical section.
    pub service_ms: f64,
    /// Mean time between requests.
    pub interarrival_ms: f64,
    /// Poll interval.
    pub poll_ms: f64,
    /// Distribution of arrivals.
    pub arrivals: Arrivals,
    /// Whether clients run in a closed loop instead.
    pub closed: bool,
    /// Mean pause of a client in the closed loop.
    pub think_ms: f64,
    /// Clients, each with a session.
    pub clients: u32,
    /// Requests of a run.
    pub requests: u32,
    /// Runs.
    pub seeds: u32,
    /// Seed of the first run.
    pub seed: u64,
    /// Divisor of all times.
    pub scale: f64,
    /// Whether nodes end with their sessions.
    pub ephemeral: bool,
}

impl Point {
    /// Parameters as the first fields of a row.
    ///
    /// # Panics
    /// Never: a point is plain data.
    pub fn fields(&self) -> Map<String, Value> {
        match serde_json::to_value(self).expect("plain data") {
            Value::Object(fields) => fields,
            _ => unreachable!("a struct is an object"),
        }
    }

    /// Whether the lock is Claret's own and its clients keep it while that pays off.
    pub fn keeps_while_it_pays(&self) -> bool {
        self.algorithm == keepers::ADAPTIVE && self.backend == Backend::Claret
    }

    /// Whether a row belongs to this point.
    pub fn has(&self, row: &Map<String, Value>) -> bool {
        self.fields().iter().all(|(name, value)| row.get(name) == Some(value))
    }

    /// Approximate duration of the measurement, in seconds, if no request waits for long.
    pub fn expected_s(&self) -> f64 {
        let requests = f64::from(self.requests);
        let write_ms = self.client_rtt_ms + self.server_rtt_ms;
        let run_ms = match self.measure {
            Measure::Lock if self.closed => requests * (self.service_ms + write_ms),
            Measure::Lock => requests * self.interarrival_ms.max(self.service_ms + write_ms),
            Measure::CreateSync => requests * write_ms,
            Measure::CreateAsync => write_ms,
            Measure::Smoke => requests * 6.0 * write_ms,
            Measure::RoundTrips => requests * self.client_rtt_ms,
            Measure::Replies => 3.0 * requests * self.client_rtt_ms,
            Measure::Failure => 35_000.0 * self.scale,
            Measure::Barrier => 2.0 * requests * write_ms,
        };
        f64::from(self.seeds) * (run_ms / self.scale / 1e3 + 0.5)
    }

    /// Short description of the point.
    pub fn says(&self) -> String {
        let Self { experiment, algorithm, client_rtt_ms, server_rtt_ms, service_ms, .. } = self;
        let backend = self.backend.name();
        format!(
            "{experiment} {backend} {algorithm} C {client_rtt_ms} S {server_rtt_ms} s {service_ms}"
        )
    }
}

fn or<T: Clone>(asked: &[T], preset: Vec<T>) -> Vec<T> {
    if asked.is_empty() { preset } else { asked.to_vec() }
}

/// Requested points, with the services in turns.
pub fn points(args: &LocksArgs) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut presets = Vec::new();
    for experiment in &args.experiment {
        for part in experiment.parts() {
            presets.extend(part.presets().into_iter().map(|preset| (part.name(), preset)));
        }
    }
    if presets.is_empty() {
        presets.push(("custom".to_owned(), custom()));
    }
    for (name, preset) in presets {
        add(args, &name, preset, &mut points);
    }
    let mut unique: Vec<Point> = Vec::new();
    for point in points {
        if !unique.contains(&point) {
            unique.push(point);
        }
    }
    let stretched = unique.iter().any(|point| point.server_rtt_ms > 0.0);
    unique.iter_mut().for_each(|point| point.stretched = stretched && point.servers > 1);
    unique
}

/// Combines each of these points with each of some values.
fn vary<T>(points: Vec<Point>, values: &[T], set: impl Fn(&mut Point, &T)) -> Vec<Point> {
    let with = |point: &Point, value: &T| {
        let mut point = point.clone();
        set(&mut point, value);
        point
    };
    points.iter().flat_map(|point| values.iter().map(move |value| with(point, value))).collect()
}

fn add(args: &LocksArgs, experiment: &str, preset: Preset, points: &mut Vec<Point>) {
    let measure = preset.measure;
    let recipes = preset.algorithms.iter().map(|name| (*name).to_owned()).collect();
    let algorithms = match measure {
        Measure::Barrier => vec!["none".to_owned(), barrier::NAME.to_owned()],
        _ if measure.locks() => or(&args.algorithm, recipes),
        _ => vec!["none".to_owned()],
    };
    let backends = if measure.is_network() { vec![Backend::Network] } else { args.backend.clone() };
    let clients = args.clients.unwrap_or(32);
    // A closed loop has its own number of clients.
    let closed: Vec<Option<u32>> = match or(&args.closed, preset.closed) {
        none if none.is_empty() => vec![None],
        some => some.into_iter().map(Some).collect(),
    };
    let polls = or(&args.poll, preset.poll_ms);
    let mut grid = vec![Point {
        experiment: experiment.to_owned(),
        measure,
        backend: Backend::Network,
        servers: 1,
        stretched: false,
        attach: args.attach,
        algorithm: String::new(),
        client_rtt_ms: 0.0,
        distances_ms: preset.distances_ms,
        server_rtt_ms: 0.0,
        service_ms: 0.0,
        interarrival_ms: 0.0,
        poll_ms: 0.0,
        arrivals: args.arrivals,
        closed: false,
        think_ms: args.think,
        clients,
        requests: args.requests.unwrap_or(preset.requests),
        seeds: args.seeds.unwrap_or(preset.seeds),
        seed: args.seed,
        scale: args.scale,
        ephemeral: !args.persistent,
    }];
    grid = vary(grid, &or(&args.servers, vec![3]), |point, servers| point.servers = *servers);
    let server_ms = or(&args.server_rtt, preset.server_ms);
    grid = vary(grid, &server_ms, |point, ms| point.server_rtt_ms = *ms);
    let client_ms = or(&args.client_rtt, preset.client_ms);
    grid = vary(grid, &client_ms, |point, ms| point.client_rtt_ms = *ms);
    let service_ms = or(&args.service, preset.service_ms);
    grid = vary(grid, &service_ms, |point, ms| point.service_ms = *ms);
    let interarrival_ms = or(&args.interarrival, preset.interarrival_ms);
    grid = vary(grid, &interarrival_ms, |point, ms| point.interarrival_ms = *ms);
    grid = vary(grid, &closed, |point, closed| {
        point.closed = closed.is_some();
        point.clients = closed.unwrap_or(clients);
    });
    grid = vary(grid, &algorithms, |point, name| point.algorithm.clone_from(name));
    grid = vary(grid, &polls, |point, ms| point.poll_ms = *ms);
    grid = vary(grid, &backends, |point, backend| point.backend = *backend);
    grid.retain(|point| point.poll_ms == polls[0] || polls_for(point));
    points.extend(grid.into_iter().filter(is_possible));
}

/// Algorithms that only Claret has.
const CLARETS: [&str; 6] = [
    grants::NAME,
    grants::SUCCESSOR,
    grants::NEAR,
    barrier::NAME,
    keepers::RETAINED,
    keepers::COHORT,
];

/// Whether a service has this algorithm: only Claret has locks of its own, and only etcd has the
/// lock of its library. The adaptive choice among recipes is written for ZooKeeper's protocol. The
/// recipe that relies on the order between notifications and answers does not work on etcd, which
/// does not keep that order.
pub fn has(backend: Backend, algorithm: &str) -> bool {
    match algorithm {
        _ if CLARETS.contains(&algorithm) => backend == Backend::Claret,
        ETCD_MUTEX => backend == Backend::Etcd,
        keepers::ADAPTIVE | ADAPTIVE_RECIPE | ASYNC_QUEUE_WATCH => backend != Backend::Etcd,
        _ => true,
    }
}

/// Whether a point can be measured: dying sessions and barriers need ZooKeeper's protocol.
fn is_possible(point: &Point) -> bool {
    let foreign = matches!(point.measure, Measure::Failure | Measure::Barrier);
    has(point.backend, &point.algorithm) && !(foreign && point.backend == Backend::Etcd)
}

/// Requested algorithms that some of these services lack, by the sentence about them in a report.
pub fn left_out<'a>(
    asked: impl Iterator<Item = &'a str>,
    backends: &[Backend],
) -> BTreeMap<&'static str, Vec<&'a str>> {
    let mut left_out: BTreeMap<&'static str, Vec<&str>> = BTreeMap::new();
    for name in asked.filter(|name| backends.iter().any(|backend| !has(*backend, name))) {
        let only = match name {
            _ if CLARETS.contains(&name) => "on_claret_only",
            ETCD_MUTEX => "on_etcd_only",
            _ => "not_on_etcd",
        };
        left_out.entry(only).or_default().push(name);
    }
    left_out
}

/// Whether the poll interval makes a difference.
fn polls_for(point: &Point) -> bool {
    match Algorithm::named(&point.algorithm) {
        Some(algorithm) => matches!(algorithm, Algorithm::AsyncQueue | Algorithm::AsyncTas),
        None if point.keeps_while_it_pays() => false,
        None => [keepers::ADAPTIVE, ADAPTIVE_RECIPE].contains(&&*point.algorithm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    fn points_of(words: &[&str]) -> Vec<Point> {
        let command = LocksArgs::augment_args(clap::Command::new("locks"));
        let words = ["locks"].iter().chain(words);
        points(&LocksArgs::from_arg_matches(&command.get_matches_from(words)).unwrap())
    }

    #[test]
    fn services_take_turns_at_every_point() {
        let found = points_of(&["--client-rtt", "0,100ms", "--algorithm", "sync-tas,tas-watch"]);
        let said: Vec<_> = found
            .iter()
            .map(|point| (point.client_rtt_ms, point.algorithm.as_str(), point.backend.name()))
            .collect();
        assert_eq!(said.len(), 8);
        assert_eq!(said[0], (0.0, "sync-tas", "claret"));
        assert_eq!(said[1], (0.0, "sync-tas", "zookeeper"));
        assert_eq!(said[2], (0.0, "tas-watch", "claret"));
        assert_eq!(said[7], (100.0, "tas-watch", "zookeeper"));
    }

    #[test]
    fn an_experiment_is_what_the_study_says_and_the_command_line_goes_over_it() {
        let e8 = points_of(&["--experiment", "e8", "--backend", "claret"]);
        assert_eq!(e8.len(), 9 * 7);
        assert!(e8.iter().all(|point| point.client_rtt_ms == 100.0 && point.seeds == 5));
        let one = ["--experiment", "E8", "--backend", "claret", "--service", "1ms"];
        let shorter = points_of(&[&one[..], &["--requests", "10", "--seeds", "1"]].concat());
        assert_eq!(shorter.len(), 7);
        assert!(shorter.iter().all(|point| point.requests == 10 && point.service_ms == 1.0));
        assert_eq!(
            points_of(&["--experiment", "E7", "--backend", "claret"]).len(),
            points_of(&["--experiment", "E12", "--backend", "claret"]).len(),
            "the plan names the measurement"
        );
        let all = points_of(&["--experiment", "E12,E8", "--backend", "claret"]);
        assert_eq!(all.len(), (9 + 11 + 7 + 7) * 7, "E12 has the points of E8 to E11, each once");
    }

    #[test]
    fn a_poll_interval_makes_points_of_those_that_poll_only() {
        let found = points_of(&["--poll", "5ms,10ms", "--backend", "claret"]);
        let polls = |name: &str| found.iter().filter(|point| point.algorithm == name).count();
        assert_eq!((polls("async-tas"), polls("async-queue"), polls("sync-tas")), (2, 2, 1));
    }

    #[test]
    fn the_servers_own_lock_is_measured_where_there_is_one() {
        let e17 = points_of(&["--experiment", "e17"]);
        let by = |algorithm: &str, backend: Backend| {
            e17.iter().filter(|p| (p.algorithm.as_str(), p.backend) == (algorithm, backend)).count()
        };
        // The points of E8, E10 and E11 at which a grant is quick enough.
        let each = 5 + 7 + 4;
        // One client alone, and eight, near and far.
        let kept = 2 * 2;
        assert_eq!(by("grant", Backend::Claret), each + kept);
        for name in ["successor", "near", "retained", "cohort"] {
            assert_eq!(by(name, Backend::Claret), kept, "{name}");
        }
        assert_eq!(by("adaptive", Backend::Claret), each + kept);
        assert_eq!(by("adaptive", Backend::Zookeeper), each + kept);
        assert_eq!((by("grant", Backend::Zookeeper), by("cohort", Backend::Zookeeper)), (0, 0));
        assert_eq!(by("sync-queue-relist", Backend::Zookeeper), each);
        assert_eq!(e17.len(), each * 11 + kept * 7);
        assert!(e17.iter().all(|point| point.experiment == "E17" && point.seeds == 5));
        assert_eq!(points_of(&["--backend", "zookeeper", "--algorithm", "grant"]).len(), 0);
        let e14 = points_of(&["--experiment", "E14", "--algorithm", "grant"]);
        assert_eq!(e14.len(), 5, "it does not poll");
    }

    #[test]
    fn the_servers_own_barrier_is_measured_beside_the_recipe_where_there_is_one() {
        let e16 = points_of(&["--experiment", "e16", "--backend", "claret,zookeeper"]);
        let of = |algorithm: &str, backend: Backend| {
            e16.iter().filter(|p| (p.algorithm.as_str(), p.backend) == (algorithm, backend)).count()
        };
        assert_eq!(of("barrier", Backend::Claret), 3 * 2 * 3);
        assert_eq!(of("none", Backend::Zookeeper), 3 * 2 * 3);
        assert_eq!((of("none", Backend::Claret), of("barrier", Backend::Zookeeper)), (18, 0));
    }

    #[test]
    fn etcd_has_the_recipes_and_the_lock_of_its_library_and_no_part_in_what_is_not_about_it() {
        let ways =
            ["--algorithm", "tas-watch,async-queue-watch,adaptive,grant,etcd-mutex", "--backend"];
        let of = |backends: &str, more: &[&str]| -> Vec<String> {
            let points = points_of(&[&ways[..], &[backends], more].concat());
            points.iter().map(|p| format!("{} {}", p.backend.name(), p.algorithm)).collect()
        };
        assert_eq!(of("etcd", &[]), ["etcd tas-watch", "etcd etcd-mutex"]);
        assert_eq!(
            of("zookeeper", &[]),
            ["zookeeper tas-watch", "zookeeper async-queue-watch", "zookeeper adaptive"]
        );
        assert!(of("etcd", &["--experiment", "E15,E16"]).is_empty());
        let asked = ["tas-watch", "adaptive", "grant", "etcd-mutex"];
        let left_out = left_out(asked.into_iter(), &[Backend::Claret, Backend::Etcd]);
        let expected = [
            ("not_on_etcd", vec!["adaptive"]),
            ("on_claret_only", vec!["grant"]),
            ("on_etcd_only", vec!["etcd-mutex"]),
        ];
        assert_eq!(left_out, expected.into());
        let e17 = points_of(&["--experiment", "e17", "--backend", "claret,etcd"]);
        assert_eq!(e17.iter().filter(|point| point.algorithm == ETCD_MUTEX).count(), 16);
    }

    #[test]
    fn servers_talk_over_lines_everywhere_if_they_do_anywhere() {
        let stretched = points_of(&["--server-rtt", "0,20ms", "--servers", "1,3"]);
        assert!(stretched.iter().all(|point| point.stretched == (point.servers == 3)));
        assert!(points_of(&[]).iter().all(|point| !point.stretched));
    }

    #[test]
    fn a_row_is_known_by_all_parameters_of_its_point() {
        let all = points_of(&["--experiment", "E9,E13,E14,E16"]);
        for point in &all {
            let text = serde_json::to_string(&point.fields()).unwrap();
            let read: Map<String, Value> = serde_json::from_str(&text).unwrap();
            let has = all.iter().filter(|other| other.has(&read)).count();
            assert_eq!(has, 1, "{text}");
        }
    }
}
