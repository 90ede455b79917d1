"""Claret and a real redis-server are told the same stories: `redis_stories.py` says how they are
written. The replies in the files are those of Redis; the first test holds that they are."""

import re
import subprocess
import time

import pytest
import redis
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


# What is told about commands that Redis 7.0 tells otherwise: of which and what, with the reason.
TOLD_OTHERWISE = {
    # A rank comes with the score from 7.2 on.
    ("zrank", "arity"),
    ("zrevrank", "arity"),
    # It may have conditions, as in Valkey 9.2.
    ("exec", "arity"),
    # Redis tells the keys of the subcommands, which have but one here.
    ("memory", "flags"),
    ("memory", "range"),
    ("memory", "keys"),
    ("object", "flags"),
    ("object", "range"),
    ("object", "keys"),
    ("xgroup", "flags"),
    ("xgroup", "range"),
    ("xgroup", "keys"),
    ("xinfo", "flags"),
    ("xinfo", "range"),
    ("xinfo", "keys"),
    # 7.2 replaces the target whatever it was.
    ("sinterstore", "keys"),
    # Nothing of these is carried out by EXEC.
    ("auth", "flags"),
    ("bgsave", "flags"),
    ("failover", "flags"),
    ("hello", "flags"),
    ("multi", "flags"),
    ("psubscribe", "flags"),
    ("punsubscribe", "flags"),
    ("ssubscribe", "flags"),
    ("subscribe", "flags"),
    ("sunsubscribe", "flags"),
    ("unsubscribe", "flags"),
    ("watch", "flags"),
    # Redis tells these of the subcommands.
    ("pubsub", "flags"),
    # It is answered at once here.
    ("wait", "flags"),
    # Redis adds the key of STORE, without its place.
    ("sort", "keys"),
    # Not inside of MULTI here.
    ("monitor", "flags"),
}
FLAGS = {"write", "readonly", "denyoom", "fast", "blocking", "pubsub", "movablekeys", "no_multi"}


def told_of_commands(port):
    """What `COMMAND` tells of each command, as far as both servers mean the same by it."""

    def pairs(told):
        # A map of the third protocol, or a flat array of the second.
        return told if isinstance(told, dict) else dict(zip(told[::2], told[1::2]))

    def keys(specification):
        whole = pairs(specification)
        found = [sorted(whole["flags"])]
        for part in (pairs(whole["begin_search"]), pairs(whole["find_keys"])):
            found.append((part["type"], pairs(part["spec"])))
        return found

    with redis.Redis(port=port, decode_responses=True) as client:
        client.set_response_callback("COMMAND", lambda reply, **options: reply)
        entries = client.execute_command("COMMAND")
    return {
        entry[0]: {
            "arity": entry[1],
            "flags": set(entry[2]) & FLAGS,
            "range": entry[3:6],
            "keys": [keys(specification) for specification in entry[8]],
            "subcommands": {sub[0].split("|")[1] for sub in entry[9]},
        }
        for entry in entries
    }


def test_commands_are_described_as_redis_describes_them(redis_server, claret_server):
    theirs, ours = told_of_commands(redis_server.port), told_of_commands(claret_server.port)
    assert len(set(theirs) & set(ours)) > 150
    for name in set(theirs) & set(ours):
        subcommands = theirs[name].pop("subcommands"), ours[name].pop("subcommands")
        assert all("help" in found for found in subcommands if found) or name == "failover", name
        for part, said in ours[name].items():
            differs = said != theirs[name][part]
            expected = (name, part) in TOLD_OTHERWISE
            assert differs == expected, (name, part, said, theirs[name][part])


def test_containers_of_subcommands_say_which_they_have(claret_server):
    containers = {
        name: told
        for name, told in told_of_commands(claret_server.port).items()
        if "help" in told["subcommands"]
    }
    assert len(containers) == 14
    for name, told in containers.items():
        connection = Connection(claret_server.port)
        connection.send([name, "HELP"])
        said = connection.reply()
        connection.close()
        first_words = {word.lower() for word in re.findall(r'\$"([\w-]+)', said)}
        assert told["subcommands"] <= first_words, (name, said)
