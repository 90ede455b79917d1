"""Caches of the Python client: what the stories of all clients do not show."""

import asyncio
import signal
import threading
import time

import pytest
from harness import until

import claret
from claret import aio, kept


@pytest.fixture
def db(server):
    """A client, and with it its caches, until the end of the test."""
    with server.client(claret.Claret, protocol=2) as db:
        yield db


def test_a_reader_may_change_what_it_gets(db):
    db.hset("h", "f", "1")
    with db.cache() as cache:
        cache.hgetall("h")["f"] = "2"
        cache.hgetall("h")["f"] = "3"
        assert cache.hgetall("h") == {"f": "1"}
        assert cache.read("ZRANGE", "z", 0, -1) == []
        assert cache.stats == (2, 2, 0)


def test_keys_and_values_may_be_any_bytes(server):
    with server.client(claret.Claret, decode_responses=False) as db, db.cache() as cache:
        key, value = b"k\xff\r\n", bytes(range(256))
        db.set(key, value)
        assert cache.get(key) == value == cache.get(key)
        db.set(key, b"\xfe")
        until(lambda: cache.get(key) == b"\xfe")
        assert cache.stats.dropped == 1


def test_a_silent_server_ends_answers_from_memory(make_server):
    server = make_server().start()
    with server.client(claret.Claret) as db, db.cache() as cache:
        db.set("x", "1")
        assert cache.get("x") == cache.get("x") == "1"
        server.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(kept.FRESH_S + kept.PING_S)
            hits, read = cache.stats.hits, []
            reader = threading.Thread(target=lambda: read.append(cache.get("x")))
            reader.start()
            reader.join(0.3)
            assert reader.is_alive() and cache.stats.hits == hits
        finally:
            server.process.send_signal(signal.SIGCONT)
        reader.join(10)
        assert read == ["1"]
        until(lambda: cache.get("x") == "1" and cache.stats.hits > hits)


def test_a_cut_connection_is_opened_by_the_next_read(db):
    db.set("x", "1")
    with db.cache() as cache:
        assert cache.get("x") == cache.get("x") == "1"
        [tracking] = [one["id"] for one in db.client_list() if one["cmd"] == "get"]
        db.client_kill_filter(_id=tracking)
        until(lambda: cache.stats.dropped)
        assert cache.get("x") == cache.get("x") == "1"
        assert cache.stats == (2, 2, 1)


def test_the_end_of_a_client_ends_the_thread_of_its_cache(server):
    db = server.client(claret.Claret)
    cache = db.cache()
    assert cache.get("x") is None
    [thread] = [one for one in threading.enumerate() if one.name == "claret-cache"]
    db.close()
    thread.join(5)
    assert not thread.is_alive()
    with pytest.raises(claret.ClientClosed):
        cache.get("x")


def test_a_task_that_gives_up_leaves_the_others_their_reply(server):
    async def work():
        async with server.client(aio.Claret) as db, db.cache() as cache:
            await db.set("x", "1")
            # The first one opens the connection, which takes longer than one turn.
            readers = [asyncio.create_task(cache.get("x")) for _ in range(3)]
            await asyncio.sleep(0)
            readers[0].cancel()
            replies = await asyncio.gather(*readers, return_exceptions=True)
            assert isinstance(replies[0], asyncio.CancelledError) and replies[1:] == ["1", "1"]
            assert await cache.hgetall("absent") == {}

    asyncio.run(work())


def test_limits_are_checked(db):
    with pytest.raises(ValueError):
        db.cache(max_entries=0)
    with db.cache() as cache:
        # redis-py splits a name at its spaces.
        for words in ["INCR", "x"], ["SET x", "1"]:
            with pytest.raises(claret.OrderError, match=words[0].upper()):
                cache.read(*words)
    assert db.exists("x") == 0
