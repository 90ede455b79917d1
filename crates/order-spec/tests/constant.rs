//! Every course of `constant` in small stories, and what becomes of it when a rule is broken.

// Whoever wants to know how many states there are, and how a rule breaks, runs these with --nocapture.
#![allow(clippy::print_stdout)]

use order_spec::constant::{Constant, Mutant};
use order_spec::story::Story;
use stateright::{Checker, HasDiscoveries, Model};

/// Goes through every course.
fn holds(story: Story) {
    let checker = Constant::new(story.clone()).checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    println!("{:>9} states: {story}", checker.unique_state_count());
}

/// Finds a course in which a broken rule does harm, where the whole one does none.
fn breaks(mutant: Mutant, story: Story) {
    holds(story.clone());
    let broken = Constant::broken(story.clone(), mutant).checker().threads(2);
    let checker = broken.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let failures = ["one order", "nobody waits for ever"];
    let found = failures.into_iter().find_map(|name| Some((name, checker.discovery(name)?)));
    let (name, course) = found.unwrap_or_else(|| panic!("{mutant:?} does no harm in {story}"));
    let steps = course.into_actions();
    println!("{mutant:?} breaks \"{name}\" in {} steps: {steps:?}", steps.len());
}

#[test]
fn sessions_that_cross() {
    holds(Story::of(&["a b", "b a"]));
    holds(Story::of(&["a b", "c b a"]));
    holds(Story::of(&["a b a", "b a"]).one_by_one());
    holds(Story::of(&["a b", "b a", "a2"]));
}

#[test]
fn a_reader_comes_by_twice() {
    holds(Story::of(&["a b c", "C ; B", "a2"]));
    holds(Story::of(&["a b c", "C ; A"]));
}

#[test]
fn leaders_change() {
    holds(Story::of(&["a b", "b a"]).one_by_one().changes(1));
    holds(Story::of(&["a b", "B ; A"]).changes(1));
    holds(Story::of(&["a b", "a2", "b"]).changes(1));
}

#[test]
fn operations_do_not_arrive() {
    holds(Story::of(&["a b", "b a"]).questions(2));
    holds(Story::of(&["a b", "b a"]).changes(1).questions(1));
    holds(Story::of(&["a b", "B"]).one_by_one().changes(1).questions(2));
}

#[test]
fn leaders_change_twice() {
    holds(Story::of(&["a b", "b a"]).changes(2));
}

#[test]
fn nobody_may_leave_out_waiting_for_what_is_closed() {
    breaks(Mutant::NoClosed, Story::of(&["a b c", "C", "B", "a2"]));
}

#[test]
fn clocks_must_not_stay_behind_the_places_that_were_given() {
    breaks(Mutant::NoClockAdvance, Story::of(&["a b", "b ; a"]).changes(1));
}

#[test]
fn what_is_open_must_not_be_ignored() {
    breaks(Mutant::IgnoreOpen, Story::of(&["a b", "c b a"]));
}

#[test]
fn what_is_not_durable_must_not_be_ignored() {
    breaks(Mutant::IgnoreUndurable, Story::of(&["a b", "B ; A"]).changes(1));
}

#[test]
fn proposals_must_not_be_told_before_they_are_durable() {
    breaks(Mutant::EarlyExport, Story::of(&["a b", "A"]).changes(1).questions(1));
}

#[test]
fn a_refusal_must_be_written_down() {
    breaks(Mutant::VolatileReject, Story::of(&["a b", "A"]).changes(1).questions(1));
}

#[test]
fn a_new_leader_must_begin_above_all_that_was_before() {
    breaks(Mutant::NoCeiling, Story::of(&["a b", "B ; A"]).changes(1));
}

#[test]
fn replies_must_be_taken_in_order() {
    breaks(Mutant::NoReturnOrder, Story::of(&["a b a", "b"]).changes(1));
}

#[test]
fn the_floor_must_not_be_forgotten() {
    breaks(Mutant::NoFloor, Story::of(&["a b b", "a2"]).one_by_one());
}
