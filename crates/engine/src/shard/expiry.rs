//! Keys that are due to expire: the leader decides that they have expired, and the log says so.

use crate::entry::{Apply, LogRecord};
use crate::limits::REAP_PER_TURN_MAX;
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::foreseen::Effects;
use crate::shard::tail::Recipient;
use adt::key::KeyOp;
use adt::{Blob, Op};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Expired keys whose removal is on its way through the log.
#[derive(Debug, Default)]
pub(in crate::shard) struct Expiry(BTreeSet<Blob>);

impl Expiry {
    /// Removes expired keys that no request has asked for.
    pub fn reap_due(&mut self, core: &mut ShardCore, now: Now) {
        let due = core.state.records().due(now.wall_ms()).take(REAP_PER_TURN_MAX);
        let due: Vec<Blob> = due.map(|(_, key)| key.clone()).collect();
        for key in due {
            self.reap(core, now, &key);
        }
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
        self.0.insert(key.clone());
        let records = vec![(key.clone(), None, 0)];
        core.log_foreseen(apply, Recipient::none(), Effects { records, now_ms });
    }

    /// Decides that `key` has expired, if it is due and no transaction holds it. Tells whether the
    /// decision is on its way through the log.
    pub fn reap(&mut self, core: &mut ShardCore, now: Now, key: &Blob) -> bool {
        if self.0.contains(key) {
            return true;
        }
        let Some(expire_at_ms) = core.state.get(key).and_then(|r| r.expire_at_ms()) else {
            return false;
        };
        if expire_at_ms > now.wall_ms() || core.locks.is_held(key) {
            return false;
        }
        self.0.insert(key.clone());
        let op = Op::Key(KeyOp::Reap { expire_at_ms });
        let apply = Apply { ops: SmallVec::from_iter([(key.clone(), op)]), ..Apply::default() };
        core.log(LogRecord::Apply(apply), Recipient::none());
        true
    }

    /// Reaps those of `keys` that have expired. Tells whether some removal is on its way through the log.
    /// In the usual case, no key is due at all, and one comparison finds that out.
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
        if let Some((key, _)) = apply.ops.first()
            && self.0.remove(key)
        {
            core.stats.expired += 1;
        }
    }
}
