//! What a shard counts about itself: how much it did, who waited for whom, and which keys are hot.

use adt::Blob;
use std::collections::BTreeMap;

/// Gives the numbers of a struct in one order, for everybody who passes all of them on.
macro_rules! numbers {
    ($name:ty, $count:literal: $($field:ident),* $(,)?) => {
        impl $name {
            /// All numbers, in a fixed order.
            pub fn numbers(&self) -> [u64; $count] {
                [$(self.$field),*]
            }

            /// The places of all numbers, in the order of [`Self::numbers`].
            pub fn numbers_mut(&mut self) -> [&mut u64; $count] {
                [$(&mut self.$field),*]
            }
        }
    };
}
pub(crate) use numbers;

/// Counters of one shard since it started, and its present sizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShardStats {
    /// Number of records.
    pub keys: u64,
    /// Records with an expiry.
    pub keys_with_expiry: u64,
    /// Requests received.
    pub requests: u64,
    /// Operations applied.
    pub operations: u64,
    /// Log entries proposed.
    pub log_appends: u64,
    /// Records in those entries.
    pub log_records: u64,
    /// Bytes of those entries.
    pub log_bytes: u64,
    /// Lock requests granted at once.
    pub granted: u64,
    /// Requests that had to wait for a lock.
    pub waited: u64,
    /// Time that they waited, in microseconds.
    pub waited_us: u64,
    /// Requests refused (no-wait conditions, overload).
    pub refused: u64,
    /// Phases begun under contention.
    pub phases: u64,
    /// Wound hints sent.
    pub wounds: u64,
    /// Requests waiting now.
    pub waiting: u64,
    /// Transactions prepared and not executed now.
    pub prepared: u64,
    /// Records removed because they had expired.
    pub expired: u64,
    /// Guards that did not hold.
    pub guard_failures: u64,
    /// Retries recognised by their request number.
    pub duplicates: u64,
    /// For pairs of lock modes ("set add", "set read"): how often the second waited for the first.
    pub conflicts: BTreeMap<(String, String), u64>,
    /// The keys that were waited for most: number of waits and microseconds waited.
    pub hot_keys: Vec<(Blob, u64, u64)>,
}

numbers!(
    ShardStats, 18:
    keys, keys_with_expiry, requests, operations, log_appends, log_records, log_bytes, granted,
    waited, waited_us, refused, phases, wounds, waiting, prepared, expired, guard_failures,
    duplicates,
);
