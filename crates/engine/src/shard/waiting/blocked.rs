//! Requests that wait for something to take (`BLPOP` and its family).
//!
//! A waiter holds no lock. When its key gets something, the first in line is told, once; it then
//! tries, and either ends its wait everywhere or comes back to its old place. Whoever has come back
//! has found nothing that it could take, whatever the key holds: the next one is told then, who may
//! wait for another type, and it is told itself again when the key has changed.

use crate::limits::BLOCKED_MAX;
use crate::message::{GatewayId, MachineId, Token};
use crate::shard::state::State;
use adt::Blob;
use std::collections::{BTreeMap, VecDeque};

type Who = (GatewayId, Token);

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

/// Waiters by key, in order of arrival.
#[derive(Debug, Default)]
pub struct Blocked {
    queues: BTreeMap<Blob, VecDeque<(Who, Knows)>>,
    keys: BTreeMap<Who, Vec<Blob>>,
}

impl Blocked {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether a wait is registered.
    pub fn knows(&self, gateway: GatewayId, token: Token) -> bool {
        self.keys.contains_key(&(gateway, token))
    }

    /// Registers a wait, or revives one whose attempt found nothing. Tells whom to notify at once.
    pub fn block(
        &mut self,
        gateway: GatewayId,
        token: Token,
        keys: &[Blob],
        state: &State,
    ) -> Vec<(GatewayId, Token, Blob)> {
        let who = (gateway, token);
        if !self.keys.contains_key(&who) && self.keys.len() < BLOCKED_MAX {
            self.keys.insert(who, keys.to_vec());
        }
        for key in keys {
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
        let keys = self.keys.remove(&who).unwrap_or_default();
        for key in &keys {
            if let Some(queue) = self.queues.get_mut(key) {
                queue.retain(|(w, _)| *w != who);
                if queue.is_empty() {
                    self.queues.remove(key);
                }
            }
        }
        keys
    }

    /// Ends the waits of a machine's gateways; gives the keys whose next waiter may have a turn.
    pub fn forget(&mut self, machine: MachineId) -> Vec<Blob> {
        let gone: Vec<Who> =
            self.keys.keys().filter(|(g, _)| g.machine == machine).copied().collect();
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
        if queue.iter().any(|(_, knows)| matches!(knows, Knows::Told { .. })) {
            return None;
        }
        let ((gateway, token), knows) =
            queue.iter_mut().find(|(_, knows)| *knows == Knows::Nothing)?;
        *knows = Knows::Told { changed: false };
        Some((*gateway, *token, key.clone()))
    }
}
