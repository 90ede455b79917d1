"""Machines that speak TLS with each other, and strangers that are not let in."""

import signal
import socket
import ssl
import struct
import threading
import time
import zlib

import pytest
from certificates import Authority, encrypt, equip
from clusters import UP_S_MAX, Counter, Worker
from harness import Failed, free_port, read_all, until


@pytest.fixture
def authority(tmp_path):
    """The authority of the cluster."""
    return Authority(tmp_path / "authority")


@pytest.fixture
def other_authority(tmp_path):
    """An authority that nobody has asked for."""
    return Authority(tmp_path / "other authority")


@pytest.fixture
def make_encrypted(make_cluster, authority):
    """Makes a cluster, not started, whose machines have certificates."""

    def make(**options):
        cluster = make_cluster(**options)
        for node in cluster.nodes:
            equip(node, authority)
            encrypt(node)
        return cluster

    return make


def address(cluster, number):
    """Where a machine listens for the others."""
    flags = cluster.nodes[0].flags
    nodes = flags[flags.index("--cluster") + 1].split(",")
    host, port = nodes[number - 1].split("=")[1].split(":")
    return host, int(port)


def linked(node):
    """With which machines a server was connected, in all its lives, and how."""
    lines = [line for line in node.said().splitlines() if "connected with machine" in line]
    found = [line.split("connected with machine ")[1] for line in lines]
    return [(int(line.split()[0]), line.endswith(", encrypted")) for line in found]


def test_a_leader_is_lost_and_writes_go_on(make_encrypted):
    cluster = make_encrypted().start()
    stop = threading.Event()
    counters = [Counter(cluster, number, stop) for number in range(4)]
    large = {f"large:{i}": str(i) * (1 << 20) for i in range(8)}
    for _ in range(3):
        with cluster.nodes[0].client() as client:
            client.mset(large)
            slots = client.execute_command("CLUSTER SLOTS")
        port = slots[0][2][1]
        leader = next(node for node in cluster.nodes if node.port == port)
        leader.kill()
        others = [node for node in cluster.nodes if node is not leader]
        cluster.wait(others)
        with others[0].client() as client:
            client.mset(large)
        leader.start()
        cluster.wait()
    Worker.finish(counters, cluster)
    for node in cluster.nodes:
        with node.client() as client:
            assert client.mget(large) == list(large.values())
            for counter in counters:
                found = int(client.get(counter.key))
                assert counter.acknowledged <= found <= counter.acknowledged + counter.unknown
        assert linked(node) and all(encrypted for _, encrypted in linked(node)), node.said()
        assert node.client().config_get("tls-cluster") == {"tls-cluster": "yes"}
    assert sum(counter.acknowledged for counter in counters) > 100


class Listener:
    """Stands between machines and keeps what they say, by connection and direction."""

    def __init__(self, target):
        self.target = target
        self.heard = []
        self.sockets = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self.target, 5)
            except OSError:
                near.close()
                continue
            self.sockets += [near, far]
            for source, target in ((near, far), (far, near)):
                kept = bytearray()
                self.heard.append(kept)
                threading.Thread(target=self._pass, args=(source, target, kept),
                                 daemon=True).start()

    @staticmethod
    def _pass(source, target, kept):
        try:
            while chunk := source.recv(65536):
                kept += chunk
                target.sendall(chunk)
        except OSError:
            pass
        target.close()

    def close(self):
        """Ends everything."""
        for one in [self.server, *self.sockets]:
            one.close()


def is_tls(stream):
    """Whether bytes are records of TLS from beginning to end; the last may be cut off."""
    at = 0
    while at + 5 <= len(stream):
        kind, version, length = struct.unpack_from(">BHH", stream, at)
        known = kind in (20, 21, 22, 23) and version in (0x301, 0x303)
        if not known or length > (1 << 14) + 256:
            return False
        at += 5 + length
    return len(stream) > 5 and stream[0] == 22


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
def test_who_listens_between_machines_understands_nothing(make_cluster, authority, encrypted):
    cluster = make_cluster()
    first, second = cluster.nodes[:2]
    ear = Listener(address(cluster, 1))
    for node in cluster.nodes:
        if encrypted:
            equip(node, authority)
            encrypt(node)
        if node is not first:
            at = node.flags.index("--cluster") + 1
            rest = node.flags[at].split(",", 1)[1]
            node.flags[at] = f"1=127.0.0.1:{ear.port},{rest}"
    cluster.start()
    # Only the two that hear each other through the ear are left.
    cluster.nodes[2].kill()
    cluster.wait([first, second])
    with second.client() as client:
        for number in range(50):
            client.set(f"key:{number}", f"a secret {number}")
    with first.client() as client:
        assert client.get("key:7") == "a secret 7"
    streams = [bytes(kept) for kept in ear.heard if kept]
    assert len(streams) >= 2
    assert all(is_tls(stream) == encrypted for stream in streams)
    assert any(b"a secret" in stream for stream in streams) != encrypted
    ear.close()


def hello():
    """What a machine says first, in plain words."""
    word = lambda text: struct.pack("<I", len(text)) + text
    payload = struct.pack("<BBH", 1, 0, 1) + word(b"claret") + struct.pack("<HI", 3, 1)
    payload += word(b"127.0.0.1:1") + struct.pack("<H", 2)
    return struct.pack("<II", len(payload), zlib.crc32(payload)) + payload


def test_the_port_for_machines_speaks_tls_with_machines_only(make_encrypted, authority):
    cluster = make_encrypted().start()
    port = address(cluster, 1)
    first = cluster.nodes[0]
    for words in (hello(), b"PING\r\n", b"*1\r\n$4\r\nPING\r\n", b"\0" * 100, b"\xff" * 100):
        with socket.create_connection(port, 10) as stranger:
            stranger.sendall(words)
            said = read_all(stranger)
        assert len(said) <= 7 and said[:1] in (b"", b"\x15"), said
    until(lambda: "an unknown peer at 127.0.0.1 does not speak TLS" in first.said())
    assert first.said().count("does not speak TLS") == 1, "a warning is not repeated at once"
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    with socket.create_connection(port, 10) as plain:
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            with trusting.wrap_socket(plain, server_hostname="127.0.0.1") as stranger:
                assert stranger.version() == "TLSv1.3"
                stranger.sendall(hello())
                assert stranger.recv(100) == b""
                raise ssl.SSLError("closed")
    until(lambda: "shows no certificate" in first.said())
    trusting.maximum_version = ssl.TLSVersion.TLSv1_2
    trusting.load_cert_chain(first.folder / "peer.pem", first.folder / "peer.key")
    with socket.create_connection(port, 10) as plain:
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            trusting.wrap_socket(plain, server_hostname="127.0.0.1")
    cluster.wait()


def test_strangers_that_say_nothing_are_given_up(make_encrypted):
    cluster = make_encrypted().start()
    cluster.nodes[2].kill()
    slow = [socket.create_connection(address(cluster, 1), 10) for _ in range(100)]
    for stranger in slow:
        try:
            stranger.sendall(b"\x16\x03\x01")
        except OSError:
            pass
    cluster.nodes[2].start()
    cluster.wait()
    for stranger in slow:
        with stranger:
            assert read_all(stranger) == b""


def impostor(kind, node, authority, other_authority):
    """Makes a machine one that must not be let in; gives what the others say of it."""
    at = node.flags.index("--peer-tls-cert")
    if kind == "other authority":
        equip(node, other_authority, trusts=[authority])
        return "not signed by an authority"
    if kind == "expired":
        equip(node, authority, days=0)
        return "has expired"
    if kind == "other name":
        equip(node, authority, names="DNS:elsewhere.example,IP:127.0.0.9")
        return "127.0.0.9"
    del node.flags[at : at + 6]
    return "does not speak TLS"


KINDS = [("other authority", 1), ("other authority", 3), ("expired", 1), ("expired", 3),
         ("plain", 1), ("plain", 3), ("other name", 1)]


@pytest.mark.parametrize("kind, number", KINDS)
def test_who_has_no_right_is_not_let_in(make_encrypted, authority, other_authority, kind, number):
    cluster = make_encrypted()
    stranger = cluster.nodes[number - 1]
    others = [node for node in cluster.nodes if node is not stranger]
    right = list(stranger.flags)
    words = impostor(kind, stranger, authority, other_authority)
    time.sleep(1.1)
    for node in cluster.nodes:
        node.start()
    cluster.wait(others)
    for node in others:
        # Whoever has the larger number connects.
        whom = "an unknown peer at 127.0.0.1" if number == 3 else "machine 1 at 127.0.0.1:"
        told = lambda: [line for line in node.said().splitlines() if words in line]
        until(told, UP_S_MAX, f"a warning with '{words}'")
        assert whom in told()[0] and "WARN" in told()[0], told()
    # The stranger is told, too, if it can understand it.
    learns = "speaks TLS" if kind == "plain" else "rejects this machine"
    until(lambda: learns in stranger.said(), UP_S_MAX, f"'{learns}'")
    time.sleep(1)
    for node in others:
        assert node.said().count(words) < 4, "a warning is repeated after half a minute"
        assert number not in [machine for machine, _ in linked(node)]
    assert linked(stranger) == []
    cluster.wait(others)
    # With a proper certificate it belongs to the cluster.
    stranger.kill()
    stranger.flags = right
    equip(stranger, authority)
    stranger.start()
    cluster.wait([stranger])


def test_a_machine_with_tls_is_not_let_into_a_cluster_without(make_cluster, authority):
    cluster = make_cluster()
    *others, stranger = cluster.nodes
    equip(stranger, authority)
    encrypt(stranger)
    for node in cluster.nodes:
        node.start()
    cluster.wait(others)
    for node in others:
        until(lambda: "an unknown peer at 127.0.0.1 speaks TLS" in node.said(), UP_S_MAX)
    until(lambda: "does not speak TLS" in stranger.said(), UP_S_MAX)
    assert linked(stranger) == []


def reload(node):
    """Has a server read its certificates again, and waits until it has."""
    words = "certificates for the machines of the cluster"
    count = node.said().count(words)
    node.process.send_signal(signal.SIGHUP)
    until(lambda: node.said().count(words) > count, UP_S_MAX, "the certificates being read")


def test_certificates_are_replaced_while_the_cluster_serves(
    make_encrypted, authority, other_authority
):
    cluster = make_encrypted().start()
    *others, third = cluster.nodes
    # A restarted machine has a new certificate that the others do not trust yet.
    equip(third, other_authority, trusts=[authority, other_authority])
    third.kill()
    third.start()
    for node in others:
        until(lambda: "not signed by an authority" in node.said(), UP_S_MAX)
    cluster.wait(others)
    for node in others:
        equip(node, authority, trusts=[authority, other_authority])
        reload(node)
    cluster.wait([third])
    # The others follow, and in the end the old authority is forgotten.
    for node in cluster.nodes:
        equip(node, other_authority, trusts=[authority, other_authority])
        reload(node)
    for node in cluster.nodes:
        equip(node, other_authority)
        reload(node)
    cluster.wait()
    for node in cluster.nodes:
        node.kill()
        node.start()
        cluster.wait()
    # Files that do not fit change nothing.
    (third.folder / "peer.key").write_text("nonsense")
    reload(third)
    assert "peer.key" in third.said() and "stay in use" in third.said()
    others[1].kill()
    others[1].start()
    cluster.wait()


def test_all_certificates_may_have_one_name(make_cluster, authority):
    authority.issue("shared", names="DNS:claret.example")
    place = authority.folder
    config = f"""
[cluster.tls]
cert = "{place}/shared.pem"
key = "{place}/shared.key"
ca = "{place}/ca.pem"
server_name = "claret.example"
"""
    cluster = make_cluster(config=config).start()
    assert all(linked(node) for node in cluster.nodes)


def test_what_is_missing_is_named(make_server):
    nodes = f"1=127.0.0.1:{free_port()},2=127.0.0.1:{free_port()}"
    member = ["--node", "1", "--cluster", nodes]
    with pytest.raises(Failed, match="no key and no ca.*--peer-tls-ca"):
        make_server(*member, "--peer-tls-cert", "x").start()
    server = make_server(*member)
    encrypt(server)
    with pytest.raises(Failed, match="peer.pem"):
        server.start()
    assert not server.data.exists(), "nothing was touched"


def test_a_port_that_others_reach_needs_tls_or_trust(make_server, authority):
    def make():
        nodes = f"1=0.0.0.0:{free_port()},2=127.0.0.1:{free_port()}"
        return make_server("--node", "1", "--cluster", nodes)

    with pytest.raises(Failed, match="cluster.tls.*insecure"):
        make().start()
    server = make()
    equip(server, authority)
    encrypt(server)
    assert server.start().alive()
