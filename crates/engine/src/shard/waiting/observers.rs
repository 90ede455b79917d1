//! Reads that wait until they have something to show (`ELECTION.OBSERVE`).
//!
//! Observers are in the leader's memory only. They block no other request and wait for none: an observer's
//! read is tried when its record has changed, which costs no message and no write. It shows what was newest
//! at some moment of its wait. For the first try that takes what every read takes: the certainty of leading
//! the shard, which the request has waited for, and that no transaction which may have been answered already
//! is about to change the record. Whatever is carried out later is later in any case.

use super::room::WaitingRoom;
use crate::entry::Apply;
use crate::ids::{GatewayId, MachineId, Token};
use crate::limits::OBSERVERS_MAX;
use crate::message::{Answer, Body, Refusal, Request};
use crate::now::Now;
use crate::shard::core::ShardCore;
use adt::collections::Map;
use adt::{Blob, Op, Reply, record};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

type ObserverId = (GatewayId, Token);

/// How often the first read is tried, in microseconds.
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
    /// Observers whose first read was not possible yet.
    barred: BTreeSet<ObserverId>,
}

impl Observers {
    /// Adds a read that waits until it has something to show, and tries it.
    pub fn observe(&mut self, core: &mut ShardCore, now: Now, request: Request) {
        let Request { gateway, token, body, .. } = request;
        let Body::Await { apply, timeout_ms } = body else { return };
        if apply.ops.len() != 1 || self.is_full() {
            core.stats.refused += 1;
            return core.answer(gateway, token, Answer::Refused(Refusal::Busy));
        }
        let end_us = now.mono_us.saturating_add(timeout_ms.saturating_mul(1000));
        let end_us = (timeout_ms > 0).then_some(end_us);
        self.add((gateway, token), Observer { apply, timeout_ms, end_us });
        self.look_for(core, now, (gateway, token));
    }

    fn add(&mut self, id: ObserverId, observer: Observer) {
        self.of.entry(observer.key().clone()).or_default().insert(id);
        self.deadlines.extend(observer.end_us.map(|end_us| (end_us, id)));
        self.barred.insert(id);
        self.all.insert(id, observer);
    }

    /// Ends an observation without an answer.
    pub fn end(&mut self, id: ObserverId) {
        let Some(observer) = self.all.remove(&id) else { return };
        self.barred.remove(&id);
        if let Some(end_us) = observer.end_us {
            self.deadlines.remove(&(end_us, id));
        }
        if let Some(others) = self.of.get_mut(observer.key()) {
            others.remove(&id);
            if others.is_empty() {
                self.of.swap_remove(observer.key());
            }
        }
    }

    /// Tries the read of an observer, which is answered if there is something to show.
    fn look_for(&mut self, core: &mut ShardCore, now: Now, id: ObserverId) {
        let Some(observer) = self.all.get(&id) else { return };
        if self.barred.contains(&id) {
            if !core.may_look(observer.key(), observer.op()) {
                return;
            }
            self.barred.remove(&id);
        }
        let ctx = core.ctx(now);
        let reply = record::query(core.state.get(observer.key()), observer.op(), &ctx);
        if reply != Reply::Nil {
            self.end_with(core, id, reply);
        }
    }

    /// Ends an observation with nil as its answer, if there is one.
    pub fn end_in_vain(&mut self, core: &mut ShardCore, id: ObserverId) {
        if self.all.contains_key(&id) {
            self.end_with(core, id, Reply::Nil);
        }
    }

    fn end_with(&mut self, core: &mut ShardCore, id: ObserverId, reply: Reply) {
        self.end(id);
        core.answer(id.0, id.1, Answer::Replies(SmallVec::from_iter([reply])));
    }

    /// Shows the observers of a record that it has changed.
    pub fn show(&mut self, core: &mut ShardCore, now: Now, key: &Blob) {
        let Some(observers) = self.of.get(key) else { return };
        for id in observers.iter().copied().collect::<Vec<_>>() {
            self.look_for(core, now, id);
        }
    }

    /// Ends observations whose time is over, and tries first reads again.
    pub fn tick(&mut self, core: &mut ShardCore, now: Now) {
        while let Some((at_us, id)) = self.deadlines.first().copied()
            && at_us <= now.mono_us
        {
            self.end_with(core, id, Reply::Nil);
        }
        for id in self.barred.iter().copied().collect::<Vec<_>>() {
            self.look_for(core, now, id);
        }
    }
}

impl WaitingRoom for Observers {
    fn limit(&self) -> usize {
        OBSERVERS_MAX
    }

    fn len(&self) -> usize {
        self.all.len()
    }

    fn next_us(&self, _core: &ShardCore, now: Now) -> Option<u64> {
        let barred = (!self.barred.is_empty()).then_some(now.mono_us + LOOK_US);
        barred.into_iter().chain(self.deadlines.first().map(|(at_us, _)| *at_us)).min()
    }

    /// Ends the observations of the machine's clients. Its gateways ask again, if they are there.
    fn forget(&mut self, _core: &mut ShardCore, _now: Now, machine: MachineId) {
        let gone = self.all.keys().filter(|(gateway, _)| gateway.machine == machine);
        gone.copied().collect::<Vec<_>>().into_iter().for_each(|id| self.end(id));
    }

    /// Sends observers to the next leader: their gateways know how long they have waited.
    fn end_lead(&mut self, core: &mut ShardCore) {
        for ((gateway, token), observer) in std::mem::take(self).all {
            let Observer { apply, timeout_ms, .. } = observer;
            core.turn_away(gateway, token, Body::Await { apply, timeout_ms });
        }
    }
}
