"""The probe inside the servers of a cluster: what it measures, shows and may do."""

import pytest
from clusters import UP_S_MAX
from harness import page, until
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
    assert told["mode"] == "propose" and told["understood"]
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
    assert found[1, 3]["lost"] == 0 and found[2, 3]["p50_us"] is not None
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
