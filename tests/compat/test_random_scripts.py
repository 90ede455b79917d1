"""Random scripts answer and change the same on Claret as on redis-server.

A few hundred of them; `RANDOM_SCRIPTS` in the environment is another number, and `RANDOM_SCRIPTS_FROM` the seed of
the first one.
"""

import os

import pytest
from beside import Claret, Connection, Redis
from random_scripts import Script

COUNT = int(os.environ.get("RANDOM_SCRIPTS", "300"))
FIRST = int(os.environ.get("RANDOM_SCRIPTS_FROM", "1"))
DIFFERENCES_MAX = 5

# Ways to look at the data of a key; those that do not fit its type answer the same error.
LOOKS = ["TYPE", "GET", "LRANGE 0 -1", "SMEMBERS", "HGETALL", "ZRANGE 0 -1 WITHSCORES", "TTL"]


@pytest.fixture(scope="module")
def connections(tmp_path_factory):
    """Connections to redis-server and to Claret."""
    folder = tmp_path_factory.mktemp("scripts")
    servers = [Redis(folder / "redis"), Claret(folder / "claret")]
    connections = [Connection(server.port) for server in servers]
    yield connections
    for connection, server in zip(connections, servers):
        connection.close()
        server.close()


def without_texts(reply):
    """A reply with the codes of errors only."""
    kind, value = reply
    if kind == "-":
        return kind, value.split(" ")[0]
    return kind, [without_texts(part) for part in value] if isinstance(value, list) else value


def looked(line, reply):
    """What was seen of a key, in one order."""
    kind, value = without_texts(reply)
    if line == "SMEMBERS" and isinstance(value, list):
        return sorted(value)
    if line == "HGETALL" and isinstance(value, list):
        return sorted(zip(value[::2], value[1::2]))
    return kind, value


def outcome(connection, script):
    """The reply to a script with the codes of errors, the data afterwards, and the reply as it came."""
    looks = [(key, look) for key in script.keys for look in LOOKS]
    evaluated = ["EVAL", script.text, str(len(script.keys)), *script.keys, *script.words]
    lines = [[look.split(" ")[0], key, *look.split(" ")[1:]] for key, look in looks]
    replies = connection.ask_all([*script.before, evaluated, *lines])[len(script.before) :]
    reply = replies[0]
    data = [(key, look, looked(look, seen)) for (key, look), seen in zip(looks, replies[1:])]
    return without_texts(reply), data, reply


def test_random_scripts_do_the_same_as_on_redis(connections):
    differences, raised = [], 0
    for seed in range(FIRST, FIRST + COUNT):
        script = Script(seed)
        theirs, ours = (outcome(connection, script) for connection in connections)
        failed = theirs[2][0] == "-" and " script: " in theirs[2][1]
        raised += failed
        # Claret undoes what a script that fails has done, Redis does not.
        data = [] if failed else [pair for pair in zip(theirs[1], ours[1]) if pair[0] != pair[1]]
        if theirs[0] == ours[0] and not data:
            continue
        differences.append(
            f"script {seed} on {script.keys}, {script.words}, after {script.before}:\n{script.text}\n"
            f"Redis: {theirs[2]}\nClaret: {ours[2]}\ndata: {data}"
        )
        if len(differences) == DIFFERENCES_MAX:
            break
    assert not differences, f"{len(differences)} scripts differ:\n\n" + "\n\n".join(differences)
    assert raised < COUNT / 2, "most scripts fail"
