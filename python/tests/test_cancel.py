"""Calls that are given up from another thread, and tasks that are cancelled."""

import asyncio
import threading
import time

import pytest
from answering import Listener, listeners
from fakes import TABLE, AsyncClient, Client, error

import claret
from claret import script

POLICY = claret.RetryPolicy(pause_s_max=0, deadline_s=5)


def given_up_at(listener):
    """What is cancelled as soon as a listener has heard a command that it does not answer."""
    cancel = claret.Cancel()

    def give_up():
        if listener.reached.wait(5):
            cancel.cancel()

    threading.Thread(target=give_up, daemon=True).start()
    return cancel


def client(listener):
    """A client of a listener, whose table of commands is known."""
    db = claret.Claret(addresses=[listener.address], protocol=2, socket_timeout=None)
    db._writers = script.writers(TABLE)
    return db


def test_what_is_given_up_before_it_begins_sends_nothing():
    db, cancel = Client([]), claret.Cancel()
    cancel.cancel()
    for work in (
        lambda: db.run(lambda tx: tx.get("a"), policy=POLICY, cancel=cancel),
        lambda: db.lock("lock").acquire(cancel=cancel),
        lambda: db.election("e", "v").campaign(cancel=cancel),
        lambda: db.barrier("b", 1).wait(cancel=cancel),
        lambda: db.section("lock", cancel=cancel).get("a"),
        lambda: db.retained("lock").lock().acquire(cancel=cancel),
    ):
        with pytest.raises(claret.Cancelled):
            work()
    assert db.sent == []


def test_a_run_that_waits_for_a_reply_ends_at_once():
    with listeners(Listener(hangs_at=("GET",))) as (listener,):
        db, cancel, begun = client(listener), given_up_at(listener), time.monotonic()
        with pytest.raises(claret.Cancelled) as caught:
            db.run(lambda tx: tx.get("a"), cancel=cancel)
        assert time.monotonic() - begun < 4
        assert not caught.value.maybe_committed
        assert not any("RESOLVE" in words for words in listener.heard)


def test_a_run_that_is_given_up_during_its_commit_may_have_an_effect():
    with listeners(Listener(hangs_at=("TXN",))) as (listener,):
        db, cancel = client(listener), given_up_at(listener)
        with pytest.raises(claret.CommitUnknown, match="given up") as caught:
            db.run(lambda tx: tx.set("a", 1), cancel=cancel)
        assert isinstance(caught.value.__cause__, claret.Cancelled)


def test_a_function_that_is_given_up_ends_at_its_next_command():
    db, cancel = Client([b"OK", b"OK", b"7"]), claret.Cancel()

    def body(tx):
        tx.get("a")
        cancel.cancel()
        tx.get("b")

    with pytest.raises(claret.Cancelled):
        db.run(body, policy=POLICY, cancel=cancel)
    [words] = db.sent
    assert words[-1] == "GET a"
    assert db.connection_pool.out == 0 and db.connection_pool._connections == []


def test_no_attempt_begins_after_it_was_given_up():
    db, cancel = Client([b"OK", b"OK", error("TXNABORT too old"), b"OK"]), claret.Cancel()

    def body(tx):
        try:
            return tx.get("a")
        finally:
            cancel.cancel()

    with pytest.raises(claret.Cancelled):
        db.run(body, policy=POLICY, cancel=cancel)
    assert db.sent[-1] == ["TXN ABORT"]


def test_a_wait_for_a_lock_ends_at_once():
    with listeners(Listener(hangs_at=("LOCK.ACQUIRE",))) as (listener,):
        db, cancel = client(listener), given_up_at(listener)
        lock = db.lock("lock")
        with pytest.raises(claret.Cancelled):
            lock.acquire(cancel=cancel)
        with pytest.raises(claret.NotAcquired):
            assert lock.token


def test_a_stay_that_is_given_up_does_not_enter():
    with listeners(Listener(hangs_at=("LOCK.ACQUIRE",))) as (listener,):
        db, cancel = client(listener), given_up_at(listener)
        kept = db.retained("lock")
        first = threading.Thread(target=kept.lock().acquire, daemon=True)
        first.start()
        with pytest.raises(claret.Cancelled):
            kept.lock().acquire(cancel=cancel)
        assert len(kept._kept.line) == 1, "the first one waits on"


def test_a_task_that_is_cancelled_during_its_commit_says_so():
    async def story():
        db = AsyncClient([b"OK", b"OK", b"7", asyncio.CancelledError()])

        async def body(tx):
            tx.set("a", await tx.get("b"))

        with pytest.raises(asyncio.CancelledError) as caught:
            await db.run(body, policy=POLICY)
        assert caught.value.maybe_committed
        assert db.connection_pool.out == 0 and db.connection_pool._connections == []

    asyncio.run(story())


def test_a_task_that_is_cancelled_before_its_commit_has_no_label():
    async def story():
        db = AsyncClient([b"OK", b"OK", asyncio.CancelledError()])

        async def body(tx):
            await tx.get("b")

        with pytest.raises(asyncio.CancelledError) as caught:
            await db.run(body, policy=POLICY)
        assert not getattr(caught.value, "maybe_committed", False)

    asyncio.run(story())
