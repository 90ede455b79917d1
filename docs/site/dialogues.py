"""Examples, replies and errors of commands, from the stories in reference/examples.

Each command has a story with its name. Its first comments are the kinds of its replies; what follows is
shown as a dialogue. In a story with `fails` behind the name, the comment above a step is the reason of
the error that the step gives. A test tells all of them to a server.
"""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(DOCS.parent / "tests/compat"))

from redis_stories import read  # noqa: E402

FOLDER = DOCS / "reference/examples"
# What a kind of reply is called, and how replies of it begin in either version of the protocol.
KINDS = {
    "OK": ("`OK`", ("+OK", "+OK")),
    "simple": ("Simple string", ("+", "+")),
    "string": ("String", ("$", "$ =")),
    "integer": ("Integer", (":", ":")),
    "double": ("Number (RESP2: string)", ("$", ",")),
    "nil": ("Nil", ("nil", "nil")),
    "array": ("Array", ("*", "*")),
    "map": ("Map (RESP2: array)", ("*", "%")),
    "set": ("Set (RESP2: array)", ("*", "~")),
    "push": ("Push (RESP2: array)", ("*", ">")),
    "any": ("Any", ("+OK + : $ * nil", "+OK + : $ * nil , % ~ # =")),
    "none": ("None", ("closed", "closed")),
}
_PART = re.compile(r'([*:+])([^\r\n]*)|\$"((?:[^"\\]|\\.)*)"|(\$-1)')
_NOT_YET = "..."
# Commands whose replies redis-cli prints as they are.
_AS_TEXT = ("INFO", "LOLWUT")


class Entry:
    """What the stories tell of a command."""

    def __init__(self, steps, failing):
        self.steps = steps
        self.replies = [note.split(": ", 1) for note in steps[0].notes]
        self.errors = [
            (step.replies[""].removeprefix("-"), " ".join(step.notes), step.text)
            for step in failing
            if step.notes
        ]

    def dialogue(self):
        """The lines that redis-cli shows, and the numbers of those that are typed."""
        names = {step.connection for step in self.steps}
        lines, typed = [], []
        for step in self.steps:
            name = step.connection if len(names) > 1 else ""
            if step.text:
                lines.append(f"{name}> {plain(step.text)}")
                typed.append(len(lines))
            if step.words and step.words[0] in _AS_TEXT:
                lines += plain(step.replies[""])[2:-1].encode().decode("unicode_escape").splitlines()
            elif step.replies[""] != _NOT_YET:
                begin = "" if step.text else f"{name}: "
                lines += (begin + shown(step.replies[""], " " * len(begin))).split("\n")
        return lines, typed


def entries():
    """What is told of each command, by its name in small letters, for each file."""
    groups = {}
    for path in sorted(FOLDER.glob("*.story")):
        stories = read(path)
        groups[path.stem] = {
            name.lower(): Entry(steps, stories.get(f"{name} fails", []))
            for name, steps in stories.items()
            if not name.endswith(" fails")
        }
    return groups


def plain(text):
    """A text of a story with examples in the place of what varies."""
    return re.sub("<<(.*?)>>", r"\1", text)


def shown(reply, indent=""):
    """A reply as redis-cli shows it; lines behind the first one are indented."""
    if reply == "closed":
        return "(the connection is closed)"
    if reply[0] in "+-":
        return ("(error) " if reply[0] == "-" else "") + plain(reply)[1:]
    text, rest = _shown(plain(reply), indent)
    if rest:
        raise ValueError(f"a reply is not understood: {rest} in {reply}")
    return text


def _shown(reply, indent):
    """A reply that stands at the beginning, and what stands behind it."""
    match = _PART.match(reply)
    if not match:
        raise ValueError(f"a reply is not understood: {reply}")
    kind, value, string, _ = match.groups()
    rest = reply[match.end() :].lstrip()
    if kind == "*" and value != "-1":
        return _array(value, indent)
    if kind in (":", "+"):
        word, _, rest = value.partition(" ")
        return ("(integer) " if kind == ":" else "") + word, rest
    return ("(nil)" if string is None else f'"{string}"'), rest


def _array(parts, indent):
    """The parts of an array, each with its number."""
    count, _, rest = parts.partition(" ")
    if count == "0":
        return "(empty array)", rest
    lines = []
    for number in range(1, int(count) + 1):
        begin = f"{number:>{len(count)}}) "
        part, rest = _shown(rest, indent + " " * len(begin))
        lines.append(begin + part)
    return f"\n{indent}".join(lines), rest
