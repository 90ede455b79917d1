//! Tests of the hash type.

mod expiry;

use crate::kinds::hash::*;
use crate::laws::foretold::check_walks;
use crate::laws::{check_laws, check_words, dialogue};
use crate::{ErrorReply, Op as AnyOp};

pub(crate) fn samples() -> Vec<Op> {
    let pair = |f: &str, v: &str| (Blob::from(f), Blob::from(v));
    let fields = |names: &[&str]| names.iter().map(|n| Blob::from(*n)).collect::<Fields>();
    vec![
        Op::Set([pair("a", "1")].into_iter().collect()),
        Op::Set([pair("a", "x"), pair("b", "1")].into_iter().collect()),
        Op::Put([pair("a", "1")].into_iter().collect()),
        Op::Put([pair("b", "2")].into_iter().collect()),
        Op::SetIfAbsent("a".into(), "1".into()),
        Op::SetIfAbsent("b".into(), "x".into()),
        Op::Remove(fields(&["a"])),
        Op::Remove(fields(&["b", "c"])),
        Op::Take(fields(&["a", "c"])),
        Op::Take(fields(&["b", "b"])),
        Op::Incr("a".into(), 0),
        Op::Incr("a".into(), 2),
        Op::Incr("b".into(), i64::MAX),
        Op::IncrFloat("a".into(), "0.25".into()),
        Op::Get("a".into()),
        Op::GetEach(fields(&["a", "b"])),
        Op::Contains("b".into()),
        Op::ValueLen("a".into()),
        Op::Len,
        Op::All,
        Op::Fields,
        Op::Values,
        Op::Random(None),
        Op::Random(Some((-3, true))),
        Op::Scan(ScanArgs { cursor: 0, pattern: Some("a*".into()), count: 5 }, true),
        Op::Scan(ScanArgs { cursor: 0, pattern: None, count: 5 }, false),
    ]
}

fn bulks(words: &[&str]) -> Reply {
    Reply::Array(words.iter().map(Reply::bulk).collect())
}

#[test]
fn laws() {
    check_laws::<Value>(&samples(), 2);
    check_words(&samples().into_iter().map(AnyOp::Hash).collect::<Vec<_>>());
}

#[test]
fn set_counts_new_fields_and_the_last_value_of_a_repeated_field_counts() {
    dialogue(&[
        ("hset k a 1 b 2 a 3", Reply::Int(2)),
        ("hset k a 4 c 5", Reply::Int(1)),
        ("hset k a", Reply::err("wrong number of arguments for 'hset' command")),
        ("hset k a 1 b", Reply::err("wrong number of arguments for 'hset' command")),
        ("hmset k a 3", Reply::Ok),
        ("hmget k a x b", Reply::Array(vec![Reply::bulk("3"), Reply::Nil, Reply::bulk("2")])),
        ("hkeys k", bulks(&["a", "b", "c"])),
        ("hvals k", bulks(&["3", "2", "5"])),
        ("hsetnx k a 9", Reply::Int(0)),
        ("hsetnx k d 9", Reply::Int(1)),
        ("hstrlen k d", Reply::Int(1)),
        ("hexists k e", Reply::Int(0)),
        ("get k", Reply::Error(ErrorReply::wrong_type())),
    ]);
}

#[test]
fn a_hash_without_fields_ceases_to_exist() {
    dialogue(&[
        ("hdel k a", Reply::Int(0)),
        ("hset k a 1 b 2", Reply::Int(2)),
        ("hdel k a a x", Reply::Int(1)),
        ("hdel k b", Reply::Int(1)),
        ("exists k", Reply::Int(0)),
        ("hgetall k", Reply::Map(vec![])),
        ("hlen k", Reply::Int(0)),
        ("hget k a", Reply::Nil),
        ("hrandfield k", Reply::Nil),
        ("hrandfield k -5", Reply::Array(vec![])),
    ]);
}

#[test]
fn increments_create_fields_and_refuse_other_texts() {
    dialogue(&[
        ("hincrby k a 5", Reply::Int(5)),
        ("hincrby k a 9223372036854775807", Reply::err("increment or decrement would overflow")),
        ("hincrbyfloat k a 0.1", Reply::bulk("5.1")),
        ("hincrby k a 1", Reply::err("hash value is not an integer")),
        ("hincrbyfloat k b -2.0e2", Reply::bulk("-200")),
        ("hincrbyfloat k b inf", Reply::err("value is NaN or Infinity")),
        ("hset k c x", Reply::Int(1)),
        ("hincrbyfloat k c 1", Reply::err("hash value is not a float")),
        ("hget k c", Reply::bulk("x")),
    ]);
}

#[test]
fn scan_and_random_give_fields_with_values() {
    let step = Reply::Array(vec![Reply::bulk("0"), bulks(&["ab", "2", "aa", "1"])]);
    dialogue(&[
        ("hset k aa 1 ab 2 b 3", Reply::Int(3)),
        ("hscan k 0 match a* count 100", step),
        ("hscan k 0 novalues", Reply::Array(vec![Reply::bulk("0"), bulks(&["b", "ab", "aa"])])),
        ("hscan k 0 novalues match a*", Reply::Array(vec![Reply::bulk("0"), bulks(&["ab", "aa"])])),
        ("hscan k 0 count 9 novalues novalues", Reply::err("syntax error")),
        ("hscan k x", Reply::err("invalid cursor")),
        ("hrandfield k 0 withvalues", Reply::Pairs(vec![])),
        ("hrandfield k 1 values", Reply::err("syntax error")),
        ("hdel k aa ab", Reply::Int(2)),
        ("hrandfield k -2 withvalues", Reply::Pairs(vec![("b".into(), "3".into()); 2])),
        ("hrandfield k 2", bulks(&["b"])),
    ]);
}

#[test]
fn different_fields_commute_even_with_replies() {
    let value = Value::default();
    let set = |f: &str| Op::Set([(Blob::from(f), Blob::from("1"))].into_iter().collect());
    let (a, b) = (set("a"), set("b"));
    let seen = |op| Access { op, observed: true };
    assert!(value.commutes(seen(&a), seen(&b)));
    assert!(!value.commutes(seen(&a), seen(&a)));
    let hlen = Op::Len;
    assert!(!value.commutes(seen(&a), seen(&hlen)));
}

#[test]
fn taken_fields_are_answered_and_gone() {
    let bad = |text| Reply::err(text);
    dialogue(&[
        ("hset k a 1 b 2 c 3", Reply::Int(3)),
        ("hgetdel k fields 3 a x a", Reply::Array(vec![Reply::bulk("1"), Reply::Nil, Reply::Nil])),
        ("hgetdel k FIELDS 1 a", Reply::Array(vec![Reply::Nil])),
        (
            "hgetdel k a 1 b",
            bad("Mandatory argument FIELDS is missing or not at the right position"),
        ),
        ("hgetdel k fields 0 b", bad("Number of fields must be a positive integer")),
        ("hgetdel k fields x b", bad("Number of fields must be a positive integer")),
        (
            "hgetdel k fields 2 b",
            bad("The `numfields` parameter must match the number of arguments"),
        ),
        (
            "hgetdel k fields 1 b c",
            bad("The `numfields` parameter must match the number of arguments"),
        ),
        ("hgetdel k fields 2 b c", bulks(&["2", "3"])),
        ("exists k", Reply::Int(0)),
        ("hgetdel k fields 1 b", Reply::Array(vec![Reply::Nil])),
        ("set s 1", Reply::Ok),
        ("hgetdel s fields 1 b", Reply::Error(ErrorReply::wrong_type())),
    ]);
}

#[test]
fn replies_are_known_ahead() {
    let known = [
        "hset k ? ?",
        "hset k ? ? ? ? ? ?",
        "hset k 4 1 4 2 ? ?",
        "hmset k ? ? ? ?",
        "hsetnx k ? ?",
        "hdel k ?",
        "hdel k 4 ? 4 ?",
        "hincrby k ? #",
        "hincrby k ? 9223372036854775807",
        "hincrbyfloat k ? #.5",
        "hincrbyfloat k ? 1e308",
        "hgetdel k fields 3 ? 4 4",
        "hpexpireat k 1%%% fields 2 ? ?",
        "hpexpireat k 4%%% gt fields 3 4 ? 4",
        "hpexpire k %% nx fields 3 4 4 ?",
        "hpersist k fields 3 ? ? 4",
        "hgetex k px %% fields 2 ? 4",
        "hgetex k persist fields 2 ? 4",
        "hsetex k fnx fields 2 ? ? ? ?",
        "hsetex k keepttl fields 1 ? ?",
        "hsetex k fxx px 5%% fields 1 ? ?",
    ];
    check_walks("hset k ? ?", &known, &["del k", "hset k ? 1", "hset k ? 2.5"]);
    check_walks("hsetex k px 4000 fields 1 ? ?", &known, &["hset k ? 1", "hset k ? 2.5"]);
}
