"""Elections of the blocking client: a lock whose holder has a value that everybody can read and follow."""

import time
from typing import NamedTuple, Optional

from .errors import LockLost
from .hold import AGAIN, Failures, Hold, time_left
from .lock import Lock, ask_and_wait
from .script import RetryPolicy

# How long one question for what is new waits, in seconds: a server that is gone shows by then.
OBSERVE_S = 60


class Leader(NamedTuple):
    """Who leads: the fencing token, the name and the value it has, and seconds left of its lease.

    ``version`` grows with every leader and every value.
    """

    token: int
    owner: str
    value: str
    left: float
    version: int


def leader_of(row) -> Optional[Leader]:
    """Who leads, from what the server says; ``None`` if nobody does."""
    if row is None or row[0] is None:
        return None
    token, owner, value, left_ms, version = row
    return Leader(int(token), owner, value, int(left_ms) / 1000, int(version))


class Candidate(Hold):
    """What a candidate knows and says, without any input or output."""

    def words(self, wait_s):
        """The command that campaigns; ``None`` waits for ever, nought as good as not at all."""
        if self.value is None:
            raise ValueError(f"whoever wants to be elected at {self.name!r} needs a value")
        words = ["ELECTION.CAMPAIGN", self.name, self.value, "LEASE", self._lease_ms]
        if wait_s is not None:
            words += ["TIMEOUT", max(1, round(wait_s * 1000))]
        return [*words, "OWNER", self._owner]

    def proclaimed(self, value, version):
        """The version of a value that was proclaimed; raises :class:`LockLost` if there is none."""
        if not int(version):
            self.lose()
            raise LockLost(f"the election {self.name!r} is led by somebody else, or by nobody")
        self.value = value
        return int(version)

    def question(self, seen, wait_s):
        """The command that waits for another version than the one that was seen."""
        wait_s = OBSERVE_S if wait_s is None else min(wait_s, OBSERVE_S)
        timeout = ["TIMEOUT", max(1, round(wait_s * 1000))]
        return ["ELECTION.OBSERVE", self.name, "AFTER", seen, *timeout]


class Election(Candidate, Lock):
    """An election, as a context manager; see :meth:`claret.Claret.election`.

    Whoever is in the block leads. It is a :class:`claret.Lock` in everything: the lease is renewed,
    ``lost``, ``require``, ``token`` and ``fence`` are there, and ``tx.require`` takes it.
    """

    def __init__(self, db, name, value, lease, owner, timeout, policy=RetryPolicy()):
        super().__init__(db, name, lease, owner, False, None, timeout, policy=policy)
        #: What is proclaimed as soon as it is elected, and since.
        self.value = value

    def campaign(self, timeout=...):
        """Waits in turn until it is elected; see :meth:`claret.Lock.acquire`."""
        return self.acquire(timeout)

    def resign(self):
        """Ends the lead; tells whether there was one. See :meth:`claret.Lock.release`."""
        return self.release()

    def proclaim(self, value):
        """Gives the leader another value, and returns its version; raises :class:`LockLost`."""
        version = self._db.execute_command("ELECTION.PROCLAIM", self.name, self.token, value)
        return self.proclaimed(value, version)

    def leader(self):
        """The :class:`Leader`, or ``None`` if nobody leads. Anybody may ask."""
        return leader_of(self._db.execute_command("ELECTION.LEADER", self.name))

    def observe(self, timeout=None):
        """Yields the :class:`Leader` whenever it, or its value, is another one. Anybody may ask.

        Begins with who leads now, if anybody does; ``None`` says that nobody leads any more. What
        was there for a short time only may be passed over, the newest is not. It ends when nothing
        has been new for ``timeout`` seconds.
        """
        seen = 0
        while True:
            row = self._next(seen, timeout)
            if row is None:
                return
            seen = int(row[-1])
            yield leader_of(row)

    def _next(self, seen, timeout):
        begun, failures = time.monotonic(), Failures(self._policy)
        while True:
            asked, left_s = time.monotonic(), time_left(timeout, begun)
            try:
                row = ask_and_wait(self._db, [self.question(seen, left_s)], OBSERVE_S)
            except AGAIN as error:
                time.sleep(failures.pause(error, asked))
                continue
            if row is not None or (timeout is not None and time.monotonic() - begun >= timeout):
                return row
