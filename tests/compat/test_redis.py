"""Claret and a real redis-server are told the same stories: `redis_stories.py` says how they are
written. The replies in the files are those of Redis; the first test holds that they are."""

import subprocess
import time

import pytest
from harness import Server, free_port
from redis_stories import FOLDER, Connection, read, tell

FILES = sorted(FOLDER.glob("*.story"))


class Redis:
    """A real redis-server without anything on disk."""

    def __init__(self, folder):
        folder.mkdir()
        self.port = free_port()
        line = ["redis-server", "--port", str(self.port), "--dir", str(folder), "--save", ""]
        self.process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while True:
            try:
                return Connection(self.port).close()
            except ConnectionError:
                assert time.monotonic() < deadline, "redis-server does not come up"
                time.sleep(0.05)

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    server = Redis(tmp_path_factory.mktemp("redis") / "data")
    yield server
    server.kill()


@pytest.fixture(scope="module", params=[1, 3], ids=["one-shard", "three-shards"])
def claret_server(request, tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("claret"), shards=request.param).start()
    yield server
    server.kill()


def differences(path, port, server):
    """What differs in the stories of a file, each told to an empty server."""
    found = []
    for name, steps in read(path).items():
        cleaner = Connection(port)
        cleaner.send(["FLUSHALL"])
        cleaner.reply()
        cleaner.close()
        found += [f"{name}: {line}" for line in tell(steps, port, server)]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_replies_in_the_stories_are_those_of_redis(path, redis_server):
    found = differences(path, redis_server.port, "7.0")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_claret_says_what_redis_says(path, claret_server):
    found = differences(path, claret_server.port, "here")
    assert not found, "\n".join(found)
