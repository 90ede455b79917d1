"""ZooKeeper's protocol, as kazoo speaks it: nodes, sessions, watches, recipes, and what stays when the
server is killed."""

import re
import socket
import struct
import subprocess
import threading
import time

import pytest
from clusters import Cluster
from harness import Server, binary, free_port, page, until
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    QuotaExceededError,
    RolledBackError,
)
from kazoo.security import make_digest_acl

WAIT_S = 10


class Zookeeper:
    """A server with a port for ZooKeeper's clients."""

    def __init__(self, folder, backup=None, over=1, **options):
        self.port = free_port()
        flags = ["--zookeeper-port", str(self.port), "--zookeeper-shards", str(over)]
        self.server = Server(folder, *flags, **options)
        if backup:
            restore = [binary(), "restore", backup, "--dir", self.server.data]
            subprocess.run([*restore, *self.server.flags], check=True, capture_output=True)
        self.server.start()
        self.clients = []

    def client(self, **more):
        client = KazooClient(f"127.0.0.1:{self.port}", timeout=4, **more)
        client.start(timeout=WAIT_S)
        self.clients.append(client)
        return client

    def send(self, data):
        """What a connection is told that says this."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=2 * WAIT_S) as connection:
            connection.sendall(data)
            told = b""
            while more := connection.recv(4096):
                told += more
            return told

    def close(self):
        for client in self.clients:
            client.stop()
            client.close()
        self.server.kill()


@pytest.fixture(params=[1, 2], ids=["one-shard", "two-shards"])
def zookeeper(request, tmp_path):
    zookeeper = Zookeeper(tmp_path, over=request.param)
    yield zookeeper
    zookeeper.close()


def word(data):
    """Bytes with their length before them."""
    return struct.pack(">i", len(data)) + data


def frame(*parts):
    """What a client sends at once."""
    return word(b"".join(parts))


def test_nodes_are_created_read_set_and_deleted(zookeeper):
    client = zookeeper.client()
    assert client.create("/a", b"one") == "/a"
    data, stat = client.get("/a")
    assert (data, stat.version, stat.data_length, stat.numChildren) == (b"one", 0, 3, 0)
    assert client.set("/a", b"two").version == 1
    with pytest.raises(BadVersionError):
        client.set("/a", b"three", version=0)
    with pytest.raises(NodeExistsError):
        client.create("/a")
    client.create("/a/b/c", makepath=True)
    assert client.get_children("/a") == ["b"]
    with pytest.raises(NotEmptyError):
        client.delete("/a")
    client.delete("/a", recursive=True)
    assert client.exists("/a") is None
    with pytest.raises(NoNodeError):
        client.get("/a")
    assert client.get_children("/") == ["zookeeper"]


def test_sequential_and_ephemeral_nodes(zookeeper):
    ann, ben = zookeeper.client(), zookeeper.client()
    ann.create("/queue")
    names = [ann.create("/queue/n-", sequence=True) for _ in range(3)]
    assert names == [f"/queue/n-{number:010}" for number in range(3)]
    ann.create("/here", ephemeral=True)
    assert ben.get("/here")[1].ephemeralOwner == ann.client_id[0]
    with pytest.raises(NoChildrenForEphemeralsError):
        ben.create("/here/child")
    gone = threading.Event()
    assert ben.exists("/here", watch=lambda event: gone.set())
    ann.stop()
    assert gone.wait(WAIT_S)
    assert ben.exists("/here") is None


def test_all_of_a_transaction_happens_or_nothing(zookeeper):
    client = zookeeper.client()
    client.create("/all/a", makepath=True)
    transaction = client.transaction()
    transaction.create("/all/b")
    transaction.check("/all/a", version=7)
    transaction.delete("/all/a")
    created, checked, deleted = transaction.commit()
    assert isinstance(created, RolledBackError) and isinstance(checked, BadVersionError)
    assert client.exists("/all/b") is None
    transaction = client.transaction()
    transaction.create("/all/b", b"x")
    transaction.set_data("/all/a", b"y")
    created, stat = transaction.commit()
    assert created == "/all/b" and stat.version == 1


def test_watches_tell_before_the_change_is_seen(zookeeper):
    ann, ben = zookeeper.client(), zookeeper.client()
    ann.create("/a")
    told = []
    ben.get("/a", watch=lambda event: told.append((event.type, event.path)))
    ben.get_children("/a", watch=lambda event: told.append((event.type, event.path)))
    ann.set("/a", b"x")
    ann.create("/a/b")
    until(lambda: len(told) == 2)
    assert told == [("CHANGED", "/a"), ("CHILD", "/a")]


def test_access_control(zookeeper):
    ann, ben = zookeeper.client(), zookeeper.client()
    ann.add_auth("digest", "ann:secret")
    ann.create("/mine", b"x", acl=[make_digest_acl("ann", "secret", all=True)])
    assert ann.get("/mine")[0] == b"x"
    with pytest.raises(NoAuthError):
        ben.get("/mine")
    ben.add_auth("digest", "ann:secret")
    assert ben.get("/mine")[0] == b"x"


def test_a_killed_server_keeps_nodes_and_sessions(zookeeper):
    client = zookeeper.client()
    session, _ = client.client_id
    client.create("/kept", b"x")
    client.create("/here", ephemeral=True)
    changed = threading.Event()
    client.get("/kept", watch=lambda event: changed.set())
    states = []
    client.add_listener(states.append)
    zookeeper.server.restart()
    until(lambda: client.state == KazooState.CONNECTED and KazooState.SUSPENDED in states)
    assert client.client_id[0] == session
    assert client.get("/kept")[0] == b"x"
    assert client.exists("/here").ephemeralOwner == session
    # What was watched before is watched again.
    client.set("/kept", b"y")
    assert changed.wait(WAIT_S)


def test_a_backup_has_nodes_and_sessions(zookeeper, tmp_path):
    client = zookeeper.client()
    client.create("/kept/below", b"x", makepath=True)
    client.create("/here", ephemeral=True)
    limit(client, "/kept", b"countHardLimit=2")
    session, password = client.client_id
    path = tmp_path / "backup"
    url = f"redis://127.0.0.1:{zookeeper.server.port}"
    subprocess.run([binary(), "backup", path, "--url", url], check=True, capture_output=True)
    client.create("/late")
    (tmp_path / "other").mkdir()
    other = Zookeeper(tmp_path / "other", backup=path, shards=3)
    try:
        again = other.client(client_id=(session, password))
        assert again.client_id[0] == session
        assert again.get("/kept/below")[0] == b"x"
        assert again.exists("/here").ephemeralOwner == session
        assert again.exists("/late") is None
        with pytest.raises(QuotaExceededError):
            again.create("/kept/more")
    finally:
        other.close()


def limit(client, path, limits):
    """Sets a quota, as ZooKeeper's shell does it."""
    quota = f"/zookeeper/quota{path}"
    client.create(f"{quota}/zookeeper_limits", limits, makepath=True)
    client.create(f"{quota}/zookeeper_stats", b"count=-1,bytes=-1")


def test_what_is_beyond_a_hard_quota_is_refused(tmp_path):
    metrics = free_port()
    zookeeper = Zookeeper(tmp_path, config=f"metrics_port = {metrics}\n")
    try:
        client = zookeeper.client()
        client.create("/a")
        limit(client, "/a", b"count=-1,bytes=5=;byteHardLimit=10;countHardLimit=2")
        client.create("/a/b", b"x" * 5)
        with pytest.raises(QuotaExceededError):
            client.create("/a/c")
        with pytest.raises(QuotaExceededError):
            client.set("/a/b", b"x" * 11)
        with pytest.raises(QuotaExceededError):
            client.set_async("/a/b", b"x" * 11).get(WAIT_S)
        transaction = client.transaction()
        transaction.set_data("/a", b"y")
        transaction.create("/a/c")
        undone, refused = transaction.commit()
        assert isinstance(undone, RolledBackError) and isinstance(refused, QuotaExceededError)
        stats = "/zookeeper/quota/a/zookeeper_stats"
        assert client.get(stats)[0] == b"count=2,bytes=5"
        assert "claret_coordination_quotas_exceeded 0\n" in page(metrics, "/metrics")[1]
        client.set("/a/b", b"x" * 10)
        # More than the soft one allows: nobody is refused, and metrics tell.
        told = page(metrics, "/metrics")[1]
        assert "claret_coordination_quotas 1\n" in told
        assert "claret_coordination_quotas_exceeded 1\n" in told
        # Quotas are nodes: they are there after a crash.
        zookeeper.server.restart()
        with pytest.raises(QuotaExceededError):
            client.retry(client.create, "/a/c")
        assert client.get(stats)[0] == b"count=2,bytes=10"
        client.delete("/a/b")
        client.create("/a/c")
    finally:
        zookeeper.close()


def test_sessions_survive_the_loss_of_a_machine(tmp_path):
    cluster = Cluster(tmp_path, shards=2)
    ports = cluster.serve_zookeeper()
    cluster.start()
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    client = KazooClient(hosts, timeout=10, randomize_hosts=False)
    client.start(timeout=WAIT_S)
    try:
        session, _ = client.client_id
        client.create("/kept", b"x")
        client.create("/here", ephemeral=True)
        changed = threading.Event()
        client.get("/kept", watch=lambda event: changed.set())
        for node in cluster.nodes[:2]:
            # Each loss takes the client's connection or the leader of its nodes, or neither.
            node.kill()
            client.retry(client.create, "/during-", b"", sequence=True)
            node.start()
            cluster.wait()
        assert client.client_id[0] == session
        assert client.retry(client.exists, "/here").ephemeralOwner == session
        client.retry(client.set, "/kept", b"y")
        assert changed.wait(WAIT_S)
    finally:
        client.stop()
        client.close()
        for node in cluster.nodes:
            node.kill()


def test_a_silent_session_ends_and_its_nodes_with_it(zookeeper):
    ben = zookeeper.client()
    with socket.create_connection(("127.0.0.1", zookeeper.port), timeout=WAIT_S) as silent:
        silent.sendall(frame(struct.pack(">iqiq", 0, 0, 4000, 0), word(b"")))
        connected = silent.recv(4096)
        (timeout_ms,) = struct.unpack_from(">i", connected, 8)
        assert timeout_ms == 4000
        acl = struct.pack(">ii", 1, 31) + word(b"world") + word(b"anyone")
        ephemeral = struct.pack(">i", 1)
        silent.sendall(frame(struct.pack(">ii", 1, 1), word(b"/here"), word(b"x"), acl, ephemeral))
        until(lambda: ben.exists("/here"))
        gone = threading.Event()
        ben.exists("/here", watch=lambda event: gone.set())
        # It says nothing more, without saying goodbye.
        assert gone.wait(4 + WAIT_S)
        assert ben.exists("/here") is None


def test_kazoos_lock_excludes_and_hands_over(zookeeper):
    inside, most, done = [0], [0], []

    def work(name):
        client = zookeeper.client()
        for _ in range(5):
            with client.Lock("/lock", name):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.002)
                inside[0] -= 1
        done.append(name)

    workers = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(done) == 4 and most[0] == 1


def test_many_requests_are_under_way_at_once(zookeeper):
    client = zookeeper.client()
    client.create("/many")
    creates = [client.create_async(f"/many/{number}") for number in range(500)]
    assert [create.get(WAIT_S) for create in creates] == [f"/many/{n}" for n in range(500)]
    assert client.get("/many")[1].numChildren == 500


def test_monitors_are_answered(zookeeper):
    assert zookeeper.send(b"ruok") == b"imok"
    assert zookeeper.send(b"isro") == b"rw"
    client = zookeeper.client()
    assert client.server_version() == (3, 8, 0)
    version = rb"3\.8\.0-claret-[\d.]+, built on \d{4}-\d\d-\d\d \d\d:\d\d UTC\n"
    assert re.match(rb"Zookeeper version: " + version, zookeeper.send(b"srvr"))
    assert re.match(rb"zk_version\t" + version, zookeeper.send(b"mntr"))
    assert re.search(rb"zookeeper\.version=" + version, zookeeper.send(b"envi"))
    assert b"\nmaxClientCnxns=60\n" in zookeeper.send(b"conf")
    assert f"0x{client.client_id[0]:x}" in client.command(b"dump")


def test_nonsense_ends_the_connection_that_it_came_over_and_nothing_else(zookeeper):
    client = zookeeper.client()
    for nonsense in [b"\xff" * 64, struct.pack(">i", 1 << 30), struct.pack(">i", 3) + b"abc"]:
        assert zookeeper.send(nonsense) == b""
    assert client.create("/fine") == "/fine"


def test_who_connects_and_says_nothing_is_closed(zookeeper):
    begun = time.monotonic()
    assert zookeeper.send(b"\x00") == b""
    assert 9 < time.monotonic() - begun < 20


def test_the_operator_says_how_long_sessions_may_be_silent(tmp_path):
    bounds = "zookeeper_min_session_timeout_ms = 2000\nzookeeper_max_session_timeout_ms = 120000\n"
    zookeeper = Zookeeper(tmp_path, config=bounds)
    try:
        for wished, granted in ((100, 2_000), (90_000, 90_000), (1_000_000, 120_000)):
            connect = frame(struct.pack(">iqiq", 0, 0, wished, 0), word(b""))
            with socket.create_connection(("127.0.0.1", zookeeper.port), WAIT_S) as client:
                client.sendall(connect)
                assert struct.unpack_from(">i", client.recv(4096), 8) == (granted,)
        told = zookeeper.send(b"conf").decode()
        assert "minSessionTimeout=2000\n" in told and "maxSessionTimeout=120000\n" in told
        with zookeeper.server.client() as client:
            assert client.config_get("zookeeper_max*") == {
                "zookeeper_max_session_timeout_ms": "120000"
            }
    finally:
        zookeeper.close()


def test_many_large_answers_reach_a_client_that_reads(zookeeper):
    client = zookeeper.client()
    client.create("/large", b"x" * 1_000_000)
    before = zookeeper.server.rss_bytes()
    asked = [client.get_async("/large") for _ in range(150)]
    assert all(len(answer.get(60)[0]) == 1_000_000 for answer in asked)
    assert zookeeper.server.rss_bytes() - before < 100 << 20
    client.delete("/large")


def test_whether_there_is_a_node_takes_the_right_to_read_it(zookeeper):
    ann, ben = zookeeper.client(auth_data=[("digest", "ann:secret")]), zookeeper.client()
    ann.create("/hers", acl=[make_digest_acl("ann", "secret", all=True)])
    with pytest.raises(NoAuthError):
        ben.exists("/hers", watch=lambda event: None)
    assert ben.exists("/nothing") is None
    assert ann.exists("/hers").version == 0


def test_an_address_has_as_many_connections_as_the_operator_allows(tmp_path):
    zookeeper = Zookeeper(tmp_path, config="zookeeper_connections_per_address = 2\n")

    def stays():
        """A connection that is not closed at once, if one can be had."""
        made = socket.create_connection(("127.0.0.1", zookeeper.port), 0.5)
        try:
            if made.recv(1) == b"":
                made.close()
                return None
        except TimeoutError:
            return made

    try:
        assert b"\nmaxClientCnxns=2\n" in zookeeper.send(b"conf")
        first, second = until(stays), until(stays)
        assert [stays() for _ in range(3)] == [None] * 3
        # They count as long as they are there.
        first.close()
        until(stays).close()
        second.close()
        zookeeper.client().create("/served")
        with zookeeper.server.client() as redis:
            # What is told of it is as of a moment ago.
            until(lambda: redis.info("stats")["rejected_connections"] >= 1)
    finally:
        zookeeper.close()


def test_containers_are_looked_for_as_often_as_the_operator_says(tmp_path):
    zookeeper = Zookeeper(tmp_path, config="zookeeper_container_check_ms = 200\n")
    try:
        client = zookeeper.client()
        with socket.create_connection(("127.0.0.1", zookeeper.port), WAIT_S) as other:
            # Kazoo has no containers.
            other.sendall(frame(struct.pack(">iqiqi", 0, 0, 4000, 0, 0)))
            acl = struct.pack(">ii", 1, 31) + word(b"world") + word(b"anyone")
            container = struct.pack(">i", 4)
            other.sendall(frame(struct.pack(">ii", 1, 19), word(b"/box"), word(b""), acl, container))
            until(lambda: client.exists("/box"))
        client.create("/box/a")
        begun = time.monotonic()
        client.delete("/box/a")
        until(lambda: client.exists("/box") is None)
        assert time.monotonic() - begun < 5, "it took ten seconds if nothing was said"
    finally:
        zookeeper.close()
