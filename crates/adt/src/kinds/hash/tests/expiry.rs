//! Tests of fields that expire.

use super::bulks;
use crate::kinds::hash::entries::DEADLINE_MS_MAX;
use crate::kinds::hash::*;
use crate::laws::{check_laws, check_words, dialogue};
use crate::record::{carry_out, decode, is_foreseeable, is_small, query, query_left};
use crate::{Op as AnyOp, Record, Value as AnyValue};

fn fields(names: &[&str]) -> Fields {
    names.iter().map(|name| Blob::from(*name)).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Pairs {
    pairs.iter().map(|(field, value)| (Blob::from(*field), Blob::from(*value))).collect()
}

/// Operations that go by moments in milliseconds: the laws run them at 2000, 3000 and 4000.
fn samples() -> Vec<Op> {
    let (a, both) = (|| fields(&["a"]), || fields(&["a", "b"]));
    let two = || Box::new(pairs(&[("a", "1"), ("b", "2")]));
    let set = |only, life| Op::SetUntil { pairs: two(), only, life };
    vec![
        Op::Expire(a(), When::In(5000), ExpireIf::Always),
        Op::Expire(fields(&["b", "c"]), When::In(5000), ExpireIf::Always),
        Op::Expire(both(), When::At(2500), ExpireIf::Always),
        Op::Expire(a(), When::At(6000), ExpireIf::None),
        Op::Expire(a(), When::At(7000), ExpireIf::Some),
        Op::Expire(a(), When::In(4000), ExpireIf::Later),
        Op::Expire(a(), When::In(0), ExpireIf::Earlier),
        Op::Persist(a()),
        Op::Persist(fields(&["b", "b"])),
        Op::GetUntil(a(), None),
        Op::GetUntil(both(), Some(When::In(3000))),
        Op::GetUntil(a(), Some(When::At(2500))),
        set(FieldsIf::Always, Life::Until(When::In(5000))),
        set(FieldsIf::NoneThere, Life::Forever),
        set(FieldsIf::AllThere, Life::AsBefore),
        set(FieldsIf::Always, Life::Until(When::At(2500))),
        Op::Ttl(both(), TtlForm::Millis),
        Op::Ttl(a(), TtlForm::AtSeconds),
        // Next to those that know nothing of expiry.
        Op::Set(pairs(&[("a", "1")])),
        Op::SetIfAbsent("b".into(), "1".into()),
        Op::Remove(a()),
        Op::Incr("a".into(), 2),
        Op::IncrFloat("b".into(), "0.25".into()),
        Op::Get("a".into()),
        Op::Contains("b".into()),
        Op::Len,
        Op::All,
    ]
}

#[test]
fn laws_of_fields_that_expire() {
    check_laws::<Value>(&samples(), 2);
    check_words(&samples().into_iter().map(AnyOp::Hash).collect::<Vec<_>>());
    check_words(&[AnyOp::Key(crate::key::KeyOp::ReapParts { now_ms: 7, most: i64::MAX as u64 })]);
}

#[test]
fn times_of_different_fields_commute_and_those_ahead_with_reads_of_values() {
    let mut slot = None;
    run(&mut slot, "hset k a 1 b 1", 0);
    let Some(AnyValue::Hash(value)) = slot.map(|record| record.value) else { panic!() };
    let commute = |a: &Op, b: &Op, observed| {
        let (a, b) = (Access { op: a, observed }, Access { op: b, observed });
        value.commutes(a, b) && value.commutes(b, a)
    };
    let ahead = |field| Op::Expire(fields(&[field]), When::In(9), ExpireIf::Always);
    let perhaps_past = Op::Expire(fields(&["a"]), When::At(9), ExpireIf::Always);
    assert!(commute(&ahead("a"), &ahead("b"), true));
    assert!(commute(&ahead("b"), &perhaps_past, true));
    assert!(!commute(&ahead("a"), &ahead("a"), true));
    for read in [Op::Get("a".into()), Op::Contains("a".into()), Op::Len, Op::All] {
        assert!(commute(&ahead("a"), &read, true), "{read:?}");
        assert!(!commute(&perhaps_past, &read, true), "{read:?}");
    }
    assert!(!commute(&ahead("a"), &Op::Ttl(fields(&["a"]), TtlForm::Millis), true));
    assert!(commute(&ahead("a"), &Op::Ttl(fields(&["b"]), TtlForm::Millis), true));
    assert!(commute(&ahead("a"), &Op::Incr("a".into(), 1), false));
    assert!(commute(&Op::Persist(fields(&["a"])), &Op::Set(pairs(&[("a", "7")])), false));
}

fn ints(replies: &[i64]) -> Reply {
    Reply::Array(replies.iter().copied().map(Reply::Int).collect())
}

#[test]
fn a_field_expires_on_conditions_and_each_is_answered() {
    dialogue(&[
        ("hexpire k 10 fields 2 a b", ints(&[-2, -2])),
        ("httl k fields 1 a", ints(&[-2])),
        ("hpersist k fields 1 a", ints(&[-2])),
        ("hset k a 1 b 2 c 3", Reply::Int(3)),
        ("hpttl k fields 2 a x", ints(&[-1, -2])),
        ("hpexpire k 5000 xx fields 1 a", ints(&[0])),
        ("hpexpire k 5000 gt fields 1 a", ints(&[0])),
        ("hpexpire k 5001 lt fields 2 a x", ints(&[1, -2])),
        ("hpexpire k 6000 NX FIELDS 2 a b", ints(&[0, 1])),
        ("hpexpire k 5000 gt fields 2 a b", ints(&[0, 0])),
        ("hpexpireat k 6002 gt fields 1 a", ints(&[1])),
        ("httl k fields 3 a b c", ints(&[6, 6, -1])),
        ("hpttl k fields 2 a b", ints(&[5002, 6000])),
        ("hexpiretime k fields 1 a", ints(&[7])),
        ("hpexpiretime k fields 2 a b", ints(&[6002, 7000])),
        ("hpersist k fields 3 a c x", ints(&[1, -1, -2])),
        ("hpttl k fields 2 a b", ints(&[-1, 6000])),
        ("hexpireat k 1 fields 2 b b", ints(&[2, -2])),
        ("hexpire k 0 lt fields 1 a", ints(&[2])),
        ("hgetall k", Reply::Map(vec![(Reply::bulk("c"), Reply::bulk("3"))])),
        ("hpexpire k 0 fields 1 c", ints(&[2])),
        ("exists k", Reply::Int(0)),
        ("set s 1", Reply::Ok),
        ("hexpire s 1 fields 1 a", Reply::Error(crate::ErrorReply::wrong_type())),
        ("httl s fields 1 a", Reply::Error(crate::ErrorReply::wrong_type())),
    ]);
}

#[test]
fn writes_end_or_keep_the_time_of_a_field() {
    dialogue(&[
        ("hset k a 1 b 1 c 1 d 1", Reply::Int(4)),
        ("hpexpire k 5000 fields 4 a b c d", ints(&[1, 1, 1, 1])),
        ("hset k a 1", Reply::Int(0)),
        ("hincrby k b 1", Reply::Int(2)),
        ("hincrbyfloat k c 0.5", Reply::bulk("1.5")),
        ("hsetnx k d 2", Reply::Int(0)),
        ("hpttl k fields 4 a b c d", ints(&[-1, 5000, 5000, 5000])),
        ("hgetdel k fields 1 d", bulks(&["1"])),
        ("hset k d 1", Reply::Int(1)),
        ("hdel k c", Reply::Int(1)),
        ("hset k c 1", Reply::Int(1)),
        ("hpttl k fields 2 c d", ints(&[-1, -1])),
        ("hmset k b 1", Reply::Ok),
        ("hpttl k fields 1 b", ints(&[-1])),
    ]);
}

#[test]
fn a_read_can_set_when_its_fields_expire() {
    let three = || Reply::Array(vec![Reply::bulk("1"), Reply::Nil, Reply::bulk("2")]);
    dialogue(&[
        ("hgetex k ex 1 fields 1 a", Reply::Array(vec![Reply::Nil])),
        ("exists k", Reply::Int(0)),
        ("hset k a 1 b 2", Reply::Int(2)),
        ("hgetex k fields 3 a x b", three()),
        ("hpttl k fields 2 a b", ints(&[-1, -1])),
        ("hgetex k ex 5 fields 3 a x b", three()),
        ("hpttl k fields 2 a b", ints(&[5000, 5000])),
        ("hgetex k persist fields 1 a", bulks(&["1"])),
        ("hgetex k pxat 9000 fields 1 b", bulks(&["2"])),
        ("hpttl k fields 2 a b", ints(&[-1, 8000])),
        ("hgetex k exat 1 fields 2 a b", bulks(&["1", "2"])),
        ("exists k", Reply::Int(0)),
    ]);
}

#[test]
fn fields_are_set_with_their_time_if_all_or_none_are_there() {
    dialogue(&[
        ("hsetex k fxx ex 5 fields 1 a 1", Reply::Int(0)),
        ("exists k", Reply::Int(0)),
        ("hsetex k fnx ex 5 fields 2 a 1 b 2", Reply::Int(1)),
        ("hpttl k fields 2 a b", ints(&[5000, 5000])),
        ("hsetex k fnx fields 2 b 3 c 3", Reply::Int(0)),
        ("hsetex k fxx fields 2 b 3 c 3", Reply::Int(0)),
        ("hsetex k keepttl fxx fields 1 b 3", Reply::Int(1)),
        ("hsetex k fields 2 a 4 a 5", Reply::Int(1)),
        ("hmget k a b", bulks(&["5", "3"])),
        ("hpttl k fields 2 a b", ints(&[-1, 5000])),
        ("hsetex k pxat 1000 fields 2 a 6 d 6", Reply::Int(1)),
        ("hkeys k", bulks(&["b"])),
        ("hsetex k px 0 fields 1 b 6", Reply::Int(1)),
        ("exists k", Reply::Int(0)),
    ]);
}

#[test]
fn commands_with_bad_words_are_refused_in_the_words_of_redis() {
    let missing = "Mandatory argument FIELDS is missing or not at the right position";
    let positive = "Number of fields must be a positive integer";
    let greater = "Parameter `numFields` should be greater than 0";
    let number = "The `numfields` parameter must match the number of arguments";
    let negative = "invalid expire time, must be >= 0";
    let one_condition = "Only one of FXX or FNX arguments can be specified";
    let one_life = "Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
    let arity = |name: &str| format!("wrong number of arguments for '{name}' command");
    let late = |name: &str| format!("invalid expire time in '{name}' command");
    let (latest, over) = (DEADLINE_MS_MAX, DEADLINE_MS_MAX + 1);
    let refused = [
        ("hexpire k 1 fields 1".into(), arity("hexpire")),
        ("hexpire k x fields 1 a".into(), "value is not an integer or out of range".into()),
        ("hexpire k -1 fields 1 a".into(), negative.into()),
        ("hexpire k 1 field 1 a".into(), missing.into()),
        ("hexpire k 1 nx xx fields 1 a".into(), missing.into()),
        ("hexpire k 1 fields 0 a".into(), greater.into()),
        ("hexpire k 1 nx fields -1 a".into(), greater.into()),
        ("hexpire k 1 fields 2 a".into(), number.into()),
        ("hexpire k 1 fields 1 a b".into(), number.into()),
        (format!("hexpire k {latest} fields 1 a"), late("hexpire")),
        (format!("hpexpire k {latest} fields 1 a"), late("hpexpire")),
        (format!("hpexpireat k {over} fields 1 a"), late("hpexpireat")),
        (format!("hexpireat k {} fields 1 a", i64::MAX), late("hexpireat")),
        ("httl k field 1 a".into(), missing.into()),
        ("hpttl k fields 0 a".into(), positive.into()),
        ("hexpiretime k fields x a".into(), positive.into()),
        ("hpersist k fields 2 a".into(), number.into()),
        ("hgetex k 1 fields 1 a".into(), missing.into()),
        ("hgetex k persist 1 fields 1 a".into(), missing.into()),
        ("hgetex k ex 1 persist fields 1 a".into(), missing.into()),
        ("hgetex k ex -1 fields 1 a".into(), negative.into()),
        (format!("hgetex k pxat {over} fields 1 a"), late("hgetex")),
        ("hgetex k fields 3 a b".into(), number.into()),
        ("hgetex k fields 0 a".into(), positive.into()),
        ("hsetex k fields 1 a".into(), arity("hsetex")),
        ("hsetex k ex 1 fields 1 a".into(), arity("hsetex")),
        ("hsetex k fields 1 a 1 b".into(), arity("hsetex")),
        ("hsetex k fields 2 a 1".into(), arity("hsetex")),
        ("hsetex k fields 0 a 1".into(), "invalid number of fields".into()),
        ("hsetex k fnx ex 5 fxx 1".into(), one_condition.into()),
        ("hsetex k fnx fnx fields 1 a 1".into(), one_condition.into()),
        ("hsetex k ex 1 keepttl fields 1 a 1".into(), one_life.into()),
        ("hsetex k nx fields 1 a 1".into(), "unknown argument: nx".into()),
        ("hsetex k fnx fxx".into(), arity("hsetex")),
        ("hsetex k fnx keepttl px 1 ex".into(), one_life.into()),
        ("hsetex k fnx keepttl a ex 1".into(), "unknown argument: a".into()),
        ("hsetex k ex -1 fields 1 a 1".into(), negative.into()),
        (format!("hsetex k exat {over} fields 1 a 1"), late("hsetex")),
    ];
    for (line, text) in refused {
        let _: &String = &line;
        dialogue(&[(&line, Reply::err(text))]);
    }
    dialogue(&[
        ("hset k a 1", Reply::Int(1)),
        (&format!("hpexpireat k {latest} fields 1 a"), ints(&[1])),
        ("hpexpiretime k fields 1 a", ints(&[latest as i64])),
        (&format!("hpexpire k {} fields 1 a", latest - (1 << 40)), ints(&[1])),
    ]);
}

/// A hash with fields `f0` to `f99`, each of which expires at 1000 milliseconds more than the one before,
/// from 1970 on.
fn staggered() -> Option<Record> {
    let mut slot = None;
    for n in 0..100 {
        run(&mut slot, &format!("hset k f{n} {n}"), 0);
    }
    for n in 0..100 {
        run(&mut slot, &format!("hpexpireat k {} fields 1 f{n}", 1000 * (n + 1)), 0);
    }
    slot
}

fn run(slot: &mut Option<Record>, line: &str, now_ms: u64) -> (Reply, bool) {
    let (_, op) = decode(&ArgBuf::of(line.split(' ')).args()).expect(line);
    carry_out(slot, &op, &Ctx { now_ms, ..Ctx::default() })
}

#[test]
fn parts_are_removed_when_the_log_says_so_the_longest_overdue_first() {
    let mut slot = staggered();
    assert_eq!(run(&mut slot, "hget k f0", 90_000).0, Reply::bulk("0"), "the log has not said it");
    let next = |slot: &Option<Record>, after| {
        slot.as_ref().and_then(|record| record.next_part_expiry_ms(after))
    };
    assert_eq!(next(&slot, None), Some(1000));
    assert_eq!((next(&slot, Some(1000)), next(&slot, Some(100_000))), (Some(2000), None));
    assert_eq!(run(&mut slot, "record.reap-parts k 999 9", 0), (Reply::Int(0), false));
    assert_eq!(run(&mut slot, "record.reap-parts k 90000 2", 0), (Reply::Int(2), true));
    assert_eq!(run(&mut slot, "hmget k f1 f2", 0).0.len(), 2);
    assert_eq!(
        (run(&mut slot, "hexists k f1", 0).0, next(&slot, None)),
        (Reply::Int(0), Some(3000))
    );
    assert_eq!(run(&mut slot, "record.reap-parts k 90000 999", 0).0, Reply::Int(88));
    assert_eq!(run(&mut slot, "hlen k", 0).0, Reply::Int(10));
    assert_eq!(run(&mut slot, "record.reap-parts k 100000 999", 0), (Reply::Int(10), true));
    assert_eq!(slot, None, "a hash without fields ceases to exist");
    assert_eq!(run(&mut slot, "record.reap-parts k 100000 999", 0), (Reply::Int(0), false));
}

#[test]
fn a_read_that_cannot_wait_sees_what_is_left_at_its_time() {
    let mut slot = staggered();
    run(&mut slot, "hset k always 1", 0);
    let mut left = slot.clone();
    run(&mut left, "record.reap-parts k 60000 999", 0);
    let lines = [
        "hget k f59",
        "hget k f60",
        "hmget k f59 f60 always",
        "hexists k f0",
        "hstrlen k f59",
        "hlen k",
        "hpttl k fields 3 f59 f60 always",
    ];
    for line in lines {
        let (_, op) = decode(&ArgBuf::of(line.split(' ')).args()).unwrap();
        let ctx = Ctx { now_ms: 60_000, ..Ctx::default() };
        let expected = query(left.as_ref(), &op, &ctx);
        assert_eq!(query_left(slot.as_ref(), &op, &ctx), expected, "{line}");
    }
    let many = ["hgetall k", "hkeys k", "hvals k", "hscan k 0 count 1000", "hrandfield k 1000"];
    for line in many {
        let (_, op) = decode(&ArgBuf::of(line.split(' ')).args()).unwrap();
        let text = |slot: &Option<Record>, now_ms| {
            let reply = query_left(slot.as_ref(), &op, &Ctx { now_ms, ..Ctx::default() });
            let mut words: Vec<String> =
                format!("{reply:?}").split('"').map(str::to_owned).collect();
            words.sort();
            words
        };
        assert_eq!(text(&slot, 60_000), text(&left, 0), "{line}");
        assert_ne!(text(&slot, 60_000), text(&slot, 0), "{line}");
    }
    run(&mut slot, "hdel k always", 0);
    let exists = decode(&ArgBuf::of(["exists", "k"]).args()).unwrap().1;
    let seen = |now_ms| query_left(slot.as_ref(), &exists, &Ctx { now_ms, ..Ctx::default() });
    assert_eq!((seen(99_999), seen(100_000)), (Reply::Int(1), Reply::Int(0)));
}

#[test]
fn nothing_is_foreseen_of_a_hash_whose_fields_expire() {
    let mut slot = None;
    run(&mut slot, "hset k a 1 b 1", 0);
    let set = decode(&ArgBuf::of(["hset", "k", "a", "2"]).args()).unwrap().1;
    assert!(is_foreseeable(slot.as_ref(), &set) && slot.as_ref().is_some_and(is_small));
    run(&mut slot, "hexpire k 5 fields 1 a", 0);
    assert!(!is_foreseeable(slot.as_ref(), &set) && !slot.as_ref().is_some_and(is_small));
    run(&mut slot, "hpersist k fields 1 a", 0);
    assert!(is_foreseeable(slot.as_ref(), &set) && slot.as_ref().is_some_and(is_small));
}

/// The words of a value in the log.
fn words_of(slot: &Option<Record>) -> ArgBuf {
    let mut words = ArgBuf::of(["k"]);
    slot.as_ref().expect("a record").value.save(&mut words);
    words
}

#[test]
fn a_hash_is_written_as_before_unless_a_field_expires() {
    let mut slot = None;
    run(&mut slot, "hset k a 1 b 2", 0);
    assert_eq!(
        format!("{:?}", words_of(&slot)),
        format!("{:?}", ArgBuf::of("k 2 a 1 b 2".split(' ')))
    );
    run(&mut slot, "hpexpireat k 700 fields 1 b", 0);
    let written = ArgBuf::of("k -3 a 1 b 2 1 b 700".split(' '));
    assert_eq!(format!("{:?}", words_of(&slot)), format!("{written:?}"));
    run(&mut slot, "hpersist k fields 1 b", 0);
    assert_eq!(
        format!("{:?}", words_of(&slot)),
        format!("{:?}", ArgBuf::of("k 2 a 1 b 2".split(' ')))
    );
}

#[test]
fn a_written_hash_that_no_hash_writes_is_refused() {
    let put = |parts: &str| {
        let line = format!("record.put k copy_to hash -1 {parts}");
        decode(&ArgBuf::of(line.split(' ')).args())
    };
    assert!(put("-3 a 1 b 2 2 b 5 a 7").is_ok());
    let bad = [
        "-3 a 1 b 2",
        "-3 a 1 b 2 1 c 5",
        "-3 a 1 b 2 2 b 5 b 7",
        "-3 a 1 b 2 1 b 70368744177664",
        "-3 a 1 b 2 9 b 5",
        "-3 a 1 a 2 1 a 5",
        "-9223372036854775808 a 1",
        "3 a 1 b 2",
        "9223372036854775807 a 1 b 2",
    ];
    for parts in bad {
        assert!(put(parts).is_err(), "{parts}");
    }
}

#[test]
fn a_time_takes_memory_only_while_a_field_has_one() {
    let mut slot = None;
    let line: Vec<String> = (0..50).map(|n| format!("f{n} {n}")).collect();
    run(&mut slot, &format!("hset k {}", line.join(" ")), 0);
    let bytes = |slot: &Option<Record>| slot.as_ref().map_or(0, Record::heap_bytes);
    let before = bytes(&slot);
    run(&mut slot, "hexpire k 9 fields 2 f1 f2", 0);
    assert!(bytes(&slot) >= before + 2 * 24, "each time is counted");
    run(&mut slot, "hset k f1 1", 0);
    run(&mut slot, "hdel k f2", 0);
    assert!(bytes(&slot) < before);
    let Some(AnyValue::Hash(value)) = slot.as_ref().map(|record| &record.value) else { panic!() };
    assert_eq!(value.entries.next_deadline(None), None);
}
