"""Commands of a transaction, sent and still to be sent, without input or output.

Shared by the blocking client and the one for asyncio, which only carry bytes.
"""

import contextlib
import inspect
import itertools
import os
import random
import time
import uuid
from dataclasses import dataclass
from typing import Optional

from redis.exceptions import ClusterDownError, ResponseError

from .errors import (
    ClaretError,
    OrderError,
    RepeatedError,
    TransactionClosed,
    Undone,
    WriteRefused,
    translate,
)
from .later import Later, check_words


@dataclass(frozen=True)
class RetryPolicy:
    """Number and pauses of the retries of a transaction.

    Pauses grow from ``pause_s_min`` to ``pause_s_max`` and are drawn at random below that, so that
    rivals do not collide again.
    """

    deadline_s: float = 10.0
    attempts_max: Optional[int] = None
    pause_s_min: float = 0.0005
    pause_s_max: float = 0.05

    def pause(self, attempt):
        """Seconds to wait before attempt number ``attempt`` (1 is the first retry)."""
        longest = self.pause_s_min * 2 ** min(attempt, 30)
        return random.uniform(0, min(self.pause_s_max, longest))

    def pauses(self):
        """For each attempt that may be made, the seconds to wait before it."""
        since = time.monotonic()
        for attempt in itertools.count():
            if attempt and attempt == self.attempts_max:
                return
            if attempt and time.monotonic() - since >= self.deadline_s:
                return
            yield self.pause(attempt) if attempt else 0


# Commands that change the connection for its next user, that begin or end a transaction, or that have
# no single reply.
NOT_HERE = frozenset(
    "AUTH CLIENT DISCARD EXEC HELLO MONITOR MULTI PSUBSCRIBE PUNSUBSCRIBE QUIT RESET SELECT "
    "SSUBSCRIBE SUBSCRIBE SUNSUBSCRIBE TXN UNSUBSCRIBE UNWATCH WATCH".split()
)

# Upper bound of time-outs of a transaction, in seconds.
SECONDS_MAX = 86_400

# Longest text of ``once``, in bytes: the name of a request has 64.
ONCE_BYTES_MAX = 59


def check_kind(args, place):
    """Raises :class:`OrderError` for a command that is about a connection."""
    name = str(_text(args[0])).upper().split()[0]
    if name in NOT_HERE:
        raise OrderError(f"{name} is not for {place}: it is about a connection of its own")


def check_once(once):
    """Raises ``ValueError`` unless a text can be the name of a request.

    The server would refuse the name, and carry the commands behind it out one by one.
    """
    if not isinstance(once, str) or not 1 <= len(once.encode()) <= ONCE_BYTES_MAX:
        raise ValueError(f"once is a text of 1 to {ONCE_BYTES_MAX} bytes, not {once!r}")
    if any(letter.isspace() or not letter.isprintable() for letter in once):
        raise ValueError(f"once is a text without spaces and control characters, not {once!r}")


class OnDatabase:
    """Attributes that redis-py's command methods require of their object, provided by the database."""

    def get_encoder(self):
        """Encoder of arguments."""
        return self._db.get_encoder()

    def get_connection_kwargs(self):
        """Arguments of connections."""
        return self._db.get_connection_kwargs()


class ForUpdate(OnDatabase):
    """Commands that read, each of which announces that what it reads is written afterwards."""

    def __init__(self, transaction):
        self._db = transaction

    def execute_command(self, *args, **options):
        """Sends a command behind the announcement."""
        return self._db.announce(args, options)


class Requests:
    """Request numbers: names that are unique for ever, each with a count.

    Each open request has a name of its own. The server remembers the outcomes of the last numbers
    of each name: if several requests shared one, the others could make it forget the outcome that
    one of them still has to ask for.
    """

    def __init__(self):
        # The process that the names belong to, their prefix, and the unused ones. Replaced as a
        # whole: a thread sees all of it or nothing.
        self._names = (None, "", [])
        self._made = itertools.count(1)

    @contextlib.contextmanager
    def borrow(self, once=None):
        """An iterator of names with numbers that were never issued, not even before a fork.

        With a text ``once`` they are those of that text, from the first one on, in every process.
        """
        if once is not None:
            check_once(once)
            yield ([f"once:{once}", number] for number in itertools.count(1))
            return
        if self._names[0] != os.getpid():
            self._names = (os.getpid(), f"py-{uuid.uuid4().hex}", [])
        _, prefix, free = self._names
        try:
            numbered = free.pop()
        except IndexError:
            name = f"{prefix}-{next(self._made)}"
            numbered = ([name, number] for number in itertools.count(1))
        try:
            yield numbered
        finally:
            free.append(numbered)


class Deferred(Later):
    """The reply of a write in a transaction: known once the transaction has committed.

    It is not the reply itself: every use except reading :attr:`value` raises :class:`OrderError`.
    """

    __slots__ = ("_conversions", "_state", "_value")

    _ADVICE = (
        "read `.value` after the commit, or begin the transaction with `now=True`, so that writes "
        "answer at once"
    )

    def __init__(self):
        self._conversions = ()
        self._state = "open"
        self._value = None

    def _set(self, value):
        if not isinstance(value, Exception):
            for convert in self._conversions:
                value = convert(value)
        self._state, self._value = "known", value

    def _lose(self):
        self._state = "lost"

    def _then(self, convert):
        self._conversions += (convert,)
        return self

    @property
    def value(self):
        """The reply; raises the error if it is one.

        Raises :class:`TransactionClosed` while the transaction is open or if it was rolled back,
        and :class:`RepeatedError` if the transaction took effect but the replies were lost.
        """
        if self._state == "lost":
            raise RepeatedError("it took effect, but the connection broke before its replies came")
        if self._state == "open":
            raise TransactionClosed("a write is answered when its transaction commits")
        if isinstance(self._value, Exception):
            raise self._value
        return self._value

    def __repr__(self):
        return f"Deferred({self._value!r})" if self._state == "known" else f"Deferred({self._state})"


class Awaitable(Deferred):
    """A :class:`Deferred` that may be awaited, which returns itself: for asyncio."""

    __slots__ = ()

    # ``asyncio.gather`` puts its arguments into a dictionary.
    __hash__ = object.__hash__

    def __await__(self):
        return self
        yield


class Script:
    """The commands of one attempt. ``begin`` opens it and ``end`` makes it take effect."""

    def __init__(self, begin, end, request=None, deferred=Deferred):
        self._request = request
        # Conditions, for the end of a batch, are added to it.
        self._end = list(end)
        self._deferred = deferred
        # Unsent commands, each with the `Deferred` that gets its reply.
        self._unsent = [(begin, None)]
        self._flying = []
        # Deferred commands in the order in which the commit will answer them.
        self._queued = []
        # Replies of deferred commands without any write, known at once.
        self._early = []
        # Reason why the commit must not be sent any more.
        self._fault = None
        self.started = False

    def __len__(self):
        waiting = sum(about is not None for _, about in self._unsent)
        return waiting + len(self._queued) + len(self._early)

    def defer(self, command, options):
        """Adds a command whose reply arrives with the commit."""
        check_words(command)
        reply = self._deferred()
        self._unsent.append((command, (command[0], options, reply)))
        return reply

    def guard(self, key, value):
        """Adds a condition: the key has this string, or is absent if that is ``None``."""
        words = ["NX", key] if value is None else ["IFEQ", key, value]
        check_words(words)
        self._end += words

    def take(self, last=None, request=None):
        """Commands to send now; the reply of the last one is awaited. ``None``: the end."""
        check_words(last or ())
        request = request or self._request
        if request and not self.started:
            self._unsent.insert(0, (["CLIENT", "REQUEST", *request], None))
        if last is None and self._fault:
            raise self._fault
        self.started = True
        self._flying, self._unsent = self._unsent, []
        return [command for command, _ in self._flying] + [last or self._end]

    def digest(self, replies):
        """Processes the replies to the commands of :meth:`take`, errors as values; returns the last
        reply.

        Raises an error that prevents the transaction, or else the error of the last command.
        """
        *earlier, last = replies
        for (_, about), reply in zip(self._flying, earlier):
            if isinstance(reply, ResponseError):
                self._fault = self._fault or translate(reply)
            elif about is None:
                continue
            elif reply in (b"QUEUED", "QUEUED"):
                self._queued.append(about)
            else:
                self._early.append((about, reply))
        if isinstance(last, ResponseError):
            last = translate(last)
            if self._fault and (isinstance(last, Undone) or not isinstance(last, ClaretError)):
                # This error is the reason for undoing the transaction.
                raise self._fault
            raise last
        if self._fault:
            raise self._fault
        return last

    def settle(self, replies, callbacks, strict=True):
        """Distributes the replies of a commit and returns them as a list.

        With ``strict`` it raises :class:`WriteRefused` if there are errors among them.
        """
        pairs = self._early + list(zip(self._queued, replies or []))
        errors, values = [], []
        for (name, options, reply), value in pairs:
            if isinstance(value, Exception):
                errors.append((name, translate(value)))
            elif name in callbacks:
                options = {key: option for key, option in options.items() if key != "keys"}
                value = callbacks[name](value, **options)
            reply._set(value)
            values.append(value)
        if errors and strict:
            raise WriteRefused(errors)
        return values

    def lose(self):
        """Records that the transaction took effect, but that its replies are lost."""
        for about in [about for _, about in self._flying if about] + self._queued:
            about[2]._lose()
        for about, _ in self._early:
            about[2]._lose()


@dataclass(frozen=True)
class Manner:
    """Options of a transaction.

    It only reads; its writes answer at once; all is undone if a command is refused; longest pause
    between commands, and longest duration, in seconds, while other clients wait (``None``: the
    server's default, 0: no limit); its reads announce that their keys are written afterwards.
    """

    readonly: bool = False
    now: bool = False
    strict: bool = False
    idle_timeout: Optional[float] = None
    transaction_timeout: Optional[float] = None
    for_update: bool = False

    def __post_init__(self):
        if self.readonly and self.for_update:
            raise ValueError("a transaction that only reads is not for_update")
        for seconds in (self.idle_timeout, self.transaction_timeout):
            # The server would refuse to begin, and carry the commands behind it out one by one.
            if seconds is not None and not 0 <= seconds <= SECONDS_MAX:
                raise ValueError(f"a time-out is from 0 to {SECONDS_MAX} seconds, not {seconds!r}")

    def words(self):
        """The command that begins the transaction."""
        words = ["TXN", "BEGIN"]
        if self.readonly:
            return [*words, "READONLY"]
        words += [] if self.now else ["BLIND"]
        words += ["STRICT"] if self.strict else []
        words += ["FORUPDATE"] if self.for_update else []
        for name, seconds in (("IDLE", self.idle_timeout), ("TIMEOUT", self.transaction_timeout)):
            words += [] if seconds is None else [name, round(seconds * 1000)]
        return words


def writers(table):
    """Names of the commands that change data, from the reply of ``COMMAND``."""
    flags = {str(name).upper(): {_text(f) for f in about["flags"]} for name, about in table.items()}
    if "TXN" not in flags:
        raise ClaretError("this server has no command TXN, so it is not Claret: use redis.Redis")
    return frozenset(name for name, found in flags.items() if "write" in found)


def _text(word):
    return word.decode() if isinstance(word, bytes) else str(word)


def pool_words(pool):
    """Arguments of a pool's ``get_connection``: newer versions of redis-py take none."""
    parameter = inspect.signature(pool.get_connection).parameters.get("command_name")
    needed = parameter is not None and parameter.default is inspect.Parameter.empty
    return ["TXN"] if needed else []


def avoids(connection, error):
    """Lets new connections go to another address if the machine at this one knows no leader.

    Returns whether the client has several addresses, so that this connection should be closed.
    """
    avoid = getattr(connection, "avoid", None)
    if avoid is None or not isinstance(error, ClusterDownError):
        return False
    avoid()
    return True


def is_connected(connection):
    """Whether a connection is open. A closed one would silently be opened again."""
    known = getattr(connection, "is_connected", None)
    return getattr(connection, "_sock", None) is not None if known is None else bool(known)
