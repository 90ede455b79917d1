"""Errors with labels: what a program may do about them.

``retryable``
    The transaction had no effect; running it again may succeed.
``maybe_committed``
    Nobody knows whether it took effect.
``busy``
    The server asks to back off.
"""

from redis.exceptions import RedisError, ResponseError


class ClaretError(RedisError):
    """Base of the errors of this package."""

    retryable = False
    maybe_committed = False
    busy = False


class ConflictError(ClaretError, ResponseError):
    """The transaction had to give way to another one. It had no effect; run it again."""

    retryable = True


class BusyError(ClaretError, ResponseError):
    """Too many requests wait at the server. Nothing happened; come back later."""

    retryable = True
    busy = True


class CommitUnknown(ClaretError):
    """The connection broke during the commit, and asking did not help. Never retried silently."""

    maybe_committed = True


class RepeatedError(ClaretError, ResponseError):
    """The request took effect before, under the same request number; its replies are not kept."""


class TransactionClosed(ClaretError):
    """The transaction has ended; begin another one."""


def translate(error):
    """The labelled form of an error reply, or the error itself."""
    text = str(error)
    code, _, rest = text.partition(" ")
    kinds = {"TXNABORT": ConflictError, "BUSY": BusyError, "REPEATED": RepeatedError}
    kind = kinds.get(code)
    return kind(rest or text) if kind else error
