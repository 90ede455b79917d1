//! Deadlocks: whoever would close a circle of those who wait for each other's locks is refused at once.
//!
//! Who waits stands behind those who hold the lock, as far as all of them must go, and behind those in
//! front in its queue, for nobody overtakes. They are known by the names of owners: whoever has a name
//! waits for one thing at a time. A circle closes when somebody begins to wait, so that this is when
//! it is looked for. A shard sees the locks that it has; a circle over several shards is not found.

use super::Shard;
use super::turns::Number;
use crate::limits::CIRCLE_STEPS_MAX;
use crate::message::Now;
use adt::{Blob, ErrorReply, record};
use std::collections::{BTreeMap, VecDeque};

/// How many of a circle are told, and how many bytes of each name.
const SHOWN: usize = 8;
const NAME_SHOWN_BYTES: usize = 64;

/// Somebody waits for a lock.
#[derive(Clone)]
struct Wait {
    who: Blob,
    lock: Blob,
}

impl Shard {
    /// The error for a turn that waits in a circle and is to be refused then.
    pub(super) fn circle(&self, now: Now, number: Number) -> Option<ErrorReply> {
        let (_, _, op) = self.turns.what(number)?;
        let first = op.waiter().filter(|_| op.detects())?;
        // Behind whom those are that were met, as somebody who waits for something.
        let mut met: BTreeMap<Blob, Wait> = BTreeMap::new();
        let mut next = VecDeque::from([number]);
        let mut steps = 0;
        while let Some(number) = next.pop_front() {
            let Some((_, lock, op)) = self.turns.what(number) else { continue };
            let Some(who) = op.waiter() else { continue };
            let wait = Wait { who: who.clone(), lock: lock.clone() };
            let holders = record::in_the_way(self.state.get(lock), op, now.wall_ms());
            if holders.contains(first) {
                return Some(told(&path(&met, wait, first)));
            }
            // That the first one is in front of somebody is no circle: it does not wait there any more.
            let ahead = self.turns.ahead(lock, number).filter(|name| *name != first);
            for name in holders.iter().chain(ahead) {
                steps += 1;
                if steps > CIRCLE_STEPS_MAX {
                    return None;
                }
                if !met.contains_key(name) {
                    met.insert(name.clone(), wait.clone());
                    next.extend(self.turns.of_name(name).map(|(number, ..)| number));
                }
            }
        }
        None
    }
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

fn told(circle: &[Wait]) -> ErrorReply {
    let shown = |name: &Blob| {
        String::from_utf8_lossy(&name[..name.len().min(NAME_SHOWN_BYTES)]).into_owned()
    };
    let behind = circle.iter().cycle().skip(1);
    let waits = circle.iter().zip(behind).take(SHOWN).map(|(wait, next)| {
        format!("{} waits for {} behind {}", shown(&wait.who), shown(&wait.lock), shown(&next.who))
    });
    let mut text = waits.collect::<Vec<_>>().join(", ");
    if circle.len() > SHOWN {
        text.push_str(&format!(", and so on for {} in all", circle.len()));
    }
    ErrorReply::new("DEADLOCK", format!("{text}: give back what you hold, and begin anew"))
}
