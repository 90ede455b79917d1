//! Dialogues about the replicated log, line by line: what each machine is told, what it writes, and
//! what it says when that is on its disk.
//!
//! The files in `replication/` are the tests. A line that begins with `>` is done; the lines after
//! it are all that comes of it:
//!
//! ```text
//! > machines 1 2 3            they found a group
//! > 1 ticks until it speaks   time passes for machine 1
//! > 2 hears                   2 takes in all that was sent to it
//! > 2 hears 1                 2 takes in what 1 has sent to it
//! > 2 synced                  what 2 was writing is on its disk
//! > 2 ticks 40              time passes for 2, as much as forty of its ticks
//! > settle                    everybody hears and writes until nobody has anything to say
//! ```
//!
//! `index/term` is an entry. Words for messages are short: `PreVote?` and `Vote?` ask, `Append`
//! brings entries after one that both have, `Has` and `Lacks` answer, `Beat` says who leads.
//!
//! The form is that of the tests of etcd's Raft library.

mod machines;

use machines::World;

/// Carries a dialogue out and writes it down as it went.
fn play(text: &str) -> String {
    let mut world = World::default();
    let mut told = String::new();
    let heard = |line: &&str| line.is_empty() || line.starts_with('#') || line.starts_with('>');
    for line in text.lines().filter(heard) {
        told.push_str(line);
        told.push('\n');
        if let Some(command) = line.strip_prefix("> ") {
            for line in world.obey(command) {
                told.push_str(&format!("  {line}\n"));
            }
        }
    }
    told
}

fn holds(name: &str, text: &str) {
    let told = play(text);
    let differs = told.lines().zip(text.lines()).position(|(a, b)| a != b);
    assert!(told == text, "{name} goes another way from line {differs:?} on:\n\n{told}");
}

#[test]
fn a_leader_is_elected() {
    holds("election", include_str!("replication/election.txt"));
}

#[test]
fn entries_are_replicated_and_committed() {
    holds("replication", include_str!("replication/replication.txt"));
}

#[test]
fn what_a_lost_leader_has_not_committed_gives_way() {
    holds("leader_change", include_str!("replication/leader_change.txt"));
}

#[test]
fn a_leader_that_stood_still_speaks_at_once() {
    holds("stood_still", include_str!("replication/stood_still.txt"));
}

#[test]
fn a_lead_is_handed_over() {
    holds("handover", include_str!("replication/handover.txt"));
}

#[test]
fn members_change_and_the_group_is_settled() {
    holds("members", include_str!("replication/members.txt"));
}

#[test]
fn a_follower_that_was_away_for_long_gets_a_snapshot() {
    holds("snapshot", include_str!("replication/snapshot.txt"));
}

#[test]
fn nobody_stands_for_election_while_a_snapshot_takes_the_place_of_its_log() {
    holds("restoring", include_str!("replication/restoring.txt"));
}

#[test]
fn reads_rest_on_a_lease_or_on_a_round() {
    holds("lease", include_str!("replication/lease.txt"));
}

#[test]
fn who_hurries_keeps_what_a_leader_was_promised() {
    holds("promise", include_str!("replication/promise.txt"));
}

#[test]
fn a_machine_that_is_back_in_a_group_says_what_it_has() {
    holds("returned", include_str!("replication/returned.txt"));
}

#[test]
fn a_machine_that_has_forgotten_what_it_acknowledged_ends() {
    holds("forgotten", include_str!("replication/forgotten.txt"));
}
