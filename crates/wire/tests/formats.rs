//! Log entries and snapshots: the bytes of a version keep their meaning, everything written reads
//! back, and all other bytes are refused without harm.

mod hex;
mod stream;

use adt::command::condition::Expected;
use adt::{ArgBuf, Blob, Corrupt, ErrorReply, Record, Reply, Timestamp, Value, record};
use engine::cluster::level::Level;
use engine::cluster::members::Members;
use engine::coordination::JointId;
use engine::coordination::SpreadStep;
use engine::coordination::service::{Command, Joint, JointState, Prepared, SessionState};
use engine::coordination::spread::Spread;
use engine::coordination::tree::Znode;
use engine::coordination::tree::acl::Rules;
use engine::coordination::{
    Acl, Change, Create, CreateMode, Identity, Lasts, TreeSessionId, Write, Zxid,
};
use engine::entry::{
    Apply, Dropped, Entry, EntryCodec, KeptGroup, LogRecord, Prepare, RequestOutcome,
    SnapshotCodec, SnapshotPart, TookEffect,
};
use engine::ids::{Age, GatewayId, KeyedOp, MachineId, RequestId, ShardId, StreamId, TxnId};
use engine::message::{Condition, Fence, Guard, Remembered, Version};
use engine::pipeline::Unit;
use hex::unhex;
use proptest::prelude::*;
use smallvec::smallvec;
use std::sync::Arc;
use wire::entry::EntryFormat;
use wire::snapshot::{FRAME_HEADER_BYTES, SnapshotFormat, part_len};

fn op(line: &str) -> KeyedOp {
    record::decode(&ArgBuf::of(line.split(' ')).args()).unwrap()
}

const GATEWAY: GatewayId = GatewayId { machine: MachineId(2), worker: 3, life: 5 };

fn txn(began: u64) -> TxnId {
    TxnId { age: Age { began: Timestamp(began), gateway: GATEWAY }, attempt: 2 }
}

fn request() -> RequestId {
    RequestId { client: Blob::from("client-1"), number: 42 }
}

fn unchanged(key: &str, version: Version) -> Guard {
    Guard { key: Blob::from(key), condition: Condition::Unchanged(version) }
}

fn prepare() -> Prepare {
    Prepare {
        txn: txn(9),
        participants: smallvec![ShardId(0), ShardId(7)],
        apply: Apply { ops: smallvec![op("sadd s a"), op("scard s")], ..Apply::default() },
    }
}

/// Entry with most kinds of records that are not about pipelines.
fn entry() -> Entry {
    let apply = |ops| LogRecord::Apply(Apply { ops, ..Apply::default() });
    Entry {
        now_ms: 1_700_000_000_123,
        ts: Timestamp(0x0102_0304_0506_0708),
        seed: 99,
        records: vec![
            apply(smallvec![op("sadd tags red green")]),
            apply(smallvec![]),
            LogRecord::Apply(Apply {
                ops: smallvec![op("exists a"), op("del a"), op("ttl a")],
                guards: vec![
                    unchanged("a", Version::Changed(Timestamp(5))),
                    unchanged("b", Version::Absent { term: 3, removals: 8 }),
                ],
                request: Some(request()),
                ..Apply::default()
            }),
            LogRecord::Prepare(prepare()),
            LogRecord::Outcome { txn: txn(9), commit: Some(Timestamp(10)) },
            LogRecord::Outcome { txn: txn(11), commit: None },
            LogRecord::Flush(None),
            LogRecord::Resolve(request()),
            LogRecord::Void(txn(12)),
        ],
    }
}

fn set(members: &[&str]) -> Record {
    let ctx = adt::Ctx { ts: Timestamp(77), ..adt::Ctx::default() };
    let (_, add) = op(&format!("sadd k {}", members.join(" ")));
    let mut slot = None;
    record::apply(&mut slot, &add, &ctx);
    let mut record = slot.unwrap();
    record.modified = Timestamp(77);
    record
}

/// One reply of each kind.
fn replies() -> Vec<Reply> {
    vec![
        Reply::Ok,
        Reply::status("set"),
        Reply::Nil,
        Reply::NilArray,
        Reply::Int(-5),
        Reply::Double(0.5),
        Reply::Bool(true),
        Reply::bulk("bytes"),
        Reply::Text("text".into()),
        Reply::Array(vec![Reply::Int(1)]),
        Reply::Set(vec![]),
        Reply::Map(vec![(Reply::bulk("k"), Reply::Int(2))]),
        Reply::Scored(vec![(Blob::from("m"), -1.25)]),
        Reply::Push(vec![Reply::Ok]),
        Reply::Error(ErrorReply::wrong_type()),
        Reply::Record(Box::new(set(&["x"]))),
    ]
}

#[test]
fn the_machines_of_a_group_are_part_of_a_snapshot() {
    let machines = |numbers: &[u16]| numbers.iter().copied().map(MachineId).collect();
    let members = Members {
        voters: machines(&[1, 4]),
        learners: machines(&[5]),
        outgoing: machines(&[1, 2]),
        learners_next: machines(&[2]),
    };
    let part = SnapshotPart::Members(members);
    let mut bytes = Vec::new();
    SnapshotFormat.encode(&part, &mut bytes);
    let payload = [
        [1, 9, 2, 0, 0, 0].as_slice(),
        &[1, 0, 4, 0, 1, 0, 0, 0, 5, 0, 2, 0, 0, 0, 1, 0, 2, 0, 1, 0, 0, 0, 2, 0],
    ];
    assert_eq!(bytes[FRAME_HEADER_BYTES..], payload.concat());
    assert_eq!(SnapshotFormat.decode(&bytes), Ok((part, bytes.len())));
}

#[test]
fn splits_are_in_logs_and_in_snapshots() {
    let split = LogRecord::Split { child: ShardId(3), first: 0, at: 2730, last: 5460 };
    let entry = Entry { records: vec![split], ..entry() };
    assert!(encoded(&entry).ends_with(&[1, 8, 3, 0, 0, 0, 0xaa, 0x0a, 0x54, 0x15]));
    let bytes = encoded(&entry);
    let found = EntryFormat.decode(&bytes).unwrap().records.remove(0);
    assert_eq!(found, LogRecord::Split { child: ShardId(3), first: 0, at: 2730, last: 5460 });
    let part = SnapshotPart::Slots { splits: 2, first: 0, last: 2729 };
    let bytes = framed(&part);
    assert_eq!(bytes[FRAME_HEADER_BYTES..], [1, 10, 2, 0, 0, 0, 0xa9, 0x0a]);
    assert_eq!(SnapshotFormat.decode(&bytes), Ok((part, bytes.len())));
}

/// State of a request that was answered with these replies.
fn answered_so(replies: Vec<Reply>) -> SnapshotPart {
    let outcome = TookEffect { ts: Timestamp(6), replies, whole: false, dropped: None };
    SnapshotPart::Request { request: request(), outcome: RequestOutcome::TookEffect(outcome) }
}

#[test]
fn outcomes_of_requests_are_part_of_a_snapshot() {
    let whole =
        TookEffect { ts: Timestamp(6), replies: vec![Reply::Nil], whole: true, dropped: None };
    let dropped = |why| TookEffect { replies: Vec::new(), dropped: Some(why), ..whole.clone() };
    let outcomes = [
        RequestOutcome::TookEffect(dropped(Dropped::TooLong)),
        RequestOutcome::TookEffect(dropped(Dropped::ForRoom)),
        RequestOutcome::TookEffect(whole),
        RequestOutcome::Void(Timestamp(7)),
        RequestOutcome::Forgotten(Timestamp(8)),
    ];
    let part = |outcome| SnapshotPart::Request { request: request(), outcome };
    let parts: Vec<SnapshotPart> = outcomes.map(part).to_vec();
    let bytes: Vec<u8> = parts.iter().flat_map(framed).collect();
    assert_parts(&bytes, parts);
}

/// Parts in `fixtures/snapshot-v1.hex`.
fn parts() -> Vec<SnapshotPart> {
    let replies = replies();
    vec![
        SnapshotPart::Header {
            shard: ShardId(7),
            index: 1000,
            term: 3,
            clock: Timestamp(500),
            removed: Timestamp(400),
        },
        SnapshotPart::Record(Blob::from("tags"), set(&["red", "green"])),
        SnapshotPart::Record(Blob::from("soon"), set(&["gone"]).expiring(Some(1_700_000_000_999))),
        SnapshotPart::Prepared { prepare: prepare(), bound: Timestamp(8), commit: None },
        SnapshotPart::Prepared {
            prepare: prepare(),
            bound: Timestamp(8),
            commit: Some(Timestamp(10)),
        },
        answered_so(replies),
        SnapshotPart::Outcome { txn: txn(9), commit: Timestamp(10) },
        SnapshotPart::Void(txn(12)),
        SnapshotPart::Unsettled { txn: txn(13), commit: None },
        SnapshotPart::Unsettled { txn: txn(14), commit: Some(Timestamp(15)) },
        SnapshotPart::End { parts: 10 },
    ]
}

fn encoded(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    EntryFormat.encode(entry, Level::NEWEST, &mut bytes);
    bytes
}

fn framed(part: &SnapshotPart) -> Vec<u8> {
    let mut bytes = Vec::new();
    SnapshotFormat.encode(part, &mut bytes);
    bytes
}

/// Frame around a payload, with the right checksum.
fn in_frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u64).to_le_bytes().to_vec();
    let crc = crc32fast::hash(&[&frame[..], payload].concat());
    frame.extend_from_slice(&crc.to_le_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// [`entry`] with records about pipelines.
fn entry_of_streams() -> Entry {
    let mut entry = entry();
    let (stream, units) = (stream::stream(), vec![(4, Some(Timestamp(10))), (6, None)]);
    entry.records.extend([
        LogRecord::Propose(Arc::new(stream::group())),
        LogRecord::Settle { stream, units },
        LogRecord::Place { stream, units: vec![(4, Timestamp(23))] },
        LogRecord::Refuse(stream),
        LogRecord::Forget(vec![stream, StreamId::default()]),
    ]);
    entry
}

/// Entry in `fixtures/entry-v1.hex`.
fn entry_of_chains() -> Entry {
    let mut entry = entry_of_streams();
    let (stream, links) = (stream::stream(), stream::links());
    let (link, before) = (links[1], links[..1].to_vec());
    entry.records.extend([
        LogRecord::Content(Arc::new(stream::chained())),
        LogRecord::Ordered { stream, link, before, ops: smallvec![] },
        LogRecord::Promise { stream, shard: ShardId(7), term: 4 },
    ]);
    entry
}

/// Checks that a record of each kind reads back.
fn reads_back(records: impl IntoIterator<Item = LogRecord>) {
    let entry = Entry { records: records.into_iter().collect(), ..entry() };
    assert_eq!(EntryFormat.decode(&encoded(&entry)), Ok(entry));
}

#[test]
fn entries_of_version_1_are_understood() {
    let bytes = unhex(include_str!("fixtures/entry-v1.hex"));
    assert_eq!(EntryFormat.decode(&bytes), Ok(entry_of_chains()));
    let written = encoded(&entry_of_chains());
    assert_eq!(written, bytes, "the format changed: that takes a new version");
}

/// Command of the coordination service.
fn command() -> Command {
    let who = Identity { scheme: Blob::from("digest"), id: Blob::from("ann:hash") };
    let acl = vec![Acl { perms: Acl::ALL, who: who.clone() }];
    let (path, data) = (Blob::from("/a"), Some(Blob::from("x")));
    let mode = CreateMode { lasts: Lasts::Session, sequential: false };
    let create = Change::Create(Create { path, data, acl, mode, stat: true });
    let delete = Change::Delete { path: Blob::from("/b"), version: -1 };
    let write = Write::Multi(vec![create, delete]);
    Command { identities: vec![who], ..Command::of(TreeSessionId(7), write) }
}

#[test]
fn changes_of_the_coordination_service_are_in_logs() {
    reads_back([LogRecord::Coordinate(Box::new(command()))]);
}

#[test]
fn changes_of_a_tree_that_is_spread_are_in_logs() {
    let steps = [
        SpreadStep::Over(Spread::over(4)),
        SpreadStep::Join(vec![ShardId(1), ShardId(3)]),
        SpreadStep::Enter { timeout_ms: 6_000, password: [7; 16], joined: Zxid(8) },
        SpreadStep::Depart { ended: Zxid(9) },
        SpreadStep::Finish,
        SpreadStep::Gone,
        SpreadStep::Forget,
    ];
    let after = Command { after: Zxid(5), ..command() };
    let steps = steps.map(|step| Command::of(TreeSessionId(7), Write::Spread(step)));
    let commands = [after].into_iter().chain(steps);
    reads_back(commands.map(|command| LogRecord::Coordinate(Box::new(command))));
}

#[test]
fn requests_sent_ahead_to_shards_of_a_tree_are_in_logs_and_in_snapshots() {
    let group = stream::asking();
    reads_back([group.clone(), stream::group()].map(|group| LogRecord::Propose(Arc::new(group))));
    let part = |unit: &Unit| {
        let ask = unit.ask.clone().expect("each of them asks something");
        SnapshotPart::Asked { unit: group.stream.unit(unit.seq), ask }
    };
    let parts: Vec<SnapshotPart> = group.units.iter().map(part).collect();
    let bytes: Vec<u8> = parts.iter().flat_map(framed).collect();
    assert_parts(&bytes, parts);
}

#[test]
fn replies_of_a_request_are_in_logs() {
    let replies = vec![Reply::Array(vec![Reply::Int(1)]), Reply::Nil];
    let remembered = Box::new(Remembered { request: request(), replies });
    reads_back([LogRecord::Answered(remembered)]);
}

/// A `multi` over two shards.
fn joint() -> (JointId, Vec<ShardId>, Vec<Change>) {
    let delete = Change::Delete { path: Blob::from("/a"), version: 3 };
    let check = Change::Check { path: Blob::from("/b"), version: -1 };
    let id = JointId { joined: Zxid(8), number: 2 };
    (id, vec![ShardId(0), ShardId(3)], vec![delete, check])
}

#[test]
fn joint_steps_of_the_shards_of_a_tree_are_in_logs() {
    let (id, shards, changes) = joint();
    let steps = [
        SpreadStep::Prepare { id, shards, changes },
        SpreadStep::Inquire { id },
        SpreadStep::Decide { id, commit: true },
        SpreadStep::Decide { id, commit: false },
    ];
    let commands = steps.map(|step| Command::of(TreeSessionId(7), Write::Spread(step)));
    reads_back(commands.map(|command| LogRecord::Coordinate(Box::new(command))));
}

#[test]
fn the_outcome_of_a_multi_over_several_shards_is_part_of_a_snapshot() {
    let (id, shards, changes) = joint();
    let who = Identity { scheme: Blob::from("ip"), id: Blob::from("10.0.0.1") };
    let prepared = Prepared { shards, changes, identities: vec![who], sound: false };
    let fates = [JointState::Prepared(Box::new(prepared)), JointState::Committed, JointState::Void];
    let part = |fate| {
        let (session, joint) = (TreeSessionId(7), Box::new(Joint { id, fate }));
        SnapshotPart::Joint { session, joint }
    };
    let parts: Vec<SnapshotPart> = fates.map(part).to_vec();
    let bytes: Vec<u8> = parts.iter().flat_map(framed).collect();
    assert_parts(&bytes, parts);
}

#[test]
fn sessions_at_several_shards_are_part_of_a_snapshot() {
    let (session, joined) = (TreeSessionId(7), [ShardId(1), ShardId(2)].into_iter().collect());
    let kept =
        SessionState { timeout_ms: 6_000, password: [7; 16], joined, ..SessionState::default() };
    let entered = SessionState { entered: Zxid(8), ..SessionState::default() };
    let at = |kept: &SessionState, ending| {
        let kept = Box::new(kept.clone());
        SnapshotPart::Session { session, kept, ending }
    };
    let parts = vec![
        SnapshotPart::Spread { over: Spread::over(4), departed: Zxid(0) },
        at(&kept, None),
        at(&kept, Some((Zxid(9), true))),
        at(&entered, Some((Zxid(9), false))),
    ];
    let bytes: Vec<u8> = parts.iter().flat_map(framed).collect();
    assert_parts(&bytes, parts);
}

#[test]
fn the_coordination_service_is_part_of_a_snapshot() {
    let node = Znode {
        data: Some(Blob::from("x")),
        rules: Rules::restored(vec![]),
        czxid: Zxid(1),
        mzxid: Zxid(2),
        pzxid: Zxid(3),
        ctime_ms: 4,
        mtime_ms: 5,
        version: 6,
        aversion: 7,
        born: 8,
        owner: 9,
        ..Znode::default()
    };
    let parts = [
        SnapshotPart::Coordination { last: Zxid(3) },
        SnapshotPart::Node(Blob::from("/a"), Box::new(node)),
        SnapshotPart::Node(Blob::from("/"), Box::default()),
    ];
    for part in parts {
        let bytes = framed(&part);
        assert_eq!(SnapshotFormat.decode(&bytes), Ok((part, bytes.len())));
        for len in 0..bytes.len() {
            assert_eq!(SnapshotFormat.decode(&bytes[..len]), Err(Corrupt));
        }
    }
}

#[test]
fn the_removal_of_the_records_of_a_database_reads_back() {
    reads_back([LogRecord::Flush(Some(0)), LogRecord::Flush(None), LogRecord::Flush(Some(15))]);
}

#[test]
fn streams_that_were_outlived_are_in_logs() {
    reads_back([LogRecord::Outlive(vec![stream::stream()])]);
}

#[test]
fn conditions_on_replies_are_in_logs() {
    for (line, equal) in [("get", true), ("get", false), ("exists", true), ("llen", false)] {
        let (key, read) = op(&format!("{line} key"));
        let reply = Blob::from("a reply that does not fit into the blob itself");
        let guards =
            vec![Guard { key, condition: Condition::Replies(Expected { read, reply, equal }) }];
        let ops = smallvec![op("set a 1")];
        reads_back([LogRecord::Apply(Apply { ops, guards, ..Apply::default() })]);
    }
    let (key, read) = op("del key");
    let condition = Condition::Replies(Expected { read, reply: Blob::from("1"), equal: true });
    let guards = vec![Guard { key, condition }];
    let apply = LogRecord::Apply(Apply { guards, ..Apply::default() });
    let bytes = encoded(&Entry { records: vec![apply], ..entry() });
    assert_eq!(EntryFormat.decode(&bytes), Err(Corrupt), "a write is no condition");
}

#[test]
fn fencing_tokens_are_in_logs_and_in_snapshots() {
    let ops = smallvec![op("set a 1")];
    let fences = vec![Fence { lock: Blob::from("lock"), token: 1 << 60 }];
    let apply = Apply { ops, fences, ..Apply::default() };
    reads_back([LogRecord::Apply(apply)]);
    let parts = [
        SnapshotPart::Outlived { gateway: GATEWAY, began: Timestamp(8) },
        SnapshotPart::Fence { lock: Blob::from("lock"), token: 5 },
        SnapshotPart::FenceFloor(4),
    ];
    for part in parts {
        let bytes = framed(&part);
        assert_eq!(SnapshotFormat.decode(&bytes), Ok((part, bytes.len())));
    }
}

#[test]
fn chains_are_part_of_a_snapshot() {
    let (stream, links, promises) = (stream::stream(), stream::links(), vec![(ShardId(7), 4)]);
    let contents = stream::group().units;
    let part = SnapshotPart::Chain { stream, links, promises, contents };
    let bytes = framed(&part);
    assert_eq!(SnapshotFormat.decode(&bytes), Ok((part, bytes.len())));
    for len in 0..bytes.len() {
        assert_eq!(SnapshotFormat.decode(&bytes[..len]), Err(Corrupt));
    }
}

#[test]
fn pipelines_are_part_of_a_snapshot() {
    let kept = KeptGroup {
        base: 3,
        homes: vec![ShardId(0), ShardId(7)],
        floor: Timestamp(20),
        proposal: Timestamp(22),
        units: vec![(4, None), (6, Some(None)), (7, Some(Some(Timestamp(23))))],
    };
    let (stream, groups) = (stream::stream(), vec![kept]);
    let part = SnapshotPart::Stream { stream, refused: true, groups };
    let bytes = framed(&part);
    assert_eq!(SnapshotFormat.decode(&bytes), Ok((part, bytes.len())));
    for len in 0..bytes.len() {
        assert_eq!(SnapshotFormat.decode(&bytes[..len]), Err(Corrupt));
    }
}

#[test]
fn a_small_write_takes_thirty_bytes() {
    let with = |records| Entry { records, ..entry() };
    let set = || {
        let ops = smallvec![op("set key-456789 value-7890")];
        vec![LogRecord::Apply(Apply { ops, ..Apply::default() })]
    };
    let of = |records| encoded(&with(records)).len();
    assert_eq!(of(set()) - of(vec![]), 30);
}

#[test]
fn short_numbers_take_as_few_bytes_as_possible() {
    // The length of a request's identity stands after version, times, seed, count and kind.
    let resolve = |len: usize| {
        let request = RequestId { client: Blob::from(vec![b'c'; len].as_slice()), number: 7 };
        Entry { records: vec![LogRecord::Resolve(request)], ..entry() }
    };
    for (len, short) in [
        (0, &[0][..]),
        (127, &[0x7f]),
        (128, &[0x80, 1]),
        (16_383, &[0xff, 0x7f]),
        (16_384, &[0x80, 0x80, 1]),
    ] {
        let bytes = encoded(&resolve(len));
        assert_eq!(&bytes[27..27 + short.len()], short);
        assert_eq!(bytes.len(), 27 + short.len() + len + 8);
        assert_eq!(EntryFormat.decode(&bytes), Ok(resolve(len)));
    }
    let bytes = encoded(&resolve(1));
    for longer in [&[0x81, 0][..], &[0x81, 0x80, 0x80, 0x80, 0], &[0x81, 0x80, 0x80, 0x80, 0x10]] {
        let padded = [&bytes[..27], longer, &bytes[28..]].concat();
        assert_eq!(EntryFormat.decode(&padded), Err(Corrupt), "{longer:?}");
    }
}

/// Checks the parts in a fixture, read one by one, each with its length.
fn assert_parts(bytes: &[u8], parts: impl IntoIterator<Item = SnapshotPart>) {
    let mut at = 0;
    for part in parts {
        let (found, len) = SnapshotFormat.decode(&bytes[at..]).unwrap();
        assert_eq!(found, part);
        assert_eq!(part_len(&bytes[at..at + 8]), Some(len as u64));
        at += len;
    }
    assert_eq!(at, bytes.len());
}

#[test]
fn snapshots_of_version_1_are_understood() {
    let bytes = unhex(include_str!("fixtures/snapshot-v1.hex"));
    assert_parts(&bytes, parts());
    let written: Vec<u8> = parts().iter().flat_map(framed).collect();
    assert_eq!(written, bytes, "the format changed: that takes a new version");
}

#[test]
fn reads_that_no_replica_needs_are_left_out() {
    let apply = |ops| Apply { ops, ..Apply::default() };
    let logged = |apply: Apply| {
        let entry = Entry { records: vec![LogRecord::Apply(apply)], ..entry() };
        match EntryFormat.decode(&encoded(&entry)).unwrap().records.remove(0) {
            LogRecord::Apply(apply) => apply.ops,
            other => panic!("{other:?}"),
        }
    };
    let (read, write) = (|| op("scard k"), || op("spop k"));
    assert_eq!(logged(apply(smallvec![write(), read(), read()]))[..], [write()]);
    assert_eq!(logged(apply(smallvec![read()]))[..], []);
    // The random number of an operation depends on its position.
    assert_eq!(logged(apply(smallvec![read(), write()]))[..], [read(), write()]);
    let remembered = Apply { request: Some(request()), ..apply(smallvec![write(), read()]) };
    assert_eq!(logged(remembered)[..], [write(), read()]);
}

#[test]
fn a_part_of_an_entry_is_no_entry() {
    let bytes = encoded(&entry());
    for len in 0..bytes.len() {
        assert_eq!(EntryFormat.decode(&bytes[..len]), Err(Corrupt), "{len}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(EntryFormat.decode(&longer), Err(Corrupt));
    let mut other = bytes;
    for version in [0, 2] {
        other[0] = version;
        assert_eq!(EntryFormat.decode(&other), Err(Corrupt), "there is one version");
    }
}

#[test]
fn a_damaged_snapshot_part_is_noticed() {
    for part in parts() {
        let bytes = framed(&part);
        for len in 0..bytes.len() {
            assert_eq!(SnapshotFormat.decode(&bytes[..len]), Err(Corrupt));
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SnapshotFormat.decode(&damaged), Err(Corrupt), "bit {bit} of {part:?}");
        }
    }
}

#[test]
fn words_of_other_versions_keep_their_meaning() {
    let replies = vec![Reply::status("Some day"), Reply::Error(ErrorReply::new("SOMEDAY", "text"))];
    let part = answered_so(replies);
    let found = SnapshotFormat.decode(&framed(&part)).map(|(found, _)| found);
    assert_eq!(found, Ok(part));
}

#[test]
fn deep_replies_are_refused() {
    let nested = |depth| {
        let reply = (0..depth).fold(Reply::Nil, |inner, _| Reply::Array(vec![inner]));
        let part = answered_so(vec![reply]);
        SnapshotFormat.decode(&framed(&part)).map(|(found, _)| assert_eq!(found, part))
    };
    assert_eq!((nested(32), nested(33)), (Ok(()), Err(Corrupt)));
}

#[test]
fn announced_lengths_allocate_nothing() {
    let mut bytes = encoded(&Entry { records: vec![], ..entry() });
    let most = [0xff, 0xff, 0xff, 0xff, 0x0f];
    bytes.pop();
    assert_eq!(EntryFormat.decode(&[&bytes[..], &most].concat()), Err(Corrupt));
    // One record, no flags, 2^32 - 1 operations.
    bytes.extend_from_slice(&[1, 1, 0]);
    bytes.extend_from_slice(&most);
    assert_eq!(EntryFormat.decode(&bytes), Err(Corrupt));
    assert_eq!(SnapshotFormat.decode(&[0xff; 40]), Err(Corrupt));
    assert_eq!(part_len(&[0xff; 8]), None);
    assert_eq!(part_len(&[0; 7]), None);
}

#[test]
fn an_entry_holds_as_many_records_as_its_version_allows() {
    let with = |count: usize| {
        let mut bytes = encoded(&Entry { records: vec![], ..entry() });
        bytes.pop();
        bytes.extend([count as u8 | 0x80, (count >> 7) as u8 | 0x80, (count >> 14) as u8]);
        bytes.resize(bytes.len() + count, 5);
        EntryFormat.decode(&bytes).map(|entry| entry.records.len())
    };
    assert_eq!(with(1 << 17), Ok(1 << 17));
    assert_eq!(with((1 << 17) + 1), Err(Corrupt));
}

#[test]
fn a_value_has_no_bytes_left_over() {
    let part = SnapshotPart::Record(Blob::from("k"), set(&["a"]));
    let SnapshotPart::Record(_, record) = &part else { unreachable!() };
    assert!(matches!(record.value, Value::Set(_)));
    let mut payload = framed(&part)[12..].to_vec();
    payload.extend_from_slice(&[0; 8]);
    assert_eq!(SnapshotFormat.decode(&in_frame(&payload)), Err(Corrupt));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn entries_read_back(
        now_ms: u64, ts: u64, seed: u64,
        batches in prop::collection::vec(
            prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..40)),
                1..4),
            0..10),
        commit in prop::option::of(any::<u64>()),
    ) {
        let add = |(key, member): (Vec<u8>, Vec<u8>)| {
            let words = ArgBuf::of([b"sadd".to_vec(), key, member]);
            record::decode(&words.args()).unwrap()
        };
        let mut records: Vec<LogRecord> = batches
            .into_iter()
            .map(|ops| Apply { ops: ops.into_iter().map(add).collect(), ..Apply::default() })
            .map(LogRecord::Apply)
            .collect();
        records.push(LogRecord::Outcome { txn: txn(ts), commit: commit.map(Timestamp) });
        let entry = Entry { now_ms, ts: Timestamp(ts), seed, records };
        prop_assert_eq!(EntryFormat.decode(&encoded(&entry)), Ok(entry));
    }

    #[test]
    fn damaged_entries_do_no_harm(at: prop::sample::Index, byte: u8) {
        let mut bytes = encoded(&entry());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(entry) = EntryFormat.decode(&bytes) {
            prop_assert_eq!(EntryFormat.decode(&encoded(&entry)).is_ok(), true);
        }
    }
}
