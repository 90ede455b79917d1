//! Operations that wait for their turn on a record, in the order of their arrival: the queue of a lock.
//!
//! The queue is in the leader's memory. An operation goes on by being written into the log, and is a turn
//! again if its reply is nil: nothing rests on the leader's predictions. They save a round, though: behind
//! a release in the log comes the operation of the successor, in the same entry, so that the hand-over of a
//! lock costs one write and one message to the new holder. To wait costs no messages. A *section* is a turn
//! that brings the operations to carry out under the lock. See
//! `docs/internals/coordination/locks.md`.

mod listening;
mod successor;
mod together;

use super::room::WaitingRoom;
use crate::entry::Apply;
use crate::ids::{GatewayId, KeyedOp, MachineId, RequestId, Token};
use crate::limits::TURNS_MAX;
use crate::message::{Answer, Body, Refusal, Request};
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::state::slots::is_in;
use crate::shard::tail::{Recipient, RecipientKind};
use adt::collections::Map;
use adt::{Blob, Ctx, ErrorReply, Op, Record, Reply, record};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Number of a turn, in the order of arrival.
pub(in crate::shard) type Number = u64;

/// How often the queues are examined for turns that time alone has let in, in microseconds.
const LOOK_US: u64 = 100_000;

#[derive(Debug)]
struct Turn {
    gateway: GatewayId,
    token: Token,
    apply: Apply,
    since_us: u64,
    timeout_ms: u64,
    /// The operation is on its way through locks and log.
    goes: bool,
    /// The operation is in the log.
    logged: bool,
    /// The wait is over as soon as it comes back.
    late: bool,
    /// The client has left.
    given_up: bool,
    /// The turn came when the record was of its type, and keeps waiting when the record is of another one.
    waited: bool,
    /// The client was told that it can go on, before that was durable.
    told: bool,
    /// The operation that names the turn is in the log.
    naming: bool,
    /// This leader has named the turn, or a copy of the request.
    named: bool,
    /// An earlier leader had named the turn, or a copy of the request, and may have told the client.
    inherits: bool,
}

impl Turn {
    fn of_request(request: Request, now: Now) -> Option<Self> {
        let Request { gateway, token, body, .. } = request;
        let Body::Await { apply, timeout_ms } = body else { return None };
        Some(Self {
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
        })
    }

    fn key(&self) -> &Blob {
        &self.apply.ops[0].0
    }

    fn op(&self) -> &Op {
        &self.apply.ops[0].1
    }

    /// When the wait is over, if ever.
    fn end_us(&self) -> Option<u64> {
        let end_us = self.since_us.saturating_add(self.timeout_ms.saturating_mul(1000));
        (self.timeout_ms > 0).then_some(end_us)
    }

    /// Whether it keeps waiting with this reply.
    fn is_nothing(&self, reply: &Reply) -> bool {
        *reply == Reply::Nil || (self.waited && *reply == ErrorReply::wrong_type().into())
    }

    fn body(&self) -> Body {
        Body::Await { apply: self.apply.clone(), timeout_ms: self.timeout_ms }
    }
}

/// Turns on one record.
#[derive(Debug, Default)]
struct Queue {
    waiting: BTreeSet<Number>,
    /// Turns beside the queue whose clients want to know when another client waits.
    listening: BTreeSet<Number>,
    /// Number of turns that are on their way.
    going: u32,
    /// How many of them are not in the log: a section may have to wait for the records that it is about.
    /// No turn overtakes them.
    unlogged: u32,
}

/// A turn that has come.
pub(in crate::shard) struct NewTurn {
    pub number: Number,
    pub key: Blob,
    /// The request is over already: the turn need not wait to learn its outcome.
    pub known: bool,
}

/// Step of letting turns of a record in: see [`TurnQueues::begin_letting_in`].
pub(in crate::shard) struct LettingIn {
    scratch: Option<Record>,
    ctx: Ctx,
    behind: bool,
}

/// Effect of a turn that is back from the log.
#[derive(Default)]
pub(in crate::shard) struct TurnTaken {
    /// Operation that undoes a grant to a client that has left.
    pub undo: Option<Apply>,
    /// Copies of the same request, which go on as well.
    pub copies: SmallVec<[Number; 1]>,
}

/// All turns of a shard.
#[derive(Debug, Default)]
pub(in crate::shard) struct TurnQueues {
    turns: BTreeMap<Number, Turn>,
    queues: Map<Blob, Queue>,
    of: BTreeMap<(GatewayId, Token), Number>,
    /// By request number: a client whose connection has broken asks again over another one,
    /// while the first is not known to be gone.
    numbered: BTreeMap<RequestId, SmallVec<[Number; 1]>>,
    /// By the name of the waiting owner.
    named: BTreeMap<Blob, SmallVec<[Number; 1]>>,
    /// By ticket: turns that can be named as successors.
    tickets: BTreeMap<Blob, SmallVec<[Number; 1]>>,
    /// Records of turns that are on their way and whose namings are carried out.
    named_now: Vec<Blob>,
    deadlines: BTreeSet<(u64, Number)>,
    /// When this lead began, in monotonic microseconds.
    led_since_us: u64,
    next: Number,
    /// Records whose queues are to be examined.
    look: BTreeSet<Blob>,
}

impl TurnQueues {
    /// Begins a lead.
    pub fn begin_lead(&mut self, now: Now) {
        self.led_since_us = now.mono_us;
    }

    fn waiting(&self, key: &Blob) -> impl Iterator<Item = &Turn> {
        let waiting = self.queues.get(key).into_iter().flat_map(|queue| &queue.waiting);
        waiting.filter_map(|number| self.turns.get(number))
    }

    /// Turns that wait for an owner of this name, the first in turn first.
    pub(super) fn of_name(&self, name: &Blob) -> impl Iterator<Item = (Number, &Blob, &Op)> {
        let numbers = self.named.get(name).into_iter().flatten();
        numbers.filter_map(|number| self.what(*number))
    }

    /// Record and operation of a turn, if it waits.
    pub(super) fn what(&self, number: Number) -> Option<(Number, &Blob, &Op)> {
        let turn = self.turns.get(&number).filter(|turn| !turn.goes)?;
        Some((number, turn.key(), turn.op()))
    }

    /// When the wait of a turn began, on the leader's clock.
    pub(super) fn since_us(&self, number: Number) -> Option<u64> {
        self.turns.get(&number).map(|turn| turn.since_us)
    }

    /// Whether a turn waits for a record.
    #[cfg(test)]
    pub fn has_waiting(&self, key: &Blob) -> bool {
        self.waiting(key).next().is_some()
    }

    /// The turn of a request, as long as no copy of it is on its way.
    pub(super) fn waiting_as(&self, gateway: GatewayId, token: Token) -> Option<Number> {
        let number = self.of.get(&(gateway, token)).copied()?;
        let turn = self.turns.get(&number)?;
        (!turn.goes && !self.copy_goes(turn)).then_some(number)
    }

    /// Names of the owners in front of a turn.
    pub(super) fn ahead(&self, key: &Blob, number: Number) -> impl Iterator<Item = &Blob> {
        let ahead = self.queues.get(key).into_iter().flat_map(move |q| q.waiting.range(..number));
        ahead.filter_map(|number| self.turns.get(number)?.op().waiter())
    }

    /// For each record with waiting turns: their number, and the longest wait in microseconds.
    pub fn queues(&self, now_us: u64) -> impl Iterator<Item = (Blob, u64, u64)> {
        self.queues.iter().filter_map(move |(key, queue)| {
            let first = self.turns.get(queue.waiting.first()?)?;
            let longest_us = now_us.saturating_sub(first.since_us);
            Some((key.clone(), queue.waiting.len() as u64, longest_us))
        })
    }

    /// Turns that wait for a record, first in turn first: the request of each, and for how many milliseconds
    /// it has waited.
    pub fn described(&self, now: Now, key: &Blob) -> Reply {
        let row = |turn: &Turn| {
            let mut row = turn.op().wish();
            let waited_us = now.mono_us.saturating_sub(turn.since_us);
            row.push(Reply::Int((waited_us / 1000) as i64));
            Reply::Array(row)
        };
        Reply::Array(self.waiting(key).map(row).collect())
    }

    /// Takes an operation that waits for its turn. Gives its turn, unless it is refused or only listens.
    pub fn take(&mut self, core: &mut ShardCore, now: Now, request: Request) -> Option<NewTurn> {
        let turn = Turn::of_request(request, now)?;
        let (gateway, token) = (turn.gateway, turn.token);
        let section = turn.apply.ops.first().is_some_and(|(_, op)| op.opens_section());
        let fits = turn.apply.ops.len() == 1 || section;
        if !fits || self.is_full() {
            core.stats.refused += 1;
            core.answer(gateway, token, Answer::Refused(Refusal::Busy));
            return None;
        }
        if turn.op().listens() {
            self.listen(core, now, turn);
            return None;
        }
        let request = turn.apply.request.as_ref();
        let known = request.is_some_and(|request| core.state.requests().get(request).is_some());
        if !known && let Some(error) = self.stranger(&turn) {
            core.stats.refused += 1;
            let replies = SmallVec::from_iter([error.into()]);
            core.answer(gateway, token, Answer::Replies(replies));
            return None;
        }
        let turn = self.with_names_of_copies(core, now, turn);
        let key = turn.key().clone();
        Some(NewTurn { number: self.add(turn), key, known })
    }

    /// Settles whether a turn that has come waits: it ends at once if it closes a deadlock cycle.
    pub fn settle_new(&mut self, core: &mut ShardCore, now: Now, number: Number, key: &Blob) {
        let waits = self.turns.get(&number).is_some_and(|turn| !self.copy_goes(turn));
        if waits && let Some(deadlock) = self.deadlock_of(core, now, number) {
            core.stats.locks.deadlocks += 1;
            self.end_with(core, now, number, deadlock.into());
        }
        self.tell_listening(core, now, key);
        if let Some(turn) = self.turns.get_mut(&number) {
            turn.waited = !turn.goes;
        }
    }

    fn add(&mut self, turn: Turn) -> Number {
        let number = self.next;
        self.next += 1;
        self.of.insert((turn.gateway, turn.token), number);
        self.deadlines.extend(turn.end_us().map(|end_us| (end_us, number)));
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

    /// Lets a turn set out, if it waits. Gives its request, for locks and log.
    pub fn set_out(&mut self, number: Number) -> Option<Request> {
        let turn = self.turns.get_mut(&number)?;
        let queue = self.queues.get_mut(turn.key())?;
        queue.waiting.remove(&number);
        queue.going += 1;
        queue.unlogged += 1;
        turn.goes = true;
        let (gateway, token, body) = (turn.gateway, turn.token, turn.body());
        Some(Request { gateway, token, after: None, body })
    }

    /// Notes that a turn which had set out is in the log.
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

    /// Puts a turn that had set out back into its queue.
    fn come_back(&mut self, number: Number) {
        let Some(turn) = self.turns.get_mut(&number) else { return };
        (turn.goes, turn.logged) = (false, false);
        let key = turn.key().clone();
        let Some(queue) = self.queues.get_mut(&key) else { return };
        queue.going -= 1;
        queue.waiting.insert(number);
        self.look.insert(key);
    }

    fn end(&mut self, number: Number) -> Option<Turn> {
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
        if let Some(end_us) = turn.end_us() {
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
                // It may have been in the way of another turn.
                self.look.insert(key.clone());
            }
        }
        Some(turn)
    }

    /// The turn that sets out next in this state of its record, which is changed by that. A named turn goes
    /// first: it may have come to this leader after others.
    fn next_to_go(&self, key: &Blob, scratch: &mut Option<Record>, ctx: &Ctx) -> Option<Number> {
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

    /// Copies of a request over other connections, the given one included.
    fn same(&self, turn: &Turn) -> SmallVec<[Number; 1]> {
        let request = turn.apply.request.as_ref();
        request.and_then(|request| self.numbered.get(request)).cloned().unwrap_or_default()
    }

    /// Whether another copy of the same request is on its way, so that it may have an effect.
    fn copy_goes(&self, turn: &Turn) -> bool {
        let goes = |number: &Number| self.turns.get(number).is_some_and(|copy| copy.goes);
        self.same(turn).iter().any(goes)
    }

    /// Operations that let others go and that turns wait for.
    pub fn awaited(&self, apply: &Apply) -> SmallVec<[KeyedOp; 1]> {
        if self.turns.is_empty() {
            return SmallVec::new();
        }
        let awaited = |(key, op): &&KeyedOp| {
            let queue = self.queues.get(key).filter(|_| op.lets_go());
            queue.is_some_and(|queue| !queue.waiting.is_empty())
        };
        apply.ops.iter().filter(awaited).cloned().collect()
    }

    /// Begins to let the first turns of a record's queue in, as many as can go, after `behind` if one is
    /// given. [`TurnQueues::let_in_next`] gives them, and [`TurnQueues::end_letting_in`] ends the step.
    pub fn begin_letting_in(
        &self,
        core: &mut ShardCore,
        now: Now,
        key: &Blob,
        behind: Option<&Op>,
    ) -> Option<LettingIn> {
        let queue = self.queues.get(key)?;
        // Turns that are on their way are examined when they are back, or have changed the record.
        if queue.unlogged > 0 || behind.is_none() && queue.going > 0 {
            return None;
        }
        // After a split the record may be elsewhere; its turns are sent there with the new lead.
        let elsewhere = |range| !is_in(key, range);
        if core.state.slots().range.is_some_and(elsewhere) {
            return None;
        }
        let ctx = core.ctx(now);
        let mut scratch = core.state.get(key).cloned();
        if let Some(op) = behind {
            record::apply(&mut scratch, op, &ctx);
        }
        Some(LettingIn { scratch, ctx, behind: behind.is_some() })
    }

    /// The request of the next turn that goes on.
    pub fn let_in_next(&mut self, key: &Blob, step: &mut LettingIn) -> Option<Request> {
        let number = self.next_to_go(key, &mut step.scratch, &step.ctx)?;
        self.set_out(number)
    }

    /// Names the successors among the turns that wait on, and tells the next one early if the lead of this
    /// replica is `certain`.
    pub fn end_letting_in(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        key: &Blob,
        (step, certain): (LettingIn, bool),
    ) {
        let LettingIn { scratch, ctx, behind } = step;
        self.name_waiting(core, key, scratch, (&ctx, behind));
        if behind && certain {
            self.tell_early(core, now, key);
        }
    }

    /// Takes a record whose queue is to be examined.
    pub fn next_look(&mut self) -> Option<Blob> {
        self.look.pop_first()
    }

    /// Notes that a record has changed.
    pub fn may_come(&mut self, key: &Blob) {
        if self.queues.contains_key(key) {
            self.look.insert(key.clone());
        }
    }

    /// Ends turns whose time is over, and lets all queues be examined: some leases may have ended.
    pub fn tick(&mut self, core: &mut ShardCore, now: Now) {
        while let Some((at_us, number)) = self.deadlines.first().copied()
            && at_us <= now.mono_us
        {
            self.deadlines.pop_first();
            self.end_in_time(core, now, number);
        }
        let waits = |queue: &Queue| !queue.waiting.is_empty();
        let keys = self.queues.iter().filter(|(_, queue)| waits(queue));
        self.look = keys.map(|(key, _)| key.clone()).collect();
        self.drop_names(core, now);
    }

    /// Ends a turn whose time is over. If it, or a copy of it, is on the way into the log, the log decides.
    fn end_in_time(&mut self, core: &mut ShardCore, now: Now, number: Number) {
        let Some(turn) = self.turns.get(&number) else { return };
        if !turn.goes && !self.copy_goes(turn) {
            core.stats.locks.timed_out += 1;
            self.end_with(core, now, number, Reply::Nil);
        } else if let Some(turn) = self.turns.get_mut(&number) {
            turn.late = true;
        }
    }

    /// Ends a turn with a reply.
    pub(super) fn end_with(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        number: Number,
        reply: Reply,
    ) {
        if let Some(turn) = self.end(number) {
            self.unname(core, now, &turn);
            core.answer(turn.gateway, turn.token, Answer::Replies(SmallVec::from_iter([reply])));
        }
    }

    /// Takes the answer to the operation of a turn that had set out.
    pub fn taken(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        Recipient { gateway, token, .. }: Recipient,
        answer: Answer,
    ) -> TurnTaken {
        let mut effect = TurnTaken::default();
        let Some(number) = self.of.get(&(gateway, token)).copied() else {
            core.answer(gateway, token, answer);
            return effect;
        };
        let Some(turn) = self.turns.get(&number) else { return effect };
        let nothing = matches!(&answer, Answer::Replies(replies)
            if matches!(&replies[..], [reply] if turn.is_nothing(reply)));
        if nothing && !turn.given_up && !turn.late && !turn.told {
            let same = self.same(turn);
            self.come_back(number);
            let late = |copy: &Number| self.turns.get(copy).is_some_and(|turn| turn.late);
            let late: SmallVec<[Number; 1]> = same.into_iter().filter(late).collect();
            late.into_iter().for_each(|copy| self.end_in_time(core, now, copy));
            return effect;
        }
        let Some(turn) = self.end(number) else { return effect };
        // What was told was true then. If the entry gets its time so late that the lease of the told client
        // is over, the lock has gone to the next named client, and nothing comes back.
        if !turn.told {
            core.count_wait(turn.op(), &answer, turn.since_us, now);
        }
        effect.copies = self.same(&turn);
        // A repeated grant went to another copy of the request, over a connection on which its client may
        // have been told, and may have renewed it since: only the lease ends that. The same holds for the
        // promise of an earlier leader.
        if turn.given_up
            && !turn.inherits
            && effect.copies.is_empty()
            && let Answer::Replies(replies) = &answer
            && let [reply] = &replies[..]
            && let Some(op) = turn.op().undone(reply)
        {
            let ops = SmallVec::from_iter([(turn.key().clone(), op)]);
            effect.undo = Some(Apply { ops, ..Apply::default() });
        }
        if !turn.told {
            core.answer(gateway, token, answer);
        }
        effect
    }

    /// Lets a copy of a request that is over set out, to get the same answer.
    pub fn set_out_copy(&mut self, number: Number) -> Option<Request> {
        let waits = self.turns.get(&number).is_some_and(|turn| !turn.goes);
        if waits { self.set_out(number) } else { None }
    }

    /// Gives the turn of a client up that has left.
    pub fn give_up(&mut self, core: &mut ShardCore, now: Now, gateway: GatewayId, token: Token) {
        let Some(number) = self.of.get(&(gateway, token)).copied() else { return };
        match self.turns.get_mut(&number) {
            Some(turn) if turn.goes => turn.given_up = true,
            _ => {
                if let Some(turn) = self.end(number) {
                    self.unname(core, now, &turn);
                }
            }
        }
    }

    /// Ends a wait whose operation is on its way if that comes back without anything.
    pub(super) fn ends_when_back(&mut self, gateway: GatewayId, token: Token) {
        let number = self.of.get(&(gateway, token));
        if let Some(turn) = number.and_then(|number| self.turns.get_mut(number)) {
            turn.late = true;
        }
    }

    /// The request with which an operation that had set out is sent to the next leader.
    pub fn again(&self, gateway: GatewayId, token: Token, apply: Apply) -> Body {
        let number = self.of.get(&(gateway, token));
        match number.and_then(|number| self.turns.get(number)) {
            Some(turn) => turn.body(),
            None => Body::Await { apply, timeout_ms: 0 },
        }
    }
}

impl WaitingRoom for TurnQueues {
    fn limit(&self) -> usize {
        TURNS_MAX
    }

    fn len(&self) -> usize {
        self.turns.len()
    }

    fn next_us(&self, _core: &ShardCore, now: Now) -> Option<u64> {
        let waits = self.queues.values().any(|queue| !queue.waiting.is_empty());
        let deadline = self.deadlines.first().map(|(at_us, _)| *at_us);
        waits.then_some(now.mono_us + LOOK_US).into_iter().chain(deadline).min()
    }

    /// Gives the turns of the machine's clients up. Its gateways ask again for requests that have a number,
    /// if they are there, and their clients do not notice: operations on their way for them are not undone.
    fn forget(&mut self, core: &mut ShardCore, now: Now, machine: MachineId) {
        let gone = self.of.iter().filter(|((gateway, _), _)| gateway.machine == machine);
        for ((gateway, token), number) in gone.map(|(who, n)| (*who, *n)).collect::<Vec<_>>() {
            match self.turns.get_mut(&number) {
                Some(turn) if turn.goes && (turn.told || turn.apply.request.is_some()) => {
                    turn.late = true;
                }
                _ => self.give_up(core, now, gateway, token),
            }
        }
    }

    /// Sends waiting turns to the next leader: their gateways know how long they have waited. Turns on their
    /// way are answered with their log records.
    fn end_lead(&mut self, core: &mut ShardCore) {
        for turn in std::mem::take(self).turns.into_values() {
            if !turn.goes {
                let body = Body::Await { apply: turn.apply, timeout_ms: turn.timeout_ms };
                core.turn_away(turn.gateway, turn.token, body);
            }
        }
    }
}

/// Removes a turn from a table of turns.
fn leave<K: Ord>(table: &mut BTreeMap<K, SmallVec<[Number; 1]>>, key: &K, number: Number) {
    if let Some(numbers) = table.get_mut(key) {
        numbers.retain(|other| *other != number);
        if numbers.is_empty() {
            table.remove(key);
        }
    }
}

impl RecipientKind {
    /// Kind of the addressee of operations that a request has logged by themselves.
    pub(in crate::shard) fn of_apply(body: &Body) -> Self {
        if matches!(body, Body::Await { .. }) { Self::Turn } else { Self::Replies }
    }
}
