"""Asyncio client: :class:`Claret` on top of ``redis.asyncio``.

``async with`` and ``await`` where the blocking client has ``with`` and nothing. A write in a
transaction may be awaited or not: it is deferred either way. Tasks may share a transaction; their
commands then take turns.
"""

import asyncio
import contextlib
import functools

import redis.asyncio
from redis.commands.core import AsyncCoreCommands
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from . import rules
from .aio_barrier import Barrier
from .aio_cache import Cache
from .aio_dispatch import Dispatch
from .aio_election import Election
from .aio_lock import Fenced, Lock
from .aio_retained import Retained
from .aio_section import Section
from .errors import (
    BusyError,
    ClientClosed,
    CommitUnknown,
    ConflictError,
    RepeatedError,
    TransactionClosed,
    VoidedError,
    labelled,
    undecided,
)
from .hold import check_held, note_sent
from .keep import COHORT, TOKENS
from .kept import MAX_ENTRIES, MAX_REPLY_BYTES
from .later import Asked, check_words
from .reach import AsyncSeeking, Reaching
from .script import (
    Awaitable,
    ForUpdate,
    Manner,
    OnDatabase,
    Requests,
    RetryPolicy,
    Script,
    avoids,
    check_kind,
    is_connected,
    pool_words,
    writers,
)


@contextlib.contextmanager
def heeding():
    """Ends the task if it was cancelled in the block.

    Redis-py sends with ``wait_for``, which may lose a cancellation before Python 3.12.
    """
    cancelling = getattr(asyncio.current_task(), "cancelling", lambda: 0)
    before = cancelling()
    yield
    if cancelling() > before:
        raise asyncio.CancelledError


class Lane:
    """A connection on loan from the pool; see :class:`claret.transaction.Lane`."""

    def __init__(self, db, wait_s=None):
        self._db = db
        self._pool = db.connection_pool
        self._connection = None
        self.unended = False
        self.sent = False
        # Whether the machine behind the connection is of no use at present.
        self._avoided = False
        # Time-out of a reply, if it differs from the default.
        self._patience = {} if wait_s is None else {"timeout": wait_s}

    async def exchange(self, commands, first):
        """Sends commands in one packet; returns their replies, errors as values."""
        rules.check("a transaction over another connection")
        self._db.check_open()
        with heeding():
            await self._send(commands, first)
        return [await self._read() for _ in commands]

    async def _send(self, commands, first):
        if first:
            if self._avoided:
                await self.close()
            if self._connection is None:
                self._connection = await self._pool.get_connection(*pool_words(self._pool))
            self.unended = False
        elif not is_connected(self._connection):
            raise ConnectionError("the connection of the transaction was closed")
        packed = self._connection.pack_commands(commands)
        self.sent = True
        await self._connection.send_packed_command(packed, check_health=first)

    async def _read(self):
        try:
            return await self._connection.read_response(**self._patience)
        except ResponseError as error:
            self._avoided = avoids(self._connection, error) or self._avoided
            return error

    async def abandon(self):
        """Closes the connection, because outstanding replies may still arrive on it."""
        if self._connection is not None:
            await self._connection.disconnect(nowait=True)
        await self.close()

    async def close(self):
        """Returns the connection to the pool."""
        connection, self._connection = self._connection, None
        avoided, self._avoided = self._avoided, False
        if connection is None:
            return
        try:
            if avoided:
                await connection.disconnect(nowait=True)
            elif self.unended and is_connected(connection):
                self.unended = False
                await connection.send_command("TXN", "ABORT", check_health=False)
                await connection.read_response()
        except RedisError:
            await connection.disconnect(nowait=True)
        finally:
            await self._pool.release(connection)


class Transaction(OnDatabase, AsyncCoreCommands):
    """One attempt at a transaction; see :class:`claret.Transaction`."""

    def __init__(self, db, manner=Manner(), request=None, lane=None):
        self._db = db
        self._deferring = not (manner.now or manner.readonly)
        self._writes = frozenset()
        self._script = Script(manner.words(), ["TXN", "COMMIT"], request, deferred=Awaitable)
        self._lane = lane or Lane(db)
        self._lane_is_own = lane is None
        self._turn = asyncio.Lock()
        self._open = True
        # The error that has ended it, which a function may have caught.
        self._failure = None

    async def __aenter__(self):
        if self._deferring:
            self._writes = await self._db.writers()
        return self

    async def __aexit__(self, kind, error, trace):
        if not self._open:
            if kind is None and self._failure is not None:
                raise self._failure
            return
        if kind is None:
            await self.commit()
        else:
            await self.rollback()

    def execute_command(self, *args, **options):
        """Sends a command: at once if its reply is needed, with the next one otherwise."""
        self._check_open()
        check_kind(args, "a transaction")
        if str(args[0]).upper() in self._writes:
            return self._script.defer(list(args), options)
        return Asked(self._ask(list(args), args[0], options))

    @property
    def for_update(self):
        """Commands that announce a write of what they read: see :attr:`claret.Transaction.for_update`."""
        return Announced(self)

    def announce(self, args, options):
        """Sends a command that announces a write of what it reads."""
        self._check_open()
        check_kind(args, "a transaction")
        return Asked(self._ask(["TXN", "FORUPDATE", *args], args[0], options))

    async def _ask(self, words, name, options):
        try:
            reply = await self._exchange(words)
        except (ConflictError, BusyError) as error:
            self._failure = error
            self._lane.unended = True
            await self._end()
            raise
        callback = self._db.response_callbacks.get(name)
        options.pop("keys", None)
        return callback(reply, **options) if callback else reply

    async def flush(self):
        """Sends the queued writes, so that the server can already process them."""
        await self.execute_command("PING")

    async def require(self, lock):
        """Raises :class:`LockLost` unless a lock is held; see :meth:`claret.Transaction.require`."""
        check_held(lock, await self.execute_command("LOCK.HELD", lock.name, lock.grant))

    def _check_open(self):
        if not self._open:
            raise TransactionClosed("the transaction has ended; begin another one")

    async def _exchange(self, last=None):
        async with self._turn:
            self._check_open()
            first = not self._script.started
            commands = self._script.take(last)
            try:
                replies = await self._lane.exchange(commands, first)
            except BaseException as error:
                self._failure = error
                await self._end(broken=True)
                raise
            return self._script.digest(replies)

    async def commit(self):
        """Commits the transaction; see :meth:`claret.Transaction.commit`."""
        self._check_open()
        try:
            with undecided():
                replies = await self._exchange()
        except (ConnectionError, TimeoutError) as error:
            raise CommitUnknown(f"the connection broke during the commit: {error}") from error
        finally:
            if self._open:
                await self._end()
        self._script.settle(replies, self._db.response_callbacks)

    async def rollback(self):
        """Rolls the transaction back: nothing of it takes effect."""
        self._check_open()
        self._lane.unended = self._script.started
        await self._end()

    def lose(self):
        """Records that the transaction took effect, as other evidence shows: its replies are lost."""
        self._script.lose()

    async def _end(self, broken=False):
        self._open = False
        if broken:
            await self._lane.abandon()
        elif self._lane_is_own:
            await self._lane.close()


class Announced(ForUpdate, AsyncCoreCommands):
    """Reads of a transaction that announce a write; see :attr:`Transaction.for_update`."""


class Batch(OnDatabase, AsyncCoreCommands):
    """Commands that take effect together; see :class:`claret.Batch`."""

    def __init__(self, db, policy, once=None):
        self._db = db
        self._policy = policy
        self._once = once
        self._begin()

    def _begin(self):
        self._script = Script(["MULTI"], ["EXEC"], deferred=Awaitable)

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, error, trace):
        if kind is None and len(self):
            try:
                await self.execute()
            except RepeatedError:
                # It took effect; a later read of a reply raises an error, because that is lost.
                pass

    def __len__(self):
        return len(self._script)

    def fence(self, lock):
        """Puts the batch under a lock's fencing token; see :meth:`claret.Batch.fence`."""
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

    async def execute(self, raise_on_error=True):
        """Carries the commands out; see :meth:`claret.Batch.execute`."""
        script = self._script
        self._begin()
        with self._db.requests.borrow(self._once) as requests, undecided():
            return await self._execute(script, script.take(request=next(requests)), raise_on_error)

    async def _execute(self, script, commands, raise_on_error):
        last, sent = None, False
        for pause in self._policy.pauses():
            await asyncio.sleep(pause)
            try:
                reply = await self._attempt(script, commands)
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

    async def _attempt(self, script, commands):
        lane = Lane(self._db)
        try:
            replies = await lane.exchange(commands, first=True)
        except BaseException as error:
            await lane.abandon()
            note_sent(error, lane.sent)
            raise
        await lane.close()
        return script.digest(replies)


class Claret(Reaching, redis.asyncio.Redis):
    """A ``redis.asyncio.Redis`` with more methods; see :class:`claret.Claret`."""

    _SEEKING = AsyncSeeking

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.requests = Requests()
        self._writers = None
        self._writers_asked = None

    async def aclose(self, close_connection_pool=None):
        """Closes the connections; later calls raise :class:`claret.ClientClosed`."""
        self._is_closed = True
        await super().aclose(close_connection_pool)

    def execute_command(self, *args, **options):
        """As in redis-py; the result must be awaited, and every other use of it is refused."""
        rules.check("a command over another connection")
        self.check_open()
        check_words(args)
        return Asked(self._execute(args, options))

    async def _execute(self, args, options):
        with labelled(), heeding():
            return await super().execute_command(*args, **options)

    def dispatch(self, debug=False):
        """Commands that are sent without waiting for replies, in their order. See
        :class:`Dispatch`.

        ``debug`` detects actions in between that such a program must not take.
        """
        return Dispatch(self, debug)

    def cache(self, max_entries=MAX_ENTRIES, max_reply_bytes=MAX_REPLY_BYTES):
        """Replies to reads, kept in memory until their key is written; see
        :meth:`claret.Claret.cache`."""
        return Cache(self, max_entries, max_reply_bytes)

    def lock(
        self,
        name,
        lease=30.0,
        owner=None,
        shared=False,
        limit=None,
        timeout=None,
        detect=False,
        near=False,
        policy=RetryPolicy(),
        *,
        next=False,
    ):
        """A lock, as an asynchronous context manager; see :meth:`claret.Claret.lock`.

        If it is lost the task in the block is cancelled, and the block raises :class:`LockLost`.
        """
        how = (lease, owner, shared, limit, timeout, detect, near, next)
        return Lock(self, name, *how, policy=policy)

    def retained(
        self,
        name,
        lease=30.0,
        owner=None,
        timeout=None,
        cohort=COHORT,
        tokens=TOKENS,
        adaptive=False,
        policy=RetryPolicy(),
    ):
        """A lock that stays with this process; see :meth:`claret.Claret.retained`.

        One object serves all tasks: ``async with db.retained("report") as kept``, and in it ``async
        with kept.lock() as lock``. If it is lost the task in the block is cancelled.
        """
        how = (lease, owner, timeout, cohort, tokens, adaptive)
        return Retained(self, name, *how, policy=policy)

    def section(
        self,
        name,
        owner=None,
        shared=False,
        limit=None,
        timeout=None,
        detect=False,
        policy=RetryPolicy(),
    ):
        """Commands that are carried out under a lock; see :meth:`claret.Claret.section`."""
        return Section(self, name, owner, shared, limit, timeout, detect, policy=policy)

    def election(
        self, name, value=None, lease=30.0, owner=None, timeout=None, policy=RetryPolicy()
    ):
        """An election, as an asynchronous context manager; see :meth:`claret.Claret.election`."""
        return Election(self, name, value, lease, owner, timeout, policy=policy)

    def barrier(self, name, parties, owner=None, policy=RetryPolicy()):
        """A barrier for a number of parties; see :meth:`claret.Claret.barrier`."""
        return Barrier(self, name, parties, owner, policy=policy)

    def fenced(self, lock):
        """Commands that are refused if a later holder has written; see
        :meth:`claret.Claret.fenced`."""
        return Fenced(self, lock)

    def waiting_lane(self, wait_s):
        """A connection on which a reply may take this many seconds."""
        return Lane(self, wait_s)

    async def writers(self):
        """Names of the commands that may change data, by the server's own table."""
        if self._writers is None:
            # The table is long: transactions that begin together ask for it once. In Python 3.9 a lock belongs
            # to the event loop that runs when it is made.
            self._writers_asked = self._writers_asked or asyncio.Lock()
            async with self._writers_asked:
                if self._writers is None:
                    self._writers = writers(await self.execute_command("COMMAND"))
        return self._writers

    def begin(
        self,
        readonly=False,
        now=False,
        *,
        strict=False,
        idle_timeout=None,
        transaction_timeout=None,
        for_update=False,
    ):
        """One attempt at a transaction, as an asynchronous context manager.

        See :meth:`claret.Claret.begin`.
        """
        times = (idle_timeout, transaction_timeout)
        return Transaction(self, Manner(readonly, now, strict, *times, for_update))

    def snapshot(self):
        """A transaction of reads that all show one instant, and that takes no locks."""
        return Transaction(self, Manner(readonly=True))

    def batch(self, policy=RetryPolicy(), *, once=None):
        """Commands that take effect together, over any keys, in one round trip."""
        return Batch(self, policy, once)

    async def run(
        self,
        function,
        *args,
        readonly=False,
        now=False,
        strict=True,
        idle_timeout=None,
        transaction_timeout=None,
        for_update=False,
        once=None,
        policy=RetryPolicy(),
        **kwargs,
    ):
        """Awaits ``function(transaction, *args)`` in a transaction until it commits.

        See :meth:`claret.Claret.run`.
        """
        with self.requests.borrow(once) as requests:
            times = (idle_timeout, transaction_timeout)
            manner = Manner(readonly, now, strict, *times, for_update)
            return await self._run(function, args, kwargs, manner, policy, requests)

    async def _run(self, function, args, kwargs, manner, policy, requests):
        request = None if manner.readonly else next(requests)
        lane, last = Lane(self), None
        try:
            for pause in policy.pauses():
                await asyncio.sleep(pause)
                transaction = Transaction(self, manner, request, lane)
                try:
                    async with transaction:
                        result = await function(transaction, *args, **kwargs)
                    return result
                except CommitUnknown as error:
                    if manner.readonly:
                        return result
                    with undecided():
                        took_effect = await self._took_effect(request, policy, error)
                    if took_effect:
                        transaction.lose()
                        return result
                    # The old number is used up: it will never take effect.
                    request = next(requests)
                    last = error
                except VoidedError as error:
                    # Another process with the same text has asked for the outcome.
                    request = next(requests)
                    last = error
                except AuthenticationError:
                    # A wrong password stays wrong.
                    raise
                except (ConflictError, BusyError, ConnectionError, TimeoutError) as error:
                    last = error
        finally:
            await lane.close()
        raise last

    async def _took_effect(self, request, policy, error):
        """Asks the server whether a commit whose answer was lost took effect, and settles it."""
        for pause in policy.pauses():
            await asyncio.sleep(pause)
            try:
                return bool(await self.execute_command("TXN", "RESOLVE", *request))
            except (BusyError, ConnectionError, TimeoutError):
                continue
            except (ClientClosed, CommitUnknown, ResponseError) as refused:
                raise CommitUnknown(f"{error}; asking was refused: {refused}") from error
        raise CommitUnknown(f"{error}; the server could not be asked either") from error


def transactional(function):
    """Decorator for coroutine functions whose first parameter is a database or a transaction.

    See :func:`claret.transactional`.
    """

    @functools.wraps(function)
    async def wrapper(db, *args, **kwargs):
        if isinstance(db, Transaction):
            return await function(db, *args, **kwargs)
        return await db.run(function, *args, **kwargs)

    return wrapper
