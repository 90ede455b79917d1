//! The ways to shards that other machines may lead, and what becomes of requests when a lead ends.
//!
//! A way is *open* while it is known who leads the shard. When the lead ends, new requests are held
//! until everything that was sent before has an answer, one way or the other, and the next leader
//! is known; then they go out in the order in which they were made. So the requests of a session
//! to one shard keep their order across a change of leaders.
//!
//! What was sent to a leader that is lost is asked again if asking twice does no harm (it only
//! looks, carries a request number, or names a transaction), and is *unknown* otherwise. What the lost
//! one has answered may come over another connection later, and is not taken for the answer of the
//! next one: the token says how often the request was asked.

use crate::gateway::api::{Output, SessionId};
use crate::gateway::errors::Cause;
use crate::gateway::mail::{Mail, Pending};
use crate::gateway::txn::Stage;
use crate::gateway::{Gateway, Job};
use crate::ids::{MachineId, ShardId, splits_of};
use crate::message::{Answer, Body, Refusal};
use crate::now::Now;
use adt::collections::Map;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A request that is not answered.
#[derive(Debug)]
struct Sent {
    shard: ShardId,
    /// Its place among all requests of the gateway.
    number: u64,
    /// It is with the leader, and not held here.
    out: bool,
    /// It was with a leader once.
    went: bool,
    /// What to ask again if the answer is lost.
    again: Option<Box<Body>>,
    /// How often it was asked again: answers of leaders that were lost may come later.
    times: u8,
}

/// The way to one shard.
#[derive(Debug, Default)]
struct Way {
    /// Whom requests go to, or went to last.
    machine: MachineId,
    open: bool,
    /// A new leader is known, and takes over when nothing is out any more.
    next: Option<MachineId>,
    out: usize,
    /// By number: token and request.
    held: BTreeMap<u64, (u64, Body)>,
    /// Since when nobody is known to lead the shard, on the monotonic clock.
    unled_since_us: Option<u64>,
    /// Requests are given up since then.
    refuses: bool,
    /// The number of the last lead, and since when (wall clock) that is or is over.
    lead: u64,
    changed_us: u64,
}

/// The ways to all shards.
#[derive(Debug)]
pub(in crate::gateway) struct Ways {
    ways: Vec<Way>,
    sent: Map<u64, Sent>,
    last: u64,
    /// Shards whose next leader can be asked now.
    ready: Vec<ShardId>,
    /// Shards that have given slots away, and to which: nothing goes to the second before what was
    /// sent to the first is back.
    rerouting: Vec<(ShardId, ShardId)>,
    /// How long a request waits for a leader.
    wait_us: u64,
    /// Shards without a leader for which something may be held.
    waiting: BTreeSet<ShardId>,
    /// Those for which requests were given up for the first time, until somebody is told.
    refused: Vec<ShardId>,
}

/// What to ask again, if the answer to a request should get lost.
fn again(body: &Body) -> Option<Box<Body>> {
    let harmless = match body {
        Body::Inquire { .. } | Body::Resolve(_) | Body::Remember(_) | Body::Transfer { .. } => true,
        Body::Pipeline(_) => true,
        Body::Await { apply, .. } if !apply.writes() => true,
        // The ticket says that it is the same request.
        body if body.may_be_next() => true,
        Body::Apply(apply) | Body::Await { apply, .. } => apply.request.is_some(),
        body => body.rests_on_lead(),
    };
    harmless.then(|| Box::new(body.clone()))
}

impl Ways {
    /// No leader is known.
    pub fn new(wait_us: u64, now: Now) -> Self {
        let mut ways = Vec::new();
        // Not all numbers are in use: the map's comes last.
        let unled =
            || Way { unled_since_us: Some(now.mono_us), changed_us: now.wall_us, ..Way::default() };
        ways.resize_with(usize::from(ShardId::MAP.0) + 1, unled);
        let (ready, rerouting, waiting, refused) = Default::default();
        Self { ways, sent: Map::default(), last: 0, ready, rerouting, wait_us, waiting, refused }
    }

    /// The number of the lead of a shard, or of the last one if nobody leads it, and since when that
    /// is so, on the wall clock in microseconds.
    pub fn lead(&self, shard: ShardId) -> (u64, u64) {
        self.ways.get(usize::from(shard.0)).map_or((0, 0), |way| (way.lead, way.changed_us))
    }

    /// Shards for which requests are given up, and that were not given before since they had a leader.
    pub fn take_refused(&mut self) -> Vec<ShardId> {
        std::mem::take(&mut self.refused)
    }

    /// Takes note of whether somebody leads a shard.
    fn note_lead(&mut self, now: Now, shard: ShardId) {
        let way = self.way(shard);
        if way.open || way.next.is_some() {
            (way.unled_since_us, way.refuses) = (None, false);
            self.waiting.remove(&shard);
            return;
        }
        if way.unled_since_us.is_none() {
            (way.unled_since_us, way.changed_us) = (Some(now.mono_us), now.wall_us);
        }
        if !way.held.is_empty() {
            self.waiting.insert(shard);
        }
    }

    /// When something has waited long enough for a leader, if anything waits.
    pub fn due_us(&self) -> Option<u64> {
        let since = |shard: &ShardId| self.ways[usize::from(shard.0)].unled_since_us;
        let due = self.waiting.iter().filter_map(since);
        due.map(|since| since.saturating_add(self.wait_us)).min()
    }

    /// Shards whose requests have waited long enough for a leader. Each is given once, until more is
    /// held for it.
    pub fn take_due(&mut self, now_us: u64) -> Vec<ShardId> {
        let wait_us = self.wait_us;
        let mut due = Vec::new();
        for shard in std::mem::take(&mut self.waiting) {
            let way = self.way(shard);
            let Some(since) = way.unled_since_us else { continue };
            if since.saturating_add(wait_us) > now_us {
                self.waiting.insert(shard);
            } else {
                due.push(shard);
                if !std::mem::replace(&mut self.way(shard).refuses, true) {
                    self.refused.push(shard);
                }
            }
        }
        due
    }

    /// Who leads a shard, if that is known.
    pub fn leader(&self, shard: ShardId) -> Option<MachineId> {
        let way = self.ways.get(usize::from(shard.0))?;
        way.next.or(way.open.then_some(way.machine))
    }

    fn way(&mut self, shard: ShardId) -> &mut Way {
        &mut self.ways[usize::from(shard.0)]
    }

    /// A request that wants an answer is about to be sent.
    pub fn note(&mut self, shard: ShardId, token: u64, body: &Body) {
        self.last += 1;
        let (number, out, times) = (self.last, false, 0);
        let sent = Sent { shard, number, out, went: false, again: again(body), times };
        self.sent.insert(token, sent);
    }

    /// How often a request was asked again.
    pub fn times(&self, token: u64) -> u8 {
        self.sent.get(&token).map_or(0, |sent| sent.times)
    }

    /// Whether a leader has had a request.
    pub fn went(&self, token: u64) -> bool {
        self.sent.get(&token).is_some_and(|sent| sent.went)
    }

    /// Which shard a request is for, how often it was asked again, and whether it is with the leader.
    pub fn asked(&self, token: u64) -> Option<(ShardId, u8, bool)> {
        self.sent.get(&token).map(|sent| (sent.shard, sent.times, sent.out))
    }

    /// Gives a request back if it may go out now; holds it otherwise. One that wants no answer is
    /// about what a leader knows beyond the log, and means nothing to the next one.
    /// With it comes how often it was asked again.
    pub fn pass(&mut self, shard: ShardId, token: u64, body: Body) -> Option<(u8, Body)> {
        let way = &mut self.ways[usize::from(shard.0)];
        let Some(sent) = self.sent.get_mut(&token) else { return way.open.then_some((0, body)) };
        if way.open {
            (sent.out, sent.went) = (true, true);
            way.out += 1;
            return Some((sent.times, body));
        }
        way.held.insert(sent.number, (token, body));
        if way.unled_since_us.is_some() {
            self.waiting.insert(shard);
        }
        None
    }

    /// Nobody waits for the answer any more, or it is there.
    pub fn forget(&mut self, token: u64) {
        let Some(sent) = self.sent.swap_remove(&token) else { return };
        let way = self.way(sent.shard);
        if sent.out {
            way.out -= 1;
            self.look_at(sent.shard);
        } else {
            way.held.remove(&sent.number);
        }
    }

    /// Whether nothing is missing before the next leader of a shard can be asked.
    fn look_at(&mut self, shard: ShardId) {
        let waits = self.waits_for_another(shard);
        let way = self.way(shard);
        if way.out == 0 && way.next.is_some() && !waits {
            self.ready.push(shard);
        }
    }

    /// Shards whose next leader can be asked now.
    pub fn take_ready(&mut self) -> Vec<ShardId> {
        std::mem::take(&mut self.ready)
    }

    /// Slots have gone from one shard to another.
    pub fn begin_rerouting(&mut self, parent: ShardId, child: ShardId) {
        for shard in [parent, child] {
            let way = self.way(shard);
            if std::mem::take(&mut way.open) {
                // It opens again for the same leader.
                way.next.get_or_insert(way.machine);
            }
        }
        self.rerouting.push((parent, child));
        self.look_at(parent);
    }

    /// A shard from which slots have gone to another one, and from which everything is back.
    pub fn next_rerouting(&self) -> Option<(ShardId, ShardId)> {
        let back = |(parent, _): &&(ShardId, ShardId)| self.ways[usize::from(parent.0)].out == 0;
        self.rerouting.iter().find(back).copied()
    }

    /// What is held has gone where it belongs.
    pub fn end_rerouting(&mut self, parent: ShardId, child: ShardId) {
        self.rerouting.retain(|pair| *pair != (parent, child));
        self.look_at(parent);
        self.look_at(child);
    }

    /// Whether requests to another shard must be back before anything goes to this one, or what is
    /// held for it has not gone where it belongs.
    fn waits_for_another(&self, shard: ShardId) -> bool {
        self.rerouting.iter().any(|(parent, child)| [parent, child].contains(&&shard))
    }

    /// Requests that are held for a shard, in order.
    pub fn held(&self, shard: ShardId) -> Vec<u64> {
        self.ways[usize::from(shard.0)].held.values().map(|(token, _)| *token).collect()
    }

    /// A request that is held for a shard.
    pub fn body(&self, shard: ShardId, token: u64) -> Option<&Body> {
        let number = self.sent.get(&token)?.number;
        self.ways[usize::from(shard.0)].held.get(&number).map(|(_, body)| body)
    }

    /// Takes out a request that is held for a shard.
    pub fn take_held(&mut self, shard: ShardId, token: u64) -> Option<Body> {
        let number = self.sent.get(&token)?.number;
        self.way(shard).held.remove(&number).map(|(_, body)| body)
    }

    /// A request that is held is for another shard.
    pub fn move_held(&mut self, token: u64, to: ShardId) {
        let Some(sent) = self.sent.get_mut(&token) else { return };
        let (from, number) = (std::mem::replace(&mut sent.shard, to), sent.number);
        if let Some(held) = self.way(from).held.remove(&number) {
            let way = self.way(to);
            way.held.insert(number, held);
            if way.unled_since_us.is_some() {
                self.waiting.insert(to);
            }
        }
    }

    /// Requests that are held and rest on locks of a lead that has ended.
    fn baseless(&self, shard: ShardId) -> Vec<u64> {
        let held = self.ways[usize::from(shard.0)].held.values();
        let rests = |body: &Body| matches!(body, Body::Lock { .. } | Body::Prepare { .. });
        held.filter(|(_, body)| rests(body)).map(|(token, _)| *token).collect()
    }

    /// A request comes back: nothing of it has happened.
    pub fn take_back(&mut self, now: Now, token: u64, body: Body) {
        let Some(sent) = self.sent.get_mut(&token).filter(|sent| sent.out) else { return };
        sent.out = false;
        let (shard, number) = (sent.shard, sent.number);
        let way = self.way(shard);
        way.out -= 1;
        way.open = false;
        way.held.insert(number, (token, body));
        self.look_at(shard);
        self.note_lead(now, shard);
    }

    /// What is out to a shard whose leader is lost: tokens in order, with what to ask again.
    fn lose(&mut self, shard: ShardId) -> Vec<(u64, Option<Box<Body>>)> {
        let mut lost: Vec<(u64, u64)> = self
            .sent
            .iter()
            .filter(|(_, sent)| sent.shard == shard && sent.out)
            .map(|(token, sent)| (sent.number, *token))
            .collect();
        lost.sort_unstable();
        let mut again = Vec::new();
        for (_, token) in lost {
            let Some(sent) = self.sent.get_mut(&token) else { continue };
            sent.times = sent.times.wrapping_add(1);
            again.push((token, sent.again.take()));
        }
        again
    }

    /// What may go out now because nothing stands in the way any more.
    fn open(&mut self, shard: ShardId) -> Vec<(u64, Body)> {
        let waits = self.waits_for_another(shard);
        let way = &mut self.ways[usize::from(shard.0)];
        let Some(next) = way.next.filter(|_| way.out == 0 && !waits) else { return Vec::new() };
        (way.machine, way.next, way.open) = (next, None, true);
        let held: Vec<(u64, Body)> = std::mem::take(&mut way.held).into_values().collect();
        for (token, body) in &held {
            way.out += 1;
            if let Some(sent) = self.sent.get_mut(token) {
                (sent.out, sent.went) = (true, true);
                if sent.again.is_none() {
                    sent.again = again(body);
                }
            }
        }
        held
    }
}

impl Gateway {
    /// A machine leads a shard from now on, in the lead with this number (another one, if it did
    /// before; see [`splits_of`]); or nobody does. What
    /// an earlier leader was asked is answered by it, unless its machine is lost.
    pub fn shard_led(&mut self, now: Now, shard: ShardId, leader: Option<(MachineId, u64)>) {
        self.core.now = now;
        self.take_back_unsent(shard);
        let Some(ways) = &mut self.core.mail.ways else { return };
        let way = ways.way(shard);
        way.open = false;
        way.next = leader.map(|(machine, _)| machine);
        if let Some((_, lead)) = leader {
            (way.lead, way.changed_us) = (lead, now.wall_us);
        }
        ways.look_at(shard);
        ways.note_lead(now, shard);
        let splits = leader.map(|(_, lead)| splits_of(lead));
        if let (Some(splits), Some(map)) = (splits, self.core.topology.map())
            && splits > self.core.mail.routes.splits(shard)
        {
            let before = self.core.mail.routes.all();
            self.core.mail.routes.carried_out(shard, splits, map);
            self.routes_changed(&before);
        }
        self.locks_lost(shard);
        self.settle();
    }

    /// The connection to a machine is lost, and with it whatever it was asked and has not answered.
    pub fn machine_lost(&mut self, now: Now, machine: MachineId) {
        self.core.now = now;
        self.core.topology.lost(machine);
        let Some(ways) = &mut self.core.mail.ways else { return };
        let mut led = Vec::new();
        for (way, shard) in ways.ways.iter_mut().zip(0..) {
            let had_next = way.next.is_some();
            way.next = way.next.filter(|next| *next != machine);
            if way.machine == machine || had_next && way.next.is_none() {
                led.push(ShardId(shard));
            }
        }
        for shard in led {
            let Some(ways) = &mut self.core.mail.ways else { return };
            if ways.way(shard).machine != machine {
                // It was about to be asked, and never was.
                ways.note_lead(now, shard);
                continue;
            }
            self.take_back_unsent(shard);
            let Some(ways) = &mut self.core.mail.ways else { return };
            ways.way(shard).open = false;
            ways.note_lead(now, shard);
            let mut lost = ways.lose(shard);
            self.give_up_before_unknown(&mut lost);
            for (token, again) in lost {
                self.answer_lost(token, again);
            }
            self.locks_lost(shard);
        }
        self.settle();
    }

    /// Reads that a session has sent before something of which nobody knows whether it took effect must
    /// not be asked again: they would see what came after it.
    fn give_up_before_unknown(&self, lost: &mut [(u64, Option<Box<Body>>)]) {
        let mut unknown: BTreeSet<SessionId> = BTreeSet::new();
        for (token, again) in lost.iter_mut().rev() {
            let pending = self.core.mail.pending.get(*token);
            let Some(session) = pending.and_then(Pending::of_loose) else { continue };
            if again.is_none() {
                unknown.insert(session);
            } else if unknown.contains(&session) {
                *again = None;
            }
        }
    }

    /// Sends what was held and whose time has come.
    pub(in crate::gateway) fn open_ways(&mut self) {
        self.reroute();
        while let Some(ways) = &mut self.core.mail.ways {
            let ready = ways.take_ready();
            if ready.is_empty() {
                return;
            }
            ready.into_iter().for_each(|shard| self.open_way(shard));
        }
    }

    /// Whether [`Gateway::open_ways`] has something to do.
    pub(in crate::gateway) fn ways_are_ready(&self) -> bool {
        self.core
            .mail
            .ways
            .as_ref()
            .is_some_and(|ways| !ways.ready.is_empty() || ways.next_rerouting().is_some())
    }

    /// What was to go to the leader of a shard, and has not gone yet, does not go there any more.
    fn take_back_unsent(&mut self, shard: ShardId) {
        let now = self.core.now;
        let Some(ways) = &mut self.core.mail.ways else { return };
        let (unsent, others): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.core.mail.outputs).into_iter().partition(
                |output| matches!(output, Output::Shard { shard: to, .. } if *to == shard),
            );
        self.core.mail.outputs = others;
        for output in unsent {
            if let Output::Shard { request, .. } = output {
                ways.take_back(now, Mail::token_of(request.token), request.body);
            }
        }
    }

    fn open_way(&mut self, shard: ShardId) {
        let Some(ways) = &mut self.core.mail.ways else { return };
        let was_open = ways.way(shard).open;
        let held = ways.open(shard);
        let is_open = ways.way(shard).open;
        for (token, body) in held {
            let times = self.core.mail.ways.as_ref().map_or(0, |ways| ways.times(token));
            self.core.mail.put(shard, token, times, body);
        }
        if is_open && !was_open {
            self.wait_again(shard);
        }
    }

    /// The answer to a request will never come.
    fn answer_lost(&mut self, token: u64, again: Option<Box<Body>>) {
        if let Some(body) = again {
            let (now, body) = (self.core.now, self.with_time_left(token, *body));
            if let Some(ways) = &mut self.core.mail.ways {
                ways.take_back(now, token, body);
            }
            return;
        }
        let pending = self.core.mail.pending.remove(token);
        self.core.mail.forget(token);
        let Some(pending) = pending else { return };
        let answer = match pending {
            Pending::Access { .. } | Pending::Lease { .. } => Answer::Refused(Refusal::LocksLost),
            _ => Answer::Unknown,
        };
        self.answer(token, pending, answer);
    }

    /// What transactions have locked at a shard is not locked any more.
    fn locks_lost(&mut self, shard: ShardId) {
        let baseless = self.core.mail.ways.as_ref().map(|ways| ways.baseless(shard));
        for token in baseless.into_iter().flatten() {
            let pending = self.core.mail.pending.remove(token);
            self.core.mail.forget(token);
            if let Some(pending) = pending {
                self.answer(token, pending, Answer::Refused(Refusal::LocksLost));
            }
        }
        let leases = self.leases.at(shard);
        let of_lease = |txn: &crate::gateway::txn::Txn| {
            txn.leases.iter().any(|(lease, _)| leases.contains(lease))
        };
        let jobs: Vec<u64> = self
            .jobs
            .iter()
            .filter_map(|(job, open)| match open {
                Job::Txn(txn) if matches!(txn.stage, Stage::Running | Stage::Upgrading) => {
                    let touched = txn.touched.iter().any(|touched| touched.shard == shard);
                    (touched || of_lease(txn)).then_some(job)
                }
                _ => None,
            })
            .collect();
        for job in jobs {
            self.abort(job, Cause::Refused(Refusal::LocksLost));
        }
        for lease in leases {
            self.leases.recall(lease);
        }
    }
}
