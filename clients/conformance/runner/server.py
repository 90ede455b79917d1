"""Servers of a story: started on an empty folder, killed, and started again."""

import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time

# Seconds until a server must be ready, even after it was killed.
READY_S = 30
HOST = "127.0.0.1"
SHARDS = 2
# Most characters of a server's output that a report shows.
SAID_MOST = 2000


class ServerError(Exception):
    """A server that does not start."""


def free_port():
    """A port at which nothing listens."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return listener.getsockname()[1]


class Server:
    """A server with a folder and a port of its own, which it keeps when it is started again."""

    def __init__(self, binary):
        self._binary = binary
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="claret-story-"))
        self._process = None
        self.address = f"{HOST}:{free_port()}"
        try:
            self.start()
        except BaseException:
            self.remove()
            raise

    def start(self):
        """Starts it and waits until it is ready."""
        if self._process is not None:
            raise ServerError("the server runs already")
        port = self.address.rpartition(":")[2]
        command = [self._binary, "serve", "--port", port, "--dir", str(self._folder / "data")]
        command += ["--shards", str(SHARDS), "--log-level", "error"]
        said = (self._folder / "said").open("w+", encoding="utf-8")
        with said:
            try:
                self._process = subprocess.Popen(
                    command, stdout=said, stderr=said, start_new_session=True
                )
            except OSError as error:
                raise ServerError(f"{self._binary}: {error}") from error
        until = time.monotonic() + READY_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > until:
                text = (self._folder / "said").read_text(encoding="utf-8")
                self.kill()
                raise ServerError(f"the server did not start:\n{text}")
            time.sleep(0.01)

    def _is_ready(self):
        return "is ready" in (self._folder / "said").read_text(encoding="utf-8")

    def kill(self):
        """Kills it as `kill -9` does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def last_words(self):
        """What it has said, if it has ended by itself; otherwise nothing."""
        if self._process is None or self._process.poll() is None:
            return ""
        code, text = self._process.returncode, (self._folder / "said").read_text(encoding="utf-8")
        return f"the server ended by itself, with {code}:\n{text[-SAID_MOST:]}"

    def remove(self):
        """Kills it and removes its folder."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


class Servers:
    """The servers of one story, by name; the one called `server` runs from the beginning."""

    def __init__(self, binary):
        self._binary = binary
        self._dead = f"{HOST}:{free_port()}"
        self._servers = {"server": Server(binary)}
        self._lock = threading.Lock()

    def carry_out(self, action, name="server"):
        """Kills or starts the server of a name."""
        with self._lock:
            if action == "kill":
                self._servers[name].kill()
            elif name in self._servers:
                self._servers[name].start()
            else:
                self._servers[name] = Server(self._binary)

    def address(self, name):
        """The address for a name in a story: `$server`, `$second`, `$dead`, or one as it is."""
        if name == "$dead":
            return self._dead
        return self._servers[name[1:]].address if name.startswith("$") else name

    def last_words(self):
        """What the servers that have ended by themselves have said."""
        return "\n".join(filter(None, (server.last_words() for server in self._servers.values())))

    def remove(self):
        """Kills all and removes their folders."""
        for server in self._servers.values():
            server.remove()
