//! Who is next for a lock before it is released, and hears of the release before that is durable.
//!
//! As soon as somebody waits for a record whose next holders can be named (`Waiter::naming`), records in
//! the log name those who are first in turn; with each hand-over goes the naming of one more. When the
//! holder lets go, the next one is told at once if it is named for certain, and what it was told is
//! logged behind the release as before. If that is lost, the next leader knows who was named, and lets
//! nobody else in: see `docs/adr/0018-named-successor.md`.

use crate::entry::{Apply, LogRecord};
use crate::message::Answer;
use crate::now::Now;
use crate::shard::RecipientKind;
use crate::shard::waiting::turns::{Number, Recipient, Shard, TurnQueues, WaitingTurn};
use adt::kinds::lock::SUCCESSORS_MAX;
use adt::{Blob, Ctx, Op, Record, Reply, record};
use smallvec::SmallVec;

/// So many are named as soon as they come.
const AT_ONCE: usize = 2;

impl TurnQueues {
    fn numbers_with(&self, ticket: &Blob) -> impl Iterator<Item = (Number, &WaitingTurn)> {
        let numbers = self.tickets.get(ticket).into_iter().flatten().copied();
        numbers.filter_map(|number| Some((number, self.turns.get(&number)?)))
    }

    /// The turn of whoever has a ticket, if the request was not made more than once.
    fn only_one_with(&self, key: &Blob, ticket: &Blob) -> Option<(Number, &WaitingTurn)> {
        let mut copies = self.numbers_with(ticket).filter(|(_, turn)| turn.key() == key);
        copies.next().filter(|_| copies.next().is_none())
    }

    /// The turn of whoever has a ticket, if it waits for this record.
    pub(in crate::shard::waiting::turns) fn with_ticket(
        &self,
        key: &Blob,
        ticket: &Blob,
    ) -> Option<Number> {
        let waits = |(_, turn): &(Number, &WaitingTurn)| !turn.goes && turn.key() == key;
        self.numbers_with(ticket).find(waits).map(|(number, _)| number)
    }

    /// Whether somebody was told already what comes back from the log.
    pub fn was_told(&self, target: Recipient) -> bool {
        let number = self.of.get(&(target.gateway, target.token));
        number.and_then(|number| self.turns.get(number)).is_some_and(|turn| turn.told)
    }

    /// A naming is carried out.
    pub(in crate::shard) fn is_named(&mut self, target: Recipient) {
        let number = self.of.get(&(target.gateway, target.token));
        let Some(turn) = number.and_then(|number| self.turns.get_mut(number)) else { return };
        turn.naming = false;
        if turn.logged {
            self.named_now.push(turn.key().clone());
        }
    }

    /// Of those who wait for a record the first ones, so many at most, as far as they can be named and are
    /// not.
    fn nameless(&self, key: &Blob, most: usize) -> SmallVec<[Number; 4]> {
        let Some(queue) = self.queues.get(key).filter(|queue| queue.unlogged == 0) else {
            return SmallVec::new();
        };
        let turn = |number: &Number| Some((*number, self.turns.get(number)?));
        let first = queue.waiting.iter().take(most).filter_map(turn);
        let can_be = first.take_while(|(_, turn)| turn.op().ticket().is_some());
        can_be.filter(|(_, turn)| !turn.naming).map(|(number, _)| number).collect()
    }
}

impl Shard {
    /// Whether somebody waits who can be named.
    pub fn has_successors(&self) -> bool {
        !self.turns.tickets.is_empty()
    }

    /// How many were told early since the shard was started.
    pub fn told_early(&self) -> u64 {
        self.core.stats.locks.early
    }

    /// Names those who are first in turn, as far as they can be in this state of their record, in which all
    /// is carried out that they have set out with. Whoever is not among the very first is named by the
    /// entry of a hand-over, and need not cost one.
    pub(in crate::shard::waiting::turns) fn name_waiting(
        &mut self,
        key: &Blob,
        mut scratch: Option<Record>,
        ctx: &Ctx,
        hands_over: bool,
    ) {
        let nameless = self.turns.nameless(key, if hands_over { SUCCESSORS_MAX } else { AT_ONCE });
        if nameless.is_empty() || self.core.frozen || self.core.locks.is_held(key) {
            return;
        }
        for number in nameless {
            let Some(turn) = self.turns.turns.get_mut(&number) else { continue };
            let Some(op) = adt::naming(scratch.as_ref(), turn.op(), ctx.now_ms) else {
                continue;
            };
            (turn.naming, turn.named) = (true, true);
            record::apply(&mut scratch, &op, ctx);
            let ops = SmallVec::from_iter([(key.clone(), op)]);
            let (gateway, token) = (turn.gateway, turn.token);
            let target = Recipient { gateway, token, kind: RecipientKind::Named };
            self.core.log(LogRecord::Apply(Apply { ops, ..Apply::default() }), target);
        }
    }

    /// Those whose namings were in the entry that is carried out now may be on their way already.
    pub(in crate::shard) fn tell_named(&mut self, now: Now) {
        for key in std::mem::take(&mut self.turns.named_now) {
            self.tell_early(now, &key);
        }
    }

    /// A turn that has come, with what is known of its name.
    pub(in crate::shard::waiting::turns) fn with_names_of_copies(
        &mut self,
        now: Now,
        turn: WaitingTurn,
    ) -> WaitingTurn {
        let copy = turn.op().ticket().and_then(|ticket| self.turns.numbers_with(ticket).next());
        match copy.map(|(_, copy)| (copy.named, copy.inherits)) {
            Some((named, inherits)) => WaitingTurn { named, inherits, ..turn },
            None => WaitingTurn { inherits: self.has_name(now, &turn), ..turn },
        }
    }

    /// Whether somebody is named who has come in this turn, or has the lock already.
    fn has_name(&mut self, now: Now, turn: &WaitingTurn) -> bool {
        let Some(op) = turn.op().unnaming() else { return false };
        let ctx = self.core.ctx(now);
        record::apply(&mut self.core.state.get(turn.key()).cloned(), &op, &ctx) == Reply::Int(1)
    }

    /// Whoever has waited in this turn, and had not set out, is gone: it is named no more, unless an earlier
    /// leader has named it, which may have told it that it has the lock. That ends with the lease.
    pub(in crate::shard::waiting::turns) fn unname(&mut self, now: Now, turn: &WaitingTurn) {
        let Some(op) = turn.op().unnaming().filter(|_| turn.named && !turn.inherits) else {
            return;
        };
        let key = turn.key();
        // Another copy of the request may be told.
        let same = self.turns.same(turn);
        if !same.is_empty() {
            for number in same {
                self.turns.turns.get_mut(&number).into_iter().for_each(|copy| copy.named = true);
            }
            return;
        }
        if turn.naming || self.has_name(now, turn) {
            let ops = SmallVec::from_iter([(key.clone(), op)]);
            self.core.log(LogRecord::Apply(Apply { ops, ..Apply::default() }), Recipient::none());
        }
    }

    /// A lead begins.
    pub(in crate::shard) fn begin_turns(&mut self, now: Now) {
        self.turns.led_since_us = now.mono_us;
    }

    /// Names that earlier leaders have given to those who have not come to this one are dropped, where
    /// others wait, when nobody relies on them any more: whoever was told that it has the lock was told
    /// before this lead began, and has renewed it since or lost it. (Clocks differ in speed by less than a
    /// tenth.) One after the other they would have it for a whole lease each.
    pub(in crate::shard::waiting::turns) fn drop_names(&mut self, now: Now) {
        if self.core.frozen {
            return;
        }
        let led_ms = now.mono_us.saturating_sub(self.turns.led_since_us) / 1000;
        let mut dropped = Vec::new();
        for key in &self.turns.look {
            let Some(record) = self.core.state.get(key) else { continue };
            let silent = record.value.named().into_iter().filter(|(ticket, lease_ms)| {
                led_ms > lease_ms + lease_ms / 10 && !self.turns.tickets.contains_key(*ticket)
            });
            let ops = silent.filter_map(|(ticket, _)| record.value.forgetting(ticket));
            dropped.extend(ops.map(|op| (key.clone(), op)));
        }
        for one in dropped {
            let ops = SmallVec::from_iter([one]);
            self.core.log(LogRecord::Apply(Apply { ops, ..Apply::default() }), Recipient::none());
        }
    }

    /// If somebody is logged behind the release of the lock that it was named for, and nothing can come of
    /// it but that it has the lock, it is told so.
    pub(in crate::shard::waiting::turns) fn tell_early(&mut self, now: Now, key: &Blob) {
        if !self.lead_is_certain || self.core.frozen || self.splitting.is_giving() {
            return;
        }
        let Some((ticket, reply)) = self.last_hand_over(now, key) else { return };
        let Some((number, turn)) = self.turns.only_one_with(key, &ticket) else { return };
        if !turn.logged || turn.told || turn.given_up || turn.late {
            return;
        }
        let (target, since_us) = ((turn.gateway, turn.token), turn.since_us);
        let op = turn.op().clone();
        let answer = Answer::Replies(SmallVec::from_iter([reply]));
        self.core.count_wait(&op, &answer, since_us, now);
        if let Some(turn) = self.turns.turns.get_mut(&number) {
            turn.told = true;
        }
        self.core.stats.locks.early += 1;
        self.core.answer(target.0, target.1, answer);
    }

    /// If everything on its way into the log that changes a record are releases by those whose turn it is,
    /// and after each one the next of those who are named in the log: the ticket of the last, and what it
    /// will be answered.
    fn last_hand_over(&mut self, now: Now, key: &Blob) -> Option<(Blob, Reply)> {
        let ctx = self.core.ctx(now);
        let applied = self.core.state.get(key)?;
        let mut scratch = Some(applied.clone());
        let mut last = None;
        for record in self.core.tail.unapplied() {
            if matches!(record, LogRecord::Flush | LogRecord::Split { .. }) {
                return None;
            }
            for (_, op) in record.ops().iter().filter(|(of, op)| of == key && changes(op)) {
                if !self.takes_effect(record) {
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

    /// Whether operations on their way are carried out whatever happens.
    fn takes_effect(&self, record: &LogRecord) -> bool {
        let LogRecord::Apply(Apply { ops, guards, fences, request }) = record else { return false };
        let known = |request| self.core.state.requests().get(request).is_some();
        let section = ops.first().is_some_and(|(_, op)| op.opens_section());
        guards.is_empty() && fences.is_empty() && !section && !request.as_ref().is_some_and(known)
    }
}

/// Whether an operation changes more than who comes after those who are named.
fn changes(op: &Op) -> bool {
    op.is_write() && !op.names()
}
