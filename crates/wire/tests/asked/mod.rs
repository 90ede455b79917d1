//! Random requests and replies of the coordination service.

use adt::Blob;
use engine::coordination::{
    Acl, Change, Code, Create, CreateMode, Happened, Identity, Lasts, Read, Reply, Stat,
    TreeSessionId, WatchedEvent, Write, Zxid,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub const CODES: [Code; 18] = [
    Code::Ok,
    Code::RuntimeInconsistency,
    Code::Marshalling,
    Code::Unimplemented,
    Code::BadArguments,
    Code::NoNode,
    Code::NoAuth,
    Code::BadVersion,
    Code::NoChildrenForEphemerals,
    Code::NodeExists,
    Code::NotEmpty,
    Code::SessionExpired,
    Code::InvalidAcl,
    Code::AuthFailed,
    Code::SessionMoved,
    Code::NoWatcher,
    Code::ReconfigDisabled,
    Code::QuotaExceeded,
];

/// Short and long byte strings, empty ones now and then.
pub fn blob() -> impl Strategy<Value = Blob> {
    vec(any::<u8>(), 0..40).prop_map(|bytes| Blob::new(&bytes))
}

pub fn identity() -> impl Strategy<Value = Identity> {
    (blob(), blob()).prop_map(|(scheme, id)| Identity { scheme, id })
}

fn acl() -> impl Strategy<Value = Vec<Acl>> {
    vec((any::<i32>(), identity()).prop_map(|(perms, who)| Acl { perms, who }), 0..3)
}

fn stat() -> impl Strategy<Value = Stat> {
    (any::<[i64; 6]>(), any::<[i32; 5]>()).prop_map(|(long, short)| Stat {
        czxid: Zxid(long[0]),
        mzxid: Zxid(long[1]),
        ctime_ms: long[2],
        mtime_ms: long[3],
        version: short[0],
        cversion: short[1],
        aversion: short[2],
        ephemeral_owner: long[4],
        data_length: short[3],
        num_children: short[4],
        pzxid: Zxid(long[5]),
    })
}

fn lasts() -> impl Strategy<Value = Lasts> {
    prop_oneof![
        Just(Lasts::Always),
        Just(Lasts::Session),
        Just(Lasts::Children),
        any::<i64>().prop_map(Lasts::Ttl),
    ]
}

fn create() -> impl Strategy<Value = Create> {
    (blob(), option::of(blob()), acl(), lasts(), any::<[bool; 2]>()).prop_map(
        |(path, data, acl, lasts, [sequential, stat])| {
            let mode = CreateMode { lasts, sequential };
            Create { path, data, acl, mode, stat }
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        create().prop_map(Change::Create),
        (blob(), any::<i32>()).prop_map(|(path, version)| Change::Delete { path, version }),
        (blob(), option::of(blob()), any::<i32>())
            .prop_map(|(path, data, version)| Change::SetData { path, data, version }),
        (blob(), acl(), any::<i32>()).prop_map(|(path, acl, version)| Change::SetAcl {
            path,
            acl,
            version
        }),
        (blob(), any::<i32>()).prop_map(|(path, version)| Change::Check { path, version }),
    ]
}

pub fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        4 => change().prop_map(Write::Change),
        2 => vec(change(), 0..4).prop_map(Write::Multi),
        1 => (any::<i32>(), any::<[u8; 16]>())
            .prop_map(|(timeout_ms, password)| Write::Open { timeout_ms, password }),
        1 => Just(Write::Close),
        1 => Just(Write::Reap),
    ]
}

fn one_read() -> impl Strategy<Value = Read> {
    prop_oneof![
        blob().prop_map(Read::Exists),
        blob().prop_map(Read::Data),
        blob().prop_map(Read::Acl),
        (blob(), any::<bool>()).prop_map(|(path, stat)| Read::Children { path, stat }),
        blob().prop_map(Read::Descendants),
        blob().prop_map(Read::Ephemerals),
        blob().prop_map(Read::Sync),
    ]
}

pub fn read() -> impl Strategy<Value = Read> {
    let found = prop_oneof![
        blob().prop_map(Read::Data),
        blob().prop_map(|path| Read::Children { path, stat: false }),
    ];
    prop_oneof![
        4 => one_read(),
        1 => vec(one_read(), 0..4).prop_map(Read::Multi),
        1 => vec(found, 0..4).prop_map(Read::Multi),
    ]
}

fn code() -> impl Strategy<Value = Code> {
    prop::sample::select(CODES.as_slice())
}

fn created() -> impl Strategy<Value = Reply> {
    (blob(), option::of(stat())).prop_map(|(path, stat)| Reply::Created { path, stat })
}

fn data() -> impl Strategy<Value = Reply> {
    (option::of(blob()), stat()).prop_map(|(data, stat)| Reply::Data(data, stat))
}

fn children() -> impl Strategy<Value = Reply> {
    (vec(blob(), 0..4), option::of(stat())).prop_map(|(names, stat)| Reply::Children(names, stat))
}

fn one_reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        Just(Reply::Done),
        created(),
        stat().prop_map(Reply::Stat),
        data(),
        (acl(), stat()).prop_map(|(acl, stat)| Reply::Acl(acl, stat)),
        children(),
        any::<i32>().prop_map(Reply::Number),
        vec(blob(), 0..4).prop_map(Reply::Paths),
        blob().prop_map(Reply::Path),
        any::<i64>().prop_map(|id| Reply::Session(TreeSessionId(id))),
    ]
}

fn results(reply: impl Strategy<Value = Reply>) -> impl Strategy<Value = Reply> {
    let result = prop_oneof![4 => reply.prop_map(Ok), 1 => code().prop_map(Err)];
    vec(result, 0..4).prop_map(Reply::Multi)
}

/// One answer, or the answers to a `Multi` in a possible combination, or any.
pub fn reply() -> impl Strategy<Value = Reply> {
    let done = prop_oneof![Just(Reply::Done), created(), stat().prop_map(Reply::Stat)];
    prop_oneof![
        5 => one_reply(),
        1 => results(one_reply()),
        1 => results(done),
        1 => results(prop_oneof![data(), children()]),
    ]
}

pub fn result() -> impl Strategy<Value = Result<Reply, Code>> {
    prop_oneof![4 => reply().prop_map(Ok), 1 => code().prop_map(Err)]
}

pub fn event() -> impl Strategy<Value = WatchedEvent> {
    let happened = prop::sample::select(vec![
        Happened::Created,
        Happened::Deleted,
        Happened::Data,
        Happened::Children,
    ]);
    (happened, blob()).prop_map(|(happened, path)| WatchedEvent { happened, path })
}
