//! Findings of one window: slow machines, bad connections, and impaired observers.
//!
//! The rules are those of the study of slow machines, with two corrections. A machine does not
//! compare others with itself, because a call to itself crosses no network. And a machine that is
//! far away is not slow: a round trip is also compared with the shortest of that pair.

use super::ask::{Figures, Row};
use super::{FLOOR_US, LOST_US};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum number of requests in a minute for a finding on a pair.
pub(super) const COUNT_MIN: u16 = 20;

/// Problem of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Slow: most other machines see late answers from it.
    Slow,
    /// Impaired observer: it sees late answers from all others, which they do not see from each
    /// other.
    Observer,
}

/// Findings of one window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Machines with a problem.
    pub machines: BTreeMap<u16, Class>,
    /// Bad connections, by the smaller and the larger number.
    pub links: BTreeSet<(u16, u16)>,
    /// Whether more than half of the machines are late, and none stands out: then the cause is load
    /// and no single machine.
    pub everywhere: bool,
    /// Machines with enough figures from at least one observer.
    pub measured: BTreeSet<u16>,
    /// Machines that no other machine has heard from for a minute.
    pub silent: BTreeSet<u16>,
}

/// Whether one latency exceeds another one by this percentage, and by a distinguishable amount.
pub(super) fn is_over(us: u32, base_us: u32, percent: u64, floor_us: u32) -> bool {
    let apart = us.saturating_sub(base_us) >= floor_us;
    apart && u64::from(us) * 100 >= u64::from(base_us) * percent
}

fn is_silent(row: &Row) -> bool {
    row.count >= 3 && row.count == row.lost
}

struct Window<'a> {
    told: &'a BTreeMap<u16, &'a Figures>,
    percent: u64,
}

impl<'a> Window<'a> {
    /// Observations of one machine that can be judged.
    fn rows(&self, observer: u16) -> impl Iterator<Item = &'a Row> {
        let rows = self.told.get(&observer).into_iter().flat_map(|figures| &figures.rows);
        let told = self.told;
        rows.filter(move |row| row.settled && row.count >= COUNT_MIN && told.len() > 1)
    }

    fn heard(&self, observer: u16) -> impl Iterator<Item = &'a Row> {
        self.rows(observer).filter(|row| !is_silent(row))
    }

    /// Whether it exceeds what is possible for that pair.
    fn is_late(&self, row: &Row) -> bool {
        is_over(row.p90_us, row.near_us, self.percent, FLOOR_US)
    }

    /// Whether it exceeds what is usual for that observer, too.
    fn is_slow(&self, observer: u16, row: &Row) -> bool {
        let fastest_us = self.heard(observer).map(|row| row.p90_us).min();
        let base_us = fastest_us.unwrap_or(LOST_US).max(row.near_us);
        is_over(row.p90_us, base_us, self.percent, FLOOR_US)
    }

    /// Machines whose own timers are late, unlike those of the others.
    fn late_themselves(&self) -> BTreeSet<u16> {
        let least_us = self.told.values().map(|figures| figures.late_us).min().unwrap_or(0);
        let late = self.told.iter();
        let late =
            late.filter(|(_, figures)| is_over(figures.late_us, least_us, self.percent, FLOOR_US));
        late.map(|(machine, _)| *machine).collect()
    }

    /// Machines that see all others late, although most of those are seen as normal by others.
    fn see_badly(&self) -> BTreeSet<u16> {
        let sees_badly = |observer: u16| {
            let rows: Vec<&Row> = self.heard(observer).collect();
            let fine = |row: &&&Row| {
                let others = self.told.keys().filter(|other| **other != observer);
                let mut seen = others.flat_map(|other| self.heard(*other));
                seen.any(|other| other.machine == row.machine && !self.is_late(other))
            };
            rows.len() > 1
                && rows.iter().all(|row| self.is_late(row))
                && rows.iter().filter(fine).count() * 2 > rows.len()
        };
        self.told.keys().copied().filter(|observer| sees_badly(*observer)).collect()
    }
}

/// Evaluates the figures of the machines; `percent` is the excess over the usual that is too much.
pub fn judge(members: &BTreeSet<u16>, told: &BTreeMap<u16, &Figures>, percent: u64) -> Found {
    let window = Window { told, percent };
    let (late_themselves, see_badly) = (window.late_themselves(), window.see_badly());
    let has_vote =
        |observer: &&u16| !late_themselves.contains(*observer) && !see_badly.contains(*observer);
    let voters: Vec<u16> = told.keys().filter(has_vote).copied().collect();
    let mut found = Found::default();
    let mut late = 0;
    for machine in members {
        let of = |observer: &u16| {
            let row = window.heard(*observer).find(|row| row.machine == *machine);
            row.map(|row| (*observer, row))
        };
        let seen: Vec<(u16, &Row)> = voters.iter().filter_map(of).collect();
        if seen.is_empty() {
            let silent = |observer: &u16| {
                let mut rows = told.get(observer).into_iter().flat_map(|figures| &figures.rows);
                rows.find(|row| row.machine == *machine).map(is_silent)
            };
            let said: Vec<bool> = voters.iter().filter_map(silent).collect();
            if !said.is_empty() && said.iter().all(|silent| *silent) {
                found.silent.insert(*machine);
            }
            continue;
        }
        found.measured.insert(*machine);
        late += usize::from(
            seen.iter().filter(|(_, row)| window.is_late(row)).count() * 2 > seen.len(),
        );
        let votes = seen.iter().filter(|(observer, row)| window.is_slow(*observer, row)).count();
        // A single observer cannot distinguish a machine from a connection, unless the machine's
        // own timers confirm it.
        let enough = votes > 1 || votes == 1 && late_themselves.contains(machine);
        if votes * 2 > seen.len() && enough {
            found.machines.insert(*machine, Class::Slow);
        }
    }
    // Even under load one machine may be slower than all others by far.
    let outliers = found.machines.len();
    if outliers * 2 > members.len() || outliers == 0 && late * 2 > members.len() {
        found.everywhere = true;
        found.machines.clear();
        return found;
    }
    for observer in see_badly {
        found.machines.entry(observer).or_insert(Class::Observer);
    }
    found.links = links(&window, &voters, &found);
    found
}

/// Connections that are slow or silent between two healthy machines.
fn links(window: &Window<'_>, voters: &[u16], found: &Found) -> BTreeSet<(u16, u16)> {
    let mut links = BTreeSet::new();
    let is_well =
        |machine: &u16| !found.machines.contains_key(machine) && !found.silent.contains(machine);
    for observer in voters.iter().filter(|observer| is_well(observer)) {
        for row in window.rows(*observer) {
            let other_is_well = is_well(&row.machine);
            let others_hear = is_silent(row) && found.measured.contains(&row.machine);
            let bad = others_hear || !is_silent(row) && window.is_slow(*observer, row);
            if bad && other_is_well {
                links.insert((*observer.min(&row.machine), *observer.max(&row.machine)));
            }
        }
    }
    links
}
