//! Deadlock cycles between owners that wait for each other's locks. A shard collects the waits for
//! its own locks (`shard/waiting/deadlocks.rs`), a gateway those of all shards
//! (`gateway/waiting/deadlocks.rs`).
//!
//! A waiter is behind the holders of the lock, as far as all of them must release it, and behind
//! the earlier waiters of its queue, since none is overtaken. Owners are identified by name: an
//! owner with a name waits for one lock at a time.

use crate::limits::DEADLOCK_STEPS_MAX;
use adt::{Blob, Reply};
use std::collections::{BTreeMap, VecDeque};

/// Waits of a cycle that an error shows, and bytes of each name.
const SHOWN: usize = 8;
const NAME_SHOWN_BYTES: usize = 64;

/// Waiter of a lock, with the owners that it waits for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LockWait {
    /// Number of the wait among all that the leader of the lock's shard has known, and its start by
    /// that leader's clock. Together they identify the wait.
    pub number: u64,
    pub since_us: u64,
    pub who: Blob,
    pub lock: Blob,
    /// Owners that hold the lock and must release it.
    pub holders: Vec<Blob>,
    /// Owners that are ahead in its queue.
    pub ahead: Vec<Blob>,
}

impl LockWait {
    /// Owners that this one waits for.
    pub fn behind(&self) -> impl Iterator<Item = &Blob> {
        self.holders.iter().chain(&self.ahead)
    }

    /// Whether both describe the same wait.
    pub fn is(&self, other: &Self) -> bool {
        self.number == other.number && self.since_us == other.since_us && self.who == other.who
    }

    fn encode(&self) -> Reply {
        let names = |names: &[Blob]| Reply::Array(names.iter().cloned().map(Reply::Bulk).collect());
        Reply::Array(vec![
            Reply::Int(self.number as i64),
            Reply::Int(self.since_us as i64),
            Reply::Bulk(self.who.clone()),
            Reply::Bulk(self.lock.clone()),
            names(&self.holders),
            names(&self.ahead),
        ])
    }

    fn decode(reply: Reply) -> Option<Self> {
        let Reply::Array(parts) = reply else { return None };
        let [
            Reply::Int(number),
            Reply::Int(since_us),
            Reply::Bulk(who),
            Reply::Bulk(lock),
            Reply::Array(holders),
            Reply::Array(ahead),
        ] = <[Reply; 6]>::try_from(parts).ok()?
        else {
            return None;
        };
        let names = |names: Vec<Reply>| {
            let name = |name| if let Reply::Bulk(name) = name { Some(name) } else { None };
            names.into_iter().map(name).collect::<Option<Vec<Blob>>>()
        };
        Some(Self {
            number: u64::try_from(number).ok()?,
            since_us: u64::try_from(since_us).ok()?,
            who,
            lock,
            holders: names(holders)?,
            ahead: names(ahead)?,
        })
    }
}

/// Encodes waits for a gateway.
pub(crate) fn encode(waits: &[LockWait]) -> Reply {
    Reply::Array(waits.iter().map(LockWait::encode).collect())
}

/// Decodes waits of a shard; `None` if the reply is none.
pub(crate) fn decode(reply: Reply) -> Option<Vec<LockWait>> {
    let Reply::Array(waits) = reply else { return None };
    waits.into_iter().map(LockWait::decode).collect()
}

/// Finds a shortest cycle through the owner of `first`: from that wait to one for a lock that this
/// owner holds; `None` if the search would take more than [`DEADLOCK_STEPS_MAX`] steps.
pub(crate) fn find(
    first: LockWait,
    mut waits_of: impl FnMut(&Blob) -> Vec<LockWait>,
) -> Option<Vec<LockWait>> {
    let name = first.who.clone();
    // Predecessor in the search, by owner.
    let mut met: BTreeMap<Blob, LockWait> = BTreeMap::new();
    let mut next = VecDeque::from([first]);
    let mut steps = 0;
    while let Some(wait) = next.pop_front() {
        if wait.holders.contains(&name) {
            return Some(path(&met, wait, &name));
        }
        // The owner ahead in a queue closes no cycle: that is an older wait, which has ended by
        // now.
        for behind in wait.behind().filter(|behind| **behind != name) {
            steps += 1;
            if steps > DEADLOCK_STEPS_MAX {
                return None;
            }
            if !met.contains_key(behind) {
                met.insert(behind.clone(), wait.clone());
                next.extend(waits_of(behind));
            }
        }
    }
    None
}

/// Waits from the first one to `last`, which waits for the first owner.
fn path(met: &BTreeMap<Blob, LockWait>, last: LockWait, first: &Blob) -> Vec<LockWait> {
    let mut path = vec![last];
    while let Some(wait) = path.last()
        && wait.who != *first
        && let Some(before) = met.get(&wait.who)
    {
        path.push(before.clone());
    }
    path.reverse();
    path
}

/// Waits of a cycle, each with the next owner in it.
pub(crate) fn links(cycle: &[LockWait]) -> impl Iterator<Item = (&LockWait, &Blob)> {
    cycle.iter().zip(cycle.iter().cycle().skip(1).map(|next| &next.who))
}

/// Error text for a request that would close a cycle.
pub(crate) fn text(cycle: &[LockWait]) -> String {
    let shown = |name: &Blob| {
        String::from_utf8_lossy(&name[..name.len().min(NAME_SHOWN_BYTES)]).into_owned()
    };
    let waits = links(cycle).take(SHOWN).map(|(wait, next)| {
        format!("{} waits for {} behind {}", shown(&wait.who), shown(&wait.lock), shown(next))
    });
    let mut text = waits.collect::<Vec<_>>().join(", ");
    if cycle.len() > SHOWN {
        text.push_str(&format!(", and so on for {} in all", cycle.len()));
    }
    text.push_str(": release your locks and start again");
    text
}
