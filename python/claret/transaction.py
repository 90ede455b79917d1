"""Transactions: what is sent when, and what is done when one has to give way."""

import functools
import random
import time
from dataclasses import dataclass
from typing import Optional

from redis.commands.core import CoreCommands
from redis.exceptions import ConnectionError, RedisError, ResponseError, TimeoutError

from .errors import BusyError, CommitUnknown, ConflictError, TransactionClosed, translate


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long a transaction is run again.

    Pauses grow from ``pause_s_min`` to ``pause_s_max`` and are drawn at random below that, so that
    rivals do not meet again.
    """

    deadline_s: float = 10.0
    attempts_max: Optional[int] = None
    pause_s_min: float = 0.0005
    pause_s_max: float = 0.1

    def pause(self, attempt):
        """Seconds to wait before attempt number ``attempt`` (1 is the first retry)."""
        return random.uniform(0, min(self.pause_s_max, self.pause_s_min * 2**attempt))

    def allows(self, attempt, since):
        """Whether attempt number ``attempt`` may still be made."""
        if self.attempts_max is not None and attempt >= self.attempts_max:
            return False
        return time.monotonic() - since < self.deadline_s


class Deferred:
    """The reply of a write in a transaction: known once the transaction has committed."""

    __slots__ = ("_known", "_value")

    def __init__(self):
        self._known = False
        self._value = None

    def _set(self, value):
        self._known, self._value = True, value

    @property
    def value(self):
        """The reply.

        Raises :class:`TransactionClosed` while the transaction is open or if it was rolled back.
        """
        if not self._known:
            raise TransactionClosed("a write is answered when its transaction commits")
        if isinstance(self._value, Exception):
            raise self._value
        return self._value

    def __repr__(self):
        return f"Deferred({self._value!r})" if self._known else "Deferred(...)"


class Script:
    """What a transaction has sent and still has to send: shared by both kinds of client."""

    def __init__(self, begin, request):
        self.unsent = [["CLIENT", "REQUEST", *request]] if request else []
        self.unsent.append(begin)
        # What to do with each reply that is still to come, in order.
        self.expected = [None] * len(self.unsent)
        self.deferred = []

    def defer(self, command):
        reply = Deferred()
        self.unsent.append(list(command))
        self.expected.append(None)
        self.deferred.append((command[0], reply))
        return reply

    def take(self, *last):
        """Commands to send now, ``last`` being the one whose reply is waited for."""
        commands, self.unsent = self.unsent + [list(last)], []
        self.expected = []
        return commands

    def settle(self, replies):
        """Hands out the replies of a commit."""
        for (_, reply), value in zip(self.deferred, replies or []):
            reply._set(value)


class Transaction(CoreCommands):
    """One attempt at a transaction, with redis-py's commands as methods.

    Reads answer at once and see the transaction's own writes. Writes answer a :class:`Deferred`
    and travel with the next read or with the commit, so that a typical transaction is one or two
    round trips. ``now=True`` on :meth:`Claret.begin` makes writes answer at once, at the price of a
    lock that others may have to wait for.

    Leaving the ``with`` block commits; an exception rolls back.
    """

    def __init__(self, db, readonly=False, now=False, request=None):
        self._db = db
        self._now = now or readonly
        begin = ["TXN", "BEGIN"]
        if readonly:
            begin.append("READONLY")
        elif not now:
            begin.append("BLIND")
        self._script = Script(begin, request)
        self._connection = db.connection_pool.get_connection()
        self._open = True

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if not self._open:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def execute_command(self, *args, **options):
        """Sends a command: at once if its reply is needed, with the next one otherwise."""
        if not self._open:
            raise TransactionClosed("the transaction has ended; begin another one")
        if not self._now and self._db.is_write(args[0]):
            return self._script.defer(args)
        return self._ask(args, options)

    def _ask(self, args, options):
        commands = self._script.take(*args)
        try:
            self._send(commands)
            for _ in commands[:-1]:
                self._drain()
            return self._db.parse_response(self._connection, args[0], **options)
        except ResponseError as error:
            error = translate(error)
            if isinstance(error, (ConflictError, BusyError)):
                self._end(broken=False)
            raise error from None
        except (ConnectionError, TimeoutError):
            self._end(broken=True)
            raise

    def _send(self, commands):
        self._connection.send_packed_command(self._connection.pack_commands(commands))

    def _drain(self):
        # The reply of a write that was queued, or of BEGIN. An error there makes the last command
        # fail as well, with the reason.
        try:
            self._connection.read_response()
        except ResponseError as error:
            if isinstance(translate(error), (ConflictError, BusyError)):
                return
            raise

    def commit(self):
        """Makes everything take effect. Raises :class:`ConflictError` if it had to give way."""
        if not self._open:
            raise TransactionClosed("the transaction has ended; begin another one")
        commands = self._script.take("TXN", "COMMIT")
        try:
            self._send(commands)
            errors = []
            for _ in commands[:-1]:
                try:
                    self._connection.read_response()
                except ResponseError as error:
                    errors.append(translate(error))
            replies = self._connection.read_response()
        except ResponseError as error:
            self._end(broken=False)
            raise translate(errors[0] if errors else error) from None
        except (ConnectionError, TimeoutError) as error:
            self._end(broken=True)
            raise CommitUnknown(f"the connection broke during the commit: {error}") from error
        self._end(broken=False)
        self._settle(replies)

    def _settle(self, replies):
        callbacks = self._db.response_callbacks
        named = []
        for (name, _), value in zip(self._script.deferred, replies or []):
            callback = callbacks.get(name)
            failed = isinstance(value, Exception) or callback is None
            named.append(value if failed else callback(value))
        self._script.settle(named)

    def rollback(self):
        """Gives the transaction up: nothing of it takes effect."""
        if not self._open:
            return
        if self._script.expected:
            # Nothing has been sent yet.
            return self._end(broken=False)
        try:
            self._connection.send_command("TXN", "ABORT")
            self._connection.read_response()
        except ResponseError:
            pass
        except RedisError:
            return self._end(broken=True)
        self._end(broken=False)

    def _end(self, broken):
        self._open = False
        if broken:
            self._connection.disconnect()
        self._db.connection_pool.release(self._connection)


def transactional(function):
    """Decorator for functions whose first parameter is a database or a transaction.

    Called with a database, the function is run in a transaction of its own, again and again until
    it commits; called with a transaction, it is a part of that one.
    """

    @functools.wraps(function)
    def wrapper(db, *args, **kwargs):
        if isinstance(db, Transaction):
            return function(db, *args, **kwargs)
        return db.run(function, *args, **kwargs)

    return wrapper
