"""Popular libraries do their work on Claret as it is shipped, and on redis-server: with the same results.

Each story runs unmodified library code, workers in processes of their own where the library has such.
"""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import redis
from beside import Claret, Redis


@pytest.fixture(scope="module", params=["redis-server", "claret"])
def port(request, tmp_path_factory):
    """The port of a server."""
    folder = tmp_path_factory.mktemp("libraries")
    server = (Redis if request.param == "redis-server" else Claret)(folder / "server")
    yield server.port
    server.close()


@pytest.fixture
def url(port, request):
    """The address of a database of an empty server: the first, unless a test is about another one."""
    redis.Redis(port=port).flushall()
    yield f"redis://127.0.0.1:{port}/{getattr(request, 'param', 0)}"


in_several = pytest.mark.parametrize("url", [0, 3], ids=["db0", "db3"], indirect=True)


def until(condition, timeout_s=30):
    """Waits for a condition."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "this did not happen in time"
        time.sleep(0.02)


class Program:
    """A Python program in a process of its own, with a module `tasks` beside it."""

    def __init__(self, folder, tasks, *words, **environment):
        (folder / "tasks.py").write_text(textwrap.dedent(tasks))
        self.output = open(folder / "output.txt", "w")
        self.process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder), **environment},
            stdout=self.output,
            stderr=subprocess.STDOUT,
        )
        self.folder = folder

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
        self.output.close()

    def said(self):
        """Output of the program."""
        return (self.folder / "output.txt").read_text()


def in_folder(folder, tasks, url):
    """The module `tasks` as this process sees it."""
    path = folder / "tasks.py"
    path.write_text(textwrap.dedent(tasks))
    os.environ["URL"] = url
    spec = {"__name__": "tasks", "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), spec)  # noqa: S102
    return spec


@in_several
def test_the_lock_of_redis_py_is_taken_extended_and_lost(url):
    client = redis.Redis.from_url(url)
    lock = client.lock("work", timeout=10)
    assert lock.acquire(blocking=False)
    assert not client.lock("work", timeout=10).acquire(blocking=False)
    assert lock.extend(20) and client.pttl("work") > 15_000
    assert lock.reacquire() and client.pttl("work") <= 10_000
    lock.release()
    assert client.get("work") is None
    assert lock.acquire()
    client.set("work", "another")
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        lock.release()


def test_a_hundred_threads_share_the_lock_of_redis_py(url):
    client, counted = redis.Redis.from_url(url), []

    def work():
        with client.lock("counter", timeout=10, sleep=0.002):
            seen = len(counted)
            time.sleep(0.0005)
            counted.append(seen)

    threads = [threading.Thread(target=work) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted == list(range(50)), "one after another"


CELERY = """
    import os, time
    from celery import Celery, chord, group
    app = Celery("tasks", broker=os.environ["URL"], backend=os.environ["URL"])
    app.conf.update(broker_connection_retry_on_startup=True, task_acks_late=True, result_expires=600)

    @app.task
    def add(x, y):
        return x + y

    @app.task
    def total(numbers):
        return sum(numbers)

    @app.task(bind=True, max_retries=3, default_retry_delay=0.1)
    def flaky(self, fails):
        if self.request.retries < fails:
            raise self.retry(countdown=0.05)
        return self.request.retries
"""


@in_several
def test_celery_runs_tasks_chords_retries_and_delayed_tasks(url, tmp_path):
    words = ["-m", "celery", "-A", "tasks", "worker", "--pool", "threads", "--concurrency", "2", "-l", "WARNING"]
    with Program(tmp_path, CELERY, *words, URL=url) as worker:
        tasks = in_folder(tmp_path, CELERY, url)
        add, total, flaky = tasks["add"], tasks["total"], tasks["flaky"]
        try:
            assert add.delay(2, 3).get(timeout=40) == 5
            results = tasks["group"](add.s(n, n) for n in range(20))().get(timeout=40)
            assert results == [2 * n for n in range(20)]
            chord = tasks["chord"]([add.s(n, 1) for n in range(10)])(total.s())
            assert chord.get(timeout=40) == sum(range(10)) + 10
            assert flaky.delay(2).get(timeout=40) == 2
            begun = time.monotonic()
            assert add.apply_async((1, 1), countdown=1).get(timeout=40) == 2
            assert time.monotonic() - begun > 0.9
        except Exception as error:
            raise AssertionError(worker.said()[-4000:]) from error
        finally:
            tasks["app"].close()
        assert "Traceback" not in worker.said()


RQ = """
    import os
    def double(n):
        return 2 * n
    def fail():
        raise ValueError("as it should")
"""


@in_several
def test_rq_runs_jobs_and_keeps_their_results(url, tmp_path):
    from rq import Queue, SimpleWorker

    tasks = in_folder(tmp_path, RQ, url)
    connection = redis.Redis.from_url(url)
    queue = Queue("jobs", connection=connection)
    sys.path.insert(0, str(tmp_path))
    sys.modules.pop("tasks", None)
    try:
        jobs = [queue.enqueue("tasks.double", n) for n in range(10)]
        failing = queue.enqueue("tasks.fail")
        after = queue.enqueue("tasks.double", 21, depends_on=jobs[0])
        SimpleWorker([queue], connection=connection).work(burst=True, logging_level="ERROR")
        assert [job.return_value(refresh=True) for job in jobs] == [2 * n for n in range(10)]
        assert after.return_value(refresh=True) == 42
        assert failing.get_status(refresh=True) == "failed"
        assert [job.id for job in map(queue.fetch_job, queue.failed_job_registry.get_job_ids())] == [failing.id]
        result = jobs[3].latest_result()
        assert result.return_value == 6 and tasks["double"](1) == 2
        queue.enqueue("tasks.double", 1, job_id="once")
        assert queue.fetch_job("once").get_status() == "queued"
        queue.empty()
        assert len(queue) == 0
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("tasks", None)


DRAMATIQ = """
    import os
    import dramatiq, redis
    from dramatiq.brokers.redis import RedisBroker
    broker = RedisBroker(url=os.environ["URL"])
    dramatiq.set_broker(broker)
    client = redis.Redis.from_url(os.environ["URL"])

    @dramatiq.actor(max_retries=3, min_backoff=50, max_backoff=100)
    def count(name, fails=0):
        if client.incr("tries:" + name) <= fails:
            raise ValueError("again")
        client.incr("done:" + name)
"""


def test_dramatiq_delivers_retries_and_delays_messages(url, tmp_path):
    import dramatiq

    tasks = in_folder(tmp_path, DRAMATIQ, url)
    broker, count, client = tasks["broker"], tasks["count"], tasks["client"]
    worker = dramatiq.Worker(broker, worker_timeout=100, worker_threads=2)
    worker.start()
    try:
        for n in range(20):
            count.send(f"job-{n}")
        count.send("flaky", fails=2)
        count.send_with_options(args=("late",), delay=500)
        broker.join(count.queue_name, timeout=40_000)
        until(lambda: client.get("done:flaky") and client.get("done:late"))
        assert [client.get(f"done:job-{n}") for n in range(20)] == [b"1"] * 20
        assert client.get("tries:flaky") == b"3"
    finally:
        worker.stop()
        broker.close()


def test_huey_runs_tasks_now_and_later_and_locks(url):
    from huey import PriorityRedisHuey, RedisHuey
    from huey.consumer import Consumer

    for kind in (RedisHuey, PriorityRedisHuey):
        huey = kind("work", url=url)

        @huey.task(retries=2)
        def add(x, y):
            return x + y

        @huey.task()
        @huey.lock_task("only-one")
        def alone(n):
            return n

        consumer = Consumer(huey, workers=2, scheduler_interval=1)
        consumer.start()
        try:
            assert add(1, 2)(blocking=True, timeout=30) == 3
            assert add.schedule((3, 4), delay=1)(blocking=True, timeout=30) == 7
            assert alone(5)(blocking=True, timeout=30) == 5
        finally:
            consumer.stop(graceful=True)
        huey.flush()


def test_rate_limits_of_the_library_limits_hold(url):
    from limits import parse
    from limits.storage import RedisStorage
    from limits.strategies import (
        FixedWindowRateLimiter,
        MovingWindowRateLimiter,
        SlidingWindowCounterRateLimiter,
    )

    storage, five = RedisStorage(url), parse("5/minute")
    for kind in (FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter):
        limiter = kind(storage)
        # A window of the clock may end in between.
        allowed = sum(limiter.hit(five, kind.__name__, "user") for _ in range(20))
        assert 5 <= allowed <= 10 and limiter.hit(five, kind.__name__, "other")
        limiter.clear(five, kind.__name__, "user")
        assert limiter.test(five, kind.__name__, "user")
    assert storage.reset() is not None
    assert redis.Redis.from_url(url).dbsize() == 0


def test_many_threads_pass_a_moving_window_no_more_than_it_allows(url):
    from limits import parse
    from limits.storage import RedisStorage
    from limits.strategies import MovingWindowRateLimiter

    limiter, allowed = MovingWindowRateLimiter(RedisStorage(url)), []
    limit = parse("40/minute")

    def work():
        allowed.extend(limiter.hit(limit, "all") for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(allowed) == 40 and len(allowed) == 160


def test_channels_redis_sends_to_channels_and_groups(url):
    from channels_redis.core import RedisChannelLayer

    async def story():
        layer = RedisChannelLayer(hosts=[url], capacity=3, group_expiry=60)
        name = await layer.new_channel()
        await layer.send(name, {"type": "one"})
        assert (await layer.receive(name))["type"] == "one"
        await layer.send("plain", {"type": "two"})
        assert (await layer.receive("plain"))["type"] == "two"
        await layer.group_add("all", name)
        await layer.group_add("all", "plain")
        await layer.group_send("all", {"type": "three"})
        for channel in (name, "plain"):
            assert (await layer.receive(channel))["type"] == "three"
        for n in range(3):
            await layer.send("full", {"type": str(n)})
        from channels.exceptions import ChannelFull

        with pytest.raises(ChannelFull):
            await layer.send("full", {"type": "more"})
        await layer.group_discard("all", "plain")
        await layer.flush()
        await layer.close_pools()

    asyncio.run(story())


def test_taskiq_works_through_lists_and_streams(url):
    from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend, RedisStreamBroker

    async def story(kind):
        results = RedisAsyncResultBackend(url, result_ex_time=60)
        broker = kind(url, queue_name=kind.__name__).with_result_backend(results)

        @broker.task(task_name="double")
        async def double(n):
            return 2 * n

        await broker.startup()
        tasks = [await double.kiq(n) for n in range(5)]
        from taskiq.receiver import Receiver

        receiver = Receiver(broker, max_async_tasks=2)
        finish = asyncio.Event()
        listening = asyncio.create_task(receiver.listen(finish))
        try:
            found = [(await task.wait_result(timeout=30)).return_value for task in tasks]
            assert found == [0, 2, 4, 6, 8]
        finally:
            finish.set()
            await asyncio.wait([listening], timeout=10)
            await broker.shutdown()

    asyncio.run(story(ListQueueBroker))
    asyncio.run(story(RedisStreamBroker))


def test_pottery_locks_counts_and_keeps_collections(url):
    from pottery import NextID, RedisDict, Redlock

    client = redis.Redis.from_url(url)
    lock = Redlock(key="work", masters={client}, auto_release_time=10)
    assert lock.acquire(blocking=False) and lock.locked() > 5
    lock.extend()
    lock.release()
    ids = NextID(key="ids", masters={client})
    assert [next(ids) for _ in range(5)] == [1, 2, 3, 4, 5]
    kept = RedisDict({"a": 1}, redis=client, key="dict")
    kept["b"] = [2]
    assert dict(kept) == {"a": 1, "b": [2]}


DJANGO = """
    import os
    import django
    from django.conf import settings
    settings.configure(CACHES={"default": {
        "BACKEND": "django_redis.cache.RedisCache", "LOCATION": os.environ["URL"], "TIMEOUT": 60}})
    django.setup()
    from django.core.cache import cache
    cache.set("n", 1)
    assert cache.incr("n", 4) == 5 and cache.get("n") == 5
    assert cache.add("n", 9) is False and cache.get_or_set("m", lambda: 7) == 7
    with cache.lock("work", timeout=10):
        assert cache.lock("work", timeout=10).acquire(blocking=False) is False
    cache.set_many({"a:1": 1, "a:2": 2})
    assert cache.get_many(["a:1", "a:2", "a:3"]) == {"a:1": 1, "a:2": 2}
    assert cache.delete_pattern("a:*") == 2
    assert list(cache.iter_keys("a:*")) == [] and cache.ttl("n") > 0
    cache.clear()
    assert cache.get("n") is None
    print("all is well")
"""


def test_django_redis_caches_counts_and_locks(url, tmp_path):
    with Program(tmp_path, DJANGO, "tasks.py", URL=url) as program:
        program.process.wait(60)
        assert "all is well" in program.said(), program.said()[-4000:]


@in_several
def test_saq_runs_retries_delays_aborts_and_recovers_jobs(url):
    from saq import Job, Queue, Worker
    from saq.job import TERMINAL_STATUSES, Status

    async def story():
        queue, done = Queue.from_url(url, name="work"), []

        async def note(_, *, name, fails=0):
            done.append(name)
            if done.count(name) <= fails:
                raise ValueError("as it should")
            return name.upper()

        async def long(_):
            done.append("long")
            await asyncio.sleep(60)

        async def ended(*jobs):
            for job in jobs:
                while job.status not in TERMINAL_STATUSES:
                    await asyncio.sleep(0.02)
                    await job.refresh()
            return [job.result for job in jobs]

        await queue.connect()
        # It was taken by a worker that died at once.
        lost = await queue.enqueue("note", name="lost", retries=2)
        assert (await queue.dequeue(timeout=5)).key == lost.key and await queue.count("active") == 1
        assert await queue.sweep(lock=1, abort=0.1) == [lost.id]
        functions = [("note", note), ("long", long)]
        worker = Worker(queue, functions, concurrency=4, timers={"abort": 0.1}, dequeue_timeout=0.5)
        working = asyncio.create_task(worker.start())
        try:
            jobs = [await queue.enqueue("note", name=f"job{n}") for n in range(20)]
            assert await ended(*jobs) == [f"JOB{n}" for n in range(20)]
            assert await queue.map("note", [{"name": "a"}, {"name": "b"}], timeout=20) == ["A", "B"]
            flaky = await queue.enqueue("note", name="flaky", fails=2, retries=3)
            failing = await queue.enqueue("note", name="failing", fails=9, retries=2)
            assert await ended(flaky, failing) == ["FLAKY", None]
            assert (flaky.attempts, failing.attempts, failing.status) == (3, 2, Status.FAILED)
            assert "as it should" in failing.error
            due = int(time.time()) + 1
            late = await queue.enqueue("note", name="late", scheduled=due, key="only")
            again = [await queue.enqueue(Job("note", {"name": "late"}, key="only")) for _ in range(5)]
            assert again == [None] * 5 and await queue.count("incomplete") == 1
            assert await ended(late) == ["LATE"] and time.time() >= due
            aborted = await queue.enqueue("long", timeout=0)
            while "long" not in done:
                await asyncio.sleep(0.02)
            await queue.abort(aborted, "not needed")
            await ended(aborted)
            assert (aborted.status, aborted.error) == (Status.ABORTED, "not needed")
            await ended(lost)
            assert lost.result == "LOST" and lost.attempts == 1
            names = {job.kwargs["name"] async for job in queue.iter_jobs([Status.COMPLETE])}
            assert names == {"a", "b", "flaky", "late", "lost"} | {f"job{n}" for n in range(20)}
            assert done.count("late") == 1
            assert [await queue.count(kind) for kind in ("queued", "active", "incomplete")] == [0, 0, 0]
            assert len((await queue.info())["workers"]) == 1
        finally:
            await worker.stop()
            await working
            await queue.disconnect()

    asyncio.run(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize("strategy", ["fixed-window", "moving-window"])
def test_flask_limiter_refuses_what_is_over_a_limit(url, strategy):
    from flask import Flask, request
    from flask_limiter import Limiter

    def user():
        return request.headers.get("User", "none")

    def web():
        app = Flask("shop")
        limiter = Limiter(user, app=app, storage_uri=url, strategy=strategy, headers_enabled=True)

        @app.route("/buy")
        @limiter.limit("30 per hour")
        def buy():
            return "bought"

        @app.route("/failed")
        @limiter.limit("2 per hour", deduct_when=lambda response: response.status_code == 401)
        def failed():
            return "", 401 if request.args.get("wrong") else 200

        @app.route("/open")
        @limiter.exempt
        def open_to_all():
            return "open"

        return app, limiter

    # Two processes of a web site have the same limits; so have two objects here.
    (first, limiter), (second, _) = sites = web(), web()
    codes = []

    def visit(app):
        client = app.test_client()
        codes.extend(client.get("/buy", headers={"User": "me"}).status_code for _ in range(20))

    threads = [threading.Thread(target=visit, args=[app]) for app, _ in sites for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [200] * 30 + [429] * 50
    client = second.test_client()
    refused = client.get("/buy", headers={"User": "me"})
    assert refused.headers["X-RateLimit-Remaining"] == "0"
    assert 3500 < int(refused.headers["Retry-After"]) <= 3601
    other = client.get("/buy", headers={"User": "other"})
    assert (other.status_code, other.headers["X-RateLimit-Remaining"]) == (200, "29")
    visits = ["/failed", "/failed?wrong=1", "/failed", "/failed?wrong=1", "/failed", "/open"]
    assert [client.get(path).status_code for path in visits] == [200, 401, 200, 401, 429, 200]
    limiter.reset()
    assert first.test_client().get("/buy", headers={"User": "me"}).status_code == 200
