"""A page for each command, made from the reference of all commands and from the examples."""

import posixpath
import re

import dialogues

# The reference as the repository has it: an index, a page for each group, one on what commutes, and one of
# lock modes.
FOLDER = "reference/commands"
INDEX = f"{FOLDER}/README.md"
COMMUTING = f"{FOLDER}/commuting.md"
MODES = f"{FOLDER}/lock-modes.md"
# The pages that are made here.
_MADE = "reference/command"
_LINK = re.compile(r"\]\(([^)\s#]+\.md)?#([\w.-]+)\)")


class Reference:
    """The generated pages of the groups of commands, in parts."""

    def __init__(self, docs):
        self._groups = {}
        self._files = {}
        for file in sorted((docs / FOLDER).glob("*.md")):
            path = f"{FOLDER}/{file.name}"
            if path in (INDEX, COMMUTING, MODES):
                continue
            head, *found = re.split(r"^## ", file.read_text(), flags=re.M)
            title = head.split("\n", 1)[0].removeprefix("# ")
            commands = (command.split("\n", 1) for command in found)
            self._groups[title] = {name: text.strip() for name, text in commands}
            self._files[path] = title
        self._modes = (docs / MODES).read_text()
        self._beside = dict(_commuting((docs / COMMUTING).read_text()))
        names = (name for group in self._groups.values() for name in group)
        self._by_anchor = {_anchor(name): _page(name) for name in names}
        self._told = {name: told for group in dialogues.entries().values() for name, told in group.items()}

    def navigation(self):
        """The entries of the navigation, by groups."""
        groups = (
            {title.removesuffix(" commands"): [path, *self._names(title)]}
            for path, title in self._files.items()
        )
        return [INDEX, *groups, {"Commuting": COMMUTING}, {"Lock modes": MODES}]

    def _names(self, title):
        return ({name.upper(): _page(name)} for name in self._groups[title])

    def pages(self):
        """Paths and texts of the pages of the commands."""
        for title, group in self._groups.items():
            for name, text in group.items():
                yield _page(name), self._command(title, name, text)

    def overview(self, path):
        """The page that lists the commands of a group with a sentence on each, or None for others."""
        title = self._files.get(path)
        if title is None:
            return None
        rows = (
            [f"[`{name.upper()}`]({posixpath.relpath(_page(name), FOLDER)})", _purpose(text)]
            for name, text in self._groups[title].items()
        )
        lines = "\n".join(f"| {command} | {purpose} |" for command, purpose in rows)
        return f"# {title}\n\n| command | |\n|---|---|\n{lines}\n"

    def relink(self, markdown, path):
        """Leads links to a command on the page of its group to its own page."""

        def link(match):
            folder = posixpath.dirname(path)
            target = posixpath.normpath(posixpath.join(folder, match[1])) if match[1] else path
            page = self._by_anchor.get(match[2])
            if page is None or target not in self._files:
                return match[0]
            return f"]({posixpath.relpath(page, folder)})"

        return _LINK.sub(link, markdown)

    def _command(self, title, name, text):
        syntax, purpose, facts = text.split("\n\n", 2)
        facts = [fact.removeprefix("- ") for fact in facts.split("\n")]
        facts = [fact.replace("Redis does not have it.", "Redis: does not have it") for fact in facts]
        facts = dict(fact.split(": ", 1) for fact in facts)
        cost = facts.pop("Complexity")
        told = self._told[name]
        parts = [
            f"# {name.upper()}",
            "\n".join(["``` { .text .claret-syntax }", syntax.strip("`"), "```"]),
            purpose,
            "## Example",
            *_dialogue(told),
            "## Replies",
            _table(["reply", "meaning"], [[dialogues.KINDS[kind][0], text] for kind, text in told.replies]),
            "## Errors",
            *_errors(told),
            "## Cost",
            f"{cost}.",
            *self._commutes(title, name),
            "## Facts",
            _table(["", ""], facts.items()),
        ]
        others = " ".join(
            f"[`{other.upper()}`]({posixpath.basename(_page(other))})"
            for other in self._groups[title]
            if other != name
        )
        if others:
            parts += ["## See also", others]
        return "\n\n".join(parts) + "\n"

    def _commutes(self, title, name):
        """When a command commutes with which others, if it is told."""
        if name not in self._beside:
            return
        yield "## Commutes with"
        yield (
            "Commands that two open transactions can call on one key without waiting"
            " ([in detail](../commands/commuting.md)):"
        )
        never = "never: the second one waits"
        rows = [[never if when == "never" else when, others] for when, others in self._beside[name]]
        yield _table(["when", "with"], rows)
        kind = title.removesuffix(" commands").lower().replace("sorted-set", "zset")
        if f"## Modes of {kind}\n" in self._modes:
            yield f"The type's [lock modes](../commands/lock-modes.md#modes-of-{kind})."


def _commuting(text):
    """Commands, and the cases in which each commutes with which others, from the page on them."""
    for names, told in re.findall(r"^- (`.*?`): (.*)\.$", text, re.M):
        rows = [case.split(" with ", 1) for case in told.split("; ")]
        for name in names.split(", "):
            yield name.strip("`").lower(), [[when.strip(","), others] for when, others in rows]


def _dialogue(told):
    """The example of a command, with what is typed marked."""
    lines, typed = told.dialogue()
    marked = " ".join(map(str, typed))
    head = f'``` {{ .text .claret-example hl_lines="{marked}" }}'
    yield "\n".join([head, *lines, "```"])
    if len(names := sorted({step.connection for step in told.steps})) > 1:
        later = {step.connection for step in told.steps if not step.text}
        what = f" Behind `{later.pop()}:` stands what the connection gets later." if later else ""
        yield f"{' and '.join(f'`{name}`' for name in names)} are two connections.{what}"


def _errors(told):
    """The errors of a command."""
    if told.errors:
        rows = [[_code(error), reason, _code(words)] for error, reason, words in told.errors]
        yield _table(["error", "reason", "for example"], rows)
    yield (
        "Errors that many commands have, such as `WRONGTYPE`, are in"
        " [errors, by their text](../../howto/errors.md)."
    )


def _table(head, rows):
    cells = [head, ["---"] * len(head), *([_escape(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _code(text):
    fence = "``" if "`" in text else "`"
    return f"{fence}{dialogues.plain(text)}{fence}"


def _anchor(name):
    return name.replace(".", "")


def _page(name):
    return f"{_MADE}/{name}.md"


def _purpose(text):
    return _escape(text.split("\n\n", 2)[1])


def _escape(text):
    return text.replace("|", "\\|")
