//! Requests that wait for something to take (`BLPOP` and its family).
//!
//! A waiter holds no lock. When its key gets something, the first in line is told, once; it then
//! tries, and either ends its wait everywhere or comes back to its old place.

use super::apply::State;
use crate::limits::BLOCKED_MAX;
use crate::message::{GatewayId, MachineId, Token};
use adt::Blob;
use std::collections::{BTreeMap, VecDeque};

type Who = (GatewayId, Token);

/// Waiters by key, in order of arrival.
#[derive(Debug, Default)]
pub struct Blocked {
    queues: BTreeMap<Blob, VecDeque<(Who, bool)>>,
    keys: BTreeMap<Who, Vec<Blob>>,
}

impl Blocked {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Registers a wait, or revives one whose attempt found nothing. Tells whom to notify at once.
    pub fn block(
        &mut self,
        gateway: GatewayId,
        token: Token,
        keys: &[Blob],
        state: &State,
    ) -> Option<(GatewayId, Token, Blob)> {
        let who = (gateway, token);
        if !self.keys.contains_key(&who) && self.keys.len() < BLOCKED_MAX {
            self.keys.insert(who, keys.to_vec());
        }
        for key in keys {
            let queue = self.queues.entry(key.clone()).or_default();
            match queue.iter_mut().find(|(w, _)| *w == who) {
                Some((_, notified)) => *notified = false,
                None => queue.push_back((who, false)),
            }
        }
        keys.iter().find_map(|key| self.ready(key, state))
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

    /// Whom to tell that `key` holds something: the first in line, unless one is trying already.
    pub fn ready(&mut self, key: &Blob, state: &State) -> Option<(GatewayId, Token, Blob)> {
        state.get(key)?;
        let queue = self.queues.get_mut(key)?;
        if queue.iter().any(|(_, notified)| *notified) {
            return None;
        }
        let ((gateway, token), notified) = queue.front_mut()?;
        *notified = true;
        Some((*gateway, *token, key.clone()))
    }
}
