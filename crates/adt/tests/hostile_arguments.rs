//! Every data command, driven through edge values in every argument position.
//!
//! The calls are generated from the command table, so a new command is covered at once. Checks for
//! each call: the parser and the operations do not panic (with overflow checks on), an error
//! changes nothing, reads change nothing, no undeclared key is touched, and every operation, those
//! of compound commands included, reads back from the words that the log and other machines get.
//! Redis and Valkey had advisories for each of these: CVE-2022-35977, 2023-22458, 2023-25155,
//! 2023-28425, 2023-28856.

use adt::command::database::name_of;
use adt::command::syntax;
use adt::{
    ArgBuf, Attempt, Blob, Command, CommandSpec, Compound, Ctx, Flags, Handler, Next, Op, Record,
    Reply, Timestamp, record,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

const EDGES: [&str; 18] = [
    "0",
    "1",
    "-1",
    "-9223372036854775808",
    "9223372036854775807",
    "9223372036854775806",
    "nan",
    "inf",
    "-inf",
    "2147483648",
    "9223372036854775808",
    "4294967296",
    "1e308",
    "",
    " 1",
    "1.5",
    "(1",
    "*",
];
/// Calls per command and number of words; beyond that, this many random combinations are tried.
const COMBINATIONS_MAX: usize = 600;

/// The commit timestamp of all calls: in 2126.
const IN_A_CENTURY_US: u64 = 4_922_899_200_000_000;

type Store = BTreeMap<Blob, Option<Record>>;

fn ctx() -> Ctx {
    let ts = Timestamp::from_micros(IN_A_CENTURY_US);
    Ctx { now_ms: 1_700_000_000_000, ts, seed: 0x9e37_79b9_7f4a_7c15 }
}

fn parse(spec: &CommandSpec, words: &ArgBuf) -> Option<Command> {
    let Handler::Data(parse) = spec.handler else { panic!("{} is no data command", spec.name) };
    spec.check_arity(words.len()).ok()?;
    parse(&words.args()).ok()
}

/// Applies one operation and checks it; failures are added to `wrong`.
fn apply(store: &mut Store, key: &Blob, op: &Op, wrong: &mut Vec<String>) -> Reply {
    let slot = store.entry(key.clone()).or_default();
    let before = slot.clone();
    let reply = record::apply(slot, op, &ctx());
    if reply.is_error() && *slot != before {
        wrong.push(format!("{op:?} answers {reply:?} and changes {before:?} to {slot:?}"));
    }
    if !op.is_write() && *slot != before {
        wrong.push(format!("the read {op:?} changes {before:?} to {slot:?}"));
    }
    let mut words = ArgBuf::new();
    op.encode(key, &mut words);
    match record::decode(&words.args()) {
        Ok((k, read)) if k == *key && read == *op => {}
        other => wrong.push(format!("{op:?} is written as {}, read as {other:?}", show(&words))),
    }
    reply
}

fn read(store: &mut Store, compound: &Compound, wrong: &mut Vec<String>) -> Vec<Reply> {
    let mut replies = Vec::new();
    for (key, op) in &compound.reads {
        if op.is_write() {
            wrong.push(format!("a compound command reads by {op:?}"));
        }
        replies.push(apply(store, key, op, wrong));
    }
    replies
}

fn compound(store: &mut Store, compound: &Compound, wrong: &mut Vec<String>) -> Reply {
    let mut next = (compound.next)(&read(store, compound, wrong));
    let plan = loop {
        match next {
            Next::Plan(plan) => break plan,
            // Keys that were found on the way need not be declared, if they are only read.
            Next::Reads(further) => {
                next = (further.next)(&read(&mut store.clone(), &further, wrong));
            }
        }
    };
    if plan.reply.is_error() && !plan.writes.is_empty() {
        wrong.push(format!("{:?} comes with writes {:?}", plan.reply, plan.writes));
    }
    for (key, op) in &plan.writes {
        let reply = apply(store, key, op, wrong);
        if reply.is_error() {
            wrong.push(format!("the planned write {op:?} fails with {reply:?}"));
        }
    }
    plan.reply
}

fn run(store: &mut Store, command: &Command, wrong: &mut Vec<String>) -> Reply {
    match command {
        Command::Single(key, op) => {
            if let Some(in_two_steps) = op.chosen_first(key) {
                compound(&mut store.clone(), &in_two_steps, wrong);
            }
            apply(store, key, op, wrong)
        }
        Command::Multi { ops, merge } => {
            merge.apply(ops.iter().map(|(key, op)| apply(store, key, op, wrong)).collect())
        }
        Command::Compound(command) => compound(store, command, wrong),
        Command::Awaiting(awaiting) => apply(store, &awaiting.key, &awaiting.op, wrong),
        Command::Blocking(blocking) => {
            for (key, attempt) in &blocking.attempts {
                let reply = match attempt {
                    Attempt::Take { op, wrap } => match apply(store, key, op, wrong) {
                        nothing @ (Reply::Nil | Reply::NilArray) => nothing,
                        reply => wrap(key, reply),
                    },
                    Attempt::Move(command) => compound(store, command, wrong),
                };
                if !matches!(reply, Reply::Nil | Reply::NilArray) {
                    return reply;
                }
            }
            blocking.on_timeout.clone()
        }
    }
}

fn show(words: &ArgBuf) -> String {
    let words: Vec<String> =
        words.args().iter_from(0).map(|w| format!("'{}'", w.escape_ascii())).collect();
    words.join(" ")
}

/// A store in which the keys of a call all hold `record`.
fn store_of(spec: &CommandSpec, words: &ArgBuf, record: Option<&Record>) -> Store {
    let args = words.args();
    let positions = spec.keys.positions(&args).unwrap_or_default();
    let keys = positions.into_iter().filter_map(|at| args.get(at)).map(Blob::new);
    keys.map(|key| (key, record.cloned())).collect()
}

/// Records of every type, without and with an expiry: the largest that sample calls of writers
/// make of absent keys.
fn states() -> Vec<Record> {
    let mut states: BTreeMap<&'static str, Record> = BTreeMap::new();
    for spec in record::data_commands().filter(|spec| spec.flags.has(Flags::WRITE)) {
        for call in syntax::sample_calls(spec) {
            let Some(command) = parse(spec, &call) else { continue };
            let mut store = Store::new();
            run(&mut store, &command, &mut Vec::new());
            for made in store.into_values().flatten().filter(|r| r.heap_bytes() < 4_096) {
                let name = made.value.type_name();
                let larger = states.get(name).is_none_or(|r| made.heap_bytes() > r.heap_bytes());
                if larger {
                    // A record that is moved gets the time of the move, so the log does not say it.
                    states.insert(name, Record::new(made.value));
                }
            }
        }
    }
    let plain: Vec<Record> = states.into_values().collect();
    let expiring = |r: &Record| r.clone().expiring(Some(1_800_000_000_000));
    plain.iter().cloned().chain(plain.iter().map(expiring)).collect()
}

/// Carries out a call on every state, and returns the failures.
fn check_states(spec: &CommandSpec, words: &ArgBuf, states: &[Record]) -> Vec<String> {
    let mut wrong = Vec::new();
    let Some(command) = parse(spec, words) else { return wrong };
    for state in std::iter::once(None).chain(states.iter().map(Some)) {
        let before = store_of(spec, words, state);
        let mut store = before.clone();
        let reply = run(&mut store, &command, &mut wrong);
        // Partial failure of a command on several keys is the coordinator's concern.
        let alone = !matches!(command, Command::Multi { .. });
        if reply.is_error() && alone && store != before {
            wrong.push(format!("answers {reply:?} and changes {before:?} to {store:?}"));
        }
        // A command with two databases makes the second key from the name of the first.
        if store.keys().any(|key| !before.contains_key(name_of(key))) {
            wrong.push(format!("touches keys that are not declared: {:?}", store.keys()));
        }
    }
    wrong
}

fn check(spec: &CommandSpec, words: &ArgBuf, states: &[Record], failures: &mut Vec<String>) {
    match catch_unwind(AssertUnwindSafe(|| check_states(spec, words, states))) {
        Ok(wrong) => failures.extend(wrong.into_iter().map(|w| format!("{}: {w}", show(words)))),
        Err(_) => failures.push(format!("{}: panics", show(words))),
    }
}

fn report(failures: &[String]) {
    let mut text = String::new();
    for failure in failures.iter().take(20) {
        let short: String = failure.chars().take(400).collect();
        writeln!(text, "{short}").unwrap();
    }
    assert!(failures.is_empty(), "{} failures, among them:\n{text}", failures.len());
}

fn words_of(call: &ArgBuf) -> Vec<Vec<u8>> {
    call.args().iter_from(0).map(<[u8]>::to_vec).collect()
}

/// Each sample call with each of its words, and each pair of neighbours, replaced by edge values.
#[test]
fn edge_values_in_every_position_of_sample_calls() {
    let states = states();
    let mut failures = Vec::new();
    for spec in record::data_commands() {
        for call in syntax::sample_calls(spec).iter().take(40) {
            let words = words_of(call);
            for at in 1..words.len() {
                for edge in EDGES {
                    let mut hostile = words.clone();
                    hostile[at] = edge.into();
                    check(spec, &ArgBuf::of(&hostile), &states, &mut failures);
                    if let Some(next) = hostile.get_mut(at + 1) {
                        *next = edge.into();
                        check(spec, &ArgBuf::of(&hostile), &states, &mut failures);
                    }
                }
            }
        }
    }
    report(&failures);
}

/// One to six words after the name, all of them edge values, every other time the first one a key.
#[test]
fn edge_values_everywhere() {
    let states = states();
    let mut failures = Vec::new();
    let mut random = 88_172_645_463_325_252u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize
    };
    for spec in record::data_commands() {
        for length in 1..=6u32 {
            let all = EDGES.len().pow(length);
            for i in 0..all.min(COMBINATIONS_MAX) {
                let mut code = if all <= COMBINATIONS_MAX { i } else { next() % all };
                let mut words: Vec<&str> = vec![spec.name];
                for _ in 0..length {
                    words.push(EDGES[code % EDGES.len()]);
                    code /= EDGES.len();
                }
                if i % 2 == 1 {
                    words[1] = "k";
                }
                check(spec, &ArgBuf::of(words), &states, &mut failures);
            }
        }
    }
    report(&failures);
}

/// Repeated keys, fields and members: `mset k v k v`, `sadd k m m`, `smove k k m`.
#[test]
fn duplicate_keys_fields_and_members() {
    let states = states();
    let mut failures = Vec::new();
    for spec in record::data_commands() {
        for call in syntax::sample_calls(spec) {
            let mut same = words_of(&call);
            for at in spec.keys.positions(&call.args()).expect("a call that parses") {
                same[at] = b"k0".to_vec();
            }
            check(spec, &ArgBuf::of(&same), &states, &mut failures);
            for repeated in 1..=3.min(same.len() - 1) {
                let mut twice = same.clone();
                twice.extend_from_slice(&same[same.len() - repeated..]);
                check(spec, &ArgBuf::of(&twice), &states, &mut failures);
            }
        }
        for length in 1..=6 {
            for word in ["k", "1", "0"] {
                let words = std::iter::once(spec.name).chain(std::iter::repeat_n(word, length));
                check(spec, &ArgBuf::of(words), &states, &mut failures);
            }
        }
    }
    report(&failures);
}

/// Words that are not text, long ones, and words that are options elsewhere.
#[test]
fn binary_and_long_words() {
    let states = states();
    let mut failures = Vec::new();
    let long = vec![b'9'; 5_000];
    let hostile: [&[u8]; 9] = [
        b"\xff\xfe\0",
        b"\r\n+OK\r\n",
        b"[",
        b"1 ",
        &long,
        b"nx",
        b"count",
        b"owner",
        b"withscores",
    ];
    for spec in record::data_commands() {
        for call in syntax::sample_calls(spec).iter().take(20) {
            let words = words_of(call);
            for at in 1..words.len() {
                for word in hostile {
                    let mut changed = words.clone();
                    changed[at] = word.to_vec();
                    check(spec, &ArgBuf::of(&changed), &states, &mut failures);
                }
            }
        }
    }
    report(&failures);
}

/// The largest integer of a reply.
fn largest(reply: &Reply) -> u64 {
    match reply {
        Reply::Int(number) => number.unsigned_abs(),
        Reply::Array(parts) | Reply::Set(parts) | Reply::Push(parts) => {
            parts.iter().map(largest).max().unwrap_or(0)
        }
        Reply::Map(pairs) => {
            pairs.iter().map(|(k, v)| largest(k).max(largest(v))).max().unwrap_or(0)
        }
        _ => 0,
    }
}

/// Integers in replies survive in clients that hold integers as floats, for a century.
#[test]
fn integers_of_all_commands_fit_into_floats_in_a_century() {
    let states = states();
    let (mut failures, mut made_up) = (Vec::new(), Vec::new());
    for spec in record::data_commands() {
        for call in syntax::sample_calls(spec) {
            let Some(command) = parse(spec, &call) else { continue };
            for state in std::iter::once(None).chain(states.iter().map(Some)) {
                let reply = run(&mut store_of(spec, &call, state), &command, &mut Vec::new());
                let number = largest(&reply);
                if number > adt::NUMBER_MAX {
                    failures.push(format!("{}: {reply:?}", show(&call)));
                }
                made_up.extend((number >= IN_A_CENTURY_US).then_some(spec.name));
            }
        }
    }
    report(&failures);
    assert!(["lock.try", "election.campaign"].iter().all(|name| made_up.contains(name)));
}

/// Checks that the generated tables are not empty: every type has a state, except barriers, which
/// store nothing, and every command has a sample call.
#[test]
fn every_type_and_command_is_covered() {
    let made = states();
    for (type_name, ..) in record::lock_modes().into_iter().filter(|(name, ..)| *name != "barrier")
    {
        assert!(made.iter().any(|r| r.value.type_name() == type_name), "no state of {type_name}");
    }
    for spec in record::data_commands() {
        assert!(!syntax::sample_calls(spec).is_empty(), "no sample call of {}", spec.name);
    }
}
