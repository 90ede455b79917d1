"""What takes effect once under a text of the program's own, and batches with guards."""

import asyncio

import claret
import pytest
import redis
from claret import aio


def count(tx):
    return tx.incr("n")


def read_and_count(tx):
    tx.set("n", int(tx.get("n") or 0) + 1)


def test_of_all_runs_under_one_text_one_takes_effect(server):
    one, other = (claret.Claret(port=server.port, decode_responses=True) for _ in range(2))
    one.flushall()
    first = one.run(count, once="order-1")
    again = other.run(count, once="order-1")
    assert (first.value, again.value, one.get("n")) == (1, 1, "1")
    one.run(read_and_count, once="order-2")
    with pytest.raises(claret.RepeatedError):
        other.run(read_and_count, once="order-2")
    assert one.get("n") == "2"
    # A process that has asked what became of it has made the first number void.
    assert one.execute_command("TXN", "RESOLVE", "once:order-3", 1) == 0
    one.run(read_and_count, once="order-3")
    with pytest.raises(claret.RepeatedError):
        other.run(read_and_count, once="order-3")
    assert one.get("n") == "3"


def test_batches_under_one_text_take_effect_once(server):
    db = claret.Claret(port=server.port, decode_responses=True)
    db.flushall()
    for _ in range(3):
        with db.batch(once="order-4") as batch:
            batch.incr("a")
            last = batch.incr("b")
        assert last.value == 1
    assert db.mget("a", "b") == ["1", "1"]


def test_a_batch_takes_effect_only_if_its_guards_hold(server):
    db = claret.Claret(port=server.port, decode_responses=True)
    db.flushall()
    for _ in range(2):
        batch = db.batch()
        batch.guard("a", None)
        batch.set("a", "1")
        done = batch.execute()
    assert done is None
    batch.guard("a", "1")
    batch.incr("b")
    assert batch.execute() == [1]
    with pytest.raises(claret.OrderError):
        batch.guard("a", batch.incr("b"))


def test_the_same_with_asyncio(server):
    async def main():
        db = aio.Claret(port=server.port, decode_responses=True)
        await db.flushall()

        async def counted(tx):
            await tx.set("n", int(await tx.get("n") or 0) + 1)

        await db.run(counted, once="order-5")
        with pytest.raises(claret.RepeatedError):
            await db.run(counted, once="order-5")
        batch = db.batch(once="order-6")
        batch.guard("n", "2")
        batch.set("n", "3")
        assert await batch.execute() is None
        assert await db.get("n") == "1"
        await db.aclose()

    asyncio.run(main())


def test_a_function_that_hides_a_conflict_is_run_again(server):
    db, other = (claret.Claret(port=server.port, decode_responses=True) for _ in range(2))
    db.flushall()
    attempts = []

    def hides(tx):
        attempts.append(tx)
        tx.get("a")
        if len(attempts) == 1:
            # The transaction ends here, whatever its function makes of it.
            tx._lane._connection.disconnect()
        try:
            tx.get("b")
        except redis.ConnectionError:
            return "hidden"
        tx.set("c", "1")
        return "done"

    assert db.run(hides) == "done" and len(attempts) == 2
    assert other.get("c") == "1"


def test_what_the_server_would_refuse_to_begin_is_refused_before_anything_is_sent(server):
    db = claret.Claret(port=server.port, decode_responses=True)
    db.flushall()
    for once in ("", "a b", "x" * 60, 5):
        with pytest.raises(ValueError, match="once"):
            db.run(count, once=once)
        with pytest.raises(ValueError, match="once"), db.batch(once=once) as batch:
            batch.incr("n")
    with pytest.raises(ValueError, match="time-out"):
        db.run(count, idle_timeout=-1)
    assert db.get("n") is None


@pytest.mark.parametrize("words", ["TXN ABORT", "DISCARD", "EXEC", "RESET", "SELECT 3", "QUIT"])
def test_commands_about_the_connection_are_not_for_transactions(server, words):
    db = claret.Claret(port=server.port, decode_responses=True)
    db.flushall()

    def careless(tx):
        tx.set("n", "1")
        tx.execute_command(*words.split())

    with pytest.raises(claret.OrderError, match="about a connection"):
        db.run(careless)
    with pytest.raises(claret.OrderError, match="about a connection"), db.batch() as batch:
        batch.set("n", "1")
        batch.execute_command(*words.split())
    assert db.get("n") is None
