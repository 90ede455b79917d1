"""Elections: who leads with which value, who follows that, and what becomes of both when somebody dies."""

import asyncio
import threading
import time

import pytest
from harness import until
from redis.exceptions import ConnectionError, ResponseError
from test_locks import Waiter, holders, waiters

import claret
from claret import aio


class Follower(threading.Thread):
    """Somebody who follows an election, and keeps what it was told."""

    def __init__(self, db, name="jobs", quiet_s=30):
        super().__init__(daemon=True)
        self.election = db.election(name)
        self.quiet_s = quiet_s
        self.seen = []
        self.error = None
        self.start()

    def run(self):
        try:
            for leader in self.election.observe(timeout=self.quiet_s):
                self.seen.append(leader)
                if leader is not None and leader.value == "the end":
                    return
        except (claret.ClaretError, ConnectionError, ResponseError) as error:
            self.error = error

    def values(self):
        return [leader and leader.value for leader in self.seen]

    def done(self):
        self.join(40)
        assert not self.is_alive(), self.seen
        assert self.error is None, self.error
        versions = [leader.version for leader in self.seen if leader is not None]
        assert versions == sorted(set(versions)), "versions go forward"
        return self.values()


def test_with_plain_words_a_leader_is_elected_and_followed(server, store):
    token = store.execute_command("ELECTION.CAMPAIGN", "jobs", "a:1", "OWNER", "ann")
    row = store.execute_command("ELECTION.LEADER", "jobs")
    assert row[:3] == [token, "ann", "a:1"] and 29_000 < row[3] <= 30_000 and row[4] == token
    assert holders(store, "jobs")[0][:3] == [token, "ann", "alone"]
    assert store.type("jobs") == "lock" and store.execute_command("LOCK.HELD", "jobs", token) > 0
    # Whoever waits for the lock and whoever campaigns stand in one queue.
    waiting = Waiter(server, "jobs", "OWNER", "ben")
    until(lambda: waiters(store, "jobs") == ["ben"])
    assert store.execute_command("ELECTION.CAMPAIGN", "jobs", "c", "TIMEOUT", 50) is None
    assert store.execute_command("ELECTION.OBSERVE", "jobs", "AFTER", token, "TIMEOUT", 50) is None
    version = store.execute_command("ELECTION.PROCLAIM", "jobs", token, "a:2")
    row = store.execute_command("ELECTION.OBSERVE", "jobs", "AFTER", token)
    assert version > token and (row[2], row[4]) == ("a:2", version)
    assert store.execute_command("FENCE", "jobs", token, "SET", "x", 1)
    assert store.execute_command("ELECTION.RESIGN", "jobs", token) == 1
    assert waiting.got() > version
    assert store.execute_command("ELECTION.LEADER", "jobs") is None, "who holds it has no value"
    row = store.execute_command("ELECTION.OBSERVE", "jobs", "AFTER", version)
    assert row == [None, None, None, 0, 0]
    assert store.execute_command("ELECTION.PROCLAIM", "jobs", token, "late") == 0
    assert store.execute_command("ELECTION.RESIGN", "jobs", token) == 0
    with pytest.raises(ResponseError, match="at most 4096 bytes"):
        store.execute_command("ELECTION.CAMPAIGN", "k", "x" * 4097)
    with pytest.raises(ResponseError, match="syntax"):
        store.execute_command("ELECTION.CAMPAIGN", "k", "x", "SHARED")
    store.set("text", "x")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        store.execute_command("ELECTION.OBSERVE", "text")


def test_followers_see_every_leader_and_what_it_says(server):
    with server.client(claret.Claret) as db, server.client(claret.Claret) as other:
        db.flushall()
        followers = [Follower(other), Follower(db)]
        with db.election("jobs", "a:1", lease=10, owner="ann") as ann:
            until(lambda: all(f.values() == ["a:1"] for f in followers))
            leader = ann.leader()
            assert leader[:3] == (ann.token, "ann", "a:1") and 9 < leader.left <= 10
            assert ann.proclaim("a:2") > ann.token and ann.value == "a:2"
            until(lambda: all(f.values() == ["a:1", "a:2"] for f in followers))
            ann.require()
            db.run(lambda tx: (tx.require(ann), tx.set("done", "ann")))
        until(lambda: all(f.values()[2:] == [None] for f in followers))
        assert db.election("jobs").leader() is None
        ben = other.election("jobs", "b:1", lease=10)
        assert ben.campaign(timeout=5)
        until(lambda: all(f.values()[3:] == ["b:1"] for f in followers))
        db.delete("jobs")
        with pytest.raises(claret.LockLost):
            ben.proclaim("late")
        assert ben.lost and not ben.resign()
        with db.election("jobs", "the end"):
            told = [follower.done() for follower in followers]
        assert all(values[:4] == ["a:1", "a:2", None, "b:1"] for values in told)
        with pytest.raises(ValueError):
            db.election("jobs").campaign()


def test_a_leader_that_is_gone_is_followed_by_the_next_one(server, store):
    with server.client(claret.Claret) as db:
        db.flushall()
        follower = Follower(db)
        store.execute_command("ELECTION.CAMPAIGN", "jobs", "dies", "LEASE", 700)
        begun = time.monotonic()
        with db.election("jobs", "the end", lease=5):
            assert 0.5 < time.monotonic() - begun < 5
            assert follower.done()[0] == "dies"


def test_an_election_of_asyncio(server):
    async def work():
        async with server.client(aio.Claret) as db:
            await db.flushall()
            seen = []

            async def follow():
                async for leader in db.election("jobs").observe(timeout=20):
                    seen.append(leader and leader.value)
                    if seen[-1] == "the end":
                        return

            following = asyncio.ensure_future(follow())
            async with db.election("jobs", "here", owner="ann") as ann:
                leader = await ann.leader()
                assert (leader.owner, leader.token) == ("ann", ann.token)
                while not seen:
                    await asyncio.sleep(0.01)
                assert await ann.proclaim("the end") > leader.version
            await following
            assert seen == ["here", "the end"]
            none = [leader async for leader in db.election("nothing").observe(timeout=0.1)]
            assert none == []

    asyncio.run(work())


def test_a_restart_keeps_the_leader_and_its_value(make_server):
    server = make_server().start()
    with server.client(claret.Claret) as db:
        token = db.execute_command("ELECTION.CAMPAIGN", "jobs", "a:1", "LEASE", 60_000)
        version = db.execute_command("ELECTION.PROCLAIM", "jobs", token, "a:2")
        server.restart()
        leader = db.election("jobs").leader()
        assert (leader.token, leader.value, leader.version) == (token, "a:2", version)
        assert db.execute_command("ELECTION.PROCLAIM", "jobs", token, "a:3") > version


def test_leaders_and_followers_go_on_with_the_next_leader_of_the_shard(make_cluster):
    cluster = make_cluster().start()
    leader, *others = cluster.nodes
    cluster.let_lead(leader)
    stores = [others[n % 2].client(claret.Claret, socket_timeout=30) for n in range(4)]
    first, second, *watching = stores
    followers = [Follower(db) for db in watching]
    ann = first.election("jobs", "ann", lease=20)
    assert ann.campaign()
    elected = []
    ben = second.election("jobs", "the end", lease=20)
    waiting = threading.Thread(target=lambda: elected.append(ben.campaign()), daemon=True)
    waiting.start()
    until(lambda: all(follower.values() == ["ann"] for follower in followers))
    until(lambda: len(waiters(first, "jobs")) == 1)
    leader.kill()
    until(lambda: proclaims(ann, "after"), 30)
    until(lambda: all(follower.values()[-1] == "after" for follower in followers), 30)
    assert ann.resign()
    waiting.join(30)
    assert elected == [True], cluster.said()
    for follower in followers:
        assert follower.done()[-1] == "the end"
    assert ben.resign()
    for client in stores:
        client.close()


def proclaims(election, value):
    try:
        return election.proclaim(value)
    except (ConnectionError, claret.CommitUnknown, ResponseError):
        return None
