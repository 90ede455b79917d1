//! Backup files that are truncated, changed or reordered, and data directories from intact ones.

use crate::config::{Options, Settings};
use crate::data::backup::restore::{RestoreError, restore};
use crate::data::backup::*;
use crate::data::datadir::{DataDir, DirError, Purpose};
use adt::command::tags::TagRules;
use adt::{ArgBuf, Blob, Ctx, Timestamp, record};
use engine::cluster::slot::shard_of;
use engine::coordination::JointId;
use engine::coordination::service::{Joint, JointState, Prepared, SessionState};
use engine::coordination::spread::Spread;
use engine::coordination::{TreeSessionId, Zxid};
use engine::entry::RequestOutcome;
use engine::ids::RequestId;

const KEYS: u64 = 40;

fn set(key: &str, expire_at_ms: Option<u64>) -> SnapshotPart {
    let words = format!("sadd {key} member");
    let (_, op) = record::decode(&ArgBuf::of(words.split(' ')).args()).unwrap();
    let mut slot = None;
    record::apply(&mut slot, &op, &Ctx { ts: Timestamp(7), ..Ctx::default() });
    SnapshotPart::Record(Blob::from(key.as_bytes()), slot.unwrap().expiring(expire_at_ms))
}

fn request(number: u64) -> SnapshotPart {
    let request = RequestId { client: Blob::from("shop".as_bytes()), number };
    SnapshotPart::Request { request, outcome: RequestOutcome::Void(Timestamp(5)) }
}

/// Parts of a shard with a tree over two shards: a session that is at both, and its pending joint
/// change.
fn of_tree() -> Vec<SnapshotPart> {
    let (session, id) = (TreeSessionId(7), JointId { joined: Zxid(8), number: 1 });
    let kept =
        Box::new(SessionState { timeout_ms: 6_000, entered: Zxid(8), ..SessionState::default() });
    let fate = JointState::Prepared(Box::new(Prepared { sound: true, ..Prepared::default() }));
    vec![
        SnapshotPart::Coordination { last: Zxid(9) },
        SnapshotPart::Spread { over: Spread::over(2), departed: Zxid(3) },
        SnapshotPart::Session { session, kept, ending: None },
        SnapshotPart::Joint { session, joint: Box::new(Joint { id, fate }) },
    ]
}

/// Snapshots of two shards.
fn snapshots() -> Vec<Vec<u8>> {
    snapshots_with(&[])
}

/// Snapshots of two shards, with further parts of the second one.
fn snapshots_with(more: &[SnapshotPart]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for shard in [0, 1].map(ShardId) {
        let (index, term) = (90, 3);
        let (clock, removed) = (Timestamp(100 + u64::from(shard.0)), Timestamp(4));
        let mut parts = vec![SnapshotPart::Header { shard, index, term, clock, removed }];
        parts.push(request(9));
        let keys = (0..KEYS).map(|key| format!("key:{key}"));
        let own = keys.filter(|key| shard_of(key.as_bytes(), 2) == shard);
        parts.extend(own.map(|key| set(&key, (key == "key:7").then_some(99))));
        parts.extend(more.iter().filter(|_| shard.0 == 1).cloned());
        parts.push(SnapshotPart::End { parts: parts.len() as u64 });
        let mut bytes = Vec::new();
        parts.iter().for_each(|part| SnapshotFormat.encode(part, &mut bytes));
        all.push(bytes);
    }
    all
}

fn about() -> About {
    About { taken_ms: 1, held_us: 2, cluster: "shop".to_owned(), shards: 2, ..About::default() }
}

fn write(path: &Path) {
    write_all(path, snapshots());
}

fn write_all(path: &Path, snapshots: Vec<Vec<u8>>) {
    let mut backup = Backup::create(path, &about()).unwrap();
    for (bytes, shard) in snapshots.into_iter().zip((0..).map(ShardId)) {
        for piece in bytes.chunks(100) {
            backup.piece(shard, piece.to_vec()).unwrap();
        }
    }
    let len = backup.finish().unwrap();
    assert_eq!(len, std::fs::metadata(path).unwrap().len());
}

fn options(dir: &Path, shards: Option<u16>, node: Option<&str>) -> Options {
    let cluster = node.map_or_else(String::new, |node| {
        let nodes = "1 = \"127.0.0.1:7001\"\n2 = \"127.0.0.1:7002\"\n";
        format!("[cluster]\nname = \"new\"\nnode = {node}\n[cluster.nodes]\n{nodes}")
    });
    let shards = shards.map_or_else(String::new, |shards| format!("shards = {shards}\n"));
    let text = format!("dir = {:?}\n{shards}{cluster}", dir.display().to_string());
    let file = dir.with_extension("toml");
    std::fs::write(&file, text).unwrap();
    Options::resolve(Settings::from_file(&file).unwrap()).unwrap()
}

#[test]
fn a_file_says_what_is_in_it() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("whole");
    write(&path);
    let contents = inspect(&path).unwrap();
    assert_eq!((contents.keys, contents.expiring, contents.requests), (KEYS, 1, 2));
    assert_eq!((contents.clock, contents.types["set"]), (101, KEYS));
    assert_eq!(contents.about, about());
    assert!(matches!(Backup::create(&path, &about()), Err(BackupError::Exists(_))));
}

#[test]
fn a_file_that_is_cut_off_anywhere_or_changed_anywhere_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let (path, bad) = (temp.path().join("whole"), temp.path().join("bad"));
    write(&path);
    let whole = std::fs::read(&path).unwrap();
    for len in 0..whole.len() {
        std::fs::write(&bad, &whole[..len]).unwrap();
        assert!(inspect(&bad).is_err(), "cut off after {len} bytes");
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        std::fs::write(&bad, &changed).unwrap();
        assert!(inspect(&bad).is_err(), "a bit of byte {at} changed");
    }
    std::fs::write(&bad, [&whole[..], b"x"].concat()).unwrap();
    assert!(inspect(&bad).is_err(), "longer");
}

#[test]
fn pieces_that_are_missing_or_in_another_order_are_noticed() {
    let temp = tempfile::tempdir().unwrap();
    let snapshots = snapshots();
    let attempt = |name: &str, pieces: &[(u16, &[u8])]| {
        let path = temp.path().join(name);
        let mut backup = Backup::create(&path, &about()).unwrap();
        for (shard, piece) in pieces {
            backup.piece(ShardId(*shard), piece.to_vec()).unwrap();
        }
        backup.finish().unwrap();
        inspect(&path)
    };
    let (first, second) = (&snapshots[0][..], &snapshots[1][..]);
    assert!(attempt("whole", &[(1, second), (0, first)]).is_ok());
    assert!(attempt("one", &[(0, first)]).is_err());
    assert!(attempt("swapped", &[(0, second), (1, first)]).is_err());
    assert!(attempt("twice", &[(0, first), (0, first), (1, second)]).is_err());
    assert!(attempt("half", &[(0, &first[..first.len() - 1]), (1, second)]).is_err());
    assert!(attempt("third", &[(0, first), (1, second), (2, first)]).is_err());
}

#[test]
fn frames_in_another_order_are_noticed() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("whole");
    write(&path);
    let whole = std::fs::read(&path).unwrap();
    let (mut at, mut frames) = (BEGINNING_BYTES, Vec::new());
    while at < whole.len() {
        let len = frame_len(&whole[at..]).unwrap() as usize;
        frames.push(whole[at..at + len].to_vec());
        at += len;
    }
    let pieces = frames.len() - 1;
    for other in 1..pieces - 1 {
        let mut changed = frames.clone();
        changed.swap(other, other + 1);
        std::fs::write(&path, [&whole[..BEGINNING_BYTES], &changed.concat()].concat()).unwrap();
        assert!(inspect(&path).is_err(), "frames {other} and {}", other + 1);
        let mut changed = frames.clone();
        changed.remove(other);
        std::fs::write(&path, [&whole[..BEGINNING_BYTES], &changed.concat()].concat()).unwrap();
        assert!(inspect(&path).is_err(), "without frame {other}");
    }
}

#[test]
fn what_was_not_finished_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("half");
    let backup = Backup::create(&path, &about()).unwrap();
    assert!(!path.exists() && temp.path().join("half.part").exists());
    drop(backup);
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn every_machine_gets_the_same_snapshots_whatever_the_number_of_shards() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("whole");
    write(&path);
    for shards in [None, Some(1), Some(5)] {
        let mut all = Vec::new();
        for node in ["1", "2"] {
            let dir = temp.path().join(format!("{}-{node}", shards.unwrap_or(0)));
            let options = options(&dir, shards, Some(node));
            restore(&path, &options, false, 1).unwrap();
            let purpose = crate::data::identity::purpose(&options);
            let dir = DataDir::open(&dir, purpose, 2).unwrap();
            let count = dir.manifest().shards;
            assert_eq!(count, shards.unwrap_or(2));
            let snapshots: Vec<Vec<SnapshotPart>> =
                (0..count).map(|s| dir.load_snapshot(ShardId(s)).unwrap().1).collect();
            all.push(snapshots);
        }
        assert_eq!(all[0], all[1]);
        let mut keys = 0;
        for (parts, shard) in all[0].iter().zip((0..).map(ShardId)) {
            let header = SnapshotPart::Header {
                shard,
                index: 1,
                term: 1,
                clock: Timestamp(101),
                removed: Timestamp(4),
            };
            assert_eq!(parts[0], header);
            let requests = parts.iter().filter(|p| matches!(p, SnapshotPart::Request { .. }));
            assert_eq!(requests.count(), 1, "a retry finds it, wherever its slot is");
            for part in parts {
                let SnapshotPart::Record(key, _) = part else { continue };
                assert_eq!(shard_of(key, all[0].len() as u16), shard);
                keys += 1;
            }
        }
        assert_eq!(keys, KEYS);
    }
}

#[test]
fn what_is_known_of_a_tree_stays_with_the_numbers_of_its_shards() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("whole");
    write_all(&path, snapshots_with(&of_tree()));
    let few = options(&temp.path().join("few"), Some(1), None);
    let error = restore(&path, &few, false, 1).unwrap_err();
    assert!(matches!(error, RestoreError::Dir(DirError::TooFewShards { least: 2 })), "{error}");
    let dir = temp.path().join("more");
    let options = options(&dir, Some(3), None);
    restore(&path, &options, false, 1).unwrap();
    let dir = DataDir::open(&dir, crate::data::identity::purpose(&options), 2).unwrap();
    for shard in [0, 1, 2].map(ShardId) {
        let parts = dir.load_snapshot(shard).unwrap().1;
        let expected = if shard.0 == 1 { of_tree() } else { Vec::new() };
        let found: Vec<&SnapshotPart> =
            of_tree().iter().filter_map(|part| parts.iter().find(|found| *found == part)).collect();
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{shard:?}");
    }
}

#[test]
fn a_restore_that_is_refused_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let (path, dir) = (temp.path().join("whole"), temp.path().join("data"));
    write(&path);
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let error = restore(&path, &options(&dir, None, None), false, 1).unwrap_err();
    assert!(matches!(error, RestoreError::Backup(BackupError::Damaged { .. })), "{error}");
    assert!(!dir.exists());
    std::fs::write(&path, &whole).unwrap();
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("photo.jpg"), "x").unwrap();
    let error = restore(&path, &options(&dir, None, None), false, 1).unwrap_err();
    assert!(matches!(error, RestoreError::Dir(_)), "{error}");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn a_directory_without_a_manifest_is_none() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("data");
    let purpose =
        || Purpose { shards: Some(2), shards_default: 2, placement: TagRules::NONE, member: None };
    let fail = |_: &Path| Err(crate::data::datadir::DirError::Foreign(dir.clone()));
    assert!(DataDir::found(&dir, purpose(), 1, fail).is_err());
    assert!(!dir.join("snapshots").exists() && !dir.join("MANIFEST").exists());
    // A crash in the middle leaves a directory in which no server starts.
    std::fs::create_dir(dir.join("snapshots")).unwrap();
    assert!(DataDir::open(&dir, purpose(), 1).is_err());
}
