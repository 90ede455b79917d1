//! Connections of streams with the rest of the shard: locks, waiting requests, the coordination service.

use super::chain::{RecoveryStep, is_own};
use crate::ids::{StreamId, TxnId};
use crate::message::{Answer, Body, Request};
use crate::now::Now;
use crate::pipeline::StreamMessage;
use crate::shard::Desk;
use crate::shard::Shard;
use crate::shard::locking::claims::Claims;

/// Whether a request brings units of a stream.
fn is_of(id: StreamId, request: &Request) -> bool {
    matches!(&request.body, Body::Pipeline(group) if group.stream == id)
}

impl Desk {
    /// Takes units of a pipeline over several shards.
    pub(in crate::shard) fn take_group(&mut self, now: Now, request: Request) {
        let Body::Pipeline(ref group) = request.body else { return };
        let (core, streams) = (&mut self.core, &mut self.streams);
        let (asker, id) = ((request.gateway, request.token), group.stream);
        if streams.answer_known(core, asker, group) {
            return;
        }
        if streams.is_outlived(core, id) {
            return core.answer(asker.0, asker.1, Answer::Unknown);
        }
        let refused = streams.is_refused(core, id) || !group.is_sound(core.config.id);
        let unsound = group.has_asks()
            && (self.splitting.is_giving() || !self.service.are_sound(&self.core, group));
        let yields = unsound || self.locking.is_owed(group) || self.core.frozen;
        if refused || yields || self.splitting.is_elsewhere(&self.core, &request.body) {
            self.streams.refuse_group(&mut self.core, asker, group);
        } else if group.chained {
            let group = group.clone();
            self.streams.begin_chain(&mut self.core, now, asker, group);
        } else {
            self.begin_locking(now, request);
        }
    }

    /// Lets a group in whose records are free.
    pub(in crate::shard) fn grant_group(&mut self, now: Now, request: Request, claims: Claims) {
        let Body::Pipeline(group) = request.body else { return };
        let asker = (request.gateway, request.token);
        if group.chained {
            return self.streams.place_run(&mut self.core, now, &group);
        }
        if group.has_asks() && self.service.bars_units(&mut self.core, now, request.gateway, &group)
        {
            self.streams.refuse_group(&mut self.core, asker, &group);
            // Others of the stream may wait for records that are given out next.
            return self.drop_refused();
        }
        let unit = group.stream.unit(group.first());
        let probes = self.locking.probe(&mut self.core, unit, &claims);
        let proposed = self.streams.grant(&mut self.core, now, asker, group, probes);
        proposed.into_iter().for_each(|group| self.service.units_came(&group));
    }

    /// Takes the answer to a probe for a group.
    pub(in crate::shard) fn group_probe_answered(&mut self, unit: TxnId, txn: TxnId) {
        let proposed = self.streams.probe_answered(&mut self.core, unit, txn);
        proposed.into_iter().for_each(|group| self.service.units_came(&group));
    }

    /// Proceeds with the next dirty stream. Tells whether there was one.
    pub(in crate::shard) fn advance_next(&mut self, now: Now) -> bool {
        let Some(id) = self.streams.next_marked() else { return false };
        let executed = self.streams.place(&mut self.core, id);
        self.finish(now, executed);
        self.carried_out(now);
        let executed = self.streams.release(&mut self.core, id);
        self.finish(now, executed);
        self.carried_out(now);
        let places = !self.core.frozen;
        if let Some(request) = self.streams.advance(&mut self.core, id, places) {
            self.begin_locking(now, request);
        }
        self.streams.ask_for_earlier(&self.core, now, id);
        self.let_newcomers_in(now);
        true
    }

    /// Puts the next unit of an earlier leader into the log again whose place is known. Tells whether
    /// something was done.
    pub(in crate::shard) fn recover_next(&mut self, now: Now) -> bool {
        match self.streams.recover_next(&mut self.core, now) {
            RecoveryStep::Nothing => false,
            RecoveryStep::More => true,
            RecoveryStep::All => {
                self.let_newcomers_in(now);
                true
            }
        }
    }

    /// Refuses waiting requests of streams that are refused.
    pub(in crate::shard) fn drop_refused(&mut self) {
        while let Some(id) = self.streams.take_refused() {
            let is_of = |request: &Request| is_of(id, request) && !is_own(&request.body);
            let mut dropped = self.waits.newcomers.take_if(is_of);
            dropped.extend(self.locking.take_waiting(&mut self.core, |w| is_of(&w.request)));
            for Request { gateway, token, body, .. } in dropped {
                if let Body::Pipeline(group) = body {
                    self.streams.refuse_group(&mut self.core, (gateway, token), &group);
                }
            }
        }
    }

    /// Refuses units that wait for records, because the shard is to stand still: they may hold up others
    /// that are to be settled.
    pub(in crate::shard) fn refuse_waiting_groups(&mut self, now: Now) {
        let waiting = self.locking.waiting().map(|waiter| &waiter.request.body);
        let waiting = waiting.filter(|body| !is_own(body)).filter_map(|body| match body {
            Body::Pipeline(group) => Some((group.stream, group.first())),
            _ => None,
        });
        for (id, first) in waiting.collect::<Vec<_>>() {
            self.streams.refuse_late(&mut self.core, now, id, first);
        }
    }

    /// Does what is due by time for streams.
    pub(in crate::shard) fn tick_streams(&mut self, now: Now) {
        let waits = |id| self.locking.waiting().any(|waiter| is_of(id, &waiter.request));
        self.streams.tick(&mut self.core, now, waits);
    }

    /// Lets requests in that waited for the places of units of an earlier leader.
    fn let_newcomers_in(&mut self, now: Now) {
        for request in self.waits.newcomers.take() {
            let ended = match &request.body {
                Body::Prepare { prepare, .. } => !self.locking.knows(prepare.txn),
                _ => false,
            };
            if !ended {
                self.begin_locking(now, request);
            }
        }
    }
}

impl Shard {
    /// Takes messages of the leaders of other shards.
    pub fn hear(&mut self, now: Now, words: impl Iterator<Item = StreamMessage>) {
        self.desk.core.state.tell_time(now.mono_us);
        words.for_each(|word| self.desk.streams.hear(&mut self.desk.core, now, word));
        self.desk.settle(now);
    }
}
