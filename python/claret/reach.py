"""Where the servers of a database are, and how a client logs in.

A client with several addresses uses the one that has answered last. When that fails, each new
connection goes to the next one that answers.
"""

import asyncio
import threading

from redis.credentials import CredentialProvider
from redis.exceptions import AuthenticationError, ConnectionError

from .errors import ClientClosed, NotReached

DEFAULT_PORT = 6379
# Seconds that one address has to answer, if the program sets no other time.
CONNECT_S = 5
# A stopped server may still accept connections: an address counts as answering after a reply.
PING = b"*1\r\n$4\r\nPING\r\n"


class Seeds:
    """Addresses of the servers of one database, as texts ``host:port``."""

    def __init__(self, addresses):
        if isinstance(addresses, str) or not addresses:
            raise ValueError("addresses is a list with one text host:port at least")
        self._addresses = [parsed(address) for address in addresses]
        self._lock = threading.Lock()
        self._first = 0

    def __repr__(self):
        return f"Seeds({self._addresses})"

    def __iter__(self):
        """All addresses, beginning with the preferred one."""
        first = self._first
        return iter(self._addresses[first:] + self._addresses[:first])

    def prefer(self, address):
        """Lets new connections begin with this address."""
        with self._lock:
            self._first = self._addresses.index(address)

    def avoid(self, address):
        """Lets new connections begin with the next address, if they would begin with this one."""
        with self._lock:
            if self._addresses[self._first] == address:
                self._first = (self._first + 1) % len(self._addresses)


def parsed(address):
    """Host and port of an address; an IPv6 address is in brackets if a port follows."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]") or host.count(":") and not host.startswith("["):
        host, port = address, DEFAULT_PORT
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        if host and 0 < int(port) < 65_536:
            return host, int(port)
    except ValueError:
        pass
    raise ValueError(f"an address is a text host:port, not {address!r}")


class Password(CredentialProvider):
    """The first line of a file, which is read for each connection: it may be replaced."""

    def __init__(self, file, username=None):
        self._file = file
        self._username = username

    def get_credentials(self):
        """As redis-py asks for them: a password, or a name and a password."""
        try:
            with open(self._file, encoding="utf-8") as lines:
                password = lines.readline().rstrip("\r\n")
        except (OSError, UnicodeError) as error:
            raise AuthenticationError(f"the file with the password: {error}") from error
        return (self._username, password) if self._username else (password,)

    async def get_credentials_async(self):
        """The same for asyncio."""
        return self.get_credentials()


class Seeking:
    """A connection to the first of several addresses that answers, as a base of a class of
    redis-py."""

    def __init__(self, *, seeds, **how):
        super().__init__(**how)
        self._seeds = seeds

    def avoid(self):
        """Lets new connections begin with another address than that of this one."""
        self._seeds.avoid((self.host, self.port))

    def _in_turn(self, failures):
        """The addresses in turn, until the program stops because one answers."""
        for address in self._seeds:
            self.host, self.port = address
            yield address
            self._seeds.avoid(address)
        text = "; ".join(f"{host}:{port}: {str(error) or repr(error)}" for (host, port), error in failures)
        raise NotReached(text) from failures[-1][1]


class BlockingSeeking(Seeking):
    """:class:`Seeking` for the blocking client."""

    def _connect(self):
        failures, patience = [], self.socket_timeout
        for address in self._in_turn(failures):
            # TLS and the first reply take as long as connecting may take.
            self.socket_timeout = self.socket_connect_timeout
            try:
                sock = super()._connect()
                _greet(sock)
            except OSError as error:
                failures.append((address, error))
                continue
            finally:
                self.socket_timeout = patience
            sock.settimeout(patience)
            self._seeds.prefer(address)
            return sock


def _greet(sock):
    """Makes sure that a server answers. Any line will do: before the password, it is an error."""
    try:
        sock.sendall(PING)
        line = b""
        while not line.endswith(b"\n"):
            part = sock.recv(512)
            if not part:
                raise OSError("the server has closed the connection")
            line += part
    except OSError:
        sock.close()
        raise


class AsyncSeeking(Seeking):
    """:class:`Seeking` for asyncio."""

    async def connect(self):
        """As in redis-py, with :class:`claret.NotReached` as it is."""
        try:
            await super().connect()
        except ConnectionError as error:
            if isinstance(error.__cause__, NotReached):
                raise error.__cause__ from error.__cause__.__cause__
            raise

    async def _connect(self):
        failures = []
        for address in self._in_turn(failures):
            try:
                await self._reach()
            except (OSError, asyncio.TimeoutError) as error:
                failures.append((address, error))
                continue
            self._seeds.prefer(address)
            return

    async def _reach(self):
        try:
            await super()._connect()
            # Not by `wait_for`, which may lose the cancellation of the task.
            late = asyncio.get_running_loop().call_later(
                self.socket_connect_timeout or CONNECT_S, self._writer.transport.abort
            )
            try:
                self._writer.write(PING)
                answer = await self._reader.readline()
            finally:
                late.cancel()
            if not answer.endswith(b"\n"):
                raise OSError("the server has closed the connection, or has not answered in time")
        except BaseException:
            writer, self._reader, self._writer = self._writer, None, None
            if writer is not None:
                writer.close()
            raise


class Reaching:
    """What the clients for threads and for asyncio share: addresses, a password in a file, and the
    end."""

    # Base of the connections of a client with several addresses.
    _SEEKING = None

    _is_closed = False

    def __init__(self, *args, addresses=None, password_file=None, **how):
        if password_file is not None:
            how["credential_provider"] = Password(password_file, how.pop("username", None))
        if addresses is not None:
            seeds = Seeds(addresses)
            how.setdefault("socket_connect_timeout", CONNECT_S)
        super().__init__(*args, **how)
        if addresses is not None:
            pool = self.connection_pool
            kind = pool.connection_class
            pool.connection_class = type(kind.__name__, (self._SEEKING, kind), {})
            pool.connection_kwargs["seeds"] = seeds

    def check_open(self):
        """Raises :class:`ClientClosed` after the end of the client."""
        if self._is_closed:
            raise ClientClosed("the client is closed; make another one")
