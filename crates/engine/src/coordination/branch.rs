//! Branches: each holds everything below one top-level name; one more holds the nodes that are at
//! all shards of a tree. A request that a session sends ahead to several shards holds its branches
//! until everything before it is closed (see
//! `docs/internals/coordination/several-shards.md`). Branches rather than nodes decide which request
//! waits for which, because a change of a node is visible in its parent, and in the quotas of all its
//! ancestors.

use super::ask::{Ask, OfSession};
use super::request::{Change, Read, Write};
use super::service::Command;
use super::spread::{is_everywhere, top_of, without_number};
use super::tree::path;
use crate::ids::KeyedOp;
use adt::key::KeyOp;
use adt::{Blob, Op};
use smallvec::SmallVec;

/// Branch by its top-level name, without the number of a sequential node; empty for the nodes that
/// are at all shards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Branch(Blob);

/// Prefix of the keys by which branches are ordered; the name follows. Operations on these keys
/// never have an effect, so a record of a client under the same key does no harm.
const KEY: &[u8] = b"\0branch\0";

impl Branch {
    /// Branch of the nodes at all shards: the root, and the nodes above quotas.
    pub fn root() -> Self {
        Self(Blob::default())
    }

    /// Branch of a path.
    pub fn of(path: &[u8]) -> Self {
        Self(Blob::new(top_of(path).map_or(&b""[..], without_number)))
    }

    /// Top-level name.
    pub fn name(&self) -> &[u8] {
        &self.0
    }

    /// Branch of a new sequential node with this path, to which a number will be appended.
    fn of_sequential(path: &[u8]) -> Self {
        match path.strip_prefix(path::ROOT) {
            Some(name) if !name.contains(&b'/') => Self(Blob::new(name)),
            _ => Self::of(path),
        }
    }

    /// Operation without effect that takes a place in the order of the branch: two of them commute
    /// if neither stands for a change.
    fn ticket(&self, changes: bool) -> KeyedOp {
        let key = Blob::from([KEY, &self.0[..]].concat());
        // No record expires in 1970.
        let change = KeyOp::Reap { expire_at_ms: 0 };
        (key, Op::Key(if changes { change } else { KeyOp::Exists }))
    }
}

/// Branches that a request reads or changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Known branches, each once.
    pub branches: SmallVec<[Branch; 2]>,
    /// Whether it may concern all branches.
    pub all: bool,
    /// Whether it is a change.
    pub changes: bool,
}

impl Footprint {
    /// Branches of nodes that are created or deleted.
    pub fn nodes<'p>(paths: impl Iterator<Item = &'p Blob>) -> Self {
        let mut touched = Self { changes: true, ..Self::default() };
        paths.for_each(|path| touched.node(path, Branch::of(path)));
        touched
    }

    /// Branches of changes.
    pub fn changes<'c>(changes: impl IntoIterator<Item = &'c Change>) -> Self {
        let mut touched = Self { changes: true, ..Self::default() };
        changes.into_iter().for_each(|change| touched.change(change));
        touched
    }

    fn add(&mut self, branch: Branch) {
        if !self.branches.contains(&branch) {
            self.branches.push(branch);
        }
    }

    /// Adds the branch of a node that is created or deleted, and of its parent, whose children
    /// change.
    fn node(&mut self, path: &[u8], branch: Branch) {
        self.add(branch);
        if path::parent_to_be(path).is_some_and(is_everywhere) {
            self.add(Branch::root());
        }
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Create(create) if create.mode.sequential => {
                self.node(&create.path, Branch::of_sequential(&create.path));
            }
            Change::Create(_) | Change::Delete { .. } => {
                self.node(change.path(), Branch::of(change.path()));
            }
            change => self.add(Branch::of(change.path())),
        }
    }

    fn read(&mut self, read: &Read) {
        match read {
            Read::Multi(reads) => reads.iter().for_each(|read| self.read(read)),
            // The session may have created nodes in every branch.
            Read::Ephemerals(_) => self.all = true,
            Read::Descendants(path) if is_everywhere(path) => self.all = true,
            read => self.add(Branch::of(read.path().map_or(path::ROOT, |path| &path[..]))),
        }
    }

    /// Whether the request has a place in the order of branches: it concerns some, and all are
    /// known.
    pub fn has_place(&self) -> bool {
        !self.all && !self.branches.is_empty()
    }

    /// Operations that take this request's places in the order of its branches.
    pub fn tickets(&self) -> SmallVec<[KeyedOp; 1]> {
        self.branches.iter().map(|branch| branch.ticket(self.changes)).collect()
    }
}

impl Write {
    /// Branches that the write changes. The shard knows the nodes that a session's end deletes.
    pub fn footprint(&self) -> Footprint {
        Footprint::changes(self.changes())
    }
}

impl OfSession {
    /// Branches that the request reads. A watch reports all events of its node, whatever the order
    /// in which it was set.
    pub fn footprint(&self) -> Footprint {
        let mut touched = Footprint::default();
        if let Self::Read { read, .. } = self {
            touched.read(read);
        }
        touched
    }
}

impl Ask {
    /// Branches that the request reads or changes.
    pub fn footprint(&self) -> Footprint {
        match self {
            Self::Write(command) => command.write.footprint(),
            Self::Of(_, of) => of.footprint(),
            Self::Resume { .. } | Self::Leave(_) => Footprint::default(),
        }
    }

    /// Whether the request can be sent ahead to several shards as a unit of a stream.
    pub fn may_be_unit(&self) -> bool {
        let is_step = matches!(self, Self::Write(Command { write: Write::Spread(_), .. }));
        !is_step && self.footprint().has_place()
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::{Create, CreateMode, TreeSessionId};
    use super::*;

    fn names(touched: &Footprint) -> Vec<&str> {
        touched.branches.iter().map(|b| std::str::from_utf8(&b.0).expect("a name")).collect()
    }

    fn write(changes: Vec<Change>) -> Ask {
        Ask::Write(Command::of(TreeSessionId(1), Write::Multi(changes)))
    }

    fn create(path: &str, sequential: bool) -> Change {
        let mode = CreateMode { sequential, ..CreateMode::default() };
        let (path, data, acl) = (Blob::from(path), None, Vec::new());
        Change::Create(Create { path, data, acl, mode, stat: false })
    }

    fn read(read: Read) -> Ask {
        Ask::Of(TreeSessionId(1), OfSession::Read { identities: Vec::new(), read, watch: false })
    }

    #[test]
    fn a_created_or_deleted_top_level_node_concerns_the_root() {
        let set = |path: &str| Change::SetData { path: Blob::from(path), data: None, version: -1 };
        for (asked, branches) in [
            (write(vec![set("/jobs/7"), set("/jobs")]), &["jobs"][..]),
            (write(vec![create("/jobs", false)]), &["jobs", ""]),
            (write(vec![create("/jobs/7", false)]), &["jobs"]),
            (write(vec![create("/job-", true)]), &["job-", ""]),
            (write(vec![create("/job-0000000003", true)]), &["job-0000000003", ""]),
            (write(vec![set("/job-0000000003")]), &["job-"]),
            (write(vec![create("/zookeeper/quota/jobs", false)]), &["jobs", ""]),
            (write(vec![create("/zookeeper/quota/jobs/zookeeper_limits", false)]), &["jobs"]),
            (read(Read::Exists(Blob::from("/jobs"))), &["jobs"]),
            (read(Read::Children { path: Blob::from("/"), stat: true }), &[""]),
        ] {
            let touched = asked.footprint();
            assert_eq!(names(&touched), branches, "{asked:?}");
            assert!(asked.may_be_unit() && !touched.all);
            assert_eq!(touched.changes, matches!(asked, Ask::Write(_)));
            assert_eq!(touched.tickets().len(), branches.len());
        }
        for asked in [Read::Ephemerals(Blob::from("/")), Read::Descendants(Blob::from("/"))] {
            let asked = read(asked);
            assert!(asked.footprint().all && !asked.may_be_unit());
        }
        assert!(!write(Vec::new()).may_be_unit() && !read(Read::Multi(Vec::new())).may_be_unit());
        let leaves = Ask::Write(Command::of(TreeSessionId(1), Write::Close));
        assert!(!leaves.may_be_unit() && leaves.footprint().branches.is_empty());
    }

    #[test]
    fn tickets_have_no_effect_and_reads_commute() {
        let (key, change) = Branch::of(b"/jobs").ticket(true);
        let (same, look) = Branch::of(b"/jobs/7").ticket(false);
        assert_eq!(key, same);
        let access = |op| adt::Access { op, observed: true };
        let commute = |a, b| adt::record::commutes(None, access(a), access(b));
        assert!(commute(&look, &look) && !commute(&look, &change) && !commute(&change, &change));
        let mut record = None;
        let ctx = adt::Ctx::default();
        adt::record::apply(&mut record, &change, &ctx);
        assert!(record.is_none());
    }
}
