"""`claret probe simulate`, `analyze` and `calibrate`: what was planted is found, and what follows is said
in the units of other systems."""

import math

import pytest
from harness import probe, probe_document

TARGETS = {
    "suspicion": "False suspicions by time-out",
    "gamma": "Gamma, groups of 7",
    "visigoth": "Visigoth, groups of 7",
    "xft": "XFT",
    "accrual": "Accrual detectors",
    "raft": "Raft, 7 members, one false suspicion in 30.0 days",
    "hedge": "Hedging, budget",
}
OF_TIMERS = [
    ("etcd", "--election-timeout"),
    ("etcd", "--heartbeat-interval"),
    ("ZooKeeper", "tickTime"),
    ("ZooKeeper", "syncLimit"),
    ("ZooKeeper", "initLimit"),
    ("ZooKeeper", "minSessionTimeout"),
    ("Consul", "raft_multiplier"),
]
OF_ACCRUAL = [
    ("Cassandra", "phi_convict_threshold"),
    ("chitchat", "phi_threshold"),
    ("Akka", "acceptable-heartbeat-pause"),
    ("Akka", "min-std-deviation"),
    ("Hazelcast", "phiaccrual threshold"),
]
SHAPE = ("--nodes", 14, "--group-size", 7, "--slow", 2, "--seed", 5)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Some hours of fourteen nodes, two of which are slow."""
    data = tmp_path_factory.mktemp("truth") / "data"
    told = probe_document("simulate", *SHAPE, "--rounds", 10_000, "--dir", data)
    assert told["rows"] == 14 * 7 * 10_000 and told["resource_rows"] > 0
    return data


def test_what_was_planted_is_found(made):
    found = probe_document("analyze", made)
    assert found["slow_nodes"]["recall"] == found["slow_nodes"]["precision"] == 1.0
    assert len(found["slow_nodes"]["action"]["nodes"]) == 2
    assert found["s_and_t"]["truth"]["exact"] is True
    metrics = found["correlations"]["metrics"]
    assert len(metrics) == 6 and all(metric["truth"]["same_n"] for metric in metrics)
    assert max(metric["truth"]["error"] for metric in metrics) < 1e-6
    assert found["excluded"] == {"files": [], "rows": {}}
    said = probe("analyze", made).stdout
    assert "against the planted ones: recall 1.000, precision 1.000" in said


def test_pauses_that_were_planted_are_counted_to_five_percent(tmp_path):
    often = ("--rounds", 40_000, "--pauses-per-hour", 90, "--no-resources")
    probe_document("simulate", *SHAPE, *often, "--dir", tmp_path / "data")
    found = probe_document("analyze", tmp_path / "data")
    rates = {rate["longer_than_ms"]: rate["error"] for rate in found["pauses"]["rates"]}
    # Longer ones are too rare on half a day.
    assert max(abs(rates[ms]) for ms in (200, 500, 1_000)) < 0.05, rates
    assert found["slow_nodes"]["recall"] == found["slow_nodes"]["precision"] == 1.0
    # So often that nobody knows how many members of a session are late: nothing is claimed.
    assert found["s_and_t"]["truth"] == {"checks": [], "exact": None}


def test_every_target_says_what_it_found_and_nothing_else(made):
    for target, title in TARGETS.items():
        said = probe("calibrate", made, "--target", target).stdout
        assert f"\n{title}" in said, said
        others = [other for name, other in TARGETS.items() if name != target]
        assert not any(f"\n{other}" in said for other in others), said
        expected = {"raft": OF_TIMERS, "accrual": OF_ACCRUAL}.get(target, [])
        for system, name in OF_TIMERS + OF_ACCRUAL:
            assert (f"  {system} {name} " in said) == ((system, name) in expected), (target, system, name)
    everything = probe("calibrate", made).stdout
    assert all(f"\n{title}" in everything for title in TARGETS.values())


def test_settings_are_in_the_units_of_each_system(made):
    found = probe_document("calibrate", made)
    told = {(one["system"], one["name"]): one["value"] for one in found["settings"]}
    assert list(told) == OF_TIMERS + OF_ACCRUAL
    timers = found["raft"]["timers"]
    # etcd: whole milliseconds, five heartbeats at least.
    etcd, beat = (int(told["etcd", name]) for _, name in OF_TIMERS[:2])
    assert etcd == min(50_000, math.ceil(timers["election_timeout_ms"])) and 5 * beat <= etcd
    # ZooKeeper: milliseconds of a tick, then ticks.
    tick, sync, init, session = (int(told[key]) for key in OF_TIMERS[2:6])
    assert tick == round(timers["heartbeat_ms"]) and init >= sync >= 2 and session >= 2 * tick
    assert (sync - 1) * tick < timers["election_timeout_ms"] <= sync * tick
    # Consul: whole seconds, one to ten.
    assert int(told["Consul", "raft_multiplier"]) == min(10, math.ceil(timers["election_timeout_ms"] / 1e3))
    # Cassandra and chitchat: phi, with and without ln 10. Both are rounded up to a tenth.
    phi = float(told["Cassandra", "phi_convict_threshold"])
    assert abs(float(told["chitchat", "phi_threshold"]) - phi * math.log(10)) <= 0.1 * math.log(10) + 0.1
    # Akka: a duration as its configuration has it.
    for _, name in OF_ACCRUAL[2:4]:
        number, unit = told["Akka", name].split()
        assert unit == "ms" and float(number) >= 0
    # What may happen more often takes less, in every system.
    often = probe_document("calibrate", made, "--once-in", "1d")["settings"]
    assert [int(one["value"]) < etcd for one in often if one["name"] == "--election-timeout"] == [True]
    # What these hours say nothing of has no setting, and the page says that there is none.
    never = probe("calibrate", made, "--target", "raft", "--once-in", "3650d").stdout
    assert "\n  election time-out none ms\n" in never and "etcd" not in never
