"""`claret bench`, tiny: what its rows say and compare, not how fast the servers are."""

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from harness import binary

POSTGRES = any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def bench(tmp_path, *words, **kwargs):
    done = subprocess.run(
        [binary(), "bench", *words, "--dir", str(tmp_path), "--json"],
        capture_output=True,
        text=True,
        timeout=240,
        **kwargs,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


OPS = ["ops", "--commands", "SET", "--runs", "1", "--seconds", "0.1", "--clients", "4"]


def test_single_commands_are_measured_on_the_server_as_shipped(tmp_path):
    told = bench(tmp_path, *OPS, "--pipeline", "16", "--fsync", "no")
    rows = {row.get("setting", row["server"]): row for row in told["rows"]}
    claret = {"shipped", "shipped_order_none"}
    assert set(rows) == claret | {"redis"}
    for setting in claret:
        row = rows[setting]
        assert row["ops_per_s"] > 0 and row["shards"] == row["workers"] > 0
        assert row["ops_ratio"] > 0 and row["cpu_ratio"] >= 0


def test_without_redis_the_other_rows_remain_and_a_note_says_so(tmp_path):
    words = [binary(), "bench", *OPS, "--pipeline", "1", "--fsync", "no", "--dir", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, env={"PATH": "/nowhere"})
    assert done.returncode == 0, done.stderr
    assert "shipped" in done.stdout and "Redis is not compared" in done.stdout
    words += ["--vs", "redis"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, env={"PATH": "/nowhere"})
    assert done.returncode == 1 and "Debian package redis-server" in done.stderr


@pytest.mark.parametrize("sizes", ["1:1", "1:1,2:3"])
def test_the_size_of_a_server_can_be_given(tmp_path, sizes):
    words = ["--vs", "none", "--sizes", sizes, "--pipeline", "1", "--fsync", "no"]
    rows = bench(tmp_path, *OPS, *words)["rows"]
    found = ",".join(f"{row['workers']}:{row['shards']}" for row in rows)
    assert found == sizes


def test_the_load_has_as_many_threads_as_asked_for(tmp_path):
    words = ["--vs", "none", "--sizes", "1:1", "--pipeline", "1,16", "--fsync", "no"]
    rows = bench(tmp_path, *OPS, *words, "--load-threads", "3")["rows"]
    assert [row["load_threads"] for row in rows] == [3, 3]
    for row in rows:
        assert row["ops_per_s"] > 0 and row["client_cpus"] >= 0
        assert row["limit"] in (None, "load", "machine")


def test_memory_is_told_for_each_kind_of_data_and_server(tmp_path):
    # Claret's own account is from the last second.
    words = ["memory", "--scale", "0.002", "--settle", "2", "--durability", "none"]
    told = bench(tmp_path, *words)
    rows = {(row["data"], row["server"]): row for row in told["rows"]}
    assert len(rows) == 8
    strings = rows["strings of 32 bytes", "claret"]
    assert strings["keys"] == 2000 and strings["used_bytes_per_key"] > 48
    for (_, server), row in rows.items():
        assert row["resident_mb"] > 1 and row["keys"] > 0
        assert ("used_ratio" in row) == (server == "claret")


@pytest.fixture
def reachable():
    """A directory that the user of PostgreSQL can reach: those of pytest are for one user."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        yield Path(path)


HOT = ["hot", "--runs", "1", "--seconds", "0.2", "--clients", "4", "--records", "10"]


def test_hot_records_are_changed_by_every_program_of_every_server(reachable):
    picture = reachable / "hot.svg"
    told = bench(reachable, *HOT, "--plot", str(picture))
    rows = {(row["task"], row["skew"], row["server"], row["program"]): row for row in told["rows"]}
    assert len(rows) == len(told["rows"])
    expected = {("rewrite", program) for program in ("txn", "watch", "eval", "multi")}
    expected |= {(task, program) for task in ("take", "stock") for program in ("txn", "eval", "try")}
    assert {(task, program) for task, _, server, program in rows if server == "claret"} == expected
    assert {skew for _, skew, _, _ in rows} == {"one", "zipf 1.2"}
    servers = {server for _, _, server, _ in rows}
    assert servers == {"claret", "redis"} | ({"postgres"} if POSTGRES else set())
    for row in rows.values():
        assert row["commits_per_s"] > 0 and row["p99_us"] >= row["p50_us"] > 0, row
        assert row["aborts_per_commit"] >= 0
        assert row["over_eval"] is not None
    assert picture.read_text().startswith("<svg")


def test_a_server_that_is_not_installed_is_left_out_unless_it_was_named(reachable):
    words = [*HOT, "--tasks", "rewrite", "--skew", "one", "--dir", str(reachable)]
    nowhere = {"capture_output": True, "text": True, "timeout": 240, "env": {"PATH": "/nowhere"}}
    done = subprocess.run([binary(), "bench", *words], **nowhere)
    assert done.returncode == 0 and "redis is left out" in done.stdout, done.stderr
    done = subprocess.run([binary(), "bench", *words, "--systems", "redis"], **nowhere)
    assert done.returncode == 1 and "Debian package redis-server" in done.stderr


def test_a_program_that_is_not_there_is_refused_with_those_that_are(reachable):
    words = ["bench", *HOT, "--programs", "txn,evla", "--dir", str(reachable)]
    done = subprocess.run([binary(), *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "no evla" in done.stderr and "txn, watch, eval, multi, for update, try, update" in done.stderr


LONG = [
    ["hot", "--systems", "claret", "--seconds", "60", "--clients", "4"],
    ["memory", "--vs", "none", "--settle", "60"],
    ["ops", "--vs", "none", "--seconds", "60"],
]


@pytest.mark.parametrize("words", LONG, ids=[words[0] for words in LONG])
def test_ctrl_c_leaves_no_files_of_the_servers(tmp_path, words):
    words = [binary(), "bench", *words, "--dir", str(tmp_path)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as running:
        while not any(tmp_path.glob("claret-bench-*/data")):
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    assert running.returncode == 1 and said.strip().endswith("claret: stopped")
    assert not list(tmp_path.iterdir())
