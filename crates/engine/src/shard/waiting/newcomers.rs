//! Requests that wait until units of an earlier leader have their places: see [`Streams::keeps_out`].
//!
//! [`Streams::keeps_out`]: crate::shard::streams::Streams::keeps_out

use super::room::WaitingRoom;
use crate::ids::{MachineId, TxnId};
use crate::message::{Answer, Body, Refusal, Request};
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::streams::is_own;

/// Requests that wait until units of an earlier leader have their places.
#[derive(Debug, Default)]
pub(in crate::shard) struct Newcomers(Vec<Request>);

impl Newcomers {
    /// Holds a request.
    pub fn hold(&mut self, request: Request) {
        self.0.push(request);
    }

    /// Takes all requests out.
    pub fn take(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.0)
    }

    /// Takes the requests out that `is` accepts.
    pub fn take_if(&mut self, is: impl Fn(&Request) -> bool) -> Vec<Request> {
        let (taken, held) = self.take().into_iter().partition(is);
        self.0 = held;
        taken
    }

    /// Refuses the prepare of a transaction.
    pub fn refuse(&mut self, core: &mut ShardCore, txn: TxnId, why: Refusal) {
        let of_it = |request: &Request| match &request.body {
            Body::Prepare { prepare, .. } => prepare.txn == txn,
            _ => false,
        };
        for request in self.take_if(of_it) {
            core.answer(request.gateway, request.token, Answer::Refused(why));
        }
    }
}

impl WaitingRoom for Newcomers {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn forget(&mut self, _core: &mut ShardCore, _now: Now, machine: MachineId) {
        self.0.retain(|request| request.gateway.machine != machine);
    }

    /// Sends the requests to the next leader, but for those of the shard itself.
    fn end_lead(&mut self, core: &mut ShardCore) {
        for request in self.take() {
            if !is_own(&request.body) {
                core.turn_away(request.gateway, request.token, request.body);
            }
        }
    }
}
