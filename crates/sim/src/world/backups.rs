//! Backups of everything while clients and faults continue.
//!
//! The checkers see a backup as a transaction that reads all existing keys and was in progress from
//! the beginning of the cut until its end. Half a transaction, a missing write that was
//! acknowledged before, or a write that began afterwards is thus an anomaly, as in any other
//! transaction.

use super::World;
use super::steps::of_cell;
use crate::clients::workload::value_of;
use crate::machine::server::decode_snapshot;
use adt::command::database::shown;
use adt::{ArgBuf, Blob, Ctx, Record, Reply, Value, record};
use check::{Event, EventKind};
use engine::entry::SnapshotPart;
use std::collections::{BTreeMap, VecDeque};

/// Connection over which backups are taken.
pub(super) const KEEPER: u64 = u64::MAX - 1;
/// Processes of the history, one for each backup, after all others.
const PROCESSES: u64 = 3_000_000;
/// Time after which another backup may begin.
const PATIENCE_US: u64 = 4_000_000;

/// Backup in progress.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    began_us: u64,
    /// Time and number of the cut.
    stood_us: u64,
    cut: i64,
    /// Shards that are still to be fetched, and the next piece of the first one.
    left: VecDeque<i64>,
    piece: u64,
    bytes: Vec<u8>,
    found: BTreeMap<Blob, Record>,
}

impl World {
    /// Begins a backup, unless one is in progress.
    pub(super) fn begin_backup(&mut self) {
        let busy = self.keeping.as_ref().is_some_and(|k| k.began_us + PATIENCE_US > self.now_us);
        let any_up = self.machines.iter().any(crate::machine::Machine::is_up);
        if busy && self.connections.contains_key(&KEEPER) || !any_up {
            return;
        }
        self.leave(KEEPER, 0);
        self.connect(KEEPER);
        self.keeping = Some(Keeping { began_us: self.now_us, ..Keeping::default() });
        self.send(KEEPER, vec!["backup".into(), "begin".into()]);
    }

    /// Handles a reply to the client that takes a backup.
    pub(super) fn keeper_reply(&mut self, reply: Reply) -> Result<(), String> {
        let Some(mut keeping) = self.keeping.take() else { return Ok(()) };
        match (reply, keeping.cut) {
            (Reply::Array(parts), 0) => {
                let [Reply::Int(cut), _, _, _, Reply::Array(shards)] = &parts[..] else {
                    return Err("this is not an answer to BACKUP BEGIN".to_owned());
                };
                (keeping.cut, keeping.stood_us) = (*cut, self.now_us);
                keeping.left = shards.iter().filter_map(number).collect();
                self.mark("cuts_made");
            }
            (Reply::Array(parts), _) => {
                let [Reply::Bulk(bytes), Reply::Int(last)] = &parts[..] else {
                    return Err("this is not an answer to BACKUP READ".to_owned());
                };
                keeping.bytes.extend_from_slice(bytes);
                keeping.piece += 1;
                if *last == 1 {
                    keeping.end_shard()?;
                }
            }
            (_, 0) => return self.end_backup("cuts_refused"),
            _ => return self.end_backup("cuts_lost"),
        }
        if let Some(shard) = keeping.left.front() {
            let words = [keeping.cut.to_string(), shard.to_string(), keeping.piece.to_string()];
            let words = ["backup".to_owned(), "read".to_owned()].into_iter().chain(words);
            self.send(KEEPER, words.collect());
            self.keeping = Some(keeping);
            return Ok(());
        }
        self.report_backup(&keeping)?;
        self.send(KEEPER, vec!["backup".into(), "end".into(), keeping.cut.to_string()]);
        self.mark("backups");
        Ok(())
    }

    fn end_backup(&mut self, mark: &'static str) -> Result<(), String> {
        self.mark(mark);
        self.leave(KEEPER, 0);
        Ok(())
    }

    /// Reports the contents of a backup to the checkers.
    fn report_backup(&mut self, keeping: &Keeping) -> Result<(), String> {
        let mut reads: BTreeMap<Vec<u8>, Vec<String>> = BTreeMap::new();
        let seen = self.clients.iter().flat_map(|client| &client.events);
        for op in self.outcome.events.iter().chain(seen).flat_map(|event| &event.txn) {
            let (Some(name), Some(key)) = (op.first(), op.get(1)) else { continue };
            let text = String::from_utf8_lossy(key).into_owned();
            let read = match name.as_slice() {
                b"rpush" | b"lrange" => vec!["lrange".into(), text, "0".into(), "-1".into()],
                b"sadd" | b"smembers" | b"spop" => vec!["smembers".into(), text],
                b"get" | b"set" | b"incrby" | b"decrby" => vec!["get".into(), text],
                _ => continue,
            };
            reads.entry(key.clone()).or_insert(read);
        }
        // Writes of lock clients are judged separately, and texts of scripts and definitions of
        // types are the store's own.
        let known = |key: &&Blob| {
            reads.contains_key(&key[..])
                || engine::script::keys::is_script(key)
                || engine::script::keys::is_types(key)
                || crate::clients::holder::is_of_locks(&String::from_utf8_lossy(key))
        };
        if let Some(key) = keeping.found.keys().find(|key| !known(key)) {
            return Err(format!("a backup has the key {key:?}, and no client has written it"));
        }
        let mut replies = Vec::new();
        for (key, words) in &reads {
            let (_, op) = record::decode(&ArgBuf::of(words.clone()).args())
                .map_err(|_| format!("{words:?} is not an operation"))?;
            let record = keeping.found.get(&key[..]);
            let is_cell = record.is_some_and(|record| matches!(record.value, Value::Composed(_)));
            let of_cell = of_cell(if words[0] == "lrange" { "all" } else { "members" });
            let op = of_cell.filter(|_| is_cell).unwrap_or(op);
            let reply = record::query(record, &op, &Ctx::default());
            replies.push(Some(value_of(&reply)));
        }
        let process = PROCESSES + self.outcome.marks.get("backups").copied().unwrap_or(0);
        let mut invoke = Event::new(process, EventKind::Invoke, keeping.began_us);
        let bytes = |words: Vec<String>| words.into_iter().map(String::into_bytes).collect();
        invoke.txn = reads.into_values().map(bytes).collect();
        let mut done = Event::new(process, EventKind::Ok, keeping.stood_us);
        done.replies = replies;
        self.outcome.events.extend([invoke, done]);
        Ok(())
    }
}

fn number(reply: &Reply) -> Option<i64> {
    match reply {
        Reply::Array(pair) => match pair[..] {
            [Reply::Int(shard), _] => Some(shard),
            _ => None,
        },
        _ => None,
    }
}

impl Keeping {
    /// Handles the last piece of a shard.
    fn end_shard(&mut self) -> Result<(), String> {
        let parts = decode_snapshot(&std::mem::take(&mut self.bytes))?;
        self.left.pop_front();
        self.piece = 0;
        let whole = matches!(parts.first(), Some(SnapshotPart::Header { .. }))
            && matches!(parts.last(), Some(SnapshotPart::End { parts: count })
                if *count == parts.len() as u64 - 1);
        if !whole {
            return Err("a shard's part of a backup is incomplete".to_owned());
        }
        for part in parts {
            let twice = match part {
                SnapshotPart::Record(key, record) => {
                    let key = shown(&key);
                    self.found.insert(key.clone(), record).map(|_| key)
                }
                SnapshotPart::Prepared { .. } | SnapshotPart::Unsettled { .. } => {
                    return Err("a transaction is open in a backup".to_owned());
                }
                _ => None,
            };
            if let Some(key) = twice {
                return Err(format!("a backup has the key {key:?} twice"));
            }
        }
        Ok(())
    }
}
