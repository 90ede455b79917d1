"""State of a lock at its holder, without input or output.

Shared by the blocking client and the one for asyncio.
"""

import contextlib
import os
import socket
import time

from redis.exceptions import AuthenticationError, ConnectionError, RedisError, TimeoutError

from .errors import BusyError, CommitUnknown, LockLost, NotAcquired, translate

# Longest wait for one reply, in seconds. After that the request is repeated.
WAIT_S_MAX = 86_400
# Longest delay of the answer to a wait after its time, in seconds.
GRACE_S = 10
# The part of a lease that its holder relies on: clocks may differ in speed by a tenth.
TRUSTED = 0.9
# Errors after which a request may be repeated: it had no effect, or has a request number.
AGAIN = (BusyError, CommitUnknown, ConnectionError, TimeoutError)


def default_owner():
    """Default name of the client, for people that look at ``LOCK.HOLDERS``."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Hold:
    """State of one lock at its holder, without input or output."""

    def __init__(
        self, name, lease, owner, shared, limit, timeout, detect=False, near=False, next=False
    ):
        if lease <= 0:
            raise ValueError("a lease is longer than nothing")
        if near and (shared or limit or detect):
            raise ValueError("a lock that the server keeps is held alone, and detects no circles")
        if next and (shared or limit or near):
            raise ValueError("a lock with next is held alone, and kept by no server")
        self.name = name
        self.timeout = timeout
        self._lease_ms = max(1, round(lease * 1000))
        self._owner = named(owner, detect)
        self._share = share_words(shared, limit)
        self._detect = detect
        self._near = near
        self._hands_on = next
        self._token = None
        self._until = 0.0
        self._lost = False

    @property
    def token(self):
        """The fencing token of the last grant; raises :class:`NotAcquired` if there was none."""
        if self._token is None:
            raise NotAcquired(f"the lock {self.name!r} was not acquired")
        return self._token

    @property
    def grant(self):
        """Token of the grant at the shard."""
        if self._near:
            text = "only the server that keeps a lock knows its user: fence what you write"
            raise ValueError(text)
        if self._hands_on:
            text = "a lock that is taken with next does not tell its holder: fence what you write"
            raise ValueError(text)
        return self.token

    @property
    def left(self):
        """Seconds for which the holder may rely on the lock, by this machine's monotonic clock."""
        held = self._token is not None and not self._lost
        return max(0.0, self._until - time.monotonic()) if held else 0.0

    @property
    def lost(self):
        """Whether the lock was held and must not be relied on any more."""
        return self._token is not None and self.left == 0.0

    def require(self):
        """Raises :class:`LockLost` unless the lock can be relied on."""
        if self._token is None or self.lost:
            raise LockLost(f"the lock {self.name!r} is no longer held")

    def words(self, wait_s):
        """The command that acquires; ``None`` waits for ever, zero does not wait."""
        at_once = wait_s == 0
        if at_once and (self._near or self._hands_on):
            # A lock that a server keeps or that has successors needs a wait, however short.
            wait_s = 0.001
        words = ["LOCK.TRY" if wait_s == 0 else "LOCK.ACQUIRE", self.name, "LEASE", self._lease_ms]
        if self._near:
            words.append("NEAR")
        if self._hands_on:
            words.append("NEXT")
        if wait_s:
            words += ["TIMEOUT", max(1, round(wait_s * 1000))]
        if self._detect and not at_once:
            words.append("DETECT")
        return words + ["OWNER", self._owner, *self._share]

    def renewal(self):
        """The command that restarts the lease."""
        return ["LOCK.RENEW", self.name, self.token, "LEASE", self._lease_ms]

    def giving_back(self, request, token):
        """The commands that release a grant: under a number, so that a release whose reply was lost
        has the same reply when it is repeated."""
        return [["CLIENT", "REQUEST", *request], ["LOCK.RELEASE", self.name, token]]

    def is_old(self, asked, again):
        """Whether a grant may be older than known, so that it must be renewed before use.

        A grant after a wait began some time after the request; and the grant of a repeated request
        may have been revoked, because the connection that sent the first one was gone.
        """
        return again or time.monotonic() - asked > self._lease_ms / 1000 * (1 - TRUSTED)

    def take(self, token, asked):
        """Records that the lock was granted, or its lease restarted, by a request of that time."""
        self._token, self._lost = token, False
        self._until = asked + self._lease_ms / 1000 * TRUSTED

    def lose(self):
        """Marks the lock as lost."""
        self._lost = True

    def pause(self, failed):
        """Seconds until the next renewal, given whether the last one has failed."""
        third = self._lease_ms / 3000
        return min(third / 10 if failed else third, self.left)

    def wait_s(self, timeout, begun):
        """Seconds left to wait; never 0 unless the caller does not want to wait."""
        return time_left(timeout, begun)


class Failures:
    """Duration of an uninterrupted series of failures, and whether a reply was lost among them."""

    def __init__(self, policy, harmless=False):
        self._policy = policy
        self._count = 0
        self._since = None
        # Whether the request changes nothing, so that a lost reply does no harm.
        self._harmless = harmless
        #: Whether an attempt may have taken effect.
        self.lost = False

    def pause(self, error, asked):
        """Seconds to wait after a failed attempt; raises its error after too many."""
        sent = getattr(error, "maybe_committed", False)
        self.lost |= sent and not self._harmless
        if isinstance(error, AuthenticationError):
            # A wrong password stays wrong.
            self._give_up(error)
        now = time.monotonic()
        # A request that was sent, and has waited for long, has had a server for long.
        if self._since is None or (sent and now - asked > 1):
            self._since, self._count = now, 0
        self._count += 1
        if now - self._since > self._policy.deadline_s:
            self._give_up(error)
        return self._policy.pause(self._count)

    @contextlib.contextmanager
    def doubted(self):
        """Labels the error that ends the attempts in the block, if one may have taken effect."""
        try:
            yield
        except RedisError as error:
            self._give_up(error)

    def _give_up(self, error):
        if self.lost and not isinstance(error, CommitUnknown):
            raise CommitUnknown(str(error)) from error
        raise error


def named(owner, detect):
    """The ``OWNER`` option."""
    if detect and not owner:
        raise ValueError("detect needs an owner: a name of its own for each that holds and waits")
    return default_owner() if owner is None else owner


def share_words(shared, limit):
    """The options for sharing a lock."""
    if shared and limit:
        raise ValueError("a lock is shared or has a limit")
    return ["SHARED"] if shared else ["LIMIT", limit] if limit else []


def time_left(timeout, begun):
    """Seconds left to wait; ``None`` is for ever, 0 only upon request."""
    if not timeout:
        return timeout
    return max(0.001, timeout - (time.monotonic() - begun))


def note_sent(error, sent):
    """Labels the error of a broken connection: what was sent may have taken effect."""
    if isinstance(error, (ConnectionError, TimeoutError)):
        error.maybe_committed = sent


def last_of(replies):
    """The last reply; raises the first error among them."""
    for reply in replies:
        if isinstance(reply, Exception):
            raise translate(reply)
    return replies[-1]


def number(reply):
    """A number from a reply, or ``None`` if the wait was in vain."""
    return None if reply is None else int(reply)


def converted(db, name, reply, options):
    """A reply as redis-py returns it for a command."""
    callback = db.response_callbacks.get(name)
    options = {key: option for key, option in options.items() if key != "keys"}
    return callback(reply, **options) if callback else reply


def check_held(lock, left_ms):
    """Raises :class:`LockLost` if nothing is left of a lock's lease, by the server's reply."""
    if int(left_ms) <= 0:
        lock.lose()
        raise LockLost(f"the lock {lock.name!r} is no longer held")
