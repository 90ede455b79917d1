//! Tests of the string type.

use crate::kinds::string::*;
use crate::laws::foretold::check_walks;
use crate::laws::{check_laws, check_words, dialogue};
use crate::record::{Record, apply, decode, query};
use crate::{Command, Merge, Op as AnyOp, Value as AnyValue};

fn set(value: &str, only: Only, expiry: Expiry, reply: SetReply) -> Op {
    Op::Set { value: value.into(), only, expiry, reply }
}

fn field(sign: char, bits: u8, at: u64, action: FieldAction) -> Field {
    Field { encoding: Encoding { signed: sign == 'i', bits }, at, action }
}

fn ints(delta: i64, lower: i64, upper: i64) -> By {
    By::Int { delta, lower, upper }
}

fn floats(delta: &str, lower: Option<&str>, upper: Option<&str>) -> By {
    By::Float { delta: delta.into(), lower: lower.map(Blob::from), upper: upper.map(Blob::from) }
}

fn increment(by: By, saturate: bool, expiry: Expiry, only_without: bool) -> Op {
    Op::Increment(Box::new(Increment { by, saturate, expiry, only_without }))
}

fn digest_of(string: &str) -> Compared {
    let Reply::Bulk(digest) = digest::reply(string.as_bytes()) else { panic!("it is a string") };
    Compared::Digest(u64::from_str_radix(std::str::from_utf8(&digest).unwrap(), 16).unwrap())
}

pub(crate) fn samples() -> Vec<Op> {
    let plain = |v| set(v, Only::Always, Expiry::Clear, SetReply::Status);
    vec![
        Op::Get,
        plain("1"),
        plain("x"),
        set("x", Only::Always, Expiry::Keep, SetReply::Old),
        set("1", Only::Always, Expiry::Set(When::At(1500)), SetReply::Status),
        set("x", Only::IfAbsent, Expiry::Clear, SetReply::Flag),
        set("1", Only::IfPresent, Expiry::Clear, SetReply::Status),
        set("x", Only::IfEqual(Compared::Text("1".into())), Expiry::Clear, SetReply::Status),
        set("1", Only::IfEqual(Compared::Text("1".into())), Expiry::Keep, SetReply::Old),
        set("1", Only::IfOther(Compared::Text("x".into())), Expiry::Clear, SetReply::Status),
        Op::Take,
        Op::Remove { value: Compared::Text("1".into()), equal: true },
        Op::Remove { value: digest_of("1"), equal: true },
        Op::Remove { value: Compared::Text("x".into()), equal: false },
        set("y", Only::IfEqual(digest_of("x")), Expiry::Clear, SetReply::Status),
        set("1", Only::IfOther(digest_of("1")), Expiry::Clear, SetReply::Old),
        Op::GetEx(Expiry::Set(When::In(5000))),
        Op::GetEx(Expiry::Clear),
        Op::Incr(0),
        Op::Incr(3),
        Op::Incr(i64::MAX),
        Op::IncrFloat("0.5".into()),
        increment(ints(1, i64::MIN, i64::MAX), false, Expiry::Keep, false),
        increment(ints(2, 0, 3), false, Expiry::Keep, false),
        increment(ints(-5, 1, 4), true, Expiry::Clear, false),
        increment(ints(3, i64::MIN, 2), false, Expiry::Set(When::At(1500)), true),
        increment(floats("0.5", None, Some("2.5")), false, Expiry::Set(When::In(9000)), false),
        increment(floats("-1e3", Some("-2"), None), true, Expiry::Keep, false),
        Op::Append("".into()),
        Op::Append("1".into()),
        Op::Len,
        Op::Digest,
        Op::SetRange(1, "x".into()),
        Op::SetRange(0, "".into()),
        Op::GetBit(2),
        Op::SetBit(2, true),
        Op::SetBit(2, false),
        Op::SetBit(17, true),
        Op::BitCount(Some(BitRange { start: 0, end: -1, bits: true })),
        Op::BitPos(false, BitRange { start: 0, end: -1, bits: false }, false),
        Op::BitPos(true, BitRange { start: 3, end: -1, bits: true }, true),
        Op::BitField(Arc::new([field('u', 4, 2, FieldAction::Get)])),
        Op::BitField(Arc::new([
            field('u', 2, 100, FieldAction::Add(3, Overflow::Fail)),
            field('i', 8, 4, FieldAction::Set(-1, Overflow::Wrap)),
        ])),
        Op::BitField(Arc::new([field('u', 1, 40, FieldAction::Set(1, Overflow::Saturate))])),
        Op::GetRange(0, -1),
    ]
}

/// Runs a one-operation command line (words split at spaces) on a slot.
fn run(slot: &mut Option<Record>, line: &str) -> Reply {
    match decode(&ArgBuf::of(line.split(' ')).args()) {
        Ok((_, op)) => apply(slot, &op, &Ctx { now_ms: 1000, ..Ctx::default() }),
        Err(error) => Reply::Error(error),
    }
}

/// Reply of `INCREX` with integers.
fn pair(new: i64, applied: i64) -> Reply {
    Reply::Array(vec![Reply::Int(new), Reply::Int(applied)])
}

fn err(text: &str) -> Reply {
    Reply::err(text.to_owned())
}

#[test]
fn laws() {
    check_laws::<Value>(&samples(), 2);
    check_words(&samples().into_iter().map(AnyOp::String).collect::<Vec<_>>());
}

#[test]
fn set_and_delex_compare_with_the_digest_of_the_old_value() {
    let digits = err("a digest must have exactly 16 hexadecimal digits");
    dialogue(&[
        ("digest k", Reply::Nil),
        ("set k test ifdeq 9ec9f7918d7dfc40", Reply::Nil),
        ("set k test ifdne 9ec9f7918d7dfc40", Reply::Ok),
        ("digest k", Reply::bulk("9ec9f7918d7dfc40")),
        ("set k hello ifdne 9ec9f7918d7dfc40 get", Reply::bulk("test")),
        ("set k hello ifdeq 9EC9F7918D7DFC40 ex 100", Reply::Ok),
        ("ttl k", Reply::Int(100)),
        ("set k x ifdeq 9ec9f7918d7dfc4", digits.clone()),
        ("delex k ifdne 9ec9f7918d7dfc4x", digits),
        ("set k x ifdeq", err("syntax error")),
        ("delex k ifdeq", err("syntax error")),
        ("set k x ifdeq 9ec9f7918d7dfc40 nx", err("syntax error")),
        ("set k x ifeq x ifdeq 9ec9f7918d7dfc40", err("syntax error")),
        ("delex k ifdne 9555e8555c62dcfd", Reply::Int(0)),
        ("delex k ifdeq 9555e8555c62dcfd", Reply::Int(1)),
        ("delex k ifdne 9555e8555c62dcfd", Reply::Int(0)),
        ("set k 7", Reply::Ok),
        ("delex k ifdne 9555e8555c62dcfd", Reply::Int(1)),
        ("rpush k a", Reply::Int(1)),
        ("digest k", Reply::Error(ErrorReply::wrong_type())),
        ("set k a ifdne 9555e8555c62dcfd", Reply::Error(ErrorReply::wrong_type())),
    ]);
}

#[test]
fn set_and_delex_compare_with_the_old_value() {
    dialogue(&[
        ("set k b ifeq a", Reply::Nil),
        ("exists k", Reply::Int(0)),
        ("set k a ifne b", Reply::Ok),
        ("set k b ifne a", Reply::Nil),
        ("set k b ifeq a ex 100", Reply::Ok),
        ("ttl k", Reply::Int(100)),
        ("set k c ifeq a get", Reply::bulk("b")),
        ("set k c ifeq b get keepttl", Reply::bulk("b")),
        ("ttl k", Reply::Int(100)),
        ("set k d ifeq c nx", err("syntax error")),
        ("set k d xx ifne c", err("syntax error")),
        ("set k d ifeq c ifeq c", err("syntax error")),
        ("set k d ifeq", err("syntax error")),
        ("delifeq k b", Reply::Int(0)),
        ("delex k ifne c", Reply::Int(0)),
        ("delex k ifeq", err("syntax error")),
        ("delex k ifeq c", Reply::Int(1)),
        ("delex k ifne c", Reply::Int(0)),
        ("set k 7", Reply::Ok),
        ("delex k ifeq 07", Reply::Int(0)),
        ("delifeq k 7", Reply::Int(1)),
        ("delex k", Reply::Int(0)),
        ("rpush k a", Reply::Int(1)),
        ("set k a ifeq a", Reply::Error(ErrorReply::wrong_type())),
        ("set k a ifne a", Reply::Error(ErrorReply::wrong_type())),
        ("delifeq k a", Reply::Error(ErrorReply::wrong_type())),
        ("delex k", Reply::Int(1)),
    ]);
}

#[test]
fn increx_adds_within_bounds() {
    let (max, min) = (i64::MAX, i64::MIN);
    dialogue(&[
        ("increx k", pair(1, 1)),
        ("increx k byint -10", pair(-9, -10)),
        ("increx k byint 0", pair(-9, 0)),
        ("increx k byint 20 ubound 10", pair(-9, 0)),
        ("increx k saturate ubound 10 byint 20", pair(10, 19)),
        ("increx k byint -11 lbound 0", pair(10, 0)),
        ("increx k byint -11 lbound 0 saturate", pair(0, -10)),
        ("set k 10000", Reply::Ok),
        ("increx k byint -500 ubound 200", pair(10000, 0)),
        ("increx k byint -500 ubound 200 saturate", pair(200, -9800)),
        ("set k 9223372036854775800", Reply::Ok),
        ("increx k byint 9223372036854775800", pair(max - 7, 0)),
        ("increx k byint 9223372036854775800 saturate", pair(max, 7)),
        ("set k -9223372036854775808", Reply::Ok),
        ("increx k byint -1", pair(min, 0)),
        ("increx k lbound 9223372036854775807 saturate", err("applied increment would overflow")),
        ("get k", Reply::bulk("-9223372036854775808")),
        ("del k", Reply::Int(1)),
        ("increx k byint 15 ubound 10", pair(0, 0)),
        ("exists k", Reply::Int(0)),
        ("increx k byint 15 ubound 10 saturate", pair(10, 10)),
        ("del k", Reply::Int(1)),
        ("rpush k a", Reply::Int(1)),
        ("increx k", Reply::Error(ErrorReply::wrong_type())),
        ("set k hello", Reply::Ok),
        ("increx k", Reply::Error(ErrorReply::not_integer())),
        ("increx k byfloat 1", err("value is not a valid float")),
    ]);
}

#[test]
fn increx_adds_decimal_numbers_exactly() {
    let floats = |new, applied| Reply::Array(vec![Reply::Double(new), Reply::Double(applied)]);
    dialogue(&[
        ("increx k byfloat 0.1", floats(0.1, 0.1)),
        ("increx k byfloat 0.2", floats(0.3, 0.2)),
        ("get k", Reply::bulk("0.3")),
        ("increx k byfloat 100 ubound 42.5", floats(0.3, 0.0)),
        ("increx k byfloat 100 ubound 42.5 saturate", floats(42.5, 42.2)),
        ("increx k byfloat -1e3 lbound -5.5 saturate", floats(-5.5, -48.0)),
        ("increx k byfloat inf", err("value or increment would produce NaN or Infinity")),
        ("set k 1.7e308", Reply::Ok),
        ("increx k byfloat 1.7e308", floats(1.7e308, 0.0)),
        ("increx k byfloat 1.7e308 ubound 1e308", floats(1.7e308, 0.0)),
        ("set k inf", Reply::Ok),
        ("increx k byfloat 1", err("value or increment would produce NaN or Infinity")),
        ("increx k byfloat x", err("value is not a valid float")),
        ("increx k byfloat 1 lbound x", err("value is not a valid float")),
        ("increx k byfloat 0.5 lbound 10.5 ubound 1.5", err("LBOUND can't be greater than UBOUND")),
    ]);
}

#[test]
fn increx_sets_an_expiry_only_when_it_adds() {
    dialogue(&[
        ("increx k ex 100", pair(1, 1)),
        ("ttl k", Reply::Int(100)),
        ("increx k", pair(2, 1)),
        ("ttl k", Reply::Int(100)),
        ("increx k ex 7 enx", pair(3, 1)),
        ("ttl k", Reply::Int(100)),
        ("increx k byint 9 ubound 5 ex 7", pair(3, 0)),
        ("increx k byint 9 ubound 5 persist", pair(3, 0)),
        ("ttl k", Reply::Int(100)),
        ("increx k persist", pair(4, 1)),
        ("ttl k", Reply::Int(-1)),
        ("increx k px 9000 enx", pair(5, 1)),
        ("ttl k", Reply::Int(9)),
        ("increx k exat 1 enx", pair(6, 1)),
        ("increx k exat 1", pair(7, 1)),
        ("exists k", Reply::Int(0)),
        ("increx k enx", err("ENX flag requires an expiration")),
        ("increx k persist enx", err("syntax error")),
        ("increx k ex 1 px 1", err("syntax error")),
        ("increx k ex 1 persist", err("syntax error")),
        ("increx k byint 1 byfloat 1", err("syntax error")),
        ("increx k byint", err("syntax error")),
        ("increx k lbound 1 lbound 2", err("syntax error")),
        ("increx k nx", err("syntax error")),
        ("increx k ex 0", err("invalid expire time in 'increx' command")),
        ("increx k byint 1.5", Reply::Error(ErrorReply::not_integer())),
        ("increx k lbound 10 ubound 5", err("LBOUND can't be greater than UBOUND")),
        ("exists k", Reply::Int(0)),
    ]);
}

#[test]
fn set_obeys_its_conditions() {
    dialogue(&[
        ("set k a xx", Reply::Nil),
        ("set k a nx", Reply::Ok),
        ("set k b nx", Reply::Nil),
        ("set k b nx get", Reply::bulk("a")),
        ("setnx k b", Reply::Int(0)),
        ("getset k c", Reply::bulk("a")),
        ("set k d px 500", Reply::Ok),
        ("pexpiretime k", Reply::Int(1500)),
        ("set k e keepttl", Reply::Ok),
        ("pexpiretime k", Reply::Int(1500)),
        ("set k e", Reply::Ok),
        ("pexpiretime k", Reply::Int(-1)),
        ("getex k pxat 900", Reply::bulk("e")),
        ("exists k", Reply::Int(0)),
        ("set k e pxat 900", Reply::Ok),
        ("get k", Reply::Nil),
        ("set k e nx xx", err("syntax error")),
        ("set k e ex 1 keepttl", err("syntax error")),
        ("set k e ex 0", err("invalid expire time in 'set' command")),
        ("setex k -1 e", err("invalid expire time in 'setex' command")),
        ("set k e ex x", err("value is not an integer or out of range")),
        ("getdel k", Reply::Nil),
    ]);
}

#[test]
fn set_replaces_other_types_unless_asked_not_to() {
    let mut slot = None;
    run(&mut slot, "sadd k m");
    assert_eq!(run(&mut slot, "setnx k v"), Reply::Int(0));
    assert_eq!(run(&mut slot, "set k v nx"), Reply::Nil);
    assert_eq!(run(&mut slot, "getset k v"), Reply::Error(ErrorReply::wrong_type()));
    assert_eq!(run(&mut slot, "incr k"), Reply::Error(ErrorReply::wrong_type()));
    assert_eq!(run(&mut slot, "scard k"), Reply::Int(1));
    assert_eq!(run(&mut slot, "set k v xx"), Reply::Ok);
    assert_eq!(run(&mut slot, "get k"), Reply::bulk("v"));
}

#[test]
fn increments_stop_at_the_ends_and_at_other_texts() {
    dialogue(&[
        ("incrby k 9223372036854775806", Reply::Int(i64::MAX - 1)),
        ("incr k", Reply::Int(i64::MAX)),
        ("incr k", err("increment or decrement would overflow")),
        ("decrby k -9223372036854775808", err("decrement would overflow")),
        ("strlen k", Reply::Int(19)),
        ("set k 01", Reply::Ok),
        ("incr k", err("value is not an integer or out of range")),
        ("incrbyfloat k 0.2", Reply::bulk("1.2")),
        ("incrbyfloat k -0.2", Reply::bulk("1")),
        ("incr k", Reply::Int(2)),
        ("incrbyfloat k inf", err("increment would produce NaN or Infinity")),
        ("set k x", Reply::Ok),
        ("incrbyfloat k 1", err("value is not a valid float")),
    ]);
}

#[test]
fn ranges_and_bits_count_from_both_ends() {
    dialogue(&[
        ("set k 123456", Reply::Ok),
        ("getrange k 0 -1", Reply::bulk("123456")),
        ("getrange k -3 -2", Reply::bulk("45")),
        ("getrange k 4 99", Reply::bulk("56")),
        ("getrange k 4 2", Reply::bulk("")),
        ("getrange k -1 -3", Reply::bulk("")),
        ("substr k 0 -1", Reply::bulk("123456")),
        ("setrange k 8 9", Reply::Int(9)),
        ("getrange k 5 8", Reply::bulk(b"6\0\09")),
        ("setrange k -1 x", err("offset is out of range")),
        ("setrange k 8388608 x", Reply::Error(too_long())),
        ("set k foobar", Reply::Ok),
        ("bitcount k", Reply::Int(26)),
        ("bitcount k 1 1", Reply::Int(6)),
        ("bitcount k 5 30 bit", Reply::Int(17)),
        ("bitcount k -2 -1", Reply::Int(7)),
        ("bitcount k 0", err("syntax error")),
        ("setbit k 7 1", Reply::Int(0)),
        ("get k", Reply::bulk("goobar")),
        ("getbit k 7", Reply::Int(1)),
        ("getbit k 4000000000", Reply::Int(0)),
        ("setbit k 67108864 1", err("bit offset is not an integer or out of range")),
        ("setbit k 1 2", err("bit is not an integer or out of range")),
    ]);
}

#[test]
fn a_range_or_an_end_without_bytes_creates_nothing_but_an_empty_append_does() {
    dialogue(&[
        ("setrange k 5 ", Reply::Int(0)),
        ("exists k", Reply::Int(0)),
        ("append k ", Reply::Int(0)),
        ("exists k", Reply::Int(1)),
        ("get k", Reply::bulk("")),
        ("append k 12", Reply::Int(2)),
        ("incr k", Reply::Int(13)),
    ]);
}

#[test]
fn growth_is_bounded() {
    let mut value = Value::new(Blob::from(vec![b'x'; VALUE_BYTES_MAX]));
    let before = value.clone();
    let reply = value.apply(&Op::Append("y".into()), &Ctx::default(), &mut Meta::default());
    assert_eq!(reply, Reply::Error(too_long()));
    assert_eq!(value, before);
}

#[test]
fn several_keys_are_read_and_written_at_once() {
    let parse = |line: &str| {
        let words = ArgBuf::of(line.split(' '));
        let spec = crate::record::command(words.args().get(0).unwrap()).unwrap();
        let crate::Handler::Data(parse) = spec.handler else { panic!("not a data command") };
        parse(&words.args())
    };
    assert!(parse("mset a 1 b").is_err());
    let Ok(Command::Multi { merge, .. }) = parse("mget a b") else { panic!("not several") };
    assert!(matches!(merge, Merge::Array));
    let replies = vec![Reply::bulk("1"), Reply::Error(ErrorReply::wrong_type())];
    assert_eq!(merge.apply(replies), Reply::Array(vec![Reply::bulk("1"), Reply::Nil]));
    let Ok(Command::Compound(msetnx)) = parse("msetnx a 1 b 2") else { panic!("no compound") };
    assert_eq!(msetnx.plan(&[Reply::Int(0), Reply::Int(0)]).unwrap().writes.len(), 2);
    assert_eq!(msetnx.plan(&[Reply::Int(0), Reply::Int(1)]).unwrap().reply, Reply::Int(0));
}

#[test]
fn a_read_of_an_integer_gives_its_digits() {
    let record = Record::new(AnyValue::String(Value::new("-42".into())));
    assert_eq!(record.value, AnyValue::String(Value::Int(-42)));
    let reply = query(Some(&record), &AnyOp::String(Op::Get), &Ctx::default());
    assert_eq!(reply, Reply::bulk("-42"));
}

#[test]
fn replies_are_known_ahead() {
    let known = [
        "append k ?",
        "append k ",
        "setrange k % ?",
        "setrange k 90 ",
        "setbit k %% 1",
        "setbit k %%%% 0",
        "set k ? get",
        "getset k ?",
        "set k # nx",
        "set k ? xx px %%",
        "set k # ifeq ?",
        "setnx k ?",
        "incrby k #",
        "incrby k 9223372036854775807",
        "increx k byint # lbound # ubound 9",
        "getdel k",
        "getex k px %",
        "delex k ifeq ?",
        "setex k 9 ?",
    ];
    let others = [
        "incrbyfloat k #.5",
        "increx k byfloat #.5 ubound 5",
        "bitfield k set u4 % # incrby i8 #% #",
        "set k # ifdeq 0123456789abcdef",
        "del k",
    ];
    check_walks("append k ?", &known, &others);
}

#[test]
fn a_string_that_would_be_too_long_is_known_ahead() {
    let most = Blob::from(vec![b'x'; VALUE_BYTES_MAX]);
    let record = Record::new(AnyValue::String(Value::new(most)));
    for bytes in ["", "x"] {
        let op = AnyOp::String(Op::Append(bytes.into()));
        crate::laws::foretold::check(Some(&record), &op, &Ctx::default());
    }
}
