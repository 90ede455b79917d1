//! What clients see of the replicated state, told in their words.

use super::service::{Command, Coordination};
use super::*;
use adt::{Blob, Timestamp};

/// A service and the time of its next change.
#[derive(Clone, Debug, Default)]
struct World {
    service: Coordination,
    changes: u64,
    /// What happened at the last change.
    events: Vec<Event>,
    /// Who asks, besides having a session.
    who: Vec<Identity>,
}

const BEGIN_US: u64 = 1_800_000_000_000_000;

fn open_to_all() -> Vec<Acl> {
    let who = Identity { scheme: Blob::from("world"), id: Blob::from("anyone") };
    vec![Acl { perms: Acl::ALL, who }]
}

fn create(path: &str) -> Create {
    let (path, data) = (Blob::from(path), Some(Blob::from("x")));
    Create { path, data, acl: open_to_all(), mode: Mode::default(), stat: false }
}

fn ephemeral(path: &str) -> Change {
    Change::Create(Create { mode: Mode { ephemeral: true, sequential: false }, ..create(path) })
}

fn sequential(path: &str) -> Change {
    Change::Create(Create { mode: Mode { ephemeral: false, sequential: true }, ..create(path) })
}

fn set(path: &str, data: &str, version: i32) -> Change {
    Change::SetData { path: Blob::from(path), data: Some(Blob::from(data)), version }
}

fn delete(path: &str, version: i32) -> Change {
    Change::Delete { path: Blob::from(path), version }
}

fn happened(happened: Happened, path: &str) -> Event {
    Event { happened, path: Blob::from(path) }
}

impl World {
    fn write(&mut self, session: SessionId, write: Write) -> Result<Reply, Code> {
        self.changes += 1;
        let command = Command { session, identities: self.who.clone(), write };
        let ts = Timestamp::from_micros(BEGIN_US + self.changes);
        let done = self.service.apply(&command, ts, 1000 + self.changes);
        self.events = done.events;
        done.reply
    }

    fn open(&mut self) -> SessionId {
        let open = Write::Open { timeout_ms: 10_000, password: [7; 16] };
        match self.write(SessionId(0), open) {
            Ok(Reply::Session(session)) => session,
            other => panic!("{other:?}"),
        }
    }

    fn change(&mut self, session: SessionId, change: Change) -> Result<Reply, Code> {
        self.write(session, Write::Change(change))
    }

    /// Creates a node; gives its path.
    fn create(&mut self, session: SessionId, change: Change) -> Result<String, Code> {
        match self.change(session, change)? {
            Reply::Created { path, .. } => Ok(String::from_utf8_lossy(&path).into_owned()),
            other => panic!("{other:?}"),
        }
    }

    fn read(&self, session: SessionId, read: Read) -> Result<Reply, Code> {
        self.service.read(session, &self.who, &read)
    }

    fn stat(&self, path: &str) -> Result<Stat, Code> {
        match self.read(SessionId(0), Read::Exists(Blob::from(path)))? {
            Reply::Stat(stat) => Ok(stat),
            other => panic!("{other:?}"),
        }
    }

    fn children(&self, path: &str) -> Vec<String> {
        let read = Read::Children { path: Blob::from(path), stat: false };
        match self.read(SessionId(0), read) {
            Ok(Reply::Children(names, None)) => {
                names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

fn world() -> (World, SessionId) {
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
fn what_cannot_be_created_is_refused_with_the_code_that_clients_know() {
    let (mut world, ann) = world();
    let mut refused = |change: Change| world.change(ann, change).unwrap_err();
    for path in ["a", "/a/", "/..", "/\u{1}"] {
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
    assert_eq!(world.change(SessionId(99), ephemeral("/f")), Err(Code::SessionExpired));
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
    let told = [
        happened(Happened::Created, "/a/e"),
        happened(Happened::Data, "/a/e"),
        happened(Happened::Deleted, "/a/gone"),
    ];
    assert_eq!(world.events, told);
    // One change, one number.
    let stat = world.stat("/a/e").unwrap();
    assert_eq!((stat.czxid, stat.mzxid), (world.service.last(), world.service.last()));
}

#[test]
fn lists_say_who_may_do_what() {
    let (mut world, ann) = world();
    let user = |name: &str| Identity { scheme: Blob::from("digest"), id: Blob::from(name) };
    world.who = vec![user("ann:hash")];
    let auth = Identity { scheme: Blob::from("auth"), id: Blob::default() };
    let acl = vec![Acl { perms: Acl::ALL, who: auth }];
    world.create(ann, Change::Create(Create { acl, ..create("/a") })).unwrap();
    world.create(ann, Change::Create(create("/a/b"))).unwrap();
    world.who = vec![user("ben:hash")];
    assert_eq!(world.read(ann, Read::Data(Blob::from("/a"))), Err(Code::NoAuth));
    assert_eq!(world.change(ann, set("/a", "y", -1)), Err(Code::NoAuth));
    assert_eq!(world.change(ann, Change::Create(create("/a/c"))), Err(Code::NoAuth));
    assert_eq!(world.change(ann, delete("/a/b", -1)), Err(Code::NoAuth));
    assert_eq!(world.read(ann, Read::Acl(Blob::from("/a"))), Err(Code::NoAuth));
    // To ask whether there is a node takes no right.
    assert!(world.stat("/a").is_ok());
    let open = Change::SetAcl { path: Blob::from("/a"), acl: open_to_all(), version: 0 };
    assert_eq!(world.change(ann, open.clone()), Err(Code::NoAuth));
    world.who = vec![user("ann:hash")];
    assert!(matches!(world.change(ann, open.clone()), Ok(Reply::Stat(Stat { aversion: 1, .. }))));
    assert_eq!(world.change(ann, open), Err(Code::BadVersion));
}

#[test]
fn who_comes_back_is_told_what_was_missed() {
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
    assert_eq!(world.read(ann, Read::Data(Blob::from("nonsense"))), Err(Code::BadArguments));
}

#[test]
fn numbers_of_changes_are_positive_and_grow() {
    let now = Timestamp::from_micros(BEGIN_US);
    let late = Timestamp::from_micros(BEGIN_US + 60 * 365 * 86_400 * 1_000_000);
    // A clock that was far behind may show several changes in one microsecond.
    let early = Timestamp::from_micros(1000);
    let mut last = Zxid::default();
    for ts in [early, early.next(), Timestamp::from_micros(1001), now, now.next(), late] {
        let next = Zxid::after(last, ts);
        assert!(next > last && next.0 < i64::MAX, "{last:?} {next:?}");
        last = next;
    }
    assert_eq!(Zxid::after(Zxid(1), now.next()).0 - Zxid::after(Zxid(1), now).0, 1);
}
