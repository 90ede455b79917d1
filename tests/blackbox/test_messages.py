"""Messages of PUBLISH and SPUBLISH in a cluster: they reach the subscribers of all machines, in order."""

import redis
from harness import until
from redis.exceptions import ResponseError

MESSAGES = 300


class Listener:
    """A subscriber of one machine to a channel, a pattern and a sharded channel."""

    def __init__(self, node):
        self.client = node.client()
        self.pubsub = self.client.pubsub()
        self.pubsub.subscribe("news")
        self.pubsub.psubscribe("wea*")
        self.pubsub.ssubscribe("news")
        confirmed = [self.pubsub.get_message(timeout=5)["type"] for _ in range(3)]
        assert confirmed == ["subscribe", "psubscribe", "ssubscribe"]

    def take(self, count):
        """The next messages: type, channel and text of each."""
        taken = []
        for _ in range(count):
            message = self.pubsub.get_message(timeout=10)
            assert message, f"{count} messages, of which {len(taken)} have come"
            taken.append((message["type"], message["channel"], message["data"]))
        return taken

    def nothing(self):
        """Whether no more has come."""
        return self.pubsub.get_message(timeout=0.2) is None

    def close(self):
        self.pubsub.close()
        self.client.close()


def test_messages_reach_the_subscribers_of_all_machines_in_order(make_cluster):
    cluster = make_cluster(workers=2).start()
    listeners = [Listener(node) for node in cluster.nodes]
    for number, node in enumerate(cluster.nodes):
        with node.client() as client:
            pipe = client.pipeline(transaction=False)
            for n in range(MESSAGES):
                pipe.publish("news", f"{number}-{n}")
                pipe.spublish("news", f"sharded-{n}")
                pipe.publish("weather", n)
            # As in a Redis cluster: the subscribers of this machine.
            assert set(pipe.execute()) == {1}
    for listener in listeners:
        taken = listener.take(3 * 3 * MESSAGES)
        for number in range(3):
            own = [("message", "news", f"{number}-{n}") for n in range(MESSAGES)]
            assert [m for m in taken if m[2].startswith(f"{number}-")] == own
        sharded = [m for m in taken if m[0] == "smessage"]
        assert sorted(sharded) == sorted([("smessage", "news", f"sharded-{n}") for n in range(MESSAGES)] * 3)
        assert len([m for m in taken if m[0] == "pmessage"]) == 3 * MESSAGES
        assert listener.nothing()
        listener.close()


def test_messages_of_transactions_and_scripts_reach_all_machines_once(make_cluster):
    cluster = make_cluster().start()
    listeners = [Listener(node) for node in cluster.nodes]
    with cluster.nodes[1].client() as client:
        with client.pipeline(transaction=True) as pipe:
            pipe.incr("a").incr("b").publish("news", "transaction").incr("c")
            assert pipe.execute() == [1, 1, 1, 1]
        publishing = "redis.call('INCR', KEYS[1]); redis.call('SPUBLISH', 'news', 'script'); return 1"
        assert client.eval(publishing, 1, "a") == 1
        failing = "redis.call('PUBLISH', 'news', 'never'); redis.call('LPUSH', KEYS[1], 'x'); return 1"
        try:
            client.eval(failing, 1, "a")
            raise AssertionError("a write to a value of another type")
        except ResponseError:
            pass
        client.execute_command("CLIENT", "REQUEST", "once", 1)
    for listener in listeners:
        assert listener.take(2) == [("message", "news", "transaction"), ("smessage", "news", "script")]
        assert listener.nothing()
    # Under a request number the message goes out once, whichever machine is asked again.
    for node in cluster.nodes:
        with node.client(single_connection_client=True) as client:
            client.execute_command("CLIENT", "REQUEST", "once", 1)
            client.publish("news", "numbered")
    for listener in listeners:
        assert listener.take(1) == [("message", "news", "numbered")]
        assert listener.nothing()
        listener.close()


def test_messages_go_on_when_machines_are_lost_and_come_back(make_cluster):
    cluster = make_cluster().start()
    first, _, last = cluster.nodes
    listener = Listener(last)
    last_but_one = cluster.nodes[1]
    last_but_one.kill()
    with first.client() as client:
        client.publish("news", "without it")
    assert listener.take(1) == [("message", "news", "without it")]
    last_but_one.start()
    cluster.wait()
    again = Listener(last_but_one)

    def reaches():
        with first.client() as client:
            client.publish("news", "back")
        return not again.nothing()

    until(reaches, 20, "a message to a machine that is back")
    listener.close()
    again.close()


def test_a_cluster_client_uses_sharded_channels(make_cluster):
    cluster = make_cluster().start()
    client = redis.RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port, decode_responses=True)
    channels = [f"channel{n}" for n in range(12)]
    pubsub = client.pubsub()
    for channel in channels:
        pubsub.ssubscribe(channel)

    def confirmed():
        while (message := pubsub.get_sharded_message(timeout=0.2)) is not None:
            assert message["type"] == "ssubscribe"
            channels_confirmed.add(message["channel"])
        return len(channels_confirmed) == len(channels)

    channels_confirmed = set()
    until(confirmed, 20, "subscriptions")
    for n, channel in enumerate(channels):
        assert client.spublish(channel, n) >= 0
    received = {}

    def all_received():
        while (message := pubsub.get_sharded_message(timeout=0.2)) is not None:
            received[message["channel"]] = message["data"]
        return len(received) == len(channels)

    until(all_received, 20, "messages")
    assert received == {channel: str(n) for n, channel in enumerate(channels)}
    pubsub.close()
    client.close()


def test_flushed_scripts_are_forgotten_by_all_machines(make_cluster):
    cluster = make_cluster().start()
    with cluster.nodes[0].client() as client:
        sha = client.script_load("return 7")
    for node in cluster.nodes:
        with node.client() as client:
            assert client.evalsha(sha, 0) == 7
    with cluster.nodes[0].client() as client:
        assert client.script_flush()

    def forgotten():
        for node in cluster.nodes:
            with node.client() as client:
                try:
                    client.evalsha(sha, 0)
                    return False
                except ResponseError as error:
                    assert "NOSCRIPT" in repr(error) or "No matching script" in str(error)
        return True

    until(forgotten, 5, "no machine knows the script")
