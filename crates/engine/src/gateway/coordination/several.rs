//! What concerns several shards of a tree that is spread: the root, whose children are everywhere, what a
//! client that comes back watches, pings.
//!
//! The root is looked at until nothing of what all shards say has changed since they said it before: between
//! the two looks all of it was so at one moment. Whoever watches its children is told once, whichever shard
//! is the first to say so.

use super::super::Gateway;
use super::{Asked, Client, CoordinationClient, Errand};
use crate::coordination::spread::{HOME, Place, Spread};
use crate::coordination::{
    Ask, Code, Event, Happened, OfSession, Read, Reply, Stat, Watch, WatcherType, Zxid, path, tree,
};
use crate::limits::ROOT_ROUNDS_MAX;
use crate::message::ShardId;
use adt::Blob;
use std::collections::{BTreeMap, BTreeSet};

/// Where a request goes.
pub(super) enum Plan {
    /// To one shard, as it is.
    One(ShardId),
    /// To several; what each is asked.
    Several(Vec<(ShardId, OfSession)>),
    /// To several, which do all of it or nothing; which of the changes each has.
    Joint(BTreeMap<ShardId, Vec<usize>>),
    /// Nowhere.
    Refused(Code),
}

/// The request of a client that several shards answer, and the root's children that it watches.
#[derive(Default)]
pub(super) struct Several {
    look: Option<Look>,
    /// By path: which shards say when its children change, if that is to be said once.
    armed: BTreeMap<Blob, BTreeSet<ShardId>>,
    /// Paths of which each change of the children is said.
    lasting: BTreeSet<Blob>,
}

/// A request, and what its shards have answered.
struct Look {
    seq: u64,
    of: OfSession,
    parts: Vec<(ShardId, OfSession)>,
    left: usize,
    answers: BTreeMap<ShardId, Result<Reply, Code>>,
    before: BTreeMap<ShardId, Result<Reply, Code>>,
    rounds: u32,
    /// Shards that have said since they answered that the root's children have changed.
    changed: BTreeMap<ShardId, Zxid>,
}

/// Whether a path is at all shards.
fn is_everywhere(spread: Spread, path: &[u8]) -> bool {
    spread.place(path) == Place::Everywhere
}

impl Plan {
    /// The plan for what a client asks whose session is at these shards.
    pub fn of(spread: Spread, asked: &Asked, at: impl Iterator<Item = ShardId>) -> Self {
        if !spread.is_spread() {
            return Self::One(HOME);
        }
        let of = match asked {
            Asked::Write(write) => {
                let shard = spread.place_of_write(write).shard();
                let joint = || Self::Joint(spread.parts(write.changes()));
                return shard.map_or_else(joint, Self::One);
            }
            Asked::Of(of) => of,
            Asked::Proved(_) => return Self::One(HOME),
            Asked::Refused(code) => return Self::Refused(*code),
        };
        let to = |shards: &mut dyn Iterator<Item = ShardId>| {
            Self::Several(shards.map(|shard| (shard, of.clone())).collect())
        };
        match of {
            OfSession::Ping => to(&mut at.into_iter()),
            OfSession::Read { read, .. } => match (spread.place_of_read(read), read) {
                (Place::Everywhere, Read::Ephemerals(_)) => to(&mut at.into_iter()),
                (Place::Everywhere, _) => Self::of_root(spread, of),
                (place, _) => place.shard().map_or(Self::Refused(Code::BadArguments), Self::One),
            },
            OfSession::Watch { since, watches } => Self::of_watches(spread, *since, watches),
            OfSession::Unwatch { path, .. } | OfSession::Watches { path, .. } => {
                match spread.place(path).shard() {
                    Some(shard) => Self::One(shard),
                    None => to(&mut spread.shards()),
                }
            }
        }
    }

    /// Shard 0 has the data and is asked what the client asks; the others have children, and say what is
    /// known of them.
    fn of_root(spread: Spread, of: &OfSession) -> Self {
        let OfSession::Read { identities, read, watch } = of else { return Self::One(HOME) };
        let each = |shard| {
            let identities = identities.clone();
            let (read, watch) = match read {
                Read::Children { path, .. } => {
                    (Read::Children { path: path.clone(), stat: true }, *watch)
                }
                read if shard == HOME => (read.clone(), *watch),
                Read::Descendants(_) => (read.clone(), false),
                read => {
                    let path = read.path().cloned().unwrap_or_default();
                    (Read::Children { path, stat: true }, false)
                }
            };
            (shard, OfSession::Read { identities, read, watch })
        };
        Self::Several(spread.shards().map(each).collect())
    }

    /// Each shard is told what is watched of its nodes.
    fn of_watches(spread: Spread, since: Zxid, watches: &[(Blob, Watch)]) -> Self {
        let mut parts: BTreeMap<ShardId, Vec<(Blob, Watch)>> = BTreeMap::new();
        for (path, watch) in watches {
            let shards = match (spread.place(path), watch) {
                (Place::Everywhere, Watch::Data | Watch::Exist) => vec![HOME],
                (Place::Everywhere, _) => spread.shards().collect(),
                (place, _) => place.shard().into_iter().collect(),
            };
            for shard in shards {
                parts.entry(shard).or_default().push((path.clone(), *watch));
            }
        }
        if let Some(shard) = parts.keys().next().copied().filter(|_| parts.len() == 1) {
            return Self::One(shard);
        }
        if parts.is_empty() {
            return Self::One(HOME);
        }
        let each = |(shard, watches)| (shard, OfSession::Watch { since, watches });
        Self::Several(parts.into_iter().map(each).collect())
    }

    /// All shards that it needs.
    pub fn shards(&self) -> Vec<ShardId> {
        match self {
            Self::One(shard) => vec![*shard],
            Self::Several(parts) => parts.iter().map(|(shard, _)| *shard).collect(),
            Self::Joint(places) => places.keys().copied().collect(),
            Self::Refused(_) => Vec::new(),
        }
    }
}

impl Several {
    /// What a request does to what is known of watches at the root, when it is sent.
    fn note(&mut self, spread: Spread, of: &OfSession) {
        match of {
            OfSession::Watch { watches, .. } => {
                for (path, watch) in watches.iter().filter(|(p, _)| is_everywhere(spread, p)) {
                    match watch {
                        Watch::Child => {
                            self.armed.insert(path.clone(), spread.shards().collect());
                        }
                        Watch::Persistent => drop(self.lasting.insert(path.clone())),
                        Watch::Data | Watch::Exist | Watch::Recursive => {}
                    }
                }
            }
            OfSession::Unwatch { path, which } => {
                if matches!(which, WatcherType::Children | WatcherType::Any) {
                    self.armed.remove(path);
                }
                if matches!(which, WatcherType::Persistent | WatcherType::Any) {
                    self.lasting.remove(path);
                }
            }
            _ => {}
        }
    }
}

impl Look {
    fn new(seq: u64, of: OfSession, parts: Vec<(ShardId, OfSession)>) -> Self {
        let (answers, before, changed) = Default::default();
        Self { seq, of, parts, left: 0, answers, before, rounds: 0, changed }
    }

    /// Whether the root's children are watched by this request, of this path.
    fn watches_children(&self, path: &[u8]) -> bool {
        matches!(&self.of,
            OfSession::Read { read: Read::Children { path: of, .. }, watch: true, .. }
                if of[..] == *path)
    }

    /// Whether what was answered must be looked at once more.
    fn must_be_repeated(&self) -> bool {
        let looks_at_root = matches!(&self.of,
            OfSession::Read { read, .. } if !matches!(read, Read::Ephemerals(_)));
        looks_at_root && self.answers != self.before
    }

    /// The answer.
    fn merged(self) -> Result<Reply, Code> {
        let mut answers = self.answers.into_iter();
        match self.of {
            OfSession::Read { read, .. } => {
                let (_, first) = answers.next().ok_or(Code::BadArguments)?;
                let own = Own::of(read.path().map_or(path::ROOT, |path| &path[..]));
                let add = |sum, (_, answer): (_, Result<Reply, Code>)| Ok(own.add(sum, answer?));
                let reply = answers.try_fold(first?, add)?;
                Ok(match (read, reply) {
                    (Read::Children { stat: false, .. }, Reply::Children(names, _)) => {
                        Reply::Children(names, None)
                    }
                    (_, reply) => reply,
                })
            }
            OfSession::Unwatch { .. } | OfSession::Watches { .. } => {
                let found = answers.find(|(_, answer)| *answer != Err(Code::NoWatcher));
                found.map_or(Err(Code::NoWatcher), |(_, answer)| answer)
            }
            OfSession::Ping | OfSession::Watch { .. } => {
                answers.find(|(_, answer)| answer.is_err()).map_or(Ok(Reply::Done), |(_, a)| a)
            }
        }
    }
}

/// What each shard has of its own of a node that is everywhere, and is counted once.
#[derive(Clone, Copy)]
struct Own {
    children: i32,
    nodes: i32,
}

impl Own {
    fn of(path: &[u8]) -> Self {
        let fixed = tree::FIXED.into_iter().map(str::as_bytes).filter(|other| *other != path);
        let parents = |of: &&[u8]| path::parent_to_be(of) == Some(path);
        let children = fixed.clone().filter(parents).count() as i32;
        let nodes = fixed.filter(|of| path::is_at_or_below(of, path)).count() as i32;
        Self { children, nodes }
    }

    /// Adds what another shard says.
    fn add(self, sum: Reply, other: Reply) -> Reply {
        match (sum, other) {
            (Reply::Children(mut names, stat), Reply::Children(more, Some(other))) => {
                names.extend(more);
                names.sort_unstable();
                names.dedup();
                Reply::Children(names, stat.map(|stat| self.with(stat, &other)))
            }
            (Reply::Stat(stat), Reply::Children(_, Some(other))) => {
                Reply::Stat(self.with(stat, &other))
            }
            (Reply::Data(data, stat), Reply::Children(_, Some(other))) => {
                Reply::Data(data, self.with(stat, &other))
            }
            (Reply::Acl(acl, stat), Reply::Children(_, Some(other))) => {
                Reply::Acl(acl, self.with(stat, &other))
            }
            (Reply::Number(sum), Reply::Number(other)) => {
                Reply::Number(sum.saturating_add(other - self.nodes))
            }
            (Reply::Paths(mut paths), Reply::Paths(more)) => {
                paths.extend(more);
                paths.sort_unstable();
                Reply::Paths(paths)
            }
            (sum, _) => sum,
        }
    }

    /// Children that are at all shards were never created.
    fn with(self, stat: Stat, other: &Stat) -> Stat {
        Stat {
            cversion: stat.cversion.wrapping_add(other.cversion).wrapping_add(self.children),
            num_children: stat.num_children + other.num_children - self.children,
            pzxid: stat.pzxid.max(other.pzxid),
            ..stat
        }
    }
}

impl Gateway {
    /// A client asks something that several shards answer.
    pub(super) fn ask_several(
        &mut self,
        id: CoordinationClient,
        seq: u64,
        asked: Asked,
        parts: Vec<(ShardId, OfSession)>,
    ) {
        let (spread, Asked::Of(of)) = (self.spread(), asked) else { return };
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        client.several.note(spread, &of);
        client.several.look = Some(Look::new(seq, of, parts));
        self.look_once(id);
    }

    fn look_once(&mut self, id: CoordinationClient) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let Some(session) = client.session else { return };
        let Some(look) = &mut client.several.look else { return };
        look.left = look.parts.len();
        for (shard, of) in look.parts.clone() {
            self.note_watching(id, shard, &of);
            self.ask_shard(id, shard, Errand::Part, Ask::Of(session, of));
        }
    }

    /// A shard has answered its part.
    pub(super) fn part_answered(
        &mut self,
        id: CoordinationClient,
        shard: ShardId,
        reply: Result<Reply, Code>,
    ) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let Some(look) = &mut client.several.look else { return };
        look.answers.insert(shard, reply);
        look.changed.remove(&shard);
        look.left -= 1;
        if look.left > 0 {
            return;
        }
        if look.must_be_repeated() {
            look.rounds += 1;
            look.before = std::mem::take(&mut look.answers);
            // What another connection of the session has said comes first by now.
            let ends = look.rounds > ROOT_ROUNDS_MAX || self.is_being_left(id);
            return if ends { self.end_client(id) } else { self.look_once(id) };
        }
        self.looked(id);
    }

    /// All shards have answered, and what they say goes together.
    fn looked(&mut self, id: CoordinationClient) {
        let spread = self.spread();
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let Some(look) = client.several.look.take() else { return };
        let (seq, known) = (look.seq, client.known());
        let changed = look.changed.clone();
        let watched = match &look.of {
            OfSession::Read { read: Read::Children { path, .. }, watch: true, .. } => {
                Some(path.clone())
            }
            _ => None,
        };
        let reply = look.merged();
        let watched = watched.filter(|_| reply.is_ok());
        self.client_answered(id, seq, known, reply);
        if let Some(path) = watched
            && let Some(client) = self.clients.clients.get_mut(id.0)
        {
            client.several.armed.insert(path.clone(), spread.shards().collect());
            for (shard, zxid) in changed {
                let event = Event { happened: Happened::Children, path: path.clone() };
                if self.is_to_be_said(id, shard, &event, zxid) {
                    self.say_happened(id, shard, event, zxid);
                }
            }
        }
        self.turn_over(id);
    }

    /// Whether a client is to hear of something that a shard says. Of the root's children it hears once,
    /// whichever shard says so first, and the others are told that nobody watches any more.
    pub(super) fn is_to_be_said(
        &mut self,
        id: CoordinationClient,
        shard: ShardId,
        event: &Event,
        zxid: Zxid,
    ) -> bool {
        let spread = self.spread();
        let (path, happened) = (&event.path, event.happened);
        if happened != Happened::Children || !is_everywhere(spread, path) {
            return true;
        }
        let Some(client) = self.clients.clients.get_mut(id.0) else { return false };
        let Client { several, session, .. } = client;
        if several.lasting.contains(path) {
            return true;
        }
        let look = several.look.as_mut().filter(|look| look.watches_children(path));
        let looks = look.is_some();
        if let Some(look) = look {
            // Either this shard is asked again, or the answer comes first.
            look.changed.insert(shard, zxid);
        }
        if !several.armed.get(path).is_some_and(|armed| armed.contains(&shard)) {
            return false;
        }
        let others = several.armed.remove(path).unwrap_or_default();
        if looks {
            return true;
        }
        let Some(session) = *session else { return true };
        for other in others.into_iter().filter(|other| *other != shard) {
            let (path, which) = (path.clone(), WatcherType::Children);
            let ask = Ask::Of(session, OfSession::Unwatch { path, which });
            self.ask_shard(id, other, Errand::Aside, ask);
        }
        true
    }
}
