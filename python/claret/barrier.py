"""Barriers of the blocking client: those who come wait until all have come."""

import time

from .errors import CommitUnknown, NotAcquired
from .hold import AGAIN, Failures, named, number, time_left
from .lock import ask_and_wait
from .script import RetryPolicy


class Arrival:
    """How somebody comes to a barrier, without any input or output."""

    def __init__(self, name, parties, owner):
        self.name = name
        self.parties = parties
        self._owner = named(owner, False)

    def commands(self, request, wait_s):
        """What is sent by somebody who has come."""
        words = ["BARRIER.WAIT", self.name, self.parties, "OWNER", self._owner]
        if wait_s is not None:
            words += ["TIMEOUT", max(1, round(wait_s * 1000))]
        return [["CLIENT", "REQUEST", *request], words]

    def settle(self, generation, again):
        """The number of the generation; ``again`` if it was asked for more than once.

        Then what was asked first may still wait somewhere, and count as somebody who has come.
        """
        if generation is None:
            text = f"not all of {self.parties} parties came to the barrier {self.name!r} in time"
            raise CommitUnknown(text) if again else NotAcquired(text)
        return generation


class Barrier:
    """A barrier for so many parties; see :meth:`claret.Claret.barrier`."""

    def __init__(self, db, name, parties, owner, policy=RetryPolicy()):
        self._db = db
        self._arrival = Arrival(name, parties, owner)
        self._policy = policy

    def wait(self, timeout=None):
        """Waits until all have come, and returns the number of their generation, the same to all.

        Generations have growing numbers, and the barrier is usable again at once. Raises
        :class:`NotAcquired` if not all came within ``timeout`` seconds, and has not come itself then;
        :class:`CommitUnknown` if nobody knows whether that is so, for the connection broke in between.
        """
        begun, failures, again = time.monotonic(), Failures(self._policy), False
        with self._db.requests.borrow() as requests:
            request = next(requests)
            while True:
                asked = time.monotonic()
                try:
                    generation = self._ask(request, time_left(timeout, begun))
                except AGAIN as error:
                    again = True
                    time.sleep(failures.pause(error, asked))
                    continue
                return self._arrival.settle(generation, again)

    def _ask(self, request, wait_s):
        commands = self._arrival.commands(request, wait_s)
        return number(ask_and_wait(self._db, commands, wait_s))
