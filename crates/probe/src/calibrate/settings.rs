//! Calibrated time-outs as settings of other systems.
//!
//! The time-outs are expressed in the terms and units of etcd, ZooKeeper, Consul, Cassandra, Akka
//! and Hazelcast. Each setting notes its rounding, and its interpretation by the system.

use super::accrual::{self, Model, Tuning};
use crate::calibrate::protocols::raft::Timers;
use serde::Serialize;

/// A setting of a system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// The system.
    pub system: &'static str,
    /// Name of the setting there.
    pub name: &'static str,
    /// Value in the system's notation.
    pub value: String,
    /// Caveat or explanation.
    pub note: &'static str,
    /// Calibration target that it follows from.
    pub follows_from: &'static str,
}

const fn setting(
    system: &'static str,
    name: &'static str,
    value: String,
    note: &'static str,
) -> Setting {
    // Thresholds of accrual detectors set their own target.
    Setting { system, name, value, note, follows_from: "raft" }
}

/// Settings for election time-outs and heartbeats.
pub fn of_timers(timers: &Timers) -> Vec<Setting> {
    let e_ms = timers.election_timeout_ms.ceil();
    // etcd refuses an election time-out below five heartbeats, or above 50 s.
    let etcd_ms = e_ms.min(50_000.0);
    let etcd_beat_ms = timers.heartbeat_ms.min(etcd_ms / 5.0).floor().max(1.0);
    let tick_ms = timers.heartbeat_ms.round().max(1.0);
    let limit = (e_ms / tick_ms).ceil().max(2.0);
    let multiplier = (e_ms / 1_000.0).ceil().clamp(1.0, 10.0);
    vec![
        setting(
            "etcd",
            "--election-timeout",
            format!("{etcd_ms}"),
            "milliseconds; timers run from this to its double; at most 50000",
        ),
        setting(
            "etcd",
            "--heartbeat-interval",
            format!("{etcd_beat_ms}"),
            "milliseconds; at most a fifth of the election time-out",
        ),
        setting("ZooKeeper", "tickTime", format!("{tick_ms}"), "milliseconds; the same everywhere"),
        setting(
            "ZooKeeper",
            "syncLimit",
            format!("{limit}"),
            "ticks; a follower that is silent for that long is dropped",
        ),
        setting(
            "ZooKeeper",
            "initLimit",
            format!("{}", (2.0 * limit).max(10.0)),
            "ticks; increase it for large transfers",
        ),
        setting(
            "ZooKeeper",
            "minSessionTimeout",
            format!(
                "{}",
                (2.0 * tick_ms).max((timers.outage_mean_ms.unwrap_or(e_ms) * 2.0).ceil())
            ),
            "milliseconds; sessions outlive the loss of a leader",
        ),
        setting(
            "Consul",
            "raft_multiplier",
            format!("{multiplier}"),
            "times 1 s of heartbeat and election time-out; 1 to 10",
        ),
    ]
}

/// Settings for thresholds of accrual detectors.
pub fn of_accrual(report: &accrual::Report, tuning: &Tuning) -> Vec<Setting> {
    let Some(timeout_ms) = report.timeout_ms else { return Vec::new() };
    let phi = |model| {
        let found = report.recommended.iter().find(|one| one.model == model);
        found.and_then(|one| one.phi).map(|phi| format!("{:.1}", (phi * 10.0).ceil() / 10.0))
    };
    let deviation_ms = report.deviation_ms.max(tuning.deviation_min_ns as f64 / 1e6);
    let mut found = Vec::new();
    if let Some(value) = phi(Model::Exponential) {
        let note = "with gossip once a second, as the probe calls; the system's default is 8";
        found.push(setting("Cassandra", "phi_convict_threshold", value, note));
    }
    if let Some(value) = phi(Model::Chitchat) {
        let note = "phi without ln 10; the system's default is 8";
        found.push(setting("chitchat", "phi_threshold", value, note));
    }
    // Akka keeps its threshold of 8, and its acceptable pause is configured.
    let at_eight = super::numeric::bisect(0.0, 40.0, |z| accrual::logistic_phi(z) >= 8.0);
    let pause_ms = (timeout_ms - report.mean_gap_ms - deviation_ms * at_eight).max(0.0).ceil();
    let note = "with threshold = 8.0 and heartbeat-interval = 1 s";
    found.push(setting("Akka", "acceptable-heartbeat-pause", format!("{pause_ms} ms"), note));
    let deviation = format!("{} ms", deviation_ms.ceil());
    found.push(setting("Akka", "min-std-deviation", deviation, "as assumed in this calibration"));
    if let Some(value) = phi(Model::Normal) {
        let note = "hazelcast.heartbeat.phiaccrual.failuredetector.threshold; the default is 10";
        found.push(setting("Hazelcast", "phiaccrual threshold", value, note));
    }
    found.iter_mut().for_each(|one| one.follows_from = "accrual");
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::protocols::raft::Quality;
    use crate::random::Numbers;

    fn value<'a>(settings: &'a [Setting], system: &str, name: &str) -> &'a str {
        let found = settings.iter().find(|one| one.system == system && one.name == name);
        &found.unwrap().value
    }

    fn timers(election_timeout_ms: f64) -> Timers {
        Timers {
            election_timeout_ms,
            heartbeat_ms: election_timeout_ms / 3.0,
            heartbeats_per_timeout: 3.0,
            lease_ms: None,
            detection_mean_ms: election_timeout_ms,
            detection_max_ms: 2.0 * election_timeout_ms,
            outage_mean_ms: None,
            false_suspicions_per_day: 0.1,
            follower: Quality {
                between_mistakes_s: 1.0,
                mistake_s: 1.0,
                detection_s: 1.0,
                mistake_per_heartbeat: 0.0,
            },
        }
    }

    #[test]
    fn time_outs_are_said_in_the_units_of_each_system() {
        let found = of_timers(&timers(1_500.0));
        assert_eq!(value(&found, "etcd", "--election-timeout"), "1500");
        assert_eq!(value(&found, "etcd", "--heartbeat-interval"), "300");
        assert_eq!(value(&found, "ZooKeeper", "tickTime"), "500");
        assert_eq!(value(&found, "ZooKeeper", "syncLimit"), "3");
        assert_eq!(value(&found, "Consul", "raft_multiplier"), "2");
        let far = of_timers(&timers(120_000.0));
        assert_eq!(value(&far, "etcd", "--election-timeout"), "50000");
        assert_eq!(value(&far, "Consul", "raft_multiplier"), "10");
    }

    #[test]
    fn thresholds_follow_the_system_s_own_phi() {
        let mut draws = Numbers::new(5);
        let gaps = (0..100_000).map(|_| (1e9 * -draws.unit().ln()) as u64).collect();
        let heartbeats = accrual::Heartbeats::new(gaps);
        let tuning = Tuning { pause_ns: 0, deviation_min_ns: 0 };
        let report = accrual::report(&heartbeats, &tuning, 1e-3);
        let found = of_accrual(&report, &tuning);
        let number = |system, name| value(&found, system, name).parse::<f64>().unwrap();
        let (cassandra, chitchat) =
            (number("Cassandra", "phi_convict_threshold"), number("chitchat", "phi_threshold"));
        assert!((chitchat / cassandra - std::f64::consts::LN_10).abs() < 0.1);
        assert!(found.iter().any(|one| one.system == "Akka"));
    }
}
