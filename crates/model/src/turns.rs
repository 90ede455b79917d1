//! Locks that are taken in turn: the time for which a request waits for those before it.
//!
//! Let U be the time by which the release of the request before exceeds this one's earliest
//! possible entry. A request that finds the lock free (U <= 0) does not wait; one that is notified
//! in time waits U; but clients that must poll notice late, by a time that depends on U
//! ([`Notice`]). The wait is therefore a function z(U), and with V the time for which a request
//! occupies the lock and A the time to the next arrival,
//!
//! U' = z(U) + V - A.
//!
//! For z(U) = max(U, 0) this is Lindley's recursion of the queue M/G/1, and the mean is that of
//! Pollaczek and Khinchine. For the others, crossings of each level are counted in the long run:
//! the rate of crossings down through x equals that of crossings up through it, which happen when a
//! request arrives below. With Poisson arrivals and V = constant + exponential that is a Volterra
//! equation which is solved from zero upwards in one pass. For a run of some requests that starts
//! with a free lock, the recursion itself is carried out on a grid: then overloaded locks have an
//! answer, too.

use crate::law::Invalid;
use serde::Serialize;

/// Most requests of a run.
pub const RUN_MAX: u32 = 10_000;

/// Cells per mean occupancy.
const CELLS: f64 = 256.0;

/// Most cells. Where waits are so long that more were needed, cells are made wider.
const CELLS_MAX: f64 = 2_000_000.0;

/// Probability below which the end of a grid is cut off.
const NEGLIGIBLE: f64 = 1e-13;

/// Means by which the next request learns that the lock is free.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// A notification, without delay.
    Told,
    /// One read; if it is not first, it watches its predecessor, and is notified when that leaves.
    /// If it finds the predecessor gone, it reads once more.
    Reads {
        /// Time that a read takes.
        rtt_ms: f64,
        /// Whether it reads once more after the notification, before it enters.
        again: bool,
    },
    /// Periodic reads.
    Polls {
        /// Time between two reads.
        interval_ms: f64,
    },
}

/// A lock that is taken in turn, with Poisson arrivals of requests.
#[derive(Clone, Debug)]
pub struct Turns {
    /// Mean time between two requests.
    pub interarrival_ms: f64,
    /// Mean of the exponential time for which a lock is held.
    pub service_ms: f64,
    /// Time from the end of service until the next request can have the lock: times and their
    /// probabilities.
    pub overheads: Vec<(f64, f64)>,
    /// Means by which the next request learns of it.
    pub notice: Notice,
}

/// The distribution of a wait.
#[derive(Clone, Debug)]
pub struct Waits {
    /// Waits in growing order, with their probabilities.
    bars: Vec<(f64, f64)>,
}

impl Notice {
    /// The wait of a request whose turn comes `late_ms` after it could have entered.
    pub fn wait_ms(&self, late_ms: f64) -> f64 {
        if late_ms <= 0.0 {
            return 0.0;
        }
        match *self {
            Self::Told => late_ms,
            Self::Reads { rtt_ms, .. } if late_ms <= rtt_ms => 2.0 * rtt_ms,
            Self::Reads { rtt_ms, again: true } => late_ms + rtt_ms,
            Self::Reads { again: false, .. } => late_ms,
            Self::Polls { interval_ms } if interval_ms > 0.0 => {
                interval_ms * (late_ms / interval_ms - 1e-9).ceil()
            }
            Self::Polls { .. } => late_ms,
        }
    }

    /// Distance between the places where the wait may fall although the turn comes later, or jumps
    /// often: cells end there.
    fn jump_ms(&self) -> Option<f64> {
        match *self {
            Self::Told => None,
            Self::Reads { rtt_ms, .. } => Some(rtt_ms),
            Self::Polls { interval_ms } => Some(interval_ms),
        }
    }

    /// Mean delay from a release until a request that has waited long notices it.
    pub fn delay_ms(&self) -> f64 {
        match *self {
            Self::Told | Self::Reads { again: false, .. } => 0.0,
            Self::Reads { rtt_ms, again: true } => rtt_ms,
            Self::Polls { interval_ms } => interval_ms / 2.0,
        }
    }
}

impl Waits {
    fn new(mut bars: Vec<(f64, f64)>) -> Self {
        bars.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { bars }
    }

    /// The mean, in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.bars.iter().map(|(ms, chance)| ms * chance).sum()
    }

    /// Probability that a request does not wait.
    pub fn none(&self) -> f64 {
        let bars = self.bars.iter().take_while(|(ms, _)| *ms <= 0.0);
        bars.map(|(_, chance)| chance).sum()
    }

    /// The wait that is not exceeded with probability `p`.
    pub fn quantile(&self, p: f64) -> f64 {
        let mut below = 0.0;
        let found = self.bars.iter().find(|(_, chance)| {
            below += chance;
            below >= p
        });
        found.or(self.bars.last()).map_or(0.0, |(ms, _)| *ms)
    }
}

/// Sums below a level, for one overhead and a range of cells.
struct Below {
    overhead: f64,
    chance: f64,
    side: std::ops::Range<usize>,
    /// Mass that certainly jumps over the level.
    surely: f64,
    /// Mass that does so if its service is long enough, times the probability of that.
    perhaps: f64,
    /// First cell whose jump over the level is still certain.
    next: usize,
}

impl Turns {
    /// The mean time for which a request occupies a contended lock.
    pub fn occupancy_ms(&self) -> f64 {
        let overhead: f64 = self.overheads.iter().map(|(ms, chance)| ms * chance).sum();
        self.service_ms + overhead + self.notice.delay_ms()
    }

    /// The waits in the long run; `None` if requests arrive as fast as the lock can be handed over,
    /// or faster.
    pub fn settled(&self) -> Option<Waits> {
        let load = self.occupancy_ms() / self.interarrival_ms;
        if load >= 1.0 {
            return None;
        }
        // The tail falls by e over about E[V^2] / (2 (1 - load) interarrival): continue for forty.
        if load <= 0.0 {
            return Some(Waits::new(vec![(0.0, 1.0)]));
        }
        let s = self.service_ms;
        let delay = self.notice.delay_ms();
        let square: f64 = self
            .overheads
            .iter()
            .map(|(ms, chance)| {
                let h = ms + delay;
                chance * (2.0 * s * s + 2.0 * s * h + h * h)
            })
            .sum();
        let longest = self.overheads.iter().map(|(ms, _)| *ms).fold(s, f64::max) + delay;
        let range = 20.0 * square / ((1.0 - load) * self.interarrival_ms) + 40.0 * (longest + s);
        let cell = self.cell((self.occupancy_ms() / CELLS).max(range / CELLS_MAX));
        Some(self.crossings(cell, (range / cell) as usize))
    }

    /// Solves for the density of U above zero, in cells, relative to the probability of U <= 0.
    fn crossings(&self, cell: f64, cells: usize) -> Waits {
        let rate = 1.0 / self.interarrival_ms;
        let s = self.service_ms;
        let fall = |past: f64| if s > 0.0 { (-past / s).exp() } else { 0.0 };
        // Probability that a service is longer than `past`, which is negative before the overhead
        // is over, averaged over the cell that the request comes from.
        let longer = |past: f64| {
            let (low, high) = (past - cell / 2.0, past + cell / 2.0);
            let sure = high.min(0.0) - low.min(0.0);
            (sure + s * (fall(low.max(0.0)) - fall(high.max(0.0)))) / cell
        };
        let middle = |i: usize| (i as f64 + 0.5) * cell;
        // Where waits fall, the two sides are followed separately: each side's only grow.
        let fallen = match self.notice {
            Notice::Reads { rtt_ms, again: false } => ((rtt_ms / cell).round() as usize).min(cells),
            _ => 0,
        };
        let mut below: Vec<Below> = Vec::new();
        for &(overhead, chance) in &self.overheads {
            for side in [0..fallen, fallen..cells] {
                let next = side.start;
                below.push(Below { overhead, chance, side, surely: 0.0, perhaps: 0.0, next });
            }
        }
        let mut mass: Vec<f64> = Vec::with_capacity(cells);
        let mut total = 1.0;
        for i in 0..cells {
            let x = middle(i);
            let mut above = 0.0;
            for part in &mut below {
                part.perhaps *= fall(cell);
                let past = |j| x - self.notice.wait_ms(middle(j)) - part.overhead;
                let end = i.min(part.side.end);
                while part.next < end && past(part.next) >= cell / 2.0 {
                    part.perhaps += mass[part.next] * longer(past(part.next));
                    part.surely -= mass[part.next];
                    part.next += 1;
                }
                let begun = (part.next..end).take_while(|&j| past(j) > -cell / 2.0);
                let less: f64 = begun.map(|j| mass[j] * (1.0 - longer(past(j)))).sum();
                above += part.chance * (part.surely + part.perhaps - less);
            }
            let free = |h: f64| if x < h { 1.0 } else { fall(x - h) };
            above += self.overheads.iter().map(|&(h, chance)| chance * free(h)).sum::<f64>();
            // Half of the cell itself lies below its middle.
            let here = rate * above / (1.0 - rate * cell / 2.0) * cell;
            let sides = below.iter_mut().filter(|part| part.side.contains(&i));
            sides.for_each(|part| part.surely += here);
            mass.push(here);
            total += here;
            if here < NEGLIGIBLE * total && x > self.overheads[0].0 {
                break;
            }
        }
        let of_cell = |(i, mass): (usize, f64)| (self.notice.wait_ms(middle(i)), mass / total);
        let bars = std::iter::once((0.0, 1.0 / total));
        Waits::new(bars.chain(mass.into_iter().enumerate().map(of_cell)).collect())
    }

    /// The waits of the first `requests`, taken together, of which the first finds the lock free.
    ///
    /// # Errors
    /// There are no requests, or more than [`RUN_MAX`].
    pub fn run(&self, requests: u32) -> Result<Waits, Invalid> {
        check_run(requests)?;
        let occupancy = self.occupancy_ms();
        if occupancy <= 0.0 {
            return Ok(Waits::new(vec![(0.0, 1.0)]));
        }
        let cell = self.cell(occupancy / CELLS * (f64::from(requests) / 1_000.0).max(1.0));
        let mut late = vec![1.0];
        let mut sum: Vec<f64> = Vec::new();
        for _ in 0..requests {
            let waits = self.notices(&late, cell);
            sum.resize(sum.len().max(waits.len()), 0.0);
            sum.iter_mut().zip(&waits).for_each(|(sum, wait)| *sum += wait);
            late = self.next(&waits, cell);
        }
        let bar = |(i, sum): (usize, f64)| (i as f64 * cell, sum / f64::from(requests));
        Ok(Waits::new(sum.into_iter().enumerate().map(bar).collect()))
    }

    /// Turns the distribution of lateness into that of waits.
    fn notices(&self, late: &[f64], cell: f64) -> Vec<f64> {
        if self.notice == Notice::Told {
            return late.to_vec();
        }
        // A point of the grid stands for its neighbourhood, and the wait may jump there. A small
        // lateness is partly at the point of zero.
        let mut waits = vec![0.0];
        let slightly = late.get(1).map_or(0.0, |next| (next / 2.0).min(late[0]));
        let halves = late.iter().enumerate().skip(1).flat_map(|(i, chance)| {
            [(i as f64 - 0.25, chance / 2.0), (i as f64 + 0.25, chance / 2.0)]
        });
        waits[0] = late[0] - slightly;
        for (place, chance) in halves.chain([(0.25, slightly)]) {
            put(&mut waits, self.notice.wait_ms(place * cell) / cell, chance);
        }
        waits
    }

    /// The width of cells near `wanted` with jumps of the wait between cells.
    fn cell(&self, wanted: f64) -> f64 {
        match self.notice.jump_ms() {
            Some(jump) if jump > wanted => jump / (jump / wanted).ceil(),
            _ => wanted,
        }
    }

    /// Turns the distribution of the wait of a request into that of the lateness of the next one's
    /// turn.
    fn next(&self, waits: &[f64], cell: f64) -> Vec<f64> {
        let mut left = Vec::with_capacity(waits.len() + 1_024);
        for &(overhead, part) in &self.overheads {
            for (i, chance) in waits.iter().enumerate() {
                put(&mut left, i as f64 + overhead / cell, part * chance);
            }
        }
        later(&mut left, self.service_ms / cell);
        let mut late = earlier(&left, self.interarrival_ms / cell);
        let tail = late.iter().rposition(|&chance| chance > NEGLIGIBLE).unwrap_or(0);
        late.truncate(tail + 1);
        late
    }
}

/// Refuses a run that is empty or too long.
pub(crate) fn check_run(requests: u32) -> Result<(), Invalid> {
    if (1..=RUN_MAX).contains(&requests) {
        return Ok(());
    }
    Err(Invalid(format!("a run has 1 to {RUN_MAX} requests, not {requests}")))
}

/// Adds `chance` at a place between two cells, preserving the mean.
fn put(cells: &mut Vec<f64>, place: f64, chance: f64) {
    let below = place as usize;
    let part = place - below as f64;
    if cells.len() < below + 2 {
        cells.resize(below + 2, 0.0);
    }
    cells[below] += chance * (1.0 - part);
    cells[below + 1] += chance * part;
}

/// The probabilities of an exponential time on a grid, divided between neighbouring points in
/// proportion: of zero, of one, and the ratio from there on. The mean is exact; `mean` is in cells.
fn exponential(mean: f64) -> (f64, f64, f64) {
    let ratio = if mean > 0.0 { (-1.0 / mean).exp() } else { 0.0 };
    (1.0 - mean * (1.0 - ratio), mean * (1.0 - ratio).powi(2), ratio)
}

/// Adds an exponential time.
fn later(cells: &mut Vec<f64>, mean: f64) {
    let (none, one, ratio) = exponential(mean);
    let mut carried = 0.0;
    for cell in cells.iter_mut() {
        let here = *cell;
        *cell = none * here + carried;
        carried = ratio * carried + one * here;
    }
    while carried > NEGLIGIBLE {
        cells.push(carried);
        carried *= ratio;
    }
}

/// Subtracts an exponential time; negative results become zero.
fn earlier(cells: &[f64], mean: f64) -> Vec<f64> {
    let (none, one, ratio) = exponential(mean);
    let mut earlier = vec![0.0; cells.len()];
    let (mut carried, mut above) = (0.0, 0.0);
    for i in (1..cells.len()).rev() {
        earlier[i] = none * cells[i] + carried;
        carried = ratio * carried + one * cells[i];
        above += earlier[i];
    }
    earlier[0] = cells.iter().sum::<f64>() - above;
    earlier
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Mm1, lock_wait_ms};

    fn turns(interarrival_ms: f64, service_ms: f64, overhead_ms: f64, notice: Notice) -> Turns {
        Turns { interarrival_ms, service_ms, overheads: vec![(overhead_ms, 1.0)], notice }
    }

    fn near(found: f64, expected: f64, part: f64) {
        assert!((found - expected).abs() <= part * expected, "{found} is not {expected}");
    }

    #[test]
    fn notified_requests_wait_as_pollaczek_and_khinchine_say() {
        for (interarrival, s, h) in [
            (500.0, 1.0, 101.0),
            (200.0, 50.0, 101.0),
            (200.0, 90.0, 101.0),
            (200.0, 150.0, 1.2),
            (200.0, 0.0, 150.0),
            (200.0, 100.0, 99.8),
        ] {
            let waits = turns(interarrival, s, h, Notice::Told).settled().unwrap();
            near(waits.mean_ms(), lock_wait_ms(interarrival, s, h).unwrap(), 1e-3);
        }
    }

    #[test]
    fn quantiles_without_overhead_are_those_of_mm1() {
        let waits = turns(10.0, 8.0, 0.0, Notice::Told).settled().unwrap();
        let queue = Mm1::new(10.0, 8.0).unwrap();
        for p in [0.5, 0.9, 0.99, 0.9999] {
            near(waits.quantile(p), queue.quantile_fifo(p), 2e-3);
        }
        assert_eq!(waits.quantile(0.19), 0.0);
    }

    #[test]
    fn a_long_run_settles() {
        for notice in [
            Notice::Told,
            Notice::Reads { rtt_ms: 40.0, again: false },
            Notice::Reads { rtt_ms: 40.0, again: true },
            Notice::Polls { interval_ms: 25.0 },
        ] {
            let turns = turns(200.0, 20.0, 41.0, notice);
            let (settled, run) = (turns.settled().unwrap(), turns.run(3_000).unwrap());
            near(run.mean_ms(), settled.mean_ms(), 2e-3);
            near(run.quantile(0.99), settled.quantile(0.99), 5e-3);
        }
    }

    #[test]
    fn late_notice_costs_its_delay_where_the_lock_is_never_found_free() {
        let interval_ms = 30.0;
        let told = turns(200.0, 50.0, 120.0 + interval_ms / 2.0, Notice::Told).settled().unwrap();
        let polls = turns(200.0, 50.0, 120.0, Notice::Polls { interval_ms }).settled().unwrap();
        assert!(told.mean_ms() < polls.mean_ms());
        near(polls.mean_ms() - interval_ms / 2.0, told.mean_ms(), 0.02);
    }

    #[test]
    fn an_overloaded_lock_has_waits_in_a_run_only() {
        let turns = turns(100.0, 50.0, 60.0, Notice::Told);
        assert!(turns.settled().is_none());
        let (short, long) = (turns.run(500).unwrap(), turns.run(1_000).unwrap());
        // Each request waits ten milliseconds longer than the one before; half of a run is its
        // average, and near its beginning the lock is sometimes free.
        near(long.mean_ms() - short.mean_ms(), 2_500.0, 0.05);
        assert!(turns.run(0).is_err() && turns.run(RUN_MAX + 1).is_err());
    }

    #[test]
    fn times_of_several_kinds_mix() {
        let mixed = Turns {
            overheads: vec![(10.0, 0.5), (90.0, 0.5)],
            ..turns(100.0, 0.0, 0.0, Notice::Told)
        };
        let expected = crate::queue::mg1_wait_ms(100.0, 50.0, (100.0 + 8_100.0) / 2.0).unwrap();
        near(mixed.settled().unwrap().mean_ms(), expected, 2e-3);
        near(mixed.run(2_000).unwrap().mean_ms(), expected, 2e-3);
    }
}
