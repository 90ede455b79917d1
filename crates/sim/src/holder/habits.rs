//! What clients of locks are like, and the names of what they use.

use crate::random::Random;

/// What the clients of a run are like.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// How many locks there are, and how many places each guards.
    pub(super) locks: u64,
    pub(super) places: u64,
    pub(super) lease_ms: u64,
    /// How long they wait for a lock at most; nought is for ever.
    pub(super) timeout_ms: u64,
    /// How long they work between two steps, mostly.
    pub(super) work_us: u64,
    /// How many of a hundred steps they stand still at, for up to three leases.
    pub(super) stands_percent: u64,
    /// How many of a hundred steps they renew the lease before.
    pub(super) renews_percent: u64,
    /// How many of a hundred times they do not give the lock back, or leave it with the connection.
    pub(super) forgets_percent: u64,
    /// How many of a hundred acquisitions share the lock, and how many have a request number.
    pub(super) shared_percent: u64,
    /// How many share it at most, if there is a limit; nought is none.
    pub(super) limit: usize,
    /// How many of a hundred acquisitions do not wait.
    pub(super) tries_percent: u64,
    pub(super) numbered_percent: u64,
    /// What they write they write in transactions that read the lock, and not under fences.
    pub(super) requires: bool,
    /// How many of a hundred holders somebody takes the lock away from.
    pub(super) breaks_percent: u64,
    /// How many of a hundred times they need a lock for a section only.
    pub(super) sections_percent: u64,
    /// How many of a hundred acquisitions and looks are about leaders.
    pub(super) elections_percent: u64,
    /// How many of a hundred times they come to a barrier, and for how many that is.
    pub(super) meets_percent: u64,
    pub(super) parties: usize,
    /// How many of a hundred acquisitions are for several tokens.
    pub(super) blocks_percent: u64,
    /// How many of a hundred other acquisitions leave the lock with the server.
    pub(super) near_percent: u64,
    /// How many of a hundred others have their successors named, and may be named.
    pub(super) next_percent: u64,
}

impl Habits {
    /// The habits of all clients of a run.
    pub fn draw(random: &mut Random, cluster: bool) -> Self {
        let leases = if cluster { [100, 400, 1_500, 4_000] } else { [20, 50, 200, 500] };
        let lease_ms = *random.pick(&leases);
        let requires = random.percent(25);
        // Who shares a lock holds it with smaller and larger tokens.
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
            // What is written in a transaction that reads the lock is not compared by its token.
            blocks_percent: if requires { 0 } else { *random.pick(&[0, 40, 100]) },
            // A transaction cannot read whom a server has let in.
            near_percent: if requires { 0 } else { *random.pick(&[0, 50, 100]) },
            // Nor whether whoever may have passed it on holds it.
            next_percent: if requires { 0 } else { *random.pick(&[0, 60, 100]) },
        };
        match !requires && random.percent(30) {
            true => habits.of_what_is_handed_on(random),
            false => habits,
        }
    }

    /// The same where nearly everybody waits for one lock, alone, and is named before it has it.
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

    /// The keys of what a lock guards in one of its places: they are in one slot, as what is fenced together
    /// must be, but for transactions.
    pub(super) fn keys(&self, place: &str) -> (String, String) {
        let elsewhere = if self.requires { "-elsewhere" } else { "" };
        (format!("reg{{{place}}}"), format!("jou{{{place}{elsewhere}}}"))
    }

    /// Every place with its register and its journal.
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

/// Whether a key is a lock, or what one guards.
pub fn is_of_locks(key: &str) -> bool {
    ["lock", "reg{", "jou{", "barrier"].iter().any(|prefix| key.starts_with(prefix))
}

pub(super) fn lock_name(lock: u64) -> String {
    format!("lock{lock}")
}

/// The first place of a lock is where the lock is; others may be anywhere.
pub(super) fn place(lock: u64, n: u64) -> String {
    if n == 0 { lock_name(lock) } else { format!("place{lock}-{n}") }
}
