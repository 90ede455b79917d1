"""How the tools that connect to a server are let in: TLS, files with passwords, a variable."""

import os
import subprocess

import pytest
from certificates import Authority
from harness import binary, free_port


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """An authority with a certificate for a server and one for a client."""
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("server")
    made.issue("client")
    return made


def claret(*words, variable=None, stdin=None):
    """How a tool ended."""
    environment = {name: value for name, value in os.environ.items() if name != "CLARET_URL"}
    if variable:
        environment["CLARET_URL"] = variable
    line = [binary(), *map(str, words)]
    return subprocess.run(
        line, capture_output=True, text=True, timeout=60, env=environment, input=stdin
    )


def private(make_server, authority, more=""):
    """A server that speaks TLS and wants a password and a client's certificate; its URL."""
    folder, port = authority.folder, free_port()
    config = (
        f'password = "s3 cr/et"\n[tls]\nport = {port}\ncert = "{folder}/server.pem"\n'
        f'key = "{folder}/server.key"\nclient_ca = "{folder}/ca.pem"\n{more}'
    )
    server = make_server(config=config).start()
    return server, f"rediss://default@localhost:{port}"


def test_tools_speak_tls_and_take_the_password_from_a_file(make_server, authority, tmp_path):
    server, url = private(make_server, authority)
    with server.client(password="s3 cr/et") as client:
        client.set("a", "1" * 300_000)
    folder, secret = authority.folder, tmp_path / "secret"
    secret.write_text("s3 cr/et\n")
    tls = ["--cacert", f"{folder}/ca.pem", "--cert", f"{folder}/client.pem",
           "--key", f"{folder}/client.key"]
    login = ["--password-file", secret]
    done = claret("cluster", "status", "--url", url, *tls, *login)
    assert done.returncode == 0 and "connected" in done.stdout, done.stderr
    done = claret("cluster", "status", *tls, *login, variable=url)
    assert done.returncode == 0, done.stderr
    done = claret("backup", tmp_path / "one.claret", "--url", url, *tls, *login)
    assert done.returncode == 0 and (tmp_path / "one.claret").stat().st_size > 300_000, done.stderr
    # What is missing is said, and no password is.
    for flags, why in (
        (tls, "NOAUTH"),
        ([*tls[:2], *login], ""),
        ([*login], ""),
        ([*tls, "--password-file", tmp_path / "none"], "none"),
        ([*tls, *login, "--tls-server-name", "elsewhere"], ""),
    ):
        done = claret("cluster", "status", "--url", url, *flags)
        assert done.returncode == 1 and why in done.stderr, done.stderr
        assert "cr/et" not in done.stderr and "cr%2Fet" not in done.stderr


def test_a_hash_lets_its_password_in_and_no_other(make_server, tmp_path):
    done = claret("hash-password", stdin="open sesame\n")
    assert done.returncode == 0 and done.stdout.startswith("$argon2id$"), done.stderr
    secret = tmp_path / "secret"
    secret.write_text("open sesame\n")
    again = claret("hash-password", "--password-file", secret)
    assert again.stdout.startswith("$argon2id$") and again.stdout != done.stdout, "salted"
    for verifier in (done.stdout.strip(), again.stdout.strip()):
        config = (
            f'[[users]]\nname = "default"\npassword_hash = "{verifier}"\nrules = ["on", "~*", "+@all"]\n'
        )
        server = make_server(config=config).start()
        with server.client(password="open sesame") as client:
            assert client.ping()
        url = f"redis://default@127.0.0.1:{server.port}"
        assert claret("cluster", "status", "--url", url, "--password-file", secret).returncode == 0
        secret.write_text("wrong\n")
        wrong = claret("cluster", "status", "--url", url, "--password-file", secret)
        assert wrong.returncode == 1 and "WRONGPASS" in wrong.stderr, wrong.stderr
        secret.write_text("open sesame\n")
    assert claret("hash-password", stdin="\n").returncode == 1
