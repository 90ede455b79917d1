//! What shards ask and tell each other about streams, what is refused, and for how long streams are
//! remembered.
//!
//! A stream is forgotten when whoever has issued it has all answers, and all of it is settled, here and at
//! all other shards that have had units of it: until then a new leader there may ask. If one of these is
//! never said, it is forgotten after a time in which nobody can be left who asks ([`STREAM_KEPT_US`], and
//! all watermarks have passed).

use super::chain::is_own;
use super::leader::LeaderStreams;
use super::live::{Live, own_proposal};
use crate::entry::{KeptGroup, LogRecord};
use crate::ids::{GatewayId, ShardId, StreamId, Token};
use crate::limits::{ASK_UNITS_US, EARLY_WORDS_US, STREAM_KEPT_US, UNITS_LATE_US};
use crate::message::{Body, Request};
use crate::now::Now;
use crate::pipeline::{Group, Place, Word};
use crate::shard::streams::Kept;
use crate::shard::{Recipient, Rule, Shard};
use smallvec::SmallVec;
use std::sync::Arc;

/// What is still to be heard before a stream is forgotten.
#[derive(Debug)]
pub(in crate::shard) struct Keeping {
    since_us: u64,
    /// The shards that have had units, once whoever has issued them has all answers.
    ended: Option<Vec<ShardId>>,
    /// The shards that have said that all is settled there, this one included.
    settled: SmallVec<[ShardId; 8]>,
}

impl Keeping {
    fn new(since_us: u64) -> Self {
        Self { since_us, ended: None, settled: SmallVec::new() }
    }

    fn settled_at(&mut self, shard: ShardId) {
        if !self.settled.contains(&shard) {
            self.settled.push(shard);
        }
    }

    fn is_over(&self) -> bool {
        let ended = self.ended.as_ref();
        ended.is_some_and(|shards| shards.iter().all(|shard| self.settled.contains(shard)))
    }
}

/// A stream of which nothing more is let in, as soon as that is durable.
#[derive(Debug)]
pub(in crate::shard) struct Refusing {
    /// The first unit that this concerns.
    pub seq: u32,
    /// Other shards that want to know.
    pub to: SmallVec<[ShardId; 4]>,
    /// Groups that are not let in, with whoever has sent them. That they have failed is no news before it is
    /// durable: the log of another leader may have them.
    pub failed: Vec<(GatewayId, Token, Arc<Group>)>,
}

fn is_of(id: StreamId, request: &Request) -> bool {
    matches!(&request.body, Body::Pipeline(group) if group.stream == id)
}

impl Shard {
    /// The leaders of other shards say something.
    pub fn hear(&mut self, now: Now, words: impl Iterator<Item = Word>) {
        self.core.state.tell_time(now.mono_us);
        words.for_each(|word| self.hear_one(now, word));
        self.settle(now);
    }

    fn hear_one(&mut self, now: Now, word: Word) {
        let id = word.stream();
        match word {
            Word::Asks { shard, hurries, units, .. } => {
                self.asked(now, id, shard, hurries, &units);
            }
            Word::Settled { shard, .. } => {
                if let Some(keeping) = self.streams.keeping.get_mut(&id) {
                    keeping.settled_at(shard);
                    self.forget_if_over(id);
                }
            }
            word @ (Word::HandedOn { .. } | Word::AsksPlaces { .. } | Word::Knows { .. }) => {
                self.hear_chain(now, word);
            }
            word @ (Word::Proposed { .. } | Word::Closed { .. } | Word::Refused { .. }) => {
                if self.stream_mut(now, id).told.hear(&word) {
                    self.streams.mark(id);
                }
            }
        }
    }

    /// What is to be said to the leaders of other shards.
    pub fn take_words(&mut self) -> Vec<(ShardId, Word)> {
        std::mem::take(&mut self.streams.words)
    }

    /// Whether there is anything.
    #[inline]
    pub fn has_words(&self) -> bool {
        !self.streams.words.is_empty()
    }

    /// Another shard waits for units of this one.
    fn asked(&mut self, now: Now, id: StreamId, shard: ShardId, hurries: bool, units: &[u32]) {
        let own = self.core.config.id;
        let kept = self.core.state.streams().get(&id);
        let refused = kept.is_some_and(|kept| kept.refused);
        let chained = kept.is_some_and(Kept::is_handed_on);
        let (mut told, mut unknown, mut in_chain) = (Vec::new(), Vec::new(), Vec::new());
        for &seq in units {
            match kept.and_then(|kept| kept.group_of(seq)) {
                Some(_) if chained => in_chain.push(seq),
                Some(_) => {}
                None if refused => told.push(Word::Refused { stream: id, seq }),
                None => unknown.push(seq),
            }
        }
        // From now on it is told of what comes. Of what has come it may not know that it needs it.
        let first = units.iter().min().filter(|_| !chained);
        let since = kept.zip(first).map_or(&[][..], |(kept, first)| kept.groups_since(*first));
        told.extend(since.iter().map(|group| {
            let (units, proposal) = (group.range(), group.proposal);
            Word::Proposed { stream: id, shard: own, units, proposal }
        }));
        in_chain.into_iter().for_each(|seq| self.asked_for_place(id, seq, shard));
        let closed = self.closed_upto(id).filter(|_| !chained);
        told.extend(closed.map(|upto| Word::Closed { stream: id, shard: own, upto }));
        for word in told {
            self.streams.say(shard, word);
        }
        let stream = self.stream_mut(now, id);
        if !stream.listeners.contains(&shard) && shard != own {
            stream.listeners.push(shard);
        }
        unknown.retain(|seq| !self.has_unit(id, *seq));
        let Some(seq) = unknown.first().copied() else { return };
        if hurries {
            return self.refuse_late(now, id, seq);
        }
        self.stream_mut(now, id).late.get_or_insert((now.mono_us, seq));
    }

    /// Whether a unit is in the log here, or on its way there.
    fn has_unit(&self, id: StreamId, seq: u32) -> bool {
        let live = self.streams.live.get(&id).and_then(|stream| stream.group_of(seq));
        live.is_some_and(|(live, _)| live.logged)
            || self.has_chained(id, seq)
            || own_proposal(self.core.state.streams().get(&id), seq).is_some()
    }

    /// Up to which unit all of a stream is closed here, as far as it has come.
    pub(super) fn closed_upto(&self, id: StreamId) -> Option<u32> {
        let stream = self.streams.live.get(&id);
        let said = stream.and_then(|stream| stream.closed);
        let is_closed = |(seq, place): &&(u32, Option<Place>)| match place {
            Some(place) => place.is_some(),
            None => {
                stream.and_then(|s| s.group_of(*seq)).is_some_and(|(l, at)| l.units[at].is_closed())
            }
        };
        let kept = self.core.state.streams().get(&id).map_or(&[][..], |kept| &kept.groups);
        // What is closed stays so.
        let rest = kept.partition_point(|group| said.is_some_and(|said| group.range().1 <= said));
        let closed = kept[rest..].iter().flat_map(|group| &group.units).take_while(is_closed);
        closed.last().map(|(seq, _)| *seq).max(said)
    }

    /// A group is not let in, and nothing of its stream is any more.
    pub(in crate::shard) fn refuse_group(
        &mut self,
        (gateway, token): (GatewayId, Token),
        group: &Arc<Group>,
    ) {
        self.core.stats.refused += 1;
        let own = self.core.config.id;
        self.refuse_stream(group.stream, group.first());
        let to = group.later_homes().into_iter().filter(|shard| *shard != own);
        if let Some(refusing) = self.streams.refusing.get_mut(&group.stream) {
            refusing.to.extend(to);
            return refusing.failed.push((gateway, token, Arc::clone(group)));
        }
        let word = Word::Refused { stream: group.stream, seq: group.first() };
        to.for_each(|shard| self.streams.say(shard, word.clone()));
        self.core.answer(gateway, token, LeaderStreams::failed(group));
    }

    /// From now on nothing of a stream is let in, which is said once it is durable. What has come and has not
    /// got as far as the log does not get there any more.
    fn refuse_stream(&mut self, id: StreamId, seq: u32) {
        if self.core.state.streams().get(&id).is_some_and(|kept| kept.refused) {
            return;
        }
        if let Some(refusing) = self.streams.refusing.get_mut(&id) {
            refusing.seq = seq.min(refusing.seq);
            return;
        }
        let refusing = Refusing { seq, to: SmallVec::new(), failed: Vec::new() };
        self.streams.refusing.insert(id, refusing);
        self.drop_waiting(id);
        self.drop_unlogged(id);
        if self.core.breaks(Rule::RefusalsAreDurable) {
            self.core.state.refuse_stream(id);
            return self.stream_refused(id);
        }
        self.core.log(LogRecord::Refuse(id), Recipient::none());
    }

    /// Others have waited long enough for something that has not come, or not got as far as the log.
    fn refuse_late(&mut self, now: Now, id: StreamId, seq: u32) {
        self.stream_mut(now, id).late = None;
        if self.has_unit(id, seq) {
            // It has come meanwhile.
            return;
        }
        self.refuse_stream(id, seq);
        let listeners = self.stream_mut(now, id).listeners.clone();
        if let Some(refusing) = self.streams.refusing.get_mut(&id) {
            refusing.to.extend(listeners);
        }
    }

    /// Groups that wait for records, or for the places of others, do so no more.
    fn drop_waiting(&mut self, id: StreamId) {
        let is_of = |request: &Request| is_of(id, request) && !is_own(&request.body);
        let mut dropped = self.take_newcomers(is_of);
        dropped.extend(self.locking.take_waiting(&mut self.core, |w| is_of(&w.request)));
        for Request { gateway, token, body, .. } in dropped {
            if let Body::Pipeline(group) = body {
                self.refuse_group((gateway, token), &group);
            }
        }
    }

    /// Groups that have not got as far as the log do not get there.
    fn drop_unlogged(&mut self, id: StreamId) {
        let Some(stream) = self.streams.live.get_mut(&id) else { return };
        let groups = std::mem::take(&mut stream.groups);
        let (kept, dropped): (Vec<Live>, Vec<Live>) =
            groups.into_iter().partition(|live| live.logged);
        stream.groups = kept;
        for live in dropped {
            for unit in &live.group.units {
                let keys = unit.ops.iter().map(|(key, _)| key.clone());
                self.let_go(id.unit(unit.seq), keys);
            }
            if let Some(asker) = live.asker {
                self.refuse_group(asker, &live.group);
            }
        }
    }

    /// The shard is to stand still: what waits for records here may hold up what is to be settled.
    pub(in crate::shard) fn refuse_waiting_groups(&mut self, now: Now) {
        let waiting = self.locking.waiting().map(|waiter| &waiter.request.body);
        let waiting = waiting.filter(|body| !is_own(body)).filter_map(|body| match body {
            Body::Pipeline(group) => Some((group.stream, group.first())),
            _ => None,
        });
        for (id, first) in waiting.collect::<Vec<_>>() {
            self.refuse_late(now, id, first);
        }
    }

    /// The log says that nothing more of a stream is let in.
    pub(in crate::shard) fn stream_refused(&mut self, id: StreamId) {
        let own = self.core.config.id;
        self.remember_stream(id);
        let Some(Refusing { seq, mut to, failed }) = self.streams.refusing.remove(&id) else {
            return;
        };
        for (gateway, token, group) in failed {
            self.core.answer(gateway, token, LeaderStreams::failed(&group));
        }
        if let Some(stream) = self.streams.live.get_mut(&id) {
            stream.told.hear(&Word::Refused { stream: id, seq });
            to.extend(stream.listeners.iter().copied());
            self.streams.mark(id);
        }
        to.sort_unstable();
        to.dedup();
        for shard in to.into_iter().filter(|shard| *shard != own) {
            self.streams.say(shard, Word::Refused { stream: id, seq });
        }
    }

    /// Whoever has issued a stream has all answers.
    pub(in crate::shard) fn end_stream(&mut self, now: Now, id: StreamId, shards: Vec<ShardId>) {
        if let Some(stream) = self.streams.live.get_mut(&id) {
            stream.told.all_closed = true;
            stream.since_us = now.mono_us;
            self.streams.mark(id);
        }
        if let Some(keeping) = self.streams.keeping.get_mut(&id) {
            keeping.ended = Some(shards);
        }
        self.tell_settled(id);
    }

    /// Tells the others that all is settled here, if it is and they want to know.
    pub(super) fn tell_settled(&mut self, id: StreamId) {
        let own = self.core.config.id;
        if !self.is_settled(id) {
            return;
        }
        let Some(keeping) = self.streams.keeping.get_mut(&id) else { return };
        let Some(shards) = keeping.ended.clone() else { return };
        keeping.settled_at(own);
        for shard in shards.into_iter().filter(|shard| *shard != own) {
            self.streams.say(shard, Word::Settled { stream: id, shard: own });
        }
        self.forget_if_over(id);
    }

    pub(super) fn remember_stream(&mut self, id: StreamId) {
        let keeping = Keeping::new(self.core.state.mono_us());
        self.streams.keeping.entry(id).or_insert(keeping);
    }

    /// A new leader does not know what was said before.
    pub(super) fn keep_inherited(&mut self, now: Now) {
        for id in self.core.state.streams().keys() {
            self.streams.keeping.insert(*id, Keeping::new(now.mono_us));
        }
    }

    pub(super) fn is_settled(&self, id: StreamId) -> bool {
        let kept = self.core.state.streams().get(&id);
        kept.is_none_or(|kept| kept.groups.iter().all(KeptGroup::is_settled))
    }

    pub(super) fn forget_if_over(&mut self, id: StreamId) {
        if self.streams.keeping.get(&id).is_some_and(Keeping::is_over) {
            self.streams.keeping.swap_remove(&id);
            self.streams.live.swap_remove(&id);
            self.streams.forgotten.push(id);
        }
    }

    /// Does what is due by time.
    pub(in crate::shard) fn tick_streams(&mut self, now: Now) {
        if self.streams.is_quiet() {
            return;
        }
        self.ask_for_places(now);
        let waiting: Vec<StreamId> = self.streams.live.keys().copied().collect();
        for id in waiting {
            self.ask_for_earlier(now, id);
            self.tick_chain(now, id);
            let Some(stream) = self.streams.live.get(&id) else { continue };
            if let Some((since_us, seq)) = stream.late
                && now.mono_us >= since_us + UNITS_LATE_US
                && !self.waits_for_records(id)
            {
                self.refuse_late(now, id, seq);
            }
            let Some(stream) = self.streams.live.get(&id) else { continue };
            let units = !stream.groups.is_empty() || stream.chain.group().is_some();
            let idle = !units && stream.late.is_none();
            if idle && now.mono_us >= stream.since_us + EARLY_WORDS_US {
                self.streams.live.swap_remove(&id);
            }
        }
        let long_kept: Vec<StreamId> = self
            .streams
            .keeping
            .iter()
            .filter(|(_, keeping)| now.mono_us >= keeping.since_us + STREAM_KEPT_US)
            .map(|(id, _)| *id)
            .filter(|id| self.is_settled(*id) && self.is_passed(*id))
            .collect();
        for id in long_kept {
            self.streams.keeping.swap_remove(&id);
            self.streams.outlived.push(id);
        }
        let outlived = std::mem::take(&mut self.streams.outlived);
        if !outlived.is_empty() {
            self.core.log(LogRecord::Outlive(outlived), Recipient::none());
        }
        let forgotten = std::mem::take(&mut self.streams.forgotten);
        if !forgotten.is_empty() {
            self.core.log(LogRecord::Forget(forgotten), Recipient::none());
        }
    }

    /// Whether all shards have settled what is as old as a stream.
    fn is_passed(&self, id: StreamId) -> bool {
        let Some(kept) = self.core.state.streams().get(&id) else { return true };
        let Some(keeping) = self.streams.keeping.get(&id) else { return true };
        let units = kept.groups.iter().flat_map(|group| &group.units);
        let last = units.filter_map(|(_, place)| place.flatten());
        !self.core.config.clustered
            || self.core.state.fates().all_passed(keeping.since_us, last.max().unwrap_or_default())
    }

    /// Whether anything is known here of pipelines, but that nobody can tell any more what became of some.
    pub fn knows_streams(&self) -> bool {
        !self.streams.is_quiet() || !self.core.state.streams().is_empty()
    }

    /// Whether units of a stream wait for records here.
    fn waits_for_records(&self, id: StreamId) -> bool {
        self.locking.waiting().any(|waiter| is_of(id, &waiter.request))
    }

    /// When [`Shard::tick_streams`] has something to do, if ever.
    pub(in crate::shard) fn streams_timeout(&self, now: Now) -> Option<u64> {
        (!self.streams.is_quiet()).then_some(now.mono_us + ASK_UNITS_US / 2)
    }
}
