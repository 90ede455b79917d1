"""`claret bench smoke` and `claret bench locks`, tiny: against Claret and, where they are installed,
against ZooKeeper and etcd beside it."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from harness import binary, until

ZOOKEEPER = Path("/usr/share/java/zookeeper.jar").is_file()
BACKENDS = ["claret", "zookeeper"] if ZOOKEEPER else ["claret"]
# The program that speaks etcd's protocol is built by itself, beside the one that is tested.
LOAD = Path(os.environ.get("CLARET_BIN", "claret")).parent / "claret-etcd-load"
ETCD = shutil.which("etcd") is not None and LOAD.is_file()
ANYWHERE = ["sync-queue", "sync-queue-relist", "async-queue", "sync-tas", "async-tas", "tas-watch"]
RECIPES = [*ANYWHERE, "async-queue-watch"]
ADAPTIVE = ["adaptive-recipe", "adaptive"]


def bench(*words):
    # How fast the services are does not matter here.
    if words[0] == "locks":
        words = [*words, "--warmup", "40"]
    done = subprocess.run(
        [binary(), "bench", *words, "--json"], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_smoke_test_has_every_operation_of_every_service(tmp_path):
    words = ["smoke", "--servers", "1", "--requests", "40", "--rounds", "1", "--warmup", "40"]
    words += ["--outstanding", "16", "--waiters", "3", "--dir", str(tmp_path)]
    told = bench(*words, *(["--vs", "zookeeper"] if ZOOKEEPER else []))
    rows = {(row["backend"], row["operation"], row["mode"]): row for row in told["rows"]}
    for backend in BACKENDS:
        for operation in ("create-permanent", "set", "get", "delete", "create-ephemeral"):
            one, many = (rows[backend, operation, mode] for mode in ("sync", "async"))
            assert one["p50_ms"] > 0 and one["p99_ms"] >= one["p50_ms"] and one["mean_ms"] > 0
            assert many["per_s"] > 0 and many["predicted_ms"] > 0
        # Nobody is told of a node's end before it was asked for, nor after it was answered.
        told_after = rows[backend, "watch-notification", "sync"]["p50_ms"]
        assert 0 < told_after <= rows[backend, "delete-ephemeral", "sync"]["p50_ms"] * 1.5
        assert rows[backend, "lock-unlock", "1 clients"]["p50_ms"] > 0
        assert rows[backend, "hand-off", "3 clients"]["p50_ms"] > 0
        for operation in ("create-pipelined", "set-pipelined", "set-names-pipelined"):
            assert rows[backend, operation, "16 at a time"]["per_s"] > 0
        # The lock that the service itself knows, and sections under it: Claret alone has one.
        own = [("grant-lock-unlock", "1 clients"), ("grant-hand-off", "3 clients")]
        own += [("section", "1 clients"), ("section", "3 clients")]
        for operation, mode in own:
            row = rows.get((backend, operation, mode))
            assert row["p50_ms"] > 0 if backend == "claret" else row is None
    ratios = [name for name in told["ratios"] if name.startswith("zookeeper_over_claret")]
    assert bool(ratios) == ZOOKEEPER
    assert ("zookeeper_over_grant 1 hand-off 3 clients" in told["ratios"]) == ZOOKEEPER
    assert ("zookeeper_over_section 1 lock-unlock 1 clients" in told["ratios"]) == ZOOKEEPER


def test_the_smoke_test_runs_over_a_tree_that_is_spread(tmp_path):
    words = ["smoke", "--servers", "3", "--shards", "4", "--requests", "20", "--rounds", "2"]
    words += ["--warmup", "20", "--outstanding", "16", "--waiters", "2", "--dir", str(tmp_path)]
    rows = {(row["operation"], row["mode"]): row for row in bench(*words)["rows"]}
    for operation in ("create-pipelined", "set-pipelined", "set-names-pipelined"):
        assert rows[operation, "16 at a time"]["per_s"] > 0
    assert rows["grant-lock-unlock", "1 clients"]["p50_ms"] > 0


def test_locks_wait_as_long_as_their_links_are_and_are_measured_once(tmp_path):
    file, picture = tmp_path / "rows.jsonl", tmp_path / "locks.svg"
    words = ["locks", "--servers", "1", "--backend", ",".join(BACKENDS), "--scale", "1"]
    words += ["--algorithm", ",".join([*RECIPES, *ADAPTIVE]), "--client-rtt", "4ms,12ms"]
    words += ["--service", "2ms", "--interarrival", "30ms", "--requests", "12", "--seeds", "1"]
    words += ["--clients", "4", "--dir", str(tmp_path), "--resume", str(file)]
    words += ["--plot", str(picture)]
    told = bench(*words)
    assert told["to_measure"] == len(told["rows"]) == 18 * len(BACKENDS)
    for row in told["rows"]:
        assert row["unfinished"] == 0 and row["state"] in ("stable", "critical", "overloaded")
        # A write at least, and a read behind it in the queues that wait for one after the other.
        trips = 2 if row["algorithm"].startswith("sync-queue") else 1
        assert row["p50_ms"] >= trips * row["client_rtt_ms"], row
        assert row["p99_ms"] <= row["max_ms"] and 0 < row["jain"] <= 1
        # The create and the delete; who tries again and again writes more. Claret's own locks are given
        # back and taken in one entry, if another client waits; what a process keeps costs none.
        least = 2
        if (row["backend"], row["algorithm"]) == ("claret", "adaptive"):
            granted, kept = row["chosen"]["grant"], row["chosen"]["retained"]
            assert granted > kept / 2, "others want it mostly"
            least = granted / (granted + kept) - 0.001
        assert row["writes_per_acquisition"] >= least
        if "queue" in row["algorithm"]:
            assert row["writes_per_acquisition"] == 2
        assert row["predicted_ms"] > row["client_rtt_ms"]
        assert row["error"] == pytest.approx(row["mean_ms"] / row["predicted_ms"] - 1, abs=0.01)
    assert picture.read_text().startswith("<svg")
    lines = file.read_text().splitlines()
    assert [json.loads(line) for line in lines] == told["rows"]
    # The last row was not written to its end.
    file.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:40])
    again = bench(*words)
    assert again["to_measure"] == 1
    assert again["rows"][:-1] == told["rows"][:-1]


def test_a_grant_takes_one_round_trip_and_shares_its_log_entry_with_the_release(tmp_path):
    words = ["locks", "--servers", "1", "--backend", ",".join(BACKENDS), "--scale", "1"]
    words += ["--algorithm", "grant", "--client-rtt", "20ms", "--requests", "40", "--seeds", "1"]
    words += ["--dir", str(tmp_path)]
    # Requests that come faster than the lock can be handed over: a client has several at a time.
    told = bench(*words, "--clients", "3", "--interarrival", "10ms", "--service", "1ms")
    (row,) = told["rows"]
    assert row["backend"] == "claret" and row["unfinished"] == 0 and row["state"] == "overloaded"
    assert told.get("on_claret_only") == (["grant"] if ZOOKEEPER else None)
    assert 20 <= row["hand_off_p50_ms"] < 40, row
    # An entry for each release, one for the first grant, and what else the server has to write.
    assert 1 <= row["writes_per_acquisition"] < 1.6, row
    assert row["messages_per_acquisition"] == 4
    (row,) = bench(*words, "--closed", "1", "--think", "5ms")["rows"]
    assert 20 <= row["p50_ms"] < 40 and row["hand_off_p50_ms"] is None
    assert row["predicted_messages"] == 4 and 2 <= row["writes_per_acquisition"] < 2.6, row


needs_etcd = pytest.mark.skipif(not ETCD, reason="etcd or claret-etcd-load is missing")


@needs_etcd
def test_etcd_takes_part_in_the_smoke_test(tmp_path):
    words = ["smoke", "--servers", "1", "--requests", "60", "--rounds", "1", "--warmup", "20"]
    words += ["--outstanding", "16", "--waiters", "3", "--vs", "etcd", "--dir", str(tmp_path)]
    told = bench(*words)
    rows = {(row["backend"], row["operation"], row["mode"]): row for row in told["rows"]}
    operations = {operation for backend, operation, _ in rows if backend == "claret"}
    own = {"grant-lock-unlock", "grant-hand-off", "section"}
    mutex = {"etcd-mutex-lock-unlock", "etcd-mutex-hand-off"}
    assert {name for backend, name, _ in rows if backend == "etcd"} == operations - own | mutex
    for row in told["rows"]:
        # With few acquisitions it may be that nobody waits for another.
        few = row["p50_ms"] is None and row["operation"].endswith("hand-off")
        assert few or row["per_s"] > 0, row
        assert few or row["p50_ms"] > 0, row
    # Told at once, and not by the loop that wakes every 100 ms.
    assert rows["etcd", "watch-notification", "sync"]["p50_ms"] < 50
    assert "etcd_over_claret 1 set sync" in told["ratios"]
    assert "etcd_mutex_over_grant 1 hand-off 3 clients" in told["ratios"]


@needs_etcd
def test_recipes_and_the_lock_of_its_library_run_on_etcd_over_long_links(tmp_path):
    words = ["locks", "--servers", "1,3", "--backend", "claret,etcd", "--scale", "1"]
    words += ["--algorithm", ",".join([*RECIPES, "etcd-mutex", "grant", "adaptive"])]
    words += ["--client-rtt", "10ms", "--server-rtt", "20ms", "--service", "2ms"]
    words += ["--interarrival", "120ms", "--requests", "8", "--seeds", "1", "--clients", "3"]
    told = bench(*words, "--dir", str(tmp_path))
    assert (told["on_claret_only"], told["on_etcd_only"]) == (["grant"], ["etcd-mutex"])
    assert told["not_on_etcd"] == ["async-queue-watch", "adaptive"]
    rows = {(row["backend"], row["algorithm"], row["servers"]): row for row in told["rows"]}
    assert len(rows) == 2 * (len(RECIPES) + 2 + len(ANYWHERE) + 1)
    for (backend, algorithm, servers), row in rows.items():
        # To the leader and back, and from there to a follower and back.
        assert row["p50_ms"] >= (30 if servers == 3 else 10), row
        assert row["unfinished"] == 0 and row["writes_per_acquisition"] >= 1, row
        assert row["bytes_per_acquisition"] > 0, row
        # The model does not know what reads and watches of etcd wait for.
        known = backend == "claret" or algorithm in ("sync-tas", "async-tas")
        assert (row["predicted_ms"] is not None) == (row["state"] is not None) == known, row
        if algorithm == "etcd-mutex" or "queue" in algorithm:
            assert row["writes_per_acquisition"] == 2, row


@needs_etcd
def test_what_is_missing_for_etcd_is_told_before_anything_starts(tmp_path):
    # A copy of the binary with nothing beside it.
    alone = shutil.copy(binary(), tmp_path / "claret")
    for words in (["locks", "--backend", "etcd"], ["smoke", "--vs", "etcd"]):
        done = subprocess.run([alone, "bench", *words], capture_output=True, text=True, timeout=60)
        assert done.returncode != 0
        assert "build it with `cargo build --release -p claret-etcd-load`" in done.stderr
        nowhere = {**os.environ, "PATH": str(tmp_path)}
        done = subprocess.run(
            [alone, "bench", *words], capture_output=True, text=True, timeout=60, env=nowhere
        )
        assert done.returncode != 0 and "Debian package etcd-server" in done.stderr


def test_rows_that_were_measured_are_compared_with_the_model(tmp_path):
    file = tmp_path / "rows.jsonl"
    words = ["locks", "--servers", "1", "--backend", "claret", "--scale", "1", "--requests", "20"]
    words += ["--algorithm", "async-tas,grant", "--client-rtt", "5ms,10ms", "--seeds", "2"]
    words += ["--interarrival", "40ms", "--clients", "4", "--dir", str(tmp_path)]
    measured = bench(*words, "--resume", str(file))["rows"]
    before = file.read_text()
    report = bench("locks", "--report", str(file))
    lines = {(row["algorithm"], row["backend"]): row for row in report["rows"]}
    assert set(lines) == {("async-tas", "claret"), ("grant", "claret"), ("all", "claret"), ("all", "all")}
    errors = [abs(row["error"]) for row in measured if row["state"] == "stable"]
    every = lines["all", "all"]
    assert every["points"] == len(errors) and every["points"] + every["left_out"] == 4
    assert every["above"] == len(report["above"]) == sum(error > 0.2 for error in errors)
    assert file.read_text() == before
    done = subprocess.run(
        [binary(), "bench", "locks", "--report", str(file)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and "median_abs_error" in done.stdout


def test_a_crowd_has_what_it_was_asked_for_and_costs_something(tmp_path):
    words = ["crowd", "--sessions", "40", "--ephemerals", "60", "--watches", "400", "--changes", "3"]
    words += ["--seconds", "1", "--dir", str(tmp_path)] + ["--vs", "zookeeper"] * ZOOKEEPER
    told = bench(*words)
    assert [row["backend"] for row in told["rows"]] == BACKENDS
    for row in told["rows"]:
        assert (row["sessions"], row["ephemerals"], row["watches"]) == (40, 60, 400)
        assert row["rss_mb"] >= row["empty_rss_mb"] > 0
        assert 0 < row["notify_p50_ms"] <= row["notify_last_ms"] < 10_000, row
        assert row["create_per_s"] > 0 and row["watch_per_s"] > 0 and row["close_s"] > 0
    assert ("zookeeper_over_claret rss_mb" in told["ratios"]) == ZOOKEEPER


def test_where_nobody_knows_locks_there_is_nothing_to_measure():
    words = [binary(), "bench", "locks", "--backend", "zookeeper", "--algorithm", "grant"]
    done = subprocess.run([*words, "--dry-run"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and (not ZOOKEEPER or "only claret knows locks" in done.stderr)


def test_three_servers_have_links_between_them(tmp_path):
    words = ["locks", "--servers", "3", "--backend", "claret", "--algorithm", "sync-tas"]
    words += ["--scale", "1", "--client-rtt", "10ms", "--server-rtt", "20ms", "--requests", "8"]
    words += ["--interarrival", "150ms", "--seeds", "1", "--clients", "2", "--dir", str(tmp_path)]
    (row,) = bench(*words)["rows"]
    # To the leader and back, and from there to a follower and back.
    assert row["stretched"] and row["p50_ms"] >= 30, row
    assert row["unfinished"] == 0


def test_whoever_waits_may_die_and_nobody_gets_a_lock_that_is_held(tmp_path):
    words = ["locks", "--experiment", "E15", "--servers", "1", "--backend", "claret"]
    words += ["--algorithm", "sync-queue,sync-queue-relist,async-queue-watch", "--dir", str(tmp_path)]
    rows = {(row["algorithm"], row["story"]): row for row in bench(*words)["rows"]}
    for story in ("holder-dies", "waiter-dies", "answer-lost", "holder-stands-still"):
        assert rows["sync-queue-relist", story]["safe"] and rows["async-queue-watch", story]["safe"], story
    for story in ("holder-dies", "answer-lost"):
        assert rows["sync-queue-relist", story]["mean_ms"] >= 2_000
        assert rows["async-queue-watch", story]["mean_ms"] >= 2_000
    # As published, the queue gives the lock to whoever was behind the one that died.
    assert not rows["sync-queue", "waiter-dies"]["safe"]


def test_the_servers_own_lock_outlives_its_leader_and_fences_who_stood_still(tmp_path):
    words = ["locks", "--experiment", "E15", "--servers", "3", "--backend", "claret"]
    words += ["--algorithm", "grant", "--dir", str(tmp_path)]
    rows = {row["story"]: row for row in bench(*words)["rows"]}
    stories = ["holder-dies", "waiter-dies", "answer-lost", "holder-stands-still", "leader-dies"]
    assert list(rows) == stories
    assert all(row["safe"] for row in rows.values()), rows
    assert rows["holder-dies"]["mean_ms"] >= 3_000
    # Nobody gets what was held when the leader died before its lease is over.
    assert rows["leader-dies"]["held_ms"] >= 4_000


def test_what_was_started_ends_with_ctrl_c(tmp_path):
    words = [binary(), "bench", "locks", "--servers", "1", "--backend", ",".join(BACKENDS)]
    words += ["--requests", "100000", "--dir", str(tmp_path)]
    process = subprocess.Popen(words, start_new_session=True, stderr=subprocess.PIPE, text=True)
    try:
        started = f"{binary()} serve"
        until(lambda: started in running(process.pid), 30, "a server that was started")
        time.sleep(0.5)
        os.kill(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 1 and "stopped" in said
        assert running(process.pid) == "", "a process stayed behind"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def running(session):
    """The command lines of the processes of a session, but for the one that leads it."""
    lines = []
    for folder in Path("/proc").iterdir():
        try:
            if not folder.name.isdigit() or os.getsid(int(folder.name)) != session:
                continue
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except (ProcessLookupError, FileNotFoundError):
            continue
        if int(folder.name) != session:
            lines.append(b" ".join(words).decode())
    return "\n".join(line for line in lines if line)
