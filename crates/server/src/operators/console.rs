//! Console: one page for operators, and its numbers as JSON.
//!
//! The page is embedded in the binary and asks this server alone, once a second. It needs nothing
//! else from any network, and its content security policy forbids browsers to load anything else.

use super::counts::PeerCounts;
use super::troubles::{Trouble, troubles};
use crate::control::Status;
use crate::synchrony::picture::Picture;
use adt::Blob;
use adt::command::database::name_of;
use engine::gateway::{GatewayStats, Overview, ShardSeen};
use engine::ids::{MachineId, ShardId};
use engine::script::counts::ScriptCount;
use engine::stats::{LockStats, ShardStats};
use serde::Serialize;
use std::collections::BTreeMap;

/// Page.
pub const PAGE: &str = include_str!("console/page.html");
/// Content security policy: the page may use itself and this server only.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src \
                          'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; \
                          form-action 'none'; frame-ancestors 'none'";

/// Limit on the keys shown.
const HOT_KEYS_SHOWN: usize = 20;
/// Limit on the scripts shown.
const SCRIPTS_SHOWN: usize = 20;
/// Limit on the pairs of lock modes shown.
const CONFLICTS_SHOWN: usize = 20;
/// Longer key names are truncated.
const KEY_CHARS_MAX: usize = 80;

/// Data of the page.
pub struct View {
    /// Status of the server.
    pub status: Status,
    /// Cluster as this machine sees it; none if the worker that knows it does not answer.
    pub overview: Option<Overview>,
    /// Whether key names may be shown: every client that can load the page could read the keys,
    /// too.
    pub shows_keys: bool,
}

#[derive(Serialize)]
struct Sheet<'a> {
    version: &'static str,
    uptime_s: u64,
    workers: usize,
    answering: usize,
    ready: bool,
    /// Problems, the most severe first.
    troubles: Vec<Trouble>,
    /// Shards that the map places here and that have no replica yet.
    missing: u64,
    leaderless: u64,
    behind: u64,
    shows_keys: bool,
    cluster: Option<Cluster>,
    shards: Vec<Shard>,
    hot_keys: Vec<HotKey>,
    queues: Vec<Queue>,
    locks: BTreeMap<&'static str, u64>,
    conflicts: Vec<Conflict>,
    scripts: Vec<ScriptRuns>,
    gateway: BTreeMap<&'static str, u64>,
    memory: Memory,
    log: BTreeMap<&'static str, u64>,
    peers: Peers,
    /// Measurements of the probe, in a cluster.
    synchrony: Option<&'a Picture>,
}

#[derive(Serialize)]
struct Cluster {
    name: String,
    machine: u16,
    epoch: Option<u64>,
    level: Option<u16>,
    machines: Vec<Machine>,
}

#[derive(Serialize)]
struct Machine {
    machine: u16,
    address: String,
    connected: bool,
    level: Option<u16>,
    leads: usize,
}

/// Shard. Counters are those of the replica on this machine, if any, since the machine's start.
#[derive(Serialize)]
struct Shard {
    shard: u16,
    slots: Vec<(u16, u16)>,
    leader: Option<u16>,
    /// Current term, or the last one known; `since_ms` is its beginning in milliseconds since 1970.
    term: u64,
    since_ms: u64,
    holders: Vec<u16>,
    here: Option<Counted>,
}

#[derive(Serialize)]
struct Counted {
    keys: u64,
    requests: u64,
    operations: u64,
    granted: u64,
    waited: u64,
    waited_us: u64,
    waiting: u64,
    refused: u64,
    prepared: u64,
    log_bytes: u64,
}

#[derive(Serialize)]
struct HotKey {
    shard: u16,
    key: Option<String>,
    waits: u64,
    waited_us: u64,
}

#[derive(Serialize)]
struct Queue {
    shard: u16,
    key: Option<String>,
    waiting: u64,
    longest_us: u64,
}

#[derive(Serialize)]
struct Conflict {
    held: String,
    asked: String,
    count: u64,
}

#[derive(Serialize)]
struct ScriptRuns {
    /// Name of the text; empty for the sum of those that are not counted by name.
    text: String,
    function: Option<String>,
    at_shards: u64,
    at_gateways: u64,
    failed: u64,
    steps: u64,
}

#[derive(Serialize)]
struct Memory {
    used_bytes: u64,
    data_bytes: u64,
    log_bytes: u64,
    buffer_bytes: u64,
    log_limit_bytes: u64,
    peak_bytes: u64,
    limit_bytes: u64,
    over_limit: bool,
}

#[derive(Serialize)]
struct Peers {
    sends: u64,
    sent_bytes: u64,
    messages: BTreeMap<&'static str, u64>,
}

/// Numbers of the page.
///
/// # Errors
/// If they cannot be serialized, which would be a mistake in this file.
pub fn json(view: &View) -> Result<String, serde_json::Error> {
    let View { status, overview, shows_keys } = view;
    let found = status.readiness();
    let here: BTreeMap<ShardId, &ShardStats> =
        status.reports.iter().flat_map(|report| &report.shards).map(|(id, s)| (*id, s)).collect();
    let facts = &status.facts;
    serde_json::to_string(&Sheet {
        version: env!("CARGO_PKG_VERSION"),
        uptime_s: facts.uptime_s,
        workers: status.workers,
        answering: status.reports.len(),
        ready: status.is_healthy() && found.is_ready(),
        troubles: troubles(status, overview.as_ref()),
        missing: found.missing,
        leaderless: found.leaderless,
        behind: found.behind,
        shows_keys: *shows_keys,
        cluster: overview.as_ref().filter(|seen| !seen.cluster.is_empty()).map(cluster),
        shards: overview.iter().flat_map(|o| &o.shards).map(|seen| shard(seen, &here)).collect(),
        hot_keys: hot_keys(&here, *shows_keys),
        queues: queues(&here, *shows_keys),
        locks: locks(&here),
        conflicts: conflicts(&here),
        scripts: scripts(status, *shows_keys),
        gateway: gateway(status),
        memory: Memory {
            used_bytes: facts.memory_bytes,
            data_bytes: facts.memory_data_bytes(),
            log_bytes: facts.memory_log_bytes,
            buffer_bytes: facts.memory_buffer_bytes,
            log_limit_bytes: facts.memory_log_limit_bytes,
            peak_bytes: facts.memory_peak_bytes,
            limit_bytes: facts.memory_limit_bytes,
            over_limit: facts.over_memory_limit,
        },
        log: status.log.iter().flat_map(|log| log.numbers()).map(|(n, _, v)| (n, v)).collect(),
        peers: peers(status),
        synchrony: status.synchrony.as_ref(),
    })
}

fn cluster(seen: &Overview) -> Cluster {
    let leads = |machine: MachineId| {
        seen.shards.iter().filter(|shard| shard.leader == Some(machine)).count()
    };
    let machines = seen.machines.iter().map(|machine| Machine {
        machine: machine.number.0,
        address: match machine.host.as_str() {
            "" => String::new(),
            host => format!("{host}:{}", machine.port),
        },
        connected: machine.connected,
        level: machine.level.map(|level| level.0),
        leads: leads(machine.number),
    });
    let mut machines: Vec<Machine> = machines.collect();
    machines.sort_by_key(|machine| machine.machine);
    Cluster {
        name: seen.cluster.clone(),
        machine: seen.own.0,
        epoch: seen.map.map(|(epoch, _)| epoch),
        level: seen.map.map(|(_, level)| level.0),
        machines,
    }
}

fn shard(seen: &ShardSeen, here: &BTreeMap<ShardId, &ShardStats>) -> Shard {
    Shard {
        shard: seen.shard.0,
        slots: seen.slots.clone(),
        leader: seen.leader.map(|machine| machine.0),
        term: seen.term,
        since_ms: seen.since_us / 1000,
        holders: seen.holders.iter().map(|machine| machine.0).collect(),
        here: here.get(&seen.shard).map(|stats| Counted {
            keys: stats.keys,
            requests: stats.requests,
            operations: stats.operations,
            granted: stats.granted,
            waited: stats.waited,
            waited_us: stats.waited_us,
            waiting: stats.waiting,
            refused: stats.refused,
            prepared: stats.prepared,
            log_bytes: stats.log_bytes,
        }),
    }
}

/// Key with two numbers, as shards report them.
type Reported = (Blob, u64, u64);

/// Entries of all shards with the largest numbers, as many as are shown.
fn largest<'a>(
    here: &BTreeMap<ShardId, &'a ShardStats>,
    of: fn(&ShardStats) -> &[Reported],
    numbers: fn(&Reported) -> (u64, u64),
) -> impl Iterator<Item = (ShardId, &'a Reported)> {
    let all = here.iter().flat_map(|(shard, stats)| of(stats).iter().map(|told| (*shard, told)));
    let mut all: Vec<_> = all.collect();
    all.sort_by(|(_, a), (_, b)| (numbers(b), &a.0).cmp(&(numbers(a), &b.0)));
    all.into_iter().take(HOT_KEYS_SHOWN)
}

/// Keys with the longest waiting times, on all shards.
fn hot_keys(here: &BTreeMap<ShardId, &ShardStats>, shows: bool) -> Vec<HotKey> {
    let told = largest(here, |stats| &stats.hot_keys, |(_, waits, us)| (*us, *waits));
    told.map(|(shard, (key, waits, waited_us))| HotKey {
        shard: shard.0,
        key: shows.then(|| shown(key)),
        waits: *waits,
        waited_us: *waited_us,
    })
    .collect()
}

/// Longest waiter queues, on all shards.
fn queues(here: &BTreeMap<ShardId, &ShardStats>, shows: bool) -> Vec<Queue> {
    let told = largest(here, |stats| &stats.locks.queues, |(_, waiting, us)| (*waiting, *us));
    told.map(|(shard, (key, waiting, longest_us))| Queue {
        shard: shard.0,
        key: shows.then(|| shown(key)),
        waiting: *waiting,
        longest_us: *longest_us,
    })
    .collect()
}

/// Outcomes of locks by name, on all shards together.
fn locks(here: &BTreeMap<ShardId, &ShardStats>) -> BTreeMap<&'static str, u64> {
    let sum = |of: fn(&LockStats) -> u64| here.values().map(|stats| of(&stats.locks)).sum();
    BTreeMap::from([
        ("granted", sum(|locks| locks.granted)),
        ("lost", sum(|locks| locks.gone)),
        ("timed_out", sum(|locks| locks.timed_out)),
        ("deadlocks", sum(|locks| locks.deadlocks)),
        ("fenced", sum(|locks| locks.fenced)),
        ("waits", sum(|locks| locks.waits.count())),
        ("waited_us", sum(|locks| locks.waits.sum_us)),
        ("holds", sum(|locks| locks.holds.count())),
        ("held_us", sum(|locks| locks.holds.sum_us)),
    ])
}

/// Key as displayed, truncated if it is long.
fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(name_of(key)).chars().take(KEY_CHARS_MAX).collect()
}

fn conflicts(here: &BTreeMap<ShardId, &ShardStats>) -> Vec<Conflict> {
    let mut sum: BTreeMap<&(String, String), u64> = BTreeMap::new();
    for (pair, count) in here.values().flat_map(|stats| &stats.conflicts) {
        *sum.entry(pair).or_default() += count;
    }
    let mut all: Vec<_> = sum.into_iter().collect();
    all.sort_by_key(|(pair, count)| (std::cmp::Reverse(*count), *pair));
    let told = all.into_iter().take(CONFLICTS_SHOWN);
    told.map(|((held, asked), count)| Conflict { held: held.clone(), asked: asked.clone(), count })
        .collect()
}

/// Scripts with the most steps, on all shards and workers together.
fn scripts(status: &Status, shows: bool) -> Vec<ScriptRuns> {
    let mut sum: BTreeMap<(&Blob, &Option<Blob>), ScriptCount> = BTreeMap::new();
    for count in status.reports.iter().flat_map(|report| &report.scripts) {
        sum.entry((&count.text, &count.function)).or_default().add(count);
    }
    let mut all: Vec<_> = sum.into_iter().collect();
    all.sort_by_key(|(name, count)| (std::cmp::Reverse(count.steps), *name));
    let told = all.into_iter().take(SCRIPTS_SHOWN);
    told.map(|((text, function), count)| ScriptRuns {
        text: shown(text),
        function: function.as_ref().filter(|_| shows).map(|name| shown(name)),
        at_shards: count.at_shards,
        at_gateways: count.at_gateways,
        failed: count.failed,
        steps: count.steps,
    })
    .collect()
}

fn gateway(status: &Status) -> BTreeMap<&'static str, u64> {
    let mut sum = GatewayStats::default();
    status.reports.iter().for_each(|report| sum.add(&report.gateway));
    BTreeMap::from([
        ("connections", status.facts.connections),
        ("commands", sum.commands),
        ("errors", sum.errors),
        ("committed", sum.committed),
        ("aborted", sum.aborted),
        ("retried", sum.retried),
        ("sessions", sum.sessions),
        ("blocked", sum.blocked),
        ("subscribers", sum.subscribers),
        ("interactive", sum.interactive),
        ("received_bytes", status.facts.bytes_in),
        ("sent_bytes", status.facts.bytes_out),
        ("cpu_us", status.facts.cpu_user_us + status.facts.cpu_system_us),
    ])
}

fn peers(status: &Status) -> Peers {
    let mut sum = PeerCounts::default();
    status.reports.iter().for_each(|report| sum.add(&report.peers));
    let messages = sum.messages().collect();
    Peers { sends: sum.sends, sent_bytes: sum.bytes, messages }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(keys: &[(&str, u64, u64)]) -> ShardStats {
        let hot_keys = keys.iter().map(|(key, waits, us)| ((*key).into(), *waits, *us)).collect();
        ShardStats { hot_keys, ..ShardStats::default() }
    }

    #[test]
    fn hot_keys_of_all_shards_come_in_one_list() {
        let (one, two) = (stats(&[("a", 1, 10), ("b", 5, 50)]), stats(&[("<c>", 2, 30)]));
        let here = BTreeMap::from([(ShardId(0), &one), (ShardId(1), &two)]);
        let told = |shows| {
            let keys = hot_keys(&here, shows).into_iter();
            keys.map(|hot| (hot.shard, hot.key, hot.waited_us)).collect::<Vec<_>>()
        };
        let name = |text: &str| Some(text.to_owned());
        assert_eq!(told(true), [(0, name("b"), 50), (1, name("<c>"), 30), (0, name("a"), 10)]);
        assert!(told(false).iter().all(|(_, key, _)| key.is_none()), "names are hidden");
    }

    #[test]
    fn the_page_asks_no_server_but_its_own() {
        assert!(!PAGE.contains("http:") && !PAGE.contains("https:") && !PAGE.contains("//cdn"));
        assert!(!PAGE.contains("innerHTML"), "names of keys are text, whatever is in them");
    }
}
