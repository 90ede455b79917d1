//! Pauses of machines and delays of messages: the random law of a world of elections.
//!
//! Everything follows from a seed, and the law at a given time does not depend on the caller or on
//! the number of calls. A cluster, a second cluster with other time-outs and a probe can therefore
//! live under the same pauses.

use crate::random::Random;

/// Pauses of a machine, or of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// Number per hour.
    pub per_hour: f64,
    /// Mean length; lengths are exponentially distributed.
    pub mean_ms: f64,
    /// Upper bound on the length.
    pub max_ms: f64,
}

/// Law of a world.
#[derive(Clone, Debug)]
pub struct Law {
    /// Pauses of every machine: nothing runs during a pause, and all incoming messages wait.
    pub pauses: Pauses,
    /// Median delay of a message in microseconds, from the machine of the row to that of the
    /// column.
    pub ways_us: Vec<Vec<f64>>,
    /// Standard deviation of the logarithm of that delay.
    pub spread: f64,
    /// Times at which a connection delivers nothing, as when a segment is lost and sent again.
    pub held: Pauses,
    /// Median duration of a synced write, in microseconds.
    pub sync_us: f64,
    /// Median lateness of a timer, in microseconds.
    pub lag_us: f64,
}

/// Number of deviations at which a distribution is truncated.
const CUT: f64 = 3.5;

impl Law {
    /// Number of machines.
    pub fn machines(&self) -> usize {
        self.ways_us.len()
    }

    /// Upper bound on the delay of a message, apart from pauses.
    pub(super) fn way_max_us(&self) -> u64 {
        let all = self.ways_us.iter().flatten().copied();
        (all.fold(0.0, f64::max) * (self.spread * CUT).exp()) as u64 + 1
    }

    /// Duration with this median, from random bits.
    fn skewed(&self, median_us: f64, spread: f64, bits: u64) -> u64 {
        let p = ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        // A logistic variable has a closed inverse, and at this scale the deviation of a standard
        // normal one.
        let z = (p / (1.0 - p)).ln() * 3.0_f64.sqrt() / std::f64::consts::PI;
        (median_us * (spread * z.clamp(-CUT, CUT)).exp()) as u64
    }

    /// Delay of a message.
    pub(super) fn way_us(&self, from: usize, to: usize, bits: u64) -> u64 {
        self.skewed(self.ways_us[from][to], self.spread, bits)
    }

    /// Duration of a synced write.
    pub(super) fn sync_us(&self, bits: u64) -> u64 {
        self.skewed(self.sync_us, 0.12, bits)
    }

    /// Pauses of a machine.
    pub(super) fn pauses_of(&self, seed: u64, machine: usize) -> Pausing {
        Pausing::new(self.pauses, seed, &format!("pauses {machine} 0"))
    }

    /// Times at which a connection delivers nothing.
    pub(super) fn held_of(&self, seed: u64, from: usize, to: usize) -> Pausing {
        Pausing::new(self.held, seed, &format!("held {from} {to} 0"))
    }

    /// Measurements that the machine `own` would have made in so many seconds, with one question
    /// per second to each other machine, in an open loop. For each question `tell` gets the machine
    /// asked, the lateness of the question and the time until the answer was read, in microseconds.
    pub fn questions(
        &self,
        seed: u64,
        own: usize,
        seconds: u64,
        mut tell: impl FnMut(usize, u32, u32),
    ) {
        let machines = self.machines();
        let mut pausing: Vec<Pausing> =
            (0..machines).map(|machine| self.pauses_of(seed, machine)).collect();
        // This machine's pauses at the arrival of an answer, which is later.
        let mut reading = self.pauses_of(seed, own);
        let other = (0..machines).filter(|to| *to != own);
        let mut ways: Vec<(usize, Pausing, Pausing)> = other
            .map(|to| (to, self.held_of(seed, own, to), self.held_of(seed, to, own)))
            .collect();
        let mut random = Random::new(seed, &format!("questions {own}"));
        let phases: Vec<u64> = ways.iter().map(|_| random.below(1_000_000)).collect();
        let mut order: Vec<usize> = (0..ways.len()).collect();
        order.sort_unstable_by_key(|at| phases[*at]);
        for second in 0..seconds {
            for at in order.iter().copied() {
                let due_us = second * 1_000_000 + phases[at];
                let late_us = self.skewed(self.lag_us, 0.5, random.next());
                let sent_us = pausing[own].runs_at(due_us) + late_us;
                let (to, there, back) = &mut ways[at];
                let there_us = there.runs_at(sent_us) + self.way_us(own, *to, random.next());
                let answered_us = pausing[*to].runs_at(there_us);
                let back_us = back.runs_at(answered_us) + self.way_us(*to, own, random.next());
                let read_us = reading.runs_at(back_us);
                tell(*to, (sent_us - due_us) as u32, (read_us - sent_us) as u32);
            }
        }
    }
}

/// Sequence of pauses.
#[derive(Clone, Debug)]
pub(super) struct Pausing {
    law: Pauses,
    random: Random,
    begin_us: u64,
    end_us: u64,
}

impl Pausing {
    fn new(law: Pauses, seed: u64, purpose: &str) -> Self {
        let mut new = Self { law, random: Random::new(seed, purpose), begin_us: 0, end_us: 0 };
        new.next();
        new
    }

    /// Advances to the next pause.
    fn next(&mut self) {
        if self.law.per_hour <= 0.0 {
            (self.begin_us, self.end_us) = (u64::MAX, u64::MAX);
            return;
        }
        self.begin_us = self.end_us + exponential(&mut self.random, 3.6e9 / self.law.per_hour);
        let length_us = exponential(&mut self.random, self.law.mean_ms * 1e3);
        self.end_us = self.begin_us + length_us.min((self.law.max_ms * 1e3) as u64);
    }

    /// Pause at a given time, or the next one. Times must not go back by more than a pause.
    pub fn at(&mut self, at_us: u64) -> (u64, u64) {
        while self.end_us <= at_us {
            self.next();
        }
        (self.begin_us, self.end_us)
    }

    /// Time at which a task that is due at `at_us` runs.
    pub fn runs_at(&mut self, at_us: u64) -> u64 {
        let (begin_us, end_us) = self.at(at_us);
        if begin_us <= at_us { end_us } else { at_us }
    }
}

fn exponential(random: &mut Random, mean: f64) -> u64 {
    let unit = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
    (-(1.0 - unit).ln() * mean) as u64
}
