//! The nodes: what is at which path, and the operations on it, each of which happens whole or not.

use super::acl::Rules;
use super::path;
use super::quota::{self, Quotas, Usage};
use super::request::{Acl, Code, Create, Event, Happened, Identity, Lasts, SessionId, Stat, Zxid};
use crate::limits::{NODE_CHILDREN_MAX, NODES_MAX, REAPED_MAX};
use adt::Blob;
use adt::collections::Map;
use std::collections::BTreeSet;

/// One node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its data; none is not the same as none of it.
    pub data: Option<Blob>,
    /// Who may do what.
    pub rules: Rules,
    /// The change that created it.
    pub czxid: Zxid,
    /// The change that set its data last.
    pub mzxid: Zxid,
    /// The change that created or deleted a child last.
    pub pzxid: Zxid,
    /// When it was created, in milliseconds since 1970.
    pub ctime_ms: i64,
    /// When its data were set last.
    pub mtime_ms: i64,
    /// How often its data were set.
    pub version: i32,
    /// How often its rules were set.
    pub aversion: i32,
    /// How many children it ever had: the next sequential one gets this number.
    pub born: i32,
    /// How long it is there: [`Lasts::owner`].
    pub owner: i64,
    /// The names of its children.
    pub children: BTreeSet<Blob>,
}

impl Node {
    /// The node as a snapshot has it: children know their parents.
    pub fn without_children(&self) -> Self {
        let (data, rules, children) = (self.data.clone(), self.rules.clone(), BTreeSet::new());
        Self { data, rules, children, ..*self }
    }

    fn data_bytes(&self) -> u64 {
        self.data.as_ref().map_or(0, |data| data.len() as u64)
    }

    /// The session that it ends with, if it is ephemeral.
    pub fn session(&self) -> Option<SessionId> {
        (Lasts::of_owner(self.owner) == Lasts::Session).then_some(SessionId(self.owner))
    }

    /// From when on it may be deleted by nobody's wish, in milliseconds since 1970, if everything stays
    /// as it is. A container that never had children waits for them, as in ZooKeeper.
    fn reapable_ms(&self) -> Option<i64> {
        match Lasts::of_owner(self.owner) {
            Lasts::Children if self.children.is_empty() && self.born != 0 => Some(i64::MIN),
            Lasts::Ttl(ttl_ms) if self.children.is_empty() => {
                Some(self.mtime_ms.saturating_add(ttl_ms))
            }
            _ => None,
        }
    }

    /// What there is to know of it besides its data.
    pub fn stat(&self) -> Stat {
        let count = |len: usize| i32::try_from(len).unwrap_or(i32::MAX);
        let children = count(self.children.len());
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime_ms: self.ctime_ms,
            mtime_ms: self.mtime_ms,
            version: self.version,
            // Each child that was there was created, and each that is not there any more deleted.
            cversion: self.born.wrapping_mul(2).wrapping_sub(children),
            aversion: self.aversion,
            ephemeral_owner: self.session().map_or(0, |session| session.0),
            data_length: count(self.data.as_ref().map_or(0, |data| data.len())),
            num_children: children,
            pzxid: self.pzxid,
        }
    }
}

/// A change of the tree that can be taken back, as long as nothing came after it.
#[derive(Debug)]
pub enum Undo {
    /// A node was created; what its parent's `born` and `pzxid` were.
    Created(Blob, i32, Zxid),
    /// This node was deleted; what its parent's `pzxid` was.
    Deleted(Blob, Box<Node>, Zxid),
    /// Data, `mzxid`, `mtime_ms` and `version` were others.
    Data(Blob, Option<Blob>, Zxid, i64, i32),
    /// Rules and `aversion` were others.
    Rules(Blob, Rules, i32),
    /// Nothing was changed.
    Nothing,
}

impl Undo {
    /// What has happened, to which node, as those are told who watch it. This is the tree right after
    /// the change.
    pub fn happened(&self, tree: &Tree) -> Option<Change> {
        let rules = |path: &[u8]| tree.get(path).map(|node| node.rules.clone()).unwrap_or_default();
        let (happened, path, own) = match self {
            Self::Created(path, ..) => (Happened::Created, path, rules(path)),
            Self::Deleted(path, node, _) => (Happened::Deleted, path, node.rules.clone()),
            Self::Data(path, ..) => (Happened::Data, path, rules(path)),
            Self::Rules(..) | Self::Nothing => return None,
        };
        let event = Event { happened, path: path.clone() };
        let parents = path::split(path).map(|(parent, _)| rules(parent)).unwrap_or_default();
        Some(Change { event, rules: own, parents })
    }
}

/// Something that has happened, and who may be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What, to which node.
    pub event: Event,
    /// That node's rules: whoever may not read it is not told, as in ZooKeeper since CVE-2024-23944.
    pub rules: Rules,
    /// Those of its parent, whose children are others now.
    pub parents: Rules,
}

/// What every change is told.
#[derive(Clone, Copy, Debug)]
pub struct By<'a> {
    /// Who asks.
    pub session: SessionId,
    /// Who that is, as far as was proved.
    pub identities: &'a [Identity],
    /// The number of the change.
    pub zxid: Zxid,
    /// The time of the change, in milliseconds since 1970.
    pub now_ms: i64,
    /// It was prepared: whether there is room for more nodes was looked at then.
    pub prepared: bool,
}

/// All nodes by path. There is always a root.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    nodes: Map<Blob, Node>,
    /// Nodes that may be deleted by nobody's wish, from this time on.
    reapable: BTreeSet<(i64, Blob)>,
    /// Bytes of all paths and data.
    bytes: u64,
    quotas: Quotas,
}

impl Default for Tree {
    /// The root and the nodes below `/zookeeper` that clients expect.
    fn default() -> Self {
        let (nodes, reapable, quotas) = (Map::default(), BTreeSet::new(), Quotas::default());
        let mut tree = Self { nodes, reapable, bytes: 0, quotas };
        let node = || Node { data: Some(Blob::new(b"")), ..Node::default() };
        tree.nodes.insert(Blob::new(path::ROOT), node());
        tree.bytes = path::ROOT.len() as u64;
        for path in FIXED.into_iter().skip(1) {
            tree.put(Blob::from(path), node());
        }
        // As in ZooKeeper, where it could be changed only by those who may change the servers.
        tree.edit(CONFIG.as_bytes(), |config| {
            config.rules = Rules::readable();
            config.aversion = -1;
        });
        tree
    }
}

/// Nodes that are always there.
pub const FIXED: [&str; 4] = ["/", "/zookeeper", CONFIG, "/zookeeper/quota"];
/// Where ZooKeeper says which servers there are.
const CONFIG: &str = "/zookeeper/config";

fn must_be_valid(path: &[u8]) -> Result<(), Code> {
    if path::is_valid(path) { Ok(()) } else { Err(Code::BadArguments) }
}

/// The parent of a node that is to be created or deleted. As in ZooKeeper, the rest of the path is looked
/// at later, or not at all.
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
    pub fn get(&self, path: &[u8]) -> Result<&Node, Code> {
        self.nodes.get(path).ok_or(Code::NoNode)
    }

    /// Changes a node that is there.
    fn edit<T>(&mut self, path: &[u8], edit: impl FnOnce(&mut Node) -> T) -> T {
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

    /// When the first node may be deleted by nobody's wish, in milliseconds since 1970.
    pub fn reapable_ms(&self) -> Option<i64> {
        self.reapable.first().map(|(at_ms, _)| *at_ms)
    }

    /// Those that may be deleted by nobody's wish up to this time, as many as are deleted at once.
    pub fn reapable(&self, now_ms: i64) -> impl Iterator<Item = &Blob> {
        let due = self.reapable.iter().take_while(move |(at_ms, _)| *at_ms <= now_ms);
        due.map(|(_, path)| path).take(REAPED_MAX)
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes of all paths and data.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Quotas, and how much there is of what they limit.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// A node is there, or its data are others: it may be a quota's.
    fn note_quota(&mut self, path: &[u8]) {
        let Some((of, part)) = quota::part(path) else { return };
        let mut quotas = std::mem::take(&mut self.quotas);
        let data = self.nodes.get(path).and_then(|node| node.data.as_ref());
        quotas.begin(of, part, data, || self.usage(of));
        self.quotas = quotas;
    }

    /// How much there is at and below a node, by looking at all of it.
    fn usage(&self, of: &[u8]) -> Usage {
        self.below(of).fold(Usage::default(), |sum, (_, node)| Usage {
            nodes: sum.nodes + 1,
            bytes: sum.bytes + node.data_bytes(),
        })
    }

    /// Whether there is nothing but what is always there.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == FIXED.len()
    }

    /// All nodes; history alone decides the order.
    pub fn iter(&self) -> impl Iterator<Item = (&Blob, &Node)> {
        self.nodes.iter()
    }

    /// Puts a node in its place and its name in its parent, which is there.
    fn put(&mut self, path: Blob, node: Node) {
        if let Some((parent, name)) = path::split(&path) {
            self.edit(parent, |parent| parent.children.insert(Blob::new(name)));
        }
        self.reapable.extend(node.reapable_ms().map(|at_ms| (at_ms, path.clone())));
        self.bytes += path.len() as u64 + node.data_bytes();
        self.quotas.count(&path, 1, node.data_bytes() as i64);
        self.nodes.insert(path.clone(), node);
        self.note_quota(&path);
    }

    /// Puts a node of a snapshot in its place; parents may come later.
    pub fn restore(&mut self, path: Blob, node: Node) {
        self.nodes.insert(path, node);
    }

    /// All nodes of a snapshot are there: parents learn their children's names.
    ///
    /// # Errors
    /// [`Code::NoNode`]: a node has no parent, or a path that cannot be.
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

    /// How many nodes there are below a node.
    ///
    /// # Errors
    /// [`Code::NoNode`].
    pub fn descendants(&self, path: &[u8]) -> Result<usize, Code> {
        self.get(path)?;
        Ok(self.below(path).count() - 1)
    }

    /// A node, if it is there, and all nodes below it.
    pub fn below(&self, path: &[u8]) -> impl Iterator<Item = (Blob, &Node)> {
        let mut open = vec![Blob::new(path)];
        std::iter::from_fn(move || {
            let path = open.pop()?;
            let node = self.nodes.get(&path)?;
            open.extend(node.children.iter().map(|name| path::join(&path, name)));
            Some((path, node))
        })
    }

    /// Creates a node; gives its path.
    ///
    /// # Errors
    /// In the order in which ZooKeeper looks: a time to live or a path that cannot be, rules that say
    /// nothing, no parent, no right to create children of it, a node that is there, an ephemeral parent, a
    /// quota, too many nodes.
    pub fn create(&mut self, by: &By<'_>, create: &Create) -> Result<(Blob, Undo), Code> {
        if matches!(create.mode.lasts, Lasts::Ttl(ms) if ms <= 0 || ms > Lasts::TTL_MS_MAX) {
            return Err(Code::BadArguments);
        }
        // What a sequential node's name begins with may be nothing.
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
        let node = Node {
            data: create.data.clone(),
            rules,
            czxid: by.zxid,
            mzxid: by.zxid,
            pzxid: by.zxid,
            ctime_ms: by.now_ms,
            mtime_ms: by.now_ms,
            owner: create.mode.lasts.owner(by.session),
            ..Node::default()
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
    /// A path without a parent, a node that is always there, no parent, no right to delete children of
    /// it, no such node, another version, children.
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

    /// Deletes a node that is there and has no children.
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
    /// In the order in which ZooKeeper looks: a path that cannot be, no such node, no right to set its
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
    /// A path that cannot be, rules that say nothing, no such node, no right to set them, another
    /// version of them.
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

    /// Whether a node is there, may be read and has a version.
    ///
    /// # Errors
    /// A path that cannot be, no such node, no right to read it, another version.
    pub fn check(&self, by: &By<'_>, path: &Blob, version: i32) -> Result<Undo, Code> {
        must_be_valid(path)?;
        let node = self.get(path)?;
        node.rules.check(Acl::READ, by.identities)?;
        fits(version, node.version).map(|()| Undo::Nothing)
    }

    /// Takes back the last change.
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
