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
        commands = self._arrival.commands(request, wait_s)
        return number(await ask_and_wait(self._db, commands, wait_s))
