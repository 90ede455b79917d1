//! Requests of clients of the coordination service, and the form in which the checkers see them.
//!
//! A few paths suffice: the interesting cases are conflicts between clients at the same path.

use crate::random::Random;
use adt::Blob;
use check::coordination as seen;
use engine::coordination::spread::Spread;
use engine::coordination::{
    Acl, Change, Code, Create, CreateMode, Happened, Identity, Lasts, OfSession, Read, Reply, Stat,
    Watch, WatcherType, Write, Zxid,
};
use engine::gateway::coordination::ClientRequest;
use seen::{Kind, Request};

/// Paths that clients create and delete.
const PATHS: [&str; 6] = ["/a", "/a/x", "/a/y", "/b", "/b/x", "/c"];
/// Prefixes of the names of sequential nodes.
const QUEUES: [&str; 3] = ["/a/n-", "/q", "/b/n-"];

/// Frequencies of the clients' operations.
#[derive(Clone, Copy, Debug)]
pub struct Taste {
    /// Percentage of requests that change something.
    pub writes_percent: u64,
    /// Percentage of reads that set a watch.
    pub watches_percent: u64,
    /// Percentage of nodes that are ephemeral.
    pub ephemeral_percent: u64,
    /// Percentage of nodes that are sequential.
    pub sequential_percent: u64,
}

impl Taste {
    /// Draws the frequencies for all clients of a run.
    pub fn draw(random: &mut Random) -> Self {
        Self {
            writes_percent: *random.pick(&[20, 50, 80]),
            watches_percent: *random.pick(&[20, 60]),
            ephemeral_percent: *random.pick(&[20, 60]),
            sequential_percent: *random.pick(&[10, 50]),
        }
    }

    /// Next request. `unique` is a value that no other request writes. In a tree over several
    /// shards, requests to all shards are rare, because they have no number.
    pub fn next(&self, random: &mut Random, unique: &str, spread: Spread) -> Request {
        let request = self.any(random, unique, spread);
        match request {
            Request::Children(path, _) if spread.is_spread() && path == "/" => {
                Request::Children(path, false)
            }
            Request::Watch(path, kind) if spread.is_spread() && path == "/" => {
                Request::Watch("/a".to_owned(), kind)
            }
            request => request,
        }
    }

    fn any(&self, random: &mut Random, unique: &str, spread: Spread) -> Request {
        if random.percent(self.writes_percent) {
            return match random.below(10) {
                0 | 1 => {
                    let count = random.between(1, 3);
                    let mut change = |n| self.change(random, &format!("{unique}.{n}"));
                    let mut changes: Vec<_> = (0..count).map(&mut change).collect();
                    let place = |change: &_| spread.place_of_change(&as_change(change));
                    // At one shard as well as at several.
                    let first = place(&changes[0]);
                    let together = random.percent(60);
                    changes.retain(|change| together || place(change) == first);
                    Request::Multi(changes)
                }
                _ => Request::Change(self.change(random, unique)),
            };
        }
        let path = (*random.pick(&PATHS)).to_owned();
        let watch = random.percent(self.watches_percent);
        match random.below(20) {
            0..=5 => Request::Exists(path, watch),
            6..=11 => Request::Data(path, watch),
            12..=16 => {
                let path = *random.pick(&["/", "/a", "/b"]);
                Request::Children(path.to_owned(), watch)
            }
            17 => {
                let kind = *random.pick(&[Kind::Persistent, Kind::Recursive]);
                let path = *random.pick(&["/", "/a", "/b", "/b/x"]);
                Request::Watch(path.to_owned(), kind)
            }
            18 => Request::Unwatch(path),
            _ => Request::Ping,
        }
    }

    fn change(&self, random: &mut Random, unique: &str) -> seen::Change {
        let data = unique.to_owned();
        let path = (*random.pick(&PATHS)).to_owned();
        let version = if random.percent(70) { -1 } else { random.below(3) as i32 };
        match random.below(10) {
            0..=4 => {
                let sequential = random.percent(self.sequential_percent);
                let ephemeral = random.percent(self.ephemeral_percent);
                let path = if sequential { (*random.pick(&QUEUES)).to_owned() } else { path };
                seen::Change::Create { path, data, ephemeral, sequential }
            }
            5..=6 => seen::Change::Delete { path, version },
            7 => seen::Change::Check { path, version },
            _ => seen::Change::Set { path, data, version },
        }
    }
}

/// Access control list that permits everything to all clients.
fn open() -> Vec<Acl> {
    let who = Identity { scheme: Blob::from("world"), id: Blob::from("anyone") };
    vec![Acl { perms: Acl::ALL, who }]
}

fn blob(text: &str) -> Blob {
    Blob::from(text)
}

/// Converts a change to the form that a gateway takes.
pub fn as_change(change: &seen::Change) -> Change {
    match change {
        seen::Change::Create { path, data, ephemeral, sequential } => {
            let lasts = if *ephemeral { Lasts::Session } else { Lasts::Always };
            let mode = CreateMode { lasts, sequential: *sequential };
            let (path, data) = (blob(path), Some(blob(data)));
            Change::Create(Create { path, data, acl: open(), mode, stat: false })
        }
        seen::Change::Delete { path, version } => {
            Change::Delete { path: blob(path), version: *version }
        }
        seen::Change::Set { path, data, version } => {
            Change::SetData { path: blob(path), data: Some(blob(data)), version: *version }
        }
        seen::Change::Check { path, version } => {
            Change::Check { path: blob(path), version: *version }
        }
    }
}

/// Converts a request to the form that a gateway takes.
pub fn as_asked(request: &Request, identities: &[Identity]) -> ClientRequest {
    let read = |read, watch: &bool| {
        let identities = identities.to_vec();
        ClientRequest::Of(OfSession::Read { identities, read, watch: *watch })
    };
    match request {
        Request::Change(change) => ClientRequest::Write(Write::Change(as_change(change))),
        Request::Multi(changes) => {
            ClientRequest::Write(Write::Multi(changes.iter().map(as_change).collect()))
        }
        Request::Close => ClientRequest::Write(Write::Close),
        Request::Exists(path, watch) => read(Read::Exists(blob(path)), watch),
        Request::Data(path, watch) => read(Read::Data(blob(path)), watch),
        Request::Children(path, watch) => {
            read(Read::Children { path: blob(path), stat: true }, watch)
        }
        Request::Ping => ClientRequest::Of(OfSession::Ping),
        Request::Watch(path, kind) => {
            let watches = vec![(blob(path), as_watch(*kind))];
            ClientRequest::Of(OfSession::Watch { since: Zxid(i64::MAX), watches })
        }
        Request::Again(since, watches) => {
            let watches = watches.iter().map(|(path, kind)| (blob(path), as_watch(*kind)));
            ClientRequest::Of(OfSession::Watch { since: Zxid(*since), watches: watches.collect() })
        }
        Request::Unwatch(path) => {
            ClientRequest::Of(OfSession::Unwatch { path: blob(path), which: WatcherType::Any })
        }
    }
}

fn as_watch(kind: Kind) -> Watch {
    match kind {
        Kind::Data => Watch::Data,
        Kind::Exist => Watch::Exist,
        Kind::Child => Watch::Child,
        Kind::Persistent => Watch::Persistent,
        Kind::Recursive => Watch::Recursive,
    }
}

/// Bytes as text: in this world all bytes are text.
pub fn text(blob: &Blob) -> String {
    String::from_utf8_lossy(blob).into_owned()
}

fn change_of(change: &Change) -> Option<seen::Change> {
    Some(match change {
        Change::Create(Create { path, data, mode, .. }) => seen::Change::Create {
            path: text(path),
            data: text(data.as_ref()?),
            ephemeral: mode.lasts == Lasts::Session,
            sequential: mode.sequential,
        },
        Change::Delete { path, version } => {
            seen::Change::Delete { path: text(path), version: *version }
        }
        Change::SetData { path, data, version } => {
            seen::Change::Set { path: text(path), data: text(data.as_ref()?), version: *version }
        }
        Change::Check { path, version } => {
            seen::Change::Check { path: text(path), version: *version }
        }
        Change::SetAcl { .. } => return None,
    })
}

/// Converts a write of the log to the form that the checkers take; none for writes that no client
/// of this world requests.
pub fn request_of(write: &Write) -> Option<Request> {
    Some(match write {
        Write::Change(change) => Request::Change(change_of(change)?),
        Write::Multi(changes) => {
            Request::Multi(changes.iter().map(change_of).collect::<Option<_>>()?)
        }
        Write::Close => Request::Close,
        Write::Open { .. } | Write::Reap | Write::Spread(_) => return None,
    })
}

/// Converts an answer to the form that the checkers take.
pub fn answer_of(reply: &Result<Reply, Code>) -> seen::Answer {
    let reply = reply.as_ref().map_err(|code| *code as i32)?;
    Ok(match reply {
        Reply::Created { path, .. } => seen::Reply::Created(text(path)),
        Reply::Stat(stat) => seen::Reply::Stat(stat_of(stat)),
        Reply::Data(data, stat) => {
            seen::Reply::Data(data.as_ref().map(text).unwrap_or_default(), stat_of(stat))
        }
        Reply::Children(names, stat) => {
            let mut names: Vec<String> = names.iter().map(text).collect();
            names.sort_unstable();
            seen::Reply::Children(names, stat.as_ref().map(stat_of).unwrap_or_default())
        }
        Reply::Multi(replies) => seen::Reply::Multi(replies.iter().map(answer_of).collect()),
        _ => seen::Reply::Done,
    })
}

fn stat_of(stat: &Stat) -> seen::Stat {
    seen::Stat {
        czxid: stat.czxid.0,
        mzxid: stat.mzxid.0,
        pzxid: stat.pzxid.0,
        version: stat.version,
        cversion: stat.cversion,
        owner: stat.ephemeral_owner,
        data_length: stat.data_length,
        children: stat.num_children,
    }
}

/// Converts an event to the form that the checkers take.
pub fn happened_of(happened: Happened) -> seen::Happened {
    match happened {
        Happened::Created => seen::Happened::Created,
        Happened::Deleted => seen::Happened::Deleted,
        Happened::Data => seen::Happened::Data,
        Happened::Children => seen::Happened::Children,
    }
}
