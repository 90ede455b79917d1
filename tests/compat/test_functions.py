"""Libraries of functions move between Claret and redis-server by FUNCTION DUMP and FUNCTION RESTORE."""

import pytest
from beside import Claret, Connection, Redis
from harness import until

SHORT = b"#!lua name=short\nredis.register_function('one', function() return 1 end)"
# Long enough for Redis to compress it, with repetitions near and far.
LONG = b"#!lua name=long\n" + b"".join(
    b"-- the %dth of many lines that say nearly the same\n"
    b"redis.register_function('f%d', function(keys, args) return {%d, keys[1], args[1]} end)\n" % (n, n, n)
    for n in range(60)
)
OTHER = b"#!lua name=other\nredis.register_function('f7', function() return 'another' end)"
# The function of one library is now in another.
LEFT = b"#!lua name=short\nredis.register_function('two', function() return 2 end)"
MOVED = b"#!lua name=mine\nredis.register_function('one', function() return 'moved' end)"
NEWER = b"#!lua name=short\nredis.register_function('one', function() return 'newer' end)"


@pytest.fixture
def servers(tmp_path):
    servers = [Redis(tmp_path / "redis"), Claret(tmp_path / "claret")]
    yield servers
    for server in servers:
        server.close()


@pytest.fixture
def connections(servers):
    connections = [Connection(server.port) for server in servers]
    yield connections
    for connection in connections:
        connection.close()


def dump_of(connection, *texts):
    """What a server dumps that has these libraries alone."""
    connection.ask(["FUNCTION", "FLUSH"])
    for text in texts:
        connection.ask(["FUNCTION", "LOAD", text])
    return connection.ask(["FUNCTION", "DUMP"])[1].encode("latin-1")


def sealed(parts):
    """A dump of parts, with version and checksum (CRC-64 as Redis computes it)."""
    covered = parts + bytes([10, 0])
    crc = 0
    for byte in covered:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return covered + crc.to_bytes(8, "little")


def known(connection):
    """All libraries: their texts by name."""
    listed = connection.ask(["FUNCTION", "LIST", "WITHCODE"])[1]
    libraries = [[value for _, value in library] for _, library in listed]
    facts = [dict(zip(library[::2], library[1::2])) for library in libraries]
    return {library["library_name"]: library["library_code"].encode() for library in facts}


def test_each_server_restores_what_the_other_has_dumped(connections):
    for giver in connections:
        dumped = dump_of(giver, SHORT, LONG)
        for taker in connections:
            taker.ask(["FUNCTION", "FLUSH"])
            assert taker.ask(["FUNCTION", "RESTORE", dumped])[1] == "OK"
            assert known(taker) == {"short": SHORT, "long": LONG}
            assert taker.ask(["FCALL", "one", "0"])[1] == "1"
            answer = taker.ask(["FCALL", "f59", "1", "k", "a"])[1]
            assert [value for _, value in answer] == ["59", "k", "a"]


def test_policies_and_refusals_are_those_of_redis(connections):
    several = [(), (SHORT,), (NEWER,), (OTHER,), (NEWER, OTHER), (LEFT, MOVED)]
    dumps = [dump_of(connections[0], *texts) for texts in several]
    broken = dumps[1][:-1] + b"x"
    twice = sealed(dumps[1][:-10] + dumps[2][:-10])
    odd = [b"", b"\xf5\x3fabc", b"\x00\x01k\x01v", b"\xf5\x03abc", b"\xf5\xc3\x03\x20\x02abc"]
    odd = [sealed(parts) for parts in odd]
    asked = [
        (dump, *policy)
        for dump in [*dumps, broken, b"", b"short", twice, *odd]
        for policy in [(), ("APPEND",), ("REPLACE",), ("FLUSH",), ("WHAT",)]
    ]
    for words in asked:
        said = []
        for connection in connections:
            dump_of(connection, SHORT, LONG)
            reply = connection.ask(["FUNCTION", "RESTORE", *words])
            said.append((reply, known(connection)))
        assert said[0] == said[1], words


def test_libraries_are_restored_in_a_transaction_and_kept(servers, connections):
    _, claret = servers
    connection = connections[1]
    dumped = dump_of(connection, SHORT)
    lines = [["FUNCTION", "FLUSH"], ["MULTI"], ["SET", "k", "1"], ["FUNCTION", "RESTORE", dumped], ["EXEC"]]
    assert [value for _, value in connection.ask_all(lines)[-1][1]] == ["OK", "OK"]
    with claret.killed_each(1) as kills:
        until(lambda: kills, 30, "a kill")
    with Connection(claret.port) as again:
        assert again.ask(["FCALL", "one", "0"])[1] == "1"
