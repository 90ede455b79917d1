//! Lock algorithms: the costs of each on a given network, under a given load.
//!
//! C is the round trip between client and leader, L the time for ordering and committing an entry
//! there, A one more server round trip if sessions are at a follower, W = C + L + A a write, p the
//! poll interval, k the number of waiters. A lock is *occupied* for its service and for the
//! hand-off to the next holder, X = s + H; it is stable while X is shorter than the mean time
//! between requests. That is the main correction of the papers, in which only s counts.
//! | algorithm | acquire, free | hand-off H |
//! |---|---|---|
//! | sync queue | W + C | W |
//! | sync queue, listing again | W + C | W + C |
//! | async queue | W | W + p/2 |
//! | sync TAS | W | W + about W / (k + 1) |
//! | async TAS | W | W + p / (k + 1) |
//! | TAS with watch | W | 2 W |
//! | async queue, watching | W | W |
//! | grant | W | W |
//! | tentative grant | C | C |
//! | successor | W | C |
//! | cohort of b | c | ((b - 1) c + W) / b |
//! | retained, by its user; by others | 0; W + C | 0; W |
//! | fused | W for everything | L |
//! Waits are those of [`crate::turns`] and [`crate::tries`], where the approximations are
//! described. Further approximations: varying round trips enter the waits in turn by 32 equally
//! likely values, and waits for TAS by their means. TAS with watch ignores that a client whose
//! notified try fails looks again: its mean is accurate to a quarter where the lock is stable, and
//! a warning where it is not. For cohorts and retained locks, each request is local, or its user's,
//! at random.

use crate::law::{Invalid, Law, positive, time};
use crate::operation::{Operation, Timing};
use crate::tries::{Retry, Tries, Trying};
use crate::turns::{Notice, Turns, Waits};
use serde::Serialize;

/// Load above which a lock is critical: its mean is that of a very long run.
pub const CRITICAL_LOAD: f64 = 0.95;

/// Most members of a cohort.
pub const COHORT_MAX: u32 = 1_000_000;

/// Number of values that represent a varying hand-off.
const HAND_OFFS: usize = 32;

/// Number of values that represent waits in a sum with a varying round trip.
const WAIT_VALUES: usize = 512;

/// Lock algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// The papers' algorithm: sequential nodes, each client watching the one before its own.
    /// Unsafe: a deleted node may be that of a waiter that has died.
    SyncQueue,
    /// [`Self::SyncQueue`] as real clients do it: list again after the watch.
    SyncQueueRelist,
    /// Sequential nodes, polled by listing.
    AsyncQueue,
    /// Create the node; retry after every failure.
    SyncTas,
    /// Create the node repeatedly, without waiting for replies.
    AsyncTas,
    /// Create the node; watch it when that fails.
    TasWatch,
    /// Sequential nodes, listed once; a permanent watch notifies each waiter of nodes that are
    /// created and deleted, so that it knows when its own is the first.
    AsyncQueueWatch,
    /// The server keeps the queue; the release and the next grant are one log entry.
    Grant,
    /// As grant, but the next holder begins before the grant is committed; its effects wait for
    /// that.
    Tentative,
    /// As grant, but the successor is committed while the lock is held, so that a hand-over needs
    /// no log write after the release. The model assumes that it is committed by then.
    Successor,
    /// A gateway near the clients holds the lock for a number of them before it releases it.
    Cohort,
    /// A client keeps the lock until another one asks for it.
    Retained,
    /// Acquisition, operations and release in one request, carried out by the server.
    Fused,
}

/// Distance of a lock from overload, where its queue grows for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Occupied for less than 95 % of the time.
    Stable,
    /// Occupied for nearly all the time: latencies settle only after very many requests.
    Critical,
    /// Requested faster than it can be handed over: every request waits longer than the one before.
    Overloaded,
}

/// The circumstances of a lock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Network and disks.
    pub timing: Timing,
    /// Mean time between two requests, which come at random (Poisson).
    pub interarrival_ms: f64,
    /// Mean of the exponential time in the critical section.
    pub service_ms: f64,
    /// Time between polls, and between tries that do not wait for replies.
    pub poll_ms: f64,
    /// Round trip between a client and a gateway near it, for cohorts.
    pub near_rtt_ms: f64,
    /// Holders of a cohort before the gateway releases the lock.
    pub cohort: u32,
    /// Part of the requests that come from the last holder, for retained locks.
    pub same_user: f64,
    /// Number of requests of a run to predict as well, of which the first finds the lock free.
    pub requests: Option<u32>,
}

/// Latencies of a run, from the request to the critical section.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Requests of the run.
    pub requests: u32,
    /// Mean latency of the requests.
    pub mean_ms: f64,
    /// Latency that 99 % of them do not exceed; absent for TAS, whose order in a run is not
    /// modelled.
    pub p99_ms: Option<f64>,
}

/// Prediction for an algorithm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Mean latency of a request that finds the lock free.
    pub free_ms: f64,
    /// Mean hand-off with one waiter: from the release to the entry of the next holder.
    pub hand_off_ms: f64,
    /// Mean time for which a request occupies the lock under many waiters.
    pub occupancy_ms: f64,
    /// Part of its time for which the lock is then occupied; above one, it is overloaded.
    pub load: f64,
    /// State that follows from the load.
    pub state: State,
    /// Growth of the wait from each request to the next; overloaded locks only.
    pub growth_ms_per_request: Option<f64>,
    /// Mean latency in the long run, if there is one.
    pub mean_ms: Option<f64>,
    /// Latency that 99 % of requests do not exceed in the long run.
    pub p99_ms: Option<f64>,
    /// The run, if one was requested.
    pub run: Option<Run>,
    /// Messages to and from clients per acquisition, each direction counting; absent if waits grow
    /// and no run was requested.
    pub messages: Option<f64>,
    /// Log entries per acquisition, refused tries included.
    pub quorum_writes: Option<f64>,
}

/// Costs of one acquisition and its release.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Messages to and from clients, each direction counting.
    pub messages: f64,
    /// Log entries, refused tries included.
    pub quorum_writes: f64,
}

/// Statistics of waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    /// Mean time of waiting for other holders.
    pub mean_ms: f64,
    /// Probability that a request waits.
    pub contended: f64,
    /// Number of waiters at a release.
    pub waiting: f64,
}

/// Means that enter the formulas.
struct Means {
    client_ms: f64,
    write_ms: f64,
}

impl Algorithm {
    /// All algorithms, the papers' first.
    pub const ALL: [Self; 13] = [
        Self::SyncQueue,
        Self::SyncQueueRelist,
        Self::AsyncQueue,
        Self::SyncTas,
        Self::AsyncTas,
        Self::TasWatch,
        Self::AsyncQueueWatch,
        Self::Grant,
        Self::Tentative,
        Self::Successor,
        Self::Cohort,
        Self::Retained,
        Self::Fused,
    ];

    /// Name on the command line and in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SyncQueue => "sync-queue",
            Self::SyncQueueRelist => "sync-queue-relist",
            Self::AsyncQueue => "async-queue",
            Self::SyncTas => "sync-tas",
            Self::AsyncTas => "async-tas",
            Self::TasWatch => "tas-watch",
            Self::AsyncQueueWatch => "async-queue-watch",
            Self::Grant => "grant",
            Self::Tentative => "tentative",
            Self::Successor => "successor",
            Self::Cohort => "cohort",
            Self::Retained => "retained",
            Self::Fused => "fused",
        }
    }

    /// The algorithm with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Whether clients can build it of nodes, versions and watches alone.
    pub const fn needs_nodes_only(self) -> bool {
        matches!(
            self,
            Self::SyncQueue
                | Self::SyncQueueRelist
                | Self::AsyncQueue
                | Self::SyncTas
                | Self::AsyncTas
                | Self::TasWatch
                | Self::AsyncQueueWatch
        )
    }
}

impl State {
    fn of(load: f64) -> Self {
        match load {
            load if load >= 1.0 => Self::Overloaded,
            load if load >= CRITICAL_LOAD => Self::Critical,
            _ => Self::Stable,
        }
    }
}

/// Method of handing the lock over.
enum Way {
    InTurn(Turns),
    ByTrying(Tries),
}

impl Setting {
    /// Default setting: this network, this load, polls every 10 ms, a gateway 1 ms away, cohorts of
    /// 16, no dominant user, no run.
    pub const fn new(timing: Timing, interarrival_ms: f64, service_ms: f64) -> Self {
        Self {
            timing,
            interarrival_ms,
            service_ms,
            poll_ms: 10.0,
            near_rtt_ms: 1.0,
            cohort: 16,
            same_user: 0.0,
            requests: None,
        }
    }

    fn check(&self) -> Result<(), Invalid> {
        positive("the time between requests", self.interarrival_ms)?;
        time("the service time", self.service_ms)?;
        positive("the poll interval", self.poll_ms)?;
        time("the round trip to a gateway", self.near_rtt_ms)?;
        if !(1..=COHORT_MAX).contains(&self.cohort) {
            return Err(Invalid(format!("a cohort has 1 to {COHORT_MAX} members")));
        }
        if !(0.0..=1.0).contains(&self.same_user) {
            return Err(Invalid("the part of the same user is a number from 0 to 1".into()));
        }
        Ok(())
    }

    fn means(&self) -> Result<Means, Invalid> {
        Ok(Means {
            client_ms: self.timing.client_rtt.mean_ms(),
            write_ms: self.timing.latency(Operation::Write)?.mean_ms(),
        })
    }

    /// The latency of an acquisition of a free lock.
    ///
    /// # Errors
    /// The setting is impossible.
    pub fn free(&self, algorithm: Algorithm) -> Result<Law, Invalid> {
        let write = self.timing.latency(Operation::Write)?;
        Ok(match algorithm {
            Algorithm::SyncQueue | Algorithm::SyncQueueRelist => {
                write.plus(&self.timing.client_rtt)
            }
            Algorithm::Tentative => self.timing.latency(Operation::Sync)?,
            Algorithm::Cohort => Law::constant(self.near_rtt_ms)?,
            Algorithm::Retained => {
                let others_ms = write.plus(&self.timing.client_rtt).mean_ms();
                Law::histogram(&by_user(self.same_user, others_ms))?
            }
            _ => write,
        })
    }

    /// Additions to the service until the next holder enters, without late notice.
    fn overheads(&self, algorithm: Algorithm) -> Result<Vec<(f64, f64)>, Invalid> {
        let write = self.timing.latency(Operation::Write)?;
        Ok(match algorithm {
            Algorithm::Tentative | Algorithm::Successor => {
                values(&self.timing.latency(Operation::Sync)?)
            }
            Algorithm::Fused => values(&self.timing.commit()?.law()),
            Algorithm::Cohort => {
                let last = 1.0 / f64::from(self.cohort);
                vec![(self.near_rtt_ms, 1.0 - last), (write.mean_ms(), last)]
            }
            Algorithm::Retained => by_user(self.same_user, write.mean_ms()),
            _ => values(&write),
        })
    }

    fn way(&self, algorithm: Algorithm) -> Result<Way, Invalid> {
        let means = self.means()?;
        let (rtt_ms, write_ms) = (means.client_ms, means.write_ms);
        let retry = match algorithm {
            Algorithm::SyncTas => Some(Retry::Failed { period_ms: write_ms }),
            Algorithm::AsyncTas => Some(Retry::Timed { period_ms: self.poll_ms }),
            Algorithm::TasWatch => Some(Retry::Told { delay_ms: write_ms, rtt_ms }),
            _ => None,
        };
        let interarrival_ms = self.interarrival_ms;
        let service_ms = self.service_ms;
        if let Some(retry) = retry {
            let overhead_ms = write_ms;
            return Ok(Way::ByTrying(Tries { interarrival_ms, service_ms, overhead_ms, retry }));
        }
        let notice = match algorithm {
            Algorithm::SyncQueue => Notice::Reads { rtt_ms, again: false },
            Algorithm::SyncQueueRelist => Notice::Reads { rtt_ms, again: true },
            Algorithm::AsyncQueue => Notice::Polls { interval_ms: self.poll_ms },
            _ => Notice::Told,
        };
        // The server carries a fused section out between two log entries.
        let service_ms = if algorithm == Algorithm::Fused { 0.0 } else { service_ms };
        let overheads = self.overheads(algorithm)?;
        Ok(Way::InTurn(Turns { interarrival_ms, service_ms, overheads, notice }))
    }

    /// The mean hand-off under `waiting` requests, at least one.
    ///
    /// # Errors
    /// The setting is impossible.
    pub fn hand_off_ms(&self, algorithm: Algorithm, waiting: usize) -> Result<f64, Invalid> {
        self.check()?;
        Ok(match self.way(algorithm)? {
            Way::InTurn(turns) => turns.occupancy_ms() - turns.service_ms,
            Way::ByTrying(tries) => tries.overhead_ms + tries.gap_ms(waiting.max(1)),
        })
    }

    /// The prediction for an algorithm.
    ///
    /// # Errors
    /// The setting is impossible.
    pub fn predict(&self, algorithm: Algorithm) -> Result<Prediction, Invalid> {
        let hand_off_ms = self.hand_off_ms(algorithm, 1)?;
        let free = self.free(algorithm)?;
        let way = self.way(algorithm)?;
        let load = match &way {
            Way::InTurn(turns) => turns.occupancy_ms() / self.interarrival_ms,
            Way::ByTrying(tries) => tries.load(),
        };
        let state = State::of(load);
        let occupancy_ms = load * self.interarrival_ms;
        let mut prediction = Prediction {
            algorithm,
            free_ms: free.mean_ms(),
            hand_off_ms,
            occupancy_ms,
            load,
            state,
            growth_ms_per_request: (state == State::Overloaded)
                .then_some(occupancy_ms - self.interarrival_ms),
            mean_ms: None,
            p99_ms: None,
            run: None,
            messages: None,
            quorum_writes: None,
        };
        let wait = match &way {
            Way::InTurn(turns) => self.in_turn(turns, &free, &mut prediction)?,
            Way::ByTrying(tries) => self.by_trying(tries, &free, &mut prediction)?,
        };
        if let Some(wait) = wait {
            let cost = self.cost(algorithm, &wait)?;
            prediction.messages = Some(cost.messages);
            prediction.quorum_writes = Some(cost.quorum_writes);
        }
        Ok(prediction)
    }

    fn in_turn(
        &self,
        turns: &Turns,
        free: &Law,
        prediction: &mut Prediction,
    ) -> Result<Option<Wait>, Invalid> {
        let settled = turns.settled();
        if let Some(waits) = &settled {
            prediction.mean_ms = Some(free.mean_ms() + waits.mean_ms());
            prediction.p99_ms = Some(quantile_with(free, waits, 0.99)?);
        }
        let run = self.requests.map(|requests| turns.run(requests)).transpose()?;
        if let (Some(waits), Some(requests)) = (&run, self.requests) {
            let mean_ms = free.mean_ms() + waits.mean_ms();
            let p99_ms = Some(quantile_with(free, waits, 0.99)?);
            prediction.run = Some(Run { requests, mean_ms, p99_ms });
        }
        Ok(settled.or(run).map(|waits| Wait {
            mean_ms: waits.mean_ms(),
            contended: 1.0 - waits.none(),
            waiting: waits.mean_ms() / self.interarrival_ms,
        }))
    }

    fn by_trying(
        &self,
        tries: &Tries,
        free: &Law,
        prediction: &mut Prediction,
    ) -> Result<Option<Wait>, Invalid> {
        let settled = tries.settled();
        if let Some(trying) = settled {
            prediction.mean_ms = Some(free.mean_ms() + trying.wait_ms);
            let unlucky = tries.quantile(0.99).map(|wait_ms| free.mean_ms() + wait_ms);
            prediction.p99_ms = unlucky.map(|p99_ms| p99_ms.max(free.quantile(0.99)));
        }
        let run = self.requests.map(|requests| tries.run(requests)).transpose()?;
        if let (Some(trying), Some(requests)) = (run, self.requests) {
            let mean_ms = free.mean_ms() + trying.wait_ms;
            prediction.run = Some(Run { requests, mean_ms, p99_ms: None });
        }
        Ok(settled.or(run).map(|Trying { wait_ms, waiting }| Wait {
            mean_ms: wait_ms,
            // A request that arrives while the lock is taken fails at first.
            contended: prediction.load.min(1.0),
            waiting,
        }))
    }

    /// Messages and log entries of an acquisition and its release, given the waits.
    ///
    /// # Errors
    /// The setting is impossible.
    pub fn cost(&self, algorithm: Algorithm, wait: &Wait) -> Result<Cost, Invalid> {
        let means = self.means()?;
        let contended = wait.contended;
        // A client that does not wait for replies continues to send until the successful one
        // arrives.
        let rounds = |latency_ms: f64| (latency_ms / self.poll_ms + 0.5).max(1.0);
        // The release and the next grant are one entry, if there is a waiter.
        let granted = Cost { messages: 4.0, quorum_writes: 2.0 - contended };
        Ok(match algorithm {
            Algorithm::SyncQueue => Cost { messages: 6.0 + 3.0 * contended, quorum_writes: 2.0 },
            Algorithm::SyncQueueRelist => {
                Cost { messages: 6.0 + 5.0 * contended, quorum_writes: 2.0 }
            }
            Algorithm::AsyncQueue => {
                let lists = rounds(wait.mean_ms + means.client_ms);
                Cost { messages: 4.0 + 2.0 * lists, quorum_writes: 2.0 }
            }
            Algorithm::SyncTas => of_tries(1.0 + wait.mean_ms / means.write_ms),
            Algorithm::AsyncTas => of_tries(rounds(wait.mean_ms + means.write_ms)),
            Algorithm::TasWatch => {
                // Each waiter tries once at its arrival and once for every release.
                let tries = of_tries(1.0 + contended + (wait.waiting - 1.0).max(0.0));
                let watches = 2.0 * contended + wait.waiting;
                Cost { messages: tries.messages + watches, ..tries }
            }
            Algorithm::AsyncQueueWatch => {
                // A client is notified of its own node, and of nodes that are created and deleted
                // while it waits.
                Cost { messages: 11.0 + 2.0 * wait.waiting, quorum_writes: 2.0 }
            }
            Algorithm::Grant | Algorithm::Successor => granted,
            // The grant is confirmed when it is committed.
            Algorithm::Tentative => Cost { messages: 5.0, ..granted },
            Algorithm::Cohort => {
                Cost { messages: 4.0, quorum_writes: 2.0 / f64::from(self.cohort) }
            }
            Algorithm::Retained => {
                let others = 1.0 - self.same_user;
                Cost { messages: 4.0 * others, quorum_writes: others }
            }
            Algorithm::Fused => Cost { messages: 2.0, quorum_writes: 1.0 },
        })
    }
}

/// Cost of this many tries, and a release; every one of them is a write.
fn of_tries(tries: f64) -> Cost {
    Cost { messages: 2.0 * tries + 2.0, quorum_writes: tries + 1.0 }
}

/// Zero for the last holder, and `others_ms` for other clients.
fn by_user(same_user: f64, others_ms: f64) -> Vec<(f64, f64)> {
    let both = [(0.0, same_user), (others_ms, 1.0 - same_user)];
    both.into_iter().filter(|(_, part)| *part > 0.0).collect()
}

/// A few equally likely values with the mean and the variance of a distribution.
fn values(law: &Law) -> Vec<(f64, f64)> {
    if law.is_constant() {
        return vec![(law.mean_ms(), 1.0)];
    }
    let part = 1.0 / HAND_OFFS as f64;
    let middles: Vec<f64> = (0..HAND_OFFS).map(|i| law.quantile((i as f64 + 0.5) * part)).collect();
    let mean = middles.iter().sum::<f64>() * part;
    let variance = middles.iter().map(|ms| (ms - mean).powi(2)).sum::<f64>() * part;
    // The middles of the intervals understate the variance at the ends.
    let stretch = if variance > 0.0 { (law.variance() / variance).sqrt() } else { 1.0 };
    let stretched = |ms: f64| (law.mean_ms() + (ms - mean) * stretch).max(0.0);
    middles.into_iter().map(|ms| (stretched(ms), part)).collect()
}

/// The quantile of a free acquisition with a wait before it.
fn quantile_with(free: &Law, waits: &Waits, p: f64) -> Result<f64, Invalid> {
    if free.is_constant() {
        return Ok(free.mean_ms() + waits.quantile(p));
    }
    let part = 1.0 / WAIT_VALUES as f64;
    let values: Vec<f64> =
        (0..WAIT_VALUES).map(|i| waits.quantile((i as f64 + 0.5) * part)).collect();
    Ok(Law::samples(&values)?.plus(free).quantile(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(client: f64, server: f64, interarrival: f64, service: f64) -> Setting {
        Setting::new(Timing::constant(client, server, 1.0).unwrap(), interarrival, service)
    }

    /// C = S = 100 ms, F = 1 ms: acquire when free, hand-off.
    const EXAMPLE: [(Algorithm, f64, f64); 9] = [
        (Algorithm::SyncQueueRelist, 301.0, 301.0),
        (Algorithm::SyncQueue, 301.0, 201.0),
        (Algorithm::AsyncQueue, 201.0, 206.0),
        (Algorithm::AsyncQueueWatch, 201.0, 201.0),
        (Algorithm::Grant, 201.0, 201.0),
        (Algorithm::Tentative, 100.0, 100.0),
        (Algorithm::Successor, 201.0, 100.0),
        (Algorithm::Cohort, 1.0, 1.0),
        (Algorithm::Fused, 201.0, 101.0),
    ];

    #[test]
    fn a_free_lock_and_a_hand_off_take_what_can_be_counted() {
        let mut setting = setting(100.0, 100.0, 10_000.0, 1.0);
        setting.cohort = COHORT_MAX;
        for (algorithm, free, hand_off) in EXAMPLE {
            let prediction = setting.predict(algorithm).unwrap();
            assert!((prediction.free_ms - free).abs() < 1e-6, "{algorithm:?}");
            assert!((prediction.hand_off_ms - hand_off).abs() < 1e-3, "{prediction:?}");
            assert_eq!(prediction.state, State::Stable);
        }
    }

    #[test]
    fn the_more_waiters_the_shorter_the_gap_of_test_and_set() {
        // So rare that no new request arrives in a gap.
        let setting = setting(100.0, 0.0, 1e9, 1e6);
        for waiting in [1, 2, 5, 20] {
            let of = |algorithm| setting.hand_off_ms(algorithm, waiting).unwrap();
            let rivals = waiting as f64 + 1.0;
            assert!((of(Algorithm::AsyncTas) - 101.0 - 10.0 / rivals).abs() < 1e-3);
            assert!((of(Algorithm::SyncTas) - 101.0 - 101.0 / rivals).abs() < 0.02);
            if waiting > 1 {
                assert!((of(Algorithm::TasWatch) - 202.0).abs() < 1e-3);
            }
        }
    }

    #[test]
    fn service_and_hand_off_decide_together_what_is_stable() {
        let state = |service| setting(100.0, 0.0, 200.0, service).predict(Algorithm::Grant);
        assert_eq!(state(50.0).unwrap().state, State::Stable);
        assert_eq!(state(90.0).unwrap().state, State::Critical);
        let overloaded = state(110.0).unwrap();
        assert_eq!(overloaded.state, State::Overloaded);
        assert!((overloaded.growth_ms_per_request.unwrap() - 11.0).abs() < 1e-9);
        assert_eq!((overloaded.mean_ms, overloaded.messages), (None, None));
        // Listing again is too slow for this rate, however short the service.
        let relist = setting(100.0, 0.0, 200.0, 1.0).predict(Algorithm::SyncQueueRelist).unwrap();
        assert_eq!(relist.state, State::Overloaded);
    }

    #[test]
    fn a_run_of_an_overloaded_lock_has_an_answer_and_costs() {
        let setting = Setting { requests: Some(1_000), ..setting(100.0, 0.0, 200.0, 130.0) };
        for algorithm in Algorithm::ALL {
            let prediction = setting.predict(algorithm).unwrap();
            assert!(prediction.run.is_some() && prediction.quorum_writes.is_some());
            assert_eq!(prediction.mean_ms.is_none(), prediction.state == State::Overloaded);
        }
    }

    #[test]
    fn round_trips_that_vary_make_waits_longer() {
        let constant = setting(20.0, 0.0, 50.0, 1.0);
        let mut varying = constant.clone();
        varying.timing.client_rtt = Law::exponential(20.0).unwrap();
        let mean = |setting: &Setting| setting.predict(Algorithm::Grant).unwrap().mean_ms.unwrap();
        let (s, h) = (1.0, 21.0);
        // The mean square of the hand-off grows by its variance.
        let square = 2.0 * s * s + 2.0 * s * h + h * h + 400.0;
        let wait = crate::queue::mg1_wait_ms(50.0, s + h, square).unwrap();
        assert!((mean(&varying) - 21.0 - wait).abs() < 0.03 * wait, "{}", mean(&varying));
        assert!(mean(&varying) > mean(&constant) + 4.0);
        let p99 = varying.predict(Algorithm::Grant).unwrap().p99_ms.unwrap();
        assert!(p99 > varying.free(Algorithm::Grant).unwrap().quantile(0.99));
    }

    #[test]
    fn tries_are_writes_and_waits_in_turn_are_not() {
        let setting = setting(100.0, 0.0, 200.0, 50.0);
        let writes = |one| setting.predict(one).unwrap().quorum_writes.unwrap();
        assert!(writes(Algorithm::Grant) < 2.0);
        // A release with a waiter includes the next grant.
        let wait = |contended| Wait { mean_ms: 100.0, contended, waiting: 3.0 };
        for (contended, entries) in [(0.0, 2.0), (1.0, 1.0)] {
            let cost = setting.cost(Algorithm::Grant, &wait(contended)).unwrap();
            assert_eq!((cost.messages, cost.quorum_writes), (4.0, entries));
        }
        assert!((writes(Algorithm::AsyncQueue) - 2.0).abs() < 1e-9);
        assert!(writes(Algorithm::SyncTas) > 5.0);
        assert!(writes(Algorithm::AsyncTas) > 30.0);
    }

    #[test]
    fn names_are_unique_and_found_again() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::named(algorithm.name()), Some(algorithm));
        }
        assert_eq!(Algorithm::named("mutex"), None);
    }

    #[test]
    fn impossible_settings_are_refused() {
        let good = setting(1.0, 1.0, 10.0, 1.0);
        let wrong = [
            Setting { interarrival_ms: 0.0, ..good.clone() },
            Setting { service_ms: f64::NAN, ..good.clone() },
            Setting { poll_ms: 0.0, ..good.clone() },
            Setting { cohort: 0, ..good.clone() },
            Setting { cohort: COHORT_MAX + 1, ..good.clone() },
            Setting { same_user: 1.5, ..good.clone() },
            Setting { requests: Some(0), ..good },
        ];
        for setting in wrong {
            assert!(setting.predict(Algorithm::Grant).is_err(), "{setting:?}");
        }
    }
}
