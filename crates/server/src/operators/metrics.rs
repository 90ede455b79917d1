//! Metrics of a server in the text format of Prometheus.

use super::counts::PeerCounts;
use crate::control::Status;
use crate::synchrony::picture::Quantiles;
use crate::worker::trees::talk::Clients;
use engine::script::counts::ScriptCount;
use engine::stats::Durations;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Encoder, GaugeVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};
use std::collections::HashMap;

/// Metrics of a server, gathered for one answer.
struct Sheet {
    registry: Registry,
}

/// Renders all metrics, including the log's own measurements (fsync latency among them).
///
/// # Errors
/// If two metrics have the same name, which would be a mistake in this file.
pub fn render(status: &Status) -> Result<String, prometheus::Error> {
    let sheet = Sheet { registry: Registry::new_custom(Some("claret".to_owned()), None)? };
    sheet.server(status)?;
    sheet.machines(status)?;
    sheet.gateways(status)?;
    sheet.shards(status)?;
    sheet.coordination(status)?;
    sheet.synchrony(status)?;
    let mut text = Vec::new();
    let encoder = TextEncoder::new();
    encoder.encode(&sheet.registry.gather(), &mut text)?;
    encoder.encode(&prometheus::gather(), &mut text)?;
    String::from_utf8(text).map_err(|error| prometheus::Error::Msg(error.to_string()))
}

impl Sheet {
    fn add(&self, collector: impl Collector + 'static) -> Result<(), prometheus::Error> {
        self.registry.register(Box::new(collector))
    }

    fn value(&self, name: &str, help: &str, value: u64) -> Result<(), prometheus::Error> {
        let gauge = IntGauge::new(name, help)?;
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        self.add(gauge)
    }

    fn server(&self, status: &Status) -> Result<(), prometheus::Error> {
        let facts = &status.facts;
        let found = status.readiness();
        for (name, help, value) in [
            ("uptime_seconds", "Seconds since the start", facts.uptime_s),
            ("connections", "Open connections", facts.connections),
            ("connections_total", "Connections accepted", facts.connections_total),
            ("connections_refused_total", "Connections refused", facts.connections_refused),
            ("memory_bytes", "Memory in use", facts.memory_bytes),
            ("memory_peak_bytes", "Peak memory in use", facts.memory_peak_bytes),
            ("memory_data_bytes", "Memory that the data take", facts.memory_data_bytes()),
            ("memory_log_bytes", "Memory that logs take", facts.memory_log_bytes),
            ("memory_log_limit_bytes", "Memory that logs may take", facts.memory_log_limit_bytes),
            ("memory_buffer_bytes", "Memory of queues and buffers", facts.memory_buffer_bytes),
            ("memory_limit_bytes", "Limit for the data, 0 for none", facts.memory_limit_bytes),
            (
                "memory_over_limit",
                "1 while writes that grow are refused",
                u64::from(facts.over_memory_limit),
            ),
            (
                "memory_log_over_limit",
                "1 while writes are refused because snapshots fail",
                u64::from(facts.over_log_limit),
            ),
            ("received_bytes_total", "Bytes received from clients", facts.bytes_in),
            ("sent_bytes_total", "Bytes sent to clients", facts.bytes_out),
            ("cpu_user_microseconds_total", "Processor time in user mode", facts.cpu_user_us),
            ("cpu_system_microseconds_total", "Processor time in system mode", facts.cpu_system_us),
            (
                "last_snapshot_timestamp_seconds",
                "Time at which the last snapshot was completed",
                facts.last_save_s,
            ),
            ("workers", "Worker threads", status.workers as u64),
            ("workers_answering", "Workers that answered at once", status.reports.len() as u64),
            ("ready", "1 if /ready is 200", u64::from(status.is_healthy() && found.is_ready())),
            (
                "shards_missing",
                "Shards that the map places here and that are missing",
                found.missing,
            ),
            ("shards_leaderless", "Shards here without a known leader", found.leaderless),
            ("shards_behind", "Shards here that have not caught up", found.behind),
            (
                "turns_total",
                "Turns of the workers' event loops",
                status.reports.iter().map(|report| report.turns).sum(),
            ),
            (
                "snapshots_in_progress",
                "Shards whose snapshot is being written",
                status.reports.iter().map(|report| report.snapshots).sum(),
            ),
        ] {
            self.value(name, help, value)?;
        }
        Ok(())
    }

    /// Writes to the disk, and messages to other machines.
    fn machines(&self, status: &Status) -> Result<(), prometheus::Error> {
        for (name, help, value) in status.log.iter().flat_map(|log| log.numbers()) {
            self.value(name, help, value)?;
        }
        let mut sum = PeerCounts::default();
        for report in &status.reports {
            sum.add(&report.peers);
        }
        let dropped = "Messages of PUBLISH not sent to a machine that is too slow";
        self.value("peer_broadcasts_dropped_total", dropped, sum.broadcasts_dropped)?;
        self.value("peer_sends_total", "System calls that sent to other machines", sum.sends)?;
        self.value("peer_sent_bytes_total", "Bytes sent to other machines", sum.bytes)?;
        let options = Opts::new("peer_messages_total", "Messages sent to other machines");
        let messages = IntGaugeVec::new(options, &["kind"])?;
        for (kind, count) in sum.messages() {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            messages.with_label_values(&[kind]).set(count);
        }
        self.add(messages)
    }

    /// Sessions, nodes and watches, and the clients of ZooKeeper's protocol. Numbers of the tree
    /// are those of the local replica, if there is one; watches are known only to its leader.
    fn coordination(&self, status: &Status) -> Result<(), prometheus::Error> {
        let mut sum = Clients::default();
        status.reports.iter().for_each(|report| sum.add(&report.clients));
        let survey = sum.tree();
        let Clients { connections, outstanding, talk, .. } = sum;
        for (name, help, value) in [
            ("zookeeper_connections", "Connections of ZooKeeper's clients", connections as u64),
            ("zookeeper_outstanding", "Their requests without an answer", outstanding as u64),
            ("zookeeper_received_total", "Frames received from them", talk.received),
            ("zookeeper_sent_total", "Frames sent to them", talk.sent),
        ] {
            self.value(name, help, value)?;
        }
        let Some(survey) = survey else { return Ok(()) };
        for (name, help, value) in [
            ("coordination_sessions", "Sessions", survey.sessions as u64),
            ("coordination_nodes", "Nodes of the tree", survey.nodes as u64),
            ("coordination_shards", "Shards that the tree is spread over", survey.shards.into()),
            ("coordination_ephemerals", "Nodes that end with a session", survey.ephemerals as u64),
            ("coordination_bytes", "Bytes of nodes' paths and data", survey.bytes),
            ("coordination_quotas", "Quotas", survey.quotas as u64),
            (
                "coordination_quotas_exceeded",
                "Quotas that are exceeded, soft or hard",
                survey.quotas_exceeded as u64,
            ),
        ] {
            self.value(name, help, value)?;
        }
        let Some(watched) = survey.watched else { return Ok(()) };
        let help = "Watched paths, each counted once for each session";
        self.value("coordination_watches", help, watched.watches as u64)
    }

    /// Measurements of the probe, in a cluster.
    fn synchrony(&self, status: &Status) -> Result<(), prometheus::Error> {
        let Some(picture) = &status.synchrony else { return Ok(()) };
        let help = "Round trips to another machine in the last minute; +Inf: no answer";
        let rtt = GaugeVec::new(Opts::new("peer_rtt_seconds", help), &["peer", "quantile"])?;
        let help = "Questions to another machine without an answer in time";
        let lost = IntGaugeVec::new(Opts::new("peer_lost_total", help), &["peer"])?;
        for peer in &picture.peers {
            let label = peer.machine.to_string();
            for (quantile, us) in quantiles(&peer.minute) {
                rtt.with_label_values(&[&label, quantile]).set(seconds(us));
            }
            let total = i64::try_from(peer.lost_total).unwrap_or(i64::MAX);
            lost.with_label_values(&[&label]).set(total);
        }
        let help = "Lateness of this machine's timers in the last minute";
        let late = GaugeVec::new(Opts::new("timer_late_seconds", help), &["quantile"])?;
        for (quantile, us) in quantiles(&picture.late).into_iter().filter(|(_, us)| us.is_some()) {
            late.with_label_values(&[quantile]).set(seconds(us));
        }
        let help = "1 if the machines have found a machine or its disk to be slow";
        let slow = IntGaugeVec::new(Opts::new("node_slow", help), &["machine"])?;
        let others = picture.peers.iter().map(|peer| peer.machine);
        for machine in others.chain([picture.own]) {
            let held = |kind: &str| {
                let mut held = picture.verdicts.iter();
                held.any(|verdict| verdict.kind == kind && verdict.machines == [machine])
            };
            let found = i64::from(held("slow") || held("observer") || held("disk"));
            slow.with_label_values(&[&machine.to_string()]).set(found);
        }
        for collector in [rtt, late] {
            self.add(collector)?;
        }
        self.add(lost)?;
        self.add(slow)
    }

    fn gateways(&self, status: &Status) -> Result<(), prometheus::Error> {
        let mut sum = engine::gateway::GatewayStats::default();
        for report in &status.reports {
            sum.add(&report.gateway);
        }
        let names = [
            ("commands_total", "Commands received"),
            ("errors_total", "Commands answered with an error"),
            ("requests_to_shards_total", "Messages sent to shards"),
            ("transactions_committed_total", "Transactions committed"),
            ("transactions_aborted_total", "Transactions aborted"),
            ("transactions_retried_total", "Attempts repeated by the server"),
            ("watch_failures_total", "Transactions stopped by WATCH"),
            ("snapshot_rounds_total", "Rounds of snapshot reads"),
            ("recoveries_total", "Transactions of silent coordinators that were recovered"),
            ("locks_combined_total", "Locks shared within the gateway, without a message"),
            ("gateway_wounds_total", "Wounds received"),
            ("published_total", "Messages published"),
            ("auth_failures_total", "Failed authentications"),
            ("denied_total", "Commands refused by access control"),
            ("sessions", "Open sessions"),
            ("sessions_blocked", "Sessions in a blocking command"),
            ("sessions_subscribed", "Sessions with subscriptions"),
            ("transactions_interactive", "Interactive transactions in progress"),
        ];
        for ((name, help), value) in names.into_iter().zip(sum.numbers()) {
            self.value(name, help, value)?;
        }
        self.scripts(status)?;
        let help = "Clients admitted to locks that this server keeps (LOCK.ACQUIRE ... NEAR)";
        self.value("lock_near_stays_total", help, sum.near_stays)?;
        let help = "Connections closed because a request met the loss of a leader";
        self.value("connections_lost_leader_total", help, sum.closed_on_lost_leader)
    }

    /// Scripts and functions, of all texts together.
    fn scripts(&self, status: &Status) -> Result<(), prometheus::Error> {
        let mut sum = ScriptCount::default();
        status.reports.iter().flat_map(|report| &report.scripts).for_each(|count| sum.add(count));
        let help =
            "Runs of scripts and functions, beside the records of a shard or as a transaction";
        let runs = IntGaugeVec::new(Opts::new("scripts_total", help), &["at"])?;
        for (at, value) in [("shard", sum.at_shards), ("gateway", sum.at_gateways)] {
            runs.with_label_values(&[at]).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        self.add(runs)?;
        self.value("scripts_failed_total", "Runs of scripts that ended with an error", sum.failed)?;
        self.value("script_steps_total", "Steps of all runs of scripts", sum.steps)
    }

    fn shards(&self, status: &Status) -> Result<(), prometheus::Error> {
        let names = [
            ("keys", "Records"),
            ("keys_with_expiry", "Records that expire"),
            ("requests_total", "Requests received"),
            ("operations_total", "Operations applied"),
            ("log_appends_total", "Log entries proposed"),
            ("log_records_total", "Records in log entries"),
            ("log_bytes_total", "Bytes of log entries"),
            (
                "locks_granted_total",
                "Requests of transactions for locks of records that were granted at once",
            ),
            ("locks_waited_total", "Requests that waited for locks of records"),
            ("locks_waited_microseconds_total", "Time that requests waited for locks of records"),
            ("refused_total", "Requests refused"),
            ("phases_total", "Phases begun under contention"),
            ("wounds_total", "Wounds sent"),
            ("waiting", "Requests waiting for locks of records"),
            ("prepared", "Transactions prepared and not executed"),
            ("expired_total", "Records removed because they had expired"),
            ("guard_failures_total", "Guards that did not hold"),
            ("duplicates_total", "Retries recognised by their request number"),
        ];
        let gauges = of_shards("shard", &names)?;
        let conflicts = IntGaugeVec::new(
            Opts::new("conflicts_total", "Waits by lock mode held and asked for"),
            &["held", "asked"],
        )?;
        for (shard, stats) in status.reports.iter().flat_map(|report| &report.shards) {
            let label = shard.0.to_string();
            set(&gauges, &label, stats.numbers());
            for ((held, asked), count) in &stats.conflicts {
                let count = i64::try_from(*count).unwrap_or(i64::MAX);
                conflicts.with_label_values(&[held, asked]).add(count);
            }
        }
        for gauge in gauges {
            self.add(gauge)?;
        }
        self.add(conflicts)?;
        self.locks(status)
    }

    /// Named locks, as seen by the leaders on this machine.
    fn locks(&self, status: &Status) -> Result<(), prometheus::Error> {
        let names = [
            ("grants_total", "Grants of locks by name, sections among them"),
            ("refused_total", "Attempts to take a lock without waiting that were refused"),
            ("releases_total", "Locks that were released"),
            ("lost_total", "Releases and renewals of locks that were no longer held"),
            ("timeouts_total", "Waits that ended without a grant"),
            ("deadlocks_total", "Waits that were refused with DEADLOCK"),
            ("early_total", "Grants reported before the release was durable"),
            ("fenced_total", "Commands that were refused with FENCED"),
            ("waiting", "Clients that wait at locks and barriers"),
            ("longest_wait_microseconds", "Waiting time of the first waiter in any queue"),
        ];
        let gauges = of_shards("lock", &names)?;
        let mut waits = Histogram::new("lock_wait_seconds", "From the request to the grant")?;
        let mut holds = Histogram::new("lock_hold_seconds", "From the grant to the release")?;
        for (shard, stats) in status.reports.iter().flat_map(|report| &report.shards) {
            let label = shard.0.to_string();
            set(&gauges, &label, stats.locks.numbers());
            waits.put(&label, &stats.locks.waits);
            holds.put(&label, &stats.locks.holds);
        }
        for gauge in gauges {
            self.add(gauge)?;
        }
        self.add(waits)?;
        self.add(holds)
    }
}

/// Creates a gauge for each name, with a value for each shard.
fn of_shards(of: &str, names: &[(&str, &str)]) -> Result<Vec<IntGaugeVec>, prometheus::Error> {
    let gauge = |(name, help): &(&str, &str)| {
        IntGaugeVec::new(Opts::new(format!("{of}_{name}"), *help), &["shard"])
    };
    names.iter().map(gauge).collect()
}

/// Sets the values of one shard, in the order of the gauges.
fn set(gauges: &[IntGaugeVec], shard: &str, values: impl IntoIterator<Item = u64>) {
    for (gauge, value) in gauges.iter().zip(values) {
        gauge.with_label_values(&[shard]).set(i64::try_from(value).unwrap_or(i64::MAX));
    }
}

/// Histogram of durations that were counted elsewhere, for each shard.
struct Histogram {
    desc: Desc,
    family: MetricFamily,
}

impl Histogram {
    fn new(name: &str, help: &str) -> Result<Self, prometheus::Error> {
        let desc = Desc::new(name.into(), help.into(), vec!["shard".into()], HashMap::new())?;
        let mut family = MetricFamily::default();
        family.set_name(name.into());
        family.set_help(help.into());
        family.set_field_type(MetricType::HISTOGRAM);
        Ok(Self { desc, family })
    }

    fn put(&mut self, shard: &str, durations: &Durations) {
        let mut histogram = proto::Histogram::default();
        histogram.set_sample_count(durations.count());
        histogram.set_sample_sum(durations.sum_us as f64 / 1e6);
        let buckets = durations.up_to().map(|(end_us, count)| {
            let mut bucket = proto::Bucket::default();
            bucket.set_upper_bound(end_us as f64 / 1e6);
            bucket.set_cumulative_count(count);
            bucket
        });
        buckets.for_each(|bucket| histogram.mut_bucket().push(bucket));
        let mut label = LabelPair::default();
        label.set_name("shard".into());
        label.set_value(shard.into());
        let mut metric = Metric::default();
        metric.mut_label().push(label);
        metric.set_histogram(histogram);
        self.family.mut_metric().push(metric);
    }
}

impl Collector for Histogram {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        vec![self.family.clone()]
    }
}

/// Quantiles with their labels.
fn quantiles(of: &Quantiles) -> [(&'static str, Option<u32>); 3] {
    [("0.5", of.p50_us), ("0.9", of.p90_us), ("0.99", of.p99_us)]
}

/// Converts microseconds to seconds; none becomes infinity.
fn seconds(us: Option<u32>) -> f64 {
    us.map_or(f64::INFINITY, |us| f64::from(us) / 1e6)
}
