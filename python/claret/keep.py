"""A lock that stays with a process: its stays, and when it is given back. Without input or output.

Shared by the blocking client and the one for asyncio.

The process has a *grant* of the lock, with a block of fencing tokens. A thread or task that enters
the lock has a *stay*, and a token of its own out of the block. Stays follow each other in the order
of their arrival, without any message to the server. The grant is given back when another client
wants the lock and the process has no further waiter, or after a limited number of further stays, so
that other clients get their turn; when its tokens are used up; and when it is lost. An adaptive
lock is given back each time as long as that is cheaper (:class:`Keep`); the process then does not
listen for other clients: there may always be some.
"""

import math
import time
from collections import deque

from .errors import LockLost, NotAcquired

# Most stays after another client wants the lock.
COHORT = 16
# Number of tokens of a grant: so many that it seldom has to be requested again because they are
# used up. Each is a microsecond of the server's timestamps, and it may be requested often.
TOKENS = 1_024


# Locks of the process before it tries to keep the next one, and the weight of one that is requested
# again before another client could have had it.
LOCKS = 8
# Most doublings of that number, one for each failed try.
DOUBLINGS = 3
# Most that returns to a kept lock may be ahead of recalls.
AHEAD = 3


class Keep:
    """Decision whether a process keeps a lock: the cost that one policy has wasted decides when the
    other is tried.

    A kept lock saves a request if the next one is of the same process, and costs a recall if not;
    the same rule as that of the client for Rust. (Lim and Agarwal, Reactive Synchronization
    Algorithms for Multiprocessors, 1994.)
    """

    def __init__(self):
        self.keeps = False
        self._seen = 0
        self._in_vain = 0
        self._ahead = 0
        # Shortest time that the server took to grant the lock: without waiting for other clients.
        self._least_s = math.inf

    def granted(self, away_s, took_s):
        """The server has granted the lock in this time, this long after the process gave it back."""
        self._least_s = min(self._least_s, took_s)
        if self.keeps:
            return
        self._seen += LOCKS if away_s < self._least_s else 1
        self.keeps = self._seen >= LOCKS << self._in_vain
        self._ahead = 1

    def came_back(self):
        """A thread or task of the process has entered the kept lock."""
        if self.keeps:
            self._ahead = min(self._ahead + 1, AHEAD)
            self._in_vain = 0

    def recalled(self):
        """Another client has recalled the kept lock while it had no stay and no waiter in the
        process."""
        if self.keeps:
            self._ahead -= 1
            self.keeps = self._ahead > 0
            if not self.keeps:
                self._seen = 0
                self._in_vain = min(self._in_vain + 1, DOUBLINGS)


class Stay:
    """State of a lock at a stay in it, without input or output."""

    def __init__(self, name, timeout):
        self.name = name
        self.timeout = timeout
        self._granted = None
        self._token = None

    @property
    def token(self):
        """The fencing token of this stay alone; raises :class:`NotAcquired` if there is none."""
        if self._token is None:
            raise NotAcquired(f"the lock {self.name!r} was not acquired")
        return self._token

    @property
    def grant(self):
        """The token by which the server knows that the process holds the lock."""
        return self._granted.token if self._token is not None else self.token

    @property
    def left(self):
        """Seconds for which the lock can be relied on, by this machine's monotonic clock."""
        return self._granted.left if self._token is not None else 0.0

    @property
    def lost(self):
        """Whether the lock was held and must not be relied on any more."""
        return self._token is not None and self._granted.lost

    def require(self):
        """Raises :class:`LockLost` unless the lock can be relied on."""
        if self._token is None or self.lost:
            raise LockLost(f"the lock {self.name!r} is no longer held")

    def lose(self):
        """Marks the lock as lost."""
        self._granted.lose()

    def begin(self, granted, token):
        """Begins the stay, under a token of a grant."""
        self._granted, self._token = granted, token

    def end(self):
        """Ends the stay; returns whether it had begun."""
        was_in, self._token = self._token is not None, None
        return was_in


class Kept:
    """State of one lock at a process."""

    def __init__(self, cohort, tokens, adaptive=False):
        if cohort < 1:
            raise ValueError("a cohort has one member at least")
        # The grant, if there is one.
        self.grant = None
        # The current stay, and the waiting ones.
        self.inside = None
        self.line = deque()
        # Whether another client wants the lock; whether the lock is to be given back for good.
        self.recalled = False
        self.closed = False
        self._cohort = cohort
        self._tokens = tokens
        self._let_in = 0
        self._used = 0
        self._keep = Keep() if adaptive else None
        self._left_at = -math.inf
        # Whether the lock was left without a waiter and has not been entered since.
        self._idle = False

    def granted(self, grant, asked_at=0.0):
        """Records a grant of the lock, requested at ``asked_at`` (monotonic)."""
        if self._keep:
            self._keep.granted(asked_at - self._left_at, time.monotonic() - asked_at)
        # Other clients' wishes do not matter for a lock that is given back anyway.
        self.grant, self.recalled = grant, self._keep is not None and not self._keep.keeps
        self._let_in = self._used = 0
        self._idle = False

    def is_next(self, stay):
        """Whether a stay is the first of the waiting ones, and none is current."""
        return self.inside is None and self.line[0] is stay

    def enter(self, stay):
        """Admits the next stay, if the process has the lock; returns whether it has."""
        if self.grant is None:
            return False
        stay.begin(self.grant, self.grant.token + self._used)
        if self._keep and self._idle:
            self._keep.came_back()
        self._idle = False
        self._used += 1
        self._let_in += self.recalled
        self.line.popleft()
        self.inside = stay
        return True

    def leave(self, stay):
        """Ends a stay, or removes a waiting one."""
        if self.inside is stay:
            self.inside = None
            self._idle = not self.line
        elif stay in self.line:
            self.line.remove(stay)

    def take_back(self):
        """Returns the grant, which the process no longer has, if it is to be given back now."""
        if self.grant is None or self.inside is not None:
            return None
        others = self.recalled and (not self.line or self._let_in >= self._cohort)
        if not (others or self.closed or self.grant.lost or self._used >= self._tokens):
            return None
        grant, self.grant = self.grant, None
        self._left_at = time.monotonic()
        return grant

    def recall(self):
        """Records that another client wants the lock."""
        if self._keep and self._idle and not self.line:
            self._keep.recalled()
        self.recalled = True

    def lapse(self, grant):
        """Loses a grant: it ends with its lease, and its stay is notified. Returns that stay."""
        if self.grant is not grant:
            return None
        stay, self.inside, self.grant = self.inside, None, None
        return stay
