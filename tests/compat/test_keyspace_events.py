"""Keyspace events: what subscribers are told of commands, beside redis-server."""

import re
import socket
import time

import pytest
from beside import Connection
from harness import until

# Longer than any message takes.
QUIET_S = 0.5
ALL = "KEAn"

# Commands of a story, one after another on one connection. Keys begin with "@"; each story has its own.
STORIES = {
    "set": ["SET @k 1", "SET @k 1", "SET @k 2 XX", "SET @k 3 NX", "SET @n 1 XX", "SETNX @k 1", "SETNX @n 1"],
    "set with an expiry": [
        "SET @k 1 EX 100", "SETEX @k 100 v", "PSETEX @k 9000 v", "SET @k 1 KEEPTTL", "SET @k 1",
    ],
    "several": ["MSET @a 1 @b 2", "MSETNX @a 1 @c 2", "MSETNX @d 1 @e 2", "GETSET @a 2", "SET @a 3 GET"],
    "getdel": ["SET @k 1", "GET @k", "GETDEL @k", "GETDEL @k"],
    "getex": [
        "SET @k 1", "GETEX @k", "GETEX @k EX 100", "GETEX @k PERSIST", "GETEX @k PERSIST",
        "GETEX @no EX 9",
    ],
    "numbers": ["INCR @k", "INCRBY @k 5", "DECR @k", "DECRBY @k 2", "INCRBYFLOAT @k 1.5", "INCR @k"],
    "bytes": ["APPEND @k abc", "APPEND @k d", "SETRANGE @k 1 xy", "SETRANGE @no 0 ''", "GETRANGE @k 0 1"],
    "bits": [
        "SETBIT @k 7 1", "SETBIT @k 7 1", "SETBIT @k 7 0", "BITFIELD @k SET u8 0 255",
        "BITFIELD @k GET u8 0",
    ],
    "bitop": ["SET @a x", "SET @b y", "BITOP AND @c @a @b", "BITOP AND @c @no @none", "BITOP AND @d @no"],
    "del": ["SET @a 1", "SET @b 2", "DEL @a @b @no", "UNLINK @a", "SET @a 1", "UNLINK @a"],
    "expire": [
        "EXPIRE @no 9", "SET @k 1", "EXPIRE @k 100", "EXPIRE @k 50 GT", "PEXPIRE @k 90000", "PERSIST @k",
    ],
    "persist": ["SET @k 1", "PERSIST @k", "EXPIREAT @k 9999999999", "PERSIST @k", "PERSIST @no"],
    "expire in the past": ["SET @k 1", "EXPIRE @k -1", "RPUSH @l a", "PEXPIREAT @l 1", "EXPIRE @l 9"],
    "rename": ["SET @a 1", "SET @b 2", "RENAME @a @b", "RENAMENX @b @c", "RENAME @c @c", "RENAMENX @no @c"],
    "rename onto nothing": ["RPUSH @a 1", "RENAME @a @b", "SET @c 1", "RENAMENX @c @b"],
    "copy": ["SET @a 1", "COPY @a @b", "COPY @a @b", "COPY @a @b REPLACE", "COPY @no @b"],
    "move": ["SET @a 1", "MOVE @a 5", "SET @a 2", "MOVE @a 5", "SELECT 5", "DEL @a", "SELECT 0"],
    "copy to another database": ["SET @a 1", "COPY @a @b DB 4", "SELECT 4", "DEL @b", "SELECT 0"],
    "push": ["LPUSH @l a b", "RPUSH @l c", "LPUSHX @l d", "RPUSHX @l e", "LPUSHX @no d", "LLEN @l"],
    "pop": ["RPUSH @l a b c", "LPOP @l", "RPOP @l 5", "LPOP @l", "RPUSH @l a", "LPOP @l"],
    "list": [
        "RPUSH @l a b c a", "LSET @l 0 x", "LINSERT @l BEFORE b y", "LINSERT @l AFTER q y", "LREM @l 0 a",
    ],
    "lrem": ["RPUSH @l a a b", "LREM @l 0 q", "LREM @l 1 a", "LREM @l 0 a", "LREM @l 0 b"],
    "ltrim": ["RPUSH @l a b c", "LTRIM @l 0 9", "LTRIM @l 1 1", "LTRIM @l 5 9", "LTRIM @no 0 1"],
    "lmove": ["RPUSH @a 1 2", "LMOVE @a @b LEFT RIGHT", "RPOPLPUSH @a @b", "LMOVE @a @b LEFT LEFT"],
    "lmove in one list": ["RPUSH @a 1 2", "LMOVE @a @a LEFT RIGHT", "RPOPLPUSH @a @a"],
    "lmpop": ["RPUSH @a 1 2 3", "LMPOP 2 @no @a LEFT", "LMPOP 1 @a RIGHT COUNT 9", "BLPOP @a 0.01"],
    "blpop of what is there": ["RPUSH @a 1 2", "BLPOP @a 1", "BRPOP @no @a 1"],
    "sort": ["RPUSH @l 2 1", "SORT @l STORE @to", "SORT @no STORE @to", "SORT @no STORE @to"],
    "sets": ["SADD @s a b c", "SADD @s a", "SREM @s q", "SREM @s a b", "SREM @s c", "SREM @s c"],
    "spop": ["SADD @s a b c", "SPOP @s", "SPOP @s 9", "SPOP @s", "SPOP @s 2"],
    "smove": ["SADD @a x y", "SMOVE @a @b x", "SMOVE @a @b q", "SMOVE @a @b y", "SMOVE @b @b x"],
    "set algebra": [
        "SADD @a x y", "SADD @b y", "SINTERSTORE @i @a @b", "SUNIONSTORE @u @a @b", "SDIFFSTORE @d @a @b",
        "SINTERSTORE @i @a @no", "SINTERSTORE @i @a @no", "SUNIONSTORE @u @a", "SDIFFSTORE @d @no",
    ],
    "hashes": [
        "HSET @h a 1 b 2", "HSET @h a 1", "HMSET @h c 3", "HSETNX @h c 4", "HSETNX @h d 4", "HGET @h a",
    ],
    "hash numbers": ["HINCRBY @h n 5", "HINCRBYFLOAT @h n 1.5", "HINCRBY @h n 1", "HSET @h x y"],
    "hdel": ["HSET @h a 1 b 2", "HDEL @h q", "HDEL @h a", "HDEL @h b", "HDEL @h b"],
    "zadd": [
        "ZADD @z 1 a", "ZADD @z 1 a", "ZADD @z 2 a", "ZADD @z XX 1 q", "ZADD @z NX 1 b",
        "ZADD @z INCR 1 a",
    ],
    "zincrby": ["ZINCRBY @z 2 a", "ZINCRBY @z 0 a", "ZINCRBY @z 1 a", "ZSCORE @z a"],
    "zrem": ["ZADD @z 1 a 2 b", "ZREM @z q", "ZREM @z a", "ZREM @z b", "ZREM @z b"],
    "zremrange": [
        "ZADD @z 1 a 2 b 3 c 4 d", "ZREMRANGEBYSCORE @z 1 1", "ZREMRANGEBYRANK @z 0 0",
        "ZREMRANGEBYSCORE @z 9 9",
        "ZADD @l 0 a 0 b", "ZREMRANGEBYLEX @l [a [a", "ZREMRANGEBYLEX @l - +", "ZREMRANGEBYRANK @z 0 -1",
    ],
    "zpop": ["ZADD @z 1 a 2 b 3 c", "ZPOPMIN @z", "ZPOPMAX @z", "ZPOPMIN @z 9", "ZPOPMIN @z"],
    "bzpop of nothing": ["ZADD @z 1 a", "BZPOPMIN @no 0.01"],
    "bzpop of what is there": ["ZADD @z 1 a 2 b", "BZPOPMIN @z 1", "BZPOPMAX @z 1"],
    "sorted set algebra": [
        "ZADD @a 1 x 2 y", "ZADD @b 1 y", "ZINTERSTORE @i 2 @a @b", "ZUNIONSTORE @u 2 @a @b",
        "ZDIFFSTORE @d 2 @a @b",
        "ZRANGESTORE @r @a 0 0", "ZINTERSTORE @i 2 @a @no", "ZRANGESTORE @r @no 0 0",
        "ZRANGESTORE @r @no 0 0",
    ],
    "xadd": [
        "XADD @x 1-1 f v", "XADD @x MAXLEN 1 2-1 f v", "XADD @x MAXLEN 9 3-1 f v",
        "XADD @no NOMKSTREAM * f v",
    ],
    "streams": [
        "XADD @x 1-1 f v", "XADD @x 2-1 f v", "XDEL @x 1-1", "XDEL @x 9-9", "XTRIM @x MAXLEN 0",
        "XTRIM @x MAXLEN 0",
    ],
    "xsetid": ["XADD @x 1-1 f v", "XSETID @x 5-5", "XSETID @x 0-1"],
    "groups": [
        "XGROUP CREATE @x g 0 MKSTREAM", "XGROUP CREATECONSUMER @x g c", "XGROUP CREATECONSUMER @x g c",
        "XGROUP SETID @x g 0", "XGROUP DELCONSUMER @x g c", "XGROUP DESTROY @x g", "XGROUP DESTROY @x g",
    ],
    "readers of groups": [
        "XADD @x 1-1 f v", "XGROUP CREATE @x g 0", "XREADGROUP GROUP g c STREAMS @x >",
        "XREADGROUP GROUP g c STREAMS @x 0", "XACK @x g 1-1", "XREADGROUP GROUP g d STREAMS @x 0",
    ],
    "claims": [
        "XADD @x 1-1 f v", "XGROUP CREATE @x g 0", "XREADGROUP GROUP g a STREAMS @x >", "XCLAIM @x g b 0 1-1",
        "XAUTOCLAIM @x g c 0 0", "XAUTOCLAIM @x g c 0 0",
    ],
    "errors": ["SET @k x", "INCR @k", "LPUSH @k a", "HSET @k f v", "SETRANGE @k -1 x", "EXPIRE @k x"],
    "another type": ["RPUSH @k a", "SET @k 1", "DEL @k", "SADD @k a", "DEL @k"],
    "transaction": ["MULTI", "SET @k 1", "LPUSH @l a", "INCR @k", "LPOP @l", "DEL @k", "EXEC"],
    "discarded": ["MULTI", "SET @k 1", "DISCARD", "SET @n 1"],
    "transaction with an error": ["SET @k x", "MULTI", "SET @n 1", "INCR @k", "SET @n 2", "EXEC"],
    "script": ["EVAL 'redis.call(\"SET\", KEYS[1], 1) redis.call(\"DEL\", KEYS[1]) return 1' 1 @k"],
    "script over two keys": [
        "EVAL 'redis.call(\"SET\", KEYS[1], 1) redis.call(\"RENAME\", KEYS[1], KEYS[2]) return 1' 2 @a @b"
    ],
    "database": ["SELECT 3", "SET @k 1", "DEL @k", "SELECT 0", "SET @k 2"],
    "flushed": ["SELECT 6", "SET @k 1", "FLUSHDB", "SELECT 0"],
    "expiry": ["SET @k 1 PX 30", "RPUSH @l a", "PEXPIRE @l 30", "SET @other 1"],
}
# Events of commands that the real server has from 7.4 or 8.0 on, by the documentation of these.
FIELDS = [
    (["HSET @h a 1 b 2", "HEXPIRE @h 100 FIELDS 1 a", "HPERSIST @h FIELDS 1 a", "HPERSIST @h FIELDS 1 a"],
     ["new", "hset", "hexpire", "hpersist"]),
    (["HSET @h a 1", "HPEXPIREAT @h 1 FIELDS 1 a"], ["new", "hset", "hdel", "del"]),
    (["HSET @h a 1 b 2", "HPEXPIRE @h 30 FIELDS 1 a"], ["new", "hset", "hexpire", "hexpired"]),
    (["HSET @h a 1", "HPEXPIRE @h 30 FIELDS 1 a"], ["new", "hset", "hexpire", "hexpired", "del"]),
    (["HSETEX @h EX 100 FIELDS 1 a 1", "HGETDEL @h FIELDS 1 a"], ["new", "hset", "hexpire", "hdel", "del"]),
    (["INCREX @h BYINT 5", "DELEX @h"], ["new", "incrby", "del"]),
    (["COUNTER.ADD @h 5", "COUNTER.TRY @h -9", "DEL @h"], ["new", "counter.add", "counter.try", "del"]),
    (["TOPK.INIT @h 5", "TOPK.PUT @h a 1"], ["new", "topk.init", "topk.put"]),
    (["LOG.APPEND @h a", "UID.NEXT @i"], ["new", "log.append"]),
    # Told as the removal of certain members that it is; `zpopmin` on the real server.
    (["ZADD @h 1 a 2 b 3 c", "ZMPOP 2 @no @h MIN", "ZMPOP 1 @h MAX COUNT 9"],
     ["new", "zadd", "zrem", "zrem", "del"]),
]


def words_of(line, story):
    """The words of a line, with the keys of a story."""
    words = re.findall(r"'[^']*'|\S+", line)
    return [f"{story}:{word[1:]}" if word[0] == "@" else word.strip("'") for word in words]


class Listener(Connection):
    """A connection that is told events."""

    def __init__(self, port, *patterns, protocol=2):
        super().__init__(port, protocol)
        self.socket.settimeout(30)
        for at, pattern in enumerate(patterns):
            kind, (word, name, count) = self.ask(["PSUBSCRIBE", pattern])
            assert (word[1], name[1], count[1]) == ("psubscribe", pattern, str(at + 1)), kind

    def told(self, quiet_s=QUIET_S):
        """Channels and payloads of the messages until none has come for so long."""
        self.socket.settimeout(quiet_s)
        messages = []
        try:
            while True:
                kind, parts = self.reply()
                messages.append((kind, [value for _, value in parts]))
        except socket.timeout:
            self.input = self.socket.makefile("rb")
        self.socket.settimeout(30)
        assert all(parts[0] == "pmessage" for _, parts in messages), messages
        return [tuple(parts[-2:]) for _, parts in messages]


def by_key(messages):
    """The events of each key of each database, in their order, with the kind of channel."""
    found = {}
    for channel, payload in messages:
        parts = re.fullmatch(r"__(keyspace|keyevent)@(\d+)__:(.*)", channel, re.S)
        kind, database, name = parts.groups()
        key, event = (name, payload) if kind == "keyspace" else (payload, name)
        found.setdefault((int(database), key), []).append((kind, event))
    return found


def configured(client, classes):
    """Sets the classes of events."""
    assert client.ask(["CONFIG", "SET", "notify-keyspace-events", classes]) == ("+", "OK")


def run(port, stories, protocol=2):
    """The events that stories cause on a server, by story and key."""
    with Connection(port) as client:
        client.ask(["FLUSHALL"])
        configured(client, ALL)
        with Listener(port, "__key*__:*", protocol=protocol) as listener:
            for story, lines in stories.items():
                for line in lines:
                    client.ask(words_of(line, story))
            messages = listener.told()
    found = {story: {} for story in stories}
    for (database, key), events in by_key(messages).items():
        story, _, name = key.partition(":")
        found[story][database, name] = events
    return found


@pytest.fixture(scope="module")
def told(servers):
    """The events of all stories on both servers."""
    return [run(server.port, STORIES) for server in servers]


@pytest.mark.parametrize("story", STORIES)
def test_commands_have_the_events_of_redis(told, story):
    redis, claret = (server[story] for server in told)
    assert claret == redis
    assert redis, "the story tells nothing"


def test_both_channels_tell_of_each_event(told):
    for events in told[1]["transaction"].values():
        assert [kind for kind, _ in events] == ["keyspace", "keyevent"] * (len(events) // 2)
        assert [event for _, event in events[::2]] == [event for _, event in events[1::2]]


@pytest.mark.parametrize(("lines", "events"), FIELDS, ids=lambda value: value[-1])
def test_commands_of_later_versions_have_their_events(servers, lines, events):
    found = run(servers[1].port, {"story": lines})["story"][0, "h"]
    assert [event for kind, event in found if kind == "keyspace"] == events


@pytest.mark.parametrize("at", [0, 1], ids=["redis", "claret"])
def test_resp3_has_pushes(servers, at):
    port = servers[at].port
    with Connection(port) as client, Listener(port, "__keyspace@0__:a", protocol=3) as listener:
        configured(client, "K$")
        until(lambda: client.ask(["SET", "a", "1"]) and listener.told(0.1))
        client.ask(["SET", "a", "2"])
        assert listener.reply() == (
            ">", [("$", "pmessage"), ("$", "__keyspace@0__:a"), ("$", "__keyspace@0__:a"), ("$", "set")]
        )


@pytest.mark.parametrize("at", [0, 1], ids=["redis", "claret"])
@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ("", []),
        ("A", []),
        ("KE", []),
        ("K$", [("__keyspace@0__:k", "set")]),
        ("E$", [("__keyevent@0__:set", "k")]),
        ("Kg", [("__keyspace@0__:k", "expire"), ("__keyspace@0__:k", "del")]),
        ("Kn", [("__keyspace@0__:k", "new"), ("__keyspace@0__:l", "new")]),
        ("El", [("__keyevent@0__:lpush", "l")]),
        ("Ee", []),
    ],
)
def test_classes_choose_the_events(servers, at, classes, expected):
    port = servers[at].port
    with Connection(port) as client:
        client.ask(["FLUSHALL"])
        configured(client, classes)
        with Listener(port, "__key*") as listener:
            for line in ["SET k 1", "EXPIRE k 100", "LPUSH l a", "DEL k", "GET no"]:
                client.ask(line.split())
            assert sorted(listener.told()) == sorted(expected)


def test_nothing_is_told_of_keys_that_are_missed(servers):
    with Connection(servers[1].port) as client:
        configured(client, "Em")
        with Listener(servers[1].port, "__key*") as listener:
            client.ask(["GET", "no"])
            assert listener.told() == []


def test_subscribers_of_one_channel_hear_only_that(servers):
    for server in servers:
        with Connection(server.port) as client, Connection(server.port) as listener:
            configured(client, "KEA")
            confirmed = listener.ask(["SUBSCRIBE", "__keyevent@0__:del", "__keyspace@2__:k"])
            assert confirmed[1][0] == ("$", "subscribe") and listener.reply()[1][2] == (":", "2")
            for line in ["SET k 1", "DEL k", "SELECT 2", "SET k 1", "DEL k"]:
                client.ask(line.split())
            messages = [[value for _, value in listener.reply()[1]] for _ in range(3)]
            assert sorted(messages) == [
                ["message", "__keyevent@0__:del", "k"],
                ["message", "__keyspace@2__:k", "del"],
                ["message", "__keyspace@2__:k", "set"],
            ]
            client.ask(["FLUSHALL"])


def test_a_blocked_client_takes_behind_the_push(servers):
    for server in servers:
        with Connection(server.port) as client, Connection(server.port) as waiting:
            configured(client, "KA")
            with Listener(server.port, "__keyspace@0__:queue") as listener:
                waiting.socket.sendall(b"*3\r\n$5\r\nBLPOP\r\n$5\r\nqueue\r\n$1\r\n9\r\n")
                until(lambda client=client: "blocked_clients:1" in client.ask(["INFO", "clients"])[1])
                client.ask(["RPUSH", "queue", "a"])
                assert waiting.reply()[0] == "*"
                assert [event for _, event in listener.told()] == ["rpush", "lpop", "del"]


@pytest.mark.parametrize(
    "text",
    ["", "KEA", "K", "E$", "mnEKxg", "KEg$lshztxen", "g$lshzxetd", "g$lshzxet", "dK", "Kq", "KE A", "ke"],
)
def test_the_setting_is_shown_as_redis_shows_it(servers, text):
    shown = []
    for server in servers:
        with Connection(server.port) as client:
            set_to = client.ask(["CONFIG", "SET", "notify-keyspace-events", text])
            shown.append((set_to, client.ask(["CONFIG", "GET", "notify-keyspace-events"])))
            configured(client, "")
    if shown[0][0][0] == "-":
        assert [set_to for set_to, _ in shown] == [shown[0][0]] * 2
    else:
        assert shown[0] == shown[1]


def test_an_event_on_its_way_is_not_told_twice(servers):
    port = servers[1].port
    with Connection(port) as client:
        configured(client, "K$")
        for number in range(20):
            with Listener(port, "__keyspace@0__:*") as listener:
                client.ask(["SET", f"k{number}", "1"])
                assert listener.told(0.1 if number else QUIET_S) == [(f"__keyspace@0__:k{number}", "set")]
            time.sleep(0.01)
