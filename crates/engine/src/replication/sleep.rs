//! Sleep of idle groups: their leader sends no heartbeats, and their followers wait for none.
//!
//! A leader puts its group to sleep when every member has all entries of the log and knows that
//! they are committed. A follower agrees only if it sees the same. From then on it takes the leader
//! to be alive as long as the leader's *machine* is; the node watches machines, once for all
//! groups. Everything that happens to the group wakes it: a proposal, a question about the lead, a
//! message of another replica. A follower that is woken by another replica than its leader informs
//! the leader.
//!
//! No guarantee of Raft depends on a replica being awake. The promises of a follower to a leader's
//! lease count real time, asleep or not: see [`RaftGroup::wake`]. The technique is known as quiescence
//! (CockroachDB) and hibernation (TiKV).

use super::RaftGroup;
use crate::ids::MachineId;
use raft::eraftpb::{Message, MessageType};
use raft::{INVALID_ID, ProgressState, StateRole};

/// State of a sleeping replica.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asleep {
    since_us: u64,
    /// Ticks since the last message of the leader, when the sleep began.
    elapsed: usize,
}

impl RaftGroup {
    /// Whether this replica sleeps.
    pub fn is_asleep(&self) -> bool {
        self.asleep.is_some()
    }

    /// Whether there is nothing to send, write or apply.
    pub fn is_idle(&self) -> bool {
        let sent = self.messages.is_empty() && self.wanted.is_empty();
        sent && self.may_restore() && self.committed.is_empty() && !self.node.has_ready()
    }

    /// Whether the log ends with entry `index`, complete and applied.
    fn has_exactly(&self, index: u64) -> bool {
        let log = &self.node.raft.raft_log;
        let is_done = self.may_restore() && self.committed.is_empty();
        (log.last_index(), log.committed, log.applied) == (index, index, index) && is_done
    }

    /// Whether this replica leads and every member has everything.
    pub fn may_sleep(&self) -> bool {
        let raft = &self.node.raft;
        let last = raft.raft_log.last_index();
        let own = u64::from(self.membership.own.0);
        let has_all = |(id, p): (&u64, &raft::Progress)| {
            let follows = p.state == ProgressState::Replicate && p.recent_active;
            *id == own || follows && p.matched == last && p.committed_index == last
        };
        let settled = !self.is_changing_members();
        let may = self.is_serving() && self.may_propose() && settled && self.lease.is_quiet();
        may && self.is_idle() && self.has_exactly(last) && raft.prs().iter().all(has_all)
    }

    /// Puts the group to sleep; [`RaftGroup::may_sleep`] must hold. Returns the replicas to inform,
    /// with the term and the index of the last entry.
    pub fn sleep(&mut self, mono_us: u64) -> Vec<MachineId> {
        self.asleep = Some(Asleep { since_us: mono_us, elapsed: 0 });
        let own = u64::from(self.membership.own.0);
        let others = self.node.raft.prs().iter().map(|(id, _)| *id).filter(|id| *id != own);
        let mut others: Vec<MachineId> =
            others.filter_map(|id| u16::try_from(id).ok().map(MachineId)).collect();
        others.sort_unstable();
        others
    }

    /// Takes the message of the leader of `term` that the log ends with entry `index`, all of it
    /// committed, and that the leader sleeps now. Returns whether this replica sleeps; if not, the
    /// leader must not either.
    pub fn fall_asleep(&mut self, mono_us: u64, from: MachineId, term: u64, index: u64) -> bool {
        self.pump();
        let raft = &self.node.raft;
        let follows = raft.state == StateRole::Follower && raft.leader_id == u64::from(from.0);
        let fits = follows && raft.term == term && self.has_exactly(index);
        if fits {
            let elapsed = raft.election_elapsed;
            self.asleep.get_or_insert(Asleep { since_us: mono_us, elapsed });
        }
        fits
    }

    /// Wakes this replica; returns whether it slept. The leader's machine was silent for
    /// `silent_us` until now (0 if it was not, or this replica leads).
    ///
    /// A follower waits as long for the leader as if heartbeats had come until that silence began,
    /// but never less than it has promised: only ticks that have passed since it heard the leader
    /// of this group are counted.
    pub fn wake(&mut self, mono_us: u64, silent_us: u64) -> bool {
        let Some(Asleep { since_us, elapsed }) = self.asleep.take() else { return false };
        self.ticked_us = None;
        if self.is_leader() {
            self.node.ping();
            return true;
        }
        let pace = self.pace;
        let ticks = |us: u64| usize::try_from(us / pace.tick_us).unwrap_or(usize::MAX);
        let passed = elapsed.saturating_add(ticks(mono_us.saturating_sub(since_us)));
        let silent = ticks(silent_us).max(elapsed);
        self.node.raft.election_elapsed = passed.min(silent).min(pace.election_ticks - 1);
        true
    }

    /// Wakes this replica before a proposal or a question.
    pub(super) fn rouse(&mut self) {
        if self.asleep.take().is_some() {
            self.node.ping();
        }
    }

    /// Wakes this replica before it takes a message of another one.
    pub(super) fn wake_for(&mut self, mono_us: u64, message: &Message) {
        if self.asleep.is_none() {
            return;
        }
        let raft = &self.node.raft;
        let is_answer = matches!(
            message.get_msg_type(),
            MessageType::MsgHeartbeatResponse | MessageType::MsgAppendResponse
        );
        if self.is_leader() && is_answer && !message.reject && message.term == raft.term {
            // This message was in flight when the group fell asleep.
            return;
        }
        if message.from != raft.leader_id {
            self.nudges = true;
        }
        self.wake(mono_us, 0);
    }

    /// Leader to inform that another replica has woken this one, if there is one.
    pub fn take_nudge(&mut self) -> Option<MachineId> {
        let leader = self.node.raft.leader_id;
        let other = leader != INVALID_ID && leader != u64::from(self.membership.own.0);
        let nudges = std::mem::take(&mut self.nudges) && other;
        nudges.then_some(leader).and_then(|id| u16::try_from(id).ok().map(MachineId))
    }

    /// Wakes this replica if the leader's machine or this one was silent, or is heard of again, and
    /// `machine` is a member of the group.
    pub fn doubt(&mut self, mono_us: u64, machine: MachineId, silent_us: u64) {
        let id = u64::from(machine.0);
        if self.asleep.is_none() || self.node.raft.prs().get(id).is_none() {
            return;
        }
        let leads = self.node.raft.leader_id == id;
        self.nudges = !self.is_leader();
        self.wake(mono_us, if leads { silent_us } else { 0 });
    }
}
