//! Replies: exact bytes in both versions, round trips, arrival in pieces, limits.

use adt::{Blob, ErrorReply, Record, Reply};
use proptest::prelude::*;
use wire::resp::{
    ClientReply, Pieces, Protocol, ReplyDecoder, ReplyError, ReplyLimits, encode, size,
};

fn bytes(reply: &Reply, protocol: Protocol) -> Vec<u8> {
    let mut out = Vec::new();
    encode(reply, protocol, &mut out);
    out
}

/// Reads replies that arrive in pieces which end at `cuts`.
fn feed(
    bytes: &[u8],
    cuts: impl IntoIterator<Item = usize>,
    limits: &ReplyLimits,
) -> Result<(Vec<ClientReply>, usize), ReplyError> {
    let mut decoder = ReplyDecoder::new();
    let mut replies = Vec::new();
    let mut at = 0;
    for cut in cuts.into_iter().chain([bytes.len()]) {
        let cut = cut.min(bytes.len()).max(at);
        while let Some((reply, len)) = decoder.next(&bytes[at..cut], limits)? {
            replies.push(reply);
            at += len;
        }
    }
    Ok((replies, at))
}

fn one(bytes: &[u8]) -> Result<ClientReply, ReplyError> {
    let (mut replies, at) = feed(bytes, [], &ReplyLimits::default())?;
    assert_eq!((replies.len(), at), (1, bytes.len()), "{}", bytes.escape_ascii());
    Ok(replies.remove(0))
}

/// The reply as a client must see it.
fn seen(reply: &Reply, protocol: Protocol) -> ClientReply {
    let resp3 = protocol == Protocol::Resp3;
    let list = |items: &[Reply]| items.iter().map(|r| seen(r, protocol)).collect::<Vec<_>>();
    let double = |value: f64| {
        if resp3 {
            return ClientReply::Double(value);
        }
        let mut text = Vec::new();
        wire::resp::push_double(value, &mut text);
        ClientReply::Bulk(Blob::from(text))
    };
    match reply {
        Reply::Ok => ClientReply::Ok,
        Reply::Status(text) => ClientReply::Status(Blob::from(&**text)),
        Reply::Nil | Reply::NilArray => ClientReply::Nil,
        Reply::Int(value) => ClientReply::Int(*value),
        Reply::Double(value) => double(*value),
        Reply::Bool(value) if resp3 => ClientReply::Bool(*value),
        Reply::Bool(value) => ClientReply::Int(i64::from(*value)),
        Reply::Bulk(blob) => ClientReply::Bulk(blob.clone()),
        Reply::Text(text) => ClientReply::Bulk(Blob::from(text.as_str())),
        Reply::Set(items) if resp3 => ClientReply::Set(list(items)),
        Reply::Push(items) if resp3 => ClientReply::Push(list(items)),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            ClientReply::Array(list(items))
        }
        Reply::Map(pairs) => {
            let pairs = pairs.iter().map(|(k, v)| (seen(k, protocol), seen(v, protocol)));
            if resp3 {
                ClientReply::Map(pairs.collect())
            } else {
                ClientReply::Array(pairs.flat_map(|(k, v)| [k, v]).collect())
            }
        }
        Reply::Scored(members) => {
            let pairs = members.iter().map(|(m, s)| [ClientReply::Bulk(m.clone()), double(*s)]);
            ClientReply::Array(if resp3 {
                pairs.map(|pair| ClientReply::Array(pair.to_vec())).collect()
            } else {
                pairs.flatten().collect()
            })
        }
        Reply::Pairs(pairs) => {
            let bulk = |word: &Blob| ClientReply::Bulk(word.clone());
            let pairs = pairs.iter().map(|(field, value)| [bulk(field), bulk(value)]);
            ClientReply::Array(if resp3 {
                pairs.map(|pair| ClientReply::Array(pair.to_vec())).collect()
            } else {
                pairs.flatten().collect()
            })
        }
        Reply::Named(pairs) => {
            let bulk = |word: &Blob| ClientReply::Bulk(word.clone());
            let pairs = pairs.iter().map(|(name, value)| (bulk(name), seen(value, protocol)));
            if resp3 {
                ClientReply::Map(pairs.collect())
            } else {
                ClientReply::Array(pairs.map(|(k, v)| ClientReply::Array(vec![k, v])).collect())
            }
        }
        Reply::Error(error) => ClientReply::Error(error.to_string().into()),
        Reply::Record(_) => {
            ClientReply::Error("ERR a record is no reply; report this as a defect".into())
        }
    }
}

#[test]
fn every_reply_has_its_bytes() {
    let members = || vec![(Blob::from("a"), 1.5), (Blob::from("b"), f64::INFINITY)];
    for (reply, resp2, resp3) in [
        (Reply::Ok, "+OK\r\n", "+OK\r\n"),
        (Reply::status("PONG"), "+PONG\r\n", "+PONG\r\n"),
        (Reply::Nil, "$-1\r\n", "_\r\n"),
        (Reply::NilArray, "*-1\r\n", "_\r\n"),
        (Reply::Int(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
        (Reply::Double(0.1), "$3\r\n0.1\r\n", ",0.1\r\n"),
        (Reply::Double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
        (Reply::Double(1.0 / 3.0), "$18\r\n0.3333333333333333\r\n", ",0.3333333333333333\r\n"),
        (Reply::Bool(true), ":1\r\n", "#t\r\n"),
        (Reply::Bool(false), ":0\r\n", "#f\r\n"),
        (Reply::bulk("a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
        (Reply::Text("hello".into()), "$5\r\nhello\r\n", "=9\r\ntxt:hello\r\n"),
        (Reply::Array(vec![]), "*0\r\n", "*0\r\n"),
        (Reply::Set(vec![Reply::Int(1)]), "*1\r\n:1\r\n", "~1\r\n:1\r\n"),
        (Reply::Push(vec![Reply::Int(1)]), "*1\r\n:1\r\n", ">1\r\n:1\r\n"),
        (
            Reply::Map(vec![(Reply::bulk("k"), Reply::Nil)]),
            "*2\r\n$1\r\nk\r\n$-1\r\n",
            "%1\r\n$1\r\nk\r\n_\r\n",
        ),
        (
            Reply::Scored(members()),
            "*4\r\n$1\r\na\r\n$3\r\n1.5\r\n$1\r\nb\r\n$3\r\ninf\r\n",
            "*2\r\n*2\r\n$1\r\na\r\n,1.5\r\n*2\r\n$1\r\nb\r\n,inf\r\n",
        ),
        (
            Reply::Pairs(vec![("f".into(), "v".into()); 2]),
            "*4\r\n$1\r\nf\r\n$1\r\nv\r\n$1\r\nf\r\n$1\r\nv\r\n",
            "*2\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n",
        ),
        (
            Reply::Named(vec![("s".into(), Reply::Array(vec![Reply::Nil]))]),
            "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n$-1\r\n",
            "%1\r\n$1\r\ns\r\n*1\r\n_\r\n",
        ),
        (Reply::err("no"), "-ERR no\r\n", "-ERR no\r\n"),
    ] {
        for (protocol, expected) in [(Protocol::Resp2, resp2), (Protocol::Resp3, resp3)] {
            let found = bytes(&reply, protocol);
            assert_eq!(String::from_utf8_lossy(&found), expected);
            assert_eq!(one(&found), Ok(seen(&reply, protocol)));
        }
    }
}

#[test]
fn nothing_can_forge_a_frame() {
    let record = adt::Value::load(b"set", &mut Nothing).map(Record::new);
    let mut replies = vec![
        Reply::status("OK\r\n+FORGED"),
        Reply::Error(ErrorReply::new("BAD\r\nCODE", "text\r\n+FORGED\r\n".to_owned())),
        Reply::Text("a\r\n+FORGED\r\n".into()),
    ];
    replies.push(Reply::Record(Box::new(record.expect("an empty set"))));
    for reply in &replies {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            assert!(one(&bytes(reply, protocol)).is_ok(), "{reply:?}");
        }
    }
}

/// A saved value without parts.
struct Nothing;

impl adt::ValueSource for Nothing {
    fn bytes(&mut self) -> Result<&[u8], adt::Corrupt> {
        Err(adt::Corrupt)
    }
    fn number(&mut self) -> Result<u64, adt::Corrupt> {
        Ok(0)
    }
    fn remaining(&self) -> usize {
        0
    }
}

#[test]
fn replies_of_other_servers_are_understood() {
    for (bytes, expected) in [
        (&b"+\r\n"[..], ClientReply::Status(Blob::from(""))),
        (
            b"(123456789012345678901234567890\r\n",
            ClientReply::Bulk(Blob::from("123456789012345678901234567890")),
        ),
        (b"!8\r\nERR a\r\nb\r\n", ClientReply::Error("ERR a\r\nb".into())),
        (b"%0\r\n", ClientReply::Map(vec![])),
        (b"|1\r\n+ttl\r\n:3600\r\n:5\r\n", ClientReply::Int(5)),
        (
            b"*2\r\n|1\r\n+a\r\n*1\r\n:1\r\n:5\r\n:6\r\n",
            ClientReply::Array(vec![ClientReply::Int(5), ClientReply::Int(6)]),
        ),
        (b",1e3\r\n", ClientReply::Double(1000.0)),
    ] {
        assert_eq!(one(bytes), Ok(expected), "{}", bytes.escape_ascii());
    }
    assert_eq!(one(b"-WRONGTYPE a b\r\n").unwrap().error_code(), Some("WRONGTYPE"));
}

#[test]
fn malformed_replies_are_refused() {
    for bytes in [
        &b"$x\r\n"[..],
        b"$-2\r\n",
        b"*-2\r\n",
        b"%-1\r\n",
        b"$1\r\nabc",
        b"_x\r\n",
        b"#x\r\n",
        b",x\r\n",
        b"(x\r\n",
        b"(\r\n",
        b":1.5\r\n",
        b":\r\n",
        b"+a\rb",
        b"=2\r\nab\r\n",
        b"|0\r\n",
    ] {
        assert_eq!(one(bytes), Err(ReplyError::Malformed), "{}", bytes.escape_ascii());
    }
    assert_eq!(one(b"hello"), Err(ReplyError::UnknownKind(b'h')));
}

#[test]
fn limits_hold_at_the_limit_and_one_above() {
    let limits = ReplyLimits {
        bulk_max_bytes: 4,
        items_max: 6,
        frame_max_bytes: 64,
        line_max_bytes: 10,
        depth_max: 8,
    };
    let run = |bytes: &[u8]| feed(bytes, [], &limits).map(|(replies, _)| replies.len());
    for (fits, above) in [
        (&b"$4\r\nabcd\r\n"[..], &b"$5\r\nabcde\r\n"[..]),
        (b"*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", b"*7\r\n"),
        (b"%3\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", b"%4\r\n"),
        (b"+1234567890\r\n", b"+12345678901"),
    ] {
        assert_eq!((run(fits), run(above)), (Ok(1), Err(ReplyError::TooLarge)));
    }
    let nested = |depth| [b"*1\r\n".repeat(depth), b":1\r\n".to_vec()].concat();
    assert_eq!((run(&nested(8)), run(&nested(9))), (Ok(1), Err(ReplyError::TooLarge)));
    let six = |last: &str| format!("*6\r\n{}{last}", "$4\r\nabcd\r\n".repeat(5)).into_bytes();
    assert_eq!((six("$4\r\nabcd\r\n").len(), six("+12345678\r\n").len()), (64, 65));
    assert_eq!(run(&six("$4\r\nabcd\r\n")), Ok(1));
    assert_eq!(run(&six("+12345678\r\n")), Err(ReplyError::TooLarge));
    assert_eq!(run(b"*1000000000000\r\n"), Err(ReplyError::TooLarge));
}

fn reply() -> impl Strategy<Value = Reply> {
    let blob = || prop::collection::vec(any::<u8>(), 0..40).prop_map(Blob::from);
    let double = || prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::INFINITE;
    let leaf = prop_oneof![
        Just(Reply::Ok),
        Just(Reply::status("QUEUED")),
        Just(Reply::Nil),
        Just(Reply::NilArray),
        any::<i64>().prop_map(Reply::Int),
        any::<bool>().prop_map(Reply::Bool),
        double().prop_map(Reply::Double),
        blob().prop_map(Reply::Bulk),
        ".{0,20}".prop_map(Reply::Text),
        "[a-z\r\n+$*:]{0,30}".prop_map(Reply::err),
        prop::collection::vec((blob(), double()), 0..4).prop_map(Reply::Scored),
        prop::collection::vec((blob(), blob()), 0..4).prop_map(Reply::Pairs),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        let items = || prop::collection::vec(inner.clone(), 0..6);
        prop_oneof![
            items().prop_map(Reply::Array),
            items().prop_map(Reply::Set),
            items().prop_map(Reply::Push),
            prop::collection::vec((inner.clone(), inner.clone()), 0..4).prop_map(Reply::Map),
            prop::collection::vec((blob(), inner.clone()), 0..4).prop_map(Reply::Named),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replies_round_trip_in_any_pieces(
        replies in prop::collection::vec(reply(), 0..4),
        cuts in prop::collection::btree_set(0usize..2000, 0..20),
        resp3: bool,
    ) {
        let protocol = if resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        let bytes: Vec<u8> = replies.iter().flat_map(|r| bytes(r, protocol)).collect();
        let expected: Vec<_> = replies.iter().map(|r| seen(r, protocol)).collect();
        let limits = ReplyLimits::default();
        prop_assert_eq!(feed(&bytes, 0..bytes.len(), &limits), Ok((expected.clone(), bytes.len())));
        prop_assert_eq!(feed(&bytes, cuts, &limits), Ok((expected, bytes.len())));
    }

    #[test]
    fn replies_are_the_same_when_they_are_written_in_pieces(
        reply in reply(),
        step in 1usize..50,
        resp3: bool,
    ) {
        let protocol = if resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        let whole = bytes(&reply, protocol);
        let size = size(&reply);
        prop_assert!(size.items > 0 && whole.len() <= 4 * size.bytes, "{size:?}");
        prop_assert!(size.bytes <= 2 * whole.len() + 40 * size.items, "{size:?}");
        let mut pieces = Pieces::new(reply, protocol);
        let mut out = Vec::new();
        loop {
            let before = out.len();
            if pieces.write(before + step, &mut out) {
                break;
            }
            prop_assert!(out.len() >= before + step, "it stops only at the given length");
            // No value of these is that long.
            prop_assert!(out.len() < before + step + 120, "it stops soon");
        }
        prop_assert_eq!(out, whole);
    }

    #[test]
    fn any_bytes_in_any_pieces_give_the_same(
        bytes in prop::collection::vec(
            prop::sample::select(&b"*$0123\r\n\r\n\r\n+-_#,(%~>|:tfa"[..]), 0..60),
        cuts in prop::collection::btree_set(0usize..60, 0..20),
    ) {
        let limits = ReplyLimits { items_max: 20, bulk_max_bytes: 30, ..ReplyLimits::default() };
        prop_assert_eq!(feed(&bytes, [], &limits), feed(&bytes, cuts, &limits));
    }
}
