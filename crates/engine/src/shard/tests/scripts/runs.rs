//! Runs on records that others use as well, that expire, that are large, or that fail.

use super::super::records::updates::{announced, commit, get};
use super::*;
use crate::cluster::slot::slot;
use crate::limits::{SCRIPT_COPY_US, SCRIPTS_TOGETHER_REPLY_BYTES};
use crate::message::RunReply;

#[test]
fn runs_on_one_record_share_a_write_to_the_log() {
    let mut story = story();
    for _ in 0..20 {
        story.ask(run(&["k"], "INCR k"));
    }
    let entry = story.end_turn().expect("they are in the log");
    assert_eq!(entry.records.len(), 20);
    assert_eq!(told(&mut story), Vec::<String>::new(), "no run is answered before it is durable");
    story.shard.keep(entry, 0);
    story.sync();
    let seen = told(&mut story);
    assert_eq!(seen.len(), 20);
    assert_eq!((&seen[0][..], &seen[19][..]), ("1 = 1", "20 = 20"));
    assert_eq!(story.shard.scripts_run(), (20, 19));
}

#[test]
fn a_run_that_fails_leaves_nothing_to_the_runs_behind_it() {
    let mut story = story();
    story.ask(run(&["k"], "SET k 5"));
    story.ask(run(&["k", "l"], "INCR k\nSET l 1\nFAIL"));
    story.ask(run(&["k"], "INCR k"));
    story.ask(run(&["l"], "EXISTS l"));
    story.sync();
    let seen = told(&mut story);
    assert_eq!(seen, ["1 = Ok", "2 ERR raised", "3 = 6", "4 = 0"]);
}

#[test]
fn a_run_on_a_large_record_that_fails_leaves_nothing_either() {
    let mut story = story();
    let elements = vec!["x"; 200].join(" ");
    story.ask(run(&["k"], &format!("RPUSH k {elements}")));
    story.ask(run(&["k"], "LPOP k\nFAIL"));
    story.ask(run(&["k"], "LLEN k"));
    story.sync();
    story.sync();
    let seen = told(&mut story);
    assert_eq!(seen, ["1 = 200", "2 ERR raised", "3 = 200"]);
}

#[test]
fn a_run_that_only_reads_is_answered_without_the_log_if_it_rests_on_nothing() {
    let mut story = story();
    story.ask(run(&["k"], "GET k"));
    assert!(story.end_turn().is_none());
    assert_eq!(told(&mut story), ["1 = Nil"]);
    story.ask(run(&["k"], "SET k 1"));
    story.ask(run(&["k"], "EXISTS k"));
    let entry = story.end_turn().expect("the second is answered behind the first");
    assert_eq!((entry.records.len(), told(&mut story)), (2, Vec::new()));
    story.shard.keep(entry, 0);
    story.sync();
    assert_eq!(told(&mut story), ["2 = Ok", "3 = 1"]);
}

#[test]
fn a_run_waits_for_a_transaction_and_sees_what_it_wrote() {
    let mut story = story();
    story.ask(announced(1, "k", get()));
    story.ask(run(&["k"], "GET k"));
    assert_eq!(told(&mut story), ["1 locked Nil"]);
    story.ask(commit(1, &[("k", put("x"))]));
    story.sync();
    assert_eq!(told(&mut story), ["2 = Bulk(\"x\")", "3 done Ok"]);
}

#[test]
fn a_transaction_sees_what_a_run_wrote_before_it_is_durable() {
    let mut story = story();
    story.ask(run(&["k"], "SET k x"));
    story.ask(announced(1, "k", get()));
    assert_eq!(told(&mut story), ["2 locked Bulk(\"x\")"]);
    assert_eq!(story.shard.reads_ahead(), 1);
}

#[test]
fn a_record_that_expires_is_gone_for_the_runs_behind_its_end() {
    let mut story = story();
    story.ask(run(&["k"], "SET k x PX 10"));
    story.ask(run(&["k"], "PTTL k"));
    story.now.wall_us += 11_000;
    story.ask(run(&["k"], "GET k"));
    story.ask(run(&["k"], "INCR k"));
    story.sync();
    // The entry has one time for all its operations, so that they come to the same again.
    assert_eq!(
        told(&mut story),
        ["1 = Ok", "2 = 10", "3 = Bulk(\"x\")", "4 ERR value is not an integer or out of range"]
    );
    story.ask(run(&["k"], "INCR k"));
    story.ask(run(&["k"], "PTTL k"));
    story.sync();
    assert_eq!(told(&mut story), ["5 = 1", "6 = -1"]);
}

#[test]
fn a_record_ends_for_runs_though_its_write_is_not_durable() {
    let mut story = story();
    story.ask(run(&["k"], "SET k x PX 10"));
    let entry = story.end_turn().expect("the write");
    story.shard.keep(entry, 0);
    story.now.wall_us += 11_000;
    story.ask(run(&["k"], "EXISTS k"));
    story.ask(run(&["k"], "INCR k"));
    story.sync();
    assert_eq!(told(&mut story), ["1 = Ok", "2 = 0", "3 = 1"]);
}

#[test]
fn an_expired_field_is_gone_for_the_runs_behind_its_end() {
    let mut story = story();
    story.ask(run(&["k"], "HSET k a 1 b 1\nHPEXPIRE k 10 FIELDS 1 a"));
    story.ask(run(&["k"], "HLEN k"));
    story.sync();
    story.now.wall_us += 11_000;
    story.ask(run(&["k"], "HLEN k"));
    story.ask(run(&["k"], "HINCRBY k a 5\nHSETEX k PX 10 FIELDS 1 b 2\nHDEL k a"));
    story.sync();
    assert_eq!(
        told(&mut story),
        ["1 = Array([Int(1)])", "2 = 2", "3 = 1", "4 = 1"],
        "an increment made the field anew"
    );
    story.now.wall_us += 11_000;
    story.ask(run(&["k"], "EXISTS k"));
    story.sync();
    assert_eq!(told(&mut story), ["5 = 0"], "its last field has expired");
}

#[test]
fn fields_of_a_large_record_expire_before_a_run_writes_it() {
    let mut story = story();
    let pairs: Vec<String> = (0..200).map(|n| format!("f{n} {n}")).collect();
    story.ask(run(&["k"], &format!("HSET k {}", pairs.join(" "))));
    story.ask(run(&["k"], "HPEXPIRE k 10 FIELDS 2 f0 f1"));
    story.ask(run(&["k"], "HPEXPIRE k 20 FIELDS 1 f2"));
    story.sync();
    for left in [198, 197] {
        story.now.wall_us += 11_000;
        let asked = story.ask(run(&["k"], "HSET k f199 x\nHLEN k"));
        story.ask(run(&["k"], "HLEN k"));
        story.sync();
        let seen = told(&mut story);
        let expected = [format!("{asked} = {left}"), format!("{} = {left}", asked + 1)];
        assert_eq!(seen[seen.len() - 2..], expected);
    }
    story.pass(SCRIPT_COPY_US);
    assert_eq!(story.shard.desk.core.locks.kept_foreseen(), 0);
}

#[test]
fn a_run_names_further_keys_of_the_slots_of_its_shard() {
    let mut story = story();
    story.ask(run(&["{q}a"], "RPUSH {q}a 1\nRPOPLPUSH {q}a {q}b\nLLEN {q}b"));
    let (there, elsewhere) = (slot(b"there"), slot(b"elsewhere"));
    let slots = if there < elsewhere { (0, there) } else { (there, SLOTS - 1) };
    for text in ["INCR there", "INCR elsewhere"] {
        story.ask(Body::Run(vec![run_within(&["{q}a"], text, slots)]));
    }
    story.sync();
    assert_eq!(told(&mut story), ["1 = 1", "2 = 1", "3 refused NotHere"]);
}

#[test]
fn a_run_begins_again_when_a_key_that_it_has_not_declared_is_free() {
    let mut story = story();
    story.ask(announced(1, "{q}b", get()));
    story.ask(run(&["{q}a"], "INCR {q}a\nINCR {q}b"));
    story.ask(run(&["{q}a"], "INCR {q}a"));
    story.sync();
    assert_eq!(told(&mut story), ["1 locked Nil"], "the third stands behind the second");
    story.ask(commit(1, &[("{q}b", put("7"))]));
    story.sync();
    assert_eq!(told(&mut story), ["2 = 8", "3 = 2", "4 done Ok"]);
}

#[test]
fn what_follows_from_a_timestamp_or_lasts_long_is_left_to_the_gateway() {
    let mut story = story();
    for text in ["UID.NEXT k", "BLPOP k 0", "NOSUCH k", "GET", "PUBLISH c"] {
        story.ask(run(&["k"], text));
        assert!(told(&mut story).concat().ends_with("refused NotHere"), "{text}");
    }
    story.ask(run(&["k"], "PAUSE\nPAUSE\nPAUSE\nSET k 1"));
    story.ask(run(&["k"], "PAUSE\nPAUSE\nPAUSE\nPAUSE\nSET k 1"));
    story.sync();
    assert_eq!(told(&mut story), ["6 = Ok", "7 refused NotHere"]);
}

#[test]
fn what_runs_have_published_comes_with_their_replies_unless_they_fail() {
    let mut story = story();
    story.ask(run(&["k"], "PUBLISH c m\nINCR k\nSPUBLISH d n"));
    story.ask(run(&["k"], "INCR k\nPUBLISH c undone\nFAIL"));
    let long = "x".repeat(SCRIPTS_TOGETHER_REPLY_BYTES);
    story.ask(run(&["k"], &format!("PUBLISH c {long}")));
    assert!(story.answers().iter().all(|(token, _)| *token == 3), "nothing is durable");
    story.sync();
    let mut told = story.answers().into_iter();
    let Some((1, Answer::Ran(runs))) = told.next() else { panic!("the first has published") };
    let [RunReply { reply, published }] = &runs[..] else { panic!("{runs:?}") };
    let sent: Vec<_> =
        published.iter().map(|sent| (sent.sharded, &*sent.channel, &*sent.payload)).collect();
    assert_eq!(*reply, Reply::Int(0), "that of its last command");
    assert_eq!(sent, [(false, &b"c"[..], &b"m"[..]), (true, b"d", b"n")]);
    let failed = told.next();
    assert!(matches!(&failed, Some((2, Answer::Reply(Reply::Error(_))))), "{failed:?}");
}

#[test]
fn entries_of_streams_have_ids_of_the_time_and_go_to_consumers() {
    let mut story = story();
    let wall_ms = story.now.wall_us / 1000;
    story.ask(run(&["s"], "XADD s * f a\nXADD s MAXLEN ~ 5 * f b\nXLEN s"));
    story.ask(run(&["s"], "XGROUP CREATE s g 0\nXREADGROUP GROUP g c STREAMS s >\nXACK s g 0-1"));
    story.now.wall_us += 60_000_000;
    story.ask(run(&["s"], "XPENDING s g\nXADD s * f c"));
    story.ask(run(&["s"], "XREVRANGE s + - COUNT 2"));
    story.sync();
    let told = told(&mut story);
    assert_eq!(told[..2], ["1 = 2", "2 = 0"]);
    assert!(told[2].starts_with(&format!("3 = Bulk(\"{}-", wall_ms + 60_000)), "{told:?}");
    assert_eq!(told.len(), 4);
    assert!(!story.shard.desk.core.locks.foresees());
}

#[test]
fn a_chosen_member_is_the_one_that_is_removed() {
    let mut story = story();
    story.ask(run(&["s"], "SADD s a b c d e f\nSPOP s 5\nSCARD s"));
    story.ask(run(&["s"], "SPOP s\nSCARD s"));
    story.sync();
    assert_eq!(told(&mut story), ["1 = 1", "2 = 0"]);
}

#[test]
fn a_write_that_answers_an_error_leaves_no_copy() {
    let mut story = story();
    story.ask(run(&["k", "l"], "SET k x"));
    story.sync();
    story.ask(run(&["k", "l"], "?LPUSH k 1\nSET l 1"));
    story.sync();
    assert_eq!(told(&mut story), ["1 = Ok", "2 = Ok"]);
    assert!(!story.shard.desk.core.locks.foresees());
}

#[test]
fn the_copy_of_a_large_record_is_kept_while_scripts_use_it() {
    let mut story = story();
    let elements = vec!["x"; 200].join(" ");
    story.ask(run(&["k"], &format!("RPUSH k {elements}")));
    story.sync();
    assert_eq!(story.shard.desk.core.locks.kept_foreseen(), 1);
    story.ask(Body::Apply(Apply {
        ops: SmallVec::from_iter([read("RPUSH k y")]),
        ..Apply::default()
    }));
    story.ask(run(&["k"], "LLEN k"));
    story.sync();
    let seen = told(&mut story);
    assert_eq!(seen, ["1 = 200", "2 done 201", "3 = 201"]);
    story.pass(SCRIPT_COPY_US + 1);
    assert_eq!(story.shard.desk.core.locks.kept_foreseen(), 0);
}

#[test]
fn runs_that_never_were_in_the_log_go_to_the_next_leader() {
    let mut story = story();
    story.ask(run(&["k"], "INCR k"));
    let entry = story.end_turn().expect("the first");
    story.shard.keep(entry, 0);
    story.ask(run(&["k"], "INCR k"));
    story.shard.step_down();
    let answers: Vec<String> = story
        .answers()
        .iter()
        .map(|(token, answer)| {
            let what = match answer {
                Answer::Unknown => "unknown",
                Answer::NotTaken(body) if matches!(**body, Body::Run(_)) => "not taken",
                other => panic!("{other:?}"),
            };
            format!("{token} {what}")
        })
        .collect();
    assert_eq!(answers, ["1 unknown", "2 not taken"]);
}

/// The operation of a command.
fn read(words: &str) -> (Blob, Op) {
    let words: Vec<&[u8]> = words.as_bytes().split(|byte| *byte == b' ').collect();
    adt::record::decode(&ArgBuf::of(words).args()).expect("it is a command")
}
