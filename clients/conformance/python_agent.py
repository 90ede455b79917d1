#!/usr/bin/env python3
"""Agent of the Python client: does what the stories ask for with the package ``claret``.

It needs redis-py and the folder ``python`` of the repository on its path. Each request has a
thread of its own. Absent, because the client does not offer it: ``cancel``, and the option
``addresses``.
"""

import json
import sys
import threading

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

import claret

OFFERS = (
    "hello open close command run resume batch dispatch lock unlock held fenced stop_renewing "
    "campaign proclaim resign leader observe barrier retained enter give_back define operate "
    "once guards"
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
    (claret.ConflictError, "conflict"),
    (claret.BusyError, "busy"),
    (claret.CommitUnknown, "unknown"),
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
        "may_have_happened": kind == "unknown",
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


class Pauses:
    """Pauses of transactions, each ended by another request."""

    def __init__(self):
        self._lock = threading.Lock()
        self._ended = {}

    def _of(self, number):
        with self._lock:
            return self._ended.setdefault(number, threading.Event())

    def wait(self, number):
        """Waits until the pause of a request is ended."""
        event = self._of(number)
        event.wait()
        event.clear()

    def end(self, number):
        """Ends the pause of a request."""
        self._of(number).set()


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
                known[step.get("as")] = commands.execute_command(*words)
            elif "write" in step:
                words = [self._value(word, known) for word in step["write"]]
                known[step.get("as")] = tx.execute_command(*words)
            elif "pause" in step:
                if self.attempts == 1:
                    self._pause(step["pause"])
            elif "use" in step:
                tx.execute_command("SET", "used", known[step["use"]])
            elif "require" in step:
                tx.require(self._locks[step["require"]])
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
    """State of the agent: clients, locks and elections, kept locks, and pauses, by name."""

    def __init__(self, write):
        self._write = write
        self._clients = {}
        self._locks = {}
        self._kept = {}
        self._pauses = Pauses()

    def answer(self, request):
        """Carries a request out and writes its answer."""
        try:
            value = getattr(self, f"_{request['do']}")(request)
            answer = {"value": plain(value)}
        except Exception as error:  # Whatever happens, the runner is to be told.
            answer = {"error": described(error)}
        self._write({"id": request["id"], **answer})

    def _db(self, request):
        return self._clients[request["client"]]

    def _hello(self, _):
        return {"client": "python", "offers": OFFERS}

    def _open(self, request):
        [address] = request["addresses"]
        host, _, port = address.rpartition(":")
        db = claret.Claret(
            host=host,
            port=int(port),
            decode_responses=True,
            protocol=3,
            # A command that redis-py repeats by itself may take effect twice.
            retry=Retry(NoBackoff(), 0),
        )
        # Replies as the server gives them: redis-py would make `True` of `OK`.
        for name in set(db.response_callbacks) - {"COMMAND"}:
            del db.response_callbacks[name]
        self._clients[request["client"]] = db

    def _close(self, request):
        self._clients.pop(request["client"]).close()

    def _command(self, request):
        try:
            return self._db(request).execute_command(*request["words"])
        except (redis.ConnectionError, redis.TimeoutError) as error:
            if isinstance(error.__context__, ConnectionRefusedError):
                raise
            raise Lost(str(error)) from error

    def _run(self, request):
        options = request.get("options", {})

        def pause(at):
            self._write({"id": request["id"], "event": "paused", "at": at})
            self._pauses.wait(request["id"])

        policy = options_of(options, "attempts_max")
        if "deadline" in options:
            policy["deadline_s"] = seconds(options["deadline"])
        body = Body(request["body"], self._locks, pause)
        value = self._db(request).run(
            body,
            for_update=options.get("update", False),
            policy=claret.RetryPolicy(**policy),
            **options_of(options, "strict", "readonly", "once"),
        )
        return {"value": plain(settled(value)), "attempts": body.attempts}

    def _resume(self, request):
        self._pauses.end(request["request"])

    def _batch(self, request):
        batch = self._db(request).batch()
        for key, value in request.get("guards", []):
            batch.guard(key, value)
        for words in request["commands"]:
            batch.execute_command(*words)
        return batch.execute()

    def _dispatch(self, request):
        with self._db(request).dispatch() as dispatch:
            futures = [dispatch.execute_command(*words) for words in request["commands"]]
            return [self._outcome(future) for future in futures]

    @staticmethod
    def _outcome(future):
        error = future.exception()
        return future.result() if error is None else {"error": described(error)}

    def _lock(self, request):
        how = options_of(request, "shared", "limit", "owner", "detect")
        return self._acquired(request, self._db(request).lock(*self._held_by(request), **how))

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
        if not lock.acquire(seconds(request.get("timeout"))):
            raise claret.NotAcquired(f"{lock.name!r} was not free in time")
        self._locks[request["as"]] = lock
        return {"token": lock.token}

    def _unlock(self, request):
        self._locks.pop(request["lock"]).release()

    def _held(self, request):
        return self._locks[request["lock"]].left > 0

    def _fenced(self, request):
        return self._locks[request["lock"]].fence(*request["words"])

    def _stop_renewing(self, request):
        # Nothing that the client offers: the thread that renews is told to end.
        self._locks[request["lock"]]._stop.set()

    def _proclaim(self, request):
        self._locks[request["election"]].proclaim(request["value"])

    def _resign(self, request):
        self._locks.pop(request["election"]).resign()

    def _leader(self, request):
        leader = self._db(request).election(request["name"]).leader()
        return None if leader is None else leader.value

    def _observe(self, request):
        values = []
        for leader in self._db(request).election(request["name"]).observe():
            if leader is not None:
                values.append(leader.value)
            if len(values) == request["count"]:
                return values
        return values

    def _barrier(self, request):
        barrier = self._db(request).barrier(request["name"], request["parties"])
        return barrier.wait(seconds(request.get("timeout")))

    def _retained(self, request):
        name, lease = self._held_by(request)
        self._kept[request["as"]] = self._db(request).retained(name, lease)

    def _give_back(self, request):
        self._kept.pop(request["retained"]).close()

    def _define(self, request):
        return claret.Type(request["definition"]).define(self._db(request))

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

    agent = Agent(write)
    for line in sys.stdin:
        request = json.loads(line)
        threading.Thread(target=agent.answer, args=(request,), daemon=True).start()


if __name__ == "__main__":
    main()
