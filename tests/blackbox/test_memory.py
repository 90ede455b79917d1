"""What memory goes into, and what happens when one of its parts has no room."""

import pytest
import redis
from harness import free_port, page, until

LIMITS = 'maxmemory = "100mb"\nmaxmemory_log = "24mb"\n'
KEYS = 10_000
VALUE = "x" * 1_000


def overwrite(client, rounds, pipeline=500):
    """Writes every key again and again; gives how many writes were refused."""
    refused = 0
    for turn in range(rounds):
        for first in range(0, KEYS, pipeline):
            with client.pipeline(transaction=False) as pipe:
                for i in range(first, first + pipeline):
                    pipe.set(f"k{i}", f"{turn}{VALUE}")
                answers = pipe.execute(raise_on_error=False)
            refused += sum(answer is not True for answer in answers)
    return refused


def memory(client):
    """The numbers of memory that the server shows."""
    return {k: v for k, v in client.info("memory").items() if isinstance(v, int)}


def test_overwriting_little_data_for_long_is_never_refused(make_server):
    server = make_server(config=LIMITS).start()
    with server.client() as client:
        assert overwrite(client, rounds=20) == 0
        seen = memory(client)
        assert seen["used_memory_dataset"] < 60 << 20, seen
        assert seen["used_memory_log"] <= 24 << 20, seen
        # A value that the log still has counts as log, until a snapshot has it.
        client.bgsave()
        until(lambda: 10 << 20 < memory(client)["used_memory_dataset"] < 60 << 20, what="the data")
        assert seen["maxmemory_log"] == 24 << 20
        assert client.dbsize() == KEYS
    assert server.rss_bytes() < 200 << 20
    server.restart()
    with server.client() as client:
        assert {client.get(f"k{i}") for i in range(0, KEYS, 500)} == {f"19{VALUE}"}
        client.flushall()
        assert client.set("a", 1), "an empty store takes a write"


def test_data_log_and_buffers_are_shown_apart(make_server):
    port = free_port()
    server = make_server("--metrics-port", str(port), config=LIMITS).start()
    with server.client() as client, server.socket() as one, server.socket() as other:
        client.set("big", "x" * (4 << 20))
        # The server looks at itself once a second.
        until(lambda: memory(client)["used_memory_log"] > 4 << 20, what="a log")
        before = memory(client)
        assert before["used_memory_dataset"] > 4 << 20
        for half in (one, other):
            half.sendall(b"*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$8388608\r\n" + b"x" * (7 << 20))
        grown = until(lambda: memory(client)["used_memory_buffers"] > 10 << 20, what="buffers")
        assert grown
        after = memory(client)
        assert after["used_memory_dataset"] < before["used_memory_dataset"] + (4 << 20), after
        _, text = page(port, "/metrics")
        shown = dict(line.split() for line in text.splitlines() if line.startswith("claret_memory"))
        assert int(shown["claret_memory_log_bytes"]) > 4 << 20
        assert int(shown["claret_memory_buffer_bytes"]) > 10 << 20
        assert int(shown["claret_memory_log_limit_bytes"]) == 24 << 20


def test_only_data_that_are_too_large_are_refused(make_server):
    server = make_server(config='maxmemory = "30mb"\nmaxmemory_log = "8mb"\n').start()
    with server.client() as client:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            for i in range(2_000):
                client.set(f"k{i}", "x" * (64 << 10))
        seen = memory(client)
        assert seen["used_memory_dataset"] > 28 << 20, seen
        assert seen["over_memory_limit"] == 1
        assert client.delete(*(f"k{i}" for i in range(0, 300))) > 100
        until(lambda: memory(client)["over_memory_limit"] == 0, what="room again")
        assert client.set("a", 1)


def test_a_cluster_keeps_its_logs_within_their_memory(make_cluster):
    cluster = make_cluster(config=LIMITS).start()
    with cluster.nodes[0].client() as client:
        assert overwrite(client, rounds=10) == 0
    for node in cluster.nodes:
        with node.client() as client:
            until(lambda: memory(client)["used_memory_log"] <= 24 << 20, what="a bounded log")


def test_writes_are_refused_when_no_snapshot_shortens_the_log(make_server):
    server = make_server(config='maxmemory = "1gb"\nmaxmemory_log = "8mb"\n').start()
    snapshots = server.data / "snapshots"
    with server.client() as client:
        snapshots.rename(server.data / "elsewhere")
        error = None
        for i in range(60_000):
            try:
                client.set(f"k{i % 100}", VALUE)
            except redis.ResponseError as said:
                error = str(said)
                break
        assert error and error.startswith("MISCONF"), error
        assert client.info("persistence")["rdb_last_bgsave_status"] == "err"
        assert client.get("k0").endswith(VALUE)
        (server.data / "elsewhere").rename(snapshots)
        until(lambda: "over_log_limit" in client.info("memory")
              and not client.info("memory")["over_log_limit"], 20, "snapshots that succeed")
        assert client.set("a", 1)
    assert "no snapshot shortens them" in server.said()
