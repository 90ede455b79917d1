"""The probe inside the servers of a cluster: what it measures, shows and may do."""

import shutil
import subprocess
import time

import duckdb
import pytest
from clusters import UP_S_MAX, Cluster
from harness import binary, page, probe, probe_document, until
from redis.exceptions import ResponseError
from test_console import numbers, with_console

# The first window ends after ten seconds, and figures of others come with theirs.
WINDOWS_S = 40


def probed(make_cluster, **options):
    """A cluster whose machines have consoles; gives their ports."""
    cluster = make_cluster(**options)
    ports = [with_console(node) for node in cluster.nodes]
    return cluster.start(), ports


def matrix(port):
    """What each machine has seen of each other one, as one of them knows it."""
    told = numbers(port)
    if told is None:
        return {}
    observers = told["synchrony"]["observers"]
    return {(o["machine"], cell["machine"]): cell for o in observers for cell in o["seen"]}


def whole(port):
    """The matrix of three machines, once all have told enough."""
    seen = matrix(port)
    return seen if len(seen) == 6 and all(c["count"] > 2 for c in seen.values()) else None


def test_every_machine_knows_how_late_all_others_answer_each_other(make_cluster):
    cluster, ports = probed(make_cluster)
    for port in ports:
        seen = until(lambda: whole(port), WINDOWS_S, "figures of all machines")
        for cell in seen.values():
            assert 0 < cell["near_us"] <= cell["p50_us"] <= cell["p90_us"] < 5_000_000
            assert cell["lost"] < cell["count"] and not cell["settled"]
    told = numbers(ports[0])["synchrony"]
    assert told["mode"] == "propose"
    assert told["verdicts"] == [] and told["silent"] == []
    assert [peer["machine"] for peer in told["peers"]] == [2, 3]
    assert all(peer["day"]["count"] >= peer["minute"]["count"] > 5 for peer in told["peers"])
    _, text = page(ports[0], "/metrics")
    assert 'claret_peer_rtt_seconds{peer="2",quantile="0.9"} 0.0' in text
    assert 'claret_node_slow{machine="3"} 0\n' in text
    assert 'claret_peer_lost_total{peer="3"} ' in text
    assert 'claret_timer_late_seconds{quantile="0.5"} ' in text
    assert 'claret_peer_messages_total{kind="timing"} ' in text

    # Who is gone is silent, which is a value like any other.
    cluster.nodes[2].kill()

    def silent():
        cell = matrix(ports[0]).get((1, 3), {})
        return cell.get("silent_s", 0) >= 10 and cell["lost"] >= 5

    until(silent, WINDOWS_S, "silence of machine 3")
    _, text = page(ports[0], "/metrics")
    lost = [line for line in text.splitlines() if line.startswith('claret_peer_lost_total{peer="3"}')]
    assert int(lost[0].split()[-1]) >= 5
    assert numbers(ports[0])["synchrony"]["verdicts"] == [], "it is not slow, it is not there"


def test_a_machine_that_measures_nothing_answers_all_the_same(make_cluster):
    cluster = make_cluster()
    ports = [with_console(node) for node in cluster.nodes]
    cluster.nodes[2].flags += ["--synchrony", "off"]
    cluster.start()

    def seen():
        found = matrix(ports[0])
        return found.get((1, 3), {}).get("count", 0) > 5 and found.get((2, 3), {}).get("count", 0) > 5

    until(seen, WINDOWS_S, "figures about machine 3")
    found = matrix(ports[0])
    # Now and then an answer is late, where the processors are busy.
    assert found[1, 3]["lost"] < found[1, 3]["count"] / 2 and found[2, 3]["p50_us"] is not None
    assert (3, 1) not in found
    told = numbers(ports[2])["synchrony"]
    assert told["mode"] == "off" and told["observers"] == [] and told["peers"] == []


def test_what_the_probe_may_do_can_be_said_while_it_runs(make_cluster, make_server):
    cluster, ports = probed(make_cluster)
    node = cluster.nodes[0]
    with node.client() as client:
        assert client.config_get("synchrony") == {"synchrony": "propose"}
        for mode in ("apply", "off", "propose"):
            assert client.config_set("synchrony", mode)
            assert client.config_get("synchrony") == {"synchrony": mode}
            until(lambda: numbers(ports[0])["synchrony"]["mode"] == mode, UP_S_MAX, mode)
        with pytest.raises(ResponseError, match="off, propose or apply"):
            client.config_set("synchrony", "always")
        assert client.config_get("synchrony") == {"synchrony": "propose"}
    alone = make_server()
    port = with_console(alone)
    alone.start()
    assert numbers(port)["synchrony"] is None


def test_every_measurement_is_kept_in_the_files_of_the_probe_and_all_machines_make_one_data_set(
    tmp_path,
):
    together = tmp_path / "together"
    cluster = Cluster(tmp_path)
    for number, node in enumerate(cluster.nodes, 1):
        node.flags += ["--synchrony-dir", str(tmp_path / f"measured{number}")]
    try:
        cluster.start()
        end = time.monotonic() + 6
        with cluster.nodes[0].client() as client:
            while time.monotonic() < end:
                for key in range(12):
                    client.set(f"key:{key}", "x")
                time.sleep(0.05)
            assert client.config_get("synchrony_keep_days") == {"synchrony_keep_days": "7"}
        # One is gone, which the others see, and comes again: its files go on.
        assert cluster.nodes[2].terminate() == 0
        time.sleep(2)
        cluster.nodes[2].start()
        cluster.wait()
        time.sleep(8)
        for node in cluster.nodes:
            assert node.terminate() == 0
    finally:
        for node in cluster.nodes:
            node.kill()
    for number in range(1, 4):
        folder = tmp_path / f"measured{number}"
        shutil.copytree(folder, together, dirs_exist_ok=True)
    found = probe_document("analyze", together)
    assert found["data"]["nodes"] == ["1", "2", "3"]
    assert found["excluded"]["files"] == []
    assert "incomplete_sessions" not in found["excluded"]["rows"]
    assert "not_in_order_but_used" not in found["excluded"]["rows"]
    laws = {row["workload"]: row["individual"] for row in found["by_workload"]}
    # Each asks two others about sixteen times; who leads something appends about as often.
    assert laws["null"]["replied"] > 40 and laws["disk"]["replied"] > 10
    assert laws["null"]["no_reply"] >= 2, "the one that was gone"
    assert all(row["group"]["calls"] == 0 for row in found["by_workload"]), "each is asked by itself"
    rows = duckdb.sql(f"""
        select src, dst, wl, status, count(*) from '{together}/**/rpc-*.parquet'
        group by all order by all
    """).fetchall()
    assert {(src, dst) for src, dst, wl, _, _ in rows if wl == 0} == {
        (src, dst) for src in range(3) for dst in range(3) if src != dst
    }
    assert {status for *_, status, _ in rows} <= {0, 1, 2}
    page = probe("report", together, "-o", tmp_path / "report.html")
    assert page.returncode == 0, page.stderr
    told = probe("calibrate", together, "--target", "raft", "--once-in", "1d")
    assert told.returncode == 0, told.stderr


def test_a_machine_alone_has_nobody_to_measure(tmp_path):
    words = [binary(), "serve", "--port", "0", "--dir", tmp_path / "data"]
    words += ["--synchrony-dir", tmp_path / "measured"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "synchrony_dir is for a machine of a cluster" in done.stderr
