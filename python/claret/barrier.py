"""Barriers of the blocking client: the parties wait until all have arrived."""

import time

from .cancel import NEVER
from .errors import CommitUnknown, NotAcquired
from .hold import AGAIN, Failures, named, number, time_left
from .lock import ask_and_wait
from .script import RetryPolicy


class Arrival:
    """Protocol of a party's arrival, without input or output."""

    def __init__(self, name, parties, owner):
        self.name = name
        self.parties = parties
        self._owner = named(owner, False)

    def commands(self, request, wait_s):
        """The commands that an arriving party sends."""
        words = ["BARRIER.WAIT", self.name, self.parties, "OWNER", self._owner]
        if wait_s is not None:
            words += ["TIMEOUT", max(1, round(wait_s * 1000))]
        return [["CLIENT", "REQUEST", *request], words]

    def settle(self, generation, again):
        """The number of the generation; ``again`` if the request was repeated.

        The first request may then still wait at the server, and count as an arrival.
        """
        if generation is None:
            text = f"not all of {self.parties} parties came to the barrier {self.name!r} in time"
            raise CommitUnknown(text) if again else NotAcquired(text)
        return generation


class Barrier:
    """A barrier for a number of parties; see :meth:`claret.Claret.barrier`."""

    def __init__(self, db, name, parties, owner, policy=RetryPolicy()):
        self._db = db
        self._arrival = Arrival(name, parties, owner)
        self._policy = policy

    def wait(self, timeout=None, cancel=NEVER):
        """Waits until all parties have arrived, and returns the number of their generation, the
        same to all.

        Generations have growing numbers, and the barrier is usable again at once. Raises
        :class:`NotAcquired` if not all parties arrived within ``timeout`` seconds, which withdraws
        the own arrival; :class:`CommitUnknown` if that is uncertain because the connection broke in
        between. ``cancel`` is a :class:`claret.Cancel` by which another thread ends the wait.
        """
        begun, failures, again = time.monotonic(), Failures(self._policy), False
        with self._db.requests.borrow() as requests:
            request = next(requests)
            while True:
                asked = time.monotonic()
                try:
                    generation = self._ask(request, time_left(timeout, begun), cancel)
                except AGAIN as error:
                    again = True
                    cancel.sleep(failures.pause(error, asked))
                    continue
                return self._arrival.settle(generation, again)

    def _ask(self, request, wait_s, cancel):
        commands = self._arrival.commands(request, wait_s)
        return number(ask_and_wait(self._db, commands, wait_s, cancel=cancel))
