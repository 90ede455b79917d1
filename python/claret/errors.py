"""Errors with labels that tell the program how to react.

``retryable``
    It had no effect; running it again may succeed.
``maybe_committed``
    It is unknown whether it took effect. With asyncio, an ``asyncio.CancelledError`` of a task has
    this label too, if a commit, a batch or a section was under way.
``busy``
    The server asks to back off.
"""

import asyncio
import contextlib

from redis.exceptions import (
    ClusterDownError,
    ConnectionError,
    ExecAbortError,
    RedisError,
    ResponseError,
)


class ClaretError(RedisError):
    """Base of the errors of this package."""

    retryable = False
    maybe_committed = False
    busy = False


class ConflictError(ClaretError, ResponseError):
    """The transaction had to give way to another one. It had no effect; run it again."""

    retryable = True


class BusyError(ClaretError, ResponseError):
    """Too many requests wait at the server. Nothing happened; retry later."""

    retryable = True
    busy = True


class NoLeader(BusyError, ClusterDownError):
    """A shard has no leader that the machine can reach. Nothing happened; another one may reach it."""


class NotReached(ClaretError, ConnectionError):
    """None of the addresses has answered. It had no effect."""

    retryable = True


class Cancelled(ClaretError):
    """The caller has given up: see :class:`claret.Cancel`. It had no effect."""


class CommitUnknown(ClaretError):
    """The outcome of a commit was lost, and asking the server did not help. Never retried silently."""

    maybe_committed = True


class RepeatedError(ClaretError, ResponseError):
    """It took effect, once, but its replies are lost: the connection broke before they arrived."""


class VoidedError(ClaretError, ResponseError):
    """A client has asked what became of this request before it took effect, so it never will."""

    retryable = True


class WriteRefused(ClaretError, ResponseError):
    """The transaction took effect, except for writes that their key's value does not allow.

    A counter that would leave its bounds, or a push to what is a set. As in ``MULTI``, the other
    writes stay. :attr:`errors` has the pairs of command and error.
    """

    def __init__(self, errors):
        self.errors = errors
        (name, first), others = errors[0], len(errors) - 1
        more = f", and {others} more" if others else ""
        super().__init__(f"committed, but {name} was refused: {first}{more}")


class Undone(ClaretError, ResponseError):
    """A command of the transaction was refused, so that nothing of it took effect."""


class NotAcquired(ClaretError):
    """The lock was not free in time, or not all parties arrived at the barrier."""

    retryable = True


class DeadlockError(ClaretError, ResponseError):
    """Waiting for the lock would have closed a deadlock cycle.

    It had no effect. Release the locks that you hold, and begin anew.
    """

    retryable = True


class LockLost(ClaretError, ResponseError):
    """The lock is no longer held: its lease has ended, and another client may hold it.

    Raised by a fenced command, it had no effect.
    """


class OrderError(ClaretError):
    """The program does something that only a program that waits for every reply may do."""


class TransactionClosed(ClaretError):
    """The transaction has ended; begin another one."""


class ClientClosed(ClaretError):
    """The client is closed; make another one. It had no effect."""


def translate(error):
    """The labelled form of an error reply, or the error itself."""
    text = str(error)
    if isinstance(error, ClusterDownError):
        # redis-py has removed the code. A shard has no leader at present.
        return NoLeader(text)
    if isinstance(error, ExecAbortError):
        # redis-py has removed the code.
        return Undone(text)
    code, _, rest = text.partition(" ")
    kinds = {
        "TXNABORT": ConflictError,
        "BUSY": BusyError,
        "DEADLOCK": DeadlockError,
        "FENCED": LockLost,
        "REPEATED": RepeatedError,
        "VOIDED": VoidedError,
        "EXECABORT": Undone,
        "INDEFINITE": CommitUnknown,
    }
    kind = kinds.get(code)
    return kind(rest or text) if kind else error


@contextlib.contextmanager
def labelled():
    """Labels the errors of a single command that are about the moment and not about the command."""
    try:
        yield
    except ResponseError as error:
        label = translate(error)
        if label is not error and isinstance(label, (BusyError, CommitUnknown)):
            raise label from error
        raise


@contextlib.contextmanager
def undecided():
    """Labels the cancellation of a task in the block: what it has sent may take effect."""
    try:
        yield
    except asyncio.CancelledError as error:
        error.maybe_committed = True
        raise
