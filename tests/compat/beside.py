"""redis-server and Claret side by side, and replies in the form in which they came."""

import contextlib
import pathlib
import shlex
import socket
import subprocess
import threading
import time

from harness import Server, command, free_port

TABLE = pathlib.Path(__file__).with_name("replies.txt")


class Connection:
    """A bare connection; replies keep the types of the protocol: pairs of a type and a value."""

    def __init__(self, port, protocol=2):
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.input = self.socket.makefile("rb")
        if protocol == 3:
            self.ask(["HELLO", "3"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the connection."""
        self.input.close()
        self.socket.close()

    def ask(self, words):
        """The reply to one command."""
        return self.ask_all([words])[0]

    def ask_all(self, lines):
        """The replies to commands that are sent together."""
        self.socket.sendall(b"".join(command(*words) for words in lines))
        return [self.reply() for _ in lines]

    def reply(self):
        """The next reply."""
        line = self.input.readline()
        assert line.endswith(b"\r\n"), f"the connection has ended: {line!r}"
        kind, rest = line[:1].decode(), line[1:-2]
        if kind in "+-:,#_(":
            return kind, rest.decode()
        size = int(rest)
        if size < 0:
            return kind, None
        if kind in "$=":
            text = self.input.read(size + 2)[:-2]
            return kind, text.decode("latin-1")
        if kind in "*~>":
            return kind, [self.reply() for _ in range(size)]
        assert kind == "%", line
        return kind, [(self.reply(), self.reply()) for _ in range(size)]


class Mortal:
    """A server that can be killed while clients work; `kill_and_restart` does it once."""

    @contextlib.contextmanager
    def killed_each(self, seconds):
        """Kills and restarts the server again and again within the block; lists when."""
        stop, kills, errors = threading.Event(), [], []

        def kill():
            try:
                while not stop.wait(seconds):
                    self.kill_and_restart()
                    kills.append(time.monotonic())
            except BaseException as error:
                errors.append(error)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            yield kills
        finally:
            stop.set()
            killer.join()
        if errors:
            raise errors[0]


class Redis(Mortal):
    """A redis-server without a disk."""

    name = "redis-server"
    settings = ("--bind", "127.0.0.1", "--save", "", "--appendonly", "no")

    def __init__(self, folder, *flags):
        folder.mkdir()
        self.port = free_port()
        self.words = ["redis-server", "--port", str(self.port), "--dir", str(folder)]
        self.words += [*self.settings, *flags]
        self.start()
        with Connection(self.port) as asked:
            lines = asked.ask(["INFO", "server"])[1].splitlines()
        told = dict(line.split(":", 1) for line in lines if ":" in line)
        self.version = tuple(int(part) for part in told["redis_version"].split(".")[:2])

    def start(self):
        """Starts the server and waits until it listens."""
        self.process = subprocess.Popen(self.words, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while True:
            try:
                Connection(self.port).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "redis-server does not start"
                time.sleep(0.05)

    def kill_and_restart(self):
        """Ends the server as a crash would, and starts it again with what it has on disk."""
        self.process.kill()
        self.process.wait()
        self.start()

    def close(self):
        """Ends the server."""
        self.process.terminate()
        self.process.wait(30)


class RedisByDefault(Redis):
    """A redis-server as it is without any configuration: it writes snapshots now and then."""

    settings = ()


class Claret(Mortal):
    """A Claret of several shards."""

    name = "claret"

    def __init__(self, folder):
        folder.mkdir()
        self.server = Server(folder, shards=4, workers=2).start()
        self.port = self.server.port

    def kill_and_restart(self):
        """Ends the server as a crash would, and starts it again."""
        self.server.restart()

    def close(self):
        """Ends the server, which must not have ended by itself."""
        assert self.server.alive(), self.server.said()[-4000:]
        self.server.kill()


def same_on_both(run, folder, kinds=(Redis, Claret)):
    """The lines that a program says, given the port of a server, which must be the same on both."""
    said = []
    for kind in kinds:
        server = kind(folder / kind.__name__)
        try:
            said.append(run(server.port))
        finally:
            server.close()
    assert said[0] == said[1]
    return said[0]


def table():
    """The commands of the table, each with how its replies are compared; and those before them."""
    before, commands = [], []
    for line in TABLE.read_text().splitlines():
        line, _, how = line.partition(" ; ")
        if not line or line.startswith("#"):
            continue
        if line.startswith("!"):
            before.append(words_of(line[1:]))
        else:
            commands.append((words_of(line), how.strip()))
    return before, commands


def words_of(line):
    """The words of a line of the table, in which `\\n` is a line break."""
    return [word.replace("\\n", "\n") for word in shlex.split(line)]
