"""What kazoo's users see, at both servers."""

import threading

import jute
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.security import make_acl, make_digest_acl

WAIT_S = 10


def outcome(call, *words, **more):
    """What a call gives, without what differs from server to server."""
    try:
        return plain(call(*words, **more))
    except KazooException as error:
        return type(error).__name__


def plain(value):
    if hasattr(value, "czxid"):
        names = ["version", "cversion", "aversion", "dataLength", "numChildren"]
        return {name: getattr(value, name) for name in names} | {"mine": bool(value.ephemeralOwner)}
    if isinstance(value, KazooException):
        return type(value).__name__
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def walk(client, other):
    """A walk through kazoo's interface; gives everything that came of it."""
    told, events, gone = [], [], threading.Event()

    def heard(event):
        events.append((event.type, event.state, event.path))
        if event.type == "DELETED":
            gone.set()

    def do(name, *words, **more):
        told.append((name, words, outcome(getattr(client, name), *words, **more)))

    do("ensure_path", "/k/a/b")
    do("create", "/k/x", b"1", include_data=True)
    do("create", "/k/x")
    do("create", "/k/none/x")
    do("create", "/k/e", b"", ephemeral=True)
    do("create", "/k/e/f")
    do("create", "/k/s-", sequence=True, ephemeral=True)
    do("create", "/k/s-", sequence=True)
    do("exists", "/k/x", watch=heard)
    do("exists", "/k/z", watch=heard)
    do("get", "/k/x")
    do("get", "/k/z")
    do("get_children", "/k")
    do("get_children", "/k", include_data=True, watch=heard)
    do("set", "/k/x", b"22")
    do("set", "/k/x", b"333", version=0)
    do("set", "/k/x", b"333", version=1)
    do("create", "/k/z")
    do("exists", "/k/x", watch=heard)
    do("delete", "/k/x", version=0)
    do("delete", "/k/x")
    do("delete", "/k/a")
    do("delete", "/k/a", recursive=True)
    do("get_acls", "/k/z")
    do("set_acls", "/k/z", [make_acl("world", "anyone", read=True, admin=True)])
    do("set", "/k/z", b"y")
    do("get_acls", "/k/z")
    do("set_acls", "/k/z", [make_digest_acl("ann", "secret", all=True)], version=1)
    do("get", "/k/z")
    do("add_auth", "digest", "ann:secret")
    do("get", "/k/z")
    do("sync", "/k")
    other.create("/k/theirs", b"", ephemeral=True)
    do("exists", "/k/theirs", watch=heard)
    other.stop()
    assert gone.wait(WAIT_S)
    for names in [["/k/t1", "/k/t2"], ["/k/t3", "/k/t1"]]:
        transaction = client.transaction()
        for name in names:
            transaction.create(name, b"t")
        transaction.check("/k/z", version=1)
        told.append(("transaction", names, plain(transaction.commit())))
    do("delete", "/k", recursive=True)
    return told, events


def test_kazoos_users_see_the_same(both):
    seen = []
    for server in both:
        clients = [KazooClient(f"127.0.0.1:{server.port}", timeout=6) for _ in range(2)]
        for client in clients:
            client.start(timeout=WAIT_S)
        seen.append(walk(*clients))
        for client in clients:
            client.stop()
            client.close()
    (real, told), (ours, heard) = seen
    for theirs, mine in zip(real, ours):
        assert mine == theirs
    assert len(ours) == len(real) and heard == told and len(told) == 5


@pytest.mark.parametrize("container", ["container", "time to live"])
def test_nodes_go_that_nobody_needs(both, container):
    """Both look for them now and then: ZooKeeper every second here, Claret every ten."""
    sessions = [jute.Raw(server.port).connect() for server in both]
    for session in sessions:
        if container == "container":
            session.do("createContainer", path="/goes", flags=4)
            session.do("create", path="/goes/x")
            session.do("delete", path="/goes/x")
        else:
            session.do("createTTL", path="/goes", flags=5, ttl=200)
        session.do("createContainer", path="/stays", flags=4)
        told = session.wait(session.ask("exists", path="/goes", watch=True))
        assert told["err"] in (0, -101)
        session.socket.settimeout(25)
        while told["err"] == 0 and "event" not in session.heard[-1]:
            session.hear()
        assert session.do("exists", path="/goes")["err"] == -101
        # What never had children waits for them.
        assert session.do("delete", path="/stays")["err"] == 0
        session.do("closeSession")
