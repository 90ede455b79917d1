//! Restores a backup into a new data directory.
//!
//! The records of all shards are distributed anew, by slot, over the shards of the new data
//! directory. A backup thus fits a single server and a cluster of any size, and earlier splits are
//! forgotten. Every machine of a new cluster does the same with the same file, so that all replicas
//! of a shard begin with the same snapshot, as after a split.
//!
//! The manifest is written last. Until then no server starts in the directory.

use crate::config::Options;
use crate::data::backup::{BackupError, Contents, inspect, read};
use crate::data::datadir::{DataDir, DirError, SnapshotFile};
use crate::data::identity::purpose;
use adt::Timestamp;
use adt::command::database::under;
use adt::command::tags::TagRules;
use engine::cluster::map::{MapError, Range, ShardMap};
use engine::cluster::rules::parse_rules;
use engine::cluster::slot::{ranges, shard_of};
use engine::entry::{SnapshotCodec, SnapshotPart};
use engine::ids::{RequestId, ShardId};
use engine::limits::SLOTS;
use std::collections::BTreeSet;
use std::path::Path;
use wire::snapshot::SnapshotFormat;

/// Index and term of the snapshot that all replicas begin with.
const BEGINNING: (u64, u64) = (1, 1);
/// Bytes of a snapshot that are collected before they are written.
const WRITE_BYTES: usize = 64 << 10;

/// Reason why a backup is not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Error of the backup.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// Error of the data directory.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// The placement rules of the backup are of another version.
    #[error("the backup has placement rules that this version of claret does not know: {0}")]
    Rules(MapError),
    /// The machine would join an existing cluster.
    #[error(
        "a backup is restored into a new cluster, and --join is for one that is there already: name \
         all machines of the new cluster with --cluster"
    )]
    Join,
    /// The new cluster has the name of the backed-up one.
    #[error(
        "the backup is of a cluster that is called '{0}' as well, and a machine of it that is still \
         running would mix with the new one: give the new one another name, with --cluster-name or \
         in its configuration; or say --same-name if none of its machines will ever run again"
    )]
    SameName(String),
}

/// Creates a data directory for a server with these options from a backup. `same_name` allows the
/// new cluster to have the name of the backed-up one.
///
/// # Errors
/// If the file is not complete, or the directory is not new. Nothing is left then.
pub fn restore(
    path: &Path,
    options: &Options,
    same_name: bool,
    now_s: u64,
) -> Result<Contents, RestoreError> {
    if options.cluster.as_ref().is_some_and(|cluster| cluster.join) {
        return Err(RestoreError::Join);
    }
    DataDir::check_fresh(&options.dir)?;
    let contents = inspect(path)?;
    let about = &contents.about;
    let same = options.cluster.as_ref().filter(|cluster| cluster.name == about.cluster);
    if let Some(cluster) = same.filter(|_| !same_name) {
        return Err(RestoreError::SameName(cluster.name.clone()));
    }
    let mut purpose = purpose(options);
    let shards = *purpose.shards.get_or_insert(about.shards);
    let before = parse_rules(&about.map).map_err(RestoreError::Rules)?;
    let rules = options.placement.clone().unwrap_or_else(|| before.clone());
    purpose.placement = rules.clone();
    let map = options.cluster.as_ref();
    let map = map.and_then(|cluster| cluster.first_map(shards, rules.clone()));
    let own = options.cluster.as_ref().map(|cluster| cluster.own);
    let held = |shard: ShardId| match (&map, own) {
        (Some(map), Some(own)) => map.places(own, shard),
        _ => true,
    };
    DataDir::found(&options.dir, purpose, now_s, |dir| {
        let changed = (rules != before).then_some(rules);
        let mut sharing = Sharing::begin(dir, (shards, changed), &contents, held)?;
        read(path, |shard, part| sharing.take(shard, part).map_err(RestoreError::from))?;
        sharing.finish().map_err(RestoreError::from)
    })?;
    Ok(contents)
}

/// Slots of the backup's shards when they were founded.
fn founded(contents: &Contents) -> Vec<Range> {
    let shards = match ShardMap::parse(&contents.about.map) {
        Ok(map) => (map.shards.len() - map.splits.len()) as u16,
        Err(_) => contents.about.shards,
    };
    ranges(shards.max(1))
}

/// New shard's snapshot that is being written.
struct New {
    range: Range,
    file: Option<SnapshotFile>,
    bytes: Vec<u8>,
    parts: u64,
    requests: BTreeSet<RequestId>,
}

impl New {
    fn put(&mut self, part: &SnapshotPart) -> Result<(), DirError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        SnapshotFormat.encode(part, &mut self.bytes);
        self.parts += 1;
        if self.bytes.len() >= WRITE_BYTES {
            file.write(&self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }
}

/// Distributes the parts of a backup over the new shards.
struct Sharing {
    new: Vec<New>,
    /// Slots of the shards in the backup.
    before: Vec<Range>,
    /// Placement rules, if they are others than those of the backup: keys may go anywhere.
    rules: Option<TagRules>,
}

impl Sharing {
    fn begin(
        dir: &Path,
        (shards, rules): (u16, Option<TagRules>),
        contents: &Contents,
        held: impl Fn(ShardId) -> bool,
    ) -> Result<Self, DirError> {
        let mut before = founded(contents);
        before.resize(usize::from(contents.about.shards).max(before.len()), (0, SLOTS - 1));
        let mut new = Vec::new();
        for (range, shard) in ranges(shards).into_iter().zip((0..).map(ShardId)) {
            let (index, term) = BEGINNING;
            let file = match held(shard) {
                true => Some(SnapshotFile::create(dir, shard, index, "own")?),
                false => None,
            };
            let (bytes, requests) = Default::default();
            let mut one = New { range, file, bytes, parts: 0, requests };
            let (clock, removed) = (Timestamp(contents.clock), Timestamp(contents.removed));
            let header = SnapshotPart::Header { shard, index, term, clock, removed };
            SnapshotFormat.encode(&header, &mut one.bytes);
            one.parts = 1;
            new.push(one);
        }
        Ok(Self { new, before, rules })
    }

    /// Slots that keys of a shard of the backup may have now.
    fn slots_before(&self, shard: ShardId) -> Range {
        match self.rules {
            Some(_) => (0, SLOTS - 1),
            None => self.before[usize::from(shard.0)],
        }
    }

    fn take(&mut self, shard: ShardId, mut part: SnapshotPart) -> Result<(), DirError> {
        let shards = self.new.len() as u16;
        match &part {
            SnapshotPart::Slots { first, last, .. } => {
                if let Some(range) = self.before.get_mut(usize::from(shard.0)) {
                    *range = (*first, *last);
                }
                Ok(())
            }
            SnapshotPart::Record(key, record) => {
                let Some(rules) = &self.rules else {
                    return self.new[usize::from(shard_of(key, shards).0)].put(&part);
                };
                let key = under(rules, key);
                let shard = shard_of(&key, shards);
                self.new[usize::from(shard.0)].put(&SnapshotPart::Record(key, record.clone()))
            }
            // A client that retries a request asks one of the shards that own its slots now.
            SnapshotPart::Request { request, .. } => {
                let (first, last) = self.slots_before(shard);
                for new in &mut self.new {
                    let meets = new.range.0 <= last && first <= new.range.1;
                    if meets && new.requests.insert(request.clone()) {
                        new.put(&part)?;
                    }
                }
                Ok(())
            }
            // Fenced requests stay fenced, wherever the slots are now.
            SnapshotPart::Fence { .. } | SnapshotPart::FenceFloor(_) => {
                let (first, last) = self.slots_before(shard);
                if let (Some(rules), SnapshotPart::Fence { lock, .. }) = (&self.rules, &mut part) {
                    *lock = under(rules, lock);
                }
                let meets = |new: &&mut New| new.range.0 <= last && first <= new.range.1;
                self.new.iter_mut().filter(meets).try_for_each(|new| new.put(&part))
            }
            SnapshotPart::Spread { over, .. } if over.count() > shards => {
                Err(DirError::TooFewShards { least: over.count() })
            }
            // Nodes are placed by their top-level names and not by slots, so they stay with the
            // shard's number. Joint changes in progress are settled by the participants' knowledge.
            SnapshotPart::Coordination { .. }
            | SnapshotPart::Spread { .. }
            | SnapshotPart::Session { .. }
            | SnapshotPart::Joint { .. }
            | SnapshotPart::Node(..) => match self.new.get_mut(usize::from(shard.0)) {
                Some(new) => new.put(&part),
                None => Err(DirError::TooFewShards { least: shard.0 + 1 }),
            },
            // No transaction was open, so no participant will ask for an outcome; nor do the
            // machines of the old groups exist.
            _ => Ok(()),
        }
    }

    fn finish(self) -> Result<(), DirError> {
        for New { file, mut bytes, parts, .. } in self.new {
            let Some(mut file) = file else { continue };
            SnapshotFormat.encode(&SnapshotPart::End { parts }, &mut bytes);
            file.write(&bytes)?;
            file.finish()?;
        }
        Ok(())
    }
}
