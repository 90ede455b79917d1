"""What no client sends: the same refusal or the same closed connection at both servers, nobody else is
harmed, and nothing is changed."""

import contextlib
import struct

import jute
import pytest
from jute import Closed, Raw, buffer, integer, long

CONNECT = integer(0) + long(0) + integer(10_000) + long(0) + buffer(b"\0" * 16) + b"\0"


def header(xid, op):
    return integer(xid) + integer(op)


def tree(session, path="/"):
    """Every node with its data and versions."""
    data = session.do("getData", path=path)
    children = session.do("getChildren2", path=path)
    stat = children["stat"]
    found = {path: (data["data"], stat["version"], stat["czxid"])}
    for name in children["names"]:
        found.update(tree(session, f"{path.rstrip('/')}/{name}"))
    return found


def both_say(servers, say):
    """Does the same at both servers and compares what came of it; others are as they were."""
    came = []
    for server in servers:
        witness = Raw(server.port).connect()
        before = tree(witness)
        came.append(say(server))
        assert tree(witness) == before
        witness.do("closeSession")
        witness.close()
        assert server.alive()
    assert came[1] == came[0], f"{servers[0].name}: {came[0]}, {servers[1].name}: {came[1]}"
    return came[0]


FIRST = {
    "nothing": b"",
    "half a length": b"\0\0",
    "a negative length": integer(-1) + CONNECT,
    "the most negative length": integer(-(2**31)) + CONNECT,
    "a length that is too long": integer(0x10_0001) + CONNECT,
    "the longest length": integer(2**31 - 1) + CONNECT,
    "an empty frame": integer(0),
    "a short frame": buffer(b"abc"),
    "a frame of noughts": buffer(bytes(20)),
    "words of another protocol": b"*1\r\n$4\r\nPING\r\n",
    "words of the web": b"GET / HTTP/1.1\r\n\r\n",
    "four letters that mean nothing": b"abcd",
    "a password of a negative length": buffer(CONNECT[:24] + integer(-5)),
    "a password that is longer than the frame": buffer(CONNECT[:24] + integer(1000)),
    "all ones": b"\xff" * 64,
}


@pytest.mark.parametrize("what", FIRST)
def test_a_first_frame_that_cannot_be_ends_the_connection(both, what):
    def say(server):
        session = Raw(server.port)
        session.send(FIRST[what])
        # The server may have ended the connection by now.
        with contextlib.suppress(OSError):
            session.socket.shutdown(1)
        return session.ends()

    assert both_say(both, say) == b""


def connected(server, **more):
    """How a connection begins: the session's kind, its timeout, whether it is the one asked for."""
    session = Raw(server.port)
    try:
        session.connect(**more)
    except Closed:
        return "closed"
    same = session.session == more.get("session", 0)
    told = (session.session != 0, session.timeout_ms, same, len(session.password), session.tail)
    rest = session.ends(0.3) if session.session == 0 else "open"
    session.close()
    return (*told, rest)


@pytest.mark.parametrize("timeout_ms", [-(2**31), -1, 0, 1, 3999, 4000, 12345, 40_000, 40_001, 2**31 - 1])
def test_timeouts_are_brought_between_two_and_twenty_ticks(both, timeout_ms):
    assert both_say(both, lambda server: connected(server, timeout_ms=timeout_ms))[0]


@pytest.mark.parametrize("version", [1, -1, 99])
def test_a_protocol_version_that_is_not_known_is_taken(both, version):
    assert both_say(both, lambda server: connected(server, version=version))[0]


@pytest.mark.parametrize("tail", [b"", b"\0", b"\1", b"\0more", b"\7"])
def test_the_byte_about_reading_only_may_be_there_or_not(both, tail):
    assert both_say(both, lambda server: connected(server, tail=tail))[0]


@pytest.mark.parametrize("session", [1, -1, 2**63 - 1, -(2**63)])
def test_a_session_that_never_was_has_expired(both, session):
    came = both_say(both, lambda server: connected(server, session=session))
    assert came[:2] == (False, 0)


@pytest.mark.parametrize("password", [b"\1" * 16, b"", b"\0" * 99, None])
def test_a_session_of_somebody_else_has_expired_without_its_password(both, password):
    def say(server):
        owner = Raw(server.port).connect()
        told = connected(server, session=owner.session, password=password)
        again = Raw(server.port).connect(session=owner.session, password=owner.password)
        there = again.session == owner.session
        again.do("closeSession")
        return told, there

    assert both_say(both, say)[1]


def test_a_client_that_has_seen_more_than_there_is_is_turned_away(both):
    assert both_say(both, lambda server: connected(server, seen=2**62)) == "closed"


def test_a_session_moves_to_the_connection_that_came_last(both):
    def say(server):
        first = Raw(server.port).connect()
        first.do("create", path="/here", flags=1)
        again = Raw(server.port).connect(session=first.session, password=first.password)
        same, ended = again.session == first.session, first.ends()
        found = again.do("exists", path="/here")["err"]
        again.do("closeSession")
        return same, ended, found

    assert both_say(both, say) == (True, b"", 0)


# What follows the header, by operation: cut off, too long, with lengths that are negative or above what is there.
BODIES = {
    "create: nothing": header(5, 1),
    "create: half a path": header(5, 1) + integer(10) + b"/a",
    "create: negative path": header(5, 1) + integer(-2) + b"/a",
    "create: huge path": header(5, 1) + integer(2**31 - 1),
    "create: huge data": header(5, 1) + buffer("/a") + integer(2**31 - 1),
    "create: huge list": header(5, 1) + buffer("/a") + buffer(b"") + integer(2**31 - 1),
    "create: short line": header(5, 1) + buffer("/a") + buffer(b"") + integer(1) + integer(31),
    "create: no flags": header(5, 1) + jute.body("create", path="/a")[:-4],
    "create: half the flags": header(5, 1) + jute.body("create", path="/a")[:-2],
    "createTTL: no time": header(5, 21) + jute.body("create", path="/a", flags=5),
    "delete: no version": header(5, 2) + buffer("/a"),
    "getData: no watch": header(5, 4) + buffer("/"),
    "getData: negative path": header(5, 4) + integer(-7) + b"\0",
    "setWatches: huge list": header(-8, 101) + long(0) + integer(2**31 - 1),
    "auth: short": header(-4, 100) + integer(0) + buffer("digest"),
    "multi: nothing": header(5, 14),
    "multi: no end": header(5, 14) + jute.body("multi", ops=[("delete", {"path": "/a"})])[:-9],
    "multi: unknown part": header(5, 14) + integer(77) + b"\0" + integer(-1) + jute.body("multi", ops=[]),
    "multi: half a part": header(5, 14) + integer(1) + b"\0" + integer(-1) + buffer("/a"),
    "addWatch: no mode": header(5, 106) + buffer("/"),
    "text that is none": header(5, 3) + buffer(b"/\xff\xfe") + b"\0",
}


@pytest.mark.parametrize("what", BODIES)
def test_a_body_that_is_not_what_the_operation_takes_is_refused(both, what):
    def say(server):
        session = Raw(server.port).connect()
        session.asked[struct.unpack(">i", BODIES[what][:4])[0]] = [None]
        session.frame(BODIES[what])
        try:
            session.hear()
        except Closed:
            return "closed"
        err = session.heard[-1]["err"]
        session.do("ping")
        session.do("closeSession")
        return err

    both_say(both, say)


@pytest.mark.parametrize("number", [0, 10, 23, 99, 108, 200, -2, -100, 2**31 - 1, -(2**31)])
def test_an_operation_that_is_not_known_is_refused_and_the_connection_ends(both, number):
    def say(server):
        session = Raw(server.port).connect()
        session.do("create", path="/mine", flags=1)
        session.asked[77] = [None]
        session.frame(header(77, number), buffer("/mine"), bytes(64))
        session.hear()
        told = session.heard[-1]["err"], session.ends()
        again = Raw(server.port).connect(session=session.session, password=session.password)
        there = again.do("exists", path="/mine")["err"]
        again.do("closeSession")
        return (*told, there)

    assert both_say(both, say) == (-6, b"", 0)


@pytest.mark.parametrize("what", ["short", "empty", "negative", "too long"])
def test_a_frame_without_a_header_ends_the_connection(both, what):
    frames = {"short": buffer(b"abc"), "empty": integer(0), "negative": integer(-3), "too long": integer(1 << 20)}

    def say(server):
        session = Raw(server.port).connect()
        session.send(frames[what])
        return session.ends()

    assert both_say(both, say) == b""


def test_the_longest_frame_is_taken_and_one_byte_more_is_not(both):
    """ZooKeeper's limit is on the frame: just under a mebibyte."""

    def say(server, extra):
        session = Raw(server.port).connect()
        overhead = len(header(1, 1) + jute.body("create", path="/long"))
        try:
            told = session.do("create", path="/long", data=bytes(0xF_FFFF - overhead + extra))["err"]
        except Closed:
            return "closed"
        session.do("delete", path="/long")
        session.do("closeSession")
        return told

    for extra in [0, 1]:
        # The witness's view differs: a node came and went.
        came = [say(server, extra) for server in both]
        assert came[0] == came[1] == (0 if extra == 0 else "closed")


def test_requests_may_come_in_pieces_and_many_at_once(both):
    def say(server):
        session = Raw(server.port).connect()
        frames = b""
        for xid in range(1, 101):
            session.asked[xid] = ["exists"]
            frames += buffer(header(xid, 3) + jute.body("exists", path=f"/{xid}"))
        for at in range(0, len(frames), 7):
            session.send(frames[at : at + 7])
        session.wait(100)
        told = [one["xid"] for one in session.heard], {one["err"] for one in session.heard}
        session.do("closeSession")
        return told

    assert both_say(both, say) == (list(range(1, 101)), {-101})


def test_what_comes_after_the_end_of_a_session_is_not_done(both):
    def say(server):
        session = Raw(server.port).connect()
        late = buffer(header(2, 1) + jute.body("create", path="/late"))
        session.asked[1] = ["closeSession"]
        session.send(buffer(header(1, -11)) + late)
        session.hear()
        # ZooKeeper may say of the late one that the session has expired, before it closes.
        assert session.ends() is not None
        return session.heard[-1]["err"]

    assert both_say(both, say) == 0
