//! The tree over several shards: which shard has which nodes, and what shards are told about sessions that
//! are at more than one.
//!
//! Nodes go by their top-level name: `/jobs/7` is where `/jobs` is. The root is at every shard, each with the
//! children that it has; shard 0 has its data. A session begins and ends at shard 0. It *joins* another shard
//! there before it *enters* it, and its end is known to all that it has joined before anybody sees it: see
//! "Over several shards" in `docs/internals/coordination.md`.

use super::path;
use super::quota;
use super::request::{Change, Password, Read, Write, Zxid};
use super::service::JointId;
use crate::ids::ShardId;
use crate::slot::slot;
use std::collections::BTreeMap;

/// The shard that has the sessions and the root's data: that of slot 0, which no split takes from it.
pub const HOME: ShardId = ShardId(0);

/// Over how many shards a tree is spread: those with the first numbers. It is said before the first session
/// begins, and is not changed afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spread(u16);

impl Default for Spread {
    fn default() -> Self {
        Self::NOT
    }
}

/// Where something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this shard.
    At(ShardId),
    /// At all of them: the root, and what is above quotas.
    Everywhere,
    /// At several. They change things together ([`Spread::parts`]), and are not looked at together.
    Several,
    /// There can be no such node: any shard knows that.
    Nowhere,
}

impl Place {
    /// The shard that does it, if it is one.
    pub fn shard(self) -> Option<ShardId> {
        match self {
            Self::At(shard) => Some(shard),
            Self::Nowhere => Some(HOME),
            Self::Everywhere | Self::Several => None,
        }
    }
}

impl Spread {
    /// Everything is at one shard.
    pub const NOT: Self = Self(1);

    /// Over so many shards; at least one.
    pub fn over(shards: u16) -> Self {
        Self(shards.max(1))
    }

    /// How many.
    pub fn count(self) -> u16 {
        self.0
    }

    /// Whether there are several.
    pub fn is_spread(self) -> bool {
        self.0 > 1
    }

    /// All of them.
    pub fn shards(self) -> impl Iterator<Item = ShardId> {
        (0..self.0).map(ShardId)
    }

    /// Where the node at a path is, or would be.
    pub fn place(self, path: &[u8]) -> Place {
        if !self.is_spread() {
            return Place::At(HOME);
        }
        match top_of(path) {
            None => Place::Everywhere,
            Some(b"") => Place::Nowhere,
            Some(b"zookeeper") => Place::At(HOME),
            Some(name) => self.place_of_name(without_number(name)),
        }
    }

    /// Where a node goes whose name begins so and gets a number: to all others that begin like it.
    fn place_of_sequential(self, path: &[u8]) -> Place {
        match path.strip_prefix(path::ROOT) {
            Some(name) if self.is_spread() && !name.contains(&b'/') => self.place_of_name(name),
            _ => self.place(path),
        }
    }

    fn place_of_name(self, name: &[u8]) -> Place {
        Place::At(ShardId(slot(name) % self.0))
    }

    /// Where a change is carried out.
    pub fn place_of_change(self, change: &Change) -> Place {
        let place = match change {
            Change::Create(create) if create.mode.sequential => {
                self.place_of_sequential(&create.path)
            }
            change => self.place(change.path()),
        };
        match (place, change) {
            // Its rules say who may create and delete its children, everywhere.
            (Place::Everywhere, Change::SetAcl { .. }) => Place::Several,
            (Place::Everywhere, _) => Place::At(HOME),
            (place, _) => place,
        }
    }

    /// Which of these changes is carried out where: by shard, their numbers.
    pub fn parts(self, changes: &[Change]) -> BTreeMap<ShardId, Vec<usize>> {
        let mut parts: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
        for (number, change) in changes.iter().enumerate() {
            let place = self.place_of_change(change);
            let shards = place.shard().map_or_else(|| self.shards().collect(), |at| vec![at]);
            shards.into_iter().for_each(|at| parts.entry(at).or_default().push(number));
        }
        parts
    }

    /// Where a write is carried out.
    pub fn place_of_write(self, write: &Write) -> Place {
        match write {
            Write::Change(change) => self.place_of_change(change),
            Write::Multi(changes) => together(changes.iter().map(|c| self.place_of_change(c))),
            Write::Open { .. } | Write::Close | Write::Reap | Write::Spread(_) => Place::At(HOME),
        }
    }

    /// Where a read is answered.
    pub fn place_of_read(self, read: &Read) -> Place {
        match read {
            Read::Sync(path) => match self.place(path) {
                Place::Everywhere => Place::At(HOME),
                place => place,
            },
            Read::Ephemerals(_) if self.is_spread() => Place::Everywhere,
            Read::Multi(reads) => match together(reads.iter().map(|r| self.place_of_read(r))) {
                Place::Everywhere => Place::Several,
                place => place,
            },
            read => read.path().map_or(Place::At(HOME), |path| self.place(path)),
        }
    }
}

/// The place of all, if they have the same one.
fn together(places: impl Iterator<Item = Place>) -> Place {
    let mut places = places.filter(|place| *place != Place::Nowhere);
    let first = places.next().unwrap_or(Place::Nowhere);
    if places.all(|place| place == first) { first } else { Place::Several }
}

/// The top-level name that decides where a path is; none of the root and of what is above quotas.
pub(super) fn top_of(path: &[u8]) -> Option<&[u8]> {
    if is_everywhere(path) {
        return None;
    }
    let of_quota = path.strip_prefix(quota::ALL).filter(|below| below.starts_with(path::ROOT));
    Some(of_quota.unwrap_or(path).split(|byte| *byte == b'/').nth(1).unwrap_or_default())
}

/// Whether a path is at all shards: the root, and what is above quotas.
pub(super) fn is_everywhere(path: &[u8]) -> bool {
    path == path::ROOT || path == quota::ALL
}

/// A name without the number that a sequential node gets, so that it is found where it was created. The
/// number has ten places, or eleven for the smallest of all.
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

/// What shards are told about a tree that is spread and about sessions that are at several of them. All but
/// [`Step::Join`] and [`Step::Prepare`] come from gateways or shards by themselves, and do not need the
/// session to be anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The tree is over so many shards, if nobody has said so before and there was never anything in it. At
    /// shard 0. Answer: [`Reply::Number`](super::Reply::Number), over how many it is for good.
    Over(Spread),
    /// The session is about to enter these shards. At shard 0; the number of this change is what it enters
    /// with. Answer: [`Reply::Done`](super::Reply::Done).
    Join(Vec<ShardId>),
    /// The session is at this shard from now on, and at the gateway that says so. Answer:
    /// [`Reply::Done`](super::Reply::Done), or [`Code::SessionMoved`](super::Code::SessionMoved) if somebody
    /// has entered it with a later number, or it may have ended since.
    Enter {
        /// It ends when nothing was heard of it for so long; for those who ask.
        timeout_ms: i32,
        /// What proves that it is one's own; for those who ask.
        password: Password,
        /// The number of the change at shard 0 with which it has joined.
        joined: Zxid,
    },
    /// The session ends: nothing more of it is let in, and its nodes are shown to nobody until it is known
    /// that it has ended everywhere. Nobody enters it with a smaller number. Answer:
    /// [`Reply::Done`](super::Reply::Done).
    Depart {
        /// The number of the change at shard 0 with which it began to end.
        ended: Zxid,
    },
    /// The session has departed from all others: it ends, and its nodes at shard 0 with it. Answer:
    /// [`Reply::Done`](super::Reply::Done).
    Finish,
    /// It has ended, and its nodes at this shard are deleted. Answer: [`Reply::Done`](super::Reply::Done).
    Gone,
    /// All shards know. Shard 0 forgets it. Answer: [`Reply::Done`](super::Reply::Done).
    Forget,
    /// The changes of a session's `multi` at this shard are tried, and wait for what is decided. Answer: what
    /// would come of them, as [`Reply::Multi`](super::Reply::Multi); or
    /// [`Reply::Done`](super::Reply::Done), if they are not prepared because this is no moment for it.
    Prepare {
        /// Which.
        id: JointId,
        /// All shards that have a part of it.
        shards: Vec<ShardId>,
        /// What this one has.
        changes: Vec<Change>,
    },
    /// What is known here of a `multi`; if that is nothing, it is not prepared here any more. Answer:
    /// [`Reply::Number`](super::Reply::Number), see [`Fate::number`](super::service::Fate::number).
    Inquire {
        /// Which.
        id: JointId,
    },
    /// What becomes of a `multi`. Answer, if it was prepared here until now: what came of its changes, as
    /// [`Reply::Multi`](super::Reply::Multi), which is empty if it has no effect. Otherwise
    /// [`Reply::Done`](super::Reply::Done).
    Decide {
        /// Which.
        id: JointId,
        /// All shards have prepared it, and none votes against it.
        commit: bool,
    },
}

impl Step {
    /// Whether it is a session's that must be at the gateway that asks.
    pub fn is_asked_by_session(&self) -> bool {
        matches!(self, Self::Join(_) | Self::Prepare { .. })
    }

    /// Whether it is about a `multi` over several shards.
    pub fn is_of_joint(&self) -> bool {
        matches!(self, Self::Prepare { .. } | Self::Inquire { .. } | Self::Decide { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Create, Mode};
    use super::*;
    use adt::Blob;

    const FOUR: Spread = Spread(4);

    fn sequential(path: &str) -> Change {
        let mode = Mode { sequential: true, ..Mode::default() };
        let (path, data, acl) = (Blob::from(path), None, Vec::new());
        Change::Create(Create { path, data, acl, mode, stat: false })
    }

    #[test]
    fn what_has_the_same_top_level_name_is_together_and_its_quota_with_it() {
        let jobs = FOUR.place(b"/jobs");
        assert!(matches!(jobs, Place::At(_)));
        for path in ["/jobs/7", "/jobs/7/8", "/jobs/", "/zookeeper/quota/jobs/zookeeper_limits"] {
            assert_eq!(FOUR.place(path.as_bytes()), jobs, "{path}");
        }
        let places: std::collections::BTreeSet<u16> = (0..40)
            .filter_map(|n| match FOUR.place(format!("/n{n}/x").as_bytes()) {
                Place::At(shard) => Some(shard.0),
                _ => None,
            })
            .collect();
        assert_eq!(places.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(Spread::NOT.place(b"/"), Place::At(HOME));
        for (path, place) in [
            ("/", Place::Everywhere),
            ("/zookeeper/quota", Place::Everywhere),
            ("/zookeeper", Place::At(HOME)),
            ("/zookeeper/config", Place::At(HOME)),
            ("/zookeeper/quotas", Place::At(HOME)),
            ("/zookeeper/quota/zookeeper", Place::At(HOME)),
            ("//", Place::Nowhere),
            ("", Place::Nowhere),
            ("jobs", Place::Nowhere),
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
    fn what_is_at_several_shards_is_not_done_together() {
        let at = |n: u16| {
            let names = (0..100).map(|i| Blob::from(format!("/n{i}")));
            let mut found = names.filter(|name| FOUR.place(name) == Place::At(ShardId(n)));
            found.next().expect("a hundred names are enough")
        };
        let delete = |path: &Blob| Change::Delete { path: path.clone(), version: -1 };
        let same = Write::Multi(vec![delete(&at(2)), delete(&path::join(&at(2), b"x"))]);
        assert_eq!(FOUR.place_of_write(&same), Place::At(ShardId(2)));
        let others = Write::Multi(vec![delete(&at(2)), delete(&at(3))]);
        assert_eq!(FOUR.place_of_write(&others), Place::Several);
        assert_eq!(Spread::NOT.place_of_write(&others), Place::At(HOME));
        let cannot_be = Write::Multi(vec![delete(&at(2)), delete(&Blob::from("//"))]);
        assert_eq!(FOUR.place_of_write(&cannot_be), Place::At(ShardId(2)));
        let reads = vec![Read::Data(at(1)), Read::Data(at(2))];
        assert_eq!(FOUR.place_of_read(&Read::Multi(reads)), Place::Several);
        let root = || Blob::from("/");
        let data = Change::SetData { path: root(), data: None, version: -1 };
        assert_eq!(FOUR.place_of_change(&data), Place::At(HOME));
        let rules = Change::SetAcl { path: root(), acl: Vec::new(), version: -1 };
        assert_eq!(FOUR.place_of_change(&rules), Place::Several);
    }
}
