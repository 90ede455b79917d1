"""Workers and the server are killed; every job counts once."""

import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
from enqueue import enqueue
from worker import FAILED, GROUP, STREAM, bill, join, settle, take, work

from claret.testing import Server

FOLDER = pathlib.Path(__file__).parent
JOBS = 200
LEASE_MS = 500


def until(true, seconds):
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


@pytest.fixture
def claret_server():
    """A server for each test, since one remembers the names of transactions."""
    with Server() as server:
        yield server


@pytest.fixture
def start_worker(claret_server):
    """Starts workers that end with the test."""
    started = []

    def start(name, work_ms):
        words = [sys.executable, str(FOLDER / "worker.py"), "--port", str(claret_server.port)]
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


def test_all_jobs_count_once_although_workers_and_server_are_killed(
    claret_server, claret, start_worker
):
    orders = range(1, JOBS + 1)

    def take_orders():
        with claret_server.client(decode_responses=True) as shop:
            for order in orders:
                enqueue(shop, order, f"customer:{order % 7}", order)

    shop = threading.Thread(target=take_orders)
    shop.start()
    steady = [start_worker(f"steady-{n}", work_ms=10) for n in range(2)]
    for n in range(3):
        victim = start_worker(f"victim-{n}", work_ms=60_000)
        kill_in_the_middle_of_a_job(victim)
        (pending,) = claret.xpending_range(STREAM, GROUP, "-", "+", 10, consumername=f"victim-{n}")
        assert pending["times_delivered"] >= 1
        claret_server.kill()
        steady[n % 2].kill()
        claret_server.start()
        steady[n % 2] = start_worker(f"steady-again-{n}", work_ms=10)
    start_worker("steady-2", work_ms=10)
    shop.join()
    until(lambda: claret.xlen(STREAM) == 0, 60)

    assert [claret.hget(f"order:{order}", "bills") for order in orders] == ["1"] * JOBS
    assert sum(map(int, claret.hvals("billed"))) == sum(orders)
    assert claret.xlen(FAILED) == 0


def test_a_job_done_by_a_slow_worker_and_its_successor_counts_once(claret):
    join(claret)
    enqueue(claret, 1, "ann", 30)
    entry, fields, deliveries = take(claret, "slow", lease_ms=100)
    assert deliveries == 0
    time.sleep(0.2)
    again, _, deliveries = take(claret, "successor", lease_ms=100)
    assert (again, deliveries) == (entry, 1)
    assert bill(claret, again, fields["order"])
    assert not bill(claret, entry, fields["order"])
    assert claret.hgetall("billed") == {"ann": "30"}
    assert claret.xpending(STREAM, GROUP)["pending"] == 0


def test_an_order_that_is_sent_again_has_one_job(claret):
    for _ in range(2):
        enqueue(claret, 1, "ann", 30)
    assert claret.xlen(STREAM) == 1


def test_a_transaction_that_breaks_off_leaves_the_job_in_the_queue(claret):
    join(claret)
    enqueue(claret, 1, "ann", 30)
    entry, fields, _ = take(claret, "one", LEASE_MS)
    with pytest.raises(KeyError), claret.begin() as tx:
        settle(tx, entry, fields["order"])
        raise KeyError("the worker has a mistake")
    assert not claret.exists("billed")
    assert claret.xpending(STREAM, GROUP)["pending"] == 1
    assert bill(claret, entry, fields["order"])


def test_a_job_that_always_fails_is_put_aside(claret):
    join(claret)
    claret.xadd(STREAM, {"order": "unknown"})
    for _ in range(6):
        work(claret, "one", lease_ms=60_000, work_s=0)
    assert claret.xlen(STREAM) == 0
    assert [fields for _, fields in claret.xrange(FAILED)] == [{"order": "unknown"}]
