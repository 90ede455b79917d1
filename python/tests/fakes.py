"""Clients and pools with connections whose replies are prepared."""

import os

from redis.exceptions import ConnectionError, ResponseError

import claret
from claret import aio, script

TABLE = {
    name: {"flags": flags}
    for name, flags in {
        "get": ["readonly"],
        "set": ["write"],
        "incrby": ["write"],
        "lmove": ["write"],
        "rename": ["write"],
        "zpopmin": ["write"],
        "txn": ["fast"],
    }.items()
}

BREAK = ConnectionError("gone")


def error(text):
    """An error reply."""
    return ResponseError(text)


class Connection:
    """Answers from a list; an exception that is not an error reply breaks the connection."""

    def __init__(self, replies, sent):
        self._replies = replies
        self._sent = sent
        self.is_connected = True
        self.releases = 0

    def can_read(self, timeout=0):
        return timeout > 0

    def pack_command(self, *words):
        return [list(words)]

    def pack_commands(self, commands):
        return [list(command) for command in commands]

    def send_packed_command(self, packed, check_health=True):
        self._sent.append([" ".join(map(str, command)) for command in packed])

    def send_command(self, *args, check_health=True):
        self._sent.append([" ".join(map(str, args))])

    def read_response(self):
        reply = self._replies.pop(0)
        if isinstance(reply, BaseException):
            if not isinstance(reply, ResponseError):
                self.is_connected = False
            raise reply
        return reply

    def disconnect(self, nowait=False):
        self.is_connected = False


class Pool:
    """Returns one connection after the other, each with its list of replies."""

    def __init__(self, *replies):
        self.sent = []
        self._connections = [Connection(list(one), self.sent) for one in replies]
        self.out = 0

    def get_connection(self):
        self.out += 1
        return self._connections[0]

    def disconnect(self):
        """Redis-py calls this when a client is collected."""

    def release(self, connection):
        self.out -= 1
        if not connection.is_connected:
            self._connections.remove(connection)


class AsyncConnection(Connection):
    """:class:`Connection` for asyncio."""

    async def send_packed_command(self, packed, check_health=True):
        super().send_packed_command(packed)

    async def send_command(self, *args, check_health=True):
        super().send_command(*args)

    async def read_response(self, timeout=None):
        return super().read_response()

    async def disconnect(self, nowait=False):
        super().disconnect()


class AsyncPool(Pool):
    """:class:`Pool` for asyncio."""

    def __init__(self, *replies):
        super().__init__()
        self._connections = [AsyncConnection(list(one), self.sent) for one in replies]

    async def get_connection(self):
        return super().get_connection()

    async def release(self, connection):
        super().release(connection)

    async def disconnect(self):
        """Redis-py calls this when a client is closed."""


class Prepared:
    """What the clients have in common: prepared replies, a table of commands, and a name."""

    _POOL = Pool

    def __init__(self, *replies):
        super().__init__()
        self.connection_pool = self._POOL(*replies)
        self._writers = script.writers(TABLE)
        self.requests._names = (os.getpid(), "me", [])

    @property
    def sent(self):
        return self.connection_pool.sent


class Client(Prepared, claret.Claret):
    """A client of a pool with prepared replies."""


class AsyncClient(Prepared, aio.Claret):
    """:class:`Client` for asyncio."""

    _POOL = AsyncPool
