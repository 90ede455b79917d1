"""What a command answers between MULTI and EXEC, or in a TXN, behind whichever other command.

The commands are those of `replies.txt` that leave a connection as it is, in an order in which each
comes directly behind each: transactions of some length, which may depend on what they read, and
short ones. redis-server carries out the same.
"""

import pytest
from beside import Connection, table

BEFORE, COMMANDS = table()
# What changes the connection, tells of it or of the time, or stands for the whole database: not here.
ALONE = {"client", "command", "config", "discard", "exec", "flushall", "flushdb", "multi", "psubscribe"}
ALONE |= {"subscribe", "watch", "unwatch", "wait", "dbsize", "keys", "scan", "publish", "pubsub", "select"}
ALONE |= {"spublish", "ssubscribe"}
ALONE |= {"acl", "latency", "slowlog", "fcall", "fcall_ro", "function", "lolwut"}
ALONE |= {"script", "randomkey", "nosuchcommand", "memory", "expiretime", "pexpiretime", "ttl", "pttl", "object"}
# So long are the long transactions.
LENGTH = 60


def fits(words, how):
    """Whether a command's reply says the same in any transaction, whatever came before it."""
    return how == "" and words[0].lower() not in ALONE


@pytest.fixture(scope="module")
def commands(servers):
    """Commands that redis-server takes into a transaction."""
    fitting = [words for words, how in COMMANDS if fits(words, how)]
    with Connection(servers[0].port) as asked:
        replies = asked.ask_all([["MULTI"], *fitting])[1:]
    return [words for words, reply in zip(fitting, replies) if reply == ("+", "QUEUED")]


def one_of_each(commands):
    """One command for each name, and for each way in which it may go."""
    named = {}
    for words in commands:
        none = any(word == "none" for word in words[1:])
        named.setdefault((words[0].lower(), none), words)
    return list(named.values())


def each_behind_each(commands):
    """An order in which each command comes directly behind each, itself included, once."""
    count = len(commands)
    # A walk over all edges of the complete graph (Hierholzer).
    left = [list(range(count)) for _ in range(count)]
    path, order = [0], []
    while path:
        at = path[-1]
        if left[at]:
            path.append(left[at].pop())
        else:
            order.append(path.pop())
    return [commands[number] for number in reversed(order)]


def in_multi(port, transactions):
    """The replies of transactions between MULTI and EXEC."""
    replies = []
    with Connection(port) as asked:
        for transaction in transactions:
            lines = [["FLUSHALL"], *BEFORE, ["MULTI"], *transaction, ["EXEC"]]
            replies.append(asked.ask_all(lines)[-1])
    return replies


def in_txn(port, transactions, blind):
    """The same in a TXN, put together as EXEC would have it."""
    replies = []
    begin = ["TXN", "BEGIN", "BLIND"] if blind else ["TXN", "BEGIN"]
    with Connection(port) as asked:
        for transaction in transactions:
            lines = [["FLUSHALL"], *BEFORE, begin, *transaction, ["TXN", "COMMIT"]]
            *found, (kind, deferred) = asked.ask_all(lines)[len(BEFORE) + 2 :]
            assert kind == "*", deferred
            later = iter(deferred)
            found = [next(later) if reply == ("+", "QUEUED") else reply for reply in found]
            assert not list(later), f"replies that belong to no command: {transaction}"
            replies.append(("*", found))
    return replies


def taken(port, commands):
    """Commands that a blind transaction takes: it cannot go on without one that it refuses."""
    lines = [[["TXN", "BEGIN", "BLIND"], words, ["TXN", "COMMIT"]] for words in commands]
    with Connection(port) as asked:
        replies = asked.ask_all([["FLUSHALL"], *BEFORE, *(line for one in lines for line in one)])
    ends = replies[len(BEFORE) + 3 :: 3]
    return [words for words, (kind, _) in zip(commands, ends) if kind == "*"]


def compare(transactions, expected, found):
    """Says which command of which transaction has answered something else."""
    wrong = []
    for transaction, left, right in zip(transactions, expected, found):
        if left == right:
            continue
        if left[0] != "*" or right[0] != "*" or len(left[1]) != len(right[1]):
            wrong.append(f"{transaction}: {left} in Redis, {right} here")
            continue
        for at, (words, one, other) in enumerate(zip(transaction, left[1], right[1])):
            if one != other:
                behind = " ".join(transaction[at - 1]) if at else "nothing"
                wrong.append(f"{' '.join(words)} behind {behind}: {one} in Redis, {other} here")
                break
    assert not wrong, f"{len(wrong)} transactions differ:\n" + "\n".join(wrong[:30])


def long_ones(commands):
    """Transactions that have all pairs in them."""
    order = each_behind_each(one_of_each(commands))
    return [order[at : at + LENGTH + 1] for at in range(0, len(order) - 1, LENGTH)]


def short_ones(commands):
    """Transactions of a command, one without keys, a read and another command."""
    between = [["ECHO", "e"], ["GET", "a"]]
    others = commands[7:] + commands[:7]
    return [[one, *between, other, ["PING"]] for one, other in zip(commands, others)]


def test_each_command_behind_each_answers_what_redis_does_in_multi(servers, commands):
    assert len(one_of_each(commands)) > 150
    for transactions in (short_ones(commands), long_ones(commands)):
        expected, found = (in_multi(server.port, transactions) for server in servers)
        compare(transactions, expected, found)


@pytest.mark.parametrize("blind", [False, True], ids=["values", "blind"])
def test_each_command_in_a_txn_answers_what_redis_does_in_multi(servers, commands, blind):
    redis, claret = servers
    if blind:
        commands = taken(claret.port, commands)
        assert len(commands) > 150
    transactions = short_ones(commands)
    expected = in_multi(redis.port, transactions)
    compare(transactions, expected, in_txn(claret.port, transactions, blind))
