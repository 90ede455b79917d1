"""Pipelines over several shards keep their order, with stock clients."""

import asyncio
import threading
import time

import pytest
from claret import Claret, CommitUnknown
from claret.aio import Claret as AsyncClaret
from clusters import Worker
from redis.exceptions import ResponseError

ORDERED = ["--order", "constant"]


def ordered(cluster):
    """The cluster, started so that its pipelines keep their order."""
    for node in cluster.nodes:
        node.flags += ORDERED
    return cluster.start()


def test_a_pipeline_does_what_its_commands_would_do_one_by_one(make_server):
    server = make_server(*ORDERED, shards=4).start()
    with server.client() as client:
        for count in (2, 10, 300):
            client.flushall()
            with client.pipeline(transaction=False) as pipe:
                for number in range(count):
                    pipe.rpush(f"list:{number % 7}", number)
                    pipe.incr("total")
                    pipe.lrange(f"list:{number % 7}", 0, -1)
                replies = pipe.execute()
            lists = {}
            for number in range(count):
                seen = lists.setdefault(number % 7, [])
                seen.append(str(number))
                assert replies[3 * number : 3 * number + 3] == [len(seen), number + 1, seen]
        with client.pipeline(transaction=False) as pipe:
            pipe.set("text", "x").incr("text").incr("total").mset({f"m:{i}": i for i in range(9)})
            pipe.mget([f"m:{i}" for i in range(9)]).dbsize()
            replies = pipe.execute(raise_on_error=False)
        assert isinstance(replies[1], ResponseError) and replies[2] == 301
        assert replies[4] == [str(i) for i in range(9)] and replies[5] == 7 + 1 + 1 + 9


def test_what_one_pipeline_shows_another_one_cannot_miss(make_server):
    """Writers write one key after the other; whoever sees the last one sees all before."""
    server = make_server(*ORDERED, shards=4).start()
    keys = [f"key:{number}" for number in range(8)]
    stop = threading.Event()
    wrong = []

    def write():
        with server.client() as client:
            turn = 0
            while not stop.is_set():
                turn += 1
                with client.pipeline(transaction=False) as pipe:
                    for key in keys:
                        pipe.set(key, turn)
                    pipe.execute()

    def read():
        with server.client() as client:
            while not stop.is_set():
                with client.pipeline(transaction=False) as pipe:
                    for key in reversed(keys):
                        pipe.get(key)
                    seen = [int(value or 0) for value in pipe.execute()]
                if seen != sorted(seen):
                    wrong.append(seen)

    threads = [threading.Thread(target=write)] + [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(3)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert wrong == []


def test_whoever_is_in_no_pipeline_takes_turns_with_those_who_are(make_server):
    """Under ever new pipelines a hot key is never free, and others have their answers all the same."""
    server = make_server(*ORDERED, shards=4).start()
    hot = [f"hot:{number}" for number in range(4)]
    stop = threading.Event()
    pipelines = []

    def load():
        with server.client() as client:
            while not stop.is_set():
                with client.pipeline(transaction=False) as pipe:
                    for key in hot * 4:
                        pipe.incr(key)
                    pipe.execute()
                pipelines.append(1)

    def both(client):
        with client.pipeline(transaction=True) as pipe:
            pipe.incr(hot[0]).incr(hot[1]).execute()

    def locked(client):
        while True:
            try:
                client.execute_command("TXN", "BEGIN")
                client.get(hot[2])
                return client.execute_command("TXN", "COMMIT")
            except ResponseError as error:
                assert "TXNABORT" in str(error)
                client.execute_command("TXN", "ABORT")

    asks = [lambda c: c.incr(hot[0]), lambda c: c.get(hot[1]), lambda c: c.mget(hot), both, locked]
    loads = [threading.Thread(target=load, daemon=True) for _ in range(12)]
    for thread in loads:
        thread.start()
    try:
        with server.client(socket_timeout=30) as client:
            for ask in asks:
                before = len(pipelines)
                for _ in range(5):
                    ask(client)
                while len(pipelines) < before + 12:
                    time.sleep(0.01)
    finally:
        stop.set()
    for thread in loads:
        thread.join(30)


@pytest.mark.parametrize("order", ["single", "none"])
def test_other_orders_answer_the_same(make_server, order):
    server = make_server("--order", order, shards=3).start()
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for number in range(60):
            pipe.incr(f"key:{number % 6}")
        assert pipe.execute() == [number // 6 + 1 for number in range(60)]


class Pipeliner(Worker):
    """Counts on several shards at once; what was acknowledged is counted, once."""

    def __init__(self, cluster, number, stop):
        self.sure = self.unsure = 0
        super().__init__(cluster, number, stop)

    def keys(self):
        return [f"count:{self.number}:{shard}" for shard in range(6)]

    def work(self):
        def count(client):
            with client.pipeline(transaction=False) as pipe:
                for key in self.keys():
                    pipe.incr(key)
                return pipe.execute()

        done, replies = self.roaming.do(count)
        if done:
            self.sure += 1
            assert replies[0] >= self.sure and replies == sorted(replies, reverse=True), replies
        else:
            self.unsure += 1


def test_pipelines_go_on_when_leaders_are_killed(make_cluster):
    cluster = ordered(make_cluster())
    stop = threading.Event()
    workers = [Pipeliner(cluster, number, stop) for number in range(4)]
    for node in cluster.nodes:
        time.sleep(2)
        cluster.kill_and_restart(node, 0.5)
    time.sleep(2)
    Worker.finish(workers, cluster)
    with cluster.nodes[0].client() as client:
        for worker in workers:
            counts = [int(count) for count in client.mget(worker.keys())]
            assert worker.sure > 0, cluster.said()
            for count in counts:
                assert worker.sure <= count <= worker.sure + worker.unsure


def test_dispatched_commands_answer_as_if_each_had_waited(make_server):
    server = make_server(*ORDERED, shards=4).start()
    with Claret(port=server.port, decode_responses=True).dispatch(debug=True) as dispatch:
        total, lists = 0, {}
        for number in range(1000):
            key = f"list:{number % 7}"
            lists.setdefault(key, []).append(dispatch.rpush(key, number))
            seen = dispatch.incr("total")
            if number % 100 == 50:
                total = seen.result()
                assert total == number + 1
    assert all([f.result() for f in one] == [*range(1, len(one) + 1)] for one in lists.values())
    assert server.client().get("total") == "1000"


def test_what_is_dispatched_with_asyncio_is_ordered_by_the_calls(make_server):
    server = make_server(*ORDERED, shards=4).start()

    async def story():
        db = AsyncClaret(port=server.port, decode_responses=True)
        async with db.dispatch() as dispatch:
            counts = [dispatch.incr(f"count:{number % 5}") for number in range(2000)]
            seen = await dispatch.mget([f"count:{number}" for number in range(5)])
            assert seen == ["400"] * 5
            assert [await count for count in counts] == [n // 5 + 1 for n in range(2000)]
            dispatch.lpush("count:1", "x")
            with pytest.raises(ResponseError):
                await dispatch.wait()
        await db.aclose()

    asyncio.run(story())


def test_a_server_that_goes_away_leaves_dispatched_commands_in_doubt(make_server):
    server = make_server(*ORDERED, shards=2).start()
    db = Claret(port=server.port)
    with pytest.raises(CommitUnknown):
        with db.dispatch() as dispatch:
            assert dispatch.incr("a").result() == 1
            server.kill()
            dispatch.incr("b")
            dispatch.incr("c")
    server.start()
    with db.dispatch() as dispatch:
        assert dispatch.incr("a").result() == 2
