"""Libraries of JavaScript do their work on Claret and on redis-server, with the same results."""

import contextlib

import pytest
import three_machines
from beside import Redis, same_on_both

STORIES = ["bullmq.mjs", "bull.cjs", "locks_and_limits.mjs", "socket_io.mjs"]


@pytest.mark.parametrize("story", STORIES)
def test_a_library_says_the_same_on_both(node, story, tmp_path):
    assert len(same_on_both(lambda port: node(story, port), tmp_path)) > 3


def test_servers_at_three_machines_reach_each_other_as_at_one(node, tmp_path):
    with contextlib.closing(Redis(tmp_path / "one")) as one:
        wanted = node("socket_io.mjs", "told", one.port)
    with contextlib.closing(three_machines.ClaretCluster(tmp_path / "three")) as three:
        assert node("socket_io.mjs", "told", *three.ports) == wanted
    assert len(wanted) > 400


def test_servers_with_clients_for_clusters_say_the_same_on_both(node, tmp_path):
    said = same_on_both(
        lambda port: node("socket_io.mjs", "cluster", port), tmp_path, three_machines.KINDS
    )
    assert len(said) > 400
