//! Naive model of the tree and the sessions.

use super::{Answer, Change, Happened, Kind, Reply, Request, Stat, Zxid, code};
use std::collections::{BTreeMap, BTreeSet};

/// An event and the path of its node.
pub(super) type Event = (Happened, String);

#[derive(Clone, Debug, Default)]
struct Node {
    data: String,
    stat: Stat,
    /// Number of children that it ever had.
    born: i32,
}

/// All nodes and all sessions.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<String, Node>,
    sessions: BTreeSet<i64>,
    /// Sessions that are inactive, and whose nodes remain.
    closing: BTreeSet<i64>,
    /// All names that sequential nodes ever had, with the change that created their parent.
    numbered: BTreeSet<(Zxid, String)>,
}

/// Fixed nodes, which always exist.
const FIXED: [&str; 4] = ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"];

/// Path of the parent.
pub(super) fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(slash) => &path[..slash],
    }
}

fn fits(wanted: i32, node: &Node) -> Result<(), i32> {
    match wanted == -1 || wanted == node.stat.version {
        true => Ok(()),
        false => Err(code::BAD_VERSION),
    }
}

impl Tree {
    pub fn new() -> Self {
        let (nodes, sessions, closing, numbered) = Default::default();
        let mut tree = Self { nodes, sessions, closing, numbered };
        for path in FIXED {
            tree.nodes.insert(path.to_owned(), Node::default());
        }
        tree
    }

    /// Begins a session.
    pub fn begin(&mut self, session: i64) {
        self.sessions.insert(session);
    }

    /// All nodes except the fixed ones, and all sessions.
    pub fn all(&self) -> (Vec<(String, String, i64)>, Vec<i64>) {
        let nodes = self.nodes.iter().filter(|(path, _)| !FIXED.contains(&path.as_str()));
        let nodes = nodes.map(|(path, node)| (path.clone(), node.data.clone(), node.stat.owner));
        (nodes.collect(), self.sessions.iter().copied().collect())
    }

    /// Whether an earlier sequential node of the same parent had this path.
    pub fn had_number(&self, path: &str) -> bool {
        let above = self.nodes.get(parent(path)).map_or(0, |node| node.stat.czxid);
        self.numbered.contains(&(above, path.to_owned()))
    }

    fn get(&self, path: &str) -> Result<&Node, i32> {
        self.nodes.get(path).ok_or(code::NO_NODE)
    }

    fn names(&self, path: &str) -> Vec<String> {
        let below = if path == "/" { "/".to_owned() } else { format!("{path}/") };
        let all = self.nodes.keys().filter(|p| p.len() > below.len());
        let names = all.filter_map(|p| p.strip_prefix(&below)).filter(|name| !name.contains('/'));
        names.map(str::to_owned).collect()
    }

    fn stat(&self, path: &str) -> Result<Stat, i32> {
        let node = self.get(path)?;
        let children = self.names(path).len() as i32;
        let data_length = node.data.len() as i32;
        // Each former child was created and deleted.
        let cversion = node.born + (node.born - children);
        Ok(Stat { children, data_length, cversion, ..node.stat })
    }

    /// Carries out a change of a session; returns the answer and the events.
    pub fn write(&mut self, session: i64, request: &Request, zxid: Zxid) -> (Answer, Vec<Event>) {
        if !self.sessions.contains(&session) {
            return (Err(code::SESSION_EXPIRED), Vec::new());
        }
        let mut events = Vec::new();
        let answer = match request {
            Request::Change(change) => self.change(session, change, zxid, &mut events),
            Request::Multi(changes) => Ok(self.multi(session, changes, zxid, &mut events)),
            Request::Close => {
                self.end(session, zxid, &mut events);
                Ok(Reply::Done)
            }
            _ => unreachable!("that is no change"),
        };
        (answer, events)
    }

    /// Makes a session inactive. Its ephemeral nodes remain until it ends.
    pub fn close(&mut self, session: i64) {
        if self.sessions.remove(&session) {
            self.closing.insert(session);
        }
    }

    /// Ends a session, with its ephemeral nodes.
    pub fn end(&mut self, session: i64, zxid: Zxid, events: &mut Vec<Event>) {
        if !self.sessions.remove(&session) && !self.closing.remove(&session) {
            return;
        }
        let own = self.nodes.iter().filter(|(_, node)| node.stat.owner == session);
        for path in own.map(|(path, _)| path.clone()).collect::<Vec<_>>() {
            self.remove(&path, zxid, events);
        }
    }

    fn remove(&mut self, path: &str, zxid: Zxid, events: &mut Vec<Event>) {
        self.nodes.remove(path);
        if let Some(above) = self.nodes.get_mut(parent(path)) {
            above.stat.pzxid = zxid;
        }
        events.push((Happened::Deleted, path.to_owned()));
    }

    fn multi(
        &mut self,
        session: i64,
        changes: &[Change],
        zxid: Zxid,
        events: &mut Vec<Event>,
    ) -> Reply {
        let before = self.clone();
        let mut answers = Vec::new();
        for change in changes {
            match self.change(session, change, zxid, events) {
                Ok(reply) => answers.push(Ok(reply)),
                Err(error) => {
                    *self = before;
                    events.clear();
                    answers = vec![Err(code::OK); answers.len()];
                    answers.push(Err(error));
                    answers.resize(changes.len(), Err(code::RUNTIME_INCONSISTENCY));
                    break;
                }
            }
        }
        Reply::Multi(answers)
    }

    fn change(
        &mut self,
        session: i64,
        change: &Change,
        zxid: Zxid,
        events: &mut Vec<Event>,
    ) -> Answer {
        match change {
            Change::Create { path, data, ephemeral, sequential } => {
                let owner = if *ephemeral { session } else { 0 };
                self.create(path, data, owner, *sequential, zxid, events)
            }
            Change::Delete { path, version } => {
                fits(*version, self.get(path)?)?;
                if !self.names(path).is_empty() {
                    return Err(code::NOT_EMPTY);
                }
                self.remove(path, zxid, events);
                Ok(Reply::Done)
            }
            Change::Set { path, data, version } => {
                fits(*version, self.get(path)?)?;
                if let Some(node) = self.nodes.get_mut(path) {
                    node.data.clone_from(data);
                    node.stat.version += 1;
                    node.stat.mzxid = zxid;
                }
                events.push((Happened::Data, path.clone()));
                self.stat(path).map(Reply::Stat)
            }
            Change::Check { path, version } => {
                fits(*version, self.get(path)?).map(|()| Reply::Done)
            }
        }
    }

    fn create(
        &mut self,
        path: &str,
        data: &str,
        owner: i64,
        sequential: bool,
        zxid: Zxid,
        events: &mut Vec<Event>,
    ) -> Answer {
        let above = self.get(parent(path))?;
        let path = if sequential { format!("{path}{:010}", above.born) } else { path.to_owned() };
        if self.nodes.contains_key(&path) {
            return Err(code::NODE_EXISTS);
        }
        if above.stat.owner != 0 {
            return Err(code::NO_CHILDREN_FOR_EPHEMERALS);
        }
        if sequential {
            self.numbered.insert((above.stat.czxid, path.clone()));
        }
        if let Some(above) = self.nodes.get_mut(parent(&path)) {
            above.born += 1;
            above.stat.pzxid = zxid;
        }
        let stat = Stat { czxid: zxid, mzxid: zxid, pzxid: zxid, owner, ..Stat::default() };
        self.nodes.insert(path.clone(), Node { data: data.to_owned(), stat, born: 0 });
        events.push((Happened::Created, path.clone()));
        Ok(Reply::Created(path))
    }

    /// Answers a request that changes nothing except watches; none if the answer depends on those.
    pub fn read(&self, session: i64, request: &Request) -> Option<Answer> {
        if !self.sessions.contains(&session) {
            return Some(Err(code::SESSION_EXPIRED));
        }
        Some(match request {
            Request::Exists(path, _) => self.stat(path).map(Reply::Stat),
            Request::Data(path, _) => {
                let node = self.get(path);
                node.and_then(|node| Ok(Reply::Data(node.data.clone(), self.stat(path)?)))
            }
            Request::Children(path, _) => {
                self.stat(path).map(|stat| Reply::Children(self.names(path), stat))
            }
            Request::Unwatch(_) => return None,
            _ => Ok(Reply::Done),
        })
    }

    /// Event that a reconnecting client has missed at a node that it watches.
    pub fn missed(&self, path: &str, kind: Kind, since: Zxid) -> Option<Event> {
        let happened = match (kind, self.nodes.get(path)) {
            (Kind::Data, Some(node)) if node.stat.mzxid > since => Happened::Data,
            (Kind::Child, Some(node)) if node.stat.pzxid > since => Happened::Children,
            (Kind::Data | Kind::Child, None) => Happened::Deleted,
            (Kind::Exist, Some(_)) => Happened::Created,
            _ => return None,
        };
        Some((happened, path.to_owned()))
    }
}
