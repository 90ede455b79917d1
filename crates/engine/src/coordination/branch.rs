//! Branches: all that is below one top-level name, and what is at all shards of a tree. What a session
//! sends ahead to several shards holds the branches that it is about until everything before it is closed
//! ("Over several shards" in `docs/internals/coordination.md`), so branches, and not nodes, decide who waits
//! for whom: a change of a node shows in its parent, and in the quotas of all above it.

use super::ask::{Ask, OfSession};
use super::path;
use super::request::{Change, Read, Write};
use super::service::Command;
use super::spread::{is_everywhere, top_of, without_number};
use crate::ids::KeyedOp;
use adt::key::KeyOp;
use adt::{Blob, Op};
use smallvec::SmallVec;

/// A branch, by its top-level name, without the number of a sequential node; empty for what is at all
/// shards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Branch(Blob);

/// What stands before its name in the key under which a branch has its order. The operations of such keys
/// have no effect whatever is there, so it does no harm if somebody has a record of the same name.
const KEY: &[u8] = b"\0branch\0";

impl Branch {
    /// What is at all shards: the root, and what is above quotas.
    pub fn root() -> Self {
        Self(Blob::default())
    }

    /// The branch that a path is in.
    pub fn of(path: &[u8]) -> Self {
        Self(Blob::new(top_of(path).map_or(&b""[..], without_number)))
    }

    /// The name.
    pub fn name(&self) -> &[u8] {
        &self.0
    }

    /// Where a sequential node goes whose name begins so.
    fn of_sequential(path: &[u8]) -> Self {
        match path.strip_prefix(path::ROOT) {
            Some(name) if !name.contains(&b'/') => Self(Blob::new(name)),
            _ => Self::of(path),
        }
    }

    /// An operation that has no effect and stands in the order of the branch: two of them commute if neither
    /// changes something.
    fn ticket(&self, changes: bool) -> KeyedOp {
        let key = Blob::from([KEY, &self.0[..]].concat());
        // No record expires in 1970.
        let change = KeyOp::Reap { expire_at_ms: 0 };
        (key, Op::Key(if changes { change } else { KeyOp::Exists }))
    }
}

/// What something shows or changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// These branches, each once.
    pub branches: SmallVec<[Branch; 2]>,
    /// Perhaps all that there are.
    pub all: bool,
    /// It changes something.
    pub changes: bool,
}

impl Touched {
    /// Nodes that come or go.
    pub fn nodes<'p>(paths: impl Iterator<Item = &'p Blob>) -> Self {
        let mut touched = Self { changes: true, ..Self::default() };
        paths.for_each(|path| touched.node(path, Branch::of(path)));
        touched
    }

    /// Changes.
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

    /// A node of a branch comes or goes, and its parent's children change.
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
            // It is about whatever the session has created.
            Read::Ephemerals(_) => self.all = true,
            Read::Descendants(path) if is_everywhere(path) => self.all = true,
            read => self.add(Branch::of(read.path().map_or(path::ROOT, |path| &path[..]))),
        }
    }

    /// Whether it has a place in the order of branches: it is about some, and it is known about which.
    pub fn has_place(&self) -> bool {
        !self.all && !self.branches.is_empty()
    }

    /// Operations that hold this.
    pub fn tickets(&self) -> SmallVec<[KeyedOp; 1]> {
        self.branches.iter().map(|branch| branch.ticket(self.changes)).collect()
    }
}

impl Write {
    /// What it changes of the tree. What a session leaves behind when it ends is known to the shard.
    pub fn touches(&self) -> Touched {
        Touched::changes(self.changes())
    }
}

impl OfSession {
    /// What it shows of the tree. What happens behind a watch is told, whenever it begins.
    pub fn touches(&self) -> Touched {
        let mut touched = Touched::default();
        if let Self::Read { read, .. } = self {
            touched.read(read);
        }
        touched
    }
}

impl Ask {
    /// What it shows or changes of the tree.
    pub fn touches(&self) -> Touched {
        match self {
            Self::Write(command) => command.write.touches(),
            Self::Of(_, of) => of.touches(),
            Self::Resume { .. } | Self::Leave(_) => Touched::default(),
        }
    }

    /// Whether it can be sent ahead to several shards as a unit of a stream.
    pub fn may_be_unit(&self) -> bool {
        let is_step = matches!(self, Self::Write(Command { write: Write::Spread(_), .. }));
        !is_step && self.touches().has_place()
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::{Create, Mode, SessionId};
    use super::*;

    fn names(touched: &Touched) -> Vec<&str> {
        touched.branches.iter().map(|b| std::str::from_utf8(&b.0).expect("a name")).collect()
    }

    fn write(changes: Vec<Change>) -> Ask {
        Ask::Write(Command::of(SessionId(1), Write::Multi(changes)))
    }

    fn create(path: &str, sequential: bool) -> Change {
        let mode = Mode { sequential, ..Mode::default() };
        let (path, data, acl) = (Blob::from(path), None, Vec::new());
        Change::Create(Create { path, data, acl, mode, stat: false })
    }

    fn read(read: Read) -> Ask {
        Ask::Of(SessionId(1), OfSession::Read { identities: Vec::new(), read, watch: false })
    }

    #[test]
    fn what_comes_or_goes_at_the_top_is_a_child_of_the_root() {
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
            let touched = asked.touches();
            assert_eq!(names(&touched), branches, "{asked:?}");
            assert!(asked.may_be_unit() && !touched.all);
            assert_eq!(touched.changes, matches!(asked, Ask::Write(_)));
            assert_eq!(touched.tickets().len(), branches.len());
        }
        for asked in [Read::Ephemerals(Blob::from("/")), Read::Descendants(Blob::from("/"))] {
            let asked = read(asked);
            assert!(asked.touches().all && !asked.may_be_unit());
        }
        assert!(!write(Vec::new()).may_be_unit() && !read(Read::Multi(Vec::new())).may_be_unit());
        let leaves = Ask::Write(Command::of(SessionId(1), Write::Close));
        assert!(!leaves.may_be_unit() && leaves.touches().branches.is_empty());
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
