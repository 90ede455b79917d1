"""What a cluster says, and to whom, when no majority of its machines is left."""

import json
import re
import subprocess
import time

import pytest
from harness import binary, free_port, page, until
from redis.exceptions import ClusterDownError, ResponseError

WAIT_S = 2
CONFIG = f"leader_wait_ms = {WAIT_S * 1000}\n"


def alone(cluster):
    """Kills two machines of three; gives the third when it has noticed."""
    for node in cluster.nodes[1:]:
        node.kill()
    survivor = cluster.nodes[0]

    def refused():
        with survivor.client() as client:
            try:
                return client.set("a", 1) and None
            except ResponseError as error:
                return isinstance(error, ClusterDownError)

    until(refused, 30, "a refusal")
    return survivor


def status(node, *flags):
    """What `claret cluster status` prints."""
    words = [binary(), "cluster", "status", "--url", f"redis://127.0.0.1:{node.port}", *flags]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_majority_requests_are_refused_and_not_held(make_cluster):
    cluster = make_cluster(config=CONFIG).start()
    survivor = alone(cluster)
    with survivor.client() as client:
        for ask in (
            lambda: client.get("a"),
            lambda: client.incr("counter"),
            lambda: client.mget([f"k{i}" for i in range(20)]),
            lambda: client.mset({f"k{i}": i for i in range(20)}),
            lambda: client.dbsize(),
            lambda: client.execute_command("LOCK.ACQUIRE", "lock"),
        ):
            began = time.monotonic()
            with pytest.raises(ClusterDownError, match="no leader.* 2, 3 are not connected"):
                ask()
            assert time.monotonic() - began < WAIT_S + 3
        with client.pipeline(transaction=True) as pipe:
            pipe.incr("counter").incr("other")
            with pytest.raises(ResponseError, match="no leader"):
                pipe.execute()
        assert client.info("memory")["used_memory"] > 0, "what is known here is told"
        assert client.ping()
    for node in cluster.nodes[1:]:
        node.start()
    cluster.wait()
    with survivor.client() as client:
        assert client.get("counter") is None, "what was refused had no effect"
        assert client.incr("counter") == 1


def test_status_page_readiness_and_messages_tell_the_same(make_cluster):
    cluster = make_cluster(config=CONFIG)
    ports = []
    for node in cluster.nodes:
        ports.append(free_port())
        node.flags += ["--metrics-port", str(ports[-1])]
    cluster.start()
    # The map has a leader a little later than the shards.
    until(lambda: "NOBODY" not in status(cluster.nodes[0]), 20, "a leader of all shards and the map")
    whole = json.loads(status(cluster.nodes[0], "--json"))
    shards = [led for led in whole["led"] if led["name"] != "the map"]
    assert len(shards) == 3 and all(led["leader"] and led["term"] for led in shards), shards
    assert all(abs(led["since_ms"] / 1000 - time.time()) < 120 for led in shards), shards
    survivor = alone(cluster)
    def unled():
        told = json.loads(status(survivor, "--json"))
        return told if {led["leader"] for led in told["led"]} == {None} else None

    told = until(unled, 20, "all shards without a leader")
    assert [machine["leads"] for machine in told["machines"]] == [[], [], []]
    assert status(survivor).startswith("NO LEADER OF shard 0, shard 1, shard 2")
    code, text = page(ports[0], "/ready")
    assert code == 503 and "no leader" in text
    troubles = json.loads(page(ports[0], "/console.json")[1])["troubles"]
    assert troubles[0]["grade"] == "bad" and "nobody leads shards 0, 1, 2" in troubles[0]["text"]
    assert any("machines 2, 3 are not connected" in one["text"] for one in troubles), troubles
    assert "cluster_state:fail" in survivor.cli("cluster", "info")
    said = survivor.said()
    assert re.search(r"machine \d leads: .*shard \d \(term \d+\)", said), said
    assert "does not lead any more" in said and "has no leader" in said, said


def test_an_outage_that_is_shorter_than_the_wait_is_not_noticed(make_cluster):
    cluster = make_cluster(config="leader_wait_ms = 60000\n").start()
    cluster.let_lead(cluster.nodes[2])
    with cluster.nodes[0].client(socket_timeout=50) as client:
        client.set("a", 1)
        cluster.nodes[2].kill()
        # The election takes a second or two; nobody is told.
        began = time.monotonic()
        assert client.get("a") == "1"
        assert time.monotonic() - began < 30
