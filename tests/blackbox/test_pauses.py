"""A leader that stands still for longer than its lease, and goes on as if nothing had happened.

While it stands still another machine leads and takes writes, and clients ask the one that stands
still. When it goes on, its clocks have jumped and its sockets are full of questions; it must not
answer them from what it still holds. A pause can come between any two steps: some are left to
chance, and some, which did lead to stale answers once, are put between two reads of sockets.
"""

import random
import threading
import time

import pytest
from clusters import UP_S_MAX, Cluster, Worker
from tracing import injected, needs_strace
from witnesses import SHARDS, Impatient, Known, Reader, Writer

ROUNDS = 3
LINES = 48
# Longer than a lease, an election and the time until a silent connection is given up.
PAUSE_S = 4


def company(cluster, leader):
    """Clients that count at the other machines, and read everywhere."""
    stop, known = threading.Event(), Known()
    others = [node for node in cluster.nodes if node is not leader]
    workers = [Writer(node, number, stop, known) for number, node in enumerate(others)]
    workers += [Reader(node, 5 + number, stop, known) for number, node in enumerate(cluster.nodes)]
    known.grow(UP_S_MAX)
    return known, workers


def test_a_leader_that_was_stopped_answers_nothing_stale(make_cluster):
    cluster = make_cluster(shards=SHARDS).start()
    leader = cluster.nodes[0]
    known, workers = company(cluster, leader)
    for _ in range(ROUNDS):
        cluster.let_lead(leader)
        impatient = Impatient(leader, LINES, threading.Event(), known)
        known.grow(UP_S_MAX)
        time.sleep(random.uniform(0.5, 1))
        Cluster.pause(cluster, leader, PAUSE_S)
        impatient.finish()
        cluster.wait()
        known.grow(UP_S_MAX)
        assert impatient.answered
    Worker.finish(workers, cluster)
    for node in cluster.nodes:
        cluster.let_lead(node)
        with node.client() as client:
            known.settle(client)


@pytest.mark.parametrize(("nth", "workers"), [(100, 1), (107, 2)])
def test_a_leader_that_is_held_up_while_it_reads_answers_nothing_stale(make_cluster, nth, workers):
    needs_strace()
    cluster = make_cluster(shards=SHARDS, workers=workers).start()
    leader = cluster.nodes[0]
    known, workers = company(cluster, leader)
    cluster.let_lead(leader)
    impatient = Impatient(leader, LINES, threading.Event(), known)
    known.grow(UP_S_MAX)
    what = f"delay_enter={PAUSE_S * 1_000_000}:when={nth}"
    with injected(leader, what, "recvfrom"):
        time.sleep(PAUSE_S + 2)
    impatient.finish()
    cluster.wait()
    known.grow(UP_S_MAX)
    assert impatient.answered
    Worker.finish(workers, cluster)
