"""A cache of replies that the server keeps up to date, for asyncio. See :mod:`claret.kept`."""

import asyncio

from redis.exceptions import ResponseError

from .errors import labelled
from .kept import (
    MAX_ENTRIES,
    MAX_REPLY_BYTES,
    Caching,
    Exchange,
    Invalidation,
    Question,
    check_leader,
)


class Asking(Question):
    """A question that tasks await."""

    def __init__(self, words, is_read=True):
        super().__init__(words, is_read)
        self._outcome = asyncio.get_running_loop().create_future()

    def settle(self, reply=None, error=None):
        """Takes the outcome."""
        self._outcome.set_result((reply, error))

    async def result(self):
        """Waits for the reply; raises it if it is an error."""
        # A reader that is cancelled does not cancel the others.
        reply, error = await asyncio.shield(self._outcome)
        if error is not None:
            with labelled():
                raise error
        return reply


class Cache(Caching):
    """Replies to reads, kept in memory until the server says that their key was written.

    ::

        async with db.cache() as cache:
            price = await cache.read("HGET", "item:7", "price")

    See :class:`claret.Cache`. Tasks of one event loop may share it.
    """

    def __init__(self, db, max_entries=MAX_ENTRIES, max_reply_bytes=MAX_REPLY_BYTES):
        super().__init__(db, max_entries, max_reply_bytes)
        # Tasks of connections that were not seen to end.
        self._tasks = set()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.aclose()

    async def read(self, command, *args):
        """The reply to a command that reads one key, which is its first argument."""
        words = self._words_of(command, args)
        self._check_read(words, self._facts.get(words[0]) or await self._fact(words[0]))
        self._check_open()
        reply, question = self._question(words, Asking)
        return self._decoded(reply if question is None else await question.result())

    async def aclose(self):
        """Ends the cache; later reads raise :class:`ClientClosed`."""
        self._is_closed = True
        if self._link is not None:
            self._link.wake()
        await asyncio.gather(*self._tasks)

    async def _fact(self, name):
        question = Asking((b"COMMAND", b"INFO", name), is_read=False)
        self._ask(question)
        return await question.result()

    def _ask(self, question):
        """Asks over the connection, which is opened if need be."""
        if self._link is None:
            self._link = Link(self, Exchange(self._kept))
            task = asyncio.get_running_loop().create_task(self._link.run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._link.exchange.unsent.append(question)
        self._link.wake()

    async def open(self):
        """Opens a connection that tracks what it reads."""
        connection = self._new_connection()
        try:
            await connection.connect()
            connection._parser.set_invalidation_push_handler(invalidation)
            await connection.send_command("CLIENT", "TRACKING", "ON", check_health=False)
            await connection.read_response()
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection


async def invalidation(message):
    """A message that keys were written, as redis-py asks for it."""
    return Invalidation(message)


class Link:
    """The connection of a cache, with the task that writes to it and the one that reads from it."""

    def __init__(self, cache, exchange):
        self._cache = cache
        self.exchange = exchange
        self.was_open = False
        self._changed = asyncio.Event()

    def wake(self):
        """Lets the task look for questions."""
        self._changed.set()

    async def run(self):
        """Answers questions until the connection is lost, or the cache ends."""
        connection = error = None
        try:
            connection = await self._cache.open()
            self.was_open = True
            await self._serve(connection)
        except (Exception, asyncio.CancelledError) as raised:  # The readers are to be told.
            error = raised
        self._cache.lost(self, error)
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _serve(self, connection):
        reading = asyncio.create_task(self._read(connection))
        try:
            while not self._cache.is_over():
                words = self.exchange.take()
                if words:
                    packed = connection.pack_commands(words)
                    await connection.send_packed_command(packed, check_health=False)
                self.exchange.check_silence()
                waiting = asyncio.create_task(self._changed.wait())
                await asyncio.wait(
                    {reading, waiting},
                    timeout=self.exchange.pause(),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                waiting.cancel()
                self._changed.clear()
                if reading.done():
                    reading.result()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, connection):
        while True:
            try:
                message = await connection.read_response(disable_decoding=True, push_request=True)
            except ResponseError as error:
                message = error
            self.exchange.receive(message)
            check_leader(connection, message)
