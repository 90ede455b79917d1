"""Claret and a real redis-server or ZooKeeper, side by side."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "blackbox"))

import beside  # noqa: E402
from zookeeper import Claret, Zookeeper  # noqa: E402


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """redis-server and Claret."""
    folder = tmp_path_factory.mktemp("servers")
    servers = [beside.Redis(folder / "redis"), beside.Claret(folder / "claret")]
    yield servers
    for server in servers:
        server.close()


@pytest.fixture(scope="session", params=[1, 2], ids=["one-shard", "two-shards"])
def both(request, tmp_path_factory):
    """The two servers, the real one first. Claret's tree is at one shard, then spread over two."""
    folder = tmp_path_factory.mktemp("both")
    servers = [Zookeeper(folder / "zookeeper"), Claret(folder / "claret", over=request.param)]
    yield servers
    for server in servers:
        assert server.alive(), f"{server.name} has ended"
        server.close()
