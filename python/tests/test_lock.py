"""Locks and sections: the commands sent, the treatment of replies, and when a lock counts as lost."""

import asyncio
import time

import pytest
from fakes import BREAK, AsyncClient, Client, error
from redis.backoff import NoBackoff
from redis.retry import Retry

import claret
from claret import errors, hold

POLICY = claret.RetryPolicy(pause_s_max=0, deadline_s=5)
ASK = "LOCK.ACQUIRE lock LEASE 30000 OWNER me"
RENEW = "LOCK.RENEW lock 7 LEASE 30000"
RELEASE = "LOCK.RELEASE lock 7"


class Db(Client):
    """A client with prepared replies, and others for single commands."""

    def __init__(self, *replies, others=()):
        super().__init__(*replies)
        self.others, self.said = list(others), []

    def execute_command(self, *args, **options):
        self.said.append(" ".join(map(str, args)))
        reply = self.others.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


class AsyncDb(AsyncClient):
    """:class:`Db` for asyncio."""

    def __init__(self, *replies, others=()):
        super().__init__(*replies)
        self.others, self.said = list(others), []

    async def execute_command(self, *args, **options):
        return Db.execute_command(self, *args, **options)


def test_a_lock_is_asked_for_under_a_number_and_given_back():
    db = Db([b"OK", 7, b"OK", 1], others=[b"OK"])
    with db.lock("lock", owner="me", timeout=2.5, policy=POLICY) as lock:
        assert lock.token == 7 and not lock.lost and 26 < lock.left < 27
        lock.require()
        assert db.fenced(lock).set("a", 1) is True
    words = "LOCK.ACQUIRE lock LEASE 30000 TIMEOUT 2500 OWNER me"
    assert db.sent == [["CLIENT REQUEST me-1 1", words], ["CLIENT REQUEST me-1 2", RELEASE]]
    assert db.said == ["FENCE lock 7 SET a 1"]
    assert (lock.left, lock.lost) == (0, False)
    with pytest.raises(claret.NotAcquired):
        lock.token
    with pytest.raises(claret.LockLost):
        lock.require()


def test_what_is_shared_and_what_is_tried():
    db = Db([b"OK", None, b"OK", 8, b"OK", 1])
    assert not db.lock("lock", lease=0.5, owner="me", shared=True).acquire(timeout=0)
    lock = db.lock("lock", owner="me", limit=3)
    assert lock.acquire() and lock.release() and not lock.release()
    words = [sent[1] for sent in db.sent]
    assert words[:2] == ["LOCK.TRY lock LEASE 500 OWNER me SHARED", ASK + " LIMIT 3"]
    with pytest.raises(ValueError, match="shared or has a limit"):
        db.lock("lock", shared=True, limit=3)


def test_a_lock_with_next_says_so_and_is_not_checked_by_the_server():
    ask = ASK.replace(" OWNER", " NEXT OWNER")
    once = ask.replace("NEXT", "NEXT TIMEOUT 1")
    db = Db([b"OK", 7, b"OK", 1, b"OK", None], others=[b"OK"])
    with db.lock("lock", owner="me", next=True) as lock:
        db.fenced(lock).set("a", 1)
        with pytest.raises(ValueError, match="fence"):
            db.snapshot().require(lock)
    # A request that does not wait cannot be part of a deadlock cycle, whatever its options.
    assert not db.lock("lock", owner="me", next=True, detect=True).acquire(timeout=0)
    assert [sent[1] for sent in db.sent] == [ask, RELEASE, once]
    assert db.said == ["FENCE lock 7 SET a 1"]

    async def story():
        db = AsyncDb([b"OK", 7, b"OK", 1])
        async with db.lock("lock", owner="me", next=True) as lock:
            with pytest.raises(ValueError, match="fence"):
                await db.snapshot().require(lock)
        assert [sent[1] for sent in db.sent] == [ask, RELEASE]

    asyncio.run(story())
    for wrong in ({"shared": True}, {"limit": 3}, {"near": True}):
        for client in (Db(), AsyncDb()):
            with pytest.raises(ValueError):
                client.lock("lock", next=True, **wrong)


def test_a_grant_that_was_asked_for_again_is_renewed_before_it_is_believed():
    db = Db([b"OK", BREAK], [b"OK", 7, b"OK", 1], others=[1])
    with db.lock("lock", owner="me", policy=POLICY) as lock:
        assert lock.token == 7
    assert db.sent[:2] == [["CLIENT REQUEST me-1 1", ASK]] * 2
    assert db.said == [RENEW]
    # It was granted to the broken connection, and revoked: the next grant has another number.
    db = Db([b"OK", BREAK], [b"OK", 7, b"OK", 9, b"OK", 1], others=[0])
    with db.lock("lock", owner="me", policy=POLICY) as lock:
        assert lock.token == 9
    assert [sent[0][-4:] for sent in db.sent] == ["-1 1", "-1 1", "-1 2", "-1 3"]


def test_a_release_whose_reply_was_lost_has_the_same_answer_again():
    for answer in (1, 0):
        db = Db([b"OK", 7, b"OK", BREAK], [b"OK", answer])
        lock = db.lock("lock", owner="me", policy=POLICY)
        assert lock.acquire() and lock.release() is bool(answer)
        assert db.sent[1:] == [["CLIENT REQUEST me-1 2", RELEASE]] * 2

    async def story(answer):
        db = AsyncDb([b"OK", 7, b"OK", BREAK], [b"OK", answer])
        lock = db.lock("lock", owner="me", policy=POLICY)
        assert await lock.acquire() and await lock.release() is bool(answer)
        assert db.sent[1:] == [["CLIENT REQUEST me-1 2", RELEASE]] * 2

    asyncio.run(story(1))
    asyncio.run(story(0))


def test_a_lock_whose_renewals_are_ended_is_lost():
    db = Db([b"OK", 7, b"OK", 0])
    lock = db.lock("lock", lease=0.3)
    assert lock.acquire()
    lock.stop_renewing()
    time.sleep(0.3)
    assert lock.lost and db.said == [] and not lock.release()

    async def story():
        db = AsyncDb([b"OK", 7, b"OK", 0])
        with pytest.raises(claret.LockLost):
            async with db.lock("lock", lease=0.3) as lock:
                lock.stop_renewing()
                await asyncio.sleep(60)
        assert db.said == []

    asyncio.run(story())


def test_a_refusal_is_raised_and_a_server_that_is_gone_is_given_up():
    db = Db([b"OK", error("NOPERM no")])
    with pytest.raises(Exception, match="NOPERM"):
        db.lock("lock", policy=POLICY).acquire()
    db = Db(*[[b"OK", BREAK]] * 3)
    with pytest.raises(claret.CommitUnknown, match="gone"):
        db.lock("lock", policy=claret.RetryPolicy(deadline_s=0)).acquire()
    assert db.connection_pool.out == 0


def test_a_fenced_command_that_comes_too_late_says_so():
    db = Db([b"OK", 7, b"OK", 1], others=[error("FENCED a larger token of this lock was seen")])
    with db.lock("lock") as lock, pytest.raises(claret.LockLost, match="larger token"):
        lock.fence("SET", "a", 1)


def test_a_lock_that_cannot_be_renewed_is_lost_before_its_lease_ends():
    db = Db([b"OK", 7, b"OK", 0], others=[BREAK] * 100)
    lock = db.lock("lock", lease=0.6, policy=claret.RetryPolicy(deadline_s=0))
    begun = time.monotonic()
    with pytest.raises(claret.LockLost), lock:
        while not lock.lost:
            time.sleep(0.01)
    assert 0.5 < time.monotonic() - begun < 0.6
    assert db.said[0] == "LOCK.RENEW lock 7 LEASE 600" and len(db.said) > 3


def test_a_lock_that_another_client_has_is_lost_at_once():
    db = Db([b"OK", 7, b"OK", 0], others=[1, 0])
    lock = db.lock("lock", lease=0.3)
    assert lock.acquire()
    time.sleep(0.25)
    assert lock.lost and not lock.release()


def test_a_task_whose_lock_is_lost_is_stopped():
    async def story():
        db = AsyncDb([b"OK", 7, b"OK", 0], others=[1, 0])
        begun = time.monotonic()
        with pytest.raises(claret.LockLost):
            async with db.lock("lock", lease=0.6):
                await asyncio.sleep(60)
        assert time.monotonic() - begun < 5
        assert db.sent[-1][1] == RELEASE

    asyncio.run(story())


def test_a_section_that_is_given_up_after_a_lost_reply_may_have_happened():
    at_once = claret.RetryPolicy(deadline_s=0)
    with pytest.raises(claret.CommitUnknown, match="gone"):
        Db(*[[b"OK", BREAK]] * 3).section("lock", policy=at_once).incr("n")
    # Another error ends the attempts, but an earlier one may have taken effect.
    with pytest.raises(claret.CommitUnknown, match="NOPERM"):
        Db([b"OK", BREAK], [error("NOPERM no"), *[b"OK"] * 4]).section("lock").incr("n")
    with pytest.raises(claret.CommitUnknown, match="not free"):
        Db([b"OK", BREAK], [b"OK", b"OK", *[b"QUEUED"] * 2, None]).section("lock").incr("n")

    async def story(*replies):
        await AsyncDb(*replies).section("lock", policy=at_once).incr("n")

    with pytest.raises(claret.CommitUnknown, match="gone"):
        asyncio.run(story(*[[b"OK", BREAK]] * 3))


def test_a_section_that_was_never_sent_did_not_happen():
    busy = [b"OK", b"OK", *[b"QUEUED"] * 2, error("BUSY later")]
    with pytest.raises(claret.BusyError):
        Db(busy * 3).section("lock", policy=claret.RetryPolicy(deadline_s=0)).incr("n")
    with pytest.raises(claret.NotAcquired):
        Db(busy + busy[:4] + [None]).section("lock").incr("n")
    unreached = claret.Claret(host="127.0.0.1", port=1, retry=Retry(NoBackoff(), 0))
    with pytest.raises(type(BREAK)) as caught:
        unreached.section("lock", policy=claret.RetryPolicy(deadline_s=0)).incr("n")
    assert not isinstance(caught.value, claret.CommitUnknown)


def test_attempts_end_although_each_takes_long_to_find_no_server():
    failures = hold.Failures(claret.RetryPolicy(deadline_s=5))
    begun = time.monotonic()
    failures.pause(claret.NotReached("no"), begun - 2)
    # As time goes by.
    failures._since -= 6
    for found in (claret.NotReached("no"), errors.NoLeader("none")):
        with pytest.raises(type(found)):
            failures.pause(found, begun - 2)
    # A place in the queue was held for long: the server was there.
    assert failures.pause(claret.CommitUnknown("gone"), begun - 2) >= 0


def test_a_task_that_gives_up_waiting_closes_its_connection():
    class Silent(AsyncDb):
        def waiting_lane(self, wait_s):
            lane = super().waiting_lane(wait_s)

            async def read():
                await asyncio.sleep(60)

            lane._read = read
            return lane

    async def story():
        db = Silent([b"OK", 7])
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(db.lock("lock").acquire(), 0.05)
        assert db.connection_pool.out == 0 and not db.connection_pool._connections

    asyncio.run(story())


def test_how_long_a_lock_is_relied_on():
    lock = hold.Hold("lock", 10, "me", False, None, None)
    asked = time.monotonic()
    assert not lock.is_old(asked, False) and lock.is_old(asked, True)
    assert lock.is_old(asked - 1.1, False), "it was waited for"
    lock.take(7, asked - 8)
    assert 0 < lock.left < 1 and lock.pause(False) == pytest.approx(lock.left, abs=0.01)
    lock.take(7, asked - 9)
    assert lock.lost
    assert lock.wait_s(None, asked) is None and lock.wait_s(0, asked) == 0
    assert lock.wait_s(1, asked - 5) == 0.001, "nought would be for ever"
