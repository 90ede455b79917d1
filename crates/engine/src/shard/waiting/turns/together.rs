//! Those who wait at a barrier: they go on together, as soon as enough have come.
//!
//! Who has come is the leader's memory, as who waits for a lock is. When there are enough, each goes into
//! the log by itself, with its own request number, but all into one entry, one behind the other: an entry
//! is there for good or not at all, so that nobody goes on without the others, and what was not there is
//! waited for again at the next leader. The next ones do not set out before these are back: whoever asks
//! again for what is on its way is told then, and not taken for somebody else who has come.

use crate::entry::LogRecord;
use crate::ids::RequestId;
use crate::message::{Body, Request};
use crate::now::Now;
use crate::shard::RecipientKind;
use crate::shard::waiting::turns::{Number, Recipient, Shard, TurnQueues, WaitingTurn};
use adt::{Blob, ErrorReply};
use smallvec::SmallVec;
use std::collections::BTreeSet;

impl TurnQueues {
    /// The error for somebody who cannot wait together with those who wait already.
    pub(in crate::shard::waiting::turns) fn stranger(
        &self,
        turn: &WaitingTurn,
    ) -> Option<ErrorReply> {
        let first = self.waiting(turn.key()).next()?;
        match (first.op().parties(), turn.op().parties()) {
            (those, it) if those == it => None,
            (Some(those), Some(it)) => Some(ErrorReply::err(format!(
                "those who wait at this barrier wait for {those} parties, and not for {it}"
            ))),
            _ => Some(ErrorReply::wrong_type()),
        }
    }

    /// Those who can go on together. Who asks twice under one request number has come once.
    fn party(&self, key: &Blob) -> Option<SmallVec<[Number; 8]>> {
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
        (party.len() == parties).then_some(party)
    }
}

impl Shard {
    /// Those who wait at a barrier go on, if enough have come.
    pub(in crate::shard::waiting::turns) fn go_on_together(&mut self, now: Now, key: &Blob) {
        let Some(party) = self.turns.party(key) else { return };
        let Some(first) = party.first().and_then(|number| self.turns.turns.get(number)) else {
            return;
        };
        let body = Body::Await { apply: first.apply.clone(), timeout_ms: first.timeout_ms };
        let (gateway, token) = (first.gateway, first.token);
        // Transactions may hold the record. It is looked again soon.
        if !self.may_apply(now, &Request { gateway, token, after: None, body }) {
            return;
        }
        self.core.tail.make_room(party.len());
        for (in_front, number) in party.into_iter().enumerate() {
            let Some(Request { gateway, token, body, .. }) = self.turns.set_out(number) else {
                continue;
            };
            let Body::Await { mut apply, .. } = body else { continue };
            let (_, op) = &mut apply.ops[0];
            if let Some(together) = op.together(in_front as u32) {
                *op = together;
            }
            let kind = RecipientKind::Turn;
            self.core.log(LogRecord::Apply(apply), Recipient { gateway, token, kind });
            self.turns.has_place(gateway, token);
        }
    }
}
