"""Turns Markdown as repositories show it into Markdown as MkDocs' parser understands it."""

import ast
import re

import sequence

_ITEM = re.compile(r"(?:[-*+]|\d+[.)]) ")
_CODE = re.compile(r"`[^`]+`")
_FENCE = re.compile(r"^(`{3,}|~{3,})(.*)$")


def prepare(markdown):
    """Separates lists and tables from the paragraphs before them, names the language of code, and
    draws sequence diagrams."""
    out, lines, at = [], markdown.split("\n"), 0
    while at < len(lines):
        line = lines[at]
        fence = _FENCE.match(line)
        if fence:
            end = next(n for n in range(at + 1, len(lines)) if lines[n].rstrip() == fence[1])
            out += _fenced(fence[2].strip(), lines[at : end + 1])
            at = end + 1
        elif line.startswith("    ") and _opens_code(out):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            code = "\n".join(part[4:] for part in lines[at:end]).rstrip("\n")
            out += [f"````{_language(code)}", *code.split("\n"), "````", ""]
            at = end
        else:
            if out and out[-1].strip() and _begins_block(line, out[-1]):
                out.append("")
            out.append(_CODE.sub(_unescape, line) if line.startswith("|") else line)
            at += 1
    return "\n".join(out)


def _unescape(code):
    """Code in a table with plain bars: in code MkDocs' parser would show how they are escaped."""
    return code[0].replace("\\|", "|")


def _fenced(kind, lines):
    if kind == "mermaid":
        return ["", *sequence.draw(lines[1:-1]).split("\n"), ""]
    if not kind:
        lines = [f"{lines[0]}{_language(chr(10).join(lines[1:-1]))}", *lines[1:]]
    return lines


def _opens_code(out):
    """Whether an indented line is code here, and does not continue an item of a list."""
    if out and out[-1].strip():
        return False
    before = next((line for line in reversed(out) if line.strip()), "")
    return not (_ITEM.match(before) or before.startswith("  "))


def _begins_block(line, before):
    """Whether a line begins a list or a table that the paragraph before it would swallow."""
    if before.startswith(("#", "<")):
        return False
    if _ITEM.match(line):
        return not (_ITEM.match(before) or before.startswith(" "))
    return line.startswith("|") and not before.startswith("|")


def _language(code):
    """The language of a piece of code that does not name it."""
    if re.search(r"^(use |fn |let |impl |async fn |#\[)", code, re.M) and ";" in code:
        return "rust"
    if re.match(r"\[{1,2}[\w.]+\]{1,2}( |$)|\[", code) and "=" in code:
        return "toml"
    try:
        ast.parse(code)
    except SyntaxError:
        return "text"
    return "python" if re.search(r"[=(]", code) else "text"
