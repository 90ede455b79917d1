"""Workers and the server are killed; every job counts once."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from enqueue import enqueue
from worker import FAILED, GROUP, STREAM, bill, join, settle, take, work

from claret import Claret

FOLDER = pathlib.Path(__file__).parent
JOBS = 200
LEASE_MS = 500


class Server:
    """A real server, which can be killed and started again."""

    def __init__(self, folder):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.folder = folder
        self.start()

    def start(self):
        """Starts it, and returns when it is ready."""
        words = [os.environ["CLARET_BIN"], "serve", "--port", str(self.port)]
        log = self.folder / "log.txt"
        with open(log, "w") as said:
            data = str(self.folder / "data")
            self.process = subprocess.Popen([*words, "--dir", data], stdout=said, stderr=said)
        until(lambda: "is ready" in log.read_text(), 20)

    def kill(self):
        """kill -9."""
        self.process.kill()
        self.process.wait()


def until(true, seconds):
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


@pytest.fixture
def server(tmp_path):
    if "CLARET_BIN" not in os.environ:
        pytest.skip("CLARET_BIN names no server")
    tmp_path.chmod(0o700)
    one = Server(tmp_path)
    yield one
    one.kill()


@pytest.fixture
def db(server):
    with Claret(port=server.port, decode_responses=True) as client:
        yield client


@pytest.fixture
def start_worker(server):
    """Starts workers that end with the test."""
    started = []

    def start(name, work_ms):
        words = [sys.executable, str(FOLDER / "worker.py"), "--port", str(server.port)]
        words += ["--name", name, "--lease-ms", str(LEASE_MS), "--work-ms", str(work_ms)]
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()
        one.stdout.close()


def kill_in_the_middle_of_a_job(worker):
    """Kills a worker that never gets to the end of a job."""
    assert any(line.startswith("begin") for line in worker.stdout)
    worker.send_signal(signal.SIGKILL)
    worker.wait()


def test_all_jobs_count_once_although_workers_and_server_are_killed(server, db, start_worker):
    orders = range(1, JOBS + 1)

    def take_orders():
        with Claret(port=server.port, decode_responses=True) as shop:
            for order in orders:
                enqueue(shop, order, f"customer:{order % 7}", order)

    shop = threading.Thread(target=take_orders)
    shop.start()
    steady = [start_worker(f"steady-{n}", work_ms=10) for n in range(2)]
    for n in range(3):
        victim = start_worker(f"victim-{n}", work_ms=60_000)
        kill_in_the_middle_of_a_job(victim)
        (pending,) = db.xpending_range(STREAM, GROUP, "-", "+", 10, consumername=f"victim-{n}")
        assert pending["times_delivered"] >= 1
        server.kill()
        steady[n % 2].kill()
        server.start()
        steady[n % 2] = start_worker(f"steady-again-{n}", work_ms=10)
    start_worker("steady-2", work_ms=10)
    shop.join()
    until(lambda: db.xlen(STREAM) == 0, 60)

    assert [db.hget(f"order:{order}", "bills") for order in orders] == ["1"] * JOBS
    assert sum(map(int, db.hvals("billed"))) == sum(orders)
    assert db.xlen(FAILED) == 0


def test_a_job_done_by_a_slow_worker_and_its_successor_counts_once(db):
    join(db)
    enqueue(db, 1, "ann", 30)
    entry, fields, deliveries = take(db, "slow", lease_ms=100)
    assert deliveries == 0
    time.sleep(0.2)
    again, _, deliveries = take(db, "successor", lease_ms=100)
    assert (again, deliveries) == (entry, 1)
    assert bill(db, again, fields["order"])
    assert not bill(db, entry, fields["order"])
    assert db.hgetall("billed") == {"ann": "30"}
    assert db.xpending(STREAM, GROUP)["pending"] == 0


def test_an_order_that_is_sent_again_has_one_job(db):
    for _ in range(2):
        enqueue(db, 1, "ann", 30)
    assert db.xlen(STREAM) == 1


def test_a_transaction_that_breaks_off_leaves_the_job_in_the_queue(db):
    join(db)
    enqueue(db, 1, "ann", 30)
    entry, fields, _ = take(db, "one", LEASE_MS)
    with pytest.raises(KeyError), db.begin() as tx:
        settle(tx, entry, fields["order"])
        raise KeyError("the worker has a mistake")
    assert not db.exists("billed")
    assert db.xpending(STREAM, GROUP)["pending"] == 1
    assert bill(db, entry, fields["order"])


def test_a_job_that_always_fails_is_put_aside(db):
    join(db)
    db.xadd(STREAM, {"order": "unknown"})
    for _ in range(6):
        work(db, "one", lease_ms=60_000, work_s=0)
    assert db.xlen(STREAM) == 0
    assert [fields for _, fields in db.xrange(FAILED)] == [{"order": "unknown"}]
