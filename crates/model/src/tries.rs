//! Locks that are taken by the first successful try (test and set): the duration of the tries of a
//! request.
//!
//! After a release the lock stays free until the next try of a waiter, and the more waiters there
//! are, the sooner that is: the time for which a request occupies the lock depends on k, the number
//! of waiters. The papers' formula, in which the lock is as good as a queue, therefore does not
//! hold. Observed at the times of release, k is still a Markov chain. A gap in which the lock is
//! free follows, until the next try, or an earlier new request; then the lock is taken for a
//! constant time and an exponential service, while more requests arrive. The chain goes down by one
//! at most, so its stationary distribution follows from counting, upwards, the crossings of each k.
//!
//! Tries of one request are a period apart, and are assumed to be uniformly distributed in it.
//! There is one correction. Where the period is the round trip that is also part of the occupancy,
//! and services are short, the lock is free again one period later: the next winner is the request
//! that tries next after the last winner in the period. Tries just ahead of that point are dense,
//! as none there has won for a whole turn, and tries just behind it are few. With sigma the part of
//! its way on which the point wins (gap over gap plus service), they are 1 / (1 - sigma / 2) times
//! as dense as on average.

mod tail;

use crate::law::Invalid;
use crate::numeric::{mean_of_complement, poisson};
use crate::turns::check_run;
use serde::Serialize;

/// Most waiters of a settled lock that are modelled.
const WAITING_MAX: usize = 3_000;

/// Probability below which a lock counts as settled.
const NEGLIGIBLE: f64 = 1e-11;

/// Time of the next try of a request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// After the failure of the last try, each of which takes `period_ms`.
    Failed {
        /// Time between two tries.
        period_ms: f64,
    },
    /// Periodically, without waiting for replies.
    Timed {
        /// Time between two tries.
        period_ms: f64,
    },
    /// When it is notified, with all others, that the lock is free.
    Told {
        /// Time from the release to the tries that follow it.
        delay_ms: f64,
        /// The part of that which is a round trip of the client.
        rtt_ms: f64,
    },
}

/// A lock that is taken by the first try, with Poisson arrivals of requests.
#[derive(Clone, Copy, Debug)]
pub struct Tries {
    /// Mean time between two requests.
    pub interarrival_ms: f64,
    /// Mean of the exponential time for which a lock is held.
    pub service_ms: f64,
    /// Time from the winning try to the release besides the service.
    pub overhead_ms: f64,
    /// Time of the next try of a request.
    pub retry: Retry,
}

/// Prediction for requests that try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trying {
    /// Mean time from a request's first try to the one that wins.
    pub wait_ms: f64,
    /// Mean number of waiters at a release.
    pub waiting: f64,
}

/// Probabilities of 0, 1, 2, ... requests while the lock is taken, and of that many or more.
struct Arrivals {
    chance: Vec<f64>,
    at_least: Vec<f64>,
}

impl Retry {
    /// Number of tries in a period just after a release, as if they were uniformly distributed.
    fn rivals(&self, waiting: usize, service_ms: f64) -> f64 {
        let Self::Failed { period_ms } = *self else { return waiting as f64 };
        // The latest request: its tries pass the release once, and a second time if the service is
        // longer than a period; tries before the release do not count.
        let services = service_ms / period_ms;
        let second = if services > 0.0 { 1.0 / (1.0 / services).exp_m1() } else { 0.0 };
        let fresh = (1.0 + second) / (1.0 + services);
        let mut rivals = waiting as f64;
        // The larger sigma, the smaller the gap, and that makes sigma smaller: this converges.
        for _ in 0..60 {
            let gap = period_ms / (rivals + 1.0);
            let sigma = gap / (gap + service_ms);
            rivals = fresh + (waiting as f64 - 1.0) / (1.0 - sigma / 2.0);
        }
        rivals
    }
}

impl Tries {
    /// The mean gap after a release with `waiting` requests: the time until one of them tries, or a
    /// new one arrives. Zero without waiters: the lock is then free too, but no request is late.
    pub fn gap_ms(&self, waiting: usize) -> f64 {
        self.interarrival_ms * self.overtaken(waiting)
    }

    /// The mean time for which a request occupies the lock if `waiting` others were present at the
    /// release before.
    pub fn occupancy_ms(&self, waiting: usize) -> f64 {
        self.gap_ms(waiting) + self.overhead_ms + self.service_ms
    }

    /// The load of a lock with very many waiters.
    pub fn load(&self) -> f64 {
        let gap_ms = match self.retry {
            Retry::Told { .. } => self.gap_ms(2),
            Retry::Failed { .. } | Retry::Timed { .. } => 0.0,
        };
        (gap_ms + self.overhead_ms + self.service_ms) / self.interarrival_ms
    }

    /// Probability that a new request takes the lock before any of `waiting` tries again. It is
    /// also the mean gap in interarrival times, as the gap ends with the first.
    fn overtaken(&self, waiting: usize) -> f64 {
        if waiting == 0 {
            return 0.0;
        }
        match self.retry {
            Retry::Told { delay_ms, rtt_ms } => self.overtaken_told(waiting, delay_ms, rtt_ms),
            Retry::Failed { period_ms } | Retry::Timed { period_ms } => {
                // With v for the probability that no rival has tried in a part of the period, and
                // one rival more: the integral over v of exp(-the part / interarrival).
                let root = 1.0 / (self.retry.rivals(waiting, self.service_ms) + 1.0);
                let periods = period_ms / self.interarrival_ms;
                let cuts: Vec<f64> = (0..=32).map(|i| f64::from(i) / 32.0).collect();
                let none_yet = |v: f64| (-periods * (1.0 - v.powf(root))).exp();
                periods * root * mean_of_complement(&cuts, none_yet)
            }
        }
    }

    /// [`Self::overtaken`] for notified clients. A failed request reads the node before it waits
    /// for the notification. If that read finds the lock free, the next try is one round trip
    /// later, and may precede those of notified clients.
    fn overtaken_told(&self, waiting: usize, delay_ms: f64, rtt_ms: f64) -> f64 {
        let in_arrivals = |ms: f64| ms / self.interarrival_ms;
        let rtt = in_arrivals(rtt_ms.min(delay_ms));
        let first = -(-rtt).exp_m1();
        let rest = in_arrivals(delay_ms) - rtt;
        let told = first + (1.0 - first) * -(-2.0 * rest).exp_m1() / 2.0;
        if waiting > 1 {
            return told;
        }
        // A single waiter: most likely it has arrived within the last read, and is not notified.
        let look = in_arrivals(delay_ms);
        let looks = if look > 0.0 { 1.0 + (-look).exp_m1() / look } else { 0.0 };
        let looking = delay_ms / (delay_ms + self.service_ms);
        let alone = first + (1.0 - first) * looks;
        looking * alone + (1.0 - looking) * told
    }

    fn arrivals(&self) -> Arrivals {
        let mut chance = poisson(self.overhead_ms / self.interarrival_ms);
        // During an exponential time the number of arrivals is geometric.
        let more = self.service_ms / (self.service_ms + self.interarrival_ms);
        let mut carried = 0.0;
        for chance in &mut chance {
            carried = carried * more + *chance * (1.0 - more);
            *chance = carried;
        }
        while carried > 1e-15 {
            carried *= more;
            chance.push(carried);
        }
        let mut at_least = chance.clone();
        for n in (0..at_least.len() - 1).rev() {
            at_least[n] += at_least[n + 1];
        }
        Arrivals { chance, at_least }
    }

    /// The wait that is not exceeded with probability `p`, in the long run; `None` if the lock does
    /// not settle, or only after so long that the computation is not worth while. Approximate: gaps
    /// are assumed to be exponential, and all waiters equally likely to end them.
    pub fn quantile(&self, p: f64) -> Option<f64> {
        tail::quantile(self, p)
    }

    /// Distribution of the number of waiters at a release, in the long run; `None` if the lock does
    /// not settle, or with too many waiters.
    pub(crate) fn stationary(&self) -> Option<Vec<f64>> {
        if self.load() >= 1.0 {
            return None;
        }
        let arrivals = self.arrivals();
        let at_least = |n: usize| arrivals.at_least.get(n).copied().unwrap_or(0.0);
        let mut overtaken = vec![0.0];
        let mut visits = vec![1.0];
        let mut total = 1.0;
        for j in 0..WAITING_MAX {
            overtaken.push(self.overtaken(j + 1));
            // Up across j: from i with j - i + 2 arrivals or more, one of them perhaps in the gap;
            // from none with j + 1, as the first comes before the lock is taken.
            let mut up = visits[0] * at_least(j + 1);
            let far = arrivals.at_least.len();
            for i in 1.max((j + 2).saturating_sub(far))..=j {
                let beyond = (1.0 - overtaken[i]) * at_least(j + 2 - i);
                up += visits[i] * (beyond + overtaken[i] * at_least(j + 1 - i));
            }
            let down = (1.0 - overtaken[j + 1]) * arrivals.chance[0];
            let next = up / down;
            visits.push(next);
            total += next;
            if next < NEGLIGIBLE * total && j > 4 {
                visits.iter_mut().for_each(|visits| *visits /= total);
                return Some(visits);
            }
        }
        None
    }

    /// The prediction for the long run; `None` if the lock does not settle.
    pub fn settled(&self) -> Option<Trying> {
        let stationary = self.stationary()?;
        let waiting: f64 = stationary.iter().enumerate().map(|(k, chance)| k as f64 * chance).sum();
        // The waiters at a release have arrived during the stay of the request that leaves
        // (Little).
        let stay_ms = waiting * self.interarrival_ms;
        Some(Trying { wait_ms: (stay_ms - self.overhead_ms - self.service_ms).max(0.0), waiting })
    }

    /// The prediction for the first `requests` together, if the first finds the lock free.
    /// Whichever request wins, the sum of all waits is that of all releases less that of all
    /// arrivals.
    ///
    /// # Errors
    /// There are no requests, or more than a run may have.
    pub fn run(&self, requests: u32) -> Result<Trying, Invalid> {
        check_run(requests)?;
        let arrivals = self.arrivals();
        let taken_ms = self.overhead_ms + self.service_ms;
        let mut overtaken: Vec<f64> = Vec::new();
        let mut waiting = vec![1.0];
        let (mut released_ms, mut stays_ms, mut waiting_sum) = (0.0, 0.0, 0.0);
        for request in 1..=requests {
            for k in overtaken.len()..waiting.len() {
                overtaken.push(self.overtaken(k));
            }
            // A free lock waits for the next request, and a gap is a part of that time.
            let free: f64 = waiting[0]
                + waiting.iter().zip(&overtaken).map(|(chance, part)| chance * part).sum::<f64>();
            released_ms += free * self.interarrival_ms + taken_ms;
            stays_ms += released_ms - f64::from(request) * self.interarrival_ms;
            waiting = after_one(&waiting, &overtaken, &arrivals.chance);
            waiting_sum += waiting.iter().enumerate().map(|(k, c)| k as f64 * c).sum::<f64>();
        }
        let requests = f64::from(requests);
        let wait_ms = (stays_ms / requests - taken_ms).max(0.0);
        Ok(Trying { wait_ms, waiting: waiting_sum / requests })
    }
}

/// Distribution of the number of waiters at the next release.
fn after_one(waiting: &[f64], overtaken: &[f64], arrivals: &[f64]) -> Vec<f64> {
    // The request that takes the lock waits no longer; a new request that does has never waited.
    let mut others = vec![0.0; waiting.len()];
    others[0] += waiting[0];
    for k in 1..waiting.len() {
        others[k - 1] += waiting[k] * (1.0 - overtaken[k]);
        others[k] += waiting[k] * overtaken[k];
    }
    let mut next = vec![0.0; others.len() + arrivals.len() - 1];
    for (k, chance) in others.iter().enumerate().filter(|(_, chance)| **chance > 0.0) {
        for (more, arrival) in arrivals.iter().enumerate() {
            next[k + more] += chance * arrival;
        }
    }
    let last = next.iter().rposition(|&chance| chance > 1e-15).unwrap_or(0);
    next.truncate(last + 1);
    next
}
