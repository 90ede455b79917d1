"""Many connections move money while the server is killed again and again.

Every transfer writes its own story into a ledger, together with the balances. At the end the ledger
must explain the balances to the last unit: then nothing is half there, nothing is there twice, and
nothing that was acknowledged is missing. CLARET_KILL_S makes it longer.
"""

import itertools
import os
import random
import threading
import time

import redis
from redis.exceptions import ConnectionError, TimeoutError

import claret

SECONDS = float(os.environ.get("CLARET_KILL_S", "20"))
CONNECTIONS = 64
ACCOUNTS = 100
BALANCE = 1000
PAUSE_S = (1.5, 3.5)


class Mover(threading.Thread):
    """Moves money on a connection of its own until it is told to stop."""

    def __init__(self, server, number, stop):
        super().__init__(daemon=True)
        self.server = server
        self.number = number
        self.stop = stop
        self.acknowledged = set()
        self.refused = set()
        self.unknown = set()
        self.error = None

    def run(self):
        try:
            kind = claret.Claret if self.number % 2 else redis.Redis
            client = self.server.client(kind, socket_timeout=10)
            move = self._look_and_move if self.number % 2 else self._move
            for count in itertools.count():
                if self.stop.is_set():
                    return
                self._one(client, move, f"{self.number}-{count}")
        except BaseException as error:
            self.error = error

    def _one(self, client, move, name):
        source, target = random.sample(range(ACCOUNTS), 2)
        amount = random.randint(1, 50)
        try:
            done = move(client, name, source, target, amount)
            (self.acknowledged if done else self.refused).add(name)
        except (ConnectionError, TimeoutError, claret.CommitUnknown):
            self.unknown.add(name)
            time.sleep(0.05)

    def _move(self, client, name, source, target, amount):
        """One shot, as a stock client does it: whether it took effect may stay unknown."""
        with client.pipeline() as pipe:
            record(pipe, name, source, target, amount)
            pipe.execute()
        return True

    def _look_and_move(self, client, name, source, target, amount):
        """Interactive, never twice, and only if there is enough."""

        def step(tx):
            if int(tx.get(f"account:{source}")) < amount:
                return False
            record(tx, name, source, target, amount)
            return True

        return client.run(step, policy=claret.RetryPolicy(deadline_s=15))


def record(tx, name, source, target, amount):
    """The commands of a transfer."""
    tx.decrby(f"account:{source}", amount)
    tx.incrby(f"account:{target}", amount)
    tx.hset(f"ledger:{source}", name, f"{source} {target} {amount}")
    tx.rpush("names", name)


def test_money_survives_kills(make_server):
    server = make_server("--durability", "always").start()
    with server.client() as client:
        client.mset({f"account:{i}": BALANCE for i in range(ACCOUNTS)})
    stop = threading.Event()
    movers = [Mover(server, number, stop) for number in range(CONNECTIONS)]
    for mover in movers:
        mover.start()
    end, kills = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        time.sleep(min(random.uniform(*PAUSE_S), max(0, end - time.monotonic())))
        server.restart()
        kills += 1
    time.sleep(0.5)
    stop.set()
    for mover in movers:
        mover.join(60)
        assert not mover.is_alive(), f"mover {mover.number} is stuck"
        assert mover.error is None, repr(mover.error)
    server.restart()
    judge(server, movers)
    done = sum(len(mover.acknowledged) for mover in movers)
    assert kills >= 3 and done > 100, f"{done} transfers, {kills} kills"


def judge(server, movers):
    """Compares balances, ledger and what clients were told."""
    with server.client() as client:
        balances = [int(value) for value in client.mget([f"account:{i}" for i in range(ACCOUNTS)])]
        ledger = {}
        for account in range(ACCOUNTS):
            ledger.update(client.hgetall(f"ledger:{account}"))
        names = client.lrange("names", 0, -1)
    assert sum(balances) == ACCOUNTS * BALANCE
    assert len(names) == len(set(names)), "a transfer was done twice"
    assert set(names) == set(ledger), "a transfer is half there"
    expected = [BALANCE] * ACCOUNTS
    for story in ledger.values():
        source, target, amount = map(int, story.split())
        expected[source] -= amount
        expected[target] += amount
    assert balances == expected, "the ledger does not explain the balances"
    for mover in movers:
        lost = mover.acknowledged - set(ledger)
        assert not lost, f"acknowledged transfers are lost: {sorted(lost)[:5]}"
        ghosts = mover.refused & set(ledger)
        assert not ghosts, f"refused transfers took effect: {sorted(ghosts)[:5]}"
