"""Elections of the blocking client: a lock whose holder has a value that every client can read and
follow."""

import time
from typing import NamedTuple, Optional

from .cancel import NEVER
from .errors import LockLost
from .hold import AGAIN, Failures, Hold, time_left
from .lock import Lock, ask_and_wait
from .script import RetryPolicy

# Longest wait of one request for a new version, in seconds, after which a lost server is noticed.
OBSERVE_S = 60


class Leader(NamedTuple):
    """A leader: fencing token, name and value, and seconds left of its lease.

    ``version`` grows with every leader and every value.
    """

    token: int
    owner: str
    value: str
    left: float
    version: int


def leader_of(row) -> Optional[Leader]:
    """The leader from a reply of the server; ``None`` if there is none."""
    if row is None or row[0] is None:
        return None
    token, owner, value, left_ms, version = row
    return Leader(int(token), owner, value, int(left_ms) / 1000, int(version))


class Candidate(Hold):
    """State and commands of a candidate, without input or output."""

    def words(self, wait_s):
        """The command that campaigns; ``None`` waits for ever, zero waits as short as possible."""
        if self.value is None:
            raise ValueError(f"a candidate of the election {self.name!r} needs a value")
        words = ["ELECTION.CAMPAIGN", self.name, self.value, "LEASE", self._lease_ms]
        if wait_s is not None:
            words += ["TIMEOUT", max(1, round(wait_s * 1000))]
        return [*words, "OWNER", self._owner]

    def proclaimed(self, value, version):
        """The version of a proclaimed value; raises :class:`LockLost` if there is none."""
        if not int(version):
            self.lose()
            raise LockLost(f"this client does not lead the election {self.name!r}")
        self.value = value
        return int(version)

    def question(self, seen, wait_s):
        """The command that waits for another version than the one that was seen."""
        wait_s = OBSERVE_S if wait_s is None else min(wait_s, OBSERVE_S)
        timeout = ["TIMEOUT", max(1, round(wait_s * 1000))]
        return ["ELECTION.OBSERVE", self.name, "AFTER", seen, *timeout]


class Election(Candidate, Lock):
    """An election, as a context manager; see :meth:`claret.Claret.election`.

    The client leads in the block. The election behaves like a :class:`claret.Lock`: the lease is
    renewed, it has ``lost``, ``require``, ``token`` and ``fence``, and ``tx.require`` accepts it.
    """

    def __init__(self, db, name, value, lease, owner, timeout, policy=RetryPolicy()):
        super().__init__(db, name, lease, owner, False, None, timeout, policy=policy)
        #: Value to proclaim upon election, and the latest one since.
        self.value = value

    def campaign(self, timeout=..., cancel=NEVER):
        """Waits in turn until elected; see :meth:`claret.Lock.acquire`."""
        return self.acquire(timeout, cancel)

    def resign(self):
        """Ends the leadership; returns whether there was one. See :meth:`claret.Lock.release`."""
        return self.release()

    def proclaim(self, value):
        """Replaces the leader's value, and returns its version; raises :class:`LockLost`."""
        version = self._db.execute_command("ELECTION.PROCLAIM", self.name, self.token, value)
        return self.proclaimed(value, version)

    def leader(self):
        """The :class:`Leader`, or ``None`` if there is none. Needs no candidacy."""
        return leader_of(self._db.execute_command("ELECTION.LEADER", self.name))

    def observe(self, timeout=None):
        """Yields the :class:`Leader` whenever it, or its value, changes. Needs no candidacy.

        Begins with the current leader, if there is one; ``None`` says that there is no leader any
        more. Short-lived versions may be skipped, the newest is not. Ends when there has been no
        change for ``timeout`` seconds.
        """
        seen = 0
        while True:
            row = self._next(seen, timeout)
            if row is None:
                return
            seen = int(row[-1])
            yield leader_of(row)

    def _next(self, seen, timeout):
        begun, failures = time.monotonic(), Failures(self._policy, harmless=True)
        while True:
            asked, left_s = time.monotonic(), time_left(timeout, begun)
            try:
                row = ask_and_wait(self._db, [self.question(seen, left_s)], OBSERVE_S)
            except AGAIN as error:
                time.sleep(failures.pause(error, asked))
                continue
            if row is not None or (timeout is not None and time.monotonic() - begun >= timeout):
                return row
