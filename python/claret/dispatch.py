"""Commands that are sent without waiting for replies, and take effect in the order they are sent
in.

The server keeps that order over all keys, whatever shards hold them: the replies are those of a
program that waits for each before it sends the next, and no other client can see a difference.
"""

import collections

from redis.commands.core import CoreCommands
from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from . import rules
from .errors import CommitUnknown, TransactionClosed, translate
from .later import Later, check_words
from .script import OnDatabase, check_kind, is_connected, pool_words

# Most unanswered commands; the oldest reply is awaited before another command is sent.
WINDOW = 256

class Promise(Later):
    """A reply that may not have arrived yet. It has no other use: wait for it first."""

    __slots__ = ("_outcome", "_seen")

    _ADVICE = "`.result()` waits for it"

    def __init__(self):
        self._outcome = None
        self._seen = False

    def done(self):
        """Whether the reply has arrived. Does not read from the connection."""
        return self._outcome is not None

    def _set(self, value=None, error=None):
        self._outcome = (value, error)

    def _get(self):
        self._seen = True
        value, error = self._outcome
        if error is not None:
            raise error
        return value

    def __repr__(self):
        kind = type(self).__name__
        return f"<{kind}: {self._outcome[1] or self._outcome[0]!r}>" if self.done() else f"<{kind}>"


class Future(Promise):
    """A reply that may not have arrived yet."""

    __slots__ = ("_dispatch",)

    def __init__(self, dispatch):
        super().__init__()
        self._dispatch = dispatch

    def result(self):
        """Waits for the reply, and for all before it; raises it if it is an error."""
        if not self.done():
            self._dispatch._read_up_to(self)
        return self._get()

    def exception(self):
        """Waits for the reply; returns it if it is an error, and None otherwise."""
        if not self.done():
            self._dispatch._read_up_to(self)
        self._seen = True
        return self._outcome[1]


def lost(error):
    """The error of commands whose replies will never arrive."""
    return CommitUnknown(f"the connection broke before the reply came: {error}")


class Issued(OnDatabase):
    """Commands issued over a connection, without the input and output: as :class:`Script` is for
    transactions."""

    def __init__(self, db, debug=False):
        self._db = db
        self._debug = debug
        self._watch = None
        self._connection = None
        # Outstanding promises, each with the command's name and options.
        self._waiting = collections.deque()
        # Errors that the program may not have seen.
        self._errors = []

    def _words_of(self, args):
        """The words of a command, if it can be dispatched."""
        if self._connection is None:
            raise TransactionClosed("a dispatch sends commands inside of its `with` block")
        if self._watch:
            self._watch.sent_by()
        check_kind(args, "a dispatch")
        check_words(args)
        return list(args)

    def _answered(self, reply):
        """The reply to the first command that waits for one."""
        promise, name, options = self._waiting.popleft()
        if isinstance(reply, ResponseError):
            return self._fail(promise, translate(reply))
        callback = self._db.response_callbacks.get(name)
        options = {key: option for key, option in options.items() if key != "keys"}
        try:
            promise._set(callback(reply, **options) if callback else reply)
        except Exception as error:  # What redis-py cannot read is told to whoever asks for it.
            self._fail(promise, error)

    def _fail(self, promise, error):
        promise._set(error=error)
        if len(self._errors) >= WINDOW:
            unseen = [promise for promise in self._errors if not promise._seen]
            self._errors = unseen[: WINDOW - 1]
        self._errors.append(promise)

    def _raise_unseen(self):
        """Raises the first error that the program has not seen."""
        errors, self._errors = self._errors, []
        for promise in errors:
            if not promise._seen:
                promise._get()


class Dispatch(Issued, CoreCommands):
    """A connection with redis-py's commands as methods, each of which returns a :class:`Future`.

    A command is sent at once. Leaving the ``with`` block waits for all of them, and raises the
    first error that the program has not seen. If the connection breaks, commands without a reply
    raise :class:`CommitUnknown`: they may have taken effect or not.

    With ``debug`` the program is checked for actions in between that reveal a difference to a
    program that waits for every reply: see :mod:`claret.rules`. For one thread.
    """

    def __enter__(self):
        self._db.check_open()
        pool = self._db.connection_pool
        self._connection = pool.get_connection(*pool_words(pool))
        if self._debug:
            self._watch = rules.Watch(lambda: len(self._waiting))
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self.wait()
            else:
                self._drain()
        finally:
            self._end()

    def execute_command(self, *args, **options):
        """Sends a command; its reply comes later."""
        words, future = self._words_of(args), Future(self)
        if self._watch:
            with self._watch:
                self._send(words)
        else:
            self._send(words)
        self._waiting.append((future, args[0], options))
        return future

    def _send(self, words):
        try:
            # It would be opened again, while commands sent over the old one may still take effect.
            if not is_connected(self._connection):
                raise ConnectionError("it was closed")
            # The server must not have to wait for room: read the available replies.
            while self._waiting and (
                len(self._waiting) >= WINDOW or self._connection.can_read(timeout=0)
            ):
                self._read_one()
            packed = self._connection.pack_command(*words)
            self._connection.send_packed_command(packed, check_health=False)
        except (ConnectionError, TimeoutError) as error:
            self._break(error)
            raise lost(error) from error

    def wait(self):
        """Waits for all replies; raises the first error that the program has not seen.

        To be called before any action outside of the database that others can see.
        """
        self._drain()
        self._raise_unseen()

    def _drain(self):
        if self._waiting:
            self._read_up_to(self._waiting[-1][0])

    def _read_up_to(self, future):
        try:
            while not future.done():
                self._read_one()
        except (ConnectionError, TimeoutError) as error:
            self._break(error)

    def _read_one(self):
        try:
            reply = self._connection.read_response()
        except ResponseError as error:
            reply = error
        self._answered(reply)

    def _break(self, error):
        self._connection.disconnect()
        while self._waiting:
            self._fail(self._waiting.popleft()[0], lost(error))

    def _end(self):
        if self._watch:
            self._watch.end()
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._waiting:
                connection.disconnect()
            self._db.connection_pool.release(connection)
