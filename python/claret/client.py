"""The blocking client."""

import threading

import redis
from redis.exceptions import AuthenticationError, ConnectionError, ResponseError, TimeoutError

from . import rules
from .barrier import Barrier
from .cache import Cache
from .cancel import NEVER
from .dispatch import Dispatch
from .election import Election
from .errors import (
    BusyError,
    Cancelled,
    ClientClosed,
    CommitUnknown,
    ConflictError,
    VoidedError,
    labelled,
)
from .keep import COHORT, TOKENS
from .kept import MAX_ENTRIES, MAX_REPLY_BYTES
from .later import check_words
from .lock import Fenced, Lock
from .reach import BlockingSeeking, Reaching
from .retained import Retained
from .script import Manner, Requests, RetryPolicy, writers
from .section import Section
from .transaction import Batch, Lane, Transaction


class Claret(Reaching, redis.Redis):
    """A ``redis.Redis`` with more methods. Safe to share between threads.

    Takes the arguments of ``redis.Redis``, and: ``addresses``, texts ``host:port`` of servers of one
    database, in the place of ``host`` and ``port``: of these the client uses one that answers, and
    another when that fails; ``password_file``, a file whose first line is the password, read for each
    connection.

    ``requests`` supplies the request numbers with which a repeated request takes effect once.
    """

    _SEEKING = BlockingSeeking

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.requests = Requests()
        self._writers = None
        self._writers_asked = threading.Lock()

    def close(self):
        """Closes the connections; later calls raise :class:`ClientClosed`."""
        self._is_closed = True
        super().close()

    def writers(self):
        """Names of the commands that may change data, by the server's own table."""
        # The table is long: transactions that begin together ask for it once.
        with self._writers_asked:
            if self._writers is None:
                self._writers = writers(self.execute_command("COMMAND"))
        return self._writers

    def execute_command(self, *args, **options):
        """As in redis-py; an error about the moment has its label (see :mod:`claret.errors`)."""
        rules.check("a command over another connection")
        self.check_open()
        check_words(args)
        with labelled():
            return super().execute_command(*args, **options)

    def dispatch(self, debug=False):
        """Commands that are sent without waiting for replies, in their order. See
        :class:`Dispatch`.

        ``debug`` detects actions in between that such a program must not take.
        """
        return Dispatch(self, debug)

    def cache(self, max_entries=MAX_ENTRIES, max_reply_bytes=MAX_REPLY_BYTES):
        """Replies to reads, kept in memory until their key is written; see :class:`Cache`.

        ``max_entries`` is the most replies that are kept: the least recently used make room. A reply
        larger than ``max_reply_bytes`` is not kept.
        """
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
        """A lock, as a context manager; see :class:`Lock`. Not that of redis-py, which needs
        scripts.

        ``lease`` is the time for which it stays held if the holder is lost, in seconds; while the
        holder lives, the lease is renewed. ``shared`` admits other holders that share it too,
        ``limit`` a number of holders in all. ``timeout`` is the longest wait in seconds, ``None``
        for ever. ``owner`` is the name in ``LOCK.HOLDERS``. ``detect`` raises
        :class:`DeadlockError` instead of waiting in a deadlock cycle with other owners; it needs an
        ``owner`` that no other thread uses. ``near`` lets the server that this client is connected
        to keep the lock and pass it between its own clients. ``next`` names the successor while the
        lock is held, which is notified of a release before that is durable: for a lock that mostly
        has waiters, by clients that all set it. It is then exclusive, and the protected resource
        must be fenced: ``tx.require`` does not accept it.
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
        """A lock that stays with this process until another client wants it; see :class:`Retained`.

        One object serves all threads::

            with db.retained("report") as kept:
                with kept.lock() as lock:
                    lock.require()
                    db.fenced(lock).set("report:newest", day)

        Entering it again costs nothing while no other client wants it. Threads take turns without
        the server, each under a token of its own. When another client waits, the lock is given back
        as soon as the current stay ends and no other thread waits, or after ``cohort`` further
        stays. ``timeout`` is how long a thread waits for it. ``tokens`` is the number of stays in
        one grant. ``adaptive`` keeps the lock only while that pays off: while its next user is
        mostly of this process, as far as this process can see.
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
        cancel=NEVER,
    ):
        """Commands that are carried out under a lock without holding it afterwards.

        ``db.section("{report}").set("{report}:newest", day)`` waits in turn for the lock, sets, and
        releases the lock, in one round trip. The keys must be of the lock's hash slot. Raises
        :class:`NotAcquired` if the lock was not free in time; :class:`CommitUnknown` if that is
        uncertain because the connection broke in between. For the arguments, see :meth:`lock`;
        ``cancel`` is a :class:`Cancel` by which another thread ends the wait.
        """
        how = (owner, shared, limit, timeout, detect)
        return Section(self, name, *how, policy=policy, cancel=cancel)

    def election(
        self, name, value=None, lease=30.0, owner=None, timeout=None, policy=RetryPolicy()
    ):
        """An election, as a context manager; see :class:`Election`.

        ``with db.election("jobs", "10.0.0.7:8000"):`` waits in turn to be elected, and leads in the
        block. Other clients see the ``value``: ``db.election("jobs").leader()`` is the leader, and
        ``observe()`` yields each new one. For the arguments, see :meth:`lock`.
        """
        return Election(self, name, value, lease, owner, timeout, policy=policy)

    def barrier(self, name, parties, owner=None, policy=RetryPolicy()):
        """A barrier: ``db.barrier("step", 3).wait()`` returns as soon as three parties have
        arrived.

        ``owner`` is the name in ``BARRIER.WAITING``. See :class:`Barrier`.
        """
        return Barrier(self, name, parties, owner, policy=policy)

    def fenced(self, lock):
        """Commands on keys that are refused if a later holder of the lock has written there.

        ``db.fenced(lock).set("total", 5)`` raises :class:`LockLost` if so, and changes nothing.
        """
        return Fenced(self, lock)

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
        """One attempt at a transaction, as a context manager. See :class:`Transaction`.

        With ``strict`` nothing of it takes effect if a command is refused: see :class:`Undone`.
        ``idle_timeout`` is the longest pause between commands in seconds while other clients wait
        for locks of the transaction, ``transaction_timeout`` the longest duration under the same
        condition; 0 is no limit, and ``None`` the server's default. With ``for_update`` its reads
        announce that their keys are written afterwards: of such transactions one has a key at a
        time, and the others wait in line.
        """
        times = (idle_timeout, transaction_timeout)
        return Transaction(self, Manner(readonly, now, strict, *times, for_update))

    def snapshot(self):
        """A transaction of reads that all show one instant, and that takes no locks."""
        return Transaction(self, Manner(readonly=True))

    def batch(self, policy=RetryPolicy(), *, once=None):
        """Commands that take effect together, over any keys, in one round trip.

        ``once`` is a text by which it takes effect once; see :meth:`run`. See :class:`Batch`.
        """
        return Batch(self, policy, once)

    def run(
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
        cancel=NEVER,
        **kwargs,
    ):
        """Calls ``function(transaction, *args)`` in a transaction until it commits.

        The function may be called many times: it must not do anything but use the transaction. Its
        value is returned. The run has a request number, so that even after a broken connection it
        takes effect once: the server is asked whether it did. If that fails as well,
        :class:`CommitUnknown` is raised.

        If a command is refused, nothing takes effect (:class:`Undone`), unless ``strict`` is false:
        then the others take effect, and :class:`WriteRefused` is raised. See :meth:`begin` for the
        time-outs and ``for_update``.

        ``once`` is a text of at most 59 bytes, such as ``"order-8f3a"``: of all runs under it, in
        whatever process, one takes effect, and each later one raises :class:`RepeatedError` or, if
        nothing was read, has the first one's replies. The server remembers the last 100,000 names.

        ``cancel`` is a :class:`Cancel` by which another thread ends the run.
        """
        with self.requests.borrow(once) as requests:
            times = (idle_timeout, transaction_timeout)
            manner = Manner(readonly, now, strict, *times, for_update)
            return self._run(function, args, kwargs, manner, policy, requests, cancel)

    def _run(self, function, args, kwargs, manner, policy, requests, cancel):
        request = None if manner.readonly else next(requests)
        lane, last = Lane(self, cancel), None
        try:
            for pause in policy.pauses():
                cancel.sleep(pause)
                transaction = None
                try:
                    transaction = Transaction(self, manner, request, lane)
                    with transaction:
                        result = function(transaction, *args, **kwargs)
                    return result
                except CommitUnknown as error:
                    if manner.readonly:
                        return result
                    if self._took_effect(request, policy, error, cancel):
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
            lane.close()
        cancel.check()
        raise last

    def _took_effect(self, request, policy, error, cancel):
        """Asks the server whether a commit whose answer was lost took effect.

        The question itself makes the answer certain: if the server does not know the number, the
        lost commit can never take effect any more.
        """
        for pause in policy.pauses():
            try:
                cancel.sleep(pause)
            except Cancelled as cancelled:
                raise CommitUnknown(f"{error}; the caller has given up") from cancelled
            try:
                return bool(self.execute_command("TXN", "RESOLVE", *request))
            except (BusyError, ConnectionError, TimeoutError):
                continue
            except (ClientClosed, CommitUnknown, ResponseError) as refused:
                raise CommitUnknown(f"{error}; asking was refused: {refused}") from error
        raise CommitUnknown(f"{error}; the server could not be asked either") from error
