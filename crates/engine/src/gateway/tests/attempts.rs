//! Transactions that are tried again, and when they are given up.

use super::*;
use crate::gateway::txn::REFUSALS_MAX;

impl Story {
    /// A transaction of two shards: what is sent to prepare it.
    fn transfer(&mut self) -> Vec<Sent> {
        ["MULTI", "DECR a", "INCR b", "EXEC"].into_iter().for_each(|line| self.says(line));
        self.out().0
    }

    /// One of two participants refuses; what is sent when the transaction is tried again.
    fn refuses(&mut self, sent: &[Sent], refusal: Refusal) -> (Vec<Sent>, Vec<Reply>) {
        self.answer(sent[0].1, Answer::Refused(refusal));
        self.now.mono_us += 20_000;
        self.gateway.tick(self.now);
        let (mut sent, replies) = self.out();
        sent.retain(|(_, _, body)| matches!(body, Body::Prepare { .. }));
        (sent, replies)
    }
}

#[test]
fn who_has_waited_long_for_a_backup_is_not_given_up_when_a_leader_is_lost() {
    let mut story = Story::new();
    let mut sent = story.transfer();
    for number in 0..3 * REFUSALS_MAX {
        let often = number % REFUSALS_MAX != REFUSALS_MAX - 1;
        let refusal = if often { Refusal::Frozen } else { Refusal::LocksLost };
        let (again, replies) = story.refuses(&sent, refusal);
        assert_eq!((again.len(), replies), (2, vec![]), "after {number}");
        sent = again;
    }
}

#[test]
fn who_is_refused_again_and_again_is_told() {
    let mut story = Story::new();
    let mut sent = story.transfer();
    for _ in 1..REFUSALS_MAX {
        (sent, _) = story.refuses(&sent, Refusal::Conflict);
        assert_eq!(sent.len(), 2);
    }
    let (sent, replies) = story.refuses(&sent, Refusal::Conflict);
    assert!(sent.is_empty());
    assert!(
        matches!(&replies[..], [Reply::Error(error)] if error.code() == "TXNABORT"),
        "{replies:?}"
    );
}
