"""Keyspace events in a cluster: every machine tells its subscribers what happens to all keys."""

import pytest
import redis
from harness import until

KEYS = [f"key{number}" for number in range(24)]


class Listener:
    """A subscriber to all keyspace events of a server."""

    def __init__(self, server, pattern="__keyspace@*", **options):
        self.client = server.client(**options)
        self.pubsub = self.client.pubsub()
        self.pubsub.psubscribe(pattern)
        assert self.pubsub.get_message(timeout=5)["type"] == "psubscribe"

    def take(self, count, timeout_s=10):
        """The next events: channel and name of each; fewer if they do not come."""
        messages = [self.pubsub.get_message(timeout=timeout_s) for _ in range(count)]
        return [(message["channel"], message["data"]) for message in messages if message]

    def nothing(self, timeout_s=0.5):
        """Whether no event comes for a while."""
        return self.pubsub.get_message(timeout=timeout_s) is None


def switch_on(server, classes="KEA"):
    """Switches events on at a machine."""
    with server.client() as client:
        assert client.config_set("notify-keyspace-events", classes)


def channel(key, database=0):
    return f"__keyspace@{database}__:{key}"


def test_a_machine_that_leads_nothing_tells_the_events_of_all_shards(make_cluster):
    cluster = make_cluster().start()
    leader, other, listening = cluster.nodes
    cluster.let_lead(leader)
    switch_on(listening)
    listener, deaf = Listener(listening), Listener(other)
    with other.client() as writer:
        for key in KEYS:
            writer.set(key, 1)
            writer.delete(key)
        told = listener.take(2 * len(KEYS))
        for key in KEYS:
            assert [event for name, event in told if name == channel(key)] == ["set", "del"]
        with writer.pipeline(transaction=True) as pipe:
            for key in KEYS:
                pipe.rpush(key, "a").lpop(key)
            pipe.execute()
        told = listener.take(3 * len(KEYS))
        for key in KEYS:
            assert [event for name, event in told if name == channel(key)] == ["rpush", "lpop", "del"]
        writer.set("short", 1, px=50)
        assert [event for _, event in listener.take(3)] == ["set", "expire", "expired"]
    assert listener.nothing()
    assert deaf.nothing(), "it is switched on at the machine that is asked, as in Redis"


def test_events_go_on_after_a_change_of_leaders(make_cluster):
    cluster = make_cluster().start()
    leader, *others = cluster.nodes
    cluster.let_lead(leader)
    switch_on(others[0])
    listener = Listener(others[0])
    with others[1].client() as writer:
        writer.set("x", 1)
        assert listener.take(1) == [(channel("x"), "set")]
        leader.kill()
        cluster.wait(others)

        def is_told():
            writer.set("x", 2)
            return (channel("x"), "set") in listener.take(1, 0.2)

        until(is_told, 30)
        until(listener.nothing)
        for key in KEYS:
            writer.set(key, 1)
        assert sorted(listener.take(len(KEYS))) == sorted((channel(key), "set") for key in KEYS)


def test_nothing_is_told_while_it_is_switched_off(make_server):
    server = make_server().start()
    listener = Listener(server)
    with server.client() as client:
        client.set("x", 1)
        assert listener.nothing()
        switch_on(server, "K$")
        until(lambda: client.set("x", 2) and not listener.nothing(0.1))
        until(listener.nothing)
        switch_on(server, "")
        client.set("x", 3)
        assert listener.nothing()


def test_the_setting_is_in_the_file_and_among_the_flags(make_server):
    server = make_server(config='notify_keyspace_events = "xE"\n').start()
    with server.client() as client:
        assert client.config_get("notify-keyspace-events") == {"notify-keyspace-events": "xE"}
        listener = Listener(server, "__keyevent@0__:expired")
        client.set("x", 1, px=20)
        assert listener.take(1) == [("__keyevent@0__:expired", "x")]
    server = make_server("--notify-keyspace-events", "KEA").start()
    with server.client() as client:
        assert client.config_get("notify-keyspace-events") == {"notify-keyspace-events": "AKE"}


def test_a_user_hears_only_the_channels_that_it_may(server):
    switch_on(server)
    with server.client() as client:
        channels = ["__keyevent@0__:*"]
        client.acl_setuser("ann", enabled=True, nopass=True, categories=["+@all"], channels=channels)
        listener = Listener(server, "__keyevent@0__:*", username="ann", password="any")
        with pytest.raises(redis.exceptions.NoPermissionError):
            Listener(server, "__keyspace@0__:*", username="ann", password="any")
        client.set("x", 1)
        assert listener.take(1) == [("__keyevent@0__:set", "x")]
        client.acl_deluser("ann")
    switch_on(server, "")
