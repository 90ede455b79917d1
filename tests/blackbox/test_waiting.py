"""Commands that wait for something to take: who is served, and when."""

import socket
import threading
import time

import pytest
import redis
from harness import until

ROUNDS = 200


def waiting(client):
    return client.info("clients")["blocked_clients"]


def numbered(pool):
    """A connection that can be left waiting, and its number."""
    connection = pool.get_connection()
    connection.send_command("CLIENT", "ID")
    return connection, connection.read_response()


def test_clients_are_served_in_the_order_in_which_they_are_seen_to_wait(make_server):
    server = make_server(shards=2, workers=2).start()
    with server.client() as client:
        pool = client.connection_pool
        first, second = pool.get_connection(), pool.get_connection()
        inversions = []
        for number in range(ROUNDS):
            key = f"list:{number}"
            first.send_command("BLPOP", key, 0)
            until(lambda: waiting(client) == 1)
            second.send_command("BLPOP", key, 0)
            until(lambda: waiting(client) == 2)
            client.rpush(key, "a", "b")
            got = [first.read_response(), second.read_response()]
            if got != [[key, "a"], [key, "b"]]:
                inversions.append(got)
        pool.release(first)
        pool.release(second)
    assert not inversions, f"{len(inversions)} of {ROUNDS}, the first is {inversions[0]}"


def test_who_is_listed_as_waiting_can_be_released(make_server):
    server = make_server().start()
    with server.client() as client:
        pool = client.connection_pool
        connection, number = numbered(pool)
        connection.send_command("BLPOP", "a", "b", "c", 0)

        def is_listed():
            row = [row for row in client.client_list() if row["id"] == str(number)]
            return "b" in row[0]["flags"]

        until(is_listed)
        assert waiting(client) == 1
        assert client.client_unblock(number)
        assert connection.read_response() is None
        assert waiting(client) == 0 and not is_listed()
        pool.release(connection)


def test_a_lock_that_is_granted_as_its_wait_is_ended_is_not_lost(make_server):
    """CLIENT UNBLOCK and the grant race: the waiter gets the token, or the lock is free."""
    server = make_server().start()
    with server.client() as client, server.client() as other, server.client() as waiter:
        connection, number = numbered(waiter.connection_pool)
        granted = {}
        for turn in range(80):
            lock = f"lock{turn}"
            token = client.execute_command("LOCK.TRY", lock, "LEASE", 60_000)
            connection.send_command("LOCK.ACQUIRE", lock, "LEASE", 60_000)
            until(lambda lock=lock: client.execute_command("LOCK.WAITERS", lock))
            words = ("LOCK.RELEASE", lock, token)
            release = threading.Timer(turn % 8 * 0.0001, client.execute_command, words)
            release.start()
            time.sleep(0.0004)
            other.client_unblock(number)
            granted[lock] = connection.read_response() is not None
            release.join()
        waiter.connection_pool.release(connection)
        assert granted == {lock: bool(client.execute_command("LOCK.HOLDERS", lock)) for lock in granted}


@pytest.mark.parametrize(
    "words",
    ["LOCK.ACQUIRE held", "ELECTION.OBSERVE held2", "BARRIER.WAIT meet 2", "LOCK.SECTION held EXISTS held"],
)
def test_every_wait_for_a_turn_is_ended_by_others(make_server, words):
    server = make_server(shards=2).start()
    with server.client() as client, server.client() as waiter:
        client.execute_command("LOCK.TRY", "held", "LEASE", 60_000)
        connection, number = numbered(waiter.connection_pool)
        for how, reply in (("TIMEOUT", None), ("ERROR", "UNBLOCKED")):
            connection.send_command(*words.split())
            until(lambda: waiting(client) == 1)
            assert client.execute_command("CLIENT", "UNBLOCK", number, how) == 1
            if reply is None:
                assert connection.read_response() is None
            else:
                with pytest.raises(redis.ResponseError, match=reply):
                    connection.read_response()
            until(lambda: waiting(client) == 0)
        waiter.connection_pool.release(connection)


def test_who_waits_for_a_lock_goes_on_when_its_key_holds_something_else(make_server):
    server = make_server().start()
    with server.client() as client:
        pool = client.connection_pool
        connection = pool.get_connection()
        assert client.execute_command("LOCK.ACQUIRE", "lock", "LEASE", 60_000) > 0
        connection.send_command("LOCK.ACQUIRE", "lock", "LEASE", 60_000)
        until(lambda: client.execute_command("LOCK.WAITERS", "lock"))
        with client.pipeline() as pipe:
            pipe.delete("lock").set("lock", "x")
            pipe.execute()
        assert not connection.can_read(timeout=0.3)
        assert client.get("lock") == "x"
        client.delete("lock")
        assert connection.read_response() > 0
        pool.release(connection)


# Shards, workers, and when a write is durable.
SERVERS = [(1, 1, "none"), (1, 2, "always"), (4, 1, "always"), (4, 3, "none"), (4, 3, "always")]
# How each command takes the element "x" of a key, which a push has put there.
TAKES = {
    "BLPOP": (["BLPOP", "{}", 0], "RPUSH"),
    "BRPOP": (["BRPOP", "{}", 0], "RPUSH"),
    "BLMPOP": (["BLMPOP", 0, 1, "{}", "LEFT"], "RPUSH"),
    "BLMOVE": (["BLMOVE", "{}", "{}:to", "LEFT", "RIGHT", 0], "RPUSH"),
    "BRPOPLPUSH": (["BRPOPLPUSH", "{}", "{}:to", 0], "RPUSH"),
    "BZPOPMIN": (["BZPOPMIN", "{}", 0], "ZADD"),
    "BZPOPMAX": (["BZPOPMAX", "{}", 0], "ZADD"),
    "BZMPOP": (["BZMPOP", 0, 1, "{}", "MIN"], "ZADD"),
}


@pytest.fixture(params=SERVERS, ids=lambda p: f"{p[0]} shards, {p[1]} workers, {p[2]}")
def server(make_server, request):
    shards, workers, durability = request.param
    return make_server("--durability", durability, shards=shards, workers=workers).start()


def begin(client, *words):
    """A connection on which a command waits; it is seen to."""
    before = waiting(client)
    connection = client.connection_pool.get_connection()
    connection.send_command(*words)
    until(lambda: waiting(client) == before + 1)
    return connection


def hammer(server, words, key, seen, stop):
    """Asks for the same again and again, and keeps what is not as if the key was absent."""
    with server.client() as client:
        absent = client.execute_command(*words, key)
        while not stop.is_set():
            time.sleep(0.0005)
            found = client.execute_command(*words, key)
            if found != absent:
                seen.append((words, found))


@pytest.mark.parametrize("name", TAKES)
def test_what_goes_to_a_waiting_client_is_seen_by_no_other(server, name):
    take, push = TAKES[name]
    look = ["LLEN"] if push == "RPUSH" else ["ZCARD"]
    element = ["x"] if push == "RPUSH" else ["1", "x"]
    seen, stop = [], threading.Event()
    with server.client() as client:
        readers = [
            threading.Thread(target=hammer, args=(server, words, "key", seen, stop))
            for words in (look, ["EXISTS"], ["TYPE"], ["LPOP" if push == "RPUSH" else "ZPOPMIN"])
        ]
        [reader.start() for reader in readers]
        try:
            for _ in range(20):
                taker = begin(client, *(str(word).format("key", "key") for word in take))
                assert client.execute_command(push, "key", *element) == 1
                assert taker.can_read(timeout=5), "another client has got it"
                assert "x" in str(taker.read_response())
                client.connection_pool.release(taker)
        finally:
            stop.set()
            [reader.join() for reader in readers]
    assert not seen, f"{len(seen)} times, the first is {seen[0]}"


@pytest.mark.parametrize("tag", ["{t}", ""], ids=["one shard", "any shard"])
def test_moves_that_wait_for_each_other_are_one_step(server, tag):
    a, b, c = (f"{tag}{name}" for name in ("l1", "l2", "l3"))
    with server.client() as client:
        for number in range(30):
            first = begin(client, "BLMOVE", a, b, "LEFT", "RIGHT", 0)
            second = begin(client, "BLMOVE", b, c, "LEFT", "RIGHT", 0)
            assert client.rpush(a, number) == 1
            # In the order of the chain: over several shards, that is what is promised.
            assert client.lrange(a, 0, -1) == [] and client.lrange(b, 0, -1) == []
            assert client.lrange(c, 0, -1) == [str(number)]
            assert [first.read_response(), second.read_response()] == [str(number)] * 2
            client.delete(c)
            client.connection_pool.release(first)
            client.connection_pool.release(second)


def test_the_end_of_a_chain_at_one_shard_is_there_with_the_reply(server):
    with server.client() as client:
        for number in range(30):
            first = begin(client, "BLMOVE", "{t}1", "{t}2", "LEFT", "RIGHT", 0)
            second = begin(client, "BLMOVE", "{t}2", "{t}3", "LEFT", "RIGHT", 0)
            assert client.rpush("{t}1", number) == 1
            assert client.lpop("{t}3") == str(number)
            first.read_response(), second.read_response()
            client.connection_pool.release(first)
            client.connection_pool.release(second)


def test_a_watch_of_the_key_has_seen_it_change(server):
    with server.client() as client:
        watcher = client.pipeline()
        taker = begin(client, "BLPOP", "key", 0)
        watcher.watch("key")
        assert client.rpush("key", "x") == 1
        assert taker.read_response() == ["key", "x"]
        watcher.multi()
        watcher.set("other", "1")
        with pytest.raises(redis.WatchError):
            watcher.execute()
        client.connection_pool.release(taker)


@pytest.mark.parametrize("tag", ["{t}", ""], ids=["one shard", "any shard"])
def test_a_move_to_what_is_no_list_fails_and_the_next_is_served(server, tag):
    source, target = f"{tag}source", f"{tag}target"
    with server.client() as client:
        client.set(target, "no list")
        first = begin(client, "BLMOVE", source, target, "LEFT", "RIGHT", 0)
        second = begin(client, "BLPOP", source, 0)
        assert client.rpush(source, "x") == 1
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            first.read_response()
        assert second.read_response() == [source, "x"]
        last = begin(client, "BLMOVE", source, target, "LEFT", "RIGHT", 0)
        client.rpush(source, "y")
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            last.read_response()
        assert client.lrange(source, 0, -1) == ["y"]


def test_what_a_transaction_has_put_in_and_taken_out_is_for_no_other(server):
    with server.client() as client:
        taker = begin(client, "BLPOP", "key", 0)
        with client.pipeline() as pipe:
            assert pipe.rpush("key", "a").lpop("key").execute() == [1, "a"]
        with client.pipeline() as pipe:
            assert pipe.rpush("key", "b", "c").execute() == [2]
        assert client.lrange("key", 0, -1) == ["c"]
        assert taker.read_response() == ["key", "b"]


def test_moves_in_a_circle_end_where_they_have_begun(server):
    with server.client() as client:
        for a, b in (("l1", "l2"), ("{t}1", "{t}2")):
            for _ in range(10):
                first = begin(client, "BLMOVE", a, b, "LEFT", "RIGHT", 0)
                second = begin(client, "BLMOVE", b, a, "LEFT", "RIGHT", 0)
                client.rpush(a, "x")
                assert [first.read_response(), second.read_response()] == ["x", "x"]
                until(lambda: client.lrange(a, 0, -1) == ["x"] and not client.exists(b))
                client.delete(a)
                client.connection_pool.release(first)
                client.connection_pool.release(second)


def test_nothing_is_lost_when_time_is_over_at_the_moment_of_the_push(server):
    got, rounds = [], 60

    def take(number):
        with server.client() as client:
            words = ["BLPOP", f"key:{number}", "other", "0.01"]
            while len(got) < 4 * rounds and not stop.is_set():
                found = client.execute_command(*words)
                if found:
                    got.append(found[1])

    stop = threading.Event()
    takers = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    [taker.start() for taker in takers]
    with server.client() as client:
        for number in range(rounds):
            for key in range(4):
                client.rpush(f"key:{key}", f"{number}:{key}")
            time.sleep(0.009)
        until(lambda: len(got) >= 4 * rounds)
    stop.set()
    [taker.join() for taker in takers]
    assert sorted(got) == sorted(f"{number}:{key}" for number in range(rounds) for key in range(4))


@pytest.mark.parametrize("name", ["BLPOP", "BLMOVE", "BZPOPMIN"])
def test_what_goes_to_a_waiting_client_of_a_cluster_is_seen_by_no_other(make_cluster, name):
    cluster = make_cluster().start()
    take, push = TAKES[name]
    look = ["LLEN"] if push == "RPUSH" else ["ZCARD"]
    element = ["x"] if push == "RPUSH" else ["1", "x"]
    seen, stop = [], threading.Event()
    with cluster.nodes[0].client() as client, cluster.nodes[1].client() as pusher:
        readers = [
            threading.Thread(target=hammer, args=(node, words, "key", seen, stop))
            for node in cluster.nodes
            for words in (look, ["EXISTS"])
        ]
        [reader.start() for reader in readers]
        try:
            for _ in range(20):
                taker = begin(client, *(str(word).format("key", "key") for word in take))
                assert pusher.execute_command(push, "key", *element) == 1
                assert "x" in str(taker.read_response())
                client.connection_pool.release(taker)
        finally:
            stop.set()
            [reader.join() for reader in readers]
    assert not seen, f"{len(seen)} times, the first is {seen[0]}"


@pytest.mark.parametrize("numbered", [False, True], ids=["plain", "numbered"])
def test_a_client_that_has_closed_its_connection_is_served_no_more(server, numbered):
    with server.client() as client:
        for number in range(20):
            lock, queue = f"gone:lock:{number}", f"gone:queue:{number}"
            token = client.execute_command("LOCK.ACQUIRE", lock, "LEASE", 9000)
            for words in (("LOCK.ACQUIRE", lock, "LEASE", "9000"), ("BLPOP", queue, "0")):
                if numbered and words[0] == "BLPOP":
                    continue
                with socket.create_connection(("127.0.0.1", server.port)) as gone:
                    if numbered:
                        gone.sendall(b"CLIENT REQUEST gone-%d 1\r\n" % number)
                    gone.sendall(" ".join(words).encode() + b"\r\n")
                    until(lambda: waiting(client) == 1)
                until(lambda: waiting(client) == 0, timeout_s=0.15)
            client.execute_command("LOCK.RELEASE", lock, token)
            assert client.execute_command("LOCK.TRY", lock, "LEASE", 9000)
            assert client.rpush(queue, "a") == 1 and client.lpop(queue) == "a"
