"""The way from ZooKeeper that the guide shows."""

import re

from harness import ROOT
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

GUIDE = (ROOT / "docs/howto/from-zookeeper.md").read_text()


def client(server, **options):
    """A session."""
    session = KazooClient(f"127.0.0.1:{server.port}", **options)
    session.start(timeout=30)
    return session


def move(both, top):
    """What the guide says, for all below one name."""
    section = re.search(r"^## Moving a tree here$(.*?)^## ", GUIDE, re.M | re.S)[1]
    code = re.search(r"^```python$(.*?)^```$", section, re.M | re.S)[1]
    for name, server in zip(("old", "new"), both):
        code = code.replace(f"{name}:2181", f"127.0.0.1:{server.port}")
    assert code.count("copy(old, new)") == 1
    exec(compile(code.replace("copy(old, new)", f"copy(old, new, {top!r})"), "guide", "exec"), {})


def test_a_tree_is_copied_with_its_lists_and_no_number_is_given_out_again(both, capsys):
    old, new = (client(server) for server in both)
    ann = make_digest_acl("ann", "secret", read=True)
    root = make_digest_acl("root", "secret", all=True)
    old.create("/moving/jobs", b"first", makepath=True)
    old.create("/moving/jobs/settings", b"\x00\xff" * 50, acl=[ann, root])
    for number in range(700):
        entry = old.create("/moving/queue/entry-", str(number).encode(), sequence=True, makepath=True)
        if number % 100:
            old.delete(entry)
    old.create("/moving/jobs/here", b"", ephemeral=True)
    for _ in range(2):
        # The second time over what is there.
        move(both, "/moving")
        assert "11 nodes" in capsys.readouterr().out
    reader = client(both[1], auth_data=[("digest", "root:secret")])
    assert reader.get("/moving/jobs")[0] == b"first"
    assert reader.get("/moving/jobs/settings")[0] == b"\x00\xff" * 50
    assert set(reader.get_acls("/moving/jobs/settings")[0]) == {ann, root}
    assert reader.get_children("/moving/jobs") == ["settings"]
    entries = sorted(reader.get_children("/moving/queue"))
    assert entries == [f"entry-{number:010}" for number in range(0, 700, 100)]
    assert reader.get("/moving/queue/entry-0000000300")[0] == b"300"
    assert reader.create("/moving/queue/entry-", sequence=True) == old.create(
        "/moving/queue/entry-", sequence=True
    )
    old.add_auth("digest", "root:secret")
    for session in (old, reader):
        session.delete("/moving", recursive=True)
    for session in (old, new, reader):
        session.stop()
        session.close()
