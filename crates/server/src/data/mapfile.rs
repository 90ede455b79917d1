//! Newest shard map that this machine knows, kept in its data directory.
//!
//! The map is made durable before the machine acts on it: a machine that forgot which shards it has
//! given up could take itself for a founder of their groups.

use super::datadir::{DirError, write_durably};
use engine::cluster::map::ShardMap;
use engine::ids::{MachineId, ShardId};
use engine::replication::Promises;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Map and the file that contains it.
#[derive(Debug)]
pub struct MapFile {
    path: PathBuf,
    map: Mutex<Option<ShardMap>>,
    left_path: PathBuf,
    left: Mutex<BTreeMap<ShardId, Promises>>,
}

impl MapFile {
    /// Reads the map of a data directory. `first` is the map for a founder of the cluster; it is
    /// used on the machine's first start (`is_new`).
    ///
    /// # Errors
    /// If the map cannot be read or parsed.
    pub fn open(dir: &Path, first: Option<ShardMap>, is_new: bool) -> Result<Self, DirError> {
        let path = dir.join("MAP");
        let map = match std::fs::read_to_string(&path) {
            Ok(text) => {
                let map = ShardMap::parse(&text);
                let bad = |reason: String| DirError::Manifest { path: path.clone(), reason };
                Some(map.map_err(|error| bad(error.to_string()))?)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => match first {
                Some(map) if is_new => {
                    write_durably(&path, &map.to_string())?;
                    Some(map)
                }
                Some(_) => {
                    let reason = "it is not there: restore the directory from a backup".to_owned();
                    return Err(DirError::Manifest { path, reason });
                }
                None => None,
            },
            Err(error) => return Err(DirError::Io { path, what: "read", error }),
        };
        let left_path = dir.join("LEFT");
        let left = match std::fs::read_to_string(&left_path) {
            Ok(text) => parse_left(&text).ok_or_else(|| DirError::Manifest {
                path: left_path.clone(),
                reason: "it does not say what the shards that were here have promised".to_owned(),
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(DirError::Io { path: left_path, what: "read", error }),
        };
        Ok(Self { path, map: Mutex::new(map), left_path, left: Mutex::new(left) })
    }

    /// Promises of replicas that this machine held and has removed.
    pub fn left(&self) -> BTreeMap<ShardId, Promises> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stores the promises of a replica that is about to be removed, durably.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn keep_promises(&self, shard: ShardId, promises: Promises) -> Result<(), DirError> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.insert(shard, promises);
        write_durably(&self.left_path, &left_text(&left))
    }

    fn lock(&self) -> MutexGuard<'_, Option<ShardMap>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Newest map.
    pub fn map(&self) -> Option<ShardMap> {
        self.lock().clone()
    }

    /// Machines of the cluster, if a map is known.
    pub fn machines(&self) -> Option<Vec<MachineId>> {
        self.lock().as_ref().map(|map| map.machines.keys().copied().collect())
    }

    /// Stores a map durably, unless a newer one is known. Returns whether it was newer.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn keep(&self, map: &ShardMap) -> Result<bool, DirError> {
        let mut kept = self.lock();
        if kept.as_ref().is_some_and(|kept| kept.epoch >= map.epoch) {
            return Ok(false);
        }
        write_durably(&self.path, &map.to_string())?;
        *kept = Some(map.clone());
        Ok(true)
    }

    /// Addresses at which the machines listen for each other: those in the map, or the configured
    /// ones while no map is known.
    pub fn addresses(&self, said: &BTreeMap<MachineId, String>) -> BTreeMap<MachineId, String> {
        match &*self.lock() {
            Some(map) => map.machines.clone(),
            None => said.clone(),
        }
    }
}

/// Formats the promises, a line for each shard: `shard 3 term 5 vote 2 last 23 of 4`.
fn left_text(left: &BTreeMap<ShardId, Promises>) -> String {
    let mut text = String::new();
    for (ShardId(shard), Promises { term, vote, last: (index, of) }) in left {
        text.push_str(&format!("shard {shard} term {term} vote {vote} last {index} of {of}\n"));
    }
    text
}

fn parse_left(text: &str) -> Option<BTreeMap<ShardId, Promises>> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let ["shard", shard, "term", term, "vote", vote, "last", index, "of", of] = words[..]
        else {
            return None;
        };
        let last = (index.parse().ok()?, of.parse().ok()?);
        let promises = Promises { term: term.parse().ok()?, vote: vote.parse().ok()?, last };
        Some((ShardId(shard.parse().ok()?), promises))
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_map_is_kept() {
        let temp = tempfile::tempdir().unwrap();
        let machines = BTreeMap::from([(MachineId(1), "a:1".to_owned())]);
        let first = ShardMap::founded(machines.clone(), 2);
        assert!(MapFile::open(temp.path(), Some(first.clone()), false).is_err());
        let file = MapFile::open(temp.path(), Some(first.clone()), true).unwrap();
        let found = MapFile::open(temp.path(), Some(first.clone()), false).unwrap();
        assert_eq!(found.map(), Some(first.clone()), "it was written down");
        assert_eq!(file.map(), Some(first.clone()));
        let next = first.with(MachineId(2), "b:1").unwrap();
        assert!(file.keep(&next).unwrap());
        assert!(!file.keep(&first).unwrap());
        let again = MapFile::open(temp.path(), None, false).unwrap();
        assert_eq!(again.map(), Some(next.clone()));
        assert_eq!(again.addresses(&machines), next.machines);
        let promises = Promises { term: 5, vote: 2, last: (23, 4) };
        again.keep_promises(ShardId(3), promises).unwrap();
        again.keep_promises(ShardId::MAP, promises).unwrap();
        let left = MapFile::open(temp.path(), None, false).unwrap().left();
        assert_eq!(left, [(ShardId(3), promises), (ShardId::MAP, promises)].into());
        std::fs::write(temp.path().join("LEFT"), "rubbish").unwrap();
        assert!(MapFile::open(temp.path(), None, false).is_err());
        std::fs::remove_file(temp.path().join("LEFT")).unwrap();
        std::fs::write(temp.path().join("MAP"), "rubbish").unwrap();
        assert!(MapFile::open(temp.path(), None, false).is_err());
    }
}
