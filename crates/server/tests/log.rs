//! Contents of the log after stops of every kind, with real files.

use engine::ids::ShardId;
use engine::replication::Persist;
use raft::eraftpb::{Entry, HardState};
use server::log::files::stop_process;
use server::log::{LogError, LogOptions, LogStore};
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

const SHARD: ShardId = ShardId(0);

fn options(dir: &Path) -> LogOptions {
    LogOptions {
        dir: dir.join("log"),
        known: dir.join("DURABLE"),
        tag: *b"sixteen byte tag",
        keep_bytes: 0,
        on_failure: stop_process,
    }
}

fn open(dir: &Path) -> Result<LogStore, LogError> {
    LogStore::open(options(dir))
}

/// Entries `from..to` of a shard, each with a distinct payload.
fn persist(shard: ShardId, from: u64, to: u64) -> Persist {
    let entries = (from..to).map(|index| {
        let mut entry = Entry::default();
        entry.set_index(index);
        entry.set_term(1);
        entry.set_data(format!("payload {index} of {}", shard.0).into_bytes().into());
        entry
    });
    let mut hard_state = HardState::default();
    hard_state.set_term(1);
    hard_state.set_commit(to - 1);
    Persist {
        group: shard,
        number: to,
        entries: entries.collect(),
        hard_state: Some(hard_state),
        must_sync: true,
        restored: None,
        bundles: Vec::new(),
        wave_end: None,
    }
}

/// Creates a log of `batches` batches of one entry, as a crash leaves it.
fn crashed(dir: &Path, batches: u64, sync: bool) {
    let mut store = open(dir).unwrap();
    for index in 1..=batches {
        store.append(&[persist(SHARD, index, index + 1)], sync).unwrap();
    }
    // A crash closes nothing: undo what closing does to the file, which is to shorten it.
    let reserved = std::fs::metadata(file(dir)).unwrap().len();
    drop(store);
    OpenOptions::new().write(true).open(file(dir)).unwrap().set_len(reserved).unwrap();
}

/// As [`crashed`], while the last batch was being written: its durability was not reported.
fn crashed_while_writing(dir: &Path, batches: u64) {
    crashed(dir, batches - 1, true);
    let known = std::fs::read(dir.join("DURABLE")).unwrap();
    let mut store = open(dir).unwrap();
    store.append(&[persist(SHARD, batches, batches + 1)], true).unwrap();
    let reserved = std::fs::metadata(file(dir)).unwrap().len();
    drop(store);
    OpenOptions::new().write(true).open(file(dir)).unwrap().set_len(reserved).unwrap();
    std::fs::write(dir.join("DURABLE"), known).unwrap();
}

fn file(dir: &Path) -> PathBuf {
    dir.join("log/0000000000000001.raftlog")
}

/// Bytes of the file without the reserved space behind them.
fn written(dir: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(file(dir)).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    bytes.truncate(end);
    bytes
}

/// Offset of the batch of entry `index`: directly behind the marker of the batch before.
fn batch_of(bytes: &[u8], index: u64) -> usize {
    let marker_ends: Vec<usize> = bytes
        .windows(16)
        .enumerate()
        .filter(|(_, window)| *window == b"sixteen byte tag")
        .map(|(at, _)| at + 36 + 4)
        .collect();
    match index {
        1 => "RAFT-LOG-FILE-HEADER-9986AB3E47F320B394C8E84916EB0ED5".len() + 16,
        index => marker_ends[index as usize - 2],
    }
}

fn payloads(store: &mut LogStore) -> Vec<u64> {
    let recovered = store.recover(SHARD, (0, 0), 0).unwrap();
    for entry in &recovered.entries {
        assert_eq!(&entry.data[..], format!("payload {} of 0", entry.index).as_bytes());
    }
    recovered.entries.iter().map(|entry| entry.index).collect()
}

#[test]
fn what_was_appended_is_recovered() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path()).unwrap();
    assert!(payloads(&mut store).is_empty());
    let other = ShardId(3);
    store.append(&[persist(SHARD, 1, 4), persist(other, 1, 2)], true).unwrap();
    store.append(&[persist(other, 2, 9)], false).unwrap();
    assert!(store.is_unsynced());
    store.close().unwrap();
    let mode = std::fs::metadata(file(temp.path())).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let mut store = open(temp.path()).unwrap();
    assert_eq!(payloads(&mut store), [1, 2, 3]);
    let recovered = store.recover(other, (4, 1), 8).unwrap();
    assert_eq!(recovered.hard_state.commit, 8);
    assert_eq!(recovered.entries.iter().map(|e| e.index).collect::<Vec<_>>(), [5, 6, 7, 8]);
}

#[test]
fn a_crash_leaves_everything_that_was_written() {
    let temp = tempfile::tempdir().unwrap();
    crashed(temp.path(), 5, true);
    assert_eq!(payloads(&mut open(temp.path()).unwrap()), [1, 2, 3, 4, 5]);
}

#[test]
fn a_torn_last_record_is_cut_wherever_it_is_torn() {
    let temp = tempfile::tempdir().unwrap();
    crashed_while_writing(temp.path(), 4);
    let whole = written(temp.path());
    let last = batch_of(&whole, 4);
    for cut in last..whole.len() {
        for reserved in [0, 100] {
            let mut bytes = whole[..cut].to_vec();
            bytes.resize(cut + reserved, 0);
            std::fs::write(file(temp.path()), &bytes).unwrap();
            let mut store =
                open(temp.path()).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            assert_eq!(payloads(&mut store), [1, 2, 3], "cut at {cut}");
            drop(store);
        }
    }
    // The log continues normally after the cut.
    let mut store = open(temp.path()).unwrap();
    store.append(&[persist(SHARD, 4, 7)], true).unwrap();
    drop(store);
    assert_eq!(payloads(&mut open(temp.path()).unwrap()), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn rubbish_after_the_last_record_is_cut() {
    let temp = tempfile::tempdir().unwrap();
    crashed(temp.path(), 3, true);
    let mut bytes = written(temp.path());
    bytes.extend((0..5000u32).map(|i| (i * 7 + 1) as u8));
    std::fs::write(file(temp.path()), &bytes).unwrap();
    assert_eq!(payloads(&mut open(temp.path()).unwrap()), [1, 2, 3]);
}

#[test]
fn a_flipped_bit_in_a_record_that_was_durable_is_refused_and_changes_nothing() {
    let temp = tempfile::tempdir().unwrap();
    crashed(temp.path(), 4, true);
    let whole = written(temp.path());
    let (from, to) = (batch_of(&whole, 2), batch_of(&whole, 3));
    for at in from..to {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(file(temp.path()), &bytes).unwrap();
        match open(temp.path()) {
            Err(LogError::Damaged { file: named, at: offset, proof }) => {
                assert_eq!(named, file(temp.path()));
                assert_eq!(offset, from as u64, "byte {at}");
                assert!(proof > offset);
            }
            Err(other) => panic!("byte {at}: {other}"),
            Ok(_) => panic!("byte {at}: opened"),
        }
        assert_eq!(std::fs::read(file(temp.path())).unwrap(), bytes, "byte {at}: changed");
    }
}

#[test]
fn a_log_that_others_have_cut_short_is_refused_and_not_changed() {
    let temp = tempfile::tempdir().unwrap();
    crashed(temp.path(), 4, true);
    let whole = written(temp.path());
    for cut in [batch_of(&whole, 2), batch_of(&whole, 4), whole.len() - 3] {
        std::fs::write(file(temp.path()), &whole[..cut]).unwrap();
        let refused = open(temp.path()).err().unwrap();
        let LogError::Lost { last, durable, .. } = &refused else { panic!("{refused}") };
        assert!(last < durable && *durable == 4, "cut at {cut}: {refused}");
        assert!(refused.to_string().contains("acknowledged writes are missing"), "{refused}");
        assert_eq!(std::fs::read(file(temp.path())).unwrap(), &whole[..cut], "nothing was changed");
    }
    std::fs::write(file(temp.path()), &whole).unwrap();
    assert_eq!(payloads(&mut open(temp.path()).unwrap()), [1, 2, 3, 4]);
}

#[test]
fn a_log_that_is_gone_is_refused_until_it_is_back_or_given_up() {
    let temp = tempfile::tempdir().unwrap();
    crashed(temp.path(), 4, true);
    let (log, away) = (temp.path().join("log"), temp.path().join("away"));
    let refused = |what: &str| {
        let error = open(temp.path()).err().unwrap_or_else(|| panic!("{what}: opened"));
        assert!(
            matches!(error, LogError::Missing { .. } | LogError::Lost { .. }),
            "{what}: {error}"
        );
        assert!(error.to_string().contains("DURABLE"), "{error}");
    };
    std::fs::rename(&log, &away).unwrap();
    refused("the directory is missing");
    assert!(!log.exists(), "nothing was changed");
    std::fs::create_dir(&log).unwrap();
    refused("the directory is empty");
    std::fs::write(file(temp.path()), b"").unwrap();
    refused("the file is empty");
    std::fs::remove_dir_all(&log).unwrap();
    std::fs::rename(&away, &log).unwrap();
    assert_eq!(payloads(&mut open(temp.path()).unwrap()), [1, 2, 3, 4]);
    std::fs::remove_dir_all(&log).unwrap();
    std::fs::remove_file(temp.path().join("DURABLE")).unwrap();
    assert!(payloads(&mut open(temp.path()).unwrap()).is_empty(), "given up");
}

#[test]
fn a_hole_among_the_files_of_a_log_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let mut store =
        LogStore::open(LogOptions { keep_bytes: 1 << 30, ..options(temp.path()) }).unwrap();
    let mut large = persist(SHARD, 1, 2);
    for index in 1..=30 {
        large.entries[0].set_index(index);
        large.entries[0].set_data(vec![7; 4 << 20].into());
        store.append(std::slice::from_ref(&large), true).unwrap();
    }
    store.close().unwrap();
    for number in [1, 2] {
        let path = temp.path().join(format!("log/{number:016}.raftlog"));
        let away = temp.path().join("away");
        std::fs::rename(&path, &away).unwrap();
        let error = open(temp.path()).err().unwrap();
        let LogError::Missing { file, .. } = &error else { panic!("{error}") };
        assert_eq!(*file, path);
        std::fs::rename(&away, &path).unwrap();
    }
    assert_eq!(open(temp.path()).unwrap().recover(SHARD, (0, 0), 30).unwrap().entries.len(), 30);
}

#[test]
fn a_flipped_bit_in_the_last_record_is_refused_after_a_crash_too() {
    let temp = tempfile::tempdir().unwrap();
    crashed(temp.path(), 3, true);
    let mut bytes = written(temp.path());
    let at = batch_of(&bytes, 3) + 20;
    bytes[at] ^= 1;
    std::fs::write(file(temp.path()), &bytes).unwrap();
    assert!(matches!(open(temp.path()), Err(LogError::Lost { last: 2, durable: 3, .. })));
}

#[test]
fn a_flipped_bit_in_the_last_record_is_seen_after_a_clean_stop() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path()).unwrap();
    store.append(&[persist(SHARD, 1, 2)], true).unwrap();
    store.append(&[persist(SHARD, 2, 3)], false).unwrap();
    store.close().unwrap();
    let mut bytes = written(temp.path());
    let at = batch_of(&bytes, 2) + 20;
    bytes[at] ^= 1;
    std::fs::write(file(temp.path()), &bytes).unwrap();
    assert!(matches!(open(temp.path()), Err(LogError::Damaged { .. })));
}

#[test]
fn records_that_were_never_durable_may_be_lost_in_any_order() {
    // A power failure with `everysec`: a later record reached the disk and an earlier one did not.
    let temp = tempfile::tempdir().unwrap();
    crashed(temp.path(), 5, false);
    let bytes = written(temp.path());
    let at = batch_of(&bytes, 3) as u64 + 8;
    let open_file = OpenOptions::new().write(true).open(file(temp.path())).unwrap();
    open_file.write_all_at(&[0xff; 8], at).unwrap();
    assert_eq!(payloads(&mut open(temp.path()).unwrap()), [1, 2]);
}

#[test]
fn a_file_that_was_begun_and_not_finished_is_removed() {
    let temp = tempfile::tempdir().unwrap();
    crashed(temp.path(), 2, true);
    let next = temp.path().join("log/0000000000000002.raftlog");
    for bytes in [&b""[..], &b"RAFT-LOG"[..], &[0; 200][..]] {
        std::fs::write(&next, bytes).unwrap();
        assert_eq!(payloads(&mut open(temp.path()).unwrap()), [1, 2]);
        assert!(!next.exists());
    }
}

#[test]
fn a_snapshot_lets_go_of_the_log_and_gaps_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path()).unwrap();
    store.append(&[persist(SHARD, 1, 11)], true).unwrap();
    store.compact(SHARD, 6).unwrap();
    store.close().unwrap();
    let mut store = open(temp.path()).unwrap();
    let entries = store.recover(SHARD, (6, 1), 0).unwrap().entries;
    assert_eq!(entries.iter().map(|e| e.index).collect::<Vec<_>>(), [7, 8, 9, 10]);
    let gap = store.recover(SHARD, (5, 1), 0);
    assert!(matches!(gap, Err(LogError::Gap { first: 7, snapshot: 5, .. })));
    let short = store.recover(SHARD, (6, 1), 11);
    assert!(matches!(short, Err(LogError::Short { last: 10, reach: 11, .. })));
    // A snapshot may be ahead of the log; the log continues behind it.
    assert!(store.recover(SHARD, (20, 1), 20).unwrap().entries.is_empty());
    store.append(&[persist(SHARD, 21, 23)], true).unwrap();
    store.close().unwrap();
    let mut store = open(temp.path()).unwrap();
    assert_eq!(store.recover(SHARD, (20, 1), 20).unwrap().entries.len(), 2);
}

#[test]
fn another_machines_snapshot_stands_in_the_place_of_the_log() {
    // The log may end before the snapshot, or continue beyond it with entries that were never
    // committed.
    for end in [11, 31] {
        let temp = tempfile::tempdir().unwrap();
        let other = ShardId(3);
        let mut store = open(temp.path()).unwrap();
        store.append(&[persist(SHARD, 1, end), persist(other, 1, 5)], true).unwrap();
        let received = Persist { restored: Some(20), ..persist(SHARD, 21, 21) };
        store.append(&[received], true).unwrap();
        store.append(&[persist(SHARD, 21, 24)], true).unwrap();
        store.close().unwrap();
        let mut store = open(temp.path()).unwrap();
        let recovered = store.recover(SHARD, (20, 1), 20).unwrap();
        let indices: Vec<u64> = recovered.entries.iter().map(|e| e.index).collect();
        assert_eq!(indices, [21, 22, 23], "a log up to {end}");
        assert!(store.recover(SHARD, (10, 1), 0).is_err(), "a log up to {end}");
        assert_eq!(store.recover(other, (0, 0), 0).unwrap().entries.len(), 4);
    }
}

#[test]
fn a_snapshot_that_came_last_leaves_an_empty_log() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path()).unwrap();
    store.append(&[persist(SHARD, 1, 31)], true).unwrap();
    let received = Persist { restored: Some(20), ..persist(SHARD, 21, 21) };
    store.append(&[received], true).unwrap();
    store.close().unwrap();
    let recovered = open(temp.path()).unwrap().recover(SHARD, (20, 1), 20).unwrap();
    assert!(recovered.entries.is_empty());
}

#[test]
fn files_that_hold_nothing_needed_are_removed() {
    let temp = tempfile::tempdir().unwrap();
    let mut store = open(temp.path()).unwrap();
    let mut large = persist(SHARD, 1, 2);
    let payload = vec![7; 4 << 20];
    for index in 1..=60 {
        large.entries[0].set_index(index);
        large.entries[0].set_data(payload.clone().into());
        store.append(std::slice::from_ref(&large), false).unwrap();
    }
    let size = |dir: &Path| -> u64 {
        let entries = std::fs::read_dir(dir.join("log")).unwrap();
        entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    };
    let before = size(temp.path());
    store.compact(SHARD, 59).unwrap();
    assert!(size(temp.path()) < before / 2, "{before} bytes, now {}", size(temp.path()));
    store.close().unwrap();
    let recovered = open(temp.path()).unwrap().recover(SHARD, (59, 1), 60).unwrap();
    assert_eq!(recovered.entries.len(), 1);
}
