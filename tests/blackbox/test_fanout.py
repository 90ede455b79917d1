"""`claret bench fanout` on real servers: clusters of the shape that a topology names, whose machines
are reached at other addresses than they listen at."""

import json
import subprocess

from harness import binary

# Two machines lead, two more hold a replica of everything, and clients are next to a fifth.
TOPOLOGY = """
name = "small"

[[machines]]
site = "clients"
role = "gateway"

[[machines]]
site = "leaders"
role = "leader"
count = 2

[[machines]]
site = "others"
role = "follower"
count = 2

[one_way_us]
"clients leaders" = 3000
"clients others" = 1000
"leaders leaders" = 1000
"leaders others" = 2000
"others others" = 1000
"""


def test_real_servers_are_as_far_apart_as_the_topology_says(tmp_path):
    topology = tmp_path / "small.toml"
    topology.write_text(TOPOLOGY)
    picture = tmp_path / "small.svg"
    words = [binary(), "bench", "fanout", "--topology", str(topology), "--shards", "2"]
    words += ["--fanout", "1,4", "--requests", "5", "--dir", str(tmp_path), "--plot", str(picture)]
    words += ["--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    rows = {(row["order"], row["fanout"]): row for row in json.loads(done.stdout)["rows"]}
    assert set(rows) == {(order, n) for order in ("single", "chain", "constant") for n in (1, 4)}
    for (order, fanout), row in rows.items():
        assert row["requests"] == 5 and row["mode"] == "processes"
        # To the leader and back, and from there to a follower and back: no message is early.
        trips = fanout if order == "single" else 1
        assert row["p50_us"] >= 10_000 * trips, row
        assert row["log_appends_per_op"] > 0 and row["messages_per_op"] > 0, row
    assert picture.read_text().startswith("<svg")
