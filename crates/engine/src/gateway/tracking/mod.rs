//! Caches of clients (`CLIENT TRACKING`): a client that keeps what it has read is told when it has changed.
//! And keyspace events (`keyspace.rs`): subscribers are told what has happened to keys.
//!
//! The gateway of a client remembers which keys it has read, before it sends the read, and follows the
//! changes of all shards (`feeds.rs`). So a change that comes after the read was carried out is told in any
//! case, and no shard keeps anything for a single client. When it may have missed changes, because a shard
//! has another leader or is silent, its clients are told to drop all that they hold.

mod commands;
mod feeds;
mod keyspace;
mod wiring;

pub(in crate::gateway) use commands::{caching, redirection, told, told_redirection};
pub(in crate::gateway) use keyspace::may_hear;

use super::admin::inquiry::Inquiry;
use super::api::SessionId;
use super::clients::session::Session;
use super::clients::sessions::Sessions;
use super::core::Core;
use super::target::Target;
use crate::limits::TRACKED_KEYS_MAX;
use adt::collections::Map;
use adt::command::database::{database_of, shown};
use adt::{Blob, Reply};
use feeds::Feeds;
use keyspace::Keyspace;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most notices that a client is to get again behind its replies; one that drops all stands for more.
const AGAIN_MAX: usize = 1_000;
/// Readers of a key from which on those that are gone are looked for.
const MANY_READERS: usize = 8;

/// Keys whose changes a client is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Scope {
    /// Keys that it has read.
    Reads,
    /// Keys that it has read behind `CLIENT CACHING YES`.
    OptIn,
    /// Keys that it has read, but not behind `CLIENT CACHING NO`.
    OptOut,
    /// All keys with one of these prefixes.
    Prefixes(BTreeSet<Blob>),
}

/// Tracking of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::gateway) struct Tracker {
    pub scope: Scope,
    /// Client that is told in its place.
    pub redirect: Option<u64>,
    /// Whether that client is gone.
    pub broken: bool,
    /// Whether the client does not want to be told of its own writes. It is told all the same.
    pub no_loop: bool,
    /// `CLIENT CACHING` for the next command or transaction.
    pub caching: Option<bool>,
    /// Keys that the commands queued since `MULTI` read.
    queued: Vec<Blob>,
    /// Keys that the interactive transaction has read: it may have seen writes that are never committed.
    seen: Vec<Blob>,
    /// Keys, or all, that have changed while the reply with this number was on its way.
    again: Vec<(u64, Option<Blob>)>,
}

impl Tracker {
    /// Whether reads are tracked now.
    fn wants_reads(&self) -> bool {
        match self.scope {
            Scope::Reads => true,
            Scope::OptIn => self.caching == Some(true),
            Scope::OptOut => self.caching != Some(false),
            Scope::Prefixes(_) => false,
        }
    }

    /// Whether a notice is to be repeated now that the replies before number `base` are sent.
    pub fn is_due(&self, base: u64) -> bool {
        self.again.iter().any(|(seq, _)| *seq < base)
    }

    /// Notes a change of a key, or of all, that is to be told again behind a reply.
    fn tell_again(&mut self, seq: u64, key: Option<&Blob>) {
        if self.again.iter().any(|(at, again)| *at == seq && again.as_ref() == key) {
            return;
        }
        if self.again.len() >= AGAIN_MAX {
            let last = self.again.iter().map(|(at, _)| *at).max();
            self.again.clear();
            self.again.push((last.unwrap_or(seq).max(seq), None));
        } else {
            self.again.push((seq, key.cloned()));
        }
    }

    /// Takes what is to be told again now; none in it stands for all keys.
    fn take_again(&mut self, base: u64) -> Vec<Option<Blob>> {
        let (due, later) =
            std::mem::take(&mut self.again).into_iter().partition(|(at, _)| *at < base);
        self.again = later;
        let due: Vec<(u64, Option<Blob>)> = due;
        due.into_iter().map(|(_, key)| key).collect()
    }
}

/// Session that has read a key, with the number of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyReader {
    session: SessionId,
    seq: u64,
}

/// Keys that clients of the gateway hold in their caches, and the changes that it hears of.
#[derive(Default)]
pub(in crate::gateway) struct Tracking {
    /// In the order of their sessions.
    readers: Map<Blob, SmallVec<[KeyReader; 1]>>,
    prefixes: BTreeMap<Blob, BTreeSet<SessionId>>,
    /// Sessions with a tracker.
    clients: BTreeSet<SessionId>,
    feeds: Feeds,
    pub keyspace: Keyspace,
    /// Whether a timer looks at the feeds.
    timed: bool,
    /// Sessions by the number of their client, to which others are redirected.
    redirected: BTreeMap<u64, SessionId>,
    /// Targets of the replies to sessions that track from when all shards are followed, and whether each has
    /// not tracked before.
    starting: Vec<(Target, bool)>,
    /// Position of the key that is forgotten next.
    next: usize,
    /// Trackers whose redirection is looked up.
    asked: BTreeMap<SessionId, (Tracker, Target)>,
    /// Questions to all gateways about clients that are told in the place of others.
    inquiries: VecDeque<(Target, Inquiry)>,
}

impl Tracking {
    /// Brings the counters up to date.
    fn count(&self, core: &mut Core) {
        let stats = &mut core.mail.stats;
        stats.tracking = self.clients.len() as u64;
        stats.tracked_keys = self.readers.len() as u64;
        stats.tracked_prefixes = self.prefixes.len() as u64;
    }

    /// Gives a session a tracker.
    fn set(&mut self, id: SessionId, session: &mut Session, tracker: Tracker) {
        let old = session.about.tracker.take();
        let kept = old.map_or_else(Vec::new, |old| {
            self.forget_prefixes(id, &old);
            old.again
        });
        if let Scope::Prefixes(prefixes) = &tracker.scope {
            for prefix in prefixes {
                self.prefixes.entry(prefix.clone()).or_default().insert(id);
            }
        }
        session.about.tracker = Some(Box::new(Tracker { again: kept, ..tracker }));
        session.refresh();
        self.clients.insert(id);
    }

    /// Takes the tracker of a session away.
    fn unset(&mut self, id: SessionId, session: &mut Session) {
        self.asked.remove(&id);
        self.starting.retain(|(target, _)| target.session != id);
        let Some(tracker) = session.about.tracker.take() else { return };
        session.refresh();
        self.forget_prefixes(id, &tracker);
        self.clients.remove(&id);
        if self.clients.is_empty() {
            self.readers = Map::default();
            self.redirected.clear();
        }
    }

    fn forget_prefixes(&mut self, id: SessionId, tracker: &Tracker) {
        let Scope::Prefixes(prefixes) = &tracker.scope else { return };
        for prefix in prefixes {
            if let Some(sessions) = self.prefixes.get_mut(prefix) {
                sessions.remove(&id);
                if sessions.is_empty() {
                    self.prefixes.remove(prefix);
                }
            }
        }
    }

    /// Notes that a session is about to read a key. Returns a key that is forgotten for it, with its readers,
    /// if there are too many. Readers that are not there any more are forgotten when there are many of a key.
    fn reads(
        &mut self,
        key: Blob,
        reader: KeyReader,
        is_there: impl Fn(SessionId) -> bool,
    ) -> Option<(Blob, SmallVec<[KeyReader; 1]>)> {
        let full = self.readers.len() >= TRACKED_KEYS_MAX && !self.readers.contains_key(&key);
        let mut forgotten = None;
        if full {
            self.next = (self.next + 1) % self.readers.len();
            forgotten = self.readers.swap_remove_index(self.next);
        }
        let readers = self.readers.entry(key).or_default();
        match readers.binary_search_by_key(&reader.session, |known| known.session) {
            Ok(at) => readers[at].seq = reader.seq,
            Err(at) => {
                readers.insert(at, reader);
                // So the work for each newcomer does not grow with the number of readers.
                if readers.len() >= MANY_READERS && readers.len().is_power_of_two() {
                    readers.retain(|known| is_there(known.session));
                }
            }
        }
        forgotten
    }

    /// Finds the sessions that are to be told that a key has changed, and forgets that they have read it.
    fn changed(&mut self, sessions: &mut Sessions, key: &Blob, told: &mut Told) {
        if database_of(key).is_none() {
            return;
        }
        let name = shown(key);
        if let Some(readers) = self.readers.get_mut(key) {
            readers.retain(|reader| told.reader(sessions, *reader, &name));
            if readers.is_empty() {
                self.readers.swap_remove(key);
            }
        }
        for (prefix, ids) in &self.prefixes {
            if name.starts_with(prefix) {
                ids.iter().for_each(|id| told.add(*id, &name));
            }
        }
    }
}

/// Names of changed keys for each session that is to be told.
#[derive(Default)]
struct Told(BTreeMap<SessionId, BTreeSet<Blob>>);

impl Told {
    fn add(&mut self, id: SessionId, name: &Blob) {
        self.0.entry(id).or_default().insert(name.clone());
    }

    /// Tells a session that has read a key. Whether it stays a reader: its reply is not sent, so that it is
    /// told again afterwards.
    fn reader(&mut self, sessions: &mut Sessions, reader: KeyReader, name: &Blob) -> bool {
        let Some(session) = sessions.get_mut(reader.session.0) else { return false };
        let waits = reader.seq >= session.base;
        let Some(tracker) = &mut session.about.tracker else { return false };
        self.add(reader.session, name);
        if waits {
            tracker.tell_again(reader.seq, Some(name));
        }
        waits
    }
}

/// Message that keys have changed, or all of them, in the form of RESP3.
fn invalidation(names: Option<&[Blob]>) -> Reply {
    Reply::Push(vec![Reply::bulk("invalidate"), names_or_all(names)])
}

/// Message that keys have changed, or all of them, as that of a channel, which RESP2 has.
fn published(names: Option<&[Blob]>) -> Reply {
    let channel = Reply::bulk("__redis__:invalidate");
    Reply::Push(vec![Reply::bulk("message"), channel, names_or_all(names)])
}

fn names_or_all(names: Option<&[Blob]>) -> Reply {
    names.map_or(Reply::Nil, |names| {
        Reply::Array(names.iter().map(|name| Reply::Bulk(name.clone())).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Blob {
        Blob::from(number.to_string().as_str())
    }

    #[test]
    fn the_keys_that_are_remembered_are_bounded() {
        let mut tracking = Tracking::default();
        let reader = |seq| KeyReader { session: SessionId(1), seq };
        for number in 0..TRACKED_KEYS_MAX {
            assert_eq!(tracking.reads(key(number), reader(0), |_| true), None);
        }
        assert_eq!(tracking.reads(key(7), reader(1), |_| true), None, "it is known");
        let (forgotten, readers) =
            tracking.reads(key(TRACKED_KEYS_MAX), reader(2), |_| true).unwrap();
        assert_eq!((forgotten, &readers[..]), (key(1), &[reader(0)][..]));
        let (forgotten, _) =
            tracking.reads(key(TRACKED_KEYS_MAX + 1), reader(3), |_| true).unwrap();
        assert_eq!(forgotten, key(2), "the newest stay");
        assert_eq!(tracking.readers.len(), TRACKED_KEYS_MAX);
    }

    #[test]
    fn readers_that_are_gone_are_forgotten() {
        let mut tracking = Tracking::default();
        for session in (0..1_000).map(SessionId) {
            tracking.reads(key(1), KeyReader { session, seq: 0 }, |known| known == session);
            assert!(tracking.readers[&key(1)].len() < MANY_READERS);
        }
        for session in (0..1_000).rev().map(SessionId) {
            tracking.reads(key(2), KeyReader { session, seq: 0 }, |_| true);
        }
        assert!(tracking.readers[&key(2)].is_sorted_by_key(|reader| reader.session));
        assert_eq!(tracking.readers[&key(2)].len(), 1_000);
    }

    #[test]
    fn what_is_told_again_is_bounded_and_in_the_end_all() {
        let mut tracker = Tracker {
            scope: Scope::Reads,
            redirect: None,
            broken: false,
            no_loop: false,
            caching: None,
            queued: Vec::new(),
            seen: Vec::new(),
            again: Vec::new(),
        };
        tracker.tell_again(3, Some(&key(1)));
        tracker.tell_again(3, Some(&key(1)));
        tracker.tell_again(4, Some(&key(2)));
        assert!(!tracker.is_due(3) && tracker.is_due(4));
        assert_eq!(tracker.take_again(4), [Some(key(1))]);
        assert_eq!(tracker.take_again(5), [Some(key(2))]);
        for number in 0..=AGAIN_MAX {
            tracker.tell_again(number as u64, Some(&key(number)));
        }
        assert_eq!(tracker.take_again(AGAIN_MAX as u64), []);
        assert_eq!(tracker.take_again(AGAIN_MAX as u64 + 1), [None], "all keys");
    }
}
