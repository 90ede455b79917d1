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
        begun, failures = time.monotonic(), Failures(self._policy)
        with self._db.requests.borrow() as requests, failures.doubted(), undecided():
            replies = await self._replies(next(requests), begun, failures, args)
        reply = self._request.settle(replies, failures.lost)
        return converted(self._db, args[0], reply, options)

    async def _replies(self, request, begun, failures, command):
        while True:
            asked = time.monotonic()
            try:
                return await self._ask(request, time_left(self._request.timeout, begun), command)
            except AGAIN as error:
                await asyncio.sleep(failures.pause(error, asked))

    async def _ask(self, request, wait_s, command):
        commands = self._request.commands(request, wait_s, command)
        return await ask_and_wait(self._db, commands, wait_s)
