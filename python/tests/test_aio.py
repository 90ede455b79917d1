"""The asyncio client, in the cases in which it differs from the blocking one."""

import asyncio

import pytest
from fakes import BREAK, AsyncClient, error

import claret
from claret import aio

POLICY = claret.RetryPolicy(pause_s_max=0, deadline_s=5)


class Db(AsyncClient):
    """A client with prepared replies, and one for single commands."""

    resolution = 0

    async def execute_command(self, *args, **options):
        if isinstance(self.resolution, Exception):
            raise self.resolution
        return self.resolution


def test_a_write_may_be_awaited_or_not():
    async def story():
        db = Db([b"OK", b"QUEUED", b"QUEUED", b"7", ["OK", 8]])
        async with db.begin() as tx:
            first = await tx.set("a", 1)
            second = tx.incr("b")
            assert await tx.get("b") == b"7"
        assert (first.value, second.value) == (True, 8)
        assert db.sent == [["TXN BEGIN BLIND", "SET a 1", "INCRBY b 1", "GET b"], ["TXN COMMIT"]]
        assert db.connection_pool.out == 0

    asyncio.run(story())


def test_tasks_take_turns_on_a_transaction():
    async def story():
        db = Db([b"OK", b"1", b"2", []])
        async with db.begin() as tx:
            assert await asyncio.gather(tx.get("a"), tx.get("b")) == [b"1", b"2"]
        assert db.sent == [["TXN BEGIN BLIND", "GET a"], ["GET b"], ["TXN COMMIT"]]

    asyncio.run(story())


def test_runs_are_repeated_and_settled():
    async def story():
        @aio.transactional
        async def step(tx):
            value = await tx.get("a")
            tx.set("a", value)
            return value

        db = Db([b"OK", b"OK", error("TXNABORT x"), b"OK", b"OK", b"7", b"QUEUED", ["OK"]])
        assert await step(db) == b"7"
        assert db.connection_pool.out == 0

        db = Db([b"OK", b"OK", b"7", BREAK])
        db.resolution = 1
        assert await db.run(step, policy=POLICY) == b"7"
        assert len(db.sent) == 2

        db = Db([b"OK", b"OK", b"7", BREAK], [b"OK", b"OK", b"8", b"QUEUED", ["OK"]])
        assert await db.run(step, policy=POLICY) == b"8"
        assert db.sent[2][0] == "CLIENT REQUEST me-1 2"

    asyncio.run(story())


def test_what_is_closed_after_the_commit_was_sent_is_unknown():
    async def story():
        closed = claret.ClientClosed("it is closed")
        db = Db([b"OK", b"OK", b"QUEUED", BREAK])
        db.resolution = closed

        async def step(tx):
            tx.set("a", 1)

        with pytest.raises(claret.CommitUnknown, match="it is closed"):
            await db.run(step, policy=POLICY)
        batch = Db([b"OK", BREAK], [closed]).batch(POLICY)
        batch.set("a", 1)
        with pytest.raises(claret.CommitUnknown, match="it is closed"):
            await batch.execute()

    asyncio.run(story())


def test_an_exception_rolls_back():
    async def story():
        db = Db([b"OK", b"7", b"OK"])
        with pytest.raises(KeyError):
            async with db.begin() as tx:
                await tx.get("a")
                raise KeyError
        assert db.sent[-1] == ["TXN ABORT"]
        with pytest.raises(claret.TransactionClosed):
            tx.set("a", 1)

    asyncio.run(story())


def test_a_batch_is_one_packet():
    async def story():
        db = Db([b"OK", BREAK], [b"OK", b"OK", b"QUEUED", ["OK"]])
        async with db.batch(POLICY) as batch:
            write = batch.set("a", 1)
        assert write.value is True
        assert db.sent == [["CLIENT REQUEST me-1 1", "MULTI", "SET a 1", "EXEC"]] * 2

    asyncio.run(story())
