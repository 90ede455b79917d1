"""The kit for tests of programs: servers, and the fixtures of pytest."""

import pathlib
import subprocess
import sys

import pytest

from claret.testing import Server, ServerError, binary

FOLDER = pathlib.Path(__file__).parents[1]
PAGE = FOLDER.parent / "docs/howto/testing-your-app.md"

PROGRAM = """
def test_one(claret):
    claret.set("mine", 1)
    assert claret.keys() == ["mine"]

def test_other(claret, claret_server):
    assert claret.dbsize() == 0
    claret.set("kept", 1)
    claret_server.restart()
    assert claret.get("kept") == "1"
    claret_server.kill()

def test_after_a_kill(claret):
    assert claret.dbsize() == 0
"""

FAILS = """
import pytest

@pytest.fixture(scope="session")
def claret_arguments():
    return ["--durability", "none"]

def test_fails(claret):
    assert claret.get("n") == "1"
"""


def run(folder, program):
    """What pytest says about a program, and how it ends."""
    (folder / "test_program.py").write_text(program)
    words = ["-p", "claret.pytest_plugin", "-p", "no:cacheprovider", "-q", "test_program.py"]
    command = [sys.executable, "-m", "pytest", *words]
    environment = {"PATH": "/usr/bin:/bin", "CLARET_BIN": binary(), "PYTHONPATH": str(FOLDER)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout


def test_a_server_keeps_its_port_and_its_data_when_it_is_killed():
    with Server("--shards", 1) as server:
        with server.client(decode_responses=True) as db:
            db.set("kept", "1")
            port, process = server.port, server.process
            server.restart()
            assert (server.port, db.get("kept")) == (port, "1")
            assert server.process.pid != process.pid
        with pytest.raises(ServerError, match="already"):
            server.start()
    assert not server.is_running and not server.folder.exists()


def test_a_server_that_does_not_start_says_why():
    with pytest.raises(ServerError, match="unexpected argument '--shard-count'"):
        with Server("--shard-count", 1):
            pass


def test_a_program_that_is_not_found_is_named(monkeypatch):
    monkeypatch.setenv("CLARET_BIN", "/nowhere/claret")
    with pytest.raises(ServerError, match="CLARET_BIN is /nowhere/claret"):
        binary()
    monkeypatch.delenv("CLARET_BIN")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("claret.testing.PACKAGE", "no-such-package")
    with pytest.raises(ServerError, match="install no-such-package with pip"):
        binary()


def test_each_test_has_a_client_of_a_server_without_data(tmp_path):
    code, said = run(tmp_path, PROGRAM)
    assert code == 0 and "3 passed" in said, said


def test_the_page_on_testing(tmp_path):
    section = PAGE.read_text().split("\n## pytest\n")[1].split("\n## ")[0]
    program = [line[4:] for line in section.split("\n") if line.startswith("    ") or not line]
    code, said = run(tmp_path, "\n".join(program))
    assert code == 0 and "2 passed" in said, said


def test_a_failed_test_shows_what_the_server_wrote(tmp_path):
    code, said = run(tmp_path, FAILS)
    assert code == 1 and "Claret server" in said and "durability none" in said, said
