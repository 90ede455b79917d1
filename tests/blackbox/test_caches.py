"""Caches of clients in a cluster and under faults: what a client keeps is never old for long."""

import threading
import time

import pytest
import redis
from clusters import Cluster
from harness import until
from redis.cache import CacheConfig

# How long a reply may be kept after another machine has changed the key: two seconds and the way.
STALE_S_MAX = 4
KEYS = [f"key{number}" for number in range(12)]


def cached(node):
    """A client that caches what it reads, as the library does it."""
    return node.client(protocol=3, cache_config=CacheConfig(max_size=1_000))


@pytest.fixture
def cluster(tmp_path):
    """Three machines."""
    cluster = Cluster(tmp_path)
    cluster.start()
    yield cluster
    for node in cluster.nodes:
        node.kill()


def test_a_cache_of_redis_py_follows_changes_at_all_machines(cluster):
    reader, writer = cached(cluster.nodes[0]), cluster.nodes[1].client()
    for round_number in range(3):
        for key in KEYS:
            writer.set(key, round_number)
        for key in KEYS:
            until(lambda key=key: reader.get(key) == str(round_number))
    assert reader.get_cache().size > 0


def test_a_change_of_leaders_leaves_nothing_old(cluster):
    first = cluster.nodes[0]
    for leader in cluster.nodes[1:]:
        cluster.let_lead(leader)
        reader = cached(first)
        writer = first.client()
        for key in KEYS:
            writer.set(key, "old")
        assert {reader.get(key) for key in KEYS} == {"old"}
        leader.kill()
        others = [node for node in cluster.nodes if node is not leader]
        cluster.wait(others)
        writer = others[1].client()
        for key in KEYS:
            until(lambda key=key, writer=writer: changed(writer, key, "new"), 30)
        end = time.monotonic() + STALE_S_MAX
        until(lambda reader=reader: {reader.get(key) for key in KEYS} == {"new"}, STALE_S_MAX)
        assert time.monotonic() < end
        leader.start()
        cluster.wait()


def changed(client, key, value):
    """Whether a write went through."""
    try:
        return client.set(key, value)
    except redis.RedisError:
        return False


def test_a_machine_that_is_cut_off_lets_its_clients_drop_what_they_hold(cluster):
    cut, *others = cluster.nodes
    cluster.let_lead(others[0])
    others[0].client().set("x", "old")
    reader = cached(cut)
    assert reader.get("x") == "old" and reader.get_cache().size == 1
    for node in others:
        node.kill()
    # Nothing is known of changes any more. The library reads messages when it is asked for something.
    def dropped():
        try:
            reader.ping()
        except redis.RedisError:
            pass
        return reader.get_cache().size == 0

    until(dropped, STALE_S_MAX)
    for node in others:
        node.start()
    cluster.wait()


def test_readers_never_see_a_counter_go_back(make_server):
    server = make_server().start()
    stop, seen, errors = threading.Event(), [], []

    def read():
        client, last = cached(server), 0
        try:
            while not stop.is_set():
                value = int(client.get("count") or 0)
                assert value >= last, f"{value} after {last}"
                last = value
            until(lambda: client.get("count") == "3000", STALE_S_MAX)
            seen.append(last)
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    writer = server.client()
    for _ in range(3_000):
        writer.incr("count")
    stop.set()
    for reader in readers:
        reader.join()
    assert not errors and len(seen) == 4


def test_info_tells_how_many_clients_have_a_cache(make_server):
    server = make_server().start()
    assert server.client().info("clients")["tracking_clients"] == 0
    reader = cached(server)
    reader.get("x")
    until(lambda: server.client().info("clients")["tracking_clients"] == 1)
    assert server.client().info("stats")["tracking_total_keys"] == 1
    reader.close()
    until(lambda: server.client().info("clients")["tracking_clients"] == 0)
