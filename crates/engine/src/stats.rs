//! Counters of a shard: its work, its waits by pairs of modes, and its hot keys.

use adt::Blob;
use std::collections::BTreeMap;

/// Generates methods that list the numbers of a struct in a fixed order, for code that forwards all
/// of them.
macro_rules! numbers {
    ($name:ty, $count:literal: $($field:ident),* $(,)?) => {
        impl $name {
            /// All numbers, in a fixed order.
            pub fn numbers(&self) -> [u64; $count] {
                [$(self.$field),*]
            }

            /// References to all numbers, in the order of [`Self::numbers`].
            pub fn numbers_mut(&mut self) -> [&mut u64; $count] {
                [$(&mut self.$field),*]
            }
        }
    };
}
pub(crate) use numbers;

/// Upper ends of the buckets in which durations are counted, in microseconds; one more bucket holds
/// everything longer.
pub const BUCKETS_US: [u64; 18] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// Histogram of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    counts: [u64; BUCKETS_US.len() + 1],
    /// Sum of all durations, in microseconds.
    pub sum_us: u64,
}

impl Durations {
    /// Adds a duration.
    pub fn record(&mut self, us: u64) {
        self.counts[BUCKETS_US.partition_point(|end_us| *end_us < us)] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// For each bucket its upper end, and the number of durations up to it.
    pub fn up_to(&self) -> impl Iterator<Item = (u64, u64)> {
        let sums = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        BUCKETS_US.into_iter().zip(sums)
    }
}

/// Counters of the locks of one shard (`LOCK.*`, `ELECTION.*`) since it started, as its leader has
/// seen them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockStats {
    /// Grants, including those of sections.
    pub granted: u64,
    /// Attempts without waiting that were refused.
    pub refused: u64,
    /// Locks that were released.
    pub ended: u64,
    /// Releases and renewals of locks that were not held any more.
    pub gone: u64,
    /// Waits that ended without a grant at their time-out.
    pub timed_out: u64,
    /// Waits that were refused because they would have closed a deadlock cycle.
    pub deadlocks: u64,
    /// Grants that were sent before the release was durable.
    pub early: u64,
    /// Commands that came with too small a fencing token.
    pub fenced: u64,
    /// Requests that wait for their turn now, at barriers as well.
    pub waiting: u64,
    /// Waiting time of the longest of them, in microseconds.
    pub longest_us: u64,
    /// Times from the request to the grant, for requests with a time-out above 0.
    pub waits: Durations,
    /// Times from the grant to the release.
    pub holds: Durations,
    /// Longest queues: key, number of waiters, and the longest wait in microseconds.
    pub queues: Vec<(Blob, u64, u64)>,
}

numbers!(
    LockStats, 10:
    granted, refused, ended, gone, timed_out, deadlocks, early, fenced, waiting, longest_us,
);

/// Counters of one shard since it started, and its present sizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShardStats {
    /// Number of records, in all databases.
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
    /// Databases other than 0 that have records, with the numbers of the records and of those with an
    /// expiry.
    pub databases: Vec<(u8, u64, u64)>,
    /// Counters of named locks. They are not sent to other machines.
    pub locks: LockStats,
}

numbers!(
    ShardStats, 18:
    keys, keys_with_expiry, requests, operations, log_appends, log_records, log_bytes, granted,
    waited, waited_us, refused, phases, wounds, waiting, prepared, expired, guard_failures,
    duplicates,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_up_to_the_ends_of_their_buckets() {
        let mut durations = Durations::default();
        [0, 100, 101, 60_000_000, 60_000_001].into_iter().for_each(|us| durations.record(us));
        let up_to: Vec<(u64, u64)> = durations.up_to().collect();
        assert_eq!((up_to[0], up_to[1]), ((100, 2), (250, 3)));
        assert_eq!((up_to[17], durations.count()), ((60_000_000, 4), 5));
        assert_eq!(durations.sum_us, 120_000_202);
    }
}
