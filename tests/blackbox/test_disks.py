"""Disks that fail, are full or are slow under one machine of three.

System calls fail by `strace`, so nothing in the server knows that it is a test. A machine that
cannot trust its disk ends, and says why; the others go on, and when its disk is well again it comes
back and catches up.
"""

import contextlib
import subprocess
import threading
import time

import pytest
from clusters import UP_S_MAX, Worker
from harness import Failed
from redis.exceptions import RedisError, ResponseError
from tracing import injected, needs_strace
from witnesses import SHARDS, Known, Reader, Writer

# What the process ends with when its disk has failed: EX_IOERR of sysexits.h.
DISK_FAILED = 74
SLOW_US = 100_000
HEALTHY_S = 3
DISK_MB = 64


class Company:
    """Clients of all machines, which notice what they should not see."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.known = Known()
        stop = threading.Event()
        self.witnesses = [
            kind(node, 2 * number + (kind is Reader), stop, self.known)
            for number, node in enumerate(cluster.nodes)
            for kind in (Writer, Reader)
        ]
        self.go_on()

    def go_on(self):
        """Waits until every shard has taken another write, or a first one."""
        self.known.grow(UP_S_MAX)

    def finish(self):
        """Ends the clients, and looks whether all is there, whichever machine leads."""
        Worker.finish(self.witnesses, self.cluster)
        for node in self.cluster.nodes:
            self.cluster.let_lead(node)
            with node.client() as client:
                self.known.settle(client)


def victim_of(cluster, leads):
    """A machine that leads all shards, or none."""
    leader, other = cluster.nodes[:2]
    cluster.let_lead(leader)
    return leader if leads else other


def begin(make_cluster, leads):
    """A cluster, a machine of it that leads all shards or none, and clients of the others."""
    needs_strace()
    cluster = make_cluster(shards=SHARDS).start()
    victim = victim_of(cluster, leads)
    return cluster, victim, Company(cluster)


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_a_machine_whose_fsync_fails_ends_and_comes_back(make_cluster, leads):
    cluster, victim, company = begin(make_cluster, leads)
    with injected(victim, "error=EIO"):
        assert victim.process.wait(UP_S_MAX) == DISK_FAILED
    assert "fsync of" in victim.said() and "Input/output error" in victim.said()
    assert "Check the disk" in victim.said()
    company.go_on()
    assert [node.alive() for node in cluster.nodes].count(False) == 1
    victim.start()
    cluster.wait()
    company.go_on()
    company.finish()


def test_a_snapshot_that_the_disk_refuses_is_given_up_and_the_log_stays(make_cluster):
    cluster, victim, company = begin(make_cluster, leads=True)
    with victim.client() as client:
        # The log waits for the disk by another call.
        with injected(victim, "error=EIO", "fsync"):
            with pytest.raises(ResponseError, match="snapshot"):
                client.save()
            company.go_on()
        assert "is abandoned" in victim.said() and "Input/output error" in victim.said()
        assert client.save()
    victim.restart()
    cluster.wait()
    company.go_on()
    company.finish()


def percentiles_ms(known, since):
    """Median and p99 of what writes have taken since an instant."""
    times = sorted(took for at, took in known.took if at >= since)
    return [times[len(times) * part // 100] * 1000 for part in (50, 99)]


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_a_machine_with_a_slow_disk_makes_nothing_fail(make_cluster, leads):
    cluster, victim, company = begin(make_cluster, leads)
    began = time.monotonic()
    time.sleep(HEALTHY_S)
    healthy = percentiles_ms(company.known, began)
    with injected(victim, f"delay_exit={SLOW_US}"):
        company.go_on()
        began = time.monotonic()
        time.sleep(HEALTHY_S)
        company.go_on()
        slow = percentiles_ms(company.known, began)
    company.finish()
    assert all(node.alive() for node in cluster.nodes)
    assert not any(company.known.unknown.values()), cluster.said()
    print(
        f"writes, p50 and p99: {healthy[0]:.1f} and {healthy[1]:.1f} ms; "
        f"with an fsync that takes {SLOW_US / 1000:.0f} ms more {slow[0]:.1f} and {slow[1]:.1f} ms"
    )


@contextlib.contextmanager
def small_disk(folder):
    """A file system with little room in a folder; gives what makes it larger."""
    folder.mkdir()
    option = f"size={DISK_MB}m"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", option, "tmpfs", folder], capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"file systems may not be mounted here: {done.stderr}")

    def make_room():
        larger = ["mount", "-o", f"remount,size={4 * DISK_MB}m", folder]
        subprocess.run(larger, check=True, capture_output=True)

    try:
        yield make_room
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True, capture_output=True)


@pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])
def test_a_machine_whose_disk_is_full_ends_and_comes_back(make_cluster, leads):
    cluster = make_cluster(shards=SHARDS)
    victim = cluster.nodes[0 if leads else 1]
    with small_disk(victim.data) as make_room:
        cluster.start()
        assert victim_of(cluster, leads) is victim
        company = Company(cluster)
        megabyte = "x" * (1 << 20)
        with cluster.nodes[2].client() as client:
            for number in range(2 * DISK_MB):
                if not victim.alive():
                    break
                with contextlib.suppress(RedisError):
                    client.set(f"filler:{number % 30}", megabyte)
        assert victim.process.wait(UP_S_MAX) == DISK_FAILED
        assert "No space left on device" in victim.said()
        company.go_on()
        # There is still no room, and it does not pretend that there is.
        with pytest.raises(Failed, match="No space left on device"):
            victim.start()
        company.go_on()
        make_room()
        victim.start()
        cluster.wait()
        company.go_on()
        company.finish()
        for node in cluster.nodes:
            node.kill()
