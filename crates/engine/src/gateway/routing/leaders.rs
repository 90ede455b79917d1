//! Leaders of shards in a cluster, and the requests that wait for them.
//!
//! A shard is *open* while its leader is known. When the lead ends, new requests are held until every
//! request that was sent before has an answer, one way or the other, and the next leader is known; then
//! they are sent in the order in which they were made. So the requests of a session to one shard keep their
//! order across a change of leaders.
//!
//! A request that was sent to a lost leader is sent again if a repetition does no harm (the request only
//! looks, carries a request number, or names a transaction); otherwise its outcome is *unknown*. An answer
//! of the lost leader may arrive later over another connection. The number of repetitions in the token
//! distinguishes it from the answer of the next leader.

use crate::ids::{MachineId, ShardId};
use crate::message::Body;
use crate::now::Now;
use adt::collections::Map;
use std::collections::{BTreeMap, BTreeSet};

/// Requests that were lost with a leader, in their order: token, and the message to send again if a
/// repetition does no harm.
pub(in crate::gateway) type LostRequests = Vec<(u64, Option<Box<Body>>)>;

/// Request without an answer.
#[derive(Debug)]
struct Sent {
    shard: ShardId,
    /// Position among all requests of the gateway.
    number: u64,
    /// Whether the leader has the request; otherwise it is held here.
    out: bool,
    /// Whether a leader has had the request at any time.
    went: bool,
    /// Message to send again if the answer is lost.
    again: Option<Box<Body>>,
    /// Number of repetitions: answers of lost leaders may come later.
    times: u8,
}

/// State of the lead of one shard.
#[derive(Debug, Default)]
struct ShardLead {
    /// Machine that requests go to, or went to last.
    machine: MachineId,
    open: bool,
    /// New leader, which gets requests when the one before has answered all of its own.
    next: Option<MachineId>,
    /// Number of requests that the leader has.
    out: usize,
    /// Held requests by number: token and message.
    held: BTreeMap<u64, (u64, Body)>,
    /// Time since which no leader is known, on the monotonic clock.
    unled_since_us: Option<u64>,
    /// Whether requests have been given up since then.
    refuses: bool,
    /// Number of the last lead, and the time (wall clock) at which it began or ended.
    number: u64,
    changed_us: u64,
}

/// Leads of all shards.
#[derive(Debug)]
pub(in crate::gateway) struct Leaders {
    shards: Vec<ShardLead>,
    sent: Map<u64, Sent>,
    last: u64,
    /// Shards whose next leader can be asked now.
    ready: Vec<ShardId>,
    /// Shards that have given slots away, each with the shard that has them now: nothing is sent to the
    /// second before all requests to the first are back.
    rerouting: Vec<(ShardId, ShardId)>,
    /// Longest time for which a request waits for a leader.
    wait_us: u64,
    /// Shards without a leader for which requests may be held.
    waiting: BTreeSet<ShardId>,
    /// Shards for which requests were given up for the first time, until the server is told.
    refused: Vec<ShardId>,
}

/// Message to send again if the answer to a request gets lost; none if a repetition may do harm.
fn again(body: &Body) -> Option<Box<Body>> {
    let harmless = match body {
        Body::Inquire { .. } | Body::Resolve(_) | Body::Remember(_) | Body::Transfer { .. } => true,
        Body::Pipeline(_) => true,
        Body::Await { apply, .. } if !apply.writes() => true,
        // The ticket says that it is the same request.
        body if body.may_be_successor() => true,
        Body::Apply(apply) | Body::Await { apply, .. } => apply.request.is_some(),
        body => body.depends_on_lead(),
    };
    harmless.then(|| Box::new(body.clone()))
}

impl Leaders {
    /// Table in which no leader is known.
    pub fn new(wait_us: u64, now: Now) -> Self {
        let mut shards = Vec::new();
        // Not all numbers are in use: the map's comes last.
        let unled = || ShardLead {
            unled_since_us: Some(now.mono_us),
            changed_us: now.wall_us,
            ..ShardLead::default()
        };
        shards.resize_with(usize::from(ShardId::MAP.0) + 1, unled);
        let (ready, rerouting, waiting, refused) = Default::default();
        Self { shards, sent: Map::default(), last: 0, ready, rerouting, wait_us, waiting, refused }
    }

    /// Number of the lead of a shard, or of the last one if the shard has no leader, and the time at
    /// which it began or ended, on the wall clock in microseconds.
    pub fn lead_number(&self, shard: ShardId) -> (u64, u64) {
        self.shards.get(usize::from(shard.0)).map_or((0, 0), |lead| (lead.number, lead.changed_us))
    }

    /// Takes the shards for which requests have been given up for the first time since the shard had a
    /// leader.
    pub fn take_refused(&mut self) -> Vec<ShardId> {
        std::mem::take(&mut self.refused)
    }

    /// Notes whether a shard has a leader.
    fn note_lead(&mut self, now: Now, shard: ShardId) {
        let lead = self.lead(shard);
        if lead.open || lead.next.is_some() {
            (lead.unled_since_us, lead.refuses) = (None, false);
            self.waiting.remove(&shard);
            return;
        }
        if lead.unled_since_us.is_none() {
            (lead.unled_since_us, lead.changed_us) = (Some(now.mono_us), now.wall_us);
        }
        if !lead.held.is_empty() {
            self.waiting.insert(shard);
        }
    }

    /// Time at which the first request will have waited long enough for a leader.
    pub fn due_us(&self) -> Option<u64> {
        let since = |shard: &ShardId| self.shards[usize::from(shard.0)].unled_since_us;
        let due = self.waiting.iter().filter_map(since);
        due.map(|since| since.saturating_add(self.wait_us)).min()
    }

    /// Takes the shards whose requests have waited long enough for a leader. Each is returned once, until
    /// more requests are held for it.
    pub fn take_due(&mut self, now_us: u64) -> Vec<ShardId> {
        let wait_us = self.wait_us;
        let mut due = Vec::new();
        for shard in std::mem::take(&mut self.waiting) {
            let lead = self.lead(shard);
            let Some(since) = lead.unled_since_us else { continue };
            if since.saturating_add(wait_us) > now_us {
                self.waiting.insert(shard);
            } else {
                due.push(shard);
                if !std::mem::replace(&mut self.lead(shard).refuses, true) {
                    self.refused.push(shard);
                }
            }
        }
        due
    }

    /// Leader of a shard, if it is known.
    pub fn leader(&self, shard: ShardId) -> Option<MachineId> {
        let lead = self.shards.get(usize::from(shard.0))?;
        lead.next.or(lead.open.then_some(lead.machine))
    }

    fn lead(&mut self, shard: ShardId) -> &mut ShardLead {
        &mut self.shards[usize::from(shard.0)]
    }

    /// Adds a request that wants an answer, before it is sent.
    pub fn note(&mut self, shard: ShardId, token: u64, body: &Body) {
        self.last += 1;
        let (number, out, times) = (self.last, false, 0);
        let sent = Sent { shard, number, out, went: false, again: again(body), times };
        self.sent.insert(token, sent);
    }

    /// Number of repetitions of a request.
    pub fn times(&self, token: u64) -> u8 {
        self.sent.get(&token).map_or(0, |sent| sent.times)
    }

    /// Whether a leader has had a request at any time.
    pub fn went(&self, token: u64) -> bool {
        self.sent.get(&token).is_some_and(|sent| sent.went)
    }

    /// Shard of a request, the number of its repetitions, and whether the leader has it.
    pub fn asked(&self, token: u64) -> Option<(ShardId, u8, bool)> {
        self.sent.get(&token).map(|sent| (sent.shard, sent.times, sent.out))
    }

    /// Returns a request that may be sent now, with the number of its repetitions; holds it otherwise. A
    /// message that wants no answer is about state of a leader beyond the log and means nothing to the next
    /// leader: it is dropped.
    pub fn pass(&mut self, shard: ShardId, token: u64, body: Body) -> Option<(u8, Body)> {
        let lead = &mut self.shards[usize::from(shard.0)];
        let Some(sent) = self.sent.get_mut(&token) else { return lead.open.then_some((0, body)) };
        if lead.open {
            (sent.out, sent.went) = (true, true);
            lead.out += 1;
            return Some((sent.times, body));
        }
        lead.held.insert(sent.number, (token, body));
        if lead.unled_since_us.is_some() {
            self.waiting.insert(shard);
        }
        None
    }

    /// Removes a request: the answer has arrived, or is not awaited any longer.
    pub fn forget(&mut self, token: u64) {
        let Some(sent) = self.sent.swap_remove(&token) else { return };
        let lead = self.lead(sent.shard);
        if sent.out {
            lead.out -= 1;
            self.look_at(sent.shard);
        } else {
            lead.held.remove(&sent.number);
        }
    }

    /// Notes that the next leader of a shard can be asked, if no request to the one before is open.
    fn look_at(&mut self, shard: ShardId) {
        let waits = self.waits_for_another(shard);
        let lead = self.lead(shard);
        if lead.out == 0 && lead.next.is_some() && !waits {
            self.ready.push(shard);
        }
    }

    /// Takes the shards whose next leader can be asked now.
    pub fn take_ready(&mut self) -> Vec<ShardId> {
        std::mem::take(&mut self.ready)
    }

    /// Holds requests to two shards because slots have gone from the first to the second.
    pub fn begin_rerouting(&mut self, now: Now, parent: ShardId, child: ShardId) {
        // A new shard has been without a leader since now, not since this gateway began.
        let begun = self.lead(child);
        if begun.unled_since_us.is_some() {
            (begun.unled_since_us, begun.changed_us) = (Some(now.mono_us), now.wall_us);
            begun.refuses = false;
        }
        for shard in [parent, child] {
            let lead = self.lead(shard);
            if std::mem::take(&mut lead.open) {
                // The shard opens again for the same leader.
                lead.next.get_or_insert(lead.machine);
            }
        }
        self.rerouting.push((parent, child));
        self.look_at(parent);
    }

    /// Shard that has given slots to another one, and has no request any more, with that other one.
    pub fn next_rerouting(&self) -> Option<(ShardId, ShardId)> {
        let back = |(parent, _): &&(ShardId, ShardId)| self.shards[usize::from(parent.0)].out == 0;
        self.rerouting.iter().find(back).copied()
    }

    /// Ends a rerouting: all held requests are at the shards that they concern.
    pub fn end_rerouting(&mut self, parent: ShardId, child: ShardId) {
        self.rerouting.retain(|pair| *pair != (parent, child));
        self.look_at(parent);
        self.look_at(child);
    }

    /// Whether requests to another shard must be back before any is sent to this one, or requests held for
    /// this one may concern another.
    fn waits_for_another(&self, shard: ShardId) -> bool {
        self.rerouting.iter().any(|(parent, child)| [parent, child].contains(&&shard))
    }

    /// Tokens of the requests that are held for a shard, in order.
    pub fn held(&self, shard: ShardId) -> Vec<u64> {
        self.shards[usize::from(shard.0)].held.values().map(|(token, _)| *token).collect()
    }

    /// Message of a request that is held for a shard.
    pub fn body(&self, shard: ShardId, token: u64) -> Option<&Body> {
        let number = self.sent.get(&token)?.number;
        self.shards[usize::from(shard.0)].held.get(&number).map(|(_, body)| body)
    }

    /// Takes out the message of a request that is held for a shard.
    pub fn take_held(&mut self, shard: ShardId, token: u64) -> Option<Body> {
        let number = self.sent.get(&token)?.number;
        self.lead(shard).held.remove(&number).map(|(_, body)| body)
    }

    /// Moves a held request to another shard.
    pub fn move_held(&mut self, token: u64, to: ShardId) {
        let Some(sent) = self.sent.get_mut(&token) else { return };
        let (from, number) = (std::mem::replace(&mut sent.shard, to), sent.number);
        if let Some(held) = self.lead(from).held.remove(&number) {
            let lead = self.lead(to);
            lead.held.insert(number, held);
            if lead.unled_since_us.is_some() {
                self.waiting.insert(to);
            }
        }
    }

    /// Tokens of held requests that rest on locks of a lead that has ended.
    pub fn baseless(&self, shard: ShardId) -> Vec<u64> {
        let held = self.shards[usize::from(shard.0)].held.values();
        let rests = |body: &Body| matches!(body, Body::Lock { .. } | Body::Prepare { .. });
        held.filter(|(_, body)| rests(body)).map(|(token, _)| *token).collect()
    }

    /// Holds a request that has come back without any effect.
    pub fn take_back(&mut self, now: Now, token: u64, body: Body) {
        let Some(sent) = self.sent.get_mut(&token).filter(|sent| sent.out) else { return };
        sent.out = false;
        let (shard, number) = (sent.shard, sent.number);
        let lead = self.lead(shard);
        lead.out -= 1;
        lead.open = false;
        lead.held.insert(number, (token, body));
        self.look_at(shard);
        self.note_lead(now, shard);
    }

    /// Takes the requests that a lost leader of a shard has.
    pub fn lose(&mut self, now: Now, shard: ShardId) -> LostRequests {
        self.lead(shard).open = false;
        self.note_lead(now, shard);
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

    /// Opens a shard for its next leader if no request to the one before is open. Returns the held
    /// requests, which are to be sent now, with the number of their repetitions, and whether the shard has
    /// become open.
    pub fn open(&mut self, shard: ShardId) -> (Vec<(u64, u8, Body)>, bool) {
        let waits = self.waits_for_another(shard);
        let lead = &mut self.shards[usize::from(shard.0)];
        let Some(next) = lead.next.filter(|_| lead.out == 0 && !waits) else {
            return (Vec::new(), false);
        };
        let was_open = std::mem::replace(&mut lead.open, true);
        (lead.machine, lead.next) = (next, None);
        let held = std::mem::take(&mut lead.held);
        lead.out += held.len();
        let mut opened = Vec::with_capacity(held.len());
        for (token, body) in held.into_values() {
            let mut times = 0;
            if let Some(sent) = self.sent.get_mut(&token) {
                (sent.out, sent.went, times) = (true, true, sent.times);
                if sent.again.is_none() {
                    sent.again = again(&body);
                }
            }
            opened.push((token, times, body));
        }
        (opened, !was_open)
    }

    /// Whether the next leader of a shard can be asked now, or a rerouting can end.
    pub fn are_ready(&self) -> bool {
        !self.ready.is_empty() || self.next_rerouting().is_some()
    }

    /// Notes the new leader of a shard, with the number of its lead, or that there is none. Requests of an
    /// earlier leader are answered by that one, unless its machine is lost.
    pub fn changed(&mut self, now: Now, shard: ShardId, leader: Option<(MachineId, u64)>) {
        let lead = self.lead(shard);
        lead.open = false;
        lead.next = leader.map(|(machine, _)| machine);
        if let Some((_, number)) = leader {
            (lead.number, lead.changed_us) = (number, now.wall_us);
        }
        self.look_at(shard);
        self.note_lead(now, shard);
    }

    /// Notes that a machine is lost. Returns the shards whose leader it was: their requests are lost
    /// ([`Leaders::lose`]).
    pub fn machine_lost(&mut self, now: Now, machine: MachineId) -> Vec<ShardId> {
        let mut led = Vec::new();
        for number in 0..self.shards.len() {
            let (shard, lead) = (ShardId(number as u16), &mut self.shards[number]);
            let had_next = lead.next.is_some();
            lead.next = lead.next.filter(|next| *next != machine);
            if lead.machine == machine {
                led.push(shard);
            } else if had_next && lead.next.is_none() {
                // The machine would have been the next leader, and has had no request.
                self.note_lead(now, shard);
            }
        }
        led
    }
}
