"""Those who hold locks and wait for each other's."""

import asyncio
import time

import pytest
from harness import until, work_in_threads
from redis.exceptions import ResponseError
from test_locks import Waiter, waiters

import claret
from claret import aio


def test_whoever_closes_a_circle_is_refused_at_once_and_told_who_is_in_it(server, store):
    ann, ben = (store.lock(f"{{b}}{name}", owner=name) for name in ("ann", "ben"))
    assert ann.acquire() and ben.acquire()
    waiting = Waiter(server, "{b}ben", "OWNER", "ann", "DETECT")
    until(lambda: waiters(store, "{b}ben") == ["ann"])
    with pytest.raises(claret.DeadlockError) as refused:
        store.lock("{b}ann", owner="ben", detect=True).acquire()
    circle = "ben waits for {b}ann behind ann, ann waits for {b}ben behind ben"
    assert circle in str(refused.value) and refused.value.retryable
    with pytest.raises(claret.DeadlockError):
        store.section("{b}ann", owner="ben", detect=True).incr("{b}count")
    assert store.get("{b}count") is None
    ben.release()
    assert waiting.got() > ann.token
    ann.release()


def test_locks_in_any_order_come_to_an_end_if_circles_are_detected(server, store):
    clients = [server.client(claret.Claret) for _ in range(6)]
    circles = []

    def work(number):
        db = clients[number]
        for turn in range(10):
            names = [f"{{b}}{(number + turn * step) % 3}" for step in (1, 2)]
            while not transfer(db, f"w{number}", names):
                circles.append(number)
                time.sleep(0.001 * (number + 1))

    def transfer(db, owner, names):
        try:
            with db.lock(names[0], owner=owner, detect=True):
                time.sleep(0.002)
                if names[1] == names[0]:
                    return db.incr("{b}count")
                with db.lock(names[1], owner=owner, detect=True):
                    return db.incr("{b}count")
        except claret.DeadlockError:
            return 0

    # A circle that stayed would stay for ever, for those in it renew their leases.
    work_in_threads(work, len(clients))
    assert store.get("{b}count") == "60"
    assert circles
    for client in clients:
        client.close()


def apart(store):
    """Two keys that are on different shards, of two."""
    low = [store.execute_command("CLUSTER KEYSLOT", f"lock{number}") < 8192 for number in range(20)]
    return f"lock{low.index(True)}", f"lock{low.index(False)}"


@pytest.mark.parametrize("section", [False, True], ids=["lock", "section"])
def test_a_circle_over_two_shards_is_found_after_a_moment(server, store, section):
    first, second = apart(store)
    ann, ben = store.lock(first, owner="ann"), store.lock(second, owner="ben")
    assert ann.acquire() and ben.acquire()
    waiting = Waiter(server, second, "OWNER", "ann")
    until(lambda: waiters(store, second) == ["ann"])
    with pytest.raises(claret.DeadlockError) as refused:
        if section:
            store.section(first, owner="ben", detect=True).set(f"{{{first}}}", "x")
        else:
            store.lock(first, owner="ben", detect=True).acquire()
    circle = f"ben waits for {first} behind ann, ann waits for {second} behind ben"
    assert circle in str(refused.value)
    assert waiters(store, first) == [] and store.get(f"{{{first}}}") is None
    ben.release()
    assert waiting.got() > ann.token
    ann.release()


def test_whoever_does_not_wait_in_a_circle_waits_on(server, store):
    first, second = apart(store)
    with store.lock(first, owner="ann"), store.lock(second, owner="ben"):
        waiting = Waiter(server, second, "OWNER", "ann", "DETECT")
        until(lambda: waiters(store, second) == ["ann"])
        # Long enough to be looked after several times.
        time.sleep(1)
        assert waiters(store, second) == ["ann"]
    assert waiting.got() > 0


def test_locks_of_several_shards_in_any_order_come_to_an_end(server, store):
    locks = apart(store)
    clients = [server.client(claret.Claret) for _ in range(4)]
    circles = []

    def work(number):
        for turn in range(5):
            names = locks if (number + turn) % 2 else locks[::-1]
            while not transfer(clients[number], f"w{number}", *names):
                circles.append(number)
                time.sleep(0.02 * (number + 1))

    def transfer(db, owner, first, second):
        try:
            with db.lock(first, owner=owner, detect=True):
                time.sleep(0.01)
                with db.lock(second, owner=owner, detect=True):
                    return db.incr("count")
        except claret.DeadlockError:
            return 0

    work_in_threads(work, len(clients))
    assert store.get("count") == "20"
    assert circles
    for client in clients:
        client.close()


def test_without_detect_a_circle_stays_until_a_wait_ends(store):
    with store.lock("{b}1", owner="ann") as lock:
        words = ["LOCK.ACQUIRE", "{b}1", "OWNER", "ann", "TIMEOUT", 50]
        assert store.execute_command(*words) is None
        with pytest.raises(ResponseError, match="DEADLOCK|waits for"):
            store.execute_command(*words, "DETECT")
        assert lock.left > 0
    for wrong in (["DETECT"], ["OWNER", "", "DETECT"]):
        with pytest.raises(ResponseError, match="DETECT needs an OWNER"):
            store.execute_command("LOCK.ACQUIRE", "{b}1", *wrong)
    with pytest.raises(ValueError, match="owner"):
        store.lock("{b}1", detect=True)


def test_a_circle_of_tasks(server):
    async def work():
        async with server.client(aio.Claret) as db:
            await db.flushall()
            outcomes = await asyncio.gather(
                both(db, "ann", "{b}1", "{b}2"), both(db, "ben", "{b}2", "{b}1")
            )
            assert sorted(outcomes) == ["deadlock", "done"]

    async def both(db, owner, first, second):
        try:
            async with db.lock(first, owner=owner, detect=True):
                await asyncio.sleep(0.2)
                async with db.lock(second, owner=owner, detect=True):
                    return "done"
        except claret.DeadlockError:
            return "deadlock"

    asyncio.run(work())


def test_a_circle_is_told_by_a_machine_that_does_not_lead(make_cluster):
    cluster = make_cluster().start()
    leader, other, _ = cluster.nodes
    cluster.let_lead(leader)
    with other.client(claret.Claret) as store, other.client(claret.Claret) as second:
        ann, ben = (store.lock(f"{{b}}{name}", owner=name) for name in ("ann", "ben"))
        assert ann.acquire() and ben.acquire()
        waiting = Waiter(other, "{b}ben", "OWNER", "ann")
        until(lambda: waiters(store, "{b}ben") == ["ann"])
        with pytest.raises(claret.DeadlockError, match="ben waits for"):
            second.lock("{b}ann", owner="ben", detect=True).acquire()
        ben.release()
        assert waiting.got() > ann.token
        ann.release()
