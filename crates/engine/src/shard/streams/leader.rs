//! Pipelines over several shards at a shard's leader: groups come in, get proposals, places and an end.
//!
//! See `docs/internals/order.md`. Every change marks its stream, and [`Shard::advance_next`] does what
//! has become possible for the marked ones.

use super::chain::{self, is_own};
use super::live::{Live, LiveStream, Progress, answer_of, own_proposal};
use crate::entry::{KeptGroup, LogRecord};
use crate::ids::{GatewayId, KeyedOp, ShardId, StreamId, Token, TxnId};
use crate::message::{Answer, Body, Request};
use crate::now::Now;
use crate::pipeline::{Group, Place, Word};
use crate::shard::locking::claims::Claims;
use crate::shard::locking::locks::{Claim, Class};
use crate::shard::state::OpReplies;
use crate::shard::{Recipient, Rule, Shard};
use adt::collections::Map;
use adt::{Blob, Timestamp};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the leader of a shard knows of streams beyond the log.
#[derive(Debug, Default)]
pub(in crate::shard) struct LeaderStreams {
    pub(super) live: Map<StreamId, LiveStream>,
    /// Streams for which something may have become possible.
    pub(super) marked: Vec<StreamId>,
    /// What is to be said to other shards.
    pub(super) words: Vec<(ShardId, Word)>,
    /// Units of an earlier leader that have no place yet: nobody is let in who conflicts with them.
    pub(super) unplaced: BTreeSet<TxnId>,
    pub(super) held: Vec<Request>,
    /// Streams that are about to be refused.
    pub(super) refusing: BTreeMap<StreamId, super::memory::Refusing>,
    pub(super) keeping: Map<StreamId, super::memory::Keeping>,
    pub(super) forgotten: Vec<StreamId>,
    pub(super) outlived: Vec<StreamId>,
    /// Units whose places are in the log, and that wait for others before they are carried out.
    pub(super) settled: BTreeMap<TxnId, SmallVec<[Blob; 1]>>,
    /// How many units hold records.
    pub(super) holding: usize,
    /// The term in which this replica leads.
    pub(in crate::shard) term: u64,
    /// What is known besides of streams whose order is handed on.
    pub(super) chain: chain::Lead,
}

impl LeaderStreams {
    /// Whether units hold records.
    #[inline]
    pub(in crate::shard) fn hold_records(&self) -> bool {
        self.holding > 0
    }

    /// Whether nothing is to be looked after.
    pub(in crate::shard) fn is_quiet(&self) -> bool {
        self.live.is_empty()
            && self.held.is_empty()
            && self.refusing.is_empty()
            && self.forgotten.is_empty()
            && self.outlived.is_empty()
            && self.keeping.is_empty()
            && !self.is_recovering()
    }

    /// Whether it is not known yet which places an earlier leader has handed on.
    #[inline]
    pub(in crate::shard) fn is_recovering(&self) -> bool {
        self.chain.is_recovering()
    }

    /// The records of units that are not settled, as far as they are to go into the log or are there.
    pub(in crate::shard) fn open_keys(&self) -> impl Iterator<Item = &Blob> {
        let groups = self.live.values().flat_map(|stream| {
            let groups = stream.groups.iter().filter(|live| live.logged);
            groups.map(|live| &*live.group).chain(stream.chain.group())
        });
        groups.flat_map(Group::ops).map(|(key, _)| key)
    }

    pub(super) fn mark(&mut self, stream: StreamId) {
        if !self.marked.contains(&stream) {
            self.marked.push(stream);
        }
    }

    /// A group of which something is not settled, by its first unit.
    fn group_mut(&mut self, stream: StreamId, first: u32) -> Option<&mut Live> {
        self.live.get_mut(&stream)?.group_mut(first)
    }

    pub(super) fn say(&mut self, to: ShardId, word: Word) {
        self.words.push((to, word));
    }

    /// What to answer when nothing becomes of a group.
    pub(super) fn failed(group: &Group) -> Answer {
        Answer::Units(vec![None; group.units.len()])
    }
}

impl Shard {
    /// Units of a pipeline over several shards.
    pub(in crate::shard) fn take_group(&mut self, now: Now, request: Request) {
        let Body::Pipeline(ref group) = request.body else { return };
        let asker = (request.gateway, request.token);
        let stream = group.stream;
        if self.answer_known(asker, group) {
            return;
        }
        if self.core.state.is_outlived(stream) && !self.streams.refusing.contains_key(&stream) {
            return self.core.answer(asker.0, asker.1, Answer::Unknown);
        }
        let kept = self.streams.refusing.contains_key(&stream)
            || self.core.state.streams().get(&stream).is_some_and(|kept| kept.refused);
        let elsewhere = self.splitting.is_elsewhere(&self.core.state, &request.body);
        let group = Arc::clone(group);
        let unsound = group.has_asks()
            && (self.splitting.is_giving() || !self.service.are_sound(&self.core, &group));
        let yields = unsound || self.locking.is_owed(&group);
        if kept || elsewhere || yields || self.core.frozen || !group.is_sound(self.core.config.id) {
            return self.refuse_group(asker, &group);
        }
        if !self.take_chain(now, asker, &group) {
            self.begin_locking(now, request);
        }
    }

    /// Answers for a group that is known here, now or when it can.
    fn answer_known(&mut self, asker: (GatewayId, Token), group: &Group) -> bool {
        let (id, first) = (group.stream, group.first());
        if let Some(live) = self.streams.group_mut(id, first) {
            live.asker = Some(asker);
            self.streams.mark(id);
            return true;
        }
        if self.ask_chain(asker, id) {
            return true;
        }
        let kept = self.core.state.streams().get(&id).and_then(|kept| kept.group(first));
        let Some(kept) = kept else { return false };
        let replies = |seq| self.core.state.fates().replies_of(id.unit(seq)).cloned();
        let units = answer_of(kept, replies);
        self.core.answer(asker.0, asker.1, Answer::Units(units));
        true
    }

    /// The records of a group are free.
    pub(in crate::shard) fn grant_group(&mut self, now: Now, request: Request, claims: Claims) {
        let Body::Pipeline(group) = request.body else { return };
        if self.place_chain(now, &group) {
            return;
        }
        if group.has_asks() && self.service.bars_units(&mut self.core, now, request.gateway, &group)
        {
            return self.refuse_group((request.gateway, request.token), &group);
        }
        let (id, first) = (group.stream, group.first());
        self.core.track(now);
        let probes = self.locking.probe(&mut self.core, id.unit(first), &claims);
        group.units.iter().for_each(|unit| self.hold_unit(id.unit(unit.seq), &unit.ops));
        let mut live = Live::new(group, Some((request.gateway, request.token)));
        live.probes = probes;
        let stream = self.stream_mut(now, id);
        stream.late = None;
        stream.answered = stream.answered.max(live.group.base);
        stream.groups.push(live);
        self.propose_group(id, first);
    }

    /// What is known of a stream, which may be new.
    pub(super) fn stream_mut(&mut self, now: Now, id: StreamId) -> &mut LiveStream {
        let since_us = now.mono_us;
        self.streams
            .live
            .entry(id)
            .or_insert_with(|| LiveStream { since_us, ..LiveStream::default() })
    }

    pub(super) fn hold_unit(&mut self, unit: TxnId, ops: &[KeyedOp]) {
        for (key, op) in ops {
            self.locking.hold(&mut self.core, unit, key, Claim::new(op.clone(), Class::Prepared));
        }
        self.streams.holding += 1;
    }

    pub(super) fn let_go(&mut self, unit: TxnId, keys: impl Iterator<Item = Blob>) {
        for key in keys {
            self.core.locks.release(&key, unit);
        }
        self.streams.holding -= 1;
    }

    /// A transaction that a group hangs on is decided, or certainly is not.
    pub(in crate::shard) fn group_probe_answered(&mut self, group: TxnId, txn: TxnId) {
        let (id, first) = (StreamId(group.age), group.attempt);
        if let Some(live) = self.streams.group_mut(id, first) {
            live.probes.remove(&txn);
            self.propose_group(id, first);
        }
    }

    /// Puts a group into the log once everything that is decided before it is known to be.
    fn propose_group(&mut self, id: StreamId, first: u32) {
        let live = self.streams.group_mut(id, first);
        let Some(live) = live.filter(|live| live.probes.is_empty() && !live.logged) else { return };
        live.logged = true;
        let group = Arc::clone(&live.group);
        self.service.units_came(&group);
        self.core.log(LogRecord::Propose(group), Recipient::none());
    }

    /// A group is in an entry that is closed, with this timestamp.
    pub(in crate::shard) fn announce_group(&mut self, group: &Arc<Group>, proposal: Timestamp) {
        group.units.iter().for_each(|unit| self.core.before_change(&unit.ops));
        if self.core.breaks(Rule::UndurableCounts) {
            return;
        }
        self.core.state.announce_units(group, proposal, &mut self.core.ahead);
        if self.core.breaks(Rule::ProposalsAreDurable) {
            self.tell_proposal(group, proposal);
        }
    }

    /// The proposal of a group is durable: others may know of it.
    pub(in crate::shard) fn proposed(&mut self, group: &Arc<Group>, proposal: Timestamp) {
        let id = group.stream;
        self.remember_stream(id);
        if let Some(live) = self.streams.group_mut(id, group.first()) {
            live.durable = true;
        }
        self.tell_proposal(group, proposal);
        self.streams.mark(id);
    }

    fn tell_proposal(&mut self, group: &Group, proposal: Timestamp) {
        let (id, own) = (group.stream, self.core.config.id);
        let Some(stream) = self.streams.live.get(&id) else { return };
        let mut to = group.later_homes();
        to.extend(stream.listeners.iter().copied());
        to.retain(|shard| *shard != own);
        to.sort_unstable();
        to.dedup();
        let units = (group.first(), group.last());
        for shard in to {
            let word = Word::Proposed { stream: id, shard: own, units, proposal };
            self.streams.say(shard, word);
        }
    }

    /// Does what has become possible for a stream; tells whether there was one to look at.
    pub(in crate::shard) fn advance_next(&mut self, now: Now) -> bool {
        let Some(id) = self.streams.marked.pop() else { return false };
        self.place_units(now, id);
        self.release_units(now, id);
        self.say_closed(id);
        self.answer_groups(id);
        self.advance_chain(now, id);
        self.ask_for_earlier(now, id);
        self.let_newcomers_in(now);
        true
    }

    /// Gives places to units that can get one now, and fails those that never can.
    fn place_units(&mut self, now: Now, id: StreamId) {
        let own = self.core.config.id;
        let kept = self.core.state.streams().get(&id);
        let Some(stream) = self.streams.live.get_mut(&id) else { return };
        let told = &mut stream.told;
        if kept.is_some_and(|kept| kept.refused) {
            // Units of the stream that belong here and did not come have no effect.
            let lacks = stream.groups.iter().filter(|live| live.durable).find_map(|live| {
                let mut window = live.group.window(live.group.last());
                window.find(|(seq, home)| *home == own && own_proposal(kept, *seq).is_none())
            });
            if let Some((seq, _)) = lacks {
                told.hear(&Word::Refused { stream: id, seq });
            }
        }
        let (mut failed, mut placed) = (Vec::new(), Vec::new());
        for live in stream.groups.iter_mut().filter(|live| live.durable) {
            failed.extend(told.refused.into_iter().flat_map(|refused| live.fail(refused)));
            placed.extend(live.place(|home, seq| match home == own {
                true => own_proposal(kept, seq),
                false => told.proposal(home, seq),
            }));
        }
        let fates: Vec<(u32, Place)> = failed.iter().map(|seq| (*seq, None)).collect();
        self.log_settled(id, &fates);
        for seq in failed {
            let unit = id.unit(seq);
            self.streams.unplaced.remove(&unit);
            self.core.state.act_ahead(unit, None);
            let executed = self.core.state.decide(unit, None, &mut self.core.ahead);
            self.let_go(unit, self.keys_of(id, seq).into_iter());
            self.finish(now, executed);
        }
        let bound = |seq: u32| self.core.state.prepared().get(&id.unit(seq)).map(|p| p.bound);
        let moved = placed.iter().filter(|(seq, place)| bound(*seq) != Some(*place));
        let units: Vec<(u32, Timestamp)> = moved.copied().collect();
        if !units.is_empty() {
            self.core.log(LogRecord::Place { stream: id, units }, Recipient::none());
        }
        let placed = placed.into_iter().map(|(seq, place)| (id.unit(seq), place));
        let placed: Vec<(TxnId, Timestamp)> = placed.collect();
        for (unit, place) in &placed {
            self.streams.unplaced.remove(unit);
            if !self.core.breaks(Rule::ClocksFollow) {
                self.core.move_clock(*place);
            }
        }
        let executed = self.core.state.place_all(&placed, &mut self.core.ahead);
        self.finish(now, executed);
        self.carried_out(now);
    }

    fn keys_of(&self, id: StreamId, seq: u32) -> SmallVec<[Blob; 1]> {
        let live = self.streams.live.get(&id).and_then(|stream| stream.group_of(seq));
        let ops = live.map_or(&[][..], |(live, at)| &live.group.units[at].ops);
        ops.iter().map(|(key, _)| key.clone()).collect()
    }

    /// Something was carried out. Tells whether it is a unit.
    pub(in crate::shard) fn unit_executed(
        &mut self,
        now: Now,
        unit: TxnId,
        replies: &OpReplies,
    ) -> bool {
        let id = StreamId(unit.age);
        if let Some(keys) = self.streams.settled.remove(&unit) {
            for key in &keys {
                self.core.recent.iter_mut().for_each(|recent| recent.note(key, now.mono_us));
            }
            self.let_go(unit, keys.into_iter());
            return true;
        }
        let stream = self.streams.live.get_mut(&id);
        let Some((live, at)) = stream.and_then(|s| s.group_of_mut(unit.attempt)) else {
            return false;
        };
        let place = self.core.state.prepared().get(&unit).and_then(|prepared| prepared.commit);
        let (place, replies) = (place.unwrap_or_default(), replies.clone());
        live.units[at] = Progress::Closed { place, replies, released: false };
        let ops = &live.group.units[at].ops;
        ops.iter().for_each(|(key, _)| self.core.locks.carry_out(key, unit));
        self.core.recent.iter_mut().for_each(|recent| recent.note_written(ops, now.mono_us));
        self.streams.mark(id);
        true
    }

    /// Whether a unit of another or of this shard is closed, as far as it is known here.
    fn is_closed(&self, id: StreamId, stream: &LiveStream, home: ShardId, seq: u32) -> bool {
        if seq < stream.answered {
            return true;
        }
        if home != self.core.config.id {
            return stream.told.is_closed(home, seq);
        }
        match stream.group_of(seq) {
            Some((live, at)) => live.units[at].is_closed(),
            None => own_proposal(self.core.state.streams().get(&id), seq).is_some(),
        }
    }

    /// Lets go of units before which everything is closed, and settles groups.
    fn release_units(&mut self, now: Now, id: StreamId) {
        let Some(stream) = self.streams.live.get(&id) else { return };
        let is_closed = |home, seq| self.is_closed(id, stream, home, seq);
        let cleared = stream.groups.iter().map(|live| live.cleared(is_closed));
        let cleared: SmallVec<[u32; 8]> = cleared.collect();
        let Some(stream) = self.streams.live.get_mut(&id) else { return };
        let mut settles: Vec<(u32, Place)> = Vec::new();
        for (live, cleared) in stream.groups.iter_mut().zip(cleared) {
            let free = live.release(cleared);
            settles.extend(free.into_iter().map(|(seq, place)| (seq, Some(place))));
        }
        // A later group may have come before an earlier one.
        settles.sort_unstable_by_key(|(seq, _)| *seq);
        // Whoever waits for these units comes after them in the log.
        self.log_settled(id, &settles);
        for (seq, _) in settles {
            let unit = id.unit(seq);
            let executed = self.core.state.release(unit, &mut self.core.ahead);
            self.let_go(unit, self.keys_of(id, seq).into_iter());
            self.finish(now, executed);
        }
        self.carried_out(now);
    }

    pub(super) fn log_settled(&mut self, id: StreamId, units: &[(u32, Place)]) {
        if !units.is_empty() {
            let asks = self.core.state.asks();
            // Somebody waits for what they ask.
            let urgent = units.iter().any(|(seq, _)| asks.contains_key(&id.unit(*seq)));
            let units = units.to_vec();
            if urgent {
                self.core.tail.hurry();
            }
            self.core.log(LogRecord::Settle { stream: id, units }, Recipient::none());
        }
    }

    /// The log says what became of units.
    pub(in crate::shard) fn units_settled(&mut self, id: StreamId) {
        let kept = self.core.state.streams().get(&id);
        let settled = |live: &Live| {
            let group = kept.and_then(|kept| kept.group(live.group.first()));
            group.is_some_and(KeptGroup::is_settled)
        };
        let mut answers = Vec::new();
        if let Some(stream) = self.streams.live.get_mut(&id) {
            for live in stream.groups.iter_mut().filter(|live| settled(live)) {
                answers.extend(live.asker.take().map(|asker| (asker, live.answer())));
            }
            stream.groups.retain(|live| !settled(live));
            // What others have told may be about units that are on their way here.
            stream.since_us = self.core.state.mono_us();
        }
        for ((gateway, token), units) in answers {
            self.core.answer(gateway, token, Answer::Units(units));
        }
        self.end_chain(id);
        self.tell_settled(id);
    }

    /// Tells the others which units are closed here.
    fn say_closed(&mut self, id: StreamId) {
        let own = self.core.config.id;
        let upto = self.closed_upto(id);
        let Some(stream) = self.streams.live.get_mut(&id) else { return };
        if upto <= stream.closed {
            return;
        }
        let before = std::mem::replace(&mut stream.closed, upto);
        let Some(upto) = upto else { return };
        let mut to: SmallVec<[ShardId; 8]> = stream.listeners.iter().copied().collect();
        for live in &stream.groups {
            // Whoever has something after what is closed now.
            let units = &live.group.units;
            let known = units.partition_point(|unit| before.is_some_and(|b| unit.seq <= b));
            let Some(first) = units.get(known).map(|unit| unit.seq) else { continue };
            if first > upto {
                continue;
            }
            to.extend(live.group.homes_from(first));
        }
        to.sort_unstable();
        to.dedup();
        for shard in to.into_iter().filter(|shard| *shard != own) {
            self.streams.say(shard, Word::Closed { stream: id, shard: own, upto });
        }
    }

    /// Answers for groups of which it is known what becomes of them.
    fn answer_groups(&mut self, id: StreamId) {
        let Some(stream) = self.streams.live.get_mut(&id) else { return };
        let mut answers = Vec::new();
        for live in &mut stream.groups {
            // What is asked of a tree is done, and answered, when the log says so.
            if live.asker.is_some()
                && !live.group.has_asks()
                && live.is_answered()
                && let Some(asker) = live.asker.take()
            {
                answers.push((asker, live.answer()));
            }
        }
        for ((gateway, token), units) in answers {
            self.core.answer(gateway, token, Answer::Units(units));
        }
    }

    /// Asks other shards for what a stream waits for, if it was not to come by itself or is late.
    pub(super) fn ask_for_earlier(&mut self, now: Now, id: StreamId) {
        let own = self.core.config.id;
        let Some(stream) = self.streams.live.get(&id) else { return };
        let mut asks: BTreeMap<ShardId, (bool, Vec<u32>)> = BTreeMap::new();
        let fresh = stream.asked_us == 0;
        // Where everything is slow because there is too much to do, questions add to it.
        let again = !fresh && now.mono_us >= stream.asked_us + stream.pause_us();
        for live in stream.groups.iter().filter(|live| live.durable) {
            if !again && live.asked {
                continue;
            }
            let is_closed = |home, seq| self.is_closed(id, stream, home, seq);
            let is_proposed = |home, seq| home == own || stream.told.proposal(home, seq).is_some();
            for (home, seq) in live.missing(is_closed, is_proposed) {
                // What was sent together is told without being asked for, and whoever was asked tells the
                // rest.
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
        let Some(stream) = self.streams.live.get_mut(&id) else { return };
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
            let word = Word::Asks { stream: id, shard: own, hurries, units };
            self.streams.say(home, word);
        }
    }

    /// This replica does not lead any more: whoever waits for an answer asks the next leader.
    pub(in crate::shard) fn give_up_streams(&mut self) {
        let streams = std::mem::take(&mut self.streams);
        for (_, stream) in streams.live {
            let asked =
                stream.groups.into_iter().filter_map(|live| Some((live.asker?, live.group)));
            for ((gateway, token), group) in asked.chain(stream.chain.into_asked()) {
                self.core.turn_away(gateway, token, Body::Pipeline(group));
            }
        }
        for (gateway, token, group) in streams.refusing.into_values().flat_map(|r| r.failed) {
            self.core.turn_away(gateway, token, Body::Pipeline(group));
        }
        for request in streams.held.into_iter().filter(|request| !is_own(&request.body)) {
            self.core.turn_away(request.gateway, request.token, request.body);
        }
    }
}
