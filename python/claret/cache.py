"""A cache of replies that the server keeps up to date, for threads. See :mod:`claret.kept`."""

import contextlib
import selectors
import socket
import threading

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
    """A question that threads await."""

    def __init__(self, words, is_read=True):
        super().__init__(words, is_read)
        self._is_settled = threading.Event()
        self._outcome = None

    def settle(self, reply=None, error=None):
        """Takes the outcome."""
        self._outcome = (reply, error)
        self._is_settled.set()

    def result(self):
        """Waits for the reply; raises it if it is an error."""
        self._is_settled.wait()
        reply, error = self._outcome
        if error is not None:
            with labelled():
                raise error
        return reply


class Cache(Caching):
    """Replies to reads, kept in memory until the server says that their key was written.

    ::

        with db.cache() as cache:
            price = cache.read("HGET", "item:7", "price")

    :meth:`read` takes a command that reads one key, named first. It answers from memory if it has
    the reply to exactly these words, and asks the server otherwise. Replies are those of RESP3,
    without redis-py's conversions: a dictionary for ``HGETALL``. Of two reads of the same words
    through one cache the later never shows an older value. The value may be older than the newest
    one: ordinarily by a message's way, and while machines do not hear each other by about five
    seconds. A program that decides by what it reads, and then writes, needs a transaction: its
    reads must come from the store, so do not use a cache in it. A command whose reply depends on
    time or chance, such as ``TTL`` or ``SRANDMEMBER``, is not for a cache either.

    The cache has a connection of its own, opened at the first read. If that is lost, everything is
    dropped, and the next read opens another one. Safe to share between threads. It ends with
    :meth:`close`, or with its client.
    """

    def __init__(self, db, max_entries=MAX_ENTRIES, max_reply_bytes=MAX_REPLY_BYTES):
        super().__init__(db, max_entries, max_reply_bytes)
        self.lock = threading.Lock()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def read(self, command, *args):
        """The reply to a command that reads one key, which is its first argument."""
        words = self._words_of(command, args)
        self._check_read(words, self._facts.get(words[0]) or self._fact(words[0]))
        with self.lock:
            self._check_open()
            reply, question = self._question(words, Asking)
        return self._decoded(reply if question is None else question.result())

    def close(self):
        """Ends the cache; later reads raise :class:`ClientClosed`."""
        with self.lock:
            self._is_closed = True
            if self._link is not None:
                self._link.wake()

    def _fact(self, name):
        question = Asking((b"COMMAND", b"INFO", name), is_read=False)
        with self.lock:
            self._check_open()
            self._ask(question)
        return question.result()

    def _ask(self, question):
        """Asks over the connection, which is opened if need be. The caller has the lock."""
        if self._link is None:
            self._link = Link(self, Exchange(self._kept))
            self._link.thread.start()
        self._link.exchange.unsent.append(question)
        self._link.wake()

    def open(self):
        """Opens a connection that tracks what it reads."""
        connection = self._new_connection()
        try:
            connection.connect()
            connection._parser.set_invalidation_push_handler(Invalidation)
            connection.send_command("CLIENT", "TRACKING", "ON", check_health=False)
            connection.read_response()
        except BaseException:
            connection.disconnect()
            raise
        return connection

    def lost(self, link, error):
        """Drops everything, as the link has ended."""
        with self.lock:
            super().lost(link, error)


class Link:
    """The connection of a cache, with the thread that writes to it and reads from it."""

    def __init__(self, cache, exchange):
        self._cache = cache
        self.exchange = exchange
        self.was_open = False
        self._heard, self._bell = socket.socketpair()
        self._heard.setblocking(False)
        self._bell.setblocking(False)
        self.thread = threading.Thread(target=self._run, name="claret-cache", daemon=True)

    def wake(self):
        """Lets the thread look for questions."""
        # If there is no room, it was told already.
        with contextlib.suppress(OSError):
            self._bell.send(b"!")

    def _run(self):
        connection = error = None
        try:
            connection = self._cache.open()
            self.was_open = True
            self._serve(connection)
        except Exception as raised:  # Whatever it is, the readers are to be told.
            error = raised
        finally:
            self._cache.lost(self, error)
            if connection is not None:
                connection.disconnect()
            self._heard.close()
            self._bell.close()

    def _serve(self, connection):
        with selectors.DefaultSelector() as selector:
            selector.register(connection._sock, selectors.EVENT_READ)
            selector.register(self._heard, selectors.EVENT_READ)
            while not self._cache.is_over():
                with self._cache.lock:
                    words = self.exchange.take()
                if words:
                    packed = connection.pack_commands(words)
                    connection.send_packed_command(packed, check_health=False)
                while connection.can_read(timeout=0):
                    self._read_one(connection)
                self.exchange.check_silence()
                selector.select(self.exchange.pause())
                with contextlib.suppress(BlockingIOError):
                    self._heard.recv(4096)

    def _read_one(self, connection):
        try:
            message = connection.read_response(disable_decoding=True, push_request=True)
        except ResponseError as error:
            message = error
        with self._cache.lock:
            self.exchange.receive(message)
        check_leader(connection, message)
