//! Behaviour of clients of locks, and the names of the keys they use.

use crate::random::Random;

/// Behaviour of the clients of a run.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Number of locks, and number of places that each guards.
    pub(in crate::clients::holder) locks: u64,
    pub(in crate::clients::holder) places: u64,
    pub(in crate::clients::holder) lease_ms: u64,
    /// Limit on the wait for a lock; 0 for none.
    pub(in crate::clients::holder) timeout_ms: u64,
    /// Typical time between two steps.
    pub(in crate::clients::holder) work_us: u64,
    /// Percentage of steps with a pause of up to three leases.
    pub(in crate::clients::holder) stands_percent: u64,
    /// Percentage of steps before which the lease is renewed.
    pub(in crate::clients::holder) renews_percent: u64,
    /// Percentage of locks that are not released, or left with the connection.
    pub(in crate::clients::holder) forgets_percent: u64,
    /// Percentage of acquisitions that share the lock, and of those with a request number.
    pub(in crate::clients::holder) shared_percent: u64,
    /// Limit on shared holders; 0 for none.
    pub(in crate::clients::holder) limit: usize,
    /// Percentage of acquisitions that do not wait.
    pub(in crate::clients::holder) tries_percent: u64,
    pub(in crate::clients::holder) numbered_percent: u64,
    /// Whether clients write in transactions that read the lock, and not under fences.
    pub(in crate::clients::holder) requires: bool,
    /// Percentage of holders whose lock is broken by another client.
    pub(in crate::clients::holder) breaks_percent: u64,
    /// Percentage of uses of a lock that are a section only.
    pub(in crate::clients::holder) sections_percent: u64,
    /// Percentage of acquisitions and observations that concern leaders.
    pub(in crate::clients::holder) elections_percent: u64,
    /// Percentage of steps at a barrier, and the number of its parties.
    pub(in crate::clients::holder) meets_percent: u64,
    pub(in crate::clients::holder) parties: usize,
    /// Percentage of acquisitions of several tokens.
    pub(in crate::clients::holder) blocks_percent: u64,
    /// Percentage of other acquisitions that leave the lock with the server.
    pub(in crate::clients::holder) near_percent: u64,
    /// Percentage of other acquisitions that let successors be named, and may become one.
    pub(in crate::clients::holder) next_percent: u64,
}

impl Habits {
    /// Draws the behaviour of all clients of a run.
    pub fn draw(random: &mut Random, cluster: bool) -> Self {
        let leases = if cluster { [100, 400, 1_500, 4_000] } else { [20, 50, 200, 500] };
        let lease_ms = *random.pick(&leases);
        let requires = random.percent(25);
        // Shared holders of a lock have smaller and larger tokens.
        let shared_percent = *random.pick(&[0, 0, 0, 40]);
        let habits = Self {
            locks: random.between(1, 3),
            places: random.between(1, 2),
            lease_ms,
            timeout_ms: *random.pick(&[0, 0, lease_ms, 3 * lease_ms, 10]),
            work_us: *random.pick(&[lease_ms * 10, lease_ms * 50, lease_ms * 200]),
            stands_percent: *random.pick(&[0, 5, 30]),
            renews_percent: *random.pick(&[0, 20, 60]),
            forgets_percent: *random.pick(&[0, 5, 30]),
            shared_percent: if requires { 0 } else { shared_percent },
            limit: *random.pick(&[0, 1, 2, 3]),
            tries_percent: *random.pick(&[0, 0, 30]),
            requires,
            numbered_percent: *random.pick(&[0, 50, 100]),
            breaks_percent: *random.pick(&[0, 0, 0, 5]),
            sections_percent: *random.pick(&[0, 20, 50]),
            elections_percent: *random.pick(&[0, 30, 80]),
            meets_percent: *random.pick(&[0, 10, 40]),
            parties: *random.pick(&[2, 2, 3]),
            // Writes of a transaction that reads the lock are not compared by token.
            blocks_percent: if requires { 0 } else { *random.pick(&[0, 40, 100]) },
            // A transaction cannot read which client a server has admitted.
            near_percent: if requires { 0 } else { *random.pick(&[0, 50, 100]) },
            // Nor whether a client that may have passed the lock on still holds it.
            next_percent: if requires { 0 } else { *random.pick(&[0, 60, 100]) },
        };
        match !requires && random.percent(30) {
            true => habits.of_what_is_handed_on(random),
            false => habits,
        }
    }

    /// Behaviour in which nearly all clients wait for one exclusive lock and are named as
    /// successors.
    fn of_what_is_handed_on(self, random: &mut Random) -> Self {
        Self {
            locks: 1,
            work_us: *random.pick(&[500, self.lease_ms * 20, self.lease_ms * 200]),
            shared_percent: 0,
            tries_percent: 0,
            sections_percent: *random.pick(&[0, 0, 20]),
            elections_percent: 0,
            meets_percent: 0,
            blocks_percent: 0,
            near_percent: 0,
            next_percent: 100,
            ..self
        }
    }

    /// Keys of the data that a lock guards in one of its places. They share a slot, as fenced
    /// writes must, except in transactions.
    pub(in crate::clients::holder) fn keys(&self, place: &str) -> (String, String) {
        let elsewhere = if self.requires { "-elsewhere" } else { "" };
        (format!("reg{{{place}}}"), format!("jou{{{place}{elsewhere}}}"))
    }

    /// All places with their registers and journals.
    pub fn all(&self) -> Vec<(String, String, String)> {
        let places = (0..self.locks).flat_map(|lock| (0..self.places).map(move |n| (lock, n)));
        let named = places.map(|(lock, n)| place(lock, n));
        let with_keys = named.map(|place| {
            let (register, journal) = self.keys(&place);
            (place, register, journal)
        });
        with_keys.collect()
    }
}

/// Whether a key is a lock or belongs to the data that one guards.
pub fn is_of_locks(key: &str) -> bool {
    ["lock", "reg{", "jou{", "barrier"].iter().any(|prefix| key.starts_with(prefix))
}

pub(in crate::clients::holder) fn lock_name(lock: u64) -> String {
    format!("lock{lock}")
}

/// Name of a place. The first place of a lock is on the lock's shard; others may be anywhere.
pub(in crate::clients::holder) fn place(lock: u64, n: u64) -> String {
    if n == 0 { lock_name(lock) } else { format!("place{lock}-{n}") }
}
