"""Shards that are split while clients go on."""

import random
import threading
import time

from clusters import TAGS, UP_S_MAX, Roaming, Transfer, Worker
from harness import until
from redis.cluster import ClusterNode, RedisCluster
from test_operating import all_led, claret
from test_reshaping import Timed, check, held, percentile


def slots_by_shard(node):
    """How many slots each leader has, by machine, as CLUSTER SLOTS tells it."""
    ranges = node.client().execute_command("CLUSTER SLOTS")
    covered = sorted((entry[0], entry[1]) for entry in ranges)
    assert covered[0][0] == 0 and covered[-1][1] == 16383
    assert all(a[1] + 1 == b[0] for a, b in zip(covered, covered[1:], strict=False))
    return covered


def fill(client, count=2000):
    """Writes keys all over the slots."""
    with client.pipeline(transaction=False) as pipe:
        for key in range(count):
            pipe.set(f"key:{key}", key)
        pipe.execute()


def everything(node, count=2000):
    """Whether a node has all that `fill` wrote, in each way of asking."""
    with node.client() as client:
        keys = [f"key:{key}" for key in range(count)]
        assert client.mget(keys) == [str(key) for key in range(count)]
        assert set(client.scan_iter(match="key:*", count=500)) == set(keys)
        assert set(client.keys("key:*")) == set(keys)


class Aware(Worker):
    """A client that knows which machine leads which slots, and is told when that changes."""

    count = 0

    def __init__(self, cluster, number, stop):
        nodes = [ClusterNode("127.0.0.1", node.port) for node in cluster.nodes]
        self.client = RedisCluster(startup_nodes=nodes, decode_responses=True)
        super().__init__(cluster, number, stop)

    def work(self):
        key = f"aware:{self.count % 200}"
        self.client.set(key, self.count)
        assert self.client.get(key) == str(self.count)
        self.count += 1


def test_shards_are_split_while_clients_go_on(make_cluster):
    cluster = make_cluster().start()
    until(lambda: all_led(cluster), UP_S_MAX)
    first = cluster.nodes[0]
    with first.client() as client:
        fill(client)
        for tag in TAGS:
            client.set(f"account:{tag}", 1000)
    stop = threading.Event()
    timed = [Timed(cluster, number, stop) for number in range(4)]
    movers = [Transfer(cluster, number, stop) for number in range(2)]
    aware = Aware(cluster, 0, stop)
    time.sleep(1)
    before = time.monotonic()
    splits = [claret(first, "split", shard) for shard in (0, 1, 2, 0)]
    after = time.monotonic()
    time.sleep(1)
    end = time.monotonic()
    Worker.finish([*timed, *movers, aware], cluster)
    assert len(slots_by_shard(cluster.nodes[1])) == 7, splits[-1]
    assert sorted(held(first)) == [f"shard {number}" for number in range(7)] + ["the map"]
    check(timed)
    refused = [worker.roaming.refusals[:1] for worker in [*timed, *movers]]
    assert [worker.unknown for worker in [*timed, *movers]] == [0] * 6, refused
    assert all(mover.moved > 0 for mover in movers) and aware.count > 0
    for node in cluster.nodes:
        everything(node)
        with node.client() as client:
            assert sum(int(v) for v in client.mget(f"account:{t}" for t in TAGS)) == 40_000
    for what, begin, until_s in (("splitting", before, after), ("still", after, end)):
        taken = [taken for counter in timed for taken in counter.between(begin, until_s)]
        high, slowest = percentile(taken, 0.99), percentile(taken, 1)
        print(f"{what}: {len(taken)} increments, p99 {high:.1f} ms, slowest {slowest:.0f} ms")


def test_a_new_shard_is_a_shard_like_any_other(make_cluster):
    cluster = make_cluster(shards=1).start()
    until(lambda: all_led(cluster), UP_S_MAX)
    first = cluster.nodes[0]
    with first.client() as client:
        fill(client)
    claret(first, "split", 0, "--at", 12000)
    assert slots_by_shard(first) == [(0, 11999), (12000, 16383)]
    error = claret(first, "split", 0, "--at", 12000, fails=True)
    assert "shard 0 cannot be split at slot 12000" in error
    # All of it comes from the disks, whatever of it is in logs or in snapshots.
    cluster.kill_and_restart_all()
    for node in cluster.nodes:
        everything(node)
    claret(first, "move", 1, "2,3")
    claret(first, "split", 1)
    assert held(first)["shard 1"] == held(first)["shard 2"] == "2,3"
    with first.client() as client:
        assert client.execute_command("SAVE")
    cluster.kill_and_restart(first, 0)
    cluster.wait()
    fourth, name = cluster.newcomer(4)
    claret(first, "add", name)
    cluster.nodes.append(fourth.start())
    until(lambda: "the shard map has epoch" in fourth.said(), UP_S_MAX)
    claret(first, "move", 2, "1,3,4")
    claret(first, "lead", 2, 4)
    everything(fourth)


def test_a_client_that_waits_for_a_key_gets_it_from_the_new_shard(make_cluster):
    cluster = make_cluster(shards=1).start()
    until(lambda: all_led(cluster), UP_S_MAX)
    first, second = cluster.nodes[:2]
    low, high = "b", "foo"
    got = {}

    def wait(name, *keys):
        with first.client(socket_timeout=30) as client:
            got[name] = client.blpop(list(keys), timeout=25)

    waits = [("low", low), ("high", high), ("both", f"{low}:2", f"{high}:2")]
    threads = [threading.Thread(target=wait, args=args) for args in waits]
    for thread in threads:
        thread.start()
    with first.client() as client:
        until(lambda: client.info("clients")["blocked_clients"] == 3, 5)
    claret(first, "split", 0)
    with second.client() as client:
        for key in (low, high, f"{high}:2"):
            client.rpush(key, "x")
    for thread in threads:
        thread.join(30)
    assert got == {"low": (low, "x"), "high": (high, "x"), "both": (f"{high}:2", "x")}


def test_splits_survive_machines_that_are_killed_in_the_middle(make_cluster):
    cluster = make_cluster(shards=2).start()
    until(lambda: all_led(cluster), UP_S_MAX)
    with cluster.nodes[0].client() as client:
        fill(client)
        for tag in TAGS:
            client.set(f"account:{tag}", 1000)
    stop = threading.Event()
    movers = [Transfer(cluster, number, stop) for number in range(3)]
    for turn, shard in enumerate((0, 1, 0, 2)):
        node = cluster.nodes[turn % 3]
        other = cluster.nodes[(turn + 1) % 3]
        splitting = threading.Thread(target=claret, args=(other, "split", shard))
        splitting.start()
        time.sleep(0.05 * turn)
        cluster.kill_and_restart(node, 1)
        splitting.join(60)
        assert not splitting.is_alive(), cluster.said()
        cluster.wait()
    Worker.finish(movers, cluster)
    assert len(slots_by_shard(cluster.nodes[0])) == 6
    for node in cluster.nodes:
        everything(node)
    _, values = Roaming(cluster).do(lambda c: c.mget(f"account:{tag}" for tag in TAGS))
    assert sum(int(value) for value in values) == 40_000
