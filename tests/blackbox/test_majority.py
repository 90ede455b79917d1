"""What a cluster says, and to whom, when no majority of its machines is left."""

import json
import re
import subprocess
import time

import pytest
from harness import binary, free_port, page, until
from redis.exceptions import ClusterDownError, ConnectionError, ResponseError

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


def test_clients_are_disconnected_instead_if_that_is_configured(make_cluster):
    cluster = make_cluster(config=CONFIG + "close_on_lost_leader = true\n")
    survivor, lost, port = cluster.nodes[0], cluster.nodes[1:], free_port()
    survivor.flags += ["--metrics-port", str(port)]
    cluster.start()
    with survivor.client() as client:
        assert client.incr("counter") == 1
        for node in lost:
            node.kill()
        for _ in range(3):
            with pytest.raises(ConnectionError), client.pipeline(transaction=False) as pipe:
                pipe.echo("before").incr("counter").echo("behind").execute()
        assert client.ping(), "what needs no shard is answered"
        assert "claret_connections_lost_leader_total 3" in page(port, "/metrics")[1]
        for node in lost:
            node.start()
        cluster.wait()
        assert int(client.get("counter")) < 5 and client.incr("counter") < 6


def test_without_a_majority_a_pipeline_is_refused_in_order_and_in_bounded_time(make_cluster):
    cluster = make_cluster(config=CONFIG).start()
    keys = [f"k{i}" for i in range(60)]
    with cluster.nodes[0].client() as client:
        slots = {client.execute_command("CLUSTER", "KEYSLOT", key) * 3 // 16384 for key in keys}
        assert slots == {0, 1, 2}, "keys of all shards"
    survivor = alone(cluster)
    with survivor.client(single_connection_client=True) as client:
        for _ in range(2):
            pipe = client.pipeline(transaction=False)
            for key in keys:
                pipe.incr(key).echo(key).get(key)
            began = time.monotonic()
            replies = pipe.execute(raise_on_error=False)
            assert time.monotonic() - began < WAIT_S + 3
            writes, echoes, reads = (replies[i::3] for i in range(3))
            assert echoes == keys, "every reply is in the place of its command"
            for error in writes + reads:
                assert isinstance(error, ClusterDownError) and "no leader" in str(error), error
        assert client.ping(), "the connection goes on"
    for node in cluster.nodes[1:]:
        node.start()
    cluster.wait()
    with survivor.client() as client:
        assert client.mget(keys) == [None] * len(keys), "what was refused had no effect"


# Requests under a number: of one shard, of several, what depends on what it reads, and what has an
# effect beside the keys.
NUMBERED = (
    ["INCR a"],
    ["MULTI", "INCR a", "INCR b", "INCR c", "EXEC"],
    ["TXN BEGIN BLIND", "INCR a", "INCR b", "INCR c", "TXN COMMIT"],
    ["SUNIONSTORE d s t"],
    ["MULTI", "INCR a", "PUBLISH news x", "EXEC"],
    ["PUBLISH news y"],
)


def asked_under(node, number, form):
    """What a form answers under a request number, or why it is refused, over a connection of its own."""
    with node.client(single_connection_client=True, socket_timeout=30) as client:
        client.execute_command("CLIENT", "REQUEST", "unled", number)
        try:
            return [client.execute_command(*line.split()) for line in form][-1]
        except ResponseError as error:
            return error


def test_a_numbered_request_that_is_refused_without_a_majority_is_answered_afterwards(make_cluster):
    cluster = make_cluster(config=CONFIG).start()
    first = [asked_under(cluster.nodes[1], n, form) for n, form in enumerate(NUMBERED)]
    assert not [told for told in first if isinstance(told, ResponseError)], first
    # Replies that a gateway makes are kept behind the answer, and are lost with the gateway until then.
    kept = [asked_under(cluster.nodes[2], n, form) for n, form in enumerate(NUMBERED)]
    assert kept == first, "another machine gives the same replies"
    survivor = alone(cluster)
    later = len(NUMBERED)
    for number, form in enumerate(NUMBERED):
        # What took effect is asked again, and what did not is asked for the first time.
        for error in (asked_under(survivor, n, form) for n in (number, later + number)):
            assert isinstance(error, ClusterDownError), (form, error)
            assert "only the same request number tells" in str(error), error
    for node in cluster.nodes[1:]:
        node.start()
    cluster.wait()
    for node in cluster.nodes:
        again = [asked_under(node, n, form) for n, form in enumerate(NUMBERED)]
        assert again == first, "what was answered is answered, whatever was refused in between"
    with survivor.client() as client:
        before = int(client.get("a"))
    news = [asked_under(survivor, later + n, form) for n, form in enumerate(NUMBERED)]
    assert news == [asked_under(cluster.nodes[2], later + n, form) for n, form in enumerate(NUMBERED)]
    with survivor.client() as client:
        assert news[0] == before + 1 and int(client.get("a")) == before + 4


def test_status_page_readiness_and_messages_tell_the_same(make_cluster):
    cluster = make_cluster(config=CONFIG)
    ports = []
    for node in cluster.nodes:
        ports.append(free_port())
        node.flags += ["--metrics-port", str(ports[-1])]
    cluster.start()
    # The map has a leader a little later than the shards.
    until(lambda: "NO LEADER" not in status(cluster.nodes[0]), 20, "a leader of all shards and the map")
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
    assert code == 503 and "no known leader" in text
    troubles = json.loads(page(ports[0], "/console.json")[1])["troubles"]
    assert troubles[0]["grade"] == "bad" and "shards 0, 1, 2 have no leader" in troubles[0]["text"]
    assert any("machines 2, 3 are not connected" in one["text"] for one in troubles), troubles
    assert "cluster_state:fail" in survivor.cli("cluster", "info")
    said = survivor.said()
    assert re.search(r"machine \d leads: .*shard \d \(term \d+\)", said), said
    assert "no longer leads" in said and "has no leader" in said, said


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
