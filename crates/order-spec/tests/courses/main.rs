//! Every course of the protocols in small stories, and what becomes of it when a rule is broken.

// Whoever wants to know how many states there are, and how a rule breaks, runs these with --nocapture.
#![allow(clippy::print_stdout)]

mod chain;
mod constant;

use order_spec::story::Story;
use order_spec::world::{Protocol, Spec};
use stateright::{Checker, HasDiscoveries, Model};

/// Goes through every course.
fn holds<P: Protocol>(protocol: P, story: Story) {
    let checker = Spec { story: story.clone(), protocol }.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    println!("{:>9} states: {story}", checker.unique_state_count());
}

/// Finds a course in which a broken rule does harm.
fn breaks<P: Protocol>(protocol: P, story: Story) {
    let name = format!("{protocol:?}");
    let checker = Spec { story: story.clone(), protocol }.checker().threads(2);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    let failures = ["one order", "nobody waits for ever"];
    let found = failures.into_iter().find_map(|name| Some((name, checker.discovery(name)?)));
    let (property, course) = found.unwrap_or_else(|| panic!("{name} does no harm in {story}"));
    println!("{name} breaks \"{property}\": {:?}", course.into_actions());
}
