//! Successors of the holder of a lock: named before it is released, and notified of the release before that
//! is durable.
//!
//! As soon as a turn waits for a record whose next holders can be named (`Waiter::naming`), records in the
//! log name the first turns in line; with each hand-over goes the naming of one more. When the holder lets
//! go, the successor is told at once if it is named for certain, and its grant is logged behind the release
//! as before. If that is lost, the next leader knows the named successor, and lets no other turn in: see
//! `docs/adr/0018-named-successor.md`.

use super::{Number, Turn, TurnQueues};
use crate::entry::{Apply, LogRecord};
use crate::message::Answer;
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::tail::{Recipient, RecipientKind};
use adt::kinds::lock::SUCCESSORS_MAX;
use adt::{Blob, Ctx, Op, Record, Reply, record};
use smallvec::SmallVec;

/// Number of turns that are named as soon as they come.
const AT_ONCE: usize = 2;

impl TurnQueues {
    /// Whether a turn waits that can be named.
    pub fn has_successors(&self) -> bool {
        !self.tickets.is_empty()
    }

    fn numbers_with(&self, ticket: &Blob) -> impl Iterator<Item = (Number, &Turn)> {
        let numbers = self.tickets.get(ticket).into_iter().flatten().copied();
        numbers.filter_map(|number| Some((number, self.turns.get(&number)?)))
    }

    /// The turn with a ticket, if its request was not made more than once.
    fn only_one_with(&self, key: &Blob, ticket: &Blob) -> Option<(Number, &Turn)> {
        let mut copies = self.numbers_with(ticket).filter(|(_, turn)| turn.key() == key);
        copies.next().filter(|_| copies.next().is_none())
    }

    /// The turn with a ticket, if it waits for this record.
    pub(super) fn with_ticket(&self, key: &Blob, ticket: &Blob) -> Option<Number> {
        let waits = |(_, turn): &(Number, &Turn)| !turn.goes && turn.key() == key;
        self.numbers_with(ticket).find(waits).map(|(number, _)| number)
    }

    /// Whether a client was told already what comes back from the log.
    pub fn was_told(&self, target: Recipient) -> bool {
        let number = self.of.get(&(target.gateway, target.token));
        number.and_then(|number| self.turns.get(number)).is_some_and(|turn| turn.told)
    }

    /// Notes that a naming is carried out.
    pub fn is_named(&mut self, target: Recipient) {
        let number = self.of.get(&(target.gateway, target.token));
        let Some(turn) = number.and_then(|number| self.turns.get_mut(number)) else { return };
        turn.naming = false;
        if turn.logged {
            self.named_now.push(turn.key().clone());
        }
    }

    /// The first turns that wait for a record, `most` at most, as far as they can be named and are not.
    fn nameless(&self, key: &Blob, most: usize) -> SmallVec<[Number; 4]> {
        let Some(queue) = self.queues.get(key).filter(|queue| queue.unlogged == 0) else {
            return SmallVec::new();
        };
        let turn = |number: &Number| Some((*number, self.turns.get(number)?));
        let first = queue.waiting.iter().take(most).filter_map(turn);
        let can_be = first.take_while(|(_, turn)| turn.op().ticket().is_some());
        can_be.filter(|(_, turn)| !turn.naming).map(|(number, _)| number).collect()
    }

    /// Names the first turns, as far as they can be named in this state of their record, in which all
    /// operations are carried out with which turns have set out. Turns that are not among the very first are
    /// named by the entry of a hand-over, and need not cost one.
    pub(super) fn name_waiting(
        &mut self,
        core: &mut ShardCore,
        key: &Blob,
        mut scratch: Option<Record>,
        (ctx, hands_over): (&Ctx, bool),
    ) {
        let nameless = self.nameless(key, if hands_over { SUCCESSORS_MAX } else { AT_ONCE });
        if nameless.is_empty() || core.frozen || core.locks.is_held(key) {
            return;
        }
        for number in nameless {
            let Some(turn) = self.turns.get_mut(&number) else { continue };
            let Some(op) = adt::naming(scratch.as_ref(), turn.op(), ctx.now_ms) else {
                continue;
            };
            (turn.naming, turn.named) = (true, true);
            record::apply(&mut scratch, &op, ctx);
            let (gateway, token) = (turn.gateway, turn.token);
            let target = Recipient { gateway, token, kind: RecipientKind::Named };
            log(core, key, op, target);
        }
    }

    /// Tells turns early, if the lead of this replica is `certain`, whose namings were in the entry that is
    /// carried out now, and that may be on their way already.
    pub fn tell_named(&mut self, core: &mut ShardCore, now: Now, certain: bool) {
        for key in std::mem::take(&mut self.named_now) {
            if certain {
                self.tell_early(core, now, &key);
            }
        }
    }

    /// A turn that has come, with the knowledge about its name.
    pub(super) fn with_names_of_copies(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        turn: Turn,
    ) -> Turn {
        let copy = turn.op().ticket().and_then(|ticket| self.numbers_with(ticket).next());
        match copy.map(|(_, copy)| (copy.named, copy.inherits)) {
            Some((named, inherits)) => Turn { named, inherits, ..turn },
            None => Turn { inherits: has_name(core, now, &turn), ..turn },
        }
    }

    /// Removes the name of a turn that had not set out and whose client is gone, unless an earlier leader
    /// has named it, which may have told it that it has the lock. That ends with the lease.
    pub(super) fn unname(&mut self, core: &mut ShardCore, now: Now, turn: &Turn) {
        let Some(op) = turn.op().unnaming().filter(|_| turn.named && !turn.inherits) else {
            return;
        };
        // Another copy of the request may be told.
        let same = self.same(turn);
        if !same.is_empty() {
            for number in same {
                self.turns.get_mut(&number).into_iter().for_each(|copy| copy.named = true);
            }
            return;
        }
        if turn.naming || has_name(core, now, turn) {
            log(core, turn.key(), op, Recipient::none());
        }
    }

    /// Drops names that earlier leaders have given to turns which have not come to this one, where others
    /// wait, once no client relies on them any more: a client that was told that it has the lock was told
    /// before this lead began, and has renewed it since or lost it. (Clocks differ in speed by less than a
    /// tenth.) One after the other they would have it for a whole lease each.
    pub(super) fn drop_names(&mut self, core: &mut ShardCore, now: Now) {
        if core.frozen {
            return;
        }
        let led_ms = now.mono_us.saturating_sub(self.led_since_us) / 1000;
        let mut dropped = Vec::new();
        for key in &self.look {
            let Some(record) = core.state.get(key) else { continue };
            let silent = record.value.named().into_iter().filter(|(ticket, lease_ms)| {
                led_ms > lease_ms + lease_ms / 10 && !self.tickets.contains_key(*ticket)
            });
            let ops = silent.filter_map(|(ticket, _)| record.value.forgetting(ticket));
            dropped.extend(ops.map(|op| (key.clone(), op)));
        }
        for (key, op) in dropped {
            log(core, &key, op, Recipient::none());
        }
    }

    /// Tells the turn that is logged behind the release of the lock that it was named for, if it certainly
    /// gets the lock. Only while the lead of this replica is certain.
    pub(super) fn tell_early(&mut self, core: &mut ShardCore, now: Now, key: &Blob) {
        let Some((ticket, reply)) = last_hand_over(core, now, key) else { return };
        let Some((number, turn)) = self.only_one_with(key, &ticket) else { return };
        if !turn.logged || turn.told || turn.given_up || turn.late {
            return;
        }
        let answer = Answer::Replies(SmallVec::from_iter([reply]));
        core.count_wait(turn.op(), &answer, turn.since_us, now);
        core.stats.locks.early += 1;
        core.answer(turn.gateway, turn.token, answer);
        if let Some(turn) = self.turns.get_mut(&number) {
            turn.told = true;
        }
    }
}

/// Logs one operation.
fn log(core: &mut ShardCore, key: &Blob, op: Op, target: Recipient) {
    let ops = SmallVec::from_iter([(key.clone(), op)]);
    core.log(LogRecord::Apply(Apply { ops, ..Apply::default() }), target);
}

/// Whether the record names a turn, or its client has the lock already.
fn has_name(core: &mut ShardCore, now: Now, turn: &Turn) -> bool {
    let Some(op) = turn.op().unnaming() else { return false };
    let ctx = core.ctx(now);
    record::apply(&mut core.state.get(turn.key()).cloned(), &op, &ctx) == Reply::Int(1)
}

/// Ticket and future reply of the last turn on its way into the log, if all operations on their way that
/// change the record are releases by the holders, and after each one the grant of the next turn that is named
/// in the log.
fn last_hand_over(core: &mut ShardCore, now: Now, key: &Blob) -> Option<(Blob, Reply)> {
    let ctx = core.ctx(now);
    let applied = core.state.get(key)?;
    let mut scratch = Some(applied.clone());
    let mut last = None;
    for record in core.tail.unapplied() {
        if matches!(record, LogRecord::Flush(_) | LogRecord::Split { .. }) {
            return None;
        }
        for (_, op) in record.ops().iter().filter(|(of, op)| of == key && changes(op)) {
            if !takes_effect(core, record) {
                return None;
            }
            let reply = record::apply(&mut scratch, op, &ctx);
            let named = |ticket| applied.value.is_named(ticket, &reply);
            match op.ticket() {
                Some(ticket) if named(ticket) => last = Some((ticket.clone(), reply)),
                None if op.lets_go() && reply == Reply::Int(1) => last = None,
                _ => return None,
            }
        }
    }
    last
}

/// Whether operations on their way are carried out in any case.
fn takes_effect(core: &ShardCore, record: &LogRecord) -> bool {
    let LogRecord::Apply(Apply { ops, guards, fences, request }) = record else { return false };
    let known = |request| core.state.requests().get(request).is_some();
    let section = ops.first().is_some_and(|(_, op)| op.opens_section());
    guards.is_empty() && fences.is_empty() && !section && !request.as_ref().is_some_and(known)
}

/// Whether an operation changes more than the successors of the named turns.
fn changes(op: &Op) -> bool {
    op.is_write() && !op.names()
}
