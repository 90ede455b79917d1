"""Servers of a story: started on an empty folder, killed, and started again."""

import contextlib
import json
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "blackbox"))

from certificates import Authority  # noqa: E402

# Seconds until a server must be ready, even after it was killed.
READY_S = 30
# Seconds that a machine of a cluster has to tell who leads.
STATUS_S = 5
HOST = "127.0.0.1"
SHARDS = 2
# Ports below those of outgoing connections on Linux, macOS and Windows. Each is given once: stories run side
# by side, and a client of one must not find the server of another at the port of its own that was killed.
PORTS = range(16_000, 32_000)
UNUSED = iter(random.sample(PORTS, len(PORTS)))
# Names of the machines of a cluster.
MACHINES = ("one", "two", "three")
# How long a request waits in a cluster for its shard to have a leader.
LEADER_WAIT_MS = 2000
# Most characters of a server's output that a report shows.
SAID_MOST = 2000


class ServerError(Exception):
    """A server that does not start."""


def free_port():
    """A port at which nothing listens, and from which no connection can begin.

    While a server is down, a client that tries to reach it could otherwise be given its port.
    """
    for port in UNUSED:
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind((HOST, port))
            return port
    raise ServerError("no port is left")


class Server:
    """A server with a folder and a port of its own, which it keeps when it is started again.

    `settings` are further lines of its configuration.
    """

    def __init__(self, binary, settings=""):
        self._binary = binary
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="claret-story-"))
        self._process = None
        self.address = f"{HOST}:{free_port()}"
        port = self.address.rpartition(":")[2]
        lines = [f"port = {port}", f'dir = "{self.folder / "data"}"', f"shards = {SHARDS}"]
        self._settings = "\n".join([*lines, settings])

    def start(self):
        """Starts it and waits until it is ready."""
        self.launch()
        until = time.monotonic() + READY_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > until:
                text = self._said()
                self.kill()
                raise ServerError(f"the server did not start:\n{text}")
            time.sleep(0.01)

    def launch(self):
        """Starts it without waiting."""
        if self._process is not None:
            raise ServerError("the server runs already")
        file = self.folder / "claret.toml"
        file.write_text(self._settings, encoding="utf-8")
        command = [self._binary, "serve", "--config", str(file), "--log-level", "error"]
        with (self.folder / "said").open("w+", encoding="utf-8") as said:
            try:
                self._process = subprocess.Popen(
                    command, stdout=said, stderr=said, start_new_session=True
                )
            except OSError as error:
                raise ServerError(f"{self._binary}: {error}") from error

    def _said(self):
        return (self.folder / "said").read_text(encoding="utf-8")

    def _is_ready(self):
        return "is ready" in self._said()

    def leaders(self):
        """The number of the machine that leads each shard, as this one knows it; 0 if none does."""
        command = [self._binary, "cluster", "status", "--json", "--url", f"redis://{self.address}"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=STATUS_S
            )
            held = json.loads(done.stdout)["held"]
        except (ValueError, KeyError, subprocess.TimeoutExpired):
            return {}
        return {one["name"]: one["leader"] for one in held}

    @property
    def runs(self):
        """Whether it was started, and not killed since."""
        return self._process is not None

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
        code, text = self._process.returncode, self._said()
        return f"the server ended by itself, with {code}:\n{text[-SAID_MOST:]}"

    def remove(self):
        """Kills it and removes its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Servers:
    """The servers of one story, by name."""

    def __init__(self, binary, story):
        self._binary = binary
        self._dead = f"{HOST}:{free_port()}"
        self._servers = {}
        self._lock = threading.Lock()
        # The machine that was killed because it led.
        self._led = None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="claret-files-"))
        self._addresses = {}
        try:
            if story["machines"]:
                self._start_cluster()
            elif story["tls"]:
                self._start_with_tls(story["tls"] == "mutual")
            else:
                self._add("server").start()
        except BaseException:
            self.remove()
            raise

    def _add(self, name, settings=""):
        server = self._servers[name] = Server(self._binary, settings)
        self._addresses[name] = server.address
        return server

    def _start_cluster(self):
        peers = [f'"{number}" = "{HOST}:{free_port()}"' for number in range(1, len(MACHINES) + 1)]
        for number, name in enumerate(MACHINES, 1):
            cluster = ["[cluster]", f"node = {number}", f"nodes = {{ {', '.join(peers)} }}"]
            self._add(name, "\n".join([f"leader_wait_ms = {LEADER_WAIT_MS}", *cluster])).launch()
        self._until_all_led()

    def _until_all_led(self):
        until = time.monotonic() + READY_S
        while True:
            leaders = self._servers[MACHINES[0]].leaders()
            if len(leaders) > SHARDS and all(leaders.values()):
                return
            if self.last_words() or time.monotonic() > until:
                raise ServerError(f"the cluster has no leaders: {leaders}\n{self.last_words()}")
            time.sleep(0.1)

    def _start_with_tls(self, mutual):
        for name in ("stranger", "authority"):
            authority = Authority(self.folder / name)
            authority.issue("client")
        authority.issue("server")
        port, stem = free_port(), authority.folder / "server"
        files = [f'cert = "{stem}.pem"', f'key = "{stem}.key"']
        files += [f'client_ca = "{authority.certificate}"'] if mutual else []
        self._add("server", "\n".join(["[tls]", f"port = {port}", *files])).start()
        self._addresses["server"] = f"{HOST}:{port}"

    def carry_out(self, action, name="server"):
        """Kills or starts the server of a name."""
        with self._lock:
            if action == "kill":
                self._named(name).kill()
            elif name == "leader":
                self._led.start()
            elif name in self._servers:
                self._servers[name].start()
            else:
                self._add(name).start()

    def _named(self, name):
        if name != "leader":
            return self._servers[name]
        until = time.monotonic() + READY_S
        while True:
            for server in self._servers.values():
                number = server.leaders().get("shard 0", 0) if server.runs else 0
                leader = self._servers[MACHINES[number - 1]] if number else server
                if number and leader.runs:
                    self._led = leader
                    return leader
            if time.monotonic() > until:
                raise ServerError("shard 0 has no leader")
            time.sleep(0.05)

    @property
    def seeds(self):
        """The names in a story of the addresses at which a client finds the store."""
        return ["$server"] if "server" in self._servers else [f"${name}" for name in MACHINES]

    def address(self, name):
        """The address for a name in a story, such as `$server`, or one as it is."""
        if name == "$dead":
            return self._dead
        return self._addresses[name[1:]] if name.startswith("$") else name

    def file(self, name):
        """The path for the name of a file in a story: `$authority`, `$authority.client`, the key of
        that, `$authority.key`, the same of `$stranger`, or one that it has written."""
        authority, _, of = name[1:].partition(".")
        if authority not in ("authority", "stranger"):
            return str(self.folder / name[1:])
        files = {"": "ca.pem", "client": "client.pem", "key": "client.key"}
        return str(self.folder / authority / files[of])

    def write(self, name, text):
        """Writes a file."""
        (self.folder / name).write_text(text, encoding="utf-8")

    def last_words(self):
        """What the servers that have ended by themselves have said."""
        return "\n".join(filter(None, (server.last_words() for server in self._servers.values())))

    def remove(self):
        """Kills all and removes their folders."""
        for server in self._servers.values():
            server.remove()
        shutil.rmtree(self.folder, ignore_errors=True)
