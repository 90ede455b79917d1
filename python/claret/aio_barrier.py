"""Barriers for asyncio; see :mod:`claret.barrier`."""

import asyncio
import time

from .barrier import Arrival
from .hold import AGAIN, GRACE_S, WAIT_S_MAX, Failures, granted_by, time_left
from .script import RetryPolicy


class Barrier:
    """A barrier for so many parties; see :meth:`claret.Claret.barrier`."""

    def __init__(self, db, name, parties, owner, policy=RetryPolicy()):
        self._db = db
        self._arrival = Arrival(name, parties, owner)
        self._policy = policy

    async def wait(self, timeout=None):
        """Waits until all have come; see :meth:`claret.Barrier.wait`."""
        begun, failures, again = time.monotonic(), Failures(self._policy), False
        with self._db.requests.borrow() as requests:
            request = next(requests)
            while True:
                asked = time.monotonic()
                try:
                    generation = await self._ask(request, time_left(timeout, begun))
                except AGAIN as error:
                    again = True
                    await asyncio.sleep(failures.pause(error, asked))
                    continue
                return self._arrival.settle(generation, again)

    async def _ask(self, request, wait_s):
        lane = self._db.waiting_lane(WAIT_S_MAX if wait_s is None else wait_s + GRACE_S)
        try:
            replies = await lane.exchange(self._arrival.commands(request, wait_s), first=True)
        except BaseException:
            # Also when the task is cancelled: who leaves has not come.
            await lane.abandon()
            raise
        await lane.close()
        return granted_by(replies)
