//! The newest shard map that this machine knows, kept in its data directory.
//!
//! It is durable before anything is done that it says: a machine that forgets which shards it has
//! given up could take itself for one of those that founded their groups.

use crate::datadir::{DirError, write_durably};
use engine::map::ShardMap;
use engine::message::MachineId;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The map, and the file that it is in.
#[derive(Debug)]
pub struct MapFile {
    path: PathBuf,
    map: Mutex<Option<ShardMap>>,
}

impl MapFile {
    /// Reads the map of a data directory; `first` is what a machine without one begins with.
    ///
    /// # Errors
    /// If it cannot be read or understood.
    pub fn open(dir: &Path, first: Option<ShardMap>) -> Result<Self, DirError> {
        let path = dir.join("MAP");
        let map = match std::fs::read_to_string(&path) {
            Ok(text) => {
                let map = ShardMap::parse(&text);
                let bad = |reason: String| DirError::Manifest { path: path.clone(), reason };
                Some(map.map_err(|error| bad(error.to_string()))?)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => first,
            Err(error) => return Err(DirError::Io { path, what: "read", error }),
        };
        Ok(Self { path, map: Mutex::new(map) })
    }

    fn lock(&self) -> MutexGuard<'_, Option<ShardMap>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest map.
    pub fn map(&self) -> Option<ShardMap> {
        self.lock().clone()
    }

    /// Keeps a map, durably, unless there is a newer one. Tells whether it is new.
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

    /// Where the machines listen for each other: what was said at the start, as far as the map does
    /// not know better.
    pub fn addresses(&self, said: &BTreeMap<MachineId, String>) -> BTreeMap<MachineId, String> {
        match &*self.lock() {
            Some(map) => map.machines.clone(),
            None => said.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_map_is_kept() {
        let temp = tempfile::tempdir().unwrap();
        let machines = BTreeMap::from([(MachineId(1), "a:1".to_owned())]);
        let first = ShardMap::founded(machines.clone(), 2);
        let file = MapFile::open(temp.path(), Some(first.clone())).unwrap();
        assert_eq!(file.map(), Some(first.clone()));
        let next = first.with(MachineId(2), "b:1").unwrap();
        assert!(file.keep(&next).unwrap());
        assert!(!file.keep(&first).unwrap());
        let again = MapFile::open(temp.path(), None).unwrap();
        assert_eq!(again.map(), Some(next.clone()));
        assert_eq!(again.addresses(&machines), next.machines);
        std::fs::write(temp.path().join("MAP"), "rubbish").unwrap();
        assert!(MapFile::open(temp.path(), None).is_err());
    }
}
