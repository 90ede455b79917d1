//! Every course of the protocols in small stories, and what becomes of it when a rule is broken.

// Whoever wants to know how many states there are, and how a rule breaks, runs these with --nocapture.
#![allow(clippy::print_stdout)]

mod chain;
mod constant;
mod successor;

use order_spec::story::Story;
use order_spec::world::{ORDER, Protocol, Spec};
use stateright::{Checker, HasDiscoveries, Model};

/// Goes through every course.
fn holds<P: Protocol>(protocol: P, story: Story) {
    let checker = Spec { story: story.clone(), protocol }.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    println!("{:>9} states: {story}", checker.unique_state_count());
}

/// Finds a course in which a broken rule leaves no one order of what happened. Every rule that can be
/// broken here is there for that order; that somebody waits for ever would be another harm, and not this
/// proof.
fn breaks<P: Protocol>(protocol: P, story: Story) {
    let name = format!("{protocol:?}");
    let checker = Spec { story: story.clone(), protocol }.checker().threads(2);
    let checker = checker.finish_when(HasDiscoveries::AnyOf([ORDER].into())).spawn_dfs().join();
    let course = checker.discovery(ORDER);
    let course = course.unwrap_or_else(|| panic!("{name} leaves an order in {story}"));
    println!("{name} breaks \"{ORDER}\": {:?}", course.into_actions());
}
