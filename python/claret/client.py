"""The blocking client."""

import itertools
import os
import time
import uuid

import redis
from redis.exceptions import ConnectionError, TimeoutError

from .errors import BusyError, CommitUnknown, ConflictError
from .transaction import RetryPolicy, Transaction


class Requests:
    """Request numbers: a name for this client that is unique for ever, and a count."""

    def __init__(self):
        self._name = f"py-{uuid.uuid4().hex}"
        self._numbers = itertools.count(1)
        self._process = os.getpid()

    def next(self):
        """A name and a number that were never given out before."""
        if self._process != os.getpid():
            self.__init__()
        return [self._name, next(self._numbers)]


class Claret(redis.Redis):
    """A ``redis.Redis`` that can do more. Safe to share between threads."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._requests = Requests()
        self._writes = None

    def is_write(self, name):
        """Whether a command may change something, by the server's own table."""
        if self._writes is None:
            table = self.command()
            flags = {n.lower(): set(c["flags"]) for n, c in table.items()}
            self._writes = {n for n, f in flags.items() if f & {"write", b"write"}}
        return name.lower() in self._writes

    def begin(self, readonly=False, now=False):
        """One attempt at a transaction, as a context manager. See :class:`Transaction`."""
        return Transaction(self, readonly=readonly, now=now)

    def snapshot(self):
        """A transaction of reads that all show one instant, and that takes no locks."""
        return Transaction(self, readonly=True)

    def batch(self):
        """Commands that take effect together, over any keys, in one round trip (``MULTI``)."""
        return self.pipeline(transaction=True)

    def run(self, function, *args, readonly=False, now=False, policy=RetryPolicy(), **kwargs):
        """Calls ``function(transaction, *args)`` in a transaction until it commits.

        The function may be called many times: it must not do anything but use the transaction. Its
        value is returned. The run has one request number, so that even after a broken connection
        it takes effect once: whether it did is asked of the server. If that fails as well,
        :class:`CommitUnknown` is raised.
        """
        request = None if readonly else self._requests.next()
        since, attempt = time.monotonic(), 0
        while True:
            result = None
            try:
                with Transaction(self, readonly, now, request) as transaction:
                    result = function(transaction, *args, **kwargs)
                return result
            except CommitUnknown as error:
                if readonly or self._took_effect(request, policy, since, error):
                    return result
            except (ConflictError, BusyError, ConnectionError, TimeoutError):
                if not policy.allows(attempt + 1, since):
                    raise
            attempt += 1
            time.sleep(policy.pause(attempt))

    def _took_effect(self, request, policy, since, error):
        """Asks whether a commit whose answer was lost took effect.

        The question makes sure of the answer: if the server does not know the number, the lost
        commit can never take effect any more.
        """
        attempt = 0
        while policy.allows(attempt, since):
            try:
                return bool(self.execute_command("TXN", "RESOLVE", *request))
            except (ConnectionError, TimeoutError):
                attempt += 1
                time.sleep(policy.pause(attempt))
        raise CommitUnknown(f"{error}; the server could not be asked either") from error
