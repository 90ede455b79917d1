"""What the reference says about commands that commute is what two open transactions do."""

import itertools
import pathlib
import re
import select
import time

import pytest
from harness import Server
from redis_stories import Connection

REFERENCE = pathlib.Path(__file__).resolve().parents[2] / "docs/reference/commands"
PATIENCE_S = 10
# Partners of a command that are tried, for each thing that is said.
PARTNERS = 1
# Most rounds of calls whose waits depend on chance.
RUNS_MAX = 30

# What is said of commands that commute if they name different parts.
APART = re.compile(r"if the \w+ is another one,")
# Two parts of a value, of which the first is there.
PARTS = {
    "field": ("a", "z"),
    "id": ("1-1", "2-1"),
    "item": ("a", "z"),
    "member": ("a", "z"),
    "offset": ("0", "40"),
}
# What makes the value, where `k` is its key.
VALUES = {
    "bag": ["BAG.ADD k 1 5"],
    "counter": ["COUNTER.SET k 9 MIN 0 MAX 10"],
    "generic": ["SET k v EX 10000", "RPUSH s 2 1"],
    "hash": ["HSET k a 1 b 1 c 1", "HEXPIRE k 10000 FIELDS 1 a"],
    "list": ["RPUSH k a b c d", "RPUSH s a"],
    "log": ["LOG.APPEND k a b c"],
    "set": ["SADD k a b c", "SADD s a x"],
    "sorted-set": ["ZADD k 1 a 2 b 3 c", "ZADD s 1 a 2 x"],
    "stream": [
        "XADD k 1-1 f v",
        "XADD k 2-1 f v",
        "XGROUP CREATE k g 0",
        "XREADGROUP GROUP g c STREAMS k >",
        "XADD k 3-1 f v",
    ],
    "string": ["SET k 12345678901", "SET s 7"],
    "topk": ["TOPK.INIT k 3", "TOPK.PUT k a 5"],
    "uid": ["UID.NEXT k"],
}
# Calls of commands that do nothing, or something else, with required arguments only.
CALLS = {
    "bitfield": "BITFIELD k SET u1 {offset} 1",
    "bitfield_ro": "BITFIELD_RO k GET u1 {offset}",
    "copy": "COPY s k REPLACE",
    "delifeq": "DELIFEQ k 12345678901",
    "getex": "GETEX k EX 1000",
    "hgetex": "HGETEX k EX 1000 FIELDS 1 {field}",
    "memory": "MEMORY USAGE k",
    "mset": "MSET k {item}",
    "msetnx": "MSETNX k 7 n 7",
    "object": "OBJECT ENCODING k",
    "renamenx": "RENAMENX k n",
    "set": "SET k {item}",
    "sort": "SORT s STORE k",
    "xadd": "XADD k 9-1 f v",
    "xcfgset": "XCFGSET k IDMP-MAXSIZE 50",
    "xgroup": "XGROUP CREATE k h 0 MKSTREAM",
    "xinfo": "XINFO STREAM k",
    "xread": "XREAD STREAMS k 0",
    "xreadgroup": "XREADGROUP GROUP g c STREAMS k >",
    "xsetid": "XSETID k 8-1",
}
# Arguments that are keys.
KEYS = {"key", "key1", "key2", "source", "destination", "newkey"}
# Values for arguments, by their names in the syntax.
ARGUMENTS = {
    "consumer": "c",
    "cursor": "0",
    "element": "a",
    "end": "+",
    "from-id": "-",
    "group": "g",
    "max": "5",
    "min": "0",
    "pivot": "a",
    "start": "0",
    "stop": "1",
    "time": "1000",
    "timeout": "1",
    "to-id": "+",
    "unix-time-milliseconds": "9000000000000",
    "unix-time-seconds": "9000000000",
    "value": "1",
}
LEX = {"min": "-", "max": "+"}
POSITIONS = {"start": "0", "end": "1"}


class Command:
    """A command as the pages of the reference have it."""

    def __init__(self, group, section, told):
        self.group = group
        self.name, text = section.split("\n", 1)
        self.syntax = re.search(r"`(.*)`", text)[1]
        self.kind = "write" if re.search(r"^- Flags:.*\bwrite\b", text, re.M) else "read"
        # Names of commands, or kinds of them, by the cases in which they commute with this one.
        self.told = told.get(self.name, {})

    def partners(self, group):
        """The commands of the group, for each case."""
        named = {name for names in self.told.values() for name in names}
        for case, names in self.told.items():
            found = set(names)
            for kind in ("read", "write"):
                of_kind = {name for name, other in group.items() if other.kind == kind}
                if f"every {kind}" in names:
                    found |= of_kind
                elif f"every other {kind}" in names:
                    found |= of_kind - named
            yield case, sorted(found & group.keys())

    def call(self, part):
        """A call that names the first part, or the second one."""
        parts = {name: values[part] for name, values in PARTS.items()}
        if self.name in CALLS:
            return CALLS[self.name].format(**parts)
        form = f"{self.name} {self.syntax.split(' ', 1)[1]}"
        while "[" in form:
            form = re.sub(r"\[[^\[\]]*\]", "", form)
        form = re.sub(r"<([^|>]*)\|[^>]*>", r"\1", form)
        first, *words = re.sub(r"(\S+)( \| \S+)+", r"\1", form).split()
        # The call writes the first key, and reads a second one.
        values = ARGUMENTS | (LEX if "lex" in self.name else {}) | parts
        values |= POSITIONS if self.group == "string" else {}
        keys = itertools.chain("k", itertools.repeat("s"))
        named = (next(keys) if word in KEYS else values.get(word, word) for word in words)
        return " ".join([first, *("1" if word in words and word.islower() else word for word in named)])


class Pair:
    """Two transactions at a server, of which one may wait for the other, and a connection that looks."""

    def __init__(self, port):
        self.first, self.second, self.observer = (Connection(port) for _ in range(3))
        self.numbers = itertools.count()

    def waits(self, setup, first, second):
        """Whether the second call, or the commit of the first one, has to wait."""
        number = next(self.numbers)
        setup, first, second = (self.with_keys(lines, number) for lines in (setup, [first], [second]))
        for line in setup:
            assert ask(self.observer, line)[0] != "-", line
        for connection in (self.first, self.second):
            assert ask(connection, ["TXN", "BEGIN"]) == "+OK"
        ask(self.first, first[0])
        if self.is_waiting(self.second, second[0], number):
            ask(self.first, ["TXN", "ABORT"])
            self.second.reply()
            ask(self.second, ["TXN", "ABORT"])
            return True
        self.second.reply()
        waits = self.is_waiting(self.first, ["TXN", "COMMIT"], number)
        ask(self.second, ["TXN", "ABORT"])
        self.first.reply()
        return waits

    @staticmethod
    def with_keys(lines, number):
        return [[f"{w}{number}" if w in ("k", "s", "n") else w for w in line.split()] for line in lines]

    def is_waiting(self, connection, words, number):
        """Sends words. Tells whether they wait for a lock, and not whether a reply has come."""
        connection.send(words)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if select.select([connection.socket], [], [], 0.002)[0]:
                return False
            if not ask(self.observer, ["TXN", "HOLDERS", f"k{number}"]).startswith("*3 :0 "):
                return True
        raise TimeoutError(words)


def ask(connection, words):
    """The reply to words."""
    connection.send(words)
    return connection.reply()


def cases():
    """What is told of each command."""
    told = {}
    page = (REFERENCE / "commuting.md").read_text()
    for names, facts in re.findall(r"^- (`.*?`): (.*)\.$", page, re.M):
        parts = [fact.split(" with ", 1) for fact in facts.split("; ")]
        found = {case: others.replace("`", "").lower().split(", ") for case, others in parts}
        told |= dict.fromkeys(names.replace("`", "").lower().split(", "), found)
    return told


def groups():
    """The commands of each group that has values, by name."""
    told = cases()
    for group in VALUES:
        sections = re.split(r"^## ", (REFERENCE / f"{group}.md").read_text(), flags=re.M)[1:]
        found = (Command(group, section, told) for section in sections)
        yield group, {command.name: command for command in found if command.told}


GROUPS = dict(groups())


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two transactions at a server."""
    server = Server(tmp_path_factory.mktemp("server"), shards=1).start()
    yield Pair(server.port)
    server.kill()


def runs(values, a, b, same=(True, False)):
    """Values, and calls of two commands on them in either order, which name the same part or do not."""
    for value, x, y in itertools.product(values, (0, 1), (0, 1)):
        if (x == y) in same:
            yield value, a.call(x), b.call(y)
            yield value, b.call(y), a.call(x)


@pytest.mark.parametrize("group", GROUPS)
def test_transactions_wait_where_the_reference_says_so(pair, group):
    value = VALUES[group]
    # Calls that make a value wait for others if there is none.
    absent = [line for line in value if line.split()[1] == "s"]
    wrong, depends = [], []
    for number, command in enumerate(GROUPS[group].values()):
        for case, names in command.partners(GROUPS[group]):
            for name in [*names[number % 7 :: 7], *names][:PARTNERS]:
                partner = GROUPS[group][name]
                if case == "never":
                    if not any(pair.waits(*run) for run in runs([value, absent], command, partner)):
                        wrong.append(f"{command.name} does not wait for {name}")
                elif case == "always" or APART.fullmatch(case):
                    same = (True, False) if case == "always" else (False,)
                    tried = runs([value], command, partner, same)
                    wrong += [f"{run[1]} waits: {run[2]}" for run in tried if pair.waits(*run)]
                else:
                    depends += runs([value], command, partner)
    assert not wrong, "\n".join(wrong)
    # Where it depends on more than these calls and values, there are both. It may depend on chance, too.
    tried = itertools.chain.from_iterable(itertools.repeat(depends, RUNS_MAX))
    seen = set()
    for run in tried:
        seen.add(pair.waits(*run))
        if len(seen) == 2:
            break
    assert not depends or seen == {True, False}
