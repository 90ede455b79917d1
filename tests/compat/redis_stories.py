"""Stories in the Redis protocol: what clients send, and what they are told, as data.

A file in the folder `redis` has stories one after another:

    == a name
    SET k v
    -> +OK
    other: BLPOP list 0
    -> ...
    other <- *2 $"list" $"a"

A line with words is sent, by the connection that is named in front of the colon; `->` is the reply,
byte for byte but for the quotes, and `...` says that there is none yet. `<-` waits for one that was
still missing. `7.2` in front of a reply is that of Redis 7.2 where 7.0 has another one, and the reason
stands in the comment above. `here` is what Claret says instead, on purpose.

`<<17>>` in a reply stands for anything but nothing, of which 17 is an example; where it comes again, in
words or in a reply, it stands for what was told the first time.
"""

import pathlib
import re
import shlex
import socket

FOLDER = pathlib.Path(__file__).parent / "redis"
# How long no reply may come for there to be none, in seconds.
SILENCE_S = 0.15
PATIENCE_S = 20
_VARYING = re.compile("<<(.*?)>>")


class Connection:
    """A connection that knows nothing of commands."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.buffer = b""

    def send(self, words):
        parts = [word if isinstance(word, bytes) else word.encode("latin1") for word in words]
        head = b"*%d\r\n" % len(parts)
        self.socket.sendall(head + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))

    def is_silent(self):
        """Whether nothing is to be read for a while."""
        if self.buffer:
            return False
        self.socket.settimeout(SILENCE_S)
        try:
            self.buffer = self.socket.recv(1 << 16)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(PATIENCE_S)
        return False

    def _more(self):
        got = self.socket.recv(1 << 16)
        if not got:
            raise EOFError
        self.buffer += got

    def _line(self):
        while b"\r\n" not in self.buffer:
            self._more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line.decode("latin1")

    def reply(self):
        """The next reply as it is written in a story."""
        try:
            return self._reply()
        except (EOFError, ConnectionError):
            return "closed"

    def _reply(self):
        line = self._line()
        if line[0] in "$=" and line != "$-1":
            size = int(line[1:]) + 2
            while len(self.buffer) < size:
                self._more()
            text, self.buffer = self.buffer[: size - 2], self.buffer[size:]
            return line[0] + '"' + text.decode("latin1").encode("unicode_escape").decode() + '"'
        if line[0] in "*%~>" and line[1:] != "-1":
            count = int(line[1:]) * (2 if line[0] == "%" else 1)
            return " ".join([line] + [self._reply() for _ in range(count)])
        return line

    def close(self):
        self.socket.close()


class Step:
    """Something that is sent, or waited for, and the replies that it may have."""

    def __init__(self, connection, words, number, text="", notes=()):
        self.connection = connection
        self.words = words
        self.number = number
        # The words as they are written, and the comments right above.
        self.text = text
        self.notes = list(notes)
        self.replies = {}

    def words_now(self, seen):
        """The words, with what was told before in the place of examples."""
        return [_VARYING.sub(lambda example: seen.get(example[1], example[1]), word) for word in self.words]

    def expected(self, server):
        """The reply of `7.0`, `7.2` or Claret (`here`)."""
        for name in {"here": ["here", "7.2", ""], "7.2": ["7.2", ""], "7.0": [""]}[server]:
            if name in self.replies:
                return self.replies[name]
        raise KeyError(self.number)


def matches(told, expected, seen):
    """Whether a reply is the expected one. What stands in the place of examples is added to `seen`."""
    pattern, examples = "", []
    for at, part in enumerate(_VARYING.split(expected)):
        if at % 2 == 0:
            pattern += re.escape(part)
        elif part in seen:
            pattern += re.escape(seen[part])
        elif part in examples:
            pattern += f"(?P=example{examples.index(part)})"
        else:
            pattern += f"(?P<example{len(examples)}>.+?)"
            examples.append(part)
    found = re.fullmatch(pattern, told, re.DOTALL)
    if found:
        seen.update(zip(examples, found.groups()))
    return found is not None


def read(path):
    """The stories of a file, by name."""
    stories = {}
    steps = None
    notes = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            notes = [*notes, line.removeprefix("# ")] if line else []
            continue
        if line.startswith("== "):
            assert line[3:] not in stories, line
            steps = stories.setdefault(line[3:], [])
        elif " <- " in line:
            connection, reply = line.split(" <- ", 1)
            steps.append(Step(connection, None, number))
            steps[-1].replies[""] = reply
        elif "-> " in line and line.split("-> ", 1)[0].strip() in ("", "7.2", "here"):
            name, reply = line.split("-> ", 1)
            steps[-1].replies[name.strip()] = reply
        else:
            name, colon, rest = line.partition(": ")
            connection, text = (name, rest) if colon and name.isidentifier() else ("me", line)
            words = [w.encode().decode("unicode_escape") for w in shlex.split(text)]
            steps.append(Step(connection, words, number, text, notes))
        notes = []
    return stories


def carry_out(steps, port, server, protocol=2):
    """Carries out a story at a server; gives each step, the reply that came, and whether it is the
    expected one."""
    connections = {}
    seen = {}
    try:
        for step in steps:
            if step.connection not in connections:
                connections[step.connection] = Connection(port)
                if protocol == 3:
                    connections[step.connection].send(["HELLO", "3"])
                    connections[step.connection].reply()
            connection = connections[step.connection]
            expected = step.expected(server)
            if step.words is not None:
                connection.send(step.words_now(seen))
            told = "..." if expected == "..." and connection.is_silent() else connection.reply()
            yield step, told, matches(told.strip(), expected, seen)
    finally:
        for connection in connections.values():
            connection.close()


def tell(steps, port, server):
    """Tells a story to a server; gives what differs from what is expected, as lines."""
    return [
        f"line {step.number}: {step.words}: {told}, not {step.expected(server)}"
        for step, told, same in carry_out(steps, port, server)
        if not same
    ]
