//! ZooKeeper's protocol: each side reads everything that the other side writes, and refuses
//! truncated or invalid bytes.

mod asked;
mod framed;

use engine::coordination::{
    Change, Code, Lasts, Read, Reply, TreeSessionId, WatcherType, Write, Zxid,
};
use framed::{answered, asked, unframed};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use wire::jute::{
    Ask, BadRequest, ConnectRequest, ConnectResponse, Inexpressible, Kind, Malformed,
    NOTIFICATION_XID, Op, ReplyHeader, Request, SetWatches, code, notification, read_event,
    read_identities, read_reply, who_am_i,
};

fn watches() -> impl Strategy<Value = SetWatches> {
    let paths = || vec(asked::blob(), 0..3);
    (any::<i64>(), [paths(), paths(), paths(), paths(), paths()]).prop_map(|(since, lists)| {
        let [data, exist, child, persistent, recursive] = lists;
        SetWatches { since: Zxid(since), data, exist, child, persistent, recursive }
    })
}

fn ask() -> impl Strategy<Value = Ask> {
    use WatcherType::{Any, Children, Data, Persistent, Recursive};
    let which = || prop::sample::select(vec![Children, Data, Any, Persistent, Recursive]);
    prop_oneof![
        8 => asked::write().prop_map(Ask::Write),
        8 => (asked::read(), any::<bool>()).prop_map(|(read, watch)| Ask::Read { read, watch }),
        1 => Just(Ask::Ping),
        1 => Just(Ask::WhoAmI),
        1 => (asked::blob(), asked::blob()).prop_map(|(scheme, auth)| Ask::Auth { scheme, auth }),
        2 => watches().prop_map(Ask::SetWatches),
        1 => (asked::blob(), any::<bool>())
            .prop_map(|(path, recursive)| Ask::AddWatch { path, recursive }),
        1 => (asked::blob(), which()).prop_map(|(path, which)| Ask::RemoveWatches { path, which }),
        1 => (asked::blob(), which()).prop_map(|(path, which)| Ask::CheckWatches { path, which }),
        1 => (108..i32::MAX).prop_map(Ask::Unimplemented),
    ]
}

/// Whether the protocol can express a creation: some kinds of nodes require asking for the stat.
fn has_its_stat(change: &Change) -> bool {
    let Change::Create(create) = change else { return true };
    create.stat || matches!(create.mode.lasts, Lasts::Always | Lasts::Session)
}

/// Whether the protocol can express a request.
fn is_expressible(what: &Ask) -> bool {
    match what {
        Ask::Write(Write::Open { .. } | Write::Reap) => false,
        Ask::Write(Write::Change(change)) => {
            !matches!(change, Change::Check { .. }) && has_its_stat(change)
        }
        Ask::Write(Write::Multi(changes)) => changes
            .iter()
            .all(|change| !matches!(change, Change::SetAcl { .. }) && has_its_stat(change)),
        Ask::Read { read: Read::Multi(reads), .. } => reads
            .iter()
            .all(|read| matches!(read, Read::Data(_) | Read::Children { stat: false, .. })),
        _ => true,
    }
}

/// The request as it reads back: without a watch where the operation supports none.
fn as_read(mut what: Ask) -> Ask {
    if let Ask::Read { read, watch } = &mut what {
        *watch &= matches!(read, Read::Exists(_) | Read::Data(_) | Read::Children { .. });
    }
    what
}

/// The reply as it reads back: without a stat that the client did not ask for.
fn as_answered(op: Op, reply: &Reply) -> Reply {
    match (op, reply.clone()) {
        (Op::Create, Reply::Created { path, .. }) => Reply::Created { path, stat: None },
        (Op::GetChildren, Reply::Children(names, _)) => Reply::Children(names, None),
        // Within a `Multi`, only creations of containers and of nodes with a time to live return
        // the stat.
        (Op::Multi, Reply::Multi(results)) => {
            let cut = |reply: Reply| as_answered(Op::Create, &reply);
            Reply::Multi(results.into_iter().map(|result| result.map(cut)).collect())
        }
        (Op::MultiRead, Reply::Multi(results)) => {
            let cut = |reply: Reply| as_answered(Op::GetChildren, &reply);
            Reply::Multi(results.into_iter().map(|result| result.map(cut)).collect())
        }
        (_, reply) => reply,
    }
}

proptest! {
    #[test]
    fn every_request_that_the_protocol_can_express_reads_back(xid in any::<i32>(), what in ask()) {
        let request = Request { xid, what };
        let mut bytes = b"before".to_vec();
        if !is_expressible(&request.what) {
            prop_assert_eq!(request.encode(&mut bytes), Err(Inexpressible));
            prop_assert_eq!(bytes, b"before");
            return Ok(());
        }
        request.encode(&mut bytes).unwrap();
        let frame = unframed(&bytes[6..]);
        let expected = Request { xid, what: as_read(request.what.clone()) };
        prop_assert_eq!(Request::decode(frame), Ok(expected));
        let unread = matches!(request.what, Ask::Unimplemented(_));
        for cut in 0..frame.len() {
            match Request::decode(&frame[..cut]) {
                Err(BadRequest::Header) => prop_assert!(cut < 8),
                Err(BadRequest::Body { xid: of, code, .. }) => {
                    prop_assert_eq!((of, code), (xid, Code::Marshalling));
                }
                Ok(_) => prop_assert!(unread && cut >= 8),
            }
        }
    }

    #[test]
    fn replies_read_back_as_answers_to_their_requests(reply in asked::reply()) {
        for op in Op::ALL {
            let bytes = answered(&Kind::One(op), Ok(&reply));
            let (header, body) = ReplyHeader::decode(unframed(&bytes)).unwrap();
            if header.err != 0 {
                prop_assert_eq!(code(header.err), Some(Code::RuntimeInconsistency));
                continue;
            }
            prop_assert_eq!(read_reply(op, body), Ok(as_answered(op, &reply)));
            for cut in 0..body.len() {
                prop_assert_eq!(read_reply(op, &body[..cut]), Err(Malformed));
            }
        }
    }

    #[test]
    fn refusals_read_back_with_their_reason(result in asked::result()) {
        if let Err(reason) = result {
            let bytes = answered(&Kind::One(Op::Exists), Err(reason));
            let (header, body) = ReplyHeader::decode(unframed(&bytes)).unwrap();
            prop_assert_eq!((code(header.err), body.len()), (Some(reason), 0));
        }
    }

    #[test]
    fn events_and_identities_read_back(
        event in asked::event(),
        who in vec(asked::identity(), 0..4),
        zxid in any::<i64>(),
    ) {
        let mut bytes = Vec::new();
        notification(Zxid(zxid), &event, &mut bytes);
        let (header, body) = ReplyHeader::decode(unframed(&bytes)).unwrap();
        prop_assert_eq!((header.xid, header.zxid), (NOTIFICATION_XID, Zxid(zxid)));
        prop_assert_eq!(read_event(body), Ok(event));
        for cut in 0..body.len() {
            prop_assert_eq!(read_event(&body[..cut]), Err(Malformed));
        }
        bytes.clear();
        who_am_i(1, Zxid(zxid), &who, &mut bytes);
        let (_, body) = ReplyHeader::decode(unframed(&bytes)).unwrap();
        prop_assert_eq!(read_identities(body), Ok(who));
        for cut in 0..body.len() {
            prop_assert_eq!(read_identities(&body[..cut]), Err(Malformed));
        }
        for cut in 0..16 {
            prop_assert_eq!(ReplyHeader::decode(&unframed(&bytes)[..cut]), Err(Malformed));
        }
    }

    #[test]
    fn connecting_reads_back(
        numbers in any::<(i32, i64, i32, i64)>(),
        password in option::of(any::<[u8; 16]>()),
        read_only in option::of(any::<bool>()),
    ) {
        let (protocol_version, zxid, timeout_ms, session) = numbers;
        let (last_zxid_seen, session) = (Zxid(zxid), TreeSessionId(session));
        let request = ConnectRequest {
            protocol_version, last_zxid_seen, timeout_ms, session, password, read_only,
        };
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let frame = unframed(&bytes);
        prop_assert_eq!(ConnectRequest::decode(frame), Ok(request.clone()));
        let needed = frame.len() - usize::from(read_only.is_some());
        for cut in 0..needed {
            prop_assert_eq!(ConnectRequest::decode(&frame[..cut]), Err(Malformed));
        }
        let shorter = ConnectRequest { read_only: None, ..request };
        prop_assert_eq!(ConnectRequest::decode(&frame[..needed]), Ok(shorter));

        let password = password.unwrap_or_default();
        let response = ConnectResponse { protocol_version, timeout_ms, session, password, read_only };
        bytes.clear();
        response.encode(&mut bytes);
        let frame = unframed(&bytes);
        prop_assert_eq!(ConnectResponse::decode(frame), Ok(response));
        for cut in 0..36 {
            prop_assert_eq!(ConnectResponse::decode(&frame[..cut]), Err(Malformed));
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(
        op in prop::sample::select(Op::ALL.as_slice()),
        body in vec(prop_oneof![4 => Just(0), 2 => 0..16u8, 1 => any::<u8>()], 0..120),
    ) {
        let mut frame = [[0, 0, 0, 1], op.number().to_be_bytes()].concat();
        frame.extend_from_slice(&body);
        if let Ok(request) = Request::decode(&frame)
            && !matches!(request.what, Ask::Unimplemented(_))
        {
            prop_assert_eq!(Request::decode(unframed(&asked(&request))), Ok(request));
        }
        if let Ok(reply) = read_reply(op, &body)
            && let bytes = answered(&Kind::One(op), Ok(&reply))
            && let Ok((ReplyHeader { err: 0, .. }, again)) = ReplyHeader::decode(unframed(&bytes))
        {
            prop_assert_eq!(read_reply(op, again), Ok(reply));
        }
        let _ = ConnectRequest::decode(&body);
        let _ = ConnectResponse::decode(&body);
        let _ = read_event(&body);
        let _ = read_identities(&body);
    }
}
