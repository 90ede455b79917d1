"""Locks for asyncio; see :mod:`claret.lock`.

The loss of a lock stops the work under it: the task in the ``async with`` block is cancelled before
the lease ends, and the block raises :class:`LockLost`.
"""

import asyncio
import time

from redis.commands.core import AsyncCoreCommands
from redis.exceptions import ResponseError

from .errors import ClientClosed, LockLost, NotAcquired, translate
from .hold import (
    AGAIN,
    GRACE_S,
    WAIT_S_MAX,
    Failures,
    Hold,
    converted,
    last_of,
    note_sent,
    number,
)
from .script import OnDatabase, RetryPolicy


async def ask_and_wait(db, commands, wait_s, grace_s=GRACE_S):
    """The reply to the last of some commands; see :func:`claret.lock.ask_and_wait`.

    The connection is closed also when the task is cancelled.
    """
    wait_s = WAIT_S_MAX if wait_s is None else min(WAIT_S_MAX, wait_s + grace_s)
    lane = db.waiting_lane(wait_s)
    try:
        replies = await lane.exchange(commands, first=True)
    except BaseException as error:
        await lane.abandon()
        note_sent(error, lane.sent)
        raise
    await lane.close()
    return last_of(replies)


class Block:
    """A lock or a stay in one as an asynchronous context manager; see :class:`claret.lock.Block`.

    If it is lost the task in the block is cancelled.
    """

    # The task in the block, and whether it was cancelled because the lock was lost.
    _holder = None
    _cancelled = False

    async def __aenter__(self):
        if not await self.acquire():
            raise NotAcquired(f"the lock {self.name!r} was not free in time")
        self._holder, self._cancelled = asyncio.current_task(), False
        return self

    async def __aexit__(self, kind, error, trace):
        lost, holder, self._holder = self.lost, self._holder, None
        await self.release()
        stopped = self._cancelled and kind is not None and issubclass(kind, asyncio.CancelledError)
        if stopped and hasattr(holder, "uncancel"):
            # Another task may have cancelled it as well.
            stopped = holder.uncancel() == 0
        if stopped or (lost and kind is None):
            raise LockLost(f"the lock {self.name!r} was lost before the work under it was done")

    def stop(self):
        """Stops the work under the lost lock."""
        if self._holder is not None:
            self._cancelled = True
            self._holder.cancel()


class Lock(Block, Hold):
    """A lock, as an asynchronous context manager; see :class:`claret.Lock`."""

    def __init__(self, db, *args, policy=RetryPolicy()):
        super().__init__(*args)
        self._db = db
        self._policy = policy
        self._keeper = None
        self._renews = True

    async def acquire(self, timeout=...):
        """Waits in turn for the lock; see :meth:`claret.Lock.acquire`."""
        if self._keeper is not None:
            raise RuntimeError("it is held already: a lock is held once")
        with self._db.requests.borrow() as requests:
            granted = await self._acquire(requests, self.timeout if timeout is ... else timeout)
        if granted:
            self._renews = True
            self._keeper = asyncio.ensure_future(self._keep())
        return granted

    async def _acquire(self, requests, timeout):
        begun, failures = time.monotonic(), Failures(self._policy)
        request, again = next(requests), False
        while True:
            asked = time.monotonic()
            try:
                token = await self._ask(request, self.wait_s(timeout, begun))
            except AGAIN as error:
                again = True
                await asyncio.sleep(failures.pause(error, asked))
                continue
            if token is None:
                return False
            old = self.is_old(asked, again)
            self.take(token, asked)
            if not old or await self.renew():
                return True
            request, again = next(requests), False

    async def _ask(self, request, wait_s):
        commands = [["CLIENT", "REQUEST", *request], self.words(wait_s)]
        return number(await ask_and_wait(self._db, commands, wait_s))

    async def renew(self):
        """Restarts the lease, which a task does by itself; returns whether it was held."""
        asked = time.monotonic()
        if not int(await self._db.execute_command(*self.renewal())):
            self.lose()
            return False
        self.take(self._token, asked)
        return True

    async def _keep(self):
        failed = False
        while not self.lost:
            await asyncio.sleep(self.pause(failed) if self._renews else self.left)
            if not self._renews:
                continue
            try:
                # No longer than the lease can be relied on.
                failed = not await asyncio.wait_for(self.renew(), max(self.left, 0.001))
            except (*AGAIN, ResponseError, asyncio.TimeoutError):
                failed = True
            except ClientClosed:
                # The work under the lock is stopped when the lease could end.
                await asyncio.sleep(self.left)
            if self._keeper is None:
                # The cancellation by `release` was lost, which `wait_for` may do before Python 3.12.
                return
        self.stop()

    def stop_renewing(self):
        """Ends the renewals of the lease; see :meth:`claret.Lock.stop_renewing`."""
        self._renews = False

    async def release(self):
        """Releases the lock; see :meth:`claret.Lock.release`."""
        token, keeper = self._token, self._keeper
        self._keeper = None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        self._token = None
        if token is None:
            return False
        with self._db.requests.borrow() as requests:
            commands = self.giving_back(next(requests), token)
            for pause in self._policy.pauses():
                await asyncio.sleep(pause)
                try:
                    return bool(number(await ask_and_wait(self._db, commands, 0)))
                except AGAIN:
                    continue
                except ClientClosed:
                    break
        return False

    async def fence(self, *command):
        """Carries out a command unless a later holder has written; see :meth:`claret.Lock.fence`."""
        return await Fenced(self._db, self).execute_command(*command)


class Fenced(OnDatabase, AsyncCoreCommands):
    """Commands under a lock's fencing token, as methods; see :meth:`claret.Claret.fenced`."""

    def __init__(self, db, lock):
        self._db = db
        self._lock = lock

    async def execute_command(self, *args, **options):
        """Carries out a command unless a later holder of the lock has written."""
        try:
            words = ["FENCE", self._lock.name, self._lock.token, *args]
            reply = await self._db.execute_command(*words)
        except ResponseError as error:
            raise translate(error) from error
        return converted(self._db, args[0], reply, options)
