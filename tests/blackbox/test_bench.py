"""`claret bench`, tiny: what its rows say and compare, not how fast the servers are."""

import json
import shutil
import subprocess

import pytest
from harness import binary

REDIS = shutil.which("redis-server") is not None


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
    assert set(rows) == claret | ({"redis"} if REDIS else set())
    for setting in claret:
        row = rows[setting]
        assert row["ops_per_s"] > 0 and row["shards"] == row["workers"] > 0
        assert not REDIS or (row["ops_ratio"] > 0 and row["cpu_ratio"] >= 0)


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
