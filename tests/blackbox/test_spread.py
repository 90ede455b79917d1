"""A tree of nodes that is spread over several shards, by its top-level names: what holds for names at
different shards, and what does not."""

import subprocess
import threading
import time

import pytest
from clusters import Cluster
from harness import binary, free_port, page, until
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE
from test_zookeeper import WAIT_S, Zookeeper

# For clients to come back and go on when a machine is lost.
LOST_S = 60
# Enough for each of four shards to have some.
NAMES = [f"/name{number}" for number in range(16)]


def connected(clients, ports):
    """One more client of machines that serve these ports."""
    client = KazooClient(",".join(f"127.0.0.1:{port}" for port in ports), timeout=10)
    clients.append(client)
    client.start(timeout=WAIT_S)
    return client


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


def test_a_multi_over_names_at_several_shards_is_done_as_a_whole_or_not_at_all(spread):
    client, other = spread.client(), spread.client()
    told = []
    create = client.transaction()
    for name in NAMES:
        create.create(name, b"x", ephemeral=True)
    assert create.commit() == NAMES
    other.get_children("/", watch=lambda event: told.append(event.type))
    several = client.transaction()
    for name in NAMES:
        several.set_data(name, b"y")
    several.check(NAMES[3], version=5)
    several.delete(NAMES[0])
    results = several.commit()
    kinds = [RolledBackError] * len(NAMES) + [BadVersionError, RuntimeInconsistency]
    assert [type(result) for result in results] == kinds
    assert {other.get(name)[0] for name in NAMES} == {b"x"}
    assert not told
    several = client.transaction()
    for name in NAMES:
        several.delete(name, version=0)
    assert several.commit() == [True] * len(NAMES)
    assert other.get_children("/") == ["zookeeper"]
    until(lambda: told)
    assert told == ["CHILD"]


def test_the_rules_of_the_root_hold_at_all_shards(spread):
    client, other = spread.client(), spread.client()
    assert client.set_acls("/", READ_ACL_UNSAFE).aversion == 1
    for name in NAMES:
        with pytest.raises(NoAuthError):
            other.create(name)
    with pytest.raises(NoAuthError):
        other.set_acls("/", OPEN_ACL_UNSAFE)
    assert other.get_acls("/")[0] == READ_ACL_UNSAFE


def test_two_that_want_the_same_names_in_another_order_do_not_wait_for_ever(spread):
    clients = [spread.client() for _ in range(4)]
    for name in NAMES:
        clients[0].create(name)

    def sets(client, names, results):
        for turn in range(30):
            several = client.transaction()
            for name in names:
                several.set_data(name, str(turn).encode())
            results.append(several.commit())

    threads, results = [], []
    for number, client in enumerate(clients):
        names = NAMES[number:] + NAMES[:number] if number % 2 else NAMES[::-1]
        threads.append(threading.Thread(target=sets, args=(client, names, results), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LOST_S)
        assert not thread.is_alive()
    assert {clients[0].exists(name).version for name in NAMES} == {len(clients) * 30}
    versions = [[stat.version for stat in result] for result in results]
    assert sorted(versions) == [[turn] * len(NAMES) for turn in range(1, len(clients) * 30 + 1)]


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


def test_a_multi_is_whole_whatever_machine_is_lost(tmp_path):
    cluster = Cluster(tmp_path, shards=4)
    ports = cluster.serve_zookeeper("--zookeeper-shards", "4")
    cluster.start()
    names, clients, over = NAMES[:8], [], threading.Event()
    done, looked, wrong = [], [], []

    def connect():
        return connected(clients, ports)

    def again(client, ask):
        """Whatever comes of a lost connection; nothing is asked again by itself."""
        while not over.is_set():
            try:
                ask(client)
            except (ConnectionLoss, SessionExpiredError, ConnectionClosedError, OperationTimeoutError):
                time.sleep(0.05)
            except Exception as error:
                wrong.append(error)
                return

    def sets(client):
        several = client.transaction()
        for name in names:
            several.set_data(name, b"x")
        if all(not isinstance(result, Exception) for result in several.commit()):
            done.append(1)

    def looks(client):
        version = client.exists(names[-1]).version
        several = client.transaction()
        for name in names:
            several.check(name, version=version)
        results = several.commit()
        kinds = [type(result) for result in results]
        later = [BadVersionError] + [RuntimeInconsistency] * (len(names) - 1)
        # All have this version, or all have a later one.
        assert results == [True] * len(names) or kinds == later, results
        looked.append(1)

    try:
        creator = connect()
        for name in names:
            creator.create(name)
        threads = [
            threading.Thread(target=again, args=(connect(), ask), daemon=True)
            for ask in (sets, sets, looks, looks)
        ]
        for thread in threads:
            thread.start()
        for lost in (2, 0, 1):
            before = len(done), len(looked)
            until(lambda: len(done) > before[0] + 20 and len(looked) > before[1] + 20, LOST_S)
            cluster.kill_and_restart(cluster.nodes[lost], 1)
            cluster.wait()
        over.set()
        for thread in threads:
            thread.join(LOST_S)
            assert not thread.is_alive()
        assert not wrong, wrong
        reader = connect()
        versions = {reader.retry(reader.exists, name).version for name in names}
        assert len(versions) == 1 and versions.pop() >= len(done)
    finally:
        over.set()
        for client in clients:
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
        return connected(clients, [ports[node] for node in nodes])

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
