"""Containers and nodes with a time to live outlast what the server does not, and go all the same."""

import subprocess
import time
import urllib.request

import jute
import pytest
from harness import Server, binary, free_port
from zookeeper import Claret

# The leader looks every ten seconds.
WAIT_S = 25


@pytest.fixture
def claret(tmp_path):
    claret = Claret(tmp_path / "claret")
    yield claret
    claret.close()


def fill(port):
    session = jute.Raw(port).connect()
    session.do("createContainer", path="/c", flags=4)
    session.do("create", path="/c/x")
    session.do("createTTL", path="/t", flags=5, ttl=3_000)
    session.do("createTTL", path="/long", flags=5, ttl=3_600_000)
    return session


def gone(session, *paths):
    deadline = time.monotonic() + WAIT_S
    while any(session.do("exists", path=path)["err"] == 0 for path in paths):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def stays_and_goes(session):
    gone(session, "/t")
    assert session.do("exists", path="/c")["err"] == session.do("exists", path="/long")["err"] == 0
    session.do("delete", path="/c/x")
    gone(session, "/c")
    assert session.do("exists", path="/long")["err"] == 0


def test_they_outlast_a_kill(claret):
    fill(claret.port)
    claret.server.restart()
    stays_and_goes(jute.Raw(claret.port).connect())
    # What was deleted stays so.
    claret.server.restart()
    session = jute.Raw(claret.port).connect()
    assert session.do("getChildren", path="/")["names"] == ["long", "zookeeper"]


def test_a_backup_has_them(claret, tmp_path):
    fill(claret.port)
    path, port = tmp_path / "backup", free_port()
    url = f"redis://127.0.0.1:{claret.server.port}"
    subprocess.run([binary(), "backup", path, "--url", url], check=True, capture_output=True)
    (tmp_path / "other").mkdir()
    other = Server(tmp_path / "other", "--zookeeper-port", str(port))
    subprocess.run([binary(), "restore", path, "--dir", other.data, *other.flags], check=True, capture_output=True)
    other.start()
    try:
        stays_and_goes(jute.Raw(port).connect())
    finally:
        other.kill()


def test_prometheus_counts_sessions_nodes_and_watches(tmp_path):
    metrics, port = free_port(), free_port()
    flags = ["--zookeeper-port", str(port), "--metrics-port", str(metrics)]
    server = Server(tmp_path, *flags).start()
    try:
        session = fill(port)
        session.do("create", path="/e", flags=1)
        session.do("exists", path="/e", watch=True)
        page = urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=10).read().decode()
        told = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
        expected = {"sessions": 1, "nodes": 9, "ephemerals": 1, "watches": 1}
        assert {name: int(told[f"claret_coordination_{name}"]) for name in expected} == expected
        assert int(told["claret_zookeeper_connections"]) == 1
        # The greeting, six nodes, a read and their answers.
        assert told["claret_zookeeper_received_total"] == told["claret_zookeeper_sent_total"] == "7"
    finally:
        server.kill()
