//! A cut through all shards: the states that a backup consists of.
//!
//! Every shard stands still until all do, and each keeps the state of that moment as it would for a
//! snapshot. A shard that stands still holds writes back, refuses parts of transactions over several
//! shards, which are tried again, and waits until nothing is prepared or on its way to the log; reads
//! go on. Whoever makes the cut releases the shards when all have said that they stand still, and
//! each says then whether it did so all the time, in the same lead. See "A cut through all shards" in
//! `docs/internals/replication.md`.
//!
//! Nothing of it is in the log. If whoever makes the cut is lost, a shard goes on by itself.

use super::snapshot::Writer;
use crate::coordination::SessionId;
use crate::entry::SnapshotPart;
use crate::ids::{GatewayId, MachineId, Token, TxnId};
use crate::limits::{
    CUT_COPIES_MAX, CUT_IDLE_US_MAX, FREEZE_US_MAX, FROZEN_REQUESTS_MAX, SNAPSHOT_PIECE_BYTES,
};
use crate::message::{Answer, Body, CutStep, Refusal, Request};
use crate::now::Now;
use crate::shard::Shard;
use crate::shard::core::Core;
use crate::shard::locking::manager::LockWaiter;
use adt::{ErrorReply, Reply};
use std::collections::{BTreeSet, VecDeque};

/// Parts that are encoded at once.
const PARTS: usize = 16;

/// The shard's part in a cut.
#[derive(Debug)]
pub(in crate::shard) struct ShardCut {
    number: u64,
    /// While the shard stands still.
    frozen: Option<Frozen>,
    touched_us: u64,
    /// The number of the next piece, and the one before it.
    next: u64,
    last: Vec<u8>,
    /// Bytes that do not belong to a piece yet.
    rest: Vec<u8>,
    complete: bool,
}

#[derive(Debug)]
struct Frozen {
    until_us: u64,
    /// Who is told that nothing is on its way any more; nobody once that is so.
    asked_by: Option<(GatewayId, Token)>,
    held: VecDeque<Request>,
    /// Sessions of the coordination service that have asked for something that is held: whatever they ask
    /// behind it waits as well.
    sessions: BTreeSet<SessionId>,
}

impl ShardCut {
    fn new(number: u64, now: Now, from: (GatewayId, Token)) -> Self {
        let until_us = now.mono_us + FREEZE_US_MAX;
        let asked_by = Some(from);
        let (held, sessions, last, rest) = Default::default();
        let frozen = Some(Frozen { until_us, asked_by, held, sessions });
        let touched_us = now.mono_us;
        Self { number, frozen, touched_us, next: 0, last, rest, complete: false }
    }

    /// Makes the next piece.
    fn advance(
        &mut self,
        of: &mut Option<Writer>,
        mut more: impl FnMut(&mut Writer, &mut Vec<u8>),
    ) {
        while self.rest.len() < SNAPSHOT_PIECE_BYTES
            && let Some(writer) = of
        {
            let before = self.rest.len();
            more(writer, &mut self.rest);
            if self.rest.len() == before {
                *of = None;
            }
        }
        let after = self.rest.split_off(self.rest.len().min(SNAPSHOT_PIECE_BYTES));
        self.last = std::mem::replace(&mut self.rest, after);
        self.next += 1;
        self.complete = self.rest.is_empty() && of.is_none();
    }
}

fn try_again(text: &str) -> Reply {
    ErrorReply::new("TRYAGAIN", text.to_owned()).into()
}

fn gone() -> Reply {
    let text = "this shard does not keep the state of that cut (any more): its leader has changed, \
                nobody asked for long, or too much was changed meanwhile; begin again";
    ErrorReply::new("NOCUT", text).into()
}

impl Shard {
    /// Whether the shard stands still.
    pub fn is_frozen(&self) -> bool {
        self.cut.as_ref().is_some_and(|cut| cut.frozen.is_some())
    }

    /// When something is to be done for a cut, on the monotonic clock in microseconds.
    pub(in crate::shard) fn cut_timeout(&self) -> Option<u64> {
        let cut = self.cut.as_ref()?;
        let idle = cut.touched_us + CUT_IDLE_US_MAX;
        Some(cut.frozen.as_ref().map_or(idle, |frozen| frozen.until_us))
    }

    /// Gives a request back that may be carried out now. Others wait until the shard is released,
    /// in their order, or are refused.
    #[inline]
    pub(in crate::shard) fn hold_back(&mut self, now: Now, request: Request) -> Option<Request> {
        if self.is_frozen() { self.sort(now, request) } else { Some(request) }
    }

    fn sort(&mut self, now: Now, request: Request) -> Option<Request> {
        // Behind what waits for the end of a session, whatever else it waits for.
        let request = self.hold_behind(now, request)?;
        let goes_on = match &request.body {
            Body::Read { fenced, .. } | Body::Snapshot { fenced, .. } => !fenced,
            // What is prepared must be decided for the shard to stand still.
            Body::Decide { .. } | Body::ProbeAck { .. } | Body::Cancel { .. } => true,
            Body::Inquire { txn } => self.locking.is_prepared(*txn),
            Body::Version { .. } => false,
            Body::Cut { .. } => true,
            Body::Coordinate(ask) => ask.only_looks() && !self.holds_of(ask.session()),
            body => body.only_looks(),
        };
        if goes_on {
            return Some(request);
        }
        if let Body::Prepare { prepare, .. } = &request.body
            && prepare.participants.len() > 1
        {
            self.core.stats.refused += 1;
            let refused = Answer::Refused(Refusal::Frozen);
            self.core.answer(request.gateway, request.token, refused);
            return None;
        }
        let frozen = self.cut.as_mut().and_then(|cut| cut.frozen.as_mut())?;
        if let Body::Coordinate(ask) = &request.body {
            frozen.sessions.extend(ask.session());
        }
        let held = &mut frozen.held;
        held.push_back(request);
        if held.len() > FROZEN_REQUESTS_MAX {
            self.drop_cut(now, "too many requests wait");
        }
        None
    }

    /// Whether something waits that a session has asked for.
    fn holds_of(&self, session: Option<SessionId>) -> bool {
        let frozen = self.cut.as_ref().and_then(|cut| cut.frozen.as_ref());
        let of_it = session.zip(frozen);
        of_it.is_some_and(|(session, frozen)| frozen.sessions.contains(&session))
    }

    /// A step that somebody asks for. Pieces are asked for with [`Shard::cut_piece`].
    pub(in crate::shard) fn cut(
        &mut self,
        now: Now,
        from: (GatewayId, Token),
        number: u64,
        step: CutStep,
    ) {
        let reply = match step {
            CutStep::Freeze => match self.freeze(now, from, number) {
                Some(refused) => refused,
                None => return,
            },
            CutStep::Release => self.release(now, number),
            CutStep::Piece(_) => gone(),
            CutStep::End => {
                if self.cut.as_ref().is_some_and(|cut| cut.number == number) {
                    self.drop_cut(now, "it was given up");
                }
                Reply::Ok
            }
        };
        self.core.answer(from.0, from.1, Answer::Reply(reply));
    }

    fn freeze(&mut self, now: Now, from: (GatewayId, Token), number: u64) -> Option<Reply> {
        self.expire_cut(now);
        if let Some(cut) = &self.cut {
            let text = match cut.frozen {
                Some(_) => "another backup begins just now",
                None => "another backup is being taken; if it was broken off, wait half a minute",
            };
            return Some(try_again(text));
        }
        if self.giving.is_some() {
            return Some(try_again("a shard is being split just now"));
        }
        self.cut = Some(ShardCut::new(number, now, from));
        let waits = |waiter: &LockWaiter| match &waiter.request.body {
            Body::Prepare { prepare, .. } if prepare.participants.len() > 1 => Some(prepare.txn),
            _ => None,
        };
        // Elsewhere they may be prepared, and what they wait for may be held back here.
        let waiting: Vec<TxnId> = self.locking.waiting().filter_map(waits).collect();
        for txn in waiting {
            self.refuse_newcomer(txn, Refusal::Frozen);
            self.locking.cancel(&mut self.core, txn, Refusal::Frozen);
        }
        self.refuse_waiting_groups(now);
        None
    }

    /// Nothing is on its way: the state has in it what was ever acknowledged, and no half of
    /// anything.
    fn is_still(&self) -> bool {
        let prepared =
            self.core.state.prepared().is_empty() && self.core.state.unsettled().next().is_none();
        // What an earlier leader has handed on may have taken effect elsewhere.
        let known = !self.streams.is_recovering();
        prepared && known && !self.core.tail.has_unapplied() && !self.locking.commits()
    }

    /// Keeps the state, if the shard stands still by now and nobody has been told.
    #[inline]
    pub(in crate::shard) fn go_on_with_cut(&mut self, now: Now) {
        let Some(cut) = &self.cut else { return };
        let writer = self.core.writers.cut.as_ref();
        if writer.is_some_and(|writer| writer.copies() > CUT_COPIES_MAX) {
            return self.drop_cut(now, "too much was changed");
        }
        let waits = cut.frozen.as_ref().is_some_and(|frozen| frozen.asked_by.is_some());
        if !waits || !self.is_still() {
            return;
        }
        let writer = self.writer(0, 0, None);
        self.core.writers.cut = Some(writer);
        self.core.tail.watch();
        let Some(cut) = &mut self.cut else { return };
        let Some(from) = cut.frozen.as_mut().and_then(|frozen| frozen.asked_by.take()) else {
            return;
        };
        let mut told = vec![Reply::Int(self.core.state.len() as i64)];
        if let Some((first, last)) = self.core.state.slots().range {
            told.extend([first, last].map(|slot| Reply::Int(slot.into())));
        }
        self.core.answer(from.0, from.1, Answer::Reply(Reply::Array(told)));
    }

    /// The shard goes on, and says whether it stood still all the time.
    fn release(&mut self, now: Now, number: u64) -> Reply {
        self.expire_cut(now);
        let Some(cut) = self.cut.as_mut().filter(|cut| cut.number == number) else {
            return gone();
        };
        cut.touched_us = now.mono_us;
        let Some(frozen) = cut.frozen.take() else { return gone() };
        if frozen.asked_by.is_none() && !self.core.tail.has_changed() {
            self.resume(now, frozen);
            return Reply::Ok;
        }
        cut.frozen = Some(frozen);
        self.drop_cut(now, "it was released before");
        try_again("something was changed while a shard was to stand still")
    }

    fn resume(&mut self, now: Now, frozen: Frozen) {
        self.locking.mark_all(&mut self.core);
        self.mark_chains();
        self.settle(now);
        self.go_on_after_ends(now);
        for request in frozen.held {
            self.handle(now, request);
        }
    }

    /// The cut comes to nothing.
    fn drop_cut(&mut self, now: Now, why: &str) {
        self.core.writers.cut = None;
        let Some(ShardCut { frozen: Some(mut frozen), .. }) = self.cut.take() else { return };
        if let Some((gateway, token)) = frozen.asked_by.take() {
            let text = format!("a shard did not come to stand still for the backup: {why}");
            self.core.answer(gateway, token, Answer::Reply(try_again(&text)));
        }
        self.resume(now, frozen);
    }

    /// Whoever makes a cut has not come back in time.
    pub(in crate::shard) fn expire_cut(&mut self, now: Now) {
        if self.cut_timeout().is_some_and(|at| at <= now.mono_us) {
            self.drop_cut(now, "it took too long");
        }
    }

    /// The lead has ended.
    pub(in crate::shard) fn give_up_cut(&mut self) {
        self.core.writers.cut = None;
        let Some(frozen) = self.cut.take().and_then(|cut| cut.frozen) else { return };
        if let Some((gateway, token)) = frozen.asked_by {
            let text = "the leader of a shard has changed meanwhile";
            self.core.answer(gateway, token, Answer::Reply(try_again(text)));
        }
        for request in frozen.held {
            self.core.turn_away(request.gateway, request.token, request.body);
        }
    }

    /// Nothing more comes from a machine, and nothing is to be said to it.
    pub(in crate::shard) fn forget_frozen(&mut self, machine: MachineId) {
        if let Some(frozen) = self.cut.as_mut().and_then(|cut| cut.frozen.as_mut()) {
            frozen.held.retain(|request| request.gateway.machine != machine);
        }
    }

    /// A piece of the state that is kept; see [`CutStep::Piece`].
    pub fn cut_piece(
        &mut self,
        now: Now,
        (number, piece): (u64, u64),
        encode: impl Fn(&SnapshotPart, &mut Vec<u8>),
    ) -> Reply {
        self.expire_cut(now);
        let released = |cut: &&mut ShardCut| cut.number == number && cut.frozen.is_none();
        let Some(cut) = self.cut.as_mut().filter(released) else { return gone() };
        cut.touched_us = now.mono_us;
        if piece == cut.next && !cut.complete {
            let Core { state, writers, .. } = &mut self.core;
            cut.advance(&mut writers.cut, |writer, bytes| {
                writer.parts(state, PARTS).iter().for_each(|part| encode(part, bytes));
            });
        } else if piece + 1 != cut.next {
            return Reply::err("the pieces of a backup are fetched one after the other");
        }
        let last = Reply::Int(cut.complete.into());
        Reply::Array(vec![Reply::bulk(&cut.last), last])
    }
}

#[cfg(test)]
mod tests;
