"""Sections: a lock, what is done under it, and its release in one request."""

import asyncio
import threading

import pytest
from harness import until, work_in_threads
from redis.exceptions import ConnectionError, ResponseError
from test_locks import Waiter, holders, waiters, waiters_of_next

import claret
from claret import aio


class Section(threading.Thread):
    """Somebody who asks for a section, and waits."""

    def __init__(self, db, *command, **options):
        super().__init__(daemon=True)
        self.section = db.section("lock{a}", **options)
        self.command = command
        self.reply = self.error = None
        self.start()

    def run(self):
        try:
            self.reply = self.section.execute_command(*self.command)
        except (claret.ClaretError, ConnectionError, ResponseError) as error:
            self.error = error

    def done(self):
        self.join(30)
        assert not self.is_alive(), "it still waits"
        assert self.error is None, self.error
        return self.reply


def test_a_section_answers_what_its_command_does_and_leaves_nothing_behind(store):
    assert store.execute_command("LOCK.SECTION", "lock{a}", "SET", "{a}1", "x") == "OK"
    assert store.execute_command("LOCK.SECTION", "lock{a}", "OWNER", "ann", "GET", "{a}1") == "x"
    assert store.exists("lock{a}") == 0 and holders(store, "lock{a}") == []
    section = store.section("lock{a}", owner="ann")
    assert section.hset("{a}map", mapping={"x": 1}) == 1
    first = section.token
    assert section.get("{a}nothing") is None and section.token > first
    assert section.hgetall("{a}map") == {"x": "1"}
    with store.lock("lock{a}") as lock:
        assert lock.token > section.token


def test_a_section_waits_in_turn_between_those_who_hold_the_lock(server, store):
    with store.lock("lock{a}") as lock:
        token = lock.token
        section = Section(store, "INCR", "{a}count", owner="section")
        until(lambda: waiters(store, "lock{a}") == ["section"])
        later = Waiter(server, "lock{a}", "OWNER", "later")
        until(lambda: waiters(store, "lock{a}") == ["section", "later"])
        assert store.get("{a}count") is None
    assert section.done() == 1
    assert token < section.section.token < later.got()


def test_who_is_not_let_in_in_time_is_told_so_and_nothing_happens(store):
    with store.lock("lock{a}"):
        words = ["LOCK.SECTION", "lock{a}", "TIMEOUT", 50, "SET", "{a}1", "x"]
        assert store.execute_command(*words) is None
        with pytest.raises(claret.NotAcquired):
            store.section("lock{a}", timeout=0.05).set("{a}1", "x")
    assert store.get("{a}1") is None
    with store.lock("lock{a}", shared=True):
        assert store.section("lock{a}", shared=True, timeout=0.05).set("{a}1", "y")


def test_a_holder_that_was_late_is_refused_by_the_token_of_a_section(store):
    token = store.execute_command("LOCK.ACQUIRE", "lock{a}", "LEASE", 100)
    assert store.section("lock{a}").set("{a}1", "new")
    with pytest.raises(ResponseError, match="larger token"):
        store.execute_command("FENCE", "lock{a}", token, "SET", "{a}1", "old")
    assert store.get("{a}1") == "new"


def test_a_transaction_can_be_a_section(store):
    with store.batch() as batch:
        token = batch.execute_command("LOCK.SECTION", "lock{a}", "OWNER", "ann")
        batch.set("{a}1", "x")
        count = batch.incr("{a}2")
    assert token.value > 0 and count.value == 1
    with store.lock("lock{a}"), pytest.raises(ResponseError, match="CROSSSLOT|hash slot"):
        store.execute_command("LOCK.SECTION", "lock{a}", "SET", "elsewhere", "x")


def test_sections_and_holders_exclude_each_other(server, store):
    clients = [server.client(claret.Claret) for _ in range(8)]

    def work(number):
        db = clients[number]
        for _ in range(20):
            if number % 2:
                db.section("lock{a}").incr("{a}count")
                continue
            with db.lock("lock{a}") as lock:
                # Nobody who looks at the lock writes in between.
                count = int(db.get("{a}count") or 0)
                lock.fence("SET", "{a}count", count + 1)

    work_in_threads(work, len(clients))
    assert store.get("{a}count") == "160"
    for client in clients:
        client.close()


def test_a_section_of_asyncio(server):
    async def work():
        async with server.client(aio.Claret) as db:
            await db.flushall()
            section = db.section("lock{a}", owner="ann")
            assert await section.incr("{a}count") == 1
            first = section.token
            async with db.lock("lock{a}") as lock:
                waiting = asyncio.ensure_future(section.incr("{a}count"))
                with pytest.raises(claret.NotAcquired):
                    await db.section("lock{a}", timeout=0.05).incr("{a}count")
                token = lock.token
                assert not waiting.done() and token > first
            assert await waiting == 2 and section.token > token

    asyncio.run(work())


def test_sections_that_wait_go_to_the_next_leader_and_are_carried_out_once(make_cluster):
    cluster = make_cluster().start()
    leader, *others = cluster.nodes
    cluster.let_lead(leader)
    stores = [others[n % 2].client(claret.Claret, socket_timeout=30) for n in range(5)]
    holder, *stores = stores
    held = holder.lock("lock{a}", lease=60)
    assert held.acquire()
    sections = [Section(db, "INCR", "{a}count", owner=f"s{n}") for n, db in enumerate(stores)]
    until(lambda: len(waiters(holder, "lock{a}")) == 4)
    leader.kill()
    until(lambda: len(waiters_of_next(holder, "lock{a}")) == 4, 30)
    assert holder.get("{a}count") is None
    held.release()
    assert sorted(section.done() for section in sections) == [1, 2, 3, 4]
    for client in [holder, *stores]:
        client.close()
