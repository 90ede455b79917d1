"""Many jobs of Celery, BullMQ and asynq, on servers that are killed with -9 every few seconds.

A producer that does not know whether a job was enqueued enqueues it again under the same name, and what was
done is counted by the jobs' names. `CLARET_JOBS` says how many jobs there are.
"""

import contextlib
import os
import pathlib
import sys
import time

import pytest
from beside import Claret, Redis, RedisByDefault
from running import lines_of
from three_machines import ClaretCluster

JOBS = int(os.environ.get("CLARET_JOBS", "20000"))
KILLED_EACH_S = 3
# A worker of Celery waits for two seconds before it connects again.
CELERY_KILLED_EACH_S = 5
CELERY = pathlib.Path(__file__).with_name("python") / "many_jobs.py"
# What redis-server has lost never comes.
PATIENCE_REDIS_S = 15
RUN_S_MAX = 3600


@pytest.fixture(params=[Claret, ClaretCluster, RedisByDefault], ids=lambda kind: kind.__name__)
def server(request, tmp_path):
    """One machine of Claret, three of which one is killed at a time, and redis-server."""
    with contextlib.closing(request.param(tmp_path / "server")) as server:
        yield server


def keeps(server):
    """Whether no job may be lost: redis-server as it is by default promises nothing."""
    return not isinstance(server, Redis)


def tell(server, library, begun, kills, said):
    """Prints a row of the table in the guide."""
    took = time.monotonic() - begun
    print(f"\n{library} on {server.name}: {JOBS} jobs in {took:.0f} s, {len(kills)} kills: {', '.join(said)}")


def with_kills(server, library, run, patience_s, each_s=KILLED_EACH_S):
    """Runs a program, given a patience, under kills: how many of its jobs were not done; and the kills."""
    begun = time.monotonic()
    with server.killed_each(each_s) as kills:
        said = run(patience_s if keeps(server) else PATIENCE_REDIS_S)
    done = int(said[-1].removeprefix("done "))
    tell(server, library, begun, kills, said)
    assert kills
    return JOBS - done, len(kills)


def test_no_job_of_bullmq_is_lost_under_kills(node, server):
    def run(patience_s):
        return node("many_jobs.mjs", server.port, JOBS, patience_s, timeout_s=RUN_S_MAX)

    lost, _ = with_kills(server, "BullMQ", run, 60)
    assert lost == 0 or not keeps(server)


def test_no_task_of_asynq_is_lost_under_kills(programs, server):
    def run(patience_s):
        return programs("many_jobs", server.port, JOBS, patience_s, timeout_s=RUN_S_MAX)

    # A task that was given to a worker just when the server was killed, before the worker knew of it, is
    # recovered by asynq within two minutes; and this may happen to it once more.
    lost, _ = with_kills(server, "asynq", run, 300)
    assert lost == 0 or not keeps(server)


@pytest.fixture
def celery(server, tmp_path):
    """A function that runs the program of Celery, which knows the addresses of all machines."""
    ports = getattr(server, "ports", [server.port])
    broker = ";".join(f"redis://127.0.0.1:{port}/0" for port in ports)
    environment = {**os.environ, "BROKER": broker, "DONE": str(tmp_path / "done")}
    return lambda *words: lines_of([sys.executable, CELERY, *words], RUN_S_MAX, env=environment)


def test_no_job_that_celery_has_enqueued_is_lost(celery, server):
    """The server is killed while jobs are enqueued."""
    begun = time.monotonic()
    with server.killed_each(KILLED_EACH_S) as kills:
        said = celery("enqueue", JOBS, 0)
    said += celery("work", JOBS, 60 if keeps(server) else PATIENCE_REDIS_S)
    tell(server, "Celery, killed while enqueuing,", begun, kills, said)
    assert kills
    assert said[-1] == f"done {JOBS}" or not keeps(server)


def test_a_kill_costs_celery_at_most_the_job_that_is_on_its_way(celery, server):
    """The server is killed while jobs are carried out.

    A worker takes a job with `BRPOP`, and notes in a second command that it has it (kombu, `_brpop_read` and
    `QoS.append`). If the server is killed when the job is out of the list and not yet noted, the job is
    lost on every server, since nobody but the worker may have it. A worker takes one job at a time, so a
    kill costs one job at most.
    """

    def run(patience_s):
        return celery("both", JOBS, patience_s)

    lost, kills = with_kills(server, "Celery", run, 60, CELERY_KILLED_EACH_S)
    assert lost <= kills or not keeps(server)
