//! Stories about the replicated state of the service, as clients see it.

use super::service::{Command, Coordination};
use super::tree::Znode;
use super::*;
use crate::limits::REAPED_MAX;
use adt::{Blob, Timestamp};

mod joints;
mod quotas;

/// A service and the time of its next change.
#[derive(Clone, Debug, Default)]
struct World {
    service: Coordination,
    changes: u64,
    /// Events of the last change.
    events: Vec<WatchedEvent>,
    /// Identities of the client besides its session.
    who: Vec<Identity>,
}

const BEGIN_US: u64 = 1_800_000_000_000_000;

fn open_to_all() -> Vec<Acl> {
    let who = Identity { scheme: Blob::from("world"), id: Blob::from("anyone") };
    vec![Acl { perms: Acl::ALL, who }]
}

fn create(path: &str) -> Create {
    let (path, data) = (Blob::from(path), Some(Blob::from("x")));
    Create { path, data, acl: open_to_all(), mode: CreateMode::default(), stat: false }
}

fn ephemeral(path: &str) -> Change {
    lasting(path, Lasts::Session)
}

fn lasting(path: &str, lasts: Lasts) -> Change {
    Change::Create(Create { mode: CreateMode { lasts, sequential: false }, ..create(path) })
}

fn sequential(path: &str) -> Change {
    let mode = CreateMode { sequential: true, ..CreateMode::default() };
    Change::Create(Create { mode, ..create(path) })
}

fn set(path: &str, data: &str, version: i32) -> Change {
    Change::SetData { path: Blob::from(path), data: Some(Blob::from(data)), version }
}

fn delete(path: &str, version: i32) -> Change {
    Change::Delete { path: Blob::from(path), version }
}

fn happened(happened: Happened, path: &str) -> WatchedEvent {
    WatchedEvent { happened, path: Blob::from(path) }
}

impl World {
    fn write(&mut self, session: TreeSessionId, write: Write) -> Result<Reply, Code> {
        self.changes += 1;
        let command = Command { identities: self.who.clone(), ..Command::of(session, write) };
        let ts = Timestamp::from_micros(BEGIN_US + self.changes);
        let done = self.service.apply(&command, ts, 1000 + self.changes);
        self.events = done.events.into_iter().map(|change| change.event).collect();
        done.reply
    }

    fn open(&mut self) -> TreeSessionId {
        let open = Write::Open { timeout_ms: 10_000, password: [7; 16] };
        match self.write(TreeSessionId(0), open) {
            Ok(Reply::Session(session)) => session,
            other => panic!("{other:?}"),
        }
    }

    fn change(&mut self, session: TreeSessionId, change: Change) -> Result<Reply, Code> {
        self.write(session, Write::Change(change))
    }

    /// Creates a node; returns its path.
    fn create(&mut self, session: TreeSessionId, change: Change) -> Result<String, Code> {
        match self.change(session, change)? {
            Reply::Created { path, .. } => Ok(String::from_utf8_lossy(&path).into_owned()),
            other => panic!("{other:?}"),
        }
    }

    fn read(&self, session: TreeSessionId, read: Read) -> Result<Reply, Code> {
        self.service.read(session, &self.who, &read)
    }

    fn stat(&self, path: &str) -> Result<Stat, Code> {
        match self.read(TreeSessionId(0), Read::Exists(Blob::from(path)))? {
            Reply::Stat(stat) => Ok(stat),
            other => panic!("{other:?}"),
        }
    }

    fn children(&self, path: &str) -> Vec<String> {
        let read = Read::Children { path: Blob::from(path), stat: false };
        match self.read(TreeSessionId(0), read) {
            Ok(Reply::Children(names, None)) => {
                names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

fn world() -> (World, TreeSessionId) {
    let mut world = World::default();
    let session = world.open();
    (world, session)
}

#[test]
fn a_node_is_created_read_set_and_deleted() {
    let (mut world, ann) = world();
    assert_eq!(world.create(ann, Change::Create(create("/a"))), Ok("/a".to_owned()));
    assert_eq!(world.events, [happened(Happened::Created, "/a")]);
    let first = world.stat("/a").unwrap();
    assert_eq!((first.version, first.data_length, first.ctime_ms), (0, 1, 1002));
    assert_eq!((first.czxid, first.pzxid), (first.mzxid, first.mzxid));
    let Ok(Reply::Stat(second)) = world.change(ann, set("/a", "longer", 0)) else { panic!() };
    assert_eq!((second.version, second.data_length, second.mtime_ms), (1, 6, 1003));
    assert!(second.mzxid > first.mzxid && second.czxid == first.czxid);
    let data = world.read(ann, Read::Data(Blob::from("/a")));
    assert_eq!(data, Ok(Reply::Data(Some(Blob::from("longer")), second)));
    assert_eq!(world.change(ann, set("/a", "no", 0)), Err(Code::BadVersion));
    assert!(world.events.is_empty());
    assert_eq!(world.change(ann, delete("/a", 0)), Err(Code::BadVersion));
    assert_eq!(world.change(ann, delete("/a", 1)), Ok(Reply::Done));
    assert_eq!(world.events, [happened(Happened::Deleted, "/a")]);
    assert_eq!(world.stat("/a"), Err(Code::NoNode));
    assert_eq!(world.change(ann, delete("/a", -1)), Err(Code::NoNode));
}

#[test]
fn impossible_creations_are_refused_with_the_code_that_clients_know() {
    let (mut world, ann) = world();
    let mut refused = |change: Change| world.change(ann, change).unwrap_err();
    for path in ["a", "/zookeeper/", "/..", "/\u{1}"] {
        assert_eq!(refused(Change::Create(create(path))), Code::BadArguments, "{path}");
    }
    assert_eq!(refused(Change::Create(create("/"))), Code::NodeExists);
    assert_eq!(refused(Change::Create(create("/a/b"))), Code::NoNode);
    let nothing = Create { acl: Vec::new(), ..create("/a") };
    assert_eq!(refused(Change::Create(nothing)), Code::InvalidAcl);
    assert_eq!(refused(delete("/", -1)), Code::BadArguments);
    assert_eq!(refused(delete("/zookeeper", -1)), Code::BadArguments);
    world.change(ann, ephemeral("/e")).unwrap();
    let mut refused = |change: Change| world.change(ann, change).unwrap_err();
    assert_eq!(refused(ephemeral("/e")), Code::NodeExists);
    assert_eq!(refused(Change::Create(create("/e/child"))), Code::NoChildrenForEphemerals);
    assert_eq!(world.change(TreeSessionId(99), ephemeral("/f")), Err(Code::SessionExpired));
    assert_eq!(world.children("/"), ["e", "zookeeper"]);
}

#[test]
fn a_node_with_children_stays() {
    let (mut world, ann) = world();
    world.create(ann, Change::Create(create("/a"))).unwrap();
    world.create(ann, Change::Create(create("/a/b"))).unwrap();
    assert_eq!(world.change(ann, delete("/a", -1)), Err(Code::NotEmpty));
    world.change(ann, delete("/a/b", -1)).unwrap();
    let stat = world.stat("/a").unwrap();
    // A creation and a deletion.
    assert_eq!((stat.cversion, stat.num_children), (2, 0));
    assert_eq!(stat.pzxid, world.service.last());
    assert_eq!(world.change(ann, delete("/a", -1)), Ok(Reply::Done));
}

#[test]
fn numbers_of_sequential_nodes_are_never_given_twice() {
    let (mut world, ann) = world();
    world.create(ann, Change::Create(create("/q"))).unwrap();
    assert_eq!(world.create(ann, sequential("/q/n-")), Ok("/q/n-0000000000".to_owned()));
    assert_eq!(world.create(ann, sequential("/q/")), Ok("/q/0000000001".to_owned()));
    world.change(ann, delete("/q/0000000001", -1)).unwrap();
    assert_eq!(world.create(ann, sequential("/q/n-")), Ok("/q/n-0000000002".to_owned()));
    // Ordinary children count as well.
    world.create(ann, Change::Create(create("/q/x"))).unwrap();
    assert_eq!(world.create(ann, sequential("/q/n-")), Ok("/q/n-0000000004".to_owned()));
    assert_eq!(world.create(ann, sequential("/top-")), Ok("/top-0000000001".to_owned()));
}

#[test]
fn numbers_of_sequential_nodes_that_come_to_their_end_begin_at_the_other_one() {
    let (mut world, ann) = world();
    world.create(ann, Change::Create(create("/q"))).unwrap();
    let node = world.service.tree().get(b"/q").unwrap().clone();
    world.service.restore_node(Blob::from("/q"), Znode { born: i32::MAX, ..node });
    // Like ZooKeeper, which writes such numbers with a sign.
    for number in ["2147483647", "-2147483648", "-2147483647"] {
        assert_eq!(world.create(ann, sequential("/q/n-")), Ok(format!("/q/n-{number}")));
    }
    assert_eq!(world.stat("/q").unwrap().num_children, 3);
    let node = world.service.tree().get(b"/q").unwrap().clone();
    world.service.restore_node(Blob::from("/q"), Znode { born: -1, ..node });
    assert_eq!(world.create(ann, sequential("/q/n-")), Ok("/q/n--000000001".to_owned()));
    assert_eq!(world.create(ann, sequential("/q/n-")), Ok("/q/n-0000000000".to_owned()));
}

#[test]
fn ephemeral_nodes_end_with_their_session() {
    let (mut world, ann) = world();
    let ben = world.open();
    world.change(ann, ephemeral("/b")).unwrap();
    world.change(ann, ephemeral("/a")).unwrap();
    world.change(ben, ephemeral("/c")).unwrap();
    assert_eq!(world.stat("/a").unwrap().ephemeral_owner, ann.0);
    let all = world.read(ann, Read::Ephemerals(Blob::from("/")));
    assert_eq!(all, Ok(Reply::Paths(vec![Blob::from("/a"), Blob::from("/b")])));
    world.change(ann, delete("/b", -1)).unwrap();
    assert_eq!(world.write(ann, Write::Close), Ok(Reply::Done));
    assert_eq!(world.events, [happened(Happened::Deleted, "/a")]);
    assert_eq!(world.children("/"), ["c", "zookeeper"]);
    assert_eq!(world.write(ann, Write::Close), Err(Code::SessionExpired));
    assert!(world.service.sessions().contains_key(&ben));
}

#[test]
fn all_of_a_multi_happens_or_nothing() {
    let (mut world, ann) = world();
    world.create(ann, Change::Create(create("/a"))).unwrap();
    world.change(ann, ephemeral("/a/gone")).unwrap();
    let before = world.service.clone();
    let refused = vec![
        Change::Check { path: Blob::from("/a"), version: 0 },
        set("/a", "other", -1),
        ephemeral("/a/e"),
        sequential("/a/s-"),
        delete("/a/gone", -1),
        Change::SetAcl { path: Blob::from("/a"), acl: open_to_all(), version: -1 },
        delete("/a", -1),
        delete("/a/e", -1),
    ];
    let reply = world.write(ann, Write::Multi(refused));
    let mut codes = vec![Err(Code::Ok); 6];
    codes.extend([Err(Code::NotEmpty), Err(Code::RuntimeInconsistency)]);
    assert_eq!(reply, Ok(Reply::Multi(codes)));
    assert!(world.events.is_empty());
    assert_eq!(world.service.tree(), before.tree());
    assert_eq!(world.service.sessions(), before.sessions());

    let accepted = vec![ephemeral("/a/e"), set("/a/e", "y", 0), delete("/a/gone", -1)];
    let Ok(Reply::Multi(replies)) = world.write(ann, Write::Multi(accepted)) else { panic!() };
    assert!(replies.iter().all(Result::is_ok));
    let expected = [
        happened(Happened::Created, "/a/e"),
        happened(Happened::Data, "/a/e"),
        happened(Happened::Deleted, "/a/gone"),
    ];
    assert_eq!(world.events, expected);
    // One change, one number.
    let stat = world.stat("/a/e").unwrap();
    assert_eq!((stat.czxid, stat.mzxid), (world.service.last(), world.service.last()));
}

#[test]
fn access_control_lists_are_enforced() {
    let (mut world, ann) = world();
    let user = |name: &str| Identity { scheme: Blob::from("digest"), id: Blob::from(name) };
    world.who = vec![user("ann:hash")];
    let auth = Identity { scheme: Blob::from("auth"), id: Blob::default() };
    let acl = vec![Acl { perms: Acl::ALL, who: auth }];
    world.create(ann, Change::Create(Create { acl, ..create("/a") })).unwrap();
    world.create(ann, Change::Create(create("/a/b"))).unwrap();
    world.who = vec![user("ben:hash")];
    assert_eq!(world.read(ann, Read::Data(Blob::from("/a"))), Err(Code::NoAuth));
    assert_eq!(world.stat("/a"), Err(Code::NoAuth), "the refusal hides that the node exists");
    assert_eq!(world.stat("/nothing"), Err(Code::NoNode));
    assert_eq!(world.change(ann, set("/a", "y", -1)), Err(Code::NoAuth));
    assert_eq!(world.change(ann, Change::Create(create("/a/c"))), Err(Code::NoAuth));
    assert_eq!(world.change(ann, delete("/a/b", -1)), Err(Code::NoAuth));
    assert_eq!(world.read(ann, Read::Acl(Blob::from("/a"))), Err(Code::NoAuth));
    let open = Change::SetAcl { path: Blob::from("/a"), acl: open_to_all(), version: 0 };
    assert_eq!(world.change(ann, open.clone()), Err(Code::NoAuth));
    world.who = vec![user("ann:hash")];
    assert!(matches!(world.change(ann, open.clone()), Ok(Reply::Stat(Stat { aversion: 1, .. }))));
    assert_eq!(world.change(ann, open), Err(Code::BadVersion));
}

#[test]
fn a_returning_client_gets_the_events_that_it_missed() {
    let (mut world, ann) = world();
    for path in ["/same", "/set", "/parent", "/gone"] {
        world.create(ann, Change::Create(create(path))).unwrap();
    }
    let since = world.service.last();
    world.change(ann, set("/set", "y", -1)).unwrap();
    world.create(ann, Change::Create(create("/parent/child"))).unwrap();
    world.change(ann, delete("/gone", -1)).unwrap();
    world.create(ann, Change::Create(create("/new"))).unwrap();
    let missed = |path: &str, watch| {
        world.service.missed(&Blob::from(path), watch, since).map(|event| event.happened)
    };
    assert_eq!(missed("/same", Watch::Data), None);
    assert_eq!(missed("/same", Watch::Child), None);
    assert_eq!(missed("/set", Watch::Data), Some(Happened::Data));
    assert_eq!(missed("/set", Watch::Child), None);
    assert_eq!(missed("/parent", Watch::Child), Some(Happened::Children));
    assert_eq!(missed("/gone", Watch::Data), Some(Happened::Deleted));
    assert_eq!(missed("/gone", Watch::Child), Some(Happened::Deleted));
    assert_eq!(missed("/new", Watch::Exist), Some(Happened::Created));
    assert_eq!(missed("/never", Watch::Exist), None);
    assert_eq!(missed("/set", Watch::Persistent), None);
}

#[test]
fn several_reads_have_an_answer_each() {
    let (mut world, ann) = world();
    world.create(ann, Change::Create(create("/a"))).unwrap();
    world.create(ann, Change::Create(create("/a/b"))).unwrap();
    let children = Read::Children { path: Blob::from("/a"), stat: false };
    let reads = Read::Multi(vec![children, Read::Data(Blob::from("/none"))]);
    let expected = vec![Ok(Reply::Children(vec![Blob::from("b")], None)), Err(Code::NoNode)];
    assert_eq!(world.read(ann, reads), Ok(Reply::Multi(expected)));
    assert_eq!(world.read(ann, Read::Descendants(Blob::from("/a"))), Ok(Reply::Number(1)));
    let all = world.read(ann, Read::Descendants(Blob::from("/")));
    assert_eq!(all, Ok(Reply::Number(5)));
    assert_eq!(world.read(ann, Read::Data(Blob::from("nonsense"))), Err(Code::NoNode));
}

#[test]
fn numbers_of_changes_are_positive_and_grow() {
    let now = Timestamp::from_micros(BEGIN_US);
    let late = Timestamp::from_micros(BEGIN_US + 60 * 365 * 86_400 * 1_000_000);
    // The clock was far behind, so several changes fall into one microsecond.
    let early = Timestamp::from_micros(1000);
    let mut last = Zxid::default();
    for ts in [early, early.next(), Timestamp::from_micros(1001), now, now.next(), late] {
        let next = Zxid::after(last, ts);
        assert!(next > last && next.0 < i64::MAX, "{last:?} {next:?}");
        last = next;
    }
    assert!(last.0 <= adt::NUMBER_MAX as i64, "floats hold it, in sixty years as well");
    let first = Zxid::after(Zxid(1), now);
    assert_eq!(Zxid::after(first, now.next()).0 - first.0, 1, "in one microsecond");
}

#[test]
fn a_container_goes_when_it_has_had_children_and_has_none_any_more() {
    let (mut world, ann) = world();
    world.create(ann, lasting("/c", Lasts::Children)).unwrap();
    assert_eq!(world.stat("/c").unwrap().ephemeral_owner, 0);
    // It waits for its first child.
    world.write(TreeSessionId(0), Write::Reap).unwrap();
    assert_eq!(world.events, []);
    world.create(ann, Change::Create(create("/c/x"))).unwrap();
    world.write(TreeSessionId(0), Write::Reap).unwrap();
    assert_eq!(world.events, []);
    world.change(ann, delete("/c/x", -1)).unwrap();
    let before = world.service.clone();
    assert_eq!(before.changed_by(&reap()), [Blob::from("/"), Blob::from("/c")]);
    world.write(TreeSessionId(0), Write::Reap).unwrap();
    assert_eq!(world.events, [happened(Happened::Deleted, "/c")]);
    assert_eq!(world.stat("/c"), Err(Code::NoNode));
    assert!(world.service.tree().reapable_ms().is_none());
}

fn reap() -> Command {
    Command::of(TreeSessionId(0), Write::Reap)
}

#[test]
fn a_node_with_a_time_to_live_goes_when_it_was_not_set_for_so_long_and_has_no_children() {
    let (mut world, ann) = world();
    // The second change comes at 1002 ms, and each one a millisecond after the one before.
    world.create(ann, lasting("/t", Lasts::Ttl(3))).unwrap();
    assert_eq!(world.stat("/t").unwrap().ephemeral_owner, 0);
    assert_eq!(world.service.tree().reapable_ms(), Some(1005));
    world.change(ann, set("/t", "y", -1)).unwrap();
    assert_eq!(world.service.tree().reapable_ms(), Some(1006));
    world.create(ann, Change::Create(create("/t/x"))).unwrap();
    assert_eq!(world.service.tree().reapable_ms(), None);
    world.change(ann, set("/t", "z", -1)).unwrap();
    world.change(ann, delete("/t/x", -1)).unwrap();
    assert_eq!(world.service.tree().reapable_ms(), Some(1008));
    world.write(TreeSessionId(0), Write::Reap).unwrap();
    assert_eq!(world.events, []);
    world.write(TreeSessionId(0), Write::Reap).unwrap();
    assert_eq!(world.events, [happened(Happened::Deleted, "/t")]);
}

#[test]
fn a_time_to_live_is_one_that_can_be() {
    let (mut world, ann) = world();
    for bad in [0, -1, Lasts::TTL_MS_MAX + 1, i64::MAX, i64::MIN] {
        let refused = world.create(ann, lasting("/t", Lasts::Ttl(bad)));
        assert_eq!(refused, Err(Code::BadArguments), "{bad}");
    }
    for good in [1, Lasts::TTL_MS_MAX] {
        let path = format!("/t{good}");
        assert_eq!(world.create(ann, lasting(&path, Lasts::Ttl(good))), Ok(path.clone()));
        let owner = world.service.tree().get(path.as_bytes()).unwrap().owner;
        assert_eq!(Lasts::of_owner(owner), Lasts::Ttl(good));
    }
    // Both exist for their children, and ephemeral nodes can have none.
    assert_eq!(world.create(ann, ephemeral("/t1/here")), Ok("/t1/here".to_owned()));
}

#[test]
fn undone_changes_of_mortal_nodes_leave_no_trace() {
    let (mut world, ann) = world();
    world.create(ann, lasting("/c", Lasts::Children)).unwrap();
    world.create(ann, Change::Create(create("/c/x"))).unwrap();
    world.create(ann, lasting("/t", Lasts::Ttl(9))).unwrap();
    let before = world.service.tree().clone();
    let failing = vec![
        delete("/c/x", -1),
        set("/t", "y", -1),
        lasting("/u", Lasts::Ttl(5)),
        delete("/t", -1),
        delete("/nowhere", -1),
    ];
    assert!(matches!(world.write(ann, Write::Multi(failing)), Ok(Reply::Multi(_))));
    assert_eq!(world.service.tree(), &before);
}

#[test]
fn at_most_so_many_nodes_are_reaped_at_once() {
    let (mut world, ann) = world();
    let creates = |range: std::ops::Range<usize>| {
        range.map(|n| lasting(&format!("/t{n}"), Lasts::Ttl(1))).collect::<Vec<_>>()
    };
    world.write(ann, Write::Multi(creates(0..REAPED_MAX + 1))).unwrap();
    world.write(ann, Write::Multi(vec![])).unwrap();
    world.write(TreeSessionId(0), Write::Reap).unwrap();
    assert_eq!(world.events.len(), REAPED_MAX);
    world.write(TreeSessionId(0), Write::Reap).unwrap();
    assert_eq!(world.events.len(), 1);
}

#[test]
fn bytes_are_counted_as_they_come_and_go() {
    let (mut world, ann) = world();
    let before = world.service.tree().bytes();
    assert_eq!(before, "//zookeeper/zookeeper/config/zookeeper/quota".len() as u64);
    world.create(ann, Change::Create(create("/a"))).unwrap();
    world.create(ann, ephemeral("/e")).unwrap();
    world.change(ann, set("/a", "four", -1)).unwrap();
    assert_eq!(world.service.tree().bytes(), before + 2 + 4 + 2 + 1);
    let failing = vec![delete("/a", -1), set("/e", "long", -1), delete("/nowhere", -1)];
    world.write(ann, Write::Multi(failing)).unwrap();
    assert_eq!(world.service.tree().bytes(), before + 2 + 4 + 2 + 1);
    world.write(ann, Write::Close).unwrap();
    assert_eq!(world.service.tree().bytes(), before + 2 + 4);
    let mut restored = Coordination::default();
    for (path, node) in world.service.tree().iter() {
        restored.restore_node(path.clone(), node.without_children());
    }
    restored.link_restored().unwrap();
    assert_eq!(restored.tree(), world.service.tree());
}
