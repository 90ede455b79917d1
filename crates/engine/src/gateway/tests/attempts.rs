//! Repeated attempts of transactions, and their end.

use super::*;
use crate::gateway::txn::transaction::life::REFUSALS_MAX;
use crate::limits::{REPEATS_ASKED_MAX, UNDER_WAY_TRIED_MAX};

impl Story {
    /// Begins a transaction of two shards; returns its prepares.
    fn transfer(&mut self) -> Vec<Sent> {
        ["MULTI", "DECR a", "INCR b", "EXEC"].into_iter().for_each(|line| self.says(line));
        self.out().0
    }

    /// Lets one of two participants refuse; returns the messages of the next attempt.
    fn refuses(&mut self, sent: &[Sent], refusal: Refusal) -> (Vec<Sent>, Vec<Reply>) {
        self.answers_after_a_while(sent, Answer::Refused(refusal))
    }

    /// Lets the first participant answer; returns the messages that follow after some time.
    fn answers_after_a_while(&mut self, sent: &[Sent], answer: Answer) -> (Vec<Sent>, Vec<Reply>) {
        self.answer(sent[0].1, answer);
        self.now.mono_us += 200_000;
        self.gateway.tick(self.now);
        let (mut sent, replies) = self.out();
        sent.retain(|(_, _, body)| matches!(body, Body::Prepare { .. }));
        (sent, replies)
    }
}

#[test]
fn who_waits_long_for_a_backup_or_a_split_is_not_given_up_with_a_leader() {
    for passes in [|| Refusal::Frozen, || Refusal::Moved] {
        let mut story = Story::new();
        let mut sent = story.transfer();
        for number in 0..3 * REFUSALS_MAX {
            let often = number % REFUSALS_MAX != REFUSALS_MAX - 1;
            let refusal = if often { passes() } else { Refusal::LocksLost };
            let (again, replies) = story.refuses(&sent, refusal);
            assert_eq!((again.len(), replies), (2, vec![]), "after {number}");
            sent = again;
        }
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

#[test]
fn a_request_that_is_under_way_elsewhere_is_waited_for_and_then_in_doubt() {
    let mut story = Story::new();
    story.says("CLIENT REQUEST ann 1");
    let mut sent = story.transfer();
    for _ in 0..UNDER_WAY_TRIED_MAX {
        (sent, _) = story.refuses(&sent, Refusal::UnderWay);
        assert_eq!(sent.len(), 2);
    }
    let (_, replies) = story.refuses(&sent, Refusal::UnderWay);
    assert!(
        matches!(&replies[..], [Reply::Error(error)] if error.code() == "INDEFINITE"),
        "{replies:?}"
    );
}

#[test]
fn what_was_carried_out_behind_a_lost_transaction_is_asked_for_and_not_done_again() {
    let answers = [
        // The machine that published was lost before it answered.
        (None, "[Int(1), Error(ErrorReply { code: \"REPEATED\""),
        // It has answered in the meantime.
        (Some(vec![Reply::Int(1), Reply::Int(7)]), "[Int(1), Int(7)"),
    ];
    for (whole, told) in answers {
        let mut story = Story::new();
        for line in ["CLIENT REQUEST ann 1", "MULTI", "INCR a", "PUBLISH news x", "EXEC"] {
            story.says(line);
        }
        let (mut sent, _) = story.out();
        let [(_, token, Body::Apply(_))] = &sent[..] else { panic!("{sent:?}") };
        story.answer(*token, Answer::Repeated(smallvec::smallvec![Reply::Int(1)]));
        (sent, _) = story.out();
        let mut replies = Vec::new();
        for asked in 0..=REPEATS_ASKED_MAX {
            let [(_, _, Body::Prepare { prepare, .. })] = &sent[..] else { panic!("{sent:?}") };
            assert!(prepare.apply.ops.is_empty() && prepare.apply.guards.len() == 1);
            let (replies_there, whole) = match &whole {
                Some(replies) if asked == 3 => (replies.clone(), true),
                _ => (vec![Reply::Int(1)], false),
            };
            let answer = Answer::TookEffect { ts: Timestamp(9), replies: replies_there, whole };
            (sent, replies) = story.answers_after_a_while(&sent, answer);
            if !replies.is_empty() {
                break;
            }
        }
        let [Reply::Array(items)] = &replies[..] else { panic!("{replies:?}") };
        assert!(format!("{items:?}").starts_with(told), "{items:?}");
        assert_eq!(story.gateway.stats().published, 0);
    }
}

#[test]
fn an_element_that_comes_after_the_end_of_a_wait_was_sent_stays_where_it_is() {
    let mut story = Story::new();
    story.says("BLPOP b 0.01");
    let sent = story.sent();
    let [(_, attempt, Body::Apply(_))] = &sent[..] else { panic!("{sent:?}") };
    story.answer(*attempt, Answer::Replies(smallvec::smallvec![Reply::Nil]));
    let sent = story.sent();
    let [(_, wait, Body::Block { .. })] = &sent[..] else { panic!("{sent:?}") };
    let wait = *wait;
    story.now.mono_us += 20_000;
    story.gateway.tick(story.now);
    assert!(matches!(&story.sent()[..], [(_, token, Body::Unblock)] if *token == wait));
    story.answer(wait, Answer::Notice(Notice::Ready { key: adt::Blob::from("b") }));
    assert_eq!(story.sent().len(), 0, "an attempt would take it for no client");
    story.answer(wait, Answer::Replies(smallvec::smallvec![]));
    let (_, replies) = story.out();
    assert_eq!(replies, [Reply::NilArray]);
}
