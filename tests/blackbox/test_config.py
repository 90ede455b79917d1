"""Settings, users and encryption."""

import socket
import ssl
import subprocess

import pytest
import redis
from certificates import Authority
from harness import Failed, binary, command, free_port, page, read_all
from redis.backoff import NoBackoff
from redis.retry import Retry


def refused(make_server, config, *words):
    """What a server says that must not start with a configuration."""
    server = make_server(config=config)
    with pytest.raises(Failed) as caught:
        server.start()
    said = str(caught.value)
    for word in words:
        assert word in said, said
    assert not server.data.exists() or not list(server.data.iterdir()), "nothing was touched"
    return said


def test_errors_name_file_line_and_key(make_server):
    refused(make_server, "maxclients = 100\nprot = 7000\n", "claret.toml", "line 2", "prot")
    refused(make_server, 'durability = "maybe"\n', "claret.toml", "line 1", "everysec")
    refused(make_server, 'maxmemory = "lots"\n', "claret.toml", "maxmemory")
    refused(make_server, "maxclients = 0\n", "maxclients", "from 1 to")
    refused(make_server, "this is not toml\n", "claret.toml", "line 1")
    said = refused(make_server, '[[users]]\nname = "a"\npassword = "geheim"\nrules = ["+@nonsense"]\n')
    assert "geheim" not in said


def test_errors_of_flags(tmp_path):
    for flags, words in [
        (["--durability", "sometimes"], ["always", "everysec", "none"]),
        (["--shards", "0"], ["shards"]),
        (["--port", "70000"], ["port"]),
        (["--frobnicate"], ["--frobnicate"]),
        (["--config", str(tmp_path / "nothing.toml")], ["nothing.toml"]),
    ]:
        done = subprocess.run(
            [binary(), "serve", "--dir", str(tmp_path / "data"), *flags],
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode != 0
        assert all(word in done.stderr for word in words), done.stderr
    assert not (tmp_path / "data").exists()


def test_other_machines_need_a_password_and_encryption(make_server):
    refused(make_server, 'bind = "0.0.0.0"\n', "password")
    refused(make_server, 'bind = "0.0.0.0"\npassword = "x"\n', "TLS", "insecure")
    server = make_server(config='bind = "0.0.0.0"\npassword = "x"\ninsecure = true\n').start()
    assert server.client(password="x").ping()


def test_a_port_in_use_is_named(make_server):
    first = make_server().start()
    with pytest.raises(Failed, match="cannot listen.*--port"):
        make_server(port=first.port).start()


def test_the_ready_line_says_where(make_server):
    server = make_server().start()
    assert f"127.0.0.1:{server.port}" in server.ready_line
    assert str(server.data) in server.ready_line


def test_the_file_is_read_and_flags_go_over_it(make_server):
    config = 'maxmemory = "77mb"\nmaxclients = 5\ndurability = "none"\n'
    server = make_server("--durability", "everysec", config=config).start()
    assert "durability everysec" in server.ready_line
    client = server.client()
    assert client.config_get("maxmemory") == {"maxmemory": str(77 << 20)}
    others = [server.client(single_connection_client=True) for _ in range(4)]
    assert all(other.ping() for other in others)
    with pytest.raises(redis.ConnectionError, match="max number of clients|[Cc]onnection"):
        server.client().ping()
    assert client.ping()


def test_authentication(make_server):
    server = make_server(config='password = "correct horse"\n').start()
    with pytest.raises(redis.AuthenticationError):
        server.client().get("a")
    with pytest.raises(redis.AuthenticationError, match="invalid username-password"):
        server.client(password="wrong").ping()
    for protocol in (2, 3):
        client = server.client(password="correct horse", protocol=protocol)
        assert client.set("a", 1) is True
    assert server.cli("GET", "a", flags=["--no-auth-warning", "-a", "correct horse"]) == "1"
    assert "NOAUTH" in server.cli("GET", "a")
    assert "correct horse" not in server.said()
    assert "correct horse" not in str(client.config_get("*"))


def test_strangers_get_one_kilobyte(make_server):
    server = make_server(config='password = "x"\n').start()
    with server.socket() as stranger:
        stranger.sendall(b"*2\r\n$4\r\nPING\r\n$5000\r\n" + b"x" * 2000)
        said = read_all(stranger, 5)
    assert said == b"-ERR Protocol error: unauthenticated bulk length\r\n"
    with server.socket() as stranger:
        stranger.sendall(command("GET", "a"))
        assert stranger.recv(100).startswith(b"-NOAUTH")


def test_access_control(make_server):
    config = """
password = "boss"

[[users]]
name = "reports"
password = "r"
rules = ["on", "+@read", "+ping", "~report:*", "-@dangerous"]

[[users]]
name = "off"
password = "o"
rules = ["off", "+@all", "~*"]
"""
    server = make_server(config=config).start()
    server.client(password="boss").mset({"report:1": "x", "secret": "y"})
    reader = server.client(username="reports", password="r")
    assert reader.get("report:1") == "x" and reader.ping()
    for words in (
        ["GET", "secret"],
        ["SET", "report:1", "z"],
        ["MGET", "report:1", "secret"],
        ["RENAME", "report:1", "report:2"],
        ["FLUSHALL"],
        ["KEYS", "*"],
        ["CONFIG", "GET", "*"],
    ):
        with pytest.raises(redis.exceptions.NoPermissionError):
            reader.execute_command(*words)
    with reader.pipeline() as pipe:
        pipe.get("secret")
        with pytest.raises(redis.ResponseError, match="permissions"):
            pipe.execute()
    assert reader.get("report:1") == "x"
    with pytest.raises(redis.AuthenticationError):
        server.client(username="off", password="o").ping()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority, and a certificate for this machine and one for a client from it."""
    authority = Authority(tmp_path_factory.mktemp("tls"))
    for name in ("server", "client"):
        authority.issue(name)
    return authority.folder


def tls_config(certificates, port, more=""):
    """Settings for encryption."""
    lines = ["[tls]", f"port = {port}", f'cert = "{certificates}/server.pem"']
    return "\n".join([*lines, f'key = "{certificates}/server.key"', more, ""])


def encrypted(port, **options):
    """A client that speaks TLS and tries once."""
    options = {"ssl": True, "socket_timeout": 5, "retry": Retry(NoBackoff(), 0), **options}
    return redis.Redis(port=port, **options)


def test_encryption(make_server, certificates):
    port = free_port()
    server = make_server(config=tls_config(certificates, port)).start()
    assert f"TLS on 127.0.0.1:{port}" in server.ready_line
    for protocol in (2, 3):
        client = encrypted(port, ssl_ca_certs=str(certificates / "ca.pem"), protocol=protocol)
        assert client.set("a", "x" * 300_000) is True
        assert len(client.get("a")) == 300_000
    flags = ["--tls", "--cacert", str(certificates / "ca.pem")]
    done = subprocess.run(["redis-cli", "-p", str(port), *flags, "STRLEN", "a"],
                          capture_output=True, text=True, timeout=30)
    assert done.stdout.strip() == "300000", done.stderr
    with pytest.raises(redis.ConnectionError):
        encrypted(port).ping()
    with pytest.raises((redis.ConnectionError, redis.TimeoutError)):
        encrypted(port, ssl=False).ping()
    assert server.client().ping()


def test_clients_may_have_to_show_a_certificate(make_server, certificates):
    port = free_port()
    more = f'client_ca = "{certificates}/ca.pem"'
    make_server(config=tls_config(certificates, port, more)).start()
    options = {"ssl_ca_certs": str(certificates / "ca.pem")}
    with pytest.raises((redis.ConnectionError, redis.TimeoutError)):
        encrypted(port, **options).ping()
    options["ssl_certfile"] = str(certificates / "client.pem")
    options["ssl_keyfile"] = str(certificates / "client.key")
    assert encrypted(port, **options).ping()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
@pytest.mark.parametrize("more", ["", 'client_ca = "{}/ca.pem"'], ids=["anybody", "certificate"])
def test_a_client_waits_for_the_end_of_the_handshake_in_each_version(make_server, certificates, version, more):
    port = free_port()
    make_server(config=tls_config(certificates, port, more.format(certificates))).start()
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(certificates / "client.pem", certificates / "client.key")
    with socket.create_connection(("127.0.0.1", port), 5) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as connection:
            connection.sendall(command("PING"))
            assert connection.recv(100) == b"+PONG\r\n"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_of_tls_are_refused(make_server, certificates):
    port = free_port()
    make_server(config=tls_config(certificates, port)).start()
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", port), 5) as plain:
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            old.wrap_socket(plain)


def test_a_missing_certificate_is_named(make_server, tmp_path):
    refused(make_server, tls_config(tmp_path, free_port()), "server.pem")


def test_metrics(make_server):
    port = free_port()
    server = make_server(config=f"metrics_port = {port}\n").start()
    server.client().set("a", 1)
    for path, word in (("/metrics", "claret_ready 1\n"), ("/health", "ok\n"), ("/ready", "ready\n")):
        status, text = page(port, path)
        assert status == 200 and word in text
    status, text = page(port, "/secrets")
    assert status == 404 and "/ready" in text


def test_one_command_reads_from_hundreds_of_shards(make_server):
    server = make_server(shards=600).start()
    keys = [f"key:{number}" for number in range(3000)]
    with server.client() as client:
        client.mset({key: key for key in keys})
        assert client.mget(keys) == keys
        assert client.dbsize() == len(keys)
