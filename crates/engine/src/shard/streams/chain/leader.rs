//! Pipelines whose order is handed on (`chain`), at a shard's leader.
//!
//! Units arrive and are written to the log, where they hold nothing. When the unit before one has its
//! place, that and all places before it are handed on to this shard; then the unit waits for its records
//! like any single command, goes into the log a second time, at a place after all those, and that is
//! handed on at once. See `docs/internals/order.md`; what a new leader has to ask is in `recovery`.

use super::super::live::lost;
use crate::entry::LogRecord;
use crate::ids::{GatewayId, KeyedOp, ShardId, StreamId, Token};
use crate::message::{Answer, Body, Request};
use crate::now::Now;
use crate::pipeline::{Answered, Group, Link, Place, Unit, Word};
use crate::shard::locking::locks::{Claim, Class};
use crate::shard::state::OpReplies;
use crate::shard::{Recipient, Shard};
use adt::{Blob, Op, Timestamp};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How far a unit is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ChainStep {
    /// It has no place.
    Waiting,
    /// It may have one as soon as its records are free.
    Wanted,
    /// It is in the log with its place.
    Placed,
    /// It has taken effect.
    Done { place: Timestamp, replies: OpReplies },
    /// It has no effect.
    Failed,
}

/// What is known of one such stream beyond the log.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// This shard's units, unless only others have told of the stream.
    pub group: Option<Arc<Group>>,
    /// Who wants to know what becomes of them.
    pub asker: Option<(GatewayId, Token)>,
    /// They are in the log.
    pub durable: bool,
    pub steps: Vec<ChainStep>,
    /// Places that were handed on to this shard and that nothing rests on, by the last unit of each, whether
    /// they may be rested on or not.
    pub heard: BTreeMap<u32, Vec<Link>>,
    /// Places that are in the log, or on the way there.
    pub links: BTreeMap<u32, Link>,
    /// Up to which of its units this shard has handed on.
    pub handed: Option<u32>,
}

impl Chain {
    /// A stream's units at this shard have come.
    fn begin(&mut self, group: Arc<Group>, asker: (GatewayId, Token)) {
        self.steps = vec![ChainStep::Waiting; group.units.len()];
        self.asker = Some(asker);
        self.group = Some(group);
    }

    pub fn step_of(&mut self, seq: u32) -> Option<&mut ChainStep> {
        let units = &self.group.as_ref()?.units;
        let at = units.binary_search_by_key(&seq, |unit| unit.seq).ok()?;
        self.steps.get_mut(at)
    }

    /// The next units that are to have places, which follow each other.
    fn next_run(&self) -> &[Unit] {
        let Some(group) = &self.group else { return &[] };
        let open = |step: &ChainStep| matches!(step, ChainStep::Waiting | ChainStep::Wanted);
        let Some(at) = self.steps.iter().position(open) else { return &[] };
        let (units, steps) = (&group.units[at..], &self.steps[at..]);
        let run = units.iter().zip(steps).zip(units[0].seq..);
        let run =
            run.take_while(|((unit, step), seq)| **step == ChainStep::Waiting && unit.seq == *seq);
        &units[..run.count()]
    }

    fn is_over(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, ChainStep::Done { .. } | ChainStep::Failed))
    }

    fn answer(&self) -> Vec<Answered> {
        let answered = |step: &ChainStep| match step {
            ChainStep::Done { place, replies } => Some((*place, replies.clone())),
            _ => None,
        };
        self.steps.iter().map(answered).collect()
    }
}

/// A request of the shard itself: to give these units their places as soon as their records are free.
fn wants_places(stream: StreamId, units: Vec<Unit>) -> Request {
    let group = Group { stream, chained: true, units, ..Group::default() };
    let body = Body::Pipeline(Arc::new(group));
    Request { gateway: GatewayId::LAST, token: Token::default(), after: None, body }
}

impl Shard {
    pub(super) fn chain_mut(&mut self, id: StreamId) -> Option<&mut Chain> {
        self.streams.live.get_mut(&id)?.chain.0.as_deref_mut()
    }

    fn chain(&self, id: StreamId) -> Option<&Chain> {
        self.streams.live.get(&id)?.chain.0.as_deref()
    }

    /// Units have come whose order is handed on.
    pub(super) fn begin_chain(&mut self, now: Now, asker: (GatewayId, Token), group: Arc<Group>) {
        let id = group.stream;
        let stream = self.stream_mut(now, id);
        stream.late = None;
        stream.chain.0.get_or_insert_default().begin(Arc::clone(&group), asker);
        self.core.log(LogRecord::Content(group), Recipient::none());
        self.streams.mark(id);
    }

    /// They are durable.
    pub(super) fn contents_came(&mut self, group: &Group) {
        self.remember_stream(group.stream);
        if let Some(chain) = self.chain_mut(group.stream) {
            chain.durable = true;
            self.streams.mark(group.stream);
        }
    }

    /// Another shard hands on.
    pub(super) fn hear_places(&mut self, now: Now, id: StreamId, links: Vec<Link>) {
        let Some(last) = links.last().map(|link| link.seq) else { return };
        let whole = links.iter().zip(0..).all(|(link, seq)| link.seq == seq);
        let has_better = |chain: &Chain| {
            let heard = chain.heard.get(&last);
            heard.is_some_and(|heard| self.takes(id, chain, heard))
        };
        if !whole || self.chain(id).is_some_and(has_better) {
            return;
        }
        self.stream_mut(now, id).chain.0.get_or_insert_default().heard.insert(last, links);
        self.streams.mark(id);
    }

    /// Whether the leader who has given a place is still listened to.
    fn listens(&self, id: StreamId, chain: &Chain, link: &Link) -> bool {
        let home = chain.group.as_ref().and_then(|group| group.homes.get(link.seq as usize));
        home.is_some_and(|home| link.term >= self.listens_from(id, *home))
    }

    /// Whether a leader may rest something on places: nobody has given one of them who is not listened to
    /// any more. Those that something rests on already were told when that was promised; and of others
    /// somebody may have spoken who is listened to, be it together with some that he is not.
    fn takes(&self, id: StreamId, chain: &Chain, links: &[Link]) -> bool {
        let is_known =
            |link: &Link| chain.links.get(&link.seq).is_some_and(|known| known.place == link.place);
        let is_vouched = |link: &Link| {
            let mut heard = chain.heard.values().filter_map(|heard| heard.get(link.seq as usize));
            heard.any(|heard| heard.place == link.place && self.listens(id, chain, heard))
        };
        let is_taken =
            |link: &Link| self.listens(id, chain, link) || is_known(link) || is_vouched(link);
        chain.group.is_none() || links.iter().all(is_taken)
    }

    /// The places before a unit that are not in the log here, if all are known.
    fn before(&self, id: StreamId, chain: &Chain, seq: u32) -> Option<Vec<Link>> {
        let Some(last) = seq.checked_sub(1) else { return Some(Vec::new()) };
        if chain.links.contains_key(&last) {
            return Some(Vec::new());
        }
        let links = chain.heard.get(&last).filter(|links| self.takes(id, chain, links))?;
        let is_new = |link: &&Link| !chain.links.contains_key(&link.seq);
        Some(links.iter().filter(is_new).copied().collect())
    }

    /// Does what has become possible for a stream.
    pub(in crate::shard::streams) fn advance_chain(&mut self, now: Now, id: StreamId) {
        if self.chain(id).is_none_or(|chain| chain.group.is_none()) {
            return;
        }
        self.fail_behind_refused(id);
        self.want_places(now, id);
        let Some(chain) = self.chain_mut(id) else { return };
        if chain.is_over()
            && let Some((gateway, token)) = chain.asker.take()
        {
            let units = chain.answer();
            self.core.answer(gateway, token, Answer::Units(units));
        }
        self.end_chain(id);
    }

    /// Fails what comes after a unit that has no effect.
    fn fail_behind_refused(&mut self, id: StreamId) {
        let Some(stream) = self.streams.live.get_mut(&id) else { return };
        let Some(refused) = stream.told.refused else { return };
        let Some(chain) = stream.chain.0.as_deref_mut() else { return };
        let Some(group) = &chain.group else { return };
        let mut failed: Vec<(u32, Place)> = Vec::new();
        for (unit, step) in group.units.iter().zip(&mut chain.steps) {
            if *step == ChainStep::Waiting && unit.seq > refused {
                *step = ChainStep::Failed;
                failed.push((unit.seq, None));
            }
        }
        self.log_settled(id, &failed);
    }

    /// Asks for the records of the next units, if all before them have places. The first one of a stream
    /// comes after nobody, and goes into the log only once.
    fn want_places(&mut self, now: Now, id: StreamId) {
        if self.core.frozen || self.streams.is_recovering() {
            return;
        }
        let Some(chain) = self.chain(id) else { return };
        let run = chain.next_run();
        let Some(first) = run.first().map(|unit| unit.seq) else { return };
        let durable = chain.durable || first == 0;
        if !durable || self.before(id, chain, first).is_none() {
            return;
        }
        let run = run.to_vec();
        self.set_steps(id, &run, &ChainStep::Wanted);
        self.begin_locking(now, wants_places(id, run));
    }

    fn set_steps(&mut self, id: StreamId, units: &[Unit], step: &ChainStep) {
        let Some(chain) = self.chain_mut(id) else { return };
        for unit in units {
            chain.step_of(unit.seq).into_iter().for_each(|known| *known = step.clone());
        }
    }

    /// The records of units are free: they go into the log with their places.
    pub(super) fn place_run(&mut self, now: Now, group: &Group) {
        let (id, first) = (group.stream, group.first());
        let Some(chain) = self.chain(id) else { return };
        let Some(mut before) = self.before(id, chain, first) else {
            // Whoever has handed on is not listened to any more.
            self.set_steps(id, &group.units, &ChainStep::Waiting);
            return self.streams.mark(id);
        };
        let last = first.checked_sub(1).and_then(|seq| chain.links.get(&seq));
        let after = before.last().or(last).map(|link| link.place);
        self.core.move_clock(after.unwrap_or_default());
        let term = self.streams.term;
        if let Some(chain) = self.chain_mut(id) {
            chain.links.extend(before.iter().map(|link| (link.seq, *link)));
            chain.heard.clear();
        }
        for unit in &group.units {
            let link = Link { seq: unit.seq, place: Timestamp::ZERO, term };
            self.log_ordered(now, id, link, std::mem::take(&mut before), unit.ops.clone());
        }
        self.set_steps(id, &group.units, &ChainStep::Placed);
    }

    pub(super) fn log_ordered(
        &mut self,
        now: Now,
        stream: StreamId,
        link: Link,
        before: Vec<Link>,
        ops: SmallVec<[KeyedOp; 1]>,
    ) {
        self.core.track(now);
        self.streams.chain.ordering += 1;
        self.core.log(LogRecord::Ordered { stream, link, before, ops }, Recipient::none());
    }

    /// Whether a read must wait for what is on its way to the log: others may have seen already what comes
    /// after that. (Of single commands nobody has seen anything before they are durable, but when a unit
    /// comes after them. It need not be on the same record: who has issued a command that the unit comes
    /// after has others before that.)
    #[inline]
    pub(in crate::shard) fn waits_for_ordered(&self, body: &Body) -> bool {
        self.streams.chain.ordering > 0
            && match body {
                Body::Read { key, op, .. } => self.is_changing(key, op),
                Body::Snapshot { ops, .. } => ops.iter().any(|(key, op)| self.is_changing(key, op)),
                _ => false,
            }
    }

    /// Whether what is on its way to the log changes what is read. (Where units go into the log, it is noted
    /// what does.)
    fn is_changing(&self, key: &Blob, op: &Op) -> bool {
        let claim = Claim::new(op.clone(), Class::Passing);
        let record = self.core.state.get(key);
        self.core.locks.in_flight_against(key, &claim, record).is_some()
    }

    /// A unit is in an entry that is closed, which has given it its place.
    pub(in crate::shard) fn has_place(&mut self, id: StreamId, link: Link) {
        let Some(chain) = self.chain_mut(id) else { return };
        chain.links.insert(link.seq, link);
        if chain.durable {
            self.hand_on(id, link.seq);
        }
    }

    /// A unit has taken effect.
    pub(super) fn ordered_carried_out(
        &mut self,
        now: Now,
        id: StreamId,
        link: Link,
        (ops, replies): (&[KeyedOp], Option<OpReplies>),
    ) {
        self.streams.chain.ordering -= 1;
        self.core.stats.operations += ops.len() as u64;
        self.core.recent.iter_mut().for_each(|recent| recent.note_written(ops, now.mono_us));
        let Some(chain) = self.chain_mut(id) else { return };
        let replies = replies.unwrap_or_else(|| smallvec![lost()]);
        if let Some(step) = chain.step_of(link.seq) {
            *step = ChainStep::Done { place: link.place, replies };
        }
        if chain.handed.is_none_or(|handed| handed < link.seq) {
            self.hand_on(id, link.seq);
        }
        self.streams.mark(id);
    }

    /// Tells the shard of the next unit, if it is another one.
    fn hand_on(&mut self, id: StreamId, seq: u32) {
        let own = self.core.config.id;
        let Some(chain) = self.chain_mut(id) else { return };
        chain.handed = chain.handed.max(Some(seq));
        let next = chain.group.as_ref().and_then(|group| group.homes.get(seq as usize + 1));
        if let Some(next) = next.copied().filter(|next| *next != own) {
            self.tell_chain(id, seq, next);
        }
    }

    /// Tells another shard the places up to a unit's, if they are known. Whoever has promised something to
    /// a shard has told it, too, which of its places it knows: those hold in that shard's new term as they
    /// did before.
    pub(super) fn tell_chain(&mut self, id: StreamId, seq: u32, to: ShardId) {
        let own = self.core.config.id;
        let Some((kept, homes)) = self.core.state.chain_of(id) else { return };
        let links = self.chain(id).map_or(&kept.links, |chain| &chain.links);
        let links = (0..=seq).zip(homes).map(|(seq, home)| {
            let link = links.get(&seq)?;
            let since = if *home == own { self.streams.term } else { kept.promised(*home) };
            Some(Link { term: link.term.max(since), ..*link })
        });
        if let Some(links) = links.collect::<Option<Vec<Link>>>() {
            self.streams.say(to, Word::HandedOn { stream: id, links });
        }
    }

    /// Another shard wants to know the place of a unit that is in the log here.
    pub(in crate::shard::streams) fn asked_for_place(
        &mut self,
        id: StreamId,
        seq: u32,
        shard: ShardId,
    ) {
        let kept = self.core.state.streams().get(&id).and_then(|kept| kept.group_of(seq));
        let fate = kept.and_then(|group| group.units.iter().find(|(unit, _)| *unit == seq));
        match fate {
            Some((_, Some(None))) => self.streams.say(shard, Word::Refused { stream: id, seq }),
            _ => self.tell_chain(id, seq, shard),
        }
    }

    /// Asks for what the next unit waits for, if that is late.
    pub(super) fn ask_for_chain(&mut self, now: Now, id: StreamId) {
        let own = self.core.config.id;
        if self.streams.is_recovering() {
            return;
        }
        let Some(chain) = self.chain(id).filter(|chain| chain.durable) else { return };
        let Some(first) = chain.next_run().first().map(|unit| unit.seq) else { return };
        let Some(last) = first.checked_sub(1) else { return };
        let home = chain.group.as_ref().and_then(|group| group.homes.get(last as usize)).copied();
        let Some(home) = home.filter(|home| *home != own) else { return };
        if self.before(id, chain, first).is_some() {
            return;
        }
        let Some(stream) = self.streams.live.get_mut(&id) else { return };
        if stream.asked_us == 0 {
            stream.asked_us = now.mono_us.max(1);
        } else if now.mono_us >= stream.asked_us + stream.pause_us() {
            stream.asked_us = now.mono_us;
            stream.reminders += 1;
            let mut asks = vec![(home, last)];
            asks.extend(self.doubted(id, last));
            for (home, seq) in asks {
                let word = Word::Asks { stream: id, shard: own, hurries: false, units: vec![seq] };
                self.streams.say(home, word);
            }
        }
    }

    /// Other shards that have a new leader, whose word counts only, each with its last unit before this one.
    fn doubted(&self, id: StreamId, last: u32) -> Vec<(ShardId, u32)> {
        let chain = self.chain(id);
        let homes = chain.and_then(|chain| chain.group.as_ref()).map_or(&[][..], |g| &g.homes);
        let mut doubted: Vec<(ShardId, u32)> = Vec::new();
        for (seq, home) in homes.iter().copied().take(last as usize).enumerate().rev() {
            let is_doubted = home != self.core.config.id && self.listens_from(id, home) > 0;
            if is_doubted && doubted.iter().all(|(other, _)| *other != home) {
                doubted.push((home, seq as u32));
            }
        }
        doubted
    }

    /// Whether units of a stream are here and not in the log.
    pub(in crate::shard::streams) fn has_chained(&self, id: StreamId, seq: u32) -> bool {
        let group = self.chain(id).and_then(|chain| chain.group.as_ref());
        group.is_some_and(|group| group.units.iter().any(|unit| unit.seq == seq))
    }

    /// Forgets what is not in the log of a stream, if all is.
    pub(in crate::shard::streams) fn end_chain(&mut self, id: StreamId) {
        let (settled, mono_us) = (self.is_settled(id), self.core.state.mono_us());
        if let Some(stream) = self.streams.live.get_mut(&id)
            && settled
            && stream.chain.0.as_ref().is_some_and(|chain| chain.durable && chain.asker.is_none())
        {
            stream.chain.0 = None;
            stream.since_us = mono_us;
            self.tell_settled(id);
        }
    }
}
