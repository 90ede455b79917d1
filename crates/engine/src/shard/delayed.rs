//! Requests that wait for the log, or for an earlier request of their session.

use crate::ids::{GatewayId, MachineId, Token, TxnId};
use crate::message::{Body, Request};
use crate::pipeline::bundles::Disturbance;
use std::collections::VecDeque;

/// A request that waits until a log entry is applied.
#[derive(Debug)]
struct Late {
    /// Number of the entry.
    entry: u64,
    request: Request,
    /// Whether the removal of what had expired when the request came is in the log up to that entry.
    reaped: bool,
}

/// Requests that wait for the log, or for an earlier request of their session.
#[derive(Debug, Default)]
pub(in crate::shard) struct Delayed {
    /// Requests that wait until a log entry is applied.
    after: VecDeque<Late>,
    /// Requests that must not overtake another one of their session, which waits.
    behind: VecDeque<Request>,
}

impl Delayed {
    /// Delays a request until a log entry is applied.
    pub fn until_applied(&mut self, entry: u64, request: Request) {
        self.after.push_back(Late { entry, request, reaped: false });
    }

    /// Delays a read until a log entry is applied by which everything is removed that has expired. It is then
    /// answered whatever else has expired by that time: it could wait for ever otherwise.
    pub fn until_reaped(&mut self, entry: u64, request: Request) {
        self.after.push_back(Late { entry, request, reaped: true });
    }

    /// Delays a request until the one of its session that it names has gone ahead.
    pub fn follow(&mut self, request: Request) {
        self.behind.push_back(request);
    }

    /// Takes the next request whose log entry is applied, and whether it has waited for the removal of what
    /// had expired.
    pub fn next_applied(&mut self, applied: u64) -> Option<(Request, bool)> {
        let due = self.after.front().is_some_and(|late| late.entry <= applied);
        if due { self.after.pop_front().map(|late| (late.request, late.reaped)) } else { None }
    }

    /// Takes the prepare of a transaction, if it waits for a log entry.
    pub fn take_prepare(&mut self, txn: TxnId) -> Option<Request> {
        let is = |request: &Request| match &request.body {
            Body::Prepare { prepare, .. } => prepare.txn == txn,
            _ => false,
        };
        let at = self.after.iter().position(|late| is(&late.request))?;
        self.after.remove(at).map(|late| late.request)
    }

    /// Takes all requests that wait for others of their sessions.
    pub fn take_followers(&mut self) -> VecDeque<Request> {
        std::mem::take(&mut self.behind)
    }

    /// Whether a request that was taken is among these.
    pub fn holds_up(&self, gateway: GatewayId, token: Token) -> bool {
        let is = |request: &Request| request.gateway == gateway && request.token.is_again(token);
        self.behind.iter().any(is) || self.waiting().any(is)
    }

    /// Requests that wait for log entries.
    pub fn waiting(&self) -> impl Iterator<Item = &Request> {
        self.after.iter().map(|late| &late.request)
    }

    /// Whether parts of bundles might have to wait for what one of these requests begins. While it waits,
    /// none may enter the inbox: the request would come before them there, and behind their other parts
    /// elsewhere.
    pub fn disturbs(&self, reason: Disturbance) -> bool {
        let disturbs = |request: &Request| request.body.disturbance() == Some(reason);
        self.waiting().any(disturbs) || self.behind.iter().any(disturbs)
    }

    /// Number of requests.
    pub fn count(&self) -> usize {
        self.after.len() + self.behind.len()
    }

    /// Drops the requests of a machine.
    pub fn drop_of(&mut self, machine: MachineId) {
        self.after.retain(|late| late.request.gateway.machine != machine);
        self.behind.retain(|request| request.gateway.machine != machine);
    }

    /// All requests, those that wait for the log first.
    pub fn into_requests(self) -> impl Iterator<Item = Request> {
        self.after.into_iter().map(|late| late.request).chain(self.behind)
    }
}
