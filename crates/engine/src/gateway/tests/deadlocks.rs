//! Clients that wait for each other's locks on several shards: shard 0 has `b`, shard 1 has `a`.

use super::*;
use crate::deadlock::{self as cycles, LockWait};
use adt::{Blob, ErrorReply};

fn wait(number: u64, who: &str, lock: &str, holder: &str) -> LockWait {
    let [who, lock, holder] = [who, lock, holder].map(Blob::from);
    LockWait { number, since_us: 7, who, lock, holders: vec![holder], ahead: Vec::new() }
}

impl Story {
    /// Lets ann wait for `a`, unless she would wait in a deadlock cycle; returns her request.
    fn ann_waits(&mut self) -> u64 {
        self.says("LOCK.ACQUIRE a OWNER ann DETECT");
        match &self.sent()[..] {
            [(ShardId(1), token, Body::Await { .. })] => *token,
            other => panic!("{other:?}"),
        }
    }

    fn after(&mut self, ms: u64) {
        self.now.mono_us += ms * 1000;
        self.gateway.tick(self.now);
    }

    /// Checks that the shards are asked about these owners, and answers with their waits.
    fn shards_say(&mut self, about: &[&str], waits: [&[LockWait]; 2]) {
        let sent = self.sent();
        assert_eq!(sent.len(), 2, "every shard is asked: {sent:?}");
        for (shard, token, body) in sent {
            let Body::Waits { names } = body else { panic!("{body:?}") };
            assert_eq!(names, about.iter().map(|name| Blob::from(*name)).collect::<Vec<_>>());
            let waits = cycles::encode(waits[usize::from(shard.0)]);
            self.answer(token, Answer::Reply(waits));
        }
    }
}

#[test]
fn a_circle_over_two_shards_is_found_and_asked_about_once_more() {
    let mut story = Story::new();
    let asked = story.ann_waits();
    story.after(99);
    assert!(story.sent().is_empty(), "most wait for a moment only");
    story.after(1);
    let (ann, ben) = (wait(3, "ann", "a", "ben"), wait(9, "ben", "b", "ann"));
    story.shards_say(&["ann"], [&[], std::slice::from_ref(&ann)]);
    story.shards_say(&["ben"], [std::slice::from_ref(&ben), &[]]);
    story.shards_say(&["ann", "ben"], [&[ben], &[ann]]);
    match &story.sent()[..] {
        [(ShardId(1), token, Body::EndDeadlock { description })] => {
            assert_eq!(*token, asked, "under the token of the wait");
            let circle = "ann waits for a behind ben, ben waits for b behind ann: ";
            assert!(String::from_utf8_lossy(description).starts_with(circle), "{description:?}");
        }
        other => panic!("{other:?}"),
    }
    // The shard refuses it.
    let error = ErrorReply::new("DEADLOCK", "");
    story.answer(asked, Answer::Replies(SmallVec::from_iter([error.into()])));
    assert!(matches!(&story.replies()[..], [Reply::Error(error)] if error.code() == "DEADLOCK"));
}

#[test]
fn waits_that_were_not_there_together_are_no_circle() {
    let mut story = Story::new();
    story.ann_waits();
    story.after(100);
    let (ann, ben) = (wait(3, "ann", "a", "ben"), wait(9, "ben", "b", "ann"));
    story.shards_say(&["ann"], [&[], std::slice::from_ref(&ann)]);
    story.shards_say(&["ben"], [&[ben], &[]]);
    // Ben has got his lock, and waits for it once more behind ann.
    let again = wait(10, "ben", "b", "ann");
    story.shards_say(&["ann", "ben"], [&[again], std::slice::from_ref(&ann)]);
    assert!(story.sent().is_empty());
    // The search is repeated at growing intervals.
    story.after(199);
    assert!(story.sent().is_empty());
    story.after(1);
    story.shards_say(&["ann"], [&[], &[ann]]);
    story.shards_say(&["ben"], [&[], &[]]);
    assert!(story.sent().is_empty());
}

#[test]
fn who_has_its_turn_or_does_not_ask_for_it_is_not_looked_after() {
    let mut story = Story::new();
    let asked = story.ann_waits();
    story.answer(asked, done(&[5]));
    assert_eq!(story.replies(), [Reply::Int(5)]);
    story.says("LOCK.ACQUIRE a OWNER ann");
    assert_eq!(story.sent().len(), 1);
    story.after(60_000);
    assert!(story.sent().is_empty());
}
