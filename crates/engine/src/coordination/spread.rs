//! A tree over several shards: which shard has which nodes, and the messages to shards about
//! sessions that are at more than one.
//!
//! A node is placed by its top-level name: `/jobs/7` is at the shard of `/jobs`. The root is at
//! every shard, each with its own children; shard 0 has its data. A session begins and ends at
//! shard 0. It *joins* another shard there before it *enters* that shard, and all shards that it
//! has joined know of its end before any client can see it: see
//! `docs/internals/coordination/several-shards.md`.

use super::request::{Change, Read, Write};
use super::tree::path;
use super::tree::quota;
use crate::cluster::slot::slot;
use crate::ids::ShardId;
use std::collections::BTreeMap;

/// The shard with the sessions and the root's data: that of slot 0, which no split takes from it.
pub const HOME: ShardId = ShardId(0);

/// Number of shards over which a tree is spread: those with the lowest numbers. It is set before
/// the first session begins, and never changes afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spread(u16);

impl Default for Spread {
    fn default() -> Self {
        Self::NOT
    }
}

/// Shards that a node or a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// This shard.
    At(ShardId),
    /// All of them: the root, and the nodes above quotas.
    Everywhere,
    /// Several. They can change things together ([`Spread::parts`]), but not read together.
    Several,
    /// None, because the node cannot exist; any shard can say so.
    Nowhere,
}

impl Location {
    /// The single shard that executes the request, if there is one.
    pub fn shard(self) -> Option<ShardId> {
        match self {
            Self::At(shard) => Some(shard),
            Self::Nowhere => Some(HOME),
            Self::Everywhere | Self::Several => None,
        }
    }
}

impl Spread {
    /// A tree at one shard.
    pub const NOT: Self = Self(1);

    /// A tree over so many shards; at least one.
    pub fn over(shards: u16) -> Self {
        Self(shards.max(1))
    }

    /// Number of shards.
    pub fn count(self) -> u16 {
        self.0
    }

    /// Whether the tree has several shards.
    pub fn is_spread(self) -> bool {
        self.0 > 1
    }

    /// All shards of the tree.
    pub fn shards(self) -> impl Iterator<Item = ShardId> {
        (0..self.0).map(ShardId)
    }

    /// Place of the node at a path, which need not exist.
    pub fn place(self, path: &[u8]) -> Location {
        if !self.is_spread() {
            return Location::At(HOME);
        }
        match top_of(path) {
            None => Location::Everywhere,
            Some(b"") => Location::Nowhere,
            Some(b"zookeeper") => Location::At(HOME),
            Some(name) => self.place_of_name(without_number(name)),
        }
    }

    /// Place of a new sequential node, to whose name a number will be appended: that of all others
    /// with the same name before the number.
    fn place_of_sequential(self, path: &[u8]) -> Location {
        match path.strip_prefix(path::ROOT) {
            Some(name) if self.is_spread() && !name.contains(&b'/') => self.place_of_name(name),
            _ => self.place(path),
        }
    }

    fn place_of_name(self, name: &[u8]) -> Location {
        Location::At(ShardId(slot(name) % self.0))
    }

    /// Place where a change is executed.
    pub fn place_of_change(self, change: &Change) -> Location {
        let place = match change {
            Change::Create(create) if create.mode.sequential => {
                self.place_of_sequential(&create.path)
            }
            change => self.place(change.path()),
        };
        match (place, change) {
            // The root's rules say which clients may create and delete its children, at every
            // shard.
            (Location::Everywhere, Change::SetAcl { .. }) => Location::Several,
            (Location::Everywhere, _) => Location::At(HOME),
            (place, _) => place,
        }
    }

    /// Indexes of the changes by the shard that executes them.
    pub fn parts(self, changes: &[Change]) -> BTreeMap<ShardId, Vec<usize>> {
        let mut parts: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
        for (number, change) in changes.iter().enumerate() {
            let place = self.place_of_change(change);
            let shards = place.shard().map_or_else(|| self.shards().collect(), |at| vec![at]);
            shards.into_iter().for_each(|at| parts.entry(at).or_default().push(number));
        }
        parts
    }

    /// Place where a write is executed.
    pub fn place_of_write(self, write: &Write) -> Location {
        match write {
            Write::Change(change) => self.place_of_change(change),
            Write::Multi(changes) => together(changes.iter().map(|c| self.place_of_change(c))),
            Write::Open { .. } | Write::Close | Write::Reap | Write::Spread(_) => {
                Location::At(HOME)
            }
        }
    }

    /// Place where a read is answered.
    pub fn place_of_read(self, read: &Read) -> Location {
        match read {
            Read::Sync(path) => match self.place(path) {
                Location::Everywhere => Location::At(HOME),
                place => place,
            },
            Read::Ephemerals(_) if self.is_spread() => Location::Everywhere,
            Read::Multi(reads) => match together(reads.iter().map(|r| self.place_of_read(r))) {
                Location::Everywhere => Location::Several,
                place => place,
            },
            read => read.path().map_or(Location::At(HOME), |path| self.place(path)),
        }
    }
}

/// The common place of all, if there is one.
fn together(places: impl Iterator<Item = Location>) -> Location {
    let mut places = places.filter(|place| *place != Location::Nowhere);
    let first = places.next().unwrap_or(Location::Nowhere);
    if places.all(|place| place == first) { first } else { Location::Several }
}

/// The top-level name, which decides the place of a path; none for the root and the nodes above
/// quotas.
pub(super) fn top_of(path: &[u8]) -> Option<&[u8]> {
    if is_everywhere(path) {
        return None;
    }
    let of_quota = path.strip_prefix(quota::ALL).filter(|below| below.starts_with(path::ROOT));
    Some(of_quota.unwrap_or(path).split(|byte| *byte == b'/').nth(1).unwrap_or_default())
}

/// Whether a path is at all shards: the root, and the nodes above quotas.
pub(super) fn is_everywhere(path: &[u8]) -> bool {
    path == path::ROOT || path == quota::ALL
}

/// Name without the number of a sequential node, by which the node was placed when it was created.
/// The number has ten digits, or eleven characters for the smallest of all.
pub(super) fn without_number(name: &[u8]) -> &[u8] {
    const PLACES: usize = 10;
    let Some(at) = name.len().checked_sub(PLACES) else { return name };
    let (rest, number) = name.split_at(at);
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    if !digits.iter().all(u8::is_ascii_digit) {
        return name;
    }
    if number == b"2147483648" { rest.strip_suffix(b"-").unwrap_or(rest) } else { rest }
}

#[cfg(test)]
mod tests {
    use super::super::{Create, CreateMode};
    use super::*;
    use adt::Blob;

    const FOUR: Spread = Spread(4);

    fn sequential(path: &str) -> Change {
        let mode = CreateMode { sequential: true, ..CreateMode::default() };
        let (path, data, acl) = (Blob::from(path), None, Vec::new());
        Change::Create(Create { path, data, acl, mode, stat: false })
    }

    #[test]
    fn nodes_of_one_top_level_name_are_at_one_shard_with_their_quota() {
        let jobs = FOUR.place(b"/jobs");
        assert!(matches!(jobs, Location::At(_)));
        for path in ["/jobs/7", "/jobs/7/8", "/jobs/", "/zookeeper/quota/jobs/zookeeper_limits"] {
            assert_eq!(FOUR.place(path.as_bytes()), jobs, "{path}");
        }
        let places: std::collections::BTreeSet<u16> = (0..40)
            .filter_map(|n| match FOUR.place(format!("/n{n}/x").as_bytes()) {
                Location::At(shard) => Some(shard.0),
                _ => None,
            })
            .collect();
        assert_eq!(places.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(Spread::NOT.place(b"/"), Location::At(HOME));
        for (path, place) in [
            ("/", Location::Everywhere),
            ("/zookeeper/quota", Location::Everywhere),
            ("/zookeeper", Location::At(HOME)),
            ("/zookeeper/config", Location::At(HOME)),
            ("/zookeeper/quotas", Location::At(HOME)),
            ("/zookeeper/quota/zookeeper", Location::At(HOME)),
            ("//", Location::Nowhere),
            ("", Location::Nowhere),
            ("jobs", Location::Nowhere),
        ] {
            assert_eq!(FOUR.place(path.as_bytes()), place, "{path}");
        }
    }

    #[test]
    fn a_sequential_node_is_found_where_it_was_created() {
        for (begins, number) in [
            ("/job-", "0000000003"),
            ("/job-0000000003", "2147483647"),
            ("/job", "-000000001"),
            ("/j-", "-2147483648"),
            ("/", "0000000000"),
        ] {
            let created = FOUR.place_of_change(&sequential(begins));
            assert_eq!(FOUR.place(format!("{begins}{number}").as_bytes()), created, "{begins}");
        }
        let below = FOUR.place_of_change(&sequential("/jobs/job-"));
        assert_eq!(below, FOUR.place(b"/jobs"));
    }

    #[test]
    fn requests_to_several_shards_are_not_executed_together() {
        let at = |n: u16| {
            let names = (0..100).map(|i| Blob::from(format!("/n{i}")));
            let mut found = names.filter(|name| FOUR.place(name) == Location::At(ShardId(n)));
            found.next().expect("a hundred names are enough")
        };
        let delete = |path: &Blob| Change::Delete { path: path.clone(), version: -1 };
        let same = Write::Multi(vec![delete(&at(2)), delete(&path::join(&at(2), b"x"))]);
        assert_eq!(FOUR.place_of_write(&same), Location::At(ShardId(2)));
        let others = Write::Multi(vec![delete(&at(2)), delete(&at(3))]);
        assert_eq!(FOUR.place_of_write(&others), Location::Several);
        assert_eq!(Spread::NOT.place_of_write(&others), Location::At(HOME));
        let cannot_be = Write::Multi(vec![delete(&at(2)), delete(&Blob::from("//"))]);
        assert_eq!(FOUR.place_of_write(&cannot_be), Location::At(ShardId(2)));
        let reads = vec![Read::Data(at(1)), Read::Data(at(2))];
        assert_eq!(FOUR.place_of_read(&Read::Multi(reads)), Location::Several);
        let root = || Blob::from("/");
        let data = Change::SetData { path: root(), data: None, version: -1 };
        assert_eq!(FOUR.place_of_change(&data), Location::At(HOME));
        let rules = Change::SetAcl { path: root(), acl: Vec::new(), version: -1 };
        assert_eq!(FOUR.place_of_change(&rules), Location::Several);
    }
}
