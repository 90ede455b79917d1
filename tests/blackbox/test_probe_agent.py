"""`claret probe agent`: three real agents, of which one stands still and one dies and comes back; and
what `claret probe calibrate` makes of what they wrote down."""

import json
import signal
import subprocess
import time

import pytest
from harness import binary, free_port, probe, until


class Agents:
    """Agents a, b and c with one file of peers and one folder."""

    def __init__(self, folder):
        self.peers, self.data = folder / "peers", folder / "data"
        self.peers.write_text("".join(f"{name} 127.0.0.1:{free_port()}\n" for name in "abc"))
        self.running = {}

    def start(self, name, *flags):
        words = ["agent", "--peers", self.peers, "--node", name, "--dir", self.data]
        words += ["--group-size", "3", "--period-ms", "100", "--canary-ms", "10", "--json"]
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


def test_what_is_wrong_is_said_before_anything_is_measured(agents, tmp_path):
    def agent(text, node="a"):
        (tmp_path / "wrong").write_text(text)
        words = ["--peers", tmp_path / "wrong", "--node", node, "--dir", tmp_path / "none"]
        done = probe("agent", *words)
        assert done.returncode == 1 and done.stdout == "" and not (tmp_path / "none").exists()
        return done.stderr

    good = agents.peers.read_text()
    assert "line 4: \"a\" is already in line 1" in agent(good + "a 127.0.0.1:9\n")
    assert "there is no node \"z\"; there are a, b, c" in agent(good, "z")
    assert "is no address" in agent(good + "d 127.0.0.1\n")
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
