//! Stories of a lock whose next holder is named in the log.

use order_spec::successor::{ALONE, GUARDED, KEPT, Mutant, Spec, Story, TOKENS, TOLD, Wish};
use stateright::{Checker, HasDiscoveries, Model};

/// Ann has the lock, Ben wants it.
const TWO: Story = Story::of(2);
/// Ann has the lock, Ben and Cem want it.
const THREE: Story = Story::of(3);

/// A leader may be lost after it has sent notifications.
const CHANGE: Story = Story { changes: 1, ..THREE };
/// And a lease may end.
const LEASE: Story = Story { changes: 1, ends: 1, ..THREE };
/// And the lock may be deleted.
const DELETED: Story = Story { changes: 1, breaks: 1, ..THREE };
/// And a gateway may be lost and ask again.
const GATEWAY: Story = Story { changes: 1, drops: 1, ..THREE };
/// And a client may ask over another connection while the gateway of the first asks as well.
const COPY: Story = Story { changes: 1, copies: 1, ..THREE };
/// And a client may leave.
const LEAVES: Story = Story { changes: 1, leaves: 1, ..THREE };
/// And there may be two successors, both notified before anything is durable.
const CHAIN: Story = Story { changes: 1, chain: true, ..THREE };

/// Checks all executions, despite broken rules.
fn holds_with(broken: &'static [Mutant], wish: Option<Wish>, story: Story) {
    let checker = Spec { story, broken, wish }.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    let what = if broken.is_empty() { String::new() } else { format!(", {broken:?}") };
    let wish = wish.map(|wish| format!(", {wish:?}")).unwrap_or_default();
    println!("{:>9} states: {story}{what}{wish}", checker.unique_state_count());
}

/// Checks all executions.
fn holds(story: Story) {
    holds_with(&[], None, story);
}

/// Finds a short execution that violates a property.
fn finds(spec: Spec, property: &'static str) {
    let name = spec.wish.map_or(format!("{:?}", spec.broken), |wish| format!("{wish:?}"));
    let story = spec.story;
    let checker = spec.checker().threads(2);
    let checker = checker.finish_when(HasDiscoveries::AnyOf([property].into()));
    let checker = checker.spawn_bfs().join();
    let course = checker.discovery(property);
    let course = course.unwrap_or_else(|| panic!("{name} leaves \"{property}\" in {story}"));
    println!("{name} breaks \"{property}\": {:?}", course.into_actions());
}

/// Checks that a broken rule does harm in a story in which the whole protocol does none.
fn breaks(broken: &'static [Mutant], property: &'static str, story: Story) {
    finds(Spec { story, broken, wish: None }, property);
}

#[test]
fn nothing_goes_wrong() {
    holds(TWO);
    holds(THREE);
    holds(Story { is_held: false, ..THREE });
    holds(Story { writes: true, ends: 1, ..TWO });
}

#[test]
fn leaders_are_lost_with_their_notifications() {
    holds(CHANGE);
    holds(LEASE);
    holds(DELETED);
    holds(Story { changes: 2, ..THREE });
    holds(Story { is_held: false, changes: 1, ..THREE });
    holds(Story { changes: 1, names_at_once: true, ..THREE });
    holds(Story { changes: 1, writes: true, ..THREE });
    holds(Story { changes: 1, ends: 1, renewals: 1, ..TWO });
    holds(Story { changes: 2, ends: 1, ..TWO });
}

#[test]
fn the_lock_passes_on_before_a_release_is_durable() {
    holds(Story { chain: true, ..THREE });
    holds(CHAIN);
    holds(Story { ends: 1, ..CHAIN });
    holds(Story { breaks: 1, ..CHAIN });
    holds(Story { drops: 1, ..CHAIN });
    holds(Story { leaves: 1, ..CHAIN });
}

#[test]
fn requests_are_given_up_and_asked_again() {
    holds(GATEWAY);
    holds(LEAVES);
    holds(Story { changes: 2, drops: 1, ..TWO });
    holds(Story { changes: 1, drops: 2, ..TWO });
}

#[test]
fn requests_have_copies() {
    holds(COPY);
    holds(Story { changes: 2, copies: 1, ..TWO });
    holds(Story { changes: 1, copies: 2, ..TWO });
    holds(Story { is_held: false, changes: 1, copies: 1, ..TWO });
}

#[test]
fn only_a_leader_with_a_lease_notifies_early() {
    breaks(&[Mutant::TellWithoutLease], ALONE, LEASE);
    breaks(&[Mutant::TellWithoutLease], ALONE, DELETED);
}

#[test]
fn the_token_of_a_successor_proves_the_release() {
    breaks(&[Mutant::NoProof], KEPT, CHANGE);
    breaks(&[Mutant::ProveFirst], KEPT, CHAIN);
}

#[test]
fn a_new_leader_must_know_the_successors() {
    breaks(&[Mutant::ForgetNamed], ALONE, CHANGE);
}

#[test]
fn a_successor_is_next_when_a_lease_ends() {
    breaks(&[Mutant::EndForgets], ALONE, LEASE);
}

#[test]
fn no_client_is_notified_early_before_its_naming_is_durable() {
    breaks(&[Mutant::TellBeforeNamed], ALONE, CHANGE);
    breaks(&[Mutant::TellBeforeNamed], TOKENS, CHANGE);
}

#[test]
fn no_client_is_notified_early_behind_other_records() {
    breaks(&[Mutant::TellBehindOthers], ALONE, GATEWAY);
    breaks(&[Mutant::TellBehindOthers], ALONE, DELETED);
}

#[test]
fn no_client_is_notified_of_a_grant_that_is_being_revoked() {
    breaks(&[Mutant::TellTakenBack], ALONE, Story { drops: 1, ..THREE });
}

#[test]
fn records_of_an_earlier_leader_are_not_revoked() {
    breaks(&[Mutant::TakeBackInherited], ALONE, GATEWAY);
    breaks(&[Mutant::TakeBackInherited], ALONE, COPY);
}

#[test]
fn a_grant_that_another_copy_received_is_not_revoked() {
    breaks(&[Mutant::TakeBackTold], ALONE, COPY);
}

/// Answers of an earlier leader are not revoked by a later one. Accepting such an answer for a
/// repeated request therefore does no harm.
#[test]
fn any_asking_may_be_answered() {
    const ANY: &[Mutant] = &[Mutant::AnyAsking];
    holds_with(ANY, None, LEASE);
    holds_with(ANY, None, GATEWAY);
    holds_with(ANY, None, LEAVES);
    holds_with(ANY, None, Story { changes: 1, copies: 1, ..TWO });
}

#[test]
fn the_protected_resource_checks_the_token() {
    breaks(&[Mutant::NoFence], GUARDED, Story { writes: true, ends: 1, ..TWO });
}

/// Ann has released in time; the release is lost, and Ben, who was notified, has released as well
/// before she asks again.
#[test]
fn a_release_may_be_refused_that_the_next_holder_has_proved() {
    let wish = Some(Wish::ReleaseIsKnown);
    finds(Spec { story: Story { changes: 1, ..TWO }, broken: &[], wish }, KEPT);
}

/// No client waits for an unused lease, unless a client leaves or a request has copies.
#[test]
fn idle_leases_are_waited_for_when_somebody_leaves_or_a_copy_is_let_in() {
    let wish = Some(Wish::NoIdleLease);
    holds_with(&[], wish, Story { changes: 2, drops: 1, ..TWO });
    holds_with(&[], wish, GATEWAY);
    holds_with(&[], wish, DELETED);
    finds(Spec { story: Story { leaves: 1, ..THREE }, broken: &[], wish }, TOLD);
    let story = Story { is_held: false, changes: 1, copies: 1, ..TWO };
    finds(Spec { story, broken: &[], wish }, TOLD);
}
