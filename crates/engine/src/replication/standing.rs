//! State of a replica relative to its group: whether it is up to date, whether its disk has lost
//! acknowledged entries, and the correction of stale reports about a machine that has joined again.

use super::{GroupError, RaftGroup};
use crate::ids::MachineId;
use raft::ProgressState;
use raft::eraftpb::{Message, MessageType};

/// State of a replica relative to the others of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// Leads, or follows a leader and has all entries that it knows to be committed.
    Current,
    /// Follows a leader, or is about to lead, and has not caught up yet.
    Behind,
    /// Knows no leader.
    Leaderless,
}

/// Figures of a leader about the other members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followers {
    /// Voters, including the leader.
    pub voters: usize,
    /// All other members.
    pub others: usize,
    /// Other members that accept entries as they come, and have been heard of recently.
    pub following: usize,
}

/// The other members of a group, as its leader sees them.
pub struct Peers<'g>(&'g RaftGroup);

impl Peers<'_> {
    /// Voters that could take the lead over at once: those that have been heard of recently, and of
    /// these only the ones with the whole log, if there are any.
    pub fn successors(&self) -> Vec<MachineId> {
        let last = self.0.node.raft.raft_log.last_index();
        let own = u64::from(self.0.membership.own.0);
        let others = self.0.node.raft.prs().iter().filter(|(id, _)| **id != own);
        let mut active: Vec<(u64, u64)> =
            others.filter(|(_, p)| p.recent_active).map(|(id, p)| (*id, p.matched)).collect();
        if active.iter().any(|(_, matched)| *matched == last) {
            active.retain(|(_, matched)| *matched == last);
        }
        let mut found: Vec<MachineId> = active
            .into_iter()
            .filter_map(|(id, _)| u16::try_from(id).ok().map(MachineId))
            .filter(|machine| self.0.members.voters.contains(machine))
            .collect();
        found.sort_unstable();
        found
    }

    /// The other members as this replica sees them, if it leads.
    pub fn followers(&self) -> Option<Followers> {
        if !self.0.is_leader() {
            return None;
        }
        let own = u64::from(self.0.membership.own.0);
        let others = self.0.node.raft.prs().iter().filter(|(id, _)| **id != own);
        let mut found = Followers { voters: self.0.members.voters.len(), ..Followers::default() };
        for (_, progress) in others {
            found.others += 1;
            // It accepts entries as they come, and has been heard of recently.
            let follows = progress.state == ProgressState::Replicate && progress.recent_active;
            found.following += usize::from(follows);
        }
        Some(found)
    }
}

impl RaftGroup {
    /// The other members of the group.
    pub fn peers(&self) -> Peers<'_> {
        Peers(self)
    }

    /// State of this replica.
    pub fn standing(&self) -> ReplicaState {
        if self.node.raft.leader_id == 0 {
            return ReplicaState::Leaderless;
        }
        let led = self.is_leader();
        let is_current =
            if led { self.is_serving() } else { self.last().0 >= self.reported_commit };
        let is_current = is_current && self.restoring.is_none();
        if is_current { ReplicaState::Current } else { ReplicaState::Behind }
    }

    /// Leader, as far as this replica knows.
    pub fn leader(&self) -> Option<MachineId> {
        let leader = u16::try_from(self.node.raft.leader_id).ok();
        leader.filter(|leader| *leader != 0).map(MachineId)
    }

    /// Whether this replica has lost entries: each heartbeat of a leader has the index of the
    /// committed entries that this replica has acknowledged. If that exceeds both the log and the
    /// machine's record of former acknowledgements, the disk is not the one that was written to.
    /// Any other promise on it is lost as well, so the replica must not go on.
    pub(super) fn lacks(&self, message: &Message) -> Result<bool, GroupError> {
        let is_beat = message.get_msg_type() == MessageType::MsgHeartbeat;
        let (last, _) = self.last();
        let lacks = is_beat && message.term >= self.term() && message.commit > last;
        if lacks && message.commit > self.owes.0 {
            return Err(GroupError(format!(
                "machine {} has acknowledged entries up to {} of group {}, and has only {last}: \
                 its disk was lost, or is an old copy; a machine whose disk was lost needs a new \
                 number",
                self.membership.own.0, message.commit, self.id.0
            )));
        }
        Ok(lacks)
    }

    /// Whether a follower has fewer entries than it has acknowledged; if so, the acknowledgement is
    /// forgotten. (Connections keep the order of messages. If a late message were taken for this,
    /// the follower would be asked again for its state, and nothing worse.)
    pub(super) fn has_begun_anew(&mut self, message: &Message) -> bool {
        let is_answer = message.get_msg_type() == MessageType::MsgAppendResponse;
        if !(is_answer && message.reject && self.is_leader() && message.term == self.term()) {
            return false;
        }
        let Some(progress) = self.node.raft.mut_prs().get_mut(message.from) else { return false };
        if message.reject_hint >= progress.matched {
            return false;
        }
        progress.matched = 0;
        progress.become_probe();
        true
    }
}

/// Adds the leader's commit index to heartbeats. Their field `commit` only has the part that
/// the follower is known to have. A follower that needs a snapshot gets no entries for as long
/// as that takes, so the whole index goes into a field that the library leaves empty.
pub(super) fn report_committed(committed: u64, messages: &mut [Message]) {
    let is_beat = |m: &&mut Message| m.get_msg_type() == MessageType::MsgHeartbeat;
    messages.iter_mut().filter(is_beat).for_each(|message| message.index = committed);
}

/// Corrects the leader's view of a machine that has left the group, removed its replica and
/// joined again: a last message of the earlier replica has arrived after the return, and the
/// leader takes it for the state of the present one.
pub(super) fn report_own_entries(message: &Message, last: u64) -> Message {
    let mut answer = Message::default();
    answer.set_msg_type(MessageType::MsgAppendResponse);
    (answer.to, answer.from, answer.term) = (message.from, message.to, message.term);
    (answer.index, answer.reject) = (message.commit, true);
    answer.reject_hint = last;
    answer
}

/// Commit index that a leader sends with its entries and heartbeats.
pub(super) fn reported_commit(message: &Message) -> Option<u64> {
    match message.get_msg_type() {
        MessageType::MsgAppend => Some(message.commit),
        // 0 from builds that do not send it.
        MessageType::MsgHeartbeat => Some(message.index),
        _ => None,
    }
}
