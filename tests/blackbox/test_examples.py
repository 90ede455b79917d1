"""What the documents show works as shown."""

import re

from harness import ROOT

README = (ROOT / "README.md").read_text()
LOCKS_GUIDE = "\n".join(
    (ROOT / "docs/locks" / page).read_text()
    for page in ("README.md", "recipes.md", "fast.md", "elections.md")
)
PIPELINES_GUIDE = (ROOT / "docs/guide/pipelines.md").read_text()
PYTHON_GUIDE = (ROOT / "docs/guide/python.md").read_text()
FIRST_HOUR = (ROOT / "docs/start/first-hour.md").read_text()
STOCK_CLIENTS = (ROOT / "docs/howto/stock-clients.md").read_text()
FROM_REDIS = (ROOT / "docs/howto/from-redis.md").read_text()
TRANSACTIONS_GUIDE = (ROOT / "docs/transactions/hot-data.md").read_text()


def blocks(text):
    """The indented blocks of a document, each as its lines."""
    found, block = [], []
    for line in text.split("\n") + [""]:
        if line.startswith("    "):
            block.append(line[4:])
        elif block and line == "":
            block.append("")
        elif block:
            found.append("\n".join(block).rstrip())
            block = []
    return found + (["\n".join(block).rstrip()] if block else [])


def section(text, title):
    """A section of a document."""
    return re.search(rf"^## {title}$(.*?)(?=^## |\Z)", text, re.M | re.S)[1]


def ends(block):
    """Whether an example ends by itself: some wait for others, who are not there."""
    return not any(word in block for word in ("observe()", "barrier("))


def test_the_tour_of_the_readme(make_server):
    server = make_server().start()
    tour = section(README, "Sixty seconds")
    typed = [line[2:] for block in blocks(tour) for line in block.split("\n") if line[:2] == "> "]
    assert len(typed) > 8
    printed = server.cli(stdin="\n".join(typed) + "\n").split("\n")
    assert not [line for line in printed if re.match(r"[A-Z]*(ERR|TYPE|ABORT|PERM)", line)], printed
    with server.client() as client:
        expected = (client.get("stock:apples"), client.smembers("basket:cem"))
        assert expected == ("3", {"apple"})
        assert client.zscore("scores", "ben") == 13
        server.restart()
        assert (client.get("stock:apples"), client.smembers("basket:cem")) == expected


def test_the_guide_for_python(server):
    names = {"__name__": "guide"}
    for block in filter(ends, blocks(PYTHON_GUIDE)):
        if not block.startswith("pip "):
            code = block.replace("6379", str(server.port))
            exec(compile(code, "docs/guide/python.md", "exec"), names)
    assert names["db"].get("account:ann") == "70"
    assert len(names["sold"]) == 3


def test_the_programs_for_hot_data(server):
    names = {"__name__": "guide"}
    for block in blocks(section(TRANSACTIONS_GUIDE, "Fast programs for hot data")):
        code = block.replace("6379", str(server.port))
        exec(compile(code, "docs/transactions/hot-data.md", "exec"), names)
    db = names["db"]
    assert (names["price"], names["views"]) == ("110", "1")
    assert (names["Counter"](db, "seats").get(), db.smembers("guests")) == (98, {"ann"})


def test_the_guide_for_locks(server):
    names = {"__name__": "guide", "days": ["2026-09-30"]}
    for block in filter(ends, blocks(LOCKS_GUIDE)):
        code = block.replace("6379", str(server.port))
        exec(compile(code, "docs/locks", "exec"), names)
    db = names["db"]
    assert db.lrange("reports", 0, -1) == ["2026-09-30"]
    assert (db.get("report:newest"), db.get("{report}:count")) == ("2026-11-30", "3")
    # What the server kept for its clients it has given back when somebody else wanted it.
    assert db.execute_command("LOCK.HOLDERS", "report") == []


def test_the_pages_for_those_who_come_from_elsewhere(server, capsys):
    for page, said in (("from-redlock.md", "larger token"), ("from-etcd.md", "2026-11-30 5")):
        names = {"__name__": "guide"}
        for block in blocks((ROOT / "docs/howto" / page).read_text()):
            code = block.replace("6379", str(server.port))
            exec(compile(code, page, "exec"), names)
        assert said in capsys.readouterr().out
        names["db"].close()
    with server.client() as client:
        assert client.get("report:newest") == "by ben"


def test_the_guide_for_pipelines(make_server):
    server = make_server("--order", "constant", shards=4).start()
    names = {"__name__": "guide"}
    for block in blocks(PIPELINES_GUIDE):
        code = block.replace("6379", str(server.port))
        exec(compile(code, "docs/guide/pipelines.md", "exec"), names)
    assert names["db"].llen("timeline:ben") == 3 and names["sent"]


def run_python(text, port):
    """Carries the blocks of a document out that are Python, in one session; gives its names."""
    names = {"__name__": "page"}
    python = [block for block in blocks(text) if re.match(r"(from|import|def) ", block)]
    assert python
    for block in python:
        exec(compile(block.replace("6379", str(port)), "a page", "exec"), names)
    return names


def test_the_program_of_the_first_hour(server):
    names = run_python(FIRST_HOUR, server.port)
    assert names["booked"] == 100


def test_the_program_with_a_cache(server, capsys):
    names = run_python((ROOT / "docs/howto/caching.md").read_text(), server.port)
    assert (names["price"], names["again"], names["item"]["name"]) == ("120", "120", "lamp")
    assert "hits=1, misses=2, dropped=0" in capsys.readouterr().out
    names["db"].close()


def test_the_loop_for_a_stock_client(server):
    page = section(STOCK_CLIENTS, "The loop")
    names = run_python(page[: page.index("### ioredis")], server.port)
    with server.client() as client:
        client.set("left", 3)
        assert [names["run"](names["sell"]) for _ in range(3)] == [2, 1, 0]
        assert client.get("left") == "0"


def test_the_copy_from_redis(server, make_server):
    source = make_server().start()
    with source.client(decode_responses=False) as old, server.client(decode_responses=False) as new:
        new.flushall()
        old.set("s", "text", px=60_000)
        old.hset("h", mapping={"a": "1"})
        old.rpush("l", "x", "y")
        old.sadd("m", "x")
        old.zadd("z", {"x": 1.5})
        page = section(FROM_REDIS, "Copying the data")
        [program] = [block for block in blocks(page) if block.startswith("import redis")]
        names = {}
        exec(compile(program[: program.rindex("copy(redis")], "a page", "exec"), names)
        names["copy"](old, new)
        assert new.dbsize() == 5 and 0 < new.pttl("s") <= 60_000
        assert (new.lrange("l", 0, -1), new.zscore("z", "x")) == ([b"x", b"y"], 1.5)
