"""A lock that stays with a process: who of it is in, and when it goes back. Without any input or output.

Shared by the blocking client and the one for asyncio.

The process has a *grant* of the lock, with a block of fencing tokens. Whoever of it wants the lock
has a *stay*, and a token of its own out of the block. Stays follow each other in the order of
their arrival, which the server hears nothing of. The grant goes back when somebody else wants the
lock and nobody of the process does, or so many have been let in since that it is the others' turn;
when its tokens are used up; and when it is lost.
"""

from collections import deque

from .errors import LockLost, NotAcquired

# How many of a process are let in after somebody else wants the lock.
COHORT = 16
# With how many tokens a grant comes: as many as there can be.
TOKENS = 65_536


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

    def __init__(self, cohort, tokens):
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

    def granted(self, grant):
        """The process has the lock from now on."""
        self.grant, self.recalled = grant, False
        self._let_in = self._used = 0

    def is_next(self, stay):
        """Whether nobody is in, or in front of somebody who wants to be."""
        return self.inside is None and self.line[0] is stay

    def enter(self, stay):
        """Lets in whoever is next, if the process has the lock; tells whether it has."""
        if self.grant is None:
            return False
        stay.begin(self.grant, self.grant.token + self._used)
        self._used += 1
        self._let_in += self.recalled
        self.line.popleft()
        self.inside = stay
        return True

    def leave(self, stay):
        """Somebody is out, or never was in."""
        if self.inside is stay:
            self.inside = None
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
        return grant

    def lapse(self, grant):
        """A grant is lost: it ends with its lease, and who is in it knows. Tells who that is."""
        if self.grant is not grant:
            return None
        stay, self.inside, self.grant = self.inside, None, None
        return stay
