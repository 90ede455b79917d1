"""Dispatched commands: futures, refused uses, and the checks of debugging. Without a server."""

import subprocess

import pytest
from claret import Claret, CommitUnknown, OrderError
from claret.errors import ClaretError
from fakes import BREAK, Pool, error


def db_with(*replies):
    """A database whose next connection has these replies."""
    db = Claret()
    db.connection_pool = Pool(list(replies))
    return db


def test_replies_come_in_the_order_of_the_commands():
    db = db_with(1, b"old", 2)
    with db.dispatch() as dispatch:
        one, old, two = dispatch.incrby("a", 1), dispatch.get("b"), dispatch.incrby("a", 1)
        assert not one.done()
        assert two.result() == 2 and one.done() and old.result() == b"old"
    assert db.connection_pool.sent == [["INCRBY a 1"], ["GET b"], ["INCRBY a 1"]]
    assert db.connection_pool.out == 0


def test_an_unseen_error_is_raised_at_the_end():
    with pytest.raises(ClaretError, match="too many"):
        with db_with(error("BUSY too many"), 1).dispatch() as dispatch:
            dispatch.incrby("a", 1)
            assert dispatch.incrby("b", 1).result() == 1
    with db_with(error("BUSY too many")).dispatch() as dispatch:
        assert dispatch.incrby("a", 1).exception().retryable


def test_a_broken_connection_leaves_in_doubt_what_was_not_answered():
    with pytest.raises(CommitUnknown):
        with db_with(1, BREAK).dispatch() as dispatch:
            first, second = dispatch.incrby("a", 1), dispatch.incrby("b", 1)
            assert first.result() == 1
            assert second.exception().maybe_committed
            dispatch.incrby("c", 1)


def test_a_promise_is_not_a_reply():
    with db_with(1).dispatch() as dispatch:
        promise = dispatch.incrby("a", 1)
        for use in (bool, str, int, list, lambda p: f"key:{p}", lambda p: p == 1, lambda p: p > 1):
            with pytest.raises((OrderError, TypeError)):
                use(promise)
        with pytest.raises(OrderError):
            dispatch.set("last", promise)
        assert promise.result() == 1


def test_what_changes_the_connection_is_refused():
    with db_with().dispatch() as dispatch:
        for words in (["MULTI"], ["CLIENT", "ORDER", "OFF"], ["SUBSCRIBE", "news"]):
            with pytest.raises(OrderError):
                dispatch.execute_command(*words)
    with pytest.raises(ClaretError):
        dispatch.incrby("a", 1)


def test_debugging_finds_what_others_could_see_too_early(tmp_path):
    db = db_with(1, 2)
    with db.dispatch(debug=True) as dispatch:
        dispatch.incrby("a", 1)
        for act in (
            lambda: (tmp_path / "note").write_text("done"),
            lambda: subprocess.run(["true"], check=True),
            lambda: db.get("a"),
        ):
            with pytest.raises(OrderError, match="not answered"):
                act()
        dispatch.wait()
        (tmp_path / "note").write_text("done")
        dispatch.incrby("a", 1)
    (tmp_path / "note").write_text("done again")


def test_without_debugging_nothing_is_watched(tmp_path):
    with db_with(1).dispatch() as dispatch:
        dispatch.incrby("a", 1)
        (tmp_path / "note").write_text("as you like")
