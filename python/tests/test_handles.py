"""Handles: their commands, and the conversion of replies."""

import asyncio

import pytest

import claret
from claret import script


class Db:
    """Records commands and answers from a list."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.sent = []

    def execute_command(self, *words):
        self.sent.append(" ".join(map(str, words)))
        return self.replies.pop(0)


def test_writes_answer_nothing_unless_asked():
    db = Db(b"OK", 5, 1, 1)
    counter = claret.Counter(db, "c")
    assert counter.add(2) is None
    assert counter.add(3, returning=True) == 5
    members = claret.Members(db, "s")
    assert members.add("a") is None
    assert members.add("b", returning=True) == 1
    assert db.sent == ["COUNTER.ADD c 2", "COUNTER.INCR c 3", "SADD s a", "SADD s b"]


def test_collections_behave_like_collections():
    db = Db(1, 0, 3, None, b"v", 1)
    fields = claret.Map(db, "h")
    assert "a" in fields and "b" not in fields
    assert len(fields) == 3
    with pytest.raises(KeyError):
        fields["x"]
    assert fields["y"] == b"v"
    fields["z"] = 1
    assert db.sent[-1] == "HSET h z 1"
    assert fields, "a handle is true without being asked"
    assert db.replies == []


def test_operations_of_a_type_win_over_methods_of_handles():
    text = "type t\npart n counter\nop delete by:int\n counter.add n $by\nop key\n return counter.get n"
    db = Db(b"OK", 7)
    value = claret.Type(text)(db, "k")
    assert value.delete(by=2) == b"OK" and value.key == "k" and value.call("key") == 7
    assert db.sent == ["TYPE.CALL k t.delete 2", "TYPE.CALL k t.key"]


def test_a_default_stands_for_what_is_not_there():
    assert claret.Map(Db(None), "h").get("a", 7) == 7
    assert claret.Scores(Db(None), "z").get("a") is None
    assert claret.Scores(Db(b"2.5"), "z").get("a") == 2.5


def test_queues_are_read_in_pages():
    page = [b"x"] * 512
    db = Db(page, [b"y"])
    assert len([item for item in claret.Queue(db, "q")]) == 513
    assert db.sent == ["LRANGE q 0 511", "LRANGE q 512 1023"]


def test_replies_of_both_protocols_look_the_same():
    best = [(b"a", 2.0), (b"b", 1.5)]
    assert claret.Best(Db([b"a", b"2", b"b", b"1.5"]), "t").top() == best
    assert claret.Best(Db([[b"a", 2.0], [b"b", 1.5]]), "t").top(2) == best
    assert claret.Best(Db([]), "t").top() == []
    entries = [[b"1-0-0", b"x"]]
    assert claret.Log(Db(entries), "l").tail() == [("1-0-0", b"x")]
    assert claret.Counter(Db([None, 9]), "c").bounds() == (None, 9)


def test_waiting_without_result_is_none():
    assert claret.Queue(Db(None), "q").wait(1) is None
    assert claret.Queue(Db([b"q", b"x"]), "q").wait(1) == b"x"


def test_in_a_transaction_replies_are_converted_when_they_come():
    reply = script.Deferred()
    taken = claret.Counter(Db(reply), "c").attempt(-1)
    reply._set(1)
    assert taken.value is True
    assert claret.Counter(Db(script.Deferred()), "c").add(1) is None


def test_with_asyncio_every_method_is_awaited():
    class AsyncDb(Db):
        async def execute_command(self, *words):
            return super().execute_command(*words)

    async def story():
        db = AsyncDb(1, b"OK", 4)
        assert await claret.Members(db, "s").has("a") is True
        assert await claret.Counter(db, "c").add(1) is None
        assert await claret.Members(db, "s").size() == 4

    asyncio.run(story())


def test_a_pipeline_answers_itself():
    class Pipe(Db):
        def execute_command(self, *words):
            super().execute_command(*words)
            return self

    pipe = Pipe(None)
    assert claret.Counter(pipe, "c").get() is pipe
