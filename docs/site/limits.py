"""The table of all limits, made from the constants in the source."""

import re

SOURCE = "crates/engine/src/limits.rs"
PAGE = "reference/limits.md"
_CONSTANT = re.compile(r"((?:^/// .*\n)+)^pub const (\w+): [^=]+ =\s*([^;]+);", re.M)
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def table(root):
    """A section with name, value and meaning of each constant, in the order of the source."""
    found = _CONSTANT.findall((root / SOURCE).read_text())
    values = _Values({name: expression for _, name, expression in found}, root)
    rows = []
    for docs, name, _ in found:
        meaning = " ".join(line.removeprefix("/// ") for line in docs.strip().split("\n"))
        meaning = re.sub(r"\[(`\w+`)\]", r"\1", meaning).replace("|", "\\|")
        rows.append(f"| `{name}` | {_shown(values[name], name)} | {meaning} |")
    head = "## All of them\n\nMade from the source when this site was built.\n\n"
    return f"\n\n{head}| constant | value | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"


class _Values(dict):
    """Values of constants, each computed from its expression when it is asked for."""

    def __init__(self, expressions, root):
        super().__init__()
        self._expressions, self._root = expressions, root

    def __missing__(self, name):
        self[name] = self._computed(self._expressions[name])
        return self[name]

    def _computed(self, expression):
        expression = re.sub(r"\bas \w+", "", expression)
        expression = re.sub(
            r"(?:\w+::)+(\w+)", lambda match: f"({self._elsewhere(match[1])})", expression
        )
        parts = [eval(part, {"__builtins__": {}}, self) for part in expression.split("..=")]
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _elsewhere(self, name):
        """The expression of a constant that another crate defines."""
        for path in sorted((self._root / "crates/adt/src").rglob("*.rs")):
            match = re.search(rf"pub const {name}: [^=]+ = ([^;]+);", path.read_text())
            if match:
                return match[1]
        raise ValueError(f"{SOURCE} names a constant {name}, which is not found in crates/adt")


def _shown(value, name):
    if isinstance(value, tuple):
        return f"{_shown(value[0], name)} to {_shown(value[1], name)}"
    if "BYTES" in name:
        for size, unit in _UNITS:
            if value >= size and value % size == 0:
                return f"{value // size:,} {unit}"
    return f"{value:,}"
