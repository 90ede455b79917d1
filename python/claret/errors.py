"""Errors with labels that tell the program how to react.

``retryable``
    It had no effect; running it again may succeed.
``maybe_committed``
    It is unknown whether it took effect.
``busy``
    The server asks to back off.
"""

from redis.exceptions import ClusterDownError, ExecAbortError, RedisError, ResponseError


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


def translate(error):
    """The labelled form of an error reply, or the error itself."""
    text = str(error)
    if isinstance(error, ClusterDownError):
        # redis-py has removed the code. A shard has no leader at present.
        return BusyError(text)
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
