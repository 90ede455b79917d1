//! Knowledge of a shard's leader that is not in the log, as far as it concerns the replicated state.
//!
//! The state ([`super::state`]) is what every replica comes to from the same log. The leader knows
//! more: what it has proposed, and what it has seen happen to keys while it led. It is lost with the
//! lead. A replica that does not lead notes nothing.

mod removals;
mod unchanged;
mod versions;

use crate::ids::TxnId;
use crate::limits::REMOVAL_GROUPS;
use crate::message::{KeyEvent, Version};
use adt::command::database::database_of;
use adt::record::events::{Classes, Events};
use adt::{Blob, Ctx, Op, Record, Timestamp};
use removals::Removals;
use std::collections::BTreeSet;
use unchanged::Unchanged;
pub use versions::EarlierVersion;
use versions::Versions;

/// Knowledge of a leader that is not in the log, and what it has done ahead of it.
#[derive(Debug, Default)]
pub struct AheadOfLog {
    leads: bool,
    /// Transactions and units whose prepares are proposed and not committed. The state has them among
    /// the prepared ones.
    announced: BTreeSet<TxnId>,
    removals: Removals,
    unchanged: Unchanged,
    versions: Versions,
    /// Keys written since [`AheadOfLog::take_changed`], if some request waits for a change.
    changed: Vec<Blob>,
    reports_changes: bool,
    /// Keyspace events since [`AheadOfLog::take_events`], of the classes that some gateway wants.
    events: Vec<KeyEvent>,
    wanted: Classes,
    /// Decided transactions that have begun to wait for another one since [`AheadOfLog::take_moved`].
    moved: Vec<TxnId>,
}

impl AheadOfLog {
    /// A lead of this replica in `term`: nothing is known of what happened before it.
    pub fn of_lead(term: u64) -> Self {
        Self { leads: true, removals: Removals::of_lead(term), ..Self::default() }
    }

    /// Whether this replica leads the shard.
    pub fn leads(&self) -> bool {
        self.leads
    }

    /// Notes a prepare that is proposed.
    pub fn announce(&mut self, txn: TxnId) {
        self.announced.insert(txn);
    }

    /// Notes that a prepare is committed. Tells whether it was announced.
    pub fn confirm(&mut self, txn: TxnId) -> bool {
        self.announced.remove(&txn)
    }

    /// Whether a prepare was proposed and is not committed yet.
    pub fn is_announced(&self, txn: TxnId) -> bool {
        self.announced.contains(&txn)
    }

    /// Prepares that were proposed and are not committed.
    pub fn into_announced(self) -> BTreeSet<TxnId> {
        self.announced
    }

    /// Begins or ends to remember which keys are written, for [`AheadOfLog::take_changed`].
    pub fn report_changes(&mut self, on: bool) {
        self.reports_changes = on;
    }

    /// Keys written since the last call.
    pub fn take_changed(&mut self) -> Vec<Blob> {
        std::mem::take(&mut self.changed)
    }

    /// Remembers keyspace events of these classes from now on, for [`AheadOfLog::take_events`].
    pub fn report_events(&mut self, wanted: Classes) {
        self.wanted = wanted;
    }

    /// Whether keyspace events are remembered.
    #[inline]
    pub fn reports_events(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Keyspace events since the last call.
    pub fn take_events(&mut self) -> Vec<KeyEvent> {
        std::mem::take(&mut self.events)
    }

    /// Notes keyspace events of a key, unless it is one of the store's own.
    pub fn happened(&mut self, key: &Blob, events: Events) {
        if database_of(key).is_some() {
            let wanted = events.into_iter().filter(|event| self.wanted.has(event.class));
            self.events.extend(wanted.map(|event| KeyEvent { key: key.clone(), event }));
        }
    }

    /// Notes a write to a key.
    #[inline]
    pub fn written(&mut self, key: &Blob) {
        if self.reports_changes {
            self.changed.push(key.clone());
        }
    }

    /// Notes that a write is about to be carried out on a record.
    #[inline]
    pub fn before_write(&mut self, key: &Blob, record: Option<&Record>, op: &Op, ctx: &Ctx) {
        if self.versions.any() {
            self.versions.keep(key, record, op, ctx);
        }
    }

    /// Whether earlier versions of some record are kept.
    #[inline]
    pub fn keeps_versions(&self) -> bool {
        self.versions.any()
    }

    /// Keeps earlier versions of a record for a while, which was last written to at `since`.
    pub fn want_versions(&mut self, key: &Blob, since: Timestamp, now: Timestamp) {
        if self.leads {
            self.versions.want(key, since, now);
        }
    }

    /// Version of a record at a timestamp before its last write, if it is kept.
    pub fn version_at(&self, key: &[u8], ts: Timestamp) -> Option<&EarlierVersion> {
        self.versions.at(key, ts)
    }

    /// Timestamp of the last write to a record, if its versions are kept.
    pub fn last_written(&self, key: &[u8]) -> Option<Timestamp> {
        self.versions.written(key)
    }

    /// Forgets earlier versions of records: records change in another way than by single writes.
    pub fn forget_versions(&mut self) {
        self.versions.clear();
    }

    /// Notes a write at `now` that has left a record as it was, which was last written to at `before`.
    pub fn left_unchanged(&mut self, key: &Blob, before: Timestamp, now: Timestamp) {
        if self.leads {
            self.unchanged.note(key, before, now);
        }
    }

    /// Notes the removal of a key, by its hash.
    pub fn removed(&mut self, hash: impl FnOnce() -> u64) {
        if self.leads {
            self.removals.note(hash());
        }
    }

    /// Notes the removal of all `count` keys, each with the hash that `hash` gives.
    pub fn emptied<'k>(
        &mut self,
        count: usize,
        keys: impl Iterator<Item = &'k Blob>,
        hash: impl Fn(&Blob) -> u64,
    ) {
        self.versions.clear();
        // A client that watches an absent key need not hear of it, unless there are so many keys that
        // most groups of them have one.
        let many = count > REMOVAL_GROUPS;
        if many && self.leads {
            self.removals.note_all();
        }
        if self.reports_changes || !many {
            for key in keys {
                if !many {
                    self.removed(|| hash(key));
                }
                self.written(key);
            }
        }
    }

    /// Version that a guard may ask of a key that is absent now.
    pub fn absent(&self) -> Version {
        self.removals.absent()
    }

    /// Whether a key with this hash that was absent at `version` was certainly not removed since.
    pub fn stayed_absent(&self, hash: impl FnOnce() -> u64, version: Version) -> bool {
        let Version::Absent { term, removals } = version else { return true };
        self.removals.none_since(hash(), (term, removals))
    }

    /// Whether a record that was last written to at `written` is as it was at `seen`.
    pub fn unchanged_since(&self, key: &Blob, seen: Timestamp, written: Timestamp) -> bool {
        self.unchanged.since(key, seen, written)
    }

    /// Notes a decided transaction that begins to wait for another one.
    pub fn moved(&mut self, txn: TxnId) {
        if self.leads {
            self.moved.push(txn);
        }
    }

    /// Decided transactions that have begun to wait for another one since the last call.
    pub fn take_moved(&mut self) -> Vec<TxnId> {
        std::mem::take(&mut self.moved)
    }
}
