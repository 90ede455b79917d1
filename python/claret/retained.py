"""Locks that stay with the process after they are left; see :mod:`claret.keep`.

A thread renews the lease and is notified when another client wants the lock, over a connection of
its own that is quiet otherwise. Entering a lock that the process has sends nothing.
"""

import threading
import time

from redis.exceptions import ResponseError

from .cancel import NEVER
from .errors import ClientClosed, NotAcquired
from .hold import AGAIN, number, time_left
from .keep import Kept, Stay
from .lock import Block, Fenced, Lock, ask_and_wait
from .script import RetryPolicy

# Errors after which to retry, unless the grant was given back or the client closed meanwhile.
LOST_TOUCH = (*AGAIN, ResponseError, ClientClosed, NotAcquired, OSError, ValueError)


class Grant(Lock):
    """A grant of the lock to the process: a lease, and a block of tokens of which this is the
    first."""

    def __init__(self, db, name, lease, owner, tokens, policy):
        super().__init__(db, name, lease, owner, False, None, None, policy=policy)
        self._tokens = tokens

    def words(self, wait_s):
        """The command that acquires; zero waits as short as possible."""
        return [*super().words(0.001 if wait_s == 0 else wait_s), "TOKENS", self._tokens]

    def ask(self, timeout, cancel):
        """Waits in turn for the lock; returns whether it was granted."""
        with self._db.requests.borrow() as requests:
            return self._acquire(requests, timeout, cancel)

    def is_wanted(self, wait_s):
        """Number of other waiters, once there are some; 0 if the lock is not held, ``None`` after a
        time-out."""
        words = ["LOCK.WANTED", self.name, self.token, "TIMEOUT", max(1, round(wait_s * 1000))]
        return number(ask_and_wait(self._db, [words], wait_s, self._lease_ms / 6000))


class Visit(Block, Stay):
    """One stay in a lock that the process keeps, as a context manager; like :class:`claret.Lock`."""

    def __init__(self, kept, timeout):
        super().__init__(kept.name, timeout)
        self._kept = kept

    def acquire(self, timeout=..., cancel=NEVER):
        """Waits in turn for the lock, ``timeout`` seconds at most; returns whether it was entered.

        ``cancel`` is a :class:`claret.Cancel` by which another thread ends the wait.
        """
        return self._kept.enter(self, self.timeout if timeout is ... else timeout, cancel)

    def release(self):
        """Leaves the lock, which stays with the process unless another client wants it."""
        return self._kept.leave(self)

    def fence(self, *command):
        """Carries out a command unless a later holder has written; see :meth:`claret.Lock.fence`."""
        return Fenced(self._kept.db, self).execute_command(*command)


class Retained:
    """A lock that stays with the process; see :meth:`claret.Claret.retained`.

    One object serves all threads. Closing it, or leaving its ``with`` block, gives the lock back
    when its last stay ends.
    """

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
        self._changed = threading.Condition()
        self._keeper = None

    def lock(self, timeout=...):
        """One stay in the lock, as a context manager; see :class:`Visit`."""
        return Visit(self, self._timeout if timeout is ... else timeout)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()

    def close(self):
        """Gives the lock back when its last stay ends; there are no further stays."""
        with self._changed:
            self._kept.closed = True
            grant = self._kept.take_back()
            self._changed.notify_all()
        give_back(grant)

    def enter(self, stay, timeout, cancel):
        """Admits a stay, in turn; returns whether that was in time."""
        begun, kept = time.monotonic(), self._kept

        def ready():
            return kept.closed or cancel.cancelled or kept.is_next(stay)

        with self._changed:
            if stay is kept.inside or stay in kept.line:
                raise RuntimeError("it is held already: a lock is held once")
            kept.line.append(stay)
        try:
            while True:
                with cancel.over(self), self._changed:
                    self._changed.wait_for(ready, time_left(timeout, begun))
                    cancel.check()
                    if kept.closed:
                        raise RuntimeError("it was closed")
                    if not kept.is_next(stay):
                        return False
                    old = kept.take_back()
                    if kept.enter(stay):
                        return True
                give_back(old)
                new, asked_at = self._grant(), time.monotonic()
                if not new.ask(time_left(timeout, begun), cancel):
                    return False
                self._granted(new, asked_at)
        finally:
            old = None
            with self._changed:
                if stay is not kept.inside:
                    kept.leave(stay)
                    # The last stay may have left the lock for this one.
                    old = kept.take_back()
                    self._changed.notify_all()
            give_back(old)

    def interrupt(self):
        """Wakes the waiting threads, of which one may have given up."""
        with self._changed:
            self._changed.notify_all()

    def leave(self, stay):
        """Ends a stay; returns whether it was in, and the lock held."""
        with self._changed:
            held = stay.left > 0
            if not stay.end():
                return False
            self._kept.leave(stay)
            grant = self._kept.take_back()
            self._changed.notify_all()
        give_back(grant)
        return held

    def _granted(self, grant, asked_at):
        with self._changed:
            self._kept.granted(grant, asked_at)
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._keep, daemon=True)
                self._keeper.start()
            self._changed.notify_all()

    def _keep(self):
        kept = self._kept
        while True:
            with self._changed:
                self._changed.wait_for(lambda: kept.closed or kept.grant is not None)
                grant = kept.grant
                if grant is None:
                    return
            self._look_after(grant)
            with self._changed:
                kept.lapse(grant)
                self._changed.notify_all()

    def _look_after(self, grant):
        """Renews a grant and listens for other clients that want it, until the process gives it
        back."""
        failed = False
        while self._kept.grant is grant and not grant.lost:
            try:
                if failed or not self._is_told(grant):
                    failed = not grant.renew()
            except LOST_TOUCH:
                failed = True
                self._gone(grant, grant.pause(True))

    def _gone(self, grant, wait_s):
        """Waits until the process no longer has a grant; returns whether it still has it."""
        with self._changed:
            return self._changed.wait_for(lambda: self._kept.grant is not grant, wait_s)

    def _is_told(self, grant):
        """Waits for an event of a grant; returns whether there was one, or it is time to renew."""
        kept, pause = self._kept, grant.pause(False)
        if kept.recalled:
            return self._gone(grant, pause)
        wanted = grant.is_wanted(pause)
        if wanted is None:
            return False
        with self._changed:
            if kept.grant is not grant:
                return True
            if wanted:
                kept.recall()
            else:
                grant.lose()
                return True
            back = kept.take_back()
            self._changed.notify_all()
        give_back(back)
        return True


def give_back(grant):
    """Gives a grant that the process no longer has to the next waiter, if there is one to give."""
    if grant is not None:
        grant.release()
