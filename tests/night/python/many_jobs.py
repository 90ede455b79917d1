"""Celery: so many jobs, while the server is killed again and again. Prints how many were done.

The environment says where the server is (`BROKER`) and which file the jobs write to (`DONE`). The words
say what to do (`enqueue`, `work` or `both`), how many jobs there are, and for how many seconds nothing may
be done before the program gives up.
"""

import os
import pathlib
import subprocess
import sys
import time

from celery import Celery
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

BROKER = os.environ["BROKER"]
DONE = pathlib.Path(os.environ["DONE"])

app = Celery("many_jobs", broker=BROKER)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # A worker's unfinished jobs are given to somebody else after so many seconds, and the lock of the one who
    # looks for them is forgotten if it was lost with the server.
    broker_transport_options={"visibility_timeout": 10, "unacked_mutex_expire": 5},
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=4,
)


@app.task(name="count")
def count(number):
    """Notes that this job was done, whatever becomes of the worker and of the server."""
    file = os.open(DONE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, b"%d\n" % number)
    os.close(file)


def enqueue(jobs):
    """Enqueues jobs, each until it is known to be in the queue: some may be there twice."""
    again = 0
    for number in range(jobs):
        while True:
            try:
                count.apply_async((number,), task_id=f"job-{number}")
                break
            except (OSError, KombuError, RedisError):
                again += 1
                time.sleep(0.1)
    print("enqueued", jobs, "again", again, flush=True)


class Worker:
    """A worker, started again when it ends.

    It takes some errors of a broken connection for a reason to end, and with three machines the error
    `INDEFINITE` too.
    """

    # Without what a worker says to others at each new connection, for whose answers it waits.
    WORDS = ["-m", "celery", "-A", "many_jobs", "worker", "--without-mingle", "--without-gossip"]
    WORDS += ["--pool", "threads", "--concurrency", "10"]

    def __init__(self):
        self.started = 0
        self.start()

    def start(self):
        """Starts the process."""
        with open(DONE.with_name("worker"), "ab") as log:
            words = [sys.executable, *self.WORDS, "-l", "WARNING"]
            options = {"cwd": pathlib.Path(__file__).parent, "stdout": log, "stderr": log}
            self.process = subprocess.Popen(words, **options)
        self.started += 1

    def watch(self):
        """Starts the process again if it has ended."""
        if self.process.poll() is not None:
            self.start()

    def end(self):
        """Ends the process."""
        self.process.kill()
        self.process.wait()


def done():
    """How many jobs were done at least once."""
    return len(set(DONE.read_bytes().split())) if DONE.exists() else 0


def wait(worker, jobs, patience_s):
    """Waits until all jobs are done, or until no job is done any more."""
    before, since = -1, time.monotonic()
    while (now := done()) < jobs and time.monotonic() - since < patience_s:
        if now != before:
            before, since = now, time.monotonic()
        worker.watch()
        time.sleep(0.5)
    print("workers", worker.started)
    print("done", now)


def main():
    what, jobs, patience_s = sys.argv[1], *map(int, sys.argv[2:])
    worker = Worker() if what != "enqueue" else None
    try:
        if what != "work":
            enqueue(jobs)
        if worker:
            wait(worker, jobs, patience_s)
    finally:
        if worker:
            worker.end()


if __name__ == "__main__":
    main()
