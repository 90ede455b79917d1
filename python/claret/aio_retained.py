"""Locks that stay with the process, for asyncio; see :mod:`claret.retained`."""

import asyncio
import time

from . import retained
from .aio_lock import Block, Fenced, Lock, ask_and_wait
from .hold import number, time_left
from .keep import Kept, Stay
from .script import RetryPolicy

LOST_TOUCH = (*retained.LOST_TOUCH, asyncio.TimeoutError)


class Grant(Lock):
    """A grant of the lock to the process; see :class:`claret.retained.Grant`."""

    def __init__(self, db, name, lease, owner, tokens, policy):
        super().__init__(db, name, lease, owner, False, None, None, policy=policy)
        self._tokens = tokens

    def words(self, wait_s):
        """The command that acquires; zero waits as short as possible."""
        return [*super().words(0.001 if wait_s == 0 else wait_s), "TOKENS", self._tokens]

    async def ask(self, timeout):
        """Waits in turn for the lock; returns whether it was granted."""
        with self._db.requests.borrow() as requests:
            return await self._acquire(requests, timeout)

    async def is_wanted(self, wait_s):
        """Number of other waiters; see :meth:`claret.retained.Grant.is_wanted`."""
        words = ["LOCK.WANTED", self.name, self.token, "TIMEOUT", max(1, round(wait_s * 1000))]
        return number(await ask_and_wait(self._db, [words], wait_s, self._lease_ms / 6000))


class Visit(Block, Stay):
    """One stay in a lock that the process keeps; see :class:`claret.retained.Visit`."""

    def __init__(self, kept, timeout):
        super().__init__(kept.name, timeout)
        self._kept = kept

    async def acquire(self, timeout=...):
        """Waits in turn for the lock; see :meth:`claret.retained.Visit.acquire`."""
        return await self._kept.enter(self, self.timeout if timeout is ... else timeout)

    async def release(self):
        """Leaves the lock, which stays with the process unless another client wants it."""
        return await self._kept.leave(self)

    async def fence(self, *command):
        """Carries out a command unless a later holder has written; see :meth:`claret.Lock.fence`."""
        return await Fenced(self._kept.db, self).execute_command(*command)


class Retained:
    """A lock that stays with the process, for all its tasks; see :class:`claret.Retained`."""

    def __init__(
        self, db, name, lease, owner, timeout, cohort, tokens, adaptive, policy=RetryPolicy()
    ):
        self.db = db
        self.name = name
        self._timeout = timeout
        self._grant = lambda: Grant(db, name, lease, owner, tokens, policy)
        # Sends nothing: checks the arguments early.
        self._grant()
        self._kept = Kept(cohort, tokens, adaptive)
        # Set upon each change, and then replaced by a new one.
        self._changed = asyncio.Event()
        self._keeper = None

    def lock(self, timeout=...):
        """One stay in the lock, as an asynchronous context manager; see :class:`Visit`."""
        return Visit(self, self._timeout if timeout is ... else timeout)

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, error, trace):
        await self.close()

    async def close(self):
        """Gives the lock back when its last stay ends; there are no further stays."""
        self._kept.closed = True
        await self._give_back()

    async def enter(self, stay, timeout):
        """Admits a stay, in turn; returns whether that was in time."""
        begun, kept = time.monotonic(), self._kept
        if stay is kept.inside or stay in kept.line:
            raise RuntimeError("it is held already: a lock is held once")
        kept.line.append(stay)
        try:
            while True:
                next_one = await self._until(
                    lambda: kept.closed or kept.is_next(stay), time_left(timeout, begun)
                )
                if kept.closed:
                    raise RuntimeError("it was closed")
                if not next_one:
                    return False
                await self._give_back()
                if kept.enter(stay):
                    return True
                new, asked_at = self._grant(), time.monotonic()
                if not await new.ask(time_left(timeout, begun)):
                    return False
                kept.granted(new, asked_at)
                if self._keeper is None or self._keeper.done():
                    self._keeper = asyncio.ensure_future(self._keep())
                self._notify()
        finally:
            if stay is not kept.inside:
                kept.leave(stay)
                # The last stay may have left the lock for this one.
                await self._give_back()

    async def leave(self, stay):
        """Ends a stay; returns whether it was in, and the lock held."""
        held = stay.left > 0
        if not stay.end():
            return False
        self._kept.leave(stay)
        await self._give_back()
        return held

    async def _give_back(self):
        """Gives back what is due, to the next waiter, and wakes the tasks that wait for a change."""
        grant = self._kept.take_back()
        self._notify()
        if grant is not None:
            await grant.release()

    def _notify(self):
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _until(self, ready, wait_s):
        """Waits for a condition; returns whether it became true in time."""
        begun = time.monotonic()
        while not ready():
            try:
                await asyncio.wait_for(self._changed.wait(), time_left(wait_s, begun))
            except asyncio.TimeoutError:
                return ready()
            if wait_s is not None and time.monotonic() - begun > wait_s:
                return ready()
        return True

    async def _keep(self):
        kept = self._kept
        while True:
            await self._until(lambda: kept.closed or kept.grant is not None, None)
            grant = kept.grant
            if grant is None:
                return
            await self._look_after(grant)
            stay = kept.lapse(grant)
            if stay is not None:
                stay.stop()
            self._notify()

    async def _look_after(self, grant):
        """Renews a grant and listens for other clients that want it, until the process gives it
        back."""
        failed = False
        while self._kept.grant is grant and not grant.lost:
            try:
                # No longer than the lease can be relied on.
                left = max(grant.left, 0.001)
                if failed or not await asyncio.wait_for(self._is_told(grant), left):
                    failed = not await asyncio.wait_for(grant.renew(), max(grant.left, 0.001))
            except LOST_TOUCH:
                failed = True
                await self._gone(grant, grant.pause(True))

    async def _gone(self, grant, wait_s):
        """Waits until the process no longer has a grant; returns whether it still has it."""
        return await self._until(lambda: self._kept.grant is not grant, wait_s)

    async def _is_told(self, grant):
        """Waits for an event of a grant; returns whether there was one, or it is time to renew."""
        kept, pause = self._kept, grant.pause(False)
        if kept.recalled:
            return await self._gone(grant, pause)
        wanted = await grant.is_wanted(pause)
        if wanted is None:
            return False
        if kept.grant is grant:
            if wanted:
                kept.recall()
                await self._give_back()
            else:
                grant.lose()
        return True
