//! Messages between machines: everything written reads back, incomplete frames wait for more bytes
//! or are refused, and all other bytes do no harm.

mod hex;
mod parcels;
mod stream;

use adt::command::condition::Expected;
use adt::command::scan::ScanArgs;
use adt::record::events::{Classes, Event};
use adt::{Blob, Corrupt, ErrorReply, Reply};
use engine::cluster::level::Level;
use engine::coordination::JointId;
use engine::coordination::SpreadStep;
use engine::coordination::service::Command;
use engine::coordination::tree::acl::Rules;
use engine::coordination::{
    Ask, Code, CoordinationAnswer, Happened, OfSession, Read, Reply as Done, SessionNotice,
    TreeSessionId, Watch, WatchedEvent, WatcherType, Write, Zxid,
};
use engine::entry::Apply;
use engine::ids::{MachineId, RequestId, ShardId, Token, TxnId};
use engine::limits::PEER_FRAME_BYTES_MAX;
use engine::message::{
    Answer, Body, Condition, Early, Fence, Following, Guard, KeyEvent, Notice, Published, Refusal,
    Remembered, Request, Response, RunReply,
};
use engine::node::Parcel;
use engine::script::{ScriptInputs, ScriptOf, ScriptRun};
use engine::stats::ShardStats;
use hex::unhex;
use parcels::{answered, asked, message, op, parcels, txn};
use proptest::prelude::*;
use raft::eraftpb::{EntryType, MessageType};
use smallvec::smallvec;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::peer::{Fault, Hello, Instead, PeerFormat, TooLong, decode_hello, encode_hello};

const HEADER: usize = 8;

fn encoded(parcel: &Parcel) -> Vec<u8> {
    let mut bytes = Vec::new();
    PeerFormat::default().encode(parcel, &mut bytes).unwrap();
    bytes
}

fn decoded(bytes: &[u8]) -> Result<Option<(Parcel, usize)>, Corrupt> {
    PeerFormat::default().decode(bytes).map_err(|_| Corrupt)
}

/// Frame around a payload, with the right checksum.
fn framed(payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Checks that a payload, if it can be decoded, is encoded to bytes that read back unchanged.
/// Returns whether it can.
fn check_payload(payload: &[u8]) -> bool {
    let Ok(found) = decoded(&framed(payload)) else {
        return false;
    };
    let (parcel, len) = found.expect("the frame is whole");
    assert_eq!(len, HEADER + payload.len());
    let written = encoded(&parcel);
    let (again, _) = decoded(&written).expect("it was written").expect("the frame is whole");
    assert_eq!(encoded(&again), written);
    true
}

fn hello() -> Hello {
    Hello {
        cluster: "shop".into(),
        rules: String::new(),
        machine: MachineId(2),
        life: 5,
        level: Level::NEWEST,
        address: "10.0.0.2:6379".into(),
        worker_count: 4,
    }
}

fn hello_bytes(hello: &Hello) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_hello(hello, &mut bytes);
    bytes
}

#[test]
fn messages_of_version_1_are_understood() {
    let bytes = unhex(include_str!("fixtures/peer-v1.hex"));
    let (found, mut at) = decode_hello(&bytes).unwrap().unwrap();
    assert_eq!(found, hello());
    assert_eq!(hello_bytes(&hello()), bytes[..at], "the format changed: that takes a new version");
    for parcel in parcels() {
        let (found, len) = decoded(&bytes[at..]).unwrap().unwrap();
        assert_eq!(format!("{found:?}"), format!("{parcel:?}"));
        assert_eq!(encoded(&parcel), bytes[at..at + len], "{parcel:?}");
        at += len;
    }
    assert_eq!(at, bytes.len());
}

#[test]
fn what_scripts_have_published_comes_with_their_replies() {
    let published = |sharded, channel: &str, payload: &str| {
        let (channel, payload) = (Blob::from(channel), Blob::from(payload));
        Published { sharded, channel, payload }
    };
    let two = vec![published(false, "news", "first"), published(true, "of a shard", "")];
    let runs = [(Reply::Int(1), two), (Reply::Nil, Vec::new())];
    let runs = runs.map(|(reply, published)| RunReply { reply, published });
    let parcel = answered(Answer::Ran(runs.into()));
    let bytes = encoded(&parcel);
    let (found, length) = decoded(&bytes).unwrap().unwrap();
    assert_eq!((format!("{found:?}"), length), (format!("{parcel:?}"), bytes.len()));
    assert!(
        (0..bytes.len() - HEADER).all(|cut| decoded(&framed(&bytes[HEADER..][..cut])).is_err())
    );
}

/// Parcels about the coordination service.
fn about_sessions() -> Vec<Parcel> {
    let session = TreeSessionId(7);
    let (path, identities) = (Blob::from("/a"), Vec::new());
    let write = Write::Open { timeout_ms: 6000, password: [7; 16] };
    let read = Read::Data(path.clone());
    let of = [
        OfSession::Ping,
        OfSession::Read { identities: identities.clone(), read, watch: true },
        OfSession::Watch { since: Zxid(3), watches: vec![(path.clone(), Watch::Recursive)] },
        OfSession::Unwatch { path: path.clone(), which: WatcherType::Any },
        OfSession::Watches { path: path.clone(), which: WatcherType::Data },
    ];
    let asks = [
        Ask::Write(Command { identities, ..Command::of(session, write) }),
        Ask::Resume { session, password: [8; 16] },
        Ask::Leave(session),
        Ask::Write(Command {
            after: Zxid(6),
            ..Command::of(session, Write::Spread(SpreadStep::Join(vec![ShardId(1)])))
        }),
    ];
    let asks = asks.into_iter().chain(of.map(|of| Ask::Of(session, of)));
    let event = WatchedEvent { happened: Happened::Deleted, path };
    let notices = [
        SessionNotice::Happened(event.clone(), Zxid(4), Rules::default()),
        SessionNotice::Happened(event, Zxid(4), Rules::restored(vec![])),
        SessionNotice::Moved,
        SessionNotice::Ended,
        SessionNotice::Carried {
            stream: stream::stream(),
            seq: 4,
            answered: Box::new(CoordinationAnswer {
                reply: Err(Code::NoNode),
                zxid: Zxid(5),
                notices: 2,
            }),
        },
    ];
    let notices = notices
        .map(|notice| Answer::Notice(Notice::Session { shard: ShardId(0), session, notice }));
    let elsewhere = Notice::Session { shard: ShardId(2), session, notice: SessionNotice::Ended };
    let (ended, finished, shards) = (Zxid(5), true, vec![ShardId(2)]);
    let ending = Notice::Ending { session, ended, finished, shards };
    let (id, shards) = (JointId { joined: Zxid(5), number: 6 }, vec![ShardId(0), ShardId(2)]);
    let undecided = Notice::Undecided { session, id, shards };
    let notices = notices.into_iter().chain([elsewhere, ending, undecided].map(Answer::Notice));
    let joined = Done::Joined(6_000, vec![ShardId(2)]);
    let replies = [Ok(Done::Session(session)), Ok(joined), Err(Code::SessionMoved)];
    let answers = replies.map(|reply| CoordinationAnswer { reply, zxid: Zxid(5), notices: 2 });
    let answers = answers.map(|answer| Answer::Coordinated(Box::new(answer)));
    let ahead = asked(Body::Pipeline(Arc::new(stream::asking())));
    let asked = asks.map(|ask| asked(Body::Coordinate(Box::new(ask))));
    asked.chain([ahead]).chain(notices.chain(answers).map(answered)).collect()
}

/// Parcels about locks.
fn about_locks() -> Vec<Parcel> {
    let fences = vec![Fence { lock: Blob::from("lock"), token: 7 }];
    let write = Apply { ops: smallvec![op("set a 1")], fences, ..Apply::default() };
    let ops = smallvec![op("lock.acquire lock lease 500 owner ann")];
    let wait = Body::Await { apply: Apply { ops, ..Apply::default() }, timeout_ms: 900 };
    let waiting = Body::Waiting { key: Blob::from("lock") };
    let holders = Body::Holders { key: Blob::from("k") };
    let ops = smallvec![op("lock.pass {a} owner ann shared detect"), op("set {a}1 x")];
    let section = Body::Await { apply: Apply { ops, ..Apply::default() }, timeout_ms: 0 };
    let alone = |words| {
        let ops = smallvec![op(words)];
        Body::Await { apply: Apply { ops, ..Apply::default() }, timeout_ms: 5 }
    };
    let elects = alone("election.campaign lock here lease 500 owner ann");
    let observes = alone("election.observe lock after 7");
    let meets = alone("barrier.wait lock 3 owner ann");
    let deadlock = Reply::Error(ErrorReply::new("DEADLOCK", "ann waits for x behind ann"));
    let answers = [
        Answer::Fenced,
        Answer::Notice(Notice::Wanted { txn: TxnId::default() }),
        Answer::Replies(smallvec![Reply::Int(8)]),
        Answer::Replies(smallvec![deadlock]),
    ];
    let waits = Body::Waits { names: vec![Blob::from("ann"), Blob::from("ben")] };
    let end = Body::EndDeadlock { description: Blob::from("ann waits for x behind ben") };
    let asks = [waiting, holders, waits, Body::EndTurn];
    let waiters = [wait, section, elects, observes, meets];
    let bodies = [Body::Apply(write), end].into_iter().chain(asks).chain(waiters);
    bodies.map(asked).chain(answers.map(answered)).collect()
}

/// Parcels about repeated requests.
fn about_requests() -> Vec<Parcel> {
    let request = RequestId { client: Blob::from("c"), number: 7 };
    let replies = || vec![Reply::Int(1), Reply::Nil];
    let remembered = Remembered { request, replies: replies() };
    let answer = |whole| Answer::TookEffect { ts: adt::Timestamp(9), replies: replies(), whole };
    let refused = Answer::Refused(Refusal::UnderWay);
    let impossible = Answer::GuardFailed(Some(ErrorReply::wrong_type()));
    let answers = [answer(true), answer(false), refused, impossible].map(answered);
    let (key, read) = op("get key");
    let condition = Condition::Replies(Expected { read, reply: Blob::from("value"), equal: false });
    let apply = Apply { guards: vec![Guard { key, condition }], ..Apply::default() };
    let bodies = [Body::Remember(Box::new(remembered)), Body::Apply(apply)].map(asked);
    bodies.into_iter().chain(answers).collect()
}

/// Parcels about scripts that a shard runs.
fn about_scripts() -> Vec<Parcel> {
    let words = |words: &[&str]| words.iter().map(|word| Blob::from(word.as_bytes())).collect();
    let run = |only_reads, database| ScriptRun {
        script: ScriptOf::Text(Blob::from("return 1")),
        inputs: Arc::new(ScriptInputs { keys: words(&["a"]), args: words(&["1", ""]) }),
        only_reads,
        database,
        slots: (0, 8_191),
        also: words(&["b", "c", "d"]),
    };
    let together = vec![run(false, 0), run(true, 3)];
    let bodies = [vec![run(true, 0)], vec![run(false, 15)], together];
    let bodies = bodies.map(|runs| asked(Body::Run(runs)));
    bodies.into_iter().chain([answered(Answer::Refused(Refusal::NotHere))]).collect()
}

/// Parcels about the changes of keys, which gateways follow.
fn about_changes() -> Vec<Parcel> {
    let changed = |number, keys: &[&str]| {
        let keys = keys.iter().map(|&key| Blob::from(key)).collect();
        answered(Answer::Notice(Notice::Changed { shard: ShardId(3), feed: 1 << 60, number, keys }))
    };
    let happened = |events: &[(&str, Classes, &'static str)]| {
        let told = |(key, class, name): &(&str, Classes, &'static str)| KeyEvent {
            key: Blob::from(*key),
            event: Event { class: *class, name: Cow::Borrowed(*name) },
        };
        answered(Answer::Notice(Notice::Happened(events.iter().map(told).collect())))
    };
    let events = [("a", Classes::NEW, "new"), ("a", Classes::OTHER, "auction.bid")];
    let follow = |keys, events| asked(Body::Follow(Following { keys, events }));
    vec![
        follow(true, Classes::NONE),
        follow(false, Classes::EXPIRED.or(Classes::NEW)),
        changed(1, &["a", "key with spaces"]),
        changed(2, &[]),
        happened(&events),
    ]
}

/// Parcels about databases.
fn about_databases() -> Vec<Parcel> {
    let scan = ScanArgs { cursor: 17, pattern: None, count: 100 };
    let bodies = [
        Body::Scan { database: 15, scan, type_name: None },
        Body::Keys { database: 1, pattern: Blob::from("*") },
        Body::Count { database: 3 },
        Body::RandomKey { database: 2 },
        Body::Flush { database: Some(0) },
        Body::Flush { database: Some(15) },
        Body::KeysInSlot { database: 4, slot: 16_383, count: 10 },
    ];
    let databases = vec![(1, 22, 23), (15, 1, 0)];
    let stats =
        Answer::Stats(Box::new(ShardStats { keys: 30, databases, ..ShardStats::default() }));
    bodies.map(asked).into_iter().chain([answered(stats)]).collect()
}

#[test]
fn numbers_of_databases_that_do_not_exist_are_refused() {
    for parcel in about_databases() {
        let bytes = encoded(&parcel);
        let payload = &bytes[HEADER..];
        for number in [16, 255] {
            for at in 0..payload.len() {
                let mut changed = payload.to_vec();
                changed[at] = number;
                check_payload(&changed);
            }
        }
    }
    let of = |database| decoded(&encoded(&asked(Body::Count { database }))).is_ok();
    assert_eq!([0, 1, 15, 16, 255].map(of), [true, true, true, false, false]);
    let of = |number| decoded(&encoded(&asked(Body::Flush { database: Some(number) }))).is_ok();
    assert_eq!([0, 1, 15, 16, 255].map(of), [true, true, true, false, false]);
}

#[test]
fn a_waiting_request_is_one_operation_or_a_section() {
    for (ops, fits) in [
        (smallvec![], false),
        (smallvec![op("lock.acquire lock owner ann"), op("set a 1")], false),
        (smallvec![op("set a 1"), op("lock.pass lock")], false),
        (smallvec![op("lock.pass lock"), op("set a 1"), op("get a")], true),
    ] {
        let wait = Body::Await { apply: Apply { ops, ..Apply::default() }, timeout_ms: 0 };
        assert_eq!(decoded(&encoded(&asked(wait))).is_ok(), fits);
    }
}

#[test]
fn parcels_about_sessions_read_back() {
    for parcel in about_sessions()
        .into_iter()
        .chain(about_locks())
        .chain(about_requests())
        .chain(about_databases())
        .chain(about_scripts())
        .chain(about_changes())
    {
        let bytes = encoded(&parcel);
        let (found, len) = decoded(&bytes).unwrap().unwrap();
        assert_eq!(format!("{found:?}"), format!("{parcel:?}"));
        assert_eq!(len, bytes.len());
        // No prefix of it, in a frame of its own, is mistaken for another parcel.
        for end in 0..bytes.len() - HEADER {
            assert!(decoded(&framed(&bytes[HEADER..HEADER + end])).is_err(), "{parcel:?}");
        }
    }
}

#[test]
fn every_parcel_reads_back() {
    let mut format = PeerFormat::default();
    let mut stream = Vec::new();
    for parcel in parcels() {
        format.encode(&parcel, &mut stream).unwrap();
    }
    let mut rest = &stream[..];
    for parcel in parcels() {
        let (found, len) = format.decode(rest).unwrap().unwrap();
        assert_eq!(format!("{found:?}"), format!("{parcel:?}"));
        assert_eq!(encoded(&found), rest[..len]);
        rest = &rest[len..];
    }
    assert!(matches!(format.decode(rest), Ok(None)));
}

#[test]
fn no_kind_is_forgotten() {
    // Offsets of the kinds of parcels, requests, answers, notices and tasks for gateways.
    let kinds = |parcel: u8, at: usize, outer: Option<u8>| -> BTreeSet<u8> {
        let all = parcels();
        let bytes = all.iter().map(encoded).filter(|bytes| bytes[HEADER + 1] == parcel);
        let inner = bytes.filter(|bytes| outer.is_none_or(|outer| bytes[HEADER + at - 1] == outer));
        inner.map(|bytes| bytes[HEADER + at]).collect()
    };
    let all: BTreeSet<u8> = parcels().iter().map(|parcel| encoded(parcel)[HEADER + 1]).collect();
    let between_gateways = 3;
    assert_eq!(all, (1..=18).filter(|kind| *kind != between_gateways).collect());
    assert_eq!(kinds(1, 29, Some(0)), (1..=25).collect());
    assert_eq!(kinds(2, 18, None), (1..=19).collect());
    assert_eq!(kinds(15, 2, None), (1..=5).collect());
    assert_eq!(kinds(2, 19, Some(17)), (1..=5).collect());
    assert_eq!(kinds(2, 19, Some(10)), (1..=5).collect());
    assert_eq!(kinds(2, 19, Some(13)), (1..=3).collect());
    assert_eq!(kinds(17, 2, None), (1..=6).collect());
}

#[test]
fn a_part_of_a_frame_is_waited_for() {
    for parcel in parcels() {
        let bytes = encoded(&parcel);
        for len in 0..bytes.len() {
            assert!(matches!(decoded(&bytes[..len]), Ok(None)), "{len} of {parcel:?}");
        }
        // A payload that ends too early or too late is invalid, whatever its checksum is.
        for len in 0..bytes.len() - HEADER {
            assert!(decoded(&framed(&bytes[HEADER..HEADER + len])).is_err(), "{len} of {parcel:?}");
        }
        assert!(decoded(&framed(&[&bytes[HEADER..], &[0]].concat())).is_err());
        let mut newer = bytes[HEADER..].to_vec();
        newer[0] = 2;
        assert!(decoded(&framed(&newer)).is_err());
    }
}

#[test]
fn a_damaged_frame_is_noticed() {
    for parcel in parcels() {
        let bytes = encoded(&parcel);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            match decoded(&damaged) {
                Err(Corrupt) => {}
                // The declared length exceeds the bytes: the next frame will not fit the checksum.
                Ok(None) if bit < 32 => {
                    damaged.resize(HEADER + PEER_FRAME_BYTES_MAX.min(1 << 17), 0);
                    assert!(!matches!(decoded(&damaged), Ok(Some(_))), "bit {bit} of {parcel:?}");
                }
                other => panic!("bit {bit} of {parcel:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn lengths_are_refused_before_anything_is_waited_for() {
    let with = |len: usize| decoded(&(len as u32).to_le_bytes()).map(|found| found.is_none());
    assert_eq!(with(PEER_FRAME_BYTES_MAX), Ok(true));
    for len in [0, 1, PEER_FRAME_BYTES_MAX + 1, u32::MAX as usize] {
        assert_eq!(with(len), Err(Corrupt), "{len}");
    }
}

#[test]
fn a_client_on_the_wrong_port_is_recognized_at_once() {
    for line in ["PING\r\n", "*1\r\n$4\r\nPING\r\n", "*3\r\n", "GET / HTTP/1.1\r\n", "get a"] {
        assert_eq!(decode_hello(&line.as_bytes()[..4]), Err(Corrupt), "{line}");
        assert!(decoded(&line.as_bytes()[..4]).is_err(), "{line}");
    }
    // The first bytes of TLS: only a first frame must be short.
    assert_eq!(decode_hello(&[0x16, 0x03, 0x01, 0x02]), Err(Corrupt));
}

#[test]
fn a_hello_reads_back() {
    let rules = "0123456789abcdef".to_owned();
    let longest = Hello { cluster: "c".repeat(64), rules, address: "a".repeat(512), ..hello() };
    for hello in [hello(), longest, Hello { level: Level(9), ..hello() }] {
        let mut bytes = hello_bytes(&hello);
        let len = bytes.len();
        for short in 0..len {
            assert_eq!(decode_hello(&bytes[..short]), Ok(None));
        }
        for bit in 32..len * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_hello(&damaged), Err(Corrupt));
        }
        bytes.extend_from_slice(b"more");
        assert_eq!(decode_hello(&bytes), Ok(Some((hello, len))));
        assert!(decoded(&bytes).is_err(), "it comes once");
    }
    let parcel = encoded(&Parcel::Leads { shard: ShardId(1), term: 2 });
    assert_eq!(decode_hello(&parcel), Err(Corrupt));
    // The name, with the digest of placement rules, is one byte too long.
    let longest = Hello { cluster: "c".repeat(64), rules: "f".repeat(16), ..hello() };
    let mut payload = hello_bytes(&longest)[HEADER..].to_vec();
    payload[4] += 1;
    payload.insert(8, b'c');
    assert_eq!(decode_hello(&framed(&payload)), Err(Corrupt));
}

#[test]
fn the_longest_frame_reads_back_and_a_longer_one_is_not_written() {
    let reply = |len: usize| {
        let reply = Reply::bulk(vec![7; len]);
        answered(Answer::Reply(reply))
    };
    let around = encoded(&reply(1 << 16)).len() - HEADER - (1 << 16);
    let longest = PEER_FRAME_BYTES_MAX - around;
    let bytes = encoded(&reply(longest));
    assert_eq!(bytes.len(), HEADER + PEER_FRAME_BYTES_MAX);
    let (found, len) = decoded(&bytes).unwrap().unwrap();
    assert_eq!((encoded(&found), len), (bytes.clone(), bytes.len()));
    let mut out = b"before".to_vec();
    let result = PeerFormat::default().encode(&reply(longest + 1), &mut out);
    assert_eq!((result, &out[..]), (Err(TooLong), &b"before"[..]));
}

/// Fault that decoding a payload reports.
fn fault(payload: &[u8]) -> Fault {
    PeerFormat::default().decode(&framed(payload)).expect_err("it cannot be read")
}

#[test]
fn a_request_that_cannot_be_read_fails_and_the_next_one_is_read() {
    let body = Body::Read { key: Blob::from("k"), op: op("get k").1, fenced: false };
    let good = encoded(&asked(body));
    let mut payload = good[HEADER..].to_vec();
    // The command `get` is changed into an unknown one.
    let at = payload.windows(3).position(|word| word == b"get").unwrap();
    payload[at] = b'j';
    let bytes = [framed(&payload), good.clone()].concat();
    let mut format = PeerFormat::default();
    let Err(Fault::Unread { len, instead: Instead::Back(response) }) = format.decode(&bytes) else {
        panic!("it is answered")
    };
    assert!(matches!(response.answer, Answer::Refused(Refusal::Unread)), "{response:?}");
    let Parcel::Request { request, .. } = asked(Body::Stats) else { panic!("a request") };
    assert_eq!((response.gateway, response.token), (request.gateway, request.token));
    assert_eq!(bytes[len..], good);
    let whole = format.decode(&bytes[len..]).unwrap();
    assert!(matches!(whole, Some((Parcel::Request { .. }, _))), "{whole:?}");
}

#[test]
fn an_answer_that_cannot_be_read_leaves_its_request_without_a_result() {
    let mut payload = encoded(&answered(Answer::Reply(Reply::Nil)))[HEADER..].to_vec();
    *payload.last_mut().unwrap() = 0xff;
    let Fault::Unread { instead: Instead::Here(response), .. } = fault(&payload) else {
        panic!("it stands for the answer")
    };
    let Response { token, answer, .. } = *response;
    assert!(token == Token(77) && matches!(answer, Answer::Unread), "{answer:?}");
}

#[test]
fn an_undecodable_parcel_without_an_answer_ends_the_connection() {
    let request = Parcel::Request {
        shard: ShardId(7),
        term: 4,
        request: Request {
            gateway: txn(1).age.gateway,
            token: Token::default(),
            after: None,
            body: Body::Release { txn: txn(1), after: adt::Timestamp(1) },
        },
    };
    let ready = answered(Answer::Notice(Notice::Ready { key: Blob::from("k") }));
    let raft = Parcel::Raft { shard: ShardId(7), message: Box::new(message()) };
    for parcel in [request, ready, raft] {
        let mut payload = encoded(&parcel)[HEADER..].to_vec();
        payload.pop();
        assert!(matches!(fault(&payload), Fault::Corrupt), "{parcel:?}");
    }
}

#[test]
fn announced_lengths_allocate_nothing() {
    for parcel in parcels() {
        let payload = encoded(&parcel)[HEADER..].to_vec();
        for at in 2..payload.len().saturating_sub(3) {
            let mut damaged = payload.clone();
            damaged[at..at + 4].fill(0xff);
            check_payload(&damaged);
        }
    }
}

#[test]
fn internal_messages_of_the_library_are_refused_from_peers() {
    let parcel = |message| Parcel::Raft { shard: ShardId(3), message: Box::new(message) };
    // Version, kind and shard precede the type.
    let mut payload = encoded(&parcel(message()))[HEADER..].to_vec();
    for number in 0..40u32 {
        payload[4..8].copy_from_slice(&number.to_le_bytes());
        let local = matches!(number, 0 | 1 | 10 | 11 | 12);
        // A change of members is among the message's entries, and is never proposed.
        let proposal = number == MessageType::MsgPropose as u32;
        assert_eq!(check_payload(&payload), number <= 18 && !local && !proposal, "{number}");
    }
    let mut proposal = message();
    proposal.msg_type = MessageType::MsgPropose;
    for entry in proposal.entries.iter_mut() {
        entry.entry_type = EntryType::EntryNormal;
    }
    assert!(decoded(&encoded(&parcel(proposal))).is_ok());
}

#[test]
fn a_transactions_own_writes_are_on_its_key() {
    let lock = |own: &str| {
        let (key, op) = op("scard k");
        let own = vec![parcels::op(own).1];
        encoded(&asked(engine::message::Body::Lock {
            txn: txn(9),
            key,
            op,
            own,
            early: Early::Observed,
        }))
    };
    let mut payload = lock("sadd k a")[HEADER..].to_vec();
    assert!(check_payload(&payload));
    // The key precedes the length and the byte of the last word.
    let key = payload.len() - 6;
    assert_eq!(payload[key], b'k');
    payload[key] = b'l';
    assert!(!check_payload(&payload));
}

#[test]
fn deep_replies_are_refused() {
    let nested = |depth| {
        let nil = adt::Reply::Nil;
        let reply = (0..depth).fold(nil, |inner, _| adt::Reply::Array(vec![inner]));
        decoded(&encoded(&answered(Answer::Reply(reply)))).is_ok()
    };
    assert_eq!((nested(32), nested(33)), (true, false));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_do_no_harm(
        kind in 0u8..10,
        bytes in prop::collection::vec(prop_oneof![0u8..24, any::<u8>()], 0..300),
    ) {
        check_payload(&[&[1, kind][..], &bytes].concat());
        let _ = decoded(&bytes);
        let _ = decode_hello(&bytes);
        let _ = decode_hello(&framed(&[&[1, 0][..], &bytes].concat()));
    }

    #[test]
    fn damaged_parcels_do_no_harm(
        which: prop::sample::Index,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let parcels = parcels();
        let mut payload = encoded(which.get(&parcels))[HEADER..].to_vec();
        for (at, byte) in damage {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        check_payload(&payload);
    }
}
