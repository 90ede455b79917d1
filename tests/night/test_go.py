"""Libraries of Go do their work on Claret and on redis-server, with the same results."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest
from beside import Claret, same_on_both

SOURCES = pathlib.Path(__file__).with_name("go")
FOLDER = pathlib.Path(__file__).parents[2] / "target" / "go"
STORIES = ["asynq", "go_redis", "redis_rate", "redsync"]
JOBS = 40_000


@pytest.fixture(scope="module")
def programs():
    """A function that runs one of the programs, which are built if Go is there and new enough."""
    go = shutil.which("go")
    if not go:
        pytest.skip("Go is not installed")
    needed = re.search(r"^go (\d+)\.(\d+)", (SOURCES / "go.mod").read_text(), re.MULTILINE).groups()
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    said = subprocess.run([go, "version"], capture_output=True, text=True, check=True, env=environment).stdout
    found = re.search(r"go(\d+)\.(\d+)", said).groups()
    if tuple(map(int, found)) < tuple(map(int, needed)):
        pytest.skip(f"the libraries need Go {'.'.join(needed)}, and {'.'.join(found)} is installed")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for words in (["vet", "./..."], ["build", "-o", f"{FOLDER}/", "./..."]):
        subprocess.run([go, *words], cwd=SOURCES, check=True, timeout=600, env=environment)

    def run(program, *words):
        words = [str(word) for word in words]
        done = subprocess.run([FOLDER / program, *words], capture_output=True, text=True, timeout=1200)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    return run


@pytest.mark.parametrize("story", STORIES)
def test_a_library_of_go_says_the_same_on_both(programs, story, tmp_path):
    assert len(same_on_both(lambda port: programs(story, port), tmp_path)) > 10


def test_no_task_of_asynq_is_lost_while_the_server_is_killed(programs, tmp_path):
    claret = Claret(tmp_path / "claret")
    begun = time.monotonic()
    with contextlib.closing(claret), claret.killed_each(2) as kills:
        said = programs("many_jobs", claret.port, JOBS)
    print(f"{JOBS} tasks in {time.monotonic() - begun:.0f} s, {len(kills)} kills: {said}")
    assert said[-1] == f"done {JOBS}" and kills
