"""Dispatched commands with asyncio. Without a server."""

import asyncio

import pytest
from claret import CommitUnknown, OrderError
from claret.aio import Claret
from fakes import BREAK, AsyncPool, error


def dispatching(function, *replies, debug=False):
    """Runs a function of a dispatch with a connection with these replies; returns the sent
    commands."""

    async def run():
        db = Claret()
        db.connection_pool = AsyncPool(list(replies))
        async with db.dispatch(debug=debug) as dispatch:
            await function(dispatch)
        assert db.connection_pool.out == 0
        return db.connection_pool.sent

    return asyncio.run(run())


def test_what_is_issued_together_is_sent_together():
    async def story(dispatch):
        one, old, two = dispatch.incrby("a", 1), dispatch.get("b"), dispatch.incrby("a", 1)
        assert await two == 2 and one.done() and await old == b"old"
        assert await dispatch.incrby("a", 1) == 3

    sent = dispatching(story, 1, b"old", 2, 3)
    assert sent == [["INCRBY a 1", "GET b", "INCRBY a 1"], ["INCRBY a 1"]]


def test_errors_belong_to_their_commands():
    async def story(dispatch):
        first, second = dispatch.incrby("a", 1), dispatch.incrby("a", 1)
        with pytest.raises(Exception, match="no number"):
            await first
        assert await second == 5

    dispatching(story, error("ERR no number"), 5)

    async def careless(dispatch):
        dispatch.incrby("a", 1)

    with pytest.raises(Exception, match="no number"):
        dispatching(careless, error("ERR no number"))


def test_a_broken_connection_leaves_in_doubt_what_was_not_answered():
    async def story(dispatch):
        first, second = dispatch.incrby("a", 1), dispatch.incrby("b", 1)
        assert await first == 1
        with pytest.raises(CommitUnknown):
            await second
        with pytest.raises(CommitUnknown):
            await dispatch.incrby("c", 1)

    dispatching(story, 1, BREAK)


def test_debugging_looks_at_the_task_that_dispatches(tmp_path):
    async def story(dispatch):
        async def somebody_else():
            (tmp_path / "other").write_text("as it likes")

        promise = dispatch.incrby("a", 1)
        with pytest.raises(OrderError):
            (tmp_path / "note").write_text("too early")
        with pytest.raises(OrderError):
            f"key:{promise}"
        await asyncio.create_task(somebody_else())
        await dispatch.wait()
        (tmp_path / "note").write_text("in time")

    dispatching(story, 1, debug=True)
