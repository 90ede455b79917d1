"""Interactive transactions that keep others waiting, and those that are undone as a whole."""

import asyncio
import contextlib
import threading
import time
import uuid

import pytest
from harness import Server
from redis.exceptions import ExecAbortError, ResponseError

import claret
from claret import aio

IDLE_S = 0.7
LASTS_S = 2.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with little patience."""
    flags = ["--transaction-idle-timeout", f"{round(IDLE_S * 1000)}ms"]
    flags += ["--transaction-timeout", f"{round(LASTS_S)}s"]
    shared = Server(tmp_path_factory.mktemp("server"), *flags).start()
    yield shared
    assert shared.alive(), f"the server has ended: {shared.said()[-4000:]}"
    shared.kill()


@contextlib.contextmanager
def connection(server, name=None):
    """A connection of its own, as a function of a command's words."""
    with server.client(single_connection_client=True) as db:
        if name:
            db.client_setname(name)
        yield db.execute_command


class Writer:
    """Writes a key on another connection, and knows how long that took."""

    def __init__(self, server, key):
        self.took_s = None
        self._thread = threading.Thread(target=self._write, args=(server, key))
        self._thread.start()

    def _write(self, server, key):
        with server.client() as db:
            since = time.monotonic()
            # Another value each time: to write what is there conflicts with no reader.
            db.set(key, uuid.uuid4().hex)
            self.took_s = time.monotonic() - since

    def done(self):
        return self.took_s is not None

    def join(self):
        self._thread.join(20)
        assert self.done(), "the writer still waits"
        return self.took_s


def test_who_sends_nothing_is_ended_after_the_time_that_was_set(server, store):
    assert store.config_get("transaction_*") == {
        "transaction_idle_timeout": "700",
        "transaction_timeout": "2000",
    }
    with connection(server) as ask:
        ask("TXN", "BEGIN")
        ask("GET", "k")
        assert IDLE_S * 0.9 < Writer(server, "k").join() < IDLE_S + 1
        with pytest.raises(ResponseError, match=r"TXNABORT .*0\.7 s \(transaction_idle_timeout\)"):
            ask("GET", "k")


def test_who_works_elsewhere_is_not_idle(server, store):
    with connection(server) as ask:
        ask("TXN", "BEGIN")
        ask("GET", "k")
        writer = Writer(server, "k")
        until = time.monotonic() + 2 * IDLE_S
        count = 0
        while time.monotonic() < until:
            ask("GET", f"other:{count}")
            count += 1
            time.sleep(IDLE_S / 4)
        assert not writer.done()
        assert ask("TXN", "COMMIT") == []
        writer.join()


def test_who_is_not_waited_for_may_be_silent(server, store):
    with connection(server) as ask:
        ask("TXN", "BEGIN")
        ask("GET", "k")
        time.sleep(2 * IDLE_S)
        assert ask("GET", "k") is None and ask("TXN", "COMMIT") == []


def test_a_transaction_can_say_for_itself_how_long_it_is_silent(server, store):
    with connection(server) as ask:
        ask("TXN", "BEGIN", "IDLE", 0)
        ask("GET", "k")
        writer = Writer(server, "k")
        time.sleep(2 * IDLE_S)
        assert not writer.done() and ask("TXN", "COMMIT") == []
        writer.join()
    # A program that hides the error does not leave the block as if it had committed.
    with pytest.raises(claret.ConflictError, match="0.1 s"), store.begin(idle_timeout=0.1) as tx:
        tx.get("k")
        assert Writer(server, "k").join() < IDLE_S
        with pytest.raises(claret.ConflictError, match="0.1 s"):
            tx.get("k")


def test_who_goes_on_using_a_hot_key_is_ended_as_well(server, store):
    with connection(server) as ask:
        ask("TXN", "BEGIN")
        ask("GET", "k")
        writer = Writer(server, "k")
        with pytest.raises(ResponseError, match=r"TXNABORT .*2 s \(transaction_timeout\)"):
            while True:
                ask("GET", "k")
                time.sleep(0.05)
        assert LASTS_S * 0.8 < writer.join() < LASTS_S + 1
        ask("TXN", "ABORT")
        ask("TXN", "BEGIN", "TIMEOUT", 0)
        ask("GET", "k")
        writer, until = Writer(server, "k"), time.monotonic() + LASTS_S + 0.5
        while time.monotonic() < until:
            ask("GET", "k")
            time.sleep(0.05)
        assert not writer.done() and ask("TXN", "COMMIT") == []
        writer.join()


def test_a_client_that_waits_can_see_for_which_one(server, store):
    with connection(server, "cart-service") as ask, connection(server) as other:
        client = ask("CLIENT", "ID")
        ask("TXN", "BEGIN")
        ask("GET", "k")
        writer = Writer(server, "k")
        time.sleep(0.2)
        waiting, waited_ms, holders = other("TXN", "HOLDERS", "k")
        assert waiting == 1 and 100 < waited_ms < 1000
        assert len(holders) == 1
        assert f" id={client} " in holders[0] and " name=cart-service " in holders[0]
        assert " kind=txn cmd=get " in holders[0]
        assert ask("TXN", "COMMIT") == []
        writer.join()
        assert other("TXN", "HOLDERS", "k") == [0, 0, []]


def test_two_who_read_the_same_key_are_both_named(server, store):
    with connection(server, "one") as one, connection(server, "two") as two:
        for ask in (one, two):
            ask("TXN", "BEGIN")
            ask("GET", "k")
        with connection(server) as other:
            lines = other("TXN", "HOLDERS", "k")[2]
        assert {line.split(" name=")[1].split()[0] for line in lines} == {"one", "two"}


def test_words_that_cannot_be_are_refused(server, store):
    with connection(server) as ask:
        for words in ("IDLE", "IDLE -1", "TIMEOUT x", "TIMEOUT 86400001", "STRICTLY", "IDLE 5 5"):
            with pytest.raises(ResponseError):
                ask("TXN", "BEGIN", *words.split())
        with pytest.raises(ResponseError, match="takes a key"):
            ask("TXN", "HOLDERS")


def test_many_open_transactions_that_are_silent_delay_no_other(make_server):
    server = make_server("--transaction-idle-timeout", "0", workers=1, shards=1).start()
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            ask = stack.enter_context(connection(server))
            ask("TXN", "BEGIN")
            ask("GET", "k")
        time.sleep(0.2)
        ask, took = stack.enter_context(connection(server)), []
        for _ in range(20):
            since = time.monotonic()
            ask("TXN", "BEGIN")
            took.append(time.monotonic() - since)
            ask("TXN", "ABORT")
        assert sorted(took)[10] < 0.05, took


# Commands of a transaction of which one is refused for its value or for its words.
REFUSED = {
    "value": [["SET", "a", "1"], ["LPUSH", "text", "x"], ["SADD", "s", "m"]],
    "number": [["SADD", "s", "m"], ["INCR", "text"], ["SET", "a", "1"]],
    "own write": [["SET", "n", "x"], ["INCR", "n"], ["SET", "a", "1"]],
    "words": [["SET", "a", "1"], ["SET", "a"], ["SADD", "s", "m"]],
}


@pytest.mark.parametrize("how", REFUSED)
@pytest.mark.parametrize("blind", [[], ["BLIND"]], ids=["now", "blind"])
def test_a_strict_transaction_is_undone_if_a_command_is_refused(
    server, store, how, blind
):
    store.set("text", "words")
    with connection(server) as ask:
        ask("TXN", "BEGIN", "STRICT", *blind)
        for words in REFUSED[how]:
            with contextlib.suppress(ResponseError):
                ask(*words)
        with pytest.raises(ExecAbortError, match="discarded because of previous errors"):
            ask("TXN", "COMMIT")
        assert ask("GET", "text") == "words"
    assert sorted(store.keys()) == ["text"]


def test_a_strict_transaction_takes_effect_if_nothing_is_refused(server, store):
    with connection(server) as ask:
        ask("TXN", "BEGIN", "STRICT", "BLIND")
        for words in (["SET", "a", "1"], ["INCR", "a"], ["LPUSH", "l", "x"], ["COUNTER.ADD", "c", 5]):
            ask(*words)
        assert ask("TXN", "COMMIT")[:3] == ["OK", 2, 1]
    assert (store.get("a"), store.llen("l")) == ("2", 1)


def test_without_strict_the_rest_takes_effect(server, store):
    store.set("text", "words")
    with connection(server) as ask:
        ask("TXN", "BEGIN", "BLIND")
        ask("LPUSH", "text", "x")
        ask("SET", "a", "1")
        replies = ask("TXN", "COMMIT")
        assert isinstance(replies[0], ResponseError) and replies[1] == "OK"
    assert store.get("a") == "1"


def test_strict_ones_that_count_do_not_wait_for_each_other(server, store):
    def step(tx):
        tx.incrby("hot:1", 1)
        tx.incrby("hot:2", 1)

    def work():
        with server.client(claret.Claret) as db:
            for _ in range(25):
                db.run(step)

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert store.mget("hot:1", "hot:2") == ["200", "200"]


def test_a_run_is_undone_as_a_whole_unless_it_says_otherwise(server, store):
    store.set("text", "words")

    def step(tx):
        tx.set("a", 1)
        tx.lpush("text", "x")

    for at_once in (False, True):
        with pytest.raises((claret.Undone, ResponseError), match="WRONGTYPE"):
            store.run(step, now=at_once)
        assert store.get("a") is None
    with pytest.raises(claret.WriteRefused):
        store.run(step, strict=False)
    assert store.get("a") == "1"

    async def story():
        async with server.client(aio.Claret, retry=None) as db:
            async def step(tx):
                tx.set("b", 1)
                tx.lpush("text", "x")

            with pytest.raises(claret.Undone, match="WRONGTYPE"):
                await db.run(step)

    asyncio.run(story())
    assert store.get("b") is None
