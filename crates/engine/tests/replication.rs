//! Dialogues about the replicated log, line by line: the input of each machine, its writes, and
//! its messages once these are on its disk.
//!
//! The files in `replication/` are the tests. A line that begins with `>` is a command; the lines
//! after it are its complete results:
//!
//! ```text
//! > machines 1 2 3            the machines found a group
//! > 1 ticks until it speaks   time passes for machine 1
//! > 2 hears                   2 takes all messages that were sent to it
//! > 2 hears 1                 2 takes the messages that 1 has sent to it
//! > 2 synced                  the writes of 2 are on its disk
//! > 2 ticks 40                time passes for 2, as much as forty of its ticks
//! > settle                    all machines hear and write until none has output
//! ```
//!
//! `index/term` is an entry. Names of messages are short: `PreVote?` and `Vote?` ask, `Append`
//! brings entries after one that both have, `Has` and `Lacks` answer, `Beat` is a heartbeat.
//!
//! The form is that of the tests of etcd's Raft library.

mod machines;

use machines::World;

/// Executes a dialogue and records it.
fn play(text: &str) -> String {
    let mut world = World::default();
    let mut record = String::new();
    let is_kept = |line: &&str| line.is_empty() || line.starts_with('#') || line.starts_with('>');
    for line in text.lines().filter(is_kept) {
        record.push_str(line);
        record.push('\n');
        if let Some(command) = line.strip_prefix("> ") {
            for line in world.obey(command) {
                record.push_str(&format!("  {line}\n"));
            }
        }
    }
    record
}

fn holds(name: &str, text: &str) {
    let record = play(text);
    let differs = record.lines().zip(text.lines()).position(|(a, b)| a != b);
    assert!(record == text, "{name} differs from line {differs:?} on:\n\n{record}");
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
fn uncommitted_entries_of_a_lost_leader_are_replaced() {
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
fn a_replica_does_not_stand_while_a_snapshot_replaces_its_log() {
    holds("restoring", include_str!("replication/restoring.txt"));
}

#[test]
fn reads_rest_on_a_lease_or_on_a_round() {
    holds("lease", include_str!("replication/lease.txt"));
}

#[test]
fn an_impatient_follower_keeps_its_promise_to_the_leader() {
    holds("promise", include_str!("replication/promise.txt"));
}

#[test]
fn a_machine_that_rejoins_a_group_reports_its_entries() {
    holds("returned", include_str!("replication/returned.txt"));
}

#[test]
fn a_machine_that_has_lost_acknowledged_entries_ends() {
    holds("forgotten", include_str!("replication/forgotten.txt"));
}
