"""Locks that stay with a process: blocks of tokens, being asked for the lock, taking turns inside."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
import time

import pytest
from harness import until, work_in_threads
from redis.exceptions import ResponseError
from test_locks import Waiter, holders, waiters

import claret
from claret import aio

# A process that keeps a lock, and goes in whenever it is told to.
KEEPER = """
import sys
import claret

db = claret.Claret(port=int(sys.argv[1]), decode_responses=True)
kept = db.retained("lock", lease=float(sys.argv[2]), owner="keeper")
for _ in sys.stdin:
    with kept.lock() as lock:
        print(lock.token, flush=True)
    print("out", flush=True)
"""


@contextlib.contextmanager
def keeper(server, lease):
    """Such a process, and what it says when it is told to go in."""
    words = [sys.executable, "-c", KEEPER, str(server.port), str(lease)]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )

    def goes_in():
        process.stdin.write("in\n")
        token = int(process.stdout.readline())
        # Who is stopped inside has lost the lock there.
        assert process.stdout.readline() == "out\n"
        return token

    try:
        yield process, goes_in
    finally:
        process.kill()
        process.wait()


def commands(db):
    return db.info("stats")["total_commands_processed"]


def test_a_grant_has_as_many_tokens_as_were_asked_for(server, store):
    ask = store.execute_command
    first = ask("LOCK.ACQUIRE", "lock", "TOKENS", 100, "OWNER", "ann")
    assert [row[:2] for row in holders(store)] == [[first, "ann"]]
    assert ask("FENCE", "lock", first + 50, "SET", "data", "x")
    with pytest.raises(ResponseError, match="FENCED"):
        ask("FENCE", "lock", first + 49, "SET", "data", "y")
    assert ask("LOCK.RENEW", "lock", first) == 1
    assert ask("LOCK.RELEASE", "lock", first + 50) == 0, "it is known by its first token"
    assert ask("LOCK.RELEASE", "lock", first) == 1
    assert ask("LOCK.ACQUIRE", "lock") > first + 99
    for words in ("TOKENS 0", "TOKENS 4097", "TOKENS", "TOKENS x"):
        with pytest.raises(ResponseError):
            ask("LOCK.ACQUIRE", "other", *words.split())
    with pytest.raises(ResponseError):
        ask("LOCK.TRY", "other", "TOKENS", 2)
    assert not store.exists("other")


def test_a_holder_is_told_that_somebody_waits(server, store):
    ask = store.execute_command
    token = ask("LOCK.ACQUIRE", "lock")
    begun = time.monotonic()
    assert ask("LOCK.WANTED", "lock", token, "TIMEOUT", 100) is None
    assert time.monotonic() - begun >= 0.1
    told = []
    with server.client() as other:
        listens = threading.Thread(
            target=lambda: told.append(other.execute_command("LOCK.WANTED", "lock", token))
        )
        listens.start()
        time.sleep(0.1)
        assert not told and not waiters(store), "who listens does not wait for the lock"
        waiter = Waiter(server, "lock", "OWNER", "ben")
        listens.join(10)
        assert told == [1]
    assert ask("LOCK.WANTED", "lock", token) == 1
    assert ask("LOCK.RELEASE", "lock", token) == 1
    assert waiter.got() > token
    assert ask("LOCK.WANTED", "lock", token) == 0
    with store.pipeline() as pipe, pytest.raises(ResponseError, match="inside a transaction"):
        pipe.execute_command("LOCK.WANTED", "lock", token)
        pipe.execute()


def test_a_kept_lock_is_entered_again_without_a_word_to_the_server(server, store):
    with store.retained("lock", owner="ann") as kept:
        with kept.lock() as first:
            assert store.fenced(first).set("data", "0") is True
            begin = first.token
        with pytest.raises(claret.NotAcquired):
            first.token
        before = commands(store)
        for turn in range(1, 50):
            with kept.lock() as lock:
                lock.require()
                assert lock.token == begin + turn and not lock.lost and lock.left > 20
        # Asking for the figure, and the connection over which others are heard of.
        assert commands(store) - before < 10
        assert [row[:2] for row in holders(store)] == [[begin, "ann"]]

        @claret.transactional
        def add(tx, lock):
            tx.require(lock)
            tx.incr("count")

        with kept.lock() as lock:
            add(store, lock)
            with pytest.raises(RuntimeError):
                lock.acquire()
            with pytest.raises(claret.NotAcquired), kept.lock(timeout=0.05):
                pass
            assert not kept.lock().acquire(timeout=0)
    assert holders(store) == []
    with pytest.raises(RuntimeError, match="closed"):
        kept.lock().acquire()


def test_a_kept_lock_goes_to_whoever_else_wants_it_as_soon_as_it_is_left(server, store):
    with store.retained("lock") as kept, server.client(claret.Claret) as other:
        with kept.lock() as first:
            before = first.token
        begun = time.monotonic()
        with other.lock("lock", timeout=10) as lock:
            taken = lock.token
            assert taken > before
            assert time.monotonic() - begun < 2, "nobody was in"
            assert not kept.lock().acquire(timeout=0.1)
        with kept.lock() as again:
            assert again.token > taken
            waiter = Waiter(server, "lock", "OWNER", "ben")
            until(lambda: waiters(store) == ["ben"])
            time.sleep(0.2)
            assert waiter.token is None and again.left > 0
        token = waiter.got()
        assert holders(store)[0][1] == "ben"
        store.execute_command("LOCK.RELEASE", "lock", token)
        with kept.lock(timeout=10) as last:
            assert last.token > token


def test_threads_take_turns_inside_and_not_more_of_them_than_the_cohort_go_first(server, store):
    with store.retained("lock", cohort=5) as kept:
        stays, over = [], threading.Event()

        def work(number):
            if number == 4:
                try:
                    other = server.client(claret.Claret)
                    for _ in range(5):
                        time.sleep(0.1)
                        until(lambda: len(stays) > 20)
                        with other.lock("lock", timeout=30) as lock:
                            had = len(stays)
                            stays.append(("other", lock.token))
                            other.fenced(lock).set("data", "other")
                            assert len(stays) == had + 1
                finally:
                    over.set()
                return
            while not over.is_set():
                with kept.lock() as lock:
                    had = len(stays)
                    stays.append((number, lock.token))
                    if had % 10 == 0:
                        store.fenced(lock).set("data", number)
                    time.sleep(0.002)
                    assert len(stays) == had + 1, "two were in"

        work_in_threads(work, 5)
        tokens = [token for _, token in stays]
        assert tokens == sorted(set(tokens))
        assert [who for who, _ in stays].count("other") == 5
        # In turn: each of the four as often as the others, but for those who came first.
        counts = [[who for who, _ in stays].count(number) for number in range(4)]
        assert max(counts) - min(counts) < 15, counts


def test_a_cohort_has_an_end(server, store):
    with store.retained("lock", cohort=3) as kept:
        kept_in = kept.lock()
        assert kept_in.acquire()
        entered = []

        def work(number):
            if number == 6:
                time.sleep(0.3)
                until(lambda: waiters(store) == ["ben"])
                time.sleep(0.2)
                kept_in.release()
                return
            time.sleep(number / 50)
            with kept.lock(timeout=30) as lock:
                entered.append(lock.token)

        time.sleep(0.1)
        waiter = Waiter(server, "lock", "OWNER", "ben")
        taken = threading.Thread(
            target=lambda: entered.append(waiter.got())
            or store.execute_command("LOCK.RELEASE", "lock", waiter.token)
        )
        taken.start()
        work_in_threads(work, 7)
        taken.join()
        assert len(entered) == 7 and sorted(entered)[3] == waiter.token, entered


def test_a_block_that_is_used_up_is_replaced_by_another_one(server, store):
    with store.retained("lock", tokens=5) as kept:
        tokens = []
        for _ in range(12):
            with kept.lock() as lock:
                tokens.append(lock.token)
                store.fenced(lock).rpush("log", lock.token)
        assert tokens == sorted(set(tokens))
        starts = [a for a, b in zip(tokens[1:], tokens) if a != b + 1]
        assert len(starts) == 2, "three blocks"
        assert [int(token) for token in store.lrange("log", 0, -1)] == tokens


def test_a_process_that_stands_still_holds_others_up_for_its_lease_and_finds_it_lost(server, store):
    with keeper(server, 1.5) as (process, goes_in):
        first = goes_in()
        # While it lives the lease is renewed, and the lock given back when it is asked for.
        time.sleep(2)
        assert store.execute_command("LOCK.HELD", "lock", first) > 0
        assert goes_in() == first + 1
        process.send_signal(signal.SIGSTOP)
        with store.lock("lock", timeout=20) as lock:
            process.send_signal(signal.SIGCONT)
            taken = lock.token
            assert taken > first
        assert goes_in() > taken
        process.kill()
        process.wait()
        assert store.lock("lock", timeout=20).acquire()


def test_a_lock_that_is_taken_away_is_lost_for_whoever_is_in(server, store):
    with store.retained("lock") as kept:
        with pytest.raises(claret.LockLost), kept.lock() as lock:
            store.delete("lock")
            until(lambda: lock.lost)
            with pytest.raises(claret.LockLost):
                lock.require()
            # Others of the process get it anew, and what the first one writes late is refused.
            with kept.lock(timeout=10) as other:
                assert other.token > lock.token
                assert store.fenced(other).set("data", "new") is True
            with pytest.raises(claret.LockLost):
                store.fenced(lock).set("data", "old")
        assert store.get("data") == "new"


def test_tasks_take_turns_and_the_loss_of_the_lock_stops_who_is_in(server):
    async def story():
        db = aio.Claret(port=server.port, decode_responses=True)
        await db.flushall()
        async with db.retained("lock", owner="ann", cohort=4) as kept:
            stays = []

            async def work(number):
                for _ in range(20):
                    async with kept.lock() as lock:
                        had = len(stays)
                        stays.append((number, lock.token))
                        await asyncio.sleep(0.001)
                        assert len(stays) == had + 1

            async def other():
                for _ in range(5):
                    await asyncio.sleep(0.02)
                    async with db.lock("lock", timeout=30) as lock:
                        stays.append(("other", lock.token))
                        await db.fenced(lock).set("data", "x")

            await asyncio.gather(*(work(number) for number in range(5)), other())
            tokens = [token for _, token in stays]
            assert tokens == sorted(set(tokens)) and len(tokens) == 105
            with pytest.raises(claret.LockLost):
                async with kept.lock(timeout=10):
                    await db.delete("lock")
                    await asyncio.sleep(10)
        await db.aclose()

    asyncio.run(story())


def test_who_keeps_a_lock_is_asked_for_it_by_the_next_leader(make_cluster):
    cluster = make_cluster().start()
    leader, *others = cluster.nodes
    cluster.let_lead(leader)
    with contextlib.ExitStack() as open_ones:
        clients = [node.client(claret.Claret, socket_timeout=30) for node in others]
        first, second = [open_ones.enter_context(client) for client in clients]
        kept = open_ones.enter_context(first.retained("lock", lease=60))
        with kept.lock() as lock:
            token = lock.token
        leader.kill()
        with second.lock("lock", timeout=30) as lock:
            assert lock.token > token
        with kept.lock(timeout=30) as again:
            taken = again.token
        cluster.let_lead(others[1])
        begun = time.monotonic()
        with second.lock("lock", timeout=30) as lock:
            assert lock.token > taken
            assert time.monotonic() - begun < 20, "no lease had to end"


def test_an_adaptive_lock_stays_when_its_process_comes_again_and_goes_back_when_others_do(
    server, store
):
    with store.retained("lock", owner="ann", adaptive=True) as kept:
        with kept.lock():
            pass
        assert holders(store) == [], "nothing is known yet"
        for _ in range(8):
            with kept.lock() as lock:
                lock.require()
        assert [row[1] for row in holders(store)] == ["ann"], "nobody else wants it"
        before = commands(store)
        for _ in range(50):
            with kept.lock():
                pass
        assert commands(store) - before < 10
        stayed = 0
        with server.client(claret.Claret) as other:
            for turn in range(20):
                with other.lock("lock", timeout=10):
                    pass
                with kept.lock():
                    pass
                stayed += bool(holders(store))
        assert stayed <= 8, "others always want it next: it was tried once or twice more"
        with kept.lock(), pytest.raises(claret.NotAcquired), kept.lock(timeout=0.05):
            pass
    assert holders(store) == []


def test_threads_of_an_adaptive_lock_hand_it_on_and_others_get_their_turn(server, store):
    with store.retained("lock", adaptive=True, cohort=4) as kept:
        turns = []

        def work(number):
            for _ in range(20):
                with kept.lock() as lock:
                    turns.append(lock.token)

        with server.client(claret.Claret) as other:
            threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
            for thread in threads:
                thread.start()
            for _ in range(5):
                with other.lock("lock", timeout=20) as lock:
                    turns.append(lock.token)
            for thread in threads:
                thread.join(30)
    assert len(turns) == 85 and turns == sorted(turns)


def test_an_adaptive_lock_of_tasks_stays_and_goes_back_as_that_of_threads(server):
    async def course():
        async with aio.Claret(port=server.port, decode_responses=True) as db:
            async with db.retained("lock", owner="ann", adaptive=True) as kept:
                async with kept.lock():
                    pass
                assert await db.execute_command("LOCK.HOLDERS", "lock") == []
                for _ in range(8):
                    async with kept.lock():
                        pass
                assert await db.execute_command("LOCK.HOLDERS", "lock") != []
                async with db.lock("lock", timeout=10) as lock:
                    assert lock.token > 0

    asyncio.run(course())


def test_a_waiter_that_gives_up_just_when_the_lock_is_left_to_it_leaves_it_to_others(server):
    async def course():
        async with aio.Claret(port=server.port, decode_responses=True) as db:
            async with db.retained("lock", adaptive=True) as kept:
                inside = kept.lock()
                await inside.acquire()

                async def waits():
                    async with kept.lock():
                        pass

                waiter = asyncio.ensure_future(waits())
                await asyncio.sleep(0.05)
                leaving = asyncio.ensure_future(inside.release())
                # It has seen that somebody waits, who has not been told yet.
                await asyncio.sleep(0)
                waiter.cancel()
                await leaving
                with contextlib.suppress(asyncio.CancelledError):
                    await waiter
                async with db.lock("lock", timeout=5) as lock:
                    assert lock.token > 0

    asyncio.run(course())
