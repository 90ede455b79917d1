"""Caches of clients (`CLIENT TRACKING`): which messages they get, beside redis-server."""

import socket
import time

import pytest
from beside import Connection
from harness import command

# Longer than any message takes.
QUIET_S = 0.3


class Cached(Connection):
    """A connection whose messages are apart from its replies."""

    def __init__(self, port, protocol=3):
        self.messages = []
        super().__init__(port, protocol)

    def reply(self):
        """The next reply."""
        while (got := super().reply())[0] == ">":
            self.messages.append(plain(got))
        return got

    def told(self, count, quiet_s=QUIET_S):
        """The messages since the last call: so many, and no more for a while."""
        end = time.monotonic() + 20
        while len(self.messages) < count and time.monotonic() < end:
            self.wait(1)
        self.wait(quiet_s)
        messages, self.messages = self.messages, []
        return messages

    def wait(self, seconds):
        """Takes messages until none has come for so long."""
        self.socket.settimeout(seconds)
        try:
            while True:
                got = super().reply()
                self.messages.append(plain(got))
        except socket.timeout:
            self.socket.settimeout(60)
            # A file that has timed out is not read again.
            self.input = self.socket.makefile("rb")


def plain(reply):
    """A reply without the types of the protocol."""
    kind, value = reply
    if isinstance(value, list):
        return [plain(part) for part in value]
    return None if kind == "_" or value is None else value


def names(messages):
    """The keys that messages name, each once; None in it stands for all."""
    found = set()
    for message in messages:
        assert message[0] == "invalidate", message
        found |= {None} if message[1] is None else set(message[1])
    return found


@pytest.fixture(params=[0, 1], ids=["redis", "claret"])
def port(request, servers):
    """The port of either server, whose keys are gone."""
    port = servers[request.param].port
    with Connection(port) as client:
        client.ask(["FLUSHALL"])
    return port


@pytest.fixture
def reader(port):
    """A connection that tracks what it reads."""
    with Cached(port) as client:
        assert client.ask(["CLIENT", "TRACKING", "ON"]) == ("+", "OK")
        yield client


@pytest.fixture
def writer(port):
    """Another connection."""
    with Connection(port) as client:
        yield client


def test_a_key_that_was_read_is_told(reader, writer):
    writer.ask_all([["SET", "x", "1"], ["SET", "other", "1"]])
    assert reader.ask(["GET", "x"]) == ("$", "1")
    writer.ask_all([["SET", "other", "2"], ["SET", "x", "2"], ["SET", "x", "3"]])
    assert names(reader.told(1)) == {"x"}
    assert reader.ask(["GET", "x"]) == ("$", "3")
    writer.ask(["DEL", "x"])
    assert names(reader.told(1)) == {"x"}


@pytest.mark.parametrize(
    "change",
    [["SET", "s", "new"], ["APPEND", "s", "x"], ["EXPIRE", "s", "100"], ["RENAME", "s", "to"], ["MSET", "s", "1"]],
    ids=lambda words: words[0].lower(),
)
def test_every_kind_of_change_is_told(reader, writer, change):
    writer.ask(["SET", "s", "old"])
    reader.ask(["GET", "s"])
    assert writer.ask(change)[0] != "-"
    assert "s" in names(reader.told(1))


@pytest.mark.parametrize(
    ("fill", "read", "change"),
    [
        (["HSET", "k", "a", "1"], ["HGETALL", "k"], ["HSET", "k", "a", "2"]),
        (["RPUSH", "k", "a"], ["LRANGE", "k", "0", "-1"], ["LPOP", "k"]),
        (["SADD", "k", "a"], ["SMEMBERS", "k"], ["SADD", "k", "b"]),
        (["ZADD", "k", "1", "a"], ["ZRANGE", "k", "0", "-1"], ["ZINCRBY", "k", "1", "a"]),
        (["XADD", "k", "1-1", "f", "v"], ["XLEN", "k"], ["XADD", "k", "1-2", "f", "v"]),
        (["SET", "k", "1"], ["EXISTS", "k"], ["DEL", "k"]),
        (["SET", "k", "1"], ["TTL", "k"], ["PERSIST", "k"]),
        (["SET", "k", "1"], ["MGET", "none", "k"], ["INCR", "k"]),
        (["SET", "k", "1"], ["EVAL", "return redis.call('GET', KEYS[1])", "1", "k"], ["INCR", "k"]),
    ],
    ids=lambda words: words[0].lower(),
)
def test_every_kind_of_read_is_tracked(reader, writer, fill, read, change):
    writer.ask(fill)
    if change[0] == "PERSIST":
        writer.ask(["EXPIRE", "k", "1000"])
    assert reader.ask(read)[0] != "-"
    assert writer.ask(change)[0] != "-"
    assert names(reader.told(1)) == {"k"}


def test_a_key_that_was_absent_is_told_when_it_comes(reader, writer):
    assert reader.ask(["GET", "later"])[1] in (None, "")
    writer.ask(["SET", "later", "1"])
    assert names(reader.told(1)) == {"later"}


def test_a_key_that_expires_is_told(reader, writer):
    writer.ask(["SET", "short", "1", "PX", "200"])
    assert reader.ask(["GET", "short"]) == ("$", "1")
    assert names(reader.told(1)) == {"short"}


def test_the_reads_of_a_transaction_are_tracked(reader, writer):
    writer.ask_all([["SET", "a", "1"], ["SET", "b", "1"]])
    reader.ask_all([["MULTI"], ["GET", "a"], ["GET", "b"], ["EXEC"]])
    writer.ask_all([["MULTI"], ["SET", "a", "2"], ["SET", "b", "2"], ["EXEC"]])
    assert names(reader.told(1)) == {"a", "b"}


def test_what_a_client_writes_itself_is_told_too(reader):
    reader.ask_all([["GET", "own"], ["SET", "own", "1"]])
    assert names(reader.told(1)) == {"own"}


def test_the_end_of_all_keys_is_told(reader, writer):
    writer.ask(["SET", "x", "1"])
    reader.ask(["GET", "x"])
    writer.ask(["FLUSHALL"])
    assert names(reader.told(1)) & {None, "x"}


def test_a_change_while_the_reply_is_on_its_way_is_told_behind_it(reader, writer):
    writer.ask(["SET", "x", "old"])
    reader.ask(["GET", "x"])
    reader.socket.sendall(command("BLPOP", "list", "10") + command("GET", "x"))
    time.sleep(QUIET_S)
    writer.ask_all([["SET", "x", "new"], ["RPUSH", "list", "go"]])
    assert plain(reader.reply()) == ["list", "go"]
    value = plain(reader.reply())
    writer.ask(["SET", "x", "newest"])
    messages = reader.told(1)
    # Whatever value was read: a message is behind its reply.
    assert value in ("old", "new") and names(messages) == {"x"}


def test_only_reads_that_are_asked_for_are_tracked(port, writer):
    with Cached(port) as client:
        client.ask(["CLIENT", "TRACKING", "ON", "OPTIN"])
        client.ask(["GET", "x"])
        assert client.ask(["CLIENT", "CACHING", "YES"]) == ("+", "OK")
        client.ask_all([["GET", "y"], ["GET", "z"]])
        writer.ask_all([["SET", "x", "1"], ["SET", "y", "1"], ["SET", "z", "1"]])
        assert names(client.told(1)) == {"y"}
        client.ask_all([["CLIENT", "CACHING", "YES"], ["MULTI"], ["GET", "x"], ["GET", "z"], ["EXEC"]])
        writer.ask_all([["SET", "x", "2"], ["SET", "y", "2"], ["SET", "z", "2"]])
        assert names(client.told(2)) == {"x", "z"}


def test_reads_can_be_left_out(port, writer):
    with Cached(port) as client:
        client.ask(["CLIENT", "TRACKING", "ON", "OPTOUT"])
        client.ask_all([["CLIENT", "CACHING", "NO"], ["GET", "x"], ["GET", "y"]])
        writer.ask_all([["SET", "x", "1"], ["SET", "y", "1"]])
        assert names(client.told(1)) == {"y"}


def test_prefixes_are_tracked_without_reads(port, writer):
    with Cached(port) as client:
        client.ask(["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "user:", "PREFIX", "cart:"])
        writer.ask_all([["SET", "user:1", "a"], ["SET", "order:1", "b"], ["HSET", "cart:7", "c", "1"]])
        assert names(client.told(2)) == {"user:1", "cart:7"}
        client.ask(["CLIENT", "TRACKING", "OFF"])
        writer.ask(["SET", "user:1", "b"])
        assert client.told(0) == []


def test_a_connection_of_resp2_is_told_by_another_one(port, writer):
    with Connection(port) as client, Cached(port, protocol=2) as listener:
        number = listener.ask(["CLIENT", "ID"])[1]
        listener.ask(["SUBSCRIBE", "__redis__:invalidate"])
        assert client.ask(["CLIENT", "TRACKING", "ON", "REDIRECT", number]) == ("+", "OK")
        assert client.ask(["CLIENT", "GETREDIR"]) == (":", number)
        client.ask(["GET", "x"])
        writer.ask(["SET", "x", "1"])
        assert ["message", "__redis__:invalidate", ["x"]] in listener.told(1)


def test_a_client_hears_that_its_redirection_is_gone(port, writer):
    with Cached(port) as client:
        with Connection(port) as listener:
            number = listener.ask(["CLIENT", "ID"])[1]
            client.ask(["CLIENT", "TRACKING", "ON", "REDIRECT", number])
        time.sleep(QUIET_S)
        client.ask(["GET", "x"])
        writer.ask(["SET", "x", "1"])
        assert client.told(1) == [["tracking-redir-broken", number]]
        flags = dict((plain(k), plain(v)) for k, v in client.ask(["CLIENT", "TRACKINGINFO"])[1])["flags"]
        assert "broken_redirect" in flags


def test_databases_have_keys_of_their_own(reader, port):
    reader.ask_all([["SELECT", "3"], ["GET", "x"]])
    with Connection(port) as other:
        other.ask_all([["SELECT", "3"], ["SET", "x", "1"]])
    assert names(reader.told(1)) == {"x"}


WORDS = [
    ["CLIENT", "TRACKING"],
    ["CLIENT", "TRACKING", "MAYBE"],
    ["CLIENT", "TRACKING", "ON", "MORE"],
    ["CLIENT", "TRACKING", "ON", "REDIRECT"],
    ["CLIENT", "TRACKING", "ON", "REDIRECT", "x"],
    ["CLIENT", "TRACKING", "ON", "REDIRECT", "999999"],
    ["CLIENT", "TRACKING", "ON", "PREFIX", "a"],
    ["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a", "PREFIX", "ab"],
    ["CLIENT", "TRACKING", "ON", "OPTIN", "BCAST"],
    ["CLIENT", "TRACKING", "ON", "OPTIN", "OPTOUT"],
    ["CLIENT", "CACHING", "YES"],
    ["CLIENT", "TRACKING", "ON"],
    ["CLIENT", "CACHING", "YES"],
    ["CLIENT", "TRACKINGINFO"],
    ["CLIENT", "TRACKING", "ON", "BCAST"],
    ["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"],
    ["CLIENT", "CACHING", "NO"],
    ["CLIENT", "CACHING", "YES"],
    ["CLIENT", "TRACKINGINFO"],
    ["CLIENT", "TRACKING", "ON", "OPTOUT"],
    ["CLIENT", "GETREDIR"],
    ["CLIENT", "TRACKING", "OFF"],
    ["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a"],
    ["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "ab"],
    ["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "b"],
    ["CLIENT", "TRACKINGINFO"],
    ["CLIENT", "TRACKING", "OFF", "BCAST"],
    ["CLIENT", "TRACKINGINFO"],
    ["CLIENT", "GETREDIR"],
]


def test_replies_are_those_of_redis(servers):
    told = []
    for server in servers:
        with Cached(server.port) as client:
            told.append(client.ask_all(WORDS))
    for words, left, right in zip(WORDS, *told):
        assert left == right, words


def test_resp2_has_no_messages_and_says_so(servers):
    with Connection(servers[1].port) as client:
        kind, text = client.ask(["CLIENT", "TRACKING", "ON"])
        assert kind == "-" and "HELLO 3" in text
        assert client.ask(["CLIENT", "GETREDIR"]) == (":", "-1")


@pytest.fixture
def claret(servers):
    """A connection to Claret that tracks what it reads, and another one."""
    with Cached(servers[1].port) as client, Connection(servers[1].port) as writer:
        writer.ask(["FLUSHALL"])
        client.ask(["CLIENT", "TRACKING", "ON"])
        yield client, writer


@pytest.mark.parametrize(
    "lines",
    [
        [["FENCE", "{a}l", "7", "GET", "{a}k"]],
        [["LOCK.SECTION", "{a}s", "TIMEOUT", "0", "GET", "{a}k"]],
        [["MULTI"], ["FENCE", "{a}l", "7"], ["GET", "{a}k"], ["EXEC"]],
        [["MULTI"], ["FENCE", "{a}l", "7", "GET", "{a}k"], ["EXEC"]],
        [["TXN", "BEGIN"], ["TXN", "FORUPDATE", "GET", "{a}k"], ["TXN", "COMMIT"], ["GET", "{a}k"]],
    ],
    ids=["fence", "section", "fenced multi", "fence in multi", "for update"],
)
def test_reads_behind_other_words_are_tracked(claret, lines):
    client, writer = claret
    writer.ask(["SET", "{a}k", "1"])
    assert not [reply for reply in client.ask_all(lines) if reply[0] == "-" and "TRYAGAIN" in reply[1]]
    client.told(0)
    writer.ask(["SET", "{a}k", "2"])
    assert names(client.told(1)) == {"{a}k"}


@pytest.mark.parametrize("mode", [[], ["BCAST"], ["OPTIN"]], ids=["reads", "prefixes", "optin"])
@pytest.mark.parametrize("refused", [[], [["NOSUCH"]], [["GET"]]], ids=["abort", "unknown", "arity"])
def test_what_a_transaction_has_seen_is_dropped_at_its_end(servers, mode, refused):
    with Cached(servers[1].port) as client:
        client.ask(["SET", "x", "committed"])
        client.ask(["CLIENT", "TRACKING", "ON", *mode])
        client.ask_all([["TXN", "BEGIN"], ["SET", "x", "never"]])
        assert client.ask(["GET", "x"]) == ("$", "never")
        client.told(0)
        client.ask_all([*refused, ["TXN", "ABORT"]])
        assert names(client.told(1)) == {"x"}


def test_what_a_silent_transaction_has_seen_is_dropped_when_it_is_ended(claret):
    client, writer = claret
    client.ask_all([["TXN", "BEGIN", "IDLE", "300"], ["SET", "x", "never"], ["GET", "x"]])
    client.told(0)
    # The server ends it because of this.
    assert writer.ask(["SET", "x", "mine"]) == ("+", "OK")
    assert "x" in names(client.told(1))
