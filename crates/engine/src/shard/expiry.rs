//! Keys, and parts of values, that are due to expire: the leader decides that they have expired, and the log
//! says so.

use crate::entry::{Apply, LogRecord};
use crate::limits::{REAP_PARTS_PER_TURN_MAX, REAP_PER_TURN_MAX};
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::foreseen::Effects;
use crate::shard::tail::Recipient;
use adt::key::KeyOp;
use adt::{Blob, Op, Record};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Removals on their way through the log of keys, and of parts of values, that have expired.
#[derive(Debug, Default)]
pub(in crate::shard) struct Expiry {
    /// Keys that are removed.
    keys: BTreeSet<Blob>,
    /// Keys of which expired parts are removed.
    parts: BTreeMap<Blob, Parting>,
}

/// Removals of expired parts of one value.
#[derive(Debug, Default)]
struct Parting {
    /// All parts are removed that have expired by then, in milliseconds since 1970.
    until_ms: Option<u64>,
    /// Number of the removals.
    under_way: u32,
}

/// The removal of a number of expired parts of a value at most, in the log.
fn parting(key: &Blob, now_ms: u64, most: usize) -> Apply {
    let op = Op::Key(KeyOp::ReapParts { now_ms, most: most as u64 });
    Apply { ops: SmallVec::from_iter([(key.clone(), op)]), ..Apply::default() }
}

impl Expiry {
    /// Removes expired keys, and expired parts of values, that no request has asked for: of the latter no
    /// more than fit into a turn.
    pub fn reap_due(&mut self, core: &mut ShardCore, now: Now) {
        let now_ms = now.wall_ms();
        let due = core.state.records().due(now_ms).take(REAP_PER_TURN_MAX);
        let due: Vec<Blob> = due.map(|(_, key)| key.clone()).collect();
        for key in due {
            self.reap(core, now, &key);
        }
        let parting = core.state.records().parting(now_ms).take(REAP_PER_TURN_MAX);
        let parting: Vec<Blob> = parting.map(|(_, key)| key.clone()).collect();
        for key in &parting {
            if !self.parts.contains_key(key) {
                self.reap_parts(core, now_ms, key, REAP_PARTS_PER_TURN_MAX / parting.len());
            }
        }
    }

    /// Decides that all parts of a value that are due have expired, or some of them, if no transaction holds
    /// its key. Tells whether a removal of parts is on its way through the log.
    fn reap_parts(&mut self, core: &mut ShardCore, now_ms: u64, key: &Blob, most: usize) -> bool {
        let known = self.parts.get(key);
        let is_on_its_way = known.is_some();
        let until_ms = known.and_then(|parting| parting.until_ms);
        let next = core.state.get(key).and_then(|record| record.next_part_expiry_ms(until_ms));
        if next.is_none_or(|at| at > now_ms) || core.locks.is_held(key) {
            return is_on_its_way;
        }
        core.log(LogRecord::Apply(parting(key, now_ms, most)), Recipient::none());
        self.note_parting(key, (most == usize::MAX).then_some(now_ms));
        true
    }

    fn note_parting(&mut self, key: &Blob, until_ms: Option<u64>) {
        let parting = self.parts.entry(key.clone()).or_default();
        parting.until_ms = parting.until_ms.max(until_ms);
        parting.under_way += 1;
    }

    /// Decides that parts of a value have expired, which will be as given, if at all, when everything in the
    /// log is applied. The record is foreseen until a time on the monotonic clock; see [`Effects`].
    pub fn reap_parts_foreseen(
        &mut self,
        core: &mut ShardCore,
        key: &Blob,
        (record, until_us): (Option<Record>, u64),
        now_ms: u64,
    ) {
        let apply = parting(key, now_ms, usize::MAX);
        let records = vec![(key.clone(), record, until_us)];
        core.log_foreseen(apply, Recipient::none(), Effects { records, now_ms });
        self.note_parting(key, Some(now_ms));
    }

    /// Decides that a key has expired that will be there, with this expiry, when everything in the log is
    /// applied.
    pub fn reap_foreseen(
        &mut self,
        core: &mut ShardCore,
        key: &Blob,
        (expire_at_ms, now_ms): (u64, u64),
    ) {
        let op = Op::Key(KeyOp::Reap { expire_at_ms });
        let apply = Apply { ops: SmallVec::from_iter([(key.clone(), op)]), ..Apply::default() };
        self.keys.insert(key.clone());
        let records = vec![(key.clone(), None, 0)];
        core.log_foreseen(apply, Recipient::none(), Effects { records, now_ms });
    }

    /// Decides that `key`, or what is due of its value, has expired if no transaction holds it. Tells whether
    /// the decision is on its way through the log.
    pub fn reap(&mut self, core: &mut ShardCore, now: Now, key: &Blob) -> bool {
        if self.keys.contains(key) {
            return true;
        }
        let expiry = core.state.get(key).and_then(Record::expire_at_ms);
        let Some(expire_at_ms) = expiry.filter(|at| *at <= now.wall_ms()) else {
            return self.reap_parts(core, now.wall_ms(), key, usize::MAX);
        };
        if core.locks.is_held(key) {
            return false;
        }
        self.keys.insert(key.clone());
        let op = Op::Key(KeyOp::Reap { expire_at_ms });
        let apply = Apply { ops: SmallVec::from_iter([(key.clone(), op)]), ..Apply::default() };
        core.log(LogRecord::Apply(apply), Recipient::none());
        true
    }

    /// Reaps those of `keys` that have expired, and expired parts of the values of others. Tells whether some
    /// removal is on its way through the log. In the usual case nothing is due at all, and one comparison
    /// finds that out.
    #[inline]
    pub fn reap_all<'k>(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        keys: impl Iterator<Item = &'k Blob>,
    ) -> bool {
        let due = core.state.records().next_expiry_ms().is_some_and(|at| at <= now.wall_ms());
        due && keys.filter(|key| self.reap(core, now, key)).count() > 0
    }

    /// Counts an applied removal.
    pub fn applied(&mut self, core: &mut ShardCore, apply: &Apply) {
        match apply.ops.first() {
            Some((key, Op::Key(KeyOp::ReapParts { .. }))) => {
                if let Some(parting) = self.parts.get_mut(key) {
                    parting.under_way -= 1;
                    if parting.under_way == 0 {
                        self.parts.remove(key);
                    }
                }
            }
            Some((key, _)) if self.keys.remove(key) => core.stats.expired += 1,
            _ => {}
        }
    }
}
