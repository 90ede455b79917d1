//! Settings of the cluster that the server belongs to.

use super::peer_tls::{PeerTlsOptions, PeerTlsSettings};
use super::{ConfigError, Durability};
use adt::command::tags::TagRules;
use engine::cluster::map::ShardMap;
use engine::ids::MachineId;
use engine::limits::{MACHINE_NUMBER_MAX, MACHINES_MAX, REPLICAS_MAX};
use serde::Deserialize;
use std::collections::BTreeMap;
use wire::peer::HELLO_CLUSTER_BYTES_MAX;

/// Number of shards of a new cluster.
pub const SHARDS_DEFAULT: u16 = 3;
/// Name of a cluster without a configured name.
const DEFAULT_NAME: &str = "claret";

/// Settings of the cluster as given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterSettings {
    /// Name; machines of clusters with other names are rejected.
    pub name: Option<String>,
    /// Number of this machine.
    pub node: Option<u16>,
    /// Addresses at which the machines, by number, reach each other.
    pub nodes: BTreeMap<String, String>,
    /// Address on which this machine listens for the others, if that differs from the one in
    /// `nodes`.
    pub bind: Option<String>,
    /// Address at which clients reach this machine, if that differs from the one on which it
    /// listens.
    pub announce: Option<String>,
    /// Whether this machine joins an existing cluster.
    pub join: Option<bool>,
    /// TLS between the machines.
    pub tls: PeerTlsSettings,
}

impl ClusterSettings {
    /// Returns these settings, completed with those of `below`.
    pub fn over(self, below: Self) -> Self {
        Self {
            name: self.name.or(below.name),
            node: self.node.or(below.node),
            nodes: if self.nodes.is_empty() { below.nodes } else { self.nodes },
            bind: self.bind.or(below.bind),
            announce: self.announce.or(below.announce),
            join: self.join.or(below.join),
            tls: self.tls.over(below.tls),
        }
    }

    /// Parses `1=host:port,2=host:port`.
    ///
    /// # Errors
    /// Names the part that cannot be parsed.
    pub fn parse_nodes(text: &str) -> Result<BTreeMap<String, String>, ConfigError> {
        let mut nodes = BTreeMap::new();
        for part in text.split(',') {
            let Some((number, address)) = part.split_once('=') else {
                return Err(ConfigError::new(format!(
                    "cluster: '{part}' is not a machine such as 1=10.0.0.1:7001"
                )));
            };
            let (number, address) = (number.trim().to_owned(), address.trim().to_owned());
            if nodes.insert(number.clone(), address).is_some() {
                return Err(ConfigError::new(format!("cluster: machine {number} is listed twice")));
            }
        }
        Ok(nodes)
    }
}

/// Cluster that a server belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOptions {
    /// Name.
    pub name: String,
    /// This machine.
    pub own: MachineId,
    /// Addresses at which the machines reach each other, as `host:port`.
    pub nodes: BTreeMap<MachineId, String>,
    /// Address on which this machine listens for the others, as `host:port`, if it differs from the
    /// one in `nodes`.
    pub bind: Option<String>,
    /// Address at which clients reach this machine, as `host:port`, if it differs from the one on
    /// which it listens.
    pub announce: Option<String>,
    /// Whether this machine joins an existing cluster.
    pub join: bool,
    /// TLS between the machines.
    pub tls: Option<PeerTlsOptions>,
}

impl ClusterOptions {
    /// Checks the settings; `None` if there are none.
    ///
    /// # Errors
    /// Names the wrong setting and the permitted values.
    pub fn resolve(
        settings: ClusterSettings,
        durability: Durability,
    ) -> Result<Option<Self>, ConfigError> {
        if settings == ClusterSettings::default() {
            return Ok(None);
        }
        if durability != Durability::Always {
            return Err(ConfigError::new(format!(
                "durability = {durability} is not possible in a cluster, because a machine that \
                 forgets a vote or an entry may vote or acknowledge twice: choose always"
            )));
        }
        let name = settings.name.unwrap_or_else(|| DEFAULT_NAME.to_owned());
        if name.is_empty() || name.len() > HELLO_CLUSTER_BYTES_MAX {
            return Err(ConfigError::new(format!(
                "cluster: the name must have 1 to {HELLO_CLUSTER_BYTES_MAX} bytes"
            )));
        }
        let mut nodes = BTreeMap::new();
        for (number, address) in settings.nodes {
            let machine = number
                .parse()
                .ok()
                .filter(|number| (1..=MACHINE_NUMBER_MAX).contains(number))
                .ok_or_else(|| {
                    ConfigError::new(format!(
                        "cluster: '{number}' is not a machine number (1 to {MACHINE_NUMBER_MAX})"
                    ))
                })?;
            check_address(&address)?;
            if nodes.values().any(|other| *other == address) {
                return Err(ConfigError::new(format!(
                    "cluster: {address} is the address of two machines"
                )));
            }
            if nodes.insert(MachineId(machine), address).is_some() {
                return Err(ConfigError::new(format!(
                    "cluster: machine {machine} is listed twice"
                )));
            }
        }
        let join = settings.join.unwrap_or(false);
        let (least, most) = if join { (2, MACHINES_MAX) } else { (1, REPLICAS_MAX) };
        if !(least..=most).contains(&nodes.len()) {
            let what = if join { "a machine that joins knows" } else { "a cluster is founded by" };
            return Err(ConfigError::new(format!(
                "cluster: {what} {least} to {most} machines, not {}; name all of them, this one \
                 included, as in --cluster 1=10.0.0.1:7001,2=10.0.0.2:7001,3=10.0.0.3:7001",
                nodes.len()
            )));
        }
        let Some(own) = settings.node.map(MachineId) else {
            return Err(ConfigError::new(
                "cluster: set the number of this machine with --node, or node in [cluster]",
            ));
        };
        if !nodes.contains_key(&own) {
            return Err(ConfigError::new(format!(
                "cluster: this is machine {}, which is not among the machines of the cluster",
                own.0
            )));
        }
        let (bind, announce) = (settings.bind, settings.announce);
        bind.iter().chain(&announce).try_for_each(|address| check_address(address))?;
        let tls = PeerTlsOptions::resolve(settings.tls)?;
        Ok(Some(Self { name, own, nodes, bind, announce, join, tls }))
    }

    /// Address at which the other machines reach this one.
    pub fn own_address(&self) -> &str {
        &self.nodes[&self.own]
    }

    /// Address on which this machine listens for the others.
    pub fn peer_bind(&self) -> &str {
        self.bind.as_deref().unwrap_or_else(|| self.own_address())
    }

    /// Initial shard map: the one with which this machine helps to found the cluster, or none.
    pub fn first_map(&self, shards: u16, rules: TagRules) -> Option<ShardMap> {
        (!self.join).then(|| ShardMap::founded(self.nodes.clone(), shards).with_rules(rules))
    }

    /// All machines, including this one.
    pub fn machines(&self) -> Vec<MachineId> {
        self.nodes.keys().copied().collect()
    }
}

/// Host and port of `host:port`; the host of `[::1]:6379` comes without its brackets.
pub fn split_address(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    Some((host.trim_start_matches('[').trim_end_matches(']'), port.parse().ok()?))
}

fn check_address(address: &str) -> Result<(), ConfigError> {
    let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let port = port.and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0);
    match port {
        Some(_) => Ok(()),
        None => Err(ConfigError::new(format!(
            "cluster: '{address}' is not an address such as 10.0.0.1:7001"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(settings: ClusterSettings) -> Result<Option<ClusterOptions>, ConfigError> {
        ClusterOptions::resolve(settings, Durability::Always)
    }

    fn three(node: Option<u16>) -> ClusterSettings {
        let nodes = ClusterSettings::parse_nodes("1=a:1, 2=b:1,3=c:1").unwrap();
        ClusterSettings { node, nodes, ..ClusterSettings::default() }
    }

    #[test]
    fn a_cluster_is_named_by_all_its_machines() {
        assert_eq!(resolve(ClusterSettings::default()).unwrap(), None);
        let cluster = resolve(three(Some(2))).unwrap().unwrap();
        assert_eq!((cluster.name.as_str(), cluster.own_address()), ("claret", "b:1"));
        assert_eq!(cluster.peer_bind(), "b:1");
        let bind = Some("0.0.0.0:9".to_owned());
        let inside = ClusterSettings { bind, ..three(Some(2)) };
        let inside = resolve(inside).unwrap().unwrap();
        assert_eq!((inside.own_address(), inside.peer_bind()), ("b:1", "0.0.0.0:9"));
        assert_eq!(cluster.machines(), [1, 2, 3].map(MachineId));
    }

    #[test]
    fn what_is_no_cluster_is_refused() {
        let refused = |settings| resolve(settings).unwrap_err().to_string();
        assert!(refused(three(None)).contains("--node"));
        assert!(refused(three(Some(4))).contains("machine 4"));
        let bind = Some("0.0.0.0".to_owned());
        assert!(refused(ClusterSettings { bind, ..three(Some(2)) }).contains("0.0.0.0"));
        let only = ClusterSettings { node: Some(1), ..ClusterSettings::default() };
        assert!(refused(only).contains("--cluster"));
        for durability in [Durability::None, Durability::Everysec] {
            assert!(ClusterOptions::resolve(three(Some(1)), durability).is_err());
        }
        for text in ["", "1", "1=a:1,1=b:1"] {
            assert!(ClusterSettings::parse_nodes(text).is_err(), "{text}");
        }
        for text in ["0=a:1,1=b:1", "1=a,2=b:1", "1=a:1,2=a:1", "1=:1,2=b:1", "1=a:0,2=b:1"] {
            let nodes = ClusterSettings::parse_nodes(text).unwrap();
            let settings = ClusterSettings { nodes, node: Some(1), ..ClusterSettings::default() };
            assert!(resolve(settings).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_may_say_it_too_and_flags_go_over_it() {
        let text = "[cluster]\nname = 'x'\nnode = 3\nnodes = { '2' = 'b:1', '3' = 'c:1' }\n";
        let file: crate::config::Settings = toml::from_str(text).unwrap();
        let flags = ClusterSettings { node: Some(2), ..ClusterSettings::default() };
        let cluster = resolve(flags.over(file.cluster)).unwrap().unwrap();
        assert_eq!((cluster.name.as_str(), cluster.own), ("x", MachineId(2)));
    }
}
