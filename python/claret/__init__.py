"""Transactions for Claret, on top of redis-py.

Everything that works with redis-py continues to work: :class:`Claret` *is* a ``redis.Redis`` (and
:class:`claret.aio.Claret` a ``redis.asyncio.Redis``). Additions:

* :meth:`Claret.run` and :func:`transactional`: a function of a transaction that is run again until
  it commits. It composes: given a transaction instead of a database, it joins it.
* :meth:`Claret.begin`: one attempt, as a context manager.
* :meth:`Claret.batch`: commands that take effect together, in one round trip, over any keys, and
  once even if the connection breaks.
* :meth:`Claret.dispatch`: commands that are sent without waiting for replies, and take effect in
  their order.
* :meth:`Claret.lock`: a lock that is renewed while it is held, with a fencing token;
  :meth:`Claret.retained`: a lock that stays with the process until another client wants it;
  :meth:`Claret.section`: one command under a lock, in one round trip; :meth:`Claret.election`: a
  lock whose holder has a value that others follow; :meth:`Claret.barrier`: parties wait for each other.
* :meth:`Claret.cache`: replies to reads, kept until the server says that their key was written.
* :meth:`Claret.snapshot`: reads at one instant that never wait for writers' locks.
* handles (:class:`Register`, :class:`Map`, :class:`Members`, :class:`Scores`, :class:`Queue`,
  :class:`Counter`, :class:`Best`, :class:`Log`) that work on a database and in a transaction.
* :class:`Type`: handles of a type of one's own, made from its definition.
* :class:`Cancel`: a call is given up from another thread.
* errors with labels that say how to react: see :mod:`claret.errors`.
"""

from .barrier import Barrier
from .cache import Cache
from .cancel import Cancel
from .client import Claret
from .dispatch import Dispatch, Future
from .election import Election, Leader
from .errors import (
    BusyError,
    Cancelled,
    ClaretError,
    ClientClosed,
    CommitUnknown,
    ConflictError,
    DeadlockError,
    LockLost,
    NoLeader,
    NotAcquired,
    NotReached,
    OrderError,
    RepeatedError,
    TransactionClosed,
    Undone,
    VoidedError,
    WriteRefused,
)
from .handles import Best, Counter, Log, Map, Members, Queue, Register, Scores
from .lock import Lock
from .retained import Retained
from .script import Deferred, RetryPolicy
from .transaction import Batch, Transaction, transactional
from .types import Type

__all__ = [
    "Barrier",
    "Batch",
    "Best",
    "BusyError",
    "Cache",
    "Cancel",
    "Cancelled",
    "Claret",
    "ClaretError",
    "ClientClosed",
    "CommitUnknown",
    "ConflictError",
    "Counter",
    "DeadlockError",
    "Deferred",
    "Dispatch",
    "Election",
    "Future",
    "Leader",
    "Lock",
    "LockLost",
    "Log",
    "Map",
    "Members",
    "NoLeader",
    "NotAcquired",
    "NotReached",
    "OrderError",
    "Queue",
    "Register",
    "RepeatedError",
    "Retained",
    "RetryPolicy",
    "Scores",
    "Transaction",
    "TransactionClosed",
    "Type",
    "Undone",
    "VoidedError",
    "WriteRefused",
    "transactional",
]
