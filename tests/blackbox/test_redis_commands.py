"""What Redis has is there, or is said to be absent, in answers and in the guide."""

import pathlib
import re
import subprocess

import pytest
import redis
from harness import free_port, until

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "redis-commands.md"


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Every command and sub-command of the Redis that is installed."""
    port = free_port()
    words = ["redis-server", "--port", str(port), "--save", ""]
    process = subprocess.Popen(
        words, cwd=tmp_path_factory.mktemp("redis"), stdout=subprocess.DEVNULL
    )
    try:
        with redis.Redis(port=port, decode_responses=True) as client:
            until(lambda: answers(client), what="an answer of redis-server")
            found = client.execute_command("COMMAND LIST")
    finally:
        process.kill()
        process.wait()
    assert len(found) > 300
    return sorted(found)


def answers(client):
    try:
        return client.ping()
    except redis.ConnectionError:
        return False


def built(client):
    """Every command and sub-command of the server."""
    client.response_callbacks.clear()
    found = set()
    for entry in client.execute_command("COMMAND"):
        found.add(entry[0])
        found.update(sub[0] for sub in entry[9])
    return found


def test_what_redis_has_is_there_or_said_to_be_absent(server, names):
    with server.client() as client:
        there = built(client)
        assert {"get", "client|id"} <= there
        for name in names:
            if name in there:
                continue
            shown = name.upper().replace("|", " ")
            with pytest.raises(redis.ResponseError) as error:
                client.execute_command(*shown.split())
            # Of a container that is absent nothing else is to be said.
            shown = shown if name.split("|")[0] in there else shown.split()[0]
            said = f"unknown command '{shown}', which is not built in Claret: see docs/guide/differences.md"
            if " " in shown:
                sub = shown.split()[1]
                said = f"unknown subcommand '{sub}': {shown} is not built in Claret: see docs/guide/differences.md"
            assert str(error.value).removeprefix("ERR ").startswith(said)


def test_the_guide_says_of_each_command_of_redis_what_there_is(server, names):
    row = r"^\| ((?:yes|partly|planned|no)\b[^|]*) \| (.*) \|$"
    rows = re.findall(row, GUIDE.read_text(), re.MULTILINE)
    standing = {name: kind for kind, cell in rows for name in re.findall("`([^`]+)`", cell)}
    with server.client() as client:
        there = built(client)
    for name in names:
        kind = standing[name.upper().replace("|", " ")]
        assert kind.startswith(("yes", "partly")) == (name in there), (name, kind)
    # What later versions have is in the table as well.
    for name in ("HIMPORT", "VADD", "XIDMPRECORD", "JSON.GET", "CLUSTER MIGRATESLOTS", "HIMPORT SET"):
        assert not standing[name].startswith(("yes", "partly"))


def test_what_nobody_has_is_an_unknown_command(server):
    with server.client() as client:
        with pytest.raises(redis.ResponseError, match="^unknown command 'XADDD'"):
            client.execute_command("XADDD", "s", "*", "a", "b")
        with pytest.raises(redis.ResponseError, match="unknown subcommand 'NOSUCH'"):
            client.execute_command("CLIENT", "NOSUCH")


def test_an_absent_command_spoils_a_transaction(server):
    with server.client(single_connection_client=True) as client:
        client.execute_command("MULTI")
        with pytest.raises(redis.ResponseError, match="unknown command 'WAITAOF', which is not built in Claret"):
            client.execute_command("WAITAOF", "0", "0", "0")
        with pytest.raises(redis.ResponseError, match="discarded because of previous errors"):
            client.execute_command("EXEC")


def test_no_version_is_promised_whose_commands_are_absent(server):
    with server.client() as client:
        assert client.info("server")["redis_version"].startswith("7.4.")
        assert client.info("server")["shards"] == client.info("everything")["shards"] > 0
        with pytest.raises(redis.ResponseError, match="is not built"):
            client.execute_command("VADD", "v", "VALUES", 1, 1, "e")


def test_bits_of_some_strings_and_not_of_others(db):
    db.mset({"a": b"\xf0\x01", "b": b"\xcc", "c": b"\xaa\x01"})
    wanted = {"DIFF": b"\x10\x00", "DIFF1": b"\x0e\x00", "ANDOR": b"\xe0\x01", "ONE": b"\x16\x00"}
    for name, bits in wanted.items():
        assert db.bitop(name, "target", "a", "b", "c") == 2
        assert [db.getbit("target", at) for at in range(16)] == [bits[at // 8] >> (7 - at % 8) & 1 for at in range(16)]
    with pytest.raises(redis.ResponseError, match="BITOP DIFF must be called with at least two"):
        db.bitop("DIFF", "target", "a")
