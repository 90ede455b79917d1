"""Sections for asyncio; see :mod:`claret.section`."""

import asyncio
import time

from redis.commands.core import AsyncCoreCommands

from .aio_lock import ask_and_wait
from .errors import undecided
from .hold import AGAIN, Failures, converted, time_left
from .script import OnDatabase, RetryPolicy
from .section import SectionRequest


class Section(OnDatabase, AsyncCoreCommands):
    """Commands, each in a section of its own, as methods; see :meth:`claret.Claret.section`."""

    def __init__(self, db, *args, policy=RetryPolicy()):
        self._db = db
        self._request = SectionRequest(*args)
        self._policy = policy

    @property
    def token(self):
        """The fencing token of the last section; see :attr:`claret.section.Section.token`."""
        return self._request.token

    async def execute_command(self, *args, **options):
        """Takes the lock in turn, carries out a command, and releases the lock, in one step."""
        section, begun = self._request, time.monotonic()
        failures, again = Failures(self._policy), False
        with self._db.requests.borrow() as requests, undecided():
            request = next(requests)
            while True:
                asked = time.monotonic()
                try:
                    replies = await self._ask(request, time_left(section.timeout, begun), args)
                except AGAIN as error:
                    again = True
                    await asyncio.sleep(failures.pause(error, asked))
                    continue
                reply = section.settle(replies, again)
                return converted(self._db, args[0], reply, options)

    async def _ask(self, request, wait_s, command):
        commands = self._request.commands(request, wait_s, command)
        return await ask_and_wait(self._db, commands, wait_s)
