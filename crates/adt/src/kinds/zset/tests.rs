//! Tests of the sorted set type.

use crate::kinds::zset::*;
use crate::laws::foretold::check_walks;
use crate::record::{apply, decode, query};
use crate::{Command, Op as AnyOp, Record, Timestamp, Value as AnyValue};

/// Operations over two members and a few scores.
fn samples() -> Vec<Op> {
    let mut words: Vec<&str> = "zadd k 1 a;zadd k 2 a;zadd k 1 b;zadd k 1 a 3 c;zadd k ch 2 a;\
        zadd k nx 3 a;zadd k xx 2 a;zadd k gt 2 a;zadd k xx gt 2 a;zadd k lt 2 a;\
        zadd k gt incr 1 a;zincrby k 1 a;zincrby k 0 a;zincrby k 0.5 a;zrem k a;zrem k b c;\
        zremrangebyscore k 2 +inf;zremrangebyrank k 0 0;zremrangebylex k [b +;zpopmin k;\
        zpopmax k 2;zset.take k max count 1"
        .split(';')
        .collect();
    words.extend(
        "zscore k a;zmscore k b c;zcard k;zcount k 2 (4;zlexcount k - (b;zrank k b;\
        zrevrank k b withscore;zrange k 0 0;zrange k 0 1 rev withscores;zrange k -1 -1;\
        zrangebyscore k -inf 1;zrange k + [b bylex rev limit 0 5;\
        zrange k (3 2 byscore rev limit 1 -1 withscores;zscan k 0 match a* count 5;\
        zrandmember k;zrandmember k -2 withscores"
            .split(';'),
    );
    words.into_iter().map(op).collect()
}

fn op(words: &str) -> Op {
    match decode(&ArgBuf::of(words.split_whitespace()).args()) {
        Ok((_, AnyOp::ZSet(op))) => op,
        other => panic!("{words}: {other:?}"),
    }
}

fn parse(words: &str) -> Result<Command, ErrorReply> {
    let words = ArgBuf::of(words.split_whitespace());
    let name = words.args().get(0).unwrap_or_default();
    let spec = crate::record::command(name).expect("a command");
    let crate::Handler::Data(parse) = spec.handler else { panic!("a data command") };
    parse(&words.args())
}

fn error(words: &str) -> String {
    match parse(words) {
        Err(error) => error.text().to_owned(),
        Ok(_) => panic!("{words} should be refused"),
    }
}

/// The replies of commands on one key, as text.
fn session(slot: &mut Option<Record>, lines: &[&str]) -> Vec<String> {
    let ctx = Ctx { ts: Timestamp(1), ..Ctx::default() };
    let run = |line: &&str| show(&apply(slot, &AnyOp::ZSet(op(line)), &ctx));
    lines.iter().map(run).collect()
}

fn show(reply: &Reply) -> String {
    let list = |parts: Vec<String>| format!("[{}]", parts.join(" "));
    match reply {
        Reply::Int(n) => n.to_string(),
        Reply::Double(n) => format_float(*n),
        Reply::Bulk(b) => String::from_utf8_lossy(b).into_owned(),
        Reply::Nil => "nil".to_owned(),
        Reply::NilArray => "nil*".to_owned(),
        Reply::Array(parts) => list(parts.iter().map(show).collect()),
        Reply::Scored(pairs) => list(
            pairs
                .iter()
                .map(|(m, s)| format!("{}={}", String::from_utf8_lossy(m), format_float(*s)))
                .collect(),
        ),
        Reply::Error(error) => error.text().to_owned(),
        other => format!("{other:?}"),
    }
}

/// Runs lines of the form `command -> reply`.
fn check(script: &str) {
    let mut slot = None;
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, expected) = line.split_once(" -> ").expect("a reply");
        assert_eq!(session(&mut slot, &[command]), [expected], "{line}");
    }
}

#[test]
fn laws_hold() {
    crate::laws::check_laws::<Value>(&samples(), 2);
}

#[test]
fn zadd_conditions_and_counts() {
    check(
        "zadd k xx 1 a -> 0
        zadd k 1 a 2 b 3 a -> 2
        zscore k a -> 3
        zadd k nx 9 a 4 c -> 1
        zadd k xx ch 5 a 6 d -> 1
        zadd k gt ch 4 a 5 b 7 e -> 2
        zadd k lt 4 a -> 0
        zadd k ch lt 9 a 4 a -> 0
        zrange k 0 -1 withscores -> [a=4 c=4 b=5 e=7]
        zadd k nx incr 1 a -> nil
        zadd k gt incr -1 a -> nil
        zadd k xx incr 2.5 a -> 6.5
        zincrby k -0.5 z -> -0.5
        zadd k inf i -> 1
        zincrby k -inf i -> resulting score is not a number (NaN)
        zscore k i -> inf
        zrem k i z q -> 2",
    );
}

#[test]
fn ranges_by_rank_score_and_bytes() {
    check(
        "zadd k 1 a 2 b 3 c 4 d -> 4
        zrange k 1 2 -> [b c]
        zrange k -2 -1 rev -> [b a]
        zrevrange k 0 1 withscores -> [d=4 c=3]
        zrange k 5 9 -> []
        zrange k 3 -9 -> []
        zrangebyscore k (1 3 -> [b c]
        zrangebyscore k -inf +inf limit 1 2 -> [b c]
        zrangebyscore k -inf +inf limit -1 2 -> []
        zrangebyscore k 1 4 limit 2 -1 withscores -> [c=3 d=4]
        zrevrangebyscore k +inf (2 limit 1 5 -> [c]
        zrange k 3 1 byscore rev limit 0 2 -> [c b]
        zrange k 3 1 byscore -> []
        zcount k (1 (4 -> 2
        zrank k c -> 2
        zrevrank k c withscore -> [1 3]
        zrank k q -> nil
        zrank k q withscore -> nil*
        zmscore k a q -> [1 nil]
        zremrangebyrank k -1 -1 -> 1
        zremrangebyscore k 2 2 -> 1
        zrange k 0 -1 -> [a c]",
    );
    check(
        "zadd k 0 a 0 b 0 c 0 d -> 4
        zrangebylex k [b (d -> [b c]
        zrevrangebylex k + - limit 1 2 -> [c b]
        zlexcount k (a + -> 3
        zremrangebylex k - [b -> 2
        zadd k 5 b -> 1
        zrange k + - bylex rev -> [b d c]
        zlexcount k - (d -> 2",
    );
}

#[test]
fn pops() {
    check(
        "zpopmin k -> []
        zset.take k min -> nil
        zadd k 1 a 2 b 3 c 4 d -> 4
        zpopmin k -> [a 1]
        zpopmax k 0 -> []
        zpopmax k 2 -> [d=4 c=3]
        zset.take k max count 5 -> [b=2]
        zcard k -> 0",
    );
}

#[test]
fn wrong_words_are_refused_as_redis_does() {
    for (words, text) in [
        ("zadd k nx xx 1 a", "XX and NX options at the same time are not compatible"),
        ("zadd k nx gt 1 a", "GT, LT, and/or NX options at the same time are not compatible"),
        ("zadd k incr 1 a 2 b", "INCR option supports a single increment-element pair"),
        ("zadd k 1 a 2", "syntax error"),
        ("zadd k nan a", "value is not a valid float"),
        ("zincrby k nan a", "value is not a valid float"),
        ("zcount k a 1", "min or max is not a float"),
        ("zlexcount k a b", "min or max not valid string range item"),
        (
            "zrange k 0 1 limit 0 1",
            "syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ),
        (
            "zrange k - + bylex withscores",
            "syntax error, WITHSCORES not supported in combination with BYLEX",
        ),
        ("zpopmin k -1", "value is out of range, must be positive"),
        ("zunion 0 k", "at least 1 input key is needed for 'zunion' command"),
        ("zunion 3 k l", "syntax error"),
        ("zunion 1 k weights x", "weight value is not a float"),
        ("zdiff 1 k weights 1", "syntax error"),
        ("zmpop 0 k min", "numkeys should be greater than 0"),
        ("zmpop 1 k min count 0", "count should be greater than 0"),
        ("zintercard 1 k limit -1", "LIMIT can't be negative"),
        ("bzpopmin k -1", "timeout is negative"),
        ("bzpopmin k x", "timeout is not a float or out of range"),
    ] {
        assert_eq!(error(words), text, "{words}");
    }
}

/// Runs a command on several keys the way a coordinator does.
fn run_all(keys: &mut [(&str, Option<Record>)], words: &str) -> String {
    let ctx = Ctx::default();
    let find = |keys: &[(&str, Option<Record>)], key: &Blob| {
        keys.iter().position(|(name, _)| name.as_bytes() == key.as_slice()).expect("a known key")
    };
    let read = |keys: &[(&str, Option<Record>)], (key, op): &(Blob, AnyOp)| {
        query(keys[find(keys, key)].1.as_ref(), op, &ctx)
    };
    match parse(words).expect("a valid command") {
        Command::Multi { ops, merge } => {
            show(&merge.apply(ops.iter().map(|op| read(keys, op)).collect()))
        }
        Command::Compound(compound) => {
            let replies: Vec<Reply> = compound.reads.iter().map(|op| read(keys, op)).collect();
            let plan = compound.plan(&replies).expect("one step");
            for (key, op) in &plan.writes {
                let at = find(keys, key);
                apply(&mut keys[at].1, op, &ctx);
            }
            show(&plan.reply)
        }
        _ => panic!("{words} is not on several keys"),
    }
}

#[test]
fn algebra_takes_sorted_sets_and_sets() {
    let mut slots = [None, None, None];
    for (slot, words) in slots.iter_mut().zip(["zadd k 1 a 2 b", "zadd k 10 b 20 c", "sadd k a b"])
    {
        let (_, op) = decode(&ArgBuf::of(words.split(' ')).args()).expect("a command");
        apply(slot, &op, &Ctx::default());
    }
    let [x, y, s] = slots;
    let mut keys = [("x", x), ("y", y), ("s", s), ("out", None)];
    for (words, reply) in [
        ("zunion 2 x y withscores", "[a=1 b=12 c=20]"),
        ("zunion 2 x y weights 2 -1 aggregate min withscores", "[c=-20 b=-10 a=2]"),
        ("zinter 3 x y s withscores", "[b=13]"),
        ("zinter 2 x out", "[]"),
        ("zdiff 2 x y", "[a]"),
        ("zdiff 2 s y withscores", "[a=1]"),
        ("zintercard 2 x s limit 1", "1"),
        ("zintercard 2 x s", "2"),
        ("zunionstore out 2 x y aggregate max", "3"),
        ("zrangestore out out 5 (20 byscore", "1"),
        ("zinterstore out 2 out y", "1"),
        ("zunion 1 out withscores", "[b=20]"),
        ("zmpop 2 out x max count 5", "[out [[b 20]]]"),
        ("zmpop 2 out x max", "[x [[b 2]]]"),
        ("zmpop 1 s max", "Operation against a key holding the wrong kind of value"),
        ("zdiffstore x 1 out", "0"),
        ("zmpop 2 out x min", "nil*"),
    ] {
        assert_eq!(run_all(&mut keys, words), reply, "{words}");
    }
    assert!(keys[0].1.is_none());
}

#[test]
fn blocking_pops_name_the_key() {
    for (words, reply) in [
        ("bzpopmin x y 0.5", "[x a 1]"),
        ("bzpopmax x y 0", "[x b 2]"),
        ("bzmpop 1 2 x y max count 2", "[x [[b 2] [a 1]]]"),
    ] {
        let Ok(Command::Blocking(blocking)) = parse(words) else { panic!("{words} blocks") };
        assert_eq!(blocking.attempts.len(), 2);
        assert_eq!(blocking.on_timeout, Reply::NilArray);
        let (key, crate::Attempt::Take { op, wrap }) = &blocking.attempts[0] else {
            panic!("{words} takes")
        };
        let mut slot = None;
        assert_eq!(apply(&mut slot, op, &Ctx::default()), Reply::Nil);
        session(&mut slot, &["zadd k 1 a 2 b"]);
        assert_eq!(show(&wrap(key, apply(&mut slot, op, &Ctx::default()))), reply);
    }
}

#[test]
fn random_members_and_scans() {
    let mut slot = None;
    session(&mut slot, &["zadd k 1 a 2 b 3 c", "zadd k -0 z", "zrem k z"]);
    let query = |words: &str| query(slot.as_ref(), &AnyOp::ZSet(op(words)), &Ctx::default());
    for (words, len) in [("zrandmember k 2", 2), ("zrandmember k 9", 3), ("zrandmember k -9", 9)] {
        assert!(matches!(query(words), Reply::Array(found) if found.len() == len), "{words}");
    }
    assert!(matches!(query("zrandmember k -4 withscores"), Reply::Scored(f) if f.len() == 4));
    assert_eq!(show(&query("zscan k 0 match b")), "[0 [b 2]]");
}

#[test]
fn a_saved_value_keeps_order_and_refuses_nan() {
    let value =
        Value::of([(Blob::from("x"), 2.0), (Blob::from("y"), -0.0), (Blob::from("z"), 1.0)]);
    let mut parts = ArgBuf::new();
    crate::Record::new(AnyValue::ZSet(value.clone().into())).value.save(&mut parts);
    let words: Vec<Vec<u8>> = parts.args().iter_from(0).map(<[u8]>::to_vec).collect();
    let put = |words: &[Vec<u8>]| {
        let mut all = ArgBuf::of(["record.put", "k", "copy_to", "zset", "-1"]);
        for word in words {
            all.push(word);
        }
        decode(&all.args()).map(|(_, op)| op)
    };
    let Ok(AnyOp::Key(crate::key::KeyOp::Put(record, _))) = put(&words) else { panic!("a record") };
    let AnyValue::ZSet(read) = record.value else { panic!("a sorted set") };
    assert_eq!(*read, value);
    assert_eq!(read.order.walk(0, false).map(|e| e.0).collect::<Vec<_>>(), [0.0, 1.0, 2.0]);
    let mut nan = words.clone();
    nan[2] = (f64::NAN.to_bits() as i64).to_string().into_bytes();
    assert!(put(&nan).is_err());
    assert!(put(&words[..3]).is_err());
}

#[test]
fn replies_are_known_ahead() {
    let known = [
        "zadd k # ?",
        "zadd k # ? # ? # ?",
        "zadd k ch # 4 # 4 # ?",
        "zadd k nx ch # ? # ?",
        "zadd k xx # ? # ?",
        "zadd k gt ch # ? # 4 # 4",
        "zadd k xx lt ch # ? # ?",
        "zadd k lt # ?",
        "zadd k nx incr # ?",
        "zadd k xx incr # ?",
        "zadd k gt incr # ?",
        "zincrby k #.5 ?",
        "zincrby k inf 4",
        "zincrby k -inf 4",
        "zadd k -inf ?",
        "zrem k ?",
        "zrem k 4 ? 4 ?",
        "zpopmin k",
        "zpopmax k",
        "zpopmin k %",
        "zpopmax k %",
        "zset.take k min count %",
        "zset.take k max count %",
        "zremrangebyscore k # (#",
        "zremrangebyrank k # #",
    ];
    check_walks("zadd k # ?", &known, &["zremrangebylex k [4 [7", "del k"]);
    check_walks("zadd k 1 ?", &["zremrangebylex k [5 (6"], &[]);
}
