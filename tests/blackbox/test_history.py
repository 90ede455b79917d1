"""What many clients saw of a cluster whose machines are killed and paused, judged by the checkers.

CLARET_CLUSTER_S makes the test longer.
"""

import itertools
import json
import os
import random
import statistics
import threading
import time

from clusters import UP_S_MAX, Cluster, Worker
from harness import until
from histories import History, Observer, fill, judge_outside, look, porcupine
from redis.exceptions import ConnectionError, RedisError, ResponseError, TimeoutError
from witnesses import tags

SECONDS = float(os.environ.get("CLARET_CLUSTER_S", "20"))
SHARDS = 3
TAGS = tags()


class Probe(Worker):
    """Writes to one shard over one machine as fast as it can, and notes when it succeeds."""

    def __init__(self, cluster, machine, shard, stop):
        self.shard = shard
        self.key = f"{{{TAGS[shard]}}}:{machine}"
        self.machine = machine
        self.times = []
        self.client = None
        super().__init__(cluster, machine, stop)

    def work(self):
        node = self.roaming.cluster.nodes[self.machine]
        try:
            self.client = self.client or node.client(socket_timeout=15)
            self.client.set(self.key, "x")
            self.times.append(time.monotonic())
        except (ConnectionError, TimeoutError, ResponseError):
            self.client = None
        time.sleep(0.002)

    def gap_s(self, at):
        """The longest time without success around an instant."""
        began = (pair for pair in itertools.pairwise(self.times) if at - 0.5 <= pair[0] <= at + 0.5)
        return max((b - a for a, b in began), default=None)


def test_what_clients_saw_is_strictly_serializable(make_cluster, tmp_path):
    cluster = make_cluster(shards=SHARDS).start()
    history = History(tmp_path / "history.jsonl")
    fill(cluster, history)
    stop = threading.Event()
    observers = [Observer(cluster, number, stop, history) for number in range(8)]
    end, faults = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        node = random.choice(cluster.nodes)
        fault = random.choice([Cluster.kill_and_restart, Cluster.pause])
        time.sleep(0.5)
        fault(cluster, node, random.uniform(0.2, 3))
        faults += 1
        cluster.wait([node])
    Worker.finish(observers, cluster)
    look(cluster, history, observers)
    verdicts = history.judge()
    done = sum(observer.done for observer in observers)
    print(f"{done} transactions, {faults} kills and pauses")
    for checker in ("cycles", "bank"):
        print(checker, json.dumps(verdicts[checker])[:400])
        assert verdicts[checker]["valid"], verdicts[checker]
    if porcupine():
        assert judge_outside(history.path) == "ok"
    assert done > 200


def leaders(node):
    """The machine that leads each shard, as a node sees it."""
    with node.client() as client:
        slots = client.execute_command("CLUSTER SLOTS")
    ports = {first * SHARDS // 16_384: machines[0][1] for first, _, *machines in sorted(slots)}
    return [ports[shard] for shard in range(SHARDS)]


def test_a_lost_leader_is_replaced(make_cluster):
    cluster = make_cluster(shards=SHARDS).start()
    stop = threading.Event()
    pairs = itertools.product(range(len(cluster.nodes)), range(SHARDS))
    probes = [Probe(cluster, machine, shard, stop) for machine, shard in pairs]
    end, kills, rounds = time.monotonic() + SECONDS, [], itertools.count()
    while time.monotonic() < end:
        time.sleep(1.5)
        killed = next(rounds) % len(cluster.nodes)
        node = cluster.nodes[killed]
        led = [s for s, port in enumerate(leaders(node)) if port == node.port]
        kills.append((time.monotonic(), killed, led))
        node.kill()
        others = [other for other in cluster.nodes if other is not node]
        until(lambda: all(answers(other) for other in others), UP_S_MAX, "another leader")
        node.start()
        cluster.wait([node])
    Worker.finish(probes, cluster)
    gaps = []
    for at, killed, led in kills:
        for probe in probes:
            if probe.machine != killed and probe.shard in led:
                gaps.append(probe.gap_s(at))
    assert gaps and None not in gaps
    gaps.sort()
    p99 = gaps[min(len(gaps) - 1, len(gaps) * 99 // 100)]
    print(
        f"{len(kills)} kills, {len(gaps)} gaps: median {statistics.median(gaps):.2f} s, "
        f"p99 {p99:.2f} s, longest {gaps[-1]:.2f} s"
    )


def answers(node):
    """Whether a node carries out a write to every shard."""
    try:
        with node.client(socket_timeout=15) as client:
            return all(client.set(f"{{{tag}}}:answers", "x") for tag in TAGS.values())
    except RedisError:
        return False
