//! The papers' Markov chain for "wait for all of n replies", and a proof that a sum suffices.
//!
//! Time goes in steps. A state has the number of steps that each reply still needs; all count down
//! together, and when none needs any, n new requests are sent. A round lasts as long as its slowest
//! reply plus the step that sends the requests, so the chain is at its origin once in every
//! E\[max\] + 1 steps. Only the start of a round is random: on (R + 1)^n states the chain gives the
//! same result as E\[max\] = sum over x of (1 - product of `F_i(x)`) does in n R steps. It is kept
//! because the papers state it, and because two separate implementations must agree.

use crate::law::{Invalid, Law};

/// Most states of a chain.
pub const STATES_MAX: usize = 1_000_000;

/// The probabilities of 0, 1, 2, ... steps of `step_ms`, each time rounded up, until all but
/// `left_out` is covered; that rest is given to the last step.
///
/// # Errors
/// The step is not above zero, or the distribution needs more than [`STATES_MAX`] of them.
pub fn in_steps(law: &Law, step_ms: f64, left_out: f64) -> Result<Vec<f64>, Invalid> {
    let step_ms = crate::law::positive("a step", step_ms)?;
    let last = (law.quantile(1.0 - left_out.clamp(1e-12, 1.0)) / step_ms - 1e-9).ceil().max(0.0);
    if last >= STATES_MAX as f64 {
        return Err(Invalid(format!("more than {STATES_MAX} steps of {step_ms} ms")));
    }
    let last = last as usize;
    // A time at the end of a step belongs to it, although the product may be rounded.
    let cdf = |step: usize| {
        if step == last { 1.0 } else { law.cdf(step as f64 * step_ms * (1.0 + 1e-12)) }
    };
    let of_step = |step| if step == 0 { cdf(0) } else { cdf(step) - cdf(step - 1) };
    Ok((0..=last).map(of_step).collect())
}

/// The mean of the slowest of independent replies, in steps, by the sum.
pub fn mean_of_slowest(replies: &[Vec<f64>]) -> f64 {
    let steps = replies.iter().map(Vec::len).max().unwrap_or(0);
    let mut cdfs = vec![0.0; replies.len()];
    let mut mean = 0.0;
    for x in 0..steps {
        let mut all = 1.0;
        for (cdf, reply) in cdfs.iter_mut().zip(replies) {
            *cdf += reply.get(x).copied().unwrap_or(0.0);
            all *= *cdf;
        }
        mean += 1.0 - all;
    }
    mean
}

/// The chain over the steps that each reply still needs.
#[derive(Clone, Debug)]
pub struct Countdown {
    replies: Vec<Vec<f64>>,
    states: usize,
}

impl Countdown {
    /// A chain for replies with these probabilities of 0, 1, 2, ... steps.
    ///
    /// # Errors
    /// There are no replies, or more than [`STATES_MAX`] states.
    pub fn new(replies: Vec<Vec<f64>>) -> Result<Self, Invalid> {
        let fits = |states: usize, reply: &Vec<f64>| {
            states.checked_mul(reply.len()).filter(|&states| (1..=STATES_MAX).contains(&states))
        };
        match replies.iter().try_fold(1, fits) {
            Some(states) if !replies.is_empty() => Ok(Self { replies, states }),
            _ => Err(Invalid(format!("a chain has 1 to {STATES_MAX} states"))),
        }
    }

    /// The steps that each reply needs in a state, least significant first.
    fn remaining(&self, mut state: usize) -> impl Iterator<Item = usize> + '_ {
        self.replies.iter().map(move |reply| {
            let steps = state % reply.len();
            state /= reply.len();
            steps
        })
    }

    fn after_one_step(&self, state: usize) -> usize {
        let places = self.replies.iter().scan(1, |place, reply| {
            let here = *place;
            *place *= reply.len();
            Some(here)
        });
        let running = self.remaining(state).zip(places).filter(|(steps, _)| *steps > 0);
        state - running.map(|(_, place)| place).sum::<usize>()
    }

    /// Stationary probability of each state; the origin, where no reply is outstanding, is first.
    pub fn stationary(&self) -> Vec<f64> {
        let start = |state| -> f64 {
            let steps = self.remaining(state).zip(&self.replies);
            steps.map(|(steps, reply)| reply[steps]).product()
        };
        // Visits between two visits to the origin. A state is entered from a larger one only, or
        // at the start of a round: going downwards, every state is complete when it is left.
        let mut visits: Vec<f64> = (0..self.states).map(start).collect();
        for state in (1..self.states).rev() {
            let next = self.after_one_step(state);
            if next != 0 {
                visits[next] += visits[state];
            }
        }
        visits[0] = 1.0;
        let total: f64 = visits.iter().sum();
        visits.iter().map(|visits| visits / total).collect()
    }

    /// The mean of the slowest reply, in steps, from the stationary probability of the origin.
    pub fn mean_of_slowest(&self) -> f64 {
        1.0 / self.stationary()[0] - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_and_the_sum_agree() {
        let laws = [
            Law::uniform(0.0, 12.0).unwrap(),
            Law::exponential(3.0).unwrap(),
            Law::histogram(&[(0.0, 1.0), (2.0, 5.0), (9.0, 1.0)]).unwrap(),
        ];
        let replies: Vec<Vec<f64>> =
            laws.iter().map(|law| in_steps(law, 1.0, 1e-4).unwrap()).collect();
        for some in 1..=3 {
            let chain = Countdown::new(replies[..some].to_vec()).unwrap();
            let sum = mean_of_slowest(&replies[..some]);
            assert!((chain.mean_of_slowest() - sum).abs() < 1e-9 * sum, "{some} {sum}");
            assert!((chain.stationary().iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn small_steps_come_near_to_the_continuous_law() {
        let law = Law::uniform(10.0, 20.0).unwrap();
        let replies = vec![in_steps(&law, 0.01, 1e-12).unwrap(); 4];
        // Rounding up adds half a step on average.
        let mean_ms = (mean_of_slowest(&replies) - 0.5) * 0.01;
        assert!((mean_ms - 18.0).abs() < 1e-3, "{mean_ms}");
    }

    #[test]
    fn a_constant_takes_exactly_its_steps() {
        let reply = in_steps(&Law::constant(0.3).unwrap(), 0.1, 1e-9).unwrap();
        assert_eq!(reply.iter().position(|&p| p > 0.5), Some(3));
        let chain = Countdown::new(vec![reply.clone(), reply]).unwrap();
        assert!((chain.mean_of_slowest() - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_chain_that_is_too_large_is_refused() {
        assert!(Countdown::new(vec![vec![0.001; 1000]; 2]).is_ok());
        assert!(Countdown::new(vec![vec![0.001; 1000], vec![0.001; 1001]]).is_err());
        assert!(Countdown::new(vec![]).is_err());
        assert!(Countdown::new(vec![vec![]]).is_err());
        assert!(in_steps(&Law::constant(1e9).unwrap(), 1.0, 0.0).is_err());
        assert!(in_steps(&Law::zero(), 0.0, 0.0).is_err());
    }
}
