"""Fields of hashes that expire."""

import time

import pytest
import redis
from harness import until

MISSING, LASTS, REFUSED, DONE, REMOVED = -2, -1, 0, 1, 2


@pytest.fixture
def client(server):
    """A client of an empty server with two shards."""
    with server.client() as client:
        yield client


def about(time_left):
    """What is left of a time, if the test was not held up for long."""
    return pytest.approx(time_left, rel=0.3)


def expires_soon(client, key, **others):
    """A hash with field `a`, which is gone when this returns, and others that stay."""
    client.hset(key, mapping={"a": 1, **others})
    assert client.hpexpire(key, 5, "a") == [DONE]
    time.sleep(0.02)


# Every command that reads a hash, with what it gives if `a` is gone and `b` is 2.
READS = [
    (("HGET", "h", "a"), None),
    (("HMGET", "h", "a", "b"), [None, "2"]),
    (("HGETALL", "h"), {"b": "2"}),
    (("HEXISTS", "h", "a"), False),
    (("HSTRLEN", "h", "a"), 0),
    (("HLEN", "h"), 1),
    (("HKEYS", "h"), ["b"]),
    (("HVALS", "h"), ["2"]),
    (("HSCAN", "h", "0", "NOVALUES"), None),
    (("HRANDFIELD", "h", "9"), ["b"]),
    (("HTTL", "h", "FIELDS", "2", "a", "b"), [MISSING, LASTS]),
    (("HPEXPIRETIME", "h", "FIELDS", "1", "a"), [MISSING]),
    (("HGETEX", "h", "FIELDS", "2", "a", "b"), [None, "2"]),
]


@pytest.mark.parametrize("words, reply", READS, ids=lambda part: part[0] if isinstance(part, tuple) else "")
def test_no_read_shows_a_field_that_has_expired(client, words, reply):
    expires_soon(client, "h", b=2)
    if words[0] == "HSCAN":
        assert client.hscan("h", no_values=True) == (0, ["b"])
    else:
        assert client.execute_command(*words) == reply


def test_no_write_finds_a_field_that_has_expired(client):
    writes = [
        (("HSET", "a", "7"), 1),
        (("HSETNX", "a", "7"), True),
        (("HDEL", "a"), 0),
        (("HGETDEL", "FIELDS", "1", "a"), [None]),
        (("HINCRBY", "a", "7"), 7),
        (("HINCRBYFLOAT", "a", "7"), 7.0),
        (("HEXPIRE", "9", "FIELDS", "1", "a"), [MISSING]),
        (("HPERSIST", "FIELDS", "1", "a"), [MISSING]),
        (("HGETEX", "PERSIST", "FIELDS", "1", "a"), [None]),
        (("HSETEX", "FXX", "FIELDS", "1", "a", "7"), 0),
        (("HSETEX", "FNX", "EX", "9", "FIELDS", "1", "a", "7"), 1),
    ]
    for number, ((name, *rest), reply) in enumerate(writes):
        key = f"h{number}"
        expires_soon(client, key, b=2)
        assert client.execute_command(name, key, *rest) == reply, name
        if "7" in rest and reply:
            assert client.hpttl(key, "a")[0] in ([LASTS] if name != "HSETEX" else range(1, 9001)), name


def test_redis_py_sets_reads_and_ends_the_time_of_fields(client):
    client.hset("h", mapping={"a": 1, "b": 2, "c": 3})
    now = time.time()
    assert client.hexpire("h", 100, "a", "x") == [DONE, MISSING]
    assert client.hpexpire("h", 200_000, "a", "b", nx=True) == [REFUSED, DONE]
    assert client.hexpireat("h", int(now) + 300, "a", "c", gt=True) == [DONE, REFUSED]
    assert client.hpexpireat("h", int(now * 1000) + 400_000, "c", lt=True) == [DONE]
    assert client.httl("h", "b", "x") == [about(200), MISSING]
    assert client.hpttl("h", "a") == [about(300_000)]
    assert client.hexpiretime("h", "a") == [int(now) + 300]
    assert client.hpexpiretime("h", "c") == [int(now * 1000) + 400_000]
    assert client.hpersist("h", "a", "a", "x") == [DONE, LASTS, MISSING]
    assert client.hgetex("h", "a", "x", ex=50) == ["1", None]
    assert client.httl("h", "a") == [about(50)]
    assert client.hgetex("h", "a", persist=True) == ["1"]
    assert client.hsetex("h", "a", "9", px=60_000) == 1
    assert client.hsetex("h", mapping={"a": "8", "b": "8"}, keepttl=True) == 1
    assert client.httl("h", "a", "b") == [about(60), about(200)]
    assert client.hset("h", "a", "7") == 0
    assert client.hincrby("h", "b", 2) == 10
    assert client.httl("h", "a", "b") == [LASTS, about(200)]
    assert client.hexpire("h", 0, "a", "b", "c") == [REMOVED] * 3
    assert client.exists("h") == 0


def test_a_hash_ends_with_its_last_field_whether_anybody_asks_or_not(client):
    for number in range(50):
        client.hsetex(f"h{number}", mapping={"a": 1, "b": 2}, px=5 + number)
    until(lambda: client.dbsize() == 0, what="the end of all hashes")
    client.hsetex("h", "a", 1, px=5)
    time.sleep(0.02)
    assert (client.exists("h"), client.type("h"), client.ttl("h"), client.keys("*")) == (0, "none", -2, [])


def test_times_go_along_with_the_hash(client):
    client.hset("{t}h", mapping={"a": 1, "b": 2})
    client.hexpire("{t}h", 100, "a")
    moment = client.hpexpiretime("{t}h", "a")
    assert client.copy("{t}h", "elsewhere")
    client.rename("{t}h", "moved")
    assert client.move("moved", 5)
    for key, database in (("elsewhere", 0), ("moved", 5)):
        client.select(database)
        assert client.hpexpiretime(key, "a", "b") == [*moment, LASTS]
    client.select(0)
    client.hpexpire("elsewhere", 30, "b")
    assert client.copy("elsewhere", "again")
    time.sleep(0.05)
    assert client.hkeys("again") == client.hkeys("elsewhere") == ["a"]


def test_transactions_and_scripts_see_and_set_times(client, server):
    expires_soon(client, "h", b=2)
    with client.pipeline(transaction=True) as pipe:
        pipe.hlen("h").hexpire("h", 50, "b").httl("h", "a", "b").hsetex("other", "c", 1, ex=60)
        assert pipe.execute() == [1, [DONE], [MISSING, 50], 1]
    script = """
        local seen = redis.call('HLEN', KEYS[1])
        redis.call('HSETEX', KEYS[1], 'PX', 5, 'FIELDS', 1, 'c', 3)
        return {seen, redis.call('HTTL', KEYS[1], 'FIELDS', 2, 'b', 'c')}
    """
    for _ in range(3):
        assert client.eval(script, 1, "h") == [1, [about(50), 1]]
        time.sleep(0.02)
    expires_soon(client, "h", b=2)
    assert client.eval("return redis.call('HKEYS', KEYS[1])", 1, "h") == ["b"]
    with server.client(single_connection_client=True) as one:
        one.execute_command("TXN", "BEGIN")
        assert one.hpexpire("h", 5, "b") == [DONE]
        one.hset("h", "d", 4)
        assert one.hgetall("h") == {"b": "2", "d": "4"}
        time.sleep(0.02)
        assert one.hget("h", "b") == "2", "the transaction sees one state"
        one.execute_command("TXN", "COMMIT")
    time.sleep(0.02)
    assert client.hgetall("h") == {"d": "4"}


def test_a_watched_hash_has_changed_when_a_field_expires(client, server):
    client.hset("h", mapping={"a": 1, "b": 2})
    client.hpexpire("h", 1000, "a")
    with server.client(single_connection_client=True) as one:
        one.execute_command("WATCH", "h")
        assert one.hlen("h") == 2
        until(lambda: client.hlen("h") == 1, what="the end of the field")
        one.execute_command("MULTI")
        one.execute_command("HSET", "h", "c", 3)
        assert one.execute_command("EXEC") is None


def test_refused_commands_say_what_redis_says(client):
    client.set("text", "x")
    missing = "Mandatory argument FIELDS is missing or not at the right position"
    refused = [
        (("HEXPIRE", "h", "-1", "FIELDS", "1", "a"), "invalid expire time, must be >= 0"),
        (("HEXPIRE", "h", "9999999999999", "FIELDS", "1", "a"), "invalid expire time in 'hexpire' command"),
        (("HEXPIRE", "h", "1", "FIELDS", "0", "a"), "Parameter `numFields` should be greater than 0"),
        (("HEXPIRE", "h", "1", "FIELDS", "2", "a"), "The `numfields` parameter must match the number of arguments"),
        (("HEXPIRE", "h", "1", "1", "a", "b"), missing),
        (("HTTL", "h", "FIELDS", "-1", "a"), "Number of fields must be a positive integer"),
        (("HPERSIST", "h", "a", "1", "a"), missing),
        (("HGETEX", "h", "EX", "1", "1", "a"), missing),
        (("HSETEX", "h", "FNX", "FXX", "FIELDS", "1", "a", "1"), "Only one of FXX or FNX arguments can be specified"),
        (("HSETEX", "h", "FIELDS", "2", "a", "1"), "wrong number of arguments for 'hsetex' command"),
        (("HTTL", "text", "FIELDS", "1", "a"), "WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]
    for words, text in refused:
        with pytest.raises(redis.ResponseError) as error:
            client.execute_command(*words)
        assert str(error.value) == text, words
    assert client.exists("h") == 0


def test_fields_expire_and_stay_over_a_crash(make_server):
    server = make_server().start()
    with server.client() as client:
        client.hset("h", mapping={"gone": 1, "soon": 2, "later": 3, "always": 4})
        client.hpexpire("h", 5, "gone")
        client.hpexpire("h", 300, "soon")
        client.hexpire("h", 1000, "later")
        time.sleep(0.02)
        assert not client.hexists("h", "gone")
        moment = client.hpexpiretime("h", "later")
    server.restart()
    time.sleep(0.3)
    with server.client() as client:
        assert sorted(client.hkeys("h")) == ["always", "later"]
        assert client.hpexpiretime("h", "later", "always") == [*moment, LASTS]


def test_the_next_leader_knows_which_fields_expire(make_cluster):
    cluster = make_cluster().start()
    first, second = cluster.nodes[:2]
    cluster.let_lead(first)
    with first.client() as client:
        for number in range(6):
            key = f"h{number}"
            client.hset(key, mapping={"gone": 1, "soon": 2, "later": 3, "kept": 4})
            client.hpexpire(key, 5, "gone")
            client.hpexpire(key, 400, "soon")
            client.hexpire(key, 1000, "later", "kept")
            client.hpersist(key, "kept")
        time.sleep(0.02)
        assert not client.hexists("h0", "gone")
        moments = [client.hpexpiretime(f"h{number}", "later") for number in range(6)]
    cluster.let_lead(second)
    with second.client() as client:
        until(lambda: client.hlen("h0") == 2, what="the end of a field")
        for number in range(6):
            key = f"h{number}"
            until(lambda: client.hlen(key) == 2, what="the end of a field")
            assert client.hgetall(key) == {"later": "3", "kept": "4"}
            assert client.hpexpiretime(key, "later", "kept") == [*moments[number], LASTS]
    first.kill()
    with second.client() as client:
        assert client.hpersist("h0", "later") == [DONE]
        assert client.httl("h0", "later") == [LASTS]
