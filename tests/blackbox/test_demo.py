"""`claret demo`: what it prints with and without Redis, and that Ctrl-C leaves nothing behind."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from harness import binary

QUICK = ["demo", "--seconds", "0.8", "--clients", "8"]


def demo(tmp_path, *words, **env):
    env = {**os.environ, "TMPDIR": str(tmp_path), **env}
    return subprocess.run([binary(), *words], capture_output=True, text=True, timeout=120, env=env)


def row(text, name):
    (found,) = re.findall(rf"^{name} +(\S+) +(\S+)$", text, re.MULTILINE)
    return [float(number) for number in found]


def processes(tmp_path):
    """Command lines of processes with a file of the demo among their words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if str(tmp_path).encode() in line:
            found.append(line)
    return found


def test_the_same_change_is_shown_on_redis_and_on_claret(tmp_path):
    done = demo(tmp_path, *QUICK)
    assert done.returncode == 0, done.stderr
    comparison, auction = done.stdout.split("The last minute")
    redis, claret = row(comparison, "commits per second")
    assert redis > 0 and claret > 0
    ratio = float(re.search(r"Claret commits (\S+) times as often", comparison)[1])
    assert ratio == pytest.approx(claret / redis, rel=0.05, abs=0.1)
    redis_aborts, claret_aborts = row(comparison, "aborted tries per commit")
    assert redis_aborts > 0 and claret_aborts < redis_aborts
    assert "No increment was lost" in comparison
    assert "times as many bids" in auction and "right winner" in auction
    assert not list(tmp_path.iterdir()) and not processes(tmp_path)


def test_without_redis_a_line_says_how_to_get_it_and_the_rest_is_shown(tmp_path):
    done = demo(tmp_path, *QUICK, PATH="/nowhere")
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert "apt install redis-server" in first
    assert "times as many bids" in done.stdout and "commits per second" not in done.stdout
    assert not list(tmp_path.iterdir())


def until(holds):
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it does not happen")


@pytest.mark.parametrize("whole_group", [False, True], ids=["process", "terminal"])
@pytest.mark.parametrize("begun", ["redis-bench-", "claret-bench-"])
def test_ctrl_c_leaves_no_processes_and_no_files(tmp_path, begun, whole_group):
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    words = [binary(), "demo", "--seconds", "20" if begun.startswith("redis") else "1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*words, "--stay"], env=env, start_new_session=True, **pipes) as running:
        until(lambda: any(path.name.startswith(begun) for path in tmp_path.iterdir()))
        until(lambda: processes(tmp_path))
        if whole_group:
            # As a terminal does: its servers get the signal, too.
            os.killpg(running.pid, signal.SIGINT)
        else:
            running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    assert running.returncode == 1 and said.strip() == "claret: stopped"
    assert not list(tmp_path.iterdir()) and not processes(tmp_path)


def test_ctrl_c_ends_a_stay(tmp_path):
    env = {**os.environ, "TMPDIR": str(tmp_path), "PATH": "/nowhere"}
    words = [binary(), *QUICK, "--stay"]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout:
            if "Ctrl-C" in line:
                break
        assert processes(tmp_path)
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=30) == 0
    assert not list(tmp_path.iterdir()) and not processes(tmp_path)
