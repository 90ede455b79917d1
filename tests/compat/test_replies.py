"""Every reply to every command is that of redis-server, in both versions of the protocol.

The commands are in `replies.txt`. What a command answers in a transaction, behind whichever other
one, is in `test_pairs.py`.
"""

import pytest
from beside import Connection, table

# What Redis has and Claret has not, and the other way round, is in docs/reference/redis-commands.md.
BEFORE, COMMANDS = table()


def shape(reply):
    """The types of a reply's parts."""
    kind, value = reply
    if isinstance(value, list):
        parts = [tuple(map(shape, part)) if kind == "%" else shape(part) for part in value]
        return kind, len(parts), sorted(set(map(str, parts)))
    return kind, value is None


def pairs(reply):
    """A flat array as pairs, where it is one: in RESP2 a map and members with scores are that."""
    kind, value = reply
    flat = kind == "*" and value and all(part[0] in "$,:" for part in value)
    return list(zip(value[::2], value[1::2])) if flat and len(value) % 2 == 0 else value


def same(how, words, left, right):
    """Whether two replies are the same, as far as the table says that they must be."""
    if left == right:
        return True
    if how in ("", "7.2") or left[0] != right[0]:
        return False
    if how == "shape":
        return shape(left) == shape(right)
    if how == "step":
        parts = [[part[0] for part in reply[1]] for reply in (left, right)]
        return parts == [["$", "*"]] * 2
    if how == "elapsed":
        return left[0] == ":" and abs(int(left[1]) - int(right[1])) <= 2_000
    assert how == "any order", f"unknown way to compare {words}: {how}"
    keyed = words[0].upper() in ("HGETALL", "HRANDFIELD", "ZRANDMEMBER", "ZUNION")
    parts = [pairs(reply) if keyed and reply[0] == "*" else reply[1] for reply in (left, right)]
    return sorted(map(str, parts[0])) == sorted(map(str, parts[1]))


@pytest.mark.parametrize("database", [0, 9])
@pytest.mark.parametrize("protocol", [2, 3])
def test_replies_are_those_of_redis(servers, protocol, database):
    before = [["FLUSHALL"], ["SELECT", str(database)], *BEFORE]
    found = [[], []]
    for words, _ in COMMANDS:
        # One server right after the other, for what is said about time.
        for server, replies in zip(servers, found):
            # A connection may be in another state afterwards.
            with Connection(server.port, protocol) as asked:
                *_, reply = asked.ask_all([*before, words])
                replies.append(reply)
    version = servers[0].version
    wrong = [
        f"{' '.join(words)}: {left} in Redis, {right} here"
        for (words, how), left, right in zip(COMMANDS, *found)
        if not (how == "7.2" and version < (7, 2)) and not same(how, words, left, right)
    ]
    assert not wrong, f"{len(wrong)} replies differ:\n" + "\n".join(wrong)


def test_no_command_that_both_have_is_left_out(servers):
    names = []
    for server in servers:
        with Connection(server.port) as asked:
            names.append({name.lower() for _, name in asked.ask(["COMMAND", "LIST"])[1]})
    asked_for = {words[0].lower() for words, _ in COMMANDS}
    # What concerns the server as a whole, and what has no reply or ends the connection, has tests of
    # its own.
    elsewhere = {"acl", "asking", "auth", "bgsave", "cluster", "failover", "hello", "info"}
    elsewhere |= {"lastsave", "latency", "quit", "readonly", "readwrite", "reset", "role", "save"}
    elsewhere |= {"shutdown", "slowlog", "unsubscribe", "punsubscribe", "sunsubscribe", "debug", "monitor"}
    elsewhere |= {"lolwut"}
    missing = (names[0] & names[1]) - asked_for - elsewhere
    assert not missing, f"replies.txt has no line with {sorted(missing)}"
