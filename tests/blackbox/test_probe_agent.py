"""`claret probe agent`: three real agents, of which one stands still and one dies and comes back; and
what `claret probe calibrate` makes of what they wrote down."""

import contextlib
import json
import signal
import socket
import struct
import subprocess
import threading
import time

import duckdb
import pytest
from harness import binary, free_port, probe, until


class Agents:
    """Agents a, b and c with one file of peers and one folder."""

    def __init__(self, folder):
        self.peers, self.data = folder / "peers", folder / "data"
        self.peers.write_text("".join(f"{name} 127.0.0.1:{free_port()}\n" for name in "abc"))
        self.running = {}

    def start(self, name, *flags, period_ms=100):
        words = ["agent", "--peers", self.peers, "--node", name, "--dir", self.data]
        words += ["--group-size", "3", "--period-ms", str(period_ms), "--canary-ms", "10", "--json"]
        self.running[name] = subprocess.Popen(
            [binary(), "probe", *map(str, words), *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self):
        """Ctrl-C for all at once; what each says then."""
        for agent in self.running.values():
            agent.send_signal(signal.SIGINT)
        told = {}
        for name, agent in list(self.running.items()):
            out, errors = agent.communicate(timeout=30)
            assert agent.returncode == 0, errors
            told[name] = json.loads(out)
            del self.running[name]
        return told

    def close(self):
        for agent in self.running.values():
            agent.kill()
            agent.communicate()


@pytest.fixture
def agents(tmp_path):
    group = Agents(tmp_path)
    yield group
    group.close()


def slowest(summary, to):
    """The longest latency of any workload, in milliseconds."""
    return max(row["max_ms"] or 0 for row in summary["written"]["sketches"] if row["to"] == to)


def test_a_pause_is_latency_and_a_crash_is_a_new_incarnation(agents):
    for name in "abc":
        agents.start(name)
    time.sleep(4)
    agents.running["b"].send_signal(signal.SIGSTOP)
    time.sleep(2)
    agents.running["b"].send_signal(signal.SIGCONT)
    time.sleep(2)
    agents.running["c"].kill()
    agents.running["c"].communicate()
    time.sleep(2)
    agents.start("c")
    time.sleep(8)
    told = agents.end()
    # Who called b while it stood still waited for it, and was answered; b itself woke up late and
    # sent what was overdue.
    assert slowest(told["a"], 1) > 1_500
    assert slowest(told["b"], 0) > 1_500
    # Calls to c while it was dead are told from those to a node that is slow.
    for name in "ab":
        rows = told[name]["rows"]
        assert rows["down"] >= 5, rows
        assert set(rows) <= {"ok", "down", "late", "refused", "clock_step"}, rows
        assert told[name]["rounds"] > 100 and told[name]["written"]["error"] is None
        assert told[name]["written"]["host_rows"] >= 5
    assert told["c"]["rounds"] < told["a"]["rounds"]
    # Files are closed, and say the same.
    assert not list(agents.data.rglob("*.unfinished"))
    done = probe("calibrate", agents.data, "--target", "raft,suspicion,gamma", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    seen = found["data"]
    assert seen["nodes"] == ["a", "b", "c"] and seen["down"] >= 10
    assert seen["rows"] == sum(one["written"]["calls"] for one in told.values())
    everything = found["suspicion"][0]
    late = {round(point["timeout_ms"]): point["late"] for point in everything["points"]}
    # The pause counts and the crash does not. Who ends last may find the others gone.
    assert late[1_000] > 10 and late[10_000] < 10, late
    assert found["raft"]["evidence"]["extrapolated"], "a few seconds certify nothing"
    assert {"etcd", "ZooKeeper", "Consul"} <= {one["system"] for one in found["settings"]}


def test_an_agent_ends_by_itself_and_goes_on_behind_its_own_files(agents):
    for _ in range(2):
        for name in "abc":
            agents.start(name, "--seconds", "2")
        for name in "abc":
            out, errors = agents.running.pop(name).communicate(timeout=30)
            # More than twenty only if the last ticks were overdue and sent at once.
            assert 20 <= json.loads(out)["rounds"] < 30, errors
    pieces = sorted(path.name for path in (agents.data / "pieces").glob("rpc-*"))
    assert len(pieces) == 6, pieces


def test_a_callee_writes_down_where_the_time_of_its_slowest_calls_went(agents):
    for name in "abc":
        agents.start(name, "--seconds", "12", period_ms=20)
    told = {}
    for name in "abc":
        out, errors = agents.running.pop(name).communicate(timeout=60)
        told[name] = json.loads(out)
        assert told[name]["rows_dropped"] == 0, errors
    # More than two hundred calls of each workload: the slowest in a hundred at least.
    kept = sum(one["written"]["slow_calls"] for one in told.values())
    assert kept >= 5, told
    rows = duckdb.sql(
        f"""select s.wl, s.svc, s.queue, s.handler, s.sync, r.svc
        from '{agents.data}/**/slow-*.parquet' s join '{agents.data}/**/rpc-*.parquet' r
        using (src, dst, "group", seq)"""
    ).fetchall()
    assert 0 < len(rows) <= kept
    for workload, svc, queue, handler, sync, of_caller in rows:
        assert (sync is not None) == (workload in (2, 4))
        assert queue + handler + (sync or 0) <= svc + 3
        assert abs(svc - of_caller) <= 1
    # Analyses go on as if it were not there.
    done = probe("analyze", agents.data, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["excluded"]["files"] == [], done.stderr


def test_what_is_wrong_is_said_before_anything_is_measured(agents, tmp_path):
    def agent(text, node="a"):
        (tmp_path / "wrong").write_text(text)
        words = ["--peers", tmp_path / "wrong", "--node", node, "--dir", tmp_path / "none"]
        done = probe("agent", *words)
        assert done.returncode == 1 and done.stdout == "" and not (tmp_path / "none").exists()
        return done.stderr

    good = agents.peers.read_text()
    assert "line 4: \"a\" is already in line 1" in agent(good + "a 127.0.0.1:9\n")
    assert "there is no node \"z\"; known nodes are a, b, c" in agent(good, "z")
    address = good.split()[1]
    assert f"line 4: a already has {address} (line 1)" in agent(good + f"d {address}\n")
    assert "is not an address" in agent(good + "d 127.0.0.1\n")
    assert "3 to 4096 nodes, not 1" in agent("a 127.0.0.1:9\n")
    done = probe("agent", "--peers", tmp_path / "nowhere", "--node", "a", "--dir", tmp_path / "x")
    assert "cannot be read" in done.stderr


def test_an_agent_of_another_deployment_is_turned_away(agents):
    agents.start("a", "--deployment", "ours")
    agents.start("b", "--deployment", "theirs")
    agents.start("c", "--deployment", "ours")
    time.sleep(6)
    _, errors = stopped(agents, "a")
    assert "belongs to another deployment" in errors


def test_a_peer_that_speaks_another_version_is_named_and_its_calls_are_told(agents):
    """b is no agent but answers every connection with the greeting of a later version; c with
    something else."""
    ports = [int(line.rsplit(":", 1)[1]) for line in agents.peers.read_text().splitlines()]
    greetings = [struct.pack("<HH50x", 0x7063, 2), b"HTTP/1.1 400 Bad Request\r\n\r\n".ljust(54)]
    with contextlib.ExitStack() as stack:
        for port, greeting in zip(ports[1:], greetings):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", port)))
            threading.Thread(target=greet, args=(listener, greeting), daemon=True).start()
        agents.start("a", "--seconds", "6")
        out, errors = agents.running.pop("a").communicate(timeout=30)
    assert f"b at 127.0.0.1:{ports[1]}: the agent has another version" in errors
    assert f"c at 127.0.0.1:{ports[2]}: the peer is not an agent of the probe" in errors
    told = json.loads(out)
    # Of three members two were never reached: no row is missing, and none is called an answer.
    assert told["rows"]["refused"] == 2 * told["rounds"] and told["rows"]["ok"] <= told["rounds"]
    assert sum(told["rows"].values()) == 3 * told["rounds"]


def test_a_caller_of_another_version_is_turned_away_and_counted(agents):
    agents.start("a", "--seconds", "6")
    port = int(agents.peers.read_text().split()[1].rsplit(":", 1)[1])
    greetings = [struct.pack("<HH50x", 0x7063, 2), b"GET / HTTP/1.1\r\n\r\n".ljust(54)]
    for greeting in greetings:
        stranger = until(lambda: connected(port), what="an agent that listens")
        with stranger:
            stranger.sendall(greeting)
            # It says who it is, so that the other one knows why, and hangs up.
            assert stranger.recv(100)[:4] == struct.pack("<HH", 0x7063, 1)
            assert stranger.recv(100) == b""
    out, errors = agents.running.pop("a").communicate(timeout=30)
    assert json.loads(out)["refused_connections"] == 2, errors


def connected(port):
    with contextlib.suppress(OSError):
        return socket.create_connection(("127.0.0.1", port), timeout=5)
    return None


def greet(listener, greeting):
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(greeting)
                connection.recv(100)


def stopped(agents, name):
    agent = agents.running.pop(name)
    agent.send_signal(signal.SIGTERM)
    return agent.communicate(timeout=30)


def test_a_host_is_sampled_without_an_agent(tmp_path):
    done = probe("sample", "--dir", tmp_path, "--seconds", "3", "--pid", "1", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["written"]["host_rows"] >= 2
    assert told["sampler"]["cpu_us_per_row"] > 0
    until(lambda: list((tmp_path / "pieces").glob("res-*.parquet")), what="a file")


def test_old_days_are_thinned_out_by_their_agent_and_by_a_command(tmp_path):
    data, peers = tmp_path / "data", tmp_path / "peers"
    made = ["--nodes", 3, "--group-size", 3, "--slow", 1, "--rounds", 5000, "--days", 2]
    made = probe("simulate", *made, "--dir", data, "--json")
    calls = json.loads(made.stdout)["rows"]
    before = sum(path.stat().st_size for path in data.glob("rpc-*"))
    # A call without reply is later than any other.
    late = duckdb.sql(
        f"""with calls as (select src, dst, wl, epoch, coalesce(lag + 100 * rtt, 1e18) ns
        from '{data}/rpc-*.parquet') select count(*) from (select ns > quantile_disc(ns, 0.99)
        over (partition by src, dst, wl, epoch) late from calls) where late"""
    ).fetchall()[0][0]
    # An agent of the same deployment thins out its own old days when it begins.
    peers.write_text("".join(f"n{node} 127.0.0.1:{free_port()}\n" for node in range(3)))
    words = ["agent", "--peers", peers, "--node", "n1", "--dir", data, "--seconds", 2, "--json"]
    words += ["--group-size", 3, "--deployment", "simulated-1", "--keep-days", 7, "--no-sample"]
    agent = probe(*words)
    assert agent.returncode == 0, agent.stderr
    written = json.loads(agent.stdout)["written"]
    assert (written["thinned"]["caller_days"], written["thin_error"]) == (2, None)
    assert {path.name for path in data.glob("sketch-*")} == {
        "sketch-00000-00001.parquet",
        "sketch-00001-00001.parquet",
    }
    # The command does the rest, and leaves what is young.
    done = probe("thin", data)
    assert done.returncode == 0, done.stderr
    assert "4 days of callers and 4 of hosts" in done.stdout
    assert not list(data.glob("rpc-*")) and list((data / "pieces").glob("rpc-*"))
    again = probe("thin", data)
    assert "no day is old enough" in again.stdout
    # Everything is counted once, and what was late is there as it was.
    counted, kept = duckdb.sql(
        f"""select (select sum(n) from '{data}/sketch-*.parquet'),
        (select count(*) from '{data}/tail-*.parquet')"""
    ).fetchall()[0]
    assert counted + kept == calls and kept == late
    after = [path.stat().st_size for path in [*data.glob("sketch-*"), *data.glob("tail-*")]]
    assert sum(after) < before
    found = json.loads(probe("analyze", data, "--json").stdout)
    assert found["thinned"]["calls"] == calls and found["data"]["days"] == 1
    assert [row["date"] for row in found["thinned"]["callees"]] == ["2024-01-01"] * 3 + ["2024-01-02"] * 3
    page = tmp_path / "page.html"
    assert probe("report", data, "-o", page).returncode == 0
    assert "2 thinned-out days" in page.read_text()


def test_callees_sign_if_they_are_asked_to(agents):
    for name in "abc":
        agents.start(name, "--sign")
    time.sleep(6)
    told = agents.end()
    assert all(row["unanswered"] == 0 for row in told["a"]["written"]["sketches"])
    files = f"{agents.data}/**/rpc-*.parquet"
    least = dict(
        duckdb.sql(f"select wl, min(svc) from '{files}' where status = 0 group by wl").fetchall()
    )
    # In units of 100 ns: no processor signs in five microseconds.
    assert least[1] > least[0] + 50
    said = duckdb.sql(f"select decode(value) from parquet_kv_metadata('{files}')").fetchall()
    signs = [json.loads(text)["config"]["signs"] for (text,) in said if "config" in text]
    assert signs and all(signs)
