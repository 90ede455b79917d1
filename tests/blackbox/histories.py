"""Clients that write down what they ask and what they are answered, and who judges that."""

import functools
import itertools
import json
import pathlib
import random
import shutil
import subprocess
import tempfile
import threading
import time

from clusters import Worker
from harness import ROOT, binary
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisClusterException, RedisError
from redis.retry import Retry

LISTS = 8
# Lists grow; after so many transactions of a client it goes on with others.
TXNS_PER_LISTS = 150
ACCOUNTS = [f"account:{i}" for i in range(8)]
# Each transfer is noted in a list of its source: of one whose reply was lost a read shows whether it
# took place, which a judge would otherwise have to guess.
NOTES = {account: f"notes:{account}" for account in ACCOUNTS}
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
        return judge(self.path)


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
            note = ["rpush", NOTES[source], f"{self.number}-{at}"]
            return [["incrby", source, "-" + amount], ["incrby", target, amount], note]
        if drawn < 0.35:
            return [["lrange", NOTES[random.choice(ACCOUNTS)], "0", "-1"]]
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
            except (RedisError, RedisClusterException, OSError):
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


def judge(path):
    """What the checkers say of a history, by name."""
    command = [binary(), "check", str(path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    document = json.loads(done.stdout)
    return {verdict["checker"]: verdict for verdict in document["verdicts"]}


@functools.cache
def porcupine():
    """A checker that is not ours; none if there is no Go to build it, or nowhere to get it from."""
    go = shutil.which("go")
    if not go:
        return None
    program = pathlib.Path(tempfile.mkdtemp()) / "porcupine"
    command = [go, "build", "-o", str(program), "."]
    done = subprocess.run(command, cwd=ROOT / "tests/porcupine", capture_output=True, text=True)
    out_of_reach = ("dial tcp", "no such host", "i/o timeout", "proxyconnect")
    if any(sign in done.stderr for sign in out_of_reach):
        return None
    assert done.returncode == 0, done.stderr
    return program


def judge_outside(path, timeout_s=40):
    """What that checker says of a history: ok or illegal, or unknown if it finds no end.

    The time it takes may double with each transaction of unknown outcome: a long history is judged
    as far as it gets, at least its first thousand transactions.
    """
    for most in (20_000, 5_000, 1_000):
        command = [str(porcupine()), "-most", str(most), "-timeout", str(timeout_s), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3 * timeout_s)
        assert done.returncode in (0, 1, 3), done.stderr
        print(f"porcupine: {done.stdout.strip()}")
        verdict = done.stdout.split()[-1]
        if verdict != "unknown":
            break
    return verdict


def fill(cluster, history):
    alone(cluster, history, [["incrby", account, str(BALANCE)] for account in ACCOUNTS])


def look(cluster, history, observers):
    """Reads every list when all is quiet, so that no append stays in doubt."""
    rounds = range(max(next(observer.numbers) for observer in observers) // TXNS_PER_LISTS + 1)
    keys = [f"list:{at}:{i}" for at in rounds for i in range(LISTS)]
    for key in [*NOTES.values(), *keys]:
        alone(cluster, history, [["lrange", key, "0", "-1"]])


def alone(cluster, history, txn):
    """A transaction beside which no client does anything."""
    history.event("invoke", 99, txn=txn)
    with cluster.nodes[0].client() as client:
        history.event("ok", 99, replies=run(client, txn))
