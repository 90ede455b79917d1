"""Commands about all keys and about the server inside of a transaction, and pages of `SCAN`."""

import random
import threading

import pytest
import redis


def test_a_pipeline_of_redis_py_may_have_commands_about_all_keys(db):
    db.mset({f"k{i}": i for i in range(20)})
    with db.pipeline() as pipe:
        pipe.set("new", 1).dbsize().keys("new").flushall().dbsize().randomkey()
        pipe.set("only", 2).dbsize().randomkey().keys("*").scan(0)
        replies = pipe.execute()
    assert replies[:6] == [True, 21, ["new"], True, 0, None]
    assert replies[6:] == [True, 1, "only", ["only"], (0, ["only"])]
    assert db.get("only") == "2" and db.dbsize() == 1


def test_a_pipeline_of_redis_py_may_ask_the_server(db):
    with db.pipeline() as pipe:
        pipe.set("k", "v").info().config_get("maxmemory").client_id().client_list()
        pipe.pubsub_channels().acl_whoami().execute_command("CLUSTER", "KEYSLOT", "k").get("k")
        replies = pipe.execute()
    assert replies[0] is True and "blocked_clients" in replies[1]
    assert list(replies[2]) == ["maxmemory"] and isinstance(replies[3], int)
    assert str(replies[3]) in [client["id"] for client in replies[4]]
    assert replies[5:] == [[], "default", 7629, "v"]


def test_a_transaction_that_is_not_carried_out_removes_nothing(db, server):
    db.mset({f"k{i}": i for i in range(20)})
    with server.client() as other, db.pipeline() as pipe:
        pipe.watch("k1")
        other.set("k1", "changed")
        pipe.multi()
        pipe.flushall()
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert db.dbsize() == 20


def test_all_keys_are_looked_at_in_one_moment(server):
    stop = threading.Event()
    failures = []
    with server.client() as client:
        client.flushall()

    def write(number):
        # Pairs of keys at any shards, made and removed together.
        with server.client() as client:
            for i in range(10_000):
                pair = {f"x:{number}:{i % 5}": i, f"y:{number}:{i % 5}": i}
                with client.pipeline() as pipe:
                    if random.random() < 0.7:
                        pipe.mset(pair)
                    else:
                        pipe.delete(*pair)
                    pipe.execute()
                if stop.is_set():
                    return

    def look(flushes):
        with server.client(socket_timeout=60) as client:
            for _ in range(40):
                with client.pipeline() as pipe:
                    if flushes:
                        pipe.flushall()
                    pipe.keys("x:*").keys("y:*").dbsize()
                    xs, ys, size = pipe.execute()[-3:]
                if sorted(key[2:] for key in xs) != sorted(key[2:] for key in ys):
                    failures.append((xs, ys))
                if size != len(xs) + len(ys) or (flushes and size):
                    failures.append((size, xs, ys))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    readers = [threading.Thread(target=look, args=(flushes,)) for flushes in (False, True)]
    for thread in writers + readers:
        thread.start()
    for thread in readers:
        thread.join(120)
    stop.set()
    for thread in writers:
        thread.join(60)
    assert not failures, failures[:3]
    assert not any(thread.is_alive() for thread in writers + readers)


def test_a_page_of_scan_has_something_if_there_is_something(make_server):
    server = make_server(shards=24).start()
    with server.client() as client:
        assert client.scan(0) == (0, [])
        client.mset({"a": 1, "b": 2, "c": 3})
        cursor, keys = client.scan(0)
        assert (cursor, sorted(keys)) == (0, ["a", "b", "c"])
        client.mset({f"k{i}": i for i in range(500)})
        cursor, found, pages = None, [], 0
        while cursor != 0:
            cursor, page = client.scan(cursor or 0, count=10)
            assert page, "a page that is empty"
            found += page
            pages += 1
        assert len(set(found)) == 503 and pages <= 80
        with client.pipeline() as pipe:
            pipe.delete("a").scan(0, count=1000)
            _, (cursor, keys) = pipe.execute()
        assert cursor == 0 and len(set(keys)) == 502
