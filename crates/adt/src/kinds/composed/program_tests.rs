//! Operations that are programs: how definitions have them, and the steps that they make.

use super::definition::Definition;
use super::{joined, step_words};
use crate::record::{apply, decode, query};
use crate::{ArgBuf, Ctx, Op as AnyOp, Record, Reply};
use std::sync::Arc;

const BOARD: &str = "
type board
part best zset
map seen string
op add who points:int
  | local old = tonumber(redis.call('zscore', 'best', who) or '0')
  |   if points > old then
  |     redis.call('zadd', 'best', points, who)
  |   end
query top n:int
  | return redis.call('zrange', 'best', 0, n - 1, 'rev')
query size
  return zcard best
";

fn board() -> Arc<Definition> {
    Arc::new(Definition::parse(BOARD.as_bytes(), None).expect("a definition"))
}

/// The operation that a command of a program is, or the error.
fn step(definition: &Definition, words: &str) -> Result<AnyOp, String> {
    let words = ArgBuf::of(words.split(' '));
    let words = step_words(definition, b"k", &words.args());
    decode(&words.args()).map(|(_, op)| op).map_err(|error| error.text().to_owned())
}

#[test]
fn a_definition_with_programs_reads_back_in_both_forms() {
    let definition = board();
    let again = Definition::parse(definition.text(), None).expect("its own text");
    assert_eq!(again.text(), definition.text());
    let json = definition.json();
    let read = Definition::parse(json.as_bytes(), None).expect(&json);
    assert_eq!(read.text(), definition.text(), "{json}");
    let [add, top, size] = definition.operations() else { panic!("three operations") };
    let source = add.source().expect("a program");
    assert_eq!(source.lines().count(), 4, "lines are those of the program: {source}");
    assert!(source.starts_with("local who, points = ARGV[1], tonumber(ARGV[2]); local old"));
    assert!(source.contains("\n  if points > old then\n    redis"), "it keeps its form: {source}");
    assert_eq!((add.writes, top.writes, size.writes), (true, false, false));
    assert_eq!(size.source(), None);
}

#[test]
fn empty_lines_are_kept_between_lines_and_nowhere_else() {
    let text =
        b"type t\npart n counter\nop o\n|\n| local a = 1\n|\n|\n| return a\n|\n|\nop p\n| return 2";
    let definition = Definition::parse(text, None).expect("a definition");
    let programs: Vec<_> = definition.operations().iter().map(|one| one.source()).collect();
    let wanted = ["\nlocal a = 1\n\n\nreturn a", "return 2"].map(|text| Some(text.to_owned()));
    assert_eq!(programs, wanted);
    let again = Definition::parse(definition.text(), None).expect("its own text");
    assert_eq!(again.text(), definition.text());
    let read = Definition::parse(definition.json().as_bytes(), None).expect("its JSON");
    assert_eq!(read.text(), definition.text());
}

#[test]
fn programs_that_cannot_be_are_refused_each_with_its_error() {
    let part = "type t\npart n counter\n";
    for (text, wanted) in [
        (format!("{part}| return 1"), "outside of an operation"),
        (format!("{part}op o\ncounter.add n 1\n| return 1"), "steps or a program, not both"),
        (format!("{part}op o\n| return 1\ncounter.add n 1"), "steps or a program, not both"),
        (format!("{part}op o end\n| return 1"), "'end' cannot name a parameter of a program"),
        (format!("{part}op o\n| return \x07"), "control characters are not allowed"),
        (format!("{part}query o\ncounter.add n 1"), "a query only reads"),
        (format!("{part}query o"), "has no step"),
        (format!("{part}op o\n|\n| "), "has no step"),
        (format!("{part}op o\n| #!lua flags=no-writes\n| return 1"), "has no header"),
        (format!("{part}op o\n| {}", "x".repeat(9000)), "at most 8192 bytes"),
        (format!("{part}map m string\nexpired m a b\n| return 1"), "outside of an operation"),
    ] {
        let error = Definition::parse(text.as_bytes(), None).expect_err(&text);
        assert!(error.text().contains(wanted), "{text:?}: {error}, not {wanted:?}");
    }
}

#[test]
fn numbers_that_a_program_would_round_are_refused() {
    let definition = board();
    let add = &definition.operations()[0];
    let check = |number: &str| add.check_inputs("board", &["ann".into(), number.into()]);
    assert_eq!(check("9007199254740992"), Ok(()));
    assert_eq!(check("-9007199254740992"), Ok(()));
    for number in ["9007199254740993", "-9223372036854775808", "x", "1.5"] {
        assert!(check(number).is_err(), "{number}");
    }
}

#[test]
fn commands_of_a_program_are_on_parts_and_in_the_log_as_one() {
    let definition = board();
    let ctx = Ctx::default();
    let mut slot: Option<Record> = None;
    let writes = ["zadd best 5 ann", "zadd best 7 ben", "set seen[ann] 1"];
    let writes = writes.map(|words| step(&definition, words).expect(words));
    let replies: Vec<Reply> = writes.iter().map(|op| apply(&mut slot, op, &ctx)).collect();
    assert_eq!(replies, [Reply::Int(1), Reply::Int(1), Reply::Ok]);
    let read = step(&definition, "zscore best ben").expect("a read");
    assert_eq!(query(slot.as_ref(), &read, &ctx), Reply::Double(7.0));

    let one = joined(writes.iter()).expect("one operation");
    let mut words = ArgBuf::new();
    one.encode(b"k", &mut words);
    let (_, from_log) = decode(&words.args()).expect("it reads back");
    assert_eq!(from_log, one);
    let mut other = None;
    apply(&mut other, &from_log, &ctx);
    assert_eq!(other, slot);
    assert_eq!(joined([&one, &crate::Op::Key(crate::key::KeyOp::Del)].into_iter()), None);
}

#[test]
fn commands_on_anything_else_than_parts_are_refused() {
    let definition = board();
    for (words, wanted) in [
        ("get", "names a part"),
        ("get other", "there is no part other"),
        ("get seen", "seen is a map"),
        ("get seen[x", "the bracket ']' is missing"),
        ("zcard best[x]", "best is no map"),
        ("get best", "cannot be a step on the zset best"),
        ("board.add best 1", "no command 'board.add' on one value"),
        ("rename best seen", "other keys than one"),
        ("zadd best 1", "wrong number of arguments"),
        ("zadd best x ann", "not a valid float"),
        ("type.call best board.add", "no call of another type"),
    ] {
        let error = step(&definition, words).expect_err(words);
        assert!(error.contains(wanted), "{words}: {error}, not {wanted:?}");
    }
}

#[test]
fn steps_by_an_earlier_definition_leave_a_later_value_alone() {
    let first = board();
    let later = BOARD.replace("part best zset", "part best zset\npart notes list");
    let later = Arc::new(Definition::parse(later.as_bytes(), Some(2)).expect("a definition"));
    let (ctx, mut slot) = (Ctx::default(), None);
    apply(&mut slot, &step(&first, "zadd best 5 ann").expect("a step"), &ctx);
    apply(&mut slot, &step(&later, "lpush notes x").expect("a step"), &ctx);
    let before = slot.clone();
    let reply = apply(&mut slot, &step(&first, "zadd best 6 ann").expect("a step"), &ctx);
    assert!(matches!(&reply, Reply::Error(error) if error.code() == "TRYAGAIN"), "{reply:?}");
    assert_eq!(slot.map(|record| record.value), before.map(|record| record.value));
}
