//! Requests that wait for an element (`BLPOP` and its family).
//!
//! A waiter holds no lock. When its key gets something, the first waiter in line is notified, once, and
//! the key is kept for it. It then tries, and either ends its wait everywhere or comes back to its old
//! place. A waiter that comes back has found nothing that it could take: the next one, which may wait
//! for another type, is notified then, and the first one again when the key has changed. If the shard
//! knows what a waiter takes it may take that itself: see [`crate::shard::waiting::serving`].

use crate::ids::{GatewayId, MachineId, Token};
use crate::limits::BLOCKED_MAX;
use crate::message::Takes;
use crate::shard::state::State;
use adt::{Attempt, Blob, Reply};
use std::collections::{BTreeMap, VecDeque};

pub(in crate::shard) type Who = (GatewayId, Token);

/// What a waiter knows of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knows {
    /// Not how it is now.
    Nothing,
    /// It was told that there is something, and tries to take it; whether the key has changed since.
    Told { changed: bool },
    /// There was nothing for it.
    Enough,
}

/// What is in the log for a waiter, and how its reply comes of what that answers.
#[derive(Debug)]
pub enum Gets {
    /// An element of this key.
    Taken(Blob, fn(&Blob, Reply) -> Reply),
    /// What was moved: the last operation answers it.
    Moved,
    /// The error of the last operation: it cannot be moved to where it belongs.
    Refused,
}

#[derive(Debug)]
struct Waiter {
    keys: Vec<Blob>,
    takes: Option<Takes>,
    gets: Option<Gets>,
    /// It ends as soon as it is known whether it gets what is in the log for it.
    leaves: bool,
}

/// A key that is kept for the waiter that was told of it.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct Kept {
    /// The waiter; none while what the first one will be told of is in the log.
    pub who: Option<Who>,
    /// The entry in which that is.
    pub entry: u64,
    /// Until when, in monotonic microseconds; not any more, if there is none.
    pub until_us: Option<u64>,
}

/// What becomes of a wait that is to end.
#[derive(Debug, PartialEq)]
pub(in crate::shard) enum Left {
    /// It has ended.
    Now,
    /// It has ended, and that is to be answered.
    Answered,
    /// Something is in the log for it.
    Later,
}

/// Waiters by key, in order of arrival.
#[derive(Debug, Default)]
pub struct Blocked {
    queues: BTreeMap<Blob, VecDeque<(Who, Knows)>>,
    waiters: BTreeMap<Who, Waiter>,
    /// The waiters that were told, and have not come back.
    told: BTreeMap<Blob, Who>,
    pub(in crate::shard) kept: BTreeMap<Blob, Kept>,
}

impl Blocked {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Whether a wait is registered.
    pub fn knows(&self, gateway: GatewayId, token: Token) -> bool {
        self.waiters.contains_key(&(gateway, token))
    }

    /// Whether another one can wait.
    pub fn has_room(&self) -> bool {
        self.waiters.len() < BLOCKED_MAX
    }

    /// Whether a request waits for a key.
    pub fn waits_for(&self, key: &Blob) -> bool {
        self.queues.contains_key(key)
    }

    /// The waiter that was told that a key holds something.
    pub fn told(&self, key: &Blob) -> Option<Who> {
        self.told.get(key).copied()
    }

    /// The one at a place in the queue of a key, if it can be served there, with how it takes from the key.
    /// None can be, as long as one was told.
    pub fn in_line(&self, key: &Blob, place: usize) -> Option<(Who, Option<&Attempt>)> {
        if self.told(key).is_some() {
            return None;
        }
        let (who, _) = self.queues.get(key)?.get(place)?;
        let waiter = self.waiters.get(who)?;
        // It is told of another key, or has something in the log.
        let tries = waiter.keys.iter().any(|k| self.told(k) == Some(*who));
        if tries || waiter.gets.is_some() {
            return Some((*who, None));
        }
        let takes = waiter.takes.as_ref();
        let number = waiter.keys.iter().position(|k| k == key)?;
        Some((*who, takes.and_then(|takes| takes.0.get(number))))
    }

    /// Whether one that waits for a key has nothing in the log.
    pub fn has_free(&self, key: &Blob) -> bool {
        let mut queue = self.queues.get(key).into_iter().flatten();
        queue.any(|(who, _)| !self.has_got(*who))
    }

    /// Whether something is in the log for a waiter.
    pub fn has_got(&self, who: Who) -> bool {
        self.waiters.get(&who).is_some_and(|waiter| waiter.gets.is_some())
    }

    /// Something is in the log for a waiter.
    pub fn gets(&mut self, who: Who, gets: Gets) {
        if let Some(waiter) = self.waiters.get_mut(&who) {
            waiter.gets = Some(gets);
        }
    }

    /// What was in the log for a waiter is carried out; also tells whether it is to end in any case.
    pub fn got(&mut self, who: Who) -> Option<(Gets, bool)> {
        let waiter = self.waiters.get_mut(&who)?;
        Some((waiter.gets.take()?, waiter.leaves))
    }

    /// Registers a wait for which there is room, or revives one whose attempt found nothing. Tells whom to
    /// notify at once.
    pub fn block(
        &mut self,
        gateway: GatewayId,
        token: Token,
        (keys, takes): (&[Blob], Option<Takes>),
        state: &State,
    ) -> Vec<(GatewayId, Token, Blob)> {
        let who = (gateway, token);
        let waiter = || Waiter { keys: keys.to_vec(), takes, gets: None, leaves: false };
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
        keys.iter().filter_map(|key| self.ready(key, state)).collect()
    }

    /// Ends a wait; gives the keys whose next waiter may now have a turn.
    pub fn unblock(&mut self, gateway: GatewayId, token: Token) -> Vec<Blob> {
        let who = (gateway, token);
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

    /// What becomes of a wait that is to end: [`Blocked::unblock`] ends it, unless it ends later.
    pub fn leave(&mut self, who: Who) -> Left {
        match self.waiters.get_mut(&who) {
            Some(waiter) if waiter.gets.is_some() => {
                waiter.leaves = true;
                Left::Later
            }
            Some(Waiter { takes: Some(_), .. }) => Left::Answered,
            _ => Left::Now,
        }
    }

    /// Ends the waits of a machine's gateways; gives the keys whose next waiter may have a turn.
    pub fn forget(&mut self, machine: MachineId) -> Vec<Blob> {
        let gone: Vec<Who> =
            self.waiters.keys().filter(|(g, _)| g.machine == machine).copied().collect();
        gone.into_iter().flat_map(|(gateway, token)| self.unblock(gateway, token)).collect()
    }

    /// `key` has changed. Tells whom to notify.
    pub fn changed(&mut self, key: &Blob, state: &State) -> Option<(GatewayId, Token, Blob)> {
        for (_, knows) in self.queues.get_mut(key)? {
            *knows = match knows {
                Knows::Told { .. } => Knows::Told { changed: true },
                Knows::Nothing | Knows::Enough => Knows::Nothing,
            };
        }
        self.ready(key, state)
    }

    /// Whom to tell that `key` holds something: the first in line who does not know it, unless
    /// somebody is trying already.
    pub fn ready(&mut self, key: &Blob, state: &State) -> Option<(GatewayId, Token, Blob)> {
        state.get(key)?;
        let queue = self.queues.get_mut(key)?;
        if self.told.contains_key(key) {
            return None;
        }
        let free = |who: &Who| self.waiters.get(who).is_some_and(|waiter| waiter.gets.is_none());
        let ((gateway, token), knows) =
            queue.iter_mut().find(|(who, knows)| *knows == Knows::Nothing && free(who))?;
        *knows = Knows::Told { changed: false };
        self.told.insert(key.clone(), (*gateway, *token));
        Some((*gateway, *token, key.clone()))
    }
}
