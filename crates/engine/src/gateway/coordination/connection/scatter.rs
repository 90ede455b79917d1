//! Requests that several shards of a spread tree answer: reads of the root, whose children are at all
//! shards, renewals of a client's watches, and pings.
//!
//! The root is read again and again until no shard's answer has changed since the read before: between the
//! last two reads all answers were true at one moment. A client that watches the root's children is
//! notified once, by the first shard that reports a change.

use super::plan::is_everywhere;
use super::{Connection, Context};
use crate::coordination::spread::Spread;
use crate::coordination::tree::path;
use crate::coordination::{
    Ask, Code, Happened, OfSession, Read, Reply, Stat, Watch, WatchedEvent, WatcherType, Zxid, tree,
};
use crate::gateway::coordination::request::{ClientRequest, NumberedRequest, Purpose};
use crate::ids::ShardId;
use crate::limits::ROOT_ROUNDS_MAX;
use adt::Blob;
use std::collections::{BTreeMap, BTreeSet};

/// Watches for children of nodes that are at all shards.
#[derive(Default)]
pub(super) struct RootWatches {
    /// Shards that report the next change of the children, by path: the client gets the first report.
    armed: BTreeMap<Blob, BTreeSet<ShardId>>,
    /// Paths of which the client gets every report.
    lasting: BTreeSet<Blob>,
}

/// Request that several shards answer, with their answers.
pub(super) struct Scatter {
    seq: u64,
    of: OfSession,
    parts: Vec<(ShardId, OfSession)>,
    /// Number of parts without an answer.
    left: usize,
    answers: BTreeMap<ShardId, Result<Reply, Code>>,
    /// Answers of the read before, if the request is a read of the root.
    before: BTreeMap<ShardId, Result<Reply, Code>>,
    rounds: u32,
    /// Shards that have reported a change of the root's children since they answered.
    changed: BTreeMap<ShardId, Zxid>,
}

impl RootWatches {
    /// Notes the effect of a request on the watches, when it is sent.
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

impl Scatter {
    fn new(seq: u64, of: OfSession, parts: Vec<(ShardId, OfSession)>) -> Self {
        let (answers, before, changed) = Default::default();
        Self { seq, of, parts, left: 0, answers, before, rounds: 0, changed }
    }

    /// Path of the node whose children the request watches.
    fn watches_children(&self) -> Option<&Blob> {
        match &self.of {
            OfSession::Read { read: Read::Children { path, .. }, watch: true, .. } => Some(path),
            _ => None,
        }
    }

    /// Whether the shards must be asked once more.
    fn must_be_repeated(&self) -> bool {
        let reads_root = matches!(&self.of,
            OfSession::Read { read, .. } if !matches!(read, Read::Ephemerals(_)));
        reads_root && self.answers != self.before
    }

    /// The answer to the client.
    fn merged(self) -> Result<Reply, Code> {
        let mut answers = self.answers.into_iter();
        match self.of {
            OfSession::Read { read, .. } => {
                let (_, first) = answers.next().ok_or(Code::BadArguments)?;
                let fixed = FixedNodes::of(read.path().map_or(path::ROOT, |path| &path[..]));
                let add = |sum, (_, answer): (_, Result<Reply, Code>)| Ok(fixed.add(sum, answer?));
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

/// Numbers of fixed nodes below a node. Every shard has and counts them, and a merged reply counts them
/// once.
#[derive(Clone, Copy)]
struct FixedNodes {
    children: i32,
    /// The node itself and its descendants.
    nodes: i32,
}

impl FixedNodes {
    fn of(path: &[u8]) -> Self {
        let fixed = tree::FIXED.into_iter().map(str::as_bytes).filter(|other| *other != path);
        let parents = |of: &&[u8]| path::parent_to_be(of) == Some(path);
        let children = fixed.clone().filter(parents).count() as i32;
        let nodes = fixed.filter(|of| path::is_at_or_below(of, path)).count() as i32;
        Self { children, nodes }
    }

    /// Merges the reply of another shard into the sum.
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

    /// Merges the numbers of another shard into a node's. The fixed children were never created, so that
    /// they do not count as changes.
    fn with(self, stat: Stat, other: &Stat) -> Stat {
        Stat {
            cversion: stat.cversion.wrapping_add(other.cversion).wrapping_add(self.children),
            num_children: stat.num_children + other.num_children - self.children,
            pzxid: stat.pzxid.max(other.pzxid),
            ..stat
        }
    }
}

impl Connection {
    /// Sends a request to several shards, to each its part.
    pub(super) fn scatter(
        &mut self,
        cx: &mut Context<'_>,
        NumberedRequest { seq, request, .. }: NumberedRequest,
        parts: Vec<(ShardId, OfSession)>,
    ) {
        let ClientRequest::Of(of) = request else { return };
        self.root_watches.note(cx.spread, &of);
        self.scatter = Some(Scatter::new(seq, of, parts));
        self.ask_parts(cx);
    }

    fn ask_parts(&mut self, cx: &mut Context<'_>) {
        let Some(session) = self.session else { return };
        let Some(scatter) = &mut self.scatter else { return };
        scatter.left = scatter.parts.len();
        for (shard, of) in scatter.parts.clone() {
            self.note_watching(shard, &of);
            self.ask_shard(cx, shard, Purpose::Part, Ask::Of(session, of));
        }
    }

    /// Handles a shard's answer to its part.
    pub(super) fn part_answered(
        &mut self,
        cx: &mut Context<'_>,
        shard: ShardId,
        reply: Result<Reply, Code>,
    ) {
        let Some(scatter) = &mut self.scatter else { return };
        scatter.answers.insert(shard, reply);
        scatter.changed.remove(&shard);
        scatter.left -= 1;
        if scatter.left > 0 {
            return;
        }
        if scatter.must_be_repeated() {
            scatter.rounds += 1;
            scatter.before = std::mem::take(&mut scatter.answers);
            // While the session is moving, its next connection may have sent its first message already,
            // behind which nothing of this one may come.
            let ends = scatter.rounds > ROOT_ROUNDS_MAX || cx.is_leaving;
            return if ends { self.end(cx) } else { self.ask_parts(cx) };
        }
        self.gathered(cx);
    }

    /// Answers a request to which all shards have answered.
    fn gathered(&mut self, cx: &mut Context<'_>) {
        let Some(scatter) = self.scatter.take() else { return };
        let (seq, known) = (scatter.seq, self.known());
        let changed = scatter.changed.clone();
        let watched = scatter.watches_children().cloned();
        let reply = scatter.merged();
        let watched = watched.filter(|_| reply.is_ok());
        self.answer(cx, seq, (known, reply));
        if let Some(path) = watched {
            self.root_watches.armed.insert(path.clone(), cx.spread.shards().collect());
            for (shard, zxid) in changed {
                let event = WatchedEvent { happened: Happened::Children, path: path.clone() };
                if self.passes_on(cx, shard, &event, zxid) {
                    self.notify(cx, shard, event, zxid);
                }
            }
        }
        self.request_done(cx);
    }

    /// Whether a shard's notice is for the client. The first notice about the children of a node that is
    /// at all shards is, unless the watch is persistent: then all are. The other shards are told after the
    /// first one that the client no longer watches.
    pub(super) fn passes_on(
        &mut self,
        cx: &mut Context<'_>,
        shard: ShardId,
        event: &WatchedEvent,
        zxid: Zxid,
    ) -> bool {
        let path = &event.path;
        if event.happened != Happened::Children || !is_everywhere(cx.spread, path) {
            return true;
        }
        let RootWatches { armed, lasting } = &mut self.root_watches;
        if lasting.contains(path) {
            return true;
        }
        let reads = |scatter: &&mut Scatter| scatter.watches_children() == Some(path);
        let scatter = self.scatter.as_mut().filter(reads);
        let is_read = scatter.is_some();
        if let Some(scatter) = scatter {
            // Either the shard is asked once more, or the client gets the answer first.
            scatter.changed.insert(shard, zxid);
        }
        if !armed.get(path).is_some_and(|armed| armed.contains(&shard)) {
            return false;
        }
        let others = armed.remove(path).unwrap_or_default();
        if is_read {
            return true;
        }
        let Some(session) = self.session else { return true };
        for other in others.into_iter().filter(|other| *other != shard) {
            let (path, which) = (path.clone(), WatcherType::Children);
            let ask = Ask::Of(session, OfSession::Unwatch { path, which });
            self.ask_shard(cx, other, Purpose::Aside, ask);
        }
        true
    }
}
