//! A machine's identity in its cluster: its number and the number of its life.
//!
//! Each start of a machine begins a new life, which is counted durably before any message leaves
//! the machine. Work begun in an earlier life is thus never mistaken for work of a later one.

use super::datadir::{DataDir, DirError, Member, Purpose, listed, write_durably};
use crate::config::Options;
use crate::config::cluster::{ClusterOptions, split_address};
use adt::command::tags::TagRules;
use engine::cluster::level::Level;
use engine::cluster::map::ShardMap;
use engine::cluster::rules::digest;
use engine::gateway::ClusterConfig;
use engine::ids::{GatewayId, MachineId, ShardId};
use engine::replication::Membership;
use std::net::SocketAddr;
use std::path::Path;
use wire::peer::Hello;

/// Machine in one of its lives.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Cluster; none for a single machine.
    pub cluster: Option<ClusterOptions>,
    life: u32,
    workers: u16,
}

impl Identity {
    /// Begins the next life of the machine with this data directory.
    ///
    /// # Errors
    /// If the number of the life cannot be read or written.
    pub fn begin(options: &Options, dir: &Path) -> Result<Self, DirError> {
        let cluster = options.cluster.clone();
        let life = if cluster.is_some() { begin(dir)? } else { 0 };
        Ok(Self { cluster, life, workers: options.workers })
    }

    /// Whether the machine belongs to a cluster.
    pub fn is_clustered(&self) -> bool {
        self.cluster.is_some()
    }

    /// Gateway of a worker.
    pub fn gateway(&self, worker: u16) -> GatewayId {
        let machine = self.cluster.as_ref().map_or(MachineId(1), |cluster| cluster.own);
        GatewayId { machine, worker, life: self.life }
    }

    /// Gateway beside a shard.
    pub fn beside(&self, shard: ShardId) -> GatewayId {
        self.gateway(shard.0 % self.workers)
    }

    /// This machine's membership of a shard's group.
    pub fn membership(&self, map: Option<&ShardMap>, shard: ShardId) -> Membership {
        match &self.cluster {
            None => Membership::alone(),
            Some(cluster) => {
                let founders = map.map(|map| map.founders_of(shard).to_vec()).unwrap_or_default();
                Membership::clustered(cluster.own, founders)
            }
        }
    }

    /// Placement rules: those of the map in a cluster, none as long as none is known; or of the manifest.
    ///
    /// # Errors
    /// If those of the manifest cannot be parsed.
    pub fn rules(
        &self,
        map: Option<&ShardMap>,
        dir: &DataDir,
    ) -> Result<Option<TagRules>, DirError> {
        if self.is_clustered() {
            return Ok(map.map(|map| map.tags.clone()));
        }
        dir.rules().map(Some)
    }

    /// Shard map with which this machine helps to found its cluster, if it does.
    ///
    /// # Errors
    /// If the placement rules of the manifest cannot be parsed.
    pub fn first_map(&self, dir: &DataDir) -> Result<Option<ShardMap>, DirError> {
        let (shards, rules) = (dir.manifest().shards, dir.rules()?);
        Ok(self.cluster.as_ref().and_then(|cluster| cluster.first_map(shards, rules)))
    }

    /// Checks that placement rules in the configuration are those of the data.
    ///
    /// # Errors
    /// If they are others.
    pub fn check_rules(
        &self,
        options: &Options,
        rules: Option<&TagRules>,
        dir: &DataDir,
    ) -> Result<(), DirError> {
        match (&options.placement, rules) {
            (Some(wanted), Some(found)) if wanted != found => {
                let (found, wanted) = (listed(&found.texts()), listed(&wanted.texts()));
                Err(DirError::Placement { path: dir.path().to_owned(), found, wanted })
            }
            _ => Ok(()),
        }
    }

    /// Machines of the cluster, for a gateway; none for a single machine.
    pub fn members(&self, map: Option<ShardMap>) -> Option<ClusterConfig> {
        let cluster = self.cluster.as_ref()?;
        let machines = match &map {
            Some(map) => map.machines.keys().copied().collect(),
            None => cluster.machines(),
        };
        Some(ClusterConfig { name: cluster.name.clone(), machines, map })
    }

    /// Address at which clients reach this machine: the configured one, or else the address on
    /// which it listens; if that is the unspecified address, the host at which other machines reach
    /// it.
    pub fn client_address(&self, bound: SocketAddr) -> (String, u16) {
        let cluster = self.cluster.as_ref();
        let split = |address: &str| split_address(address).map(|(host, p)| (host.to_owned(), p));
        if let Some(said) = cluster.and_then(|c| c.announce.as_deref()).and_then(split) {
            return said;
        }
        let named = cluster.and_then(|cluster| split(cluster.own_address()));
        match named.filter(|_| bound.ip().is_unspecified()) {
            Some((host, _)) => (host, bound.port()),
            None => (bound.ip().to_string(), bound.port()),
        }
    }

    /// Greeting to other machines, with the address at which this machine serves clients, and the
    /// placement rules as far as it knows them.
    pub fn hello(&self, address: SocketAddr, rules: Option<&TagRules>) -> Option<Hello> {
        let cluster = self.cluster.as_ref()?;
        let (host, port) = self.client_address(address);
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        Some(Hello {
            cluster: cluster.name.clone(),
            rules: rules.map(digest).unwrap_or_default(),
            machine: cluster.own,
            life: self.life,
            level: Level::NEWEST,
            address: format!("{host}:{port}"),
            worker_count: self.workers,
        })
    }
}

/// Purpose for which a data directory is opened.
pub fn purpose(options: &Options) -> Purpose {
    let member = options.cluster.as_ref().map(|cluster| Member {
        cluster: cluster.name.clone(),
        node: cluster.own.0,
        nodes: match cluster.join {
            true => vec![cluster.own.0],
            false => cluster.machines().iter().map(|machine| machine.0).collect(),
        },
    });
    Purpose {
        shards: options.shards,
        shards_default: options.shards_default(),
        placement: options.new_placement(),
        member,
    }
}

/// Begins the next life of the machine with this data directory. Returns its number, counted from
/// 1.
///
/// # Errors
/// If the number cannot be read or written, or is lost.
fn begin(dir: &Path) -> Result<u32, DirError> {
    let path = dir.join("LIFE");
    let lost = |reason: &str| DirError::Manifest { path: path.clone(), reason: reason.to_owned() };
    let before = match std::fs::read_to_string(&path) {
        Ok(text) => text.trim().parse::<u32>().map_err(|_| lost("it holds no number"))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // The log is created after the first life has begun.
            if dir.join("log").exists() {
                return Err(lost("it is missing"));
            }
            0
        }
        Err(error) => return Err(DirError::Io { path, what: "read", error }),
    };
    let life = before.checked_add(1).ok_or_else(|| lost("the number is too large"))?;
    write_durably(&path, &format!("{life}\n"))?;
    Ok(life)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_life_has_a_number_of_its_own() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(begin(temp.path()).unwrap(), 1);
        std::fs::create_dir(temp.path().join("log")).unwrap();
        assert_eq!(begin(temp.path()).unwrap(), 2);
        std::fs::write(temp.path().join("LIFE"), "two").unwrap();
        assert!(begin(temp.path()).is_err());
        std::fs::remove_file(temp.path().join("LIFE")).unwrap();
        assert!(begin(temp.path()).is_err(), "a number must not be given twice");
    }
}
