"""Three machines serve one database, while each of them is killed in turn.

What was acknowledged must be there afterwards, whichever machine is asked; a request that was under
way when a machine was lost may have taken effect or not. CLARET_CLUSTER_S makes the tests longer.
"""

import itertools
import os
import random
import re
import socket
import threading
import time

import pytest
from clusters import UP_S_MAX, Cluster, Counter, Roaming, Worker
from harness import Failed, free_port, page, read_all, until

SECONDS = float(os.environ.get("CLARET_CLUSTER_S", "20"))
ACCOUNTS = 12
BALANCE = 1000


def test_what_one_node_writes_the_others_read(make_cluster):
    cluster = make_cluster().start()
    clients = [node.client() for node in cluster.nodes]
    for turn, (writer, key) in enumerate(itertools.product(clients, range(10))):
        writer.set(f"key:{key}", turn)
        for reader in clients:
            assert reader.get(f"key:{key}") == str(turn)
    for turn, writer in enumerate(clients):
        keys = [f"multi:{turn}:{i}" for i in range(10)]
        with writer.pipeline() as pipe:
            for key in keys:
                pipe.set(key, turn)
                pipe.incrby(key, 5)
            assert pipe.execute() == [True, turn + 5] * len(keys)
        for reader in clients:
            assert reader.mget(keys) == [str(turn + 5)] * len(keys)
    for number in range(50):
        assert clients[number % 3].incr("counter") == number + 1
    assert clients[0].dbsize() == clients[2].dbsize() > 20


def test_wait_answers_how_many_machines_hold_what_was_written(make_cluster, server):
    cluster = make_cluster().start()
    for node in cluster.nodes:
        with node.client() as client:
            # A machine learns from the leaders which machines hold a shard.
            until(lambda: client.wait(1, 1000) == 1, 10, "one machine beside the leader's")
            pipe = client.pipeline(transaction=False)
            pipe.set("a", 1).set("b", 2).execute_command("WAIT", 2, 0)
            assert pipe.execute() == [True, True, 1], "a majority of three has every answered write"
    with server.client() as client:
        assert client.wait(1, 10) == 0


def test_a_range_of_bytes_is_stored_whichever_machine_is_asked(make_cluster):
    cluster = make_cluster().start()
    for turn, node in enumerate(cluster.nodes):
        # Of many keys some are led by each machine.
        with node.client() as client:
            for number in range(12):
                source, target = f"zl:{turn}:{number}", f"to:{turn}:{number}"
                client.zadd(source, {"a": 0, "b": 0, "c": 0})
                words = ("ZRANGESTORE", target, source, "[b", "+", "BYLEX")
                assert client.execute_command(*words) == 2
                assert client.zrange(target, 0, -1, withscores=True) == [("b", 0), ("c", 0)]
    assert "cannot be read" not in cluster.said(), cluster.said()


class Readiness:
    """What a server that is not started yet will say of its readiness."""

    def __init__(self, node):
        self.port = free_port()
        node.flags += ["--metrics-port", str(self.port)]
        self.seen = set()

    def obstacles(self):
        """What is in the way of it; nothing if it is ready."""
        status, text = page(self.port, "/ready")
        # A machine that is ready may have something to warn of.
        assert (status == 200) == text.startswith("ready\n")
        self.seen.add(text)
        return "" if status == 200 else text or "no answer"

    def keys(self):
        """How many keys it has."""
        _, text = page(self.port, "/metrics")
        lines = re.findall(r"^claret_shard_keys\{.*\} (\d+)$", text, flags=re.MULTILINE)
        return sum(map(int, lines))


def test_a_machine_that_lacks_what_was_forgotten_gets_a_snapshot(make_cluster):
    cluster = make_cluster()
    *others, late = cluster.nodes
    readiness = Readiness(late)
    cluster.start()
    late.kill()
    expected = {}
    with others[0].client() as client:
        # Logs are kept from the snapshot before the last one on.
        for turn in range(3):
            for key in range(400):
                expected[f"{turn}:{key}"] = f"{turn}" * 5_000
                client.set(f"{turn}:{key}", expected[f"{turn}:{key}"])
            client.sadd("set", *range(turn * 10, turn * 10 + 10))
            client.delete(f"{turn}:0")
            del expected[f"{turn}:0"]
            for node in others:
                with node.client(socket_timeout=30) as saver:
                    assert saver.save()
    late.start()
    until(lambda: not readiness.obstacles(), UP_S_MAX, "a machine that is ready")
    assert "has sent a snapshot of shard" in late.said() and readiness.keys() >= len(expected)
    cluster.wait([late])
    # The late machine and one other are enough, and the log goes on after the snapshot.
    others[0].kill()
    cluster.wait([others[1], late])
    with late.client(socket_timeout=30) as client:
        client.set("after", "x")
    late.kill()
    others[0].start()
    late.start()
    cluster.wait()
    others[1].kill()
    cluster.wait([others[0], late])
    with late.client(socket_timeout=30) as client:
        assert client.get("after") == "x"
        for key, value in expected.items():
            assert client.get(key) == value
        assert client.exists("0:0", "1:0", "2:0") == 0
        assert client.scard("set") == 30


def test_acknowledged_increments_survive_every_kill(make_cluster):
    cluster = make_cluster(config="snapshot_log_bytes = \"1mb\"\n").start()
    stop = threading.Event()
    counters = [Counter(cluster, number, stop) for number in range(6)]
    filler = threading.Thread(target=fill_logs, args=(Roaming(cluster), stop), daemon=True)
    filler.start()
    end, kills = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        for node in cluster.nodes:
            time.sleep(0.5)
            cluster.kill_and_restart(node, random.uniform(0.5, 3))
            kills += 1
            cluster.wait([node])
    Worker.finish(counters, cluster)
    for counter in counters:
        for node in cluster.nodes:
            with node.client() as client:
                found = int(client.get(counter.key) or 0)
            most = counter.acknowledged + counter.unknown
            assert counter.acknowledged <= found <= most, (counter.key, node.port)
    done = sum(counter.acknowledged for counter in counters)
    unknown = sum(counter.unknown for counter in counters)
    print(f"{done} increments acknowledged, {unknown} unknown, {kills} kills")
    assert done > 100, f"{done} increments, {kills} kills"


def fill_logs(roaming, stop):
    """Writes so much that machines that were away often lack what the others have forgotten."""
    for turn in itertools.count():
        if stop.wait(0.005):
            return
        roaming.do(lambda client: client.set(f"filler:{turn % 30}", "x" * 20_000))


def test_all_machines_at_once_come_back_with_everything(make_cluster):
    cluster = make_cluster().start()
    with cluster.nodes[0].client() as client:
        client.mset({f"key:{i}": i for i in range(100)})
    cluster.kill_and_restart_all()
    for node in cluster.nodes:
        with node.client() as client:
            assert client.mget([f"key:{i}" for i in range(100)]) == [str(i) for i in range(100)]


class Banker(Worker):
    """Moves money via all nodes, or looks whether all of it is there."""

    done = 0

    def work(self):
        looks = self.number % 3 == 0
        done, answer = self.roaming.do(total if looks else move)
        self.done += done
        if done and looks:
            assert answer == ACCOUNTS * BALANCE, f"the sum is {answer}"


def total(client):
    """The sum of all accounts, read at once."""
    with client.pipeline() as pipe:
        for account in range(ACCOUNTS):
            pipe.get(f"account:{account}")
        return sum(map(int, pipe.execute()))


def move(client):
    """Moves some money."""
    source, target = random.sample(range(ACCOUNTS), 2)
    amount = random.randint(1, 50)
    with client.pipeline() as pipe:
        pipe.decrby(f"account:{source}", amount)
        pipe.incrby(f"account:{target}", amount)
        pipe.execute()


@pytest.mark.parametrize("fault", [Cluster.kill_and_restart, Cluster.pause])
def test_the_sum_stays_while_machines_fail(make_cluster, fault):
    cluster = make_cluster().start()
    with cluster.nodes[0].client() as client:
        client.mset({f"account:{i}": BALANCE for i in range(ACCOUNTS)})
    stop = threading.Event()
    bankers = [Banker(cluster, number, stop) for number in range(9)]
    end, faults = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        node = random.choice(cluster.nodes)
        time.sleep(0.5)
        fault(cluster, node, random.uniform(0.2, 3))
        faults += 1
        cluster.wait([node])
    Worker.finish(bankers, cluster)
    for node in cluster.nodes:
        with node.client() as client:
            assert total(client) == ACCOUNTS * BALANCE
    done = sum(banker.done for banker in bankers)
    print(f"{done} transactions, {faults} faults")
    assert done > 50, f"{done} transactions, {faults} faults"


def test_a_data_directory_keeps_its_place(make_cluster):
    cluster = make_cluster()
    first = cluster.nodes[0].start()
    first.kill()
    flags = first.flags
    for wrong, right in (("--node", "1"), ("--cluster-name", None)):
        if right:
            at = flags.index(wrong)
            first.flags = [*flags[: at + 1], "2", *flags[at + 2 :]]
        else:
            first.flags = [*flags, wrong, "other"]
        with pytest.raises(Failed, match="was created for machine 1"):
            first.start()
    first.flags = [*flags, "--durability", "none"]
    with pytest.raises(Failed, match="vote"):
        first.start()
    first.flags = flags
    first.start()
    assert (first.data / "LIFE").read_text() == "2\n"


def test_a_machine_that_was_away_catches_up(make_cluster):
    cluster = make_cluster(shards=1)
    away = cluster.nodes[2]
    readiness = Readiness(away)
    cluster.start()
    until(lambda: not readiness.obstacles(), UP_S_MAX, "a first readiness")
    away.kill()
    cluster.wait(cluster.nodes[:2])
    # More than fits into one message between machines.
    megabyte = "x" * (1 << 20)
    with cluster.nodes[0].client() as client:
        for number in range(100):
            client.set(f"big:{number}", megabyte)
    away.start()
    until(lambda: not readiness.obstacles(), UP_S_MAX, "the log's arrival")
    assert any("have not caught up (1)" in said for said in readiness.seen), readiness.seen
    cluster.nodes[0].kill()
    cluster.wait(cluster.nodes[1:])
    with away.client() as client:
        assert all(client.get(f"big:{number}") == megabyte for number in range(100))
    # The group of the map has to find a leader, too.
    until(lambda: not readiness.obstacles(), UP_S_MAX, "readiness without the first machine")
    cluster.nodes[1].kill()
    # The shard, and the map.
    lost = "no known leader (2)"
    until(lambda: lost in readiness.obstacles(), UP_S_MAX, "the loss of its leaders")
    assert "cannot" not in cluster.said() and "longer than" not in cluster.said()


def test_strangers_are_turned_away(make_cluster):
    cluster = make_cluster()
    stranger = cluster.nodes[2]
    stranger.flags += ["--cluster-name", "other"]
    for node in cluster.nodes:
        node.start()
    cluster.wait(cluster.nodes[:2])
    until(lambda: "belongs to the cluster 'other'" in cluster.nodes[0].said(), UP_S_MAX)
    until(lambda: "belongs to the cluster 'claret'" in stranger.said(), UP_S_MAX)
    address = cluster.nodes[0].flags[cluster.nodes[0].flags.index("--cluster") + 1]
    port = int(address.split(",")[0].rsplit(":", 1)[1])
    for words in (b"*1\r\n$4\r\nPING\r\n", b"PING\r\n", b"\0" * 100, b"\xff" * 100):
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.sendall(words)
            read_all(connection)
    cluster.wait(cluster.nodes[:2])
    assert all(node.alive() for node in cluster.nodes)
