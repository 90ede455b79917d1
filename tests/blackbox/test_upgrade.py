"""A cluster that is upgraded, one machine after the other, from a build with older records."""

import threading

import pytest
from clusters import UP_S_MAX, Counter, Worker
from harness import Failed, older_binary, until
from test_operating import all_led, claret
from test_reshaping import check

# What this build understands.
NEWEST = 15


def become(cluster, node, program):
    """A machine is stopped, and goes on with another program (none: the one to test)."""
    assert node.terminate() == 0
    node.program = program
    node.start()
    cluster.wait()


def is_refused(node, reason):
    """Whether the last step of an upgrade is refused for a reason."""
    return reason in claret(node, "upgrade", fails=True)


def all_understand(node):
    """Whether all machines are connected with a build that is new enough."""
    lines = node.client().execute_command("SHARDMAP LEVELS").splitlines()
    return all(line.endswith(f"level {NEWEST}") for line in lines)


def level(node):
    """What the cluster uses, as a machine of it says."""
    lines = node.client().execute_command("SHARDMAP").splitlines()
    return next((line for line in lines if line.startswith("level ")), "none")


def test_a_cluster_is_upgraded_and_back_and_again_while_clients_go_on(make_cluster):
    cluster = make_cluster()
    older = older_binary()
    for node in cluster.nodes:
        node.program = older
    cluster.start()
    until(lambda: all_led(cluster), UP_S_MAX)
    first, second, third = cluster.nodes
    stop = threading.Event()
    counters = [Counter(cluster, number, stop) for number in range(3)]

    become(cluster, second, None)
    until(lambda: is_refused(second, "machine 1 understands level 2"), UP_S_MAX)
    assert f"level    2; machine 2 understands {NEWEST}" in claret(second, "status")
    become(cluster, third, None)
    # Nothing was written yet that the older build does not read.
    become(cluster, second, older)
    become(cluster, first, None)
    assert level(first) == "none"
    until(lambda: is_refused(first, "machine 2 understands level 2"), UP_S_MAX)
    become(cluster, second, None)
    until(lambda: all_understand(first), UP_S_MAX)

    claret(first, "upgrade")
    for node in cluster.nodes:
        until(lambda: level(node) == f"level {NEWEST}", UP_S_MAX)
    until(lambda: all_led(cluster), UP_S_MAX)

    # There is no way back, and whoever tries breaks nothing.
    assert third.terminate() == 0
    third.program = older
    with pytest.raises(Failed, match="no line of a shard map"):
        third.start()
    third.program = None
    third.start()
    cluster.wait()
    newcomer, name = cluster.newcomer(4)
    claret(first, "add", name)
    newcomer.program = older
    newcomer.start()
    turned_away = f"machine 4 understands level 2, and the cluster uses level {NEWEST}"
    until(lambda: turned_away in first.said(), UP_S_MAX)
    newcomer.kill()
    Worker.finish(counters, cluster)
    check(counters)
