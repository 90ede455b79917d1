//! Can a coordination service have answered like that? Sessions, a tree of nodes, watches, as ZooKeeper's
//! programmer's guide promises them, and one thing more: reads are linearizable, too.
//!
//! A [`History`] says what every session asked on each of its connections and what it heard there, in
//! both orders. Every answer names the last change that its server had carried out (the *zxid*); so it
//! is known which state an answer is about, and nothing has to be searched. What has to hold:
//!
//! | module | holds |
//! |---|---|
//! | [`replay`] | every answer is the one that the state of its zxid gives; no change happens twice, or was asked by nobody |
//! | [`order`] | nothing is older than what somebody knew before it was asked; a session's requests take effect in its order, without holes, on all its connections together |
//! | [`watches`] | who watches is told of each change that concerns it, once, before any answer that shows it, and of nothing else |
//! | [`lives`] | no session is ended before its time, or said to have ended that has not |
//!
//! The only thing that is not seen by clients is where unanswered changes and the ends of silent
//! sessions are in the order of changes: that is read from the log, as commit timestamps are elsewhere.

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

/// Refusals, by ZooKeeper's numbers, that mean something to the checkers.
pub mod code {
    /// There is no such node.
    pub const NO_NODE: i32 = -101;
    /// The node has another version.
    pub const BAD_VERSION: i32 = -103;
    /// Ephemeral nodes have no children.
    pub const NO_CHILDREN_FOR_EPHEMERALS: i32 = -108;
    /// There is such a node already.
    pub const NODE_EXISTS: i32 = -110;
    /// The node has children.
    pub const NOT_EMPTY: i32 = -111;
    /// The session has ended.
    pub const SESSION_EXPIRED: i32 = -112;
    /// There is no such watch.
    pub const NO_WATCHER: i32 = -121;
    /// An operation of a `multi` that was not tried because one before it failed.
    pub const RUNTIME_INCONSISTENCY: i32 = -2;
    /// An operation of a `multi` that would have been carried out, but for another one.
    pub const OK: i32 = 0;
}

/// An operation that changes the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates a node.
    Create {
        /// Where; for a sequential one what its name begins with.
        path: String,
        /// With which data.
        data: String,
        /// It ends with the session.
        ephemeral: bool,
        /// A number that no child of its parent has had is added to its name.
        sequential: bool,
    },
    /// Deletes a node of this version, or of any for -1.
    Delete {
        /// Where.
        path: String,
        /// Its version.
        version: i32,
    },
    /// Sets the data of a node of this version, or of any for -1.
    Set {
        /// Where.
        path: String,
        /// To what.
        data: String,
        /// Its version.
        version: i32,
    },
    /// Fails unless the node has this version, or is there for -1.
    Check {
        /// Where.
        path: String,
        /// Its version.
        version: i32,
    },
}

/// What kind of watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The next change of a node's data, or its end.
    Data,
    /// The creation of a node that is not there.
    Exist,
    /// The next change of a node's children, or its end.
    Child,
    /// All changes of a node and of its children.
    Persistent,
    /// All changes of a node and of everything below.
    Recursive,
}

/// What a session asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// One change.
    Change(Change),
    /// All of them or nothing.
    Multi(Vec<Change>),
    /// The session ends.
    Close,
    /// Whether a node is there; whether it is watched as well.
    Exists(String, bool),
    /// A node's data.
    Data(String, bool),
    /// The names of a node's children.
    Children(String, bool),
    /// Nothing, but in order.
    Ping,
    /// Watches a path until this is taken back.
    Watch(String, Kind),
    /// What a client that came back watches, since the last change that it has seen.
    Again(Zxid, Vec<(String, Kind)>),
    /// Watches a path no more.
    Unwatch(String),
}

impl Request {
    /// Whether it has a place in the order of changes.
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Change(_) | Self::Multi(_) | Self::Close)
    }
}

/// What there is to know of a node besides its data and its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The change that created it.
    pub czxid: Zxid,
    /// The change that set its data last.
    pub mzxid: Zxid,
    /// The change that created or deleted a child last.
    pub pzxid: Zxid,
    /// How often its data were set.
    pub version: i32,
    /// How often children were created and deleted.
    pub cversion: i32,
    /// The session that it ends with; nought for others.
    pub owner: i64,
    /// Bytes of its data.
    pub data_length: i32,
    /// Number of its children.
    pub children: i32,
}

/// An answer that is no refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// There is nothing to say.
    Done,
    /// A node was created there.
    Created(String),
    /// A node's stat.
    Stat(Stat),
    /// A node's data and stat.
    Data(String, Stat),
    /// The names of a node's children, in the order of the alphabet, and its stat.
    Children(Vec<String>, Stat),
    /// One for each operation of a `multi`.
    Multi(Vec<Answer>),
}

/// An answer, or the number of a refusal.
pub type Answer = Result<Reply, i32>;

/// What has happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happened {
    /// It was created.
    Created,
    /// It was deleted.
    Deleted,
    /// Its data were set.
    Data,
    /// A child was created or deleted.
    Children,
}

/// A request as it was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// When, in microseconds on the history's clock.
    pub time_us: u64,
    /// What.
    pub request: Request,
    /// Where the log has it, if it is a change that is there.
    pub zxid: Option<Zxid>,
    /// Where the logs of several services have it, by service, if it was carried out by several together; the
    /// first of these numbers is its `zxid` then.
    pub parts: Vec<(usize, Zxid)>,
}

/// What came back on a connection.
#[derive(Clone, Debug)]
pub enum Heard {
    /// The answer to the first request that was not answered before.
    Answer {
        /// When.
        time_us: u64,
        /// The last change that is carried out.
        zxid: Zxid,
        /// The answer.
        answer: Answer,
    },
    /// Something watched has happened.
    Told {
        /// When this was heard.
        time_us: u64,
        /// Which change it was.
        zxid: Zxid,
        /// What.
        happened: Happened,
        /// To which node.
        path: String,
    },
}

/// One connection of a session.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// When the session was there, in microseconds.
    pub time_us: u64,
    /// What was asked, in order.
    pub asked: Vec<Asked>,
    /// What came back, in order.
    pub heard: Vec<Heard>,
}

impl Connection {
    /// Each request with its time of answer, zxid and answer, if it has one.
    pub fn exchanges(&self) -> impl Iterator<Item = (&Asked, Option<(u64, Zxid, &Answer)>)> {
        let mut answers = self.heard.iter().filter_map(|heard| match heard {
            Heard::Answer { time_us, zxid, answer } => Some((*time_us, *zxid, answer)),
            Heard::Told { .. } => None,
        });
        self.asked.iter().map(move |asked| (asked, answers.next()))
    }
}

/// A session, which began with the change whose number it has.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Its number.
    pub id: i64,
    /// For how long it may be silent, in microseconds.
    pub timeout_us: u64,
    /// Its connections, one after the other.
    pub connections: Vec<Connection>,
    /// When its client was told, on coming back, that it had ended.
    pub expired_us: Option<u64>,
    /// It has begun at another service, and its number is that of no change of this one.
    pub elsewhere: bool,
    /// It has ended because its client has asked for that, where no request says so.
    pub closed: bool,
}

impl Session {
    /// The change with which it began, if that is one of this service.
    fn began(&self) -> Zxid {
        if self.elsewhere { 0 } else { self.id }
    }
}

/// What was there at the end of the history.
#[derive(Clone, Debug, Default)]
pub struct Last {
    /// All nodes but the ones that are always there: path, data, the session that it ends with or 0.
    pub nodes: Vec<(String, String, i64)>,
    /// The sessions that have not ended.
    pub sessions: Vec<i64>,
}

/// What clients of a coordination service have seen.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All sessions whose clients know of them.
    pub sessions: Vec<Session>,
    /// Sessions that the service has ended, with the change that did it.
    pub ends: Vec<(i64, Zxid)>,
    /// Sessions that are at several services, with the change after which they may do nothing more at this
    /// one: their ephemeral nodes are there until they end.
    pub closings: Vec<(i64, Zxid)>,
    /// Changes in the log that no session can have asked for where they are: session and change.
    pub strays: Vec<(i64, Zxid)>,
    /// What was there at the end, if it was looked at.
    pub last: Option<Last>,
}

/// The verdict about a history.
pub fn check(history: &History) -> Verdict {
    let mut verdict = Verdict::new("coordination");
    verdict.count("sessions", history.sessions.len());
    verdict.count("ends", history.ends.len());
    for (session, zxid) in &history.strays {
        let text =
            format!("change {zxid} of session {session} is in the log, and was not asked for");
        report(&mut verdict, "stray-change", text);
    }
    let replayed = replay::replay(history, &mut verdict);
    order::check(history, &mut verdict);
    watches::check(history, &replayed, &mut verdict);
    lives::check(history, &mut verdict);
    verdict
}

/// The verdict about what several services have of the same sessions, each of which was checked by itself:
/// `history` has all requests, with their places in the logs, and each service its `parts` of it; `concerns`
/// says what a request is about.
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
