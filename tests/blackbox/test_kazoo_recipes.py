"""kazoo's recipes, unmodified, with contention where it matters."""

import threading
import time
from datetime import timedelta

import pytest
from harness import Server, free_port, until
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.barrier import DoubleBarrier
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.recipe.partitioner import PartitionState
from kazoo.recipe.watchers import PatientChildrenWatch

WAIT_S = 15


class Port:
    """A server with a port for ZooKeeper's clients, for all tests of this file."""

    def __init__(self, folder, over):
        self.port = free_port()
        flags = ["--zookeeper-port", str(self.port), "--zookeeper-shards", str(over)]
        self.server = Server(folder, *flags, shards=4).start()

    def client(self):
        client = KazooClient(f"127.0.0.1:{self.port}", timeout=6)
        client.start(timeout=WAIT_S)
        return client


@pytest.fixture(scope="module", params=[1, 4], ids=["one-shard", "four-shards"])
def port(request, tmp_path_factory):
    port = Port(tmp_path_factory.mktemp("recipes"), request.param)
    yield port
    assert port.server.alive(), port.server.said()[-2000:]
    port.server.kill()


@pytest.fixture
def clients(port):
    """Makes clients that end with the test."""
    made = []

    def make(count=1):
        new = [port.client() for _ in range(count)]
        made.extend(new)
        return new if count > 1 else new[0]

    yield make
    for client in made:
        client.stop()
        client.close()


class Inside:
    """Counts who is inside at once."""

    def __init__(self):
        self.now = self.most = self.times = 0
        self.mutex = threading.Lock()

    def __enter__(self):
        with self.mutex:
            self.now += 1
            self.times += 1
            self.most = max(self.most, self.now)
        time.sleep(0.003)

    def __exit__(self, *_):
        with self.mutex:
            self.now -= 1


def at_once(*works):
    """Runs functions in threads of their own; fails if one of them fails."""
    failed = []

    def guarded(work):
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed, failed
    assert not any(thread.is_alive() for thread in threads)


def test_lock(clients):
    inside = Inside()
    workers = clients(5)

    def work(client):
        def run():
            lock = client.Lock("/lock", f"w{client.client_id[0]}")
            for _ in range(8):
                with lock, inside:
                    pass

        return run

    at_once(*map(work, workers))
    assert (inside.most, inside.times) == (1, 40)
    ann, ben = workers[:2]
    held = ann.Lock("/lock", "ann")
    assert held.acquire(timeout=WAIT_S)
    assert ben.Lock("/lock", "ben").contenders() == ["ann"]
    with pytest.raises(LockTimeout):
        ben.Lock("/lock", "ben").acquire(timeout=0.3)
    assert not ben.Lock("/lock", "ben").acquire(blocking=False)
    # The lock of a client that goes is the next one's.
    waiting = threading.Thread(target=ben.Lock("/lock", "ben").acquire)
    waiting.start()
    until(lambda: held.contenders() == ["ann", "ben"])
    ann.stop()
    waiting.join(WAIT_S)
    assert not waiting.is_alive()


def test_read_and_write_locks(clients):
    readers, writers, together = Inside(), Inside(), []
    workers = clients(4)

    def read(client):
        def run():
            for _ in range(6):
                with client.ReadLock("/rw", "r"), readers:
                    together.append(writers.now)

        return run

    def write(client):
        def run():
            for _ in range(6):
                with client.WriteLock("/rw", "w"), writers:
                    together.append(readers.now)

        return run

    at_once(*map(read, workers[:2]), *map(write, workers[2:]))
    assert writers.most == 1 and set(together) == {0}
    assert readers.times == writers.times == 12
    first, second = workers[0].ReadLock("/rw", "a"), workers[1].ReadLock("/rw", "b")
    assert first.acquire(timeout=WAIT_S) and second.acquire(timeout=WAIT_S)
    assert not workers[2].WriteLock("/rw", "c").acquire(blocking=False)
    first.release(), second.release()


def test_semaphore(clients):
    inside = Inside()

    def work(client):
        def run():
            for _ in range(5):
                with client.Semaphore("/semaphore", max_leases=2), inside:
                    pass

        return run

    workers = clients(5)
    at_once(*map(work, workers))
    assert inside.times == 25 and inside.most <= 2
    ann, ben, cid = (client.Semaphore("/semaphore", max_leases=2) for client in workers[:3])
    assert ann.acquire(timeout=WAIT_S) and ben.acquire(timeout=WAIT_S)
    assert not cid.acquire(blocking=False)
    ann.release()
    assert cid.acquire(timeout=WAIT_S)
    assert len(cid.lease_holders()) == 2
    ben.release()
    cid.release()


def test_election(clients):
    led = []
    workers = clients(3)

    def work(client, name):
        def lead():
            led.append(name)
            time.sleep(0.02)

        return lambda: client.Election("/election", name).run(lead)

    at_once(*(work(client, f"c{n}") for n, client in enumerate(workers)))
    assert sorted(led) == ["c0", "c1", "c2"]


def test_barrier(clients):
    ann, ben = clients(2)
    barrier = ann.Barrier("/barrier")
    barrier.create()
    assert not ben.Barrier("/barrier").wait(timeout=0.3)
    passed = threading.Event()
    waiting = threading.Thread(target=lambda: ben.Barrier("/barrier").wait(WAIT_S) and passed.set())
    waiting.start()
    assert barrier.remove()
    assert passed.wait(WAIT_S)
    waiting.join(WAIT_S)


def test_double_barrier(clients):
    workers, entered, left = clients(4), [], []

    def work(client):
        def run():
            barrier = DoubleBarrier(client, "/double", num_clients=len(workers))
            barrier.enter()
            entered.append(len(left))
            barrier.leave()
            left.append(len(entered))

        return run

    at_once(*map(work, workers))
    # Nobody left before all had entered.
    assert entered == [0] * 4 and left == [4] * 4


def test_queue(clients):
    ann, ben = clients(2)
    for number in range(10):
        ann.Queue("/queue").put(b"%d" % number, priority=50 if number else 200)
    taken = []

    def take(client):
        def run():
            queue = client.Queue("/queue")
            while (item := queue.get()) is not None:
                taken.append(int(item))

        return run

    take(ann)()
    assert taken == [*range(1, 10), 0]
    taken.clear()
    for number in range(20):
        ann.Queue("/queue").put(b"%d" % number)
    at_once(take(ann), take(ben))
    assert sorted(taken) == list(range(20))


def test_locking_queue(clients):
    ann, ben, cid = clients(3)
    ann.LockingQueue("/locking").put_all([b"%d" % number for number in range(12)])
    done = []

    def consume(client, count):
        def run():
            queue = client.LockingQueue("/locking")
            for _ in range(count):
                item = queue.get(timeout=WAIT_S)
                assert queue.holds_lock()
                assert queue.consume()
                done.append(int(item))

        return run

    at_once(consume(ann, 6), consume(ben, 6))
    assert sorted(done) == list(range(12))
    # What somebody takes who goes is there again.
    ann.LockingQueue("/locking").put(b"kept")
    assert ann.LockingQueue("/locking").get(timeout=WAIT_S) == b"kept"
    ann.stop()
    assert cid.LockingQueue("/locking").get(timeout=WAIT_S) == b"kept"


@pytest.mark.parametrize("kind", ["Party", "ShallowParty"])
def test_parties(clients, kind):
    ann, ben = clients(2)
    path = f"/{kind}"
    hers, his = getattr(ann, kind)(path, "ann"), getattr(ben, kind)(path, "ben")
    hers.join(), his.join()
    assert sorted(hers) == ["ann", "ben"] and len(his) == 2
    ann.stop()
    until(lambda: list(his) == ["ben"])
    his.leave()
    assert len(his) == 0


def test_counter(clients):
    workers = clients(4)

    def work(client):
        def run():
            counter = client.Counter("/counter")
            for _ in range(10):
                counter += 1

        return run

    at_once(*map(work, workers))
    counter = workers[0].Counter("/counter")
    assert counter.value == 40
    counter -= 15
    assert (counter.value, counter.pre_value, counter.post_value) == (25, 40, 25)
    assert workers[1].Counter("/float", default=0.5).value == 0.5


def test_leases(clients):
    ann, ben = clients(2)
    # Long enough for two calls on a busy machine.
    length = timedelta(seconds=4)
    assert ann.NonBlockingLease("/lease", length, "ann")
    assert not ben.NonBlockingLease("/lease", length, "ben")
    # Kept by the same name, free after its time.
    assert ann.NonBlockingLease("/lease", length, "ann")
    until(lambda: bool(ben.NonBlockingLease("/lease", length, "ben")))
    several = [ann.MultiNonBlockingLease(2, "/leases", length, name) for name in ["a", "b", "c"]]
    assert [bool(lease) for lease in several] == [True, True, False]


def test_data_and_children_watches(clients):
    ann, ben = clients(2)
    seen, names = [], []
    ben.DataWatch("/watched", lambda data, stat, event: seen.append((data, event and event.type)))
    ann.create("/watched", b"one")
    until(lambda: len(seen) == 2)
    ben.ChildrenWatch("/watched", lambda children: names.append(sorted(children)))
    ann.set("/watched", b"two")
    ann.create("/watched/a")
    ann.create("/watched/b")
    until(lambda: names and names[-1] == ["a", "b"])
    ann.delete("/watched", recursive=True)
    until(lambda: len(seen) == 4)
    assert seen == [(None, None), (b"one", "CREATED"), (b"two", "CHANGED"), (None, "DELETED")]


def test_a_patient_watch_waits_for_quiet(clients):
    ann, ben = clients(2)
    ann.create("/patient")
    found = PatientChildrenWatch(ben, "/patient", time_boundary=0.3).start()
    for name in ["a", "b", "c"]:
        ann.create(f"/patient/{name}")
        time.sleep(0.05)
    children, _ = found.get(timeout=WAIT_S)
    assert sorted(children) == ["a", "b", "c"]


def test_tree_cache(clients):
    ann, ben = clients(2)
    ann.create("/tree/a/b", b"x", makepath=True)
    cache, events = TreeCache(ben, "/tree"), []
    cache.listen(events.append)
    cache.start()
    until(lambda: any(event.event_type == TreeEvent.INITIALIZED for event in events))
    assert cache.get_data("/tree/a/b").data == b"x"
    assert cache.get_children("/tree") == {"a"}
    ann.set("/tree/a/b", b"y")
    ann.create("/tree/a/c", b"z")
    until(lambda: cache.get_data("/tree/a/b").data == b"y" and cache.get_data("/tree/a/c"))
    ann.delete("/tree/a", recursive=True)
    until(lambda: cache.get_data("/tree/a") is None and cache.get_children("/tree") == set())
    cache.close()


def test_transactions(clients):
    client = clients()
    client.create("/account/ann", b"3", makepath=True)
    client.create("/account/ben", b"0")

    def move(client):
        def run():
            for _ in range(5):
                while True:
                    ann, her = client.get("/account/ann")
                    ben, his = client.get("/account/ben")
                    transaction = client.transaction()
                    transaction.set_data("/account/ann", b"%d" % (int(ann) - 1), version=her.version)
                    transaction.set_data("/account/ben", b"%d" % (int(ben) + 1), version=his.version)
                    if not any(isinstance(result, Exception) for result in transaction.commit()):
                        break

        return run

    at_once(*map(move, clients(3)))
    assert (client.get("/account/ann")[0], client.get("/account/ben")[0]) == (b"-12", b"15")


def test_set_partitioner(clients):
    ann, ben = clients(2)
    things = ("a", "b", "c", "d")

    def partition(client):
        return client.SetPartitioner("/parts", set=things, time_boundary=0.4, identifier=str(client.client_id[0]))

    def settle(*parts):
        def settled():
            for part in parts:
                if part.release:
                    part.release_set()
            return all(part.state == PartitionState.ACQUIRED for part in parts)

        until(settled)
        return [set(part) for part in parts]

    hers, his = partition(ann), partition(ben)
    one, other = settle(hers, his)
    assert one | other == set(things) and not one & other and len(one) == 2
    his.finish()
    until(lambda: settle(hers) == [set(things)])
    hers.finish()
