//! Data directory: its owner, the version that wrote it, and its snapshots.
//!
//! ```text
//! claret-data/            0700
//!   LOCK                  held while a server runs
//!   MANIFEST              format, server, shards, members: written once
//!   LIFE                  in a cluster: how often the machine was started
//!   MAP                   in a cluster: the newest shard map, once it has changed
//!   log/                  the log of all shards
//!   DURABLE               up to where the log was durable, and which files belong to it
//!   snapshots/            shard-S-INDEX.snap: shard S with its log up to INDEX
//! ```

use crate::log::tail::LogTag;
use adt::command::tags::TagRules;
use engine::entry::{SnapshotCodec, SnapshotPart};
use engine::ids::ShardId;
use engine::limits::SHARDS_MAX;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use wire::snapshot::{FRAME_HEADER_BYTES, SnapshotFormat, part_len};

/// Layout that this version reads and writes.
pub const FORMAT: u32 = 1;

/// Reason why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// The file system refuses an operation.
    #[error("{} cannot be {what}: {error}", path.display())]
    Io {
        /// Path.
        path: PathBuf,
        /// Attempted operation.
        what: &'static str,
        /// Error of the system.
        error: io::Error,
    },
    /// Another process holds the directory.
    #[error(
        "another server is running in {}: stop it, or choose another directory with --dir",
        .0.display()
    )]
    Locked(PathBuf),
    /// The directory contains other files.
    #[error(
        "{} is not empty and holds no MANIFEST, so it is not a data directory: choose another one \
         with --dir", .0.display()
    )]
    Foreign(PathBuf),
    /// The directory is not empty.
    #[error("{} is not empty: restore into a new directory", .0.display())]
    Taken(PathBuf),
    /// The manifest cannot be parsed.
    #[error("{} cannot be parsed ({reason}): restore it from a backup", path.display())]
    Manifest {
        /// File.
        path: PathBuf,
        /// Description of the error.
        reason: String,
    },
    /// The layout is that of another version.
    #[error(
        "{} has format {found}, and this version of claret reads format {FORMAT}: start the version \
         that wrote it", path.display()
    )]
    Format {
        /// Directory.
        path: PathBuf,
        /// Format found.
        found: u32,
    },
    /// The number of shards is another one.
    #[error(
        "{} was created with {found} shards, not {wanted}: start with --shards {found}, or leave \
         the option out", path.display()
    )]
    Shards {
        /// Directory.
        path: PathBuf,
        /// Number of shards found.
        found: u16,
        /// Number of shards requested.
        wanted: u16,
    },
    /// The placement rules are others.
    #[error(
        "{} was created with the placement rules {found}, not {wanted}: start with \
         --placement '{found}', or leave the option out; `claret backup` and `claret restore \
         --placement` make a directory with other rules", path.display()
    )]
    Placement {
        /// Directory.
        path: PathBuf,
        /// Rules found.
        found: String,
        /// Rules requested.
        wanted: String,
    },
    /// The backup's tree of nodes uses shards that do not exist.
    #[error(
        "the backup has a tree of nodes that is spread over more shards: restore it with at least \
         --shards {least}"
    )]
    TooFewShards {
        /// Least number of shards.
        least: u16,
    },
    /// The directory belongs to another machine of a cluster.
    #[error(
        "{} was created for {found}, not for {wanted}: correct the settings of the cluster, or \
         choose another directory with --dir", path.display()
    )]
    Member {
        /// Directory.
        path: PathBuf,
        /// Machine for which it was created.
        found: String,
        /// Machine that this one is.
        wanted: String,
    },
    /// A snapshot is damaged.
    #[error(
        "the snapshot {} is damaged and nothing replaces it: restore the data directory from a \
         backup, and check the disk", .0.display()
    )]
    Snapshot(PathBuf),
}

pub(crate) fn failed(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> DirError {
    let path = path.to_owned();
    move |error| DirError::Io { path, what, error }
}

/// Facts that are stored once, when a data directory is created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Layout of the directory.
    pub format: u32,
    /// Identifier of the server: 40 hexadecimal digits.
    pub server: String,
    /// Number of shards.
    pub shards: u16,
    /// Version of claret that created it.
    pub created_by: String,
    /// Seconds since 1970.
    pub created_s: u64,
    /// Tag of the log's records (32 hexadecimal digits).
    pub log_tag: String,
    /// Placement rules of a single machine, or of the cluster that it helps to found; later these are in the
    /// cluster's map.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<String>,
    /// Machine's place in a cluster; none for a single machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<Member>,
}

impl Manifest {
    fn new(purpose: Purpose, now_s: u64) -> Self {
        Self {
            format: FORMAT,
            server: hex(&random::<20>()),
            shards: purpose.shards.unwrap_or(purpose.shards_default),
            created_by: env!("CARGO_PKG_VERSION").to_owned(),
            created_s: now_s,
            log_tag: hex(&random::<16>()),
            placement: purpose.placement.texts(),
            member: purpose.member,
        }
    }
}

/// A machine's place in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Name of the cluster.
    pub cluster: String,
    /// The machine's number.
    pub node: u16,
    /// Numbers of all machines that founded the cluster; of this one alone if it has joined later.
    pub nodes: Vec<u16>,
}

impl Member {
    fn describe(member: Option<&Self>) -> String {
        match member {
            None => "a single server".to_owned(),
            Some(Self { cluster, node, nodes }) if nodes == &[*node] => {
                format!(
                    "machine {node}, which has founded the cluster '{cluster}' alone or joined it"
                )
            }
            Some(Self { cluster, node, nodes }) => {
                format!("machine {node} of the machines {nodes:?} of the cluster '{cluster}'")
            }
        }
    }
}

/// Purpose for which a data directory is opened.
#[derive(Clone, Debug)]
pub struct Purpose {
    /// Number of shards, if it was set.
    pub shards: Option<u16>,
    /// Number of shards of a new directory otherwise.
    pub shards_default: u16,
    /// Placement rules of a new directory.
    pub placement: TagRules,
    /// Machine's place in a cluster; none for a single machine.
    pub member: Option<Member>,
}

/// Data directory, locked for this process as long as the value lives.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    manifest: Manifest,
    tag: LogTag,
    _lock: File,
}

impl DataDir {
    /// Opens a data directory, or creates one.
    ///
    /// # Errors
    /// If it belongs to another server, version or purpose; nothing is changed then.
    pub fn open(path: &Path, purpose: Purpose, now_s: u64) -> Result<Self, DirError> {
        if !path.exists() {
            make_dir(path)?;
        }
        let manifest_path = path.join("MANIFEST");
        if !manifest_path.exists() && !is_fresh(path)? {
            return Err(DirError::Foreign(path.to_owned()));
        }
        let lock = lock(path)?;
        let manifest = if manifest_path.exists() {
            let manifest = read_manifest(&manifest_path)?;
            check_purpose(path, &manifest, &purpose)?;
            manifest
        } else {
            let manifest = Manifest::new(purpose, now_s);
            write_manifest(&manifest_path, &manifest)?;
            manifest
        };
        let tag = unhex(&manifest.log_tag).ok_or_else(|| DirError::Manifest {
            path: manifest_path,
            reason: "log_tag is not 32 hexadecimal digits".to_owned(),
        })?;
        let dir = Self { path: path.to_owned(), manifest, tag, _lock: lock };
        let snapshots = dir.snapshots();
        if !snapshots.exists() {
            make_dir(&snapshots)?;
        }
        dir.remove_leftovers()?;
        Ok(dir)
    }

    /// Checks that the path does not exist or is an empty directory.
    ///
    /// # Errors
    /// If it holds anything.
    pub fn check_fresh(path: &Path) -> Result<(), DirError> {
        let taken = path.join("MANIFEST").exists() || path.exists() && !is_fresh(path)?;
        if taken { Err(DirError::Taken(path.to_owned())) } else { Ok(()) }
    }

    /// Creates a data directory with snapshots, which `fill` writes into the given directory. The
    /// directory is valid once everything in it is durable; if `fill` fails, nothing is left in it.
    ///
    /// # Errors
    /// If it is not new, or cannot be written.
    pub fn found<E: From<DirError>>(
        path: &Path,
        purpose: Purpose,
        now_s: u64,
        fill: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), E> {
        if !path.exists() {
            make_dir(path)?;
        }
        let _lock = lock(path)?;
        Self::check_fresh(path)?;
        let snapshots = path.join("snapshots");
        make_dir(&snapshots)?;
        if let Err(error) = fill(&snapshots) {
            // The error already tells what matters; without a manifest no server starts in the
            // remains.
            let _ = std::fs::remove_dir_all(&snapshots);
            return Err(error);
        }
        Ok(write_manifest(&path.join("MANIFEST"), &Manifest::new(purpose, now_s))?)
    }

    /// Reads the manifest of a data directory without opening it; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be parsed or has another format.
    pub fn peek(path: &Path) -> Result<Option<Manifest>, DirError> {
        let path = path.join("MANIFEST");
        if path.exists() { read_manifest(&path).map(Some) } else { Ok(None) }
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Manifest, stored when the directory was created.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Placement rules of the manifest.
    ///
    /// # Errors
    /// If they cannot be parsed.
    pub fn rules(&self) -> Result<TagRules, DirError> {
        let path = self.path.join("MANIFEST");
        TagRules::parse(&self.manifest.placement)
            .map_err(|reason| DirError::Manifest { path, reason })
    }

    /// Tag of the log's records.
    pub fn log_tag(&self) -> LogTag {
        self.tag
    }

    /// Directory of the log.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// File with facts about the log that are kept outside of it.
    pub fn known(&self) -> PathBuf {
        self.path.join("DURABLE")
    }

    fn snapshots(&self) -> PathBuf {
        self.path.join("snapshots")
    }

    fn remove_leftovers(&self) -> Result<(), DirError> {
        let dir = self.snapshots();
        for entry in std::fs::read_dir(&dir).map_err(failed(&dir, "read"))? {
            let path = entry.map_err(failed(&dir, "read"))?.path();
            if path.extension().is_some_and(|extension| extension == "tmp") {
                std::fs::remove_file(&path).map_err(failed(&path, "removed"))?;
            }
        }
        Ok(())
    }

    /// Snapshots of a shard, newest first: index and file.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn snapshots_of(&self, shard: ShardId) -> Result<Vec<(u64, PathBuf)>, DirError> {
        let dir = self.snapshots();
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&dir).map_err(failed(&dir, "read"))? {
            let path = entry.map_err(failed(&dir, "read"))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if let Some((of, index)) = name.and_then(parse_snapshot_name)
                && of == shard.0
            {
                found.push((index, path));
            }
        }
        found.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
        Ok(found)
    }

    /// Loads the newest intact snapshot of a shard; no parts if there is none. The number is the
    /// index that the log must reach: a damaged snapshot may be skipped only if the log still holds
    /// everything that the snapshot held.
    ///
    /// # Errors
    /// If files cannot be read, or all snapshots are damaged.
    pub fn load_snapshot(&self, shard: ShardId) -> Result<(u64, Vec<SnapshotPart>), DirError> {
        let mut reach = 0;
        let candidates = self.snapshots_of(shard)?;
        for (index, path) in &candidates {
            reach = reach.max(*index);
            match read_snapshot(path) {
                Ok(parts) => return Ok((reach, parts)),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    tracing::warn!(
                        "the snapshot {} is damaged; trying an older one",
                        path.display()
                    );
                }
                Err(error) => return Err(failed(path, "read")(error)),
            }
        }
        match candidates.into_iter().next() {
            Some((_, path)) => Err(DirError::Snapshot(path)),
            None => Ok((reach, Vec::new())),
        }
    }

    /// Creates a file for a new snapshot of a shard with its log up to `index`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create_snapshot(
        &self,
        shard: ShardId,
        index: u64,
        label: &str,
    ) -> Result<SnapshotFile, DirError> {
        SnapshotFile::create(&self.snapshots(), shard, index, label)
    }
}

/// Snapshot that is being written. It becomes valid when it is finished.
#[derive(Debug)]
pub struct SnapshotFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
}

impl SnapshotFile {
    /// Creates a file in the directory `dir` for a new snapshot of a shard with its log up to
    /// `index`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(dir: &Path, shard: ShardId, index: u64, label: &str) -> Result<Self, DirError> {
        let path = dir.join(format!("shard-{}-{index}.snap", shard.0));
        let temporary = path.with_extension(format!("{label}.tmp"));
        let file = create_file(&temporary).map_err(failed(&temporary, "created"))?;
        Ok(Self { file, temporary, path })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// If the disk refuses; the caller must abandon the snapshot then.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DirError> {
        self.file.write_all(bytes).map_err(failed(&self.temporary, "written"))
    }

    /// Makes the snapshot durable and renames it to its final name.
    ///
    /// # Errors
    /// If the disk refuses; the snapshot is not valid then.
    pub fn finish(self) -> Result<(), DirError> {
        self.file.sync_all().map_err(failed(&self.temporary, "made durable"))?;
        std::fs::rename(&self.temporary, &self.path).map_err(failed(&self.path, "named"))?;
        sync_parent(&self.path).map_err(failed(&self.path, "made durable"))
    }

    /// Removes the unfinished snapshot.
    pub fn abandon(self) {
        if let Err(error) = std::fs::remove_file(&self.temporary) {
            tracing::warn!("{} cannot be removed: {error}", self.temporary.display());
        }
    }
}

fn parse_snapshot_name(name: &str) -> Option<(u16, u64)> {
    let (shard, index) = name.strip_prefix("shard-")?.strip_suffix(".snap")?.split_once('-')?;
    Some((shard.parse().ok()?, index.parse().ok()?))
}

/// Reads all parts of a snapshot. A damaged one gives [`io::ErrorKind::InvalidData`].
fn read_snapshot(path: &Path) -> io::Result<Vec<SnapshotPart>> {
    let file = File::open(path)?;
    let mut left = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let (mut parts, mut buffer) = (Vec::new(), Vec::new());
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    while left > 0 {
        let mut header = [0; FRAME_HEADER_BYTES];
        if left < header.len() as u64 {
            return Err(bad());
        }
        reader.read_exact(&mut header)?;
        let length = part_len(&header).filter(|length| *length <= left).ok_or_else(bad)?;
        buffer.clear();
        buffer.extend_from_slice(&header);
        reader.by_ref().take(length - header.len() as u64).read_to_end(&mut buffer)?;
        let (part, _) = SnapshotFormat.decode(&buffer).map_err(|_| bad())?;
        parts.push(part);
        left -= length;
    }
    let whole = match (parts.first(), parts.last()) {
        (Some(SnapshotPart::Header { .. }), Some(SnapshotPart::End { parts: count })) => {
            *count == parts.len() as u64 - 1
        }
        _ => false,
    };
    if whole { Ok(parts) } else { Err(bad()) }
}

/// Creates a directory that only its owner can read.
///
/// # Errors
/// If the file system refuses.
pub fn make_dir(path: &Path) -> Result<(), DirError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed(path, "created"))?;
    sync_parent(path).map_err(failed(path, "made durable"))
}

fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Makes the name of a file durable.
///
/// # Errors
/// If the directory cannot be synchronised.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)?.sync_all()
}

/// Whether a directory holds nothing but the remains of an interrupted start.
fn is_fresh(path: &Path) -> Result<bool, DirError> {
    for entry in std::fs::read_dir(path).map_err(failed(path, "read"))? {
        let name = entry.map_err(failed(path, "read"))?.file_name();
        if name != "LOCK" && name != "MANIFEST.tmp" && name != "lost+found" {
            return Ok(false);
        }
    }
    Ok(true)
}

fn lock(path: &Path) -> Result<File, DirError> {
    let mode = std::fs::metadata(path).map_err(failed(path, "read"))?.permissions().mode();
    if mode & 0o077 != 0 {
        tracing::warn!("{} can be read by other users: chmod 700 it", path.display());
    }
    let file = path.join("LOCK");
    let lock = create_file(&file).map_err(failed(&file, "created"))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(DirError::Locked(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed(&file, "locked")(error)),
    }
}

fn check_purpose(path: &Path, manifest: &Manifest, purpose: &Purpose) -> Result<(), DirError> {
    // Once there is a map, it knows the machines better than the manifest.
    let changed = path.join("MAP").exists();
    let path = path.to_owned();
    let place = |member: &Option<Member>| member.clone().map(|m| (m.cluster, m.node));
    let same = match changed {
        true => place(&manifest.member) == place(&purpose.member),
        false => manifest.member == purpose.member,
    };
    if !same {
        let found = Member::describe(manifest.member.as_ref());
        let wanted = Member::describe(purpose.member.as_ref());
        return Err(DirError::Member { path, found, wanted });
    }
    match purpose.shards {
        Some(wanted) if wanted != manifest.shards => {
            Err(DirError::Shards { path, found: manifest.shards, wanted })
        }
        _ => Ok(()),
    }
}

/// Placement rules as the option takes them.
pub fn listed(rules: &[String]) -> String {
    if rules.is_empty() { "none".to_owned() } else { rules.join(",") }
}

fn read_manifest(path: &Path) -> Result<Manifest, DirError> {
    let text = std::fs::read_to_string(path).map_err(failed(path, "read"))?;
    let manifest_error = |reason: String| DirError::Manifest { path: path.to_owned(), reason };
    let table: toml::Table =
        text.parse().map_err(|e: toml::de::Error| manifest_error(e.to_string()))?;
    // The format is checked first: another format may have other fields.
    let format = table.get("format").and_then(toml::Value::as_integer);
    let format = format.and_then(|format| u32::try_from(format).ok());
    match format {
        Some(FORMAT) => {}
        Some(found) => {
            let path = path.parent().unwrap_or(path).to_owned();
            return Err(DirError::Format { path, found });
        }
        None => return Err(manifest_error("it has no format".to_owned())),
    }
    let manifest: Manifest =
        table.try_into().map_err(|e: toml::de::Error| manifest_error(e.to_string()))?;
    if manifest.shards == 0 || usize::from(manifest.shards) > SHARDS_MAX {
        return Err(manifest_error(format!(
            "{} shards are not from 1 to {SHARDS_MAX}",
            manifest.shards
        )));
    }
    Ok(manifest)
}

fn write_manifest(path: &Path, manifest: &Manifest) -> Result<(), DirError> {
    let text = toml::to_string(manifest)
        .map_err(|error| failed(path, "written")(io::Error::other(error)))?;
    write_durably(path, &text)
}

/// Replaces a small file, durably and as a whole.
///
/// # Errors
/// If the file system refuses.
pub fn write_durably(path: &Path, text: &str) -> Result<(), DirError> {
    let temporary = path.with_extension("tmp");
    let mut file = create_file(&temporary).map_err(failed(&temporary, "created"))?;
    file.write_all(text.as_bytes()).map_err(failed(&temporary, "written"))?;
    file.sync_all().map_err(failed(&temporary, "made durable"))?;
    std::fs::rename(&temporary, path).map_err(failed(path, "named"))?;
    sync_parent(path).map_err(failed(path, "made durable"))
}

/// Random bytes of the system.
///
/// # Panics
/// If the system cannot provide any, which does not happen on supported systems.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system's random generator");
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<LogTag> {
    let mut tag = LogTag::default();
    if text.len() != 2 * tag.len() || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in tag.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::Timestamp;

    fn open(path: &Path, shards: Option<u16>) -> Result<DataDir, DirError> {
        open_as(path, shards, None)
    }

    fn open_as(
        path: &Path,
        shards: Option<u16>,
        member: Option<Member>,
    ) -> Result<DataDir, DirError> {
        let placement = TagRules::parse(&["bull:*:"]).unwrap();
        let purpose = Purpose { shards, shards_default: 2, placement, member };
        DataDir::open(path, purpose, 1_700_000_000)
    }

    #[test]
    fn a_directory_belongs_to_one_machine_of_a_cluster() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("data");
        let member = |node, nodes: &[u16]| {
            Some(Member { cluster: "claret".to_owned(), node, nodes: nodes.to_vec() })
        };
        drop(open_as(&path, None, member(2, &[1, 2, 3])).unwrap());
        drop(open_as(&path, None, member(2, &[1, 2, 3])).unwrap());
        for other in [None, member(1, &[1, 2, 3]), member(2, &[1, 2])] {
            let error = open_as(&path, None, other).unwrap_err();
            assert!(matches!(error, DirError::Member { .. }), "{error}");
        }
    }

    #[test]
    fn a_directory_is_created_private_and_opened_again() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("data");
        let first = open(&path, None).unwrap().manifest().clone();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let manifest = std::fs::metadata(path.join("MANIFEST")).unwrap();
        assert_eq!(manifest.permissions().mode() & 0o777, 0o600);
        assert_eq!((first.shards, first.server.len()), (2, 40));
        let again = open(&path, Some(2)).unwrap();
        assert_eq!(*again.manifest(), first);
        assert_eq!(hex(&again.log_tag()), first.log_tag);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("data");
        let dir = open(&path, Some(3)).unwrap();
        assert!(matches!(open(&path, None), Err(DirError::Locked(_))));
        drop(dir);
        assert!(matches!(open(&path, Some(4)), Err(DirError::Shards { found: 3, wanted: 4, .. })));
        let text = std::fs::read_to_string(path.join("MANIFEST")).unwrap();
        std::fs::write(path.join("MANIFEST"), text.replace("format = 1", "format = 9")).unwrap();
        assert!(matches!(open(&path, None), Err(DirError::Format { found: 9, .. })));
        std::fs::write(path.join("MANIFEST"), "format = 1\n???").unwrap();
        assert!(matches!(open(&path, None), Err(DirError::Manifest { .. })));
        let foreign = temp.path().join("foreign");
        std::fs::create_dir(&foreign).unwrap();
        std::fs::write(foreign.join("holiday.jpg"), "x").unwrap();
        assert!(matches!(open(&foreign, None), Err(DirError::Foreign(_))));
        assert!(!foreign.join("LOCK").exists(), "nothing was changed");
    }

    fn snapshot(dir: &DataDir, index: u64) -> PathBuf {
        let shard = ShardId(1);
        let header = SnapshotPart::Header {
            shard,
            index,
            term: 1,
            clock: Timestamp(5),
            removed: Timestamp::ZERO,
        };
        let mut bytes = Vec::new();
        SnapshotFormat.encode(&header, &mut bytes);
        SnapshotFormat.encode(&SnapshotPart::End { parts: 1 }, &mut bytes);
        let mut file = dir.create_snapshot(shard, index, "own").unwrap();
        file.write(&bytes).unwrap();
        file.finish().unwrap();
        dir.snapshots_of(shard).unwrap()[0].1.clone()
    }

    #[test]
    fn the_newest_good_snapshot_is_used() {
        let temp = tempfile::tempdir().unwrap();
        let dir = open(&temp.path().join("data"), None).unwrap();
        assert_eq!(dir.load_snapshot(ShardId(1)).unwrap(), (0, vec![]));
        let first = snapshot(&dir, 7);
        let second = snapshot(&dir, 12);
        let (reach, parts) = dir.load_snapshot(ShardId(1)).unwrap();
        assert_eq!((reach, parts.len()), (12, 2));
        for cut in 0..std::fs::metadata(&second).unwrap().len() {
            let whole = std::fs::read(&second).unwrap();
            std::fs::write(&second, &whole[..cut as usize]).unwrap();
            let (reach, parts) = dir.load_snapshot(ShardId(1)).unwrap();
            assert_eq!(reach, 12, "the log must make up for the bad one");
            assert!(matches!(parts[0], SnapshotPart::Header { index: 7, .. }));
            std::fs::write(&second, &whole).unwrap();
        }
        std::fs::write(&first, "x").unwrap();
        std::fs::write(&second, "x").unwrap();
        assert!(matches!(dir.load_snapshot(ShardId(1)), Err(DirError::Snapshot(_))));
        assert_eq!(dir.load_snapshot(ShardId(0)).unwrap().1, vec![]);
    }

    #[test]
    fn an_unfinished_snapshot_is_removed_at_the_next_start() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("data");
        let dir = open(&path, None).unwrap();
        for label in ["own", "received"] {
            let mut file = dir.create_snapshot(ShardId(0), 3, label).unwrap();
            file.write(b"half").unwrap();
        }
        drop(dir);
        let files = || std::fs::read_dir(path.join("snapshots")).unwrap().count();
        assert_eq!(files(), 2);
        let dir = open(&path, None).unwrap();
        assert_eq!(files(), 0);
        assert!(dir.snapshots_of(ShardId(0)).unwrap().is_empty());
    }
}
