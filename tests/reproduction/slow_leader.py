#!/usr/bin/env python3
"""How a machine that gets slow loses its leads, and what writes take meanwhile.

    PYTHONPATH=python tests/reproduction/slow_leader.py BINARY FOLDER [--seconds 60] [--share 10]
    PYTHONPATH=python tests/reproduction/slow_leader.py BINARY FOLDER --disk 20

Three servers on this machine with `synchrony = "apply"`, six shards, two leads each. A client of
redis-py writes to keys of all shards through a server that stays well, one write after the other,
from the beginning to the end, and never waits longer than a second for the next. Then the processor
of the second server is throttled: with a control group (version 1 or 2, if this user may make one) it
gets SHARE percent of a processor, together with a loop that wants all of it; otherwise it is stopped
and continued (SIGSTOP, SIGCONT) for the same share of the time. With `--disk` its processor is left
alone, and its data are in a file system on a device of their own, which takes so many writes a second;
that needs root. The throttle stays to the end. What
comes out is a document: the latency of writes before, during (from the throttle until the server led
nothing) and after, and how long that took. Needs redis-py; tests/blackbox has the servers.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "blackbox"))

SHARDS, SLOW = 6, 2
# The servers know each other for two minutes before anybody is judged.
SETTLED_S = 150
# Longer than that, and the run says that the leads stayed.
LED_S_MAX = 180
PERIOD_US = 100_000


def control_group(files):
    """A new control group: its version, its folder and the file of that version. `files` are by version
    the controller, which version 2 does not name, and the file."""
    for version, (controller, file) in files.items():
        folder = pathlib.Path("/sys/fs/cgroup", controller, "claret-slow-leader")
        with contextlib.suppress(OSError):
            folder.mkdir(exist_ok=True)
            if (folder / file).exists():
                return version, folder, folder / file
            # No control group: a folder like any other.
            folder.rmdir()
    raise PermissionError("no such control group can be made here")


class Quota:
    """A control group in which a process and a loop share a part of a processor."""

    def __init__(self, share):
        self.share, self.loop = share, None
        files = {"version 2": ("", "cpu.max"), "version 1": ("cpu", "cpu.cfs_quota_us")}
        self.version, self.folder, self.file = control_group(files)

    def __str__(self):
        return f"cgroup {self.version}, {self.share} % of a processor shared with a busy loop"

    def throttle(self, process):
        quota = f"{PERIOD_US * self.share // 100}"
        self.file.write_text(f"{quota} {PERIOD_US}" if self.version == "version 2" else quota)
        self.loop = subprocess.Popen(["sh", "-c", "while :; do :; done"])
        for pid in (self.loop.pid, process.pid):
            (self.folder / "cgroup.procs").write_text(str(pid))

    def end(self):
        if self.loop is not None:
            self.loop.kill()
            self.loop.wait()
        with contextlib.suppress(OSError):
            self.folder.rmdir()


class Duty:
    """A process that is stopped and continued again and again."""

    def __init__(self, share):
        self.share, self.thread, self.over = share, None, threading.Event()

    def __str__(self):
        return f"SIGSTOP and SIGCONT, running for {self.share} % of {PERIOD_US // 1000} ms"

    def throttle(self, process):
        def work():
            while not self.over.is_set():
                process.send_signal(signal.SIGSTOP)
                time.sleep(PERIOD_US * (100 - self.share) / 1e8)
                process.send_signal(signal.SIGCONT)
                time.sleep(PERIOD_US * self.share / 1e8)

        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()

    def end(self):
        self.over.set()
        if self.thread is not None:
            self.thread.join()


class Disk:
    """A file system of a server's own, on a device that takes so many writes a second."""

    MIB = 256

    def __init__(self, writes, folder):
        self.writes, self.folder = writes, folder
        files = {
            "version 2": ("", "io.max"),
            "version 1": ("blkio", "blkio.throttle.write_iops_device"),
        }
        self.version, self.group, self.file = control_group(files)

    def __str__(self):
        return f"a device that takes {self.writes} writes a second"

    def mount(self):
        image = self.folder.parent / "disk"
        with image.open("wb") as file:
            file.truncate(self.MIB << 20)
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, self.folder], check=True)

    def throttle(self, process):
        found = subprocess.run(
            ["findmnt", "-n", "-o", "MAJ:MIN", self.folder], check=True, capture_output=True, text=True
        )
        limit = f"wiops={self.writes}" if self.version == "version 2" else self.writes
        self.file.write_text(f"{found.stdout.strip()} {limit}")
        (self.group / "cgroup.procs").write_text(str(process.pid))

    def end(self):
        subprocess.run(["umount", self.folder], check=False)
        with contextlib.suppress(OSError):
            self.group.rmdir()


class Writer(threading.Thread):
    """Writes to keys of all shards in turn, one after the other, and keeps how long each took."""

    def __init__(self, node, keys):
        super().__init__(daemon=True)
        self.node, self.keys, self.over = node, keys, threading.Event()
        # When it began, how long it took, the shard, and what was wrong, if something was.
        self.writes = []

    def run(self):
        client, number = self.node.client(socket_timeout=10), 0
        while not self.over.is_set():
            shard, key = self.keys[number % len(self.keys)]
            number, began, wrong = number + 1, time.monotonic(), None
            try:
                client.set(key, number)
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"
            self.writes.append((began, time.monotonic() - began, shard, wrong))
            time.sleep(0.005)


def keys_of(told):
    """For each shard some keys of it, in turn."""
    from redis.crc import key_slot

    found = {shard["shard"]: [] for shard in told["shards"]}
    for number in range(10_000):
        slot = key_slot(f"key:{number}".encode())
        for shard in told["shards"]:
            if any(first <= slot <= last for first, last in shard["slots"]):
                found[shard["shard"]].append(f"key:{number}")
    return [(shard, names[turn]) for turn in range(20) for shard, names in found.items()]


def leads(told):
    return {shard["shard"] for shard in told["shards"] if shard["leader"] == SLOW}


def law(writes):
    """What writes took, in milliseconds."""
    took = sorted(took for _, took, _, wrong in writes if wrong is None)
    rank = lambda part: round(took[max(0, -int(-part * len(took) // 1) - 1)] * 1e3, 2) if took else None
    return {
        "writes": len(took),
        "errors": len(writes) - len(took),
        "p50_ms": rank(0.5),
        "p99_ms": rank(0.99),
        "max_ms": rank(1),
    }


def measure(cluster, ports, throttle, seconds):
    from harness import until
    from test_console import numbers

    well = ports[0]
    for shard in range(SHARDS):
        want = str(shard % 3 + 1)
        with cluster.nodes[0].client() as client:
            until(lambda: hand_over(client, shard, want), 60, f"a handover of shard {shard} to {want}")
    time.sleep(SETTLED_S)
    told = numbers(well)
    ours = leads(told)
    assert len(ours) == 2, told["shards"]
    writer = Writer(cluster.nodes[0], keys_of(told))
    writer.start()
    time.sleep(seconds)
    began = time.monotonic()
    throttle.throttle(cluster.nodes[SLOW - 1].process)
    led_until = named_at = None
    while time.monotonic() - began < LED_S_MAX and led_until is None:
        told = numbers(well) or told
        if named_at is None and told["synchrony"]["verdicts"]:
            named_at = time.monotonic()
        if not leads(told):
            led_until = time.monotonic()
        time.sleep(0.5)
    after = led_until or time.monotonic()
    time.sleep(seconds)
    writer.over.set()
    writer.join()
    spans = {
        "before": (0, began),
        "during": (began, after),
        "after": (after, float("inf")),
    }
    document = {
        "throttle": str(throttle),
        "processors": os.cpu_count(),
        "load_average": os.getloadavg(),
        "named_after_s": named_at and round(named_at - began, 1),
        "led_nothing_after_s": led_until and round(led_until - began, 1),
        "verdicts": told["synchrony"]["verdicts"],
        "errors": sorted({wrong for *_, wrong in writer.writes if wrong}),
    }
    for name, (begin, end) in spans.items():
        found = [write for write in writer.writes if begin <= write[0] < end]
        document[name] = {
            "all_shards": law(found),
            "shards_that_it_led": law([write for write in found if write[2] in ours]),
            "seconds": round(min(end, writer.writes[-1][0]) - max(begin, writer.writes[0][0]), 1),
        }
    return document


def hand_over(client, shard, machine):
    from redis.exceptions import ResponseError

    try:
        return client.execute_command("FAILOVER", "SHARD", shard, "TO", machine)
    except ResponseError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=60, help="before the throttle, and after")
    parser.add_argument("--share", type=int, default=10, help="percent of a processor that is left")
    parser.add_argument("--disk", type=int, help="leave the processor, and throttle the disk to so many writes")
    parser.add_argument("--signals", action="store_true", help="no control group even if there can be one")
    args = parser.parse_args()
    os.environ["CLARET_BIN"] = str(args.binary.resolve())
    from clusters import Cluster
    from test_console import with_console

    args.folder.mkdir(parents=True)
    cluster = Cluster(args.folder, shards=SHARDS, workers=1)
    if args.disk:
        throttle = Disk(args.disk, args.folder / f"node{SLOW}")
        throttle.mount()
    else:
        try:
            throttle = Duty(args.share) if args.signals else Quota(args.share)
        except PermissionError:
            throttle = Duty(args.share)
    ports = [with_console(node) for node in cluster.nodes]
    for node in cluster.nodes:
        node.flags += ["--synchrony", "apply"]
    try:
        cluster.start()
        document = measure(cluster, ports, throttle, args.seconds)
    finally:
        # A control group goes when nobody is in it any more.
        for node in cluster.nodes:
            node.kill()
        throttle.end()
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
