//! A cut through all shards: the states that a backup consists of.
//!
//! Every shard stands still until all do, and each keeps the state of that moment as it would for a
//! snapshot. A shard that stands still holds writes back, refuses parts of transactions over several
//! shards, which are tried again, and waits until nothing is prepared or on its way to the log; reads
//! go on. The gateway that makes the cut releases the shards when all have said that they stand still,
//! and each says then whether it did so all the time, in the same lead. See
//! `docs/internals/replication/backups.md`.
//!
//! Nothing of it is in the log. If the gateway that makes the cut is lost, a shard goes on by itself.

use super::snapshot::Writer;
use crate::coordination::TreeSessionId;
use crate::entry::SnapshotPart;
use crate::ids::{GatewayId, MachineId, Token};
use crate::limits::{
    CUT_COPIES_MAX, CUT_IDLE_US_MAX, FREEZE_US_MAX, FROZEN_REQUESTS_MAX, SNAPSHOT_PIECE_BYTES,
};
use crate::message::{Answer, Body, Refusal, Request};
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::locking::manager::LockManager;
use crate::shard::waiting::room::WaitingRoom;
use adt::{ErrorReply, Reply};
use std::collections::{BTreeSet, VecDeque};

/// Parts that are encoded at once.
const PARTS: usize = 16;

/// The shard's part in a cut, if one is being made.
#[derive(Debug, Default)]
pub(in crate::shard) struct Cuts {
    current: Option<ShardCut>,
    /// Requests that were held back, once the shard does not stand still any more.
    released: Option<VecDeque<Request>>,
}

/// A cut in the making.
#[derive(Debug)]
struct ShardCut {
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
    /// Request to answer once nothing is on its way any more; none after that.
    asked_by: Option<(GatewayId, Token)>,
    held: VecDeque<Request>,
    /// Sessions of the coordination service that have asked for something that is held: whatever they ask
    /// behind it waits as well.
    sessions: BTreeSet<TreeSessionId>,
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

pub(super) fn gone() -> Reply {
    let text = "this shard does not keep the state of that cut (any more): its leader has changed, \
                nobody asked for long, or too much was changed meanwhile; begin again";
    ErrorReply::new("NOCUT", text).into()
}

impl Cuts {
    /// Whether a cut is being made.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// When the cut is given up, on the monotonic clock in microseconds.
    fn until_us(&self) -> Option<u64> {
        let cut = self.current.as_ref()?;
        let idle = cut.touched_us + CUT_IDLE_US_MAX;
        Some(cut.frozen.as_ref().map_or(idle, |frozen| frozen.until_us))
    }

    /// Requests that are held back while the shard stands still.
    fn frozen(&self) -> Option<&Frozen> {
        self.current.as_ref().and_then(|cut| cut.frozen.as_ref())
    }

    /// Gives a request back that may be carried out while the shard stands still. Others wait until it is
    /// released, in their order, or are refused.
    pub fn hold_back(
        &mut self,
        core: &mut ShardCore,
        locking: &LockManager,
        request: Request,
    ) -> Option<Request> {
        let goes_on = match &request.body {
            Body::Read { fenced, .. } | Body::Snapshot { fenced, .. } => !fenced,
            // What is prepared must be decided for the shard to stand still.
            Body::Decide { .. } | Body::ProbeAck { .. } | Body::Cancel { .. } => true,
            Body::Inquire { txn } => locking.is_prepared(*txn),
            Body::Version { .. } => false,
            Body::Cut { .. } => true,
            Body::Coordinate(ask) => ask.is_read_only() && !self.holds_of(ask.session()),
            body => body.is_read_only(),
        };
        if goes_on {
            return Some(request);
        }
        if let Body::Prepare { prepare, .. } = &request.body
            && prepare.participants.len() > 1
        {
            core.stats.refused += 1;
            let refused = Answer::Refused(Refusal::Frozen);
            core.answer(request.gateway, request.token, refused);
            return None;
        }
        let full = self.is_full();
        let frozen = self.current.as_mut().and_then(|cut| cut.frozen.as_mut())?;
        if let Body::Coordinate(ask) = &request.body {
            frozen.sessions.extend(ask.session());
        }
        frozen.held.push_back(request);
        if full {
            self.drop_cut(core, "too many requests wait");
        }
        None
    }

    /// Whether a request of a session is held back.
    fn holds_of(&self, session: Option<TreeSessionId>) -> bool {
        let of_it = session.zip(self.frozen());
        of_it.is_some_and(|(session, frozen)| frozen.sessions.contains(&session))
    }

    /// Makes the shard stand still, unless that is refused. The shard refuses parts of transactions and
    /// pipelines that wait here, then: elsewhere they may be prepared, and what they wait for may be held
    /// back here.
    pub fn freeze(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        from: (GatewayId, Token),
        number: u64,
        is_splitting: bool,
    ) -> Option<Reply> {
        if let Some(cut) = &self.current {
            let text = match cut.frozen {
                Some(_) => "another backup begins just now",
                None => "another backup is being taken; if it was broken off, wait half a minute",
            };
            return Some(try_again(text));
        }
        if is_splitting {
            return Some(try_again("a shard is being split just now"));
        }
        self.current = Some(ShardCut::new(number, now, from));
        core.frozen = true;
        None
    }

    /// Keeps the state and answers, once the shard stands still: the state contains everything that was ever
    /// acknowledged, and no half of anything.
    pub fn go_on(&mut self, core: &mut ShardCore, locking: &LockManager, is_recovering: bool) {
        let Some(cut) = &mut self.current else { return };
        let writer = core.writers.cut.as_ref();
        if writer.is_some_and(|writer| writer.copies() > CUT_COPIES_MAX) {
            return self.drop_cut(core, "too much was changed");
        }
        let Some(frozen) = &mut cut.frozen else { return };
        let open =
            !core.state.prepared().is_empty() || core.state.prepared.unsettled().next().is_some();
        // Places that an earlier leader has handed on may have taken effect elsewhere.
        let open = open || is_recovering || core.tail.has_unapplied();
        if frozen.asked_by.is_none() || open || locking.commits() {
            return;
        }
        let Some(from) = frozen.asked_by.take() else { return };
        core.writers.cut = Some(core.writer(0, 0, None));
        core.tail.watch();
        let mut told = vec![Reply::Int(core.state.records().len() as i64)];
        if let Some((first, last)) = core.state.slots().range {
            told.extend([first, last].map(|slot| Reply::Int(slot.into())));
        }
        core.answer(from.0, from.1, Answer::Reply(Reply::Array(told)));
    }

    /// Lets the shard go on, and says whether it stood still all the time.
    pub fn release(&mut self, core: &mut ShardCore, now: Now, number: u64) -> Reply {
        let Some(cut) = self.current.as_mut().filter(|cut| cut.number == number) else {
            return gone();
        };
        cut.touched_us = now.mono_us;
        let Some(frozen) = cut.frozen.take() else { return gone() };
        if frozen.asked_by.is_none() && !core.tail.has_changed() {
            self.resume(core, frozen);
            return Reply::Ok;
        }
        cut.frozen = Some(frozen);
        self.drop_cut(core, "it was released before");
        try_again("something was changed while a shard was to stand still")
    }

    /// Ends a cut: all pieces were fetched, or it was given up.
    pub fn end(&mut self, core: &mut ShardCore, number: u64) -> Reply {
        if self.current.as_ref().is_some_and(|cut| cut.number == number) {
            self.drop_cut(core, "it was given up");
        }
        Reply::Ok
    }

    fn resume(&mut self, core: &mut ShardCore, frozen: Frozen) {
        core.frozen = false;
        self.released = Some(frozen.held);
    }

    /// Requests that were held back, if the shard has ceased to stand still since the last call.
    pub fn take_released(&mut self) -> Option<VecDeque<Request>> {
        self.released.take()
    }

    /// Gives the cut up.
    fn drop_cut(&mut self, core: &mut ShardCore, why: &str) {
        core.writers.cut = None;
        let Some(ShardCut { frozen: Some(mut frozen), .. }) = self.current.take() else { return };
        if let Some((gateway, token)) = frozen.asked_by.take() {
            let text = format!("a shard did not come to stand still for the backup: {why}");
            core.answer(gateway, token, Answer::Reply(try_again(&text)));
        }
        self.resume(core, frozen);
    }

    /// Gives the cut up if the gateway that makes it has not come back in time.
    pub fn expire(&mut self, core: &mut ShardCore, now: Now) {
        if self.until_us().is_some_and(|at| at <= now.mono_us) {
            self.drop_cut(core, "it took too long");
        }
    }

    /// A piece of the state that is kept; see [`CutStep::Piece`](crate::message::CutStep::Piece).
    pub fn piece(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        (number, piece): (u64, u64),
        encode: impl Fn(&SnapshotPart, &mut Vec<u8>),
    ) -> Reply {
        let released = |cut: &&mut ShardCut| cut.number == number && cut.frozen.is_none();
        let Some(cut) = self.current.as_mut().filter(released) else { return gone() };
        cut.touched_us = now.mono_us;
        if piece == cut.next && !cut.complete {
            let ShardCore { state, writers, .. } = core;
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

impl WaitingRoom for Cuts {
    fn limit(&self) -> usize {
        FROZEN_REQUESTS_MAX
    }

    fn len(&self) -> usize {
        self.frozen().map_or(0, |frozen| frozen.held.len())
    }

    fn next_us(&self, _core: &ShardCore, _now: Now) -> Option<u64> {
        self.until_us()
    }

    /// Drops the requests of the machine.
    fn forget(&mut self, _core: &mut ShardCore, _now: Now, machine: MachineId) {
        if let Some(frozen) = self.current.as_mut().and_then(|cut| cut.frozen.as_mut()) {
            frozen.held.retain(|request| request.gateway.machine != machine);
        }
    }

    /// Gives the cut up, and sends the requests that it holds back to the next leader.
    fn end_lead(&mut self, core: &mut ShardCore) {
        core.writers.cut = None;
        core.frozen = false;
        let Some(frozen) = self.current.take().and_then(|cut| cut.frozen) else { return };
        if let Some((gateway, token)) = frozen.asked_by {
            let text = "the leader of a shard has changed meanwhile";
            core.answer(gateway, token, Answer::Reply(try_again(text)));
        }
        for request in frozen.held {
            core.turn_away(request.gateway, request.token, request.body);
        }
    }
}

#[cfg(test)]
mod tests;
