//! Deadlocks over several shards: a gateway looks for cycles in which its own clients wait.
//!
//! Each shard refuses a request that closes a cycle of its own locks (`shard/waiting/deadlocks.rs`), and
//! none sees the locks of the others. If a client says `DETECT` and still waits after a while, its
//! gateway asks all shards for whom its owner waits, then for whom those owners wait, until no new
//! name comes back. The answers are not of one moment. So each wait of a cycle is asked about once
//! more: a wait that is the same as before, behind the same holder, was there all the time, since no
//! waiter overtakes another. If all waits are the same, they were there together. Then the gateway
//! tells the lock's shard to refuse the client, which the shard does if the client still waits. See
//! `docs/internals/coordination/deadlocks.md`.

use crate::deadlock::{self as cycles, LockWait};
use crate::gateway::core::Core;
use crate::gateway::mail::Pending;
use crate::gateway::slab::Slab;
use crate::ids::ShardId;
use crate::limits::{DEADLOCK_LOOK_US, DEADLOCK_LOOK_US_MAX, DEADLOCK_NAMES_MAX};
use crate::message::{Answer, Body};
use adt::{Blob, Op};
use std::collections::{BTreeMap, BTreeSet};

/// Client that is to be refused if it waits in a deadlock cycle.
pub(super) struct Suspect {
    owner: Blob,
    lock: Blob,
    looks: u32,
}

impl Suspect {
    /// A client that waits for a lock, if its operation asks for the search.
    pub fn of(lock: &Blob, op: &Op) -> Option<Box<Self>> {
        let owner = op.waiter().filter(|_| op.detects())?.clone();
        Some(Box::new(Self { owner, lock: lock.clone(), looks: 0 }))
    }

    /// Time until the next search, in microseconds.
    pub fn next_us(&mut self) -> u64 {
        let in_us = DEADLOCK_LOOK_US.saturating_mul(1 << self.looks.min(16));
        self.looks += 1;
        in_us.min(DEADLOCK_LOOK_US_MAX)
    }
}

/// Search for the cycle that a client may wait in.
struct Search {
    /// The client's turn, and the request for it.
    turn: u64,
    token: u64,
    owner: Blob,
    lock: Blob,
    /// Waits that the shards have reported, by shard and number there.
    waits: BTreeMap<(ShardId, u64), LockWait>,
    /// Owners that the shards were asked about.
    asked: BTreeSet<Blob>,
    /// Number of shards that have not answered.
    left: usize,
    /// Cycle that was found and is being asked about once more.
    found: Option<Vec<LockWait>>,
}

impl Search {
    fn cycle(&self) -> Option<Vec<LockWait>> {
        let waits_of = |name: &Blob| {
            self.waits.values().filter(|wait| wait.who == *name).cloned().collect::<Vec<_>>()
        };
        let mut firsts = waits_of(&self.owner).into_iter().filter(|wait| wait.lock == self.lock);
        firsts.find_map(|first| cycles::find(first, waits_of))
    }

    /// Whether all waits of a cycle are there still, each behind the same one.
    fn still_there(&self, cycle: &[LockWait]) -> bool {
        cycles::links(cycle).all(|(wait, next)| {
            let mut same = self.waits.values().filter(|now| now.is(wait) && now.lock == wait.lock);
            same.any(|now| now.behind().any(|name| name == next))
        })
    }

    /// Owners that are waited for and were not asked about.
    fn unknown(&self) -> BTreeSet<Blob> {
        let named = self.waits.values().flat_map(LockWait::behind);
        named.filter(|name| !self.asked.contains(*name)).cloned().collect()
    }
}

/// Result of a search.
pub(super) struct Searched {
    /// The client's turn, and the request for it.
    pub turn: u64,
    pub token: u64,
    /// Description of the cycle, if the client waits in one.
    pub cycle: Option<String>,
}

/// Searches for deadlock cycles that are under way.
#[derive(Default)]
pub(super) struct DeadlockSearches {
    searches: Slab<Search>,
}

impl DeadlockSearches {
    /// Begins a search for a client that waits in this turn, by the request with this token.
    pub fn begin(&mut self, core: &mut Core, (turn, token): (u64, u64), suspect: &Suspect) {
        let (owner, lock) = (suspect.owner.clone(), suspect.lock.clone());
        let asked = BTreeSet::from([owner.clone()]);
        let search = Search {
            turn,
            token,
            owner,
            lock,
            waits: BTreeMap::new(),
            asked: asked.clone(),
            left: 0,
            found: None,
        };
        let job = self.searches.insert(search);
        self.ask(core, job, asked);
    }

    /// Asks all shards for the waits of these owners.
    fn ask(&mut self, core: &mut Core, job: u64, names: BTreeSet<Blob>) {
        let names: Vec<Blob> = names.into_iter().collect();
        let shards = core.mail.routes.shards();
        if let Some(search) = self.searches.get_mut(job) {
            search.left = usize::from(shards);
        }
        for shard in (0..shards).map(ShardId) {
            let pending = Pending::Waits { job, shard };
            core.mail.ask(shard, pending, Body::Waits { names: names.clone() });
        }
    }

    /// Takes a shard's answer; returns the result if the search is over.
    pub fn answered(
        &mut self,
        core: &mut Core,
        (job, shard): (u64, ShardId),
        answer: Answer,
    ) -> Option<Searched> {
        let search = self.searches.get_mut(job)?;
        let waits = match answer {
            Answer::Reply(reply) => cycles::decode(reply),
            _ => None,
        };
        search.left -= 1;
        // Waits that a shard does not report, because they are too many or its leader was lost, are in no
        // cycle.
        let waits = waits.into_iter().flatten().map(|wait| ((shard, wait.number), wait));
        search.waits.extend(waits);
        if search.left > 0 {
            return None;
        }
        self.weigh(core, job)
    }

    /// Judges the answers of all shards: asks about more owners, or ends the search.
    fn weigh(&mut self, core: &mut Core, job: u64) -> Option<Searched> {
        let search = self.searches.get_mut(job)?;
        if let Some(cycle) = &search.found {
            let certain = search.still_there(cycle).then(|| cycles::text(cycle));
            return self.end(job, certain);
        }
        let mut more = search.unknown();
        if more.is_empty()
            && let Some(cycle) = search.cycle()
        {
            more = cycle.iter().map(|wait| wait.who.clone()).collect();
            search.waits.clear();
            search.found = Some(cycle);
        }
        search.asked.extend(more.iter().cloned());
        if more.is_empty() || search.asked.len() > DEADLOCK_NAMES_MAX {
            return self.end(job, None);
        }
        self.ask(core, job, more);
        None
    }

    fn end(&mut self, job: u64, cycle: Option<String>) -> Option<Searched> {
        let Search { turn, token, .. } = self.searches.remove(job)?;
        Some(Searched { turn, token, cycle })
    }
}
