//! Tail of the waits: one waiting request is followed until it wins.
//!
//! Time goes in steps. The lock is free, taken (a constant time, kept as a line of steps) or in
//! service; the state includes the number of waiters, the followed one among them. The request may
//! arrive at any time, so it begins with the lock at a random moment of its long run.

use super::{Tries, after_one};
use crate::numeric::poisson;
use std::collections::VecDeque;

/// Steps of the constant time.
const STEPS: f64 = 24.0;

/// Most states times steps of a computation that is worth while.
const WORK_MAX: usize = 300_000_000;

/// Probability of more waiters than are distinguished.
const NEGLIGIBLE: f64 = 1e-6;

/// States of the followed request: probabilities by number of waiters, itself included.
struct Followed<'a> {
    tries: &'a Tries,
    step_ms: f64,
    /// For each number of waiters: probability that a free lock is taken in a step, and that a new
    /// request takes it.
    gaps: Vec<(f64, f64)>,
    /// Requests that arrive while the lock is taken.
    arrivals: Vec<f64>,
    free: Vec<f64>,
    taken: VecDeque<Vec<f64>>,
    service: Vec<f64>,
}

/// The wait that is not exceeded with probability `p`.
pub fn quantile(tries: &Tries, p: f64) -> Option<f64> {
    let mut released = tries.stationary()?;
    let mut left_out = 0.0;
    while released.last().is_some_and(|last| left_out + last < NEGLIGIBLE) {
        left_out += released.pop().unwrap_or(0.0);
    }
    let mut followed = Followed::new(tries, released.len() + 4);
    let mut waiting = followed.arrive(&released);
    let mut steps = 0;
    loop {
        let left = 1.0 - p;
        if waiting <= left {
            return Some(steps as f64 * followed.step_ms);
        }
        let before = waiting;
        waiting -= followed.step();
        if waiting <= left {
            // Linear between two steps.
            let part = (before - left) / (before - waiting);
            return Some((steps as f64 + part) * followed.step_ms);
        }
        steps += 1;
        if steps * followed.work() > WORK_MAX {
            return None;
        }
    }
}

impl<'a> Followed<'a> {
    fn new(tries: &'a Tries, waiting_max: usize) -> Self {
        let busy_ms = tries.overhead_ms + tries.service_ms;
        let line = (STEPS * tries.overhead_ms / busy_ms).ceil().max(1.0);
        let step_ms = (tries.overhead_ms / line).max(busy_ms / (4.0 * STEPS));
        let line = (tries.overhead_ms / step_ms).round() as usize;
        let gap = |waiting: usize| {
            (step_ms / (step_ms + tries.gap_ms(waiting)), tries.overtaken(waiting))
        };
        let mut arrivals = poisson(tries.overhead_ms / tries.interarrival_ms);
        let last = arrivals.iter().rposition(|&chance| chance > 1e-9).unwrap_or(0);
        arrivals.truncate(last + 1);
        let none = vec![0.0; waiting_max + 1];
        Self {
            tries,
            step_ms,
            gaps: (0..=waiting_max).map(gap).collect(),
            arrivals,
            free: none.clone(),
            taken: std::iter::repeat_n(none.clone(), line).collect(),
            service: none,
        }
    }

    fn work(&self) -> usize {
        self.free.len() * (self.arrivals.len() + 3)
    }

    /// Lets the request arrive at a random moment of a lock whose state is known at its releases;
    /// returns the probability that it waits.
    fn arrive(&mut self, released: &[f64]) -> f64 {
        let per_ms = 1.0 / self.tries.interarrival_ms;
        let overtaken: Vec<f64> = self.gaps.iter().map(|(_, overtaken)| *overtaken).collect();
        // A request that arrives while the lock is free wins at once.
        let others = after_one(released, &overtaken, &[1.0]);
        let line = self.taken.len().max(1) as f64;
        for place in &mut self.taken {
            let chance = per_ms * self.tries.overhead_ms / line;
            join(place, &others, chance);
        }
        let mut service = after_one(released, &overtaken, &self.arrivals);
        let (step_ms, mean_ms) = (self.step_ms, self.tries.service_ms);
        let stays = mean_ms / (mean_ms + step_ms);
        while service.iter().sum::<f64>() > NEGLIGIBLE * NEGLIGIBLE {
            service.iter_mut().for_each(|chance| *chance *= stays);
            join(&mut self.service, &service, per_ms * step_ms);
            service.push(0.0);
            more(&mut service, per_ms * step_ms);
        }
        let parts = self.taken.iter().chain([&self.service]);
        parts.flatten().sum()
    }

    /// Advances one step; returns the probability that the request has won in it.
    fn step(&mut self) -> f64 {
        let mut won = 0.0;
        let mut taken = vec![0.0; self.free.len()];
        for k in 1..self.free.len() {
            let (ends, overtaken) = self.gaps[k];
            let ended = ends * self.free[k];
            self.free[k] -= ended;
            taken[k] += ended * overtaken;
            let by_one_of_them = ended * (1.0 - overtaken);
            won += by_one_of_them / k as f64;
            taken[k - 1] += by_one_of_them * (k - 1) as f64 / k as f64;
        }
        self.taken.push_back(taken);
        let begins = self.taken.pop_front().unwrap_or_default();
        let per_step = self.step_ms / self.tries.interarrival_ms;
        more(&mut self.service, per_step);
        let last = self.service.len() - 1;
        for (k, chance) in begins.iter().enumerate().filter(|(_, chance)| **chance > 0.0) {
            for (more, arrival) in self.arrivals.iter().enumerate() {
                self.service[(k + more).min(last)] += chance * arrival;
            }
        }
        let ends = self.step_ms / (self.step_ms + self.tries.service_ms);
        for (free, service) in self.free.iter_mut().zip(&mut self.service) {
            *free += *service * ends;
            *service *= 1.0 - ends;
        }
        won
    }
}

/// Adds the followed request to `others`, the waiters, with this probability.
fn join(into: &mut [f64], others: &[f64], chance: f64) {
    let last = into.len() - 1;
    for (k, other) in others.iter().enumerate() {
        into[(k + 1).min(last)] += chance * other;
    }
}

/// Adds one request, with this probability.
fn more(waiting: &mut [f64], chance: f64) {
    for k in (1..waiting.len()).rev() {
        let comes = waiting[k - 1] * chance;
        waiting[k] += comes;
        waiting[k - 1] -= comes;
    }
}
