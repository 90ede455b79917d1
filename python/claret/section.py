"""Sections: a lock, one command under it and its release, in one request and one round trip.

The lock has no holder when a section is over, so that there is no lease and nothing to renew or to
lose.
"""

import time

from redis.commands.core import CoreCommands

from .cancel import NEVER
from .errors import CommitUnknown, NotAcquired
from .hold import AGAIN, Failures, converted, named, share_words, time_left
from .lock import ask_and_wait
from .script import OnDatabase, RetryPolicy


class SectionRequest:
    """Request of a section, without input or output."""

    def __init__(self, name, owner, shared, limit, timeout, detect):
        self.name = name
        self.timeout = timeout
        # The fencing token of the last section, for messages to other systems.
        self.token = None
        self._options = ["OWNER", named(owner, detect), *share_words(shared, limit)]
        self._options += ["DETECT"] if detect else []

    def commands(self, request, wait_s, command):
        """The commands to send: a transaction, in which an absent value differs from a wait in
        vain."""
        section = ["LOCK.SECTION", self.name, *self._options]
        if wait_s is not None:
            section += ["TIMEOUT", max(1, round(wait_s * 1000))]
        return [["CLIENT", "REQUEST", *request], ["MULTI"], section, list(command), ["EXEC"]]

    def settle(self, replies, lost):
        """The reply of the command, if the section was carried out; ``lost`` if the reply to an
        earlier attempt was.

        That request may then still wait at the server.
        """
        if replies is None:
            text = f"the lock {self.name!r} was not free in time"
            raise CommitUnknown(text) if lost else NotAcquired(text)
        self.token, reply = replies
        if isinstance(reply, Exception):
            raise reply
        return reply


class Section(OnDatabase, CoreCommands):
    """Commands, each in a section of its own, as methods; see :meth:`claret.Claret.section`."""

    def __init__(self, db, *args, policy=RetryPolicy(), cancel=NEVER):
        self._db = db
        self._request = SectionRequest(*args)
        self._policy = policy
        self._cancel = cancel

    @property
    def token(self):
        """The fencing token of the last section, for other systems that check it; else ``None``."""
        return self._request.token

    def execute_command(self, *args, **options):
        """Takes the lock in turn, carries out a command, and releases the lock, in one step."""
        begun, failures = time.monotonic(), Failures(self._policy)
        with self._db.requests.borrow() as requests, failures.doubted():
            replies = self._replies(next(requests), begun, failures, args)
        reply = self._request.settle(replies, failures.lost)
        return converted(self._db, args[0], reply, options)

    def _replies(self, request, begun, failures, command):
        while True:
            asked = time.monotonic()
            try:
                return self._ask(request, time_left(self._request.timeout, begun), command)
            except AGAIN as error:
                self._cancel.sleep(failures.pause(error, asked))

    def _ask(self, request, wait_s, command):
        commands = self._request.commands(request, wait_s, command)
        return ask_and_wait(self._db, commands, wait_s, cancel=self._cancel)
