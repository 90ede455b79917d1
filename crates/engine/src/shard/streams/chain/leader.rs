//! Pipelines whose order is handed on (`chain`), at a shard's leader.
//!
//! Units arrive and are written to the log, where they hold nothing. When the unit before one has its
//! place, that and all places before it are handed on to this shard. The unit then waits for its records
//! like any single command, and goes into the log a second time, at a place after all those, which is
//! handed on at once. See `docs/internals/order/chain.md`; the questions of a new leader are in `recovery`.

use super::super::agenda::Agenda;
use super::super::leader::log_settled;
use super::super::live::{lost, pause_us};
use super::recovery::PlaceRecovery;
use crate::entry::LogRecord;
use crate::ids::{GatewayId, KeyedOp, ShardId, StreamId, Token};
use crate::message::{Answer, Body, Request};
use crate::now::Now;
use crate::pipeline::{Group, Link, StreamMessage, Unit, UnitOutcome, UnitPlace};
use crate::shard::core::ShardCore;
use crate::shard::locking::locks::{Claim, Class};
use crate::shard::state::OpReplies;
use crate::shard::tail::Recipient;
use adt::collections::Map;
use adt::{Blob, Op, Timestamp};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Progress of a unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ChainStep {
    /// The unit has no place.
    Waiting,
    /// The unit gets a place as soon as its records are free.
    Wanted,
    /// The unit is in the log with its place.
    Placed,
    /// The unit has taken effect.
    Done { place: Timestamp, replies: OpReplies },
    /// The unit has no effect.
    Failed,
}

/// Knowledge beyond the log of one stream whose order is handed on.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// This shard's units, unless only other shards have reported about the stream.
    pub group: Option<Arc<Group>>,
    /// The request to answer with the fate of the units.
    pub asker: Option<(GatewayId, Token)>,
    /// The units are in the log.
    pub durable: bool,
    pub steps: Vec<ChainStep>,
    /// Places that were handed on to this shard and that nothing rests on, by the last unit of each, whether
    /// they may be rested on or not.
    pub heard: BTreeMap<u32, Vec<Link>>,
    /// Places that are in the log, or on the way there.
    pub links: BTreeMap<u32, Link>,
    /// The last of its units that this shard has handed on.
    pub handed: Option<u32>,
    /// When other shards were asked last for late places, in monotonic microseconds, and how often.
    pub asked_us: u64,
    pub reminders: u32,
}

impl Chain {
    /// Begins with the units of this shard.
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

    fn set_steps(&mut self, units: &[Unit], step: &ChainStep) {
        for unit in units {
            self.step_of(unit.seq).into_iter().for_each(|known| *known = step.clone());
        }
    }

    /// The shard of a unit.
    fn home(&self, seq: u32) -> Option<ShardId> {
        self.group.as_ref()?.homes.get(seq as usize).copied()
    }

    /// The next units that need places and that follow each other.
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

    /// Fails the units after one that has no effect.
    fn fail_behind(&mut self, core: &mut ShardCore, id: StreamId, refused: u32) {
        let Some(group) = &self.group else { return };
        let mut failed: Vec<(u32, UnitPlace)> = Vec::new();
        for (unit, step) in group.units.iter().zip(&mut self.steps) {
            if *step == ChainStep::Waiting && unit.seq > refused {
                *step = ChainStep::Failed;
                failed.push((unit.seq, None));
            }
        }
        log_settled(core, id, &failed);
    }

    /// Answers for the units, once all have taken effect or failed.
    fn answer_if_over(&mut self, core: &mut ShardCore) {
        let over = |step: &ChainStep| matches!(step, ChainStep::Done { .. } | ChainStep::Failed);
        if self.steps.iter().all(over)
            && let Some((gateway, token)) = self.asker.take()
        {
            core.answer(gateway, token, Answer::Units(self.answer()));
        }
    }

    fn answer(&self) -> Vec<UnitOutcome> {
        let answered = |step: &ChainStep| match step {
            ChainStep::Done { place, replies } => Some((*place, replies.clone())),
            _ => None,
        };
        self.steps.iter().map(answered).collect()
    }
}

/// A request of the shard itself: gives these units their places as soon as their records are free.
fn wants_places(stream: StreamId, units: Vec<Unit>) -> Request {
    let group = Group { stream, chained: true, units, ..Group::default() };
    let body = Body::Pipeline(Arc::new(group));
    Request { gateway: GatewayId::LAST, token: Token::default(), after: None, body }
}

/// Streams whose order is handed on, at a leader: its knowledge beyond the log.
#[derive(Debug, Default)]
pub(in crate::shard::streams) struct Chains {
    pub(super) of: Map<StreamId, Chain>,
    /// Promises to other shards that are on their way to the log.
    pub(super) promising: BTreeMap<(StreamId, ShardId), u64>,
    pub(super) recovery: Option<PlaceRecovery>,
    /// Number of units that have been handed on and are not durable.
    ordering: usize,
}

impl Chains {
    /// The units of a stream that are here.
    pub fn group(&self, id: StreamId) -> Option<&Group> {
        self.of.get(&id)?.group.as_deref()
    }

    /// The units of all streams that are here.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.of.values().filter_map(|chain| chain.group.as_deref())
    }

    /// Whether a unit of a stream is here.
    pub fn has_unit(&self, id: StreamId, seq: u32) -> bool {
        self.group(id).is_some_and(|group| group.units.iter().any(|unit| unit.seq == seq))
    }

    /// Forgets a stream.
    pub fn forget(&mut self, id: StreamId) {
        self.of.swap_remove(&id);
    }

    /// Begins a stream whose units have come.
    pub fn begin(
        &mut self,
        core: &mut ShardCore,
        agenda: &mut Agenda,
        asker: (GatewayId, Token),
        group: Arc<Group>,
    ) {
        let id = group.stream;
        self.of.entry(id).or_default().begin(Arc::clone(&group), asker);
        core.log(LogRecord::Content(group), Recipient::none());
        agenda.mark(id);
    }

    /// Takes over a repeated question about units that are here, which is answered when that is possible.
    /// Tells whether they are here.
    pub fn ask_again(
        &mut self,
        agenda: &mut Agenda,
        asker: (GatewayId, Token),
        id: StreamId,
    ) -> bool {
        let chain = self.of.get_mut(&id).filter(|chain| chain.group.is_some());
        let Some(chain) = chain else { return false };
        chain.asker = Some(asker);
        agenda.mark(id);
        true
    }

    /// Notes that the units of a stream are durable.
    pub fn contents_came(&mut self, agenda: &mut Agenda, id: StreamId) {
        if let Some(chain) = self.of.get_mut(&id) {
            chain.durable = true;
            agenda.mark(id);
        }
    }

    /// Notes places that another shard hands on. Tells whether they are new.
    pub fn hear_places(
        &mut self,
        core: &ShardCore,
        agenda: &mut Agenda,
        id: StreamId,
        links: Vec<Link>,
    ) -> bool {
        let Some(last) = links.last().map(|link| link.seq) else { return false };
        let whole = links.iter().zip(0..).all(|(link, seq)| link.seq == seq);
        let has_better = |chain: &Chain| {
            let heard = chain.heard.get(&last);
            heard.is_some_and(|heard| self.takes(core, id, chain, heard))
        };
        if !whole || self.of.get(&id).is_some_and(has_better) {
            return false;
        }
        self.of.entry(id).or_default().heard.insert(last, links);
        agenda.mark(id);
        true
    }

    /// Whether the leader that has given a place is still listened to.
    fn listens(&self, core: &ShardCore, id: StreamId, chain: &Chain, link: &Link) -> bool {
        let home = chain.home(link.seq);
        home.is_some_and(|home| link.term >= self.listens_from(core, id, home))
    }

    /// Whether a leader may rest something on places: none of them comes from a leader that is no longer
    /// listened to. Two kinds of exceptions hold all the same: places that something rests on already were
    /// reported when the promise was made; and places that a leader which is listened to has reported as
    /// well, be it together with some that it is not listened to about.
    fn takes(&self, core: &ShardCore, id: StreamId, chain: &Chain, links: &[Link]) -> bool {
        let is_known =
            |link: &Link| chain.links.get(&link.seq).is_some_and(|known| known.place == link.place);
        let is_vouched = |link: &Link| {
            let mut heard = chain.heard.values().filter_map(|heard| heard.get(link.seq as usize));
            heard.any(|heard| heard.place == link.place && self.listens(core, id, chain, heard))
        };
        let is_taken =
            |link: &Link| self.listens(core, id, chain, link) || is_known(link) || is_vouched(link);
        chain.group.is_none() || links.iter().all(is_taken)
    }

    /// The places before a unit that are not in the log here, if all are known.
    fn before(&self, core: &ShardCore, id: StreamId, chain: &Chain, seq: u32) -> Option<Vec<Link>> {
        let Some(last) = seq.checked_sub(1) else { return Some(Vec::new()) };
        if chain.links.contains_key(&last) {
            return Some(Vec::new());
        }
        let links = chain.heard.get(&last).filter(|links| self.takes(core, id, chain, links))?;
        let is_new = |link: &&Link| !chain.links.contains_key(&link.seq);
        Some(links.iter().filter(is_new).copied().collect())
    }

    /// Proceeds with a dirty stream: fails the units after `refused`, and answers if all is over. Gives the
    /// request for the records of the next units that get places, if `places` may be given.
    pub fn advance(
        &mut self,
        core: &mut ShardCore,
        id: StreamId,
        refused: Option<u32>,
        places: bool,
    ) -> Option<Request> {
        let chain = self.of.get_mut(&id).filter(|chain| chain.group.is_some())?;
        if let Some(refused) = refused {
            chain.fail_behind(core, id, refused);
        }
        let wants = if places { self.want_places(core, id) } else { None };
        if let Some(chain) = self.of.get_mut(&id) {
            chain.answer_if_over(core);
        }
        wants
    }

    /// The request for the records of the next units, if all before them have places. The first unit of a
    /// stream comes after no other one, and goes into the log only once.
    fn want_places(&mut self, core: &ShardCore, id: StreamId) -> Option<Request> {
        if self.is_recovering() {
            return None;
        }
        let chain = self.of.get(&id)?;
        let run = chain.next_run();
        let first = run.first()?.seq;
        let durable = chain.durable || first == 0;
        if !durable || self.before(core, id, chain, first).is_none() {
            return None;
        }
        let run = run.to_vec();
        self.of.get_mut(&id)?.set_steps(&run, &ChainStep::Wanted);
        Some(wants_places(id, run))
    }

    /// Logs units whose records are free, with their places.
    pub fn place_run(
        &mut self,
        core: &mut ShardCore,
        agenda: &mut Agenda,
        now: Now,
        group: &Group,
    ) {
        let (id, first) = (group.stream, group.first());
        let Some(chain) = self.of.get(&id) else { return };
        let before = self.before(core, id, chain, first);
        let Some(chain) = self.of.get_mut(&id) else { return };
        let Some(mut before) = before else {
            // The leader that has handed on is not listened to any more.
            chain.set_steps(&group.units, &ChainStep::Waiting);
            return agenda.mark(id);
        };
        let last = first.checked_sub(1).and_then(|seq| chain.links.get(&seq));
        let after = before.last().or(last).map(|link| link.place);
        core.move_clock(after.unwrap_or_default());
        chain.links.extend(before.iter().map(|link| (link.seq, *link)));
        chain.heard.clear();
        chain.set_steps(&group.units, &ChainStep::Placed);
        for unit in &group.units {
            let link = Link { seq: unit.seq, place: Timestamp::ZERO, term: agenda.term };
            let before = std::mem::take(&mut before);
            self.log_ordered(core, now, id, link, before, unit.ops.clone());
        }
    }

    pub(super) fn log_ordered(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        stream: StreamId,
        link: Link,
        before: Vec<Link>,
        ops: SmallVec<[KeyedOp; 1]>,
    ) {
        core.track(now);
        self.ordering += 1;
        core.log(LogRecord::Ordered { stream, link, before, ops }, Recipient::none());
    }

    /// Whether a read must wait for units on their way to the log: other clients may have seen already what
    /// comes after them. (The effect of a single command is seen only when it is durable, unless a unit
    /// comes after it. The unit need not be on the same record: its session may have seen the reply to a
    /// command that the unit comes after.)
    #[inline]
    pub fn keeps_back(&self, core: &ShardCore, body: &Body) -> bool {
        self.ordering > 0
            && match body {
                Body::Read { key, op, .. } => is_changing(core, key, op),
                Body::Snapshot { ops, .. } => {
                    ops.iter().any(|(key, op)| is_changing(core, key, op))
                }
                _ => false,
            }
    }

    /// Notes the place that a closed entry has given to a unit.
    pub fn has_place(&mut self, core: &ShardCore, agenda: &mut Agenda, id: StreamId, link: Link) {
        let Some(chain) = self.of.get_mut(&id) else { return };
        chain.links.insert(link.seq, link);
        if chain.durable {
            self.hand_on(core, agenda, id, link.seq);
        }
    }

    /// Notes that a unit has taken effect.
    pub fn carried_out(
        &mut self,
        core: &mut ShardCore,
        agenda: &mut Agenda,
        now: Now,
        (id, link): (StreamId, Link),
        (ops, replies): (&[KeyedOp], Option<OpReplies>),
    ) {
        self.ordering -= 1;
        core.stats.operations += ops.len() as u64;
        core.recent.iter_mut().for_each(|recent| recent.note_written(ops, now.mono_us));
        let Some(chain) = self.of.get_mut(&id) else { return };
        let replies = replies.unwrap_or_else(|| smallvec![lost()]);
        if let Some(step) = chain.step_of(link.seq) {
            *step = ChainStep::Done { place: link.place, replies };
        }
        if chain.handed.is_none_or(|handed| handed < link.seq) {
            self.hand_on(core, agenda, id, link.seq);
        }
        agenda.mark(id);
    }

    /// Tells the shard of the next unit the places up to this one, unless that is this shard.
    fn hand_on(&mut self, core: &ShardCore, agenda: &mut Agenda, id: StreamId, seq: u32) {
        let Some(chain) = self.of.get_mut(&id) else { return };
        chain.handed = chain.handed.max(Some(seq));
        if let Some(next) = chain.home(seq + 1).filter(|next| *next != core.config.id) {
            self.tell_chain(core, agenda, id, seq, next);
        }
    }

    /// Tells another shard the places up to a unit's, if they are known. A shard that has promised something
    /// to another one has reported, too, which of its places it knows: those hold in that shard's new term
    /// as they did before.
    fn tell_chain(
        &self,
        core: &ShardCore,
        agenda: &mut Agenda,
        id: StreamId,
        seq: u32,
        to: ShardId,
    ) {
        let own = core.config.id;
        let Some((kept, homes)) = core.state.streams.chain_with_homes(id) else { return };
        let links = self.of.get(&id).map_or(&kept.links, |chain| &chain.links);
        let links = (0..=seq).zip(homes).map(|(seq, home)| {
            let link = links.get(&seq)?;
            let since = if *home == own { agenda.term } else { kept.promised(*home) };
            Some(Link { term: link.term.max(since), ..*link })
        });
        if let Some(links) = links.collect::<Option<Vec<Link>>>() {
            agenda.say(to, StreamMessage::HandedOn { stream: id, links });
        }
    }

    /// Answers another shard that asks for the place of a unit which is in the log here.
    pub fn asked_for_place(
        &self,
        core: &ShardCore,
        agenda: &mut Agenda,
        (id, seq): (StreamId, u32),
        shard: ShardId,
    ) {
        let kept = core.state.streams.get(id).and_then(|kept| kept.group_of(seq));
        let fate = kept.and_then(|group| group.units.iter().find(|(unit, _)| *unit == seq));
        match fate {
            Some((_, Some(None))) => agenda.say(shard, StreamMessage::Refused { stream: id, seq }),
            _ => self.tell_chain(core, agenda, id, seq, shard),
        }
    }

    /// Asks for the places that the next unit waits for, if they are late.
    pub fn ask_for_late(&mut self, core: &ShardCore, agenda: &mut Agenda, now: Now, id: StreamId) {
        let own = core.config.id;
        if self.is_recovering() {
            return;
        }
        let Some(chain) = self.of.get(&id).filter(|chain| chain.durable) else { return };
        let Some(first) = chain.next_run().first().map(|unit| unit.seq) else { return };
        let Some(last) = first.checked_sub(1) else { return };
        let Some(home) = chain.home(last).filter(|home| *home != own) else { return };
        if self.before(core, id, chain, first).is_some() {
            return;
        }
        let again = now.mono_us >= chain.asked_us + pause_us(chain.reminders);
        let Some(chain) = self.of.get_mut(&id) else { return };
        if chain.asked_us == 0 {
            chain.asked_us = now.mono_us.max(1);
        } else if again {
            chain.asked_us = now.mono_us;
            chain.reminders += 1;
            let doubted = self.doubted(core, id, last);
            for (home, seq) in [(home, last)].into_iter().chain(doubted) {
                let word = StreamMessage::Asks {
                    stream: id,
                    shard: own,
                    hurries: false,
                    units: vec![seq],
                };
                agenda.say(home, word);
            }
        }
    }

    /// Other shards with a new leader, which alone is listened to, each with its last unit before this one.
    fn doubted(&self, core: &ShardCore, id: StreamId, last: u32) -> Vec<(ShardId, u32)> {
        let homes = self.group(id).map_or(&[][..], |group| &group.homes);
        let mut doubted: Vec<(ShardId, u32)> = Vec::new();
        for (seq, home) in homes.iter().copied().take(last as usize).enumerate().rev() {
            let is_doubted = home != core.config.id && self.listens_from(core, id, home) > 0;
            if is_doubted && doubted.iter().all(|(other, _)| *other != home) {
                doubted.push((home, seq as u32));
            }
        }
        doubted
    }

    /// Forgets knowledge beyond the log of a stream that is settled. Tells whether it was.
    pub fn end(&mut self, core: &ShardCore, id: StreamId) -> bool {
        let chain = self.of.get(&id);
        let over = chain.is_some_and(|chain| chain.durable && chain.asker.is_none())
            && core.state.streams.is_settled(id);
        if over {
            self.of.swap_remove(&id);
        }
        over
    }

    /// Takes the open questions about units out: the lead ends.
    pub fn into_asked(self) -> impl Iterator<Item = ((GatewayId, Token), Arc<Group>)> {
        self.of.into_values().filter_map(|chain| Some((chain.asker?, chain.group?)))
    }
}

/// Whether an operation on its way to the log changes what is read. (Where units go into the log, every
/// operation is noted in the lock table.)
fn is_changing(core: &ShardCore, key: &Blob, op: &Op) -> bool {
    let claim = Claim::new(op.clone(), Class::Passing);
    let record = core.state.get(key);
    core.locks.in_flight_against(key, &claim, record).is_some()
}
