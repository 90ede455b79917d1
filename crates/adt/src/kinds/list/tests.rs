//! Tests of the list type.

use crate::kinds::list::*;
use crate::laws::foretold::check_walks;
use crate::laws::{check_laws, check_words, dialogue};
use crate::{Attempt, Command, ErrorReply, Handler, Op as AnyOp};

fn some(words: &[&str]) -> Elements {
    words.iter().map(|w| Blob::from(*w)).collect()
}

pub(crate) fn samples() -> Vec<Op> {
    let find = |rank, count| Find { element: "x".into(), rank, count, compare_max: 2 };
    vec![
        Op::Push(End::Left, some(&["x"])),
        Op::Push(End::Right, some(&["x"])),
        Op::Push(End::Right, some(&["y", "x"])),
        Op::PushIfPresent(End::Left, some(&["y"])),
        Op::PushIfPresent(End::Right, some(&["x"])),
        Op::Pop(End::Left, None),
        Op::Pop(End::Left, Some(0)),
        Op::Pop(End::Right, None),
        Op::Pop(End::Right, Some(2)),
        Op::SetAt(0, "y".into()),
        Op::Insert { before: true, pivot: "x".into(), element: "y".into() },
        Op::Remove(-1, "x".into()),
        Op::Trim(0, 1),
        Op::Len,
        Op::Range(0, 1),
        Op::Range(-2, -1),
        Op::Range(0, -1),
        Op::At(0),
        Op::At(-2),
        Op::Find(find(1, None)),
        Op::Find(find(-2, Some(0))),
    ]
}

fn bulks(words: &[&str]) -> Reply {
    Reply::Array(words.iter().map(Reply::bulk).collect())
}

fn ints(numbers: &[i64]) -> Reply {
    Reply::Array(numbers.iter().copied().map(Reply::Int).collect())
}

fn parse(line: &str) -> Result<Command, ErrorReply> {
    let words = ArgBuf::of(line.split(' '));
    let spec = crate::record::command(words.args().get(0).unwrap()).unwrap();
    spec.check_arity(words.len())?;
    let Handler::Data(parse) = spec.handler else { panic!("not a data command") };
    parse(&words.args())
}

/// Runs a compound command on lists named by keys and gives its reply.
fn run_compound(lists: &mut [(&str, Value)], line: &str) -> Reply {
    let Ok(Command::Compound(compound)) = parse(line) else { panic!("no compound: {line}") };
    let ctx = Ctx::default();
    let mut apply = |key: &Blob, op: &AnyOp| {
        let AnyOp::List(op) = op else { panic!("no list operation") };
        let list = lists.iter_mut().find(|(name, _)| *name.as_bytes() == **key);
        match list {
            Some((_, list)) => list.apply(op, &ctx, &mut Meta::default()),
            None => Reply::Error(ErrorReply::wrong_type()),
        }
    };
    let replies: Vec<Reply> = compound.reads.iter().map(|(key, op)| apply(key, op)).collect();
    let plan = compound.plan(&replies).expect("one step");
    for (key, op) in &plan.writes {
        apply(key, op);
    }
    plan.reply
}

fn list(words: &[&str]) -> Value {
    Value { elements: words.iter().map(|w| Blob::from(*w)).collect() }
}

#[test]
fn laws() {
    check_laws::<Value>(&samples(), 3);
    check_words(&samples().into_iter().map(AnyOp::List).collect::<Vec<_>>());
}

#[test]
fn elements_come_and_go_at_both_ends() {
    dialogue(&[
        ("lpushx k a", Reply::Int(0)),
        ("exists k", Reply::Int(0)),
        ("rpush k c d", Reply::Int(2)),
        ("lpush k b a", Reply::Int(4)),
        ("rpushx k e", Reply::Int(5)),
        ("lrange k 0 -1", bulks(&["a", "b", "c", "d", "e"])),
        ("lrange k -2 99", bulks(&["d", "e"])),
        ("lrange k 3 1", bulks(&[])),
        ("lrange k 0 -99", bulks(&[])),
        ("lindex k -5", Reply::bulk("a")),
        ("lindex k 5", Reply::Nil),
        ("lpop k 0", bulks(&[])),
        ("lpop k", Reply::bulk("a")),
        ("rpop k 2", bulks(&["e", "d"])),
        ("lpop k -1", Reply::err("value is out of range, must be positive")),
        ("rpop k 99", bulks(&["c", "b"])),
        ("exists k", Reply::Int(0)),
        ("lpop k", Reply::Nil),
        ("lpop k 0", Reply::NilArray),
        ("llen k", Reply::Int(0)),
    ]);
}

#[test]
fn elements_change_in_the_middle() {
    dialogue(&[
        ("lset k 0 a", Reply::err("no such key")),
        ("linsert k before a b", Reply::Int(0)),
        ("rpush k a b a c a", Reply::Int(5)),
        ("lset k -1 z", Reply::Ok),
        ("lset k 5 z", Reply::err("index out of range")),
        ("linsert k before a 1", Reply::Int(6)),
        ("linsert k after z 2", Reply::Int(7)),
        ("linsert k after none 2", Reply::Int(-1)),
        ("linsert k beside a 2", Reply::err("syntax error")),
        ("lrange k 0 -1", bulks(&["1", "a", "b", "a", "c", "z", "2"])),
        ("lrem k -1 a", Reply::Int(1)),
        ("lrange k 0 3", bulks(&["1", "a", "b", "c"])),
        ("lrem k 5 x", Reply::Int(0)),
        ("ltrim k 1 -3", Reply::Ok),
        ("lrange k 0 -1", bulks(&["a", "b", "c"])),
        ("lrem k 0 b", Reply::Int(1)),
        ("ltrim k 5 9", Reply::Ok),
        ("exists k", Reply::Int(0)),
    ]);
}

#[test]
fn positions_of_an_element() {
    let zero = Reply::err(
        "RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
         negative to start from the end of the list",
    );
    dialogue(&[
        ("rpush k a b c d 1 2 3 4 3 3 3", Reply::Int(11)),
        ("lpos k 3", Reply::Int(6)),
        ("lpos k 3 count 0 rank 2", ints(&[8, 9, 10])),
        ("lpos k 3 rank -2 count 2", ints(&[9, 8])),
        ("lpos k 3 rank -1 maxlen 1", Reply::Int(10)),
        ("lpos k 3 maxlen 6", Reply::Nil),
        ("lpos k x count 1", ints(&[])),
        ("lpos k 3 rank 0", zero),
        ("lpos k 3 count -1", Reply::err("COUNT can't be negative")),
        ("lpos k 3 rank", Reply::err("syntax error")),
    ]);
}

#[test]
fn a_move_also_rotates_one_list() {
    let mut lists = [("a", list(&["1", "2", "3"])), ("b", list(&[]))];
    assert_eq!(run_compound(&mut lists, "lmove a b left right"), Reply::bulk("1"));
    assert_eq!(run_compound(&mut lists, "rpoplpush a b"), Reply::bulk("3"));
    assert_eq!(lists[1].1, list(&["3", "1"]));
    assert_eq!(run_compound(&mut lists, "lmove b b left right"), Reply::bulk("3"));
    assert_eq!(lists[1].1, list(&["1", "3"]));
    assert_eq!(run_compound(&mut lists, "rpoplpush b b"), Reply::bulk("3"));
    assert_eq!(lists[1].1, list(&["3", "1"]));
    assert_eq!(run_compound(&mut lists, "lmove a a left left"), Reply::bulk("2"));
    assert_eq!(lists[0].1, list(&["2"]));
}

#[test]
fn a_move_from_nothing_is_nil_and_to_another_type_changes_nothing() {
    let mut lists = [("a", list(&[])), ("b", list(&["1"]))];
    let wrong = Reply::Error(ErrorReply::wrong_type());
    assert_eq!(run_compound(&mut lists, "rpoplpush a other"), Reply::Nil);
    assert_eq!(run_compound(&mut lists, "rpoplpush b other"), wrong);
    assert_eq!(run_compound(&mut lists, "rpoplpush other b"), wrong);
    assert_eq!(lists[1].1, list(&["1"]));
    assert!(parse("lmove a b left up").is_err());
}

#[test]
fn a_pop_from_several_takes_the_first_that_has_elements() {
    let mut lists = [("a", list(&[])), ("b", list(&["1", "2", "3"]))];
    let named = |words: &[&str]| Reply::Array(vec![Reply::bulk("b"), bulks(words)]);
    assert_eq!(run_compound(&mut lists, "lmpop 2 a b right count 2"), named(&["3", "2"]));
    assert_eq!(run_compound(&mut lists, "lmpop 2 b other left"), named(&["1"]));
    assert_eq!(run_compound(&mut lists, "lmpop 2 a b left"), Reply::NilArray);
    assert!(run_compound(&mut lists, "lmpop 2 a other left").is_error());
    let refused = |line| parse(line).err().map(|e| e.text().to_owned());
    assert_eq!(refused("lmpop 0 a left").unwrap(), "numkeys should be greater than 0");
    assert_eq!(refused("lmpop 1 a left count 0").unwrap(), "count should be greater than 0");
    assert_eq!(refused("lmpop 1 a middle").unwrap(), "syntax error");
}

#[test]
fn waiting_pops_name_the_key_and_check_their_timeout() {
    let Ok(Command::Blocking(blpop)) = parse("blpop a b 0.25") else { panic!("does not wait") };
    assert_eq!((blpop.timeout_ms, &blpop.on_timeout), (250, &Reply::NilArray));
    assert_eq!(blpop.attempts.len(), 2);
    let (key, Attempt::Take { wrap, .. }) = &blpop.attempts[1] else { panic!("no take") };
    assert_eq!(wrap(key, Reply::bulk("x")), bulks(&["b", "x"]));
    assert_eq!(wrap(key, Reply::Nil), Reply::Nil);
    let Ok(Command::Blocking(mpop)) = parse("blmpop 0 1 a left count 2") else {
        panic!("does not wait")
    };
    let (_, Attempt::Take { op, .. }) = &mpop.attempts[0] else { panic!("no take") };
    assert_eq!(*op, AnyOp::List(Op::Pop(End::Left, Some(2))));
    let Ok(Command::Blocking(blmove)) = parse("blmove a b left left 1") else {
        panic!("does not wait")
    };
    assert_eq!((blmove.on_timeout, blmove.on_nothing), (Reply::NilArray, Reply::Nil));
    let refused = |line| parse(line).err().map(|e| e.text().to_owned());
    assert_eq!(refused("brpop a -1").unwrap(), "timeout is negative");
    assert_eq!(refused("brpop a x").unwrap(), "timeout is not a float or out of range");
    assert_eq!(refused("brpoplpush a b inf").unwrap(), "timeout is out of range");
}

#[test]
fn replies_are_known_ahead() {
    let known = [
        "rpush k ?",
        "lpush k ? ? ?",
        "lpushx k ? ?",
        "rpushx k ?",
        "lpop k",
        "rpop k",
        "lpop k %",
        "rpop k %",
        "lset k # ?",
        "ltrim k % -2",
    ];
    let others = ["linsert k before ? ?", "lrem k # ?", "del k", "expire k 1"];
    check_walks("rpush k ?", &known, &others);
}
