//! ZooKeeper's protocol: messages with the bytes that its definition fixes, in both directions, and
//! invalid lengths, counts and kinds.

mod framed;
mod hex;

use adt::Blob;
use engine::coordination::{
    Acl, Change, Code, Create, CreateMode, Happened, Identity, Lasts, Read, Reply, Stat,
    TreeSessionId, WatchedEvent, WatcherType, Write, Zxid,
};
use framed::{answered, asked, unframed};
use hex::unhex;
use wire::jute::{
    AUTH_XID, Ask, BadRequest, ConnectRequest, ConnectResponse, FRAME_BYTES_MAX, FourLetterWord,
    FrameError, Kind, Malformed, NOTIFICATION_XID, Op, PING_XID, ReplyHeader, Request,
    SET_WATCHES_XID, SetWatches, code, next_frame, notification, read_event, read_identities,
    read_reply, refusal, who_am_i,
};

const SESSION: TreeSessionId = TreeSessionId(0x0100_0000_0000_0001);

fn blob(text: &str) -> Blob {
    Blob::new(text.as_bytes())
}

/// Checks the bytes of a request in both directions.
fn is_asked_as(xid: i32, what: Ask, fixture: &str) {
    let (request, bytes) = (Request { xid, what }, unhex(fixture));
    assert_eq!(asked(&request), bytes);
    assert_eq!(Request::decode(unframed(&bytes)), Ok(request));
}

/// Checks the bytes of an answer after its header in both directions.
fn is_answered_as(kind: &Kind, reply: &Reply, fixture: &str) {
    let bytes = answered(kind, Ok(reply));
    let (header, body) = ReplyHeader::decode(unframed(&bytes)).unwrap();
    assert_eq!(header, ReplyHeader { xid: 2, zxid: Zxid(5), err: 0 });
    assert_eq!(body, unhex(fixture));
    assert_eq!(read_reply(kind.op().unwrap(), body).as_ref(), Ok(reply));
}

fn create(flags: CreateMode, stat: bool) -> Change {
    let who = Identity { scheme: blob("world"), id: blob("anyone") };
    let acl = vec![Acl { perms: Acl::ALL, who }];
    Change::Create(Create { path: blob("/a"), data: Some(blob("x")), acl, mode: flags, stat })
}

fn stat() -> Stat {
    Stat {
        czxid: Zxid(1),
        mzxid: Zxid(2),
        ctime_ms: 3,
        mtime_ms: 4,
        version: 5,
        cversion: 6,
        aversion: 7,
        ephemeral_owner: 8,
        data_length: 9,
        num_children: 10,
        pzxid: Zxid(11),
    }
}

const STAT: &str = "0000000000000001 0000000000000002 0000000000000003 0000000000000004
    00000005 00000006 00000007 0000000000000008 00000009 0000000a 000000000000000b";

#[test]
fn a_session_begins_with_these_bytes() {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout_ms: 10_000,
        session: TreeSessionId(0),
        password: Some([0; 16]),
        read_only: Some(false),
    };
    let fixture = "0000002d 00000000 0000000000000000 00002710 0000000000000000
        00000010 00000000000000000000000000000000 00";
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    assert_eq!(bytes, unhex(fixture));
    assert_eq!(ConnectRequest::decode(unframed(&bytes)), Ok(request));

    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: 10_000,
        session: SESSION,
        password: [0xab; 16],
        read_only: Some(false),
    };
    assert!(!response.is_expired());
    let fixture = "00000025 00000000 00002710 0100000000000001
        00000010 abababababababababababababababab 00";
    let mut bytes = Vec::new();
    response.encode(&mut bytes);
    assert_eq!(bytes, unhex(fixture));
    assert_eq!(ConnectResponse::decode(unframed(&bytes)), Ok(response));
}

#[test]
fn responses_to_old_clients_omit_the_read_only_flag() {
    let mut bytes = Vec::new();
    ConnectResponse::expired(None).encode(&mut bytes);
    let fixture = "00000024 00000000 00000000 0000000000000000
        00000010 00000000000000000000000000000000";
    assert_eq!(bytes, unhex(fixture));
    let response = ConnectResponse::decode(unframed(&bytes)).unwrap();
    assert!(response.is_expired());
    assert_eq!(response.read_only, None);
    // Requests of old clients are as short, and a password of another length matches no session.
    let request = unhex("00000000 0000000000000007 00001388 0100000000000001 00000001 00");
    let request = ConnectRequest::decode(&request).unwrap();
    assert_eq!((request.session, request.last_zxid_seen), (SESSION, Zxid(7)));
    assert_eq!((request.password, request.read_only), (None, None));
}

#[test]
fn a_node_is_created_with_these_bytes() {
    let body = "00000002 2f61 00000001 78
        00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65";
    for (lasts, sequential, flags) in [
        (Lasts::Always, false, 0),
        (Lasts::Session, false, 1),
        (Lasts::Always, true, 2),
        (Lasts::Session, true, 3),
    ] {
        let mode = CreateMode { lasts, sequential };
        let change = |stat| Ask::Write(Write::Change(create(mode, stat)));
        is_asked_as(1, change(false), &format!("00000032 00000001 00000001 {body} 0000000{flags}"));
        is_asked_as(1, change(true), &format!("00000032 00000001 0000000f {body} 0000000{flags}"));
    }
    let created = |stat| Reply::Created { path: blob("/a"), stat };
    is_answered_as(&Kind::One(Op::Create), &created(None), "00000002 2f61");
    let fixture = format!("00000002 2f61 {STAT}");
    is_answered_as(&Kind::One(Op::Create2), &created(Some(stat())), &fixture);
}

#[test]
fn containers_and_nodes_with_a_time_to_live_are_created_with_these_bytes() {
    let body = "00000002 2f61 00000001 78
        00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65";
    let change = |lasts, sequential| {
        Ask::Write(Write::Change(create(CreateMode { lasts, sequential }, true)))
    };
    let container = format!("00000032 00000001 00000013 {body} 00000004");
    is_asked_as(1, change(Lasts::Children, false), &container);
    for (sequential, flags) in [(false, 5), (true, 6)] {
        let fixture = format!("0000003a 00000001 00000015 {body} 0000000{flags} 0000000000000102");
        is_asked_as(1, change(Lasts::Ttl(258), sequential), &fixture);
    }
    let created = Reply::Created { path: blob("/a"), stat: Some(stat()) };
    let fixture = format!("00000002 2f61 {STAT}");
    is_answered_as(&Kind::One(Op::CreateContainer), &created, &fixture);
    is_answered_as(&Kind::One(Op::CreateTtl), &created, &fixture);
}

#[test]
fn flags_are_read_by_the_rules_of_their_operation() {
    let with = |opcode: u8, flags: i32| {
        let what = Ask::Write(Write::Change(create(CreateMode::default(), false)));
        let mut bytes = asked(&Request { xid: 9, what });
        let len = bytes.len();
        bytes[11] = opcode;
        bytes[len - 4..].copy_from_slice(&flags.to_be_bytes());
        bytes.extend((1000i64).to_be_bytes());
        match Request::decode(&bytes[4..]) {
            Ok(Request { what: Ask::Write(Write::Change(Change::Create(create))), .. }) => {
                Ok(create.mode.lasts)
            }
            Ok(other) => panic!("{other:?}"),
            Err(refused) => Err(refused),
        }
    };
    // The flag alone makes no container; the operation does.
    assert_eq!(with(1, 4), Ok(Lasts::Always));
    assert_eq!(with(19, 0), Ok(Lasts::Children));
    assert_eq!(with(21, 5), Ok(Lasts::Ttl(1000)));
    for (opcode, flags) in [(1, 7), (1, -1), (1, 5), (15, 6), (19, 5), (21, 0), (1, i32::MAX)] {
        let (xid, code) = (9, Code::BadArguments);
        let refused = BadRequest::Body { xid, opcode: i32::from(opcode), code };
        assert_eq!(with(opcode, flags), Err(refused));
    }
}

#[test]
fn reads_are_asked_and_answered_with_these_bytes() {
    let read = |read, watch| Ask::Read { read, watch };
    let exists = read(Read::Exists(blob("/a")), true);
    is_asked_as(2, exists, "0000000f 00000002 00000003 00000002 2f61 01");
    is_answered_as(&Kind::One(Op::Exists), &Reply::Stat(stat()), STAT);
    let data = Reply::Data(None, stat());
    is_answered_as(&Kind::One(Op::GetData), &data, &format!("ffffffff {STAT}"));
    let data = Reply::Data(Some(blob("")), stat());
    is_answered_as(&Kind::One(Op::GetData), &data, &format!("00000000 {STAT}"));
    let children = |stat| Reply::Children(vec![blob("b"), blob("c")], stat);
    let names = "00000002 00000001 62 00000001 63";
    is_answered_as(&Kind::One(Op::GetChildren), &children(None), names);
    let fixture = format!("{names} {STAT}");
    is_answered_as(&Kind::One(Op::GetChildren2), &children(Some(stat())), &fixture);
    let sync = read(Read::Sync(blob("/")), false);
    is_asked_as(2, sync, "0000000d 00000002 00000009 00000001 2f");
    is_answered_as(&Kind::One(Op::Sync), &Reply::Path(blob("/")), "00000001 2f");
    is_answered_as(&Kind::One(Op::GetAllChildrenNumber), &Reply::Number(7), "00000007");
}

#[test]
fn several_changes_are_asked_and_answered_with_these_bytes() {
    let (path, version) = (blob("/a"), -1);
    let delete = Change::Delete { path, version };
    let check = Change::Check { path: blob("/b"), version: 2 };
    let multi = Ask::Write(Write::Multi(vec![delete, check]));
    let kind = multi.kind();
    assert_eq!(kind, Kind::Multi(vec![Op::Delete, Op::Check]));
    let fixture = "00000037 00000003 0000000e
        00000002 00 ffffffff 00000002 2f61 ffffffff
        0000000d 00 ffffffff 00000002 2f62 00000002
        ffffffff 01 ffffffff";
    is_asked_as(3, multi, fixture);
    let done = Reply::Multi(vec![Ok(Reply::Done), Ok(Reply::Done)]);
    let fixture = "00000002 00 00000000 0000000d 00 00000000 ffffffff 01 ffffffff";
    is_answered_as(&kind, &done, fixture);
    let errors = vec![Err(Code::Ok), Err(Code::NoNode), Err(Code::RuntimeInconsistency)];
    let fixture = "ffffffff 00 00000000 00000000
        ffffffff 00 ffffff9b ffffff9b
        ffffffff 00 fffffffe fffffffe
        ffffffff 01 ffffffff";
    is_answered_as(&kind, &Reply::Multi(errors), fixture);
}

#[test]
fn requests_outside_of_the_order_have_these_bytes() {
    is_asked_as(PING_XID, Ask::Ping, "00000008 fffffffe 0000000b");
    is_answered_as(&Kind::One(Op::Ping), &Reply::Done, "");
    let auth = Ask::Auth { scheme: blob("digest"), auth: blob("u:p") };
    let fixture = "0000001d fffffffc 00000064 00000000 00000006 646967657374 00000003 753a70";
    is_asked_as(AUTH_XID, auth, fixture);
    let mut watches = SetWatches { since: Zxid(5), data: vec![blob("/a")], ..Default::default() };
    let fixture = "00000022 fffffff8 00000065 0000000000000005
        00000001 00000002 2f61 00000000 00000000";
    is_asked_as(SET_WATCHES_XID, Ask::SetWatches(watches.clone()), fixture);
    watches.recursive.push(blob("/b"));
    let fixture = "00000030 fffffff8 00000069 0000000000000005
        00000001 00000002 2f61 00000000 00000000 00000000 00000001 00000002 2f62";
    is_asked_as(SET_WATCHES_XID, Ask::SetWatches(watches), fixture);
    let event = WatchedEvent { happened: Happened::Data, path: blob("/a") };
    let mut bytes = Vec::new();
    notification(Zxid(-1), &event, &mut bytes);
    let fixture = "0000001e ffffffff ffffffffffffffff 00000000 00000003 00000003 00000002 2f61";
    assert_eq!(bytes, unhex(fixture));
    let (header, body) = ReplyHeader::decode(unframed(&bytes)).unwrap();
    assert_eq!((header.xid, header.zxid), (NOTIFICATION_XID, Zxid(-1)));
    assert_eq!(read_event(body), Ok(event));
}

#[test]
fn watches_are_added_and_removed_with_these_bytes() {
    let add = |recursive| Ask::AddWatch { path: blob("/a"), recursive };
    is_asked_as(4, add(false), "00000012 00000004 0000006a 00000002 2f61 00000000");
    is_asked_as(4, add(true), "00000012 00000004 0000006a 00000002 2f61 00000001");
    // The Java library reads a number after the header of this answer.
    is_answered_as(&add(true).kind(), &Reply::Done, "00000000");
    let remove = Ask::RemoveWatches { path: blob("/a"), which: WatcherType::Any };
    is_answered_as(&remove.kind(), &Reply::Done, "");
    is_asked_as(4, remove, "00000012 00000004 00000012 00000002 2f61 00000003");
    let check = Ask::CheckWatches { path: blob("/a"), which: WatcherType::Children };
    is_asked_as(4, check, "00000012 00000004 00000011 00000002 2f61 00000001");
    // ZooKeeper 3.9 has introduced these two.
    for (which, number) in [(WatcherType::Persistent, 4), (WatcherType::Recursive, 5)] {
        let remove = Ask::RemoveWatches { path: blob("/a"), which };
        let bytes = format!("00000012 00000004 00000012 00000002 2f61 0000000{number}");
        is_asked_as(4, remove, &bytes);
    }
}

#[test]
fn identities_of_the_client_have_these_bytes() {
    is_asked_as(6, Ask::WhoAmI, "00000008 00000006 0000006b");
    let who = vec![Identity { scheme: blob("ip"), id: blob("::1") }];
    let mut bytes = Vec::new();
    who_am_i(6, Zxid(5), &who, &mut bytes);
    let fixture = "00000021 00000006 0000000000000005 00000000
        00000001 00000002 6970 00000003 3a3a31";
    assert_eq!(bytes, unhex(fixture));
    let (_, body) = ReplyHeader::decode(unframed(&bytes)).unwrap();
    assert_eq!(read_identities(body), Ok(who));
}

#[test]
fn a_refusal_is_a_header_alone() {
    let bytes = answered(&Kind::One(Op::GetData), Err(Code::NoNode));
    assert_eq!(bytes, unhex("00000010 00000002 0000000000000005 ffffff9b"));
    let (header, body) = ReplyHeader::decode(unframed(&bytes)).unwrap();
    assert_eq!((code(header.err), body), (Some(Code::NoNode), [].as_slice()));
    let mut direct = Vec::new();
    refusal(2, Zxid(5), Code::NoNode, &mut direct);
    assert_eq!(direct, bytes);
}

#[test]
fn a_reply_that_does_not_fit_the_request_is_written_as_an_error() {
    let fits_not = [
        (Kind::Nothing, Reply::Done),
        (Kind::One(Op::GetData), Reply::Stat(stat())),
        (Kind::One(Op::Create2), Reply::Created { path: blob("/a"), stat: None }),
        (Kind::Multi(vec![Op::Delete]), Reply::Multi(vec![Ok(Reply::Number(1))])),
        (Kind::One(Op::MultiRead), Reply::Multi(vec![Ok(Reply::Done)])),
        (Kind::One(Op::Ping), Reply::Session(SESSION)),
    ];
    for (kind, reply) in fits_not {
        let refused = answered(&kind, Err(Code::RuntimeInconsistency));
        assert_eq!(answered(&kind, Ok(&reply)), refused);
    }
}

#[test]
fn frames_are_found_as_they_arrive() {
    let bytes = [unhex("00000003 616263"), unhex("00000000"), unhex("00000001")].concat();
    for end in 0..7 {
        assert_eq!(next_frame(&bytes[..end], 3), Ok(None));
    }
    assert_eq!(next_frame(&bytes, 3), Ok(Some((b"abc".as_slice(), 7))));
    assert_eq!(next_frame(&bytes[7..], 3), Ok(Some((b"".as_slice(), 4))));
    assert_eq!(next_frame(&bytes[11..], 3), Ok(None));
}

#[test]
fn a_frame_at_the_limit_is_taken_and_one_above_is_refused() {
    let header = |len: i32| len.to_be_bytes();
    assert_eq!(next_frame(&header(0xf_ffff), FRAME_BYTES_MAX), Ok(None));
    let (len, max) = (0x10_0000, FRAME_BYTES_MAX);
    assert_eq!(next_frame(&header(len as i32), max), Err(FrameError::TooLong { len, max }));
    for len in [-1, i32::MIN] {
        assert_eq!(next_frame(&header(len), max), Err(FrameError::Negative(len)));
    }
}

#[test]
fn four_letter_words_are_distinguished_from_frames() {
    for word in FourLetterWord::ALL {
        let letters = word.letters();
        assert_eq!(FourLetterWord::of(&letters), Some(word));
        assert_eq!(FourLetterWord::of(&[letters.as_slice(), b"\r\n"].concat()), Some(word));
        assert_eq!(FourLetterWord::of(&letters[..3]), None);
        assert!(matches!(next_frame(&letters, 1 << 30), Err(FrameError::TooLong { .. })));
    }
    assert_eq!(FourLetterWord::of(b"ruok"), Some(FourLetterWord::Ruok));
    assert_eq!(FourLetterWord::of(b"ruo\0"), None);
    assert_eq!(FourLetterWord::of(&[0, 0, 0, 45, 0]), None);
}

#[test]
fn bytes_after_a_record_are_passed_over_as_zookeeper_does() {
    let bytes = unhex("00000002 00000003 00000002 2f61 01 ffff");
    let what = Ask::Read { read: Read::Exists(blob("/a")), watch: true };
    assert_eq!(Request::decode(&bytes), Ok(Request { xid: 2, what }));
    assert_eq!(read_reply(Op::Delete, b"more"), Ok(Reply::Done));
}

#[test]
fn null_is_an_empty_string_and_an_empty_list_but_not_empty_data() {
    let bytes = unhex("00000002 00000001 ffffffff ffffffff ffffffff 00000000");
    let mode = CreateMode::default();
    let create = Create { path: blob(""), data: None, acl: vec![], mode, stat: false };
    let what = Ask::Write(Write::Change(Change::Create(create)));
    assert_eq!(Request::decode(&bytes), Ok(Request { xid: 2, what }));
}

#[test]
fn a_length_or_count_above_the_available_bytes_is_refused() {
    let marshalling = |opcode| Err(BadRequest::Body { xid: 2, opcode, code: Code::Marshalling });
    for huge in [i32::MAX, 0x0fff_ffff, -2, i32::MIN] {
        let huge = format!("{huge:08x} {}", "00".repeat(64));
        for opcode in [1, 4, 9, 106] {
            let bytes = unhex(&format!("00000002 {opcode:08x} {huge}"));
            assert_eq!(Request::decode(&bytes), marshalling(opcode));
        }
        let acl = unhex(&format!("00000002 00000001 00000000 00000000 {huge}"));
        assert_eq!(Request::decode(&acl), marshalling(1));
        let watches = unhex(&format!("00000002 00000065 0000000000000000 {huge}"));
        assert_eq!(Request::decode(&watches), marshalling(101));
        for op in [Op::GetData, Op::GetAcl, Op::GetChildren, Op::GetEphemerals, Op::Create] {
            assert_eq!(read_reply(op, &unhex(&huge)), Err(Malformed));
        }
        assert_eq!(read_identities(&unhex(&huge)), Err(Malformed));
    }
}

#[test]
fn kinds_that_are_not_known_are_refused() {
    let refused = |fixture: &str, opcode| {
        let code = Code::Marshalling;
        let bytes = unhex(&format!("00000002 {opcode:08x} {fixture}"));
        assert_eq!(Request::decode(&bytes), Err(BadRequest::Body { xid: 2, opcode, code }));
    };
    refused("00000002 2f61 00000002", 106);
    refused("00000002 2f61 00000000", 17);
    refused("00000002 2f61 00000006", 18);
    // A `Multi` cannot set access control lists, and cannot combine changes with reads.
    refused("00000007 00 ffffffff 00000002 2f61 00000000 00000000 ffffffff 01 ffffffff", 14);
    refused("00000004 00 ffffffff 00000002 2f61 00 ffffffff 01 ffffffff", 14);
    refused("00000002 00 ffffffff 00000002 2f61 00000000 ffffffff 01 ffffffff", 22);
    for opcode in [0, 10, 13, 16, 20, 102, 108, -1, -10, i32::MAX] {
        let bytes = unhex(&format!("00000002 {opcode:08x}"));
        let what = Ask::Unimplemented(opcode);
        assert_eq!(Request::decode(&bytes), Ok(Request { xid: 2, what }));
    }
}

#[test]
fn operations_are_known_by_their_numbers() {
    for op in Op::ALL {
        assert_eq!(Op::of(op.number()), Some(op));
    }
    assert_eq!(Op::of(0), None);
}
