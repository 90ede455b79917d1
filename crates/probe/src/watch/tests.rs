//! Scenarios of clusters: the measurements of all machines, window after window, and the verdicts.

use super::*;
use std::collections::BTreeSet;

/// A cluster of machines that send their figures every ten seconds.
struct Story {
    machines: u16,
    judge: Judge,
    now_us: u64,
    /// Lateness of each machine's own timers.
    late: Vec<u32>,
    /// Unusual round trips, p90.
    slow: Vec<((u16, u16), u32)>,
    /// Unusual distances.
    far: Vec<((u16, u16), u32)>,
    fresh: Vec<u16>,
    usual_us: u32,
    /// Time of appends on each machine, p90; empty if nothing is appended.
    disks_us: Vec<u32>,
}

impl Story {
    fn of(machines: u16) -> Self {
        let mut judge = Judge::default();
        judge.know(1..=machines);
        let late = vec![100; usize::from(machines) + 1];
        let (slow, far, fresh) = (Vec::new(), Vec::new(), Vec::new());
        let disks_us = Vec::new();
        Self { machines, judge, now_us: 0, late, slow, far, fresh, usual_us: 300, disks_us }
    }

    /// Makes a machine slow like one with half of its processor: in both directions, and by its own
    /// timers.
    fn stalls(&mut self, machine: u16, us: u32) {
        self.late[usize::from(machine)] = us;
        for other in (1..=self.machines).filter(|other| *other != machine) {
            self.slow.push(((machine, other), us));
            self.slow.push(((other, machine), us));
        }
    }

    fn recovers(&mut self) {
        self.slow.clear();
        self.late = vec![100; usize::from(self.machines) + 1];
    }

    fn row(&self, from: u16, to: u16) -> Row {
        let of = |list: &[((u16, u16), u32)]| {
            let found = list.iter().filter(|(pair, _)| *pair == (from, to)).map(|(_, us)| *us);
            found.reduce(u32::saturating_add)
        };
        let near_us = of(&self.far).unwrap_or(100);
        let p90_us = of(&self.slow).unwrap_or(self.usual_us).saturating_add(near_us - 100);
        let all_lost = p90_us == LOST_US;
        Row {
            machine: to,
            count: 60,
            lost: if all_lost { 60 } else { 0 },
            silent_s: if all_lost { 60 } else { 0 },
            p50_us: p90_us / 2,
            p90_us,
            near_us,
            service_us: 20,
            settled: !self.fresh.contains(&to) && !self.fresh.contains(&from),
        }
    }

    fn windows(&mut self, count: u32) -> Vec<Subject> {
        for _ in 0..count {
            self.now_us += WINDOW_US;
            for from in 1..=self.machines {
                let others = (1..=self.machines).filter(|to| *to != from);
                let rows = others.map(|to| self.row(from, to)).collect();
                let late_us = self.late[usize::from(from)];
                let figures = Figures { number: count, up_s: 1_000, late_us, rows };
                self.judge.hear(self.now_us, from, figures);
                let disks = (1..).zip(&self.disks_us).filter(|(to, _)| *to != from);
                let appends = disks.map(|(machine, us)| {
                    let p90_us = *us;
                    AppendRow { machine, count: 60, lost: 0, p90_us, near_us: 700 }
                });
                let appends = appends.collect();
                self.judge.hear_appends(self.now_us, from, appends);
            }
            self.judge.close(self.now_us, self.now_us / 1000);
        }
        self.judge.verdicts().into_iter().map(|verdict| verdict.subject).collect()
    }
}

#[test]
fn a_slow_machine_is_found_after_three_windows_and_is_well_after_five_minutes() {
    let mut story = Story::of(3);
    assert_eq!(story.windows(10), []);
    story.stalls(3, 8_000);
    assert_eq!(story.windows(2), [], "it may end soon");
    assert_eq!(story.windows(1), [Subject::Slow(3)]);
    let [verdict] = &story.judge.verdicts()[..] else { panic!() };
    assert!(verdict.evidence.contains("1 to 3: p90 8.0 ms, shortest 0.1 ms"), "{verdict:?}");
    assert!(verdict.evidence.contains("own timers are late by 8.0 ms"), "{verdict:?}");
    assert!(verdict.concerns(3) && !verdict.concerns(1));
    story.recovers();
    assert_eq!(story.windows(29), [Subject::Slow(3)]);
    assert_eq!(story.windows(1), []);
    let told: Vec<(&str, &str)> =
        story.judge.events().map(|event| (event.before.as_str(), event.after.as_str())).collect();
    assert_eq!(told, [("well", "found"), ("found", "well")]);
}

#[test]
fn a_slow_disk_is_found_by_appends_and_is_well_when_they_say_so() {
    let mut story = Story::of(3);
    story.disks_us = vec![900, 900, 900];
    assert_eq!(story.windows(10), []);
    story.disks_us[1] = 60_000;
    assert_eq!(story.windows(2), []);
    assert_eq!(story.windows(1), [Subject::Disk(2)]);
    let [verdict] = &story.judge.verdicts()[..] else { panic!() };
    let told = "1 to 2: appends p90 60.0 ms, shortest 0.7 ms, requests 0.3 ms";
    assert!(verdict.evidence.contains(told), "{verdict:?}");
    assert_eq!((verdict.subject.to_be_left(), verdict.concerns(2)), (Some(2), true));
    // No machine writes: there is no finding.
    story.disks_us.clear();
    assert_eq!(story.windows(40), [Subject::Disk(2)]);
    story.disks_us = vec![900, 900, 900];
    assert_eq!(story.windows(29), [Subject::Disk(2)]);
    assert_eq!(story.windows(1), []);
    // If the machine answers requests late as well, the disk is not the cause.
    story.disks_us[1] = 60_000;
    story.stalls(2, 50_000);
    assert_eq!(story.windows(4), [Subject::Slow(2)]);
}

#[test]
fn one_bad_window_now_and_then_is_nothing() {
    let mut story = Story::of(3);
    for _ in 0..10 {
        story.stalls(2, 50_000);
        assert_eq!(story.windows(1), []);
        story.recovers();
        assert_eq!(story.windows(2), []);
    }
    assert_eq!(story.judge.events().count(), 0);
}

#[test]
fn two_slow_machines_of_five_are_both_found() {
    let mut story = Story::of(5);
    story.stalls(2, 9_000);
    story.stalls(4, 6_000);
    assert_eq!(story.windows(3), [Subject::Slow(2), Subject::Slow(4)]);
}

#[test]
fn two_slow_machines_of_three_are_most_of_them() {
    let mut story = Story::of(3);
    story.stalls(2, 9_000);
    story.stalls(3, 9_000);
    assert_eq!(story.windows(6), [Subject::Everywhere]);
}

#[test]
fn when_all_are_slow_it_is_load() {
    for machines in [3, 5, 7] {
        let mut story = Story::of(machines);
        story.usual_us = 20_000;
        story.late = vec![15_000; usize::from(machines) + 1];
        assert_eq!(story.windows(6), [Subject::Everywhere], "{machines}");
        story.usual_us = 300;
        story.recovers();
        assert_eq!(story.windows(30), []);
    }
}

#[test]
fn under_load_one_may_still_be_slower_than_all_others() {
    let mut story = Story::of(3);
    (story.usual_us, story.late) = (2_500, vec![1_500; 4]);
    assert_eq!(story.windows(6), [Subject::Everywhere]);
    story.stalls(3, 30_000);
    assert!(story.windows(3).contains(&Subject::Slow(3)));
    // If most machines are slow, the cause is load again.
    let mut story = Story::of(5);
    [3, 4, 5].into_iter().for_each(|machine| story.stalls(machine, 30_000));
    assert_eq!(story.windows(6), [Subject::Everywhere]);
}

#[test]
fn a_machine_that_joins_is_left_alone() {
    let mut story = Story::of(4);
    story.stalls(4, 30_000);
    story.fresh = vec![4];
    assert_eq!(story.windows(12), []);
    story.fresh = Vec::new();
    assert_eq!(story.windows(3), [Subject::Slow(4)], "finally it is like the others");
}

#[test]
fn an_impaired_observer_accuses_no_machine() {
    let mut story = Story::of(4);
    for other in [1, 3, 4] {
        story.slow.push(((2, other), 7_000));
    }
    assert_eq!(story.windows(6), [Subject::Observer(2)]);
    // Not even if its own timers are punctual, nor with another machine that is equally impaired.
    let mut story = Story::of(5);
    for (from, to) in [(2, 1), (2, 3), (2, 4), (2, 5), (3, 1), (3, 2), (3, 4), (3, 5)] {
        story.slow.push(((from, to), 7_000));
    }
    assert_eq!(story.windows(6), [Subject::Observer(2), Subject::Observer(3)]);
}

#[test]
fn a_bad_connection_is_no_bad_machine() {
    let mut story = Story::of(4);
    story.slow = vec![((1, 2), 12_000), ((2, 1), 12_000)];
    assert_eq!(story.windows(3), [Subject::Link(1, 2)]);
    let mut story = Story::of(3);
    story.slow = vec![((1, 2), 12_000), ((2, 1), 12_000)];
    assert_eq!(story.windows(3), [Subject::Link(1, 2)], "of three, one other is no majority");
}

#[test]
fn a_bad_connection_does_not_hide_a_slow_machine() {
    let mut story = Story::of(5);
    story.stalls(5, 9_000);
    story.slow.extend([((1, 2), 12_000), ((2, 1), 12_000)]);
    assert_eq!(story.windows(3), [Subject::Slow(5), Subject::Link(1, 2)]);
}

#[test]
fn silence_between_two_is_a_bad_connection_and_silence_to_all_is_a_machine_that_is_gone() {
    let mut story = Story::of(3);
    story.slow = vec![((1, 2), LOST_US), ((2, 1), LOST_US)];
    assert_eq!(story.windows(3), [Subject::Link(1, 2)]);
    let mut story = Story::of(3);
    story.slow = vec![((1, 3), LOST_US), ((2, 3), LOST_US)];
    story.slow.extend([((3, 1), LOST_US), ((3, 2), LOST_US)]);
    assert_eq!(story.windows(6), [], "it is gone, not slow");
    assert_eq!(story.judge.found().silent, BTreeSet::from([3]));
}

#[test]
fn a_machine_far_away_is_not_slow_until_it_is() {
    let mut story = Story::of(3);
    for other in [1, 2] {
        story.far.push(((3, other), 80_000));
        story.far.push(((other, 3), 80_000));
    }
    assert_eq!(story.windows(6), []);
    story.stalls(3, 120_000);
    assert_eq!(story.windows(3), [Subject::Slow(3)]);
}

#[test]
fn of_two_machines_none_is_the_slow_one() {
    let mut story = Story::of(2);
    story.stalls(2, 9_000);
    assert!(!story.windows(6).contains(&Subject::Slow(1)));
}

#[test]
fn a_machine_that_left_the_cluster_has_no_verdict() {
    let mut story = Story::of(4);
    story.stalls(4, 9_000);
    assert_eq!(story.windows(3), [Subject::Slow(4)]);
    story.judge.know(1..=3);
    story.machines = 3;
    assert_eq!(story.windows(1), []);
}

fn leads(leaders: &[u16]) -> Vec<Lead> {
    let lead = |(shard, leader): (usize, &u16)| Lead {
        shard: shard as u16,
        leader: *leader,
        holders: vec![1, 2, 3],
    };
    leaders.iter().enumerate().map(lead).collect()
}

#[test]
fn leads_leave_a_slow_machine_a_third_of_them_at_most() {
    let mut story = Story::of(3);
    story.stalls(3, 9_000);
    story.windows(3);
    let verdicts = story.judge.verdicts();
    let heard = BTreeSet::from([1, 2, 3]);
    let all = leads(&[1, 3, 2, 3, 3, 3]);
    let plan = |planner: &mut Planner, own, second: u64, leads: &[Lead]| {
        let (now_us, repeat_us) = (second * 1_000_000, 30_000_000);
        let (heard, verdicts) = (&heard, &verdicts[..]);
        planner.plan(&Scene { now_us, repeat_us, own, load: false, heard, verdicts }, leads)
    };
    assert_eq!(plan(&mut Planner::default(), 2, 0, &all), [], "machine 1 plans");
    let mut planner = Planner::default();
    let first = plan(&mut planner, 1, 0, &all);
    let moved = |shard, to| Move { shard, from: 3, to };
    assert_eq!(first, [moved(1, 1), moved(3, 2)]);
    assert_eq!(plan(&mut planner, 1, 60, &all), [], "two of six in ten minutes");
    assert_eq!(plan(&mut planner, 1, 601, &all).len(), 2);
}

#[test]
fn nothing_moves_because_of_load_nor_to_an_absent_machine() {
    let verdict = |subject| Verdict { subject, since_us: 0, evidence: String::new() };
    let all = leads(&[3, 3, 3]);
    let plan = |load, verdicts: &[Verdict], heard: &[u16]| {
        let heard = &heard.iter().copied().collect();
        let scene = Scene { now_us: 0, repeat_us: 0, own: 1, load, heard, verdicts };
        Planner::default().plan(&scene, &all)
    };
    let slow = verdict(Subject::Slow(3));
    assert_eq!(plan(false, std::slice::from_ref(&slow), &[1, 2, 3]).len(), 1);
    assert_eq!(plan(true, std::slice::from_ref(&slow), &[1, 2, 3]), []);
    assert_eq!(plan(false, &[verdict(Subject::Link(1, 3))], &[1, 2, 3]), []);
    let mine = plan(false, &[slow.clone(), verdict(Subject::Slow(2))], &[1, 2, 3]);
    assert_eq!(mine, [Move { shard: 0, from: 3, to: 1 }], "not from one slow machine to another");
    let none: [Move; 0] = [];
    assert_eq!(
        plan(false, &[slow, verdict(Subject::Slow(1))], &[1, 3]),
        none,
        "machine 2 would plan"
    );
}
