"""Locks that a server keeps for its clients: one server and three, each with several workers."""

import contextlib
import threading
import time

import pytest
from harness import until, work_in_threads
from redis.exceptions import ResponseError

import claret

CLIENTS = 6
ROUNDS = 30


class Witness:
    """Sees who is in, and under which token."""

    def __init__(self):
        self.inside = 0
        self.tokens = []

    @contextlib.contextmanager
    def stay(self, token):
        self.inside += 1
        assert self.inside == 1, "two are in"
        assert not self.tokens or token > self.tokens[-1], "tokens grow"
        self.tokens.append(token)
        yield
        assert self.inside == 1, "two are in"
        self.inside -= 1


def take_turns(servers, names=("lock",), count=CLIENTS, rounds=ROUNDS):
    """Clients of these servers count under locks, with commands over pooled connections."""
    witnesses = {name: Witness() for name in names}

    def work(number):
        # A pool of several connections, which are on different workers.
        db = servers[number % len(servers)].client(claret.Claret)
        spare = [db.connection_pool.get_connection() for _ in range(2)]
        for connection in spare:
            db.connection_pool.release(connection)
        for turn in range(rounds):
            name = names[(number + turn) % len(names)]
            with db.lock(name, lease=10, timeout=60, near=True) as lock:
                with witnesses[name].stay(lock.token):
                    assert lock.renew(), "over whichever connection"
                    count = int(db.get(f"{{{name}}}:count") or 0)
                    db.fenced(lock).set(f"{{{name}}}:count", count + 1)
        db.close()

    work_in_threads(work, count)
    with servers[0].client() as client:
        counts = sum(int(client.get(f"{{{name}}}:count")) for name in names)
    assert counts == count * rounds
    return witnesses


def test_clients_of_all_workers_take_turns(make_server):
    server = make_server(workers=3).start()
    witness = take_turns([server])["lock"]
    # One after the other out of one block of tokens: the shard has not heard of it.
    follow = sum(1 for one, two in zip(witness.tokens, witness.tokens[1:]) if two == one + 1)
    assert follow > len(witness.tokens) * 0.9


def test_clients_of_three_servers_take_turns(make_cluster):
    cluster = make_cluster(workers=2).start()
    take_turns(cluster.nodes, ["lock", "other", "third"])


def test_nobody_waits_for_more_than_some_stays(make_cluster):
    cluster = make_cluster(workers=2).start()
    near, far = cluster.nodes[0], cluster.nodes[1].client()
    stays, stop = [], threading.Event()

    def stay():
        db = near.client(claret.Claret)
        while not stop.is_set():
            with db.lock("lock", lease=10, near=True) as lock:
                stays.append(lock.token)
                time.sleep(0.01)
        db.close()

    threads = [threading.Thread(target=stay, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: len(stays) > 10, 20, "stays")
    try:
        for _ in range(5):
            before = len(stays)
            token = far.execute_command("LOCK.ACQUIRE", "lock", "LEASE", 10000, "TIMEOUT", 20000)
            assert token, "everybody has a turn"
            # 16 more are let in, besides some that came before the server had heard of it.
            assert len(stays) - before < 40
            held = len(stays)
            time.sleep(0.1)
            assert len(stays) == held, "nobody is let in meanwhile"
            assert far.execute_command("LOCK.RELEASE", "lock", token) == 1
    finally:
        stop.set()
        for thread in threads:
            thread.join(20)


def test_who_is_gone_is_passed_over_and_a_server_that_is_gone_is_waited_for(make_cluster):
    cluster = make_cluster(workers=2).start()
    first, second = cluster.nodes[0], cluster.nodes[1]
    db, other = first.client(claret.Claret), second.client(claret.Claret)
    lock = db.lock("lock", lease=1, near=True)
    assert lock.acquire()
    # Nobody gets it as long as somebody is in; the time to wait is kept to.
    assert not db.lock("lock", timeout=0, near=True).acquire()
    assert not other.lock("lock", timeout=0.2, near=True).acquire()
    first.kill()
    begun = time.monotonic()
    with other.lock("lock", lease=1, timeout=30, near=True) as next_one:
        assert next_one.token > lock.token
        # The lease of the server: twice that of its client, and a second.
        assert time.monotonic() - begun < 20
        other.fenced(next_one).set("{lock}:x", "newer")
    first.start()
    cluster.wait([first])
    with pytest.raises(claret.LockLost):
        lock.fence("SET", "{lock}:x", "late")


def test_what_is_wrong_is_told(server):
    db = server.client(claret.Claret)
    for words in ["SHARED", "LIMIT 2", "TOKENS 3", "DETECT OWNER ann", "LEASE 30000000"]:
        with pytest.raises(ResponseError):
            db.execute_command("LOCK.ACQUIRE", "lock", "NEAR", *words.split())
    with pytest.raises(ValueError):
        db.lock("lock", near=True, shared=True)
    with db.lock("near:wrong", near=True) as lock, pytest.raises(ValueError):
        db.run(lambda tx: tx.require(lock))
