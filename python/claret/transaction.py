"""Transactions of the blocking client."""

import contextlib
import functools
import socket
import time

from redis.commands.core import CoreCommands
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from . import rules
from .cancel import NEVER
from .errors import (
    BusyError,
    ClientClosed,
    CommitUnknown,
    ConflictError,
    RepeatedError,
    TransactionClosed,
)
from .hold import check_held, note_sent
from .script import (
    ForUpdate,
    Manner,
    OnDatabase,
    Script,
    avoids,
    check_kind,
    is_connected,
    pool_words,
)


class Lane:
    """A connection on loan from the pool, taken when it is first needed.

    A transaction that is run again stays on its connection, because the server keeps its age there.
    """

    def __init__(self, db, cancel=NEVER):
        self._db = db
        self._pool = db.connection_pool
        self._cancel = cancel
        self._connection = None
        # Whether the server still treats this connection as in a transaction.
        self.unended = False
        # Whether something may have reached the server.
        self.sent = False
        # Whether the machine behind the connection is of no use at present.
        self._avoided = False

    def exchange(self, commands, first):
        """Sends commands in one packet; returns their replies, errors as values."""
        rules.check("a transaction over another connection")
        self._db.check_open()
        self._cancel.check()
        if first:
            self._open()
            self.unended = False
        elif not is_connected(self._connection):
            raise ConnectionError("the connection of the transaction was closed")
        packed = self._connection.pack_commands(commands)
        with self._cancel.over(self):
            self.sent = True
            # A health check could replace the connection in the middle of the transaction.
            self._connection.send_packed_command(packed, check_health=first)
            return [self._read() for _ in commands]

    def interrupt(self):
        """Ends an exchange that another thread has under way, which then raises an error."""
        sock = getattr(self._connection, "_sock", None)
        with contextlib.suppress(OSError):
            # Without the end of TLS, which would have to wait for its turn.
            if sock is not None:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def _open(self):
        if self._avoided:
            self.close()
        if self._connection is None:
            self._connection = self._pool.get_connection(*pool_words(self._pool))

    def _read(self):
        try:
            return self._connection.read_response()
        except ResponseError as error:
            self._avoided = avoids(self._connection, error) or self._avoided
            return error

    def abandon(self):
        """Closes the connection, because outstanding replies may still arrive on it."""
        if self._connection is not None:
            self._connection.disconnect()
        self.close()

    def close(self):
        """Returns the connection to the pool."""
        connection, self._connection = self._connection, None
        avoided, self._avoided = self._avoided, False
        if connection is None:
            return
        try:
            if avoided:
                connection.disconnect()
            elif self.unended and is_connected(connection):
                self.unended = False
                connection.send_command("TXN", "ABORT", check_health=False)
                connection.read_response()
        except RedisError:
            connection.disconnect()
        finally:
            self._pool.release(connection)


class Transaction(OnDatabase, CoreCommands):
    """One attempt at a transaction, with redis-py's commands as methods.

    Reads answer at once and see the transaction's own writes. Writes answer a :class:`Deferred` and
    travel with the next read or with the commit, so that a typical transaction is one or two round
    trips. ``now=True`` on :meth:`Claret.begin` makes writes answer at once, at the price of a lock
    that other transactions may have to wait for.

    Leaving the ``with`` block commits; an exception rolls back. If the transaction was aborted and the
    block has hidden that, leaving it raises the error again.
    """

    def __init__(self, db, manner=Manner(), request=None, lane=None):
        self._db = db
        self._writes = frozenset() if manner.now or manner.readonly else db.writers()
        self._script = Script(manner.words(), ["TXN", "COMMIT"], request)
        self._lane = lane or Lane(db)
        self._lane_is_own = lane is None
        self._open = True
        # The error that has ended it, which a function may have caught.
        self._failure = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if not self._open:
            if kind is None and self._failure is not None:
                raise self._failure
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def execute_command(self, *args, **options):
        """Sends a command: at once if its reply is needed, with the next one otherwise."""
        self._check_open()
        check_kind(args, "a transaction")
        if str(args[0]).upper() in self._writes:
            return self._script.defer(list(args), options)
        return self._ask(list(args), args[0], options)

    @property
    def for_update(self):
        """Commands of this transaction that announce a write of what they read.

        ``tx.for_update.get("n")`` waits for other transactions that have announced a write of the
        key, so that none of them has to be run again.
        """
        return Announced(self)

    def announce(self, args, options):
        """Sends a command that announces a write of what it reads."""
        self._check_open()
        check_kind(args, "a transaction")
        return self._ask(["TXN", "FORUPDATE", *args], args[0], options)

    def _ask(self, words, name, options):
        try:
            reply = self._exchange(words)
        except (ConflictError, BusyError) as error:
            self._failure = error
            self._lane.unended = True
            self._end()
            raise
        callback = self._db.response_callbacks.get(name)
        options.pop("keys", None)
        return callback(reply, **options) if callback else reply

    def flush(self):
        """Sends the queued writes, so that the server can already process them."""
        self.execute_command("PING")

    def require(self, lock):
        """Raises :class:`LockLost`, and lets nothing take effect, unless a lock is held.

        It remains held until the transaction has committed: no other client is granted the lock
        before.
        """
        check_held(lock, self.execute_command("LOCK.HELD", lock.name, lock.grant))

    def _check_open(self):
        if not self._open:
            raise TransactionClosed("the transaction has ended; begin another one")

    def _exchange(self, last=None):
        first = not self._script.started
        commands = self._script.take(last)
        try:
            replies = self._lane.exchange(commands, first)
        except BaseException as error:
            self._failure = error
            self._end(broken=True)
            raise
        return self._script.digest(replies)

    def commit(self):
        """Commits the transaction.

        Raises :class:`ConflictError` if it had to give way, :class:`CommitUnknown` if the
        connection broke, :class:`WriteRefused` if a value did not allow a write, or :class:`Undone`
        in a strict transaction, of which nothing took effect then.
        """
        self._check_open()
        try:
            replies = self._exchange()
        except (ConnectionError, TimeoutError) as error:
            raise CommitUnknown(f"the connection broke during the commit: {error}") from error
        finally:
            if self._open:
                self._end()
        self._script.settle(replies, self._db.response_callbacks)

    def rollback(self):
        """Rolls the transaction back: nothing of it takes effect."""
        self._check_open()
        self._lane.unended = self._script.started
        self._end()

    def lose(self):
        """Records that the transaction took effect, as other evidence shows: its replies are lost."""
        self._script.lose()

    def _end(self, broken=False):
        self._open = False
        if broken:
            self._lane.abandon()
        elif self._lane_is_own:
            self._lane.close()


class Announced(ForUpdate, CoreCommands):
    """Reads of a transaction that announce a write; see :attr:`Transaction.for_update`."""


class Batch(OnDatabase, CoreCommands):
    """Commands that take effect together, over any keys, in one round trip.

    Every command answers a :class:`Deferred`. Leaving the ``with`` block carries the batch out, and
    so does :meth:`execute`. A batch has a request number: if the connection breaks it is sent
    again, and takes effect once.
    """

    def __init__(self, db, policy, once=None):
        self._db = db
        self._policy = policy
        self._once = once
        self._begin()

    def _begin(self):
        self._script = Script(["MULTI"], ["EXEC"])

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None and len(self):
            try:
                self.execute()
            except RepeatedError:
                # It took effect; a later read of a reply raises an error, because that is lost.
                pass

    def __len__(self):
        return len(self._script)

    def fence(self, lock):
        """All of the batch, on keys of one hash slot, is under a lock's fencing token.

        Carrying it out raises :class:`LockLost`, and changes nothing, if a later holder of the lock
        has written there.
        """
        return self.execute_command("FENCE", lock.name, lock.token)

    def guard(self, key, value):
        """Lets the batch take effect only if the key has this string, or is absent for ``None``.

        All guards must hold at the instant at which it would take effect. Otherwise nothing of it
        does, and :meth:`execute` returns ``None``.
        """
        self._script.guard(key, value)

    def execute_command(self, *args, **options):
        """Adds a command."""
        check_kind(args, "a batch")
        return self._script.defer(list(args), options)

    def execute(self, raise_on_error=True):
        """Carries the commands out and returns their replies, or ``None`` if a guard did not hold; the
        batch is empty afterwards.

        Raises :class:`WriteRefused` if there are errors among the replies, which otherwise remain
        in the list; :class:`RepeatedError` if it took effect but the replies are lost;
        :class:`CommitUnknown` if the server could not be reached again.
        """
        script = self._script
        self._begin()
        with self._db.requests.borrow(self._once) as requests:
            return self._execute(script, script.take(request=next(requests)), raise_on_error)

    def _execute(self, script, commands, raise_on_error):
        last, sent = None, False
        for pause in self._policy.pauses():
            time.sleep(pause)
            try:
                reply = self._attempt(script, commands)
                if reply is None:
                    return None
                return script.settle(reply, self._db.response_callbacks, raise_on_error)
            except RepeatedError:
                script.lose()
                raise
            except BusyError as error:
                last = error
            except (AuthenticationError, ClientClosed) as error:
                # An earlier attempt may have taken effect.
                last = error
                break
            except (ConnectionError, TimeoutError) as error:
                last, sent = error, sent or error.maybe_committed
        if not sent:
            raise last
        raise CommitUnknown(f"the connection broke: {last}") from last

    def _attempt(self, script, commands):
        lane = Lane(self._db)
        try:
            replies = lane.exchange(commands, first=True)
        except BaseException as error:
            lane.abandon()
            note_sent(error, lane.sent)
            raise
        lane.close()
        return script.digest(replies)


def transactional(function):
    """Decorator for functions whose first parameter is a database or a transaction.

    Called with a database, the function is run in a transaction of its own, repeatedly until it
    commits; called with a transaction, it is a part of that one.
    """

    @functools.wraps(function)
    def wrapper(db, *args, **kwargs):
        if isinstance(db, Transaction):
            return function(db, *args, **kwargs)
        return db.run(function, *args, **kwargs)

    return wrapper
