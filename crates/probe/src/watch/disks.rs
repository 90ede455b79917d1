//! Detection of slow disks, by the time until appends are durable on each machine.
//!
//! A request goes to another machine's event loop and back; an append goes to its disk, too. So
//! machines and connections that are late anyway are not considered here. Leads should leave a
//! machine with a slow disk: a leader executes and answers a committed entry only once it is on its
//! own disk.

use super::judge::{COUNT_MIN, Found, is_over};
use super::{APPEND_FLOOR_US, Figures};
use std::collections::{BTreeMap, BTreeSet};

/// Times until one machine's appends were durable on another one, in the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendRow {
    /// Measured machine.
    pub machine: u16,
    /// Number of measured appends: one per second at most.
    pub count: u16,
    /// Number of appends without an answer in time.
    pub lost: u16,
    /// 90th percentile; [`super::LOST_US`] if that many were lost.
    pub p90_us: u32,
    /// Shortest time of a day.
    pub near_us: u32,
}

/// Findings of the appends of one window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Disks {
    /// Machines whose disk is slow.
    pub slow: BTreeSet<u16>,
    /// Machines whose disk has been measured.
    pub measured: BTreeSet<u16>,
}

/// Evaluates the machines' measurements; `found` are the findings of their requests, and `percent`
/// is the excess over the usual that is too much.
///
/// One observer is enough: the requests on the same path rule out the connection and the other
/// machine's loop, and the observer's appends to others rule out the observer. A machine that sends
/// appends to one other machine only has nothing to compare.
pub(super) fn judge(
    members: &BTreeSet<u16>,
    told: &BTreeMap<u16, &[AppendRow]>,
    found: &Found,
    percent: u64,
) -> Disks {
    let mut disks = Disks::default();
    if found.everywhere {
        return disks;
    }
    let is_ill = |machine: &u16| found.machines.contains_key(machine);
    for machine in members.iter().filter(|one| !is_ill(one) && !found.silent.contains(one)) {
        let (mut seen, mut votes) = (0, 0);
        for (observer, rows) in told.iter().filter(|(observer, _)| !is_ill(observer)) {
            let counts = |row: &&AppendRow| row.count >= COUNT_MIN;
            let Some(row) = rows.iter().filter(counts).find(|row| row.machine == *machine) else {
                continue;
            };
            if found.links.contains(&(*observer.min(machine), *observer.max(machine))) {
                continue;
            }
            let fastest_us = rows.iter().filter(counts).map(|row| row.p90_us).min();
            let base_us = fastest_us.unwrap_or(row.p90_us).max(row.near_us);
            seen += 1;
            votes += usize::from(is_over(row.p90_us, base_us, percent, APPEND_FLOOR_US));
        }
        if seen > 0 {
            disks.measured.insert(*machine);
        }
        if votes * 2 > seen {
            disks.slow.insert(*machine);
        }
    }
    // Then it is a disk that they share, or the load of all of them.
    if disks.slow.len() * 2 > members.len() {
        disks.slow.clear();
    }
    disks
}

/// Observations of a machine's disk as text: a line for each observer.
pub(super) fn evidence(
    machine: u16,
    appends: &BTreeMap<u16, &[AppendRow]>,
    told: &BTreeMap<u16, &Figures>,
    ms: impl Fn(u32) -> String,
) -> Vec<String> {
    let rows = appends.iter().flat_map(|(from, rows)| rows.iter().map(|row| (*from, row)));
    let of = rows.filter(|(_, row)| row.machine == machine);
    let mut said: Vec<String> = of
        .map(|(from, row)| {
            let (p90, near) = (ms(row.p90_us), ms(row.near_us));
            let asked = told.get(&from).and_then(|figures| {
                figures.rows.iter().find(|asked| asked.machine == machine).map(|asked| asked.p90_us)
            });
            let asked = asked.map_or(String::new(), |us| format!(", requests {}", ms(us)));
            format!("{from} to {machine}: appends p90 {p90}, shortest {near}{asked}")
        })
        .collect();
    said.truncate(8);
    said.push("its answers without a disk write are in time: check its disk".to_owned());
    said
}

#[cfg(test)]
mod tests {
    use super::super::LOST_US;
    use super::*;

    fn row(machine: u16, p90_us: u32) -> AppendRow {
        AppendRow { machine, count: 55, lost: 0, p90_us, near_us: 600 }
    }

    /// Findings for three machines' observations of each other, in the order 1 to 2, 1 to 3, 2 to
    /// 1, 2 to 3, 3 to 1, 3 to 2.
    fn judged(p90_us: [u32; 6], found: &Found) -> Vec<u16> {
        let [b, c, d, e, f, g] = p90_us;
        let rows = [[row(2, b), row(3, c)], [row(1, d), row(3, e)], [row(1, f), row(2, g)]];
        let told = (1..).zip(rows.iter().map(|rows| &rows[..])).collect();
        let disks = judge(&BTreeSet::from([1, 2, 3]), &told, found, 200);
        disks.slow.into_iter().collect()
    }

    #[test]
    fn a_disk_that_is_slow_to_all_is_named_and_a_little_is_not() {
        let well = Found::default();
        assert_eq!(judged([900, 40_000, 900, 35_000, 900, 900], &well), [3]);
        assert_eq!(judged([900, LOST_US, 900, LOST_US, 900, 900], &well), [3]);
        assert_eq!(judged([900, 9_000, 900, 9_000, 900, 900], &well), []);
        // One of two sees it: not more than half.
        assert_eq!(judged([900, 40_000, 900, 900, 900, 900], &well), []);
        // All disks, or an observer that is late itself.
        assert_eq!(judged([40_000; 6], &well), []);
        assert_eq!(judged([40_000, 40_000, 900, 900, 900, 900], &well), []);
    }

    #[test]
    fn what_is_known_already_is_not_the_disk() {
        let late = [900, 40_000, 900, 35_000, 900, 900];
        let slow = BTreeMap::from([(3, super::super::Class::Slow)]);
        assert_eq!(judged(late, &Found { machines: slow, ..Found::default() }), []);
        assert_eq!(judged(late, &Found { everywhere: true, ..Found::default() }), []);
        assert_eq!(judged(late, &Found { silent: BTreeSet::from([3]), ..Found::default() }), []);
        // The other connection still shows it.
        let links = BTreeSet::from([(1, 3)]);
        assert_eq!(judged(late, &Found { links: links.clone(), ..Found::default() }), [3]);
        let only_there = [900, 40_000, 900, 900, 900, 900];
        assert_eq!(judged(only_there, &Found { links, ..Found::default() }), []);
    }

    #[test]
    fn one_leader_alone_can_tell_and_few_appends_cannot() {
        let told = [row(2, 900), row(3, 40_000)];
        let members = BTreeSet::from([1, 2, 3]);
        let slow = |rows: &[AppendRow]| {
            let disks = judge(&members, &BTreeMap::from([(1, rows)]), &Found::default(), 200);
            (disks.slow.into_iter().collect::<Vec<_>>(), disks.measured.len())
        };
        assert_eq!(slow(&told), (vec![3], 2));
        let few = AppendRow { count: COUNT_MIN - 1, ..told[1] };
        assert_eq!(slow(&[told[0], few]), (vec![], 1));
        assert_eq!(slow(&told[1..]), (vec![], 1));
    }
}
