"""Sequence diagrams as SVG: the part of Mermaid's language that the documents use.

Mermaid itself would be a program of megabytes that each reader's browser fetches and runs.
"""

import html
import re

_LANE, _LEFT, _TOP, _LINE = 172, 92, 52, 15
_MESSAGE = re.compile(r"(\w+)(-?->>)(\w+): (.*)")
_NOTE = re.compile(r"Note over (\w+)(?:,(\w+))?: (.*)")


def draw(lines):
    """The SVG of a diagram, with its text for readers that do not see it."""
    lanes, parts, y, depth = {}, [], _TOP, []
    steps = [line.strip() for line in lines if line.strip()]
    for step in steps:
        if match := re.match(r"participant (\w+) as (.*)", step):
            lanes[match[1]] = (_LEFT + _LANE * len(lanes), match[2])
    width = 2 * _LEFT + _LANE * (len(lanes) - 1)
    for step in steps:
        if step == "sequenceDiagram" or step.startswith("participant "):
            continue
        if step == "par":
            y += 8
            depth.append(y)
            parts.append(_text(14, y + 12, "at the same time", "start", "claret-par"))
            y += 12
        elif step == "and":
            parts.append(_line(6, y + 6, width - 6, y + 6, "claret-and"))
            y += 8
        elif step == "end":
            top = depth.pop()
            y += 10
            parts.append(
                f'<rect class="claret-frame" x="6" y="{top}"'
                f' width="{width - 12}" height="{y - top}" rx="4"/>'
            )
            y += 4
        elif match := _MESSAGE.match(step):
            source, target = lanes[match[1]][0], lanes[match[3]][0]
            text = match[4].split("<br/>")
            y += 10 + _LINE * len(text)
            parts += _texts((source + target) / 2, y - 6, text)
            kind = "claret-reply" if match[2].startswith("--") else "claret-call"
            parts.append(_arrow(source, target, y, kind))
        elif match := _NOTE.match(step):
            ends = [lanes[name][0] for name in (match[1], match[2] or match[1])]
            text = match[3].split("<br/>")
            wide = max(max(map(len, text)) * 6.1 + 16, max(ends) - min(ends) + 60)
            height = _LINE * len(text) + 8
            middle = min(max(sum(ends) / 2, wide / 2 + 8), width - wide / 2 - 8)
            parts.append(
                f'<rect class="claret-note" x="{middle - wide / 2:.0f}" y="{y + 8}"'
                f' width="{wide:.0f}" height="{height}" rx="3"/>'
            )
            parts += _texts(middle, y + 8 + height - 8, text)
            y += height + 8
        else:
            raise ValueError(f"a sequence diagram has a line that is not understood: {step}")
    height = y + 20
    heads = []
    for x, name in lanes.values():
        heads.append(_line(x, 36, x, height - 8, "claret-lane"))
        box = f'x="{x - 78}" y="8" width="156" height="28" rx="4"'
        heads.append(f'<rect class="claret-head" {box}/>')
        heads.append(_text(x, 27, name, "middle", "claret-name"))
    body = "\n".join([*heads, *parts])
    told = (step for step in steps[1:] if not step.startswith("participant"))
    label = html.escape("; ".join(told), quote=True)
    return (
        f'<div class="claret-sequence"><svg role="img" aria-label="{label}"'
        f' viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n{body}\n</svg></div>'
    )


def _texts(x, bottom, lines):
    first = bottom - _LINE * (len(lines) - 1)
    return [
        _text(x, first + _LINE * n, line, "middle", "claret-text") for n, line in enumerate(lines)
    ]


def _text(x, y, text, anchor, kind):
    place = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{html.escape(text)}</text>'


def _line(x, y, to_x, to_y, kind):
    return f'<line class="{kind}" x1="{x:.0f}" y1="{y:.0f}" x2="{to_x:.0f}" y2="{to_y:.0f}"/>'


def _arrow(source, target, y, kind):
    back = -7 if target > source else 7
    head = f"{target},{y} {target + back},{y - 4} {target + back},{y + 4}"
    tip = f'<polygon class="claret-tip" points="{head}"/>'
    return _line(source, y, target + back / 2, y, kind) + tip
