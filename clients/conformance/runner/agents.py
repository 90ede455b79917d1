"""Agents: how each is started, and the exchange of requests and answers with one."""

import collections
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[3]

# For each client: the folder of its agent; the command that builds it, or the file that must have
# been built (a pattern), if there is one; the command that starts it; and what that requires.
# `{build}` is a temporary folder, `{file}` the file.
AGENTS = {
    "python": {
        "folder": "clients/conformance",
        "start": ["{python}", "python_agent.py"],
        "requires": "an interpreter with redis-py, which PYTHON_OF_AGENT may name",
    },
    "python-asyncio": {
        "folder": "clients/conformance",
        "start": ["{python}", "python_agent.py"],
        "environment": {"CLARET_DRIVER": "asyncio"},
        "requires": "an interpreter with redis-py, which PYTHON_OF_AGENT may name",
    },
    "typescript": {
        "folder": "clients/typescript",
        "file": "dist/agent.js",
        "start": ["node", "{file}"],
        "requires": "npm ci && npm run build, in clients/typescript",
    },
    "typescript-node-redis": {
        "folder": "clients/typescript",
        "file": "dist/agent.js",
        "start": ["node", "{file}"],
        "environment": {"CLARET_DRIVER": "node-redis"},
        "requires": "npm ci && npm run build, in clients/typescript",
    },
    "go": {
        "folder": "clients/go",
        "build": ["go", "build", "-o", "{build}/go-agent", "./agent"],
        "start": ["{build}/go-agent"],
        "requires": "a Go toolchain",
    },
    "java": {
        "folder": "clients/java",
        "file": "target/*agent*.jar",
        "start": ["java", "-jar", "{file}"],
        "requires": "mvn package, in clients/java",
    },
    "java-lettuce": {
        "folder": "clients/java",
        "file": "target/*agent*.jar",
        "start": ["java", "-jar", "{file}"],
        "environment": {"CLARET_DRIVER": "lettuce"},
        "requires": "mvn package, in clients/java",
    },
    "rust": {
        "folder": ".",
        "file": "target/debug/examples/agent",
        "start": ["{file}"],
        "requires": "cargo build -p claret-client --example agent",
    },
}

# Seconds that an agent has to answer its first request, and to end once its input has ended.
START_S = 30
END_S = 3
# Lines of standard error that are kept for the report of a failure.
LINES_KEPT = 20


# Interpreter of the development environment, which has redis-py; see `CONTRIBUTING.md`.
DEVELOPMENT = ROOT / "target" / "venv" / "bin" / "python"


def python():
    """The interpreter for the agent of the Python client."""
    ours = str(DEVELOPMENT) if DEVELOPMENT.exists() else sys.executable
    return os.environ.get("PYTHON_OF_AGENT", ours)


class AgentError(Exception):
    """An agent that cannot be started, has ended, or does not speak the protocol."""


class Call:
    """A request to an agent that was not necessarily answered yet."""

    def __init__(self, request):
        self.request = request
        #: Number under which it was sent, once it was.
        self.number = None
        self.answer = None
        self.paused = False
        self._changed = threading.Condition()

    def settle(self, answer):
        """Takes the answer."""
        with self._changed:
            self.answer = answer
            self._changed.notify_all()

    def pause(self):
        """Takes the event that the transaction of this request is paused."""
        with self._changed:
            self.paused = True
            self._changed.notify_all()

    def wait_answer(self, seconds):
        """The answer, or `None` if there is none in time."""
        with self._changed:
            self._changed.wait_for(lambda: self.answer is not None, seconds)
            return self.answer

    def wait_pause(self, seconds):
        """Whether the transaction pauses in time."""
        with self._changed:
            self._changed.wait_for(lambda: self.paused or self.answer is not None, seconds)
            return self.paused

    def go_on(self):
        """Forgets the pause, which is over."""
        with self._changed:
            self.paused = False

    def stir(self, seconds):
        """Whether it is answered, or pauses, within a time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.paused or self.answer is not None, seconds)


class Agent:
    """A running agent of a client."""

    def __init__(self, name, command, folder, environment):
        self.name = name
        self.errors = collections.deque(maxlen=LINES_KEPT)
        # Unanswered calls by their number.
        self._calls = {}
        self._next = 1
        self._lock = threading.Lock()
        self._ended = False
        try:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                # Ctrl-C is for the runner, which ends the agents in order.
                start_new_session=True,
            )
        except OSError as error:
            raise AgentError(f"{shlex.join(command)}: {error}") from error
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._read_errors, daemon=True).start()

    def send(self, request):
        """Sends a request and returns its call."""
        call = Call(request)
        with self._lock:
            if self._ended:
                raise AgentError(f"the agent of {self.name} has ended")
            number, self._next = self._next, self._next + 1
            self._calls[number] = call
            call.number = number
            try:
                self._process.stdin.write(json.dumps({"id": number, **request}) + "\n")
                self._process.stdin.flush()
            except OSError as error:
                raise AgentError(f"the agent of {self.name} has ended") from error
        return call

    def ask(self, request, seconds):
        """The answer to a request; an answer that is late is an error."""
        answer = self.send(request).wait_answer(seconds)
        if answer is None:
            raise AgentError(f"{self.name} did not answer {json.dumps(request)} in {seconds} s")
        return answer

    def end(self):
        """Ends the agent."""
        try:
            self._process.stdin.close()
        except OSError:
            pass
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self):
        for line in self._process.stdout:
            if line.strip():
                self._take(line)
        with self._lock:
            self._ended = True
            calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            call.settle({"lost": f"the agent of {self.name} has ended"})

    def _take(self, line):
        try:
            answer = json.loads(line)
            call = self._calls[answer["id"]]
        except (ValueError, TypeError, KeyError):
            self.errors.append(f"not an answer: {line.rstrip()}")
            return
        if answer.get("event") == "paused":
            call.pause()
            return
        with self._lock:
            self._calls.pop(answer["id"], None)
        call.settle(answer)

    def _read_errors(self):
        for line in self._process.stderr:
            self.errors.append(line.rstrip())


class Workshop:
    """Starts agents, and builds those that must be built, once each."""

    def __init__(self):
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="claret-agents-"))
        self._built = set()

    def close(self):
        """Removes what was built."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self, name):
        """The agent of a client, ready for requests, and what it offers."""
        about = AGENTS[name]
        folder = ROOT / about["folder"]
        found = next(iter(sorted(folder.glob(about.get("file", "*")))), None)
        if found is None:
            raise AgentError(f"the agent is not there; it requires: {about['requires']}")
        if "build" in about and name not in self._built:
            self._build(name, about, folder)
        command = [self._filled(word).replace("{file}", str(found)) for word in about["start"]]
        agent = Agent(name, command, folder, self._environment(name))
        try:
            answer = agent.ask({"do": "hello"}, START_S)
            return agent, set(answer["value"]["offers"])
        except (AgentError, KeyError, TypeError) as error:
            agent.end()
            lines = [f"no hello ({error}); it requires: {about['requires']}", *agent.errors]
            raise AgentError("\n".join(lines)) from error

    def _build(self, name, about, folder):
        command = [self._filled(word) for word in about["build"]]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        except OSError as error:
            raise AgentError(f"{error}; it requires: {about['requires']}") from error
        if done.returncode:
            raise AgentError(f"{shlex.join(command)} failed:\n{done.stdout}{done.stderr}")
        self._built.add(name)

    def _filled(self, word):
        return word.replace("{build}", str(self._folder)).replace("{python}", python())

    def _environment(self, name):
        # For the agent of the Python client.
        paths = [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
        path = os.pathsep.join(path for path in paths if path)
        return {"PYTHONPATH": path, **AGENTS[name].get("environment", {})}
