//! Tests of streams: laws, identifiers, trimming, words.

use super::*;
use crate::{Args, Command, Handler, Timestamp, laws};

fn ops(line: &str) -> Vec<Op> {
    let words = ArgBuf::of(line.split(' '));
    let (_, op) = crate::record::decode(&words.args()).unwrap_or_else(|e| panic!("{line}: {e}"));
    let AnyOp::Stream(op) = op else { panic!("of a stream") };
    vec![op]
}

fn samples(lines: &[&str]) -> Vec<Op> {
    lines.iter().flat_map(|line| ops(line)).collect()
}

#[test]
fn laws_hold_for_entries() {
    let lines = [
        "xadd k * a 1",
        "xadd k * b 2",
        "xadd k nomkstream * a 1",
        "xadd k maxlen = 1 * a 1",
        "xadd k 1-1 a 1",
        "xadd k 0-* a 1",
        "stream.next k",
        "stream.last k",
        "xlen k",
        "xrange k - +",
        "xdel k 1-1 0-1",
        "xdelex k ids 2 1-1 0-1",
        "xdelex k acked ids 1 1-1",
        "xtrim k maxlen 1",
        "xtrim k minid ~ 5 limit 0",
        "xtrim k maxlen = 1 acked",
        "xsetid k 7-7",
        "stream.read k 0-1 1",
        "stream.read k $ 0",
        "stream.read k + 0",
    ];
    laws::check_laws::<Value>(&samples(&lines), 2);
}

#[test]
fn laws_hold_for_groups() {
    let lines = [
        "xadd k * a 1",
        "xadd k 1-1 a 1",
        "xgroup create k g 0 mkstream",
        "xgroup create k h $",
        "stream.group setid k g 0-1 entriesread 3",
        "xgroup destroy k g",
        "stream.group createconsumer k g ann",
        "stream.group delconsumer k g ann",
        "stream.deliver k g ann > 0",
        "stream.deliver k g ben > 1 noack",
        "stream.deliver k g ann 0-0 0",
        "stream.peek k g ann > 0",
        "xack k g 1-1",
        "xack k g 0-1 1-1",
        "xack k h 1-1",
        "xackdel k g ids 2 1-1 0-1",
        "xackdel k h acked ids 1 1-1",
        "xdelex k delref ids 1 1-1",
        "xadd k delref maxlen 1 * a 1",
        "xtrim k minid ~ 2-0 delref",
        "xtrim k maxlen 0 acked",
        "stream.pending k g",
        "stream.pending k g idle 5 - + 10 ann",
        "stream.claim k g ben 0 1-1 force",
        "stream.claim k g ben 5 1-1 justid retrycount 7 idle 3 lastid 2-2",
        "stream.claim k g ben 5 1-1 time 5",
        "stream.autoclaim k g ben 0 - count 3",
        "xinfo stream k",
        "xinfo stream k full count 2",
        "xinfo groups k",
        "stream.info consumers k g",
    ];
    laws::check_laws::<Value>(&samples(&lines), 3);
}

/// Applies at a given microsecond.
fn run(value: &mut Value, at: u64, line: &str) -> Reply {
    let ctx = Ctx { ts: Timestamp::from_micros(at), now_ms: at / 1000, ..Ctx::default() };
    let mut meta = Meta { present: value.made, ..Meta::default() };
    value.apply(&ops(line)[0], &ctx, &mut meta)
}

fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Array(parts) => parts.iter().map(shown).collect::<Vec<_>>().join(" "),
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn entries_stand_in_the_order_of_their_timestamps_whatever_the_order_of_adds() {
    let mut one = Value::default();
    let mut other = Value::default();
    for at in [7000, 5000, 5000, 9000, 8000] {
        run(&mut one, at, "xadd k * at 1");
    }
    for at in [5000, 5000, 7000, 8000, 9000] {
        run(&mut other, at, "xadd k * at 1");
    }
    assert_eq!(one, other);
    let ids = shown(&run(&mut one, 0, "xrange k - +"));
    assert_eq!(ids, "5-0 at 1 5-1 at 1 7-0 at 1 8-0 at 1 9-0 at 1");
    assert_eq!(run(&mut one, 9000, "xadd k * a 1"), Reply::bulk("9-1"));
    assert_eq!(run(&mut one, 9001, "xadd k * a 1"), Reply::bulk("9-2147483648"));
}

#[test]
fn an_explicit_id_ahead_of_the_time_is_counted_on_from() {
    let mut value = Value::default();
    assert_eq!(run(&mut value, 5000, "xadd k 9-4 a 1"), Reply::bulk("9-4"));
    assert_eq!(run(&mut value, 6000, "xadd k * a 1"), Reply::bulk("9-5"));
    let add = &ops("xadd k * a 1")[0];
    let access = Access { op: add, observed: true };
    assert!(!value.commutes(access, access), "their ids are counted");
    assert_eq!(run(&mut value, 10_000, "xadd k * a 1"), Reply::bulk("10-0"));
    assert!(value.commutes(access, access), "time has caught up");
    let max = "18446744073709551615-18446744073709551615";
    run(&mut value, 10_000, &format!("xadd k {max} a 1"));
    assert!(run(&mut value, 10_000, "xadd k * a 1").is_error());
    assert!(value.query(&Box::new(Task::Next), &Ctx::default()).is_error());
}

#[test]
fn an_id_chosen_first_is_that_of_the_add() {
    let op = &ops("xadd k maxlen = 5 * a 1")[0];
    let key = Blob::from("k");
    let compound = Value::chosen_first(&key, op).expect("a choice");
    let ctx = Ctx { ts: Timestamp::from_micros(5000), ..Ctx::default() };
    let mut slot = None;
    let replies: Vec<Reply> = compound
        .reads
        .iter()
        .map(|(_, op)| crate::record::query(slot.as_ref(), op, &ctx))
        .collect();
    let plan = compound.plan(&replies).expect("one step");
    assert_eq!(plan.reply, Reply::bulk("5-0"));
    let later = Ctx { ts: Timestamp::from_micros(7000), ..ctx };
    let [(_, write)] = &plan.writes[..] else { panic!("one write") };
    assert_eq!(crate::record::apply(&mut slot, write, &later), plan.reply);
    let ahead = |slot: &Option<crate::Record>| match slot.as_ref().map(|record| &record.value) {
        Some(crate::Value::Stream(value)) => value.ahead,
        _ => panic!("a stream"),
    };
    assert_eq!(ahead(&slot), Some(Id { ms: 5, seq: 0 }), "whether it is ahead is seen later");
    let add = crate::Op::Stream(ops("xadd k * a 1")[0].clone());
    assert_eq!(crate::record::apply(&mut slot, &add, &later), Reply::bulk("7-0"));
    assert_eq!(ahead(&slot), None);
}

#[test]
fn trimming_roughly_removes_whole_hundreds() {
    let mut value = Value::default();
    for at in 1..=1050 {
        run(&mut value, at * 1000, "xadd k * a 1");
    }
    assert_eq!(run(&mut value, 0, "xtrim k maxlen ~ 1000"), Reply::Int(0));
    assert_eq!(run(&mut value, 0, "xtrim k maxlen ~ 900"), Reply::Int(100));
    assert_eq!(run(&mut value, 0, "xtrim k minid ~ 550 limit 250"), Reply::Int(200));
    assert_eq!(run(&mut value, 0, "xtrim k minid 350"), Reply::Int(49));
    assert_eq!(run(&mut value, 0, "xlen k"), Reply::Int(701));
    assert_eq!(run(&mut value, 0, "xtrim k maxlen ~ 0"), Reply::Int(701));
}

#[test]
fn words_are_refused_as_redis_refuses_them() {
    let refused = |line: &str| {
        let words = ArgBuf::of(line.split(' '));
        let args: Args<'_> = words.args();
        let spec = table::COMMANDS.iter().find(|spec| spec.name == line.split(' ').next().unwrap());
        let Handler::Data(parse) = spec.expect("a command").handler else { panic!("of data") };
        match parse(&args) {
            Err(error) => error.to_string(),
            Ok(Command::Single(..)) => "one".to_owned(),
            Ok(_) => "several".to_owned(),
        }
    };
    for (line, answer) in [
        ("xadd k 0-0 a 1", "ERR The ID specified in XADD must be greater than 0-0"),
        ("xadd k * a", "ERR wrong number of arguments for 'xadd' command"),
        ("xadd k x a 1", "ERR Invalid stream ID specified as stream command argument"),
        ("xadd k maxlen -1 * a 1", "ERR The MAXLEN argument must be >= 0."),
        ("xadd k maxlen 1 * a 1", "one"),
        (
            "xtrim k maxlen 1 limit 5",
            "ERR syntax error, LIMIT cannot be used without the special ~ option",
        ),
        (
            "xread streams a b 0",
            "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
        ),
        ("xread streams a b 0 0", "several"),
        (
            "xrange k (18446744073709551615-18446744073709551615 +",
            "ERR invalid start ID for the interval",
        ),
        ("xclaim k g c x 1-1", "ERR Invalid min-idle-time argument for XCLAIM"),
        ("xclaim k g c 1 1-1 when", "ERR Unrecognized XCLAIM option 'when'"),
    ] {
        assert_eq!(refused(line), answer, "{line}");
    }
}

#[test]
fn entries_are_removed_with_their_deliveries_or_once_all_groups_have_them() {
    let mut value = Value::default();
    let mut reply = |line: &str| match run(&mut value, 9000, line) {
        Reply::Array(states) => format!("{states:?}"),
        other => shown(&other),
    };
    let states =
        |of: &[i64]| format!("{:?}", of.iter().map(|n| Reply::Int(*n)).collect::<Vec<_>>());
    for id in ["1-1", "1-2", "1-3", "1-4"] {
        reply(&format!("xadd k {id} a 1"));
    }
    reply("xgroup create k g 0");
    reply("xgroup create k h 0");
    reply("stream.deliver k g ann > 3");
    reply("stream.deliver k h ben > 1");
    // The group h has not got 1-2, and has not acknowledged 1-1.
    assert_eq!(reply("xackdel k g acked ids 3 1-1 1-2 1-4"), states(&[2, 2, -1]));
    assert_eq!(reply("xack k g 1-1 1-2"), "Int(0)");
    assert_eq!(reply("xdelex k acked ids 1 1-1"), states(&[2]));
    assert_eq!(reply("xackdel k h acked ids 2 1-1 1-1"), states(&[1, -1]));
    // Deliveries stay unless they are named.
    assert_eq!(reply("xdelex k ids 2 1-3 7-7"), states(&[1, -1]));
    assert_eq!(reply("xack k g 1-3"), "Int(1)");
    reply("stream.deliver k h ben > 1");
    reply("stream.deliver k g ann > 1");
    assert_eq!(reply("xdelex k delref ids 2 1-4 1-2"), states(&[1, 1]));
    assert_eq!(reply("xack k g 1-4"), "Int(0)");
    assert_eq!(reply("xack k h 1-2"), "Int(0)");
    assert_eq!(reply("xlen k"), "Int(0)");
    assert_eq!(reply("xackdel k none ids 1 1-1"), states(&[-1]));
}

/// A stream with the entries 1-1 to 1-6. The group g has got five of them and acknowledged 1-1, 1-3 and 1-4,
/// the group h has got and acknowledged the first four.
fn shared() -> Value {
    let mut value = Value::default();
    for seq in 1..=6 {
        run(&mut value, 9000, &format!("xadd k 1-{seq} a {seq}"));
    }
    for line in [
        "xgroup create k g 0",
        "xgroup create k h 0",
        "stream.deliver k g ann > 5",
        "stream.deliver k h ben > 4",
        "xack k g 1-1 1-3 1-4",
        "xack k h 1-1 1-2 1-3 1-4",
    ] {
        run(&mut value, 9000, line);
    }
    value
}

#[test]
fn trimming_treats_pending_deliveries_as_it_is_told() {
    for (line, removed, left, pending) in [
        ("xtrim k maxlen 3", 3, "1-4 1-5 1-6", "1-2 1-5"),
        ("xtrim k maxlen 3 keepref", 3, "1-4 1-5 1-6", "1-2 1-5"),
        ("xtrim k maxlen 3 delref", 3, "1-4 1-5 1-6", "1-5"),
        ("xtrim k minid 1-6 delref", 5, "1-6", ""),
        // Not 1-2, which is pending, nor 1-5 and 1-6, which h has not got.
        ("xtrim k maxlen 3 acked", 3, "1-2 1-5 1-6", "1-2 1-5"),
        ("xtrim k maxlen 0 acked", 3, "1-2 1-5 1-6", "1-2 1-5"),
        ("xtrim k maxlen 5 acked", 1, "1-2 1-3 1-4 1-5 1-6", "1-2 1-5"),
        ("xtrim k acked minid 1-4", 2, "1-2 1-4 1-5 1-6", "1-2 1-5"),
        ("xtrim k minid 0 acked", 0, "1-1 1-2 1-3 1-4 1-5 1-6", "1-2 1-5"),
        ("xtrim k maxlen 9 delref", 0, "1-1 1-2 1-3 1-4 1-5 1-6", "1-2 1-5"),
    ] {
        let mut value = shared();
        assert_eq!(run(&mut value, 9000, line), Reply::Int(removed), "{line}");
        let ids = |ids: Vec<Id>| {
            let ids = ids.iter().map(|id| String::from_utf8_lossy(&id.blob()).into_owned());
            ids.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ids(value.entries.iter().map(|entry| entry.id).collect()), left, "{line}");
        let of_g = value.groups[&Blob::from("g")].pending().keys().copied().collect();
        assert_eq!(ids(of_g), pending, "{line}");
    }
    // A new entry is not removed by the trimming that comes with it, since no group has got it.
    let mut value = shared();
    run(&mut value, 9000, "xadd k acked maxlen 0 1-7 a 7");
    assert_eq!(run(&mut value, 9000, "xlen k"), Reply::Int(4));
    // Without groups all is acknowledged.
    for group in ["g", "h"] {
        run(&mut value, 9000, &format!("xgroup destroy k {group}"));
    }
    assert_eq!(run(&mut value, 9000, "xtrim k maxlen 0 acked"), Reply::Int(4));
}

#[test]
fn an_entry_that_stays_is_untouched_unless_it_was_acknowledged() {
    let mut value = Value::default();
    run(&mut value, 9000, "xadd k 1-1 a 1");
    run(&mut value, 9000, "xgroup create k g 0");
    run(&mut value, 9000, "xgroup create k h 0");
    run(&mut value, 9000, "stream.deliver k g ann > 1");
    let mut untouched = |line: &str| {
        let mut meta = Meta { present: true, ..Meta::default() };
        value.apply(&ops(line)[0], &Ctx::default(), &mut meta);
        meta.untouched
    };
    assert!(untouched("xdelex k acked ids 1 1-1"));
    assert!(!untouched("xackdel k g acked ids 1 1-1"));
    assert!(untouched("xackdel k g acked ids 1 1-1"));
    assert!(!untouched("xdelex k ids 1 1-1"));
}

#[test]
fn lists_of_ids_are_as_long_as_they_say() {
    let error = |line: &str| match crate::record::decode(&ArgBuf::of(line.split(' ')).args()) {
        Err(error) => error.text().to_owned(),
        Ok(_) => panic!("{line} is in order"),
    };
    let length = "The `numids` parameter must match the number of arguments";
    assert_eq!(error("xdelex k ids 2 1-1"), length);
    assert_eq!(error("xackdel k g ids 1 1-1 1-2"), length);
    for line in ["xdelex k ids 0 1-1", "xdelex k ids -1 1-1", "xackdel k g ids x 1-1"] {
        assert_eq!(error(line), "Number of IDs must be a positive integer");
    }
    for line in [
        "xtrim k maxlen 1 acked keepref",
        "xdelex k acked delref ids 1 1-1",
        "xdelex k 1-1 1-2 1-3",
        "xdelex k keepref acked ids",
    ] {
        assert_eq!(error(line), "syntax error");
    }
}
