//! Recovery of the places that earlier leaders of a shard have handed on (`chain`).
//!
//! A place is handed on before it is durable, so that other shards may rest on what this shard has lost. A
//! new leader asks all shards that have later units of such a stream. A shard that answers has promised, in
//! its log, to take nothing more from earlier leaders of the asking shard. Until all have answered, and what
//! they know is in the log again, no unit gets a place here, and the records of units without places are
//! held against all other requests.

use super::super::agenda::Agenda;
use super::super::live::lost;
use super::leader::{Chain, ChainStep, Chains};
use crate::entry::LogRecord;
use crate::ids::{Age, KeyedOp, ShardId, StreamId, TxnId};
use crate::limits::ASK_UNITS_US;
use crate::now::Now;
use crate::pipeline::{Group, Link, StreamMessage, Unit};
use crate::shard::core::ShardCore;
use crate::shard::locking::locks::{Claim, Class};
use crate::shard::tail::Recipient;
use adt::{Blob, Timestamp};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Holder of the records during the recovery. No transaction and no unit has this name.
pub(in crate::shard) const RECOVERY: TxnId = TxnId { age: Age::OLDEST, attempt: 1 };

/// State of a recovery.
#[derive(Debug, Default)]
pub(super) struct PlaceRecovery {
    /// Shards whose answers are missing, by stream.
    open: BTreeMap<StreamId, SmallVec<[ShardId; 8]>>,
    /// Places that other shards know.
    told: BTreeMap<StreamId, BTreeMap<u32, Link>>,
    /// Units that have their places, in the order of these; none until all shards have answered.
    known: Option<BTreeSet<(Timestamp, StreamId, u32)>>,
    /// Units that are on their way to the log again.
    placed: Vec<(StreamId, u32)>,
    keys: Vec<Blob>,
    asked_us: u64,
}

/// Result of a step of the recovery.
pub(in crate::shard::streams) enum RecoveryStep {
    /// There was nothing to do.
    Nothing,
    /// A step was taken.
    More,
    /// All is recovered: requests that were held may proceed.
    All,
}

impl Chains {
    /// Whether it is not known yet which places an earlier leader has handed on.
    #[inline]
    pub fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// The term from which on leaders of a shard are listened to about a stream.
    pub(super) fn listens_from(&self, core: &ShardCore, id: StreamId, shard: ShardId) -> u64 {
        let promised = core.state.streams.chain(id).map_or(0, |chain| chain.promised(shard));
        promised.max(self.promising.get(&(id, shard)).copied().unwrap_or_default())
    }

    /// Answers a new leader of another shard that asks for the known places of its units, once the promise
    /// to listen to no earlier leader is durable.
    pub fn asked_for_places(
        &mut self,
        core: &mut ShardCore,
        agenda: &mut Agenda,
        id: StreamId,
        (shard, term): (ShardId, u64),
    ) {
        let promised = core.state.streams.chain(id).map_or(0, |chain| chain.promised(shard));
        if promised >= term {
            return tell_places(core, agenda, id, (shard, term));
        }
        if self.listens_from(core, id, shard) < term {
            self.promising.insert((id, shard), term);
            core.log(LogRecord::Promise { stream: id, shard, term }, Recipient::none());
        }
    }

    /// Acts on a durable promise: everything that was rested on earlier leaders of that shard is durable
    /// too.
    pub fn promised(
        &mut self,
        core: &ShardCore,
        agenda: &mut Agenda,
        id: StreamId,
        (shard, term): (ShardId, u64),
    ) {
        if self.promising.get(&(id, shard)) == Some(&term) {
            self.promising.remove(&(id, shard));
        }
        tell_places(core, agenda, id, (shard, term));
        agenda.mark(id);
    }

    /// Begins the recovery at the start of a lead. Gives the streams that it is about.
    pub fn inherit(
        &mut self,
        core: &mut ShardCore,
        agenda: &mut Agenda,
        now: Now,
    ) -> Vec<StreamId> {
        let ids: Vec<StreamId> = core.state.streams.with_contents().collect();
        if ids.is_empty() {
            return ids;
        }
        core.track(now);
        let mut recovery = PlaceRecovery::default();
        for id in &ids {
            let Some((chain, later)) = inherited(core, *id) else { continue };
            for (key, op) in chain.group.iter().flat_map(|group| group.ops()) {
                // Locks of the first kind keep off reads and single commands, locks of the second kind
                // operations that have companions at other shards.
                for class in [Class::Prepared, Class::Early { observed: true }] {
                    core.locks.hold(key, RECOVERY, Claim::new(op.clone(), class));
                }
                recovery.keys.push(key.clone());
            }
            recovery.open.insert(*id, later);
            self.of.insert(*id, chain);
        }
        recovery.open.retain(|_, shards| !shards.is_empty());
        self.recovery = Some(recovery);
        self.ask_for_places(core, agenda, now);
        ids
    }

    /// Asks the shards whose answers are missing.
    pub fn ask_for_places(&mut self, core: &ShardCore, agenda: &mut Agenda, now: Now) {
        let (shard, term) = (core.config.id, agenda.term);
        let Some(recovery) = &mut self.recovery else { return };
        if recovery.asked_us > 0 && now.mono_us < recovery.asked_us + ASK_UNITS_US {
            return;
        }
        recovery.asked_us = now.mono_us.max(1);
        for (stream, shards) in &recovery.open {
            for to in shards {
                agenda.say(*to, StreamMessage::AsksPlaces { stream: *stream, shard, term });
            }
        }
    }

    /// Takes the answer of another shard.
    pub fn learn_places(
        &mut self,
        agenda: &Agenda,
        id: StreamId,
        (from, term): (ShardId, u64),
        links: Vec<Link>,
    ) {
        let current = term == agenda.term;
        let Some(recovery) = self.recovery.as_mut().filter(|_| current) else { return };
        let Some(open) = recovery.open.get_mut(&id) else { return };
        open.retain(|shard| *shard != from);
        if open.is_empty() {
            recovery.open.remove(&id);
        }
        recovery.told.entry(id).or_default().extend(links.into_iter().map(|l| (l.seq, l)));
    }

    /// Puts the next unit whose place is known into the log again.
    pub fn recover_next(
        &mut self,
        core: &mut ShardCore,
        agenda: &mut Agenda,
        now: Now,
    ) -> RecoveryStep {
        let Some(recovery) = &mut self.recovery else { return RecoveryStep::Nothing };
        if !recovery.open.is_empty() {
            return RecoveryStep::Nothing;
        }
        let kept = &core.state.streams;
        let known = recovery.known.get_or_insert_with(|| {
            let known = recovery.told.iter().flat_map(|(id, links)| {
                let open = |link: &&Link| kept.content(*id, link.seq).is_some();
                links.values().filter(open).map(|link| (link.place, *id, link.seq))
            });
            known.collect()
        });
        let Some(&(place, id, seq)) = known.first() else {
            // A read before they have taken effect would miss them.
            recovery.placed.retain(|(id, seq)| kept.content(*id, *seq).is_some());
            if !recovery.placed.is_empty() {
                return RecoveryStep::Nothing;
            }
            self.end_recovery(core, agenda);
            return RecoveryStep::All;
        };
        let Some(ops) = kept.content(id, seq) else {
            known.pop_first();
            return RecoveryStep::More;
        };
        if comes_after_prepared(core, ops) {
            return RecoveryStep::Nothing;
        }
        known.pop_first();
        let ops = ops.iter().cloned().collect();
        self.place_again(core, now, id, Link { seq, place, term: agenda.term }, ops);
        RecoveryStep::More
    }

    fn place_again(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        id: StreamId,
        link: Link,
        ops: SmallVec<[KeyedOp; 1]>,
    ) {
        let Some(recovery) = &mut self.recovery else { return };
        recovery.placed.push((id, link.seq));
        let (Some(chain), Some(told)) = (self.of.get_mut(&id), recovery.told.get(&id)) else {
            return;
        };
        let is_new = |(seq, _): &(&u32, &Link)| !chain.links.contains_key(seq);
        let before = told.range(..link.seq).filter(is_new).map(|(_, link)| *link);
        let before: Vec<Link> = before.collect();
        chain.links.extend(before.iter().map(|link| (link.seq, *link)));
        chain.step_of(link.seq).into_iter().for_each(|step| *step = ChainStep::Placed);
        core.move_clock(link.place);
        self.log_ordered(core, now, id, link, before, ops);
    }

    /// Releases the records: everything is known.
    fn end_recovery(&mut self, core: &mut ShardCore, agenda: &mut Agenda) {
        let Some(recovery) = self.recovery.take() else { return };
        for key in recovery.keys {
            core.locks.release(&key, RECOVERY);
        }
        self.mark_all(core, agenda);
    }

    /// Marks all streams that have units without places.
    pub fn mark_all(&self, core: &ShardCore, agenda: &mut Agenda) {
        core.state.streams.with_contents().for_each(|id| agenda.mark(id));
    }
}

/// Whether a unit may have been carried out in front of a prepared operation, of whose fate the log here
/// does not know yet.
fn comes_after_prepared(core: &ShardCore, ops: &[KeyedOp]) -> bool {
    ops.iter().any(|(key, op)| {
        let claim = Claim::new(op.clone(), Class::Apply);
        let record = core.state.get(key);
        core.locks.prepared_conflicts(key, &claim, RECOVERY, record).next().is_some()
    })
}

fn tell_places(core: &ShardCore, agenda: &mut Agenda, id: StreamId, (to, term): (ShardId, u64)) {
    let mut links = Vec::new();
    if let Some((chain, homes)) = core.state.streams.chain_with_homes(id) {
        links.extend(chain.links.values().copied());
        let of_it = |link: &Link| homes.get(link.seq as usize) == Some(&to);
        links.truncate(links.iter().rposition(of_it).map_or(0, |last| last + 1));
    }
    agenda.say(to, StreamMessage::Knows { stream: id, shard: core.config.id, term, links });
}

/// A stream of the log as its new leader begins with it, and the other shards that may have heard of
/// places.
fn inherited(core: &ShardCore, id: StreamId) -> Option<(Chain, SmallVec<[ShardId; 8]>)> {
    let kept = core.state.streams.get(id)?;
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
            let replies = core.state.fates().replies_of(id.unit(*seq)).cloned();
            let replies = replies.unwrap_or_else(|| smallvec![lost()]);
            ChainStep::Done { place: *place, replies }
        }
    });
    let steps = steps.collect();
    let homes = group.homes.clone();
    let group = Group { stream: id, homes, chained: true, units, ..Group::default() };
    let mut later = group.homes_from(*chain.contents.keys().next()?);
    later.retain(|shard| *shard != core.config.id);
    let (links, group) = (chain.links.clone(), Some(Arc::new(group)));
    Some((Chain { durable: true, steps, links, group, ..Chain::default() }, later))
}
