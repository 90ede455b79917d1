"""A page for each command, made from the reference of all commands."""

import posixpath
import re

PAGE = "reference/commands.md"
FOLDER = "reference/commands"
MODES = f"{FOLDER}/lock-modes.md"
_LINK = re.compile(r"\]\(([^)\s#]*commands\.md)?#([\w.-]+)\)")


class Reference:
    """The generated page of all commands, in parts."""

    def __init__(self, text):
        intro, *sections = re.split(r"^## ", text, flags=re.M)
        intro = re.sub(r"^This page is generated.*\n\n", "", intro, flags=re.M)
        self._intro = re.sub(r"^- \[.*\n?", "", intro, flags=re.M).rstrip()
        self._groups = {}
        self._modes = ""
        for section in sections:
            title, body = section.split("\n", 1)
            if title.endswith(" commands"):
                found = re.split(r"^### ", body, flags=re.M)[1:]
                commands = (command.split("\n", 1) for command in found)
                self._groups[title] = {name: text.strip() for name, text in commands}
            else:
                self._modes = f"# {title}\n\n{body.strip()}\n".replace("\n### ", "\n## ")
        names = (name for group in self._groups.values() for name in group)
        self._by_anchor = {_anchor(name): _page(name) for name in names}

    def navigation(self):
        """The entries of the navigation, by groups."""
        groups = (
            {title.removesuffix(" commands"): [{name.upper(): _page(name)} for name in group]}
            for title, group in self._groups.items()
        )
        return [*groups, {"Lock modes": MODES}]

    def pages(self):
        """Paths and texts of the pages of the commands and of the lock modes."""
        yield MODES, self._modes
        for title, group in self._groups.items():
            for name, text in group.items():
                yield _page(name), self._command(title, name, text)

    def overview(self):
        """The page that lists all commands with a sentence on each."""
        parts = [self._intro]
        for title, group in self._groups.items():
            rows = [
                f"| [`{name.upper()}`]({_local(name)}) | {_purpose(text)} |"
                for name, text in group.items()
            ]
            parts.append("\n".join([f"## {title}", "", "| command | |", "|---|---|", *rows]))
        parts.append(
            "## Lock modes\n\nWhich operations of a type go ahead beside each other is in"
            " [lock modes](commands/lock-modes.md)."
        )
        return "\n\n".join(parts) + "\n"

    def relink(self, markdown, path):
        """Leads links to a command on the page of all commands to its own page."""

        def link(match):
            page = self._by_anchor.get(match[2])
            if page is None or not (match[1] or path == PAGE):
                return match[0]
            return f"]({posixpath.relpath(page, posixpath.dirname(path))})"

        return _LINK.sub(link, markdown)

    def _command(self, title, name, text):
        syntax, purpose, facts = text.split("\n\n", 2)
        rows = (fact.removeprefix("- ") for fact in facts.split("\n"))
        rows = (row.replace("Redis does not have it.", "Redis: does not have it") for row in rows)
        rows = (row.split(": ", 1) for row in rows)
        table = "\n".join(f"| {what} | {_escape(value)} |" for what, value in rows)
        others = " ".join(
            f"[`{other.upper()}`]({posixpath.basename(_page(other))})"
            for other in self._groups[title]
            if other != name
        )
        syntax = "\n".join(["``` { .text .claret-syntax }", syntax.strip("`"), "```"])
        kind = title.removesuffix(" commands").lower().replace("sorted-set", "zset")
        modes = ""
        if f"## Modes of {kind}\n" in self._modes:
            anchor = f"lock-modes.md#modes-of-{kind}"
            modes = f"\n\nWhat goes ahead beside what: [lock modes]({anchor})."
        return (
            f"# {name.upper()}\n\n{purpose}\n\n{syntax}\n\n| | |\n|---|---|\n{table}{modes}\n\n"
            + (f"## Other commands of this group\n\n{others}\n" if others else "")
        )


def _anchor(name):
    return name.replace(".", "")


def _page(name):
    return f"{FOLDER}/{name}.md"


def _local(name):
    return posixpath.relpath(_page(name), posixpath.dirname(PAGE))


def _purpose(text):
    return _escape(text.split("\n\n", 2)[1])


def _escape(text):
    return text.replace("|", "\\|")
