"""A real ZooKeeper, and a Claret beside it that is asked the same."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import time

import pytest
from harness import Server, free_port

JARS = pathlib.Path("/usr/share/java")
SCRIPTS = pathlib.Path("/usr/share/zookeeper/bin")
START_S_MAX = 60


def jars():
    """ZooKeeper's program and what it needs, as Debian's packages have them."""
    if not shutil.which("java") or not (JARS / "zookeeper.jar").exists():
        pytest.skip("Debian's package `zookeeper` and a Java runtime are not installed")
    # Its manifest names what it needs, as files beside it.
    return f"{JARS}/zookeeper.jar"


class Zookeeper:
    """A server of its own in a folder of its own, which takes all four-letter words, nodes with a time
    to live, refuses what is beyond hard quotas, and looks for containers every second."""

    name = "ZooKeeper"

    def __init__(self, folder):
        self.port = free_port()
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "tickTime": 2000,
            "dataDir": self.folder / "data",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "maxClientCnxns": 0,
        }
        config = self.folder / "zoo.cfg"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        options = {
            "zookeeper.extendedTypesEnabled": "true",
            "zookeeper.enforceQuota": "true",
            "znode.container.checkIntervalMs": 1000,
            "zookeeper.root.logger": "WARN, CONSOLE",
            "java.awt.headless": "true",
        }
        words = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1"]
        words += [f"-D{name}={value}" for name, value in options.items()]
        words += ["-cp", jars(), "org.apache.zookeeper.server.ZooKeeperServerMain", str(config)]
        with open(self.folder / "said", "wb") as said:
            self.process = subprocess.Popen(words, stdout=said, stderr=said)
        deadline = time.monotonic() + START_S_MAX
        while not self.words(b"srvr").startswith(b"Zookeeper version"):
            assert self.process.poll() is None, (self.folder / "said").read_text()[-2000:]
            assert time.monotonic() < deadline, "ZooKeeper does not start"
            time.sleep(0.1)

    def words(self, word):
        """What it says to four letters."""
        return said(self.port, word)

    def alive(self):
        return self.process.poll() is None

    def close(self):
        self.process.kill()
        self.process.wait()


class Claret:
    """The server that is tested."""

    name = "Claret"

    def __init__(self, folder, over=1):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        # Over how many shards the tree is spread.
        self.over = over
        flags = ["--zookeeper-port", str(self.port), "--zookeeper-shards", str(over)]
        self.server = Server(folder, *flags).start()

    def words(self, word):
        return said(self.port, word)

    def alive(self):
        return self.server.alive()

    def close(self):
        self.server.kill()


def said(port, word):
    """What a server says to four letters; nothing if it does not listen."""
    data = b""
    with contextlib.suppress(OSError):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(word)
            while more := connection.recv(65536):
                data += more
    return data


def environment():
    """For scripts that Debian's package has."""
    return {**os.environ, "JVMFLAGS": "-Xmx128m -XX:TieredStopAtLevel=1"}
