//! Requests that wait for an element (`BLPOP` and its family).
//!
//! A waiter holds no lock. When its key gets something, the first waiter in line is notified, once, and
//! the key is kept for it. It then tries, and either ends its wait everywhere or comes back to its old
//! place. A waiter that comes back has found nothing that it could take: the next one, which may wait
//! for another type, is notified then, and the first one again when the key has changed. If the shard
//! knows what a waiter takes it may take that itself: see [`crate::shard::waiting::serving`].

use super::room::WaitingRoom;
use crate::ids::{GatewayId, MachineId, Token, TxnId};
use crate::limits::BLOCKED_MAX;
use crate::message::{Answer, Notice, Refusal, Takes};
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::state::State;
use adt::{Attempt, Blob, Reply};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

pub(super) type Who = (GatewayId, Token);

/// Knowledge of a waiter about the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knows {
    /// None about the present value.
    Nothing,
    /// The notification was sent, and the waiter tries to take something; whether the key has changed since.
    Told { changed: bool },
    /// There was nothing for it.
    Enough,
}

/// How the reply of a waiter follows from the answer to the record that is in the log for it.
#[derive(Debug)]
pub(super) enum Gets {
    /// An element of this key.
    Taken(Blob, fn(&Blob, Reply) -> Reply),
    /// The moved element: the last operation answers it.
    Moved,
    /// The error of the last operation: the element cannot be moved to its target.
    Refused,
}

#[derive(Debug)]
struct ElementWaiter {
    keys: Vec<Blob>,
    takes: Option<Takes>,
    gets: Option<Gets>,
    /// The wait ends as soon as the result of the record in the log is known.
    leaves: bool,
}

/// A key that is kept for a notified waiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptKey {
    /// The waiter; none while the element that the first one will be notified of is in the log.
    pub who: Option<Who>,
    /// The entry with that element.
    pub entry: u64,
    /// Until when, in monotonic microseconds; not any more, if there is none.
    pub until_us: Option<u64>,
}

/// Waiters by key, in order of arrival.
#[derive(Debug, Default)]
pub(in crate::shard) struct Blocked {
    queues: BTreeMap<Blob, VecDeque<(Who, Knows)>>,
    waiters: BTreeMap<Who, ElementWaiter>,
    /// Notified waiters that have not come back.
    told: BTreeMap<Blob, Who>,
    pub(super) kept: BTreeMap<Blob, KeptKey>,
}

impl Blocked {
    /// Whether a request waits for a key.
    pub(super) fn waits_for(&self, key: &Blob) -> bool {
        self.queues.contains_key(key)
    }

    /// The waiter that was notified that a key holds something.
    pub(super) fn told(&self, key: &Blob) -> Option<Who> {
        self.told.get(key).copied()
    }

    /// The waiter at a position in the queue of a key, if it can be served there, with how it takes from the
    /// key. None can be served while a notified one has not come back.
    pub(super) fn in_line(&self, key: &Blob, position: usize) -> Option<(Who, Option<&Attempt>)> {
        if self.told(key).is_some() {
            return None;
        }
        let (who, _) = self.queues.get(key)?.get(position)?;
        let waiter = self.waiters.get(who)?;
        // It was notified of another key, or has something in the log.
        let tries = waiter.keys.iter().any(|k| self.told(k) == Some(*who));
        if tries || waiter.gets.is_some() {
            return Some((*who, None));
        }
        let takes = waiter.takes.as_ref();
        let number = waiter.keys.iter().position(|k| k == key)?;
        Some((*who, takes.and_then(|takes| takes.0.get(number))))
    }

    /// Whether a waiter for a key has nothing in the log.
    pub(super) fn has_free(&self, key: &Blob) -> bool {
        let mut queue = self.queues.get(key).into_iter().flatten();
        queue.any(|(who, _)| !self.has_got(*who))
    }

    /// Whether a record for a waiter is in the log.
    pub(super) fn has_got(&self, who: Who) -> bool {
        self.waiters.get(&who).is_some_and(|waiter| waiter.gets.is_some())
    }

    /// Notes a record in the log for a waiter.
    pub(super) fn gets(&mut self, who: Who, gets: Gets) {
        if let Some(waiter) = self.waiters.get_mut(&who) {
            waiter.gets = Some(gets);
        }
    }

    /// Takes the note out: the record is carried out. Also tells whether the wait is to end in any case.
    pub(super) fn got(&mut self, who: Who) -> Option<(Gets, bool)> {
        let waiter = self.waiters.get_mut(&who)?;
        Some((waiter.gets.take()?, waiter.leaves))
    }

    /// Registers a request that waits for something to take, or revives one whose attempt found nothing.
    pub fn block(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        who: Who,
        (keys, takes): (&[Blob], Option<Takes>),
    ) {
        if !self.waiters.contains_key(&who) {
            if self.is_full() {
                core.stats.refused += 1;
                return core.answer(who.0, who.1, Answer::Refused(Refusal::Busy));
            }
            core.notice(who.0, who.1, Notice::Blocked { txn: TxnId::default() });
        }
        if takes.is_some() {
            // What waiters take rests on operations on their way.
            core.track(now);
        }
        self.enqueue(who, keys, takes);
        for key in keys {
            self.notify_ready(core, key);
        }
        keys.iter().for_each(|key| self.keep_for_told(core, now, key, true));
    }

    fn enqueue(&mut self, who: Who, keys: &[Blob], takes: Option<Takes>) {
        let waiter = || ElementWaiter { keys: keys.to_vec(), takes, gets: None, leaves: false };
        self.waiters.entry(who).or_insert_with(waiter);
        for key in keys {
            if self.told.get(key) == Some(&who) {
                self.told.remove(key);
            }
            let queue = self.queues.entry(key.clone()).or_default();
            match queue.iter_mut().find(|(w, _)| *w == who) {
                Some((_, knows @ Knows::Told { changed: false })) => *knows = Knows::Enough,
                Some((_, knows @ Knows::Told { changed: true })) => *knows = Knows::Nothing,
                Some(_) => {}
                None => queue.push_back((who, Knows::Nothing)),
            }
        }
    }

    /// Ends the wait of a client that has left, or lets it end as soon as the result of the record in the
    /// log for it is known.
    pub fn leave(&mut self, core: &mut ShardCore, now: Now, who: Who) {
        match self.waiters.get_mut(&who) {
            Some(waiter) if waiter.gets.is_some() => {
                waiter.leaves = true;
                return;
            }
            Some(ElementWaiter { takes: Some(_), .. }) => {
                core.answer(who.0, who.1, Answer::Replies(SmallVec::new()));
            }
            _ => {}
        }
        self.end(core, now, who);
    }

    /// Ends a wait: the next waiters of its keys may have a turn.
    pub(super) fn end(&mut self, core: &mut ShardCore, now: Now, who: Who) {
        let keys = self.remove(who);
        self.freed(core, now, keys);
    }

    /// Removes a waiter. Gives its keys.
    fn remove(&mut self, who: Who) -> Vec<Blob> {
        let keys = self.waiters.remove(&who).map(|waiter| waiter.keys).unwrap_or_default();
        for key in &keys {
            if self.told.get(key) == Some(&who) {
                self.told.remove(key);
            }
            if let Some(queue) = self.queues.get_mut(key) {
                queue.retain(|(w, _)| *w != who);
                if queue.is_empty() {
                    self.queues.remove(key);
                }
            }
        }
        keys
    }

    /// Gives the next waiters of keys a turn: waits for these have ended.
    fn freed(&mut self, core: &mut ShardCore, now: Now, keys: Vec<Blob>) {
        for key in keys {
            self.notify_ready(core, &key);
            self.keep_for_told(core, now, &key, false);
        }
    }

    /// Notifies a waiter of a key that has changed.
    pub fn changed(&mut self, core: &mut ShardCore, now: Now, key: &Blob) {
        if let Some(queue) = self.queues.get_mut(key) {
            for (_, knows) in queue {
                *knows = match knows {
                    Knows::Told { .. } => Knows::Told { changed: true },
                    Knows::Nothing | Knows::Enough => Knows::Nothing,
                };
            }
            self.notify_ready(core, key);
        }
        self.keep_for_told(core, now, key, false);
    }

    /// Notifies the next waiter if a key holds something.
    fn notify_ready(&mut self, core: &mut ShardCore, key: &Blob) {
        if let Some((gateway, token)) = self.ready(key, &core.state) {
            core.notice(gateway, token, Notice::Ready { key: key.clone() });
        }
    }

    /// The waiter to notify that `key` holds something: the first in line that does not know it, unless
    /// another one is trying already.
    fn ready(&mut self, key: &Blob, state: &State) -> Option<Who> {
        state.get(key)?;
        let queue = self.queues.get_mut(key)?;
        if self.told.contains_key(key) {
            return None;
        }
        let free = |who: &Who| self.waiters.get(who).is_some_and(|waiter| waiter.gets.is_none());
        let (who, knows) =
            queue.iter_mut().find(|(who, knows)| *knows == Knows::Nothing && free(who))?;
        *knows = Knows::Told { changed: false };
        self.told.insert(key.clone(), *who);
        Some(*who)
    }
}

impl WaitingRoom for Blocked {
    fn limit(&self) -> usize {
        BLOCKED_MAX
    }

    fn len(&self) -> usize {
        self.waiters.len()
    }

    /// When the first kept key is let go.
    fn next_us(&self, _core: &ShardCore, _now: Now) -> Option<u64> {
        self.kept.values().filter_map(|kept| kept.until_us).min()
    }

    fn forget(&mut self, core: &mut ShardCore, now: Now, machine: MachineId) {
        let gone = self.waiters.keys().filter(|(gateway, _)| gateway.machine == machine);
        let gone: Vec<Who> = gone.copied().collect();
        let keys: Vec<Blob> = gone.into_iter().flat_map(|who| self.remove(who)).collect();
        self.freed(core, now, keys);
    }

    /// Forgets the waiters: their gateways register them again at the next leader.
    fn end_lead(&mut self, core: &mut ShardCore) {
        *self = Self::default();
        core.foreseen.clear();
    }
}
