//! Tests of the set type.

use crate::kinds::set::*;
use crate::laws::foretold::check_walks;
use crate::laws::{check_laws, check_words, dialogue};
use crate::{Handler, record};

pub(crate) fn samples() -> Vec<Op> {
    let members = |names: &[&str]| names.iter().map(|n| Blob::from(*n)).collect::<Members>();
    vec![
        Op::Add(members(&["a"])),
        Op::Add(members(&["a", "b"])),
        Op::Add(members(&["c"])),
        Op::Remove(members(&["a"])),
        Op::Remove(members(&["b", "c", "d"])),
        Op::Pop(None),
        Op::Pop(Some(2)),
        Op::Contains("a".into()),
        Op::ContainsEach(members(&["a", "c"])),
        Op::Card,
        Op::All,
        Op::Random(None),
        Op::Random(Some(-3)),
        Op::Scan(ScanArgs { cursor: 0, pattern: Some("[a-b]".into()), count: 10 }),
    ]
}

fn set(names: &[&str]) -> Reply {
    Reply::Set(names.iter().map(Reply::bulk).collect())
}

fn parse(line: &str) -> Result<Command, ErrorReply> {
    let words = ArgBuf::of(line.split(' '));
    let spec = record::command(words.args().get(0).unwrap()).unwrap();
    let Handler::Data(parse) = spec.handler else { panic!("not a data command") };
    parse(&words.args())
}

#[test]
fn laws() {
    check_laws::<Value>(&samples(), 3);
    check_words(&samples().into_iter().map(AnyOp::Set).collect::<Vec<_>>());
}

#[test]
fn members_are_distinct_and_an_empty_set_ceases_to_exist() {
    dialogue(&[
        ("srem k a", Reply::Int(0)),
        ("exists k", Reply::Int(0)),
        ("sadd k a b a", Reply::Int(2)),
        ("sadd k b c", Reply::Int(1)),
        ("smembers k", set(&["a", "b", "c"])),
        ("smismember k a x", Reply::Array(vec![Reply::Int(1), Reply::Int(0)])),
        ("srem k a a x", Reply::Int(1)),
        ("spop k -1", Reply::err("value is out of range, must be positive")),
        ("spop k 0", set(&[])),
        ("scard k", Reply::Int(2)),
        ("srem k b c", Reply::Int(2)),
        ("exists k", Reply::Int(0)),
        ("spop k", Reply::Nil),
        ("spop k 3", set(&[])),
        ("srandmember k", Reply::Nil),
        ("srandmember k -2", Reply::Array(vec![])),
    ]);
}

#[test]
fn algebra_takes_absent_sets_as_empty_and_refuses_other_types() {
    let (x, y) = (set(&["a", "b", "c"]), set(&["b", "c", "d"]));
    for (line, replies, expected) in [
        ("sinter k l", vec![x.clone(), y.clone()], set(&["b", "c"])),
        ("sunion k l", vec![x.clone(), y.clone()], set(&["a", "b", "c", "d"])),
        ("sdiff k l", vec![x.clone(), y.clone()], set(&["a"])),
        ("sinter k l", vec![x.clone(), set(&[])], set(&[])),
        ("sintercard 2 k l limit 1", vec![x.clone(), y.clone()], Reply::Int(1)),
        ("sintercard 2 k l limit 0", vec![x, y], Reply::Int(2)),
    ] {
        let Ok(Command::Multi { merge, .. }) = parse(line) else { panic!("{line}") };
        assert_eq!(merge.apply(replies), expected, "{line}");
        let wrong = Reply::Error(ErrorReply::wrong_type());
        assert_eq!(merge.apply(vec![set(&[]), wrong.clone()]), wrong);
    }
    assert!(parse("sintercard 1 k limit -1").is_err());
    assert!(parse("sintercard 3 k l").is_err());
}

#[test]
fn a_stored_result_replaces_or_removes_its_target() {
    let plan = |line: &str, replies: &[Reply]| {
        let Ok(Command::Compound(compound)) = parse(line) else { panic!("{line}") };
        compound.plan(replies).expect("one step")
    };
    let stored = plan("sinterstore t k l", &[set(&["a", "b"]), set(&["b"])]);
    assert_eq!(stored.reply, Reply::Int(1));
    let mut target = None;
    record::apply(&mut target, &stored.writes[0].1, &Ctx::default());
    let all = record::query(target.as_ref(), &AnyOp::Set(Op::All), &Ctx::default());
    assert_eq!(all, set(&["b"]));
    let empty = plan("sdiffstore t k", &[set(&[])]);
    assert_eq!(empty.writes, [("t".into(), AnyOp::Key(KeyOp::Del))]);
    let moved = plan("smove k l a", &[1, 1, 0].map(Reply::Int));
    assert_eq!((moved.writes.len(), moved.reply), (2, Reply::Int(1)));
    let same = plan("smove k k a", &[1, 1, 1].map(Reply::Int));
    assert_eq!((same.writes.len(), same.reply), (0, Reply::Int(1)));
    let wrong = Reply::Error(crate::ErrorReply::wrong_type());
    let absent = plan("smove k l a", &[Reply::Int(0), Reply::Int(0), wrong.clone()]);
    assert_eq!((absent.writes.len(), absent.reply), (0, Reply::Int(0)));
    assert_eq!(plan("smove k l a", &[Reply::Int(1), Reply::Int(0), wrong.clone()]).reply, wrong);
}

#[test]
fn a_pop_is_the_same_for_the_same_seed_and_takes_what_is_there() {
    let start =
        Value { members: ["a", "b", "c"].map(|m| (Blob::from(m), ())).into_iter().collect() };
    for seed in 0..20 {
        let ctx = Ctx { seed, ..Ctx::default() };
        let (mut x, mut y) = (start.clone(), start.clone());
        let op = Op::Pop(Some(2));
        let reply = x.apply(&op, &ctx, &mut Meta::default());
        assert_eq!(reply, y.apply(&op, &ctx, &mut Meta::default()));
        let Reply::Set(taken) = reply else { panic!("no set") };
        assert_eq!(taken.len() + x.members.len(), 3);
        assert!(taken.iter().all(|t| !x.all().any(|m| *t == Reply::Bulk(m))));
    }
}

#[test]
fn what_is_popped_follows_from_the_members_alone() {
    let members: Vec<Blob> = (0..5_000).map(|i| Blob::new(i.to_string().as_bytes())).collect();
    let (mut one, mut other) = (Value::default(), Value::default());
    for m in members.iter() {
        one.insert(m);
    }
    for m in members.iter().rev() {
        other.insert(m);
    }
    for (round, member) in members.iter().enumerate().take(2_000) {
        if round == 700 {
            // As after a restart: the index, which only speeds up pops, is gone.
            other = Value { members: other.members.iter().collect() };
        }
        let seed = round as u64 * 77;
        assert_eq!(one.pop(1 + seed % 3, seed), other.pop(1 + seed % 3, seed));
        assert_eq!(one.remove(member), other.remove(member));
        if round % 2 == 0 {
            assert_eq!(one.insert(member), other.insert(member));
        }
    }
    assert_eq!(one, other);
    let left = one.members.len() as u64;
    assert_eq!(one.pop(left + 1, 1), other.pop(left, 2));
    assert!(one.is_empty() && other.is_empty());
}

#[test]
fn every_member_is_as_likely_to_be_popped() {
    let members: Vec<Blob> = (0..10).map(|i| Blob::new(i.to_string().as_bytes())).collect();
    let mut times = [0u32; 10];
    for seed in 0..10_000_u64 {
        let mut value = Value::default();
        for m in members.iter() {
            value.insert(m);
        }
        let popped = value.pop(1, seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        times[members.iter().position(|m| *m == popped[0]).unwrap()] += 1;
    }
    assert!(times.iter().all(|n| (850..1150).contains(n)), "{times:?}");
}

#[test]
fn replies_are_known_ahead() {
    let known =
        ["sadd k ?", "sadd k ? ? ?", "srem k ?", "srem k ? ? ?", "sadd k 4 ? 4", "srem k 4 ? 4"];
    check_walks("sadd k ?", &known, &["spop k", "spop k %", "del k", "persist k"]);
}
