"""What many clients saw of a cluster whose machines are killed and paused, judged by the checkers.

CLARET_CLUSTER_S makes the test longer.
"""

import itertools
import json
import os
import random
import statistics
import subprocess
import threading
import time

from clusters import UP_S_MAX, Cluster, Worker
from harness import binary, until
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.crc import key_slot
from redis.exceptions import ConnectionError, RedisError, ResponseError, TimeoutError
from redis.retry import Retry

SECONDS = float(os.environ.get("CLARET_CLUSTER_S", "20"))
SHARDS = 3
LISTS = 8
# Lists grow; after so many transactions of a client it goes on with others.
TXNS_PER_LISTS = 150
ACCOUNTS = [f"account:{i}" for i in range(8)]
BALANCE = 100


class History:
    """Events in the form that `claret check` reads."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, "w")
        self.lock = threading.Lock()
        total = BALANCE * len(ACCOUNTS)
        self.write({"type": "bank", "accounts": ACCOUNTS, "total": total})

    def write(self, event):
        line = json.dumps(event)
        with self.lock:
            self.file.write(line + "\n")

    def event(self, kind, process, **fields):
        # On Linux all threads and processes of a machine read one monotonic clock.
        time_us = time.monotonic_ns() // 1000
        self.write({"type": kind, "process": process, "time_us": time_us, **fields})

    def judge(self):
        """What the checkers say, by name."""
        self.file.close()
        command = [binary(), "check", str(self.path), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        document = json.loads(done.stdout)
        return {verdict["checker"]: verdict for verdict in document["verdicts"]}


class Observer(Worker):
    """Carries out transactions, one after another, and writes down what it saw."""

    def __init__(self, cluster, number, stop, history):
        self.history = history
        self.done = 0
        self.numbers = itertools.count()
        addresses = [ClusterNode("127.0.0.1", node.port) for node in cluster.nodes]
        # Half of the clients know who leads what, and are told when they are wrong.
        self.aware = number % 2 == 0
        self.addresses = addresses
        self.client = None
        super().__init__(cluster, number, stop)

    def work(self):
        txn = self.choose()
        self.history.event("invoke", self.number, txn=txn)
        kind, replies = self.attempt(txn)
        fields = {} if replies is None else {"replies": replies}
        self.history.event(kind, self.number, **fields)
        self.done += kind == "ok"

    def choose(self):
        at, drawn = next(self.numbers), random.random()
        if drawn < 0.1:
            return [["get", account] for account in ACCOUNTS]
        if drawn < 0.3:
            source, target = random.sample(ACCOUNTS, 2)
            amount = str(random.randint(1, 9))
            return [["incrby", source, "-" + amount], ["incrby", target, amount]]
        lists = [f"list:{at // TXNS_PER_LISTS}:{i}" for i in range(LISTS)]
        txn = []
        for place in range(1 if drawn < 0.6 else random.randint(2, 4)):
            key = random.choice(lists)
            if random.random() < 0.5:
                txn.append(["rpush", key, f"{self.number}-{at}-{place}"])
            else:
                txn.append(["lrange", key, "0", "-1"])
        return txn

    def attempt(self, txn):
        """What is known of the transaction afterwards, and its replies."""
        if self.aware and len(txn) == 1:
            try:
                return "ok", [self.ask_leader(txn[0])]
            except (RedisError, OSError):
                # Of the many errors of a cluster client none says that nothing has happened.
                self.client = None
                time.sleep(0.05)
                return "info", None
        done, replies = self.roaming.do(lambda client: run(client, txn))
        return ("ok" if done else "info"), replies

    def ask_leader(self, words):
        if self.client is None:
            self.client = RedisCluster(
                startup_nodes=self.addresses,
                decode_responses=True,
                socket_timeout=15,
                retry=Retry(NoBackoff(), 0),
            )
        return self.client.execute_command(*words)


def run(client, txn):
    """Carries a transaction out, and gives its replies."""
    if len(txn) == 1:
        return [client.execute_command(*txn[0])]
    with client.pipeline() as pipe:
        for words in txn:
            pipe.execute_command(*words)
        return pipe.execute()


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


def tags():
    """For each shard a hash tag whose slot is in its range."""
    found = {}
    for number in itertools.count():
        found.setdefault(key_slot(str(number).encode()) * SHARDS // 16_384, str(number))
        if len(found) == SHARDS:
            return found


TAGS = tags()


def fill(cluster, history):
    history.event("invoke", 99, txn=[["incrby", account, str(BALANCE)] for account in ACCOUNTS])
    replies = run(cluster.nodes[0].client(), [["incrby", a, BALANCE] for a in ACCOUNTS])
    history.event("ok", 99, replies=replies)


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
    verdicts = history.judge()
    done = sum(observer.done for observer in observers)
    print(f"{done} transactions, {faults} kills and pauses")
    for checker in ("cycles", "bank"):
        print(checker, json.dumps(verdicts[checker])[:400])
        assert verdicts[checker]["valid"], verdicts[checker]
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
