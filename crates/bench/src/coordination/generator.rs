//! Generator of requests for one lock from many clients, and the record of their outcome.
//!
//! *Open loop*: requests arrive at given times and none waits for another; latency counts from the
//! scheduled arrival, so that a late generator does not hide it. *Closed loop*: each client
//! requests the lock again, a pause after its last release. Arrivals, service times and pauses
//! follow from the seed alone, so that all algorithms and services get the same ones.
//!
//! Every grant is checked: no other request may hold the lock, and the token must be larger than
//! the tokens of all grants before.

use crate::coordination::recipes::locker::{Locker, Told};
use crate::coordination::services::client::Counts;
use crate::load::random::Rng;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

/// Distribution of the times between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Random: exponential times.
    Poisson,
    /// Constant times.
    Constant,
}

/// Load on a locker. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Number of requests.
    pub requests: usize,
    /// Number of clients.
    pub clients: usize,
    /// Distribution of arrivals in an open loop.
    pub arrivals: Arrivals,
    /// Mean time between two arrivals.
    pub interarrival_ns: f64,
    /// In a closed loop, the mean pause of a client, which is exponential.
    pub closed_think_ns: Option<f64>,
    /// Mean time for which the lock is held; it is exponential.
    pub service_ns: f64,
    /// Time limit after the last arrival (or after the beginning, in a closed loop).
    pub limit_ns: u64,
    /// Seed of the random choices.
    pub seed: u64,
}

/// Outcome of the requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Time from arrival to grant of each request; `None` without a grant.
    pub latency_ns: Vec<Option<u64>>,
    /// Client of each request.
    pub client: Vec<usize>,
    /// Time from arrival to the completed release of each released request.
    pub cycle_ns: Vec<u64>,
    /// From the first arrival to the end.
    pub elapsed_ns: u64,
    /// Times from a holder's release to the next grant, while a request was waiting.
    pub hand_off_ns: Vec<u64>,
    /// Messages of the run.
    pub counts: Counts,
    /// Log entries of the service during the run, where they cannot be derived from the requests: a
    /// grant and the release before it share an entry.
    pub log_entries: Option<u64>,
    /// Description of a violation: two holders at a time, or a token that does not grow.
    pub wrong: Option<String>,
}

impl Outcome {
    /// Latencies of the granted requests.
    pub fn served_ns(&self) -> impl Iterator<Item = u64> {
        self.latency_ns.iter().filter_map(|latency| *latency)
    }

    /// Number of requests that were never granted.
    pub fn unfinished(&self) -> usize {
        self.latency_ns.iter().filter(|latency| latency.is_none()).count()
    }
}

/// Draws an exponential time with this mean.
pub fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - rng.unit()).ln()
}

/// Arrival times of the requests, from the beginning on, in nanoseconds.
pub fn arrivals(load: &Load) -> Vec<u64> {
    let mut rng = Rng::new(load.seed ^ 0xa11_17a15);
    let mut at_ns = 0.0;
    let mut next = |_| {
        let before_ns = at_ns;
        at_ns += match load.arrivals {
            Arrivals::Poisson => exponential(&mut rng, load.interarrival_ns),
            Arrivals::Constant => load.interarrival_ns,
        };
        before_ns as u64
    };
    (0..load.requests).map(&mut next).collect()
}

/// Holding time of each request, in nanoseconds.
pub fn services(load: &Load) -> Vec<u64> {
    let mut rng = Rng::new(load.seed ^ 0x5e_141ce5);
    (0..load.requests).map(|_| exponential(&mut rng, load.service_ns) as u64).collect()
}

/// Event of the generator at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Arrive { client: usize },
    Leave { request: usize },
}

struct Run<'a, L> {
    locker: &'a mut L,
    load: &'a Load,
    services_ns: Vec<u64>,
    thinks: Rng,
    /// Pending events, the earliest first.
    acts: BinaryHeap<Reverse<(u64, Act)>>,
    /// Arrival time of each request.
    came_ns: Vec<u64>,
    holder: Option<usize>,
    last_token: i64,
    /// Time of the last release, if a request was waiting then.
    left_ns: Option<u64>,
    waiting: usize,
    given_back: usize,
    outcome: Outcome,
}

/// Runs the load on a locker.
///
/// # Errors
/// The service fails. Two holders at a time are not an error here but [`Outcome::wrong`], and end
/// the run.
pub fn run<L: Locker>(locker: &mut L, load: &Load) -> io::Result<Outcome> {
    let begin_ns = locker.now_ns();
    let before = locker.counts();
    let mut acts = BinaryHeap::new();
    let mut last_ns = begin_ns;
    if load.closed_think_ns.is_some() {
        (0..load.clients.min(load.requests))
            .for_each(|client| acts.push(Reverse((begin_ns, Act::Arrive { client }))));
    } else {
        for (number, at_ns) in arrivals(load).into_iter().enumerate() {
            let client = number % load.clients;
            last_ns = begin_ns + at_ns;
            acts.push(Reverse((last_ns, Act::Arrive { client })));
        }
    }
    let mut run = Run {
        services_ns: services(load),
        thinks: Rng::new(load.seed ^ 0x714_1714),
        locker,
        load,
        acts,
        came_ns: Vec::new(),
        holder: None,
        last_token: i64::MIN,
        left_ns: None,
        waiting: 0,
        given_back: 0,
        outcome: Outcome::default(),
    };
    run.go(last_ns + load.limit_ns)?;
    let mut outcome = run.outcome;
    outcome.elapsed_ns = locker.now_ns() - begin_ns;
    outcome.counts = locker.counts().since(&before);
    outcome.latency_ns.resize(load.requests, None);
    Ok(outcome)
}

impl<L: Locker> Run<'_, L> {
    fn go(&mut self, end_ns: u64) -> io::Result<()> {
        let mut told = Vec::new();
        while self.given_back < self.load.requests && self.outcome.wrong.is_none() {
            let now_ns = self.locker.now_ns();
            if now_ns > end_ns {
                break;
            }
            while let Some(Reverse((at_ns, act))) = self.acts.peek().copied()
                && at_ns <= now_ns
            {
                self.acts.pop();
                self.act(at_ns, act);
            }
            let next_ns = self.acts.peek().map_or(end_ns, |Reverse((at_ns, _))| *at_ns);
            self.locker.wait(next_ns.min(end_ns), &mut told)?;
            for told in told.drain(..) {
                self.hear(told);
            }
        }
        Ok(())
    }

    fn act(&mut self, at_ns: u64, act: Act) {
        match act {
            Act::Arrive { client } => {
                let request = self.came_ns.len();
                if request == self.load.requests {
                    return;
                }
                self.came_ns.push(at_ns);
                self.outcome.latency_ns.push(None);
                self.outcome.client.push(client);
                self.waiting += 1;
                self.locker.acquire(request, client);
            }
            Act::Leave { request } => {
                self.holder = None;
                self.left_ns = (self.waiting > 0).then(|| self.locker.now_ns());
                self.locker.release(request);
            }
        }
    }

    fn hear(&mut self, told: Told) {
        let now_ns = self.locker.now_ns();
        match told {
            Told::Granted { request, token } => {
                if let Some(holder) = self.holder {
                    let what =
                        format!("request {request} was granted the lock that {holder} holds");
                    self.outcome.wrong.get_or_insert(what);
                }
                if token <= self.last_token {
                    let last = self.last_token;
                    let what = format!("request {request} has token {token} after {last}");
                    self.outcome.wrong.get_or_insert(what);
                }
                self.last_token = token;
                self.holder = Some(request);
                self.waiting -= 1;
                if let Some(left_ns) = self.left_ns.take() {
                    self.outcome.hand_off_ns.push(now_ns - left_ns);
                }
                let latency_ns = now_ns.saturating_sub(self.came_ns[request]);
                self.outcome.latency_ns[request] = Some(latency_ns);
                let leave_ns = now_ns + self.services_ns[request];
                if self.services_ns[request] == 0 {
                    self.act(now_ns, Act::Leave { request });
                } else {
                    self.acts.push(Reverse((leave_ns, Act::Leave { request })));
                }
            }
            Told::Released { request } => {
                self.given_back += 1;
                self.outcome.cycle_ns.push(now_ns.saturating_sub(self.came_ns[request]));
                if let Some(think_ns) = self.load.closed_think_ns {
                    let pause_ns = exponential(&mut self.thinks, think_ns) as u64;
                    let client = self.outcome.client[request];
                    self.acts.push(Reverse((now_ns + pause_ns, Act::Arrive { client })));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(arrivals: Arrivals) -> Load {
        Load {
            requests: 20_000,
            clients: 4,
            arrivals,
            interarrival_ns: 1e6,
            closed_think_ns: None,
            service_ns: 3e5,
            limit_ns: 0,
            seed: 7,
        }
    }

    #[test]
    fn requests_come_at_random_with_the_mean_that_was_asked_for() {
        let times = arrivals(&load(Arrivals::Poisson));
        assert_eq!((times.len(), times[0]), (20_000, 0));
        let gaps: Vec<f64> = times.windows(2).map(|two| (two[1] - two[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // The deviation of an exponential time is its mean.
        assert!((mean / 1e6 - 1.0).abs() < 0.03, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{variance}");
        let above = gaps.iter().filter(|gap| **gap > 3e6).count() as f64 / gaps.len() as f64;
        assert!((above / (-3f64).exp() - 1.0).abs() < 0.15, "{above}");
        assert_eq!(times, arrivals(&load(Arrivals::Poisson)), "the seed decides");
        assert_ne!(times, arrivals(&Load { seed: 8, ..load(Arrivals::Poisson) }));
    }

    #[test]
    fn constant_arrivals_are_evenly_apart_and_services_are_not() {
        let load = load(Arrivals::Constant);
        assert!(arrivals(&load).windows(2).all(|two| two[1] - two[0] == 1_000_000));
        let services = services(&load);
        let mean = services.iter().sum::<u64>() as f64 / services.len() as f64;
        assert!((mean / 3e5 - 1.0).abs() < 0.03, "{mean}");
    }

    /// A locker that grants every request at once, on a clock that advances with every reading.
    #[derive(Default)]
    struct Careless {
        now_ns: std::cell::Cell<u64>,
        told: Vec<Told>,
        token: i64,
        step: i64,
    }

    impl Locker for Careless {
        fn now_ns(&self) -> u64 {
            self.now_ns.set(self.now_ns.get() + 1_000);
            self.now_ns.get()
        }

        fn acquire(&mut self, request: usize, _client: usize) {
            self.token += self.step;
            self.told.push(Told::Granted { request, token: self.token });
        }

        fn release(&mut self, request: usize) {
            self.told.push(Told::Released { request });
        }

        fn wait(&mut self, until_ns: u64, told: &mut Vec<Told>) -> io::Result<()> {
            if self.told.is_empty() {
                self.now_ns.set(until_ns);
            }
            told.append(&mut self.told);
            Ok(())
        }

        fn counts(&self) -> Counts {
            Counts::default()
        }
    }

    #[test]
    fn two_holders_at_a_time_are_noticed() {
        let mut careless = Careless { step: 1, ..Careless::default() };
        let busy = Load { requests: 200, limit_ns: 1_000_000, ..load(Arrivals::Poisson) };
        let outcome = run(&mut careless, &busy).unwrap();
        assert!(outcome.wrong.unwrap().contains("was granted the lock that"));
    }

    #[test]
    fn a_token_that_does_not_grow_is_noticed() {
        let mut careless = Careless::default();
        let alone =
            Load { requests: 5, service_ns: 0.0, limit_ns: 1_000_000, ..load(Arrivals::Constant) };
        let outcome = run(&mut careless, &alone).unwrap();
        assert!(outcome.wrong.unwrap().contains("token 0 after 0"));
        let mut careful = Careless { step: 1, ..Careless::default() };
        let outcome = run(&mut careful, &alone).unwrap();
        assert_eq!((outcome.wrong, outcome.latency_ns.len()), (None, 5));
        assert!(outcome.latency_ns.iter().all(Option::is_some));
    }
}
