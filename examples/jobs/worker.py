"""Bills orders: takes jobs from a stream, one at a time, until it is stopped.

A job that is taken stays pending in the group until it is acknowledged. If that does not happen
within the lease, because the worker was killed or is stuck, the next worker gets it. So a job can
be worked on twice; its effect counts once, since it is a transaction with a name.
"""

import argparse
import os
import socket
import time

from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from claret import Claret
from claret.errors import ClaretError, RepeatedError

STREAM, GROUP, FAILED = "jobs", "billing", "jobs:failed"

# A job that has failed so often is put aside: the others must not wait for it for ever.
DELIVERIES_MAX = 5


class WrongJob(Exception):
    """The job cannot be done, by this worker or another one."""


def join(db):
    """Creates the group of the workers, if this is the first one."""
    try:
        db.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    except ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise


def take(db, name, lease_ms, block_ms=1000):
    """The next job, as its identifier, its fields and the number of earlier deliveries.

    One whose lease has ended comes before a new one. ``None`` if there is none for some time.
    """
    reply = db.xreadgroup(
        *(GROUP, name, {STREAM: ">"}), count=1, block=block_ms, claim_min_idle_time=lease_ms
    )
    if not reply:
        return None
    ((_, entries),) = reply
    entry, fields, _, deliveries = entries[0]
    return entry, fields, deliveries


def settle(tx, entry, order):
    """The effect of a job and its acknowledgement: both take place, or neither."""
    customer, amount = tx.hmget(f"order:{order}", "customer", "amount")
    if customer is None:
        raise WrongJob(f"there is no order {order}")
    tx.hincrby("billed", customer, int(amount))
    tx.hincrby(f"order:{order}", "bills", 1)
    tx.xackdel(STREAM, GROUP, entry)


def bill(db, entry, order):
    """Carries a job out. False if another worker has done so."""
    try:
        db.run(settle, entry, order, once=f"job-{entry}")
        return True
    except RepeatedError:
        return False


def put_aside(db, entry, fields):
    """Moves a job to those that failed."""
    with db.batch(once=f"aside-{entry}") as batch:
        batch.xadd(FAILED, fields)
        batch.xackdel(STREAM, GROUP, entry)


def work(db, name, lease_ms, work_s):
    """Takes one job and does it."""
    job = take(db, name, lease_ms)
    if job is None:
        return
    entry, fields, deliveries = job
    if deliveries >= DELIVERIES_MAX:
        put_aside(db, entry, fields)
        print("aside", entry, flush=True)
        return
    print("begin", entry, flush=True)
    # Here would be the slow part, such as printing the bill: it may happen again, so it should
    # do no harm then. What must happen once is in the transaction.
    time.sleep(work_s)
    try:
        done = bill(db, entry, fields["order"])
        print("done" if done else "repeated", entry, flush=True)
    except WrongJob as error:
        # It waits for no lease: the next worker may try at once.
        db.xnack(STREAM, GROUP, "FAIL", entry)
        print("failed", entry, error, flush=True)


def main():
    """Works until it is stopped, also through restarts of the server."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--port", type=int, default=6379)
    words.add_argument("--name", default=f"{socket.gethostname()}-{os.getpid()}")
    words.add_argument("--lease-ms", type=int, default=60_000, help="longer than any job takes")
    words.add_argument("--work-ms", type=int, default=100, help="time that a job takes")
    args = words.parse_args()
    db = Claret(port=args.port, decode_responses=True)
    joined = False
    while True:
        try:
            if not joined:
                join(db)
                joined = True
            work(db, args.name, args.lease_ms, args.work_ms / 1000)
        except (ConnectionError, TimeoutError, ClaretError) as error:
            # The job stays pending, and comes back when its lease has ended.
            print("pause", error, flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
