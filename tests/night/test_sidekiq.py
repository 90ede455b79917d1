"""Sidekiq does its work on Claret and on redis-server, with the same results."""

import contextlib
import pathlib
import shutil
import subprocess
import time

import pytest
from beside import Claret, same_on_both
from running import lines_of

SOURCES = pathlib.Path(__file__).with_name("ruby")
JOBS = 20_000
KILLED_EACH_S = 2
WAIT_S = 600


@pytest.fixture(scope="module", autouse=True)
def sidekiq():
    """Sidekiq, which is Debian's."""
    for program in ["ruby", "sidekiq"]:
        if not shutil.which(program):
            pytest.skip(f"there is no {program}: apt-get install ruby-sidekiq")


def test_sidekiq_says_the_same_on_both(tmp_path):
    def run(port):
        return lines_of(["ruby", SOURCES / "sidekiq.rb", port], WAIT_S)

    assert len(same_on_both(run, tmp_path)) > 10


def test_no_job_that_was_enqueued_is_lost(tmp_path):
    """The server is killed while jobs are enqueued. A worker's job in hand is another matter."""
    claret = Claret(tmp_path / "claret")
    words = ["ruby", SOURCES / "many_jobs.rb", str(claret.port), str(JOBS)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    begun = time.monotonic()
    program = subprocess.Popen(words, text=True, **pipes)
    with contextlib.closing(claret), program:
        try:
            with claret.killed_each(KILLED_EACH_S):
                interrupted = program.stdout.readline()
            done, errors = program.communicate("go on\n", timeout=WAIT_S)
        finally:
            program.kill()
    print(f"{JOBS} jobs in {time.monotonic() - begun:.0f} s: {interrupted.strip()}, {done.strip()}")
    assert program.returncode == 0 and done == f"done {JOBS}\n", interrupted + done + errors
    assert int(interrupted.split()[1]) > 0
