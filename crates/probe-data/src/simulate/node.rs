//! A simulated node in one epoch: its clock, its pauses, its load.

use super::Options;
use super::law::{PAUSE_MAX_MS, PAUSE_MEAN_MS};
use probe::Resources;
use probe::random::{Numbers, number, seed_of};
use probe::schedule::{PERIOD_NS, epoch_start_ns};

/// Metrics with a known true correlation with latency.
pub const METRICS: [&str; 6] = [
    "stall_sum_us",
    "stall_max_us",
    "psi_io_some_us",
    "disk_io_ms",
    "cpu_user_ticks",
    "cpu_running",
];

/// Index of the stall in [`METRICS`], the metric that makes calls longer.
const STALL: usize = 0;

/// State of the node in one epoch.
pub struct NodeDay {
    /// Offset of its clock from true time.
    pub clock_ns: i64,
    /// Offset of the resource samples from the start of each second, by its own clock.
    row_phase_ns: i64,
    start_ns: i64,
    /// Start and end of its pauses, in true time; ascending.
    pub pauses: Vec<(i64, i64)>,
    /// Values of [`METRICS`] for each second.
    pub rows: Vec<[u32; METRICS.len()]>,
}

impl NodeDay {
    /// Simulates the node in an epoch (days since 1970).
    pub fn new(options: &Options, node: u16, epoch: i64) -> Self {
        let own = seed_of(&[options.seed, 11, u64::from(node)]);
        let seed = seed_of(&[own, epoch.cast_unsigned()]);
        let start_ns = epoch_start_ns(epoch);
        let signed = |bits: u64, most: i64| (bits >> 33).cast_signed() % (2 * most) - most;
        Self {
            clock_ns: signed(number(own, 0), 2_000_000),
            row_phase_ns: (number(own, 1) >> 33).cast_signed() % PERIOD_NS,
            start_ns,
            pauses: pauses(options, seed, start_ns),
            rows: (0..options.rounds).map(|second| load(seed, second)).collect(),
        }
    }

    /// Time of a second's row, by the node's own clock.
    pub fn row_ns(&self, second: usize) -> i64 {
        self.start_ns + second as i64 * PERIOD_NS + self.row_phase_ns
    }

    /// Row that is nearest to an instant of the node's own clock, the earlier of two.
    pub fn nearest(&self, own_ns: i64) -> usize {
        let since = own_ns - self.start_ns - self.row_phase_ns;
        // Rounds to the nearest; exactly between two, down.
        let second = (since + PERIOD_NS / 2 - 1).div_euclid(PERIOD_NS);
        usize::try_from(second).unwrap_or(0).min(self.rows.len() - 1)
    }

    /// Time that an arrival at an instant of true time waits for a pause to end. The search in the
    /// pauses begins at `hint`; times must not go back by more than a pause.
    pub fn held_ns(&self, true_ns: i64, hint: &mut usize) -> i64 {
        while self.pauses.get(*hint).is_some_and(|pause| pause.1 <= true_ns) {
            *hint += 1;
        }
        match self.pauses.get(*hint) {
            Some((begin, end)) if *begin <= true_ns => end - true_ns,
            _ => 0,
        }
    }

    /// Time by which the row makes every call longer, in units of 100 ns.
    pub fn stall_100ns(&self, row: usize) -> u32 {
        self.rows[row][STALL] * 10
    }

    /// Builds a row of the table `res`.
    pub fn resources(&self, second: usize) -> Resources {
        let row = &self.rows[second];
        let value = |name: &str| {
            let at = METRICS.iter().position(|metric| *metric == name);
            at.map(|at| i64::from(row[at]))
        };
        let t_ns = self.row_ns(second);
        Resources {
            t_ns,
            mono_ns: t_ns - self.start_ns,
            dt_us: 1_000_000,
            cost_us: 126,
            stall_sum_us: value("stall_sum_us"),
            stall_max_us: value("stall_max_us"),
            psi_io_some_us: value("psi_io_some_us"),
            disk_io_ms: value("disk_io_ms"),
            cpu_user_ticks: value("cpu_user_ticks"),
            cpu_running: value("cpu_running"),
            ..Resources::default()
        }
    }
}

/// Poisson process of pauses with exponential lengths, truncated, that do not overlap.
fn pauses(options: &Options, seed: u64, start_ns: i64) -> Vec<(i64, i64)> {
    let mut numbers = Numbers::new(seed_of(&[seed, 21]));
    let rate_per_ns = options.pauses_per_hour / 3.6e12;
    let end_ns = start_ns + i64::from(options.rounds) * PERIOD_NS;
    let mut pauses = Vec::new();
    let mut at_ns = start_ns;
    if rate_per_ns <= 0.0 {
        return pauses;
    }
    loop {
        at_ns += (-(1.0 - numbers.unit()).ln() / rate_per_ns) as i64;
        if at_ns >= end_ns {
            break;
        }
        let ms = (-(1.0 - numbers.unit()).ln() * PAUSE_MEAN_MS).min(PAUSE_MAX_MS);
        let until_ns = at_ns + (ms * 1e6) as i64;
        pauses.push((at_ns, until_ns));
        at_ns = until_ns;
    }
    pauses
}

/// Load of a node in a second: busy periods, and the metrics that depend on them.
fn load(seed: u64, second: u32) -> [u32; METRICS.len()] {
    let spell = number(seed_of(&[seed, 31]), u64::from(second / 20));
    let bits = number(seed, u64::from(second));
    let busy = (spell >> 60 == 0) as u32;
    let part = |shift: u32, width: u32| ((bits >> shift) & ((1 << width) - 1)) as u32;
    // Up to 1.6 ms of stalls in a busy second, a fifth of that in others.
    let stall = if busy == 1 { 400 + part(0, 10) + part(10, 8) } else { part(0, 8) };
    let running = 1 + busy + part(18, 2);
    let flush = ((spell >> 56) & 15 == 0) as u32;
    let io = flush * 20_000 + part(20, 14) + stall * 4;
    let user = 5 + busy * 10 + part(34, 5);
    [stall, stall / 3 + part(39, 4), io, io / 1000 + part(43, 4), user, running]
}
