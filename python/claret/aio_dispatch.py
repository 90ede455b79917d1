"""Commands that are sent without waiting for replies, for asyncio. See :mod:`claret.dispatch`."""

import asyncio
import collections

from redis.commands.core import AsyncCoreCommands
from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from . import rules
from .dispatch import WINDOW, Issued, Promise, lost
from .script import is_connected, pool_words


class Reply(Promise):
    """A reply that may not have arrived yet: awaiting it returns it, or raises it if it is an
    error."""

    __slots__ = ("_wakers",)

    _ADVICE = "await it first"

    # ``asyncio.gather`` puts its arguments into a dictionary.
    __hash__ = object.__hash__

    def __init__(self):
        super().__init__()
        self._wakers = []

    def __await__(self):
        yield from self._arrives()
        return self._get()

    def _arrives(self):
        """Returns when the reply has arrived, even if it is an error."""
        waker = asyncio.get_running_loop().create_future()
        if self.done():
            waker.set_result(None)
        else:
            self._wakers.append(waker)
        return waker

    def _set(self, value=None, error=None):
        super()._set(value, error)
        for waker in self._wakers:
            if not waker.done():
                waker.set_result(None)


class Dispatch(Issued, AsyncCoreCommands):
    """A connection with redis-py's commands as methods, each of which returns a :class:`Reply`.

    Commands that are issued before the next ``await`` that waits are sent together. At most
    :data:`claret.dispatch.WINDOW` commands are sent and unanswered; others wait here. See
    :class:`claret.Dispatch`. Tasks may share it: the order is that of their calls.
    """

    def __init__(self, db, debug=False):
        super().__init__(db, debug)
        self._unsent = collections.deque()
        # Events: commands can be sent; a command was sent and is unanswered.
        self._changed = asyncio.Event()
        self._expecting = asyncio.Event()
        self._tasks = ()

    async def __aenter__(self):
        self._db.check_open()
        pool = self._db.connection_pool
        self._connection = await pool.get_connection(*pool_words(pool))
        if self._debug:
            self._watch = rules.Watch(lambda: len(self._waiting) + len(self._unsent))
        self._tasks = (asyncio.create_task(self._write()), asyncio.create_task(self._read()))
        return self

    async def __aexit__(self, kind, error, trace):
        try:
            if kind is None:
                await self.wait()
            else:
                await self._drain()
        finally:
            await self._end()

    def execute_command(self, *args, **options):
        """Issues a command; its reply comes later."""
        words, reply = self._words_of(args), Reply()
        if not is_connected(self._connection):
            self._fail(reply, lost("it was closed"))
        else:
            self._unsent.append((words, (reply, args[0], options)))
            self._changed.set()
        return reply

    async def wait(self):
        """Waits for the replies to all issued commands; see :meth:`claret.Dispatch.wait`."""
        await self._drain()
        self._raise_unseen()

    async def _drain(self):
        while self._unsent or self._waiting:
            last = self._unsent[-1][1] if self._unsent else self._waiting[-1]
            await last[0]._arrives()

    async def _write(self):
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                words = []
                while self._unsent and len(self._waiting) < WINDOW:
                    command, about = self._unsent.popleft()
                    words.append(command)
                    self._waiting.append(about)
                if words:
                    self._expecting.set()
                    packed = self._connection.pack_commands(words)
                    await self._connection.send_packed_command(packed, check_health=False)
        except (ConnectionError, TimeoutError, OSError) as error:
            await self._break(error)

    async def _read(self):
        try:
            while True:
                await self._expecting.wait()
                try:
                    reply = await self._connection.read_response()
                except ResponseError as error:
                    reply = error
                self._answered(reply)
                if not self._waiting:
                    self._expecting.clear()
                if self._unsent:
                    self._changed.set()
        except (ConnectionError, TimeoutError, OSError) as error:
            await self._break(error)

    async def _break(self, error):
        await self._connection.disconnect(nowait=True)
        open_commands = list(self._waiting) + [about for _, about in self._unsent]
        self._waiting.clear()
        self._unsent.clear()
        for reply, _, _ in open_commands:
            self._fail(reply, lost(error))

    async def _end(self):
        if self._watch:
            self._watch.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._waiting or self._unsent:
                await connection.disconnect(nowait=True)
            await self._db.connection_pool.release(connection)
