"""Giving up a call of the blocking client from another thread. With asyncio, a task is cancelled."""

import contextlib
import threading
import time

from .errors import Cancelled


class Cancel:
    """Ends the calls that were given it, as soon as another thread calls :meth:`cancel`.

    A call that waits for the server ends at once, by the end of its connection: the server undoes
    an open transaction, and takes a wait for a lock back. A function of a transaction ends at its
    next command. The call raises :class:`Cancelled`, or :class:`CommitUnknown` if a commit was under
    way.
    """

    def __init__(self):
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._waits = []

    def cancel(self):
        """Ends the calls, and each later one."""
        self._event.set()
        with self._lock:
            for wait in self._waits:
                wait.interrupt()

    @property
    def cancelled(self):
        """Whether the calls are to end."""
        return self._event.is_set()

    def check(self):
        """Raises :class:`Cancelled` if the calls are to end."""
        if self.cancelled:
            raise Cancelled("the caller has given up")

    def sleep(self, seconds):
        """Sleeps, unless the calls are to end: then it raises :class:`Cancelled`."""
        self._event.wait(seconds)
        self.check()

    @contextlib.contextmanager
    def over(self, wait):
        """Interrupts what waits in the block by its method ``interrupt``."""
        with self._lock:
            self._waits.append(wait)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._waits.remove(wait)


class Never:
    """In the place of a :class:`Cancel` for calls that no thread ends."""

    cancelled = False

    def check(self):
        """Goes on."""

    def sleep(self, seconds):
        """Sleeps."""
        time.sleep(seconds)

    def over(self, wait):
        """Waits without an end from outside."""
        return contextlib.nullcontext()


NEVER = Never()
