//! Nodes in ZooKeeper's style as keys of etcd, so that the recipes written for nodes run on it
//! unchanged.
//! | node | key |
//! |---|---|
//! | path | the key; children of a node are the keys that begin with its path and a slash |
//! | number in a sequential name | the revision at which the key was created; the key itself ends with something else |
//! | end with its session | the key has the session's lease |
//! | creation if it does not exist | a transaction that compares the revision of its creation with 0 |
//! | test for existence with a watch | a read, and a watch from the revision after that read |
//!
//! Further promises of ZooKeeper are not kept: requests of a session are not carried out in the
//! order in which they were sent, and a watch on an absent node is not set. Recipes rely on one of
//! them, which is emulated: a create that a delete of the same session has overtaken is undone, and
//! answered as if it had come first. Otherwise a late try of a client that has held and released
//! the lock would take it without an owner.

use crate::messages::{
    Compare, DeleteRequest, Part, PutRequest, RangeRequest, TxnRequest, behind, revision,
};
use crate::sessions::{Said, Say, Session, Sessions};
use bench::coordination::recipes::nodes::Nodes;
use bench::coordination::services::client::{Answer, Counts, Heard};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use wire::jute::{
    Ask, Change, Code, Create, Happened, Lasts, Read, Reply, Stat, WatchedEvent, Write, Zxid,
};

/// Separates the name of a sequential node from the suffix that makes its key unique.
const UNIQUE: u8 = b'~';

/// Result of a request: the store's revision, and the answer.
type Done = Result<(i64, Result<Reply, Code>), String>;

/// Keys of sequential nodes by their paths, as far as clients have learned those.
type Names = Rc<RefCell<BTreeMap<Vec<u8>, Vec<u8>>>>;

/// Number of the last request of a session to delete a node.
type Ends = Rc<RefCell<BTreeMap<(usize, Vec<u8>), u64>>>;

/// Sessions that use keys as nodes.
pub struct Keys<'a> {
    sessions: &'a mut Sessions,
    names: Names,
    ends: Ends,
    /// Number of requests so far.
    asked: u64,
    said: Vec<Said>,
}

impl<'a> Keys<'a> {
    /// Uses these sessions, which may have sequential nodes already.
    pub fn new(sessions: &'a mut Sessions) -> Self {
        let (names, ends) = (Names::default(), Ends::default());
        Self { sessions, names, ends, asked: 0, said: Vec::new() }
    }
}

impl Nodes for Keys<'_> {
    fn now_ns(&self) -> u64 {
        self.sessions.now_ns()
    }

    fn sessions(&self) -> usize {
        self.sessions.count()
    }

    fn ask(&mut self, session: usize, tag: u64, what: Ask) {
        self.asked += 1;
        if let Ask::Write(Write::Change(Change::Delete { path, .. })) = &what {
            self.ends.borrow_mut().insert((session, path.to_vec()), self.asked);
        }
        let own = self.sessions.session(session);
        let (names, unique, say) = (self.names.clone(), self.asked, self.sessions.say());
        let ends = self.ends.clone();
        self.sessions.spawn(async move {
            let (revision, result) = match what {
                Ask::Write(Write::Change(change)) => {
                    let done = write(&own, &names, unique, change).await?;
                    in_order(&own, &ends, (session, unique), done).await?
                }
                Ask::Read { read: Read::Exists(path), watch } => {
                    exists(&own, session, &names, &path, watch.then_some(say)).await?
                }
                Ask::Read { read, .. } => read_only(&own, &names, read).await?,
                other => return Err(format!("etcd has no equivalent of {other:?}")),
            };
            let zxid = Zxid(revision);
            Ok(Said::Heard(Heard::Answer(Answer { session, tag, zxid, result })))
        });
    }

    fn remind(&mut self, at_ns: u64, what: usize) {
        self.sessions.remind(at_ns, what);
    }

    fn wait(&mut self, until_ns: u64, heard: &mut Vec<Heard>) -> io::Result<()> {
        self.sessions.wait(until_ns, &mut self.said)?;
        let about_nodes = |said| match said {
            Said::Heard(heard) => Some(heard),
            Said::Told(_) => None,
        };
        heard.extend(self.said.drain(..).filter_map(about_nodes));
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.sessions.counts()
    }
}

/// The key of a node.
fn key(names: &Names, path: &[u8]) -> Vec<u8> {
    names.borrow().get(path).cloned().unwrap_or_else(|| path.to_vec())
}

/// The path of a sequential node.
fn sequential(path: &[u8], created: i64) -> Vec<u8> {
    [path, format!("{created:010}").as_bytes()].concat()
}

async fn write(session: &Session, names: &Names, unique: u64, change: Change) -> Done {
    match change {
        Change::Create(node) if node.mode.sequential => {
            let end = format!("{:x}-{unique}", session.lease);
            let key = [&node.path[..], &[UNIQUE], end.as_bytes()].concat();
            let put = session.write(put(session, key.clone(), &node)).await?;
            let created = revision(&put.header);
            let path = sequential(&node.path, created);
            names.borrow_mut().insert(path.clone(), key);
            Ok((created, Ok(Reply::Created { path: path[..].into(), stat: None })))
        }
        Change::Create(node) => {
            let key = node.path.to_vec();
            let put = Part { put: Some(put(session, key.clone(), &node)), range: None };
            let compare = vec![Compare::absent(key)];
            let request = TxnRequest { compare, then: vec![put], otherwise: Vec::new() };
            let done = session.write(request).await?;
            let made = Reply::Created { path: node.path, stat: None };
            let result = if done.succeeded { Ok(made) } else { Err(Code::NodeExists) };
            Ok((revision(&done.header), result))
        }
        Change::Delete { path, .. } => {
            let key = key(names, &path);
            names.borrow_mut().remove(&path[..]);
            let done = session.write(DeleteRequest { key }).await?;
            let result = if done.deleted > 0 { Ok(Reply::Done) } else { Err(Code::NoNode) };
            Ok((revision(&done.header), result))
        }
        Change::SetData { path, data, .. } => {
            let value = data.map_or_else(Vec::new, |data| data.to_vec());
            let request = PutRequest { key: key(names, &path), value, lease: 0 };
            let done = session.write(request).await?;
            Ok((revision(&done.header), Ok(Reply::Stat(Stat::default()))))
        }
        other => Err(format!("etcd has no equivalent of {other:?}")),
    }
}

/// Result of a session's request with this number, in the order of its requests.
async fn in_order(
    session: &Session,
    ends: &Ends,
    (own, number): (usize, u64),
    done: (i64, Result<Reply, Code>),
) -> Done {
    let (revision, result) = done;
    let Ok(Reply::Created { path, stat }) = result else { return Ok((revision, result)) };
    let ended = ends.borrow().get(&(own, path.to_vec())).copied();
    if ended.is_none_or(|ended| ended < number) {
        return Ok((revision, Ok(Reply::Created { path, stat })));
    }
    session.write(DeleteRequest { key: path.to_vec() }).await?;
    Ok((revision, Err(Code::NodeExists)))
}

fn put(session: &Session, key: Vec<u8>, node: &Create) -> PutRequest {
    let lease = if node.mode.lasts == Lasts::Session { session.lease } else { 0 };
    let value = node.data.as_ref().map_or_else(Vec::new, |data| data.to_vec());
    PutRequest { key, value, lease }
}

async fn read_only(session: &Session, names: &Names, read: Read) -> Done {
    match read {
        Read::Data(path) => {
            let request = RangeRequest { key: key(names, &path), ..RangeRequest::default() };
            let found = session.read(request).await?;
            let data = |value: &Vec<u8>| Reply::Data(Some(value[..].into()), Stat::default());
            let result = found.pairs.first().map(|pair| data(&pair.value));
            Ok((revision(&found.header), result.ok_or(Code::NoNode)))
        }
        Read::Children { path, .. } => {
            let prefix = [&path[..], b"/"].concat();
            let (key, end) = (prefix.clone(), behind(&prefix));
            let request = RangeRequest { key, end, keys_only: true, ..RangeRequest::default() };
            let found = session.read(request).await?;
            let mut names = names.borrow_mut();
            let mut children = Vec::new();
            for pair in found.pairs {
                let mut path = pair.key.clone();
                if let Some(at) = pair.key.iter().position(|byte| *byte == UNIQUE) {
                    path = sequential(&pair.key[..at], pair.created);
                    names.insert(path.clone(), pair.key);
                }
                children.push(path[prefix.len()..].into());
            }
            Ok((revision(&found.header), Ok(Reply::Children(children, None))))
        }
        other => Err(format!("etcd has no equivalent of {other:?}")),
    }
}

/// Whether a node exists; `say` receives the event of its deletion, if it exists.
async fn exists(
    session: &Session,
    number: usize,
    names: &Names,
    path: &[u8],
    say: Option<Say>,
) -> Done {
    let key = key(names, path);
    let request = RangeRequest { key: key.clone(), keys_only: true, ..RangeRequest::default() };
    let found = session.read(request).await?;
    let seen = revision(&found.header);
    if found.pairs.is_empty() {
        return Ok((seen, Err(Code::NoNode)));
    }
    if let Some(say) = say {
        let changed = session.watch(&key, seen + 1)?;
        let event = WatchedEvent { happened: Happened::Deleted, path: path.into() };
        tokio::task::spawn_local(async move {
            if changed.await.is_ok() {
                // At the end of the run the receiver is gone.
                let _ = say.send(Ok(Said::Heard(Heard::Event { session: number, event })));
            }
        });
    }
    Ok((seen, Ok(Reply::Stat(Stat::default()))))
}
