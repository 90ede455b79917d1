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
fn laws_hold_for_entries_that_are_added_once() {
    let lines = [
        "xadd k * a 1",
        "xadd k idmp ann one * a 1",
        "xadd k idmp ann two * a 1",
        "xadd k idmp ben one * a 1",
        "xadd k idmpauto ben * a 1",
        "xadd k idmp ann one maxlen = 1 * a 1",
        "stream.add k idmp ann one 3-1 a 1",
        "stream.repeated k",
        "stream.original k ann one",
        "xcfgset k idmp-duration 1",
        "xcfgset k idmp-maxsize 1 idmp-duration 2",
        "xadd k 7-1 a 1",
        "xack k g 1-1",
        "xrange k - +",
        "xinfo stream k",
    ];
    laws::check_laws::<Value>(&samples(&lines), 3);
}

#[test]
fn laws_hold_for_deliveries_that_are_due() {
    let lines = [
        "xadd k 1-1 a 1",
        "xgroup create k g 0 mkstream",
        "xdel k 1-1",
        "stream.deliver k g ann > 1",
        "stream.deliver k g ben > 0 claim 0",
        "stream.deliver k g ben > 1 noack claim 1500",
        "stream.due k g 0 0",
        "stream.handout k g ben ack 1 1-1",
        "stream.handout k g ben noack 1 1-1 2-1",
        "stream.release k g silent ids 1 1-1",
        "stream.release k g fatal ids 1 1-1 retrycount 5 force",
        "stream.autoclaim k g ann 0 -",
        "stream.claim k g ben 0 1-1",
        "stream.pending k g",
        "stream.pending k g - + 10",
        "xack k g 1-1",
        "xinfo stream k full",
    ];
    laws::check_laws::<Value>(&samples(&lines), 3);
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
        ("xadd k idmp p * f v", "ERR Invalid stream ID specified as stream command argument"),
        ("xadd k idmp p i * f v", "one"),
        ("xadd k idmpauto p * f v", "one"),
        ("xadd k idmp p i 1-1 f v", "ERR IDMP/IDMPAUTO can be used only with auto-generated IDs"),
        ("xadd k idmp p i idmpauto p * f v", "ERR IDMP/IDMPAUTO specified multiple times"),
        ("xadd k idmp  i * f v", "ERR IDMP requires a non-empty producer ID"),
        ("xadd k idmp p  * f v", "ERR IDMP requires a non-empty idempotent ID"),
        ("xadd k idmpauto  * f v", "ERR IDMPAUTO requires a non-empty producer ID"),
        ("xcfgset k", "ERR At least one parameter must be specified"),
        ("xcfgset k idmp-maxsize", "ERR syntax error"),
        ("xcfgset k idmp-maxsize x", "ERR value is not an integer or out of range"),
        ("xcfgset k idmp-maxsize 10001", "ERR IDMP-MAXSIZE must be between 1 and 10000 entries"),
        ("xcfgset k idmp-duration 0", "ERR IDMP-DURATION must be between 1 and 86400 seconds"),
        ("xreadgroup group g c claim x streams k >", "ERR min-idle-time is not an integer"),
        (
            "xreadgroup group g c claim -1 streams k >",
            "ERR min-idle-time must be a positive integer",
        ),
        ("xnack k g never ids 1 1-1", "ERR mode must be SILENT, FAIL, or FATAL"),
        ("xnack k g fail ids 2 1-1", "ERR number of IDs doesn't match numids"),
        ("xnack k g fail ids 0 1-1", "ERR numids must be a positive integer"),
        ("xnack k g fail force retrycount 1", "ERR syntax error, expected IDS keyword"),
        ("xnack k g fail ids 1 1-1 1-2", "ERR Unrecognized XNACK option '1-2'"),
        ("xnack k g fail ids 1 1-1 retrycount -1", "ERR Invalid RETRYCOUNT value, must be >= 0"),
        ("xnack k g fail retrycount 2 force ids 1 1-1", "several"),
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

#[test]
fn an_entry_is_added_once_under_its_name() {
    let mut value = Value::default();
    let one = run(&mut value, 5_000_000, "xadd k idmp ann 7 * a 1");
    assert_eq!(one, Reply::bulk("5000-0"));
    assert_eq!(run(&mut value, 6_000_000, "xadd k idmp ann 7 maxlen = 0 * b 2"), one);
    assert_eq!(run(&mut value, 6_000_000, "xadd k idmp ben 7 * a 1"), Reply::bulk("6000-0"));
    run(&mut value, 6_000_000, "xdel k 5000-0");
    assert_eq!(run(&mut value, 7_000_000, "xadd k nomkstream idmp ann 7 * a 1"), one, "it is gone");
    assert_eq!(run(&mut value, 7_000_000, "xlen k"), Reply::Int(1));
    let facts = |value: &mut Value, at| match run(value, at, "xinfo stream k") {
        Reply::Map(pairs) => {
            let ours = pairs.into_iter().map(|(name, value)| (shown(&name), value));
            let ours = ours.filter(|(name, _)| name.contains("idmp") || name.contains("ids-"));
            ours.map(|(_, value)| value).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(facts(&mut value, 7_000_000), [100, 100, 2, 2, 2, 2].map(Reply::Int));
    assert_eq!(run(&mut value, 104_999_000, "xadd k idmp ann 7 * a 1"), one);
    assert_eq!(run(&mut value, 105_000_000, "xadd k idmp ann 7 * a 1"), Reply::bulk("105000-0"));
    // The same settings change nothing, others make it forget.
    run(&mut value, 105_000_000, "xcfgset k idmp-duration 100");
    assert_eq!(facts(&mut value, 105_000_000), [100, 100, 2, 2, 3, 3].map(Reply::Int));
    run(&mut value, 105_000_000, "xcfgset k idmp-maxsize 1");
    assert_eq!(facts(&mut value, 105_000_000), [100, 1, 0, 0, 3, 3].map(Reply::Int));
    for name in [1, 2, 1] {
        run(&mut value, 106_000_000, &format!("xadd k idmp ann {name} * a 1"));
    }
    assert_eq!(facts(&mut value, 106_000_000), [100, 1, 1, 1, 6, 3].map(Reply::Int));
    let mut none = Value::default();
    assert_eq!(run(&mut none, 1, "xcfgset k idmp-maxsize 1"), Reply::err("no such key"));
    assert_eq!(run(&mut none, 1, "xadd k nomkstream idmp ann 7 * a 1"), Reply::Nil);
    assert_eq!(none, Value::default());
}

#[test]
fn what_a_transaction_was_told_of_an_add_stays_true_however_late_it_commits() {
    let op = &ops("xadd k idmp ann 7 * a 1")[0];
    let compound = Value::chosen_first(&Blob::from("k"), op).expect("a choice");
    let at = |ms: u64| Ctx { ts: Timestamp::from_micros(1000 * ms), now_ms: ms, ..Ctx::default() };
    let mut slot = None;
    let plan = |slot: &Option<crate::Record>, ms| {
        let reads =
            compound.reads.iter().map(|(_, op)| crate::record::query(slot.as_ref(), op, &at(ms)));
        compound.plan(&reads.collect::<Vec<_>>()).expect("one step")
    };
    let carry_out = |slot: &mut Option<crate::Record>, plan: &Plan, ms| {
        plan.writes.iter().for_each(|(_, op)| drop(crate::record::apply(slot, op, &at(ms))));
    };
    let first = plan(&slot, 1000);
    assert_eq!(first.reply, Reply::bulk("1000-0"));
    carry_out(&mut slot, &first, 2000);
    // The name is remembered at 101,999, but not at the commit.
    let again = plan(&slot, 101_999);
    assert_eq!(again.reply, first.reply);
    carry_out(&mut slot, &again, 102_001);
    let length = AnyOp::Stream(Box::new(Task::Len));
    assert_eq!(crate::record::query(slot.as_ref(), &length, &at(0)), Reply::Int(1));
    assert_eq!(plan(&slot, 102_001).reply, Reply::bulk("102001-0"));
}

/// Numbers and texts of a saved value, in one line.
fn saved(value: &Value) -> String {
    #[derive(Default)]
    struct Parts(Vec<String>);
    impl ValueSink for Parts {
        fn bytes(&mut self, bytes: &[u8]) {
            self.0.push(format!("{:?}", String::from_utf8_lossy(bytes)));
        }
        fn number(&mut self, number: u64) {
            self.0.push(number.to_string());
        }
    }
    let mut parts = Parts::default();
    value.save(&mut parts);
    parts.0.join(" ")
}

#[test]
fn a_stream_is_saved_as_ever_unless_it_has_producers_or_released_entries() {
    let mut value = Value::default();
    run(&mut value, 9000, "xgroup create k g 0 mkstream");
    run(&mut value, 9000, "xadd k 1-1 a 1");
    run(&mut value, 9000, "stream.deliver k g ann > 0");
    let entries = saved(&value);
    let entries = entries.split_once(" 1 \"g\"").expect("a group").0.to_owned();
    let group = |flags: u8, more: &str| format!("1 \"g\" 1 1 {flags} 1 1 \"ann\" 9 {more}");
    assert_eq!(saved(&value), format!("{entries} {}", group(1, "1 1 1 9 1")));
    run(&mut value, 9000, "stream.release k g fail ids 1 1-1");
    assert_eq!(saved(&value), format!("{entries} {}", group(3, "0 1 1 1 1")));
    run(&mut value, 9000, "xcfgset k idmp-maxsize 7");
    run(&mut value, 9000, "stream.repeated k");
    let producers = format!("{} 100 7 0 1 0", u64::MAX);
    assert_eq!(saved(&value), format!("{entries} {producers} {}", group(3, "0 1 1 1 1")));
}

/// Applies at a given millisecond; the reply in short.
fn at_ms(value: &mut Value, ms: u64, line: &str) -> String {
    let reply = run(value, 1000 * ms, line);
    shown(&reply).replace("Int(", "").replace(')', "")
}

/// A stream whose group g has delivered 1-1 to ann at 100 and 1-2 at 200, and not 1-3.
fn delivered() -> Value {
    let mut value = Value::default();
    for line in ["xadd k 1-1 a 1", "xadd k 1-2 a 2", "xadd k 1-3 a 3", "xgroup create k g 0"] {
        at_ms(&mut value, 1, line);
    }
    at_ms(&mut value, 100, "stream.deliver k g ann > 1");
    at_ms(&mut value, 200, "stream.deliver k g ann > 1");
    value
}

#[test]
fn what_is_pending_for_long_is_delivered_before_what_is_new() {
    let value = &mut delivered();
    let read = "stream.deliver k g ben > 0 claim 50";
    assert_eq!(at_ms(&mut value.clone(), 149, read), "1-3 a 3 0 0");
    assert_eq!(at_ms(&mut value.clone(), 150, read), "1-1 a 1 50 1 1-3 a 3 0 0");
    let one = "stream.deliver k g ben > 1 claim 50";
    assert_eq!(at_ms(value, 300, one), "1-1 a 1 200 1");
    assert_eq!(at_ms(value, 300, one), "1-2 a 2 100 1");
    assert_eq!(at_ms(value, 300, "stream.pending k g - + 9"), "1-1 ben 0 2 1-2 ben 0 2");
    assert_eq!(at_ms(value, 300, one), "1-3 a 3 0 0");
    assert_eq!(at_ms(value, 349, one), "Nil");
    let all = "stream.deliver k g ann > 0 noack claim 50";
    assert_eq!(at_ms(value, 350, all), "1-1 a 1 50 2 1-2 a 2 50 2 1-3 a 3 50 1");
    assert_eq!(at_ms(value, 350, "stream.pending k g"), "3 1-1 1-3 ann 3");
    // The longest idle one comes first; an entry that is gone is no longer pending.
    at_ms(value, 360, "stream.claim k g ben 0 1-1");
    at_ms(value, 370, "xdel k 1-2");
    assert_eq!(at_ms(value, 500, read), "1-3 a 3 150 2 1-1 a 1 140 4");
    assert_eq!(at_ms(value, 500, "stream.pending k g"), "2 1-1 1-3 ben 2");
}

#[test]
fn a_read_of_what_is_due_that_finds_nothing_is_idle() {
    let value = delivered();
    let idle = |value: &Value, line: &str, ms| Value::idle(value, &ops(line)[0], ms);
    let read = "stream.deliver k g ben > 0 claim 50";
    assert_eq!(idle(&value, read, 149), None, "1-3 is new");
    let mut value = value;
    at_ms(&mut value, 200, "stream.deliver k g ann > 0");
    assert_eq!(idle(&value, read, 149), Some(Reply::Nil));
    assert_eq!(idle(&value, read, 150), None);
    assert_eq!(idle(&value, "stream.deliver k g ben > 0", 150), None, "it takes its turn");
    let other = "stream.deliver k h ben > 0 claim 50";
    assert_eq!(idle(&value, other, 150), None, "there is no such group");
    // A deletion is noted, although nothing is answered.
    at_ms(&mut value, 210, "xdel k 1-1");
    assert_eq!(idle(&value, read, 150), None);
    assert_eq!(at_ms(&mut value, 211, "stream.deliver k g ben > 0 claim 100"), "Nil");
    assert_eq!(at_ms(&mut value, 211, "stream.pending k g"), "2 1-2 1-3 ann 2");
}

#[test]
fn a_released_entry_is_the_next_one_however_long_others_wait() {
    let value = &mut delivered();
    at_ms(value, 300, "stream.deliver k g ann > 0");
    assert_eq!(at_ms(value, 300, "stream.release k g fail ids 3 1-3 7-7 1-1"), "2");
    assert_eq!(at_ms(value, 300, "stream.pending k g - + 9"), "1-1  -1 1 1-2 ann 100 1 1-3  -1 1");
    assert_eq!(at_ms(value, 300, "stream.pending k g idle 200 - + 9"), "1-1  -1 1 1-3  -1 1");
    assert_eq!(at_ms(value, 300, "stream.pending k g"), "3 1-1 1-3 ann 1");
    assert_eq!(at_ms(value, 300, "stream.deliver k g ann 0 0"), "1-2 a 2", "not those");
    let read = "stream.deliver k g ben > 1 claim 9223372036854775807";
    assert_eq!(at_ms(value, 400, read), "1-1 a 1 400 1");
    at_ms(value, 400, "stream.release k g silent ids 1 1-1");
    assert_eq!(at_ms(value, 400, "stream.autoclaim k g cid 9999 -"), "0-0 1-1 a 1 1-3 a 3 ");
    assert_eq!(at_ms(value, 400, "stream.pending k g - + 9 cid"), "1-1 cid 0 2 1-3 cid 0 2");
    at_ms(value, 400, "stream.release k g fatal ids 1 1-1");
    at_ms(value, 400, "stream.claim k g ann 0 1-1");
    let most = i64::MAX;
    assert_eq!(at_ms(value, 400, "stream.pending k g - + 1"), format!("1-1 ann 0 {most}"));
    at_ms(value, 400, "stream.release k g fatal ids 1 1-1 retrycount 0");
    assert_eq!(at_ms(value, 400, "stream.pending k g - + 1"), "1-1  -1 0");
    at_ms(value, 400, "stream.release k g silent ids 1 1-1");
    assert_eq!(at_ms(value, 400, "xack k g 1-1 1-2 1-3"), "3");
    assert_eq!(at_ms(value, 400, "stream.release k g fail ids 1 1-1"), "0");
    assert_eq!(at_ms(value, 400, "stream.release k g fail ids 2 1-1 7-7 force"), "1");
    assert_eq!(at_ms(value, 400, "stream.pending k g - + 9"), "1-1  -1 0");
    assert!(run(value, 400, "stream.release k h fail ids 1 1-1").is_error());
}

#[test]
fn replies_are_known_ahead() {
    let known = [
        "xadd k * a ?",
        "xadd k nomkstream maxlen = 9 * a 1",
        "xadd k %-* a ?",
        "xadd k %-%%% a ?",
        "stream.add k idmp ann %% %-%%% a 1",
    ];
    let others = [
        "xadd k idmp ann %% * a 1",
        "xadd k 18446744073709551615-%% a 1",
        "xack k g 1-1",
        "xdel k 0-% 0-% 1-%",
        "xtrim k maxlen ~ %",
        "xtrim k minid = 0-%%",
        "del k",
    ];
    laws::foretold::check_walks("xadd k * a ?", &known, &others);
}
