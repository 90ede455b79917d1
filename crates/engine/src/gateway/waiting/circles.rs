//! Deadlocks over several shards: a gateway looks for cycles in which its own clients wait.
//!
//! Each shard refuses a request that closes a cycle of its own locks (`shard/waiting/circles.rs`), and
//! none sees the locks of the others. If a client says `DETECT` and still waits after a while, its
//! gateway asks all shards for whom its owner waits, then for whom those owners wait, until no new
//! name comes back. The answers are not of one moment. So each wait of a cycle is asked about once
//! more: a wait that is the same as before, behind the same holder, was there all the time, since no
//! waiter overtakes another. If all waits are the same, they were there together. Then the gateway
//! tells the lock's shard to refuse the client, which the shard does if the client still waits. See
//! "Circles" in `docs/internals/coordination.md`.

use crate::circle;
use crate::circle::Wait;
use crate::gateway::mail::Pending;
use crate::gateway::timer::Timer;
use crate::gateway::{Gateway, Job};
use crate::limits::{CIRCLE_LOOK_US, CIRCLE_LOOK_US_MAX, CIRCLE_NAMES_MAX};
use crate::message::{Answer, Body, ShardId};
use adt::{Blob, Op};
use std::collections::{BTreeMap, BTreeSet};

/// A client that is not to wait in a circle.
pub(in crate::gateway) struct Suspect {
    owner: Blob,
    lock: Blob,
    looks: u32,
}

impl Suspect {
    /// Somebody who waits for a lock, if that is to be found out.
    pub fn of(lock: &Blob, op: &Op) -> Option<Box<Self>> {
        let owner = op.waiter().filter(|_| op.detects())?.clone();
        Some(Box::new(Self { owner, lock: lock.clone(), looks: 0 }))
    }
}

/// A look for the circle that a client may wait in.
pub(in crate::gateway) struct Search {
    /// The client's turn, and the request for it.
    turn: u64,
    token: u64,
    owner: Blob,
    lock: Blob,
    /// What was heard, by the shard that said it and the number of the wait there.
    waits: BTreeMap<(ShardId, u64), Wait>,
    asked: BTreeSet<Blob>,
    /// So many shards have not answered.
    left: usize,
    /// What was found, and is being asked about once more.
    found: Option<Vec<Wait>>,
}

impl Search {
    fn circle(&self) -> Option<Vec<Wait>> {
        let waits_of = |name: &Blob| {
            self.waits.values().filter(|wait| wait.who == *name).cloned().collect::<Vec<_>>()
        };
        let mut firsts = waits_of(&self.owner).into_iter().filter(|wait| wait.lock == self.lock);
        firsts.find_map(|first| circle::find(first, waits_of))
    }

    /// Whether all waits of a circle are there still, each behind the same one.
    fn still_there(&self, circle: &[Wait]) -> bool {
        circle::links(circle).all(|(wait, next)| {
            let mut same = self.waits.values().filter(|now| now.is(wait) && now.lock == wait.lock);
            same.any(|now| now.behind().any(|name| name == next))
        })
    }

    /// Those who are waited for and were not asked about.
    fn unknown(&self) -> BTreeSet<Blob> {
        let named = self.waits.values().flat_map(Wait::behind);
        named.filter(|name| !self.asked.contains(*name)).cloned().collect()
    }
}

impl Gateway {
    /// A client waits, or waits on: a circle is looked for when it has waited long enough.
    pub(in crate::gateway) fn suspect(&mut self, job: u64) {
        let several = self.core.mail.routes.shards() > 1;
        let Some(Job::Turn(turn)) = self.jobs.get_mut(job) else { return };
        let Some(suspect) = turn.suspect.as_mut().filter(|_| several) else { return };
        let in_us = CIRCLE_LOOK_US.saturating_mul(1 << suspect.looks.min(16));
        suspect.looks += 1;
        self.core.set_timer(in_us.min(CIRCLE_LOOK_US_MAX), Timer::Circle { job });
    }

    /// It has.
    pub(in crate::gateway) fn look_for_circle(&mut self, job: u64) {
        let Some(Job::Turn(turn)) = self.jobs.get(job) else { return };
        let Some(suspect) = &turn.suspect else { return };
        let (owner, lock) = (suspect.owner.clone(), suspect.lock.clone());
        let asked = BTreeSet::from([owner.clone()]);
        let search = Search {
            turn: job,
            token: turn.token,
            owner,
            lock,
            waits: BTreeMap::new(),
            asked: asked.clone(),
            left: 0,
            found: None,
        };
        let search = self.jobs.insert(Job::Search(Box::new(search)));
        self.ask_for_waits(search, asked);
    }

    fn ask_for_waits(&mut self, job: u64, names: BTreeSet<Blob>) {
        let names: Vec<Blob> = names.into_iter().collect();
        let shards = self.core.mail.routes.shards();
        if let Some(Job::Search(search)) = self.jobs.get_mut(job) {
            search.left = usize::from(shards);
        }
        for shard in (0..shards).map(ShardId) {
            let pending = Pending::Waits { job, shard };
            self.core.mail.ask(shard, pending, Body::Waits { names: names.clone() });
        }
    }

    /// A shard has said who waits for whom there.
    pub(in crate::gateway) fn waits_told(&mut self, job: u64, shard: ShardId, answer: Answer) {
        let Some(Job::Search(search)) = self.jobs.get_mut(job) else { return };
        let waits = match answer {
            Answer::Reply(reply) => circle::understood(reply),
            _ => None,
        };
        search.left -= 1;
        // What a shard does not say, because it is too much or its leader was lost, is in no circle.
        let waits = waits.into_iter().flatten().map(|wait| ((shard, wait.number), wait));
        search.waits.extend(waits);
        if search.left == 0 {
            self.weigh(job);
        }
    }

    /// All shards have answered.
    fn weigh(&mut self, job: u64) {
        let Some(Job::Search(search)) = self.jobs.get_mut(job) else { return };
        if let Some(circle) = &search.found {
            let certain = search.still_there(circle).then(|| circle::text(circle));
            return self.end_search(job, certain);
        }
        let mut more = search.unknown();
        if more.is_empty()
            && let Some(circle) = search.circle()
        {
            more = circle.iter().map(|wait| wait.who.clone()).collect();
            search.waits.clear();
            search.found = Some(circle);
        }
        search.asked.extend(more.iter().cloned());
        if more.is_empty() || search.asked.len() > CIRCLE_NAMES_MAX {
            return self.end_search(job, None);
        }
        self.ask_for_waits(job, more);
    }

    fn end_search(&mut self, job: u64, certain: Option<String>) {
        let Some(Job::Search(search)) = self.jobs.remove(job) else { return };
        let Some(Job::Turn(turn)) = self.jobs.get(search.turn) else { return };
        if turn.token != search.token {
            return;
        }
        if let Some(told) = certain {
            let body = Body::EndCircle { told: Blob::from(told.as_str()) };
            self.core.mail.add(turn.shard, search.token, body);
        }
        self.suspect(search.turn);
    }
}
