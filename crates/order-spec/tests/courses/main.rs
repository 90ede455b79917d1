//! All executions of the protocols in small stories, and the effects of broken rules.

// Run with --nocapture to see the number of states, and the execution in which a rule breaks.
#![allow(clippy::print_stdout)]

mod chain;
mod constant;
mod successor;

use order_spec::story::Story;
use order_spec::world::{ORDER, Protocol, Spec};
use stateright::{Checker, HasDiscoveries, Model};

/// Checks all executions.
fn holds<P: Protocol>(protocol: P, story: Story) {
    let checker = Spec { story: story.clone(), protocol }.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    println!("{:>9} states: {story}", checker.unique_state_count());
}

/// Finds an execution in which a broken rule leaves no single order of all operations. Every rule
/// that is broken here serves that order; an operation that waits for ever would be another harm,
/// and no proof of this one.
fn breaks<P: Protocol>(protocol: P, story: Story) {
    let name = format!("{protocol:?}");
    let checker = Spec { story: story.clone(), protocol }.checker().threads(2);
    let checker = checker.finish_when(HasDiscoveries::AnyOf([ORDER].into())).spawn_dfs().join();
    let course = checker.discovery(ORDER);
    let course = course.unwrap_or_else(|| panic!("{name} leaves an order in {story}"));
    println!("{name} breaks \"{ORDER}\": {:?}", course.into_actions());
}
