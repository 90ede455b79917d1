//! Positions of transactions in the log, read from the bytes on the disk without asking the server.
//!
//! Every writing transaction writes at least one unique value, so a log record identifies its
//! transaction. Commit timestamps are those of the records, or of the outcomes for transactions
//! over several shards.

use crate::machine::build::Build;
use crate::machine::disk::Disk;
use adt::ArgBuf;
use check::{Event, EventKind};
use engine::entry::{EntryCodec, LogRecord};
use engine::ids::{KeyedOp, TxnId};
use raft::eraftpb::EntryType;
use std::collections::{BTreeMap, BTreeSet};

/// Position in commit order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    ts: u64,
    /// Orders equal timestamps.
    tie: Option<u64>,
    /// Whether the record took effect only if its guards held. The log alone does not show that; an
    /// answer, a read of the written value, or the value in the records at the end does.
    guarded: bool,
}

/// Positions of all unique values that are in the log and took effect.
fn positions(disk: &Disk) -> Result<BTreeMap<Vec<u8>, Position>, String> {
    let mut values: BTreeMap<Vec<u8>, Position> = BTreeMap::new();
    let mut prepared: BTreeMap<TxnId, Vec<Vec<u8>>> = BTreeMap::new();
    let mut outcomes: BTreeMap<TxnId, u64> = BTreeMap::new();
    for (shard, raft_entry) in disk.archive() {
        let is_change = raft_entry.get_entry_type() != EntryType::EntryNormal;
        if raft_entry.data.is_empty() || is_change {
            continue;
        }
        let unreadable =
            || format!("entry {} of shard {} does not read back", raft_entry.index, shard.0);
        let entry = Build::default().decode(&raft_entry.data).map_err(|_| unreadable())?;
        let (first, spacing) = (entry.ts, entry.spacing());
        for (index, record) in entry.records.into_iter().enumerate() {
            let ts = spacing.ts_of(first, index).0;
            match record {
                LogRecord::Apply(apply) => {
                    // Commands of a pipeline may share a record.
                    for (tie, value) in (0..).zip(unique_values(&apply.ops)) {
                        // A retry of a numbered request is in the log again and has no effect.
                        values.entry(value).or_insert(Position {
                            ts,
                            tie: Some(tie),
                            guarded: !apply.guards.is_empty(),
                        });
                    }
                }
                LogRecord::Prepare(prepare) => {
                    let values = unique_values(&prepare.apply.ops);
                    prepared.entry(prepare.txn).or_default().extend(values);
                }
                LogRecord::Outcome { txn, commit: Some(ts) } => {
                    outcomes.insert(txn, ts.0);
                }
                LogRecord::Propose(group) | LogRecord::Content(group) => {
                    for unit in &group.units {
                        let values = unique_values(&unit.ops);
                        let name = group.stream.unit(unit.seq);
                        prepared.entry(name).or_default().extend(values);
                    }
                }
                LogRecord::Settle { stream, units } => {
                    let placed = units.into_iter().filter_map(|(seq, place)| Some((seq, place?)));
                    outcomes.extend(placed.map(|(seq, place)| (stream.unit(seq), place.0)));
                }
                LogRecord::Ordered { stream, link, .. } => {
                    outcomes.insert(stream.unit(link.seq), ts);
                }
                LogRecord::Promise { .. }
                | LogRecord::Outcome { .. }
                | LogRecord::Place { .. }
                | LogRecord::Refuse(_)
                | LogRecord::Forget(_)
                | LogRecord::Outlive(_)
                | LogRecord::Void(_)
                | LogRecord::Flush(_)
                | LogRecord::Split { .. }
                | LogRecord::Resolve(_)
                | LogRecord::Answered(_)
                | LogRecord::Coordinate(_) => {}
            }
        }
    }
    // Transactions with equal timestamps take effect in the order of their ids, which is the order
    // of this map. A transaction that shares its timestamp with a single record commutes with it.
    for (tie, (txn, written)) in (1 << 32..).zip(prepared) {
        let Some(ts) = outcomes.get(&txn) else { continue };
        for value in written {
            values.entry(value).or_insert(Position { ts: *ts, tie: Some(tie), guarded: false });
        }
    }
    Ok(values)
}

/// Values in operations that look like those of the workload.
fn unique_values(ops: &[KeyedOp]) -> Vec<Vec<u8>> {
    let mut words = ArgBuf::new();
    let mut values = Vec::new();
    for (key, op) in ops {
        words.clear();
        op.encode(key, &mut words);
        let args = words.args();
        // Behind the definition and the name of the operation, if it is a call of a composed type; behind the
        // number of words, the command and the part, if it is a write of a program.
        let (name, value) = match args.get(0) {
            Some(b"type.call") if args.get(3) == Some(b"") => (args.get(5), args.get(7)),
            Some(b"type.call") => (args.get(3), args.get(4)),
            name => (name, args.get(2)),
        };
        let value = value.filter(|value| is_unique(name.unwrap_or_default(), value));
        values.extend(value.map(<[u8]>::to_vec));
    }
    values
}

fn is_unique(command: &[u8], value: &[u8]) -> bool {
    let writes = [&b"rpush"[..], b"sadd", b"set", b"push", b"add"].contains(&command);
    writes && (value == b"deposit" || value.iter().filter(|b| **b == b'-').count() == 1)
}

/// Gives every completion (and every open transaction) its position in the log. `held` are the values in
/// the records at the end.
pub fn stamp(events: &mut [Event], disk: &Disk, held: &BTreeSet<Vec<u8>>) -> Result<(), String> {
    let mut positions = positions(disk)?;
    for value in held {
        positions.get_mut(value).into_iter().for_each(|position| position.guarded = false);
    }
    // Clients read the same values many times: each reply is looked at by itself.
    for reply in events.iter().flat_map(|event| &event.replies).flatten() {
        for value in reply.flat() {
            if let Some(position) = positions.get_mut(&value.canonical()) {
                position.guarded = false;
            }
        }
    }
    let mut open: BTreeMap<(u64, Option<u64>), Option<Position>> = BTreeMap::new();
    for event in events.iter_mut() {
        match event.kind {
            EventKind::Invoke => {
                let written = event.txn.iter().filter_map(|op| {
                    let (name, value) = (op.first()?, op.get(2)?);
                    positions.get(value).filter(|_| is_unique(name, value))
                });
                open.insert((event.process, event.session_seq), written.max().copied());
            }
            EventKind::Ok | EventKind::Info => {
                let position = open.remove(&(event.process, event.session_seq)).flatten();
                let known = position.filter(|p| event.kind == EventKind::Ok || !p.guarded);
                event.ts = known.map(|p| p.ts);
                event.tie = known.and_then(|p| p.tie);
            }
            EventKind::Fail => {
                open.remove(&(event.process, event.session_seq));
            }
        }
    }
    Ok(())
}
