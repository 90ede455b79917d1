"""Libraries of JavaScript do their work on Claret and on redis-server, with the same results."""

import contextlib
import pathlib
import shutil
import subprocess
import time

import pytest
import three_machines
from beside import Claret, Redis, same_on_both

SOURCES = pathlib.Path(__file__).with_name("javascript")
FOLDER = pathlib.Path(__file__).parents[2] / "target" / "javascript"
STORIES = ["bullmq.mjs", "bull.cjs", "locks_and_limits.mjs", "socket_io.mjs"]
JOBS = 20_000


@pytest.fixture(scope="module")
def node():
    """The folder with the libraries, and a function that runs a program in it."""
    assert shutil.which("node") and shutil.which("npm"), "install node and npm: apt-get install nodejs npm"
    FOLDER.mkdir(parents=True, exist_ok=True)
    for source in SOURCES.iterdir():
        shutil.copy(source, FOLDER)
    subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=FOLDER, check=True, timeout=600)

    def run(program, *words):
        words = [str(word) for word in words]
        done = subprocess.run(
            ["node", program, *words], cwd=FOLDER, capture_output=True, text=True, timeout=900
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    return run


@pytest.mark.parametrize("story", STORIES)
def test_a_library_says_the_same_on_both(node, story, tmp_path):
    assert len(same_on_both(lambda port: node(story, port), tmp_path)) > 3


def test_servers_at_three_machines_reach_each_other_as_at_one(node, tmp_path):
    with contextlib.closing(Redis(tmp_path / "one")) as one:
        wanted = node("socket_io.mjs", "told", one.port)
    with contextlib.closing(three_machines.ClaretCluster(tmp_path / "three")) as three:
        assert node("socket_io.mjs", "told", *three.ports) == wanted
    assert len(wanted) > 400


def test_servers_with_clients_for_clusters_say_the_same_on_both(node, tmp_path):
    said = same_on_both(
        lambda port: node("socket_io.mjs", "cluster", port), tmp_path, three_machines.KINDS
    )
    assert len(said) > 400


def test_no_job_is_lost_while_the_server_is_killed(node, tmp_path):
    claret = Claret(tmp_path / "claret")
    begun = time.monotonic()
    with contextlib.closing(claret), claret.killed_each(3) as kills:
        said = node("many_jobs.mjs", claret.port, JOBS)
    print(f"{JOBS} jobs in {time.monotonic() - begun:.0f} s, {len(kills)} kills: {said}")
    assert said[-1] == f"done {JOBS}" and kills
