"""Locks: who gets them, in which order; holders that die, stand still or lose touch."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import threading
import time

import pytest
from harness import Server, free_port, page, until, work_in_threads
from redis.exceptions import ConnectionError, ResponseError
from test_backup import alone, backup

import claret
from claret import aio

# A process that holds a lock, and writes under it twice when it is told to.
HOLDER = """
import sys
import claret

db = claret.Claret(port=int(sys.argv[1]), decode_responses=True)
lock = db.lock("lock", lease=float(sys.argv[2]), owner="holder")
lock.acquire()
print(lock.token, flush=True)
sys.stdin.readline()
try:
    lock.fence("SET", "data", "old")
    print("written", lock.lost, flush=True)
except claret.LockLost:
    print("refused", lock.lost, flush=True)
db.set("data", "old without a fence")
print("done", flush=True)
"""


@contextlib.contextmanager
def holder(server, lease):
    """A process that holds the lock, and its token."""
    words = [sys.executable, "-c", HOLDER, str(server.port), str(lease)]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


class Waiter(threading.Thread):
    """Somebody who asks for a lock with plain words, and waits."""

    def __init__(self, server, *words):
        super().__init__(daemon=True)
        self.client = server.client(socket_timeout=60)
        # What is not sent over a pool is one connection, which can be closed.
        self.connection = self.client.connection_pool.get_connection()
        self.words = words
        self.token = self.error = None
        self.start()

    def run(self):
        try:
            self.connection.send_command("LOCK.ACQUIRE", *self.words)
            self.token = self.connection.read_response()
        except (ConnectionError, ResponseError, OSError, ValueError) as error:
            self.error = error

    def got(self):
        self.join(20)
        assert not self.is_alive(), "it still waits"
        return self.token


def waiters(client, key="lock"):
    """The owners of those who wait."""
    return [row[0] for row in client.execute_command("LOCK.WAITERS", key)]


def holders(client, key="lock"):
    return client.execute_command("LOCK.HOLDERS", key)


def line_up(server, client, count, key="lock", *words):
    """So many who wait, one after the other."""
    queue = []
    for number in range(count):
        queue.append(Waiter(server, key, "OWNER", f"w{number}", *words))
        until(lambda: len(waiters(client, key)) == number + 1, what="a waiter")
    return queue


def contend(stores, sections, lease=10):
    """Clients that count without care, under a lock; gives when each had it under which token."""
    had = []

    def work(number):
        db = stores[number]
        for _ in range(sections):
            with db.lock("lock", lease=lease) as lock:
                begun = time.monotonic()
                count = int(db.get("count") or 0)
                lock.fence("SET", "count", count + 1)
                had.append((lock.token, begun, time.monotonic()))

    work_in_threads(work, len(stores))
    had.sort()
    tokens = [token for token, _, _ in had]
    assert len(set(tokens)) == len(stores) * sections
    for (_, _, end), (token, begin, _) in zip(had, had[1:]):
        assert end <= begin, f"{token} was held together with the one before"
    return had


def test_many_clients_exclude_each_other_and_tokens_grow(server):
    with contextlib.ExitStack() as open_ones:
        clients = [server.client(claret.Claret) for _ in range(12)]
        stores = [open_ones.enter_context(client) for client in clients]
        stores[0].flushall()
        contend(stores, 10)
        assert int(stores[0].get("count")) == 120
        assert (holders(stores[0]), waiters(stores[0])) == ([], [])


def test_the_first_to_come_is_the_first_to_go(server, store):
    token = store.execute_command("LOCK.ACQUIRE", "lock")
    queue = line_up(server, store, 6)
    assert waiters(store) == [f"w{number}" for number in range(6)]
    rows = store.execute_command("LOCK.WAITERS", "lock")
    assert rows[0][1] == "alone" and rows[0][2] >= rows[-1][2]
    for number, waiter in enumerate(queue):
        assert store.execute_command("LOCK.RELEASE", "lock", token) == 1
        following = waiter.got()
        assert following > token
        token = following
        assert [row[:2] for row in holders(store)] == [[token, f"w{number}"]]
        assert len(waiters(store)) == 5 - number
    assert store.execute_command("LOCK.RELEASE", "lock", token) == 1
    assert store.execute_command("LOCK.RELEASE", "lock", token) == 0
    assert store.exists("lock") == 0, "a lock that nobody holds takes no memory"


def test_a_lease_that_ends_hands_the_lock_over(server, store):
    first = store.execute_command("LOCK.ACQUIRE", "lock", "LEASE", 400)
    begun = time.monotonic()
    second = Waiter(server, "lock", "TIMEOUT", 10_000).got()
    assert 0.3 < time.monotonic() - begun < 3
    assert second > first
    for words in (["RELEASE"], ["RENEW"], ["HELD"]):
        assert store.execute_command(f"LOCK.{words[0]}", "lock", first) == 0
    assert store.execute_command("LOCK.HELD", "lock", second) > 20_000


def test_a_wait_ends_with_its_time(server, store):
    token = store.execute_command("LOCK.TRY", "lock")
    assert store.execute_command("LOCK.TRY", "lock") is None
    begun = time.monotonic()
    assert Waiter(server, "lock", "TIMEOUT", 300).got() is None
    assert 0.2 < time.monotonic() - begun < 3
    waiter = Waiter(server, "lock")
    until(lambda: waiters(store) == [""])
    [row] = [row for row in store.client_list() if row["cmd"] == "lock.acquire"]
    assert store.client_unblock(int(row["id"]), error=True)
    waiter.join(10)
    assert "UNBLOCKED" in str(waiter.error)
    assert store.execute_command("LOCK.RELEASE", "lock", token) == 1
    assert holders(store) == []


def test_a_client_that_leaves_while_it_waits_leaves_nothing_behind(server, store):
    token = store.execute_command("LOCK.ACQUIRE", "lock")
    gone, stays = line_up(server, store, 2)
    [row] = [row for row in store.client_list() if row["id"] == client_id(store, "w0", gone)]
    assert store.client_kill_filter(_id=row["id"]) == 1
    until(lambda: waiters(store) == ["w1"])
    store.execute_command("LOCK.RELEASE", "lock", token)
    token = stays.got()
    assert [row[:2] for row in holders(store)] == [[token, "w1"]]
    # A grant may be on its way when its client goes: it is taken back, or ends with its lease if it
    # was sent before the server could know.
    for _ in range(10):
        [waiter] = line_up(server, store, 1, "lock", "LEASE", 500)
        release = threading.Thread(
            target=store.execute_command, args=("LOCK.RELEASE", "lock", token)
        )
        release.start()
        waiter.connection.disconnect()
        release.join()
        until(lambda: not waiters(store))
        token = store.execute_command("LOCK.ACQUIRE", "lock", "TIMEOUT", 5_000)
        assert token is not None


def client_id(store, owner, waiter):
    """The number of a waiter's connection, by the port of its end."""
    port = waiter.connection._sock.getsockname()[1]
    [row] = [row for row in store.client_list() if row["addr"].endswith(f":{port}")]
    return row["id"]


def test_a_holder_that_is_killed_keeps_the_lock_until_its_lease_ends(server, store):
    with holder(server, 1.5) as (process, token):
        # While it lives its lease is renewed.
        time.sleep(2)
        assert store.execute_command("LOCK.HELD", "lock", token) > 0
        assert store.execute_command("LOCK.TRY", "lock") is None
        process.kill()
        process.wait()
        begun = time.monotonic()
        with store.lock("lock", timeout=20) as lock:
            assert lock.token > token
            assert time.monotonic() - begun < 4


def test_a_holder_that_stood_still_is_refused_where_it_is_fenced_and_only_there(server, store):
    with holder(server, 1) as (process, token):
        process.send_signal(signal.SIGSTOP)
        with store.lock("lock", timeout=20) as lock:
            assert lock.token > token
            assert store.fenced(lock).set("data", "new") is True
            process.send_signal(signal.SIGCONT)
            process.stdin.write("go on\n")
            assert process.stdout.readline().split() == ["refused", "True"]
            assert store.fenced(lock).get("data") in ("new", "old without a fence")
            assert process.stdout.readline() == "done\n"
            # That is why there are fences: nothing else keeps it from writing.
            assert store.get("data") == "old without a fence"


def test_a_fence_is_about_all_of_a_transaction(store):
    with store.lock("lock") as old, store.lock("other") as other:
        with store.batch() as batch:
            batch.fence(old)
            batch.fence(other)
            first = batch.incr("{a}1")
            batch.set("{a}2", "x")
        assert first.value == 1
        before, batch = store.lock("lock"), store.batch()
        before.take(old.token - 1, time.monotonic())
        batch.fence(before)
        batch.incr("{a}1")
        with pytest.raises(claret.LockLost):
            batch.execute()
        assert store.get("{a}1") == "1"
    with pytest.raises(ResponseError, match="CROSSSLOT|one hash slot"):
        store.execute_command("FENCE", "lock", 1, "MSET", "a", 1, "b", 2)


def test_a_transaction_requires_a_lock(store):
    with store.lock("lock") as lock:

        @claret.transactional
        def add(tx):
            tx.require(lock)
            tx.incr("count")

        add(store)
        assert store.execute_command("LOCK.RELEASE", "lock", lock.token) == 1
        with pytest.raises(claret.LockLost):
            add(store)
        assert lock.lost and store.get("count") == "1"
        with pytest.raises(claret.LockLost):
            lock.require()
        lock.release()


def test_some_share_and_some_are_limited(server, store):
    with store.lock("lock", shared=True) as one, store.lock("lock", shared=True) as two:
        assert one.token < two.token
        assert [row[2] for row in holders(store)] == ["shared", "shared"]
        assert not store.lock("lock").acquire(timeout=0)
        # Who wants it alone is not overtaken by those who come later and share.
        writer = Waiter(server, "lock", "OWNER", "writer")
        until(lambda: waiters(store) == ["writer"])
        reader = Waiter(server, "lock", "OWNER", "reader", "SHARED")
        until(lambda: waiters(store) == ["writer", "reader"])
    alone = writer.got()
    assert waiters(store) == ["reader"]
    store.execute_command("LOCK.RELEASE", "lock", alone)
    assert reader.got() > alone
    store.delete("lock")
    with store.lock("seats", limit=2), store.lock("seats", limit=2):
        with pytest.raises(claret.NotAcquired), store.lock("seats", limit=2, timeout=0.2):
            pass
        assert [row[2] for row in holders(store, "seats")] == ["limit 2"] * 2
    assert store.lock("seats", limit=2).acquire(timeout=0)


def test_a_restart_keeps_holders_and_fences(make_server):
    server = make_server().start()
    with server.client(claret.Claret) as store:
        token = store.execute_command("LOCK.ACQUIRE", "lock", "LEASE", 60_000, "OWNER", "ann")
        assert store.execute_command("FENCE", "lock", token, "SET", "data", "x")
    server.restart()
    with server.client(claret.Claret) as store:
        assert [row[:3] for row in holders(store)] == [[token, "ann", "alone"]]
        assert store.execute_command("LOCK.TRY", "lock") is None
        with pytest.raises(ResponseError, match="larger token"):
            store.execute_command("FENCE", "lock", token - 1, "SET", "data", "y")
        waiter = Waiter(server, "lock")
        until(lambda: waiters(store) == [""])
        assert store.execute_command("LOCK.RELEASE", "lock", token) == 1
        assert waiter.got() > token


def test_a_backup_has_holders_and_fences(make_server, tmp_path):
    server = make_server().start()
    with server.client() as client:
        token = client.execute_command("LOCK.ACQUIRE", "lock", "LEASE", 80_000_000)
        client.execute_command("FENCE", "gone", token, "SET", "data", "x")
        # Whoever waits does not keep a backup from being taken.
        line_up(server, client, 1)
        backup(server, tmp_path / "locks.backup")
    other = alone(tmp_path / "locks.backup", tmp_path / "other", shards=3)
    try:
        with other.client() as client:
            assert client.execute_command("LOCK.HELD", "lock", token) > 0
            with pytest.raises(ResponseError, match="larger token"):
                client.execute_command("FENCE", "gone", token - 1, "SET", "data", "y")
            assert client.execute_command("LOCK.RELEASE", "lock", token) == 1
            assert client.execute_command("LOCK.TRY", "lock") > token
    finally:
        other.kill()


def test_the_loss_of_a_lock_stops_the_task_under_it(make_server):
    server = make_server().start()

    async def story():
        options = Server.usual({"socket_timeout": 1})
        async with aio.Claret(port=server.port, **options) as db:
            async with db.lock("lock", lease=2) as lock:
                await asyncio.sleep(3)
                assert not lock.lost, "it is renewed"
                await db.fenced(lock).set("data", "x")
            assert await db.lock("lock").acquire(timeout=0) and not lock.left
            begun = time.monotonic()
            with pytest.raises(claret.LockLost):
                async with db.lock("other", lease=2, policy=claret.RetryPolicy(deadline_s=0)):
                    server.process.send_signal(signal.SIGSTOP)
                    await asyncio.sleep(60)
            assert time.monotonic() - begun < 5

    try:
        asyncio.run(story())
    finally:
        server.process.send_signal(signal.SIGCONT)


def test_a_thread_that_loses_touch_knows_before_its_lease_ends(make_server):
    server = make_server().start()
    options = {"socket_timeout": 0.5}
    with server.client(claret.Claret, **options) as store:
        lock = store.lock("lock", lease=2, policy=claret.RetryPolicy(deadline_s=0))
        assert lock.acquire()
        server.process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        until(lambda: lock.lost, 5, "the loss")
        assert time.monotonic() - begun < 2
        with pytest.raises(claret.LockLost):
            lock.require()
        server.process.send_signal(signal.SIGCONT)
        lock.release()


def test_those_who_wait_get_the_lock_from_the_next_leader(make_cluster):
    cluster = make_cluster().start()
    leader, *others = cluster.nodes
    cluster.let_lead(leader)
    with contextlib.ExitStack() as open_ones:
        clients = [others[n % 2].client(claret.Claret, socket_timeout=30) for n in range(5)]
        first, *stores = [open_ones.enter_context(client) for client in clients]
        held = first.lock("lock", lease=60)
        assert held.acquire()
        tokens = [held.token]

        def wait(number):
            with stores[number].lock("lock", lease=60, owner=f"w{number}") as lock:
                tokens.append(lock.token)
                lock.fence("INCR", "count")

        threads = [threading.Thread(target=wait, args=(n,), daemon=True) for n in range(4)]
        for number, thread in enumerate(threads):
            thread.start()
            until(lambda: len(waiters(first)) == number + 1, what="a waiter")
        # One waits at the machine that is about to be lost, and is lost with it.
        Waiter(leader, "lock", "OWNER", "lost")
        until(lambda: len(waiters(first)) == 5)
        leader.kill()
        until(lambda: sorted(waiters_of_next(first)) == ["w0", "w1", "w2", "w3"], 30)
        assert first.execute_command("LOCK.HELD", "lock", held.token) > 0
        held.release()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive(), cluster.said()
        assert tokens == sorted(set(tokens)) and len(tokens) == 5
        assert first.get("count") == "4"
        leader.start()
        cluster.wait()
        stores = [node.client(claret.Claret) for node in cluster.nodes for _ in range(3)]
        first.delete("count")
        # All machines hand the lock around, and the lead moves meanwhile.
        moving = threading.Thread(target=cluster.let_lead, args=(leader,), daemon=True)
        moving.start()
        contend(stores, 6)
        moving.join(30)
        assert first.get("count") == "54"


def waiters_of_next(client, key="lock"):
    try:
        return waiters(client, key)
    except (ConnectionError, ResponseError):
        return []


def lock_metrics(port):
    """What the metrics say about locks by name, over all shards."""
    lines = page(port, "/metrics")[1].splitlines()
    assert "# TYPE claret_lock_wait_seconds histogram" in lines
    found = {}
    for line in lines:
        if line.startswith("claret_lock_") and " " in line:
            name, value = line.rsplit(" ", 1)
            if "_bucket" not in name:
                name = name.split("{")[0].removeprefix("claret_lock_")
                found[name] = found.get(name, 0) + float(value)
    return found


def test_metrics_say_what_has_come_of_locks(make_server):
    port = free_port()
    server = make_server(config=f"metrics_port = {port}\n").start()
    with server.client() as client, server.client(socket_timeout=20) as other:
        call = client.execute_command
        token = call("LOCK.ACQUIRE", "lock", "OWNER", "ann")
        assert call("LOCK.TRY", "lock") is None
        assert call("LOCK.ACQUIRE", "lock", "TIMEOUT", 200) is None
        waiting = threading.Thread(target=other.execute_command, args=("LOCK.ACQUIRE", "lock"))
        waiting.start()
        until(lambda: lock_metrics(port)["waiting"] == 1)
        time.sleep(0.3)
        assert lock_metrics(port)["longest_wait_microseconds"] > 250_000
        seen = json.loads(page(port, "/console.json")[1])
        assert [(q["key"], q["waiting"]) for q in seen["queues"]] == [("lock", 1)]
        assert seen["locks"]["granted"] == 1 and seen["locks"]["timed_out"] == 1
        assert call("LOCK.RELEASE", "lock", token) == 1
        waiting.join()
        assert call("LOCK.RELEASE", "lock", token) == 0
        newest = call("LOCK.HOLDERS", "lock")[0][0]
        call("FENCE", "lock", newest, "SET", "data", "x")
        with pytest.raises(ResponseError, match="larger token"):
            call("FENCE", "lock", token, "SET", "data", "y")
        call("LOCK.SECTION", "other", "INCR", "{other}:n")
        near = call("LOCK.ACQUIRE", "kept", "NEAR")
        assert call("LOCK.RELEASE", "kept", near) == 1
        call("LOCK.ACQUIRE", "a", "OWNER", "ann")
        with pytest.raises(ResponseError, match="ann waits for a"):
            call("LOCK.ACQUIRE", "a", "OWNER", "ann", "DETECT")
    found = lock_metrics(port)
    # ann, the other one, the section, the server that keeps a lock for its clients, ann again.
    assert (found["grants_total"], found["near_stays_total"]) == (5, 1)
    assert (found["refused_total"], found["timeouts_total"]) == (1, 1)
    assert found["releases_total"] >= 1 and found["lost_total"] == 1
    assert (found["fenced_total"], found["deadlocks_total"], found["waiting"]) == (1, 1, 0)
    # All but the attempt that did not wait; ann's lock was held for half a second and more.
    assert found["wait_seconds_count"] == found["grants_total"]
    assert 0.3 < found["wait_seconds_sum"] < 10
    assert 0.5 < found["hold_seconds_sum"] < 10
