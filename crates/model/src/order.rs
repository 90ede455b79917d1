//! Waiting for some of several replies: for all of them, for the fastest, for a majority.
//!
//! The number of independent replies that have arrived by some time has the Poisson-binomial
//! distribution. It is computed reply by reply, in n^2 steps for each time, exactly and for any
//! distributions, equal or not. The mean is the integral of its complement.
//!
//! A committed entry is on the disks of a majority, of which the leader's own disk is one: the
//! papers' "fastest majority of the replies" forgets that disk, and their "cost of consensus", the
//! slowest of all replies, is never paid by a quorum.

use crate::law::{Invalid, Law, pieces};
use crate::numeric::{first_above, mean_of_complement};
use serde::Serialize;

/// Most replies to wait for.
pub const REPLIES_MAX: usize = 1_000;

/// The time at which a given number of independent replies has arrived.
#[derive(Clone, Debug)]
pub struct Fastest {
    laws: Vec<Law>,
    needed: usize,
}

impl Fastest {
    /// The time of the `needed`-th of the replies with these distributions.
    ///
    /// # Errors
    /// There are no replies, more than [`REPLIES_MAX`], or `needed` is not among them.
    pub fn new(laws: Vec<Law>, needed: usize) -> Result<Self, Invalid> {
        let replies = laws.len();
        if !(1..=REPLIES_MAX).contains(&replies) {
            return Err(Invalid(format!("1 to {REPLIES_MAX} replies, not {replies}")));
        }
        if !(1..=replies).contains(&needed) {
            return Err(Invalid(format!(
                "it is impossible to wait for {needed} of {replies} replies"
            )));
        }
        Ok(Self { laws, needed })
    }

    /// The time of the last of the replies.
    ///
    /// # Errors
    /// As for [`Fastest::new`].
    pub fn all(laws: Vec<Law>) -> Result<Self, Invalid> {
        let needed = laws.len();
        Self::new(laws, needed.max(1))
    }

    /// Probability that enough replies have arrived after `t_ms`.
    pub fn cdf(&self, t_ms: f64) -> f64 {
        // chance[j]: exactly j of the replies so far; the last place stands for "enough".
        let mut chance = vec![0.0; self.needed + 1];
        chance[0] = 1.0;
        for law in &self.laws {
            let here = law.cdf(t_ms);
            chance[self.needed] += chance[self.needed - 1] * here;
            for j in (1..self.needed).rev() {
                chance[j] = chance[j] * (1.0 - here) + chance[j - 1] * here;
            }
            chance[0] *= 1.0 - here;
        }
        chance[self.needed].min(1.0)
    }

    /// The mean, in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        mean_of_complement(&pieces(&self.laws), |t| 1.0 - self.cdf(t))
    }

    /// The time after which enough replies have arrived with probability `p`.
    pub fn quantile(&self, p: f64) -> f64 {
        let high = self.laws.iter().map(|law| law.quantile(1.0)).fold(0.0, f64::max);
        first_above(-f64::MIN_POSITIVE, high, |t| self.cdf(t) >= p.min(1.0 - 1e-12)).max(0.0)
    }

    /// The distribution of that time, for further use: exact if every reply takes a constant time,
    /// else on a grid.
    pub fn law(&self) -> Law {
        if self.laws.iter().all(Law::is_constant) {
            let mut times: Vec<f64> = self.laws.iter().map(Law::mean_ms).collect();
            times.sort_by(f64::total_cmp);
            // Every distribution has been checked, so its mean is a time.
            return Law::constant(times[self.needed - 1]).unwrap_or(Law::zero());
        }
        let (start, end) = (self.quantile(0.0), self.quantile(1.0 - 1e-9));
        Law::tabulated(start, end, self.mean_ms(), |t| self.cdf(t))
    }
}

/// A server of a replicated log, from its leader's view.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Follower {
    /// Round trip between the leader and this server.
    pub rtt: Law,
    /// One durable log write of this server.
    pub disk: Law,
}

/// The number of servers in a majority of `servers`.
pub const fn majority(servers: usize) -> usize {
    servers / 2 + 1
}

/// Time from the arrival of an entry at the leader to its commit: the leader's own write counts,
/// and a follower's reply takes its round trip and its write.
///
/// # Errors
/// There are more servers than [`REPLIES_MAX`].
pub fn commit(leader_disk: &Law, followers: &[Follower]) -> Result<Fastest, Invalid> {
    let replies = followers.iter().map(|follower| follower.rtt.plus(&follower.disk));
    let laws: Vec<Law> = std::iter::once(leader_disk.clone()).chain(replies).collect();
    let needed = majority(laws.len());
    Fastest::new(laws, needed)
}

/// Duration of a commit in two phases, each of which waits for every participant. The mean is twice
/// that of the slowest reply, which is more than twice the mean reply.
///
/// # Errors
/// As for [`Fastest::new`].
pub fn two_phase(participants: Vec<Law>) -> Result<Law, Invalid> {
    let phase = Fastest::all(participants)?.law();
    Ok(phase.plus(&phase))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-5 * expected, "{found} is not {expected}");
    }

    #[test]
    fn uniform_replies_divide_the_range_evenly() {
        for m in [1, 2, 4, 6] {
            let laws = vec![Law::uniform(10.0, 20.0).unwrap(); m];
            for k in 1..=m {
                let fastest = Fastest::new(laws.clone(), k).unwrap();
                near(fastest.mean_ms(), 10.0 + 10.0 * k as f64 / (m + 1) as f64);
            }
        }
    }

    #[test]
    fn exponential_replies_come_at_the_partial_harmonic_sums() {
        for m in [1, 2, 5, 9] {
            let laws = vec![Law::exponential(5.0).unwrap(); m];
            for k in 1..=m {
                let sum: f64 = (m - k + 1..=m).map(|i| 1.0 / i as f64).sum();
                near(Fastest::new(laws.clone(), k).unwrap().mean_ms(), 5.0 * sum);
            }
        }
    }

    #[test]
    fn unequal_replies_are_ordered_as_they_should_be() {
        let constants = [30.0, 10.0, 20.0].map(|ms| Law::constant(ms).unwrap());
        for (k, expected) in [(1, 10.0), (2, 20.0), (3, 30.0)] {
            let fastest = Fastest::new(constants.to_vec(), k).unwrap();
            near(fastest.mean_ms(), expected);
            near(fastest.quantile(0.5), expected);
            assert!(fastest.law().is_constant());
        }
        // The faster of two exponentials has the sum of their rates; the slower has the rest.
        let pair = vec![Law::exponential(2.0).unwrap(), Law::exponential(6.0).unwrap()];
        near(Fastest::new(pair.clone(), 1).unwrap().mean_ms(), 1.5);
        near(Fastest::all(pair).unwrap().mean_ms(), 2.0 + 6.0 - 1.5);
    }

    #[test]
    fn a_commit_needs_half_of_the_followers_and_the_leaders_own_disk() {
        let follower =
            |rtt| Follower { rtt: Law::constant(rtt).unwrap(), disk: Law::constant(1.0).unwrap() };
        let disk = Law::constant(1.0).unwrap();
        near(commit(&disk, &[]).unwrap().mean_ms(), 1.0);
        near(commit(&disk, &[follower(5.0), follower(90.0)]).unwrap().mean_ms(), 6.0);
        let five = [90.0, 5.0, 7.0, 80.0].map(follower);
        near(commit(&disk, &five).unwrap().mean_ms(), 8.0);
        // A leader with a slow disk need not wait for it.
        let slow = Law::constant(50.0).unwrap();
        near(commit(&slow, &five[..3]).unwrap().mean_ms(), 50.0);
        near(commit(&slow, &five).unwrap().mean_ms(), 50.0);
        near(commit(&slow, &[2.0, 3.0, 4.0, 5.0].map(follower)).unwrap().mean_ms(), 5.0);
    }

    #[test]
    fn a_majority_is_faster_than_the_mean_and_all_are_slower() {
        let round_trip = Law::uniform(10.0, 20.0).unwrap();
        let followers = vec![Follower { rtt: round_trip.clone(), disk: Law::zero() }; 4];
        let quorum = commit(&Law::zero(), &followers).unwrap();
        near(quorum.mean_ms(), 14.0);
        let all = Fastest::all(vec![round_trip.clone(); 4]).unwrap();
        near(all.mean_ms(), 18.0);
        let two = two_phase(vec![round_trip; 4]).unwrap();
        near(two.mean_ms(), 36.0);
        assert!((two.quantile(0.5) - 36.0).abs() < 1.0);
    }

    #[test]
    fn the_law_of_a_commit_can_be_used_like_any_other() {
        let followers =
            vec![Follower { rtt: Law::exponential(5.0).unwrap(), disk: Law::zero() }; 2];
        let quorum = commit(&Law::zero(), &followers).unwrap();
        let law = quorum.law();
        near(law.mean_ms(), 2.5);
        for p in [0.1, 0.5, 0.99] {
            assert!((law.quantile(p) - quorum.quantile(p)).abs() < 0.01);
        }
    }

    #[test]
    fn impossible_numbers_of_replies_are_refused() {
        assert!(Fastest::new(vec![], 1).is_err());
        assert!(Fastest::new(vec![Law::zero()], 2).is_err());
        assert!(Fastest::new(vec![Law::zero()], 0).is_err());
        assert!(Fastest::all(vec![Law::zero(); REPLIES_MAX]).is_ok());
        assert!(Fastest::all(vec![Law::zero(); REPLIES_MAX + 1]).is_err());
    }
}
