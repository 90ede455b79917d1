"""ZooKeeper's protocol in TLS, as kazoo speaks it."""

import signal
import socket
import ssl

import pytest
from certificates import Authority
from harness import Failed, Server, free_port, read_all, until
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

WAIT_S = 10


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """Issues certificates; there are one for this machine and one for a client."""
    authority = Authority(tmp_path_factory.mktemp("tls"))
    for name in ("server", "client"):
        authority.issue(name)
    return authority


class Encrypted:
    """A server with an encrypted port for ZooKeeper's clients."""

    def __init__(self, folder, authority, *flags, first="", more=""):
        self.port = free_port()
        self.authority = authority
        lines = [first, "[tls]", f"port = {free_port()}", f"zookeeper_port = {self.port}"]
        lines += [f'cert = "{authority.folder}/server.pem"', f'key = "{authority.folder}/server.key"']
        self.server = Server(folder, *flags, config="\n".join([*lines, more, ""])).start()
        self.clients = []

    def client(self, wait_s=WAIT_S, **more):
        options = {"use_ssl": True, "ca": str(self.authority.certificate), "timeout": 4, **more}
        client = KazooClient(f"127.0.0.1:{self.port}", **options)
        self.clients.append(client)
        client.start(timeout=wait_s)
        return client

    def close(self):
        for client in self.clients:
            client.stop()
            client.close()
        self.server.kill()


@pytest.fixture
def make_encrypted(tmp_path, authority):
    made = []

    def make(*flags, **options):
        made.append(Encrypted(tmp_path, authority, *flags, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def refused(encrypted, **options):
    """Whether a client does not get in."""
    with pytest.raises(KazooTimeoutError):
        encrypted.client(wait_s=2, **options)
    return True


def test_clients_work_over_an_encrypted_port(make_encrypted):
    encrypted = make_encrypted()
    assert f"ZooKeeper's protocol in TLS on 127.0.0.1:{encrypted.port}" in encrypted.server.ready_line
    ann, ben = encrypted.client(), encrypted.client()
    large = bytes(range(256)) * 3000
    ann.create("/a/large", large, makepath=True)
    assert ben.get("/a/large")[0] == large
    told = []
    ben.get("/a/large", watch=lambda event: told.append(event.type))
    ann.set("/a/large", b"x")
    until(lambda: told == ["CHANGED"])
    creates = [ann.create_async(f"/a/{number}") for number in range(300)]
    assert [create.get(WAIT_S) for create in creates] == [f"/a/{n}" for n in range(300)]
    with ann.Lock("/lock", "ann"):
        assert ben.Lock("/lock", "ben").contenders() == ["ann"]


def test_who_speaks_no_tls_is_closed_and_others_are_served(make_encrypted):
    encrypted = make_encrypted()
    with socket.create_connection(("127.0.0.1", encrypted.port), WAIT_S) as plain:
        plain.sendall(b"ruok")
        assert b"imok" not in read_all(plain)
    assert refused(encrypted, use_ssl=False)
    assert encrypted.client().get_children("/") == ["zookeeper"]


def test_words_are_answered_in_tls(make_encrypted):
    encrypted = make_encrypted("--zookeeper-port", "0")
    context = ssl.create_default_context(cafile=encrypted.authority.certificate)

    def said(word):
        with socket.create_connection(("127.0.0.1", encrypted.port), WAIT_S) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as connection:
                connection.sendall(word)
                told = b""
                while more := connection.recv(4096):
                    told += more
                return told

    assert said(b"ruok") == b"imok"
    assert said(b"srvr").startswith(b"Zookeeper version: 3.8.0-claret-")
    assert f"secureClientPort={encrypted.port}\n".encode() in said(b"conf")


def test_clients_may_have_to_show_a_certificate(make_encrypted, authority, tmp_path):
    encrypted = make_encrypted(more=f'client_ca = "{authority.certificate}"')
    assert refused(encrypted)
    stranger = Authority(tmp_path / "stranger")
    stranger.issue("client")

    def shown(by):
        return {"certfile": str(by.folder / "client.pem"), "keyfile": str(by.folder / "client.key")}

    assert refused(encrypted, **shown(stranger))
    client = encrypted.client(**shown(authority))
    assert client.create("/a", b"x") == "/a"


def test_a_certificate_of_the_first_version_is_refused_with_what_to_do(tmp_path):
    old = Authority(tmp_path / "old")
    old.issue("server", names=None)
    with pytest.raises(Failed, match="server.pem.*X.509 version 1.*extensions.*-extfile"):
        Encrypted(tmp_path, old)


def test_a_port_without_passwords_that_others_reach_wants_certificates(make_encrypted):
    more = 'bind = "0.0.0.0"\npassword = "x"'
    with pytest.raises(Failed, match="client_ca.*insecure"):
        make_encrypted(first=more)
    assert make_encrypted(first=more + "\ninsecure = true").client().get_children("/")


def test_sessions_go_on_over_new_connections_with_new_certificates(make_encrypted, authority, tmp_path):
    encrypted = make_encrypted()
    client = encrypted.client()
    client.create("/here", ephemeral=True)
    session, password = client.client_id
    other = Authority(tmp_path / "other")
    kept = {name: (authority.folder / name).read_bytes() for name in ("server.pem", "server.key")}
    try:
        other.issue("server", authority.folder)
        encrypted.server.process.send_signal(signal.SIGHUP)
        until(lambda: "certificates" in encrypted.server.said())
        # Connections that exist go on; new ones are shown the new certificate.
        assert client.exists("/here")
        assert refused(encrypted)
        again = encrypted.client(ca=str(other.certificate), client_id=(session, password))
        assert again.client_id[0] == session
        assert again.exists("/here").ephemeralOwner == session
    finally:
        for name, data in kept.items():
            (authority.folder / name).write_bytes(data)
