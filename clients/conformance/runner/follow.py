"""A counter that is read through caches while it counts up."""

import threading
import time

from .load import AGAIN_S, ANSWER_S, kill_and_start

KEY = "n"
# Seconds after the last write within which each cache must show its value.
SEEN_S = 2
# Seconds that the writer has for its writes after each start of the server.
WRITE_S = 60
# Seconds between two reads of a reader, which must not take the time of the writer.
READ_PAUSE_S = 0.005

# Errors of requests while the server is down.
MOMENTARY = frozenset(["connection", "busy", "unknown"])


class Follow:
    """A follow step of a story; `README.md` says what it does."""

    def __init__(self, agent, servers, about):
        self._agent = agent
        self._servers = servers
        self._about = about
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._written = 0
        # For each cache, the greatest value that a read has shown.
        self._seen = dict.fromkeys(about["caches"], 0)
        self._faults = []

    def run(self):
        """Carries it out; returns what is wrong, or an empty text."""
        readers = [
            threading.Thread(target=self._guarded, args=(self._read, cache), daemon=True)
            for cache in self._about["caches"]
            for _ in range(self._about["side_by_side"])
        ]
        for reader in readers:
            reader.start()
        try:
            self._guarded(self._write)
            if not self._faults:
                self._guarded(self._check_last)
        finally:
            self._stopped.set()
        for reader in readers:
            reader.join(ANSWER_S)
        return "\n".join(self._faults)

    def _guarded(self, work, *arguments):
        try:
            work(*arguments)
        except Exception as error:  # Whatever it is, it is the story's failure.
            self._fault(f"{type(error).__name__}: {error}")

    def _fault(self, text):
        with self._lock:
            self._faults.append(text)
        self._stopped.set()

    def _ask(self, request):
        """The value, or `None` and that there was an error of the moment."""
        answer = self._agent.ask(request, ANSWER_S)
        error = answer.get("error")
        if error is None and "value" in answer:
            return answer["value"], False
        if self._about.get("kills") and error and error.get("kind") in MOMENTARY:
            return None, True
        raise RuntimeError(f"{request}\n  received {answer}")

    def _write(self):
        """Counts up; the server is killed after each part of the writes but the last."""
        kills, writes = self._about.get("kills", 0), self._about["writes"]
        for part in range(1, kills + 2):
            self._write_up_to(writes * part // (kills + 1))
            if part <= kills and not self._stopped.is_set():
                kill_and_start(self._servers, self._about)

    def _write_up_to(self, goal):
        until = time.monotonic() + WRITE_S
        words = ["INCR", KEY]
        request = {"do": "command", "client": self._about["writer"], "words": words}
        while self._written < goal and not self._stopped.is_set():
            _, failed = self._ask(request)
            if failed:
                time.sleep(AGAIN_S)
            else:
                self._written += 1
            if time.monotonic() > until:
                raise RuntimeError(f"{self._written} of {goal} writes were done in {WRITE_S} s")

    def _read(self, cache):
        request = {"do": "cached", "cache": cache, "words": ["GET", KEY]}
        while not self._stopped.is_set():
            with self._lock:
                least = self._seen[cache]
            value, failed = self._ask(request)
            if failed:
                time.sleep(AGAIN_S)
                continue
            value = int(value or 0)
            if value < least:
                self._fault(f"{cache} has shown {value} after {least}")
            with self._lock:
                self._seen[cache] = max(self._seen[cache], value)
            time.sleep(READ_PAUSE_S)

    def _check_last(self):
        """Whether each cache shows the last value in time, and has answered from memory."""
        since = time.monotonic()
        last = self._last(since + WRITE_S)
        if last < self._about["writes"]:
            self._fault(f"the counter is {last} after {self._about['writes']} acknowledged writes")
        # The client itself may have needed time to reach the server again.
        until = (time.monotonic() if self._about.get("kills") else since) + SEEN_S
        for cache in self._about["caches"]:
            while self._seen[cache] != last:
                if time.monotonic() > until:
                    raise RuntimeError(f"{cache} shows {self._seen[cache]} and not {last}")
                time.sleep(AGAIN_S)
            stats, _ = self._ask({"do": "cache_stats", "cache": cache})
            if not stats["hits"]:
                self._fault(f"{cache} has answered no read from memory: {stats}")

    def _last(self, until):
        request = {"do": "command", "client": self._about["writer"], "words": ["GET", KEY]}
        while True:
            value, failed = self._ask(request)
            if not failed:
                return int(value or 0)
            if time.monotonic() > until:
                raise RuntimeError(f"{request} failed for {WRITE_S} s")
            time.sleep(AGAIN_S)
