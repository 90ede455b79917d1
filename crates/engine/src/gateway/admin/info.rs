//! The text of `INFO`: sections of `name:value` lines, with the names that Redis' clients and
//! monitoring look for, and two sections of our own, `transactions` and `contention`.

use crate::gateway::api::{CommandCount, Facts, GatewayStats};
use crate::gateway::clients::connection::hello::REDIS_VERSION;
use crate::gateway::clients::session_commands;
use crate::limits::CONNECTIONS_MAX;
use crate::stats::ShardStats;
use adt::command::database::{database_of, name_of};
use adt::{Args, Reply};
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

/// Sections in the order in which they are told.
pub const SECTIONS: [&str; 12] = [
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cpu",
    "commandstats",
    "transactions",
    "contention",
    "cluster",
    "keyspace",
];
/// The section that is told only if it is asked for.
const SELDOM: &str = "commandstats";
/// Most hot keys and most conflicting pairs that are told.
const CONTENTION_ROWS_MAX: usize = 32;

/// Sources of the text.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// Version of the product.
    pub version: &'a str,
    /// Facts that the server tells about itself.
    pub facts: &'a Facts,
    /// Whether there are other machines.
    pub clustered: bool,
    /// Counters, summed over the gateways.
    pub gateway: &'a GatewayStats,
    /// How many gateways there are.
    pub gateways: u16,
    /// Counters of each shard.
    pub shards: &'a [ShardStats],
}

/// Which sections are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Names of the wanted sections; none for all.
    sections: Option<Vec<String>>,
    /// Whether the sections are wanted that are told only on demand.
    seldom: bool,
}

impl Wanted {
    /// From `INFO [section ...]`: `all` and `everything` mean all sections, no word and `default` all but
    /// what is counted of each command. Unknown names are no error and have no lines, as in Redis.
    pub fn parse(args: &Args<'_>) -> Self {
        let names: Vec<String> =
            args.iter_from(1).map(|w| String::from_utf8_lossy(w).to_ascii_lowercase()).collect();
        let is = |any: &[&str]| names.iter().any(|name| any.contains(&name.as_str()));
        let seldom = is(&["all", "everything", SELDOM]);
        let usual = names.is_empty() || is(&["default", "all", "everything"]);
        Self { sections: (!usual).then_some(names), seldom }
    }

    /// Whether a section is wanted.
    pub fn has(&self, section: &str) -> bool {
        if section == SELDOM {
            return self.seldom;
        }
        self.sections.as_ref().is_none_or(|names| names.iter().any(|name| name == section))
    }

    /// Whether shards must be asked for their counters. `server` says how many answered.
    pub fn needs_shards(&self) -> bool {
        ["server", "stats", "transactions", "contention", "keyspace"].iter().any(|s| self.has(s))
    }
}

/// Lines of one section.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn put(&mut self, name: &str, value: impl Display) {
        let value = value.to_string().replace(['\r', '\n'], " ");
        write!(self.0, "{name}:{value}\r\n").expect("writing to memory");
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.put(name, u8::from(value));
    }
}

/// The reply of `INFO`.
pub fn reply(sources: &Sources<'_>, wanted: &Wanted) -> Reply {
    Reply::Text(text(sources, wanted))
}

/// The text of the wanted sections.
pub fn text(sources: &Sources<'_>, wanted: &Wanted) -> String {
    let total = total(sources.shards);
    let mut names = SECTIONS.to_vec();
    for (section, ..) in &sources.facts.more {
        if !names.contains(section) {
            names.push(section);
        }
    }
    let mut text = String::new();
    for section in names.into_iter().filter(|name| wanted.has(name)) {
        let mut lines = Lines::default();
        write_section(section, sources, &total, &mut lines);
        for (_, name, value) in sources.facts.more.iter().filter(|more| more.0 == section) {
            lines.put(name, value);
        }
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let (first, rest) = section.split_at(1);
        write!(text, "# {}{rest}\r\n{}", first.to_ascii_uppercase(), lines.0)
            .expect("writing to memory");
    }
    text
}

fn write_section(name: &str, sources: &Sources<'_>, total: &ShardStats, out: &mut Lines) {
    match name {
        "server" => server(sources, out),
        "clients" => clients(sources, out),
        "memory" => memory(sources.facts, out),
        "persistence" => persistence(sources.facts, out),
        "stats" => stats(sources, total, out),
        "replication" => replication(sources.facts, out),
        "cpu" => cpu(sources.facts, out),
        "commandstats" => commands(sources.gateway, out),
        "transactions" => transactions(sources.gateway, total, out),
        "contention" => contention(total, out),
        "cluster" => out.put("cluster_enabled", u8::from(sources.clustered)),
        "keyspace" => {
            for (number, keys, expires) in databases(total) {
                let value = format_args!("keys={keys},expires={expires},avg_ttl=0");
                out.put(&format!("db{number}"), value);
            }
        }
        _ => {}
    }
}

/// The databases that have keys, each with their number and the number of those that expire.
fn databases(total: &ShardStats) -> Vec<(u8, u64, u64)> {
    let sum = |of: fn(&(u8, u64, u64)) -> u64| total.databases.iter().map(of).sum::<u64>();
    let keys = total.keys.saturating_sub(sum(|(_, keys, _)| *keys));
    let expires = total.keys_with_expiry.saturating_sub(sum(|(_, _, expires)| *expires));
    let first = (keys > 0).then_some((0, keys, expires));
    first.into_iter().chain(total.databases.iter().copied()).collect()
}

fn server(sources: &Sources<'_>, out: &mut Lines) {
    let facts = sources.facts;
    out.put("redis_version", REDIS_VERSION);
    out.put("claret_version", sources.version);
    out.put("redis_mode", "standalone");
    out.put("os", std::env::consts::OS);
    out.put("arch_bits", usize::BITS);
    out.put("process_id", facts.process);
    out.put("run_id", &facts.run_id);
    out.put("tcp_port", facts.port);
    out.put("uptime_in_seconds", facts.uptime_s);
    out.put("uptime_in_days", facts.uptime_s / 86_400);
    out.put("shards", sources.shards.len());
    out.put("gateways", sources.gateways);
}

fn clients(sources: &Sources<'_>, out: &mut Lines) {
    out.put("connected_clients", sources.gateway.sessions);
    out.put("maxclients", CONNECTIONS_MAX);
    out.put("blocked_clients", sources.gateway.blocked);
    out.put("tracking_clients", sources.gateway.tracking);
    out.put("pubsub_clients", sources.gateway.subscribers);
    out.put("interactive_transactions", sources.gateway.interactive);
}

fn memory(facts: &Facts, out: &mut Lines) {
    let pairs = [
        ("used_memory", facts.memory_bytes),
        ("used_memory_peak", facts.memory_peak_bytes),
        ("used_memory_dataset", facts.memory_data_bytes()),
        ("used_memory_log", facts.memory_log_bytes),
        ("used_memory_buffers", facts.memory_buffer_bytes),
        ("maxmemory", facts.memory_limit_bytes),
        ("maxmemory_log", facts.memory_log_limit_bytes),
    ];
    for (name, bytes) in pairs {
        out.put(name, bytes);
        out.put(&format!("{name}_human"), human(bytes));
    }
    let peak = facts.memory_peak_bytes.max(facts.memory_bytes).max(1);
    let share = facts.memory_bytes as f64 * 100.0 / peak as f64;
    out.put("used_memory_peak_perc", format!("{share:.2}%"));
    out.put("maxmemory_policy", "noeviction");
    out.flag("over_memory_limit", facts.over_memory_limit);
    out.flag("over_log_limit", facts.over_log_limit);
}

fn persistence(facts: &Facts, out: &mut Lines) {
    out.flag("loading", facts.loading);
    out.flag("rdb_bgsave_in_progress", facts.saving);
    out.put("rdb_last_bgsave_status", if facts.save_failed { "err" } else { "ok" });
    out.put("rdb_last_save_time", facts.saved_s());
    // The log is what Redis' append-only file is.
    out.put("aof_enabled", 1);
    out.flag("commits_wait_for_disk", facts.durable);
}

fn stats(sources: &Sources<'_>, total: &ShardStats, out: &mut Lines) {
    let (facts, gateway) = (sources.facts, sources.gateway);
    out.put("total_connections_received", facts.connections_total);
    out.put("rejected_connections", facts.connections_refused);
    out.put("total_commands_processed", gateway.commands);
    out.put("total_error_replies", gateway.errors);
    out.put("total_net_input_bytes", facts.bytes_in);
    out.put("total_net_output_bytes", facts.bytes_out);
    out.put("expired_keys", total.expired);
    out.put("evicted_keys", 0);
    out.put("acl_access_denied_auth", gateway.auth_failures);
    out.put("acl_access_denied_cmd", gateway.denied);
    out.put("messages_published", gateway.published);
    out.put("tracking_total_keys", gateway.tracked_keys);
    out.put("tracking_total_prefixes", gateway.tracked_prefixes);
    out.put("shard_requests", total.requests);
    out.put("operations_applied", total.operations);
    out.put("log_appends", total.log_appends);
    out.put("log_records", total.log_records);
    out.put("log_bytes", total.log_bytes);
    out.put("duplicate_requests", total.duplicates);
}

fn replication(facts: &Facts, out: &mut Lines) {
    out.put("role", "master");
    out.put("connected_slaves", 0);
    out.put("master_replid", &facts.run_id);
    out.put("master_repl_offset", 0);
}

fn cpu(facts: &Facts, out: &mut Lines) {
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    out.put("used_cpu_sys", seconds(facts.cpu_system_us));
    out.put("used_cpu_user", seconds(facts.cpu_user_us));
}

fn commands(gateway: &GatewayStats, out: &mut Lines) {
    for (spec, count) in session_commands::all().iter().zip(&gateway.by_command) {
        let CommandCount { calls, us, rejected, failed } = *count;
        if calls + rejected == 0 {
            continue;
        }
        let each = us as f64 / calls.max(1) as f64;
        let value = format_args!(
            "calls={calls},usec={us},usec_per_call={each:.2},rejected_calls={rejected},\
             failed_calls={failed}"
        );
        out.put(&format!("cmdstat_{}", spec.name), value);
    }
}

fn transactions(gateway: &GatewayStats, total: &ShardStats, out: &mut Lines) {
    out.put("committed", gateway.committed);
    out.put("aborted", gateway.aborted);
    out.put("retried", gateway.retried);
    out.put("watch_failures", gateway.guard_failures);
    out.put("snapshot_rounds", gateway.snapshot_rounds);
    out.put("locks_combined", gateway.combined);
    out.put("messages_to_shards", gateway.requests);
    out.put("prepared_now", total.prepared);
    out.put("locks_granted_at_once", total.granted);
    out.put("lock_waits", total.waited);
    out.put("lock_waited_us", total.waited_us);
    out.put("lock_waiting_now", total.waiting);
    out.put("refused", total.refused);
    out.put("phases", total.phases);
    out.put("wounds", total.wounds);
}

fn contention(total: &ShardStats, out: &mut Lines) {
    for (rank, (key, waits, waited_us)) in total.hot_keys.iter().enumerate() {
        let name = name_of(key).escape_ascii().to_string().replace([',', '='], "?");
        let mut value = format!("key={name},waits={waits},waited_us={waited_us}");
        if let Some(database) = database_of(key).filter(|number| *number != 0) {
            value.push_str(&format!(",db={database}"));
        }
        out.put(&format!("hot_key_{rank}"), value);
    }
    let mut pairs: Vec<_> = total.conflicts.iter().collect();
    pairs.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    for (rank, ((holds, waits), count)) in pairs.into_iter().take(CONTENTION_ROWS_MAX).enumerate() {
        let value = format_args!("waiting={waits},holding={holds},count={count}");
        out.put(&format!("conflict_{rank}"), value);
    }
}

/// The counters of all shards together. Of the hot keys, those with the most time waited remain.
pub fn total(shards: &[ShardStats]) -> ShardStats {
    let mut total = ShardStats::default();
    let mut conflicts: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut databases: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
    for shard in shards {
        let pairs = [
            (&mut total.keys, shard.keys),
            (&mut total.keys_with_expiry, shard.keys_with_expiry),
            (&mut total.requests, shard.requests),
            (&mut total.operations, shard.operations),
            (&mut total.log_appends, shard.log_appends),
            (&mut total.log_records, shard.log_records),
            (&mut total.log_bytes, shard.log_bytes),
            (&mut total.granted, shard.granted),
            (&mut total.waited, shard.waited),
            (&mut total.waited_us, shard.waited_us),
            (&mut total.refused, shard.refused),
            (&mut total.phases, shard.phases),
            (&mut total.wounds, shard.wounds),
            (&mut total.waiting, shard.waiting),
            (&mut total.prepared, shard.prepared),
            (&mut total.expired, shard.expired),
            (&mut total.guard_failures, shard.guard_failures),
            (&mut total.duplicates, shard.duplicates),
        ];
        for (sum, part) in pairs {
            *sum += part;
        }
        for (pair, count) in &shard.conflicts {
            *conflicts.entry(pair.clone()).or_default() += count;
        }
        for (number, keys, expires) in &shard.databases {
            let sum = databases.entry(*number).or_default();
            *sum = (sum.0 + keys, sum.1 + expires);
        }
        total.hot_keys.extend(shard.hot_keys.iter().cloned());
    }
    total.conflicts = conflicts;
    let databases = databases.into_iter();
    total.databases = databases.map(|(number, (keys, expires))| (number, keys, expires)).collect();
    total.hot_keys.sort_by(|a, b| (b.2, b.1, &a.0).cmp(&(a.2, a.1, &b.0)));
    total.hot_keys.truncate(CONTENTION_ROWS_MAX);
    total
}

/// Bytes with a unit, as Redis writes them: `512B`, `1.50K`, `2.00M`.
pub fn human(bytes: u64) -> String {
    let units = ["K", "M", "G", "T", "P", "E"];
    let mut value = bytes as f64 / 1024.0;
    if value < 1.0 {
        return format!("{bytes}B");
    }
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::ArgBuf;

    fn wanted(line: &str) -> Wanted {
        Wanted::parse(&ArgBuf::of(line.split(' ')).args())
    }

    fn sample(line: &str) -> String {
        let mut shard =
            ShardStats { keys: 3, keys_with_expiry: 1, waited: 5, ..Default::default() };
        shard.hot_keys.push(("a,b\r\n".into(), 2, 40));
        shard.conflicts.insert(("set add".to_owned(), "set read".to_owned()), 7);
        let mut other = ShardStats { keys: 4, ..Default::default() };
        other.hot_keys.push(("hot".into(), 9, 900));
        other.conflicts.insert(("set add".to_owned(), "set read".to_owned()), 3);
        let facts = Facts {
            memory_bytes: 1536,
            memory_log_bytes: 1024,
            memory_buffer_bytes: 500,
            port: 6379,
            cpu_user_us: 1_500_000,
            more: vec![
                ("server", "executable".to_owned(), "x\r\nforged:1".to_owned()),
                ("raft", "term".to_owned(), "4".to_owned()),
            ],
            ..Facts::default()
        };
        let mut gateway = GatewayStats { committed: 11, sessions: 6, ..GatewayStats::default() };
        let position = session_commands::position(b"get").unwrap();
        *gateway.of_command(position) = CommandCount { calls: 3, us: 10, rejected: 1, failed: 2 };
        let sources = Sources {
            version: "0.1.0",
            clustered: false,
            facts: &facts,
            gateway: &gateway,
            gateways: 2,
            shards: &[shard, other],
        };
        text(&sources, &wanted(line))
    }

    #[test]
    fn every_line_is_a_header_a_pair_or_empty() {
        let text = sample("info");
        for line in text.split("\r\n") {
            assert!(line.is_empty() || line.starts_with("# ") || line.contains(':'), "{line}");
            assert!(!line.contains(['\r', '\n']));
        }
        for expected in [
            "# Server",
            "redis_version:7.4.0",
            "claret_version:0.1.0",
            "redis_mode:standalone",
            "connected_clients:6",
            "tcp_port:6379",
            "executable:x  forged:1",
            "loading:0",
            "role:master",
            "used_memory:1536",
            "used_memory_human:1.50K",
            "used_memory_dataset:12",
            "used_memory_log:1024",
            "used_memory_buffers:500",
            "used_cpu_user:1.500000",
            "committed:11",
            "lock_waits:5",
            "db0:keys=7,expires=1,avg_ttl=0",
            "hot_key_0:key=hot,waits=9,waited_us=900",
            "hot_key_1:key=a?b\\r\\n,waits=2,waited_us=40",
            "conflict_0:waiting=set read,holding=set add,count=10",
            "# Raft",
            "term:4",
        ] {
            assert!(text.split("\r\n").any(|line| line == expected), "{expected}\n{text}");
        }
    }

    #[test]
    fn sections_are_chosen_by_name() {
        let text = sample("info KeySpace raft nosuch");
        assert_eq!(
            text,
            "# Keyspace\r\ndb0:keys=7,expires=1,avg_ttl=0\r\n\r\n# Raft\r\nterm:4\r\n"
        );
        assert_eq!(sample("info nosuch"), "");
        let counts = "# Commandstats\r\n\
                      cmdstat_get:calls=3,usec=10,usec_per_call=3.33,rejected_calls=1,failed_calls=2\r\n";
        assert_eq!(sample("info commandstats"), counts);
        assert_eq!(sample("info all"), sample("info everything"));
        assert_eq!(sample("info all").replace(&format!("{counts}\r\n"), ""), sample("info"));
        assert_eq!(sample("info default cpu"), sample("info"));
        assert!(wanted("info").needs_shards() && wanted("info stats").needs_shards());
        assert!(wanted("info server").needs_shards(), "it says how many shards there are");
        assert!(!wanted("info memory clients").needs_shards());
    }

    #[test]
    fn sizes_for_people() {
        assert_eq!(human(0), "0B");
        assert_eq!(human(1023), "1023B");
        assert_eq!(human(1024), "1.00K");
        assert_eq!(human(3 << 20), "3.00M");
        assert_eq!(human(u64::MAX), "16.00E");
    }
}
