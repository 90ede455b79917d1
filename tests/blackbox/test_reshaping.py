"""Machines that come and go, and shards that move, while clients go on."""

import os
import threading
import time

from clusters import UP_S_MAX, Counter, Roaming, Worker
from harness import until
from test_operating import all_led, claret


def held(node):
    """The machines that hold each shard and the map, as a node sees it."""
    lines = node.client().execute_command("SHARDMAP HOLDERS").splitlines()
    found = {}
    for line in lines:
        name, _, rest = line.partition(" leader ")
        words = rest.split(" ")
        found[name] = words[2] if words[1::2] == ["voters"] else " ".join(words[1:])
    return found


def check(counters):
    """No increment that was acknowledged is lost, and none happened twice."""
    for counter in counters:
        _, total = Roaming(counter.roaming.cluster).do(lambda c, key=counter.key: c.get(key))
        total = int(total)
        most = counter.acknowledged + counter.unknown
        assert counter.acknowledged <= total <= most, f"{counter.key} is {total}"
        assert counter.acknowledged > 0


def test_machines_come_and_go_while_clients_go_on(make_cluster):
    cluster = make_cluster().start()
    until(lambda: all_led(cluster), UP_S_MAX)
    first, second = cluster.nodes[:2]
    stop = threading.Event()
    counters = [Counter(cluster, number, stop) for number in range(4)]

    fourth, name = cluster.newcomer(4)
    claret(second, "add", name)
    fourth.start()
    until(lambda: "the shard map has epoch 1" in fourth.said(), UP_S_MAX)
    cluster.nodes.append(fourth)
    claret(first, "rebalance", "--copies", 3)
    everything = held(fourth)
    assert sorted(everything) == ["shard 0", "shard 1", "shard 2", "the map"]
    assert any("4" in machines.split(",") for machines in everything.values())
    assert all(machines.count(",") == 2 for machines in everything.values())

    claret(fourth, "remove", 1)
    assert set(held(second).values()) == {"2,3,4"}
    # The machine that is gone is not needed: with it, two of four would be down.
    first.kill()
    cluster.nodes.remove(first)
    cluster.kill_and_restart(second, 2)
    cluster.wait()
    Worker.finish(counters, cluster)
    check(counters)
    assert "machine 1 " not in fourth.client().execute_command("SHARDMAP")


class Timed(Counter):
    """A counter that notes how long each answer took."""

    def __init__(self, *args):
        self.taken = []
        super().__init__(*args)

    def work(self):
        began = time.monotonic()
        super().work()
        self.taken.append((began, time.monotonic() - began))

    def between(self, begin, end):
        """The times of the answers to what was asked in between."""
        return [taken for began, taken in self.taken if begin <= began < end]


def percentile(taken, share):
    """A percentile of times, in milliseconds."""
    return 1000 * sorted(taken)[int(share * (len(taken) - 1))]


def test_planned_changes_leave_nobody_in_doubt(make_cluster):
    still_s = float(os.environ.get("CLARET_RESHAPE_S", "2"))
    cluster = make_cluster().start()
    until(lambda: all_led(cluster), UP_S_MAX)
    first = cluster.nodes[0]
    fourth, name = cluster.newcomer(4)
    claret(first, "add", name)
    cluster.nodes.append(fourth.start())
    until(lambda: all_led(cluster), UP_S_MAX)
    stop = threading.Event()
    timed = [Timed(cluster, number, stop) for number in range(4)]
    began = time.monotonic()
    time.sleep(still_s)
    middle = time.monotonic()
    changes = 0
    while changes < 6 or time.monotonic() < middle + still_s:
        lost = changes % 4 + 1
        holders = ",".join(str(number) for number in range(1, 5) if number != lost)
        for shard in (0, 1, 2, "map"):
            claret(first, "move", shard, holders)
        changes += 1
    end = time.monotonic()
    Worker.finish(timed, cluster)
    check(timed)
    assert [counter.unknown for counter in timed] == [0] * len(timed)
    for what, begin, until_s in (("still", began, middle), ("moving", middle, end)):
        taken = [taken for counter in timed for taken in counter.between(begin, until_s)]
        median, high = percentile(taken, 0.5), percentile(taken, 0.99)
        print(f"{what}: {len(taken)} increments, median {median:.1f} ms, p99 {high:.1f} ms")
    print(f"slowest {percentile([t for c in timed for _, t in c.taken], 1):.0f} ms")
    print(f"{4 * changes} moves in {end - middle:.1f} s")


def test_everything_starts_again_as_the_map_says(make_cluster):
    cluster = make_cluster().start()
    until(lambda: all_led(cluster), UP_S_MAX)
    first = cluster.nodes[0]
    with first.client() as client:
        for key in range(300):
            client.set(f"key:{key}", key)
    newcomers = []
    for number in (4, 5):
        server, name = cluster.newcomer(number, knows=3)
        claret(first, "add", name)
        newcomers.append(server.start())
    cluster.nodes += newcomers
    for shard in (0, 1, 2, "map"):
        claret(first, "move", shard, "3,4,5")
    assert set(held(newcomers[0]).values()) == {"3,4,5"}
    left = [path.name for path in (first.data / "snapshots").iterdir()]
    assert left == []
    for node in cluster.nodes:
        node.kill()
    for node in cluster.nodes[2:]:
        node.start()
    cluster.wait(cluster.nodes[2:])
    for node in cluster.nodes[:2]:
        node.start()
    cluster.wait()
    for node in cluster.nodes:
        with node.client() as client:
            assert [client.get(f"key:{key}") for key in range(300)] == list(map(str, range(300)))
        # Leaders tell it once a second.
        until(lambda: set(held(node).values()) == {"3,4,5"}, UP_S_MAX, "who holds what")


def test_a_cluster_grows_from_one_machine(make_cluster):
    cluster = make_cluster(count=1, shards=4).start()
    first = cluster.nodes[0]
    with first.client() as client:
        for key in range(100):
            client.set(f"key:{key}", key)
    for number in (2, 3):
        server, name = cluster.newcomer(number)
        claret(first, "add", name)
        cluster.nodes.append(server.start())
    claret(first, "rebalance", "--copies", 2)
    places = held(first)
    assert all(machines.count(",") == 1 for machines in places.values()), places
    cluster.wait()
    # Snapshots are of what a machine holds, however little.
    for node in cluster.nodes:
        assert node.client().save()
    first.kill()
    first.start()
    cluster.wait()
    for node in cluster.nodes:
        with node.client() as client:
            assert [client.get(f"key:{key}") for key in range(100)] == list(map(str, range(100)))


def test_a_machine_that_was_made_for_other_shards_says_so(make_cluster):
    cluster = make_cluster().start()
    until(lambda: all_led(cluster), UP_S_MAX)
    cluster.options["shards"] = 5
    stranger, name = cluster.newcomer(4)
    claret(cluster.nodes[0], "add", name)
    cluster.nodes.append(stranger.start())
    until(lambda: "--shards 3" in stranger.said(), UP_S_MAX)


def test_what_cannot_be_is_refused(make_cluster):
    cluster = make_cluster().start()
    until(lambda: all_led(cluster), UP_S_MAX)
    first = cluster.nodes[0]
    claret(first, "remove", 9)
    assert "is not in the cluster" in claret(first, "move", 0, "1,9", fails=True)
    assert "no shard 7" in claret(first, "move", 7, "1,2", fails=True)
    assert "does not name a machine" in claret(first, "add", "4", fails=True)
    assert "address of two" in claret(first, "add", "4=" + cluster.addresses[0][2:], fails=True)
    assert "already" in claret(first, "add", "2=127.0.0.1:1", fails=True)
    assert "epoch 0" in first.client().execute_command("SHARDMAP")
    # A machine that nobody has let in is turned away.
    stranger, _ = cluster.newcomer(4)
    stranger.start()
    cluster.nodes.append(stranger)
    until(lambda: "claret cluster add" in first.said(), UP_S_MAX)


def test_nothing_is_given_to_machines_that_are_away(make_cluster):
    cluster = make_cluster().start()
    until(lambda: all_led(cluster), UP_S_MAX)
    first, _, third = cluster.nodes
    _, name = cluster.newcomer(4)
    claret(first, "add", name)
    said = claret(first, "move", 0, "1,2,4", fails=True)
    assert "machine 4 is to hold shard 0 but is not connected" in said
    assert held(first)["shard 0"] == "1,2,3"
    third.kill()
    said = claret(first, "move", 1, "1,3", fails=True)
    assert "no majority is connected; missing: 3" in said
    claret(first, "remove", 4)
    claret(first, "move", 1, "1,2")
    assert held(first)["shard 1"] == "1,2"
