"""Elections for asyncio; see :mod:`claret.election`."""

import asyncio
import time

from .aio_lock import Lock, ask_and_wait
from .election import OBSERVE_S, Candidate, leader_of
from .hold import AGAIN, Failures, time_left
from .script import RetryPolicy


class Election(Candidate, Lock):
    """An election, as an asynchronous context manager; see :class:`claret.Election`."""

    def __init__(self, db, name, value, lease, owner, timeout, policy=RetryPolicy()):
        super().__init__(db, name, lease, owner, False, None, timeout, policy=policy)
        #: Value to proclaim upon election, and the latest one since.
        self.value = value

    async def campaign(self, timeout=...):
        """Waits in turn until elected; see :meth:`claret.Lock.acquire`."""
        return await self.acquire(timeout)

    async def resign(self):
        """Ends the leadership; returns whether there was one. See :meth:`claret.Lock.release`."""
        return await self.release()

    async def proclaim(self, value):
        """Replaces the leader's value; see :meth:`claret.Election.proclaim`."""
        words = ["ELECTION.PROCLAIM", self.name, self.token, value]
        return self.proclaimed(value, await self._db.execute_command(*words))

    async def leader(self):
        """The :class:`claret.Leader`, or ``None`` if there is none. Needs no candidacy."""
        return leader_of(await self._db.execute_command("ELECTION.LEADER", self.name))

    async def observe(self, timeout=None):
        """Yields the :class:`claret.Leader` whenever it changes; see
        :meth:`claret.Election.observe`."""
        seen = 0
        while True:
            row = await self._next(seen, timeout)
            if row is None:
                return
            seen = int(row[-1])
            yield leader_of(row)

    async def _next(self, seen, timeout):
        begun, failures = time.monotonic(), Failures(self._policy, harmless=True)
        while True:
            asked, left_s = time.monotonic(), time_left(timeout, begun)
            try:
                row = await ask_and_wait(self._db, [self.question(seen, left_s)], OBSERVE_S)
            except AGAIN as error:
                await asyncio.sleep(failures.pause(error, asked))
                continue
            if row is not None or (timeout is not None and time.monotonic() - begun >= timeout):
                return row
