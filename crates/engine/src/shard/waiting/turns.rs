//! Operations that wait for their turn on a record, in the order of their arrival: the queue of a lock.
//!
//! Who waits is the leader's memory. An operation goes on by being written into the log, and is a turn
//! again if its reply is nil: nothing rests on what the leader thinks will happen. What it thinks saves
//! a round, though: behind a release in the log comes the operation of whoever is next, in the same
//! entry, so that the hand-over of a lock costs one write and one message to whoever gets it. To wait
//! costs no messages. A *section* is a turn that brings along what is to be done under the lock. See
//! "Locks" in `docs/internals/coordination.md`.

mod listening;
mod successor;
mod together;

use crate::entry::{Apply, LogRecord};
use crate::ids::{GatewayId, KeyedOp, MachineId, RequestId, Token};
use crate::limits::TURNS_MAX;
use crate::message::{Answer, Body, Refusal, Request};
use crate::now::Now;
use crate::shard::transfer::split::is_in;
use crate::shard::{Recipient, RecipientKind, Shard};
use adt::collections::Map;
use adt::{Blob, Ctx, ErrorReply, Op, Record, Reply, record};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// A turn, in the order of arrival.
pub(in crate::shard) type Number = u64;

/// How often those who wait look whether time alone has let them in, in microseconds.
const LOOK_US: u64 = 100_000;

#[derive(Debug)]
struct WaitingTurn {
    gateway: GatewayId,
    token: Token,
    apply: Apply,
    since_us: u64,
    timeout_ms: u64,
    /// It is on its way through locks and log.
    goes: bool,
    /// It is in the log.
    logged: bool,
    /// The wait is over as soon as it comes back.
    late: bool,
    /// Nobody wants it any more.
    given_up: bool,
    /// It has come when the record was of its type, and goes on waiting when it is of another one.
    waited: bool,
    /// It was told that it could go on, before that was durable.
    told: bool,
    /// What names it is in the log.
    naming: bool,
    /// This leader has named it, or a copy of the request.
    named: bool,
    /// An earlier leader had named it, or a copy of the request was, and may have been told.
    inherits: bool,
}

impl WaitingTurn {
    fn key(&self) -> &Blob {
        &self.apply.ops[0].0
    }

    fn op(&self) -> &Op {
        &self.apply.ops[0].1
    }

    /// Whether it goes on waiting with this reply.
    fn is_nothing(&self, reply: &Reply) -> bool {
        *reply == Reply::Nil || (self.waited && *reply == ErrorReply::wrong_type().into())
    }
}

/// Those on one record.
#[derive(Debug, Default)]
struct Queue {
    waiting: BTreeSet<Number>,
    /// Those beside it who want to know when somebody waits.
    listening: BTreeSet<Number>,
    /// How many are on their way.
    going: u32,
    /// How many of them are not in the log: a section may have to wait for the records that it is about.
    /// Nobody overtakes them.
    unlogged: u32,
}

/// All turns of a shard.
#[derive(Debug, Default)]
pub(in crate::shard) struct TurnQueues {
    turns: BTreeMap<Number, WaitingTurn>,
    queues: Map<Blob, Queue>,
    of: BTreeMap<(GatewayId, Token), Number>,
    /// By request number: a client whose connection has broken asks again over another one,
    /// while the first is not known to be gone.
    numbered: BTreeMap<RequestId, SmallVec<[Number; 1]>>,
    /// By the name of whoever waits.
    named: BTreeMap<Blob, SmallVec<[Number; 1]>>,
    /// By ticket: those who can be named as the next.
    tickets: BTreeMap<Blob, SmallVec<[Number; 1]>>,
    /// Records of those whose namings are carried out, and who are on their way.
    named_now: Vec<Blob>,
    deadlines: BTreeSet<(u64, Number)>,
    /// When this lead began, in monotonic microseconds.
    led_since_us: u64,
    next: Number,
    /// Records whose queues are to be looked at.
    look: BTreeSet<Blob>,
}

impl TurnQueues {
    /// Whether nobody has a turn.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    fn waiting(&self, key: &Blob) -> impl Iterator<Item = &WaitingTurn> {
        let waiting = self.queues.get(key).into_iter().flat_map(|queue| &queue.waiting);
        waiting.filter_map(|number| self.turns.get(number))
    }

    /// What somebody waits for, who is first in turn first among several of the same name.
    pub fn of_name(&self, name: &Blob) -> impl Iterator<Item = (Number, &Blob, &Op)> {
        let numbers = self.named.get(name).into_iter().flatten();
        numbers.filter_map(|number| self.what(*number))
    }

    /// What a turn waits for, if it does.
    pub fn what(&self, number: Number) -> Option<(Number, &Blob, &Op)> {
        let turn = self.turns.get(&number).filter(|turn| !turn.goes)?;
        Some((number, turn.key(), turn.op()))
    }

    /// Since when it waits, on the leader's clock.
    pub fn since_us(&self, number: Number) -> Option<u64> {
        self.turns.get(&number).map(|turn| turn.since_us)
    }

    /// The turn that somebody has asked for under a token, as long as nothing of it is on its way.
    pub fn waiting_as(&self, gateway: GatewayId, token: Token) -> Option<Number> {
        let number = self.of.get(&(gateway, token)).copied()?;
        let turn = self.turns.get(&number)?;
        (!turn.goes && !self.copy_goes(turn)).then_some(number)
    }

    /// Those with names who are in front of a turn.
    pub fn ahead(&self, key: &Blob, number: Number) -> impl Iterator<Item = &Blob> {
        let ahead = self.queues.get(key).into_iter().flat_map(move |q| q.waiting.range(..number));
        ahead.filter_map(|number| self.turns.get(number)?.op().waiter())
    }

    /// For each record that somebody waits for: how many do, and the longest wait in microseconds.
    pub fn queues(&self, now_us: u64) -> impl Iterator<Item = (Blob, u64, u64)> {
        self.queues.iter().filter_map(move |(key, queue)| {
            let first = self.turns.get(queue.waiting.first()?)?;
            let longest_us = now_us.saturating_sub(first.since_us);
            Some((key.clone(), queue.waiting.len() as u64, longest_us))
        })
    }

    /// Whether somebody waits for a record.
    pub fn has_waiting(&self, key: &Blob) -> bool {
        self.queues.get(key).is_some_and(|queue| !queue.waiting.is_empty())
    }

    fn add(&mut self, turn: WaitingTurn) -> Number {
        let number = self.next;
        self.next += 1;
        self.of.insert((turn.gateway, turn.token), number);
        if turn.timeout_ms > 0 {
            let end_us = turn.since_us.saturating_add(turn.timeout_ms.saturating_mul(1000));
            self.deadlines.insert((end_us, number));
        }
        if let Some(request) = &turn.apply.request {
            self.numbered.entry(request.clone()).or_default().push(number);
        }
        if let Some(waiter) = turn.op().waiter() {
            self.named.entry(waiter.clone()).or_default().push(number);
        }
        if let Some(ticket) = turn.op().ticket() {
            self.tickets.entry(ticket.clone()).or_default().push(number);
        }
        let listens = turn.op().listens();
        let queue = self.queues.entry(turn.key().clone()).or_default();
        if listens { &mut queue.listening } else { &mut queue.waiting }.insert(number);
        self.turns.insert(number, turn);
        number
    }

    /// A turn sets out.
    pub fn set_out(&mut self, number: Number) -> Option<Request> {
        let turn = self.turns.get_mut(&number)?;
        let queue = self.queues.get_mut(turn.key())?;
        queue.waiting.remove(&number);
        queue.going += 1;
        queue.unlogged += 1;
        turn.goes = true;
        let (gateway, token, apply) = (turn.gateway, turn.token, turn.apply.clone());
        let body = Body::Await { apply, timeout_ms: turn.timeout_ms };
        Some(Request { gateway, token, after: None, body })
    }

    /// A turn that had set out is in the log.
    pub fn has_place(&mut self, gateway: GatewayId, token: Token) {
        let number = self.of.get(&(gateway, token));
        let Some(turn) = number.and_then(|number| self.turns.get_mut(number)) else { return };
        if let Some(queue) = self.queues.get_mut(&turn.apply.ops[0].0)
            && turn.goes
            && !turn.logged
        {
            turn.logged = true;
            queue.unlogged -= 1;
        }
    }

    /// A turn that had set out is back from the log.
    fn come_back(&mut self, number: Number) {
        let Some(turn) = self.turns.get_mut(&number) else { return };
        (turn.goes, turn.logged) = (false, false);
        let key = turn.key().clone();
        let Some(queue) = self.queues.get_mut(&key) else { return };
        queue.going -= 1;
        queue.waiting.insert(number);
        self.look.insert(key);
    }

    fn end(&mut self, number: Number) -> Option<WaitingTurn> {
        let turn = self.turns.remove(&number)?;
        self.of.remove(&(turn.gateway, turn.token));
        if let Some(request) = &turn.apply.request {
            leave(&mut self.numbered, request, number);
        }
        if let Some(waiter) = turn.op().waiter() {
            leave(&mut self.named, waiter, number);
        }
        if let Some(ticket) = turn.op().ticket() {
            leave(&mut self.tickets, ticket, number);
        }
        if turn.timeout_ms > 0 {
            let end_us = turn.since_us.saturating_add(turn.timeout_ms.saturating_mul(1000));
            self.deadlines.remove(&(end_us, number));
        }
        let key = turn.key();
        if let Some(queue) = self.queues.get_mut(key) {
            queue.waiting.remove(&number);
            queue.listening.remove(&number);
            queue.going -= u32::from(turn.goes);
            queue.unlogged -= u32::from(turn.goes && !turn.logged);
            if queue.going == 0 && queue.waiting.is_empty() && queue.listening.is_empty() {
                self.queues.swap_remove(key);
                self.look.remove(key);
            } else {
                // It may have been in somebody's way.
                self.look.insert(key.clone());
            }
        }
        Some(turn)
    }

    /// Who sets out next in this state of its record, which is changed by that. Whoever has been named goes
    /// first: it may have come to this leader after others.
    fn who_goes(&self, key: &Blob, scratch: &mut Option<Record>, ctx: &Ctx) -> Option<Number> {
        let queue = self.queues.get(key).filter(|queue| queue.unlogged == 0)?;
        let goes = |number: Number, scratch: &mut Option<Record>| {
            let turn = self.turns.get(&number)?;
            let reply = record::apply(scratch, turn.op(), ctx);
            (!turn.is_nothing(&reply)).then_some(number)
        };
        if let Some(first) = goes(queue.waiting.first().copied()?, scratch) {
            return Some(first);
        }
        let ticket = scratch.as_ref()?.value.whose_turn()?;
        goes(self.with_ticket(key, ticket)?, scratch)
    }

    /// All that are the same request, asked for over other connections.
    fn same(&self, turn: &WaitingTurn) -> SmallVec<[Number; 1]> {
        let request = turn.apply.request.as_ref();
        request.and_then(|request| self.numbered.get(request)).cloned().unwrap_or_default()
    }

    /// Whether another copy of the same request is on its way, so that nobody can say that it has no effect.
    fn copy_goes(&self, turn: &WaitingTurn) -> bool {
        let goes = |number: &Number| self.turns.get(number).is_some_and(|copy| copy.goes);
        self.same(turn).iter().any(goes)
    }

    /// When to look next, in monotonic microseconds.
    pub fn next_us(&self, now: Now) -> Option<u64> {
        let waits = self.queues.values().any(|queue| !queue.waiting.is_empty());
        let deadline = self.deadlines.first().map(|(at_us, _)| *at_us);
        waits.then_some(now.mono_us + LOOK_US).into_iter().chain(deadline).min()
    }
}

/// One less in a table of turns.
fn leave<K: Ord>(table: &mut BTreeMap<K, SmallVec<[Number; 1]>>, key: &K, number: Number) {
    if let Some(numbers) = table.get_mut(key) {
        numbers.retain(|other| *other != number);
        if numbers.is_empty() {
            table.remove(key);
        }
    }
}

impl Shard {
    /// An operation that waits for its turn.
    pub(in crate::shard) fn take_turn(&mut self, now: Now, request: Request) {
        let Request { gateway, token, body, .. } = request;
        let Body::Await { apply, timeout_ms } = body else { return };
        let section = apply.ops.first().is_some_and(|(_, op)| op.opens_section());
        let fits = apply.ops.len() == 1 || section;
        if !fits || self.turns.turns.len() >= TURNS_MAX {
            self.core.stats.refused += 1;
            return self.core.answer(gateway, token, Answer::Refused(Refusal::Busy));
        }
        let turn = WaitingTurn {
            gateway,
            token,
            apply,
            since_us: now.mono_us,
            timeout_ms,
            goes: false,
            logged: false,
            late: false,
            given_up: false,
            waited: false,
            told: false,
            naming: false,
            named: false,
            inherits: false,
        };
        if turn.op().listens() {
            return self.listen(now, turn);
        }
        let key = turn.key().clone();
        let request = turn.apply.request.as_ref();
        let known =
            request.is_some_and(|request| self.core.state.requests().get(request).is_some());
        if !known && let Some(error) = self.turns.stranger(&turn) {
            self.core.stats.refused += 1;
            let replies = SmallVec::from_iter([error.into()]);
            return self.core.answer(gateway, token, Answer::Replies(replies));
        }
        let turn = self.with_names_of_copies(now, turn);
        let number = self.turns.add(turn);
        self.report_changes();
        if known {
            // It is over already, and need not wait to hear that.
            self.set_out(now, number);
        } else {
            self.let_in(now, &key, None);
            let waits =
                self.turns.turns.get(&number).is_some_and(|turn| !self.turns.copy_goes(turn));
            if waits && let Some(deadlock) = self.deadlock_of(now, number) {
                self.core.stats.locks.deadlocks += 1;
                self.end_turn_with(now, number, deadlock.into());
            }
            self.tell_listening(now, &key);
            if let Some(turn) = self.turns.turns.get_mut(&number) {
                turn.waited = !turn.goes;
            }
        }
    }

    /// Whether somebody waits for a change of some record.
    pub(in crate::shard) fn report_changes(&mut self) {
        let nobody = self.turns.is_empty() && self.observers.is_empty();
        let wanted = !self.blocked.is_empty() || !nobody;
        self.core.ahead.report_changes(wanted);
    }

    fn set_out(&mut self, now: Now, number: Number) {
        if let Some(request) = self.turns.set_out(number) {
            self.admit_apply(now, request);
        }
    }

    /// Operations that somebody waits for.
    pub(in crate::shard) fn awaited(&self, apply: &Apply) -> SmallVec<[KeyedOp; 1]> {
        if self.turns.is_empty() {
            return SmallVec::new();
        }
        let awaited = |(key, op): &&KeyedOp| op.lets_go() && self.turns.has_waiting(key);
        apply.ops.iter().filter(awaited).cloned().collect()
    }

    /// They are in the log: whoever can go on then comes right behind.
    pub(in crate::shard) fn let_in_behind(&mut self, now: Now, awaited: &[KeyedOp]) {
        for (key, op) in awaited {
            self.let_in(now, key, Some(op));
        }
    }

    /// Those first in the queue of a record go on, as many as could, after `behind` if one is given.
    fn let_in(&mut self, now: Now, key: &Blob, behind: Option<&Op>) {
        let Some(queue) = self.turns.queues.get(key) else { return };
        // Whoever is on the way is looked at again when it is back, or has changed the record.
        if queue.unlogged > 0 || behind.is_none() && queue.going > 0 {
            return;
        }
        // After a split the record may be elsewhere; those who wait are sent there with the new lead.
        let elsewhere = |range| !is_in(key, range);
        if self.core.state.slots().range.is_some_and(elsewhere) {
            return;
        }
        let ctx = self.core.ctx(now);
        let mut scratch = self.core.state.get(key).cloned();
        if let Some(op) = behind {
            record::apply(&mut scratch, op, &ctx);
        }
        while let Some(number) = self.turns.who_goes(key, &mut scratch, &ctx) {
            self.set_out(now, number);
        }
        self.name_waiting(key, scratch, &ctx, behind.is_some());
        if behind.is_some() {
            self.tell_early(now, key);
        }
        self.go_on_together(now, key);
    }

    /// Records have changed, or somebody has come back without success.
    pub(in crate::shard) fn look_at_turns(&mut self, now: Now) {
        // As long as a backup stands still, or something is done to all keys, nobody goes on.
        if self.core.frozen || self.locking.whole.is_open() {
            return;
        }
        while let Some(key) = self.turns.look.pop_first() {
            self.let_in(now, &key, None);
            self.tell_listening(now, &key);
        }
    }

    /// A record has changed.
    pub(in crate::shard) fn turn_may_come(&mut self, key: &Blob) {
        if self.turns.queues.contains_key(key) {
            self.turns.look.insert(key.clone());
        }
    }

    /// Time has passed: some have waited long enough, and some leases may have ended.
    pub(in crate::shard) fn tick_turns(&mut self, now: Now) {
        while let Some((at_us, number)) = self.turns.deadlines.first().copied()
            && at_us <= now.mono_us
        {
            self.turns.deadlines.pop_first();
            self.end_in_time(now, number);
        }
        let waits = |queue: &Queue| !queue.waiting.is_empty();
        let keys = self.turns.queues.iter().filter(|(_, queue)| waits(queue));
        self.turns.look = keys.map(|(key, _)| key.clone()).collect();
        self.drop_names(now);
    }

    /// A turn has waited long enough. What it, or a copy of it, has on the way into the log says how it ends.
    fn end_in_time(&mut self, now: Now, number: Number) {
        let Some(turn) = self.turns.turns.get(&number) else { return };
        if !turn.goes && !self.turns.copy_goes(turn) {
            self.core.stats.locks.timed_out += 1;
            self.end_turn_with(now, number, Reply::Nil);
        } else if let Some(turn) = self.turns.turns.get_mut(&number) {
            turn.late = true;
        }
    }

    pub(in crate::shard) fn end_turn_with(&mut self, now: Now, number: Number, reply: Reply) {
        if let Some(turn) = self.turns.end(number) {
            self.unname(now, &turn);
            self.core.answer(
                turn.gateway,
                turn.token,
                Answer::Replies(SmallVec::from_iter([reply])),
            );
        }
        self.report_changes();
    }

    /// An operation that had set out is carried out, with this answer.
    pub(in crate::shard) fn turn_taken(&mut self, now: Now, target: Recipient, answer: Answer) {
        let who = (target.gateway, target.token);
        let Some(number) = self.turns.of.get(&who).copied() else {
            return self.core.answer(target.gateway, target.token, answer);
        };
        let Some(turn) = self.turns.turns.get(&number) else { return };
        let nothing = matches!(&answer, Answer::Replies(replies)
            if matches!(&replies[..], [reply] if turn.is_nothing(reply)));
        if nothing && !turn.given_up && !turn.late && !turn.told {
            let same = self.turns.same(turn);
            self.turns.come_back(number);
            let late = |copy: &Number| self.turns.turns.get(copy).is_some_and(|turn| turn.late);
            let late: SmallVec<[Number; 1]> = same.into_iter().filter(late).collect();
            return late.into_iter().for_each(|copy| self.end_in_time(now, copy));
        }
        let Some(turn) = self.turns.end(number) else { return };
        if turn.told {
            assert!(!nothing, "what was told has come true");
        } else {
            self.core.count_wait(turn.op(), &answer, turn.since_us, now);
        }
        let same = self.turns.same(&turn);
        // What is repeated was granted to another copy of the request, over a connection on which its
        // client may have been told, and may have renewed it since: only the lease ends that. So it is with
        // what an earlier leader has promised.
        if turn.given_up
            && !turn.inherits
            && same.is_empty()
            && let Answer::Replies(replies) = &answer
            && let [reply] = &replies[..]
            && let Some(op) = turn.op().undone(reply)
        {
            // It was granted to somebody who is gone.
            let ops = SmallVec::from_iter([(turn.key().clone(), op)]);
            let undo = Apply { ops, ..Apply::default() };
            let awaited = self.awaited(&undo);
            self.core.log(LogRecord::Apply(undo), Recipient::none());
            self.let_in_behind(now, &awaited);
        }
        if !turn.told {
            self.core.answer(target.gateway, target.token, answer);
        }
        // Whoever has asked the same need not wait to hear what has come of it.
        for number in same {
            if self.turns.turns.get(&number).is_some_and(|turn| !turn.goes) {
                self.set_out(now, number);
            }
        }
        self.report_changes();
    }

    /// Somebody waits no more.
    pub(in crate::shard) fn give_up_turn(&mut self, now: Now, gateway: GatewayId, token: Token) {
        let Some(number) = self.turns.of.get(&(gateway, token)).copied() else { return };
        match self.turns.turns.get_mut(&number) {
            Some(turn) if turn.goes => turn.given_up = true,
            _ => {
                if let Some(turn) = self.turns.end(number) {
                    self.unname(now, &turn);
                }
            }
        }
        self.report_changes();
    }

    /// The connections of a machine are gone. Its gateways ask again for what has a request number, if they
    /// are there, and their clients do not hear of that: what is on its way for them is not taken back.
    pub(in crate::shard) fn forget_turns(&mut self, now: Now, machine: MachineId) {
        let gone = self.turns.of.iter().filter(|((gateway, _), _)| gateway.machine == machine);
        for ((gateway, token), number) in gone.map(|(who, n)| (*who, *n)).collect::<Vec<_>>() {
            match self.turns.turns.get_mut(&number) {
                Some(turn) if turn.goes && (turn.told || turn.apply.request.is_some()) => {
                    turn.late = true;
                }
                _ => self.give_up_turn(now, gateway, token),
            }
        }
    }

    /// How an operation that had set out is asked again.
    pub(in crate::shard) fn turn_again(
        &self,
        gateway: GatewayId,
        token: Token,
        apply: Apply,
    ) -> Body {
        let number = self.turns.of.get(&(gateway, token));
        match number.and_then(|number| self.turns.turns.get(number)) {
            Some(turn) => Body::Await { apply: turn.apply.clone(), timeout_ms: turn.timeout_ms },
            None => Body::Await { apply, timeout_ms: 0 },
        }
    }

    /// The lead ends: those who wait are sent to the next leader, by gateways who know how long they have
    /// waited. Others are on their way, and are told there.
    pub(in crate::shard) fn turn_all_away(&mut self) {
        for turn in std::mem::take(&mut self.turns).turns.into_values() {
            if !turn.goes {
                let body = Body::Await { apply: turn.apply, timeout_ms: turn.timeout_ms };
                self.core.turn_away(turn.gateway, turn.token, body);
            }
        }
    }

    /// Who waits for a record, first in turn first: what each asks for, and for how many milliseconds.
    pub(in crate::shard) fn told_waiting(&self, now: Now, key: &Blob) -> Reply {
        let row = |turn: &WaitingTurn| {
            let mut row = turn.op().wish();
            let waited_us = now.mono_us.saturating_sub(turn.since_us);
            row.push(Reply::Int((waited_us / 1000) as i64));
            Reply::Array(row)
        };
        Reply::Array(self.turns.waiting(key).map(row).collect())
    }
}

impl RecipientKind {
    /// How the operations of a request are told that are logged by themselves.
    pub(in crate::shard) fn of_apply(body: &Body) -> Self {
        if matches!(body, Body::Await { .. }) { Self::Turn } else { Self::Replies }
    }
}
