//! Stories of `constant`.

use super::{breaks, holds};
use order_spec::constant::{Constant, Mutant};
use order_spec::story::Story;

/// Checks that a broken rule does harm where the whole protocol does none.
fn breaks_only(mutant: Mutant, story: Story) {
    holds(Constant::default(), story.clone());
    breaks(Constant::broken(mutant), story);
}

#[test]
fn sessions_that_cross() {
    holds(Constant::default(), Story::of(&["a b", "b a"]));
    holds(Constant::default(), Story::of(&["a b", "c b a"]));
    holds(Constant::default(), Story::of(&["a b a", "b a"]).one_by_one());
    holds(Constant::default(), Story::of(&["a b", "b a", "a2"]));
}

#[test]
fn a_reader_comes_by_twice() {
    holds(Constant::default(), Story::of(&["a b c", "C ; B", "a2"]));
    holds(Constant::default(), Story::of(&["a b c", "C ; A"]));
}

#[test]
fn leaders_change() {
    holds(Constant::default(), Story::of(&["a b", "b a"]).one_by_one().changes(1));
    holds(Constant::default(), Story::of(&["a b", "B ; A"]).changes(1));
    holds(Constant::default(), Story::of(&["a b", "a2", "b"]).changes(1));
}

#[test]
fn operations_do_not_arrive() {
    holds(Constant::default(), Story::of(&["a b", "b a"]).questions(2));
    holds(Constant::default(), Story::of(&["a b", "b a"]).changes(1).questions(1));
    holds(Constant::default(), Story::of(&["a b", "B"]).one_by_one().changes(1).questions(2));
}

#[test]
fn leaders_change_twice() {
    holds(Constant::default(), Story::of(&["a b", "b a"]).changes(2));
}

#[test]
fn operations_must_wait_until_predecessors_are_closed() {
    breaks_only(Mutant::NoClosed, Story::of(&["a b c", "C", "B", "a2"]));
}

#[test]
fn clocks_must_not_stay_behind_assigned_places() {
    breaks_only(Mutant::NoClockAdvance, Story::of(&["a b", "b ; a"]).changes(1));
}

#[test]
fn open_operations_must_not_be_ignored() {
    breaks_only(Mutant::IgnoreOpen, Story::of(&["a b", "c b a"]));
}

#[test]
fn operations_that_are_not_durable_must_not_be_ignored() {
    breaks_only(Mutant::IgnoreUndurable, Story::of(&["a b", "B ; A"]).changes(1));
}

#[test]
fn proposals_must_not_be_sent_before_they_are_durable() {
    breaks_only(Mutant::EarlyExport, Story::of(&["a b", "A"]).changes(1).questions(1));
}

#[test]
fn a_refusal_must_be_logged() {
    breaks_only(Mutant::VolatileReject, Story::of(&["a b", "A"]).changes(1).questions(1));
}

#[test]
fn a_new_leader_must_not_admit_operations_before_inherited_ones() {
    breaks_only(Mutant::NoHold, Story::of(&["a b", "B ; A"]).changes(1));
}

#[test]
fn replies_must_be_taken_in_order() {
    breaks_only(Mutant::NoReturnOrder, Story::of(&["a b a", "b"]).changes(1));
}

#[test]
fn the_floor_must_not_be_forgotten() {
    breaks_only(Mutant::NoFloor, Story::of(&["a b b", "a2"]).one_by_one());
}
