//! Decision whether a process keeps a lock that its tasks have left, until another client wants it.
//!
//! If the next request for the lock is of the same process, a kept lock saves a request, C + L. If
//! it is another client's, the lock has to be recalled first, which costs that client one more
//! round trip, C. The next requester is unknown, but past ones can be counted. The rule is that of
//! reactive locks (Lim and Agarwal, *Reactive Synchronization Algorithms for Multiprocessors*,
//! ASPLOS 1994): the cost that one policy has wasted decides when the other one is tried, so that
//! the sum is never much worse than the better one of the two.
//!
//! A failed try costs other clients one recall, and the next try comes later: after eight locks at
//! first, after sixty-four in the end. A lock that the process requests again sooner than any
//! client that was not yet waiting could have had it counts for eight.

/// Most doublings of the time to the next try, one for each failed try.
const DOUBLINGS: u32 = 3;
/// Locks of the process before the first try.
const LOCKS: u32 = 8;
/// Weight of a lock that is requested again at once.
const AT_ONCE: u32 = 8;
/// Most that returns to a kept lock may be ahead of recalls.
const AHEAD: u32 = 3;

/// State machine that decides whether a process keeps a lock, from the events of that lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    keeps: bool,
    /// While the lock is given back each time: locks since the last try, by their weight.
    seen: u32,
    /// While the lock is kept: returns minus recalls.
    ahead: u32,
    /// Consecutive failed tries.
    in_vain: u32,
    /// Shortest time that the server took to grant the lock: without waiting for other clients.
    least: u64,
}

impl Default for Keep {
    fn default() -> Self {
        Self { keeps: false, seen: 0, ahead: 0, in_vain: 0, least: u64::MAX }
    }
}

impl Keep {
    /// Whether the process keeps the lock when its tasks leave it.
    pub const fn keeps(self) -> bool {
        self.keeps
    }

    /// The server has granted the lock: the process requested it `away` after it had given it back,
    /// and received it after `took`, both in the same unit.
    pub fn granted(&mut self, away: u64, took: u64) {
        self.least = self.least.min(took);
        if self.keeps {
            return;
        }
        self.seen += if away < self.least { AT_ONCE } else { 1 };
        self.keeps = self.seen >= LOCKS << self.in_vain;
        self.ahead = 1;
    }

    /// A task of the process has entered the kept lock.
    pub fn came_back(&mut self) {
        if self.keeps {
            self.ahead = (self.ahead + 1).min(AHEAD);
            self.in_vain = 0;
        }
    }

    /// Another client has recalled the kept lock while no task of the process used it.
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

    /// Simulates a lock whose successive users are of this process where `same` is true; returns
    /// the number of requests, and of recalls from a process that kept it idle.
    fn course(users: impl IntoIterator<Item = bool>, away: u64) -> (u32, u32) {
        let (mut keep, mut asked, mut recalled) = (Keep::default(), 0, 0);
        let mut has = false;
        for ours in users {
            match (ours, has) {
                (true, true) => keep.came_back(),
                (true, false) => {
                    // The first request is not a return.
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
    fn an_uncontended_lock_stays_after_two_quick_or_eight_slow_requests() {
        assert_eq!(course([true; 1_000], 0), (2, 0));
        assert_eq!(course([true; 1_000], 1_000), (8, 0));
    }

    #[test]
    fn a_contended_lock_goes_back_each_time_except_for_a_few_tries() {
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
