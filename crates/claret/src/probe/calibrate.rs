//! `claret probe calibrate`: which time-outs, sizes and risks follow from measurements.

use super::{Bar, document};
use ::probe::calibrate::accrual::Tuning;
use ::probe::calibrate::raft::Wanted;
use ::probe::calibrate::xft::Faults;
use clap::{Args, ValueEnum};
use probe_data::calibrate::{Options, Target, calibrate};
use serde_json::json;
use std::path::PathBuf;

mod page;

/// Arguments of `claret probe calibrate`.
#[derive(Args, Debug)]
pub struct CalibrateArgs {
    /// The folder with the files.
    data: PathBuf,
    /// What to calibrate; several, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "all")]
    target: Vec<Wish>,
    #[command(flatten)]
    wanted: WantedArgs,
    /// The curve of false suspicions of every pair as well.
    #[arg(long)]
    pairs: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// What is wanted of what is calibrated: the same for the page of a report.
#[derive(Args, Debug)]
pub struct WantedArgs {
    /// Part of the rounds (Visigoth) or windows (Gamma) in which it may be otherwise.
    #[arg(long, default_value_t = 0.001, value_parser = parse_part)]
    risk: f64,
    /// Length of a window.
    #[arg(long, default_value = "1d", value_parser = parse_span)]
    window: f64,
    /// Crashes that are to be tolerated; without it, as many as a minority of a group has.
    #[arg(long)]
    crashes: Option<u8>,
    /// Arbitrary faults beside crashes (Visigoth).
    #[arg(long, default_value_t = 1)]
    arbitrary: u8,
    /// A group suspects its leader wrongly once in so long (raft); a node another one (accrual).
    #[arg(long, default_value = "30d", value_parser = parse_span)]
    once_in: f64,
    /// Members of a Raft group; without it, those of most groups in the data.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=9))]
    members: Option<u8>,
    /// Followers stand for election without asking first.
    #[arg(long)]
    no_pre_vote: bool,
    /// A node crashes once in so long: what the cheapest election time-out is computed with.
    #[arg(long, default_value = "180d", value_parser = parse_span)]
    crash_every: f64,
    /// What an election costs beside: time without service.
    #[arg(long, default_value = "1s", value_parser = parse_span)]
    election_cost: f64,
    /// No heartbeat more often than this.
    #[arg(long, default_value = "10ms", value_parser = parse_span)]
    heartbeat_min: f64,
    /// How far the speeds of two clocks may differ, as a part (lease).
    #[arg(long, default_value_t = 0.0005, value_parser = parse_part)]
    drift: f64,
    /// Replicas must answer each other within these to be synchronous: 2 Delta (xft).
    #[arg(long, value_delimiter = ',', default_value = "10ms,100ms,1s,10s", value_parser = parse_span)]
    two_delta: Vec<f64>,
    /// Probability that a replica has crashed (xft).
    #[arg(long, default_value_t = 1e-3, value_parser = parse_part)]
    crash_probability: f64,
    /// Probability that it does something arbitrary (xft).
    #[arg(long, default_value_t = 1e-6, value_parser = parse_part)]
    arbitrary_probability: f64,
    /// A pause of heartbeats that accrual detectors accept.
    #[arg(long, default_value = "0s", value_parser = parse_span)]
    pause: f64,
    /// The least standard deviation that they assume.
    #[arg(long, default_value = "100ms", value_parser = parse_span)]
    deviation_min: f64,
    /// A reply after this is too late (hedge); without it, the median p95 of all pairs.
    #[arg(long, value_parser = parse_span)]
    budget: Option<f64>,
    /// The seed of what is resampled for intervals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What to calibrate.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Wish {
    /// Everything.
    All,
    /// How often each time-out suspects a node that is alive.
    Suspicion,
    /// How many nodes are right about others, by time-out.
    Gamma,
    /// How many slow members to expect, by time-out, and how many replicas that takes.
    Visigoth,
    /// How likely a group is consistent and available.
    Xft,
    /// Thresholds of accrual detectors.
    Accrual,
    /// Election time-out, heartbeat and lease.
    Raft,
    /// When to ask a second replica, and who should lead.
    Hedge,
}

impl Wish {
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

/// A time in seconds, with its unit.
pub(super) fn parse_span(text: &str) -> Result<f64, String> {
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
    /// The same as options of a calibration of these.
    pub(super) fn options(&self, targets: Vec<Target>, pairs: bool) -> Result<Options, String> {
        let above_zero = |what: &str, seconds: f64| {
            if seconds > 0.0 { Ok(seconds) } else { Err(format!("{what} is above zero")) }
        };
        if self.crash_probability + self.arbitrary_probability >= 1.0 {
            return Err("a replica is correct with some probability, too".into());
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
