"""Where Claret and ZooKeeper 3.8.0 differ on purpose. Everything else that these tests ask must be the same.

The table is in the user's guide as well (`docs/reference/zookeeper.md`); a difference that is gone fails here."""

import jute
import pytest
from jute import Raw, buffer, integer
from side import clean

ROOT = "/d"


def asked(session, number, *parts):
    """The code of an answer; "silence" if there is none, "closed" if the connection ends."""
    session.asked[77] = [None]
    session.socket.settimeout(1)
    try:
        session.frame(integer(77), integer(number), *parts)
        session.hear()
    except jute.Closed:
        return "closed"
    except TimeoutError:
        return "silence"
    return session.heard[-1]["err"]


def numbers_of_changes(server):
    """Claret's are timestamps, ZooKeeper's are counted."""
    session = Raw(server.port).connect()
    first = session.do("create2", path=ROOT)["stat"]["czxid"]
    second = session.do("create2", path=f"{ROOT}/a")["stat"]["czxid"]
    return second - first == 1


def a_wrong_password_for_somebody_elses_session(server):
    """ZooKeeper ends the owner's connection, whoever tries. In Claret the owner notices nothing."""
    owner = Raw(server.port).connect()
    Raw(server.port).connect(session=owner.session, password=b"\1" * 16)
    try:
        return owner.do("ping")["err"]
    except jute.Closed:
        return "closed"


def a_check_by_itself(server):
    """Clients send it among several operations only. ZooKeeper does not answer it if it holds."""
    session = Raw(server.port).connect()
    return asked(session, 13, jute.body("check", path="/", version=-1))


def sasl(server):
    """Claret has no SASL. ZooKeeper without it answers with nothing in it."""
    return asked(Raw(server.port).connect(), 102, buffer(b"token"))


def sessions_are_created_among_requests(server):
    """Opcode -10 is what ZooKeeper's servers tell each other; it answers any client with a second greeting."""
    session = Raw(server.port).connect()
    session.asked[0] = [None]
    session.frame(integer(77), integer(-10), integer(10_000))
    return session.next_frame()[:4] == integer(77)


def an_empty_path_is_the_root(server):
    """ZooKeeper keeps its root under two names."""
    return Raw(server.port).connect().do("exists", path="")["err"]


def whether_a_path_is_watched(server):
    """ZooKeeper 3.8.0 says yes to everybody if anybody watches the path."""
    ann, ben = Raw(server.port).connect(), Raw(server.port).connect()
    ann.do("create", path=ROOT)
    ann.do("getData", path=ROOT, watch=True)
    return ben.do("checkWatches", path=ROOT, which=2)["err"]


def a_watch_that_stays_and_one_that_does_not(server):
    """At one path, in one session, ZooKeeper 3.8.0 loses the one that stays (ZOOKEEPER-4466)."""
    session = Raw(server.port).connect()
    session.do("create", path=ROOT)
    session.do("addWatch", path=ROOT, mode=0)
    session.do("getData", path=ROOT, watch=True)
    session.heard.clear()
    session.do("setData", path=ROOT, data=b"x")
    session.do("setData", path=ROOT, data=b"y")
    return sum("event" in told for told in session.heard)


def a_watch_that_stays_is_removed_by_a_type_of_its_own(server):
    """The types 4 and 5 have come with ZooKeeper 3.9."""
    codes = []
    for mode, which in ((0, 4), (1, 5)):
        session = Raw(server.port).connect()
        session.do("addWatch", path=ROOT, mode=mode)
        codes += [session.do("removeWatches", path=ROOT, which=which)["err"] for _ in "ab"]
    return codes


def a_watch_that_stays_is_removed_by_its_part(server):
    """Before 3.9 it had a part on data and one on children, which could be removed like others."""
    session = Raw(server.port).connect()
    session.do("addWatch", path=ROOT, mode=0)
    return [session.do("removeWatches", path=ROOT, which=which)["err"] for which in (1, 2)]


def whether_there_is_a_node_that_one_may_not_read(server):
    """In 3.9 that takes the right to read it (ZOOKEEPER-2590)."""
    ann, ben = Raw(server.port).connect(), Raw(server.port).connect()
    ann.do("auth", scheme="digest", auth=b"ann:secret")
    ann.do("create", path=ROOT, acl=[(31, "auth", "")])
    told = [ben.do("exists", path=path)["err"] for path in (ROOT, f"{ROOT}/nothing")]
    ann.do("delete", path=ROOT)
    return told


def below_a_quota(server, limits, data):
    """A session, and a node with these data below `ROOT` that has a quota."""
    session = Raw(server.port).connect()
    session.do("create", path=ROOT)
    session.do("create", path=f"{ROOT}/a", data=data)
    quota(session, f"{ROOT}/a", limits)
    return session


def quota(session, path, limits):
    at = "/zookeeper/quota"
    for name in path.split("/")[1:]:
        at += f"/{name}"
        session.do("create", path=at)
    session.do("create", path=f"{at}/zookeeper_limits", data=limits)
    session.do("create", path=f"{at}/zookeeper_stats")


def less_where_there_is_too_much(server):
    """ZooKeeper refuses all that does not come below the hard quota at once."""
    session = below_a_quota(server, b"byteHardLimit=1", b"1234")
    return session.do("setData", path=f"{ROOT}/a", data=b"123")["err"]


def a_quota_below_a_quota(server):
    """Only the lowest holds in ZooKeeper, whose shell refuses to set such. Here each does."""
    session = below_a_quota(server, b"countHardLimit=9", b"")
    quota(session, ROOT, b"countHardLimit=2")
    return session.do("create", path=f"{ROOT}/a/b")["err"]


def limits_that_do_not_read(server):
    """In ZooKeeper nothing below can be changed any more. Here they limit nothing."""
    session = below_a_quota(server, b"many", b"")
    return session.do("create", path=f"{ROOT}/a/b")["err"]


def text_beyond_the_basic_plane(server):
    """ZooKeeper writes the halves of surrogate pairs one by one, which is no UTF-8."""
    session = Raw(server.port).connect()
    xid = session.ask("sync", path="/\U0001f600")
    return buffer("/\U0001f600") in session.next_frame() and xid == 1


def numbers_below_the_root(server):
    """Whether they are consecutive. In a tree that is spread each shard counts its own."""
    session = Raw(server.port).connect()
    paths = [session.do("create", path=f"/{name}", flags=3)["path"] for name in "abba"]
    session.do("closeSession")
    numbers = [int(path[-10:]) for path in paths]
    return numbers == list(range(numbers[0], numbers[0] + 4))


def several_names_looked_at_together(server):
    """In a tree that is spread they may be at several shards, which are not looked at together."""
    reads = [("getData", {"path": path}) for path in ("/a", "/b")]
    return Raw(server.port).connect().do("multiRead", ops=reads)["err"]


# What each says, the real one first.
DIFFERENCES = [
    (numbers_of_changes, True, False),
    (a_wrong_password_for_somebody_elses_session, "closed", 0),
    (a_check_by_itself, "silence", -6),
    (sasl, 0, -6),
    (sessions_are_created_among_requests, False, True),
    (an_empty_path_is_the_root, 0, -101),
    (whether_a_path_is_watched, 0, -121),
    (a_watch_that_stays_and_one_that_does_not, 1, 2),
    (a_watch_that_stays_is_removed_by_a_type_of_its_own, [-5] * 4, [0, -121] * 2),
    (a_watch_that_stays_is_removed_by_its_part, [0, 0], [-121, -121]),
    (whether_there_is_a_node_that_one_may_not_read, [0, -101], [-102, -101]),
    (less_where_there_is_too_much, -125, 0),
    (a_quota_below_a_quota, 0, -125),
    (limits_that_do_not_read, -5, 0),
    (text_beyond_the_basic_plane, False, True),
]


# The same where the tree is spread, and nowhere else.
DIFFERENCES_OF_SHARDS = [
    (numbers_below_the_root, True, False),
    (several_names_looked_at_together, 0, -8),
]


@pytest.mark.parametrize(("ask", "theirs", "ours"), DIFFERENCES_OF_SHARDS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_tree_that_is_spread_differs_as_it_is_meant(both, ask, theirs, ours):
    try:
        assert [ask(server) for server in both] == [theirs, ours if both[1].over > 1 else theirs]
    finally:
        clean(both, ROOT)


@pytest.mark.parametrize(("ask", "theirs", "ours"), DIFFERENCES, ids=lambda value: getattr(value, "__name__", ""))
def test_the_difference_is_the_one_that_is_meant(both, ask, theirs, ours):
    try:
        assert [ask(server) for server in both] == [theirs, ours]
    finally:
        # Quotas first: they may be in the way.
        clean(both, f"/zookeeper/quota{ROOT}")
        clean(both, ROOT)
