//! Stories of `chain`.

use super::{breaks, holds};
use order_spec::chain::{Chained, Mutant};
use order_spec::story::Story;

/// A reader that sees the end of a pipeline sees its middle, although a leader in the middle was
/// lost.
fn read_backwards() -> Story {
    Story::of(&["b a b2", "B2 ; A"]).changes(1)
}

#[test]
fn sessions_that_cross() {
    holds(Chained::default(), Story::of(&["a b", "b a"]));
    holds(Chained::default(), Story::of(&["a b c", "C", "B"]));
    holds(Chained::default(), Story::of(&["a b a", "b a"]).one_by_one());
}

#[test]
fn leaders_change() {
    holds(Chained::default(), Story::of(&["a b", "b a"]).changes(1));
    holds(Chained::default(), Story::of(&["a b", "B ; A"]).changes(1));
    holds(Chained::default(), Story::of(&["b a", "b2 ; a2"]).changes(1));
    holds(Chained::default(), read_backwards());
    holds(Chained::default(), Story::of(&["a b", "B ; A"]).changes(2));
}

#[test]
fn operations_do_not_arrive() {
    holds(Chained::default(), Story::of(&["a b", "b a"]).questions(2));
    holds(Chained::default(), Story::of(&["a b", "A"]).changes(1).questions(1));
}

#[test]
fn places_must_be_handed_on() {
    breaks(Chained::broken(Mutant::NoHandOff), Story::of(&["a b", "B ; A"]));
}

#[test]
fn the_first_operation_must_be_durable_before_it_hands_on() {
    breaks(Chained::broken(Mutant::EarlyFirst), Story::of(&["a b", "B ; A"]).changes(1));
}

#[test]
fn a_new_leader_must_ask_which_places_were_handed_on() {
    breaks(Chained::broken(Mutant::NoQuestions), read_backwards());
}

#[test]
fn a_deposed_leader_must_be_ignored() {
    breaks(Chained::broken(Mutant::NoTerms), read_backwards());
}

#[test]
fn chains_from_before_a_promise_do_not_count_after_it() {
    breaks(Chained::broken(Mutant::OldChains), read_backwards());
}

#[test]
fn a_refusal_must_be_logged() {
    breaks(
        Chained::broken(Mutant::VolatileReject),
        Story::of(&["a b", "A"]).changes(1).questions(1),
    );
}
