//! Every written value reads back in both forms, and truncated or invalid bytes are refused.

#[path = "../../tests/asked/mod.rs"]
mod asked;

use super::*;
use proptest::prelude::*;
use std::fmt::Debug;

const FORMS: [Form; 2] = [Form::Wide, Form::Short];

fn reader(form: Form, bytes: &[u8]) -> Reader<'_> {
    let mut reader = Reader::new(bytes);
    reader.set_form(form);
    reader
}

/// Checks that a written value reads back with nothing left over, and that no prefix of it reads at
/// all.
fn round_trip<T: PartialEq + Debug>(
    value: &T,
    put: impl Fn(Form, &T, &mut Vec<u8>),
    get: impl Fn(&mut Reader<'_>) -> Result<T, Corrupt>,
) {
    for form in FORMS {
        let mut bytes = Vec::new();
        put(form, value, &mut bytes);
        let mut whole = reader(form, &bytes);
        assert_eq!(get(&mut whole).as_ref(), Ok(value));
        whole.finish().unwrap();
        for cut in 0..bytes.len() {
            assert_eq!(get(&mut reader(form, &bytes[..cut])), Err(Corrupt), "cut at {cut}");
        }
    }
}

/// Number of each reason. The match is exhaustive, so that a new reason must get a number.
fn place(code: Code) -> usize {
    match code {
        Code::Ok => 0,
        Code::RuntimeInconsistency => 1,
        Code::Marshalling => 2,
        Code::Unimplemented => 3,
        Code::BadArguments => 4,
        Code::NoNode => 5,
        Code::NoAuth => 6,
        Code::BadVersion => 7,
        Code::NoChildrenForEphemerals => 8,
        Code::NodeExists => 9,
        Code::NotEmpty => 10,
        Code::SessionExpired => 11,
        Code::InvalidAcl => 12,
        Code::AuthFailed => 13,
        Code::SessionMoved => 14,
        Code::NoWatcher => 15,
        Code::ReconfigDisabled => 16,
        Code::QuotaExceeded => 17,
    }
}

#[test]
fn every_reason_is_known_by_its_number() {
    for (i, known) in CODES.into_iter().enumerate() {
        assert_eq!(place(known), i);
        assert_eq!(code(known as i32), Some(known));
        assert_eq!(asked::CODES[i], known);
    }
    for unknown in [-1, 1, i32::MAX, i32::MIN] {
        assert_eq!(code(unknown), None);
    }
}

#[test]
fn watches_sessions_and_numbers_of_changes_read_back() {
    let watches = [Watch::Data, Watch::Exist, Watch::Child, Watch::Persistent, Watch::Recursive];
    for watch in watches {
        round_trip(&watch, |_, watch, out| put_watch(*watch, out), get_watch);
    }
    let lasting = [WatcherType::Persistent, WatcherType::Recursive];
    for which in
        [WatcherType::Children, WatcherType::Data, WatcherType::Any].into_iter().chain(lasting)
    {
        round_trip(&which, |_, which, out| put_watcher_type(*which, out), get_watcher_type);
    }
    for number in [0, 1, -1, i64::MIN] {
        round_trip(&TreeSessionId(number), |_, id, out| put_session(*id, out), get_session);
        round_trip(&Zxid(number), |_, zxid, out| put_zxid(*zxid, out), get_zxid);
    }
}

#[test]
fn the_bytes_of_a_write_are_these() {
    let create = Create {
        path: Blob::from(b"/a".as_slice()),
        data: None,
        acl: vec![],
        mode: CreateMode { lasts: Lasts::Session, sequential: false },
        stat: true,
    };
    let mode = CreateMode { lasts: Lasts::Ttl(258), sequential: true };
    let mortal = Create { mode, stat: false, ..create.clone() };
    let write = Write::Multi(vec![
        Change::Create(create),
        Change::Create(mortal),
        Change::Delete { path: Blob::from(b"/b".as_slice()), version: -1 },
    ]);
    let mut bytes = Vec::new();
    put_write(Form::Short, &write, &mut bytes);
    let create = [1, 2, b'/', b'a', 0, 0, 5];
    let mortal = [1, 2, b'/', b'a', 0, 0, 18, 2, 1, 0, 0, 0, 0, 0, 0];
    let delete = [2, 2, b'/', b'b', 0xff, 0xff, 0xff, 0xff];
    assert_eq!(bytes, [[6, 3].as_slice(), &create, &mortal, &delete].concat());
}

#[test]
fn kinds_and_bits_that_are_not_known_are_refused() {
    for kind in [0, 6, 9, 255] {
        assert_eq!(get_change(&mut reader(Form::Short, &[kind, 0, 0, 0, 0, 0])), Err(Corrupt));
    }
    for kind in [0, 17, 255] {
        assert_eq!(get_write(&mut reader(Form::Short, &[kind, 0, 0, 0, 0, 0])), Err(Corrupt));
    }
    for kind in [0, 10, 255] {
        assert_eq!(get_watch(&mut reader(Form::Short, &[kind])), Err(Corrupt));
        assert_eq!(get_watcher_type(&mut reader(Form::Short, &[kind])), Err(Corrupt));
        assert_eq!(get_event(&mut reader(Form::Short, &[kind, 0])), Err(Corrupt));
    }
    for kind in [0, 10, 255] {
        assert_eq!(get_read(&mut reader(Form::Short, &[kind, 0])), Err(Corrupt));
    }
    for kind in [0, 14, 255] {
        assert_eq!(get_reply(&mut reader(Form::Short, &[kind, 0])), Err(Corrupt));
    }
    // The kind of a node has five bits, and exactly one lifetime.
    for bits in [32, EPHEMERAL | CONTAINER, CONTAINER | TTL] {
        let mut create = vec![CREATE, 0, 0, 0, bits];
        create.extend([0; 8]);
        assert_eq!(get_write(&mut reader(Form::Short, &create)), Err(Corrupt));
    }
    // Reason 1 does not exist: it is the number of success.
    assert_eq!(get_reply(&mut reader(Form::Short, &[REFUSED, 1, 0, 0, 0])), Err(Corrupt));
}

#[test]
fn several_among_several_are_refused_however_deep() {
    let reads = [READS, 1].repeat(100_000);
    assert_eq!(get_read(&mut reader(Form::Short, &reads)), Err(Corrupt));
    let replies = [SEVERAL, 1].repeat(100_000);
    assert_eq!(get_reply(&mut reader(Form::Short, &replies)), Err(Corrupt));
    let writes = [CHANGES, 1].repeat(100_000);
    assert_eq!(get_write(&mut reader(Form::Short, &writes)), Err(Corrupt));
}

#[test]
fn a_count_above_what_is_there_is_not_believed() {
    let huge = u32::MAX.to_le_bytes();
    let with = |start: &[u8]| [start, huge.as_slice(), &[0; 64]].concat();
    assert_eq!(get_write(&mut Reader::new(&with(&[CHANGES]))), Err(Corrupt));
    assert_eq!(get_write(&mut Reader::new(&with(&[DELETE]))), Err(Corrupt));
    assert_eq!(get_write(&mut Reader::new(&with(&[CREATE, 0, 0, 0, 0, 0]))), Err(Corrupt));
    assert_eq!(get_read(&mut Reader::new(&with(&[READS]))), Err(Corrupt));
    assert_eq!(get_reply(&mut Reader::new(&with(&[SEVERAL]))), Err(Corrupt));
    assert_eq!(get_reply(&mut Reader::new(&with(&[PATHS]))), Err(Corrupt));
    assert_eq!(get_reply(&mut Reader::new(&with(&[ACL_FOUND]))), Err(Corrupt));
    assert_eq!(get_identities(&mut Reader::new(&with(&[]))), Err(Corrupt));
}

proptest! {
    #[test]
    fn writes_read_back(write in asked::write()) {
        round_trip(&write, put_write, get_write);
        if let Write::Change(change) = write {
            round_trip(&change, put_change, get_change);
        }
    }

    #[test]
    fn reads_read_back(read in asked::read()) {
        round_trip(&read, put_read, get_read);
    }

    #[test]
    fn results_read_back(result in asked::result()) {
        round_trip(&result, put_reply, get_reply);
    }

    #[test]
    fn events_read_back(event in asked::event()) {
        round_trip(&event, put_event, get_event);
    }

    #[test]
    fn identities_read_back(who in prop::collection::vec(asked::identity(), 0..4)) {
        round_trip(&who, |form, who, out| put_identities(form, who, out), get_identities);
    }

    #[test]
    fn whatever_comes_is_read_or_refused(bytes in prop::collection::vec(0..20u8, 0..80)) {
        for form in FORMS {
            let _ = get_write(&mut reader(form, &bytes));
            let _ = get_read(&mut reader(form, &bytes));
            let _ = get_reply(&mut reader(form, &bytes));
            let _ = get_event(&mut reader(form, &bytes));
            let _ = get_identities(&mut reader(form, &bytes));
        }
    }
}
