"""Replies that arrive later are never used before."""

import asyncio
import math

import pytest
from fakes import TABLE, AsyncPool, Pool

import claret
from claret import aio, aio_dispatch, dispatch, script

# Uses of a reply that a program makes without asking whether it has arrived.
USES = {
    "str": str,
    "format": lambda reply: f"order:{reply}",
    "percent": lambda reply: "order:%s" % reply,
    "bytes": bytes,
    "bool": bool,
    "not": lambda reply: not reply,
    "int": int,
    "float": float,
    "index": lambda reply: [1, 2][reply],
    "round": round,
    "floor": math.floor,
    "equal": lambda reply: reply == 1,
    "unequal": lambda reply: reply != 1,
    "equal to it": lambda reply: 1 == reply,
    "less": lambda reply: reply < 1,
    "more": lambda reply: 5 > reply,
    "iteration": list,
    "next": next,
    "unpacking": lambda reply: [*reply],
    "in": lambda reply: "x" in reply,
    "in a list": lambda reply: reply in [1, 2],
    "item": lambda reply: reply[0],
    "len": len,
    "plus": lambda reply: reply + 1,
    "to be added": lambda reply: 1 + reply,
    "sum": lambda reply: sum([reply]),
    "minus": lambda reply: -reply,
    "times": lambda reply: "x" * reply,
    "divmod": lambda reply: divmod(reply, 2),
    "power": lambda reply: 2**reply,
    "or": lambda reply: reply | 1,
    "max": lambda reply: max(1, reply),
    "call": lambda reply: reply(),
}


def refused(use, reply):
    """Text of the error."""
    with pytest.raises((claret.OrderError, TypeError)) as caught:
        use(reply)
    assert isinstance(caught.value, claret.OrderError), caught.value
    return str(caught.value)


def known(reply):
    """Text of the error after the reply has arrived."""
    reply._set(5)
    return reply


@pytest.mark.parametrize("name", USES)
def test_no_use_of_a_deferred_reply_goes_unnoticed(name):
    for kind in (script.Deferred, script.Awaitable):
        for reply in (kind(), known(kind())):
            said = refused(USES[name], reply)
            assert "now=True" in said and ".value" in said
    assert ".result()" in refused(USES[name], dispatch.Future(None))
    assert "await" in refused(USES[name], aio_dispatch.Reply())


def test_a_deferred_reply_is_no_key_of_a_dictionary():
    with pytest.raises(claret.OrderError, match="now=True"):
        {script.Deferred(): 1}
    with pytest.raises(claret.OrderError, match="result"):
        {dispatch.Future(None)}


def test_a_method_that_the_reply_would_have_is_told_apart():
    for reply in (script.Deferred(), dispatch.Future(None)):
        with pytest.raises(AttributeError, match="comes later"):
            reply.decode()
        assert not hasattr(reply, "__len_hint__")


def test_debuggers_may_look_and_identity_is_no_use():
    reply = script.Deferred()
    assert repr(reply) == "Deferred(open)" and repr(known(reply)) == "Deferred(5)"
    assert reply == reply and not reply != reply
    assert reply.value == 5


def client(*replies):
    """A client of a pool with prepared replies."""
    db = claret.Claret()
    db.connection_pool = Pool(*replies)
    db._writers = script.writers(TABLE)
    return db


def async_client(*replies):
    """A client of an asyncio pool with prepared replies."""
    db = aio.Claret()
    db.connection_pool = AsyncPool(*replies)
    db._writers = script.writers(TABLE)
    return db


def test_a_key_made_of_a_deferred_reply_is_not_written():
    db = client([b"OK", b"7", b"OK"])
    with pytest.raises(claret.OrderError, match="now=True"), db.begin() as tx:
        tx.get("a")
        tx.set(f"order:{tx.incr('n')}", 1)
    assert db.connection_pool.sent == [["TXN BEGIN BLIND", "GET a"], ["TXN ABORT"]]


def test_a_reply_that_has_not_come_is_no_word_of_a_command():
    db = client([b"OK", b"7", b"OK"])
    with db.begin() as tx:
        number = tx.incr("n")
        for use in (lambda: tx.set("a", number), lambda: tx.get(number), lambda: db.get(number)):
            with pytest.raises(claret.OrderError, match=r"\.value"):
                use()
        tx.rollback()
    batch = db.batch()
    with pytest.raises(claret.OrderError, match=r"\.value"):
        batch.set("a", batch.get("b"))
    assert db.connection_pool.sent == []


def test_with_asyncio_what_was_not_awaited_is_refused():
    async def story():
        db = async_client([b"OK", b"7", b"8", b"9", b"OK"])
        async with db.begin(now=True) as tx:
            for use in (use for name, use in USES.items() if name != "next"):
                asked = tx.get("a")
                with pytest.raises((claret.OrderError, TypeError)):
                    use(asked)
                asked.close()
            assert await tx.get("a") == b"7"
            gathered = await asyncio.gather(tx.get("a"), asyncio.create_task(tx.get("b")))
            assert sorted(gathered) == [b"8", b"9"]
            with pytest.raises(claret.OrderError, match="await"):
                await tx.get(tx.get("a"))
            await tx.rollback()

    asyncio.run(story())


def test_with_asyncio_operators_of_handles_are_refused():
    async def story():
        db = async_client([b"OK"])
        members, fields = claret.Members(db, "s"), claret.Map(db, "m")
        for use in (
            lambda: "a" in members,
            lambda: len(members),
            lambda: fields["f"],
            lambda: fields.__setitem__("f", 1),
        ):
            with pytest.raises(claret.OrderError, match="use `"):
                use()
        assert db.connection_pool.sent == []

    asyncio.run(story())


def test_operators_of_handles_are_refused_in_a_batch():
    batch = client().batch()
    with pytest.raises(claret.OrderError, match="use `has`"):
        assert "a" in claret.Members(batch, "s")
    with pytest.raises(claret.OrderError, match="use `get`"):
        claret.Map(batch, "m")["f"]
