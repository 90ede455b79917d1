//! One election time-out for all machines of a cluster, from what each of them proposes.
//!
//! Every window each machine tells the others which time-out it uses, which one would do by what it
//! has measured, and whether it may use another one at all. One machine decides for all, as with
//! leads: the smallest of those that are well. It takes the longest that is proposed, an hour after
//! the last change at the earliest, and goes towards it by a factor of one and a half at most. The
//! others use what that one uses. Whoever has just begun does not decide, and is not followed, before
//! it uses what most others do.
//!
//! Nothing that must be right rests on it: what leaders are promised names its time, whatever anybody
//! uses.

use super::{FIGURES_US_MAX, GRACE_US};
use std::collections::{BTreeMap, BTreeSet};

/// A time-out is not changed again sooner.
pub const STEP_US: u64 = 3_600_000_000;
/// By which factor it changes at once, at most.
const STEP_FACTOR: f64 = 1.5;
/// By which part it must be another one to be changed at all.
const NEWS: f64 = 0.1;

/// What a machine tells others about election time-outs: the lower edges, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// What it uses.
    pub used_us: u32,
    /// What would do; 0 if it does not know yet.
    pub proposed_us: u32,
    /// It uses what is agreed.
    pub applies: bool,
    /// It has used the same as most others before.
    pub settled: bool,
}

/// The time-outs that may be agreed on, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The shortest.
    pub least_us: u32,
    /// Without any measurement, or if a machine does not apply what is agreed.
    pub default_us: u32,
    /// The longest.
    pub most_us: u32,
}

/// A time-out that is another one from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What was used.
    pub before_us: u32,
    /// What is used.
    pub after_us: u32,
    /// Why.
    pub evidence: String,
}

/// Where and when a window ends.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Now.
    pub now_us: u64,
    /// The machine.
    pub own: u16,
    /// All machines of the cluster.
    pub machines: &'a BTreeSet<u16>,
    /// Those of them that had better not decide anything.
    pub left: &'a BTreeSet<u16>,
}

/// What a machine knows of the time-outs of all.
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
    /// A machine that begins, and uses the default.
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

    /// What is used here.
    pub fn used_us(&self) -> u32 {
        self.used_us
    }

    /// This machine has found out which time-out would do.
    pub fn propose(&mut self, proposed_us: u32) {
        self.proposed_us = proposed_us;
    }

    /// What the others are to be told.
    pub fn wish(&self) -> Wish {
        let Self { used_us, proposed_us, applies, settled, .. } = *self;
        Wish { used_us, proposed_us, applies, settled }
    }

    /// Another machine has told this.
    pub fn hear(&mut self, now_us: u64, machine: u16, wish: Wish) {
        self.told.insert(machine, (now_us, wish));
    }

    /// A window ends: what changes here, if anything does.
    pub fn close(&mut self, scene: &Scene<'_>) -> Option<Change> {
        let Scene { now_us, own, machines, left } = *scene;
        self.told.retain(|machine, (at, _)| {
            machines.contains(machine) && now_us.saturating_sub(*at) < FIGURES_US_MAX
        });
        let unwilling = self.told.iter().find(|(_, (_, wish))| !wish.applies);
        if let Some(machine) = unwilling.map(|(machine, _)| *machine) {
            let why = format!("machine {machine} does not apply what is agreed");
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
            return self.change(now_us, wish.used_us, format!("as machine {machine} has it"));
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
            return self.change(now_us, most, "as most machines have it".to_owned());
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
        let why = format!("{count} of {machines} machines propose {ms} ms at most, {by} most");
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

    /// Machines that tell each other everything at the end of each window.
    struct Cluster {
        now_us: u64,
        machines: BTreeMap<u16, Agreement>,
        left: BTreeSet<u16>,
        /// Who has changed what, and why.
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
        assert_eq!(cluster.used_ms(), [950; 3], "nobody has measured anything");
        cluster.propose(&[300, 350]);
        cluster.pass(20);
        assert_eq!(cluster.used_ms(), [633; 3], "by a factor of one and a half");
        let (first, Change { evidence, .. }) = &cluster.changes[0];
        assert_eq!(*first, 1);
        assert_eq!(evidence, "2 of 3 machines propose 350 ms at most, machine 2 most");
        cluster.pass(3_500);
        assert_eq!(cluster.used_ms(), [633; 3]);
        cluster.pass(2 * 3_600);
        assert_eq!(cluster.used_ms(), [350; 3]);
        cluster.propose(&[320, 340, 330]);
        cluster.pass(2 * 3_600);
        assert_eq!(cluster.used_ms(), [350; 3], "that is no news");
        cluster.propose(&[1, 1, 60_000]);
        cluster.pass(10 * 3_600);
        assert_eq!(cluster.used_ms(), [2_850; 3], "as long as it may be");
    }

    #[test]
    fn whoever_begins_follows_and_does_not_lead() {
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
            assert_eq!(cluster.used_ms(), [used; 3], "{again} has it again");
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
            "machine 2 does not apply what is agreed"
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
