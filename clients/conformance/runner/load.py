"""Many requests side by side while the server is killed again and again."""

import json
import threading
import time

from .agents import AgentError

# Seconds within which some request must be acknowledged, from any moment on.
PROGRESS_S = 30
# Seconds until one request must be answered: longer than a client tries by itself.
ANSWER_S = 45
# Milliseconds between the kill of the server and its start, if the story sets no other time.
DOWN_MS = 100
# Seconds before a request that was not acknowledged is sent again.
AGAIN_S = 0.02

# Seconds within which the outcome must be readable after the last start of the server.
READ_S = 5

# Errors of requests that had no effect. `unknown` may have had one, `repeated` has.
NO_EFFECT = frozenset(["conflict", "busy", "connection", "not_acquired", "lock_lost"])


class Load:
    """A load step of a story; `README.md` says what it does."""

    def __init__(self, agent, servers, about):
        self._agent = agent
        self._servers = servers
        self._about = about
        self._changed = threading.Condition()
        self._next = 1
        self._stopped = False
        # Numbers of the requests by outcome.
        self._acknowledged = set()
        self._unknown = set()
        self._without_effect = set()
        self._faults = []

    def run(self):
        """Carries it out; returns what is wrong, or an empty text."""
        workers = [
            threading.Thread(target=self._work, args=(at,), daemon=True)
            for at in range(self._about["side_by_side"])
        ]
        for worker in workers:
            worker.start()
        try:
            for _ in range(self._about["kills"]):
                self._progress()
                kill_and_start(self._servers, self._about)
            self._progress()
        finally:
            with self._changed:
                self._stopped = True
        for worker in workers:
            worker.join(ANSWER_S)
        return "\n".join(self._faults or self._check())

    def _progress(self):
        """Waits until so many more requests are acknowledged, or a fault is found."""
        with self._changed:
            goal = len(self._acknowledged) + self._about["between"]
            while len(self._acknowledged) < goal and not self._faults:
                if not self._changed.wait(PROGRESS_S):
                    self._faults.append(f"no request was acknowledged in {PROGRESS_S} s")

    def _work(self, at):
        clients = self._about["clients"]
        while True:
            with self._changed:
                if self._stopped or self._faults:
                    return
                number, self._next = self._next, self._next + 1
            client = clients[at % len(clients)]
            try:
                self._carry_out(number, client)
            except Exception as error:  # Whatever it is, the load must not wait for this worker.
                self._fault(f"request {number}: {error}")

    def _carry_out(self, number, client):
        if "before" in self._about and self._ask(self._about["before"], number, client) != "done":
            return
        while True:
            kind = self._ask(self._about["request"], number, client)
            if kind in ("done", "repeated") or not self._about.get("again"):
                break
            time.sleep(AGAIN_S)
        self._record(number, kind)
        if "after" in self._about:
            self._ask(self._about["after"], number, client)

    def _ask(self, template, number, client):
        """The outcome of a request: `done`, or the kind of its error."""
        request = numbered(template, number)
        if "lock" not in request:
            request["client"] = client
        answer = self._agent.ask(request, ANSWER_S)
        error = answer.get("error")
        if error is None and "value" in answer:
            return "done"
        error = error or {}
        kind = "unknown" if error.get("may_have_happened") else error.get("kind")
        if kind in ("unknown", "repeated") or kind in NO_EFFECT:
            return kind
        raise RuntimeError(f"{json.dumps(request)}\n  received {json.dumps(answer)}")

    def _record(self, number, kind):
        with self._changed:
            if kind in ("done", "repeated"):
                self._acknowledged.add(number)
            elif kind == "unknown":
                self._unknown.add(number)
            else:
                self._without_effect.add(number)
            self._changed.notify_all()

    def _fault(self, text):
        """Records what must not happen, which ends the load."""
        with self._changed:
            self._faults.append(text)
            self._changed.notify_all()

    def _check(self):
        counter = int(self._read(["GET", self._about["counter"]]) or 0)
        members = {int(word) for word in self._read(["SMEMBERS", self._about["members"]])}
        wrong = []
        missing = sorted(self._acknowledged - members)
        if missing:
            wrong.append(f"acknowledged, but lost: {missing}")
        phantoms = sorted(members & self._without_effect)
        if phantoms:
            wrong.append(f"reported as without effect, but done: {phantoms}")
        if counter != len(members):
            wrong.append(f"the counter is {counter}, and {len(members)} requests are done")
        if wrong:
            counts = (len(self._acknowledged), len(self._unknown), len(self._without_effect))
            wrong.append("acknowledged %d, unknown %d, without effect %d" % counts)
        return wrong

    def _read(self, words):
        client = self._about["clients"][0]
        request = {"do": "command", "client": client, "words": words}
        until = time.monotonic() + READ_S
        while True:
            answer = self._agent.ask(request, ANSWER_S)
            if answer.get("error") is None and "value" in answer:
                return answer["value"]
            # A connection from before the last kill may still be in use.
            if time.monotonic() > until:
                raise AgentError(f"{words}: {json.dumps(answer)}")
            time.sleep(AGAIN_S)


def kill_and_start(servers, about):
    """Kills the machine of a step, and starts it again after the time for which it is to be down."""
    machine = about.get("machine", "server")
    servers.carry_out("kill", machine)
    time.sleep(about.get("down", DOWN_MS) / 1000)
    servers.carry_out("start", machine)


def numbered(value, number):
    """A request with its number in the place of each `{n}`."""
    if isinstance(value, str):
        return value.replace("{n}", str(number))
    if isinstance(value, list):
        return [numbered(one, number) for one in value]
    if isinstance(value, dict):
        return {key: numbered(one, number) for key, one in value.items()}
    return value
