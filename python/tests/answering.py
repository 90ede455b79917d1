"""Listeners that answer like a server, or do not answer at all."""

import contextlib
import socket
import threading


class Listener:
    """Accepts connections, and answers each command with `+OK` or what is given for it.

    It does not answer those that are to hang, and if it is silent none.
    """

    def __init__(self, is_silent=False, hangs_at=(), answers=None):
        self.heard = []
        self.reached = threading.Event()
        self._is_silent = is_silent
        self._hangs_at = hangs_at
        self._answers = answers or {}
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._connections = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self):
        return "127.0.0.1:%d" % self._socket.getsockname()[1]

    def close(self):
        for one in [self._socket, *self._connections]:
            one.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._connections.append(connection)
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with contextlib.suppress(OSError), connection.makefile("rb") as lines:
            while not self._is_silent:
                words = self._command(lines)
                if not words:
                    return
                self.heard.append(" ".join(words))
                if words[0] in self._hangs_at:
                    self.reached.set()
                else:
                    answer = self._answers.get(words[0], "+OK")
                    connection.sendall(f"{answer}\r\n".encode())

    @staticmethod
    def _command(lines):
        count = int(lines.readline()[1:] or 0)
        return [lines.read(int(lines.readline()[1:]) + 2)[:-2].decode() for _ in range(count)]


@contextlib.contextmanager
def listeners(*ones):
    """Closes some listeners at the end."""
    with contextlib.ExitStack() as stack:
        for one in ones:
            stack.callback(one.close)
        yield ones
