//! Durations in a simulated deployment: bounded distributions that cost one table look-up.

use probe::Workload;

const STEPS: usize = 4096;

/// Factors of a skewed distribution: approximately the exponential of a normal variable, cut off at
/// both ends. All values are equally likely.
pub struct Skewed(Vec<f64>);

impl Skewed {
    /// Creates a distribution with median 1 and this spread (the deviation of its logarithm).
    pub fn new(spread: f64) -> Self {
        let step = |index| {
            let p = (f64::from(index) + 0.5) / STEPS as f64;
            // A logistic variable has a closed inverse, and at this scale the deviation of a
            // standard normal one.
            let z = (p / (1.0 - p)).ln() * 3.0_f64.sqrt() / std::f64::consts::PI;
            (spread * z.clamp(-3.5, 3.5)).exp()
        };
        Self((0..STEPS as u32).map(step).collect())
    }

    /// Value selected by twelve bits.
    pub fn at(&self, bits: u64) -> f64 {
        self.0[(bits & (STEPS as u64 - 1)) as usize]
    }
}

/// Median time of a handler, in units of 100 ns.
pub const fn service_100ns(workload: Workload) -> f64 {
    match workload {
        Workload::Null => 150.0,
        Workload::Crypto => 160.0,
        Workload::Disk => 20_000.0,
        Workload::Network => 400.0,
        Workload::All => 26_000.0,
    }
}

/// Additional round trip time of the payload, in units of 100 ns.
pub const fn payload_100ns(workload: Workload) -> f64 {
    match workload {
        Workload::Network | Workload::All => 4_500.0,
        _ => 0.0,
    }
}

/// Factor by which a slow node's handlers are slower.
pub const SLOW_FACTOR: f64 = 4.0;
/// Latency of a call that was deliberately delayed.
pub const LATE_NS: u64 = 150_000_000;
/// One member is late in one of this many rounds, ...
pub const ONE_LATE_IN: u32 = 100;
/// ... and two members in one of this many others.
pub const TWO_LATE_IN: u32 = 500;
/// Calls without reply, per million.
pub const LOST_PPM: u64 = 20;
/// Mean length of a pause.
pub const PAUSE_MEAN_MS: f64 = 500.0;
/// Longest pause: a caller sends calls that are overdue by up to 5 s.
pub const PAUSE_MAX_MS: f64 = 4_000.0;
