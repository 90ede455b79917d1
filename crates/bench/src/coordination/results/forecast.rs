//! The model's prediction for a point, from figures that are measured just before it: the time of a
//! read and of a write without added delays.

use crate::coordination::args::{ETCD_MUTEX, recipe};
use crate::coordination::generator::Arrivals;
use crate::coordination::grants;
use crate::coordination::grants::keepers;
use crate::coordination::points::plan::Point;
use crate::coordination::services::backend::{Attach, Backend};
use model::lock::Wait;
use model::operation::Operation;
use model::recommend::{Available, Choice, Matters, rank};
use model::turns::RUN_MAX;
use model::{Algorithm, Attachment, Invalid, Law, Prediction, Setting, State, Timing};

/// Times of the service without added delays, in real milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Base {
    /// Time of a read.
    pub read_ms: f64,
    /// Time of a write.
    pub write_ms: f64,
    /// Reads per second that are answered when very many are sent at once.
    pub reads_per_s: f64,
    /// Writes per second that are answered when very many are sent at once.
    pub writes_per_s: f64,
}

/// Predicted figures, in the experiment's milliseconds.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Mean latency of the first requests, as many as a run has; of a very long run, the long-run
    /// mean.
    pub mean_ms: Option<f64>,
    /// Latency that 99 % of the requests do not exceed, in the run if the model gives it, else in
    /// the long run.
    pub p99_ms: Option<f64>,
    /// Fraction of the time for which the lock is occupied.
    pub load: f64,
    /// State of the lock at this load.
    pub state: State,
    /// Growth of the wait from each request to the next.
    pub growth_ms: Option<f64>,
    /// Log entries per acquisition.
    pub writes: Option<f64>,
    /// Messages to and from clients per acquisition.
    pub messages: Option<f64>,
}

/// Network and disk times of a point, in real milliseconds.
///
/// Sessions that are spread over all servers are on average (n - 1)/n server round trips away from
/// the leader: for writes, and with Claret, whose leader answers reads, also for reads.
///
/// # Errors
/// A figure is no valid time.
pub fn timing(point: &Point, base: &Base) -> Result<Timing, Invalid> {
    let client_ms = mean_client_ms(point) / point.scale + base.read_ms;
    let server_ms = point.server_rtt_ms / point.scale;
    let disk_ms = (base.write_ms - base.read_ms).max(0.0);
    let servers = usize::from(point.servers);
    let away_ms = server_ms * (servers as f64 - 1.0) / servers as f64;
    let timing = |client_ms, server_ms, disk_ms, attachment| {
        Ok(Timing {
            client_rtt: Law::constant(client_ms)?,
            server_rtt: Law::constant(server_ms)?,
            disk: Law::constant(disk_ms)?,
            servers,
            attachment,
        })
    };
    match (point.attach, point.backend) {
        (Attach::Leader, _) => timing(client_ms, server_ms, disk_ms, Attachment::Leader),
        (Attach::Any, Backend::Claret) => {
            timing(client_ms + away_ms, server_ms, disk_ms, Attachment::Leader)
        }
        // A follower's round trip is shorter by this much, and a commit longer by as much.
        (Attach::Any, Backend::Zookeeper | Backend::Etcd | Backend::Network) => {
            timing(client_ms, away_ms, disk_ms + server_ms - away_ms, Attachment::Follower)
        }
    }
}

/// Round trip of the average client in the experiment.
pub fn mean_client_ms(point: &Point) -> f64 {
    match point.distances_ms.len() {
        0 => point.client_rtt_ms,
        count => point.distances_ms.iter().sum::<f64>() / count as f64,
    }
}

/// Time of an operation, in the experiment's milliseconds.
///
/// # Errors
/// A figure is no valid time.
pub fn operation_ms(point: &Point, base: &Base, operation: Operation) -> Result<f64, Invalid> {
    Ok(timing(point, base)?.latency(operation)?.mean_ms() * point.scale)
}

/// Time per operation of a pipeline, in the experiment's milliseconds.
///
/// # Errors
/// A figure is no valid time.
pub fn pipelined_ms(point: &Point, base: &Base, operation: Operation) -> Result<f64, Invalid> {
    let rate = match operation {
        Operation::Read => base.reads_per_s,
        _ => base.writes_per_s,
    };
    let pipelined = timing(point, base)?.pipelined(operation, point.requests, rate)?;
    Ok(pipelined.per_operation_ms * point.scale)
}

/// Circumstances of a point's lock, in real milliseconds.
///
/// # Errors
/// A figure is no valid time.
pub fn setting(point: &Point, base: &Base) -> Result<Setting, Invalid> {
    let timing = timing(point, base)?;
    let (interarrival_ms, service_ms) =
        (point.interarrival_ms / point.scale, point.service_ms / point.scale);
    let setting = Setting::new(timing, interarrival_ms, service_ms);
    Ok(Setting {
        poll_ms: point.poll_ms / point.scale,
        requests: (point.requests <= RUN_MAX).then_some(point.requests),
        // Within a process nothing is sent. Requests go to the clients in turn.
        near_rtt_ms: 0.0,
        cohort: keepers::MEMBERS,
        same_user: if point.clients == 1 { 1.0 } else { 0.0 },
        ..setting
    })
}

/// Prediction for the lock of a point; `None` where the model does not apply.
///
/// The model does not apply to a lock that servers keep, which moves to another server now and
/// then, to etcd's own lock, and to recipes that read or watch on etcd: reads ask the other
/// servers, a list may be answered before the create sent ahead of it, and a watch that begins at a
/// change which is no longer the latest one is served by a loop that wakes every 100 ms.
///
/// # Errors
/// A figure is no valid time.
pub fn of(point: &Point, base: &Base) -> Result<Option<Forecast>, Invalid> {
    let writes_only = |algorithm| matches!(algorithm, Algorithm::SyncTas | Algorithm::AsyncTas);
    match recipe(&point.algorithm) {
        Some(algorithm) if point.backend != Backend::Etcd || writes_only(algorithm) => {
            lock(point, base, algorithm).map(Some)
        }
        None if point.keeps_while_it_pays() => lock(point, base, own(point)).map(Some),
        None if ![ETCD_MUTEX, grants::NEAR].contains(&&*point.algorithm) => {
            best(point, base).map(Some)
        }
        _ => Ok(None),
    }
}

/// Prediction for a lock. In a closed loop of m clients, m services and hand-overs take place in
/// the time in which each client completes one cycle, unless the lock is free when requested.
///
/// # Errors
/// A figure is no valid time.
pub fn lock(point: &Point, base: &Base, algorithm: Algorithm) -> Result<Forecast, Invalid> {
    let setting = setting(point, base)?;
    let scale = point.scale;
    if point.closed {
        let waiting = (point.clients as usize).saturating_sub(2).max(1);
        let busy_ms = setting.service_ms + setting.hand_off_ms(algorithm, waiting)?;
        let write_ms = setting.timing.latency(Operation::Write)?.mean_ms();
        let free_ms = setting.free(algorithm)?.mean_ms();
        let others_ms = point.think_ms / scale + setting.service_ms + write_ms;
        let mean_ms = (f64::from(point.clients) * busy_ms - others_ms).max(free_ms);
        let round_ms = mean_ms + others_ms;
        let load = f64::from(point.clients) * busy_ms / round_ms;
        let wait_ms = mean_ms - free_ms;
        let cost = setting.cost(
            algorithm,
            &Wait {
                mean_ms: wait_ms,
                contended: if wait_ms > 0.0 { 1.0 } else { load.min(1.0) },
                waiting: f64::from(point.clients) * wait_ms / round_ms,
            },
        )?;
        return Ok(Forecast {
            mean_ms: Some(mean_ms * scale),
            p99_ms: None,
            load,
            // A client that waits for its lock sends no further requests: a closed loop is never
            // overloaded.
            state: if load < 0.95 { State::Stable } else { State::Critical },
            growth_ms: None,
            writes: Some(cost.quorum_writes),
            messages: Some(cost.messages),
        });
    }
    let predicted: Prediction = setting.predict(algorithm)?;
    // The model only knows the waits of requests that arrive at random.
    let at_random = point.arrivals == Arrivals::Poisson;
    let run = predicted.run.filter(|_| at_random);
    let mean_ms = run.map(|run| run.mean_ms).or(predicted.mean_ms.filter(|_| at_random));
    let p99_ms = predicted.p99_ms.filter(|_| at_random);
    Ok(Forecast {
        mean_ms: mean_ms.map(|ms| ms * scale),
        p99_ms: run.and_then(|run| run.p99_ms).or(p99_ms).map(|ms| ms * scale),
        load: predicted.load,
        state: predicted.state,
        growth_ms: predicted.growth_ms_per_request.map(|ms| ms * scale),
        writes: predicted.quorum_writes,
        messages: predicted.messages,
    })
}

/// Claret's own lock that clients should settle on: a retained one, if no other client wants it.
fn own(point: &Point) -> Algorithm {
    if point.clients == 1 { Algorithm::Retained } else { Algorithm::Grant }
}

/// Prediction for a lock that changes its recipe: that of the final recipe, as if used from the
/// beginning.
///
/// # Errors
/// A figure is no valid time.
pub fn best(point: &Point, base: &Base) -> Result<Forecast, Invalid> {
    let setting = setting(point, base)?;
    let choices = rank(&setting, Available::default(), Matters::Mean)?;
    let capacity = Capacity { reads_per_s: base.reads_per_s, writes_per_s: base.writes_per_s };
    let eligible = eligible(&choices, setting.interarrival_ms, &capacity);
    let best = eligible.first();
    lock(point, base, best.map_or(Algorithm::AsyncQueueWatch, |choice| choice.prediction.algorithm))
}

/// Requests per second that a service answers when very many are sent at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Reads.
    pub reads_per_s: f64,
    /// Writes.
    pub writes_per_s: f64,
}

impl Capacity {
    /// Whether a recipe needs more than half of the capacity, since the model does not account for
    /// processors. A recipe whose need is unknown counts as exceeding it.
    pub fn is_exceeded_by(&self, prediction: &Prediction, interarrival_ms: f64) -> bool {
        let most_per_s = match prediction.algorithm {
            Algorithm::AsyncQueue | Algorithm::AsyncQueueWatch => self.reads_per_s,
            _ => self.writes_per_s,
        };
        // Each request has an answer.
        let per_s = prediction.messages.map(|messages| messages / 2.0 * 1e3 / interarrival_ms);
        per_s.is_none_or(|per_s| per_s > most_per_s / 2.0)
    }
}

/// Cost per request of the next requests with a recipe, in milliseconds: over the number of
/// requests considered, or else in the long run. Near its limit a lock needs thousands of requests
/// to become as slow as it can be.
pub fn cost_ms(prediction: &Prediction) -> f64 {
    let mean_ms = prediction.run.map(|run| run.mean_ms).or(prediction.mean_ms);
    mean_ms.unwrap_or(f64::INFINITY)
}

/// Recipes among these that a lock may change to, the best first. Only safe recipes are eligible.
/// Recipes whose waits do not grow for ever come first; within each of these two groups, recipes
/// that the service can carry come first, the quickest first, and the others last, the one with the
/// most requests at the end.
pub fn eligible<'a>(
    choices: &'a [Choice],
    interarrival_ms: f64,
    capacity: &Capacity,
) -> Vec<&'a Choice> {
    let mut safe: Vec<&Choice> = choices.iter().filter(|choice| choice.safe).collect();
    let asks = |choice: &Choice| {
        let loud = capacity.is_exceeded_by(&choice.prediction, interarrival_ms);
        if loud { choice.prediction.messages.unwrap_or(f64::INFINITY) } else { 0.0 }
    };
    let grows = |choice: &Choice| choice.prediction.state == State::Overloaded;
    safe.sort_by(|a, b| {
        let (costs_a, costs_b) = (cost_ms(&a.prediction), cost_ms(&b.prediction));
        let asks = asks(a).total_cmp(&asks(b));
        grows(a).cmp(&grows(b)).then(asks).then(costs_a.total_cmp(&costs_b))
    });
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordination::args::LocksArgs;
    use crate::coordination::points::plan::points;
    use clap::{Args, FromArgMatches};

    const BASE: Base =
        Base { read_ms: 0.5, write_ms: 1.5, reads_per_s: 20_000.0, writes_per_s: 10_000.0 };

    fn point(words: &[&str]) -> Point {
        let command = LocksArgs::augment_args(clap::Command::new("locks"));
        let words = ["locks", "--client-rtt", "100ms"].iter().chain(words);
        let args = LocksArgs::from_arg_matches(&command.get_matches_from(words)).unwrap();
        points(&args).remove(0)
    }

    fn state(service: &str) -> State {
        let point = point(&["--algorithm", "sync-queue", "--service", service]);
        lock(&point, &BASE, Algorithm::SyncQueue).unwrap().state
    }

    #[test]
    fn points_are_labelled_by_how_long_a_request_occupies_the_lock() {
        // A write takes 100 ms, five times 0.5 ms and five times 1 ms; requests come every 200 ms.
        assert_eq!(state("50ms"), State::Stable);
        assert_eq!(state("88ms"), State::Critical);
        assert_eq!(state("100ms"), State::Overloaded);
    }

    #[test]
    fn what_takes_no_part_in_scaling_is_multiplied_by_it() {
        let write = |scale: &str| {
            operation_ms(&point(&["--scale", scale]), &BASE, Operation::Write).unwrap()
        };
        assert!((write("1") - 101.5).abs() < 1e-9);
        assert!((write("5") - 107.5).abs() < 1e-9);
    }

    #[test]
    fn sessions_everywhere_are_further_away_than_those_at_the_leader() {
        let at = |attach: &str| {
            let point = point(&["--scale", "1", "--server-rtt", "30ms", "--attach", attach]);
            operation_ms(&point, &BASE, Operation::Write).unwrap()
        };
        assert!((at("leader") - 131.5).abs() < 1e-9);
        // Two of three sessions are 30 ms further away.
        assert!((at("any") - 151.5).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_said_of_what_the_model_does_not_know_about_etcd() {
        let known = |backend: &str, algorithm: &str| {
            let point = point(&["--backend", backend, "--algorithm", algorithm]);
            of(&point, &BASE).unwrap().is_some()
        };
        assert!(known("etcd", "sync-tas") && known("etcd", "async-tas"));
        assert!(!known("etcd", "etcd-mutex") && !known("etcd", "tas-watch"));
        assert!(!known("etcd", "async-queue") && known("zookeeper", "async-queue"));
        assert!(known("claret", "adaptive"));
    }

    #[test]
    fn a_closed_loop_is_never_overloaded() {
        let point = point(&["--closed", "8", "--service", "10ms", "--scale", "1"]);
        let found = lock(&point, &BASE, Algorithm::SyncQueue).unwrap();
        assert_eq!(found.state, State::Critical);
        // Eight services and writes, without the client's own.
        assert!((found.mean_ms.unwrap() - 7.0 * 111.5).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn a_grant_takes_a_write_and_the_release_before_it_is_the_same_entry() {
        let rarely = point(&["--algorithm", "grant", "--scale", "1", "--interarrival", "60s"]);
        let found = lock(&rarely, &BASE, Algorithm::Grant).unwrap();
        assert!((found.mean_ms.unwrap() - 101.5).abs() < 0.2, "{found:?}");
        assert!((found.writes.unwrap() - 2.0).abs() < 0.01 && found.messages == Some(4.0));
        // The published point: a mean of 153 ms for a log write of 1 ms.
        let often = point(&["--algorithm", "grant", "--scale", "1", "--interarrival", "200ms"]);
        let found = lock(&often, &BASE, Algorithm::Grant).unwrap();
        assert!((found.mean_ms.unwrap() - 153.0).abs() < 5.0, "{found:?}");
        let busy = point(&["--algorithm", "grant", "--closed", "8", "--scale", "1"]);
        let found = lock(&busy, &BASE, Algorithm::Grant).unwrap();
        assert_eq!((found.writes, found.messages), (Some(1.0), Some(4.0)));
    }
}
