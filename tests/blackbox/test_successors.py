"""Locks whose next holders are named in the log, and hear of a release before that is durable."""

import asyncio
import contextlib
import itertools
import os
import threading
import time

import pytest
from clusters import Roaming, Worker
from harness import Server, free_port, page, until, work_in_threads
from redis.exceptions import ConnectionError, ResponseError, TimeoutError
from test_locks import Waiter, client_id, holders, line_up, waiters, waiters_of_next
from test_near import Witness

import claret
from claret import aio

CLIENTS = 8
ROUNDS = 10
LEASE_MS = 2000
KILLS = int(os.environ.get("CLARET_SUCCESSOR_KILLS", "3"))
# How long they go on without a machine that is killed, when everybody has had the lock again, in seconds.
AFTER_S = 2


@pytest.fixture(params=[1, 3], ids=["alone", "cluster"])
def nodes(request, make_server, make_cluster):
    """One server or three, which are new."""
    return [make_server().start()] if request.param == 1 else make_cluster().start().nodes


@pytest.fixture
def call(nodes):
    """How a stock client sends commands to the first server."""
    with nodes[0].client() as client:
        yield client.execute_command


class Numbered(Waiter):
    """Whoever waits under a request number, so that its server asks the next leader again."""

    def run(self):
        self.connection.send_command("CLIENT", "REQUEST", " ".join(map(str, self.words)), 1)
        assert self.connection.read_response() == "OK"
        super().run()


def queue_up(nodes, client, count, *words, kind=Waiter):
    """So many who wait and can be named, the first two of them at once, at all servers in turn."""
    queue = []
    for number in range(count):
        node = nodes[number % len(nodes)]
        queue.append(kind(node, "lock", "NEXT", "OWNER", f"w{number}", *words))
        until(lambda: len(waiters(client)) == number + 1, what="a waiter")
    # What names them is in the log.
    client.execute_command("LOCK.RENEW", "lock", holders(client)[0][0])
    return queue


def pass_on(client, token, told):
    """Gives the lock back; the token of whoever is told then."""
    assert client.execute_command("LOCK.RELEASE", "lock", token) == 1
    following = told()
    assert following > token
    return following


def watched(cluster):
    """Starts a cluster whose machines have metrics; gives their ports."""
    ports = [free_port() for _ in cluster.nodes]
    for node, port in zip(cluster.nodes, ports):
        node.flags += ["--metrics-port", str(port)]
    cluster.start()
    return ports


def early(ports):
    """How many were told of a release before it was durable, by the metrics of some servers."""
    lines = [line for port in ports for line in page(port, "/metrics")[1].splitlines()]
    told = [line.rsplit(" ", 1)[1] for line in lines if line.startswith("claret_lock_early_total")]
    assert told, "it is counted"
    return sum(map(float, told))


def test_those_who_wait_have_it_in_turn(nodes):
    with nodes[0].client() as client:
        token = client.execute_command("LOCK.ACQUIRE", "lock", "NEXT")
        for number, waiter in enumerate(queue_up(nodes, client, 6)):
            assert client.execute_command("FENCE", "lock", token, "RPUSH", "tokens", token)
            following = pass_on(client, token, waiter.got)
            # Whoever was told may be shown a moment later.
            until(lambda: [row[:2] for row in holders(client)] == [[following, f"w{number}"]])
            assert len(waiters(client)) == 5 - number
            assert client.execute_command("LOCK.RENEW", "lock", token) == 0
            token = following
        assert client.execute_command("LOCK.RELEASE", "lock", token) == 1
        assert client.execute_command("LOCK.RELEASE", "lock", token) == 0
        first = client.lrange("tokens", 0, 0)[0]
        with pytest.raises(ResponseError, match="larger token"):
            client.execute_command("FENCE", "lock", first, "RPUSH", "tokens", "late")
        assert holders(client) == [] and client.exists("lock") == 0


def test_others_stand_in_the_same_queue(nodes):
    kinds = [["NEXT"], [], ["NEXT"], ["SHARED"], ["NEXT"], ["NEXT"]]
    with nodes[0].client() as client:
        token = client.execute_command("LOCK.ACQUIRE", "lock", "NEXT")
        queue = []
        for number, words in enumerate(kinds):
            queue.append(Waiter(nodes[number % len(nodes)], "lock", *words))
            until(lambda: len(waiters(client)) == number + 1, what="a waiter")
        for waiter in queue:
            token = pass_on(client, token, waiter.got)
        assert client.execute_command("LOCK.RELEASE", "lock", token) == 1
        assert holders(client) == []


def test_threads_take_turns(nodes):
    witness = Witness()

    def work(number):
        with nodes[number % len(nodes)].client(claret.Claret) as db:
            for _ in range(ROUNDS):
                with db.lock("lock", lease=10, timeout=60, next=True) as lock:
                    with witness.stay(lock.token):
                        count = int(db.get("count") or 0)
                        db.fenced(lock).set("count", count + 1)
                        db.fenced(lock).rpush("{elsewhere}tokens", lock.token)

    work_in_threads(work, CLIENTS)
    with nodes[0].client() as client:
        assert int(client.get("count")) == CLIENTS * ROUNDS
        assert list(map(int, client.lrange("{elsewhere}tokens", 0, -1))) == witness.tokens


def test_tasks_take_turns(nodes):
    witness = Witness()

    async def work(db):
        for _ in range(ROUNDS):
            async with db.lock("lock", lease=10, timeout=60, next=True) as lock:
                with witness.stay(lock.token):
                    await db.fenced(lock).rpush("tokens", lock.token)
                    await asyncio.sleep(0)

    async def story():
        async with contextlib.AsyncExitStack() as open_ones:
            made = [aio.Claret(port=node.port, **Server.usual({})) for node in nodes]
            dbs = [await open_ones.enter_async_context(db) for db in made]
            await asyncio.gather(*(work(dbs[n % len(dbs)]) for n in range(CLIENTS)))
            assert list(map(int, await dbs[0].lrange("tokens", 0, -1))) == witness.tokens
            lock = dbs[0].lock("lock", next=True)
            assert await lock.acquire(timeout=0)
            assert not await dbs[-1].lock("lock", next=True).acquire(timeout=0)
            with pytest.raises(ValueError, match="fence"):
                await dbs[0].run(lambda tx: tx.require(lock))
            assert await lock.release()

    asyncio.run(story())
    assert len(witness.tokens) == CLIENTS * ROUNDS


def test_what_does_not_go_together_is_refused(nodes, call):
    for words in ["SHARED", "LIMIT 2", "TOKENS 3", "NEAR"]:
        with pytest.raises(ResponseError, match="with NEXT a lock is taken alone"):
            call("LOCK.ACQUIRE", "lock", "NEXT", *words.split())
    for words in ["LOCK.ACQUIRE lock NEXT NEXT", "LOCK.TRY lock NEXT", "ELECTION.CAMPAIGN lock x NEXT"]:
        with pytest.raises(ResponseError, match="syntax"):
            call(*words.split())
    with pytest.raises(ResponseError):
        call("LOCK.SECTION", "lock", "NEXT", "SET", "lock", "x")
    token = call("LOCK.ACQUIRE", "lock", "NEXT", "DETECT", "OWNER", "ann")
    with pytest.raises(ResponseError, match="DEADLOCK"):
        call("LOCK.ACQUIRE", "lock", "NEXT", "DETECT", "OWNER", "ann")
    with pytest.raises(ResponseError, match="does not tell whether it is held"):
        call("LOCK.HELD", "lock", token)
    with nodes[0].client(claret.Claret) as db:
        for wrong in ({"shared": True}, {"limit": 2}, {"near": True}):
            with pytest.raises(ValueError):
                db.lock("lock", next=True, **wrong)
        lock = db.lock("other", next=True)
        assert lock.acquire(timeout=0)
        assert not db.lock("other", next=True, detect=True, owner="ann").acquire(timeout=0)
        with pytest.raises(ValueError, match="fence"):
            db.run(lambda tx: tx.require(lock))
        # Whoever asks for it with the words of the server is told by the server.
        with pytest.raises(ResponseError, match="does not tell whether it is held"):
            db.run(lambda tx: tx.execute_command("LOCK.HELD", "other", lock.token))
        assert lock.release()


def test_who_waits_in_vain_or_leaves_is_in_nobody_s_way(nodes):
    with nodes[0].client() as client:
        token = client.execute_command("LOCK.ACQUIRE", "lock", "NEXT")
        impatient = Waiter(nodes[-1], "lock", "NEXT", "OWNER", "impatient", "TIMEOUT", 400)
        until(lambda: waiters(client) == ["impatient"])
        gone = Waiter(nodes[0], "lock", "NEXT", "OWNER", "gone")
        until(lambda: waiters(client) == ["impatient", "gone"])
        stays = Waiter(nodes[-1], "lock", "NEXT", "OWNER", "stays")
        until(lambda: waiters(client) == ["impatient", "gone", "stays"])
        assert impatient.got() is None
        number = client_id(client, "gone", gone)
        assert client.client_kill_filter(_id=number) == 1
        until(lambda: waiters(client) == ["stays"])
        begun = time.monotonic()
        assert client.execute_command("LOCK.RELEASE", "lock", token) == 1
        following = stays.got()
        assert following > token and time.monotonic() - begun < 5, "the leases are of 30 seconds"
        assert client.execute_command("LOCK.RELEASE", "lock", following) == 1
        assert client.execute_command("LOCK.TRY", "lock") > following


def test_whoever_leaves_while_it_is_told_has_it_for_a_lease_at_most(nodes, call):
    token = call("LOCK.ACQUIRE", "lock", "NEXT")
    for _ in range(10):
        with nodes[0].client() as client:
            [waiter] = line_up(nodes[-1], client, 1, "lock", "NEXT", "LEASE", 500)
            release = threading.Thread(target=call, args=("LOCK.RELEASE", "lock", token))
            release.start()
            waiter.connection.disconnect()
            release.join()
            until(lambda: not waiters(client))
        following = call("LOCK.ACQUIRE", "lock", "NEXT", "TIMEOUT", 5_000)
        assert following is not None and following > token
        token = following


def test_it_is_counted_who_was_told_before_the_release_was_durable(make_cluster):
    cluster = make_cluster()
    ports = watched(cluster)
    assert early(ports) == 0
    with cluster.nodes[0].client() as client:
        token = client.execute_command("LOCK.ACQUIRE", "lock")
        [waiter] = line_up(cluster.nodes[1], client, 1)
        client.execute_command("LOCK.RELEASE", "lock", token)
        token = waiter.got()
        assert early(ports) == 0, "nobody has said that it can be named"
        client.execute_command("LOCK.RELEASE", "lock", token)
        token = client.execute_command("LOCK.ACQUIRE", "lock", "NEXT")
        for waiter in queue_up(cluster.nodes, client, 5):
            client.execute_command("LOCK.RELEASE", "lock", token)
            token = waiter.got()
        assert early(ports) >= 3


class Handed(Worker):
    """Takes the lock, appends its token to lists on several shards, and gives the lock back: plain words.

    It repeats nothing but the release.
    """

    lists = ["{lock}:list", "{a}:list", "{b}:list"]

    def __init__(self, cluster, number, stop):
        self.acknowledged = {name: [] for name in self.lists}
        self.stays, self.requests = 0, itertools.count(1)
        super().__init__(cluster, number, stop, Wandering)

    def work(self):
        words = ["LEASE", LEASE_MS, "TIMEOUT", 8000, "OWNER", f"w{self.number}"]
        if self.number % 4 == 3:
            # As whoever has a library does it: what is asked again is granted once.
            request = ["CLIENT", "REQUEST", f"w{self.number}", next(self.requests)]
            token = self.roaming.insist(request, "LOCK.ACQUIRE", "lock", "NEXT", *words)
        else:
            _, token = self.roaming.say("LOCK.ACQUIRE", "lock", "NEXT", *words)
        if token is None:
            return
        self.stays += 1
        for name in self.lists:
            done, _ = self.roaming.say("FENCE", "lock", token, "RPUSH", name, token)
            if done:
                self.acknowledged[name].append(token)
        for _ in range(20):
            done, _ = self.roaming.say("LOCK.RELEASE", "lock", token)
            if done:
                return


class Wandering(Roaming):
    """A client of locks that goes to another node when a connection breaks."""

    def say(self, *words):
        """Whether a command was carried out, and what was answered."""

        def carry_out(client):
            try:
                return client.execute_command(*words)
            except ResponseError as error:
                # Somebody else has had it since.
                if not str(error).startswith("FENCED"):
                    raise
                return error

        done, answer = self.do(carry_out)
        return done and not isinstance(answer, ResponseError), answer

    def insist(self, request, *words):
        """The answer to a command with a request number, which is asked again until there is one."""
        patience = time.monotonic() + 60

        def ask(client):
            connection = client.connection_pool.get_connection()
            try:
                connection.send_command(*request)
                connection.send_command(*words)
                connection.read_response()
                return connection.read_response()
            except (ConnectionError, TimeoutError):
                connection.disconnect()
                raise
            finally:
                client.connection_pool.release(connection)

        while time.monotonic() < patience:
            done, answer = self.do(ask)
            if done:
                return answer
        raise AssertionError("there was no answer for long")


class Library(Worker):
    """The same over the blocking client, at a machine that stays."""

    lists = Handed.lists

    def __init__(self, cluster, number, stop, node):
        self.db = node.client(claret.Claret, socket_timeout=15)
        self.acknowledged = {name: [] for name in self.lists}
        self.stays = 0
        super().__init__(cluster, number, stop)

    def work(self):
        lock = self.db.lock("lock", lease=LEASE_MS / 1000, timeout=8, next=True)
        try:
            self._stay(lock)
        except (claret.LockLost, claret.CommitUnknown, claret.BusyError):
            pass
        except ResponseError as error:
            # What has no request number is not asked again, as the release.
            assert str(error).startswith(("INDEFINITE", "the machine that led")), error

    def _stay(self, lock):
        if not lock.acquire():
            return
        try:
            self.stays += 1
            for name in self.lists:
                token = lock.token
                lock.fence("RPUSH", name, token)
                self.acknowledged[name].append(token)
        finally:
            lock.release()


def judge(client, workers):
    """Nothing is accepted under an old token, and nothing that was acknowledged is missing."""
    for name in Handed.lists:
        tokens = list(map(int, client.lrange(name, 0, -1)))
        assert tokens == sorted(set(tokens)), f"{name} has accepted an old token"
        for worker in workers:
            lost = set(worker.acknowledged[name]) - set(tokens)
            assert not lost, f"acknowledged, and lost: {sorted(lost)[:5]}"


def test_hand_overs_go_on_when_the_machine_that_leads_is_killed_or_stands_still(make_cluster):
    cluster = make_cluster()
    ports = watched(cluster)
    first, second, stays = cluster.nodes
    stop = threading.Event()
    workers = [Handed(cluster, number, stop) for number in range(CLIENTS)]
    workers += [Library(cluster, CLIENTS + number, stop, stays) for number in range(2)]

    def everybody_has_a_stay():
        before = [worker.stays for worker in workers]

        def all_had():
            return all(worker.error or worker.stays > had for worker, had in zip(workers, before))

        # Of those who were named and are lost with the machine, each has the lock for a lease.
        until(all_had, 60, f"a stay of everybody\n{cluster.said()}")

    for leader in itertools.islice(itertools.cycle([first, second]), KILLS):
        cluster.let_lead(leader)
        told = early(ports)
        until(lambda: early(ports) > told + 20, 30, "hand-overs before releases are durable")
        leader.kill()
        everybody_has_a_stay()
        time.sleep(AFTER_S)
        leader.start()
        cluster.wait()
    # One that has lost nothing, and does not know that it does not lead any more.
    cluster.let_lead(first)
    cluster.pause(first, 6)
    everybody_has_a_stay()
    Worker.finish(workers, cluster)
    with stays.client() as client:
        token = client.execute_command("LOCK.ACQUIRE", "lock", "TIMEOUT", 2 * LEASE_MS)
        assert token, f"it is still held: {holders(client)}"
        judge(client, workers)


def test_those_who_are_named_have_it_in_turn_from_the_next_leader(make_cluster):
    cluster = make_cluster().start()
    leader, *others = cluster.nodes
    cluster.let_lead(leader)
    with others[0].client(socket_timeout=30) as client:
        token = client.execute_command("LOCK.ACQUIRE", "lock", "NEXT", "LEASE", 60_000)
        first, *queue = queue_up(others, client, 5, "LEASE", 60_000, kind=Numbered)
        # With the hand-over go the names of all who wait.
        token = pass_on(client, token, first.got)
        assert client.execute_command("LOCK.RENEW", "lock", token) == 1
        leader.kill()
        until(lambda: sorted(waiters_of_next(client)) == ["w1", "w2", "w3", "w4"], 30)
        for waiter in queue:
            token = pass_on(client, token, waiter.got)
        assert client.execute_command("LOCK.RELEASE", "lock", token) == 1
        assert client.execute_command("LOCK.TRY", "lock") > token


def ask(connection, number, *words):
    """Asks for the lock under a request number, and does not wait for the answer."""
    connection.send_command("CLIENT", "REQUEST", f"whoever{number}", 1)
    connection.send_command("LOCK.ACQUIRE", "lock", "NEXT", *words)
    assert connection.read_response() == "OK"


def test_a_killed_server_knows_who_is_named_and_for_how_long(make_server):
    server = make_server().start()
    with server.client() as client:
        token = client.execute_command("LOCK.ACQUIRE", "lock", "NEXT", "LEASE", LEASE_MS)
        begun = time.monotonic()
        queue_up([server], client, 3, "LEASE", LEASE_MS)
    server.restart()
    with server.client(socket_timeout=60) as client:
        # The holder's lease, and those of two who do not come any more: those are over together.
        following = client.execute_command("LOCK.ACQUIRE", "lock", "TIMEOUT", 40_000)
        took_s = time.monotonic() - begun
        assert following > token
        assert LEASE_MS / 1000 - 0.1 < took_s < 2 * LEASE_MS / 1000 + 5, took_s


def test_whoever_was_named_comes_back_after_a_kill_and_is_still_the_next(make_server):
    server = make_server().start()
    words = ["LEASE", 60_000]
    with server.client() as client:
        token = client.execute_command("LOCK.ACQUIRE", "lock", "NEXT", *words)
        for number in range(1, 3):
            connection = client.connection_pool.make_connection()
            ask(connection, number, *words)
            until(lambda: len(waiters(client)) == number)
        client.execute_command("LOCK.RENEW", "lock", token)
    server.restart()
    with server.client() as client:
        stranger = Waiter(server, "lock", "NEXT", *words)
        until(lambda: len(waiters(client)) == 1)
        # They come in the other order.
        back = [client.connection_pool.make_connection() for _ in range(2)]
        for number in (2, 1):
            ask(back[number - 1], number, *words)
        until(lambda: len(waiters(client)) == 3)
        for connection in back:
            token = pass_on(client, token, connection.read_response)
        pass_on(client, token, stranger.got)
