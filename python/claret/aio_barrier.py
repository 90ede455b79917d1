"""Barriers for asyncio; see :mod:`claret.barrier`."""

import asyncio
import time

from .aio_lock import ask_and_wait
from .barrier import Arrival
from .hold import AGAIN, Failures, number, time_left
from .script import RetryPolicy


class Barrier:
    """A barrier for a number of parties; see :meth:`claret.Claret.barrier`."""

    def __init__(self, db, name, parties, owner, policy=RetryPolicy()):
        self._db = db
        self._arrival = Arrival(name, parties, owner)
        self._policy = policy

    async def wait(self, timeout=None):
        """Waits until all parties have arrived; see :meth:`claret.Barrier.wait`."""
        begun, failures, arrival = time.monotonic(), Failures(self._policy), self._arrival
        with self._db.requests.borrow() as requests, failures.doubted():
            request = next(requests)
            while True:
                asked, wait_s = time.monotonic(), time_left(timeout, begun)
                try:
                    generation = await self._ask(arrival.commands(request, wait_s), wait_s)
                    break
                except AGAIN as error:
                    await asyncio.sleep(failures.pause(error, asked))
            if generation is None and not failures.lost:
                with arrival.asking():
                    generation = await self._ask(arrival.question(request), 0)
            return arrival.settle(generation, failures.lost)

    async def _ask(self, commands, wait_s):
        return number(await ask_and_wait(self._db, commands, wait_s))
