"""Starts and stops real servers, and looks at them from outside."""

import contextlib
import json
import os
import pathlib
import queue
import random
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

ROOT = pathlib.Path(__file__).resolve().parents[2]
READY = re.compile(r"ready on (\S+):(\d+) ")
START_S_MAX = 60


def binary():
    """The program to test: the variable `CLARET_BIN`."""
    path = os.environ.get("CLARET_BIN")
    if not path:
        raise RuntimeError("CLARET_BIN must name the claret binary to test")
    return path


def probe(*words):
    """How `claret probe` ended, and what it said."""
    line = [binary(), "probe", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, timeout=120)


def probe_document(*words):
    """What `claret probe` says as a document; it must succeed."""
    done = probe(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _ports_of_this_process():
    """Ports to give, in random order; processes that run tests side by side have different ones."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports = range(10_000 + own, 32_000, processes)
    return iter(random.sample(ports, len(ports)))


_ports = _ports_of_this_process()


def free_port():
    """A port that nobody listens on now, and that no connection gets for its own end.

    No port is given twice: of a cluster's ports some are chosen long before they are bound.
    """
    for port in _ports:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is left that was not given before")


class Failed(Exception):
    """The server did not start; the text is what it said."""


class Server:
    """A server process in a directory of its own."""

    def __init__(self, folder, *flags, config=None, port=None, shards=2, workers=2):
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "data"
        self.port = port or free_port()
        self.flags = list(flags)
        if shards:
            self.flags += ["--shards", str(shards)]
        if workers:
            self.flags += ["--workers", str(workers)]
        if config is not None:
            path = self.folder / "claret.toml"
            path.write_text(config)
            self.flags += ["--config", str(path)]
        # What is started, if not the program to test.
        self.program = None
        self.process = None
        self.ready_line = ""
        self.errors = self.folder / "stderr"

    def start(self):
        """Starts the process and waits until it says that it is ready."""
        words = [self.program or binary(), "serve", "--port", str(self.port), "--dir", str(self.data)]
        with open(self.errors, "ab") as errors:
            self.process = subprocess.Popen(
                words + self.flags, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        lines = queue.Queue()
        threading.Thread(target=self._listen, args=(self.process.stdout, lines), daemon=True).start()
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline:
            try:
                line = lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                break
            if line is None:
                raise Failed(f"exit {self.process.wait()}: {self.said()}")
            if READY.search(line):
                self.ready_line = line.strip()
                return self
        self.kill()
        raise Failed(f"not ready after {START_S_MAX} s: {self.said()}")

    @staticmethod
    def _listen(stream, lines):
        # To the end, so that the server never waits for somebody to read.
        for line in stream:
            lines.put(line)
        lines.put(None)

    def said(self):
        """What the server wrote to its standard error, in all its lives."""
        return self.errors.read_text() if self.errors.exists() else ""

    def alive(self):
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """Ends the process as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def terminate(self, timeout_s=30):
        """Asks the process to end; gives its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def restart(self):
        """Kills the process and starts it again on the same port and data."""
        self.kill()
        return self.start()

    def client(self, kind=redis.Redis, **options):
        """A client of redis-py or of a class on top of it, which repeats nothing by itself."""
        return kind(host="127.0.0.1", port=self.port, **self.usual(options))

    @staticmethod
    def usual(options):
        """Options of a client, with what they are when nothing else is said."""
        usual = {"retry": Retry(NoBackoff(), 0), "decode_responses": True, "socket_timeout": 20}
        return {**usual, **options}

    def socket(self, timeout_s=20):
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout_s)

    def cli(self, *words, stdin=None, flags=()):
        """Runs redis-cli; gives what it printed, without the last line break."""
        command = ["redis-cli", "-p", str(self.port), *flags, *map(str, words)]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
        assert done.returncode in (0, 1), done.stderr
        return (done.stdout + done.stderr).rstrip("\n")

    def rss_bytes(self):
        """Memory of the process that is in RAM."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10

    def scheduled_ns(self):
        """For how long the threads of the process have run, and have waited for a processor."""
        times = []
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            times.append([int(word) for word in (task / "schedstat").read_text().split()])
        return sum(time[0] for time in times), sum(time[1] for time in times)


def until(condition, timeout_s=10, what="the condition"):
    """Waits until a function gives something true; gives that."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what} did not come true in {timeout_s} s"
        time.sleep(0.02)


def read_all(connection, timeout_s=10):
    """Bytes from a bare connection until the other side closes it or falls silent."""
    connection.settimeout(timeout_s)
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except (socket.timeout, ConnectionResetError):
        pass
    return received


def page(port, path, host="127.0.0.1"):
    """Status and text of an answer over HTTP; 0 if there is none."""
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def command(*words):
    """A command in the form in which clients send it."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    body = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"*%d\r\n%s" % (len(parts), body)


def work_in_threads(work, count):
    """Runs a function in threads with their numbers; raises what any of them raised."""
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread is stuck"
    if errors:
        raise errors[0]
