"""A lock that stays with a process: who of it is in, and when it goes back. Without any input or output.

Shared by the blocking client and the one for asyncio.

The process has a *grant* of the lock, with a block of fencing tokens. Whoever of it wants the lock
has a *stay*, and a token of its own out of the block. Stays follow each other in the order of
their arrival, which the server hears nothing of. The grant goes back when somebody else wants the
lock and nobody of the process does, or so many have been let in since that it is the others' turn;
when its tokens are used up; and when it is lost. An adaptive lock goes back each time as long as that is
what pays (:class:`Keep`); then nobody listens for others: there may always be some.
"""

import math
import time
from collections import deque

from .errors import LockLost, NotAcquired

# How many of a process are let in after somebody else wants the lock.
COHORT = 16
# With how many tokens a grant comes: so many that it seldom has to be asked for again because they are
# used up. Each is a microsecond of the server's timestamps, and it may be asked for often.
TOKENS = 1_024


# So many locks of a process come before it tries to keep the next one, and as so many counts one that
# is wanted again before somebody else could have had it.
LOCKS = 8
# A try in vain doubles that, so often at most.
DOUBLINGS = 3
# How far those who came back may be ahead of recalls.
AHEAD = 3


class Keep:
    """Whether a process should keep a lock: what one way has wasted decides when the other is tried.

    A kept lock saves a request if the next one who wants it is of the same process, and costs a recall if
    not; the same rule as that of the client for Rust. (Lim and Agarwal, Reactive Synchronization
    Algorithms for Multiprocessors, 1994.)
    """

    def __init__(self):
        self.keeps = False
        self._seen = 0
        self._in_vain = 0
        self._ahead = 0
        # The least that it took to have the lock from the server: without waiting for others.
        self._least_s = math.inf

    def granted(self, away_s, took_s):
        """The process had it from the server in so long, so long after it had given it back."""
        self._least_s = min(self._least_s, took_s)
        if self.keeps:
            return
        self._seen += LOCKS if away_s < self._least_s else 1
        self.keeps = self._seen >= LOCKS << self._in_vain
        self._ahead = 1

    def came_back(self):
        """The lock was kept, and somebody of the process entered it."""
        if self.keeps:
            self._ahead = min(self._ahead + 1, AHEAD)
            self._in_vain = 0

    def recalled(self):
        """The lock was kept, and somebody else wanted it while nobody of the process did."""
        if self.keeps:
            self._ahead -= 1
            self.keeps = self._ahead > 0
            if not self.keeps:
                self._seen = 0
                self._in_vain = min(self._in_vain + 1, DOUBLINGS)


class Stay:
    """What whoever is in the lock knows of it, without any input or output."""

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
            raise LockLost(f"the lock {self.name!r} is not held any more")

    def lose(self):
        """The lock is not held any more."""
        self._granted.lose()

    def begin(self, granted, token):
        """It is in, under a token of a grant."""
        self._granted, self._token = granted, token

    def end(self):
        """It is out; tells whether it was in."""
        was_in, self._token = self._token is not None, None
        return was_in


class Kept:
    """What a process has of one lock."""

    def __init__(self, cohort, tokens, adaptive=False):
        if cohort < 1:
            raise ValueError("a cohort has one member at least")
        # What is held of the lock, if anything is.
        self.grant = None
        # Who is in, and who wants to be.
        self.inside = None
        self.line = deque()
        # Somebody else wants the lock; it is to go back for good.
        self.recalled = False
        self.closed = False
        self._cohort = cohort
        self._tokens = tokens
        self._let_in = 0
        self._used = 0
        self._keep = Keep() if adaptive else None
        self._left_at = -math.inf
        # Nobody has been in since somebody left who was followed by nobody.
        self._idle = False

    def granted(self, grant, asked_at=0.0):
        """The process has the lock from now on; it was asked for at ``asked_at`` (monotonic)."""
        if self._keep:
            self._keep.granted(asked_at - self._left_at, time.monotonic() - asked_at)
        # Nobody is asked whether others want what goes back anyway.
        self.grant, self.recalled = grant, self._keep is not None and not self._keep.keeps
        self._let_in = self._used = 0
        self._idle = False

    def is_next(self, stay):
        """Whether nobody is in, or in front of somebody who wants to be."""
        return self.inside is None and self.line[0] is stay

    def enter(self, stay):
        """Lets in whoever is next, if the process has the lock; tells whether it has."""
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
        """Somebody is out, or never was in."""
        if self.inside is stay:
            self.inside = None
            self._idle = not self.line
        elif stay in self.line:
            self.line.remove(stay)

    def take_back(self):
        """The grant, which the process has no more, if it is to go back now."""
        if self.grant is None or self.inside is not None:
            return None
        others = self.recalled and (not self.line or self._let_in >= self._cohort)
        if not (others or self.closed or self.grant.lost or self._used >= self._tokens):
            return None
        grant, self.grant = self.grant, None
        self._left_at = time.monotonic()
        return grant

    def recall(self):
        """Somebody else wants the lock."""
        if self._keep and self._idle and not self.line:
            self._keep.recalled()
        self.recalled = True

    def lapse(self, grant):
        """A grant is lost: it ends with its lease, and who is in it knows. Tells who that is."""
        if self.grant is not grant:
            return None
        stay, self.inside, self.grant = self.inside, None, None
        return stay
