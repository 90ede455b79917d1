"""What operators and cluster-aware clients do with a cluster while others use it."""

import json
import re
import subprocess
import threading
import time

import pytest
import redis
from clusters import UP_S_MAX, Counter, Roaming, Worker
from harness import binary, until
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import ResponseError

SLOTS = 16_384


def claret(node, *words, fails=False):
    """Runs a command of the binary against a node; gives what it printed."""
    command = [binary(), "cluster", *map(str, words), "--url", f"redis://127.0.0.1:{node.port}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def leads(node):
    """How many shards each machine leads, by number, as a node sees it."""
    machines = json.loads(claret(node, "status", "--json"))["machines"]
    return {machine["machine"]: len(machine["leads"]) for machine in machines}


def all_led(cluster):
    """Whether every node knows the leaders of all shards."""
    states = [node.client().cluster("info")["cluster_state"] for node in cluster.nodes]
    return states == ["ok"] * len(states)


def test_cluster_clients_find_the_leaders(make_cluster):
    cluster = make_cluster().start()
    until(lambda: all_led(cluster), UP_S_MAX)
    ports = {node.port for node in cluster.nodes}
    ids = set()
    for node in cluster.nodes:
        with node.client() as client:
            ids.add(client.cluster("myid"))
            slots = client.execute_command("CLUSTER SLOTS")
            assert sum(last - first + 1 for first, last, *_ in slots) == SLOTS
            for _, _, *machines in slots:
                assert {machine[1] for machine in machines} == ports
            assert client.info("cluster")["cluster_enabled"] == 1
            assert len(client.execute_command("CLUSTER SHARDS")) == 3
            nodes = client.cluster("nodes")
            assert {int(address.split(":")[1]) for address in nodes} == ports
    assert len(ids) == 3

    aware = RedisCluster(
        startup_nodes=[ClusterNode("127.0.0.1", node.port) for node in cluster.nodes],
        decode_responses=True,
    )
    plain = cluster.nodes[0].client()
    for number in range(200):
        aware.set(f"key:{number}", number)
        assert plain.get(f"key:{number}") == str(number)
        plain.incr(f"key:{number}")
        assert aware.get(f"key:{number}") == str(number + 1)
    aware.mset_nonatomic({f"multi:{i}": i for i in range(30)})
    assert aware.mget_nonatomic([f"multi:{i}" for i in range(30)]) == [str(i) for i in range(30)]
    with aware.pipeline() as pipe:
        for number in range(50):
            pipe.incr(f"piped:{number}")
        assert pipe.execute() == [1] * 50
    # A lead that moves is noticed.
    for machine in (1, 2, 3):
        for shard in range(3):
            claret(cluster.nodes[0], "lead", shard, machine)
        for number in range(0, 200, 7):
            assert aware.get(f"key:{number}") == str(number + 1)
    assert aware.dbsize() >= 200
    aware.close()


def test_a_client_that_asked_for_the_slots_is_told_where_to_go(make_cluster):
    cluster = make_cluster().start()
    claret(cluster.nodes[0], "lead", 0, 2)
    asked, plain = cluster.nodes[0].client(), cluster.nodes[0].client()
    # "b" is in slot 3300, of shard 0.
    assert plain.set("b", 1)
    asked.cluster("slots")
    moved = f"^3300 127.0.0.1:{cluster.nodes[1].port}$"
    for words in (("SET", "b", 2), ("GET", "b"), ("MGET", "b", "{b}2")):
        with pytest.raises(redis.exceptions.MovedError, match=moved):
            asked.execute_command(*words)
    assert plain.get("b") == "1"
    # What concerns several shards, transactions included, is carried out from anywhere.
    assert asked.mset({"b": 3, "a": 3, "c": 3})
    with asked.pipeline() as pipe:
        assert pipe.incr("b").incr("a").execute() == [4, 4]
    asked.execute_command("READONLY")
    assert asked.get("b") == "4"
    with pytest.raises(redis.exceptions.MovedError):
        asked.set("b", 5)
    asked.execute_command("READWRITE")
    with pytest.raises(redis.exceptions.MovedError):
        asked.get("b")
    cli = cluster.nodes[0].cli("set", "b", "9", flags=["-c"])
    assert cli == "OK"


def test_leads_go_where_the_operator_wants_them(make_cluster):
    cluster = make_cluster(shards=6).start()
    first, second, third = cluster.nodes
    until(lambda: all_led(cluster), UP_S_MAX)
    for shard in range(6):
        claret(first, "lead", shard, 3)
    assert leads(second) == {1: 0, 2: 0, 3: 6}
    claret(second, "rebalance")
    assert leads(first) == {1: 2, 2: 2, 3: 2}
    claret(first, "drain", 2)
    now = leads(first)
    assert now[2] == 0 and now[1] + now[3] == 6
    # It stands back: when a leader is lost, the other one comes first.
    third.kill()
    until(lambda: leads(first)[1] == 6, UP_S_MAX, "machine 1 to lead everything")
    third.start()
    cluster.wait()
    claret(first, "undrain", 2)
    claret(first, "rebalance")
    assert leads(first) == {1: 2, 2: 2, 3: 2}
    assert "no such shard" in claret(first, "lead", 6, 1, fails=True)
    assert "no such machine" in claret(first, "lead", 0, 4, fails=True)
    assert "no machine 9" in claret(first, "drain", 9, fails=True)
    third.kill()
    until(lambda: all_led_by(first, (1, 2)), UP_S_MAX)
    assert "lost" in claret(first, "status")
    assert "did not take the lead" in claret(first, "lead", 0, 3, fails=True)
    assert "not connected" in claret(first, "drain", 3, fails=True)


def all_led_by(node, machines):
    return sum(leads(node)[machine] for machine in machines) == 6


def test_failover_needs_somebody_to_fail_over_to(server):
    with server.client() as client, pytest.raises(ResponseError, match="alone"):
        client.execute_command("FAILOVER")


class Strict(Counter):
    """Increments a key of its own, on one machine, and takes no error at all."""

    slowest_s = 0.0

    def work(self):
        began = time.monotonic()
        _, answer = self.roaming.do(lambda client: client.incr(self.key))
        assert answer == self.last + 1, (answer, self.last)
        self.last = answer
        self.acknowledged += 1
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)


class Unmoved(Roaming):
    """A client that stays with a machine and lets errors through."""

    def do(self, work):
        if self.client is None:
            self.client = self.cluster.nodes[self.at % len(self.cluster.nodes)].client()
        return True, work(self.client)


def test_leads_that_move_cost_clients_no_errors(make_cluster):
    cluster = make_cluster().start()
    until(lambda: all_led(cluster), UP_S_MAX)
    stop = threading.Event()
    counters = [Strict(cluster, number, stop, Unmoved) for number in range(6)]
    for turn in range(12):
        claret(cluster.nodes[turn % 3], "lead", turn % 3, turn % 3 + 1)
        claret(cluster.nodes[0], "drain", turn % 3 + 1)
        claret(cluster.nodes[0], "undrain", turn % 3 + 1)
    Worker.finish(counters, cluster)
    slowest = max(counter.slowest_s for counter in counters)
    done = sum(counter.acknowledged for counter in counters)
    print(f"{done} increments, none in doubt; the slowest took {slowest * 1000:.0f} ms")
    for counter in counters:
        assert int(cluster.nodes[0].client().get(counter.key)) == counter.acknowledged


def test_a_rolling_restart_leaves_nobody_in_doubt(make_cluster):
    cluster = make_cluster().start()
    until(lambda: all_led(cluster), UP_S_MAX)
    for turn, restarted in enumerate((2, 1, 0)):
        stop, node = threading.Event(), cluster.nodes[restarted]
        # Clients of the machine that is restarted would have to connect again.
        numbers = [n for n in range(turn * 9, turn * 9 + 9) if n % 3 != restarted]
        counters = [Strict(cluster, number, stop, Unmoved) for number in numbers]
        assert node.terminate() == 0
        node.start()
        cluster.wait([node])
        Worker.finish(counters, cluster)
        slowest = max(counter.slowest_s for counter in counters)
        print(f"machine {restarted + 1}: the slowest increment took {slowest * 1000:.0f} ms")
    assert not re.search(r"panicked|cannot go on", cluster.said())
