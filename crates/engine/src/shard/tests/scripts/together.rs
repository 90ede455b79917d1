//! Several runs that one request asks for, one behind the other.

use super::super::records::updates::{announced, commit, get};
use super::*;
use crate::limits::{SCRIPT_FUEL_PER_PIECE, SCRIPTS_TOGETHER_FUEL};

#[test]
fn runs_of_one_request_see_each_other_and_are_answered_together() {
    let mut story = story();
    story.ask(runs("k", &["SET k 5", "INCR k", "GET k"]));
    let entry = story.end_turn().expect("they are in the log");
    assert_eq!((entry.records.len(), told(&mut story)), (3, Vec::new()));
    story.shard.keep(entry, 0);
    story.sync();
    assert_eq!(told(&mut story), ["1 done Ok,6,Bulk(\"6\")"]);
}

#[test]
fn a_run_that_fails_undoes_nothing_of_the_others() {
    let mut story = story();
    story.ask(runs("k", &["SET k 5", "SET k 7\nFAIL", "INCR k"]));
    story.sync();
    assert_eq!(
        told(&mut story),
        ["1 done Ok,Error(ErrorReply { code: \"ERR\", text: \"raised\" }),6"]
    );
}

#[test]
fn runs_behind_one_that_cannot_be_run_here_have_no_effect() {
    let mut story = story();
    story.ask(runs("k", &["SET k 5", "UID.NEXT k", "INCR k"]));
    story.ask(runs("k", &["UID.NEXT k", "INCR k"]));
    story.ask(run(&["k"], "GET k"));
    story.sync();
    let seen = told(&mut story);
    assert_eq!(
        seen,
        ["1 = Ok", "2 refused NotHere", "3 = Bulk(\"5\")"],
        "one reply, none, the first run's write"
    );
}

#[test]
fn a_run_does_not_pass_one_that_waits() {
    let mut story = story();
    story.ask(announced(1, "l", get()));
    story.ask(runs("k", &["INCR k", "INCR l", "INCR k"]));
    story.ask(runs("k", &["INCR l", "INCR k"]));
    story.sync();
    assert_eq!(told(&mut story), ["1 locked Nil", "2 = 1"], "the second run would have to wait");
    story.ask(commit(1, &[("l", put("7"))]));
    story.sync();
    assert_eq!(told(&mut story), ["3 done 8,2", "4 done Ok"]);
}

#[test]
fn a_record_that_others_write_in_between_stays_exact() {
    let mut story = story();
    story.ask(runs("k", &["RPUSH k a\nEXPIRE k 1", "LLEN k"]));
    story.now.wall_us += 2_000_000;
    story.ask(runs("k", &["LLEN k", "RPUSH k b", "LLEN k"]));
    story.sync();
    story.sync();
    story.ask(runs("k", &["LLEN k", "RPUSH k c"]));
    story.sync();
    let seen = told(&mut story);
    // The entry has one time for all its operations.
    assert_eq!(seen, ["1 done 1,1", "2 done 1,2,2", "3 done 0,1"]);
}

#[test]
fn a_request_does_not_hold_the_shard_for_long() {
    let mut story = story();
    let long = "PAUSE\nPAUSE\nPAUSE\nINCR k";
    let texts = vec![long; 128];
    story.ask(runs("k", &texts));
    story.sync();
    let seen = told(&mut story);
    let replies = seen[0].split(',').count() as u64;
    assert_eq!(replies, SCRIPTS_TOGETHER_FUEL.div_ceil(3 * SCRIPT_FUEL_PER_PIECE), "{seen:?}");
}

#[test]
fn runs_in_the_log_are_in_doubt_and_others_go_to_the_next_leader() {
    let mut story = story();
    story.ask(runs("k", &["INCR k", "INCR k"]));
    let entry = story.end_turn().expect("the first");
    story.shard.keep(entry, 0);
    story.ask(runs("k", &["INCR k", "INCR k", "INCR k"]));
    story.shard.step_down();
    let answers = story.answers();
    let what = |(token, answer): &(u64, Answer)| match answer {
        Answer::Unknown => (*token, 0),
        Answer::NotTaken(body) => match &**body {
            Body::Run(runs) => (*token, runs.len()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let answers: Vec<(u64, usize)> = answers.iter().map(what).collect();
    assert_eq!(answers, [(1, 0), (2, 3)], "each is told once");
}
