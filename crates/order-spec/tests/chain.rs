//! Every course of `chain` in small stories, and what becomes of it when a rule is broken.

// Whoever wants to know how many states there are, and how a rule breaks, runs these with --nocapture.
#![allow(clippy::print_stdout)]

use order_spec::chain::{Chained, Mutant};
use order_spec::story::Story;
use stateright::{Checker, HasDiscoveries, Model};

/// Goes through every course.
fn holds(story: Story) {
    let checker = Chained::new(story.clone()).checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    println!("{:>9} states: {story}", checker.unique_state_count());
}

/// Finds a course in which a broken rule does harm.
fn breaks(mutant: Mutant, story: Story) {
    let broken = Chained::broken(story.clone(), mutant).checker().threads(2);
    let checker = broken.finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    let course = checker.discovery("one order");
    let course = course.unwrap_or_else(|| panic!("{mutant:?} does no harm in {story}"));
    println!("{mutant:?} breaks {story}: {:?}", course.into_actions());
}

/// Whoever sees the end of a pipeline sees its middle, although a leader in the middle was lost.
fn read_backwards() -> Story {
    Story::of(&["b a b2", "B2 ; A"]).changes(1)
}

#[test]
fn sessions_that_cross() {
    holds(Story::of(&["a b", "b a"]));
    holds(Story::of(&["a b c", "C", "B"]));
    holds(Story::of(&["a b a", "b a"]).one_by_one());
}

#[test]
fn leaders_change() {
    holds(Story::of(&["a b", "b a"]).changes(1));
    holds(Story::of(&["a b", "B ; A"]).changes(1));
    holds(read_backwards());
}

#[test]
fn operations_do_not_arrive() {
    holds(Story::of(&["a b", "b a"]).questions(2));
    holds(Story::of(&["a b", "A"]).changes(1).questions(1));
}

#[test]
fn places_must_be_handed_on() {
    breaks(Mutant::NoHandOff, Story::of(&["a b", "B ; A"]));
}

#[test]
fn the_first_operation_must_be_durable_before_it_hands_on() {
    breaks(Mutant::EarlyFirst, Story::of(&["a b", "B ; A"]).changes(1));
}

#[test]
fn a_new_leader_must_ask_which_places_were_handed_on() {
    breaks(Mutant::NoQuestions, read_backwards());
}

#[test]
fn a_deposed_leader_must_not_be_listened_to() {
    breaks(Mutant::NoTerms, read_backwards());
}

#[test]
fn a_refusal_must_be_written_down() {
    breaks(Mutant::VolatileReject, Story::of(&["a b", "A"]).changes(1).questions(1));
}
