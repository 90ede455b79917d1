//! Stories about a shard that stands still: requests that wait or are refused, and the state that is kept.

use crate::entry::{Apply, Prepare};
use crate::message::Notice;
use crate::message::{CutStep, Early};
use crate::shard::tests::{Story, txn};
use crate::shard::transfer::cut::*;
use crate::shard::*;
use adt::kinds::counter::Op as CounterOp;
use adt::{Blob, Op};

impl Story {
    fn step(&mut self, cut: u64, step: CutStep) -> u64 {
        self.ask(Body::Cut { cut, step })
    }

    /// Answers since the last call, in short form.
    fn told(&mut self) -> Vec<String> {
        let told = |(token, answer)| format!("{token} {}", short(&answer));
        self.answers().into_iter().map(told).collect()
    }

    /// The values of all counters in the state that is kept.
    fn kept(&mut self, cut: u64) -> Vec<(String, i64)> {
        let mut kept = Vec::new();
        let parts = std::cell::RefCell::new(Vec::new());
        for piece in 0.. {
            let reply = self.shard.cut_piece(self.now, (cut, piece), |part, bytes| {
                parts.borrow_mut().push(part.clone());
                bytes.push(0);
            });
            let Reply::Array(told) = reply else { panic!("{reply:?}") };
            if told[1] == Reply::Int(1) {
                break;
            }
        }
        for part in parts.into_inner() {
            if let SnapshotPart::Record(key, record) = part {
                let get = Op::Counter(CounterOp::Get);
                let value = adt::record::query(Some(&record), &get, &adt::Ctx::default());
                let value = match value {
                    Reply::Int(value) => value,
                    Reply::Bulk(text) => String::from_utf8_lossy(&text).parse().unwrap(),
                    other => panic!("{other:?}"),
                };
                kept.push((String::from_utf8_lossy(&key).into_owned(), value));
            }
        }
        kept.sort_unstable();
        kept
    }
}

fn short(answer: &Answer) -> String {
    match answer {
        Answer::Reply(Reply::Error(error)) => format!("{error:?}")
            .split('"')
            .find(|word| ["TRYAGAIN", "NOCUT"].contains(word))
            .map_or_else(|| format!("{error:?}"), str::to_owned),
        Answer::Reply(Reply::Array(told)) => format!("still {told:?}"),
        Answer::Reply(reply) => format!("{reply:?}"),
        Answer::Replies(_) | Answer::Committed { .. } => "done".into(),
        Answer::Prepared { .. } => "prepared".into(),
        Answer::Refused(refusal) => format!("refused {refusal:?}"),
        Answer::Notice(Notice::Blocked { .. }) => "blocked".into(),
        Answer::Notice(_) => "notice".into(),
        Answer::Locked { .. } => "locked".into(),
        Answer::NotTaken(_) => "not taken".into(),
        other => format!("{other:?}"),
    }
}

fn add(key: &str) -> Body {
    Body::Apply(part(key))
}

fn part(key: &str) -> Apply {
    let ops = [(Blob::from(key.as_bytes()), Op::Counter(CounterOp::Add(1)))];
    Apply { ops: ops.into_iter().collect(), ..Apply::default() }
}

fn prepare(age: u64, shards: &[u16], key: &str) -> Body {
    let participants = shards.iter().copied().map(ShardId).collect();
    let prepare = Prepare { txn: txn(age), participants, apply: part(key) };
    Body::Prepare { prepare, floor: Timestamp::ZERO }
}

fn read(key: &str, fenced: bool) -> Body {
    let op = Op::Counter(CounterOp::Get);
    Body::Read { key: Blob::from(key.as_bytes()), op, fenced }
}

#[test]
fn writes_wait_and_reads_go_on_and_the_state_is_that_of_the_moment() {
    let mut story = Story::new();
    story.ask(add("a"));
    story.step(9, CutStep::Freeze);
    assert!(story.told().is_empty(), "the write is on its way");
    story.sync();
    assert_eq!(story.told(), ["1 done", "2 still [Int(1)]"]);
    story.ask(add("a"));
    story.ask(read("a", false));
    story.ask(read("a", true));
    story.sync();
    assert_eq!(story.told().len(), 1, "a read after the session's own write waits with it");
    story.step(9, CutStep::Release);
    let seen = story.told();
    assert_eq!(seen, ["6 Ok"]);
    story.sync();
    assert_eq!(story.told().len(), 2);
    story.ask(add("b"));
    story.sync();
    assert_eq!(story.kept(9), [("a".to_owned(), 1)]);
}

#[test]
fn a_shard_stands_still_when_what_is_prepared_is_decided() {
    let mut story = Story::new();
    story.ask(prepare(1, &[0, 1], "a"));
    story.sync();
    story.step(9, CutStep::Freeze);
    assert_eq!(story.told(), ["1 prepared"]);
    story.ask(prepare(2, &[0, 1], "b"));
    assert_eq!(story.told(), ["3 refused Frozen"], "it could be prepared elsewhere");
    story.ask(prepare(3, &[0], "c"));
    assert!(story.told().is_empty(), "nobody waits for it but its gateway");
    story.ask(Body::Decide { txn: txn(1), commit: Some(Timestamp(1 << 50)) });
    assert_eq!(story.told(), ["5 done"], "the outcome is on its way");
    story.sync();
    assert_eq!(story.told(), ["2 still [Int(1)]"]);
    story.step(9, CutStep::Release);
    story.sync();
    assert_eq!(story.told(), ["6 Ok", "4 done"]);
    assert_eq!(story.kept(9), [("a".to_owned(), 1)]);
}

#[test]
fn who_waits_for_locks_does_not_hold_a_cut_up_and_is_not_granted_anything() {
    let mut story = Story::new();
    let op = Op::Counter(CounterOp::Get);
    let (key, own) = (Blob::from("a".as_bytes()), Vec::new());
    story.ask(Body::Lock { txn: txn(1), key, op, own, early: Early::Observed });
    story.ask(prepare(2, &[0, 1], "a"));
    story.ask(prepare(3, &[0], "a"));
    let seen = story.told();
    assert_eq!(seen, ["1 locked", "2 blocked", "3 blocked"]);
    story.step(9, CutStep::Freeze);
    assert_eq!(story.told(), ["2 refused Frozen", "4 still [Int(0)]"]);
    let Desk { core, locking, .. } = &mut story.shard.desk;
    locking.end(core, txn(1));
    story.shard.desk.settle(story.now);
    story.sync();
    assert!(story.told().is_empty(), "the lock is free, and the shard stands still");
    story.step(9, CutStep::Release);
    story.sync();
    assert_eq!(story.told(), ["5 Ok", "3 done"]);
    assert!(story.kept(9).is_empty());
}

#[test]
fn a_shard_goes_on_by_itself() {
    let mut story = Story::new();
    story.step(9, CutStep::Freeze);
    story.ask(add("a"));
    story.pass(FREEZE_US_MAX - 2);
    assert_eq!(story.told(), ["1 still [Int(0)]"]);
    story.pass(1);
    story.sync();
    assert_eq!(story.told(), ["2 done"]);
    story.step(9, CutStep::Release);
    assert_eq!(story.told(), ["3 NOCUT"], "whoever makes the cut learns that it is none");
    // The same without a tick in between: the clock decides.
    story.step(10, CutStep::Freeze);
    story.now.mono_us += FREEZE_US_MAX;
    story.step(10, CutStep::Release);
    assert_eq!(story.told(), ["4 still [Int(1)]", "5 NOCUT"]);
}

#[test]
fn a_lead_that_ends_takes_the_cut_with_it() {
    let mut story = Story::new();
    story.ask(prepare(1, &[0, 1], "a"));
    story.sync();
    story.step(9, CutStep::Freeze);
    story.ask(add("b"));
    story.told();
    story.shard.step_down();
    assert_eq!(story.told(), ["2 TRYAGAIN", "3 not taken"]);
    story.shard.lead(story.now, 2);
    story.step(9, CutStep::Release);
    assert_eq!(story.told(), ["4 NOCUT"]);
}

#[test]
fn there_is_one_cut_at_a_time_and_one_that_nobody_fetches_is_forgotten() {
    let mut story = Story::new();
    story.step(9, CutStep::Freeze);
    story.step(10, CutStep::Freeze);
    story.step(9, CutStep::Release);
    story.step(10, CutStep::Freeze);
    let still = "1 still [Int(0)]";
    assert_eq!(story.told(), [still, "2 TRYAGAIN", "3 Ok", "4 TRYAGAIN"]);
    story.pass(CUT_IDLE_US_MAX);
    story.step(10, CutStep::Freeze);
    story.step(9, CutStep::End);
    story.step(10, CutStep::Release);
    assert_eq!(story.told(), ["5 still [Int(0)]", "6 Ok", "7 Ok"]);
    story.step(10, CutStep::End);
    assert!(!story.shard.desk.cuts.is_open());
}

#[test]
fn too_many_who_wait_end_it() {
    let mut story = Story::new();
    story.step(9, CutStep::Freeze);
    for _ in 0..FROZEN_REQUESTS_MAX {
        story.ask(add("a"));
    }
    assert!(story.shard.is_frozen());
    story.ask(add("a"));
    assert!(!story.shard.is_frozen());
    story.sync();
    assert_eq!(story.told().len(), FROZEN_REQUESTS_MAX + 2);
    story.step(9, CutStep::Release);
    assert_eq!(story.told().last().map(|seen| seen.ends_with("NOCUT")), Some(true));
}

#[test]
fn the_piece_that_was_lost_can_be_had_again() {
    let mut story = Story::new();
    story.ask(add("a"));
    story.sync();
    story.step(9, CutStep::Freeze);
    story.step(9, CutStep::Release);
    let now = story.now;
    let encode = |_: &SnapshotPart, bytes: &mut Vec<u8>| {
        bytes.resize(bytes.len() + SNAPSHOT_PIECE_BYTES, 7);
    };
    let mut piece = |number| story.shard.cut_piece(now, (9, number), encode);
    let first = piece(0);
    assert_eq!(first, piece(0));
    assert!(piece(2).is_error(), "one after the other");
    let all = (1..5).map(piece).filter(|reply| !reply.is_error()).count();
    assert_eq!(all, 3, "the header, the record, the end, and that it was the last");
}
