//! Replicated state of the coordination service: the tree and the sessions. It changes only by
//! [`Coordination::apply`], only from the log.

mod joint;

pub use joint::{Joint, JointState, Prepared};

use super::branch::Branch;
use super::request::SpreadStep;
use super::request::{
    Acl, Change, Code, Happened, Identity, Password, Read, Reply, Stat, TreeSessionId,
    WatchedEvent, Write, Zxid,
};
use super::spread::Spread;
use super::tree::path;
use super::tree::quota;
use super::tree::quota::QuotaNode;
use super::tree::{self, By, Tree, Undo, Znode};
use crate::ids::ShardId;
use crate::limits::SESSIONS_MAX;
use adt::{Blob, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

impl Zxid {
    /// Number of a change that the log has at this timestamp and that follows the change `last`.
    pub fn after(last: Self, ts: Timestamp) -> Self {
        let number = i64::try_from(ts.number()).unwrap_or(i64::MAX);
        Self(number.max(last.0.saturating_add(1)))
    }
}

/// Session, as all replicas know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionState {
    /// Time of silence in milliseconds after which the session ends.
    pub timeout_ms: i32,
    /// Secret with which its client resumes it.
    pub password: Password,
    /// Ephemeral nodes of the session at this shard.
    pub ephemerals: BTreeSet<Blob>,
    /// The other shards that it has joined; known to shard 0.
    pub joined: BTreeSet<ShardId>,
    /// Number with which it has entered this shard, if this is not shard 0.
    pub entered: Zxid,
    /// Last `multi` of the session over several shards, as far as this shard knows.
    pub joint: Option<Joint>,
}

impl SessionState {
    /// Copy without its nodes, which record their owner, and without its `multi`.
    pub fn without_nodes(&self) -> Self {
        let Self { timeout_ms, password, entered, .. } = *self;
        Self { timeout_ms, password, joined: self.joined.clone(), entered, ..Self::default() }
    }
}

/// Session over several shards that has begun to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// State of the session before.
    pub session: SessionState,
    /// Number of the change at shard 0 with which the end began.
    pub ended: Zxid,
    /// Whether it has ended; shard 0 still has to inform the others.
    pub finished: bool,
}

/// Write with everything about it that the log needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Session that asks; none for [`Write::Open`].
    pub session: TreeSessionId,
    /// Authenticated identities of its client.
    pub identities: Vec<Identity>,
    /// Write to execute.
    pub write: Write,
    /// Lower bound on the number of this change: the last change, at any shard, that the session
    /// knows. 0 in a tree that is not spread.
    pub after: Zxid,
}

impl Command {
    /// Command that needs neither identities nor a lower bound on its number.
    pub fn of(session: TreeSessionId, write: Write) -> Self {
        Self { session, identities: Vec::new(), write, after: Zxid::default() }
    }

    /// Whether the command is a step of a `multi` over several shards.
    pub fn is_joint(&self) -> bool {
        matches!(&self.write, Write::Spread(step) if step.is_of_joint())
    }
}

/// Result of a write.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The answer.
    pub reply: Result<Reply, Code>,
    /// Events, in the order in which they are sent.
    pub events: Vec<tree::GuardedEvent>,
}

/// Effects of a write so far.
#[derive(Default)]
struct Made {
    undos: Vec<Undo>,
    events: Vec<tree::GuardedEvent>,
}

impl Made {
    fn note(&mut self, tree: &Tree, undo: Undo) {
        self.events.extend(undo.happened(tree));
        self.undos.push(undo);
    }
}

/// The tree and the sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coordination {
    tree: Tree,
    sessions: BTreeMap<TreeSessionId, SessionState>,
    last: Zxid,
    /// Number of the tree's shards; known to shard 0.
    spread: Spread,
    /// Sessions over several shards that have begun to end.
    ending: BTreeMap<TreeSessionId, Ending>,
    /// Bound below which ended sessions may lie: a session that has joined with this number or a
    /// smaller one may have ended. Not used at shard 0.
    departed: Zxid,
}

impl Coordination {
    /// The tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// All sessions.
    pub fn sessions(&self) -> &BTreeMap<TreeSessionId, SessionState> {
        &self.sessions
    }

    /// Whether the passing of time changes nothing: there are no sessions, and no nodes that become
    /// due.
    pub fn is_quiet(&self) -> bool {
        let ended = self.sessions.is_empty() && self.ending.is_empty();
        ended && self.tree.reapable_ms().is_none()
    }

    /// Number of the tree's shards. Only shard 0 knows it.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    /// Sessions over several shards that have begun to end.
    pub fn ending(&self) -> &BTreeMap<TreeSessionId, Ending> {
        &self.ending
    }

    /// Bound below which ended sessions may lie: a session that has joined with this number or a
    /// smaller one may have ended.
    pub fn departed(&self) -> Zxid {
        self.departed
    }

    /// Number of the last change.
    pub fn last(&self) -> Zxid {
        self.last
    }

    /// Restores the number of the last change from a snapshot.
    pub fn restore_last(&mut self, last: Zxid) {
        self.last = last;
    }

    /// Restores the number of the tree's shards and the bound on ended sessions from a snapshot.
    pub fn restore_spread(&mut self, spread: Spread, departed: Zxid) {
        (self.spread, self.departed) = (spread, departed);
    }

    /// Restores a session from a snapshot.
    pub fn restore_session(&mut self, session: TreeSessionId, kept: SessionState) {
        self.sessions.insert(session, kept);
    }

    /// Restores a session that has begun to end from a snapshot.
    pub fn restore_ending(&mut self, session: TreeSessionId, ending: Ending) {
        self.ending.insert(session, ending);
    }

    /// Restores a node from a snapshot.
    pub fn restore_node(&mut self, path: Blob, node: Znode) {
        self.tree.restore(path, node);
    }

    /// Completes the restore: registers nodes with their parents and with the sessions that own
    /// them.
    ///
    /// # Errors
    /// [`Code::NoNode`]: a node has no parent; [`Code::SessionExpired`]: its owner is no session.
    pub fn link_restored(&mut self) -> Result<(), Code> {
        self.tree.link()?;
        for (path, node) in self.tree.iter() {
            if let Some(owner) = node.session() {
                let ends = self.ending.get_mut(&owner).map(|ending| &mut ending.session);
                let session = self.sessions.get_mut(&owner).or(ends).ok_or(Code::SessionExpired)?;
                session.ephemerals.insert(path.clone());
            }
        }
        Ok(())
    }

    /// Paths of all existing nodes that a write may change.
    pub fn changed_by(&self, command: &Command) -> Vec<Blob> {
        let mut paths = Vec::new();
        let mut with_parent = |path: &Blob| {
            paths.extend(path::parent_to_be(path).map(Blob::new));
            paths.push(path.clone());
        };
        match &command.write {
            Write::Open { .. } => {}
            Write::Close => {
                let session = self.sessions.get(&command.session);
                session.into_iter().flat_map(|kept| &kept.ephemerals).for_each(with_parent);
            }
            Write::Spread(SpreadStep::Finish | SpreadStep::Gone) => {
                let ending = self.ending.get(&command.session);
                ending.into_iter().flat_map(|e| &e.session.ephemerals).for_each(with_parent);
            }
            Write::Spread(SpreadStep::Prepare { changes, .. }) => {
                changes.iter().for_each(|c| with_parent(c.path()));
            }
            Write::Spread(SpreadStep::Decide { .. }) => {
                let prepared = self.kept(command.session).and_then(SessionState::prepared);
                let changes = prepared.into_iter().flat_map(|(_, prepared)| &prepared.changes);
                changes.for_each(|c| with_parent(c.path()));
            }
            Write::Spread(_) => {}
            // Independent of the time of execution: the first ones in order are the only ones that
            // it can reach.
            Write::Reap => self.tree.reapable(i64::MAX).for_each(with_parent),
            Write::Change(change) => with_parent(change.path()),
            Write::Multi(changes) => changes.iter().for_each(|c| with_parent(c.path())),
        }
        paths
    }

    /// Executes a write that the log has at this timestamp.
    pub fn apply(&mut self, command: &Command, ts: Timestamp, now_ms: u64) -> Done {
        let first = self.last == Zxid::default();
        let zxid = Zxid::after(self.last.max(command.after), ts);
        self.last = zxid;
        let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        let (session, identities) = (command.session, &command.identities[..]);
        let by = By { session, identities, zxid, now_ms, prepared: false };
        let mut done = Made::default();
        let reply = match &command.write {
            Write::Open { timeout_ms, password } => self.open(&by, *timeout_ms, *password),
            Write::Reap => {
                let held = self.held_branches();
                let is_free = |path: &&Blob| !held.contains(&Branch::of(path));
                let due = self.tree.reapable(now_ms).filter(is_free);
                let paths: Vec<Blob> = due.cloned().collect();
                for path in paths {
                    let undo = self.tree.remove(&path, zxid);
                    done.note(&self.tree, undo);
                }
                Ok(Reply::Done)
            }
            Write::Spread(step) => self.step(&by, step, first, &mut done),
            _ if !self.sessions.contains_key(&session) => Err(Code::SessionExpired),
            Write::Close => {
                self.close(&by, &mut done);
                Ok(Reply::Done)
            }
            Write::Change(change) => self.change(&by, change, &mut done),
            Write::Multi(changes) => Ok(self.multi(&by, changes, &mut done)),
        };
        Done { reply, events: done.events }
    }

    fn open(&mut self, by: &By<'_>, timeout_ms: i32, password: Password) -> Result<Reply, Code> {
        if self.sessions.len() >= SESSIONS_MAX {
            return Err(Code::QuotaExceeded);
        }
        // Numbers of changes are unique, and so are those of the sessions that they begin.
        let session = TreeSessionId(by.zxid.0);
        self.sessions
            .insert(session, SessionState { timeout_ms, password, ..SessionState::default() });
        Ok(Reply::Session(session))
    }

    /// Ends an existing session and deletes its ephemeral nodes. If it is at other shards, they
    /// have to know first.
    fn close(&mut self, by: &By<'_>, done: &mut Made) {
        let Some(session) = self.sessions.remove(&by.session) else { return };
        if session.joined.is_empty() {
            return self.end_nodes(by, session, done);
        }
        let (ended, finished) = (by.zxid, false);
        self.ending.insert(by.session, Ending { session, ended, finished });
    }

    fn end_nodes(&mut self, by: &By<'_>, session: SessionState, done: &mut Made) {
        for path in session.ephemerals {
            let undo = self.tree.remove(&path, by.zxid);
            done.note(&self.tree, undo);
        }
    }

    /// Executes a step of a spread tree. Every step may be repeated.
    fn step(
        &mut self,
        by: &By<'_>,
        step: &SpreadStep,
        first: bool,
        done: &mut Made,
    ) -> Result<Reply, Code> {
        match step {
            SpreadStep::Over(spread) => {
                if first {
                    self.spread = *spread;
                }
                return Ok(Reply::Number(i32::from(self.spread.count())));
            }
            SpreadStep::Join(shards) => {
                let session = self.sessions.get_mut(&by.session).ok_or(Code::SessionExpired)?;
                session.joined.extend(shards);
            }
            SpreadStep::Enter { timeout_ms, password, joined } => {
                let known = self.sessions.get(&by.session);
                let entered = known.map_or(self.departed, |session| session.entered);
                if *joined <= entered || self.ending.contains_key(&by.session) {
                    return Err(Code::SessionMoved);
                }
                if known.is_none() && self.sessions.len() >= SESSIONS_MAX {
                    return Err(Code::QuotaExceeded);
                }
                let session = self.sessions.entry(by.session).or_default();
                (session.timeout_ms, session.password) = (*timeout_ms, *password);
                session.entered = *joined;
            }
            SpreadStep::Depart { ended } => {
                self.departed = self.departed.max(*ended);
                if let Some(session) = self.sessions.remove(&by.session) {
                    let (ended, finished) = (*ended, false);
                    self.ending.insert(by.session, Ending { session, ended, finished });
                }
            }
            SpreadStep::Finish => {
                if let Some(ending) = self.ending.get_mut(&by.session) {
                    ending.finished = true;
                    let ephemerals = std::mem::take(&mut ending.session.ephemerals);
                    self.end_nodes(
                        by,
                        SessionState { ephemerals, ..SessionState::default() },
                        done,
                    );
                }
            }
            SpreadStep::Gone => {
                if let Some(ending) = self.ending.remove(&by.session) {
                    self.end_nodes(by, ending.session, done);
                }
            }
            SpreadStep::Forget => drop(self.ending.remove(&by.session)),
            SpreadStep::Prepare { id, shards, changes } => {
                return self.prepare(by, *id, shards, changes);
            }
            SpreadStep::Inquire { id } => return Ok(self.inquire(by.session, *id)),
            SpreadStep::Decide { id, commit } => return Ok(self.decide(by, *id, *commit, done)),
        }
        Ok(Reply::Done)
    }

    /// Makes all of the changes or none. Adds their effects to `done`.
    fn multi(&mut self, by: &By<'_>, changes: &[Change], done: &mut Made) -> Reply {
        let mut replies = Vec::with_capacity(changes.len());
        for change in changes {
            match self.change(by, change, done) {
                Ok(reply) => replies.push(Ok(reply)),
                Err(code) => {
                    self.take_back(done);
                    // Operations before the failed one get `Ok`, those behind it
                    // `RuntimeInconsistency`.
                    let mut codes = vec![Err(Code::Ok); replies.len()];
                    codes.push(Err(code));
                    codes.resize(changes.len(), Err(Code::RuntimeInconsistency));
                    return Reply::Multi(codes);
                }
            }
        }
        Reply::Multi(replies)
    }

    /// Undoes all effects.
    fn take_back(&mut self, done: &mut Made) {
        while let Some(undo) = done.undos.pop() {
            self.note_ephemeral(&undo, false);
            self.tree.undo(undo);
        }
        done.events.clear();
    }

    fn change(&mut self, by: &By<'_>, change: &Change, done: &mut Made) -> Result<Reply, Code> {
        let (reply, undo) = match change {
            Change::Create(create) => {
                let (path, undo) = self.tree.create(by, create)?;
                let stat = create.stat.then(|| self.tree.get(&path).map(|node| node.stat()));
                (Reply::Created { path, stat: stat.transpose()? }, undo)
            }
            Change::Delete { path, version } => {
                (Reply::Done, self.tree.delete(by, path, *version)?)
            }
            Change::SetData { path, data, version } => {
                let undo = self.tree.set_data(by, path, data.as_ref(), *version)?;
                (Reply::Stat(self.tree.get(path)?.stat()), undo)
            }
            Change::SetAcl { path, acl, version } => {
                let undo = self.tree.set_rules(by, path, acl, *version)?;
                (Reply::Stat(self.tree.get(path)?.stat()), undo)
            }
            Change::Check { path, version } => (Reply::Done, self.tree.check(by, path, *version)?),
        };
        self.note_ephemeral(&undo, true);
        done.note(&self.tree, undo);
        Ok(reply)
    }

    /// Updates the owner's list of nodes after a change, or before the change is undone.
    fn note_ephemeral(&mut self, undo: &Undo, made: bool) {
        let (path, owner, owns) = match undo {
            Undo::Created(path, ..) => {
                (path, self.tree.get(path).ok().and_then(Znode::session), made)
            }
            Undo::Deleted(path, node, _) => (path, node.session(), !made),
            Undo::Data(..) | Undo::Rules(..) | Undo::Nothing => return,
        };
        let Some(owner) = owner else { return };
        let ends = self.ending.get_mut(&owner).map(|ending| &mut ending.session);
        let Some(session) = self.sessions.get_mut(&owner).or(ends) else { return };
        if owns {
            session.ephemerals.insert(path.clone());
        } else {
            session.ephemerals.remove(path);
        }
    }

    /// Answers a read of the current state.
    ///
    /// # Errors
    /// A zero byte in a path, no such node, no right to read it, no such session.
    pub fn read(
        &self,
        session: TreeSessionId,
        identities: &[Identity],
        read: &Read,
    ) -> Result<Reply, Code> {
        let readable = |path: &Blob| {
            let node = self.tree.get(path)?;
            node.rules.check(Acl::READ, identities).map(|()| node)
        };
        Ok(match read {
            // Like ZooKeeper, which checks nothing else here.
            Read::Exists(path) if path.contains(&0) => return Err(Code::BadArguments),
            Read::Exists(path) => Reply::Stat(readable(path)?.stat()),
            Read::Data(path) => {
                let node = readable(path)?;
                let counted = match quota::part(path) {
                    Some((of, QuotaNode::Stats)) => self.tree.quotas().usage(of),
                    _ => None,
                };
                let Some(counted) = counted else {
                    return Ok(Reply::Data(node.data.clone(), node.stat()));
                };
                let data = counted.report();
                let data_length = i32::try_from(data.len()).unwrap_or(i32::MAX);
                Reply::Data(Some(data), Stat { data_length, ..node.stat() })
            }
            Read::Acl(path) => {
                let node = self.tree.get(path)?;
                node.rules.check(Acl::READ | Acl::ADMIN, identities)?;
                let all = node.rules.allow(Acl::ADMIN, identities);
                let list = if all { node.rules.list() } else { node.rules.list_without_secrets() };
                Reply::Acl(list, node.stat())
            }
            Read::Children { path, stat } => {
                let node = readable(path)?;
                let names = node.children.iter().cloned().collect();
                Reply::Children(names, stat.then(|| node.stat()))
            }
            Read::Descendants(path) => {
                readable(path)?;
                let count = self.tree.descendants(path)?;
                Reply::Number(i32::try_from(count).unwrap_or(i32::MAX))
            }
            Read::Ephemerals(prefix) => {
                let session = self.sessions.get(&session).ok_or(Code::SessionExpired)?;
                let paths = session.ephemerals.iter().filter(|path| path.starts_with(prefix));
                Reply::Paths(paths.cloned().collect())
            }
            Read::Sync(path) => Reply::Path(path.clone()),
            Read::Multi(reads) => {
                let each = |read: &Read| self.read(session, identities, read);
                Reply::Multi(reads.iter().map(each).collect())
            }
        })
    }

    /// Event of a watched node that a returning client has missed since the change `since`. `None`
    /// if it has missed none, and its watch remains.
    pub fn missed(&self, path: &Blob, watch: super::Watch, since: Zxid) -> Option<WatchedEvent> {
        use super::Watch;
        let happened = match (watch, self.tree.get(path)) {
            (Watch::Persistent | Watch::Recursive, _) | (Watch::Exist, Err(_)) => return None,
            (Watch::Exist, Ok(_)) => Happened::Created,
            (Watch::Data | Watch::Child, Err(_)) => Happened::Deleted,
            (Watch::Data, Ok(node)) if node.mzxid > since => Happened::Data,
            (Watch::Child, Ok(node)) if node.pzxid > since => Happened::Children,
            (Watch::Data | Watch::Child, Ok(_)) => return None,
        };
        Some(WatchedEvent { happened, path: path.clone() })
    }
}
