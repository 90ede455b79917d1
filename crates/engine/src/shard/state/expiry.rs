//! Keys whose time has come: the leader decides that they have expired, and the log says so.

use crate::entry::{Apply, LogRecord};
use crate::limits::REAP_PER_TURN_MAX;
use crate::now::Now;
use crate::shard::{Recipient, Shard};
use adt::key::KeyOp;
use adt::{Blob, Op};
use smallvec::SmallVec;

impl Shard {
    /// Removes expired keys that nobody has asked for.
    pub(in crate::shard) fn reap_due(&mut self, now: Now) {
        let due: Vec<Blob> = self
            .core
            .state
            .due(now.wall_ms())
            .take(REAP_PER_TURN_MAX)
            .map(|(_, key)| key.clone())
            .collect();
        for key in due {
            self.reap(now, &key);
        }
    }

    /// Decides that `key` has expired, if it is time and nobody holds it. Tells whether the
    /// decision is on its way through the log.
    pub(in crate::shard) fn reap(&mut self, now: Now, key: &Blob) -> bool {
        if self.reaping.contains(key) {
            return true;
        }
        let Some(expire_at_ms) = self.core.state.get(key).and_then(|r| r.expire_at_ms) else {
            return false;
        };
        if expire_at_ms > now.wall_ms() || self.core.locks.is_held(key) {
            return false;
        }
        self.reaping.insert(key.clone());
        let op = Op::Key(KeyOp::Reap { expire_at_ms });
        let apply = Apply { ops: SmallVec::from_iter([(key.clone(), op)]), ..Apply::default() };
        self.core.log(LogRecord::Apply(apply), Recipient::none());
        true
    }

    /// Whether some key is due: one comparison in the usual case.
    pub(in crate::shard) fn something_expired(&self, now: Now) -> bool {
        self.core.state.next_expiry_ms().is_some_and(|at| at <= now.wall_ms())
    }
}
