"""Networks between machines that fail: links that are down, and packets that arrive one way only.

Nobody is told that a connection has ended; the machines find out by silence. What was acknowledged
stays, nobody reads what is out of date, and the machines that reach each other go on.
"""

import threading
import time

import pytest
from clusters import UP_S_MAX, Worker
from harness import until
from network import agree, leads, make_leader
from witnesses import SHARDS, Known, Reader, Writer

HELD_S = 4


def goes_down(cluster, leader):
    """The leader's link is down."""
    cluster.network.link(leader.number, False)


def hears_nothing(cluster, leader):
    """What others send to the leader is lost."""
    for other in cluster.others(leader):
        cluster.network.cut(other.number, leader.number)


def is_not_heard(cluster, leader):
    """What the leader sends to others is lost."""
    for other in cluster.others(leader):
        cluster.network.cut(leader.number, other.number)


@pytest.mark.parametrize("fault", [goes_down, hears_nothing, is_not_heard])
def test_the_others_go_on_without_a_leader_that_they_do_not_reach(make_apart, fault):
    cluster = make_apart(shards=SHARDS).start()
    leader = make_leader(cluster, cluster.nodes[0])
    others = cluster.others(leader)
    stop, known = threading.Event(), Known()
    writers = [Writer(node, number, stop, known) for number, node in enumerate(others)]
    # Clients on the machine itself reach it whatever becomes of its link.
    there = [kind(leader, 5, stop, known, at=leader.number) for kind in (Reader, Writer)]
    readers = [Reader(node, 10 + number, stop, known) for number, node in enumerate(cluster.nodes)]
    known.grow(UP_S_MAX)

    began = time.monotonic()
    fault(cluster, leader)
    cluster.wait(others)
    time.sleep(HELD_S)
    asked = [witness.asked for witness in there]
    known.grow(UP_S_MAX)
    until(lambda: all(w.asked > before for w, before in zip(there, asked)), UP_S_MAX)
    gap_s = known.gap_s(began)

    cluster.network.link(leader.number, True)
    cluster.network.mend()
    cluster.wait()
    until(lambda: agree(cluster), UP_S_MAX, "one opinion on who leads what")
    answered = [witness.answered for witness in there]
    until(lambda: all(w.answered > before for w, before in zip(there, answered)), UP_S_MAX)
    Worker.finish([*writers, *there, *readers], cluster)
    # Whoever leads has everything, and the machine that was away as well.
    make_leader(cluster, leader)
    for node in cluster.nodes:
        known.settle(node.client())
    unknown = sum(known.unknown.values())
    print(f"{fault.__doc__} Nothing was acknowledged for {gap_s:.2f} s; {unknown} in doubt")


def test_a_machine_that_does_not_reach_the_leader_disturbs_nobody(make_apart):
    cluster = make_apart(shards=SHARDS).start()
    leader = make_leader(cluster, cluster.nodes[0])
    far, near = cluster.others(leader)
    stop, known = threading.Event(), Known()
    served = [Writer(leader, 0, stop, known), Writer(near, 1, stop, known)]
    unserved = [Writer(far, 2, stop, known), Reader(far, 3, stop, known, at=far.number)]
    known.grow(UP_S_MAX)

    cluster.network.cut(leader.number, far.number)
    cluster.network.cut(far.number, leader.number)
    time.sleep(HELD_S)
    known.grow(UP_S_MAX)
    cluster.network.mend()
    cluster.wait()
    until(lambda: agree(cluster), UP_S_MAX, "one opinion on who leads what")
    assert len(leads(leader)[leader.number]) == SHARDS, "a healthy leader has lost its lead"
    Worker.finish([*served, *unserved], cluster)
    for node in cluster.nodes:
        known.settle(node.client())
