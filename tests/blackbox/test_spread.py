"""A tree of nodes that is spread over several shards, by its top-level names: what holds for names at
different shards, and what does not."""

import subprocess
import threading
import time

import pytest
from clusters import Cluster
from harness import binary, free_port, page, until
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import BadArgumentsError, NodeExistsError, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE
from test_zookeeper import WAIT_S, Zookeeper

# Enough for each of four shards to have some.
NAMES = [f"/name{number}" for number in range(16)]


@pytest.fixture
def spread(tmp_path):
    zookeeper = Zookeeper(tmp_path, over=4, shards=4)
    yield zookeeper
    zookeeper.close()


def test_what_a_session_sends_takes_effect_in_its_order_whatever_shard_it_goes_to(spread):
    ann, ben = spread.client(), spread.client()
    for name in NAMES:
        ann.create(name)
    for turn in range(20):
        written = [ann.set_async(name, str(turn).encode()) for name in NAMES]
        # Whoever sees a later one sees all before it.
        last = until(lambda: ben.get(NAMES[-1])[0] == str(turn).encode() or None)
        assert last
        assert [ben.get(name)[0] for name in NAMES] == [str(turn).encode()] * len(NAMES)
        assert {result.get(WAIT_S).version for result in written} == {turn + 1}


def test_the_root_has_the_names_of_all_shards_and_whoever_watches_them_is_told_once(spread):
    ann, ben = spread.client(), spread.client()
    told = []
    names = ben.get_children("/", watch=lambda event: told.append(event.type))
    assert names == ["zookeeper"]
    for name in NAMES:
        ann.create(name)
    until(lambda: told)
    names, stat = ben.get_children("/", include_data=True, watch=lambda event: told.append(event.type))
    assert sorted(names) == sorted(["zookeeper", *(name[1:] for name in NAMES)])
    assert stat.numChildren == len(NAMES) + 1 == ben.exists("/").numChildren
    assert stat.cversion == len(NAMES) - 1 == ben.get("/")[1].cversion
    assert told == ["CHILD"]
    for name in NAMES[:4]:
        ann.delete(name)
    until(lambda: len(told) > 1)
    assert len(ben.get_children("/")) == len(NAMES) - 3
    assert told == ["CHILD", "CHILD"]


def test_a_session_ends_at_all_shards_at_once(spread):
    ann, ben = spread.client(), spread.client()
    for name in NAMES:
        ann.create(name, ephemeral=True)
    gone = [threading.Event() for _ in NAMES]
    for name, event in zip(NAMES, gone):
        assert ben.exists(name, watch=lambda _, event=event: event.set()).ephemeralOwner == ann.client_id[0]
    seen = []

    def look():
        while not seen or seen[-1] != [False] * len(NAMES):
            seen.append([ben.exists(name) is not None for name in NAMES])

    looker = threading.Thread(target=look)
    looker.start()
    ann.stop()
    looker.join(WAIT_S)
    assert all(event.wait(WAIT_S) for event in gone)
    # What is looked at later is not there once something looked at before was gone.
    for states in seen:
        assert states == sorted(states, reverse=True), states
    before = [earlier[-1] for earlier in seen]
    assert before == sorted(before, reverse=True)


def test_what_would_be_at_several_shards_together_is_refused(spread):
    client = spread.client()
    for name in NAMES:
        client.create(name)
    several = client.transaction()
    for name in NAMES:
        several.delete(name)
    with pytest.raises(BadArgumentsError):
        several.commit()
    assert len(client.get_children("/")) == len(NAMES) + 1
    with pytest.raises(BadArgumentsError):
        client.set_acls("/", OPEN_ACL_UNSAFE)
    one = client.transaction()
    one.create(f"{NAMES[0]}/a")
    one.delete(f"{NAMES[0]}/a")
    assert one.commit() == [f"{NAMES[0]}/a", True]


def test_what_the_tree_is_spread_over_stays(spread, tmp_path):
    client = spread.client()
    for name in NAMES:
        client.create(name, name.encode())
    client.create("/held", ephemeral=True)
    session, password = client.client_id
    states = []
    client.add_listener(states.append)
    flags, metrics = spread.server.flags, free_port()
    flags[flags.index("--zookeeper-shards") + 1] = "1"
    flags += ["--metrics-port", str(metrics)]
    spread.server.restart()
    until(lambda: client.state == KazooState.CONNECTED and KazooState.SUSPENDED in states)
    assert [client.get(name)[0] for name in NAMES] == [name.encode() for name in NAMES]
    with pytest.raises(NodeExistsError):
        client.create("/held")
    told = page(metrics, "/metrics")[1]
    nodes = len(NAMES) + len(["/held", "/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"])
    for name, value in (("shards", 4), ("nodes", nodes), ("ephemerals", 1), ("sessions", 1)):
        assert f"claret_coordination_{name} {value}\n" in told
    assert "/held" in spread.send(b"dump").decode()
    path, url = tmp_path / "backup", f"redis://127.0.0.1:{spread.server.port}"
    subprocess.run([binary(), "backup", path, "--url", url], check=True, capture_output=True)
    restore = [binary(), "restore", path, "--dir", tmp_path / "few", "--shards", "2"]
    refused = subprocess.run(restore, capture_output=True, text=True)
    assert refused.returncode != 0 and "--shards" in refused.stderr
    (tmp_path / "other").mkdir()
    other = Zookeeper(tmp_path / "other", backup=path, shards=4)
    try:
        again = other.client(client_id=(session, password))
        assert again.client_id[0] == session
        assert [again.get(name)[0] for name in NAMES] == [name.encode() for name in NAMES]
        assert again.exists("/held").ephemeralOwner == session
    finally:
        other.close()


def test_sessions_go_on_when_a_machine_is_lost_that_leads_some_shards(tmp_path):
    cluster = Cluster(tmp_path, shards=4)
    ports = cluster.serve_zookeeper("--zookeeper-shards", "4")
    cluster.start()
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports[:2])
    client = KazooClient(hosts, timeout=10)
    try:
        client.start(timeout=WAIT_S)
        session = client.client_id[0]
        for name in NAMES:
            client.create(name, ephemeral=True)
        changed = threading.Event()
        client.get(NAMES[0], watch=lambda event: changed.set())
        cluster.nodes[2].kill()

        def goes_on(name):
            try:
                return client.retry(client.set, name, b"x") is not None
            except NoNodeError:
                pytest.fail(f"{name} is gone, and its session is not")

        assert all(goes_on(name) for name in NAMES)
        assert client.client_id[0] == session
        assert changed.wait(WAIT_S)
        assert {client.exists(name).ephemeralOwner for name in NAMES} == {session}
    finally:
        client.stop()
        client.close()
        for node in cluster.nodes:
            node.kill()


def test_nothing_that_is_sent_ahead_takes_effect_without_what_was_sent_before(tmp_path):
    cluster = Cluster(tmp_path, shards=4)
    ports = cluster.serve_zookeeper("--zookeeper-shards", "4")
    cluster.start()
    clients = []

    def connect(*nodes):
        client = KazooClient(",".join(f"127.0.0.1:{ports[node]}" for node in nodes), timeout=10)
        clients.append(client)
        client.start(timeout=WAIT_S)
        return client

    try:
        reader = connect(0, 1)
        for name in NAMES:
            reader.create(name, b"-1")
        # One that leads some of the shards is lost, then the one that has the connection.
        for lost in (2, 0):
            sender = connect(0)
            sent = [sender.set_async(NAMES[n % len(NAMES)], str(n).encode()) for n in range(4000)]
            until(lambda: sum(result.ready() for result in sent) > 500)
            cluster.nodes[lost].kill()
            until(lambda: all(result.ready() for result in sent))
            answered = sum(result.successful() for result in sent)
            assert all(result.successful() for result in sent[:answered]), "answers come in order"
            sender.stop()
            # What is still on its way is done in a moment, or never.
            seen = []

            def rests():
                seen.append([int(reader.retry(reader.get, name)[0]) for name in NAMES])
                time.sleep(1)
                return seen[-2:] == [seen[-1]] * 2

            until(rests)
            values = seen[-1]
            last = max(values)
            assert last >= answered - 1
            assert values == [last - (last - n) % len(NAMES) for n in range(len(NAMES))]
            for name in NAMES:
                reader.retry(reader.set, name, b"-1")
            cluster.nodes[lost].start()
            cluster.wait()
    finally:
        for client in clients:
            client.stop()
            client.close()
        for node in cluster.nodes:
            node.kill()
