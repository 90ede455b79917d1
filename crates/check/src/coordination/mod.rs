//! Checker of the answers of a coordination service: sessions, a tree of nodes and watches, as
//! ZooKeeper's programmer's guide promises them, and linearizable reads in addition.
//!
//! A [`History`] lists the requests of every session on each of its connections and the messages
//! received there, in both orders. Every answer names the last change that its server had carried
//! out (the *zxid*); it is therefore known which state an answer reflects, and no search is
//! necessary. Checked promises:
//!
//! | module | promise |
//! |---|---|
//! | [`replay`] | every answer is the one that the state of its zxid gives; no change happens twice or without a request |
//! | [`order`] | no answer is older than a change that was known before the request; a session's requests take effect in its order, without holes, on all its connections together |
//! | [`watches`] | a watch reports each change that concerns it, once, before any answer that shows it, and no other |
//! | [`lives`] | no session ends before its time, and no end is reported of a session that has not ended |
//!
//! Clients cannot see the places of unanswered changes and of the ends of silent sessions in the
//! order of changes: these are read from the log, as commit timestamps are elsewhere.

mod across;
mod lives;
mod order;
mod replay;
mod together;
mod tree;
mod watches;

use crate::verdict::{Anomaly, Verdict};
pub use across::Concerns;

/// The number of a change.
pub type Zxid = i64;

/// ZooKeeper's numbers of the errors that the checkers interpret.
pub mod code {
    /// The node does not exist.
    pub const NO_NODE: i32 = -101;
    /// The node has another version.
    pub const BAD_VERSION: i32 = -103;
    /// Ephemeral nodes have no children.
    pub const NO_CHILDREN_FOR_EPHEMERALS: i32 = -108;
    /// The node exists already.
    pub const NODE_EXISTS: i32 = -110;
    /// The node has children.
    pub const NOT_EMPTY: i32 = -111;
    /// The session has ended.
    pub const SESSION_EXPIRED: i32 = -112;
    /// The watch does not exist.
    pub const NO_WATCHER: i32 = -121;
    /// An operation of a `multi` that was not tried because an earlier one failed.
    pub const RUNTIME_INCONSISTENCY: i32 = -2;
    /// An operation of a `multi` that would have been carried out if another one had not failed.
    pub const OK: i32 = 0;
}

/// An operation that changes the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates a node.
    Create {
        /// Path of the node; of a sequential one the beginning of it.
        path: String,
        /// Data of the node.
        data: String,
        /// Whether the node ends with the session.
        ephemeral: bool,
        /// Whether to append a number that no child of its parent has had.
        sequential: bool,
    },
    /// Deletes a node of this version, or of any for -1.
    Delete {
        /// Path of the node.
        path: String,
        /// Required version.
        version: i32,
    },
    /// Sets the data of a node of this version, or of any for -1.
    Set {
        /// Path of the node.
        path: String,
        /// New data.
        data: String,
        /// Required version.
        version: i32,
    },
    /// Fails unless the node has this version, or exists for -1.
    Check {
        /// Path of the node.
        path: String,
        /// Required version.
        version: i32,
    },
}

/// Kind of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The next change of a node's data, or its end.
    Data,
    /// The creation of an absent node.
    Exist,
    /// The next change of a node's children, or its end.
    Child,
    /// All changes of a node and of its children.
    Persistent,
    /// All changes of a node and of everything below.
    Recursive,
}

/// Request of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// One change.
    Change(Change),
    /// All of the changes or none.
    Multi(Vec<Change>),
    /// Ends the session.
    Close,
    /// Whether a node exists; with whether to watch it.
    Exists(String, bool),
    /// A node's data.
    Data(String, bool),
    /// The names of a node's children.
    Children(String, bool),
    /// No operation, but in order.
    Ping,
    /// Watches a path until the watch is removed.
    Watch(String, Kind),
    /// Watches that a reconnecting client sets again, with the last change that it has seen.
    Again(Zxid, Vec<(String, Kind)>),
    /// Removes the watches of a path.
    Unwatch(String),
}

impl Request {
    /// Whether the request has a place in the order of changes.
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Change(_) | Self::Multi(_) | Self::Close)
    }
}

/// Metadata of a node without its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Change that created the node.
    pub czxid: Zxid,
    /// Change that set the data last.
    pub mzxid: Zxid,
    /// Change that created or deleted a child last.
    pub pzxid: Zxid,
    /// Number of changes of the data.
    pub version: i32,
    /// Number of creations and deletions of children.
    pub cversion: i32,
    /// The session that the node ends with; 0 if there is none.
    pub owner: i64,
    /// Length of the data in bytes.
    pub data_length: i32,
    /// Number of children.
    pub children: i32,
}

/// An answer that is not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Success without a result.
    Done,
    /// Path of the created node.
    Created(String),
    /// A node's stat.
    Stat(Stat),
    /// A node's data and stat.
    Data(String, Stat),
    /// Names of a node's children in alphabetical order, and its stat.
    Children(Vec<String>, Stat),
    /// One answer for each operation of a `multi`.
    Multi(Vec<Answer>),
}

/// An answer, or the number of an error.
pub type Answer = Result<Reply, i32>;

/// Event at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happened {
    /// The node was created.
    Created,
    /// The node was deleted.
    Deleted,
    /// The data of the node were set.
    Data,
    /// A child was created or deleted.
    Children,
}

/// A request with the time at which it was sent.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Time in microseconds on the history's clock.
    pub time_us: u64,
    /// The request.
    pub request: Request,
    /// Number in the log, if it is a change that the log contains.
    pub zxid: Option<Zxid>,
    /// Numbers in the logs of several services that carried it out together, by service; its `zxid`
    /// is then the first of them.
    pub parts: Vec<(usize, Zxid)>,
}

/// A message received on a connection.
#[derive(Clone, Debug)]
pub enum Heard {
    /// The answer to the first unanswered request.
    Answer {
        /// Time of the answer.
        time_us: u64,
        /// The last change that the server had carried out.
        zxid: Zxid,
        /// The answer.
        answer: Answer,
    },
    /// Notification of a watch.
    Told {
        /// Time of the notification.
        time_us: u64,
        /// Number of the change.
        zxid: Zxid,
        /// Event that it reports.
        happened: Happened,
        /// Path of the node.
        path: String,
    },
}

/// One connection of a session.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// Time at which the session was established, in microseconds.
    pub time_us: u64,
    /// Requests in order.
    pub asked: Vec<Asked>,
    /// Received messages in order.
    pub heard: Vec<Heard>,
}

impl Connection {
    /// Each request with the time, zxid and content of its answer, if there is one.
    pub fn exchanges(&self) -> impl Iterator<Item = (&Asked, Option<(u64, Zxid, &Answer)>)> {
        let mut answers = self.heard.iter().filter_map(|heard| match heard {
            Heard::Answer { time_us, zxid, answer } => Some((*time_us, *zxid, answer)),
            Heard::Told { .. } => None,
        });
        self.asked.iter().map(move |asked| (asked, answers.next()))
    }
}

/// A session; its number is that of the change with which it began.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Number of the session.
    pub id: i64,
    /// Longest silence without expiry, in microseconds.
    pub timeout_us: u64,
    /// Connections of the session, one after the other.
    pub connections: Vec<Connection>,
    /// Time at which a reconnecting client learned that the session had ended.
    pub expired_us: Option<u64>,
    /// Whether the session began at another service, so that its number is that of no change of
    /// this one.
    pub elsewhere: bool,
    /// Whether the client has closed the session without a request of the history.
    pub closed: bool,
}

impl Session {
    /// The change with which the session began, if it is one of this service.
    fn began(&self) -> Zxid {
        if self.elsewhere { 0 } else { self.id }
    }
}

/// State of the service at the end of the history.
#[derive(Clone, Debug, Default)]
pub struct Last {
    /// All nodes except the fixed ones: path, data, and the session that it ends with or 0.
    pub nodes: Vec<(String, String, i64)>,
    /// Sessions that have not ended.
    pub sessions: Vec<i64>,
}

/// History of the clients of a coordination service.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All sessions that a client knows.
    pub sessions: Vec<Session>,
    /// Sessions that the service has ended, with the number of the end.
    pub ends: Vec<(i64, Zxid)>,
    /// Sessions at several services, with the change after which they are inactive at this one:
    /// their ephemeral nodes remain until they end.
    pub closings: Vec<(i64, Zxid)>,
    /// Changes in the log at places where no session can have requested them: session and change.
    pub strays: Vec<(i64, Zxid)>,
    /// State at the end, if it was read.
    pub last: Option<Last>,
}

/// The verdict about a history.
pub fn check(history: &History) -> Verdict {
    let mut verdict = Verdict::new("coordination");
    verdict.count("sessions", history.sessions.len());
    verdict.count("ends", history.ends.len());
    for (session, zxid) in &history.strays {
        let text = format!("change {zxid} of session {session} is in the log without a request");
        report(&mut verdict, "stray-change", text);
    }
    let replayed = replay::replay(history, &mut verdict);
    order::check(history, &mut verdict);
    watches::check(history, &replayed, &mut verdict);
    lives::check(history, &mut verdict);
    verdict
}

/// The verdict about sessions that several services have in common, after each service was checked
/// alone: `history` has all requests, with their places in the logs, and each service its `parts`
/// of it; `concerns` returns the objects of a request.
pub fn check_together(
    history: &History,
    parts: &[History],
    concerns: impl Fn(&Request) -> Vec<Concerns>,
) -> Verdict {
    let mut verdict = Verdict::new("coordination over several shards");
    verdict.count("sessions", history.sessions.len());
    together::check(history, parts, &mut verdict);
    across::check(history, concerns, together::is_certain, &mut verdict);
    verdict
}

fn report(verdict: &mut Verdict, kind: &str, text: String) {
    verdict.report(Anomaly::new(kind, text, Vec::new()));
}
