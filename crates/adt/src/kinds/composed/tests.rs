//! Laws of the shipped examples and of random definitions, and what definitions may not contain.

use super::definition::{DEFINITION_BYTES_MAX, Definition, Form, OperationSpec};
use super::{Op, Value};
use crate::laws::{check_laws, check_words};
use crate::random::Random;
use crate::record::{Record, apply, commutes, decode, query_left};
use crate::{Access, ArgBuf, Blob, Ctx, Op as AnyOp, Reply, Timestamp};
use std::sync::Arc;

const EXAMPLES: [(&str, &str); 6] = [
    ("auction", include_str!("../../../../../examples/types/auction.type")),
    ("stock", include_str!("../../../../../examples/types/stock.type")),
    ("post", include_str!("../../../../../examples/types/post.type")),
    ("seats", include_str!("../../../../../examples/types/seats.type")),
    ("presence", include_str!("../../../../../examples/types/presence.type")),
    ("limiter", include_str!("../../../../../examples/types/limiter.type")),
];

fn example(name: &str) -> Arc<Definition> {
    let (_, text) = EXAMPLES.iter().find(|(known, _)| *known == name).expect("an example");
    Arc::new(Definition::parse(text.as_bytes(), None).expect(name))
}

fn call(definition: &Arc<Definition>, words: &str) -> AnyOp {
    let mut words = words.split(' ');
    let name = words.next().unwrap_or_default();
    let arguments = words.map(Blob::from).collect();
    let call = super::Call::new(definition.clone(), name.as_bytes(), arguments);
    AnyOp::Composed(Op(Arc::new(call.expect("a call"))))
}

/// Carries out calls one after another, each at a time in milliseconds, and compares the replies.
fn dialogue(definition: &Arc<Definition>, slot: &mut Option<Record>, calls: &[(u64, &str, Reply)]) {
    for (now_ms, words, reply) in calls {
        if let Some(record) = slot {
            record.value.expire_parts(*now_ms, usize::MAX);
        }
        let ctx = Ctx { now_ms: *now_ms, ..Ctx::default() };
        assert_eq!(apply(slot, &call(definition, words), &ctx), *reply, "{words}");
    }
}

#[test]
fn an_auction_takes_bids_until_it_is_closed() {
    let best = |who: &str, price| Reply::Scored(vec![(who.into(), price)]);
    let over = || Reply::Error(crate::ErrorReply::new("CLOSED", "the auction is over"));
    let mut slot = None;
    dialogue(
        &example("auction"),
        &mut slot,
        &[
            (0, "best", Reply::Scored(vec![])),
            (0, "bid 5 ann", Reply::Int(1)),
            (0, "bid 7.5 bob", Reply::Int(1)),
            (0, "bid 6 ann", Reply::Int(1)),
            (0, "best", best("bob", 7.5)),
            (0, "count", Reply::Int(3)),
            (0, "close", best("bob", 7.5)),
            (0, "bid 9 ann", over()),
            (0, "close", over()),
            (0, "count", Reply::Int(3)),
        ],
    );
    let record = slot.expect("a record");
    assert_eq!(record.value.shown_type(), "auction");
}

#[test]
fn reserved_stock_comes_back_when_its_time_is_over() {
    let stock = example("stock");
    let mut slot = None;
    dialogue(
        &stock,
        &mut slot,
        &[
            (0, "add 5", Reply::Int(1)),
            (0, "reserve a 3 100", Reply::Int(1)),
            (0, "reserve a 1 100", Reply::Int(0)),
            (0, "reserve b 3 100", Reply::Int(0)),
            (0, "reserve b 2 500", Reply::Int(1)),
            (50, "free", Reply::Int(0)),
            (100, "free", Reply::Int(3)),
            (
                100,
                "buy a",
                Reply::Error(crate::ErrorReply::new("GONE", "the reservation has ended")),
            ),
            (200, "buy b", Reply::Int(1)),
            (900, "free", Reply::Int(3)),
            (900, "reserve c 3 100", Reply::Int(1)),
            (910, "release c 2", Reply::Int(0)),
            (910, "release c 3", Reply::Int(1)),
            (910, "has 3", Reply::Int(1)),
            (920, "reserve d 1 100", Reply::Int(1)),
        ],
    );
    let ctx = |now_ms| Ctx { now_ms, ..Ctx::default() };
    let free = |now_ms| query_left(slot.as_ref(), &call(&stock, "free"), &ctx(now_ms));
    assert_eq!((free(1019), free(1020)), (Reply::Int(2), Reply::Int(3)), "the log is behind");
    let record = slot.as_ref().expect("a record");
    assert_eq!(record.next_part_expiry_ms(None), Some(1020));
    assert_eq!(record.next_part_expiry_ms(Some(1020)), None);
}

#[test]
fn what_has_expired_stays_until_the_log_says_so() {
    let stock = example("stock");
    let mut slot = None;
    let ctx = |now_ms| Ctx { now_ms, ..Ctx::default() };
    for (now_ms, words, reply) in
        [(0, "add 5", 1), (0, "reserve a 3 100", 1), (200, "reserve a 1 100", 0)]
    {
        assert_eq!(
            apply(&mut slot, &call(&stock, words), &ctx(now_ms)),
            Reply::Int(reply),
            "{words}"
        );
    }
    assert_eq!(apply(&mut slot, &call(&stock, "free"), &ctx(200)), Reply::Int(2));
    assert_eq!(query_left(slot.as_ref(), &call(&stock, "free"), &ctx(200)), Reply::Int(5));
}

#[test]
fn a_failed_step_undoes_the_steps_before_it() {
    let text = "type t\npart n string\npart s set\npart l list\nop go a b\n sadd s $a\n rpush l $a\n \
                incrby n $b\nop see\n return smembers s\n return llen l\n return get n";
    let text = text.replace("b\n sadd", "b:int\n sadd");
    let definition = Arc::new(Definition::parse(text.as_bytes(), None).expect("a definition"));
    let see = |members: &[&str], len, n: &str| {
        let members = members.iter().map(Reply::bulk).collect();
        Reply::Array(vec![Reply::Set(members), Reply::Int(len), Reply::bulk(n)])
    };
    let mut slot = None;
    dialogue(
        &definition,
        &mut slot,
        &[
            (0, "go x 9223372036854775807", Reply::Ok),
            (0, "see", see(&["x"], 1, "9223372036854775807")),
            (0, "go y 1", Reply::err("increment or decrement would overflow")),
            (0, "see", see(&["x"], 1, "9223372036854775807")),
        ],
    );
}

/// Calls of an operation with a few arguments of each form.
fn samples_of(definition: &Arc<Definition>, operation: &OperationSpec) -> Vec<AnyOp> {
    let some = |form: Form| match form {
        Form::Text => ["a", "b"],
        Form::Int | Form::Number => ["1", "2"],
    };
    let choices = [0, 1, 2, 3].map(|bits: usize| {
        let places = operation.parameters.iter().enumerate();
        places.map(|(place, of)| some(of.form)[bits >> (place % 2) & 1]).collect::<Vec<_>>()
    });
    let mut calls: Vec<AnyOp> = Vec::new();
    for arguments in choices {
        let words = std::iter::once(operation.name.as_str()).chain(arguments);
        let op = call(definition, &words.collect::<Vec<_>>().join(" "));
        if !calls.contains(&op) {
            calls.push(op);
        }
    }
    calls
}

#[test]
fn all_that_is_derived_of_the_examples_is_lawful() {
    for (name, _) in EXAMPLES {
        let definition = example(name);
        let all = definition.operations().iter().flat_map(|one| samples_of(&definition, one));
        let ops: Vec<AnyOp> = all.collect();
        check_words(&ops);
        let own = ops.iter().map(|op| match op {
            AnyOp::Composed(op) => op.clone(),
            _ => unreachable!("a call"),
        });
        check_laws::<Value>(&own.collect::<Vec<_>>(), 2);
    }
}

/// Commands with a place for an argument, by kind of part.
const STEPS: [(&str, &[&str], &[&str]); 7] = [
    (
        "counter",
        &["counter.add # $n", "counter.try # -$n", "counter.incr # $n"],
        &["counter.get #", "counter.atleast # $n"],
    ),
    ("set", &["sadd # $x", "srem # $x"], &["sismember # $x", "scard #", "smembers #"]),
    (
        "hash",
        &["hset # $x $n", "hdel # $x", "hincrby # $x $n", "hsetnx # $x $n"],
        &["hget # $x", "hlen #", "hexists # $x"],
    ),
    ("topk", &["topk.put # $x $n"], &["topk.best #", "topk.count #"]),
    ("string", &["set # $x", "append # $x", "setnx # $x", "del #"], &["get #", "exists #"]),
    ("zset", &["zadd # $n $x", "zrem # $x", "zincrby # $n $x"], &["zscore # $x", "zcard #"]),
    ("bag", &["bag.add # $x"], &["bag.count # $x"]),
];

/// A definition with a few parts and operations, by chance.
fn random_definition(random: &mut Random) -> Option<Definition> {
    let mut text = String::from("type t");
    let mut parts = Vec::new();
    for part in 0..1 + random.below(3) {
        let (kind, writes, reads) = STEPS[random.below(STEPS.len())];
        let is_map = random.below(3) == 0;
        let with = match kind {
            "counter" if random.below(2) == 0 => " with counter.set 2 min 0 max 3",
            "topk" if random.below(2) == 0 => " with topk.init 1",
            _ => "",
        };
        text += &format!("\n{} p{part} {kind}{with}", if is_map { "map" } else { "part" });
        let place = if is_map { format!("p{part}[$y]") } else { format!("p{part}") };
        parts.push((place, writes, reads));
    }
    for operation in 0..1 + random.below(3) {
        text += &format!("\nop o{operation} x y n:int");
        let mut steps = 0;
        for _ in 0..random.below(2) {
            let (place, _, reads) = &parts[random.below(parts.len())];
            let test = ["= 0", "!= nil", ">= 1", "= 1 else error NO", "= $x"][random.below(5)];
            text += &format!(
                "\nrequire {} {test}",
                reads[random.below(reads.len())].replace('#', place)
            );
            steps += 1;
        }
        if random.below(3) == 0 {
            let (place, writes, _) = &parts[random.below(parts.len())];
            text += &format!(
                "\nrequire {} = 1",
                writes[random.below(writes.len())].replace('#', place)
            );
            steps += 1;
        }
        for _ in 0..random.below(4) {
            let (place, writes, reads) = &parts[random.below(parts.len())];
            let line = match random.below(4) {
                0 => format!("return {}", reads[random.below(reads.len())]),
                1 => format!("return {}", writes[random.below(writes.len())]),
                _ => writes[random.below(writes.len())].to_owned(),
            };
            text += &format!("\n{}", line.replace('#', place));
            steps += 1;
        }
        if steps == 0 {
            text += &format!("\nreturn {}", parts[0].2[0].replace('#', &parts[0].0));
        }
    }
    Definition::parse(text.as_bytes(), None).ok()
}

#[test]
fn what_commutes_by_ten_thousand_random_definitions_does_commute() {
    let mut random = Random(31);
    let (mut made, mut granted, mut foretold) = (0, 0_u64, 0_u64);
    while made < 10_000 {
        let Some(definition) = random_definition(&mut random) else { continue };
        made += 1;
        let definition = Arc::new(definition);
        let mut any = || {
            let operations = definition.operations();
            let operation = &operations[random.below(operations.len())];
            let words = [["a", "b"][random.below(2)], ["a", "b"][random.below(2)]];
            let n = ["0", "1", "2", "-1"][random.below(4)];
            let words = [words[0], words[1], n].map(Blob::from).to_vec();
            // A negative number has no negation.
            let call = super::Call::new(definition.clone(), operation.name.as_bytes(), words);
            call.ok().map(|call| AnyOp::Composed(Op(Arc::new(call))))
        };
        let mut state: Option<Record> = None;
        for round in 0..6_u64 {
            let (Some(a), Some(b), Some(c)) = (any(), any(), any()) else { continue };
            let ops = [a, b, c];
            let ctx = |place: usize| Ctx {
                now_ms: 1000,
                ts: Timestamp::from_micros(round * 10 + place as u64),
                seed: 7,
            };
            check_foretold(state.as_ref(), &ops[0], &ctx(0), &mut foretold);
            for seen in 0..8 {
                let access = |n: usize| Access { op: &ops[n], observed: seen >> n & 1 == 1 };
                let pairs = [(0, 1), (0, 2), (1, 2)];
                if !pairs.iter().all(|(i, j)| commutes(state.as_ref(), access(*i), access(*j))) {
                    continue;
                }
                granted += 1;
                let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
                let runs = orders.map(|order| run(&state, &ops, &order, &ctx));
                for other in &runs[1..] {
                    assert_eq!(runs[0].0, other.0, "{ops:?} in {state:?}\n{:?}", definition.text());
                    for n in (0..3).filter(|n| access(*n).observed) {
                        assert_eq!(
                            runs[0].1[n], other.1[n],
                            "{:?} of {ops:?} in {state:?}",
                            ops[n]
                        );
                    }
                }
            }
            apply(&mut state, &ops[0], &ctx(0));
            check_saved(state.as_ref());
        }
    }
    assert!(granted > 50_000 && foretold > 10_000, "{granted} sets commuted, {foretold} foretold");
}

type Slot = Option<Record>;

fn run(
    state: &Slot,
    ops: &[AnyOp; 3],
    order: &[usize],
    ctx: &dyn Fn(usize) -> Ctx,
) -> (Slot, Vec<String>) {
    let mut slot = state.clone();
    let mut replies = vec![String::new(); 3];
    for n in order {
        replies[*n] = match apply(&mut slot, &ops[*n], &ctx(*n)) {
            Reply::Set(members) => {
                let mut members: Vec<String> = members.iter().map(|m| format!("{m:?}")).collect();
                members.sort();
                members.join(",")
            }
            other => format!("{other:?}"),
        };
    }
    if let Some(record) = &mut slot {
        record.modified = Timestamp::ZERO;
    }
    (slot, replies)
}

fn check_foretold(state: Option<&Record>, op: &AnyOp, ctx: &Ctx, count: &mut u64) {
    if let Some(reply) = crate::record::foretell(state, op, ctx) {
        let mut after = state.cloned();
        assert_eq!(apply(&mut after, op, ctx), reply, "{op:?} in {state:?}");
        *count += 1;
    }
    if let Some(reply) = crate::record::idle(state, op, ctx.now_ms) {
        let mut after = state.cloned();
        assert_eq!(apply(&mut after, op, ctx), reply);
        let values = [state, after.as_ref()].map(|record| record.map(|record| &record.value));
        assert_eq!(values[0], values[1], "{op:?} is idle");
    }
}

/// Checks that a record reads back from the words that it is written as.
fn check_saved(record: Option<&Record>) {
    let Some(record) = record else { return };
    let mut record = record.clone();
    record.modified = Timestamp::ZERO;
    let put = AnyOp::Key(crate::key::KeyOp::Put(Box::new(record.clone()), crate::key::Cause::Copy));
    let mut words = ArgBuf::new();
    put.encode(b"k", &mut words);
    let (_, read) = decode(&words.args()).expect("a record");
    assert_eq!(read, put);
}

#[test]
fn a_later_version_takes_values_over() {
    let parse = |text: &str, version| {
        Arc::new(Definition::parse(text.as_bytes(), Some(version)).expect("a definition"))
    };
    let first = parse("type t\npart n counter\npart s set\nop add\n counter.add n 1", 1);
    let second = "type t\npart m string\npart n counter\nwithout s\nop add by:int\n counter.add n $by\n\
                  op get\n return counter.get n";
    let second = parse(second, 2);
    let kept = parse("type t\npart n counter\nop get\n return counter.get n", 3);
    assert!(kept.takes_over(&first).is_err() && kept.takes_over(&second).is_err());
    assert_eq!(second.takes_over(&first), Ok(()));
    let third = parse("type t\npart m string\npart n counter\nop get\n return counter.get n", 1);
    let third = Arc::new(third.next_of(&second).expect("it follows"));
    assert_eq!((third.version(), third.takes_over(&first)), (3, Ok(())), "dropped stays dropped");
    let again = "type t\npart m string\npart n counter\npart s hash\nop get\n return get m";
    assert!(parse(again, 1).next_of(&third).is_err(), "a value may have another s");
    let mut slot = None;
    dialogue(&first, &mut slot, &[(0, "add", Reply::Ok), (0, "add", Reply::Ok)]);
    dialogue(&second, &mut slot, &[(0, "get", Reply::Int(2)), (0, "add 5", Reply::Ok)]);
    let text = "the operation add is another one in version 2 of t: call again";
    let refused = Reply::Error(crate::ErrorReply::new("TRYAGAIN", text));
    dialogue(&first, &mut slot, &[(0, "add", refused)]);
    dialogue(&second, &mut slot, &[(0, "get", Reply::Int(7))]);
    // A call by an earlier version does what the later one says.
    dialogue(&second, &mut slot, &[(0, "add 1", Reply::Ok)]);
    let later =
        parse("type t\npart n counter\npart m string\nop add by:int\n counter.add n -$by", 4);
    dialogue(&later, &mut slot, &[(0, "add 1", Reply::Ok)]);
    dialogue(&second, &mut slot, &[(0, "add 2", Reply::Ok)]);
    let read = |slot: &Option<Record>| match &slot.as_ref().expect("a record").value {
        crate::Value::Composed(value) => value.definition.as_ref().map(|own| own.version()),
        _ => None,
    };
    assert_eq!(read(&slot), Some(4));
    let reply = apply(&mut slot, &call(&kept, "get"), &Ctx::default());
    assert!(reply.is_error(), "the part m would be lost");
    let wrong = Reply::Error(crate::ErrorReply::wrong_type());
    dialogue(&example("post"), &mut slot, &[(0, "like x", wrong)]);
}

#[test]
fn hostile_definitions_are_refused_each_with_its_error() {
    let many = |line: &dyn Fn(usize) -> String, n| (0..n).map(line).collect::<Vec<_>>().join("\n");
    let part = "type t\npart n counter\n";
    let cases = [
        ("", "begins with 'type'"),
        ("part n counter", "begins with 'type'"),
        ("type T\npart n counter", "cannot be the name of the type"),
        ("type t 0", "the version is a number"),
        ("type t", "a type has a part and an operation"),
        ("type t\npart n counter", "a type has a part and an operation"),
        ("type t\npart n lock", "is no kind of part"),
        ("type t\npart n composed", "is no kind of part"),
        ("type t\npart n counter\npart n set", "two parts called n"),
        ("type t\npart n counter with sadd x", "cannot be a step on the counter n"),
        ("type t\npart n counter with counter.get", "is no initial value"),
        ("type t\npart n counter with counter.set 5 max 3", "within MIN and MAX"),
        (
            &many(&|n| if n == 0 { "type t".into() } else { format!("part n{n} set") }, 34),
            "at most 32",
        ),
        (&format!("{part}{}", many(&|n| format!("op o{n}\ncounter.add n 1"), 65)), "at most 64"),
        (&format!("{part}op o\n{}", many(&|_| "counter.add n 1".into(), 33)), "at most 32 steps"),
        (&format!("{part}{}", "#".repeat(DEFINITION_BYTES_MAX)), "at most 8192 bytes"),
        (&format!("{part}op o"), "has no step"),
        (&format!("{part}counter.add n 1"), "outside of an operation"),
        (&format!("{part}op o\nrequire counter.get n = 1 else error \"\" x"), "in capitals"),
        (&format!("{part}op o\nsadd n 1"), "cannot be a step on the counter n"),
        (&format!("{part}op o\ncounter.add m 1"), "there is no part m"),
        (&format!("{part}op o\ncounter.add n[1] 1"), "n is no map"),
        (&format!("{part}map m set\nop o\nsadd m 1"), "m is a map"),
        (&format!("{part}op o\ncounter.get n"), "is returned or required"),
        (&format!("{part}op o\ncounter.add n $x"), "there is no parameter 'x'"),
        (&format!("{part}op o x\ncounter.add n $x"), "written name:int"),
        (&format!("{part}op o x:float\ncounter.add n 1"), "text, int or number"),
        (&format!("{part}op o x x\ncounter.add n 1"), "two parameters called x"),
        (&format!("{part}op o\nrequire counter.get n\ncounter.add n 1"), "compares a reply"),
        (&format!("{part}op o\ncounter.add n 1\nrequire counter.get n = 1"), "before all writes"),
        (&format!("{part}op o\neval n 1"), "no command 'eval' on one value"),
        (&format!("{part}op o\nmget n n"), "cannot be a step"),
        (&format!("{part}op o\nt.o n"), "no command 't.o' on one value"),
        (&format!("{part}part l list\nop o\nblpop l 0"), "cannot be a step"),
        (&format!("{part}part s set\nop o\nreturn spop s"), "cannot be a step"),
        (&format!("{part}op o\nrename n m"), "other keys than one"),
        (&format!("{part}op o\nset n \"x"), "a quotation mark is missing"),
        (&format!("{part}expired n a b\ncounter.add n 1"), "there is no map n"),
        ("type t\nmap m string\nexpired m a\ndel m[x]", "two names follow"),
        ("type t\nmap m string\nexpired m a b\nset m[x$a] 1 px 20", "lets nothing expire"),
        ("type t\nmap m string\nexpired m a b\ngetex m[x$a] px 20", "lets nothing expire"),
        ("type t\nmap m string\nexpired m a b\npexpire m[x$a] 20", "lets nothing expire"),
        (&format!("{part}op o\ntype.call n type.o"), "no call of another type"),
    ];
    for (text, wanted) in cases {
        match Definition::parse(text.as_bytes(), None) {
            Ok(read) => panic!("{text:?} is {read:?}"),
            Err(error) => {
                assert!(error.text().contains(wanted), "{text:?}: {error}, not {wanted:?}");
            }
        }
    }
    assert!(Definition::parse(b"type t\n\xff", None).is_err());
}

#[test]
fn a_definition_in_json_is_the_same_definition() {
    let mut random = Random(7);
    let mut definitions: Vec<_> = EXAMPLES.iter().map(|(name, _)| example(name)).collect();
    definitions.extend((0..300).filter_map(|_| random_definition(&mut random).map(Arc::new)));
    assert!(definitions.len() > 100);
    for definition in definitions {
        let json = definition.json();
        let read = Definition::parse(json.as_bytes(), None).expect(&json);
        assert_eq!(read.text(), definition.text(), "{json}");
    }
}

#[test]
fn definitions_in_json_are_refused_with_the_place_of_the_error() {
    let with = |parts: &str, steps: &str| {
        let operation = format!(r#"{{"name":"o","parameters":["n:int"],"steps":[{steps}]}}"#);
        format!(r#"{{"type":"t","parts":[{parts}],"operations":[{operation}]}}"#)
    };
    let n = r#"{"name":"n","kind":"counter"}"#;
    assert!(Definition::parse(with(n, r#""counter.add n $n""#).as_bytes(), None).is_ok());
    for (text, wanted) in [
        ("{".to_owned(), "in JSON: EOF while parsing"),
        (r#"{"type":"t","pars":[]}"#.to_owned(), "unknown field `pars`"),
        (r#"{"type":"t","parts":[]}"#.to_owned(), "missing field `operations`"),
        (with(r#"{"name":"n\nop x","kind":"counter"}"#, ""), "cannot be the name of the part"),
        (with(r#"{"name":"n m","kind":"counter"}"#, ""), "cannot be the name of the part"),
        (with(r#"{"name":"n","kind":"counter","with":"set 1"}"#, ""), "part n: "),
        (with(n, ""), "the operation o has no step"),
        (with(n, r#""""#), "operation o, step 1: a command is missing"),
        (with(n, r##""# nothing""##), "operation o, step 1: a command is missing"),
        (with(n, r#""op x""#), "operation o, step 1: a step is a command"),
        (with(n, r#""counter.add n 1\nop x""#), "control characters"),
        (with(n, r#""counter.add n 1","counter.add m 1""#), "step 2: there is no part m"),
        (format!("{}{}", with(n, r#""counter.add n 1""#), " ".repeat(40_000)), "32768 bytes"),
    ] {
        let error = Definition::parse(text.as_bytes(), None).expect_err(&text);
        assert!(error.text().contains(wanted), "{text}: {error}, not {wanted:?}");
    }
}

#[test]
fn what_a_new_definition_must_not_have_is_read_in_an_old_one() {
    let part = "part n counter\nop o\ncounter.add n 1";
    let moved = format!("type t\n{part}\nop p\nrequire counter.get n = 1 else error MOVED x");
    for (text, wanted) in [
        (format!("type topk\n{part}"), "'topk' is the name of a built-in type"),
        (format!("type none\n{part}"), "'none' is the name of a built-in type"),
        (moved, "clients act on the code MOVED: use another"),
    ] {
        let definition = Definition::parse(text.as_bytes(), None).expect("it reads");
        let error = definition.check_new().expect_err("it is not to be defined");
        assert_eq!(error.text(), wanted);
    }
    assert!(EXAMPLES.iter().all(|(name, _)| example(name).check_new() == Ok(())));
}

#[test]
fn a_definition_reads_back_from_its_canonical_text() {
    for (name, _) in EXAMPLES {
        let first = example(name);
        let again = Definition::parse(first.text(), None).expect("its own text");
        assert_eq!(again.text(), first.text());
        assert_eq!(Definition::parse(first.text(), Some(7)).map(|read| read.version()), Ok(7));
    }
    let quoted = b"type t\npart s string\nop o\n set s \"two \\\"words\\\" \\\\ $$5\"\nop get\n return get s";
    let definition = Arc::new(Definition::parse(quoted, None).expect("a definition"));
    let again = Definition::parse(definition.text(), None).expect("its own text");
    assert_eq!(again.text(), definition.text());
    let text = Reply::bulk("two \"words\" \\ $5");
    dialogue(&definition, &mut None, &[(0, "o", Reply::Ok)]);
    let mut slot = None;
    dialogue(&definition, &mut slot, &[(0, "o", Reply::Ok), (0, "get", text)]);
}
