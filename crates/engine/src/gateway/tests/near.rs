//! A gateway that keeps a lock for its clients.

use super::*;
use crate::limits::NEAR_STAYS_MAX;

const FIRST: i64 = 1_000_000;

impl Story {
    fn after_ms(&mut self, ms: u64) {
        self.now.mono_us += ms * 1_000;
        self.now.wall_us += ms * 1_000;
        self.gateway.tick(self.now);
    }

    fn another(&mut self) -> SessionId {
        self.gateway.open(self.now, Opening::default())
    }

    /// Requests, as words with their tokens, and replies.
    fn said(&mut self) -> (Vec<(String, u64)>, Vec<Reply>) {
        let (sent, replies) = self.out();
        let words = sent.into_iter().map(|(_, token, body)| (words_of(&body), token));
        (words.collect(), replies)
    }

    /// Lets the gateway get the lock, and the first client in.
    fn near() -> Self {
        let mut story = Self::new();
        story.says("LOCK.ACQUIRE a NEAR LEASE 5000");
        let (said, replies) = story.said();
        assert_eq!((said[0].0.as_str(), said.len(), replies.len()), (ASKS, 1, 0));
        story.answer(said[0].1, done(&[FIRST]));
        story
    }
}

const ASKS: &str = "lock.acquire a lease 11000 owner near 1-0-0 tokens 1024";
const LISTENS: &str = "lock.wanted a 1000000";
const RETURNS: &str = "lock.release a 1000000";

fn words_of(body: &Body) -> String {
    let (Body::Apply(apply) | Body::Await { apply, .. }) = body else { return format!("{body:?}") };
    let (key, op) = &apply.ops[0];
    let mut words = ArgBuf::default();
    op.encode(key, &mut words);
    let words: Vec<_> = words.args().iter_from(0).map(String::from_utf8_lossy).collect();
    words.join(" ")
}

#[test]
fn clients_are_let_in_in_turn_and_the_shard_hears_nothing_of_it() {
    let mut story = Story::near();
    let (said, replies) = story.said();
    let listens = said[0].1;
    assert_eq!((said[0].0.as_str(), said.len()), (LISTENS, 1));
    assert_eq!(replies, [Reply::Int(FIRST + 1)], "the first token is the gateway's own");
    let ben = story.another();
    story.says_as(ben, "LOCK.ACQUIRE a NEAR LEASE 3000");
    assert_eq!(story.out().1, []);
    story.says("LOCK.HELD a 1000001");
    story.says("LOCK.RELEASE a 1000001");
    story.says("LOCK.HELD a 1000001");
    story.says_as(ben, "LOCK.HELD a 1000002");
    let told = [5_000, 1, FIRST + 2, 0, 3_000].map(Reply::Int);
    assert_eq!(story.said(), (vec![], told.to_vec()));
    // Operations on other tokens, and operations that are not about the holder, go to the shard.
    story.says("LOCK.RELEASE a 77");
    let cid = story.another();
    story.says_as(cid, "LOCK.HOLDERS a");
    assert_eq!(story.sent().len(), 2);
    // When another machine wants the lock, it is given back as soon as no client is in.
    story.answer(listens, done(&[1]));
    assert_eq!(story.said(), (vec![], vec![]));
    story.says_as(ben, "LOCK.RELEASE a 1000002");
    let (said, replies) = story.said();
    assert_eq!((said[0].0.as_str(), said.len(), replies), (RETURNS, 1, vec![Reply::Int(1)]));
}

#[test]
fn others_wait_for_a_bounded_number_of_stays() {
    let mut story = Story::near();
    let listens = story.said().0[0].1;
    let clients: Vec<SessionId> = (0..NEAR_STAYS_MAX + 1).map(|_| story.another()).collect();
    for client in &clients {
        story.says_as(*client, "LOCK.ACQUIRE a NEAR LEASE 5000");
    }
    story.answer(listens, done(&[1]));
    let mut leaves = story.client;
    for (client, n) in clients.iter().zip(1..=NEAR_STAYS_MAX) {
        let token = FIRST + i64::from(n);
        story.says_as(leaves, &format!("LOCK.RELEASE a {token}"));
        assert_eq!(story.said(), (vec![], vec![Reply::Int(1), Reply::Int(token + 1)]));
        leaves = *client;
    }
    story.says_as(leaves, &format!("LOCK.RELEASE a {}", FIRST + 1 + i64::from(NEAR_STAYS_MAX)));
    let (said, replies) = story.said();
    let words: Vec<_> = said.iter().map(|(words, _)| words.as_str()).collect();
    assert_eq!((words, replies), (vec![RETURNS, ASKS], vec![Reply::Int(1)]));
    story.answer(said[1].1, done(&[FIRST + 10_000]));
    assert_eq!(story.said().1, [Reply::Int(FIRST + 10_001)]);
}

#[test]
fn nobody_is_promised_more_than_the_gateway_has() {
    let mut story = Story::near();
    let listens = story.said().0[0].1;
    story.after_ms(4_000);
    story.says("LOCK.RENEW a 1000001");
    assert_eq!(story.said(), (vec![], vec![Reply::Int(1)]), "11 s were asked for, 5 are promised");
    story.after_ms(4_000);
    story.says("LOCK.RENEW a 1000001");
    let (said, replies) = story.said();
    let renews = ("lock.renew a 1000000 lease 11000", 1, 0);
    assert_eq!((said[0].0.as_str(), said.len(), replies.len()), renews);
    story.answer(said[0].1, done(&[1]));
    assert_eq!(story.replies(), [Reply::Int(1)]);
    // A stay ends with its lease, and the next client is let in.
    let ben = story.another();
    story.says_as(ben, "LOCK.ACQUIRE a NEAR LEASE 4000 TIMEOUT 60000");
    story.after_ms(5_000);
    let (said, replies) = story.said();
    assert_eq!(replies, [Reply::Int(FIRST + 2)]);
    assert_eq!(said[0].0, "lock.renew a 1000000 lease 9000", "in time for whoever is next");
    // The lock was taken away.
    story.answer(said[0].1, done(&[0]));
    story.answer(listens, done(&[0]));
    story.says_as(ben, "LOCK.RENEW a 1000002");
    assert_eq!(words_of(&story.sent()[0].2), "lock.renew a 1000002", "for the shard to refuse");
}

#[test]
fn who_asks_again_under_a_number_is_in_already_and_who_leaves_does_not_wait() {
    let mut story = Story::new();
    story.says("CLIENT REQUEST ann 7");
    story.says("LOCK.ACQUIRE a NEAR");
    let (said, _) = story.said();
    let (ben, cid) = (story.another(), story.another());
    story.says_as(ben, "LOCK.ACQUIRE a NEAR TIMEOUT 100");
    story.says_as(cid, "LOCK.ACQUIRE a NEAR");
    story.gateway.close(story.now, cid);
    story.after_ms(100);
    assert_eq!(story.said(), (vec![], vec![Reply::Nil]), "its time is over");
    assert_eq!(story.gateway.stats().blocked, 1);
    story.answer(said[0].1, done(&[FIRST]));
    assert_eq!(story.said().1, [Reply::Int(FIRST + 1)]);
    let again = story.another();
    story.says_as(again, "CLIENT REQUEST ann 7");
    story.says_as(again, "LOCK.ACQUIRE a NEAR");
    assert_eq!(story.replies(), [Reply::Ok, Reply::Int(FIRST + 1)]);
}

#[test]
fn what_was_sent_under_the_lock_is_answered_before_the_next_one_is_let_in() {
    let mut story = Story::near();
    story.out();
    let ben = story.another();
    story.says_as(ben, "LOCK.ACQUIRE a NEAR");
    story.says("FENCE a 1000001 SET e x");
    story.says("LOCK.RELEASE a 1000001");
    let (sent, replies) = story.out();
    assert_eq!((sent.len(), replies), (1, vec![]));
    story.answer(sent[0].1, Answer::Replies(SmallVec::from_vec(vec![Reply::Ok])));
    let told = story.out().1;
    assert_eq!(told, [Reply::Ok, Reply::Int(1)]);
}

#[test]
fn if_nobody_waits_any_more_the_lock_is_given_back_and_an_error_is_everybodys() {
    let mut story = Story::new();
    story.says("LOCK.ACQUIRE a NEAR TIMEOUT 10");
    let asks = story.said().0;
    assert_eq!(asks[0].0.replace("61000", "11000"), ASKS, "the lease is 30 s by itself");
    story.after_ms(10);
    assert_eq!(story.said(), (vec![], vec![Reply::Nil]));
    story.answer(asks[0].1, done(&[FIRST]));
    assert_eq!(story.said().0[0].0, RETURNS);
    // A lock that was asked for serves any client that wants it when it is granted.
    story.says("LOCK.ACQUIRE a NEAR TIMEOUT 10");
    let asks = story.said().0[0].1;
    story.after_ms(10);
    story.says("LOCK.ACQUIRE a NEAR");
    assert_eq!(story.said(), (vec![], vec![Reply::Nil]), "it is asked for once");
    story.answer(asks, Answer::Refused(Refusal::Busy));
    assert!(matches!(&story.replies()[..], [Reply::Error(error)] if error.code() == "BUSY"));
    for wrong in ["SHARED", "LIMIT 2", "TOKENS 5", "OWNER ann DETECT", "NEAR", "LEASE 21600001"] {
        story.says(&format!("LOCK.ACQUIRE a NEAR {wrong}"));
        assert!(story.replies()[0].is_error(), "{wrong}");
    }
}

#[test]
fn who_is_let_in_behind_time_is_renewed_for_first() {
    let mut story = Story::new();
    story.says("LOCK.ACQUIRE a NEAR LEASE 5000");
    let asks = story.said().0[0].1;
    story.after_ms(60_000);
    story.answer(asks, done(&[FIRST]));
    let (said, replies) = story.said();
    let words: Vec<_> = said.iter().map(|(words, _)| words.as_str()).collect();
    assert_eq!(words, ["lock.renew a 1000000 lease 11000", LISTENS], "the lease may be over");
    assert_eq!(replies, []);
    // The answer takes long, and the certain rest of its lease is too short.
    story.after_ms(6_000);
    story.answer(said[0].1, done(&[1]));
    let (said, replies) = story.said();
    assert_eq!((said[0].0.as_str(), replies.len()), ("lock.renew a 1000000 lease 11000", 0));
    story.answer(said[0].1, done(&[1]));
    assert_eq!(story.said().1, [Reply::Int(FIRST + 1)]);
    story.says("LOCK.RENEW a 1000001 LEASE 21600001");
    assert!(story.replies()[0].is_error());
    story.says("LOCK.RENEW a 1000001 LEASE 20000");
    let renews = story.said().0;
    assert_eq!(renews[0].0, "lock.renew a 1000000 lease 41000");
    story.answer(renews[0].1, done(&[0]));
    assert_eq!(story.said().1, [Reply::Int(0)], "it is lost");
}

#[test]
fn a_release_that_is_asked_again_is_answered_again() {
    let mut story = Story::near();
    story.out();
    let ben = story.another();
    for client in [story.client, ben] {
        story.says_as(client, "CLIENT REQUEST ann 8");
        story.says_as(client, "LOCK.RELEASE a 1000001");
        assert_eq!(story.replies(), [Reply::Ok, Reply::Int(1)]);
    }
    story.says("LOCK.RELEASE a 1000001");
    assert_eq!(story.replies(), [Reply::Int(0)]);
}
