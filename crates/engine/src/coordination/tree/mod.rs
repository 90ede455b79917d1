//! Tree of nodes by path, with its operations, each of which is atomic.

pub mod acl;
pub mod path;
pub(in crate::coordination) mod quota;
pub mod watches;

use super::request::{
    Acl, Code, Create, Happened, Identity, Lasts, Stat, TreeSessionId, WatchedEvent, Zxid,
};
use crate::limits::{NODE_CHILDREN_MAX, NODES_MAX, REAPED_MAX};
use acl::Rules;
use adt::Blob;
use adt::collections::Map;
use quota::{Quotas, Usage};
use std::collections::BTreeSet;

/// Node of the tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Znode {
    /// Data of the node. No data and empty data are distinct.
    pub data: Option<Blob>,
    /// Access control list.
    pub rules: Rules,
    /// The change that created it.
    pub czxid: Zxid,
    /// The change that set its data last.
    pub mzxid: Zxid,
    /// The last change that created or deleted a child.
    pub pzxid: Zxid,
    /// Time of its creation, in milliseconds since 1970.
    pub ctime_ms: i64,
    /// Time at which its data were last set, in milliseconds since 1970.
    pub mtime_ms: i64,
    /// Number of times its data were set.
    pub version: i32,
    /// Number of times its rules were set.
    pub aversion: i32,
    /// Number of children that it ever had: the next sequential one gets this number.
    pub born: i32,
    /// Lifetime, encoded as in [`Lasts::owner`].
    pub owner: i64,
    /// The names of its children.
    pub children: BTreeSet<Blob>,
}

impl Znode {
    /// Copy without the children, as a snapshot holds it: children name their parents.
    pub fn without_children(&self) -> Self {
        let (data, rules, children) = (self.data.clone(), self.rules.clone(), BTreeSet::new());
        Self { data, rules, children, ..*self }
    }

    fn data_bytes(&self) -> u64 {
        self.data.as_ref().map_or(0, |data| data.len() as u64)
    }

    /// Session that owns it, if it is ephemeral.
    pub fn session(&self) -> Option<TreeSessionId> {
        (Lasts::of_owner(self.owner) == Lasts::Session).then_some(TreeSessionId(self.owner))
    }

    /// Time from which the leader may delete the node without a request of a client, in
    /// milliseconds since 1970, if nothing changes until then. A container that has never had
    /// children is kept, as in ZooKeeper.
    fn reapable_ms(&self) -> Option<i64> {
        match Lasts::of_owner(self.owner) {
            Lasts::Children if self.children.is_empty() && self.born != 0 => Some(i64::MIN),
            Lasts::Ttl(ttl_ms) if self.children.is_empty() => {
                Some(self.mtime_ms.saturating_add(ttl_ms))
            }
            _ => None,
        }
    }

    /// Metadata of the node.
    pub fn stat(&self) -> Stat {
        let count = |len: usize| i32::try_from(len).unwrap_or(i32::MAX);
        let children = count(self.children.len());
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime_ms: self.ctime_ms,
            mtime_ms: self.mtime_ms,
            version: self.version,
            // Each existing child was created, and each former one was also deleted.
            cversion: self.born.wrapping_mul(2).wrapping_sub(children),
            aversion: self.aversion,
            ephemeral_owner: self.session().map_or(0, |session| session.0),
            data_length: count(self.data.as_ref().map_or(0, |data| data.len())),
            num_children: children,
            pzxid: self.pzxid,
        }
    }
}

/// Inverse of a change of the tree, valid as long as no other change follows.
#[derive(Debug)]
pub enum Undo {
    /// A node was created; the parent's former `born` and `pzxid`.
    Created(Blob, i32, Zxid),
    /// This node was deleted; the parent's former `pzxid`.
    Deleted(Blob, Box<Znode>, Zxid),
    /// Former data, `mzxid`, `mtime_ms` and `version`.
    Data(Blob, Option<Blob>, Zxid, i64, i32),
    /// Former rules and `aversion`.
    Rules(Blob, Rules, i32),
    /// Nothing was changed.
    Nothing,
}

impl Undo {
    /// Event of the change, for the node's watchers. `tree` must be as it is right after the
    /// change.
    pub fn happened(&self, tree: &Tree) -> Option<GuardedEvent> {
        let rules = |path: &[u8]| tree.get(path).map(|node| node.rules.clone()).unwrap_or_default();
        let (happened, path, own) = match self {
            Self::Created(path, ..) => (Happened::Created, path, rules(path)),
            Self::Deleted(path, node, _) => (Happened::Deleted, path, node.rules.clone()),
            Self::Data(path, ..) => (Happened::Data, path, rules(path)),
            Self::Rules(..) | Self::Nothing => return None,
        };
        let event = WatchedEvent { happened, path: path.clone() };
        let parents = path::split(path).map(|(parent, _)| rules(parent)).unwrap_or_default();
        Some(GuardedEvent { event, rules: own, parents })
    }
}

/// Event, with the rules that decide which watchers may receive it.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardedEvent {
    /// The event.
    pub event: WatchedEvent,
    /// Rules of its node: a client that may not read the node is not notified, as in ZooKeeper
    /// since CVE-2024-23944.
    pub rules: Rules,
    /// Rules of the parent, whose children have changed.
    pub parents: Rules,
}

/// Context of a change.
#[derive(Clone, Copy, Debug)]
pub struct By<'a> {
    /// Session that asks.
    pub session: TreeSessionId,
    /// Authenticated identities of its client.
    pub identities: &'a [Identity],
    /// The number of the change.
    pub zxid: Zxid,
    /// The time of the change, in milliseconds since 1970.
    pub now_ms: i64,
    /// Whether the change was prepared: the limit of nodes was checked then.
    pub prepared: bool,
}

/// All nodes by path. The root always exists.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    nodes: Map<Blob, Znode>,
    /// Nodes that the leader may delete without a request of a client, with the time from which it
    /// may.
    reapable: BTreeSet<(i64, Blob)>,
    /// Bytes of all paths and data.
    bytes: u64,
    quotas: Quotas,
}

impl Default for Tree {
    /// Tree with the root and the nodes below `/zookeeper` that clients expect.
    fn default() -> Self {
        let (nodes, reapable, quotas) = (Map::default(), BTreeSet::new(), Quotas::default());
        let mut tree = Self { nodes, reapable, bytes: 0, quotas };
        let node = || Znode { data: Some(Blob::new(b"")), ..Znode::default() };
        tree.nodes.insert(Blob::new(path::ROOT), node());
        tree.bytes = path::ROOT.len() as u64;
        for path in FIXED.into_iter().skip(1) {
            tree.put(Blob::from(path), node());
        }
        // Like ZooKeeper, where only administrators of the servers may change it.
        tree.edit(CONFIG.as_bytes(), |config| {
            config.rules = Rules::readable();
            config.aversion = -1;
        });
        tree
    }
}

/// Nodes that always exist.
pub const FIXED: [&str; 4] = ["/", "/zookeeper", CONFIG, "/zookeeper/quota"];
/// Node in which ZooKeeper lists its servers.
const CONFIG: &str = "/zookeeper/config";

fn must_be_valid(path: &[u8]) -> Result<(), Code> {
    if path::is_valid(path) { Ok(()) } else { Err(Code::BadArguments) }
}

/// Parent of a node to create or delete. Like ZooKeeper, this leaves the check of the rest of the
/// path for later, or omits it.
fn parent_of(path: &[u8]) -> Result<&[u8], Code> {
    let parent = path::parent_to_be(path).filter(|_| !path.contains(&0));
    parent.ok_or(Code::BadArguments)
}

fn fits(wanted: i32, version: i32) -> Result<(), Code> {
    if wanted == -1 || wanted == version { Ok(()) } else { Err(Code::BadVersion) }
}

impl Tree {
    /// The node at a path.
    ///
    /// # Errors
    /// [`Code::NoNode`].
    pub fn get(&self, path: &[u8]) -> Result<&Znode, Code> {
        self.nodes.get(path).ok_or(Code::NoNode)
    }

    /// Changes an existing node.
    fn edit<T>(&mut self, path: &[u8], edit: impl FnOnce(&mut Znode) -> T) -> T {
        let node = self.nodes.get_mut(path).expect("the node was looked up before");
        let (before, data) = (node.reapable_ms(), node.data_bytes());
        let result = edit(node);
        let (after, data_after) = (node.reapable_ms(), node.data_bytes());
        self.bytes = self.bytes - data + data_after;
        self.quotas.count(path, 0, data_after as i64 - data as i64);
        if before != after {
            before.map(|at_ms| self.reapable.remove(&(at_ms, Blob::new(path))));
            after.map(|at_ms| self.reapable.insert((at_ms, Blob::new(path))));
        }
        result
    }

    /// Time from which the leader may delete the first node without a request of a client, in
    /// milliseconds since 1970.
    pub fn reapable_ms(&self) -> Option<i64> {
        self.reapable.first().map(|(at_ms, _)| *at_ms)
    }

    /// Nodes that the leader may delete by this time without a request of a client, as many as it
    /// deletes at once.
    pub fn reapable(&self, now_ms: i64) -> impl Iterator<Item = &Blob> {
        let due = self.reapable.iter().take_while(move |(at_ms, _)| *at_ms <= now_ms);
        due.map(|(_, path)| path).take(REAPED_MAX)
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes of all paths and data.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Quotas, with the usage of what they limit.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Registers a new node, or one whose data were set, with its quota if it is a quota's node.
    fn note_quota(&mut self, path: &[u8]) {
        let Some((of, part)) = quota::part(path) else { return };
        let mut quotas = std::mem::take(&mut self.quotas);
        let data = self.nodes.get(path).and_then(|node| node.data.as_ref());
        quotas.begin(of, part, data, || self.usage(of));
        self.quotas = quotas;
    }

    /// Usage at and below a node, computed from all of its nodes.
    fn usage(&self, of: &[u8]) -> Usage {
        self.below(of).fold(Usage::default(), |sum, (_, node)| Usage {
            nodes: sum.nodes + 1,
            bytes: sum.bytes + node.data_bytes(),
        })
    }

    /// Whether the tree has only the nodes that always exist.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == FIXED.len()
    }

    /// All nodes, in an order that depends on the history alone.
    pub fn iter(&self) -> impl Iterator<Item = (&Blob, &Znode)> {
        self.nodes.iter()
    }

    /// Adds a node, and its name to its existing parent.
    fn put(&mut self, path: Blob, node: Znode) {
        if let Some((parent, name)) = path::split(&path) {
            self.edit(parent, |parent| parent.children.insert(Blob::new(name)));
        }
        self.reapable.extend(node.reapable_ms().map(|at_ms| (at_ms, path.clone())));
        self.bytes += path.len() as u64 + node.data_bytes();
        self.quotas.count(&path, 1, node.data_bytes() as i64);
        self.nodes.insert(path.clone(), node);
        self.note_quota(&path);
    }

    /// Adds a node of a snapshot; parents may come later.
    pub fn restore(&mut self, path: Blob, node: Znode) {
        self.nodes.insert(path, node);
    }

    /// Adds all nodes of a snapshot to their parents' children.
    ///
    /// # Errors
    /// [`Code::NoNode`]: a node has no parent, or an invalid path.
    pub fn link(&mut self) -> Result<(), Code> {
        let paths: Vec<Blob> = self.nodes.keys().cloned().collect();
        for path in paths {
            if !path::is_valid(&path) {
                return Err(Code::NoNode);
            }
            if let Some((parent, name)) = path::split(&path) {
                let parent = self.nodes.get_mut(parent).ok_or(Code::NoNode)?;
                parent.children.insert(Blob::new(name));
            }
        }
        let nodes = self.nodes.iter();
        let due = nodes.filter_map(|(path, node)| Some((node.reapable_ms()?, path.clone())));
        self.reapable = due.collect();
        let nodes = self.nodes.iter();
        self.bytes = nodes.map(|(path, node)| path.len() as u64 + node.data_bytes()).sum();
        self.quotas = Quotas::default();
        let of_quotas = self.below(quota::ALL).map(|(path, _)| path);
        for path in of_quotas.collect::<Vec<_>>() {
            self.note_quota(&path);
        }
        Ok(())
    }

    /// Number of a node's descendants.
    ///
    /// # Errors
    /// [`Code::NoNode`].
    pub fn descendants(&self, path: &[u8]) -> Result<usize, Code> {
        self.get(path)?;
        Ok(self.below(path).count() - 1)
    }

    /// A node, if it exists, and all nodes below it.
    pub fn below(&self, path: &[u8]) -> impl Iterator<Item = (Blob, &Znode)> {
        let mut open = vec![Blob::new(path)];
        std::iter::from_fn(move || {
            let path = open.pop()?;
            let node = self.nodes.get(&path)?;
            open.extend(node.children.iter().map(|name| path::join(&path, name)));
            Some((path, node))
        })
    }

    /// Creates a node; returns its path.
    ///
    /// # Errors
    /// In the order in which ZooKeeper checks: an invalid time to live or path, empty rules, no
    /// parent, no right to create children of it, an existing node, an ephemeral parent, a quota,
    /// too many nodes.
    pub fn create(&mut self, by: &By<'_>, create: &Create) -> Result<(Blob, Undo), Code> {
        if matches!(create.mode.lasts, Lasts::Ttl(ms) if ms <= 0 || ms > Lasts::TTL_MS_MAX) {
            return Err(Code::BadArguments);
        }
        // The name of a sequential node may be empty before its number.
        let parent = Blob::new(parent_of(&create.path)?);
        let rules = Rules::of(&create.acl, by.identities)?;
        let above = self.get(&parent)?;
        above.rules.check(Acl::CREATE, by.identities)?;
        let path = if create.mode.sequential {
            Blob::from([&create.path[..], format!("{:010}", above.born).as_bytes()].concat())
        } else {
            create.path.clone()
        };
        must_be_valid(&path)?;
        if self.nodes.contains_key(&path) {
            return Err(Code::NodeExists);
        }
        if above.session().is_some() {
            return Err(Code::NoChildrenForEphemerals);
        }
        let bytes = create.data.as_ref().map_or(0, |data| data.len() as u64);
        self.quotas.check(&path, 1, bytes)?;
        let is_full = self.nodes.len() >= NODES_MAX && !by.prepared;
        if is_full || above.children.len() >= NODE_CHILDREN_MAX {
            return Err(Code::QuotaExceeded);
        }
        let undo = Undo::Created(path.clone(), above.born, above.pzxid);
        let node = Znode {
            data: create.data.clone(),
            rules,
            czxid: by.zxid,
            mzxid: by.zxid,
            pzxid: by.zxid,
            ctime_ms: by.now_ms,
            mtime_ms: by.now_ms,
            owner: create.mode.lasts.owner(by.session),
            ..Znode::default()
        };
        self.edit(&parent, |above| {
            above.born = above.born.wrapping_add(1);
            above.pzxid = by.zxid;
        });
        self.put(path.clone(), node);
        Ok((path, undo))
    }

    /// Deletes a node without children.
    ///
    /// # Errors
    /// A path without a parent, a node that always exists, no parent, no right to delete children
    /// of it, no such node, another version, children.
    pub fn delete(&mut self, by: &By<'_>, path: &Blob, version: i32) -> Result<Undo, Code> {
        if FIXED.iter().any(|fixed| fixed.as_bytes() == path.as_slice()) {
            return Err(Code::BadArguments);
        }
        let parent = parent_of(path)?;
        self.get(parent)?.rules.check(Acl::DELETE, by.identities)?;
        let node = self.get(path)?;
        fits(version, node.version)?;
        if !node.children.is_empty() {
            return Err(Code::NotEmpty);
        }
        Ok(self.remove(path, by.zxid))
    }

    /// Deletes an existing node without children.
    pub fn remove(&mut self, path: &Blob, zxid: Zxid) -> Undo {
        let node = self.nodes.swap_remove(path).expect("the node was looked up before");
        node.reapable_ms().map(|at_ms| self.reapable.remove(&(at_ms, path.clone())));
        self.bytes -= path.len() as u64 + node.data_bytes();
        self.quotas.count(path, -1, -(node.data_bytes() as i64));
        if let Some((of, part)) = quota::part(path) {
            self.quotas.end(of, part);
        }
        let (parent, name) = path::split(path).expect("the root is never removed");
        let before = self.edit(parent, |above| {
            above.children.remove(name);
            std::mem::replace(&mut above.pzxid, zxid)
        });
        Undo::Deleted(path.clone(), Box::new(node), before)
    }

    /// Sets a node's data.
    ///
    /// # Errors
    /// In the order in which ZooKeeper checks: an invalid path, no such node, no right to set its
    /// data, a quota, another version.
    pub fn set_data(
        &mut self,
        by: &By<'_>,
        path: &Blob,
        data: Option<&Blob>,
        version: i32,
    ) -> Result<Undo, Code> {
        must_be_valid(path)?;
        let node = self.get(path)?;
        node.rules.check(Acl::WRITE, by.identities)?;
        let bytes = data.map_or(0, |data| data.len() as u64);
        self.quotas.check(path, 0, bytes.saturating_sub(node.data_bytes()))?;
        fits(version, node.version)?;
        let undo = self.edit(path, |node| {
            let (mzxid, mtime_ms, version) = (node.mzxid, node.mtime_ms, node.version);
            let before = std::mem::replace(&mut node.data, data.cloned());
            node.version = version.wrapping_add(1);
            (node.mzxid, node.mtime_ms) = (by.zxid, by.now_ms);
            Undo::Data(path.clone(), before, mzxid, mtime_ms, version)
        });
        self.note_quota(path);
        Ok(undo)
    }

    /// Sets a node's rules.
    ///
    /// # Errors
    /// An invalid path, empty rules, no such node, no right to set them, another version of them.
    pub fn set_rules(
        &mut self,
        by: &By<'_>,
        path: &Blob,
        acl: &[Acl],
        version: i32,
    ) -> Result<Undo, Code> {
        must_be_valid(path)?;
        let rules = Rules::of(acl, by.identities)?;
        let node = self.get(path)?;
        node.rules.check(Acl::ADMIN, by.identities)?;
        fits(version, node.aversion)?;
        Ok(self.edit(path, |node| {
            let aversion = node.aversion;
            node.aversion = aversion.wrapping_add(1);
            Undo::Rules(path.clone(), std::mem::replace(&mut node.rules, rules), aversion)
        }))
    }

    /// Checks that a node exists, may be read and has a version.
    ///
    /// # Errors
    /// An invalid path, no such node, no right to read it, another version.
    pub fn check(&self, by: &By<'_>, path: &Blob, version: i32) -> Result<Undo, Code> {
        must_be_valid(path)?;
        let node = self.get(path)?;
        node.rules.check(Acl::READ, by.identities)?;
        fits(version, node.version).map(|()| Undo::Nothing)
    }

    /// Undoes the last change.
    pub fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Created(path, born, pzxid) => {
                self.remove(&path, pzxid);
                let (parent, _) = path::split(&path).expect("the root is never created");
                self.edit(parent, |above| above.born = born);
            }
            Undo::Deleted(path, node, pzxid) => {
                let (parent, _) = path::split(&path).expect("the root is never deleted");
                self.edit(parent, |above| above.pzxid = pzxid);
                self.put(path, *node);
            }
            Undo::Data(path, data, mzxid, mtime_ms, version) => {
                self.edit(&path, |node| {
                    (node.data, node.mzxid, node.mtime_ms, node.version) =
                        (data, mzxid, mtime_ms, version);
                });
                self.note_quota(&path);
            }
            Undo::Rules(path, rules, aversion) => {
                self.edit(&path, |node| (node.rules, node.aversion) = (rules, aversion));
            }
            Undo::Nothing => {}
        }
    }
}
