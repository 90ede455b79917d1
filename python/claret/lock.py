"""Locks of the blocking client: leases that are renewed, fencing tokens, and the effects of a loss.

A lock is a lease: it ends by itself if its holder does not renew it, because the holder may be
dead. A client cannot know for certain that it still holds one at the very moment at which it
writes. There are therefore two ways to write under a lock, and both let the store judge:
:meth:`Lock.fence` sends a command with the lock's *fencing token*, which is refused if a later
holder has written there; and ``tx.require(lock)`` in a transaction, which fails unless the lock is
held.
"""

import threading
import time

from redis.commands.core import CoreCommands
from redis.exceptions import ResponseError, TimeoutError

from .cancel import NEVER
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
from .transaction import Lane


class Waiting(Lane):
    """A connection on which a reply may take longer than usual."""

    def __init__(self, db, wait_s, grace_s, cancel):
        super().__init__(db, cancel)
        self._wait_s = WAIT_S_MAX if wait_s is None else min(WAIT_S_MAX, wait_s + grace_s)

    def _read(self):
        if not self._connection.can_read(timeout=self._wait_s):
            raise TimeoutError("no answer to a wait for a lock")
        return super()._read()


def ask_and_wait(db, commands, wait_s, grace_s=GRACE_S, cancel=NEVER):
    """The reply to the last of some commands, which may take this many seconds; raises the first
    error.

    It uses a connection of its own. That is closed if there is no reply, also because the program
    is interrupted: the server then revokes a late grant.
    """
    lane = Waiting(db, wait_s, grace_s, cancel)
    try:
        replies = lane.exchange(commands, first=True)
    except BaseException as error:
        lane.abandon()
        note_sent(error, lane.sent)
        raise
    lane.close()
    return last_of(replies)


class Block:
    """A lock or a stay in one as a context manager, which must be acquired in time and not be lost."""

    def __enter__(self):
        if not self.acquire():
            raise NotAcquired(f"the lock {self.name!r} was not free in time")
        return self

    def __exit__(self, kind, error, trace):
        lost = self.lost
        self.release()
        if lost and kind is None:
            raise LockLost(f"the lock {self.name!r} was lost before the work under it was done")


class Lock(Block, Hold):
    """A lock, as a context manager; see :meth:`claret.Claret.lock`.

    While it is held a thread renews its lease. :attr:`lost` becomes true, and :meth:`require`
    raises, when that has failed for so long that the lease may end: by this machine's monotonic
    clock, before it does.
    """

    def __init__(self, db, *args, policy=RetryPolicy()):
        super().__init__(*args)
        self._db = db
        self._policy = policy
        self._stop = None
        self._thread = None

    def acquire(self, timeout=..., cancel=NEVER):
        """Waits in turn for the lock, ``timeout`` seconds at most; returns whether it was granted.

        ``None`` waits for ever, zero does not wait. It carries a request number: if the connection
        breaks the request is repeated, and granted once. ``cancel`` is a :class:`claret.Cancel` by
        which another thread ends the wait.
        """
        if self._thread is not None:
            raise RuntimeError("it is held already: a lock is held once")
        with self._db.requests.borrow() as requests:
            granted = self._acquire(requests, self.timeout if timeout is ... else timeout, cancel)
        if granted:
            self._stop = threading.Event()
            self._thread = threading.Thread(target=self._keep, args=(self._stop,), daemon=True)
            self._thread.start()
        return granted

    def _acquire(self, requests, timeout, cancel):
        begun, failures = time.monotonic(), Failures(self._policy)
        request, again = next(requests), False
        while True:
            asked = time.monotonic()
            try:
                token = self._ask(request, self.wait_s(timeout, begun), cancel)
            except AGAIN as error:
                again = True
                cancel.sleep(failures.pause(error, asked))
                continue
            if token is None:
                return False
            old = self.is_old(asked, again)
            self.take(token, asked)
            if not old or self.renew():
                return True
            request, again = next(requests), False

    def _ask(self, request, wait_s, cancel):
        commands = [["CLIENT", "REQUEST", *request], self.words(wait_s)]
        return number(ask_and_wait(self._db, commands, wait_s, cancel=cancel))

    def renew(self):
        """Restarts the lease, which a thread does by itself; returns whether it was held."""
        asked = time.monotonic()
        if not int(self._db.execute_command(*self.renewal())):
            self.lose()
            return False
        self.take(self._token, asked)
        return True

    def _keep(self, stop):
        failed = False
        while not self.lost and not stop.wait(self.pause(failed)):
            try:
                failed = not self.renew()
            except (*AGAIN, ResponseError):
                failed = True
            except ClientClosed:
                return

    def stop_renewing(self):
        """Ends the renewals of the lease, as if this process had been stopped: for tests of what a
        program does when it loses a lock."""
        if self._stop is not None:
            self._stop.set()

    def release(self):
        """Releases the lock; returns whether it was still held.

        If the server cannot be reached, or the client is closed, the lock ends with its lease.
        """
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
        token, self._token = self._token, None
        if token is None:
            return False
        with self._db.requests.borrow() as requests:
            commands = self.giving_back(next(requests), token)
            for pause in self._policy.pauses():
                time.sleep(pause)
                try:
                    return bool(number(ask_and_wait(self._db, commands, 0)))
                except AGAIN:
                    continue
                except ClientClosed:
                    break
        return False

    def fence(self, *command):
        """Carries out a command on keys of one hash slot, unless a later holder has written there.

        Raises :class:`LockLost` if so, and changes nothing.
        """
        return Fenced(self._db, self).execute_command(*command)


class Fenced(OnDatabase, CoreCommands):
    """Commands under a lock's fencing token, as methods; see :meth:`claret.Claret.fenced`."""

    def __init__(self, db, lock):
        self._db = db
        self._lock = lock

    def execute_command(self, *args, **options):
        """Carries out a command unless a later holder of the lock has written."""
        try:
            words = ["FENCE", self._lock.name, self._lock.token, *args]
            reply = self._db.execute_command(*words)
        except ResponseError as error:
            raise translate(error) from error
        return converted(self._db, args[0], reply, options)
