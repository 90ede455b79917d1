"""Table of results: a row for each story, a column for each client."""


def table(clients, results):
    """The table as text, with the sums below it."""
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
