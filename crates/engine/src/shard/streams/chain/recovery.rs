//! A new leader finds out which places of its shard's units an earlier one has handed on (`chain`).
//!
//! A place is handed on before it is durable, so that others may rest on what this shard has lost. All
//! shards that have later units of such a stream are asked. Who answers has promised, in its log, to take
//! nothing more from earlier leaders of the shard that asks. Until all have answered, and what they know
//! is in the log again, no unit gets a place here, and nobody gets at the records of those without one.

use super::super::live::lost;
use super::leader::{Chain, ChainStep};
use crate::entry::LogRecord;
use crate::ids::{Age, KeyedOp, ShardId, StreamId, TxnId};
use crate::limits::ASK_UNITS_US;
use crate::now::Now;
use crate::pipeline::{Group, Link, Unit, Word};
use crate::shard::locking::locks::{Claim, Class};
use crate::shard::{Recipient, Shard};
use adt::{Blob, Timestamp};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Who holds the records meanwhile. No transaction and no unit has this name.
pub(in crate::shard) const RECOVERY: TxnId = TxnId { age: Age::OLDEST, attempt: 1 };

/// What is still to be found out.
#[derive(Debug, Default)]
pub(super) struct PlaceRecovery {
    /// Whose answers are missing, by stream.
    open: BTreeMap<StreamId, SmallVec<[ShardId; 8]>>,
    /// What others know.
    told: BTreeMap<StreamId, BTreeMap<u32, Link>>,
    /// Units that have their places, in their order; none until all have answered.
    known: Option<BTreeSet<(Timestamp, StreamId, u32)>>,
    /// Those that are on their way to the log again.
    placed: Vec<(StreamId, u32)>,
    keys: Vec<Blob>,
    asked_us: u64,
}

impl Shard {
    /// From which term on leaders of a shard are listened to about a stream.
    pub(super) fn listens_from(&self, id: StreamId, shard: ShardId) -> u64 {
        let kept = self.core.state.streams().get(&id).and_then(|kept| kept.chain.as_deref());
        let promised = kept.map_or(0, |chain| chain.promised(shard));
        promised.max(self.streams.chain.promising.get(&(id, shard)).copied().unwrap_or_default())
    }

    /// A new leader of another shard asks what is known of its units.
    pub(super) fn asked_for_places(&mut self, id: StreamId, shard: ShardId, term: u64) {
        let kept = self.core.state.streams().get(&id).and_then(|kept| kept.chain.as_deref());
        if kept.map_or(0, |chain| chain.promised(shard)) >= term {
            return self.tell_places(id, shard, term);
        }
        if self.listens_from(id, shard) < term {
            self.streams.chain.promising.insert((id, shard), term);
            self.core.log(LogRecord::Promise { stream: id, shard, term }, Recipient::none());
        }
    }

    /// The promise is durable, and so is everything that was rested on earlier leaders of that shard.
    pub(super) fn promised(&mut self, id: StreamId, shard: ShardId, term: u64) {
        self.remember_stream(id);
        if self.streams.chain.promising.get(&(id, shard)) == Some(&term) {
            self.streams.chain.promising.remove(&(id, shard));
        }
        self.tell_places(id, shard, term);
        self.streams.mark(id);
    }

    fn tell_places(&mut self, id: StreamId, to: ShardId, term: u64) {
        let own = self.core.config.id;
        let mut links = Vec::new();
        if let Some((chain, homes)) = self.core.state.chain_of(id) {
            links.extend(chain.links.values().copied());
            let of_it = |link: &Link| homes.get(link.seq as usize) == Some(&to);
            links.truncate(links.iter().rposition(of_it).map_or(0, |last| last + 1));
        }
        let word = Word::Knows { stream: id, shard: own, term, links };
        self.streams.say(to, word);
    }

    /// This replica leads from now on.
    pub(in crate::shard::streams) fn inherit_chains(&mut self, now: Now) {
        let ids: Vec<StreamId> = self.core.state.contents.keys().copied().collect();
        if ids.is_empty() {
            return;
        }
        self.core.track(now);
        let mut recovery = PlaceRecovery::default();
        for id in ids {
            let Some((chain, later)) = self.inherited_chain(id) else { continue };
            let group = chain.group.clone();
            for (key, op) in group.iter().flat_map(|group| group.ops()) {
                // Locks of the first kind keep off reads and single commands, of the second one whoever
                // comes with others of its kind to other shards.
                for class in [Class::Prepared, Class::Early { observed: true }] {
                    self.locking.hold(&mut self.core, RECOVERY, key, Claim::new(op.clone(), class));
                }
                recovery.keys.push(key.clone());
            }
            recovery.open.insert(id, later);
            self.stream_mut(now, id).chain.0 = Some(Box::new(chain));
        }
        recovery.open.retain(|_, shards| !shards.is_empty());
        self.streams.holding += 1;
        self.streams.chain.recovery = Some(recovery);
        self.ask_for_places(now);
    }

    /// What is in the log of a stream, as its new leader begins with it, and the other shards that may have
    /// heard of places.
    fn inherited_chain(&self, id: StreamId) -> Option<(Chain, SmallVec<[ShardId; 8]>)> {
        let kept = self.core.state.streams().get(&id)?;
        let (group, chain) = (kept.groups.first()?, kept.chain.as_deref()?);
        let unit = |(seq, _): &(u32, _)| {
            let ops = chain.contents.get(seq).cloned().unwrap_or_default();
            Unit { seq: *seq, ops, ..Unit::default() }
        };
        let units: Vec<Unit> = group.units.iter().map(unit).collect();
        let steps = group.units.iter().map(|(seq, place)| match place {
            None => ChainStep::Waiting,
            Some(None) => ChainStep::Failed,
            Some(Some(place)) => {
                let replies = self.core.state.fates().replies_of(id.unit(*seq)).cloned();
                let replies = replies.unwrap_or_else(|| smallvec![lost()]);
                ChainStep::Done { place: *place, replies }
            }
        });
        let steps = steps.collect();
        let homes = group.homes.clone();
        let group = Group { stream: id, homes, chained: true, units, ..Group::default() };
        let mut later = group.homes_from(*chain.contents.keys().next()?);
        later.retain(|shard| *shard != self.core.config.id);
        let (links, group) = (chain.links.clone(), Some(Arc::new(group)));
        Some((Chain { durable: true, steps, links, group, ..Chain::default() }, later))
    }

    /// Asks those whose answers are missing.
    pub(in crate::shard::streams) fn ask_for_places(&mut self, now: Now) {
        let (shard, term) = (self.core.config.id, self.streams.term);
        let Some(recovery) = &mut self.streams.chain.recovery else { return };
        if recovery.asked_us > 0 && now.mono_us < recovery.asked_us + ASK_UNITS_US {
            return;
        }
        recovery.asked_us = now.mono_us.max(1);
        let asks = recovery.open.iter().flat_map(|(stream, shards)| {
            let word = Word::AsksPlaces { stream: *stream, shard, term };
            shards.iter().map(move |shard| (*shard, word.clone()))
        });
        let asks: Vec<(ShardId, Word)> = asks.collect();
        self.streams.words.extend(asks);
    }

    /// Another shard has answered.
    pub(super) fn learn_places(
        &mut self,
        id: StreamId,
        from: ShardId,
        term: u64,
        links: Vec<Link>,
    ) {
        let current = term == self.streams.term;
        let Some(recovery) = self.streams.chain.recovery.as_mut().filter(|_| current) else {
            return;
        };
        let Some(open) = recovery.open.get_mut(&id) else { return };
        open.retain(|shard| *shard != from);
        if open.is_empty() {
            recovery.open.remove(&id);
        }
        recovery.told.entry(id).or_default().extend(links.into_iter().map(|l| (l.seq, l)));
    }

    /// Puts the next unit whose place is known into the log again; tells whether something was done.
    pub(in crate::shard) fn recover_next(&mut self, now: Now) -> bool {
        let Some(recovery) = &mut self.streams.chain.recovery else { return false };
        if !recovery.open.is_empty() {
            return false;
        }
        if recovery.known.is_none() {
            let known = recovery.told.iter().flat_map(|(id, links)| {
                let open = |link: &&Link| self.core.state.content(*id, link.seq).is_some();
                links.values().filter(open).map(|link| (link.place, *id, link.seq))
            });
            recovery.known = Some(known.collect());
        }
        let Some(&(place, id, seq)) = recovery.known.as_ref().and_then(BTreeSet::first) else {
            // Whoever reads before they have taken effect would miss them.
            let state = &self.core.state;
            recovery.placed.retain(|(id, seq)| state.content(*id, *seq).is_some());
            let over = recovery.placed.is_empty();
            if over {
                self.end_recovery(now);
            }
            return over;
        };
        let Some(ops) = self.core.state.content(id, seq) else {
            recovery
                .known
                .iter_mut()
                .for_each(|known| known.retain(|unit| *unit != (place, id, seq)));
            return true;
        };
        if self.comes_after_prepared(ops) {
            return false;
        }
        let ops = ops.iter().cloned().collect();
        self.place_again(now, id, Link { seq, place, term: self.streams.term }, ops);
        true
    }

    /// Whether something stands before a unit that may have been carried out in front of it, of which the
    /// log here does not know yet.
    fn comes_after_prepared(&self, ops: &[KeyedOp]) -> bool {
        ops.iter().any(|(key, op)| {
            let claim = Claim::new(op.clone(), Class::Apply);
            let record = self.core.state.get(key);
            self.core.locks.prepared_conflicts(key, &claim, RECOVERY, record).next().is_some()
        })
    }

    fn place_again(&mut self, now: Now, id: StreamId, link: Link, ops: SmallVec<[KeyedOp; 1]>) {
        let Some(recovery) = &mut self.streams.chain.recovery else { return };
        if let Some(known) = &mut recovery.known {
            known.pop_first();
        }
        recovery.placed.push((id, link.seq));
        let chain = self.streams.live.get_mut(&id).and_then(|stream| stream.chain.0.as_deref_mut());
        let (Some(chain), Some(told)) = (chain, recovery.told.get(&id)) else { return };
        let is_new = |(seq, _): &(&u32, &Link)| !chain.links.contains_key(seq);
        let before = told.range(..link.seq).filter(is_new).map(|(_, link)| *link);
        let before: Vec<Link> = before.collect();
        chain.links.extend(before.iter().map(|link| (link.seq, *link)));
        chain.step_of(link.seq).into_iter().for_each(|step| *step = ChainStep::Placed);
        self.core.move_clock(link.place);
        self.log_ordered(now, id, link, before, ops);
    }

    /// All is known: whoever has waited can go.
    fn end_recovery(&mut self, now: Now) {
        let Some(recovery) = self.streams.chain.recovery.take() else { return };
        self.streams.holding -= 1;
        for key in recovery.keys {
            self.core.locks.release(&key, RECOVERY);
        }
        self.mark_chains();
        self.let_newcomers_in(now);
    }

    /// Something may have become possible for all streams whose order is handed on.
    pub(in crate::shard) fn mark_chains(&mut self) {
        let ids: Vec<StreamId> = self.core.state.contents.keys().copied().collect();
        ids.into_iter().for_each(|id| self.streams.mark(id));
    }
}
