"""Barriers of the blocking client: the parties wait until all have arrived."""

import contextlib
import time

from redis.exceptions import ResponseError

from .cancel import NEVER
from .errors import Cancelled, ClientClosed, CommitUnknown, NotAcquired
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

    def question(self, request):
        """The commands that ask whether an arrival counts although its wait has ended in vain.

        It does if it was on its way to the log: then the generation is the reply to any write under
        its number. A lock of this name and token is never held.
        """
        return [["CLIENT", "REQUEST", *request], ["LOCK.RELEASE", self.name, 0]]

    @contextlib.contextmanager
    def asking(self):
        """Labels the errors of the question in the block. A user without the right to ask goes by
        the answer to the wait."""
        try:
            yield
        except (*AGAIN, Cancelled, ClientClosed) as error:
            raise CommitUnknown(self._late()) from error
        except ResponseError:
            pass

    def _late(self):
        return f"not all of {self.parties} parties came to the barrier {self.name!r} in time"

    def settle(self, generation, lost):
        """The number of the generation; ``lost`` if the reply to an earlier attempt was.

        That request may then still wait at the server, and count as an arrival.
        """
        if not generation:
            raise CommitUnknown(self._late()) if lost else NotAcquired(self._late())
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
        begun, failures, arrival = time.monotonic(), Failures(self._policy), self._arrival
        with self._db.requests.borrow() as requests, failures.doubted():
            request = next(requests)
            while True:
                asked, wait_s = time.monotonic(), time_left(timeout, begun)
                try:
                    generation = self._ask(arrival.commands(request, wait_s), wait_s, cancel)
                    break
                except AGAIN as error:
                    # A wait that ends with its connection, because it was given up, is taken back.
                    cancel.check()
                    cancel.sleep(failures.pause(error, asked))
            if generation is None and not failures.lost:
                with arrival.asking():
                    generation = self._ask(arrival.question(request), 0, cancel)
            return arrival.settle(generation, failures.lost)

    def _ask(self, commands, wait_s, cancel):
        return number(ask_and_wait(self._db, commands, wait_s, cancel=cancel))
