//! How much of the log a replica has, beside what it is said to have: whether it could lead, whether it
//! has forgotten something, and what a machine says that is back in a group.

use super::{Group, GroupError};
use crate::ids::MachineId;
use raft::ProgressState;
use raft::eraftpb::{Message, MessageType};

/// How a replica stands to the others of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It leads, or follows a leader and has all that is committed, as far as it has been told.
    Current,
    /// It follows a leader, or is about to lead, and is not yet where the others are.
    Behind,
    /// It knows of no leader.
    Leaderless,
}

/// What a leader knows of the other members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followers {
    /// Members that vote, the leader among them.
    pub voters: usize,
    /// All others.
    pub others: usize,
    /// Those of them that take entries as they come, and were heard of lately.
    pub following: usize,
}

impl Group {
    /// How this replica stands to the others.
    pub fn standing(&self) -> Standing {
        if self.node.raft.leader_id == 0 {
            return Standing::Leaderless;
        }
        let led = self.is_leader();
        let is_current = if led { self.is_serving() } else { self.last().0 >= self.told };
        let is_current = is_current && self.restoring.is_none();
        if is_current { Standing::Current } else { Standing::Behind }
    }

    /// The other members as this replica sees them, if it leads.
    pub fn followers(&self) -> Option<Followers> {
        if !self.is_leader() {
            return None;
        }
        let own = u64::from(self.membership.own.0);
        let others = self.node.raft.prs().iter().filter(|(id, _)| **id != own);
        let mut found = Followers { voters: self.members.voters.len(), ..Followers::default() };
        for (_, progress) in others {
            found.others += 1;
            // It takes entries as they come, and was heard of lately.
            let follows = progress.state == ProgressState::Replicate && progress.recent_active;
            found.following += usize::from(follows);
        }
        Some(found)
    }

    /// The replica that leads, as far as it is known here.
    pub fn leader(&self) -> Option<MachineId> {
        let leader = u16::try_from(self.node.raft.leader_id).ok();
        leader.filter(|leader| *leader != 0).map(MachineId)
    }

    /// A sign of life says in `commit` only how much of what is committed the follower has. How much
    /// there is it says in a field that the library leaves empty: a follower that needs a snapshot gets
    /// no entries for as long as that takes.
    pub(super) fn tell_committed(&self, messages: &mut [Message]) {
        let committed = self.node.raft.raft_log.committed;
        let is_beat = |m: &&mut Message| m.get_msg_type() == MessageType::MsgHeartbeat;
        messages.iter_mut().filter(is_beat).for_each(|message| message.index = committed);
    }

    /// Notes how much is committed, which a leader says with its entries and its signs of life.
    pub(super) fn hear_committed(&mut self, message: &Message) {
        let committed = match message.get_msg_type() {
            MessageType::MsgAppend => message.commit,
            // Nothing, from builds that do not say it.
            MessageType::MsgHeartbeat => message.index,
            _ => return,
        };
        if message.term >= self.term() {
            self.told = self.told.max(committed);
        }
    }

    /// A leader says with each sign of life how much of what is committed this replica has said to
    /// have. If that is more than there is, and more than the machine knows to have had, its disk is
    /// not the one that it has written to, and whatever else it has promised is forgotten as well: it
    /// must not go on.
    pub(super) fn lacks(&self, message: &Message) -> Result<bool, GroupError> {
        let is_beat = message.get_msg_type() == MessageType::MsgHeartbeat;
        let (last, _) = self.last();
        let lacks = is_beat && message.term >= self.term() && message.commit > last;
        if lacks && message.commit > self.owes.0 {
            return Err(GroupError(format!(
                "machine {} has told others of entries up to {} of group {}, and has only {last}: \
                 its disk was lost, or is an old copy; a machine whose disk was lost needs a new \
                 number",
                self.membership.own.0, message.commit, self.id.0
            )));
        }
        Ok(lacks)
    }

    /// The machine was taken out of the group, has removed what it had, and is back, and the last word
    /// of its earlier replica has arrived after it came back: the leader takes that for what the
    /// present one has. It hears that this is not so.
    pub(super) fn say_what_is_here(&mut self, message: &Message) {
        let mut answer = Message::default();
        answer.set_msg_type(MessageType::MsgAppendResponse);
        (answer.to, answer.from, answer.term) = (message.from, message.to, message.term);
        (answer.index, answer.reject) = (message.commit, true);
        answer.reject_hint = self.last().0;
        self.messages.push(answer);
    }

    /// Whether a follower has less than it had said, which is forgotten then. (Connections keep the
    /// order of messages. If a late one were taken for this, the follower would be asked again what it
    /// has, and nothing worse.)
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
