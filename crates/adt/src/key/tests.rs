//! Tests of operations on keys.

use super::*;
use crate::command::database::moved_to;
use crate::laws::{check_words, dialogue};
use crate::{Ctx, Timestamp, record};

fn run(slot: &mut Option<Record>, words: &[&str]) -> Result<Reply, ErrorReply> {
    let (_, op) = record::decode(&ArgBuf::of(words).args())?;
    Ok(record::apply(slot, &op, &Ctx { now_ms: 1000, ..Ctx::default() }))
}

#[test]
fn expiry_obeys_its_conditions() {
    let exclusive = "NX and XX, GT or LT options at the same time are not compatible";
    dialogue(&[
        ("expire k 10", Reply::Int(0)),
        ("ttl k", Reply::Int(-2)),
        ("sadd k a", Reply::Int(1)),
        ("pttl k", Reply::Int(-1)),
        ("pexpire k 5000 xx", Reply::Int(0)),
        ("pexpire k 5000 gt", Reply::Int(0)),
        ("pexpire k 5000 xx lt", Reply::Int(0)),
        ("pexpire k 5000 lt", Reply::Int(1)),
        ("pexpire k 6000 nx", Reply::Int(0)),
        ("pexpire k 6000 xx lt", Reply::Int(0)),
        ("pexpire k 6499 xx gt", Reply::Int(1)),
        ("ttl k", Reply::Int(6)),
        ("pexpiretime k", Reply::Int(7499)),
        ("expiretime k", Reply::Int(7)),
        ("pexpire k 1 nx gt", Reply::err(exclusive)),
        ("pexpire k 1 gt lt", Reply::err("GT and LT options at the same time are not compatible")),
        ("pexpire k 1 soon", Reply::err("Unsupported option soon")),
        ("expire k 9223372036854775807", Reply::err("invalid expire time in 'expire' command")),
        ("persist k", Reply::Int(1)),
        ("persist k", Reply::Int(0)),
        ("expireat k 1", Reply::Int(1)),
        ("exists k", Reply::Int(0)),
        ("type k", Reply::status("none")),
    ]);
}

#[test]
fn operations_read_back_as_written() {
    let only = [
        ExpireIf::Always,
        ExpireIf::None,
        ExpireIf::Some,
        ExpireIf::Later,
        ExpireIf::Earlier,
        ExpireIf::SomeEarlier,
    ];
    let forms = [TtlForm::Seconds, TtlForm::Millis, TtlForm::AtSeconds, TtlForm::AtMillis];
    let mut ops: Vec<KeyOp> =
        only.map(|only| KeyOp::Expire { at: When::In(-5), only }).into_iter().collect();
    ops.extend(forms.map(KeyOp::Ttl));
    ops.extend([
        KeyOp::Del,
        KeyOp::Exists,
        KeyOp::Type,
        KeyOp::Persist,
        KeyOp::Encoding,
        KeyOp::Usage,
        KeyOp::Fetch,
        KeyOp::Reap { expire_at_ms: 77 },
        KeyOp::Expire { at: When::At(9), only: ExpireIf::Always },
    ]);
    check_words(&ops.into_iter().map(Op::Key).collect::<Vec<_>>());
}

#[test]
fn only_the_expiry_that_was_due_is_reaped() {
    let mut slot = None;
    run(&mut slot, &["set", "k", "v", "pxat", "5000"]).unwrap();
    assert_eq!(run(&mut slot, &["record.reap", "k", "4000"]), Ok(Reply::Int(0)));
    assert_eq!(run(&mut slot, &["record.reap", "k", "5000"]), Ok(Reply::Int(1)));
    assert_eq!(slot, None);
}

#[test]
fn a_whole_record_is_put_with_its_expiry_or_refused() {
    let mut slot = None;
    let put = ["record.put", "k", "sinterstore", "set", "5000", "2", "a", "b"];
    assert_eq!(run(&mut slot, &put), Ok(Reply::Ok));
    assert_eq!(slot.as_ref().and_then(Record::expire_at_ms), Some(5000));
    assert_eq!(run(&mut slot, &["scard", "k"]), Ok(Reply::Int(2)));
    for wrong in [
        &["record.put", "k", "sinterstore", "set", "-1", "3", "a", "b"][..],
        &["record.put", "k", "sinterstore", "set", "-1", "1", "a", "b"],
        &["record.put", "k", "sinterstore", "set", "-1", "2", "a", "a"],
        &["record.put", "k", "sinterstore", "set", "-1", "-1"],
        &["record.put", "k", "sinterstore", "unknown", "-1", "0"],
        &["record.put", "k", "sinterstore", "list", "-1", "999999999999"],
    ] {
        assert!(run(&mut slot, wrong).is_err(), "{wrong:?}");
    }
    assert!(record::command(b"record.put").is_none(), "clients cannot send internal forms");
}

#[test]
fn rename_and_copy_move_whole_records() {
    let plan = |words: &[&str], replies: &[Reply]| {
        let words = ArgBuf::of(words);
        let spec = record::command(words.args().get(0).unwrap()).unwrap();
        let crate::Handler::Data(parse) = spec.handler else { panic!("not a data command") };
        let Ok(Command::Compound(compound)) = parse(&words.args()) else { panic!("no compound") };
        compound.plan(replies).expect("one step")
    };
    let mut slot = None;
    run(&mut slot, &["set", "a", "v"]).unwrap();
    let there = Reply::Record(Box::new(slot.unwrap()));
    let both = [there.clone(), there.clone()];
    let free = [there, Reply::Nil];
    let names = |plan: &Plan| plan.writes.iter().map(|(k, _)| k.clone()).collect::<Vec<_>>();
    let renamed = plan(&["rename", "a", "b"], &both);
    assert_eq!((renamed.reply.clone(), names(&renamed)), (Reply::Ok, vec!["b".into(), "a".into()]));
    assert_eq!(plan(&["renamenx", "a", "b"], &both).reply, Reply::Int(0));
    assert_eq!(plan(&["renamenx", "a", "b"], &free).reply, Reply::Int(1));
    assert_eq!(
        plan(&["rename", "a", "b"], &[Reply::Nil, Reply::Nil]).reply,
        Reply::err("no such key")
    );
    assert_eq!(plan(&["copy", "a", "b"], &both).reply, Reply::Int(0));
    let copied = plan(&["copy", "a", "b", "replace"], &both);
    assert_eq!((copied.reply.clone(), names(&copied)), (Reply::Int(1), vec!["b".into()]));
    let copy = record::command(b"copy").unwrap();
    let crate::Handler::Data(parse) = copy.handler else { panic!("not a data command") };
    assert!(parse(&ArgBuf::of(["copy", "a", "a"]).args()).is_err());
    // Across databases: keys are stored keys, and the second one is made from the name.
    let third = |name: &str| moved_to(3, name.as_bytes());
    let copied = plan(&["copy", "a", "a", "db", "3"], &free);
    assert_eq!((copied.reply.clone(), names(&copied)), (Reply::Int(1), vec![third("a")]));
    let moved = plan(&["move", "a", "3"], &free);
    assert_eq!((moved.reply.clone(), names(&moved)), (Reply::Int(1), vec![third("a"), "a".into()]));
    assert_eq!(plan(&["move", "a", "3"], &both).reply, Reply::Int(0));
    assert_eq!(plan(&["move", "a", "3"], &[Reply::Nil, Reply::Nil]).reply, Reply::Int(0));
    let back = ArgBuf::of([b"move", &third("a")[..], b"0"]);
    let spec = record::command(b"move").unwrap();
    let crate::Handler::Data(parse) = spec.handler else { panic!("not a data command") };
    let Ok(Command::Compound(compound)) = parse(&back.args()) else { panic!("no compound") };
    assert_eq!(names(&compound.plan(&free).expect("one step")), [Blob::from("a"), third("a")]);
    let stays = ArgBuf::of([b"move", &third("a")[..], b"3"]);
    assert!(parse(&stays.args()).is_err());
}

#[test]
fn a_record_notes_its_last_change() {
    let mut slot = None;
    let at = |ts| Ctx { ts: Timestamp(ts), ..Ctx::default() };
    let op = |words: &[&str]| record::decode(&ArgBuf::of(words).args()).unwrap().1;
    record::apply(&mut slot, &op(&["set", "k", "x"]), &at(5));
    record::apply(&mut slot, &op(&["incr", "k"]), &at(6));
    record::apply(&mut slot, &op(&["get", "k"]), &at(7));
    assert_eq!(slot.map(|r| r.modified), Some(Timestamp(5)));
}
