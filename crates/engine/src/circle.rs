//! Circles of those who wait for each other's locks, whoever has collected who waits for whom: a shard
//! for the locks that it has (`shard/waiting/circles.rs`), a gateway for those of all shards
//! (`gateway/waiting/circles.rs`).
//!
//! Who waits stands behind those who hold the lock, as far as all of them must go, and behind those in
//! front in its queue, for nobody overtakes. They are known by the names of owners: whoever has a name
//! waits for one thing at a time.

use crate::limits::CIRCLE_STEPS_MAX;
use adt::{Blob, Reply};
use std::collections::{BTreeMap, VecDeque};

/// How many of a circle are told, and how many bytes of each name.
const SHOWN: usize = 8;
const NAME_SHOWN_BYTES: usize = 64;

/// Somebody waits for a lock.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wait {
    /// Which wait it is, among all that the leader of the lock's shard has known, and since when on
    /// the clock of that one: the same wait, if both are the same.
    pub number: u64,
    pub since_us: u64,
    pub who: Blob,
    pub lock: Blob,
    /// Who has the lock and must let it go.
    pub holders: Vec<Blob>,
    /// Who is in front in its queue.
    pub ahead: Vec<Blob>,
}

impl Wait {
    /// Behind whom this one stands.
    pub fn behind(&self) -> impl Iterator<Item = &Blob> {
        self.holders.iter().chain(&self.ahead)
    }

    /// Whether it is the wait that the other one was.
    pub fn is(&self, other: &Self) -> bool {
        self.number == other.number && self.since_us == other.since_us && self.who == other.who
    }

    fn told(&self) -> Reply {
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

    fn understood(told: Reply) -> Option<Self> {
        let Reply::Array(parts) = told else { return None };
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

/// Waits as a shard tells them to a gateway.
pub(crate) fn told(waits: &[Wait]) -> Reply {
    Reply::Array(waits.iter().map(Wait::told).collect())
}

/// What a shard has told, if that is what it has told.
pub(crate) fn understood(told: Reply) -> Option<Vec<Wait>> {
    let Reply::Array(waits) = told else { return None };
    waits.into_iter().map(Wait::understood).collect()
}

/// The shortest circle that one of somebody's waits is in, from that wait to one behind that somebody; none
/// if more than [`CIRCLE_STEPS_MAX`] would have to be looked at.
pub(crate) fn find(first: Wait, mut waits_of: impl FnMut(&Blob) -> Vec<Wait>) -> Option<Vec<Wait>> {
    let name = first.who.clone();
    // Behind whom those are that were met.
    let mut met: BTreeMap<Blob, Wait> = BTreeMap::new();
    let mut next = VecDeque::from([first]);
    let mut steps = 0;
    while let Some(wait) = next.pop_front() {
        if wait.holders.contains(&name) {
            return Some(path(&met, wait, &name));
        }
        // That the first one is in front of somebody is no circle: it does not wait there any more.
        for behind in wait.behind().filter(|behind| **behind != name) {
            steps += 1;
            if steps > CIRCLE_STEPS_MAX {
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

/// The waits from the first one to the last, which is behind the first one.
fn path(met: &BTreeMap<Blob, Wait>, last: Wait, first: &Blob) -> Vec<Wait> {
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

/// Each wait of a circle, and who is in its way.
pub(crate) fn links(circle: &[Wait]) -> impl Iterator<Item = (&Wait, &Blob)> {
    circle.iter().zip(circle.iter().cycle().skip(1).map(|next| &next.who))
}

/// What whoever is refused for a circle is told.
pub(crate) fn text(circle: &[Wait]) -> String {
    let shown = |name: &Blob| {
        String::from_utf8_lossy(&name[..name.len().min(NAME_SHOWN_BYTES)]).into_owned()
    };
    let waits = links(circle).take(SHOWN).map(|(wait, next)| {
        format!("{} waits for {} behind {}", shown(&wait.who), shown(&wait.lock), shown(next))
    });
    let mut text = waits.collect::<Vec<_>>().join(", ");
    if circle.len() > SHOWN {
        text.push_str(&format!(", and so on for {} in all", circle.len()));
    }
    text.push_str(": give back what you hold, and begin anew");
    text
}
