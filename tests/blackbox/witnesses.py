"""Clients that would notice a lost write or a stale read, whatever happens to the machines.

All of them count the same few keys up, one key per shard, and read them. Every answer is compared
with what was known before it was asked for: a count that was seen once, by anybody, is the least
that may be answered from then on, and no count is given twice.
"""

import collections
import itertools
import select
import threading
import time

from clusters import Worker
from harness import command, until
from redis.crc import key_slot
from redis.exceptions import ClusterDownError, ConnectionError, ResponseError, TimeoutError

SHARDS = 3
# An answer that takes longer is not waited for: the client asks on another connection.
PATIENCE_S = 2
# How often somebody impatient asks on every connection.
ASKED_EVERY_S = 0.01


def tags():
    """For each shard a hash tag whose slot is in its range."""
    found = {}
    for number in itertools.count():
        found.setdefault(key_slot(str(number).encode()) * SHARDS // 16_384, str(number))
        if len(found) == SHARDS:
            return found


KEYS = [f"{{{tag}}}:count" for _, tag in sorted(tags().items())]


class Known:
    """What is known of the counts so far."""

    def __init__(self):
        self.lock = threading.Lock()
        self.least = dict.fromkeys(KEYS, 0)
        self.given = {key: set() for key in KEYS}
        self.unknown = dict.fromkeys(KEYS, 0)
        # When increments were acknowledged, and how long that took.
        self.took = []

    def floor(self, key):
        """The least that may be answered to a question that is asked now."""
        with self.lock:
            return self.least[key]

    def counted(self, key, count, took_s):
        """An increment was acknowledged with a count."""
        with self.lock:
            assert count not in self.given[key], f"{key} was counted to {count} twice"
            self.given[key].add(count)
            self.least[key] = max(self.least[key], count)
            self.took.append((time.monotonic(), took_s))

    def seen(self, key, count):
        """A count was read."""
        with self.lock:
            self.least[key] = max(self.least[key], count)

    def grow(self, timeout_s):
        """Waits until every count is larger than it is now."""
        floors = [(key, self.floor(key)) for key in KEYS]
        grown = lambda: all(self.floor(key) > floor for key, floor in floors)
        until(grown, timeout_s, "another write to every shard")

    def settle(self, client):
        """Nothing that was acknowledged is gone, and nothing is there that nobody has asked for."""
        for key in KEYS:
            found = int(client.get(key) or 0)
            acknowledged = len(self.given[key])
            assert self.least[key] <= found, f"{key} is {found}, and was {self.least[key]}"
            assert acknowledged <= found <= acknowledged + self.unknown[key], (key, found)

    def gap_s(self, began):
        """For how long nothing was acknowledged, at most, from an instant on."""
        times = [began, *(at for at, _ in self.took if at >= began)]
        return max((after - before for before, after in itertools.pairwise(times)), default=None)


class Witness(Worker):
    """Asks one machine, from one place, again and again."""

    def __init__(self, node, number, stop, known, **place):
        self.node = node
        self.known = known
        self.place = place
        self.client = None
        self.asked = self.answered = 0
        super().__init__(None, number, stop, kind=lambda *_: None)

    def work(self):
        self.asked += 1
        key = KEYS[self.asked % len(KEYS)]
        try:
            if self.client is None:
                self.client = self.node.client(socket_timeout=PATIENCE_S, **self.place)
            self.ask(key)
            self.answered += 1
        except (ConnectionError, TimeoutError):
            self.client.close()
            self.client = None
            self.failed(key)
        except ResponseError as error:
            told = ("INDEFINITE", "the machine that led")
            assert isinstance(error, ClusterDownError) or str(error).startswith(told), error
            self.failed(key)
        time.sleep(0.002)

    def failed(self, key):
        """There was no answer."""


class Reader(Witness):
    """Reads."""

    def ask(self, key):
        floor = self.known.floor(key)
        found = int(self.client.get(key) or 0)
        assert found >= floor, f"{key} was {floor}, and {found} was read after that: stale"
        self.known.seen(key, found)


class Writer(Witness):
    """Increments."""

    def ask(self, key):
        floor, began = self.known.floor(key), time.monotonic()
        count = self.client.incr(key)
        assert count > floor, f"{key} was {floor}, and was counted to {count} after that"
        self.known.counted(key, count, time.monotonic() - began)

    def failed(self, key):
        with self.known.lock:
            self.known.unknown[key] += 1


class Impatient(threading.Thread):
    """Reads on many connections at once, and asks again without waiting for answers.

    So a machine that stands still finds questions when it goes on that were asked meanwhile.
    """

    def __init__(self, node, count, stop, known):
        super().__init__(daemon=True)
        self.known = known
        self.stop = stop
        self.error = None
        self.answered = 0
        self.lines = [Line(node.socket(), KEYS[number % len(KEYS)]) for number in range(count)]
        self.start()

    def run(self):
        try:
            while not self.stop.is_set():
                for line in self.lines:
                    line.ask(self.known.floor(line.key))
                self.listen(ASKED_EVERY_S)
            while any(line.floors for line in self.lines):
                self.listen(ASKED_EVERY_S)
        except BaseException as error:
            self.error = error

    def listen(self, seconds):
        """Takes what comes meanwhile."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([line.socket for line in self.lines], [], [], left)
            for line in self.lines:
                if line.socket in ready:
                    self.take(line)

    def take(self, line):
        """Judges what has come on a connection."""
        for floor, found in line.answers():
            if found is None:
                continue
            self.answered += 1
            assert found >= floor, f"{line.key} was {floor}, and {found} was read after that: stale"
            self.known.seen(line.key, found)

    def finish(self):
        """Waits for all answers, and tells if it has seen what it should not."""
        self.stop.set()
        self.join(60)
        assert not self.is_alive(), "questions are without an answer"
        for line in self.lines:
            line.socket.close()
        if self.error:
            raise self.error


class Line:
    """A connection with questions on their way."""

    def __init__(self, connection, key):
        connection.setblocking(False)
        self.socket = connection
        self.key = key
        self.question = command("GET", key)
        self.floors = collections.deque()
        self.input = b""

    def ask(self, floor):
        """Asks once more."""
        self.floors.append(floor)
        # There is room for what is asked during a pause.
        self.socket.send(self.question)

    def answers(self):
        """What has come, each with what was known when it was asked; none for an error."""
        received = self.socket.recv(1 << 16)
        assert received, "the server has closed a connection"
        *lines, self.input = (self.input + received).split(b"\r\n")
        for line in lines:
            if line.startswith(b"$") and line != b"$-1":
                # The length; the value comes on a line of its own.
                continue
            is_error = line.startswith(b"-")
            yield self.floors.popleft(), None if is_error else int(line.replace(b"$-1", b"0"))
