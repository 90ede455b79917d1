//! Waits at a barrier: the parties go on together, as soon as enough have come.
//!
//! The parties are in the leader's memory, as the queues of locks are. When there are enough, each goes into
//! the log by itself, with its own request number, but all into one entry, one behind the other: an entry
//! is there for good or not at all, so that no party goes on without the others, and parties that were not in
//! it wait again at the next leader. The next parties do not set out before these are back: a client that
//! repeats a request which is on its way is answered then, and does not count as another party.

use super::{Number, Turn, TurnQueues};
use crate::entry::LogRecord;
use crate::ids::RequestId;
use crate::message::{Body, Request};
use crate::shard::core::ShardCore;
use crate::shard::tail::{Recipient, RecipientKind};
use adt::{Blob, ErrorReply};
use smallvec::SmallVec;
use std::collections::BTreeSet;

impl TurnQueues {
    /// The error for a turn that cannot wait together with those that wait already.
    pub(super) fn stranger(&self, turn: &Turn) -> Option<ErrorReply> {
        let first = self.waiting(turn.key()).next()?;
        match (first.op().parties(), turn.op().parties()) {
            (those, it) if those == it => None,
            (Some(those), Some(it)) => Some(ErrorReply::err(format!(
                "those who wait at this barrier wait for {those} parties, and not for {it}"
            ))),
            _ => Some(ErrorReply::wrong_type()),
        }
    }

    /// The parties at a barrier that can go on together, with the request of the first one. A client that
    /// asks twice under one request number counts once.
    pub fn party(&self, key: &Blob) -> Option<(SmallVec<[Number; 8]>, Request)> {
        let queue = self.queues.get(key).filter(|queue| queue.going == 0)?;
        let first = self.turns.get(queue.waiting.first()?)?;
        let parties = first.op().parties()? as usize;
        if queue.waiting.len() < parties {
            return None;
        }
        let mut asked: BTreeSet<&RequestId> = BTreeSet::new();
        let came = queue.waiting.iter().copied().filter(|number| {
            let request = self.turns.get(number).and_then(|turn| turn.apply.request.as_ref());
            request.is_none_or(|request| asked.insert(request))
        });
        let party: SmallVec<[Number; 8]> = came.take(parties).collect();
        let (gateway, token, body) = (first.gateway, first.token, first.body());
        let request = Request { gateway, token, after: None, body };
        (party.len() == parties).then_some((party, request))
    }

    /// Logs the operations of the parties at a barrier.
    pub fn go_on_together(&mut self, core: &mut ShardCore, party: &[Number]) {
        core.tail.make_room(party.len());
        for (in_front, number) in party.iter().enumerate() {
            let Some(Request { gateway, token, body, .. }) = self.set_out(*number) else {
                continue;
            };
            let Body::Await { mut apply, .. } = body else { continue };
            let (_, op) = &mut apply.ops[0];
            if let Some(together) = op.together(in_front as u32) {
                *op = together;
            }
            let kind = RecipientKind::Turn;
            core.log(LogRecord::Apply(apply), Recipient { gateway, token, kind });
            self.has_place(gateway, token);
        }
    }
}
