//! Pipelines over several shards at a shard's leader: groups come in, get proposals, places and an end.
//!
//! See `docs/internals/order/streams.md`. Every change marks its stream in the [`Agenda`], and
//! `Desk::advance_next` proceeds with marked streams.

use super::agenda::Agenda;
use super::chain::Chains;
use super::live::{Live, LiveStream, Progress, answer_of};
use super::memory::Memory;
use super::refusals::Refusals;
use crate::entry::{KeptGroup, LogRecord};
use crate::ids::{GatewayId, KeyedOp, MachineId, ShardId, StreamId, Token, TxnId};
use crate::limits::ASK_UNITS_US;
use crate::message::{Answer, Body, Request};
use crate::now::Now;
use crate::pipeline::{Group, Link, StreamMessage, UnitPlace};
use crate::shard::config::Rule;
use crate::shard::core::ShardCore;
use crate::shard::locking::locks::{Claim, Class};
use crate::shard::state::{Executed, OpReplies};
use crate::shard::tail::Recipient;
use crate::shard::waiting::room::WaitingRoom;
use adt::collections::Map;
use adt::{Blob, Timestamp};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Streams at the leader of a shard: its knowledge of them beyond the log.
#[derive(Debug, Default)]
pub struct Streams {
    pub(super) live: Map<StreamId, LiveStream>,
    pub(super) agenda: Agenda,
    /// Units of an earlier leader that have no place yet: newcomers that conflict with them wait.
    pub(super) unplaced: BTreeSet<TxnId>,
    pub(super) refusals: Refusals,
    pub(super) memory: Memory,
    /// Units whose places are in the log, and that wait for others before they are carried out.
    pub(super) settled: BTreeMap<TxnId, SmallVec<[Blob; 1]>>,
    /// Number of units that hold records.
    holding: usize,
    pub(super) chains: Chains,
}

impl Streams {
    /// Whether units hold records, or a recovery holds them.
    #[inline]
    pub(in crate::shard) fn hold_records(&self) -> bool {
        self.holding > 0 || self.chains.is_recovering()
    }

    /// Whether nothing is to be looked after.
    pub fn is_quiet(&self) -> bool {
        self.live.is_empty()
            && self.refusals.is_empty()
            && self.memory.is_empty()
            && !self.chains.is_recovering()
    }

    /// Whether no units are here that are not settled.
    pub(in crate::shard) fn is_idle(&self) -> bool {
        self.live.is_empty()
    }

    /// Whether it is not known yet which places an earlier leader has handed on.
    #[inline]
    pub(in crate::shard) fn is_recovering(&self) -> bool {
        self.chains.is_recovering()
    }

    /// Whether a read must wait for units of chains on their way to the log.
    #[inline]
    pub(in crate::shard) fn keeps_back(&self, core: &ShardCore, body: &Body) -> bool {
        self.chains.keeps_back(core, body)
    }

    /// Takes the messages to the leaders of other shards.
    pub fn take_stream_messages(&mut self) -> Vec<(ShardId, StreamMessage)> {
        self.agenda.take_messages()
    }

    /// Whether there are messages to the leaders of other shards.
    #[inline]
    pub fn has_stream_messages(&self) -> bool {
        self.agenda.has_messages()
    }

    /// Takes a dirty stream.
    pub(super) fn next_marked(&mut self) -> Option<StreamId> {
        self.agenda.next_marked()
    }

    /// Takes a stream whose waiting requests are to be refused.
    pub(super) fn take_refused(&mut self) -> Option<StreamId> {
        self.refusals.take_new()
    }

    /// Marks all streams that have units without places in a chain.
    pub(in crate::shard) fn mark_chains(&mut self, core: &ShardCore) {
        self.chains.mark_all(core, &mut self.agenda);
    }

    /// Records of units that are not settled and that are in the log or on their way there.
    pub(in crate::shard) fn open_keys(&self) -> impl Iterator<Item = &Blob> {
        let groups = self.live.values().flat_map(|stream| &stream.groups);
        let groups = groups.filter(|live| live.logged).map(|live| &*live.group);
        groups.chain(self.chains.groups()).flat_map(Group::ops).map(|(key, _)| key)
    }

    /// The stream with this identifier, which may be new.
    pub(super) fn stream_mut(&mut self, now: Now, id: StreamId) -> &mut LiveStream {
        let since_us = now.mono_us;
        self.live.entry(id).or_insert_with(|| LiveStream { since_us, ..LiveStream::default() })
    }

    /// A group that is not settled, by its first unit.
    fn group_mut(&mut self, stream: StreamId, first: u32) -> Option<&mut Live> {
        self.live.get_mut(&stream)?.group_mut(first)
    }

    /// Forgets knowledge of a stream beyond the log.
    pub(super) fn drop_live(&mut self, id: StreamId) {
        self.live.swap_remove(&id);
        self.chains.forget(id);
    }

    /// Answers for a group that is known here, now or when that is possible. Tells whether it is known.
    pub(super) fn answer_known(
        &mut self,
        core: &mut ShardCore,
        asker: (GatewayId, Token),
        group: &Group,
    ) -> bool {
        let (id, first) = (group.stream, group.first());
        if let Some(live) = self.group_mut(id, first) {
            live.asker = Some(asker);
            self.agenda.mark(id);
            return true;
        }
        if self.chains.ask_again(&mut self.agenda, asker, id) {
            return true;
        }
        let kept = core.state.streams.get(id).and_then(|kept| kept.group(first));
        let Some(kept) = kept else { return false };
        let replies = |seq| core.state.fates().replies_of(id.unit(seq)).cloned();
        let units = answer_of(kept, replies);
        core.answer(asker.0, asker.1, Answer::Units(units));
        true
    }

    /// Begins a stream whose order is handed on: its units have come.
    pub(super) fn begin_chain(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        asker: (GatewayId, Token),
        group: Arc<Group>,
    ) {
        self.stream_mut(now, group.stream).late = None;
        self.chains.begin(core, &mut self.agenda, asker, group);
    }

    /// Lets a group hold its records, which are free. It is logged once none of `probes` can be decided
    /// before it.
    pub(super) fn grant(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        asker: (GatewayId, Token),
        group: Arc<Group>,
        probes: BTreeSet<TxnId>,
    ) -> Option<Arc<Group>> {
        let (id, first) = (group.stream, group.first());
        core.track(now);
        group.units.iter().for_each(|unit| self.hold_unit(core, id.unit(unit.seq), &unit.ops));
        let mut live = Live::new(group, Some(asker));
        live.probes = probes;
        let stream = self.stream_mut(now, id);
        stream.late = None;
        stream.answered = stream.answered.max(live.group.base);
        stream.groups.push(live);
        self.propose(core, id, first)
    }

    pub(super) fn hold_unit(&mut self, core: &mut ShardCore, unit: TxnId, ops: &[KeyedOp]) {
        for (key, op) in ops {
            core.locks.hold(key, unit, Claim::new(op.clone(), Class::Prepared));
        }
        self.holding += 1;
    }

    pub(super) fn let_go<'k>(
        &mut self,
        core: &mut ShardCore,
        unit: TxnId,
        keys: impl Iterator<Item = &'k Blob>,
    ) {
        keys.for_each(|key| core.locks.release(key, unit));
        self.holding -= 1;
    }

    /// Takes the answer to a probe: a transaction that the group of a unit hangs on is decided, or certainly
    /// is not. Gives the group if it is logged by that.
    pub(super) fn probe_answered(
        &mut self,
        core: &mut ShardCore,
        unit: TxnId,
        txn: TxnId,
    ) -> Option<Arc<Group>> {
        let (id, first) = (StreamId(unit.age), unit.attempt);
        self.group_mut(id, first)?.probes.remove(&txn);
        self.propose(core, id, first)
    }

    /// Logs a group once none of its probes is open. Gives the group then.
    fn propose(&mut self, core: &mut ShardCore, id: StreamId, first: u32) -> Option<Arc<Group>> {
        let live = self.group_mut(id, first);
        let live = live.filter(|live| live.probes.is_empty() && !live.logged)?;
        live.logged = true;
        let group = Arc::clone(&live.group);
        core.log(LogRecord::Propose(Arc::clone(&group)), Recipient::none());
        Some(group)
    }

    /// Announces the units of a group: it is in a closed entry, with this timestamp.
    pub(in crate::shard) fn announce(
        &mut self,
        core: &mut ShardCore,
        group: &Group,
        ts: Timestamp,
    ) {
        group.units.iter().for_each(|unit| core.before_change(&unit.ops));
        if core.breaks(Rule::UndurableCounts) {
            return;
        }
        core.state.announce_units(group, ts, &mut core.ahead);
        if core.breaks(Rule::ProposalsAreDurable) {
            self.tell_proposal(core, group, ts);
        }
    }

    /// Acts on a group that is durable: other shards may know of its proposal.
    pub(in crate::shard) fn proposed(
        &mut self,
        core: &ShardCore,
        group: &Group,
        proposal: Timestamp,
    ) {
        let id = group.stream;
        self.memory.remember(core, id);
        if let Some(live) = self.group_mut(id, group.first()) {
            live.durable = true;
        }
        self.tell_proposal(core, group, proposal);
        self.agenda.mark(id);
    }

    fn tell_proposal(&mut self, core: &ShardCore, group: &Group, proposal: Timestamp) {
        let (id, own) = (group.stream, core.config.id);
        let Some(stream) = self.live.get(&id) else { return };
        let mut to = group.later_homes();
        to.extend(stream.listeners.iter().copied());
        let units = (group.first(), group.last());
        let word = StreamMessage::Proposed { stream: id, shard: own, units, proposal };
        self.agenda.say_to(&mut to, own, &word);
    }

    /// Proceeds with a stream after [`Streams::release`]: reports and answers. Gives the request for the
    /// records of units in a chain, if `places` may be given.
    pub(super) fn advance(
        &mut self,
        core: &mut ShardCore,
        id: StreamId,
        places: bool,
    ) -> Option<Request> {
        self.say_closed(core, id);
        self.answer_groups(core, id);
        let refused = self.live.get(&id).and_then(|stream| stream.told.refused);
        let request = self.chains.advance(core, id, refused, places);
        self.end_chain(core, id);
        request
    }

    /// Logs units of a chain whose records are free, with their places.
    pub(super) fn place_run(&mut self, core: &mut ShardCore, now: Now, group: &Group) {
        self.chains.place_run(core, &mut self.agenda, now, group);
    }

    /// Notes the place that a closed entry has given to a unit of a chain.
    pub(in crate::shard) fn has_place(&mut self, core: &ShardCore, id: StreamId, link: Link) {
        self.chains.has_place(core, &mut self.agenda, id, link);
    }

    /// Gives places to units that can get one now, and fails those that never can. Gives what is carried
    /// out by that.
    pub(super) fn place(&mut self, core: &mut ShardCore, id: StreamId) -> Vec<Executed> {
        let own = core.config.id;
        let kept = core.state.streams.get(id);
        let Some(stream) = self.live.get_mut(&id) else { return Vec::new() };
        let told = &mut stream.told;
        let own_proposal = |seq| kept.and_then(|kept| kept.proposal(seq));
        if kept.is_some_and(|kept| kept.refused) {
            // Units of the stream that belong here and did not come have no effect.
            let lacks = stream.groups.iter().filter(|live| live.durable).find_map(|live| {
                let mut window = live.group.window(live.group.last());
                window.find(|(seq, home)| *home == own && own_proposal(*seq).is_none())
            });
            if let Some((seq, _)) = lacks {
                told.hear(&StreamMessage::Refused { stream: id, seq });
            }
        }
        let (mut failed, mut placed) = (Vec::new(), Vec::new());
        for live in stream.groups.iter_mut().filter(|live| live.durable) {
            failed.extend(told.refused.into_iter().flat_map(|refused| live.fail(refused)));
            placed.extend(live.place(|home, seq| match home == own {
                true => own_proposal(seq),
                false => told.proposal(home, seq),
            }));
        }
        let mut executed = self.fail(core, id, &failed);
        let bound = |seq: u32| core.state.prepared().get(&id.unit(seq)).map(|p| p.bound);
        let moved = placed.iter().filter(|(seq, place)| bound(*seq) != Some(*place));
        let units: Vec<(u32, Timestamp)> = moved.copied().collect();
        if !units.is_empty() {
            core.log(LogRecord::Place { stream: id, units }, Recipient::none());
        }
        let placed = placed.into_iter().map(|(seq, place)| (id.unit(seq), place));
        let placed: Vec<(TxnId, Timestamp)> = placed.collect();
        for (unit, place) in &placed {
            self.unplaced.remove(unit);
            if !core.breaks(Rule::ClocksFollow) {
                core.move_clock(*place);
            }
        }
        executed.extend(core.state.place_all(&placed, &mut core.ahead));
        executed
    }

    /// Gives units up that have no effect. Gives what is carried out by that.
    fn fail(&mut self, core: &mut ShardCore, id: StreamId, failed: &[u32]) -> Vec<Executed> {
        let mut executed = Vec::new();
        if failed.is_empty() {
            return executed;
        }
        let fates: Vec<(u32, UnitPlace)> = failed.iter().map(|seq| (*seq, None)).collect();
        log_settled(core, id, &fates);
        for seq in failed {
            let unit = id.unit(*seq);
            self.unplaced.remove(&unit);
            core.state.prepared.act_ahead(unit, None);
            executed.extend(core.state.decide(unit, None, &mut core.ahead));
            self.let_go_of_live(core, id, *seq);
        }
        executed
    }

    /// Releases the records of a unit.
    fn let_go_of_live(&mut self, core: &mut ShardCore, id: StreamId, seq: u32) {
        let live = self.live.get(&id).and_then(|stream| stream.group_of(seq));
        let ops = live.map_or(&[][..], |(live, at)| &live.group.units[at].ops);
        ops.iter().for_each(|(key, _)| core.locks.release(key, id.unit(seq)));
        self.holding -= 1;
    }

    /// Notes that an operation was carried out, if it is a unit. Tells whether it is one.
    pub(in crate::shard) fn is_executed(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        unit: TxnId,
        replies: &OpReplies,
    ) -> bool {
        let id = StreamId(unit.age);
        if let Some(keys) = self.settled.remove(&unit) {
            for key in &keys {
                core.recent.iter_mut().for_each(|recent| recent.note(key, now.mono_us));
            }
            self.let_go(core, unit, keys.iter());
            return true;
        }
        let stream = self.live.get_mut(&id);
        let Some((live, at)) = stream.and_then(|s| s.group_of_mut(unit.attempt)) else {
            return false;
        };
        let place = core.state.prepared().get(&unit).and_then(|prepared| prepared.commit);
        let (place, replies) = (place.unwrap_or_default(), replies.clone());
        live.units[at] = Progress::Closed { place, replies, released: false };
        let ops = &live.group.units[at].ops;
        ops.iter().for_each(|(key, _)| core.locks.carry_out(key, unit));
        core.recent.iter_mut().for_each(|recent| recent.note_written(ops, now.mono_us));
        self.agenda.mark(id);
        true
    }

    /// Lets go of units before which everything is closed, and settles groups. Gives what is carried out by
    /// that.
    pub(super) fn release(&mut self, core: &mut ShardCore, id: StreamId) -> Vec<Executed> {
        let mut executed = Vec::new();
        let Some(stream) = self.live.get(&id) else { return executed };
        let is_closed = |home, seq| is_closed(core, id, stream, home, seq);
        let cleared = stream.groups.iter().map(|live| live.cleared(is_closed));
        let cleared: SmallVec<[u32; 8]> = cleared.collect();
        let Some(stream) = self.live.get_mut(&id) else { return executed };
        let mut settles: Vec<(u32, UnitPlace)> = Vec::new();
        for (live, cleared) in stream.groups.iter_mut().zip(cleared) {
            let free = live.release(cleared);
            settles.extend(free.into_iter().map(|(seq, place)| (seq, Some(place))));
        }
        // A later group may have come before an earlier one.
        settles.sort_unstable_by_key(|(seq, _)| *seq);
        // Operations that wait for these units come after them in the log.
        log_settled(core, id, &settles);
        for (seq, _) in settles {
            executed.extend(core.state.release(id.unit(seq), &mut core.ahead));
            self.let_go_of_live(core, id, seq);
        }
        executed
    }

    /// Ends groups whose fate is in the log, and answers for them.
    pub(in crate::shard) fn units_settled(&mut self, core: &mut ShardCore, id: StreamId) {
        let kept = core.state.streams.get(id);
        let settled = |live: &Live| {
            let group = kept.and_then(|kept| kept.group(live.group.first()));
            group.is_some_and(KeptGroup::is_settled)
        };
        let mut answers = Vec::new();
        if let Some(stream) = self.live.get_mut(&id) {
            for live in stream.groups.iter_mut().filter(|live| settled(live)) {
                answers.extend(live.asker.take().map(|asker| (asker, live.answer())));
            }
            stream.groups.retain(|live| !settled(live));
            // Reports of other shards may be about units that are on their way here.
            stream.since_us = core.state.mono_us();
        }
        for ((gateway, token), units) in answers {
            core.answer(gateway, token, Answer::Units(units));
        }
        self.end_chain(core, id);
        self.tell_settled(core, id);
    }

    /// Ends a stream whose order is handed on, if all of it is settled.
    pub(super) fn end_chain(&mut self, core: &ShardCore, id: StreamId) {
        if self.chains.end(core, id) {
            if let Some(stream) = self.live.get_mut(&id) {
                stream.since_us = core.state.mono_us();
            }
            self.tell_settled(core, id);
        }
    }

    /// Reports to the other shards that a stream is settled here, if so. Forgets it if it is over.
    pub(super) fn tell_settled(&mut self, core: &ShardCore, id: StreamId) {
        if self.memory.tell_settled(core, &mut self.agenda, id) {
            self.drop_live(id);
        }
    }

    /// Reports to the other shards which units are closed here.
    pub(super) fn say_closed(&mut self, core: &ShardCore, id: StreamId) {
        let own = core.config.id;
        let upto = self.closed_upto(core, id);
        let Some(stream) = self.live.get_mut(&id) else { return };
        if upto <= stream.closed {
            return;
        }
        let before = std::mem::replace(&mut stream.closed, upto);
        let Some(upto) = upto else { return };
        let mut to: SmallVec<[ShardId; 8]> = stream.listeners.iter().copied().collect();
        for live in &stream.groups {
            // Shards with a unit after the newly closed ones need to know.
            let units = &live.group.units;
            let known = units.partition_point(|unit| before.is_some_and(|b| unit.seq <= b));
            let Some(first) = units.get(known).map(|unit| unit.seq) else { continue };
            if first > upto {
                continue;
            }
            to.extend(live.group.homes_from(first));
        }
        let word = StreamMessage::Closed { stream: id, shard: own, upto };
        self.agenda.say_to(&mut to, own, &word);
    }

    /// The last unit up to which all of a stream is closed here, as far as it has come.
    pub(super) fn closed_upto(&self, core: &ShardCore, id: StreamId) -> Option<u32> {
        let stream = self.live.get(&id);
        let said = stream.and_then(|stream| stream.closed);
        let is_closed = |(seq, place): &&(u32, Option<UnitPlace>)| match place {
            Some(place) => place.is_some(),
            None => {
                stream.and_then(|s| s.group_of(*seq)).is_some_and(|(l, at)| l.units[at].is_closed())
            }
        };
        let kept = core.state.streams.get(id).map_or(&[][..], |kept| &kept.groups);
        // A closed unit stays closed.
        let rest = kept.partition_point(|group| said.is_some_and(|said| group.range().1 <= said));
        let closed = kept[rest..].iter().flat_map(|group| &group.units).take_while(is_closed);
        closed.last().map(|(seq, _)| *seq).max(said)
    }

    /// Answers for groups whose fate is known.
    pub(super) fn answer_groups(&mut self, core: &mut ShardCore, id: StreamId) {
        let Some(stream) = self.live.get_mut(&id) else { return };
        for live in &mut stream.groups {
            // Questions to a tree are answered when the log says so.
            if live.asker.is_some()
                && !live.group.has_asks()
                && live.is_answered()
                && let Some((gateway, token)) = live.asker.take()
            {
                core.answer(gateway, token, Answer::Units(live.answer()));
            }
        }
    }

    /// Asks other shards for proposals and closed units that a stream waits for, if they were not to come
    /// by themselves or are late.
    pub(super) fn ask_for_earlier(&mut self, core: &ShardCore, now: Now, id: StreamId) {
        let own = core.config.id;
        let Some(stream) = self.live.get(&id) else { return };
        let mut asks: BTreeMap<ShardId, (bool, Vec<u32>)> = BTreeMap::new();
        let fresh = stream.asked_us == 0;
        // Where everything is slow because there is too much to do, questions add to it.
        let again = !fresh && now.mono_us >= stream.asked_us + stream.pause_us();
        for live in stream.groups.iter().filter(|live| live.durable) {
            if !again && live.asked {
                continue;
            }
            let is_closed = |home, seq| is_closed(core, id, stream, home, seq);
            let is_proposed = |home, seq| home == own || stream.told.proposal(home, seq).is_some();
            for (home, seq) in live.missing(is_closed, is_proposed) {
                // Shards report about units that were sent together without being asked, and a shard that
                // was asked reports the rest.
                let is_told = home == own || stream.asked.contains(&home) || !live.is_earlier(seq);
                if !again && is_told {
                    continue;
                }
                let ask = asks.entry(home).or_default();
                ask.0 |= live.inherited && live.units.contains(&Progress::Open);
                if !ask.1.contains(&seq) {
                    ask.1.push(seq);
                }
            }
        }
        let Some(stream) = self.live.get_mut(&id) else { return };
        stream.groups.iter_mut().for_each(|live| live.asked |= live.durable);
        if (again || fresh) && stream.groups.iter().any(|live| live.durable) {
            stream.asked_us = now.mono_us.max(1);
            stream.reminders += u32::from(!fresh && !asks.is_empty());
        }
        for home in asks.keys() {
            if !stream.asked.contains(home) {
                stream.asked.push(*home);
            }
        }
        for (home, (hurries, units)) in asks {
            self.agenda.say(home, StreamMessage::Asks { stream: id, shard: own, hurries, units });
        }
    }
}

impl WaitingRoom for Streams {
    /// Number of groups that are not settled, or whose failure is not durable. The windows of the connections
    /// bound it.
    fn len(&self) -> usize {
        let live: usize = self.live.values().map(|stream| stream.groups.len()).sum();
        live + self.chains.groups().count() + self.refusals.waiting()
    }

    /// When [`Streams::tick`] has something to do, if ever.
    fn next_us(&self, _core: &ShardCore, now: Now) -> Option<u64> {
        (!self.is_quiet()).then_some(now.mono_us + ASK_UNITS_US / 2)
    }

    /// Keeps all groups: units that have come stand in the order, and other shards may wait for them.
    fn forget(&mut self, _core: &mut ShardCore, _now: Now, _machine: MachineId) {}

    /// Sends the groups to the next leader whose senders wait for an answer.
    fn end_lead(&mut self, core: &mut ShardCore) {
        let streams = std::mem::take(self);
        let groups = streams.live.into_values().flat_map(|stream| stream.groups);
        let asked = groups.filter_map(|live| Some((live.asker?, live.group)));
        let asked = asked.chain(streams.chains.into_asked());
        for ((gateway, token), group) in asked.chain(streams.refusals.into_failed()) {
            core.turn_away(gateway, token, Body::Pipeline(group));
        }
    }
}

/// Whether a unit of this or of another shard is closed, as far as it is known here.
fn is_closed(core: &ShardCore, id: StreamId, stream: &LiveStream, home: ShardId, seq: u32) -> bool {
    if seq < stream.answered {
        return true;
    }
    if home != core.config.id {
        return stream.told.is_closed(home, seq);
    }
    match stream.group_of(seq) {
        Some((live, at)) => live.units[at].is_closed(),
        None => core.state.streams.get(id).and_then(|kept| kept.proposal(seq)).is_some(),
    }
}

/// Logs the fate of units.
pub(super) fn log_settled(core: &mut ShardCore, id: StreamId, units: &[(u32, UnitPlace)]) {
    if units.is_empty() {
        return;
    }
    let asks = core.state.asks();
    // A client waits for the answer to a question.
    if units.iter().any(|(seq, _)| asks.contains_key(&id.unit(*seq))) {
        core.tail.hurry();
    }
    core.log(LogRecord::Settle { stream: id, units: units.to_vec() }, Recipient::none());
}
