"""Integers that the store makes up, as clients see them that hold integers as floats.

JavaScript, Lua and most readers of JSON tell two integers apart up to 2^53 and no further.
"""

import itertools

from redis.exceptions import RedisError

NUMBER_MAX = 2**53 - 1
# What ends the connection or the server, and what waits for others.
LEFT_OUT = {"quit", "shutdown", "subscribe", "psubscribe", "ssubscribe", "monitor", "sync", "psync"}
# Words that make sense to many a command, behind a key of its own.
WORDS = ["1", "2", "a", "0"]


def integers(reply):
    """All integers of a reply, whatever they are in."""
    if isinstance(reply, bool):
        return
    if isinstance(reply, int):
        yield reply
    elif isinstance(reply, dict):
        yield from integers(list(reply.items()))
    elif isinstance(reply, (list, tuple, set)):
        for item in reply:
            yield from integers(item)


def ask(server, words):
    """What a command answers on a connection of its own, as it comes."""
    # A dump is no text.
    options = {"socket_timeout": 0.2, "protocol": 2, "encoding_errors": "replace"}
    with server.client(single_connection_client=True, **options) as db:
        db.connection.send_command(*words)
        return db.connection.read_response()


def calls(server):
    """A few calls of every command of the server, and of what stands behind its name."""
    docs = ask(server, ["COMMAND", "DOCS"])
    for name, about in zip(docs[::2], docs[1::2]):
        inner = dict(zip(about[::2], about[1::2])).get("subcommands") or []
        for words in [[name], *(whole.split("|") for whole in inner[::2])]:
            for length in range(4):
                choices = itertools.product([f"of {name}", *WORDS], repeat=length)
                for behind in itertools.islice(choices, 4):
                    yield [*words, *behind]


def test_no_command_answers_an_integer_that_floats_cannot_hold(server, store):
    asked, seen = set(), []
    for words in calls(server):
        if words[0] in LEFT_OUT:
            continue
        try:
            reply = ask(server, words)
        except RedisError:
            continue
        asked.add(words[0])
        seen += [(number, words) for number in integers(reply)]
    assert [pair for pair in seen if abs(pair[0]) > NUMBER_MAX] == []
    assert len(asked) > 80 and {"lock.try", "client", "uid.next", "backup"} <= asked, sorted(asked)


def test_a_client_with_floats_gives_back_the_locks_that_it_took(store):
    ask = store.execute_command
    taken = [(f"lock:{i}", float(ask("LOCK.ACQUIRE", f"lock:{i}"))) for i in range(200)]
    assert all(ask("FENCE", key, int(token), "SET", f"{{{key}}}", "x") for key, token in taken)
    assert [ask("LOCK.RELEASE", key, int(token)) for key, token in taken] == [1] * 200
    leader = float(ask("ELECTION.CAMPAIGN", "leads", "here"))
    version = float(ask("ELECTION.PROCLAIM", "leads", int(leader), "there"))
    assert leader < version <= NUMBER_MAX
    assert ask("ELECTION.OBSERVE", "leads", "AFTER", int(version), "TIMEOUT", 1) is None
    assert ask("ELECTION.RESIGN", "leads", int(leader)) == 1


def test_tokens_of_sections_and_blocks_differ_as_floats(store):
    pipe = store.pipeline(transaction=False)
    for _ in range(300):
        pipe.execute_command("LOCK.SECTION", "lock", "SET", "{lock}", "x")
    pipe.execute()
    last = 0.0
    for size in (1, 4096, 1, 17, 1024, 1):
        token = float(store.execute_command("LOCK.ACQUIRE", "lock", "TOKENS", size))
        assert last < token
        assert store.execute_command("LOCK.RELEASE", "lock", int(token)) == 1
        last = token + size - 1
