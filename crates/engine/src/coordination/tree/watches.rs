//! Watches of all sessions. They are the leader's memory and not part of the replicated state:
//! clients set their watches again when they reconnect after a leader change.

use super::GuardedEvent;
use super::acl::Rules;
use super::path;
use crate::coordination::request::{Happened, TreeSessionId, Watch, WatchedEvent, WatcherType};
use crate::coordination::survey::Watched;
use adt::Blob;
use std::collections::{BTreeMap, BTreeSet};

/// Watches of a session at one path: a sum of the bits below. Each can be removed by itself, as in
/// ZooKeeper since 3.9.
type Kinds = u8;
const DATA: Kinds = 1;
const CHILD: Kinds = 2;
const LASTING: Kinds = 4;
const RECURSIVE: Kinds = 8;
const ALL: Kinds = 15;
/// Watches that fire once.
const ONCE: Kinds = DATA | CHILD;

fn kind(watch: Watch) -> Kinds {
    match watch {
        // A watch on a missing node is kept with those on data, and fires at its creation.
        Watch::Data | Watch::Exist => DATA,
        Watch::Child => CHILD,
        Watch::Persistent => LASTING,
        Watch::Recursive => RECURSIVE,
    }
}

/// All watches of a tree.
#[derive(Debug, Default)]
pub struct Watches {
    at: BTreeMap<Blob, BTreeMap<TreeSessionId, Kinds>>,
    of: BTreeMap<TreeSessionId, BTreeSet<Blob>>,
    /// Number of watches: each pair of a session and a path counts once.
    count: usize,
}

impl Watches {
    /// Number of watches: each pair of a session and a path counts once.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Figures about watches.
    pub fn count(&self) -> Watched {
        let (sessions, paths) = (self.of.len(), self.at.len());
        Watched { sessions, paths, watches: self.count }
    }

    /// Paths that each session watches.
    pub fn list(&self) -> Vec<(TreeSessionId, Vec<Blob>)> {
        let of = self.of.iter();
        of.map(|(session, paths)| (*session, paths.iter().cloned().collect())).collect()
    }

    /// Whether no session watches anything.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a watch of a session on a path.
    pub fn add(&mut self, session: TreeSessionId, path: &Blob, watch: Watch) {
        let kinds = self.at.entry(path.clone()).or_default().entry(session).or_insert_with(|| {
            self.count += 1;
            self.of.entry(session).or_default().insert(path.clone());
            0
        });
        *kinds |= kind(watch);
    }

    /// Whether a session has such a watch on a path.
    pub fn has(&self, session: TreeSessionId, path: &Blob, which: WatcherType) -> bool {
        self.at.get(path).and_then(|at| at.get(&session)).is_some_and(|k| k & bits(which) != 0)
    }

    /// Removes such watches of a session on a path. Returns whether it had some.
    pub fn remove(&mut self, session: TreeSessionId, path: &Blob, which: WatcherType) -> bool {
        let had = self.has(session, path, which);
        self.clear(session, path, bits(which));
        had
    }

    /// Removes all watches of a session.
    pub fn forget(&mut self, session: TreeSessionId) {
        for path in self.of.remove(&session).unwrap_or_default() {
            if let Some(at) = self.at.get_mut(&path) {
                self.count -= usize::from(at.remove(&session).is_some());
                if at.is_empty() {
                    self.at.remove(&path);
                }
            }
        }
    }

    fn clear(&mut self, session: TreeSessionId, path: &Blob, bits: Kinds) {
        let Some(at) = self.at.get_mut(path) else { return };
        let Some(kinds) = at.get_mut(&session) else { return };
        *kinds &= !bits;
        if *kinds != 0 {
            return;
        }
        at.remove(&session);
        self.count -= 1;
        if at.is_empty() {
            self.at.remove(path);
        }
        if let Some(of) = self.of.get_mut(&session) {
            of.remove(path);
            if of.is_empty() {
                self.of.remove(&session);
            }
        }
    }

    /// Fires the watches on a node: adds the sessions to notify with their events, in order, and
    /// removes the one-time watches.
    pub fn fire(
        &mut self,
        change: &GuardedEvent,
        notified: &mut Vec<(TreeSessionId, WatchedEvent, Rules)>,
    ) {
        let event = &change.event;
        if self.is_empty() {
            return;
        }
        let fired = match event.happened {
            Happened::Created | Happened::Data => DATA | LASTING | RECURSIVE,
            Happened::Deleted => ALL,
            Happened::Children => CHILD | LASTING,
        };
        self.notify(event, fired, &change.rules, notified);
        if matches!(event.happened, Happened::Created | Happened::Deleted)
            && let Some((parent, _)) = path::split(&event.path)
        {
            let children = WatchedEvent { happened: Happened::Children, path: Blob::new(parent) };
            self.notify(&children, CHILD | LASTING, &change.parents, notified);
        }
    }

    fn notify(
        &mut self,
        event: &WatchedEvent,
        fired: Kinds,
        rules: &Rules,
        notified: &mut Vec<(TreeSessionId, WatchedEvent, Rules)>,
    ) {
        let path = &event.path;
        let mut watchers: BTreeSet<TreeSessionId> = BTreeSet::new();
        let mut spent: Vec<TreeSessionId> = Vec::new();
        if let Some(at) = self.at.get(path) {
            for (session, kinds) in at {
                if kinds & fired != 0 {
                    watchers.insert(*session);
                }
                if kinds & fired & ONCE != 0 {
                    spent.push(*session);
                }
            }
        }
        // A recursive watch reports each node below instead of changed children of its parent.
        let recursive = fired & RECURSIVE;
        if recursive != 0 {
            for above in path::upwards(path) {
                let at = self.at.get(above).into_iter().flatten();
                watchers.extend(at.filter(|(_, kinds)| *kinds & recursive != 0).map(|(s, _)| *s));
            }
        }
        for session in spent {
            self.clear(session, path, fired & ONCE);
        }
        notified.extend(watchers.into_iter().map(|who| (who, event.clone(), rules.clone())));
    }
}

fn bits(which: WatcherType) -> Kinds {
    match which {
        WatcherType::Children => CHILD,
        WatcherType::Data => DATA,
        WatcherType::Persistent => LASTING,
        WatcherType::Recursive => RECURSIVE,
        WatcherType::Any => ALL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: TreeSessionId = TreeSessionId(1);
    const BEN: TreeSessionId = TreeSessionId(2);

    fn fire(watches: &mut Watches, happened: Happened, path: &str) -> Vec<(i64, Happened, String)> {
        let mut notified = Vec::new();
        let event = WatchedEvent { happened, path: Blob::from(path) };
        let (rules, parents) = (Rules::default(), Rules::default());
        watches.fire(&GuardedEvent { event, rules, parents }, &mut notified);
        let text = |path: &Blob| String::from_utf8_lossy(path).into_owned();
        notified.iter().map(|(who, event, _)| (who.0, event.happened, text(&event.path))).collect()
    }

    fn notice(who: TreeSessionId, happened: Happened, path: &str) -> (i64, Happened, String) {
        (who.0, happened, path.to_owned())
    }

    #[test]
    fn a_watch_for_one_change_tells_of_one() {
        let mut watches = Watches::default();
        watches.add(ANN, &Blob::from("/a"), Watch::Data);
        watches.add(BEN, &Blob::from("/a"), Watch::Data);
        let both = [notice(ANN, Happened::Data, "/a"), notice(BEN, Happened::Data, "/a")];
        assert_eq!(fire(&mut watches, Happened::Data, "/a"), both);
        assert!(watches.is_empty());
        assert_eq!(fire(&mut watches, Happened::Data, "/a"), []);
    }

    #[test]
    fn a_created_or_deleted_child_notifies_watches_on_the_parents_children() {
        let mut watches = Watches::default();
        let expected = [notice(ANN, Happened::Children, "/a")];
        for happened in [Happened::Created, Happened::Deleted] {
            watches.add(ANN, &Blob::from("/a"), Watch::Child);
            watches.add(BEN, &Blob::from("/a"), Watch::Data);
            assert_eq!(fire(&mut watches, happened, "/a/b"), expected);
        }
        watches.add(ANN, &Blob::from("/"), Watch::Child);
        let root = [notice(ANN, Happened::Children, "/")];
        assert_eq!(fire(&mut watches, Happened::Created, "/new"), root);
    }

    #[test]
    fn a_deletion_notifies_a_session_once_whatever_its_watches() {
        let mut watches = Watches::default();
        for watch in [Watch::Data, Watch::Child, Watch::Persistent, Watch::Recursive] {
            watches.add(ANN, &Blob::from("/a"), watch);
        }
        assert_eq!(
            fire(&mut watches, Happened::Deleted, "/a"),
            [notice(ANN, Happened::Deleted, "/a")]
        );
        // The persistent ones remain, and fire when the node exists again.
        assert_eq!(
            fire(&mut watches, Happened::Created, "/a"),
            [notice(ANN, Happened::Created, "/a")]
        );
        assert_eq!(watches.len(), 1);
        assert!(!watches.has(ANN, &Blob::from("/a"), WatcherType::Data));
    }

    #[test]
    fn watches_that_stay_are_removed_by_their_own_type() {
        let path = Blob::from("/a");
        let of_its_own = [
            (Watch::Data, WatcherType::Data),
            (Watch::Exist, WatcherType::Data),
            (Watch::Child, WatcherType::Children),
            (Watch::Persistent, WatcherType::Persistent),
            (Watch::Recursive, WatcherType::Recursive),
        ];
        for (watch, own) in of_its_own {
            let mut watches = Watches::default();
            watches.add(ANN, &path, watch);
            for (_, other) in of_its_own.into_iter().filter(|(_, which)| *which != own) {
                assert!(!watches.has(ANN, &path, other) && !watches.remove(ANN, &path, other));
            }
            assert!(watches.has(ANN, &path, own) && watches.has(ANN, &path, WatcherType::Any));
            assert!(watches.remove(ANN, &path, own), "{watch:?}");
            assert!(watches.is_empty());
            watches.add(ANN, &path, watch);
            assert!(watches.remove(ANN, &path, WatcherType::Any));
            assert!(watches.is_empty());
        }
        // A persistent watch remains when the other one at the path is removed.
        let mut watches = Watches::default();
        watches.add(ANN, &path, Watch::Persistent);
        watches.add(ANN, &path, Watch::Child);
        assert!(watches.remove(ANN, &path, WatcherType::Children));
        let children = [notice(ANN, Happened::Children, "/a")];
        assert_eq!(fire(&mut watches, Happened::Created, "/a/b"), children);
    }

    #[test]
    fn a_persistent_watch_reports_children_and_a_recursive_one_descendants() {
        let mut watches = Watches::default();
        watches.add(ANN, &Blob::from("/a"), Watch::Persistent);
        watches.add(BEN, &Blob::from("/"), Watch::Recursive);
        let first = [notice(BEN, Happened::Created, "/a/b"), notice(ANN, Happened::Children, "/a")];
        assert_eq!(fire(&mut watches, Happened::Created, "/a/b"), first);
        let deeper = [notice(BEN, Happened::Data, "/a/b/c")];
        assert_eq!(fire(&mut watches, Happened::Data, "/a/b/c"), deeper);
    }

    #[test]
    fn watches_are_removed_one_by_one_or_with_their_session() {
        let mut watches = Watches::default();
        let path = Blob::from("/a");
        watches.add(ANN, &path, Watch::Data);
        watches.add(ANN, &path, Watch::Child);
        watches.add(ANN, &Blob::from("/b"), Watch::Recursive);
        assert!(watches.remove(ANN, &path, WatcherType::Data));
        assert!(!watches.remove(ANN, &path, WatcherType::Data));
        assert!(watches.has(ANN, &path, WatcherType::Children));
        assert!(!watches.remove(BEN, &path, WatcherType::Any));
        assert_eq!(watches.len(), 2);
        watches.forget(ANN);
        assert!(watches.is_empty() && watches.at.is_empty() && watches.of.is_empty());
    }
}
