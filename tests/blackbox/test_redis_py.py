"""Stock redis-py, with both versions of the protocol."""

import threading
import time

import pytest
import redis
from harness import command, until, work_in_threads


def test_strings(db):
    assert db.set("a", "1") is True
    assert db.get("a") == "1"
    assert db.set("a", "2", nx=True) is None
    assert db.set("a", "3", xx=True, get=True) == "1"
    assert db.incrby("a", 39) == 42
    assert db.append("a", "!") == 3
    assert db.mset({"x": 1, "y": 2, "z": 3}) is True
    assert db.mget("x", "nothing", "z") == ["1", None, "3"]
    assert db.getrange("a", 0, 1) == "42"
    assert db.getdel("a") == "42!"
    assert db.exists("a", "x", "x") == 2
    assert db.execute_command("SET", "x", "2", "IFEQ", "0") is None
    assert db.execute_command("SET", "x", "2", "IFEQ", "1") is True
    assert db.execute_command("DELIFEQ", "x", "1") == 0
    assert db.get("x") == "2"
    assert db.incrbyfloat("f", 1.5) == 1.5
    assert db.delete("x", "y", "nothing") == 2


def test_bounded_increments(db):
    assert db.increx("hits", ex=60, enx=True) == [1, 1]
    assert db.increx("hits", byint=5, ubound=4) == [1, 0]
    assert db.increx("hits", byint=5, ubound=4, saturate=True) == [4, 3]
    assert 0 < db.ttl("hits") <= 60
    assert [float(part) for part in db.increx("share", byfloat=0.1)] == [0.1, 0.1]
    assert [float(part) for part in db.increx("share", byfloat="0.2")] == [0.3, 0.2]
    assert db.get("share") == "0.3"


def test_stock_that_many_take_with_increx_is_never_below_zero(server):
    with server.client() as client:
        client.set("stock", 100)
    taken = []

    def take(_):
        with server.client() as client:
            for _ in range(30):
                left, change = client.increx("stock", byint=-1, lbound=0)
                assert left >= 0
                taken.append(change)

    work_in_threads(take, 8)
    assert (sum(taken), len(taken)) == (-100, 240)
    with server.client() as client:
        assert client.get("stock") == "0"


def test_hashes(db):
    assert db.hset("h", mapping={"a": 1, "b": "x"}) == 2
    assert db.hgetall("h") == {"a": "1", "b": "x"}
    assert db.hincrby("h", "a", 4) == 5
    assert db.hmget("h", "a", "c") == ["5", None]
    assert sorted(db.hkeys("h")) == ["a", "b"]
    assert dict(db.hscan_iter("h")) == {"a": "5", "b": "x"}
    assert db.hdel("h", "a", "b") == 2
    assert not db.exists("h")


def test_sets(db):
    assert db.sadd("s", "a", "b", "b") == 2
    assert db.smembers("s") == {"a", "b"}
    assert db.sismember("s", "a") and not db.sismember("s", "z")
    assert list(db.smismember("s", ["a", "z"])) == [1, 0]
    db.sadd("t", "b", "c")
    assert db.sinter("s", "t") == {"b"}
    assert db.sunionstore("u", "s", "t") == 3
    assert db.smove("s", "t", "a") == 1
    assert db.spop("s") == "b"
    assert set(db.sscan_iter("u")) == {"a", "b", "c"}


def test_sorted_sets(db):
    assert db.zadd("z", {"a": 1, "b": 2.5, "c": 3}) == 3
    assert db.zscore("z", "b") == 2.5
    assert db.zincrby("z", 10, "a") == 11
    assert [tuple(pair) for pair in db.zrange("z", 0, -1, withscores=True)] == [
        ("b", 2.5),
        ("c", 3),
        ("a", 11),
    ]
    assert db.zrevrange("z", 0, 0) == ["a"]
    assert db.zrangebyscore("z", "(2.5", "+inf") == ["c", "a"]
    assert db.zrank("z", "c") == 1
    assert db.zcount("z", 0, 5) == 2
    assert [tuple(pair) for pair in db.zpopmin("z", 1)] == [("b", 2.5)]
    assert db.zadd("z", {"c": 1}, gt=True, ch=True) == 0
    assert db.zremrangebyrank("z", 0, 0) == 1


def test_lists(db):
    assert db.rpush("l", "a", "b", "c") == 3
    assert db.lpush("l", "z") == 4
    assert db.lrange("l", 0, -1) == ["z", "a", "b", "c"]
    assert db.lpop("l") == "z" and db.rpop("l", 2) == ["c", "b"]
    assert db.lindex("l", 0) == "a"
    db.rpush("l", "b", "a")
    assert db.lrem("l", 0, "a") == 2
    assert db.lmove("l", "m", "LEFT", "RIGHT") == "b"
    assert db.lrange("m", 0, -1) == ["b"] and db.llen("l") == 0


def test_wrong_types_are_refused(db):
    db.rpush("l", 1)
    for call in (lambda: db.get("l"), lambda: db.sadd("l", 1), lambda: db.zadd("l", {"a": 1})):
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            call()
    assert db.lrange("l", 0, -1) == ["1"]


def test_pipelines(db):
    pipe = db.pipeline(transaction=False)
    for i in range(1000):
        pipe.set(f"k{i}", i)
        pipe.get(f"k{i}")
    replies = pipe.execute()
    assert replies[1::2] == [str(i) for i in range(1000)]
    pipe = db.pipeline(transaction=False)
    pipe.set("a", "x").incr("a").get("a")
    replies = pipe.execute(raise_on_error=False)
    assert replies[0] is True and isinstance(replies[1], redis.ResponseError)
    assert replies[2] == "x"


def test_multi_over_shards(db):
    keys = [f"key{i}" for i in range(32)]
    with db.pipeline() as pipe:
        for key in keys:
            pipe.incrby(key, 1)
        pipe.rename("key0", "moved").sunionstore("none", "s1", "s2").mget(keys)
        replies = pipe.execute()
    assert replies[:32] == [1] * 32
    assert replies[-1] == [None] + ["1"] * 31
    assert db.get("moved") == "1"


def test_a_failing_command_in_multi_leaves_the_others(db):
    with db.pipeline() as pipe:
        pipe.set("a", "x").incr("a").set("b", 1)
        replies = pipe.execute(raise_on_error=False)
    assert replies[0] is True and isinstance(replies[1], redis.ResponseError)
    assert db.get("b") == "1"


def test_a_command_that_cannot_be_queued_stops_exec(db):
    with db.pipeline() as pipe:
        pipe.set("a", 1)
        pipe.execute_command("GET")
        with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
            pipe.execute()
    assert not db.exists("a")


def test_watch(db, server):
    with db.pipeline() as pipe:
        pipe.watch("a", "b")
        with server.client() as other:
            other.set("b", 1)
        pipe.multi()
        pipe.set("c", 1)
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert not db.exists("c")
    with db.pipeline() as pipe:
        pipe.watch("a", "b")
        assert pipe.get("b") == "1"
        pipe.multi()
        pipe.set("c", 1)
        assert pipe.execute() == [True]


def test_watch_sees_a_key_made_and_removed_again(db, server):
    other = server.client()
    with db.pipeline() as pipe:
        for remove in (lambda: other.delete("k"), other.flushall, lambda: other.getdel("k")):
            pipe.watch("k")
            other.set("k", 1)
            remove()
            pipe.multi()
            pipe.set("out", 1)
            with pytest.raises(redis.WatchError):
                pipe.execute()
        pipe.watch("k")
        assert pipe.get("k") is None
        other.set("unrelated", 1)
        pipe.multi()
        pipe.set("k", 2)
        pipe.set("out", 3)
        assert pipe.execute() == [True, True]
    assert db.mget("k", "out") == ["2", "3"]


def test_transaction_with_watch_under_contention(db, server):
    db.set("n", 0)

    def add(pipe):
        value = int(pipe.get("n"))
        pipe.multi()
        pipe.set("n", value + 1)

    def work():
        with server.client() as client:
            for _ in range(25):
                client.transaction(add, "n")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert db.get("n") == "100"


def test_blocking_pop_is_woken_by_another_connection(db, server):
    def push():
        time.sleep(0.2)
        with server.client() as other:
            other.rpush("q", "x")

    thread = threading.Thread(target=push)
    thread.start()
    begin = time.monotonic()
    assert tuple(db.blpop(["p", "q"], 10)) == ("q", "x")
    assert 0.1 < time.monotonic() - begin < 5
    thread.join()
    begin = time.monotonic()
    assert db.blpop("q", 0.2) is None
    assert 0.15 < time.monotonic() - begin < 3


def test_pushes_wake_one_waiter_each(db, server):
    got = []

    def wait():
        with server.client() as client:
            got.append(client.brpop("q", 20)[1])

    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    for i in range(5):
        db.lpush("q", i)
    for thread in threads:
        thread.join(20)
    assert sorted(got) == list("01234")
    assert db.llen("q") == 0


def test_pub_sub(db, server):
    with server.client() as other, db.pubsub() as listener:
        listener.subscribe("news")
        listener.psubscribe("w*")
        kinds = {listener.get_message(timeout=5)["type"] for _ in range(2)}
        assert kinds == {"subscribe", "psubscribe"}
        assert other.publish("news", "one") == 1
        assert other.publish("weather", "two") == 1
        assert other.publish("nobody", "three") == 0
        messages = [listener.get_message(timeout=5) for _ in range(2)]
        assert [(m["type"], m["channel"], m["data"]) for m in messages] == [
            ("message", "news", "one"),
            ("pmessage", "weather", "two"),
        ]
        assert other.pubsub_channels() == ["news"]


def test_scan_iter(db):
    for i in range(300):
        db.set(f"s{i}", i)
        db.sadd(f"t{i}", i)
    assert len(set(db.scan_iter())) == 600
    assert set(db.scan_iter(match="s1*", count=10)) == {f"s{i}" for i in range(300) if f"s{i}"[1] == "1"}
    assert set(db.scan_iter(_type="set")) == {f"t{i}" for i in range(300)}
    assert set(db.keys("t29*")) == {"t29", *(f"t29{i}" for i in range(10))}


def test_expiry(db):
    db.set("a", 1, px=80)
    db.set("b", 1, ex=100)
    assert 0 < db.pttl("a") <= 80 and 90 < db.ttl("b") <= 100
    assert db.ttl("nothing") == -2
    time.sleep(0.15)
    assert db.get("a") is None and db.exists("a") == 0 and db.get("b") == "1"
    assert db.persist("b") and db.ttl("b") == -1
    assert db.expire("b", 100, gt=True) is False
    assert db.pexpire("b", 1)
    until(lambda: db.dbsize() == 0)


def test_expired_keys_go_away_unasked(db):
    for i in range(500):
        db.set(f"k{i}", i, px=50)
    until(lambda: db.dbsize() == 0)


def test_information(db):
    info = db.info()
    assert info["redis_mode"] == "standalone" and info["loading"] == 0
    assert info["shards"] == 2
    assert db.info("memory")["used_memory"] > 0
    assert db.client_id() > 0
    assert db.client_setname("me") and db.client_getname() == "me"
    assert "me" in [client["name"] for client in db.client_list()]
    assert db.config_get("*")
    assert "maxmemory" in db.config_get("maxmem*")
    assert abs(db.time()[0] - time.time()) < 60
    assert db.command_count() > 200
    assert db.echo("x") == "x" and db.ping()


def test_what_is_not_offered_is_refused_politely(db):
    for words in (["WAITAOF", "0", "0", "0"], ["SELECT", "16"]):
        with pytest.raises(redis.ResponseError):
            db.execute_command(*words)
    assert db.ping()


def test_large_values(db):
    value = "x" * (4 << 20)
    assert db.set("big", value)
    assert db.get("big") == value
    assert db.strlen("big") == 4 << 20


def test_many_fields_in_one_command(db):
    fields = {f"f{i}": i for i in range(20_000)}
    assert db.hset("h", mapping=fields) == 20_000
    assert len(db.hgetall("h")) == 20_000


def test_a_killed_connection_is_noticed(db, server):
    with server.client(single_connection_client=True) as other:
        number = other.client_id()
        assert db.client_kill_filter(_id=number) == 1
        with pytest.raises(redis.ConnectionError):
            other.ping()


def test_pushes_come_although_replies_are_off(server):
    with server.socket() as listener:
        listener.sendall(command("HELLO", 3) + command("SUBSCRIBE", "quiet"))
        receive_until(listener, b">3\r\n$9\r\nsubscribe\r\n$5\r\nquiet\r\n:1\r\n")
        listener.sendall(command("CLIENT", "REPLY", "OFF") + command("GET", "a"))
        listener.sendall(command("PSUBSCRIBE", "q*"))
        receive_exactly(listener, b">3\r\n$10\r\npsubscribe\r\n$2\r\nq*\r\n:2\r\n")
        with server.client() as other:
            assert other.publish("quiet", "hi") == 2
        message = b"$5\r\nquiet\r\n$2\r\nhi\r\n"
        receive_exactly(listener, b">3\r\n$7\r\nmessage\r\n" + message)
        receive_exactly(listener, b">4\r\n$8\r\npmessage\r\n$2\r\nq*\r\n" + message)
        listener.sendall(command("PING") + command("CLIENT", "REPLY", "ON"))
        receive_exactly(listener, b"+OK\r\n")


def receive_until(connection, end):
    """Reads up to some bytes."""
    received = b""
    while not received.endswith(end):
        piece = connection.recv(1)
        assert piece, received
        received += piece


def receive_exactly(connection, expected):
    """The next bytes are these."""
    received = b""
    while len(received) < len(expected):
        piece = connection.recv(len(expected) - len(received))
        assert piece, received
        received += piece
    assert received == expected


def test_what_info_says_is_true_at_once(make_server):
    before = int(time.time())
    server = make_server().start()
    client = server.client(single_connection_client=True)
    assert before <= int(client.lastsave().timestamp()) <= time.time()
    others = [server.socket() for _ in range(5)]
    for other in others:
        other.sendall(command("PING"))
        receive_exactly(other, b"+PONG\r\n")
    assert client.info("clients")["connected_clients"] == 6
    for other in others[:3]:
        other.sendall(command("BLPOP", "nothing", 0))
    until(lambda: client.info("clients")["blocked_clients"] == 3, 0.5)
    client.rpush("nothing", "a")
    until(lambda: client.info("clients")["blocked_clients"] == 2, 0.5)
    others[4].sendall(command("QUIT"))
    receive_exactly(others[4], b"+OK\r\n")
    assert others[4].recv(1) == b""
    assert client.info("clients")["connected_clients"] == 5
    time.sleep(1.1)
    saved = int(time.time())
    assert client.save()
    assert int(client.lastsave().timestamp()) >= saved
    assert server.client().info("persistence")["rdb_last_save_time"] >= saved
    for other in others:
        other.close()


def test_info_counts_each_command(make_server):
    client = make_server().start().client(single_connection_client=True)
    client.set("a", "x")
    for _ in range(3):
        client.get("a")
    client.rpush("l", "a")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.get("l")
    with pytest.raises(redis.ResponseError, match="wrong number"):
        client.execute_command("GET")
    with pytest.raises(redis.ResponseError, match="unknown"):
        client.execute_command("NOSUCH")
    with client.pipeline() as pipe:
        pipe.incr("n").incr("n").execute()
    counts = client.info("commandstats")
    get = counts["cmdstat_get"]
    assert (get["calls"], get["rejected_calls"], get["failed_calls"]) == (4, 1, 1), get
    assert get["usec"] >= 0 and abs(get["usec_per_call"] - get["usec"] / 4) < 0.01, get
    assert counts["cmdstat_incrby"]["calls"] == 2 and counts["cmdstat_exec"]["calls"] == 1
    assert counts["cmdstat_set"]["calls"] == 1 and "cmdstat_nosuch" not in counts
    assert "cmdstat_get" in client.info("all") and "cmdstat_get" not in client.info()
    client.config_resetstat()
    assert "cmdstat_get" not in client.info("commandstats")
