//! Quotas: usage and limits.

use super::*;

#[test]
fn a_quotas_node_tells_how_much_there_is() {
    let (mut world, ann) = world();
    world.create(ann, Change::Create(create("/a"))).unwrap();
    world.create(ann, Change::Create(create("/a/b"))).unwrap();
    world.create(ann, Change::Create(create("/ab"))).unwrap();
    world.change(ann, set("/a/b", "four", -1)).unwrap();
    let stats = "/zookeeper/quota/a/zookeeper_stats";
    for path in ["/zookeeper/quota/a", stats, "/zookeeper/quota/zookeeper_stats"] {
        world.create(ann, Change::Create(create(path))).unwrap();
    }
    let read = |world: &World, path: &str| match world.read(ann, Read::Data(Blob::from(path))) {
        Ok(Reply::Data(Some(data), stat)) => {
            (String::from_utf8_lossy(&data).into_owned(), stat.data_length)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(read(&world, stats), ("count=2,bytes=5".to_owned(), 15));
    world.change(ann, delete("/a/b", -1)).unwrap();
    world.change(ann, delete("/a", -1)).unwrap();
    assert_eq!(read(&world, stats), ("count=0,bytes=0".to_owned(), 15));
    // No quota owns this node.
    assert_eq!(read(&world, "/zookeeper/quota/zookeeper_stats"), ("x".to_owned(), 1));
}

impl World {
    /// Sets a quota, as ZooKeeper's shell does it.
    fn limit(&mut self, session: TreeSessionId, path: &str, limits: &str) {
        let mut quota = "/zookeeper/quota".to_owned();
        for name in path.split('/').skip(1) {
            quota = format!("{quota}/{name}");
            let _ = self.create(session, Change::Create(create(&quota)));
        }
        let data = Some(Blob::from(limits));
        let limits = Create { data, ..create(&format!("{quota}/zookeeper_limits")) };
        self.create(session, Change::Create(limits)).unwrap();
        let stats = create(&format!("{quota}/zookeeper_stats"));
        self.create(session, Change::Create(stats)).unwrap();
    }

    /// Usage, as the quota's node reports it.
    fn used(&self, path: &str) -> String {
        let stats = Blob::from(format!("/zookeeper/quota{path}/zookeeper_stats"));
        match self.read(TreeSessionId(0), Read::Data(stats)) {
            Ok(Reply::Data(Some(data), _)) => String::from_utf8_lossy(&data).into_owned(),
            other => panic!("{other:?}"),
        }
    }
}

const TOO_MUCH: Result<Reply, Code> = Err(Code::QuotaExceeded);

#[test]
fn a_change_beyond_a_hard_quota_is_refused_without_effect() {
    let (mut world, ann) = world();
    world.create(ann, Change::Create(create("/a"))).unwrap();
    world.limit(ann, "/a", "count=-1,bytes=-1=;byteHardLimit=6;countHardLimit=3");
    world.create(ann, Change::Create(create("/a/b"))).unwrap();
    world.create(ann, ephemeral("/a/e")).unwrap();
    let before = world.service.tree().clone();
    for change in [Change::Create(create("/a/c")), sequential("/a/s-"), ephemeral("/a/b/c")] {
        assert_eq!(world.change(ann, change), TOO_MUCH);
    }
    // The quota is checked before the version, as in ZooKeeper.
    assert_eq!(world.change(ann, set("/a/b", "12345", 9)), TOO_MUCH);
    assert_eq!(*world.service.tree(), before);
    assert!(world.events.is_empty());
    assert_eq!(world.used("/a"), "count=3,bytes=3");
    assert_eq!(world.change(ann, set("/a/b", "1234", 9)), Err(Code::BadVersion));
    world.change(ann, set("/a/b", "1234", 0)).unwrap();
    assert_eq!(world.used("/a"), "count=3,bytes=6");
    // Deletions make room; other paths are not concerned.
    world.create(ann, Change::Create(create("/ab"))).unwrap();
    world.write(ann, Write::Close).unwrap();
    assert_eq!(world.used("/a"), "count=2,bytes=5");
    let ben = world.open();
    world.create(ben, Change::Create(create("/a/c"))).unwrap();
    assert_eq!(world.used("/a"), "count=3,bytes=6");
}

#[test]
fn a_transaction_fits_as_a_whole_or_not_at_all() {
    let (mut world, ann) = world();
    world.create(ann, Change::Create(create("/a"))).unwrap();
    world.limit(ann, "/a", "countHardLimit=3");
    let before = world.service.tree().clone();
    let creates = |names: &[&str]| {
        Write::Multi(names.iter().map(|name| Change::Create(create(name))).collect())
    };
    let refused = vec![Err(Code::Ok), Err(Code::Ok), Err(Code::QuotaExceeded)];
    let asked = world.write(ann, creates(&["/a/b", "/a/c", "/a/d"]));
    assert_eq!(asked, Ok(Reply::Multi(refused)));
    assert_eq!(*world.service.tree(), before);
    world.write(ann, creates(&["/a/b", "/a/c"])).unwrap();
    assert_eq!(world.used("/a"), "count=3,bytes=3");
    // Deletions in a transaction make room for its creations.
    let swap = vec![delete("/a/b", -1), Change::Create(create("/a/d"))];
    world.write(ann, Write::Multi(swap)).unwrap();
    assert_eq!(world.children("/a"), ["c", "d"]);
}

#[test]
fn where_there_is_too_much_already_less_is_not_refused() {
    let (mut world, ann) = world();
    world.create(ann, Change::Create(create("/a"))).unwrap();
    world.change(ann, set("/a", "123456789", -1)).unwrap();
    world.limit(ann, "/a", "count=1,bytes=5;byteHardLimit=4");
    assert_eq!(world.service.tree().quotas().counted(), (1, 1));
    assert_eq!(world.change(ann, set("/a", "1234567890", -1)), TOO_MUCH);
    world.change(ann, set("/a", "123456789", -1)).unwrap();
    world.change(ann, set("/a", "12345678", -1)).unwrap();
    world.change(ann, Change::SetData { path: Blob::from("/a"), data: None, version: -1 }).unwrap();
    let empty = Create { data: None, ..create("/a/b") };
    world.create(ann, Change::Create(empty)).unwrap();
    // A soft limit refuses nothing; there are two nodes where one is allowed.
    assert_eq!(world.service.tree().quotas().counted(), (1, 1));
    world.change(ann, delete("/a/b", -1)).unwrap();
    assert_eq!(world.service.tree().quotas().counted(), (1, 0));
}

#[test]
fn quotas_come_and_go_with_their_nodes() {
    let (mut world, ann) = world();
    world.create(ann, Change::Create(create("/a"))).unwrap();
    world.limit(ann, "/a", "countHardLimit=1");
    let limits = "/zookeeper/quota/a/zookeeper_limits";
    assert_eq!(world.change(ann, Change::Create(create("/a/b"))), TOO_MUCH);
    world.change(ann, set(limits, "countHardLimit=2", -1)).unwrap();
    world.create(ann, Change::Create(create("/a/b"))).unwrap();
    assert_eq!(world.change(ann, Change::Create(create("/a/c"))), TOO_MUCH);
    // Unreadable data limit nothing.
    world.change(ann, set(limits, "many", -1)).unwrap();
    world.create(ann, Change::Create(create("/a/c"))).unwrap();
    world.change(ann, set(limits, "countHardLimit=2", -1)).unwrap();
    // Undoing a change or a deletion of limits restores them.
    for first in [set(limits, "countHardLimit=9", -1), delete(limits, -1)] {
        world.write(ann, Write::Multi(vec![first, delete("/nowhere", -1)])).unwrap();
        assert_eq!(world.change(ann, Change::Create(create("/a/d"))), TOO_MUCH);
    }
    // One node alone is no quota.
    world.change(ann, delete("/zookeeper/quota/a/zookeeper_stats", -1)).unwrap();
    world.create(ann, Change::Create(create("/a/d"))).unwrap();
    world.change(ann, delete(limits, -1)).unwrap();
    assert_eq!(world.service.tree().quotas().counted(), (0, 0));
}

#[test]
fn of_quotas_one_below_the_other_each_holds() {
    let (mut world, ann) = world();
    world.create(ann, Change::Create(create("/a"))).unwrap();
    world.create(ann, Change::Create(create("/a/b"))).unwrap();
    world.limit(ann, "/a", "countHardLimit=3");
    world.limit(ann, "/a/b", "countHardLimit=9");
    world.create(ann, Change::Create(create("/a/b/c"))).unwrap();
    assert_eq!(world.change(ann, Change::Create(create("/a/b/d"))), TOO_MUCH);
    assert_eq!(world.used("/a"), "count=3,bytes=3");
    assert_eq!(world.used("/a/b"), "count=2,bytes=2");
}

#[test]
fn a_restored_tree_counts_as_the_one_that_was_kept() {
    let (mut world, ann) = world();
    world.create(ann, Change::Create(create("/a"))).unwrap();
    world.limit(ann, "/a", "countHardLimit=2");
    // A quota for a node that does not exist yet.
    world.limit(ann, "/later", "byteHardLimit=1");
    world.create(ann, Change::Create(create("/a/b"))).unwrap();
    world.create(ann, Change::Create(create("/later"))).unwrap();
    let mut restored = Coordination::default();
    for (path, node) in world.service.tree().iter() {
        restored.restore_node(path.clone(), node.without_children());
    }
    restored.link_restored().unwrap();
    assert_eq!(restored.tree(), world.service.tree());
    assert_eq!(world.used("/later"), "count=1,bytes=1");
}
