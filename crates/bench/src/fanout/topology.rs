//! Positions of machines, and delays of messages between them.
//!
//! A topology is a small TOML file:
//!
//! ```toml
//! name = "edge"
//!
//! [[machines]]
//! site = "edge"
//! role = "gateway"     # clients are next to it; it holds nothing
//!
//! [[machines]]
//! site = "centre"
//! role = "leader"      # leads its share of the shards
//! count = 3
//!
//! [[machines]]
//! site = "far"
//! role = "follower"    # holds all shards and leads none
//! count = 2
//!
//! [one_way_us]
//! "centre centre" = 1000
//! "centre far" = 45000
//! "edge centre" = 45000
//! "edge far" = 45000
//! ```
//!
//! Sites that are named like regions of Google Cloud have the measured delays, unless the file
//! overrides them. `gcp:us-east1/us-east1+europe-west1+asia-east1` is a topology without a file:
//! clients in the first region, a leader in each of the others.
//!
//! Every shard has three replicas: its leader and the followers, or other leaders where there are
//! no followers. Without a gateway, clients are next to the leaders.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Replicas of each shard.
const REPLICAS: usize = 3;
/// Maximum number of machines that found a cluster.
const HOLDERS_MAX: usize = 5;
/// Longest delay, in microseconds: beyond it machines take others for failed.
const DELAY_US_MAX: u64 = 300_000;

/// Role of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    Leader,
    Follower,
    Gateway,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Machines {
    site: String,
    role: Role,
    #[serde(default = "one")]
    count: u16,
}

fn one() -> u16 {
    1
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    machines: Vec<Machines>,
    #[serde(default)]
    one_way_us: BTreeMap<String, u64>,
}

/// Machines by number, from 1 on: leaders, followers, gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Name in rows.
    pub name: String,
    roles: Vec<Role>,
    /// One-way delays in microseconds, from row to column.
    delays_us: Vec<Vec<u64>>,
}

/// Clients and followers are 45 ms from the leaders, which are 1 ms from each other: the edge clients
/// of the published study (round trips of 90 and 2 ms).
const EDGE: &str = r#"
name = "edge"
machines = [
    { site = "edge", role = "gateway" },
    { site = "centre", role = "leader", count = 3 },
    { site = "far", role = "follower", count = 2 },
]

[one_way_us]
"centre centre" = 1000
"centre far" = 45000
"edge centre" = 45000
"edge far" = 45000
"far far" = 1000
"#;

/// Clients are 1 ms from leaders that are 45 ms from each other: the study's clients in data
/// centres.
const GEO: &str = r#"
name = "geo"
machines = [
    { site = "client", role = "gateway" },
    { site = "apart", role = "leader", count = 3 },
]
one_way_us = { "apart apart" = 45000, "client apart" = 1000 }
"#;

/// Round trips between regions, with sources.
const GCP: &str = include_str!("gcp.csv");

/// Rows of the table, as their fields: the regions first, then each with its delays.
fn rows() -> impl Iterator<Item = std::str::Split<'static, char>> {
    GCP.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(','))
}

/// One-way delay from one region to another in microseconds: half of the round trip, which is
/// assumed to be symmetric.
fn between_regions_us(from: &str, to: &str) -> Option<u64> {
    let mut rows = rows();
    let column = rows.next()?.position(|region| region == to)?;
    let mut row = rows.find(|row| row.clone().next() == Some(from))?;
    let round_trip_ms: f64 = row.nth(column)?.parse().ok()?;
    Some((round_trip_ms * 1000.0 / 2.0).round() as u64)
}

/// Topology `client/leader+leader+...` between regions.
fn of_regions(name: &str, regions: &str) -> Result<Topology, String> {
    let (client, leaders) =
        regions.split_once('/').ok_or("topology: gcp:CLIENT/LEADER+LEADER+... names regions")?;
    let machine = |site: &str, role| Machines { site: site.to_owned(), role, count: 1 };
    let mut machines = vec![machine(client, Role::Gateway)];
    machines.extend(leaders.split('+').map(|site| machine(site, Role::Leader)));
    let known = |site: &str| between_regions_us(site, site).is_some();
    if let Some(unknown) = machines.iter().find(|machine| !known(&machine.site)) {
        let regions: Vec<&str> = rows().skip(1).filter_map(|mut row| row.next()).collect();
        return Err(format!("topology: no region '{}': {}", unknown.site, regions.join(" ")));
    }
    Topology::of(File { name: name.to_owned(), machines, one_way_us: BTreeMap::new() })
}

impl Topology {
    /// Returns a built-in topology, or reads one from a file. `datacenter` has `delay` between all
    /// machines.
    ///
    /// # Errors
    /// The file cannot be read, or is invalid; the error says why.
    pub fn named(name: &str, delay: Duration) -> Result<Self, String> {
        match name {
            "datacenter" => Ok(Self::datacenter(delay.as_micros() as u64)),
            "edge" => Self::parse(EDGE),
            "geo" => Self::parse(GEO),
            name if name.starts_with("gcp:") => of_regions(name, &name["gcp:".len()..]),
            path => {
                let text = std::fs::read_to_string(Path::new(path)).map_err(|error| {
                    format!(
                        "topology: '{path}' is not datacenter, edge, geo or gcp:..., nor a file: {error}"
                    )
                })?;
                Self::parse(&text).map_err(|error| format!("{path}: {error}"))
            }
        }
    }

    /// One data centre: three machines and a gateway, all equally far from each other.
    pub fn datacenter(delay_us: u64) -> Self {
        let roles = vec![Role::Leader, Role::Leader, Role::Leader, Role::Gateway];
        let row = |from| (0..4).map(|to| if from == to { 0 } else { delay_us }).collect();
        Self { name: "datacenter".to_owned(), roles, delays_us: (0..4).map(row).collect() }
    }

    fn parse(text: &str) -> Result<Self, String> {
        Self::of(toml::from_str(text).map_err(|error| error.message().to_owned())?)
    }

    fn of(file: File) -> Result<Self, String> {
        let mut machines: Vec<(Role, &str)> = Vec::new();
        for group in &file.machines {
            machines.extend((0..group.count).map(|_| (group.role, group.site.as_str())));
        }
        machines.sort_by_key(|(role, _)| *role);
        let count = |role| machines.iter().filter(|machine| machine.0 == role).count();
        let holders = count(Role::Leader) + count(Role::Follower);
        if count(Role::Leader) == 0 || holders > HOLDERS_MAX {
            return Err(format!(
                "a topology has at least one leader, and leaders and followers are at most \
                 {HOLDERS_MAX}"
            ));
        }
        let mut delays_us = vec![vec![0; machines.len()]; machines.len()];
        for (from, row) in delays_us.iter_mut().enumerate() {
            for (to, delay_us) in row.iter_mut().enumerate().filter(|(to, _)| *to != from) {
                let (a, b) = (machines[from].1, machines[to].1);
                let known = [format!("{a} {b}"), format!("{b} {a}")];
                let found = known.iter().find_map(|name| file.one_way_us.get(name).copied());
                let found = found.or_else(|| between_regions_us(a, b));
                *delay_us = found.filter(|us| *us <= DELAY_US_MAX).ok_or_else(|| {
                    format!("one_way_us has no delay of \"{a} {b}\" up to {DELAY_US_MAX}")
                })?;
            }
        }
        let roles = machines.iter().map(|(role, _)| *role).collect();
        Ok(Self { name: file.name, roles, delays_us })
    }

    fn with(&self, role: Role) -> Vec<u16> {
        let numbered = (1..).zip(&self.roles);
        numbered.filter(|(_, has)| **has == role).map(|(number, _)| number).collect()
    }

    /// Machines that hold each shard, the leader first.
    pub fn holders(&self, shards: u16) -> Vec<Vec<u16>> {
        let (leaders, followers) = (self.with(Role::Leader), self.with(Role::Follower));
        let of = |shard: u16| {
            let mut holders = leaders.clone();
            holders.rotate_left(usize::from(shard) % leaders.len());
            if !followers.is_empty() {
                holders.truncate(1);
                holders.extend(&followers);
            }
            holders.truncate(REPLICAS);
            holders
        };
        (0..shards).map(of).collect()
    }

    /// Number of machines that hold replicas: those with the lowest numbers.
    pub fn founders(&self) -> u16 {
        self.roles.iter().filter(|role| **role != Role::Gateway).count() as u16
    }

    /// Machines that clients are next to.
    pub fn entrances(&self) -> Vec<u16> {
        let gateways = self.with(Role::Gateway);
        if gateways.is_empty() { self.with(Role::Leader) } else { gateways }
    }

    /// One-way delays in microseconds, from the machine of the row to that of the column.
    pub fn delays_us(&self) -> &[Vec<u64>] {
        &self.delays_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_data_centre_has_three_machines_and_a_gateway() {
        let near = Topology::named("datacenter", Duration::from_micros(70)).unwrap();
        assert_eq!(near.delays_us()[3], [70, 70, 70, 0]);
        assert_eq!((near.founders(), near.entrances()), (3, vec![4]));
        let holders = near.holders(4);
        assert_eq!(holders, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]]);
    }

    #[test]
    fn the_studys_topologies_are_what_it_says() {
        let edge = Topology::named("edge", Duration::ZERO).unwrap();
        assert_eq!(edge.holders(2), [[1, 4, 5], [2, 4, 5]]);
        assert_eq!(edge.delays_us()[0], [0, 1_000, 1_000, 45_000, 45_000, 45_000]);
        let geo = Topology::named("geo", Duration::ZERO).unwrap();
        assert_eq!(geo.delays_us()[3], [1_000, 1_000, 1_000, 0]);
        assert_eq!(geo.delays_us()[0], [0, 45_000, 45_000, 1_000]);
    }

    #[test]
    fn regions_are_as_far_from_each_other_as_was_measured() {
        let name = "gcp:us-east1/us-east1+europe-west1+asia-east1";
        let cloud = Topology::named(name, Duration::ZERO).unwrap();
        assert_eq!((cloud.name.as_str(), cloud.founders(), cloud.entrances()), (name, 3, vec![4]));
        assert_eq!(cloud.delays_us()[3][..3], [150, 46_500, 92_450]);
        assert_eq!(cloud.delays_us()[1][2], 127_400, "as in the row of the first region");
        let said = |name| Topology::named(name, Duration::ZERO).unwrap_err();
        assert!(said("gcp:here/us-east1").contains("'here': asia-east1 "));
        assert!(said("gcp:us-east1").contains("CLIENT/LEADER"));
    }

    #[test]
    fn what_is_no_topology_is_refused_with_the_reason() {
        let said = |text: &str| Topology::parse(text).unwrap_err();
        let two = "name = 'x'\nmachines = [{ site = 'a', role = 'leader', count = 2 }]";
        assert!(said(two).contains("\"a a\""));
        let none = "name = 'x'\nmachines = [{ site = 'a', role = 'gateway' }]";
        assert!(said(none).contains("at least one leader"));
        let six = "name = 'x'\nmachines = [{ site = 'a', role = 'leader', count = 6 }]";
        assert!(said(six).contains("at most 5"));
        assert!(said("name = 1").contains("string"));
        assert!(Topology::named("no such file", Duration::ZERO).unwrap_err().contains("geo"));
    }
}
