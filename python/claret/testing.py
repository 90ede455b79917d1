"""Servers for the tests of a program: started in a moment, killed, and started again.

With pytest, the fixtures of :mod:`claret.pytest_plugin` are simpler.
"""

import importlib.metadata
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import time

from .client import Claret

HOST = "127.0.0.1"
# Seconds until a server must be ready, even after it was killed.
READY_S_MAX = 30
# Ports below those from which systems take the local end of a connection: a client that dials a
# killed server again and again could otherwise be connected to itself, and keep the port.
PORTS = range(10_000, 32_000)
PACKAGE = "claret-server"


class ServerError(Exception):
    """There is no server to start, or it did not start; the text says why."""


def binary():
    """The server's program: that of ``CLARET_BIN``, of the package claret-server, or on ``PATH``."""
    named = os.environ.get("CLARET_BIN")
    if named:
        found = shutil.which(named)
        if found is None:
            raise ServerError(f"CLARET_BIN is {named}, which is no program")
        return found
    found = _installed() or shutil.which("claret")
    if found is None:
        raise ServerError(
            f"there is no server to start: install {PACKAGE} with pip, put claret on PATH, "
            "or set CLARET_BIN to its path"
        )
    return found


def _installed():
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    paths = (file.locate() for file in files if file.name == "claret")
    return next((str(path) for path in paths if path.is_file()), None)


class Server:
    """A server with a folder and a port of its own, which it keeps when it is started again.

    ``arguments`` are added to those of ``claret serve``. As a context manager it is started at the
    beginning; at the end it is killed and its folder is removed.
    """

    def __init__(self, *arguments):
        self.host, self.port = HOST, _free_port()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="claret-"))
        self.process = None
        self._log = self.folder / "log.txt"
        self._arguments = ["serve", "--port", str(self.port), "--dir", str(self.folder / "data")]
        self._arguments += map(str, arguments)

    @property
    def address(self):
        """``host:port``."""
        return f"{self.host}:{self.port}"

    @property
    def url(self):
        """The address as drivers of Redis take it."""
        return f"redis://{self.address}"

    @property
    def log(self):
        """Everything that the server has written, since it was first started."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def is_running(self):
        """Whether the process has been started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def start(self):
        """Starts the process on the server's files and port; returns when it is ready."""
        if self.is_running:
            raise ServerError("the server runs already")
        before = len(self.log)
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                [binary(), *self._arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        until = time.monotonic() + READY_S_MAX
        while "is ready" not in self.log[before:]:
            if not self.is_running or time.monotonic() > until:
                self.kill()
                raise ServerError(f"the server did not start:\n{self.log[before:]}")
            time.sleep(0.005)

    def kill(self):
        """Ends the process without warning, as ``kill -9`` does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def restart(self):
        """Kills the process, and starts it again."""
        self.kill()
        self.start()

    def client(self, **options):
        """A client of the server; the options are those of :class:`claret.Claret`."""
        return Claret(host=self.host, port=self.port, **options)

    def close(self):
        """Kills the process, and removes its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()


def _free_port():
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            # Without this a port would count as taken for a minute after its last connection.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
