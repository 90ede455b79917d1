//! Should a process keep a lock that it leaves, until somebody else wants it?
//!
//! If the next one who wants it is of the same process, a kept lock saves a request, C + L. If it is somebody
//! else, the lock is recalled first, which takes them a round trip longer, C. Who it will be
//! nobody knows; what was is counted. This is the rule of reactive locks (Lim and Agarwal, *Reactive
//! Synchronization Algorithms for Multiprocessors*, ASPLOS 1994): what one way has wasted decides
//! when the other one is tried, so that the sum is never much worse than the better one of the two.
//!
//! A try that was in vain costs others one recall, and the next one comes later: after eight locks at
//! first, sixty-four in the end. One that is wanted again sooner than somebody else could have had it, who
//! was not there yet, counts for eight.

/// A try in vain doubles the time to the next one, so often at most.
const DOUBLINGS: u32 = 3;
/// So many locks of the process come before the first try.
const LOCKS: u32 = 8;
/// As which a lock counts that is wanted again at once.
const AT_ONCE: u32 = 8;
/// How far those who came back may be ahead of recalls.
const AHEAD: u32 = 3;

/// Whether a process keeps a lock: a state machine that is told what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    keeps: bool,
    /// While it goes back: locks since the last try, by their weight.
    seen: u32,
    /// While it stays: those who came back beyond those who recalled it.
    ahead: u32,
    /// Tries in vain one after another.
    in_vain: u32,
    /// The least that it took to have the lock from the server: without waiting for others.
    least: u64,
}

impl Default for Keep {
    fn default() -> Self {
        Self { keeps: false, seen: 0, ahead: 0, in_vain: 0, least: u64::MAX }
    }
}

impl Keep {
    /// Whether the lock stays with the process when it is left.
    pub const fn keeps(self) -> bool {
        self.keeps
    }

    /// The process has had the lock from the server: `away` after it gave it back it wanted the lock again,
    /// and had it after `took`, both in the same unit.
    pub fn granted(&mut self, away: u64, took: u64) {
        self.least = self.least.min(took);
        if self.keeps {
            return;
        }
        self.seen += if away < self.least { AT_ONCE } else { 1 };
        self.keeps = self.seen >= LOCKS << self.in_vain;
        self.ahead = 1;
    }

    /// The lock was kept, and somebody of the process entered it.
    pub fn came_back(&mut self) {
        if self.keeps {
            self.ahead = (self.ahead + 1).min(AHEAD);
            self.in_vain = 0;
        }
    }

    /// The lock was kept, and somebody else wanted it while nobody of the process did.
    pub fn recalled(&mut self) {
        if self.keeps {
            self.ahead -= 1;
            self.keeps = self.ahead > 0;
            if !self.keeps {
                self.seen = 0;
                self.in_vain = (self.in_vain + 1).min(DOUBLINGS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent for locks whose next user is of the same process as `same` says, in turns, and how many
    /// of them were recalled from a process that kept them idle.
    fn course(users: impl IntoIterator<Item = bool>, away: u64) -> (u32, u32) {
        let (mut keep, mut asked, mut recalled) = (Keep::default(), 0, 0);
        let mut has = false;
        for ours in users {
            match (ours, has) {
                (true, true) => keep.came_back(),
                (true, false) => {
                    // Nobody comes back the first time.
                    keep.granted(if asked == 0 { u64::MAX } else { away }, 20);
                    asked += 1;
                    has = keep.keeps();
                }
                (false, true) => {
                    recalled += 1;
                    keep.recalled();
                    has = false;
                }
                (false, false) => {}
            }
        }
        (asked, recalled)
    }

    #[test]
    fn a_lock_that_nobody_else_wants_stays_after_the_second_time_at_once_or_the_eighth() {
        assert_eq!(course([true; 1_000], 0), (2, 0));
        assert_eq!(course([true; 1_000], 1_000), (8, 0));
    }

    #[test]
    fn a_lock_that_others_want_next_goes_back_each_time_but_for_a_few_tries() {
        let turns = |count: usize| [true, false].into_iter().cycle().take(2 * count);
        let (asked, recalled) = course(turns(1_000), 1_000);
        assert_eq!(asked, 1_000);
        // 8 + 16 + 32, and every 64 from then on.
        assert_eq!(recalled, 3 + (1_000 - 56) / 64);
        let (_, recalled) = course(turns(1_000), 0);
        assert!(recalled < 1_000 / 7, "at once: {recalled}");
    }

    #[test]
    fn bursts_keep_it_and_ask_once_each() {
        let bursts = (0..100).flat_map(|_| [true, true, true, true, true, false]);
        let (asked, recalled) = course(bursts, 1_000);
        assert!((100..110).contains(&asked), "{asked}");
        assert!(recalled >= 97, "{recalled}");
    }

    #[test]
    fn a_change_of_users_is_followed() {
        let alone = [true; 100].into_iter();
        let shared = [true, false].into_iter().cycle().take(1_000);
        let (asked, recalled) = course(alone.chain(shared).chain([true; 500]), 1_000);
        assert!(recalled < 20, "{recalled}");
        assert!(asked < 8 + 500 + 64, "{asked}");
    }
}
