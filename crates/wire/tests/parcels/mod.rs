//! One parcel of every kind, and their parts.

use crate::stream::{chained, group, links, stream};
use adt::command::scan::ScanArgs;
use adt::{ArgBuf, Blob, ErrorReply, Reply, Timestamp, record};
use bytes::Bytes;
use engine::cluster::map::ShardMap;
use engine::cluster::members::Members;
use engine::entry::{Apply, Prepare};
use engine::gateway::acl::UserChange;
use engine::gateway::{Broadcast, Published};
use engine::ids::{Age, GatewayId, KeyedOp, MachineId, RequestId, ShardId, Token, TxnId};
use engine::message::{
    Answer, Body, Condition, CutStep, Early, Fate, Guard, Notice, Refusal, Request, Response,
    Version,
};
use engine::node::{Parcel, SnapshotPiece, Taken, Timing};
use engine::pipeline::StreamMessage;
use engine::stats::{LockStats, ShardStats};
use probe::watch::{AppendRow, Figures, Row, Wish};
use raft::eraftpb::{ConfState, Entry, EntryType, Message, MessageType, Snapshot};
use smallvec::smallvec;
use std::sync::Arc;

const GATEWAY: GatewayId = GatewayId { machine: MachineId(2), worker: 3, life: 5 };

/// The operation of a command.
pub fn op(line: &str) -> KeyedOp {
    record::decode(&ArgBuf::of(line.split(' ')).args()).unwrap()
}

/// A transaction of another machine.
pub fn txn(began: u64) -> TxnId {
    TxnId { age: Age { began: Timestamp(began), gateway: GATEWAY }, attempt: 2 }
}

/// A request for shard 7.
pub fn asked(body: Body) -> Parcel {
    let request = Request { gateway: GATEWAY, token: Token(77), after: None, body };
    Parcel::Request { shard: ShardId(7), term: 4, request }
}

/// A shard's answer.
pub fn answered(answer: Answer) -> Parcel {
    Parcel::Response(Response { gateway: GATEWAY, token: Token(77), answer })
}

fn request() -> RequestId {
    RequestId { client: Blob::from("client-1"), number: 42 }
}

fn unchanged(key: &str, version: Version) -> Guard {
    Guard { key: Blob::from(key), condition: Condition::Unchanged(version) }
}

fn apply() -> Apply {
    Apply {
        ops: smallvec![op("exists a"), op("sadd a x y"), op("ttl a")],
        guards: vec![
            unchanged("a", Version::Changed(Timestamp(5))),
            unchanged("b", Version::Absent { term: 3, removals: 8 }),
        ],
        request: Some(request()),
        ..Apply::default()
    }
}

/// A message with every field set, and each type of entry.
pub fn message() -> Message {
    let entry = |entry_type, index| Entry {
        entry_type,
        term: 6,
        index,
        data: Bytes::from_static(b"data"),
        context: Bytes::from_static(b"more"),
        sync_log: index == 11,
        ..Entry::default()
    };
    let members = ConfState {
        voters: vec![1, 2, 3],
        learners: vec![4],
        voters_outgoing: vec![1, 5],
        learners_next: vec![6],
        auto_leave: true,
        ..ConfState::default()
    };
    let mut snapshot = Snapshot { data: Bytes::from_static(b"state"), ..Snapshot::default() };
    snapshot.mut_metadata().index = 9;
    snapshot.mut_metadata().term = 5;
    snapshot.mut_metadata().set_conf_state(members);
    Message {
        msg_type: MessageType::MsgAppend,
        to: 2,
        from: 1,
        term: 6,
        log_term: 5,
        index: 10,
        entries: vec![
            entry(EntryType::EntryNormal, 11),
            entry(EntryType::EntryConfChange, 12),
            entry(EntryType::EntryConfChangeV2, 13),
        ]
        .into(),
        commit: 8,
        commit_term: 4,
        snapshot: Some(snapshot).into(),
        request_snapshot: 3,
        reject: true,
        reject_hint: 7,
        context: Bytes::from_static(b"context"),
        deprecated_priority: 12,
        priority: -13,
        ..Message::default()
    }
}

fn words() -> Parcel {
    let (stream, shard) = (stream(), ShardId(7));
    let asks = |hurries, units| StreamMessage::Asks { stream, shard, hurries, units };
    let words = [
        StreamMessage::Proposed { stream, shard, units: (4, 6), proposal: Timestamp(22) },
        StreamMessage::Closed { stream, shard, upto: 6 },
        StreamMessage::Refused { stream, seq: 70_000 },
        asks(true, vec![4, 5]),
        asks(false, vec![]),
        StreamMessage::Settled { stream, shard },
    ];
    Parcel::StreamMessages(words.into_iter().map(|word| (ShardId(1), word)).collect())
}

fn bodies() -> Vec<Body> {
    let (key, read) = op("smembers k");
    let own = vec![op("sadd k a").1, op("srem k b").1];
    let prepare =
        Prepare { txn: txn(9), participants: smallvec![ShardId(0), ShardId(7)], apply: apply() };
    let scan = |pattern: Option<&str>| ScanArgs {
        cursor: 17,
        pattern: pattern.map(Blob::from),
        count: 100,
    };
    vec![
        Body::Read { key: key.clone(), op: read.clone(), fenced: true },
        Body::Apply(apply()),
        Body::Apply(Apply { ops: smallvec![op("get a")], ..Apply::default() }),
        Body::Snapshot {
            ops: vec![op("get a"), op("object encoding b"), op("memory usage c")],
            at: Timestamp(8),
            fenced: false,
            dated: true,
            as_of: None,
        },
        Body::Lock { txn: txn(9), key, op: read, own, early: Early::Observed },
        Body::Prepare { prepare, floor: Timestamp(7) },
        Body::Decide { txn: txn(9), commit: Some(Timestamp(10)) },
        Body::Decide { txn: txn(9), commit: None },
        Body::Inquire { txn: txn(9) },
        Body::Cancel { txn: txn(9) },
        Body::Release { txn: txn(9), after: Timestamp(10) },
        Body::ProbeAck { txn: txn(9) },
        Body::Version { key: Blob::from("k") },
        Body::Transfer { to: MachineId(3) },
        Body::Block { keys: vec![Blob::from("a"), Blob::from("b")], takes: None },
        Body::Unblock,
        Body::Scan { database: 0, scan: scan(Some("a*")), type_name: Some(Blob::from("set")) },
        Body::Scan { database: 0, scan: scan(None), type_name: None },
        Body::Keys { database: 0, pattern: Blob::from("*") },
        Body::Count { database: 0 },
        Body::RandomKey { database: 0 },
        Body::Flush { database: None },
        Body::Resolve(request()),
        Body::Stats,
        Body::KeysInSlot { database: 0, slot: 16_383, count: 10 },
    ]
}

fn answers() -> Vec<Answer> {
    let replies = || smallvec![Reply::Int(1), Reply::Nil];
    let notices = [
        Notice::Blocked { txn: txn(9) },
        Notice::Wound { txn: txn(9), idle_us: 30, by: txn(8).age },
        Notice::Probe { txn: txn(9), shard: ShardId(4) },
        Notice::Orphan { txn: txn(9), participants: smallvec![ShardId(0), ShardId(7)] },
        Notice::Ready { key: Blob::from("k") },
    ];
    let mut answers = vec![
        Answer::Reply(Reply::bulk("a value that does not fit into the blob itself")),
        Answer::Reply(Reply::Error(ErrorReply::wrong_type())),
        Answer::Replies(replies()),
        Answer::Committed { replies: replies(), ts: Timestamp(10) },
        Answer::Repeated(replies()),
        Answer::Voided,
        Answer::Forgotten,
        Answer::GuardFailed(None),
        Answer::Snapshot {
            replies: vec![Reply::Ok, Reply::Double(0.5)],
            since: Timestamp(5),
            until: Timestamp(9),
            held_us: 1_000,
        },
        Answer::Locked {
            reply: Reply::Array(vec![Reply::bulk("a")]),
            clock: Timestamp(6),
            rests_at: None,
        },
        Answer::Prepared { bound: Timestamp(8) },
        Answer::Refused(Refusal::Conflict),
        Answer::Refused(Refusal::Busy),
        Answer::Refused(Refusal::LocksLost),
        Answer::Refused(Refusal::Moved),
        Answer::Version(Version::Changed(Timestamp(5))),
        Answer::Version(Version::Absent { term: 3, removals: 8 }),
        Answer::Stats(Box::new(shard_stats())),
        Answer::Fate(Fate::Prepared { bound: Timestamp(8) }),
        Answer::Fate(Fate::Committed(Timestamp(10))),
        Answer::Fate(Fate::Void),
        Answer::CarriedOut,
        Answer::NotTaken(Box::new(Body::Apply(apply()))),
        Answer::Unknown,
    ];
    answers.extend(notices.into_iter().map(Answer::Notice));
    answers
}

fn shard_stats() -> ShardStats {
    ShardStats {
        keys: 1,
        keys_with_expiry: 2,
        requests: 3,
        operations: 4,
        log_appends: 5,
        log_records: 6,
        log_bytes: 7,
        granted: 8,
        waited: 9,
        waited_us: 10,
        refused: 11,
        phases: 12,
        wounds: 13,
        waiting: 14,
        prepared: 15,
        expired: 16,
        guard_failures: 17,
        duplicates: 18,
        conflicts: [(("set add".into(), "set read".into()), 19)].into(),
        hot_keys: vec![(Blob::from("k"), 20, 21)],
        databases: Vec::new(),
        // Parcels omit the numbers of locks.
        locks: LockStats::default(),
    }
}

/// Tasks for all gateways of another machine.
fn broadcasts() -> Vec<Parcel> {
    let (channel, payload) = (Blob::from("news"), Blob::from("hello"));
    let published = Published { sharded: false, channel, payload };
    let sharded = Published { sharded: true, ..published.clone() };
    let lines = vec![("ann".into(), Some("on\0+@read".into())), ("bob".into(), None)];
    let users = Broadcast::Users(UserChange { version: 7, lines });
    let tasks = [
        Broadcast::Publish(published),
        Broadcast::Publish(sharded),
        Broadcast::ForgetScripts,
        users,
        Broadcast::LookAtUsers,
        Broadcast::ForgetTypes,
    ];
    tasks.into_iter().map(Parcel::Broadcast).collect()
}

fn shard_map() -> ShardMap {
    let machines = [(MachineId(1), "10.0.0.1:7001".to_owned())].into();
    ShardMap::founded(machines, 2).with(MachineId(4), "[::1]:7004").unwrap()
}

/// Machines of a group in transition between two sets of voters.
pub fn members() -> Members {
    let machines = |numbers: &[u16]| numbers.iter().copied().map(MachineId).collect();
    Members {
        voters: machines(&[1, 2, 4]),
        learners: machines(&[5]),
        outgoing: machines(&[1, 2, 3]),
        learners_next: machines(&[3]),
    }
}

/// Parcels in `fixtures/peer-v1.hex` after the first frame.
pub fn parcels() -> Vec<Parcel> {
    let shard = ShardId(7);
    let heartbeat =
        Message { msg_type: MessageType::MsgHeartbeat, to: 2, from: 1, ..Message::default() };
    let piece = |offset, bytes: &[u8], last| {
        let (bytes, message) = (bytes.to_vec(), Box::new(message()));
        Parcel::Snapshot(SnapshotPiece { shard, offset, bytes, last, message })
    };
    let mut parcels: Vec<Parcel> = bodies().into_iter().map(asked).collect();
    parcels.extend(answers().into_iter().map(answered));
    parcels.extend([
        Parcel::Raft { shard, message: Box::new(message()) },
        Parcel::Raft { shard, message: Box::new(heartbeat) },
        Parcel::Leads { shard, term: 4 },
        Parcel::Resigned { shard, term: 4 },
        Parcel::Watermarks(vec![
            (shard, Timestamp(0x0102_0304_0506_0708)),
            (ShardId::MAP, Timestamp(1)),
        ]),
        Parcel::Sleep { shard, term: 4, index: 9 },
        Parcel::Wake { shard },
        piece(0, b"parts", false),
        piece(5, b"", true),
        Parcel::SnapshotTaken { shard, index: 9, taken: Taken::Next(5) },
        Parcel::SnapshotTaken { shard, index: 9, taken: Taken::Complete },
        Parcel::SnapshotTaken { shard, index: 9, taken: Taken::Refused },
        Parcel::Map(Box::new(shard_map())),
        Parcel::Members { shard, term: 4, applied: (9, 3), members: Box::new(members()) },
    ]);
    let steps = [CutStep::Freeze, CutStep::Release, CutStep::Piece(3), CutStep::End];
    parcels.extend(steps.map(|step| asked(Body::Cut { cut: 11, step })));
    parcels.push(answered(Answer::Refused(Refusal::Frozen)));
    parcels.extend(about_pipelines());
    parcels.extend(about_chains());
    parcels.extend(about_time());
    let (used_us, proposed_us) = (950_000, 420_000);
    let wish = Wish { used_us, proposed_us, applies: true, settled: false };
    parcels.push(Parcel::Timing(Timing::Wish(wish)));
    let (count, lost, p90_us, near_us) = (58, 1, 41_000, 600);
    let row = AppendRow { machine: 3, count, lost, p90_us, near_us };
    parcels.push(Parcel::Timing(Timing::Appends(vec![row])));
    parcels.extend(broadcasts());
    parcels.push(Parcel::BroadcastsTaken(70_000));
    parcels
}

/// Parcels about message delays.
fn about_time() -> Vec<Parcel> {
    let (number, sent_us) = (7, 0x0102_0304_0506_0708);
    let row = Row {
        machine: 2,
        count: 60,
        lost: 3,
        silent_s: 1,
        p50_us: 300,
        p90_us: u32::MAX,
        near_us: 120,
        service_us: 40,
        settled: true,
    };
    let figures = Figures { number: 9, up_s: 3_600, late_us: 150, rows: vec![row] };
    vec![
        Parcel::Timing(Timing::Question { number, sent_us }),
        Parcel::Timing(Timing::Answer { number, sent_us, service_us: 250 }),
        Parcel::Timing(Timing::Figures(figures)),
        Parcel::LeadElsewhere { shard: ShardId::MAP, to: MachineId(3) },
    ]
}

/// Parcels about chained pipelines.
fn about_chains() -> Vec<Parcel> {
    let (stream, shard, links) = (stream(), ShardId(7), links());
    let words = [
        StreamMessage::HandedOn { stream, links: links.clone() },
        StreamMessage::AsksPlaces { stream, shard, term: 4 },
        StreamMessage::Knows { stream, shard, term: 4, links },
    ];
    let words = words.into_iter().map(|word| (ShardId(1), word)).collect();
    vec![asked(Body::Pipeline(Arc::new(chained()))), Parcel::StreamMessages(words)]
}

/// Parcels that pipelines over several shards introduced.
fn about_pipelines() -> Vec<Parcel> {
    let shards = vec![ShardId(0), ShardId(7)];
    let after = Some(Token(76));
    let body = Body::Read { key: Blob::from("k"), op: op("get k").1, fenced: false };
    let request = Request { gateway: GATEWAY, token: Token(77), after, body };
    vec![
        asked(Body::Pipeline(Arc::new(group()))),
        asked(Body::EndStream { stream: stream(), shards }),
        answered(Answer::Units(vec![Some((Timestamp(9), smallvec![Reply::Ok])), None])),
        words(),
        Parcel::StreamMessages(Vec::new()),
        Parcel::Request { shard: ShardId(7), term: 4, request },
    ]
}
