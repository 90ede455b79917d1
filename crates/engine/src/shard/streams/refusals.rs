//! Messages of other shards about streams, and streams of which no further group is let in.

use super::leader::Streams;
use super::live::Live;
use crate::entry::LogRecord;
use crate::ids::{GatewayId, ShardId, StreamId, Token};
use crate::limits::{EARLY_STREAM_MESSAGES_US, UNITS_LATE_US};
use crate::message::Answer;
use crate::now::Now;
use crate::pipeline::{Group, StreamMessage};
use crate::shard::config::Rule;
use crate::shard::core::ShardCore;
use crate::shard::tail::Recipient;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A stream of which no further group is let in, as soon as that is durable.
#[derive(Debug)]
struct Rejection {
    /// The first unit that this concerns.
    seq: u32,
    /// Other shards to report it to.
    to: SmallVec<[ShardId; 4]>,
    /// Groups that are not let in, with their requests. Their failure is reported when it is durable: the
    /// log of another leader may have them.
    failed: Vec<((GatewayId, Token), Arc<Group>)>,
}

/// Streams that are about to be refused.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    of: BTreeMap<StreamId, Rejection>,
    /// Streams whose waiting requests are to be refused as well.
    new: Vec<StreamId>,
}

impl Refusals {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Whether a stream is about to be refused.
    pub fn has(&self, id: StreamId) -> bool {
        self.of.contains_key(&id)
    }

    /// Takes a stream whose waiting requests are to be refused.
    pub fn take_new(&mut self) -> Option<StreamId> {
        self.new.pop()
    }

    /// Number of groups that are not let in.
    pub fn waiting(&self) -> usize {
        self.of.values().map(|refusal| refusal.failed.len()).sum()
    }

    /// Takes the groups out that are not let in.
    pub fn into_failed(self) -> impl Iterator<Item = ((GatewayId, Token), Arc<Group>)> {
        self.of.into_values().flat_map(|refusal| refusal.failed)
    }
}

/// The answer for a group that has no effect.
fn failed(group: &Group) -> Answer {
    Answer::Units(vec![None; group.units.len()])
}

impl Streams {
    /// Takes a message of the leader of another shard.
    pub(super) fn hear(&mut self, core: &mut ShardCore, now: Now, word: StreamMessage) {
        let id = word.stream();
        match word {
            StreamMessage::Asks { shard, hurries, units, .. } => {
                self.asked(core, now, (id, shard), hurries, &units);
            }
            StreamMessage::Settled { shard, .. } => {
                if self.memory.settled_at(id, shard) {
                    self.drop_live(id);
                }
            }
            StreamMessage::HandedOn { links, .. } => {
                if self.chains.hear_places(core, &mut self.agenda, id, links) {
                    self.stream_mut(now, id);
                }
            }
            StreamMessage::AsksPlaces { shard, term, .. } => {
                self.chains.asked_for_places(core, &mut self.agenda, id, (shard, term));
            }
            StreamMessage::Knows { shard, term, links, .. } => {
                self.chains.learn_places(&self.agenda, id, (shard, term), links);
            }
            word @ (StreamMessage::Proposed { .. }
            | StreamMessage::Closed { .. }
            | StreamMessage::Refused { .. }) => {
                if self.stream_mut(now, id).told.hear(&word) {
                    self.agenda.mark(id);
                }
            }
        }
    }

    /// Answers another shard that waits for units of this one, and keeps it informed from now on.
    fn asked(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        (id, shard): (StreamId, ShardId),
        hurries: bool,
        units: &[u32],
    ) {
        let own = core.config.id;
        let kept = core.state.streams.get(id);
        let refused = kept.is_some_and(|kept| kept.refused);
        let chained = kept.is_some_and(|kept| kept.is_handed_on());
        let (mut unknown, mut in_chain) = (Vec::new(), Vec::new());
        for &seq in units {
            match kept.and_then(|kept| kept.group_of(seq)) {
                Some(_) if chained => in_chain.push(seq),
                Some(_) => {}
                None if refused => {
                    self.agenda.say(shard, StreamMessage::Refused { stream: id, seq })
                }
                None => unknown.push(seq),
            }
        }
        for seq in in_chain {
            self.chains.asked_for_place(core, &mut self.agenda, (id, seq), shard);
        }
        // It hears of groups that come later. Of those that have come it may not know that it needs them.
        let first = units.iter().min().filter(|_| !chained);
        let since = kept.zip(first).map_or(&[][..], |(kept, first)| kept.groups_since(*first));
        for group in since {
            let (units, proposal) = (group.range(), group.proposal);
            let word = StreamMessage::Proposed { stream: id, shard: own, units, proposal };
            self.agenda.say(shard, word);
        }
        if let Some(upto) = self.closed_upto(core, id).filter(|_| !chained) {
            self.agenda.say(shard, StreamMessage::Closed { stream: id, shard: own, upto });
        }
        let stream = self.stream_mut(now, id);
        if !stream.listeners.contains(&shard) && shard != own {
            stream.listeners.push(shard);
        }
        unknown.retain(|seq| !self.has_unit(core, id, *seq));
        let Some(seq) = unknown.first().copied() else { return };
        if hurries {
            return self.refuse_late(core, now, id, seq);
        }
        self.stream_mut(now, id).late.get_or_insert((now.mono_us, seq));
    }

    /// Whether a unit is in the log here, or on its way there.
    fn has_unit(&self, core: &ShardCore, id: StreamId, seq: u32) -> bool {
        let live = self.live.get(&id).and_then(|stream| stream.group_of(seq));
        live.is_some_and(|(live, _)| live.logged)
            || self.chains.has_unit(id, seq)
            || core.state.streams.get(id).and_then(|kept| kept.proposal(seq)).is_some()
    }

    /// Whether the fate of a stream can no longer be told.
    pub(super) fn is_outlived(&self, core: &ShardCore, id: StreamId) -> bool {
        core.state.streams.is_outlived(id) && !self.refusals.has(id)
    }

    /// Whether no further group of a stream is let in.
    pub(super) fn is_refused(&self, core: &ShardCore, id: StreamId) -> bool {
        self.refusals.has(id) || core.state.streams.is_refused(id)
    }

    /// Refuses a group, and every later group of its stream.
    pub(super) fn refuse_group(
        &mut self,
        core: &mut ShardCore,
        asker: (GatewayId, Token),
        group: &Arc<Group>,
    ) {
        core.stats.refused += 1;
        let own = core.config.id;
        self.refuse(core, group.stream, group.first());
        let to = group.later_homes().into_iter().filter(|shard| *shard != own);
        if let Some(refusal) = self.refusals.of.get_mut(&group.stream) {
            refusal.to.extend(to);
            return refusal.failed.push((asker, Arc::clone(group)));
        }
        let word = StreamMessage::Refused { stream: group.stream, seq: group.first() };
        to.for_each(|shard| self.agenda.say(shard, word.clone()));
        core.answer(asker.0, asker.1, failed(group));
    }

    /// Refuses further groups of a stream, which is reported once it is durable. Groups that have come and
    /// have not got as far as the log do not get there any more.
    fn refuse(&mut self, core: &mut ShardCore, id: StreamId, seq: u32) {
        if core.state.streams.is_refused(id) {
            return;
        }
        if let Some(refusal) = self.refusals.of.get_mut(&id) {
            refusal.seq = seq.min(refusal.seq);
            return;
        }
        let refusal = Rejection { seq, to: SmallVec::new(), failed: Vec::new() };
        self.refusals.of.insert(id, refusal);
        self.refusals.new.push(id);
        self.drop_unlogged(core, id);
        if core.breaks(Rule::RefusalsAreDurable) {
            core.state.streams.refuse(id);
            return self.refused(core, id);
        }
        core.log(LogRecord::Refuse(id), Recipient::none());
    }

    /// Refuses a stream because of a unit that others have waited for long enough, and that has not got as
    /// far as the log.
    pub(super) fn refuse_late(&mut self, core: &mut ShardCore, now: Now, id: StreamId, seq: u32) {
        self.stream_mut(now, id).late = None;
        if self.has_unit(core, id, seq) {
            // It has come meanwhile.
            return;
        }
        self.refuse(core, id, seq);
        let listeners = self.stream_mut(now, id).listeners.clone();
        if let Some(refusal) = self.refusals.of.get_mut(&id) {
            refusal.to.extend(listeners);
        }
    }

    /// Refuses the groups of a stream that have not got as far as the log.
    fn drop_unlogged(&mut self, core: &mut ShardCore, id: StreamId) {
        let Some(stream) = self.live.get_mut(&id) else { return };
        let groups = std::mem::take(&mut stream.groups);
        let (kept, dropped): (Vec<Live>, Vec<Live>) =
            groups.into_iter().partition(|live| live.logged);
        stream.groups = kept;
        for live in dropped {
            for unit in &live.group.units {
                let keys = unit.ops.iter().map(|(key, _)| key);
                self.let_go(core, id.unit(unit.seq), keys);
            }
            if let Some(asker) = live.asker {
                self.refuse_group(core, asker, &live.group);
            }
        }
    }

    /// Reports that a stream is refused: the log says so.
    pub(in crate::shard) fn refused(&mut self, core: &mut ShardCore, id: StreamId) {
        let own = core.config.id;
        self.memory.remember(core, id);
        let Some(Rejection { seq, mut to, failed: groups }) = self.refusals.of.remove(&id) else {
            return;
        };
        for ((gateway, token), group) in groups {
            core.answer(gateway, token, failed(&group));
        }
        let word = StreamMessage::Refused { stream: id, seq };
        if let Some(stream) = self.live.get_mut(&id) {
            stream.told.hear(&word);
            to.extend(stream.listeners.iter().copied());
            self.agenda.mark(id);
        }
        self.agenda.say_to(&mut to, own, &word);
    }

    /// Notes that the gateway of a stream has all answers.
    pub(in crate::shard) fn ended(
        &mut self,
        core: &ShardCore,
        now: Now,
        id: StreamId,
        shards: Vec<ShardId>,
    ) {
        if let Some(stream) = self.live.get_mut(&id) {
            stream.told.all_closed = true;
            stream.since_us = now.mono_us;
            self.agenda.mark(id);
        }
        self.memory.ended(id, shards);
        self.tell_settled(core, id);
    }

    /// Does what is due by time. `waits` tells whether units of a stream wait for records here.
    pub(in crate::shard) fn tick(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        waits: impl Fn(StreamId) -> bool,
    ) {
        if self.is_quiet() {
            return;
        }
        self.chains.ask_for_places(core, &mut self.agenda, now);
        let ids: Vec<StreamId> = self.live.keys().copied().collect();
        for id in ids {
            self.ask_for_earlier(core, now, id);
            self.chains.ask_for_late(core, &mut self.agenda, now, id);
            let late = self.live.get(&id).and_then(|stream| stream.late);
            if let Some((since_us, seq)) = late
                && now.mono_us >= since_us + UNITS_LATE_US
                && !waits(id)
            {
                self.refuse_late(core, now, id, seq);
            }
            let Some(stream) = self.live.get(&id) else { continue };
            let units = !stream.groups.is_empty() || self.chains.group(id).is_some();
            let idle = !units && stream.late.is_none();
            if idle && now.mono_us >= stream.since_us + EARLY_STREAM_MESSAGES_US {
                self.drop_live(id);
            }
        }
        self.memory.tick(core, now);
    }
}
