//! Groups that have nothing to do sleep: their leader sends no heartbeats, and their followers wait
//! for none.
//!
//! A leader puts its group to sleep when every member has, and knows to be committed, all that is in
//! the log. A follower agrees only if it sees the same. From then on it takes the leader to be there
//! as long as the leader's *machine* is heard of; somebody else watches that, once for all groups.
//! Whatever happens to the group wakes it: a proposal, a question about the lead, a message of
//! another replica. A follower that is woken by anybody but its leader lets the leader know.
//!
//! Nothing that Raft promises rests on anybody being awake. What a follower owes to a leader's lease
//! is counted in time that has really passed, asleep or not: see [`Group::wake`]. The same is known
//! as quiescence (CockroachDB) and hibernation (TiKV).

use super::Group;
use crate::ids::MachineId;
use raft::eraftpb::{Message, MessageType};
use raft::{INVALID_ID, ProgressState, StateRole};

/// Since when a replica sleeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asleep {
    since_us: u64,
    /// Ticks since the leader was heard of, at that time.
    elapsed: usize,
}

impl Group {
    /// Whether this replica sleeps.
    pub fn is_asleep(&self) -> bool {
        self.asleep.is_some()
    }

    /// Whether there is nothing to be said, written or carried out.
    pub fn is_idle(&self) -> bool {
        let said = self.messages.is_empty() && self.wanted.is_empty();
        said && self.is_done() && !self.node.has_ready()
    }

    /// Whether there is nothing to be written or carried out.
    fn is_done(&self) -> bool {
        let written = self.outstanding.is_empty() && self.held.is_empty();
        written && self.committed.is_empty() && self.restoring.is_none()
    }

    /// Whether all of the log up to `index` is here, is all there is, and is carried out.
    fn has_exactly(&self, index: u64) -> bool {
        let log = &self.node.raft.raft_log;
        (log.last_index(), log.committed, log.applied) == (index, index, index) && self.is_done()
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

    /// Puts the group to sleep, which [`Group::may_sleep`]. The others are to be told, with the term
    /// and the index of the last entry.
    pub fn sleep(&mut self, mono_us: u64) -> Vec<MachineId> {
        self.asleep = Some(Asleep { since_us: mono_us, elapsed: 0 });
        let own = u64::from(self.membership.own.0);
        let others = self.node.raft.prs().iter().map(|(id, _)| *id).filter(|id| *id != own);
        let mut others: Vec<MachineId> =
            others.filter_map(|id| u16::try_from(id).ok().map(MachineId)).collect();
        others.sort_unstable();
        others
    }

    /// The leader of `term` says that the log ends with entry `index`, that all of it is committed,
    /// and that it will say nothing more for now. Tells whether this replica sleeps; if not, the
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

    /// Wakes this replica; tells whether it slept. The leader's machine was silent for `silent_us`
    /// until now (0 if it was not, or this replica leads).
    ///
    /// A follower waits as long for the leader as if heartbeats had come until that silence began,
    /// but never less than it has promised: no tick is counted that has not passed since it heard
    /// the leader of this group.
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

    /// Something is about to be proposed or asked here.
    pub(super) fn rouse(&mut self) {
        if self.asleep.take().is_some() {
            self.node.ping();
        }
    }

    /// A message of another replica is about to be taken.
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
            // It was under way when the group fell asleep.
            return;
        }
        if message.from != raft.leader_id {
            self.nudges = true;
        }
        self.wake(mono_us, 0);
    }

    /// The leader that is to be told that this replica was woken by somebody else, if there is one.
    pub fn take_nudge(&mut self) -> Option<MachineId> {
        let leader = self.node.raft.leader_id;
        let other = leader != INVALID_ID && leader != u64::from(self.membership.own.0);
        let nudges = std::mem::take(&mut self.nudges) && other;
        nudges.then_some(leader).and_then(|id| u16::try_from(id).ok().map(MachineId))
    }

    /// The machine that leads the group, or this one, was not heard of, or is again: wakes this
    /// replica if `machine` has a part in the group.
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
