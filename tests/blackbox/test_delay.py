"""How many times a command crosses the network: machines and clients with a known delay between.

A write goes from the client to the leader, on to a follower and the same way back, and a read under
a lease from the client to the leader and back. What the machine itself needs is measured without a
delay, and comes on top. `pytest -s` shows the figures.
"""

import statistics
import time

from network import make_leader
from witnesses import KEYS, SHARDS

COUNT = 20
PAUSE_S = 0.01
DELAYS_MS = [5, 20, 50]
# With less delay, what the machine needs may be as much as a way.
JUDGED_MS = 20


def measured_ms(work):
    """How long something takes that is done again and again, sorted."""
    # Connections, leases and the like are there after that.
    for _ in range(5):
        work()
    times = []
    for _ in range(COUNT):
        time.sleep(PAUSE_S)
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1000)
    return sorted(times)


def test_a_command_crosses_the_network_as_often_as_it_must(make_apart):
    cluster = make_apart(shards=SHARDS).start()
    leader = make_leader(cluster, cluster.nodes[0])
    key = KEYS[0]
    near, far = leader.client(), cluster.nodes[1].client()
    # What is done, and how many ways between two machines it takes.
    commands = {
        "write, at the leader": (lambda: near.set(key, "x"), 4),
        "read, at the leader": (lambda: near.get(key), 2),
        "write, at another": (lambda: far.set(key, "x"), 6),
        "read, at another": (lambda: far.get(key), 4),
    }
    base_ms = {name: statistics.median(measured_ms(work)) for name, (work, _) in commands.items()}
    print("\n| one way | what | without delay, ms | median, ms | by the delay | less the first |")
    print("|---|---|---|---|---|---|")
    for delay_ms in DELAYS_MS:
        cluster.network.delay(delay_ms / 1000)
        for name, (work, ways) in commands.items():
            base = base_ms[name]
            too_many = (ways + 1) * delay_ms
            times = measured_ms(work)
            found = statistics.median(times)
            print(
                f"| {delay_ms} ms | {name} ({ways}) | {base:.2f} | {found:.1f} "
                f"| {found / delay_ms:.2f} | {(found - base) / delay_ms:.2f} |"
            )
            assert times[0] >= ways * delay_ms, "it went through a wall"
            # Busy processors make it longer; a way too many is in the fastest as well.
            if delay_ms >= JUDGED_MS:
                assert times[0] < too_many, f"{name}: too many ways"
