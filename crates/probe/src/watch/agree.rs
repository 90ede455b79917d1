//! Agreement on one election time-out for all machines of a cluster, from the proposal of each.
//!
//! In every window each machine sends the others the time-out that it uses, the one that would
//! suffice by its own measurements, and whether it may use another one at all. One machine decides
//! for all, as with leads: the smallest healthy one. It takes the longest proposal, an hour after
//! the last change at the earliest, and moves towards it by a factor of one and a half at most. The
//! others use its time-out. A machine that has just started does not decide, and is not followed,
//! before it uses the time-out of most others.
//!
//! Safety does not depend on it: a leader's promise contains its duration, whichever time-out a
//! machine uses.

use super::{FIGURES_US_MAX, GRACE_US};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum time between two changes of a time-out.
pub const STEP_US: u64 = 3_600_000_000;
/// Maximum factor of a single change.
const STEP_FACTOR: f64 = 1.5;
/// Minimum relative difference of a change.
const NEWS: f64 = 0.1;

/// A machine's proposal to the others: lower edges of election time-outs, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Time-out in use.
    pub used_us: u32,
    /// Time-out that would suffice; 0 if unknown.
    pub proposed_us: u32,
    /// Whether the machine uses the agreed time-out.
    pub applies: bool,
    /// Whether the machine has used the same time-out as most others before.
    pub settled: bool,
}

/// Limits of the time-outs that may be agreed on, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Shortest time-out.
    pub least_us: u32,
    /// Time-out without any measurement, or if a machine does not apply the agreed one.
    pub default_us: u32,
    /// Longest time-out.
    pub most_us: u32,
}

/// A change of the time-out, from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Time-out before the change.
    pub before_us: u32,
    /// Time-out after the change.
    pub after_us: u32,
    /// Reason for the change.
    pub evidence: String,
}

/// Circumstances at the end of a window.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Current time.
    pub now_us: u64,
    /// Number of this machine.
    pub own: u16,
    /// All machines of the cluster.
    pub machines: &'a BTreeSet<u16>,
    /// Machines among them that should not decide anything.
    pub left: &'a BTreeSet<u16>,
}

/// State of a machine: the time-outs of all machines as far as it knows them.
#[derive(Debug)]
pub struct Agreement {
    bounds: Bounds,
    used_us: u32,
    proposed_us: u32,
    applies: bool,
    settled: bool,
    begun_us: u64,
    changed_us: Option<u64>,
    told: BTreeMap<u16, (u64, Wish)>,
}

impl Agreement {
    /// Creates the state of a machine that starts with the default.
    pub fn new(bounds: Bounds, now_us: u64, applies: bool) -> Self {
        Self {
            bounds,
            used_us: bounds.default_us,
            proposed_us: 0,
            applies,
            settled: false,
            begun_us: now_us,
            changed_us: None,
            told: BTreeMap::new(),
        }
    }

    /// Time-out in use here.
    pub fn used_us(&self) -> u32 {
        self.used_us
    }

    /// Sets the time-out that suffices by this machine's measurements.
    pub fn propose(&mut self, proposed_us: u32) {
        self.proposed_us = proposed_us;
    }

    /// Proposal to send to the others.
    pub fn wish(&self) -> Wish {
        let Self { used_us, proposed_us, applies, settled, .. } = *self;
        Wish { used_us, proposed_us, applies, settled }
    }

    /// Handles another machine's proposal.
    pub fn hear(&mut self, now_us: u64, machine: u16, wish: Wish) {
        self.told.insert(machine, (now_us, wish));
    }

    /// Ends a window; returns the change here, if there is one.
    pub fn close(&mut self, scene: &Scene<'_>) -> Option<Change> {
        let Scene { now_us, own, machines, left } = *scene;
        self.told.retain(|machine, (at, _)| {
            machines.contains(machine) && now_us.saturating_sub(*at) < FIGURES_US_MAX
        });
        let unwilling = self.told.iter().find(|(_, (_, wish))| !wish.applies);
        if let Some(machine) = unwilling.map(|(machine, _)| *machine) {
            let why = format!("machine {machine} does not apply the agreed time-out");
            return self.change(now_us, self.bounds.default_us, why);
        }
        let all = machines.iter().all(|machine| *machine == own || self.told.contains_key(machine));
        if !self.applies || !all {
            return None;
        }
        let decides = machines.difference(left).next().copied();
        if decides != Some(own) {
            let (machine, wish) = decides.and_then(|one| Some((one, self.told.get(&one)?.1)))?;
            if !wish.settled {
                return None;
            }
            self.settled = true;
            return self.change(now_us, wish.used_us, format!("used by machine {machine}"));
        }
        self.decide(now_us, machines.len())
    }

    fn decide(&mut self, now_us: u64, machines: usize) -> Option<Change> {
        if !self.settled {
            if now_us.saturating_sub(self.begun_us) < GRACE_US {
                return None;
            }
            self.settled = true;
            let mut used: Vec<u32> = self.told.values().map(|(_, wish)| wish.used_us).collect();
            used.sort_unstable();
            let most = used.get(used.len().saturating_sub(1) / 2).copied();
            let most = most.unwrap_or(self.used_us);
            return self.change(now_us, most, "used by most machines".to_owned());
        }
        if self.changed_us.is_some_and(|at| now_us.saturating_sub(at) < STEP_US) {
            return None;
        }
        let others =
            self.told.iter().map(|(machine, (_, wish))| (Some(*machine), wish.proposed_us));
        let known = others.chain([(None, self.proposed_us)]).filter(|(_, proposed)| *proposed > 0);
        let known: Vec<(Option<u16>, u32)> = known.collect();
        if 2 * known.len() <= machines {
            return None;
        }
        let (by, longest) = known.iter().copied().max_by_key(|(_, proposed)| *proposed)?;
        let used = f64::from(self.used_us);
        let next = f64::from(longest).clamp(used / STEP_FACTOR, used * STEP_FACTOR);
        if (next / used - 1.0).abs() < NEWS {
            return None;
        }
        let by = by.map_or("this machine".to_owned(), |machine| format!("machine {machine}"));
        let (count, ms) = (known.len(), longest / 1_000);
        let why = format!(
            "{count} of {machines} machines propose up to {ms} ms; the longest proposal is from {by}"
        );
        self.change(now_us, next as u32, why)
    }

    fn change(&mut self, now_us: u64, next_us: u32, evidence: String) -> Option<Change> {
        let before_us = self.used_us;
        let after_us = next_us.clamp(self.bounds.least_us, self.bounds.most_us);
        if after_us == before_us {
            return None;
        }
        (self.used_us, self.changed_us) = (after_us, Some(now_us));
        Some(Change { before_us, after_us, evidence })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { least_us: 190_000, default_us: 950_000, most_us: 2_850_000 };
    const WINDOW_US: u64 = 10_000_000;

    /// Machines that exchange all proposals at the end of each window.
    struct Cluster {
        now_us: u64,
        machines: BTreeMap<u16, Agreement>,
        left: BTreeSet<u16>,
        /// Changes by machine.
        changes: Vec<(u16, Change)>,
    }

    impl Cluster {
        fn new(count: u16) -> Self {
            let machines = (1..=count).map(|n| (n, Agreement::new(BOUNDS, 0, true))).collect();
            Self { now_us: 0, machines, left: BTreeSet::new(), changes: Vec::new() }
        }

        fn propose(&mut self, ms: &[u32]) {
            for (agreement, ms) in self.machines.values_mut().zip(ms) {
                agreement.propose(ms * 1_000);
            }
        }

        fn pass(&mut self, seconds: u64) {
            let end_us = self.now_us + seconds * 1_000_000;
            let numbers: BTreeSet<u16> = self.machines.keys().copied().collect();
            while self.now_us < end_us {
                self.now_us += WINDOW_US;
                let (now_us, machines, left) = (self.now_us, &numbers, &self.left);
                let wishes: Vec<_> = self.machines.iter().map(|(n, m)| (*n, m.wish())).collect();
                for (own, agreement) in &mut self.machines {
                    for (from, wish) in wishes.iter().filter(|(from, _)| from != own) {
                        agreement.hear(now_us, *from, *wish);
                    }
                    let scene = Scene { now_us, own: *own, machines, left };
                    let change = agreement.close(&scene);
                    self.changes.extend(change.map(|change| (*own, change)));
                }
            }
        }

        fn used_ms(&self) -> Vec<u32> {
            self.machines.values().map(|machine| machine.used_us() / 1_000).collect()
        }
    }

    #[test]
    fn all_go_towards_the_longest_proposal_step_by_step() {
        let mut cluster = Cluster::new(3);
        cluster.pass(600);
        assert_eq!(cluster.used_ms(), [950; 3], "there are no measurements yet");
        cluster.propose(&[300, 350]);
        cluster.pass(20);
        assert_eq!(cluster.used_ms(), [633; 3], "by a factor of one and a half");
        let (first, Change { evidence, .. }) = &cluster.changes[0];
        assert_eq!(*first, 1);
        assert_eq!(
            evidence,
            "2 of 3 machines propose up to 350 ms; the longest proposal is from machine 2"
        );
        cluster.pass(3_500);
        assert_eq!(cluster.used_ms(), [633; 3]);
        cluster.pass(2 * 3_600);
        assert_eq!(cluster.used_ms(), [350; 3]);
        cluster.propose(&[320, 340, 330]);
        cluster.pass(2 * 3_600);
        assert_eq!(cluster.used_ms(), [350; 3], "the difference is too small");
        cluster.propose(&[1, 1, 60_000]);
        cluster.pass(10 * 3_600);
        assert_eq!(cluster.used_ms(), [2_850; 3], "the upper limit");
    }

    #[test]
    fn a_machine_that_starts_follows_and_does_not_lead() {
        let mut cluster = Cluster::new(3);
        cluster.propose(&[400, 400, 400]);
        cluster.pass(3 * 3_600);
        let used = cluster.used_ms()[1];
        assert!(used < 950);
        assert_eq!(cluster.used_ms(), [used; 3]);
        for again in [1, 2] {
            let begun = Agreement::new(BOUNDS, cluster.now_us, true);
            cluster.machines.insert(again, begun);
            cluster.pass(20);
            assert_eq!(cluster.machines[&3].used_us() / 1_000, used, "{again} is not followed yet");
            cluster.pass(200);
            assert_eq!(cluster.used_ms(), [used; 3], "{again} uses it again");
        }
    }

    #[test]
    fn one_that_is_slow_does_not_decide() {
        let mut cluster = Cluster::new(3);
        cluster.pass(300);
        cluster.left.insert(1);
        cluster.propose(&[500, 500, 500]);
        cluster.pass(300);
        assert_eq!(cluster.changes[0].0, 2);
        assert_eq!(cluster.used_ms(), [633; 3]);
    }

    #[test]
    fn where_one_does_not_apply_it_all_use_the_default() {
        let mut cluster = Cluster::new(3);
        cluster.propose(&[400; 3]);
        cluster.pass(7_200);
        assert!(cluster.used_ms()[0] < 950);
        cluster.machines.insert(2, Agreement::new(BOUNDS, cluster.now_us, false));
        cluster.pass(20);
        assert_eq!(cluster.used_ms(), [950; 3]);
        assert_eq!(
            cluster.changes.last().unwrap().1.evidence,
            "machine 2 does not apply the agreed time-out"
        );
        cluster.propose(&[400; 3]);
        cluster.pass(7_200);
        assert_eq!(cluster.used_ms(), [950; 3]);
    }

    #[test]
    fn without_a_word_of_all_nothing_changes() {
        let mut cluster = Cluster::new(3);
        cluster.propose(&[400; 3]);
        cluster.pass(7_200);
        let used = cluster.used_ms()[0];
        let mut lone = cluster.machines.remove(&1).unwrap();
        let machines = BTreeSet::from([1, 2, 3]);
        lone.propose(2_000_000);
        for hour in 1..5 {
            let now_us = cluster.now_us + hour * STEP_US;
            let scene = Scene { now_us, own: 1, machines: &machines, left: &BTreeSet::new() };
            assert_eq!(lone.close(&scene), None);
        }
        assert_eq!(lone.used_us() / 1_000, used);
    }
}
