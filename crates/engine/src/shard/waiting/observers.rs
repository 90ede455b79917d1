//! Reads that wait until they have something to show (`ELECTION.OBSERVE`).
//!
//! Who observes is the leader's memory. An observer stands in nobody's way and waits for nobody: it is
//! looked for it when its record has changed, which costs no message and no write. What it is shown was the
//! newest at some moment of its wait. For the first look that takes what every read takes: the certainty
//! of leading the shard, which the request has waited for, and that no transaction which may have been
//! answered already is about to change the record. What is carried out later is later in any case.

use crate::entry::Apply;
use crate::ids::{GatewayId, MachineId, Token};
use crate::limits::OBSERVERS_MAX;
use crate::message::{Answer, Body, Refusal, Request};
use crate::now::Now;
use crate::shard::Shard;
use adt::collections::Map;
use adt::{Blob, Op, Reply, record};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

type ObserverId = (GatewayId, Token);

/// How often it is tried to look for the first time, in microseconds.
const LOOK_US: u64 = 100_000;

#[derive(Debug)]
struct Observer {
    apply: Apply,
    timeout_ms: u64,
    /// When the wait is over.
    end_us: Option<u64>,
}

impl Observer {
    fn key(&self) -> &Blob {
        &self.apply.ops[0].0
    }

    fn op(&self) -> &Op {
        &self.apply.ops[0].1
    }
}

/// All observers of a shard.
#[derive(Debug, Default)]
pub(in crate::shard) struct Observers {
    all: BTreeMap<ObserverId, Observer>,
    of: Map<Blob, BTreeSet<ObserverId>>,
    deadlines: BTreeSet<(u64, ObserverId)>,
    /// Those who could not look yet.
    barred: BTreeSet<ObserverId>,
}

impl Observers {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn add(&mut self, who: ObserverId, observer: Observer) {
        self.of.entry(observer.key().clone()).or_default().insert(who);
        self.deadlines.extend(observer.end_us.map(|end_us| (end_us, who)));
        self.barred.insert(who);
        self.all.insert(who, observer);
    }

    /// Somebody observes no more.
    pub fn end(&mut self, who: ObserverId) {
        let Some(observer) = self.all.remove(&who) else { return };
        self.barred.remove(&who);
        if let Some(end_us) = observer.end_us {
            self.deadlines.remove(&(end_us, who));
        }
        if let Some(others) = self.of.get_mut(observer.key()) {
            others.remove(&who);
            if others.is_empty() {
                self.of.swap_remove(observer.key());
            }
        }
    }

    /// The connections of a machine are gone. Its gateways ask again, if they are there.
    pub fn forget(&mut self, machine: MachineId) {
        let gone = self.all.keys().filter(|(gateway, _)| gateway.machine == machine);
        gone.copied().collect::<Vec<_>>().into_iter().for_each(|who| self.end(who));
    }

    /// When to look next, in monotonic microseconds.
    pub fn next_us(&self, now: Now) -> Option<u64> {
        let barred = (!self.barred.is_empty()).then_some(now.mono_us + LOOK_US);
        barred.into_iter().chain(self.deadlines.first().map(|(at_us, _)| *at_us)).min()
    }
}

impl Shard {
    /// A read that waits until it has something to show.
    pub(in crate::shard) fn observe(&mut self, now: Now, request: Request) {
        let Request { gateway, token, body, .. } = request;
        let Body::Await { apply, timeout_ms } = body else { return };
        if apply.ops.len() != 1 || self.observers.all.len() >= OBSERVERS_MAX {
            self.core.stats.refused += 1;
            return self.core.answer(gateway, token, Answer::Refused(Refusal::Busy));
        }
        let end_us = now.mono_us.saturating_add(timeout_ms.saturating_mul(1000));
        let end_us = (timeout_ms > 0).then_some(end_us);
        self.observers.add((gateway, token), Observer { apply, timeout_ms, end_us });
        self.report_changes();
        self.look_for(now, (gateway, token));
    }

    /// Looks for somebody, who is answered if there is something to show.
    fn look_for(&mut self, now: Now, who: ObserverId) {
        let Some(observer) = self.observers.all.get(&who) else { return };
        if self.observers.barred.contains(&who) {
            if !self.core.may_look(observer.key(), observer.op()) {
                return;
            }
            self.observers.barred.remove(&who);
        }
        let ctx = self.core.ctx(now);
        let Some(observer) = self.observers.all.get(&who) else { return };
        let reply = record::query(self.core.state.get(observer.key()), observer.op(), &ctx);
        if reply != Reply::Nil {
            self.end_observation(who, reply);
        }
    }

    fn end_observation(&mut self, who: ObserverId, reply: Reply) {
        self.observers.end(who);
        self.core.answer(who.0, who.1, Answer::Replies(SmallVec::from_iter([reply])));
        self.report_changes();
    }

    /// A record has changed.
    pub(in crate::shard) fn show(&mut self, now: Now, key: &Blob) {
        let Some(those) = self.observers.of.get(key) else { return };
        for who in those.iter().copied().collect::<Vec<_>>() {
            self.look_for(now, who);
        }
    }

    /// Time has passed: some have observed for long enough, and some may look now.
    pub(in crate::shard) fn tick_observers(&mut self, now: Now) {
        while let Some((at_us, who)) = self.observers.deadlines.first().copied()
            && at_us <= now.mono_us
        {
            self.end_observation(who, Reply::Nil);
        }
        for who in self.observers.barred.iter().copied().collect::<Vec<_>>() {
            self.look_for(now, who);
        }
    }

    /// The lead ends: those who observe are sent to the next leader, by gateways who know how long they
    /// have waited.
    pub(in crate::shard) fn turn_observers_away(&mut self) {
        for ((gateway, token), observer) in std::mem::take(&mut self.observers).all {
            let Observer { apply, timeout_ms, .. } = observer;
            self.core.turn_away(gateway, token, Body::Await { apply, timeout_ms });
        }
    }
}
