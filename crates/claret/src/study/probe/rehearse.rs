//! `claret probe rehearse`: tests whether measured time-outs have the intended effect.
//!
//! A synthetic distribution of pauses and latencies is chosen. A probe measures under it, like the
//! server's own probe; the resulting time-outs are given to Claret's replicated log, which runs
//! under the same distribution for many hours of virtual time. The number of needless elections is
//! compared with the requirement, and the time without a leader after a crash with that of etcd's
//! defaults.

use crate::study::probe::{document, threads};
use ::probe::calibrate::numeric::poisson_interval;
use ::probe::calibrate::protocols::raft::{Report, Timers};
use ::probe::rank::{MILLION, of_sorted};
use ::probe::watch::{Collected, InUse};
use clap::{Args, ValueEnum};
use probe_data::simulate::{PAUSE_MAX_MS, PAUSE_MEAN_MS};
use serde_json::{Value, json};
use sim::elections::{Law, Pace, Pauses, Plan, Seen, run};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Arguments of `claret probe rehearse`.
#[derive(Args, Debug)]
pub struct RehearseArgs {
    /// Distribution of the machines' pauses and distances.
    #[arg(long, value_enum, default_value = "near")]
    law: Known,
    /// Number of machines in the group.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=5))]
    members: u8,
    /// Required mean time between false suspicions of a leader.
    #[arg(long, default_value = "1d", value_parser = crate::study::probe::calibrate::parse_span)]
    once_in: f64,
    /// Days of measurements, by one machine that sends each other one a request per second.
    #[arg(long, default_value_t = 45)]
    days: u64,
    /// Hours of virtual time without crashes, over all seeds.
    #[arg(long, default_value_t = 10_000)]
    hours: u64,
    /// Crashes of a leader after that, over all seeds.
    #[arg(long, default_value_t = 1_000)]
    kills: u32,
    /// Runs with different seeds, which share hours and crashes.
    #[arg(long, default_value_t = 40)]
    seeds: u32,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Number of threads.
    #[arg(long, default_value_t = threads())]
    threads: usize,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// A named distribution.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Known {
    /// Machines in one place that pause twenty times an hour, for 60 ms on average.
    Near,
    /// As in the data of `claret probe simulate`: 3.6 pauses an hour, of half a second on average.
    Planted,
    /// Round trips of 10 to 24 ms, the pauses of `near`, and connections that hold messages back
    /// twice an hour, for 200 ms on average.
    Wide,
}

impl Known {
    fn law(self, members: usize) -> Law {
        let none = Pauses { per_hour: 0.0, mean_ms: 0.0, max_ms: 0.0 };
        let short = Pauses { per_hour: 20.0, mean_ms: 60.0, max_ms: 2_000.0 };
        let planted = Pauses { per_hour: 3.6, mean_ms: PAUSE_MEAN_MS, max_ms: PAUSE_MAX_MS };
        let retried = Pauses { per_hour: 2.0, mean_ms: 200.0, max_ms: 2_000.0 };
        let (pauses, held) = match self {
            Self::Near => (short, none),
            Self::Planted => (planted, none),
            Self::Wide => (short, retried),
        };
        let way = |from: usize, to: usize| match self {
            Self::Near | Self::Planted => 100.0 + 10.0 * ((from + to) % 4) as f64,
            Self::Wide => [5_000.0, 8_000.0, 12_000.0][(from + to) % 3],
        };
        let ways = |from| (0..members).map(|to| way(from, to)).collect();
        Law {
            pauses,
            ways_us: (0..members).map(ways).collect(),
            spread: 0.08,
            held,
            sync_us: 2_000.0,
            lag_us: 60.0,
        }
    }
}

/// Defaults of etcd: heartbeats every 100 ms, time-outs from a second on.
const ETCD: Pace = Pace { tick_us: 100_000, heartbeat_ticks: 1, election_ticks: 10 };

/// Converts time-outs to a group's units.
fn pace(timers: &Timers) -> Pace {
    let pace = Pace::of_election((timers.election_timeout_ms * 1e3).ceil() as u64);
    let heartbeats = (timers.heartbeat_ms * 1e3 / pace.tick_us as f64) as usize;
    Pace { heartbeat_ticks: heartbeats.clamp(1, pace.election_ticks / 3), ..pace }
}

/// Simulates a probe's measurements under the distribution, and calibrates from them.
fn measured(args: &RehearseArgs, law: &Law) -> Result<Report, String> {
    let mut collected = Collected::default();
    // The pauses of the measurement must differ from those of the runs.
    let seed = args.first ^ 0x70_72_6f_62_65;
    law.questions(seed, 0, args.days * 86_400, |to, lag_us, rtt_us| {
        collected.add(to as u16, lag_us, rtt_us);
    });
    let in_use = InUse {
        size: args.members,
        election_ms: Pace::default().election_us() as f64 / 1e3,
        heartbeat_ms: 20.0,
        drift: f64::from(engine::limits::CLOCK_DRIFT_PERCENT_MAX as u32) / 100.0,
    };
    let report = collected.propose_for(in_use, 1.0 / args.once_in);
    report.ok_or_else(|| "too few measurements: increase --days".to_owned())
}

/// Runs all seeds with one set of time-outs.
fn lived(args: &RehearseArgs, law: &Law, pace: Pace) -> Result<Seen, String> {
    let seeds = u64::from(args.seeds.max(1));
    let next = AtomicU64::new(0);
    let all = Mutex::new(Ok(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..args.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= seeds {
                        return;
                    }
                    let share = |all: u64| all / seeds + u64::from(at < all % seeds);
                    let plan = Plan {
                        law: law.clone(),
                        pace,
                        seed: args.first + at,
                        hours: share(args.hours),
                        kills: share(args.kills.into()) as u32,
                        skips: true,
                    };
                    let seen = run(&plan);
                    let Ok(mut all) = all.lock() else { return };
                    match (&mut *all, seen) {
                        (Ok(all), Ok(seen)) => all.push((at, seen)),
                        (all @ Ok(_), Err(error)) => *all = Err(format!("seed {at}: {error}")),
                        _ => {}
                    }
                }
            });
        }
    });
    let mut each = all.into_inner().unwrap_or_else(|_| Err("a run has panicked".to_owned()))?;
    each.sort_unstable_by_key(|(at, _)| *at);
    let mut sum = Seen::default();
    for (_, seen) in each {
        sum.quiet_us += seen.quiet_us;
        sum.needless += seen.needless;
        sum.outages_us.extend(seen.outages_us);
        sum.events += seen.events;
        sum.skipped_us += seen.skipped_us;
        sum.hash = sum.hash.rotate_left(7) ^ seen.hash;
    }
    Ok(sum)
}

fn told(args: &RehearseArgs, pace: Pace, seen: &Seen) -> Value {
    let hours = seen.quiet_us as f64 / 3.6e9;
    let wanted = seen.quiet_us as f64 / 1e6 / args.once_in;
    let (low, high) = poisson_interval(seen.needless as f64);
    let mut sorted = seen.outages_us.clone();
    sorted.sort_unstable();
    let at = |ppm| of_sorted(&sorted, ppm).map(|us| us as f64 / 1e3);
    let mean = sorted.iter().sum::<u64>() as f64 / 1e3 / sorted.len().max(1) as f64;
    let ms = |us: u64| us as f64 / 1e3;
    json!({
        "election_timeout_ms": ms(pace.election_us()),
        "heartbeat_ms": ms(pace.heartbeat_us()),
        "tick_ms": ms(pace.tick_us),
        "hours": hours,
        "needless_elections": seen.needless,
        "wanted": wanted,
        "observed_by_wanted": seen.needless as f64 / wanted,
        "low": low / wanted,
        "high": high / wanted,
        "deaths": sorted.len(),
        "outage_mean_ms": mean,
        "outage_p50_ms": at(500_000),
        "outage_p99_ms": at(990_000),
        "outage_max_ms": at(MILLION),
        "events": seen.events,
        "hours_skipped": seen.skipped_us as f64 / 3.6e9,
        "hash": format!("{:016x}", seen.hash),
    })
}

/// Runs the command.
pub fn rehearsed(args: &RehearseArgs) -> Result<String, String> {
    if args.once_in <= 0.0 {
        return Err("--once-in must be above zero".to_owned());
    }
    let law = args.law.law(args.members.into());
    let report = measured(args, &law)?;
    let Some(timers) = report.timers else {
        return Err("no time-out up to 50 s is wrong that rarely".to_owned());
    };
    let chosen = pace(&timers);
    let [ours, etcd] =
        [chosen, ETCD].map(|pace| lived(args, &law, pace).map(|seen| told(args, pace, &seen)));
    let (ours, etcd) = (ours?, etcd?);
    let found = json!({
        "law": format!("{:?}", args.law).to_lowercase(),
        "members": args.members,
        "once_in_s": args.once_in,
        "proposed": {
            "election_timeout_ms": timers.election_timeout_ms,
            "low": report.evidence.low,
            "high": report.evidence.high,
            "extrapolated": report.evidence.extrapolated,
            "heartbeat_ms": timers.heartbeat_ms,
            "lease_ms": timers.lease_ms,
            "detection_mean_ms": timers.detection_mean_ms,
            "observed_node_days": report.observed_node_days,
        },
        "calibrated": ours,
        "etcd": etcd,
    });
    Ok(if args.json { document(&found) } else { page(&found) })
}

fn page(found: &Value) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let proposed = &found["proposed"];
    let mut text = format!(
        "measured for {:.0} node-days: election time-out {:.0} ms ({:.0} to {:.0}{}), \
         heartbeat {:.0} ms, lease {}\n\n",
        number(&proposed["observed_node_days"]),
        number(&proposed["election_timeout_ms"]),
        number(&proposed["low"]),
        number(&proposed["high"]),
        if proposed["extrapolated"] == true { ", extrapolated" } else { "" },
        number(&proposed["heartbeat_ms"]),
        proposed["lease_ms"].as_f64().map_or("none".to_owned(), |ms| format!("{ms:.0} ms")),
    );
    text += "time-outs     election  heartbeat   needless  by wanted      (95 %)   \
             without a leader: mean    p50    p99 ms\n";
    for name in ["calibrated", "etcd"] {
        let of = &found[name];
        let of = |key: &str| number(&of[key]);
        text += &format!(
            "{name:12} {:6.0} ms  {:6.1} ms  {:9} {:10.2}  {:.2} to {:.2}  {:23.0} {:6.0} {:6.0}\n",
            of("election_timeout_ms"),
            of("heartbeat_ms"),
            of("needless_elections"),
            of("observed_by_wanted"),
            of("low"),
            of("high"),
            of("outage_mean_ms"),
            of("outage_p50_ms"),
            of("outage_p99_ms"),
        );
    }
    text += &format!(
        "in {:.0} hours of virtual time, and after {} deaths of a leader\n",
        number(&found["calibrated"]["hours"]),
        found["calibrated"]["deaths"]
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: RehearseArgs,
    }

    fn rehearse(line: &str) -> Value {
        let words = std::iter::once("rehearse").chain(line.split_whitespace());
        let args = Cli::try_parse_from(words).unwrap().args;
        serde_json::from_str(&rehearsed(&args).unwrap()).unwrap()
    }

    #[test]
    fn a_measured_time_out_has_the_wanted_rate_and_is_faster_than_etcd_s() {
        let found = rehearse("--once-in 6h --days 10 --hours 600 --kills 40 --seeds 4 --json");
        let (ours, etcd) = (&found["calibrated"], &found["etcd"]);
        // A hundred are expected: 30 % are three standard deviations, and the measurement has its
        // own.
        let ratio = ours["observed_by_wanted"].as_f64().unwrap();
        assert!((0.5..2.0).contains(&ratio), "{found}");
        let mean = |of: &Value| of["outage_mean_ms"].as_f64().unwrap();
        assert!(mean(ours) < mean(etcd) / 2.0, "{found}");
        assert_eq!(ours["deaths"], 40);
    }
}
