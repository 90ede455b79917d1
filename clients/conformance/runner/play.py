"""One story carried out with one agent."""

import json
import time

from .agents import AgentError
from .compare import Mismatch, check_answer
from .follow import Follow
from .load import AGAIN_S, Load
from .server import Servers, ServerError

# Seconds until a request must be answered, or a transaction paused.
ANSWER_S = 20

# Fields of a step that are no part of its request.
ABOUT_ANSWER = frozenset(["expect", "error", "start", "within"])


class Failure(Exception):
    """A story that failed: the step, and a text of several lines that says why."""

    def __init__(self, number, step, reason, answer=None):
        lines = [f"step {number}: {reason}", f"  step     {shown(step)}"]
        if answer is not None:
            lines.append(f"  received {shown(answer)}")
        self._lines = lines
        super().__init__(number)

    def add(self, text):
        """Adds what else is known, if there is something."""
        self._lines += [text] if text else []

    def __str__(self):
        return "\n".join(self._lines)


def shown(value):
    """A value in one line of JSON."""
    return json.dumps(value, ensure_ascii=False)


class Play:
    """One story with one agent, on servers of its own."""

    def __init__(self, agent, binary, story):
        self._agent = agent
        self._servers = Servers(binary, story)
        self._calls = {}
        self._kept = {}
        self._opened = []

    def carry_out(self, story):
        """Carries the steps out; raises :class:`Failure`."""
        try:
            self._carry_out(story)
        except Failure as failure:
            # Often the reason.
            failure.add(self._servers.last_words())
            raise
        words = self._servers.last_words()
        if words:
            raise Failure(len(story["steps"]), story["steps"][-1], words)

    def _carry_out(self, story):
        number, step = 0, {"open": "the clients"}
        try:
            self._open_clients(story["steps"])
            for number, step in enumerate(story["steps"], 1):
                self._step(number, step)
            number, step = number + 1, {"close": "the clients"}
            for name in self._opened:
                answer = self._agent.ask({"do": "close", "client": name}, ANSWER_S)
                check_answer(answer, {}, self._kept)
        except (AgentError, ServerError, Mismatch) as error:
            raise Failure(number, step, str(error)) from error

    def end(self):
        """Removes the servers."""
        self._servers.remove()

    def _open_clients(self, steps):
        requests = [step["load"] for step in steps if "load" in step] + steps
        named = {name for one in requests for name in _clients(one)}
        by_story = {one["client"] for one in steps if one.get("do") == "open"}
        seeds = self._servers.seeds
        for name in sorted(named - by_story):
            request = self._ready({"do": "open", "client": name, "addresses": seeds})
            check_answer(self._agent.ask(request, ANSWER_S), {}, self._kept)
            self._opened.append(name)

    def _step(self, number, step):
        if "do" in step:
            call = self._agent.send(self._ready(step))
            if "within" in step:
                self._check(number, step, self._until_expected(step, call))
            elif "start" in step:
                self._calls[step["start"]] = call
            else:
                self._check(number, step, call)
        elif "await" in step:
            self._check(number, step, self._calls[step["await"]])
        elif "paused" in step:
            self._check_paused(number, step, self._calls[step["paused"]])
        elif "waits" in step:
            call = self._calls[step["waits"]]
            if call.stir(step["for"] / 1000):
                reason = "it should have waited for that long"
                raise Failure(number, step, reason, call.answer or {"event": "paused"})
        elif "resume" in step or "cancel" in step:
            self._prompt(number, step)
        elif "server" in step:
            self._servers.carry_out(step["server"], step.get("name", "server"))
        elif "file" in step:
            self._servers.write(step["file"], step["text"])
        elif "sleep" in step:
            time.sleep(step["sleep"] / 1000)
        elif "load" in step:
            report = Load(self._agent, self._servers, step["load"]).run()
            if report:
                raise Failure(number, step, report)
        elif "follow" in step:
            report = Follow(self._agent, self._servers, step["follow"]).run()
            if report:
                raise Failure(number, step, report)
        else:
            raise Failure(number, step, "the runner does not know such a step")

    def _ready(self, step):
        """The request of a step as the agent gets it."""
        request = {key: step[key] for key in step if key not in ABOUT_ANSWER}
        if "addresses" in request:
            request["addresses"] = [self._servers.address(name) for name in request["addresses"]]
        for option in ("tls", "certificate", "certificate_key", "password_file"):
            if option in request:
                request[option] = self._servers.file(request[option])
        return request

    def _until_expected(self, step, call):
        """The last of the calls that repeat a request until its answer is the expected one."""
        until = time.monotonic() + step["within"] / 1000
        while time.monotonic() < until:
            answer = call.wait_answer(ANSWER_S)
            try:
                check_answer(answer or {}, step, self._kept)
                break
            except Mismatch:
                time.sleep(AGAIN_S)
                call = self._agent.send(self._ready(step))
        return call

    def _check(self, number, step, call):
        answer = call.wait_answer(ANSWER_S)
        if answer is None:
            raise Failure(number, step, f"no answer in {ANSWER_S} s")
        try:
            check_answer(answer, step, self._kept)
        except Mismatch as mismatch:
            reason = f"{mismatch}\n  request  {shown(call.request)}\n  expected {_expected(step)}"
            raise Failure(number, step, reason, answer) from mismatch

    def _check_paused(self, number, step, call):
        if not call.wait_pause(ANSWER_S):
            raise Failure(number, step, "the transaction did not pause", call.answer)

    def _prompt(self, number, step):
        [action] = step.keys() & {"resume", "cancel"}
        call = self._calls[step[action]]
        call.go_on()
        request = {"do": action, "request": call.number}
        self._check(number, step, self._agent.send(request))


def _expected(step):
    wanted = {key: step[key] for key in ("expect", "error") if key in step}
    return shown(wanted) if wanted else "any value"


def _clients(step):
    return step.get("clients", []) + ([step["client"]] if "client" in step else [])
