#!/usr/bin/env python3
"""Agent of the Python client: does what the stories ask for with the package ``claret``.

It needs redis-py and the folder ``python`` of the repository on its path. ``CLARET_DRIVER`` says with
which client: ``blocking``, where each request has a thread of its own, or ``asyncio``, where it has a
task. What a request does is written once, as a generator: it yields what the blocking client has
returned already, and what a task has to await.
"""

import asyncio
import inspect
import json
import os
import sys
import threading
from operator import methodcaller

import redis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

import claret
from claret import aio

OFFERS = (
    "hello open close command run resume cancel batch dispatch lock unlock held fenced "
    "stop_renewing section campaign proclaim resign leader observe barrier retained enter "
    "give_back define migrate operate cache cached cache_stats close_cache "
    "once guards addresses near next tls certificate password_file closed"
).split()

# Kinds of the client's errors. The first one that fits counts.
KINDS = (
    (claret.Undone, "undone"),
    (claret.WriteRefused, "write_refused"),
    (claret.RepeatedError, "repeated"),
    (claret.DeadlockError, "deadlock"),
    (claret.LockLost, "lock_lost"),
    (claret.NotAcquired, "not_acquired"),
    (claret.OrderError, "order"),
    (claret.TransactionClosed, "closed"),
    (claret.ClientClosed, "closed"),
    (claret.ConflictError, "conflict"),
    (claret.BusyError, "busy"),
    (claret.CommitUnknown, "unknown"),
    (claret.Cancelled, "cancelled"),
    (asyncio.CancelledError, "cancelled"),
    (redis.AuthenticationError, "rejected"),
    (redis.ConnectionError, "connection"),
    (redis.TimeoutError, "connection"),
    (redis.ResponseError, "rejected"),
)


class BodyFailed(Exception):
    """The error of a transaction's own function."""


class Lost(Exception):
    """The connection broke while a single command was under way."""


def described(error):
    """An error as the runner reads it."""
    if isinstance(error, BodyFailed):
        kind = "body"
    elif isinstance(error, Lost):
        kind = "unknown"
    else:
        kind = next((kind for of, kind in KINDS if isinstance(error, of)), "agent")
    return {
        "kind": kind,
        "retryable": bool(getattr(error, "retryable", False)),
        "may_have_happened": kind == "unknown" or getattr(error, "maybe_committed", False),
        "message": f"{type(error).__name__}: {error}",
    }


def plain(value):
    """A reply as JSON has it."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {str(plain(key)): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(one) for one in value]
    return value


def seconds(milliseconds):
    """A time of the protocol as the client takes it."""
    return None if milliseconds is None else milliseconds / 1000


def options_of(request, *names):
    """Options that have the same name and meaning in the client."""
    return {name: request[name] for name in names if name in request}


class Threads:
    """Carries requests out with the blocking client, each in a thread."""

    client = claret.Claret
    retry = Retry(NoBackoff(), 0)
    close = methodcaller("close")
    # A dispatch, the reply of one of its commands, and its end after the errors were seen.
    begin, result = methodcaller("__enter__"), methodcaller("result")
    end = methodcaller("__exit__", None, None, None)
    # The next leader of an election.
    following = staticmethod(next)

    def __init__(self):
        # For each request, its :class:`claret.Cancel`, and the event that ends its pause.
        self._under_way = {}

    def serve(self, agent):
        """Answers the requests on standard input until it ends."""
        for line in sys.stdin:
            request = json.loads(line)
            self._under_way[request["id"]] = (claret.Cancel(), threading.Event())
            steps = agent.answer(request)
            threading.Thread(target=self._carry_out, args=(steps,), daemon=True).start()

    def function(self, body):
        """The function of a transaction."""
        return lambda tx: self._carry_out(body(tx))

    @staticmethod
    def _carry_out(steps):
        value = None
        while True:
            try:
                value = steps.send(value)
            except StopIteration as end:
                return end.value

    def pause(self, number):
        """Waits until the pause of a request is ended."""
        cancel, ended = self._under_way[number]
        ended.wait()
        ended.clear()
        cancel.check()

    def resume(self, number):
        """Ends the pause of a request."""
        self._under_way[number][1].set()

    def cancel(self, number):
        """Gives a request up."""
        self._under_way[number][0].cancel()
        self.resume(number)

    def giving_up(self, request):
        """The argument by which a call can be given up."""
        return {"cancel": self._under_way[request["id"]][0]}


class Tasks:
    """Carries requests out with the client for asyncio, each in a task."""

    client = aio.Claret
    retry = AsyncRetry(NoBackoff(), 0)
    close = methodcaller("aclose")
    begin, result = methodcaller("__aenter__"), staticmethod(lambda reply: reply)
    end = methodcaller("__aexit__", None, None, None)
    following = methodcaller("__anext__")

    def __init__(self):
        # For each request, its task, and the event that ends its pause.
        self._under_way = {}

    def serve(self, agent):
        """Answers the requests on standard input until it ends."""
        asyncio.run(self._serve(agent))

    async def _serve(self, agent):
        loop = asyncio.get_running_loop()
        while True:
            line = await loop.run_in_executor(None, sys.stdin.readline)
            if not line:
                return
            request = json.loads(line)
            task = loop.create_task(self._carry_out(agent.answer(request)))
            self._under_way[request["id"]] = (task, asyncio.Event())

    def function(self, body):
        """The function of a transaction."""

        async def function(tx):
            return await self._carry_out(body(tx))

        return function

    @staticmethod
    async def _carry_out(steps):
        value = error = None
        while True:
            try:
                value = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value
            error = None
            if inspect.isawaitable(value):
                try:
                    value = await value
                except BaseException as raised:  # The generator deals with it.
                    error = raised

    async def pause(self, number):
        """Waits until the pause of a request is ended."""
        await self._under_way[number][1].wait()
        self._under_way[number][1].clear()

    def resume(self, number):
        """Ends the pause of a request."""
        self._under_way[number][1].set()

    def cancel(self, number):
        """Gives a request up."""
        self._under_way[number][0].cancel()

    def giving_up(self, _):
        """A task is cancelled, which takes no argument."""
        return {}


class Body:
    """The function of a transaction, made of the steps of a request."""

    def __init__(self, steps, locks, pause):
        self.attempts = 0
        self._steps = steps
        self._locks = locks
        self._pause = pause

    def __call__(self, tx):
        self.attempts += 1
        known, result = {}, None
        for step in self._steps:
            if "ask" in step:
                words = [self._value(word, known) for word in step["ask"]]
                commands = tx.for_update if step.get("update") else tx
                known[step.get("as")] = yield commands.execute_command(*words)
            elif "write" in step:
                words = [self._value(word, known) for word in step["write"]]
                known[step.get("as")] = yield tx.execute_command(*words)
            elif "pause" in step:
                if self.attempts == 1:
                    yield self._pause(step["pause"])
            elif "use" in step:
                yield tx.execute_command("SET", "used", known[step["use"]])
            elif "require" in step:
                yield tx.require(self._locks[step["require"]])
            elif "fail" in step:
                raise BodyFailed(step["fail"])
            elif "return" in step:
                result = self._result(step["return"], known)
        return result

    def _result(self, expression, known):
        """A returned value: deferred replies stay what they are until the commit."""
        if isinstance(expression, list):
            return [self._result(one, known) for one in expression]
        return self._value(expression, known)

    def _value(self, expression, known):
        if not isinstance(expression, dict):
            return expression
        if "var" in expression:
            return known[expression["var"]]
        term, number = expression["add"]
        return str(int(self._value(term, known) or 0) + number)


def settled(value):
    """A returned value after the commit, with replies in the place of deferred ones."""
    if isinstance(value, list):
        return [settled(one) for one in value]
    return value.value if isinstance(value, claret.Deferred) else value


class Agent:
    """State of the agent: clients, locks and elections, kept locks, and caches, by name."""

    def __init__(self, driver, write):
        self._driver = driver
        self._write = write
        self._clients = {}
        self._locks = {}
        self._kept = {}
        self._caches = {}

    def answer(self, request):
        """Carries a request out and writes its answer."""
        try:
            value = getattr(self, f"_{request['do']}")(request)
            if inspect.isgenerator(value):
                value = yield from value
            else:
                value = yield value
            answer = {"value": plain(value)}
        except BaseException as error:  # Whatever happens, the runner is to be told.
            answer = {"error": described(error)}
        self._write({"id": request["id"], **answer})

    def _db(self, request):
        return self._clients[request["client"]]

    def _hello(self, _):
        return {"client": "python", "offers": OFFERS}

    def _open(self, request):
        how = options_of(request, "addresses", "username", "password_file")
        if "tls" in request:
            how.update(ssl=True, ssl_ca_certs=request["tls"])
        if "certificate" in request:
            how.update(ssl_certfile=request["certificate"], ssl_keyfile=request["certificate_key"])
        # A command that redis-py repeats by itself may take effect twice.
        db = self._driver.client(
            decode_responses=True, protocol=3, retry=self._driver.retry, **how
        )
        # Replies as the server gives them: redis-py would make `True` of `OK`.
        for name in set(db.response_callbacks) - {"COMMAND"}:
            del db.response_callbacks[name]
        self._clients[request["client"]] = db

    def _close(self, request):
        return self._driver.close(self._db(request))

    def _command(self, request):
        try:
            return (yield self._db(request).execute_command(*request["words"]))
        except (claret.NotReached, redis.AuthenticationError):
            raise
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise Lost(str(error)) from error

    def _run(self, request):
        options = request.get("options", {})

        def pause(at):
            self._write({"id": request["id"], "event": "paused", "at": at})
            return self._driver.pause(request["id"])

        policy = options_of(options, "attempts_max")
        if "deadline" in options:
            policy["deadline_s"] = seconds(options["deadline"])
        body = Body(request["body"], self._locks, pause)
        value = yield self._db(request).run(
            self._driver.function(body),
            for_update=options.get("update", False),
            policy=claret.RetryPolicy(**policy),
            **options_of(options, "strict", "readonly", "once"),
            **self._driver.giving_up(request),
        )
        return {"value": plain(settled(value)), "attempts": body.attempts}

    def _resume(self, request):
        self._driver.resume(request["request"])

    def _cancel(self, request):
        self._driver.cancel(request["request"])

    def _batch(self, request):
        batch = self._db(request).batch()
        for key, value in request.get("guards", []):
            batch.guard(key, value)
        for words in request["commands"]:
            batch.execute_command(*words)
        return batch.execute()

    def _dispatch(self, request):
        dispatch, outcomes = self._db(request).dispatch(), []
        yield self._driver.begin(dispatch)
        try:
            for future in [dispatch.execute_command(*words) for words in request["commands"]]:
                try:
                    outcomes.append((yield self._driver.result(future)))
                except redis.RedisError as error:
                    outcomes.append({"error": described(error)})
        finally:
            yield self._driver.end(dispatch)
        return outcomes

    def _lock(self, request):
        how = options_of(request, "shared", "limit", "owner", "detect", "near", "next")
        return self._acquired(request, self._db(request).lock(*self._held_by(request), **how))

    def _section(self, request):
        how = options_of(request, "shared", "limit", "owner", "detect")
        how.update(timeout=seconds(request.get("timeout")), **self._driver.giving_up(request))
        section = self._db(request).section(request["name"], **how)
        value = yield section.execute_command(*request["words"])
        return {"value": value, "token": section.token}

    def _campaign(self, request):
        name, lease = self._held_by(request)
        election = self._db(request).election(name, request["value"], lease)
        return self._acquired(request, election)

    @staticmethod
    def _held_by(request):
        return request["name"], seconds(request.get("lease", 30_000))

    def _enter(self, request):
        return self._acquired(request, self._kept[request["retained"]].lock())

    def _acquired(self, request, lock):
        timeout = seconds(request.get("timeout"))
        if not (yield lock.acquire(timeout, **self._driver.giving_up(request))):
            raise claret.NotAcquired(f"{lock.name!r} was not free in time")
        self._locks[request["as"]] = lock
        return {"token": lock.token}

    def _unlock(self, request):
        yield self._locks.pop(request["lock"]).release()

    def _held(self, request):
        return self._locks[request["lock"]].left > 0

    def _fenced(self, request):
        return self._locks[request["lock"]].fence(*request["words"])

    def _stop_renewing(self, request):
        self._locks[request["lock"]].stop_renewing()

    def _proclaim(self, request):
        yield self._locks[request["election"]].proclaim(request["value"])

    def _resign(self, request):
        yield self._locks.pop(request["election"]).resign()

    def _leader(self, request):
        leader = yield self._db(request).election(request["name"]).leader()
        return None if leader is None else leader.value

    def _observe(self, request):
        values, leaders = [], self._db(request).election(request["name"]).observe()
        while len(values) < request["count"]:
            leader = yield self._driver.following(leaders)
            if leader is not None:
                values.append(leader.value)
        return values

    def _barrier(self, request):
        barrier = self._db(request).barrier(request["name"], request["parties"])
        timeout = seconds(request.get("timeout"))
        return barrier.wait(timeout, **self._driver.giving_up(request))

    def _retained(self, request):
        name, lease = self._held_by(request)
        self._kept[request["as"]] = self._db(request).retained(name, lease)

    def _give_back(self, request):
        return self._kept.pop(request["retained"]).close()

    def _cache(self, request):
        limits = {"entries": "max_entries", "reply_bytes": "max_reply_bytes"}
        how = {limits[name]: request[name] for name in limits if name in request}
        self._caches[request["as"]] = self._db(request).cache(**how)

    def _cached(self, request):
        return self._caches[request["cache"]].read(*request["words"])

    def _cache_stats(self, request):
        return self._caches[request["cache"]].stats._asdict()

    def _close_cache(self, request):
        return self._driver.close(self._caches[request["cache"]])

    def _define(self, request):
        return claret.Type(request["definition"]).define(self._db(request))

    def _migrate(self, request):
        return claret.Type(request["definition"]).migrate(self._db(request))

    def _operate(self, request):
        value = claret.Type(request["definition"])(self._db(request), request["key"])
        return value.call(request["operation"], *request["arguments"])


def main():
    """Answers the requests on standard input until it ends."""
    writing = threading.Lock()

    def write(answer):
        with writing:
            sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
            sys.stdout.flush()

    drivers = {"blocking": Threads, "asyncio": Tasks}
    driver = drivers[os.environ.get("CLARET_DRIVER", "blocking")]()
    driver.serve(Agent(driver, write))


if __name__ == "__main__":
    main()
