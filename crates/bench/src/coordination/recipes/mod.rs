//! The papers' lock recipes on nodes, as state machines: each answer determines the next request.
//! The same code runs against every service.
//!
//! | recipe | condition for holding the lock | action while waiting |
//! |---|---|---|
//! | sync-queue | the node before the own node is gone | watch it |
//! | sync-queue-relist | the own node is the first one | watch the node before it, then list again |
//! | async-queue | as sync-queue-relist | list every poll interval, first right behind the create |
//! | async-queue-watch | as sync-queue-relist | follow notifications ([`mirror`]) |
//! | sync-tas | the node could be created | try again as soon as the create was refused |
//! | async-tas | as sync-tas | try again every poll interval, whether an answer has arrived or not |
//! | tas-watch | as sync-tas | watch the node, try again when it is gone |
//!
//! The first list of async-queue is sent without waiting for the create. async-queue-watch is
//! notified of all creations and deletions.
//!
//! In the papers' form of sync-queue, a waiter whose predecessor is gone before it could be watched
//! waits for ever; here it lists again. The unsafe part of the recipe is left unchanged: a
//! predecessor that died while waiting is taken for one that has held the lock.

pub mod adaptive;
pub(in crate::coordination) mod barrier;
pub mod locker;
pub(in crate::coordination) mod mirror;
pub mod nodes;
pub mod znodes;

use crate::coordination::services::client::{Answer, Heard, exists, list};
use adt::Blob;
use locker::Told;
use mirror::Mirror;
use model::Algorithm;
use nodes::Nodes;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use wire::jute::{
    Acl, Ask, Change, Code, Create, CreateMode, Happened, Identity, Lasts, Reply, WatchedEvent,
    WatcherType, Write,
};

/// Prefix of the names of nodes in a queue.
const PREFIX: &str = "c-";
/// Name of the node that is the lock of the test-and-set recipes.
const HELD: &str = "held";

/// Steps, in the lowest bits of a request's tag.
const CREATE: u64 = 0;
const LIST: u64 = 1;
const EXISTS: u64 = 2;
const DELETE: u64 = 3;
const WATCH: u64 = 4;
const STEP_BITS: u32 = 3;

/// First tag that does not belong to a recipe.
pub const FOREIGN_TAGS: u64 = 1 << 40;

/// Stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waiting for the answer that decides the next step, or polling.
    Asking,
    /// Waiting for a watch.
    Watching,
    /// Holding the lock.
    Holding,
    /// Releasing the lock.
    Leaving,
    /// Cancelled; a request in flight may still acquire the lock.
    Cancelled,
}

/// One attempt to acquire a lock.
#[derive(Clone, Debug)]
struct Attempt {
    session: usize,
    algorithm: Algorithm,
    base: String,
    stage: Stage,
    /// Name of its node in the queue.
    node: Option<Blob>,
    /// Zxid of its node's creation.
    token: i64,
    /// Time of the next poll.
    poll_ns: u64,
    /// Whether the node that it is about to watch has already changed, before the answer to the
    /// watch request.
    fired: bool,
}

impl Attempt {
    /// Queue that contains its node: the session and the parent node.
    fn queue(&self) -> (usize, Blob) {
        (self.session, self.base.as_str().into())
    }
}

/// Requests for locks, by their numbers.
#[derive(Debug)]
pub struct Recipes {
    attempts: Vec<Option<Attempt>>,
    /// Attempts that wait for a change of a node, by session and node.
    watchers: BTreeMap<(usize, Blob), Vec<usize>>,
    /// Mirrored queues, by session and parent node.
    mirrors: BTreeMap<(usize, Blob), Mirror>,
    poll_ns: u64,
    ephemeral: bool,
}

/// Request to create a node that all clients may use in every way.
pub fn create(path: &str, data: &[u8], mode: CreateMode) -> Ask {
    let anyone = Identity { scheme: "world".into(), id: "anyone".into() };
    Ask::Write(Write::Change(Change::Create(Create {
        path: path.into(),
        data: Some(data.into()),
        acl: vec![Acl { perms: Acl::ALL, who: anyone }],
        mode,
        stat: false,
    })))
}

/// Request to delete a node, whatever its version.
pub fn delete(path: &str) -> Ask {
    Ask::Write(Write::Change(Change::Delete { path: path.into(), version: -1 }))
}

/// Creates a persistent node that will be the parent of others.
///
/// # Errors
/// The node cannot be created.
pub fn make(nodes: &mut impl Nodes, path: &str) -> io::Result<()> {
    make_with(nodes, path, b"")
}

/// Creates a persistent node with this data.
///
/// # Errors
/// The node cannot be created.
pub fn make_with(nodes: &mut impl Nodes, path: &str, data: &[u8]) -> io::Result<()> {
    let made = nodes.call(0, create(path, data, CreateMode::default()))?;
    made.map_err(|code| io::Error::other(format!("{path} was not created: {code:?}")))?;
    Ok(())
}

fn is_queue(algorithm: Algorithm) -> bool {
    use Algorithm::{AsyncQueue, AsyncQueueWatch, SyncQueue, SyncQueueRelist};
    matches!(algorithm, SyncQueue | SyncQueueRelist | AsyncQueue | AsyncQueueWatch)
}

fn tag(request: usize, step: u64) -> u64 {
    (request as u64) << STEP_BITS | step
}

fn unexpected(what: &str, code: Code) -> io::Error {
    io::Error::other(format!("{what} was refused: {code:?}"))
}

/// Sequence number at the end of a name.
fn sequence(name: &[u8]) -> Option<u64> {
    std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?.parse().ok()
}

/// Node immediately before `own` among these, if there is one.
fn before<'a>(own: &Blob, names: &'a [Blob]) -> Option<&'a Blob> {
    let own = sequence(own)?;
    let numbered = names.iter().filter_map(|name| Some((sequence(name)?, name)));
    numbered.filter(|(number, _)| *number < own).max_by_key(|(number, _)| *number).map(|of| of.1)
}

impl Recipes {
    /// Creates an empty set of requests; `poll_ns` is the poll interval, and `ephemeral` says
    /// whether nodes end with their sessions.
    pub fn new(poll_ns: u64, ephemeral: bool) -> Self {
        let (attempts, watchers, mirrors) = Default::default();
        Self { attempts, watchers, mirrors, poll_ns, ephemeral }
    }

    fn attempt(&mut self, request: usize) -> Option<&mut Attempt> {
        self.attempts.get_mut(request)?.as_mut()
    }

    /// Begins a session's request for the lock below the node `base` with this algorithm.
    pub fn begin(
        &mut self,
        client: &mut impl Nodes,
        request: usize,
        session: usize,
        algorithm: Algorithm,
        base: &str,
    ) {
        if self.attempts.len() <= request {
            self.attempts.resize(request + 1, None);
        }
        let poll_ns = client.now_ns() + self.poll_ns;
        let attempt = Attempt {
            session,
            algorithm,
            base: base.to_owned(),
            stage: Stage::Asking,
            node: None,
            token: 0,
            poll_ns,
            fired: false,
        };
        let mut lists = algorithm == Algorithm::AsyncQueue;
        if algorithm == Algorithm::AsyncQueueWatch {
            let queue = self.mirrors.entry(attempt.queue());
            lists = matches!(queue, Entry::Vacant(_));
            queue.or_insert_with(|| Mirror::new(request)).waits();
            if lists {
                let watch = Ask::AddWatch { path: base.into(), recursive: true };
                client.ask(session, tag(request, WATCH), watch);
            }
        }
        self.create(client, request, &attempt);
        if lists {
            client.ask(session, tag(request, LIST), list(base));
        }
        if matches!(algorithm, Algorithm::AsyncQueue | Algorithm::AsyncTas) {
            client.remind(poll_ns, request);
        }
        self.attempts[request] = Some(attempt);
    }

    fn create(&self, client: &mut impl Nodes, request: usize, attempt: &Attempt) {
        let sequential = is_queue(attempt.algorithm);
        let name = if sequential { PREFIX } else { HELD };
        let path = format!("{}/{name}", attempt.base);
        let lasts = if self.ephemeral { Lasts::Session } else { Lasts::Always };
        let mode = CreateMode { lasts, sequential };
        client.ask(attempt.session, tag(request, CREATE), create(&path, b"", mode));
    }

    /// Releases a lock.
    ///
    /// # Panics
    /// The request does not hold it.
    pub fn leave(&mut self, client: &mut impl Nodes, request: usize) {
        let attempt = self.attempt(request).expect("a released request exists");
        assert_eq!(attempt.stage, Stage::Holding, "only the holder releases the lock");
        attempt.stage = Stage::Leaving;
        let own = attempt.node.clone();
        let name = own.as_deref().map_or(HELD.into(), String::from_utf8_lossy);
        let path = format!("{}/{name}", attempt.base);
        client.ask(attempt.session, tag(request, DELETE), delete(&path));
    }

    /// Cancels a request that does not hold the lock. If anything has to be undone, the
    /// cancellation is complete once the release is reported.
    pub fn cancel(&mut self, client: &mut impl Nodes, request: usize) {
        let Some(attempt) = self.attempt(request) else { return };
        attempt.stage = Stage::Cancelled;
        let attempt = attempt.clone();
        self.waits_no_more(client, request, &attempt);
        if let Some(node) = attempt.node.clone() {
            let path = format!("{}/{}", attempt.base, String::from_utf8_lossy(&node));
            client.ask(attempt.session, tag(request, DELETE), delete(&path));
        }
    }

    /// Handles a reminder: a request that still waits polls.
    fn due(&mut self, client: &mut impl Nodes, request: usize) {
        let poll_ns = self.poll_ns;
        let Some(attempt) = self.attempt(request) else { return };
        if attempt.stage != Stage::Asking {
            return;
        }
        // Polls keep the rhythm of the first one, however late this one is.
        attempt.poll_ns = (attempt.poll_ns + poll_ns).max(client.now_ns());
        client.remind(attempt.poll_ns, request);
        let attempt = attempt.clone();
        match attempt.algorithm {
            Algorithm::AsyncQueue => {
                client.ask(attempt.session, tag(request, LIST), list(&attempt.base));
            }
            _ => self.create(client, request, &attempt),
        }
    }

    /// Handles an event.
    ///
    /// # Errors
    /// The service refuses a request that it must not refuse.
    pub fn hear(
        &mut self,
        client: &mut impl Nodes,
        heard: Heard,
        told: &mut Vec<Told>,
    ) -> io::Result<()> {
        match heard {
            Heard::Answer(answer) => self.answer(client, answer, told)?,
            Heard::Event { session, event } => self.event(client, session, &event, told),
            Heard::Due(request) => self.due(client, request),
            Heard::Lost(_) => {}
        }
        Ok(())
    }

    /// Handles the end of a request's wait: a queue is no longer mirrored in a session without
    /// waiting requests.
    fn waits_no_more(&mut self, client: &mut impl Nodes, request: usize, attempt: &Attempt) {
        let queue = attempt.queue();
        let told = attempt.algorithm == Algorithm::AsyncQueueWatch;
        if told && self.mirrors.get_mut(&queue).is_some_and(Mirror::waits_no_more) {
            let (session, path) = queue.clone();
            self.mirrors.remove(&queue);
            let which = WatcherType::Any;
            client.ask(session, tag(request, WATCH), Ask::RemoveWatches { path, which });
        }
    }

    /// Handles an event of a watch.
    fn event(
        &mut self,
        client: &mut impl Nodes,
        session: usize,
        event: &WatchedEvent,
        told: &mut Vec<Told>,
    ) {
        let waited = self.watchers.remove(&(session, event.path.clone())).unwrap_or_default();
        for request in waited {
            self.fire(client, request, told);
        }
        let Some(at) = event.path.iter().rposition(|byte| *byte == b'/') else { return };
        let queue = (session, Blob::new(&event.path[..at]));
        if let Some(mirror) = self.mirrors.get_mut(&queue)
            && let Some(number) = sequence(&event.path[at + 1..])
        {
            match event.happened {
                Happened::Created => mirror.created(number),
                Happened::Deleted => mirror.deleted(number),
                Happened::Data | Happened::Children => {}
            }
            self.first_has_it(client, &queue, told);
        }
    }

    /// Grants the lock to the first request of a mirrored queue, if it belongs to the session.
    fn first_has_it(
        &mut self,
        client: &mut impl Nodes,
        queue: &(usize, Blob),
        told: &mut Vec<Told>,
    ) {
        let Some(request) = self.mirrors.get(queue).and_then(Mirror::first) else { return };
        let attempt = self.attempt(request).filter(|attempt| attempt.stage == Stage::Watching);
        if let Some(attempt) = attempt {
            grant(request, attempt, told);
            let attempt = attempt.clone();
            self.waits_no_more(client, request, &attempt);
        }
    }

    /// Handles the creation of a request's node: from now on the mirrored queue shows when its turn
    /// comes.
    fn joined(&mut self, client: &mut impl Nodes, request: usize, told: &mut Vec<Told>) {
        let Some(attempt) = self.attempt(request) else { return };
        if attempt.algorithm != Algorithm::AsyncQueueWatch || attempt.stage != Stage::Asking {
            return;
        }
        attempt.stage = Stage::Watching;
        let queue = attempt.queue();
        let number = attempt.node.as_deref().and_then(sequence);
        if let Some((mirror, number)) = self.mirrors.get_mut(&queue).zip(number) {
            mirror.joins(number, request);
        }
        self.first_has_it(client, &queue, told);
    }

    /// Handles a change of the node that a request has watched, or is about to watch.
    fn fire(&mut self, client: &mut impl Nodes, request: usize, told: &mut Vec<Told>) {
        let Some(attempt) = self.attempt(request) else { return };
        if attempt.stage != Stage::Watching {
            attempt.fired = attempt.stage == Stage::Asking;
            return;
        }
        // The papers' queue takes this for its turn.
        if attempt.algorithm == Algorithm::SyncQueue {
            return grant(request, attempt, told);
        }
        attempt.stage = Stage::Asking;
        let attempt = attempt.clone();
        match attempt.algorithm {
            Algorithm::TasWatch => self.create(client, request, &attempt),
            _ => client.ask(attempt.session, tag(request, LIST), list(&attempt.base)),
        }
    }

    /// Handles an answer to a request of a recipe.
    ///
    /// # Errors
    /// The service refuses a request that it must not refuse.
    pub fn answer(
        &mut self,
        client: &mut impl Nodes,
        answer: Answer,
        told: &mut Vec<Told>,
    ) -> io::Result<()> {
        let request = (answer.tag >> STEP_BITS) as usize;
        let step = answer.tag & ((1 << STEP_BITS) - 1);
        let Some(attempt) = self.attempt(request) else { return Ok(()) };
        match (step, answer.result) {
            (CREATE, Ok(Reply::Created { path, .. })) => {
                attempt.token = answer.zxid.0;
                created(client, request, attempt, &path, told)?;
                self.joined(client, request, told);
            }
            (CREATE, Err(Code::NodeExists)) if attempt.stage == Stage::Asking => {
                let attempt = attempt.clone();
                match attempt.algorithm {
                    Algorithm::SyncTas => self.create(client, request, &attempt),
                    Algorithm::TasWatch => {
                        let path = format!("{}/{HELD}", attempt.base);
                        self.watch(client, request, answer.session, &path);
                    }
                    // The next try is in flight, or will be.
                    _ => {}
                }
            }
            // A try that was sent before the successful one was answered.
            (CREATE, Err(Code::NodeExists)) => {}
            (LIST, Ok(Reply::Children(names, _))) => {
                self.listed(client, request, &names, told);
            }
            (WATCH, Ok(_)) => {}
            (EXISTS, _) if attempt.stage != Stage::Asking => {}
            (EXISTS, Ok(Reply::Stat(_))) => {
                attempt.stage = Stage::Watching;
                if attempt.fired {
                    self.fire(client, request, told);
                }
            }
            (EXISTS, Err(Code::NoNode)) => {
                let attempt = attempt.clone();
                match attempt.algorithm {
                    Algorithm::TasWatch => self.create(client, request, &attempt),
                    _ => client.ask(answer.session, tag(request, LIST), list(&attempt.base)),
                }
            }
            (DELETE, Ok(_)) => {
                self.attempts[request] = None;
                told.push(Told::Released { request });
            }
            (_, Err(code)) => return Err(unexpected("a step of a recipe", code)),
            (_, Ok(reply)) => {
                return Err(io::Error::other(format!("an answer that fits no request: {reply:?}")));
            }
        }
        Ok(())
    }

    fn listed(
        &mut self,
        client: &mut impl Nodes,
        request: usize,
        names: &[Blob],
        told: &mut Vec<Told>,
    ) {
        let Some(attempt) = self.attempt(request) else { return };
        if attempt.algorithm == Algorithm::AsyncQueueWatch {
            let queue = attempt.queue();
            if let Some(mirror) = self.mirrors.get_mut(&queue) {
                mirror.listed(request, names.iter().filter_map(|name| sequence(name)));
            }
            return self.first_has_it(client, &queue, told);
        }
        let (Some(own), Stage::Asking) = (attempt.node.clone(), attempt.stage) else { return };
        match before(&own, names) {
            None => grant(request, attempt, told),
            Some(_) if attempt.algorithm == Algorithm::AsyncQueue => {}
            Some(name) => {
                let session = attempt.session;
                let path = format!("{}/{}", attempt.base, String::from_utf8_lossy(name));
                self.watch(client, request, session, &path);
            }
        }
    }

    /// Requests a watch on a node.
    fn watch(&mut self, client: &mut impl Nodes, request: usize, session: usize, path: &str) {
        self.watchers.entry((session, path.into())).or_default().push(request);
        if let Some(attempt) = self.attempt(request) {
            attempt.fired = false;
        }
        client.ask(session, tag(request, EXISTS), exists(path, true));
    }
}

/// Handles the creation of a request's node.
fn created(
    client: &mut impl Nodes,
    request: usize,
    attempt: &mut Attempt,
    path: &Blob,
    told: &mut Vec<Told>,
) -> io::Result<()> {
    let session = attempt.session;
    if attempt.stage == Stage::Cancelled {
        let path = String::from_utf8_lossy(path);
        client.ask(session, tag(request, DELETE), delete(&path));
        return Ok(());
    }
    if is_queue(attempt.algorithm) {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        attempt.node = Some(name.into());
        if matches!(attempt.algorithm, Algorithm::SyncQueue | Algorithm::SyncQueueRelist) {
            client.ask(session, tag(request, LIST), list(&attempt.base));
        }
        return Ok(());
    }
    if attempt.stage != Stage::Asking {
        return Err(io::Error::other("a lock was granted to a request that held it"));
    }
    grant(request, attempt, told);
    Ok(())
}

fn grant(request: usize, attempt: &mut Attempt, told: &mut Vec<Told>) {
    attempt.stage = Stage::Holding;
    told.push(Told::Granted { request, token: attempt.token });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_before_is_the_last_of_those_with_smaller_numbers() {
        let names: Vec<Blob> =
            ["c-0000000007", "c-0000000003", "other", "c-0000000005"].map(Blob::from).into();
        let before = |own: &str| before(&own.into(), &names).cloned();
        assert_eq!(before("c-0000000007"), Some("c-0000000005".into()));
        assert_eq!(before("c-0000000005"), Some("c-0000000003".into()));
        assert_eq!(before("c-0000000003"), None);
    }
}
