//! Configuration: flags override a TOML file, which overrides the defaults.
//!
//! [`Settings`] holds the given values, [`Options`] the resulting configuration. Everything is
//! checked before anything is touched.

pub mod cluster;
pub mod peer_tls;
mod period;
#[cfg(test)]
mod tests;

use crate::net::listen::Port;
use crate::net::secret::Secret;
use crate::synchrony::Mode;
use crate::synchrony::record::{Record, RecordTo};
use adt::command::tags::TagRules;
use adt::record::events::Classes;
use cluster::{ClusterOptions, ClusterSettings};
use engine::gateway::acl::Users;
use engine::gateway::{Order, Patience, UserConfig};
use engine::limits::{
    CONNECTIONS_MAX, COORDINATION_SHARE_MAX, LOG_MEMORY_BYTES_LEAST, LOG_MEMORY_BYTES_MIN, REAP_US,
    REAP_US_ALLOWED, SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS_ALLOWED, SHARDS_MAX, WORKERS_MAX,
};
use engine::limits::{LEADER_WAIT_MS, LEADER_WAIT_MS_ALLOWED};
use engine::message::Concurrency;
pub use period::Period;
use serde::Deserialize;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Placement rules of a store that is given none: for job queues whose scripts name several keys, which the
/// libraries build without a hash tag. They are those of `BullMQ` and Bull, bee-queue, Dramatiq and SAQ.
const PLACEMENT_DEFAULT: [&str; 4] = ["bull:*:", "bq:*:", "dramatiq:", "saq:"];

/// Condition for acknowledging a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// When it is durable on the disk.
    #[default]
    Always,
    /// When it is written to the file; the disk follows every second. A power failure may lose the
    /// last second.
    Everysec,
    /// Immediately. A crash loses everything since the last snapshot.
    None,
}

impl Durability {
    /// Name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Everysec => "everysec",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Durability {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Always, Self::Everysec, Self::None]
            .into_iter()
            .find(|durability| durability.name() == name)
            .ok_or_else(|| "durability is always, everysec or none".to_owned())
    }
}

/// Number of bytes, written as `1000`, `64kb`, `512mb`, `2gb` (powers of 1024, as in Redis).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.trim().to_ascii_lowercase();
        let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match &lower[digits.len()..] {
            "" | "b" => 0,
            "k" | "kb" => 10,
            "m" | "mb" => 20,
            "g" | "gb" => 30,
            "t" | "tb" => 40,
            _ => 64,
        };
        let number = digits.trim().parse::<u64>().ok();
        number
            .and_then(|number| number.checked_mul(1u64.checked_shl(shift)?))
            .map(Self)
            .ok_or_else(|| format!("'{text}' is not a size such as 100mb or 2gb"))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(u64),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(bytes) => Ok(Self(bytes)),
            Form::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// Ports, certificates and keys of TLS.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// TCP port.
    pub port: u16,
    /// TCP port for clients that speak ZooKeeper's protocol; 0 for any.
    pub zookeeper_port: Option<u16>,
    /// Certificate chain, PEM.
    pub cert: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
    /// Certificates of authorities; clients must then show a certificate that one of them signed.
    pub client_ca: Option<PathBuf>,
}

/// User with a password and rules.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserSettings {
    /// Name.
    pub name: String,
    /// Password.
    pub password: Option<Secret>,
    /// Instead of a password: its Argon2 string in PHC form, as `claret` would generate it.
    pub password_hash: Option<String>,
    /// Rules in the syntax of Redis' `ACL SETUSER`.
    #[serde(default)]
    pub rules: Vec<String>,
}

/// Settings from a file or from flags; none for those that were not given.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Data directory.
    pub dir: Option<PathBuf>,
    /// Address to listen on.
    pub bind: Option<IpAddr>,
    /// TCP port; 0 for any.
    pub port: Option<u16>,
    /// TCP port for clients of the coordination service, which use ZooKeeper's protocol; 0 for any.
    pub zookeeper_port: Option<u16>,
    /// Shortest session time-out of these clients, in milliseconds.
    pub zookeeper_min_session_timeout_ms: Option<i32>,
    /// Longest session time-out of these clients, in milliseconds.
    pub zookeeper_max_session_timeout_ms: Option<i32>,
    /// Number of shards over which their tree is spread.
    pub zookeeper_shards: Option<u16>,
    /// Limit on their connections from one address; 0 for no limit.
    pub zookeeper_connections_per_address: Option<usize>,
    /// Interval between searches for expired nodes and empty containers, in milliseconds.
    pub zookeeper_container_check_ms: Option<u64>,
    /// Number of shards.
    pub shards: Option<u16>,
    /// Placement rules of a new data directory or cluster, see [`TagRules`]; `none` alone for no rules.
    pub placement: Option<Vec<String>>,
    /// Number of worker threads.
    pub workers: Option<u16>,
    /// Condition for acknowledging a write.
    pub durability: Option<Durability>,
    /// Concurrency control, by name; see [`Concurrency::named`].
    pub cc: Option<String>,
    /// Method that keeps the order of pipelines across shards, by name; see [`Order::named`].
    pub order: Option<String>,
    /// Limit on the silence of an interactive transaction while others wait for it; 0 for no limit.
    pub transaction_idle_timeout: Option<Period>,
    /// Limit on the duration of an interactive transaction while others wait for it.
    pub transaction_timeout: Option<Period>,
    /// Memory for the data, beyond which writes that grow are refused; 0 for no limit.
    pub maxmemory: Option<Bytes>,
    /// Memory for logs, besides that for the data.
    pub maxmemory_log: Option<Bytes>,
    /// Limit on client connections.
    pub maxclients: Option<usize>,
    /// Password of the user `default`.
    pub password: Option<Secret>,
    /// Further users.
    pub users: Vec<UserSettings>,
    /// TLS.
    pub tls: Option<TlsSettings>,
    /// Whether to serve other machines without encryption.
    pub insecure: Option<bool>,
    /// TCP port of `/metrics`, `/health`, `/ready` and `/console`.
    pub metrics_port: Option<u16>,
    /// Permissions of the probe of a cluster.
    pub synchrony: Option<Mode>,
    /// Folder for the probe's single measurements.
    pub synchrony_dir: Option<PathBuf>,
    /// Days for which single measurements are kept.
    pub synchrony_keep_days: Option<u16>,
    /// Bytes of log of a shard after which a snapshot of it is written.
    pub snapshot_log_bytes: Option<Bytes>,
    /// Least severe level that is written to standard error: `error`, `warn`, `info`, `debug` or
    /// `trace`.
    pub log_level: Option<String>,
    /// Time for which a request waits for its shard to have a leader, in milliseconds.
    pub leader_wait_ms: Option<u64>,
    /// Whether a client whose request met the loss of a leader is disconnected instead of answered.
    pub close_on_lost_leader: Option<bool>,
    /// Keyspace events that subscribers are told, see [`Classes`].
    pub notify_keyspace_events: Option<String>,
    /// Cluster that the server belongs to.
    pub cluster: ClusterSettings,
}

/// Error in the settings.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl Settings {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// Names the file, the line and the key.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            ConfigError::new(format!("{} cannot be read: {error}", path.display()))
        })?;
        toml::from_str(&text)
            .map_err(|error| ConfigError::new(format!("in {}: {error}", path.display())))
    }

    /// Returns these settings, completed with those of `below`.
    pub fn over(self, below: Self) -> Self {
        Self {
            dir: self.dir.or(below.dir),
            bind: self.bind.or(below.bind),
            port: self.port.or(below.port),
            zookeeper_port: self.zookeeper_port.or(below.zookeeper_port),
            zookeeper_min_session_timeout_ms: self
                .zookeeper_min_session_timeout_ms
                .or(below.zookeeper_min_session_timeout_ms),
            zookeeper_max_session_timeout_ms: self
                .zookeeper_max_session_timeout_ms
                .or(below.zookeeper_max_session_timeout_ms),
            zookeeper_shards: self.zookeeper_shards.or(below.zookeeper_shards),
            zookeeper_connections_per_address: self
                .zookeeper_connections_per_address
                .or(below.zookeeper_connections_per_address),
            zookeeper_container_check_ms: self
                .zookeeper_container_check_ms
                .or(below.zookeeper_container_check_ms),
            shards: self.shards.or(below.shards),
            placement: self.placement.or(below.placement),
            workers: self.workers.or(below.workers),
            durability: self.durability.or(below.durability),
            cc: self.cc.or(below.cc),
            order: self.order.or(below.order),
            transaction_idle_timeout: self
                .transaction_idle_timeout
                .or(below.transaction_idle_timeout),
            transaction_timeout: self.transaction_timeout.or(below.transaction_timeout),
            maxmemory: self.maxmemory.or(below.maxmemory),
            maxmemory_log: self.maxmemory_log.or(below.maxmemory_log),
            maxclients: self.maxclients.or(below.maxclients),
            password: self.password.or(below.password),
            users: if self.users.is_empty() { below.users } else { self.users },
            tls: self.tls.or(below.tls),
            insecure: self.insecure.or(below.insecure),
            metrics_port: self.metrics_port.or(below.metrics_port),
            synchrony: self.synchrony.or(below.synchrony),
            synchrony_dir: self.synchrony_dir.or(below.synchrony_dir),
            synchrony_keep_days: self.synchrony_keep_days.or(below.synchrony_keep_days),
            snapshot_log_bytes: self.snapshot_log_bytes.or(below.snapshot_log_bytes),
            log_level: self.log_level.or(below.log_level),
            leader_wait_ms: self.leader_wait_ms.or(below.leader_wait_ms),
            close_on_lost_leader: self.close_on_lost_leader.or(below.close_on_lost_leader),
            notify_keyspace_events: self.notify_keyspace_events.or(below.notify_keyspace_events),
            cluster: self.cluster.over(below.cluster),
        }
    }
}

/// Days for which single measurements are kept by default.
const KEEP_DAYS: u16 = 7;

/// Checked and complete configuration of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Data directory.
    pub dir: PathBuf,
    /// Address to listen on.
    pub bind: IpAddr,
    /// TCP port; 0 for any.
    pub port: u16,
    /// TCP port for clients of the coordination service; 0 for any, none if they are not served.
    pub zookeeper_port: Option<u16>,
    /// Permitted session time-outs of these clients, in milliseconds.
    pub zookeeper_session_timeout_ms: RangeInclusive<i32>,
    /// Number of shards over which their tree is spread when it is first used.
    pub zookeeper_shards: u16,
    /// Limit on their connections from one address; 0 for no limit.
    pub zookeeper_connections_per_address: usize,
    /// Interval between searches for expired nodes and empty containers, in microseconds.
    pub zookeeper_container_check_us: u64,
    /// Number of shards, if it was set; an existing data directory knows its own.
    pub shards: Option<u16>,
    /// Placement rules, if they were set; an existing data directory or cluster knows its own.
    pub placement: Option<TagRules>,
    /// Number of worker threads.
    pub workers: u16,
    /// Condition for acknowledging a write.
    pub durability: Durability,
    /// Concurrency control.
    pub concurrency: Concurrency,
    /// Name of the concurrency control.
    pub cc: String,
    /// Method that keeps the order of pipelines across shards.
    pub order: Order,
    /// Time for which interactive transactions may keep others waiting.
    pub patience: Patience,
    /// Memory for the data, beyond which writes that grow are refused; 0 for no limit.
    pub memory_limit_bytes: u64,
    /// Memory for logs, besides that for the data.
    pub memory_log_bytes: u64,
    /// Limit on client connections.
    pub connections_max: usize,
    /// Password of the user `default`.
    pub password: Option<Secret>,
    /// Further users.
    pub users: Vec<UserSettings>,
    /// TLS.
    pub tls: Option<TlsSettings>,
    /// Whether to serve other machines without encryption.
    pub insecure: bool,
    /// TCP port of `/metrics`, `/health`, `/ready` and `/console`.
    pub metrics_port: Option<u16>,
    /// Permissions of the probe of a cluster.
    pub synchrony: Mode,
    /// Folder for the probe's single measurements, if they are kept.
    pub synchrony_dir: Option<PathBuf>,
    /// Days for which single measurements are kept.
    pub synchrony_keep_days: u16,
    /// Bytes of log of a shard after which a snapshot of it is written.
    pub snapshot_log_bytes: u64,
    /// Least severe level that is written to standard error.
    pub log_level: String,
    /// Time for which a request waits for its shard to have a leader, in milliseconds.
    pub leader_wait_ms: u64,
    /// Whether a client whose request met the loss of a leader is disconnected instead of answered.
    pub close_on_lost_leader: bool,
    /// Keyspace events that subscribers are told.
    pub notify_keyspace_events: Classes,
    /// Cluster that the server belongs to; none for a single machine.
    pub cluster: Option<ClusterOptions>,
    /// Returns the number of allocated bytes, if the program can tell better than the system.
    pub allocated_bytes: Option<fn() -> Option<u64>>,
    /// Opens a recorder for the probe's measurements, if the program has one.
    pub record: Option<fn(RecordTo<'_>) -> Box<dyn Record>>,
}

impl Options {
    /// Checks settings and fills in defaults.
    ///
    /// # Errors
    /// Names the setting that is wrong and the permitted values.
    pub fn resolve(settings: Settings) -> Result<Self, ConfigError> {
        let cores = cores();
        let count = |name: &str, value: Option<u16>, max: usize| match value {
            Some(value) if value == 0 || usize::from(value) > max => {
                Err(ConfigError::new(format!("{name} must be from 1 to {max}, not {value}")))
            }
            other => Ok(other),
        };
        let shards = count("shards", settings.shards, SHARDS_MAX)?;
        let workers = count("workers", settings.workers, WORKERS_MAX)?;
        let placement = settings.placement.map(|rules| match &rules[..] {
            [none] if none == "none" => Ok(TagRules::NONE),
            rules => TagRules::parse(rules).map_err(ConfigError::new),
        });
        let placement = placement.transpose()?;
        let cc = settings.cc.unwrap_or_else(|| "full".to_owned());
        let Some(concurrency) = Concurrency::named(&cc) else {
            let names = Concurrency::NAMES.join(", ");
            return Err(ConfigError::new(format!("cc must be one of {names}, not '{cc}'")));
        };
        let order = settings.order.as_deref().map_or(Some(Order::default()), Order::named);
        let Some(order) = order else {
            let (names, order) = (Order::NAMES.join(", "), settings.order.unwrap_or_default());
            return Err(ConfigError::new(format!("order must be one of {names}, not '{order}'")));
        };
        let patience =
            period::patience(settings.transaction_idle_timeout, settings.transaction_timeout)
                .map_err(ConfigError::new)?;
        let connections_max = settings.maxclients.unwrap_or(CONNECTIONS_MAX);
        if connections_max == 0 || connections_max > CONNECTIONS_MAX {
            return Err(ConfigError::new(format!(
                "maxclients must be from 1 to {CONNECTIONS_MAX}, not {connections_max}"
            )));
        }
        let sessions = session_timeouts(
            settings.zookeeper_min_session_timeout_ms,
            settings.zookeeper_max_session_timeout_ms,
        )?;
        let zookeeper_shards = settings.zookeeper_shards.unwrap_or(1);
        if zookeeper_shards == 0 || usize::from(zookeeper_shards) > SHARDS_MAX {
            return Err(ConfigError::new(format!(
                "zookeeper_shards must be from 1 to {SHARDS_MAX}, not {zookeeper_shards}"
            )));
        }
        let log_level = settings.log_level.unwrap_or_else(|| "info".to_owned());
        if !["error", "warn", "info", "debug", "trace"].contains(&log_level.as_str()) {
            return Err(ConfigError::new(format!(
                "log_level must be error, warn, info, debug or trace, not '{log_level}'"
            )));
        }
        let events = settings.notify_keyspace_events.unwrap_or_default();
        let Some(notify_keyspace_events) = Classes::parse(&events) else {
            return Err(ConfigError::new(format!(
                "notify_keyspace_events has the letters {}, not '{events}'",
                Classes::ALLOWED
            )));
        };
        let leader_wait_ms = settings.leader_wait_ms.unwrap_or(LEADER_WAIT_MS);
        if !LEADER_WAIT_MS_ALLOWED.contains(&leader_wait_ms) {
            let (from, to) = (LEADER_WAIT_MS_ALLOWED.start(), LEADER_WAIT_MS_ALLOWED.end());
            return Err(ConfigError::new(format!(
                "leader_wait_ms must be from {from} to {to}, not {leader_wait_ms}"
            )));
        }
        let snapshot_log_bytes = settings.snapshot_log_bytes.map_or(64 << 20, |bytes| bytes.0);
        if snapshot_log_bytes < 1 << 20 {
            return Err(ConfigError::new("snapshot_log_bytes must be at least 1mb"));
        }
        let (memory_limit_bytes, memory_log_bytes) =
            memory_limits(settings.maxmemory, settings.maxmemory_log)?;
        check_users(&settings.users)?;
        let durability = settings.durability.unwrap_or_default();
        let cluster = ClusterOptions::resolve(settings.cluster, durability)?;
        let options = Self {
            dir: settings.dir.unwrap_or_else(|| PathBuf::from("claret-data")),
            bind: settings.bind.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            port: settings.port.unwrap_or(6379),
            zookeeper_port: settings.zookeeper_port,
            zookeeper_session_timeout_ms: sessions,
            zookeeper_shards,
            zookeeper_connections_per_address: settings
                .zookeeper_connections_per_address
                .unwrap_or(COORDINATION_SHARE_MAX),
            zookeeper_container_check_us: container_check_us(
                settings.zookeeper_container_check_ms,
            )?,
            shards,
            placement,
            workers: workers.unwrap_or(cores),
            durability,
            concurrency,
            cc,
            order,
            memory_limit_bytes,
            memory_log_bytes,
            patience,
            connections_max,
            password: settings.password.filter(|password| !password.reveal().is_empty()),
            users: settings.users,
            tls: settings.tls,
            insecure: settings.insecure.unwrap_or(false),
            metrics_port: settings.metrics_port,
            synchrony: settings.synchrony.unwrap_or_default(),
            synchrony_dir: settings.synchrony_dir,
            synchrony_keep_days: settings.synchrony_keep_days.unwrap_or(KEEP_DAYS),
            snapshot_log_bytes,
            log_level,
            leader_wait_ms,
            close_on_lost_leader: settings.close_on_lost_leader.unwrap_or(false),
            notify_keyspace_events,
            cluster,
            allocated_bytes: None,
            record: None,
        };
        options.check_exposure()?;
        if options.synchrony_dir.is_some() && options.cluster.is_none() {
            return Err(ConfigError::new(
                "synchrony_dir is for a machine of a cluster: a single machine measures nothing",
            ));
        }
        Ok(options)
    }

    /// Checks that a server that other machines can reach authenticates clients and encrypts
    /// connections.
    fn check_exposure(&self) -> Result<(), ConfigError> {
        if self.bind.to_canonical().is_loopback() {
            return Ok(());
        }
        if !self.requires_auth() {
            return Err(ConfigError::new(format!(
                "bind = {} lets other machines connect, so a password must be set (password, or \
                 users with passwords)",
                self.bind
            )));
        }
        if self.insecure {
            return Ok(());
        }
        let Some(tls) = &self.tls else {
            return Err(ConfigError::new(format!(
                "bind = {} lets other machines connect, so set up TLS ([tls] with port, cert and \
                 key), or set insecure = true if the network is trusted",
                self.bind
            )));
        };
        if tls.zookeeper_port.is_some() && tls.client_ca.is_none() {
            return Err(ConfigError::new(format!(
                "bind = {} lets other machines connect, and ZooKeeper's protocol has no password \
                 for connections, so require certificates of clients (client_ca in [tls]), or set \
                 insecure = true if the network is trusted",
                self.bind
            )));
        }
        Ok(())
    }

    /// Destination of the probe's measurements, if they are kept.
    pub fn record_to(&self) -> Option<RecordTo<'_>> {
        let dir = self.synchrony_dir.as_deref()?;
        let cluster = &self.cluster.as_ref()?.name;
        Some(RecordTo { dir, cluster, keep_days: self.synchrony_keep_days })
    }

    /// Whether a connection must authenticate.
    pub fn requires_auth(&self) -> bool {
        self.password.is_some()
            || self.users.iter().any(|user| user.name == "default" && has_password(user))
    }

    /// Address at which plain connections are accepted.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.bind, self.port)
    }

    /// Addresses at which client connections are accepted, with their protocols.
    pub fn ports(&self) -> Vec<(Port, SocketAddr)> {
        let tls = self.tls.as_ref();
        let ports = [
            (Port::Redis, Some(self.port)),
            (Port::RedisTls, tls.map(|tls| tls.port)),
            (Port::Zookeeper, self.zookeeper_port),
            (Port::ZookeeperTls, tls.and_then(|tls| tls.zookeeper_port)),
        ];
        let open = ports.into_iter().filter_map(|(port, number)| Some((port, number?)));
        open.map(|(port, number)| (port, SocketAddr::new(self.bind, number))).collect()
    }

    /// Placement rules of a new data directory: those that are set, or the default ones.
    pub fn new_placement(&self) -> TagRules {
        let default = || TagRules::parse(&PLACEMENT_DEFAULT).unwrap_or_default();
        self.placement.clone().unwrap_or_else(default)
    }

    /// Number of shards of a new data directory.
    pub fn shards_default(&self) -> u16 {
        match &self.cluster {
            // All machines must use the same number, however many cores each has.
            Some(_) => cluster::SHARDS_DEFAULT,
            None => cores(),
        }
    }
}

/// Limits on memory for the data (0: no limit) and for logs.
fn memory_limits(data: Option<Bytes>, log: Option<Bytes>) -> Result<(u64, u64), ConfigError> {
    let available = crate::host::memory::available_bytes();
    let data = data.map_or(available / 4 * 3, |bytes| bytes.0);
    let of = if data == 0 { available } else { data };
    let log = log.map_or((of / 8).max(LOG_MEMORY_BYTES_LEAST), |bytes| bytes.0);
    if log < LOG_MEMORY_BYTES_MIN {
        let least = LOG_MEMORY_BYTES_MIN >> 20;
        return Err(ConfigError::new(format!("maxmemory_log must be at least {least}mb")));
    }
    Ok((data, log))
}

fn has_password(user: &UserSettings) -> bool {
    user.password.is_some() || user.password_hash.is_some()
}

/// Interval between searches for expired nodes and empty containers, in microseconds.
fn container_check_us(said_ms: Option<u64>) -> Result<u64, ConfigError> {
    let check_us = said_ms.map_or(REAP_US, |said| said.saturating_mul(1000));
    if !REAP_US_ALLOWED.contains(&check_us) {
        let (from, to) = (REAP_US_ALLOWED.start() / 1000, REAP_US_ALLOWED.end() / 1000);
        let said = said_ms.unwrap_or_default();
        return Err(ConfigError::new(format!(
            "zookeeper_container_check_ms must be from {from} to {to}, not {said}"
        )));
    }
    Ok(check_us)
}

/// Permitted session time-outs. If only one end is set, the other end moves where it has to.
fn session_timeouts(
    least_ms: Option<i32>,
    most_ms: Option<i32>,
) -> Result<RangeInclusive<i32>, ConfigError> {
    let (usual, allowed) = (SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS_ALLOWED);
    for (name, value) in [("min", least_ms), ("max", most_ms)] {
        if let Some(value) = value.filter(|value| !allowed.contains(value)) {
            let (from, to) = (allowed.start(), allowed.end());
            return Err(ConfigError::new(format!(
                "zookeeper_{name}_session_timeout_ms must be from {from} to {to}, not {value}"
            )));
        }
    }
    let range = match (least_ms, most_ms) {
        (None, None) => usual,
        (Some(least), None) => least..=least.max(*usual.end()),
        (None, Some(most)) => most.min(*usual.start())..=most,
        (Some(least), Some(most)) => least..=most,
    };
    if range.is_empty() {
        return Err(ConfigError::new(format!(
            "zookeeper_min_session_timeout_ms is {}, and zookeeper_max_session_timeout_ms less: {}",
            range.start(),
            range.end()
        )));
    }
    Ok(range)
}

fn check_users(users: &[UserSettings]) -> Result<(), ConfigError> {
    for (index, user) in users.iter().enumerate() {
        if user.name.is_empty() || user.name.contains(char::is_whitespace) {
            return Err(ConfigError::new(format!("users: '{}' is not a valid name", user.name)));
        }
        if users[..index].iter().any(|other| other.name == user.name) {
            return Err(ConfigError::new(format!("users: {} is listed twice", user.name)));
        }
        if user.password.is_some() && user.password_hash.is_some() {
            return Err(ConfigError::new(format!(
                "users: {} has both password and password_hash; give one",
                user.name
            )));
        }
        if let Some(hash) = &user.password_hash {
            crate::net::password::check_verifier(hash).map_err(|reason| {
                ConfigError::new(format!("users: password_hash of {} {reason}", user.name))
            })?;
        }
    }
    let rules: Vec<UserConfig> = users
        .iter()
        .map(|user| {
            let (name, rules) = (user.name.clone(), user.rules.clone());
            UserConfig { name, rules, verifier: None }
        })
        .collect();
    let known = Users::from_config(&rules);
    known.map(|_| ()).map_err(|reason| ConfigError::new(format!("users: {reason}")))
}

/// Processor cores that this process may use, at most the largest possible number of shards.
fn cores() -> u16 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(WORKERS_MAX) as u16)
}
