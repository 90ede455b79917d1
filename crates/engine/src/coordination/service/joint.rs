//! A `multi` over several shards of a tree, at one of them: two-phase commit (Gray, 1978), with the
//! part of each shard in its log. A session has at most one at a time.
//!
//! The *prepare* step tries the changes of this shard and undoes them; the outcome is the vote.
//! Until the `multi` is *decided*, the leader admits no request on the same branches
//! (`shard/coordination/joints.rs`), so that changes that succeeded when tried can still be made.
//! It is committed if all its shards have prepared it and none votes against it. The votes alone
//! determine the decision, so if its gateway is lost, any other can complete it: that gateway
//! *inquires* at all the shards, and a shard that does not know the `multi` will not prepare it any
//! more.

use super::{By, Change, Code, Coordination, Identity, Made, Reply, SessionState, TreeSessionId};
use crate::coordination::JointId;
use crate::coordination::branch::{Branch, Footprint};
use crate::ids::ShardId;
use std::collections::BTreeSet;

/// Last `multi` of a session that this shard knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joint {
    /// Identity of the `multi`.
    pub id: JointId,
    /// State of the `multi`.
    pub fate: JointState,
}

/// State of a `multi` at a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JointState {
    /// Prepared and not decided.
    Prepared(Box<Prepared>),
    /// Committed.
    Committed,
    /// Without effect.
    Void,
}

/// Part of a prepared `multi` at this shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// All shards that take part.
    pub shards: Vec<ShardId>,
    /// Changes at this shard.
    pub changes: Vec<Change>,
    /// Authenticated identities of the client.
    pub identities: Vec<Identity>,
    /// The vote: whether the changes succeeded when tried.
    pub sound: bool,
}

impl Prepared {
    /// Branches that the part changes.
    pub fn footprint(&self) -> Footprint {
        Footprint::changes(&self.changes)
    }
}

impl JointState {
    /// Answer to an inquiry: 2 for a committed `multi`, 1 for one that is prepared with a vote in
    /// favour, 0 for one without effect, now and for ever.
    pub fn number(&self) -> i32 {
        match self {
            Self::Committed => 2,
            Self::Prepared(prepared) if prepared.sound => 1,
            Self::Prepared(_) | Self::Void => 0,
        }
    }
}

impl SessionState {
    /// The session's `multi` that is prepared here and not decided.
    pub fn prepared(&self) -> Option<(JointId, &Prepared)> {
        match &self.joint {
            Some(Joint { id, fate: JointState::Prepared(prepared) }) => Some((*id, prepared)),
            _ => None,
        }
    }
}

impl Coordination {
    /// State of a session, which may have begun to end.
    pub fn kept(&self, session: TreeSessionId) -> Option<&SessionState> {
        let ending = || self.ending.get(&session).map(|ending| &ending.session);
        self.sessions.get(&session).or_else(ending)
    }

    fn kept_mut(&mut self, session: TreeSessionId) -> Option<&mut SessionState> {
        let ending = self.ending.get_mut(&session).map(|ending| &mut ending.session);
        self.sessions.get_mut(&session).or(ending)
    }

    /// Last `multi` of each session, including sessions that have begun to end.
    pub fn joints(&self) -> impl Iterator<Item = (TreeSessionId, &Joint)> {
        let ending = self.ending.iter().map(|(session, ending)| (session, &ending.session));
        let all = self.sessions.iter().chain(ending);
        all.filter_map(|(session, kept)| kept.joint.as_ref().map(|joint| (*session, joint)))
    }

    /// Every `multi` that is prepared and not decided.
    pub fn prepared(&self) -> impl Iterator<Item = (TreeSessionId, &Prepared)> {
        self.joints().filter_map(|(session, joint)| match &joint.fate {
            JointState::Prepared(prepared) => Some((session, &**prepared)),
            JointState::Committed | JointState::Void => None,
        })
    }

    /// Restores a session's last `multi` from a snapshot.
    pub fn restore_joint(&mut self, session: TreeSessionId, joint: Joint) {
        if let Some(kept) = self.kept_mut(session) {
            kept.joint = Some(joint);
        }
    }

    /// Branches that prepared parts hold.
    pub(super) fn held_branches(&self) -> BTreeSet<Branch> {
        self.prepared().flat_map(|(_, prepared)| prepared.footprint().branches).collect()
    }

    /// Whether changes share a branch with the nodes of an ending session, which are deleted even
    /// if the branch is held.
    fn have_ending_nodes(&self, changes: &[Change]) -> bool {
        let nodes = self.ending.values().flat_map(|ending| &ending.session.ephemerals);
        let ending = Footprint::nodes(nodes).branches;
        let touched = || Footprint::changes(changes).branches;
        !ending.is_empty() && touched().iter().any(|branch| ending.contains(branch))
    }

    pub(super) fn prepare(
        &mut self,
        by: &By<'_>,
        id: JointId,
        shards: &[ShardId],
        changes: &[Change],
    ) -> Result<Reply, Code> {
        let session = self.sessions.get(&by.session).ok_or(Code::SessionExpired)?;
        let is_late = session.joint.as_ref().is_some_and(|joint| joint.id >= id);
        if is_late || session.prepared().is_some() || self.have_ending_nodes(changes) {
            return Ok(Reply::Done);
        }
        let mut tried = Made::default();
        let reply = self.multi(by, changes, &mut tried);
        let sound = matches!(&reply, Reply::Multi(all) if all.iter().all(Result::is_ok));
        self.take_back(&mut tried);
        let (shards, changes) = (shards.to_vec(), changes.to_vec());
        let identities = by.identities.to_vec();
        let prepared = Box::new(Prepared { shards, changes, identities, sound });
        if let Some(session) = self.sessions.get_mut(&by.session) {
            session.joint = Some(Joint { id, fate: JointState::Prepared(prepared) });
        }
        Ok(reply)
    }

    /// Answers an inquiry. An unknown `multi` becomes one without effect.
    pub(super) fn inquire(&mut self, session: TreeSessionId, id: JointId) -> Reply {
        let Some(kept) = self.kept_mut(session) else { return Reply::Number(0) };
        match &kept.joint {
            Some(joint) if joint.id == id => Reply::Number(joint.fate.number()),
            Some(joint) if joint.id > id => Reply::Number(0),
            _ => {
                kept.joint = Some(Joint { id, fate: JointState::Void });
                Reply::Number(0)
            }
        }
    }

    /// Executes the decision about a `multi`.
    pub(super) fn decide(
        &mut self,
        by: &By<'_>,
        id: JointId,
        commit: bool,
        done: &mut Made,
    ) -> Reply {
        let joint = self.kept_mut(by.session).and_then(|kept| kept.joint.as_mut());
        let Some(joint) = joint.filter(|joint| joint.id == id) else { return Reply::Done };
        let JointState::Prepared(prepared) = &mut joint.fate else { return Reply::Done };
        let Prepared { changes, identities, .. } = std::mem::take(&mut **prepared);
        joint.fate = if commit { JointState::Committed } else { JointState::Void };
        if !commit {
            return Reply::Multi(Vec::new());
        }
        let by = By { identities: &identities, prepared: true, ..*by };
        self.multi(&by, &changes, done)
    }
}
