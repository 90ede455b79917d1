"""Barriers: who goes on with whom, and what becomes of those who leave, die, or ask twice."""

import asyncio
import threading
import time

import pytest
from harness import until, work_in_threads
from redis.exceptions import ConnectionError, ResponseError

import claret
from claret import aio


class Party(threading.Thread):
    """Somebody who comes to a barrier, and waits."""

    def __init__(self, db, parties, name="step", timeout=None, **options):
        super().__init__(daemon=True)
        self.barrier = db.barrier(name, parties, **options)
        self.timeout = timeout
        self.generation = self.error = None
        self.start()

    def run(self):
        try:
            self.generation = self.barrier.wait(self.timeout)
        except (claret.ClaretError, ConnectionError, ResponseError) as error:
            self.error = error

    def done(self):
        self.join(30)
        assert not self.is_alive(), "it still waits"
        assert self.error is None, self.error
        return self.generation


def waiting(client, key="step"):
    """Who waits at a barrier."""
    try:
        return [row[0] for row in client.execute_command("BARRIER.WAITING", key)]
    except (ConnectionError, ResponseError):
        return []


def test_nobody_goes_on_before_all_have_come(server, store):
    db = server.client(claret.Claret)
    first = Party(db, 3, owner="ann")
    until(lambda: waiting(store) == ["ann"])
    assert store.execute_command("BARRIER.WAIT", "step", 3, "TIMEOUT", 50) is None
    assert waiting(store) == ["ann"]
    second = Party(db, 3, owner="ben")
    until(lambda: waiting(store) == ["ann", "ben"])
    assert store.execute_command("BARRIER.WAITING", "step")[0][1] == 3
    assert not store.exists("step")
    generation = store.execute_command("BARRIER.WAIT", "step", 3)
    assert first.done() == second.done() == generation
    assert waiting(store) == [] and not store.exists("step")
    assert store.execute_command("BARRIER.WAIT", "step", 1) > generation
    db.close()


def test_workers_go_from_step_to_step_together(server):
    workers, steps = 5, 20
    stores = [server.client(claret.Claret) for _ in range(workers)]
    stores[0].flushall()
    generations = [[] for _ in range(workers)]

    def work(number):
        db = stores[number]
        barrier = db.barrier("step", workers)
        for step in range(steps):
            db.incr(f"step:{step}")
            generations[number].append(barrier.wait())
            assert int(db.get(f"step:{step}")) == workers, "all have done this step"

    work_in_threads(work, workers)
    assert all(of_one == generations[0] for of_one in generations)
    assert generations[0] == sorted(set(generations[0])) and len(generations[0]) == steps
    for client in stores:
        client.close()


def test_who_leaves_has_not_come(server, store):
    db = server.client(claret.Claret)
    with pytest.raises(claret.NotAcquired, match="2 parties"):
        db.barrier("step", 2).wait(timeout=0.05)
    connection = store.connection_pool.get_connection()
    connection.send_command("BARRIER.WAIT", "step", 2, "OWNER", "leaves")
    until(lambda: waiting(store) == ["leaves"])
    connection.disconnect()
    until(lambda: waiting(store) == [])
    party = Party(db, 2, owner="ann")
    until(lambda: waiting(store) == ["ann"])
    unblocked = [row for row in store.client_list() if row["cmd"] == "barrier.wait"]
    assert store.client_unblock(unblocked[0]["id"])
    party.join(20)
    assert isinstance(party.error, claret.NotAcquired)
    assert waiting(store) == []
    db.close()


def test_strangers_are_told_so(server, store):
    db = server.client(claret.Claret)
    party = Party(db, 2)
    until(lambda: len(waiting(store)) == 1)
    with pytest.raises(ResponseError, match="wait for 2 parties, and not for 3"):
        store.execute_command("BARRIER.WAIT", "step", 3)
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        store.execute_command("LOCK.ACQUIRE", "step")
    assert db.barrier("step", 2).wait() == party.done()
    store.set("text", "x")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        store.execute_command("BARRIER.WAIT", "text", 5)
    for words in (["0"], ["10001"], ["x"], ["2", "TIMEOUT"], ["2", "OWNER", "x" * 257]):
        with pytest.raises(ResponseError):
            store.execute_command("BARRIER.WAIT", "k", *words)
    with pytest.raises(ResponseError, match="at most"):
        store.execute_command("BARRIER.WAIT", "k" * 1000, 10_000)
    store.execute_command("MULTI")
    with pytest.raises(ResponseError):
        store.execute_command("BARRIER.WAIT", "step", 1)
    with pytest.raises(ResponseError):
        store.execute_command("EXEC")
    db.close()


def test_who_asks_again_is_told_the_same_generation(server, store):
    other = server.client(claret.Claret)

    def ask(request, db):
        lane = db.connection_pool.get_connection()
        lane.send_packed_command(
            lane.pack_commands([["CLIENT", "REQUEST", "ann", request], ["BARRIER.WAIT", "step", 2]])
        )
        return lane

    def answer(lane):
        assert lane.read_response() == "OK"
        return lane.read_response()

    lost = ask(1, store)
    until(lambda: len(waiting(store)) == 1)
    again = ask(1, other)
    until(lambda: len(waiting(store)) == 2)
    lost.disconnect()
    until(lambda: len(waiting(store)) == 1)
    generation = other.barrier("step", 2).wait()
    assert answer(again) == generation
    assert answer(ask(1, other)) == generation, "long after as well"
    assert waiting(store) == []
    other.close()


def test_a_barrier_of_asyncio(server):
    async def work():
        async with server.client(aio.Claret) as db:
            await db.flushall()
            with pytest.raises(claret.NotAcquired):
                await db.barrier("step", 2).wait(timeout=0.05)
            given_up = asyncio.ensure_future(db.barrier("step", 3).wait())
            while not await db.execute_command("BARRIER.WAITING", "step"):
                await asyncio.sleep(0.01)
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)
            while await db.execute_command("BARRIER.WAITING", "step"):
                await asyncio.sleep(0.01)
            barriers = [db.barrier("step", 3) for _ in range(3)]
            first = await asyncio.gather(*[barrier.wait() for barrier in barriers])
            second = await asyncio.gather(*[barrier.wait() for barrier in barriers])
            assert len({*first}) == len({*second}) == 1 and second[0] > first[0]

    asyncio.run(work())


def test_those_who_wait_meet_at_the_next_leader_and_go_from_step_to_step(make_cluster):
    cluster = make_cluster().start()
    leader, *others = cluster.nodes
    cluster.let_lead(leader)
    stores = [others[n % 2].client(claret.Claret, socket_timeout=30) for n in range(4)]
    store = stores[0]
    parties = [Party(db, 4, owner=f"p{n}") for n, db in enumerate(stores[:2])]
    # One waits at the machine that is about to be lost, and is lost with it.
    lost = leader.client(socket_timeout=60)
    lost.connection_pool.get_connection().send_command("BARRIER.WAIT", "step", 4)
    until(lambda: len(waiting(store)) == 3)
    leader.kill()
    until(lambda: sorted(waiting(store)) == ["p0", "p1"], 30)
    parties.append(Party(stores[2], 4, owner="p2"))
    until(lambda: len(waiting(store)) == 3)
    generation = stores[3].barrier("step", 4).wait()
    assert [party.done() for party in parties] == [generation] * 3
    leader.start()
    cluster.wait()
    cluster.let_lead(leader)
    # All go on from step to step while the lead is lost once more.
    generations = [[] for _ in stores]

    def work(number):
        db = stores[number]
        barrier = db.barrier("moving", 4)
        for step in range(60):
            batch = db.batch()
            batch.incr(f"step:{step}")
            batch.execute()
            generations[number].append(barrier.wait())
            assert int(db.get(f"step:{step}")) == 4, "all have done this step"
            time.sleep(0.02)

    killing = threading.Thread(target=cluster.kill_and_restart, args=(leader, 1), daemon=True)
    killing.start()
    work_in_threads(work, len(stores))
    killing.join(60)
    assert all(of_one == generations[0] for of_one in generations), cluster.said()
    assert generations[0] == sorted(set(generations[0]))
    for client in [*stores, lost]:
        client.close()
