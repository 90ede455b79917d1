"""Elections and barriers: the commands sent, and the treatment of replies."""

import asyncio

import pytest
from fakes import BREAK, error
from redis.exceptions import ResponseError
from test_lock import POLICY, AsyncDb, Db

import claret

CAMPAIGN = "ELECTION.CAMPAIGN jobs here LEASE 30000 OWNER me"
OBSERVE = "ELECTION.OBSERVE jobs AFTER {} TIMEOUT {}"
NOBODY = [None, None, None, 0, 0]
MEET = "BARRIER.WAIT step 3 OWNER me"


def test_a_leader_is_elected_says_something_and_resigns():
    leads = [7, "me", "there", 1500, 9]
    db = Db([b"OK", 7, b"OK", 1], others=[9, leads, None])
    with db.election("jobs", "here", owner="me", policy=POLICY) as election:
        assert election.token == 7 and election.value == "here"
        assert election.proclaim("there") == 9 and election.value == "there"
        assert election.leader() == claret.Leader(7, "me", "there", 1.5, 9)
        assert election.leader() is None
    assert [sent[1] for sent in db.sent] == [CAMPAIGN, "LOCK.RELEASE jobs 7"]
    assert db.said[0] == "ELECTION.PROCLAIM jobs 7 there"


def test_a_former_leader_learns_that_it_does_not_lead():
    db = Db([b"OK", 7, b"OK", 0], others=[0])
    election = db.election("jobs", "here", policy=POLICY)
    assert election.campaign(timeout=2)
    with pytest.raises(claret.LockLost):
        election.proclaim("there")
    assert election.lost and election.value == "here" and not election.resign()
    with pytest.raises(ValueError):
        db.election("jobs", policy=POLICY).campaign()


def test_an_observation_continues_over_broken_connections():
    first, second = [7, "ann", "a", 10, 7], [7, "ann", "b", 10, 9]
    db = Db([first, BREAK], [None, second, NOBODY, error("WRONGTYPE of another kind")])
    observation = db.election("jobs", policy=POLICY).observe()
    assert next(observation).value == "a"
    assert (next(observation).value, next(observation)) == ("b", None)
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        next(observation)
    words = [OBSERVE.format(seen, 60_000) for seen in (0, 7, 7, 7, 9, 0)]
    assert db.sent == [[one] for one in words]


def test_an_observation_ends_when_nothing_has_been_new_for_so_long():
    db = Db([None])
    assert list(db.election("jobs", policy=POLICY).observe(timeout=0)) == []


def test_a_party_is_asked_again_under_its_number():
    db = Db([BREAK], [b"OK", 7])
    assert db.barrier("step", 3, owner="me", policy=POLICY).wait() == 7
    assert db.sent == [["CLIENT REQUEST me-1 1", MEET]] * 2
    db = Db([b"OK", None, b"OK", 0])
    with pytest.raises(claret.NotAcquired, match="3 parties"):
        db.barrier("step", 3, owner="me", policy=POLICY).wait(timeout=1.5)
    assert db.sent[0] == ["CLIENT REQUEST me-1 1", f"{MEET} TIMEOUT 1500"]
    assert db.sent[1] == ["CLIENT REQUEST me-1 1", "LOCK.RELEASE step 0"]
    assert len(db.sent) == 2
    # The first request may still count.
    db = Db([BREAK], [b"OK", None])
    with pytest.raises(claret.CommitUnknown):
        db.barrier("step", 3, owner="me", policy=POLICY).wait(timeout=60)


def test_an_arrival_on_its_way_to_the_log_counts_although_its_time_is_over():
    assert Db([b"OK", None, b"OK", 9]).barrier("step", 3, owner="me").wait(timeout=1) == 9
    with pytest.raises(claret.NotAcquired):
        Db([b"OK", None, b"OK", error("NOPERM no")]).barrier("step", 3).wait(timeout=1)
    for unanswered in (BREAK, claret.Cancelled("no"), claret.ClientClosed("no")):
        with pytest.raises(claret.CommitUnknown, match="3 parties"):
            Db([b"OK", None, b"OK", unanswered]).barrier("step", 3).wait(timeout=1)

    async def story(*replies):
        return await AsyncDb([b"OK", None, b"OK", *replies]).barrier("step", 3).wait(timeout=1)

    assert asyncio.run(story(9)) == 9
    with pytest.raises(claret.NotAcquired):
        asyncio.run(story(0))


def test_a_refusal_behind_a_lost_reply_leaves_an_arrival_unknown():
    lost_and_refused = [BREAK], [b"OK", error("NOPERM no")]
    with pytest.raises(claret.CommitUnknown, match="NOPERM"):
        Db(*lost_and_refused).barrier("step", 3, policy=POLICY).wait()
    with pytest.raises(claret.CommitUnknown, match="NOPERM"):
        asyncio.run(AsyncDb(*lost_and_refused).barrier("step", 3, policy=POLICY).wait())
    with pytest.raises(ResponseError, match="NOPERM") as caught:
        Db([b"OK", error("NOPERM no")]).barrier("step", 3, policy=POLICY).wait()
    assert not isinstance(caught.value, claret.CommitUnknown)


def test_what_was_never_sent_cannot_be_an_arrival():
    db = Db([error("BUSY later"), None, b"OK", None, b"OK", 0])
    with pytest.raises(claret.NotAcquired):
        db.barrier("step", 3, policy=POLICY).wait(timeout=60)


def test_the_same_of_asyncio():
    async def work():
        db = AsyncDb([b"OK", 7, b"OK", 1], others=[9, None])
        async with db.election("jobs", "here", owner="me", policy=POLICY) as election:
            assert await election.proclaim("there") == 9
            assert await election.leader() is None
        assert [sent[1] for sent in db.sent] == [CAMPAIGN, "LOCK.RELEASE jobs 7"]
        db = AsyncDb([[7, "ann", "a", 10, 7], BREAK], [NOBODY, *[None] * 10_000])
        seen = [leader async for leader in db.election("jobs", policy=POLICY).observe(timeout=0.1)]
        assert [leader and leader.value for leader in seen] == ["a", None]
        db = AsyncDb([BREAK], [b"OK", 7])
        assert await db.barrier("step", 3, owner="me", policy=POLICY).wait() == 7
        assert db.connection_pool.sent == [["CLIENT REQUEST me-1 1", MEET]] * 2

    asyncio.run(work())
