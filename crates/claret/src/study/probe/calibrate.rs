//! `claret probe calibrate`: derives time-outs, sizes and risks from measurements.

use crate::study::probe::{Bar, document};
use ::probe::calibrate::accrual::Tuning;
use ::probe::calibrate::protocols::raft::Wanted;
use ::probe::calibrate::protocols::xft::Faults;
use clap::{Args, ValueEnum};
use probe_data::calibrate::{Options, Target, calibrate};
use serde_json::json;
use std::path::PathBuf;

mod page;

/// Arguments of `claret probe calibrate`.
#[derive(Args, Debug)]
pub struct CalibrateArgs {
    /// Folder of measurements.
    data: PathBuf,
    /// Targets of the calibration, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "all")]
    target: Vec<Goal>,
    #[command(flatten)]
    wanted: WantedArgs,
    /// Include the curve of false suspicions of every pair.
    #[arg(long)]
    pairs: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Requirements of a calibration, also used for the page of a report.
#[derive(Args, Debug)]
pub struct WantedArgs {
    /// Fraction of the rounds (Visigoth) or windows (Gamma) that may violate the assumption.
    #[arg(long, default_value_t = 0.001, value_parser = parse_part)]
    risk: f64,
    /// Length of a window.
    #[arg(long, default_value = "1d", value_parser = parse_span)]
    window: f64,
    /// Crashes to tolerate; default: those of a minority of a group.
    #[arg(long)]
    crashes: Option<u8>,
    /// Arbitrary faults to tolerate in addition to crashes (Visigoth).
    #[arg(long, default_value_t = 1)]
    arbitrary: u8,
    /// Mean time between a group's false suspicions of its leader (raft), or a node's of another
    /// one (accrual).
    #[arg(long, default_value = "30d", value_parser = parse_span)]
    once_in: f64,
    /// Members of a Raft group; default: the most frequent group size in the data.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=9))]
    members: Option<u8>,
    /// Followers stand for election without a pre-vote.
    #[arg(long)]
    no_pre_vote: bool,
    /// Mean time between crashes of a node, for the cheapest election time-out.
    #[arg(long, default_value = "180d", value_parser = parse_span)]
    crash_every: f64,
    /// Time without service that an election costs in addition.
    #[arg(long, default_value = "1s", value_parser = parse_span)]
    election_cost: f64,
    /// Minimum heartbeat interval.
    #[arg(long, default_value = "10ms", value_parser = parse_span)]
    heartbeat_min: f64,
    /// Maximum relative difference between the speeds of two clocks (lease).
    #[arg(long, default_value_t = 0.0005, value_parser = parse_part)]
    drift: f64,
    /// Times within which synchronous replicas answer each other: 2 Delta (xft).
    #[arg(long, value_delimiter = ',', default_value = "10ms,100ms,1s,10s", value_parser = parse_span)]
    two_delta: Vec<f64>,
    /// Probability that a replica has crashed (xft).
    #[arg(long, default_value_t = 1e-3, value_parser = parse_part)]
    crash_probability: f64,
    /// Probability that a replica behaves arbitrarily (xft).
    #[arg(long, default_value_t = 1e-6, value_parser = parse_part)]
    arbitrary_probability: f64,
    /// Pause of heartbeats that accrual detectors accept.
    #[arg(long, default_value = "0s", value_parser = parse_span)]
    pause: f64,
    /// Minimum standard deviation that accrual detectors assume.
    #[arg(long, default_value = "100ms", value_parser = parse_span)]
    deviation_min: f64,
    /// Time after which a reply is too late (hedge); default: the median p95 of all pairs.
    #[arg(long, value_parser = parse_span)]
    budget: Option<f64>,
    /// Seed of the resampling for confidence intervals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Target of a calibration.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Goal {
    /// All targets.
    All,
    /// Rate of false suspicions of live nodes, by time-out.
    Suspicion,
    /// Number of nodes that judge others correctly, by time-out.
    Gamma,
    /// Number of slow members to expect, by time-out, and of replicas needed for them.
    Visigoth,
    /// Probabilities that a group is consistent and available.
    Xft,
    /// Thresholds of accrual detectors.
    Accrual,
    /// Election time-out, heartbeat and lease.
    Raft,
    /// Delay before a second replica is asked, and the recommended leader.
    Hedge,
}

impl Goal {
    fn targets(self) -> Vec<Target> {
        match self {
            Self::All => Target::ALL.into(),
            Self::Suspicion => vec![Target::Suspicion],
            Self::Gamma => vec![Target::Gamma],
            Self::Visigoth => vec![Target::Visigoth],
            Self::Xft => vec![Target::Xft],
            Self::Accrual => vec![Target::Accrual],
            Self::Raft => vec![Target::Raft],
            Self::Hedge => vec![Target::Hedge],
        }
    }
}

/// Parses a time with its unit, in seconds.
pub(in crate::study::probe) fn parse_span(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_s = match &text[number.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => f64::NAN,
    };
    let seconds = number.parse::<f64>().unwrap_or(f64::NAN) * unit_s;
    // Up to a century.
    if (0.0..=3.2e9).contains(&seconds) {
        return Ok(seconds);
    }
    Err("a time is a number with us, ms, s, min, h or d, such as 30d".into())
}

fn parse_part(text: &str) -> Result<f64, String> {
    let part = text.parse().unwrap_or(f64::NAN);
    if (0.0..1.0).contains(&part) { Ok(part) } else { Err("a part is from 0 to below 1".into()) }
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

impl WantedArgs {
    /// Options of a calibration with these requirements.
    pub(in crate::study::probe) fn options(
        &self,
        targets: Vec<Target>,
        pairs: bool,
    ) -> Result<Options, String> {
        let above_zero = |what: &str, seconds: f64| {
            if seconds > 0.0 { Ok(seconds) } else { Err(format!("{what} is above zero")) }
        };
        if self.crash_probability + self.arbitrary_probability >= 1.0 {
            return Err("the probability of a correct replica must be above zero".into());
        }
        let per_s = 1.0 / above_zero("--once-in", self.once_in)?;
        Ok(Options {
            targets,
            risk: self.risk,
            window_ns: ns(above_zero("--window", self.window)?).cast_signed(),
            crashes: self.crashes,
            arbitrary: self.arbitrary,
            two_delta_ns: self.two_delta.iter().map(|seconds| ns(*seconds)).collect(),
            faults: Faults { crash: self.crash_probability, other: self.arbitrary_probability },
            tuning: Tuning { pause_ns: ns(self.pause), deviation_min_ns: ns(self.deviation_min) },
            mistakes_per_s: per_s,
            raft: Wanted {
                size: self.members.unwrap_or(0),
                false_suspicions_per_s: per_s,
                pre_vote: !self.no_pre_vote,
                crashes_per_s: 1.0 / above_zero("--crash-every", self.crash_every)?,
                election_cost_s: self.election_cost,
                heartbeat_min_ms: self.heartbeat_min * 1e3,
                drift: self.drift,
            },
            size_of_data: self.members.is_none(),
            budget_ns: self.budget.map(ns),
            pairs,
            seed: self.seed,
        })
    }
}

/// Runs the command.
pub fn calibrated(args: &CalibrateArgs) -> Result<String, String> {
    let mut targets: Vec<Target> = args.target.iter().flat_map(|wish| wish.targets()).collect();
    targets.sort_unstable();
    targets.dedup();
    let options = args.wanted.options(targets, args.pairs)?;
    let report = calibrate(&args.data, &options, &Bar::default());
    let report = report.map_err(|error| error.to_string())?;
    Ok(if args.json { document(&json!(report)) } else { page::page(&report) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_parts_are_parts() {
        assert_eq!(parse_span("30d"), Ok(2_592_000.0));
        assert_eq!(parse_span("1.5ms"), Ok(0.001_5));
        for wrong in ["", "30", "-1s", "1y", "nan", "xs"] {
            assert!(parse_span(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_part("0.25"), Ok(0.25));
        for wrong in ["1", "-0.1", "x", "NaN"] {
            assert!(parse_part(wrong).is_err(), "{wrong}");
        }
    }
}
