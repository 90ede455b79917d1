"""Tables of results: a column for each client."""

import collections


def table(clients, results):
    """A row for each story, as text, with the sums below."""
    status = {(one["client"], one["file"], one["story"]): one["status"] for one in results}
    rows = list(dict.fromkeys((one["file"], one["story"]) for one in results))
    width = max([len(f"{file}: {story}") for file, story in rows], default=0)
    columns = [max(len(name), len("absent")) for name in clients]
    lines = [_line("", width, clients, columns)]
    for file, story in rows:
        cells = [status[name, file, story] for name in clients]
        lines.append(_line(f"{file}: {story}", width, cells, columns))
    for kind in ("ok", "absent", "failed"):
        sums = [str(sum(status[(name, *row)] == kind for row in rows)) for name in clients]
        lines.append(_line(kind, width, sums, columns))
    return "\n".join(lines)


def _line(title, width, cells, columns):
    padded = [cell.ljust(column) for cell, column in zip(cells, columns)]
    return "  ".join([title.ljust(width), *padded]).rstrip()


def sums(clients, results):
    """A row for each file of stories, and one for all, in Markdown."""
    count = collections.Counter()
    for one in results:
        for row in (one["file"], "all"):
            count[row, one["client"], one["status"]] += 1
    names = [*dict.fromkeys(one["file"] for one in results), "all"]
    rows = [["stories", *clients], ["---"] * (len(clients) + 1)]
    rows += [[name, *(_sum(count, name, client) for client in clients)] for name in names]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _sum(count, row, client):
    of_kind = {kind: count[row, client, kind] for kind in ("ok", "absent", "failed")}
    return ", ".join(f"{number} {kind}" for kind, number in of_kind.items() if number)
