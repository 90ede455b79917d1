//! A `multi` over several shards of a tree, at one of them: two-phase commit (Gray, 1978), with the part of
//! each shard in its log. A session has at most one at a time.
//!
//! It is *prepared*: the changes of this shard are tried and taken back, and what came of that is the vote.
//! Until it is *decided*, the leader lets nothing be done that concerns the same branches
//! (`shard/coordination/joints.rs`), so that what was tried once can be done later. It is committed if all
//! its shards have prepared it and none of them votes against it; nothing else is needed to know that, so
//! any gateway can find out what has to become of it, if the one that has begun it is lost: it *inquires* at
//! all of them, and whoever knows nothing of it will not prepare it any more.

use super::{By, Change, Code, Coordination, Identity, Made, Reply, Session, SessionId, Zxid};
use crate::coordination::branch::{Branch, Touched};
use crate::ids::ShardId;
use std::collections::BTreeSet;

/// Which `multi` of a session: later ones are larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JointId {
    /// The number of the change at shard 0 with which the session has joined others for its connection.
    pub joined: Zxid,
    /// Which one of that connection.
    pub number: u32,
}

/// The last `multi` of a session of which this shard has heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joint {
    /// Which.
    pub id: JointId,
    /// What has become of it.
    pub fate: Fate,
}

/// What has become of a `multi` at a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is prepared and not decided.
    Prepared(Box<Prepared>),
    /// It is committed.
    Committed,
    /// It has no effect.
    Void,
}

/// The part of a shard that is prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// All shards that have a part of it.
    pub shards: Vec<ShardId>,
    /// What is done at this one.
    pub changes: Vec<Change>,
    /// Who asks, as far as was proved.
    pub identities: Vec<Identity>,
    /// The vote: it can be done.
    pub sound: bool,
}

impl Prepared {
    /// What it changes here.
    pub fn touches(&self) -> Touched {
        Touched::changes(&self.changes)
    }
}

impl Fate {
    /// What is told who inquires: 2 of what is committed, 1 of what is prepared and can be, 0 of what has no
    /// effect and never will.
    pub fn number(&self) -> i32 {
        match self {
            Self::Committed => 2,
            Self::Prepared(prepared) if prepared.sound => 1,
            Self::Prepared(_) | Self::Void => 0,
        }
    }
}

impl Session {
    /// Its `multi` that is prepared here and not decided.
    pub fn prepared(&self) -> Option<(JointId, &Prepared)> {
        match &self.joint {
            Some(Joint { id, fate: Fate::Prepared(prepared) }) => Some((*id, prepared)),
            _ => None,
        }
    }
}

impl Coordination {
    /// What is known of a session, also while it ends.
    pub fn kept(&self, session: SessionId) -> Option<&Session> {
        let ending = || self.ending.get(&session).map(|ending| &ending.session);
        self.sessions.get(&session).or_else(ending)
    }

    fn kept_mut(&mut self, session: SessionId) -> Option<&mut Session> {
        let ending = self.ending.get_mut(&session).map(|ending| &mut ending.session);
        self.sessions.get_mut(&session).or(ending)
    }

    /// The last of each session, also of those that end.
    pub fn joints(&self) -> impl Iterator<Item = (SessionId, &Joint)> {
        let ending = self.ending.iter().map(|(session, ending)| (session, &ending.session));
        let all = self.sessions.iter().chain(ending);
        all.filter_map(|(session, kept)| kept.joint.as_ref().map(|joint| (*session, joint)))
    }

    /// What is prepared and not decided.
    pub fn prepared(&self) -> impl Iterator<Item = (SessionId, &Prepared)> {
        self.joints().filter_map(|(session, joint)| match &joint.fate {
            Fate::Prepared(prepared) => Some((session, &**prepared)),
            Fate::Committed | Fate::Void => None,
        })
    }

    /// Reads back from a snapshot what is known of a session's last `multi`.
    pub fn restore_joint(&mut self, session: SessionId, joint: Joint) {
        if let Some(kept) = self.kept_mut(session) {
            kept.joint = Some(joint);
        }
    }

    /// Branches that are held.
    pub(super) fn held_branches(&self) -> BTreeSet<Branch> {
        self.prepared().flat_map(|(_, prepared)| prepared.touches().branches).collect()
    }

    /// Whether changes concern what the end of a session changes as well: its nodes are deleted whatever is
    /// held.
    fn have_ending_nodes(&self, changes: &[Change]) -> bool {
        let nodes = self.ending.values().flat_map(|ending| &ending.session.ephemerals);
        let ending = Touched::nodes(nodes).branches;
        let touched = || Touched::changes(changes).branches;
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
            session.joint = Some(Joint { id, fate: Fate::Prepared(prepared) });
        }
        Ok(reply)
    }

    /// What is known of a `multi`. If that is nothing, it has no effect any more.
    pub(super) fn inquire(&mut self, session: SessionId, id: JointId) -> Reply {
        let Some(kept) = self.kept_mut(session) else { return Reply::Number(0) };
        match &kept.joint {
            Some(joint) if joint.id == id => Reply::Number(joint.fate.number()),
            Some(joint) if joint.id > id => Reply::Number(0),
            _ => {
                kept.joint = Some(Joint { id, fate: Fate::Void });
                Reply::Number(0)
            }
        }
    }

    /// It is known what becomes of a `multi`.
    pub(super) fn decide(
        &mut self,
        by: &By<'_>,
        id: JointId,
        commit: bool,
        done: &mut Made,
    ) -> Reply {
        let joint = self.kept_mut(by.session).and_then(|kept| kept.joint.as_mut());
        let Some(joint) = joint.filter(|joint| joint.id == id) else { return Reply::Done };
        let Fate::Prepared(prepared) = &mut joint.fate else { return Reply::Done };
        let Prepared { changes, identities, .. } = std::mem::take(&mut **prepared);
        joint.fate = if commit { Fate::Committed } else { Fate::Void };
        if !commit {
            return Reply::Multi(Vec::new());
        }
        let by = By { identities: &identities, prepared: true, ..*by };
        self.multi(&by, &changes, done)
    }
}
