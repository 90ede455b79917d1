"""Conditions of `EXEC`: a transaction that takes effect if keys hold what the client has seen."""

import pytest
import redis
from harness import work_in_threads

ABORTED = "Transaction discarded because of: "


def run(ask, *commands, conditions=()):
    """Carries out a transaction and returns its replies, or None if a condition did not hold."""
    ask("MULTI")
    for command in commands:
        ask(*command)
    return ask("EXEC", *conditions)


@pytest.fixture
def ask(server):
    """Sends commands over one connection."""
    with server.client(single_connection_client=True) as client:
        yield client.execute_command


@pytest.mark.parametrize(
    "condition, values",
    [
        (("IFEQ", "k", "1"), ["1"]),
        (("ifne", "k", "1"), [None, "2"]),
        (("XX", "k"), ["1", "2"]),
        (("NX", "k"), [None]),
    ],
    ids=lambda case: str(case[0]).lower(),
)
def test_a_transaction_takes_effect_if_its_condition_holds(ask, condition, values):
    # Keys of different shards, and none but the one that the condition is about.
    for writes in [[("INCR", "n"), ("RPUSH", "l", "x"), ("SET", "other", 1)], [("INCR", "k")], []]:
        for value in (None, "1", "2"):
            ask("DEL", "k", "n", "l", "other")
            if value:
                ask("SET", "k", value)
            replies = run(ask, *writes, conditions=condition)
            assert (replies is not None) == (value in values)
            assert replies is None or len(replies) == len(writes)
            assert ask("EXISTS", "n", "l", "other") == (3 if replies and len(writes) == 3 else 0)


def test_commands_without_keys_wait_for_the_condition_as_well(server, ask):
    with server.client() as hearer:
        news = hearer.pubsub(ignore_subscribe_messages=True)
        news.subscribe("news")
        news.get_message(timeout=5)
        commands = [("ECHO", "a"), ("PUBLISH", "news", "published")]
        assert run(ask, *commands, conditions=("XX", "k")) is None
        assert run(ask, *commands, conditions=("NX", "k"))[0] == "a"
        heard = news.get_message(timeout=10)
        assert heard["data"] == "published" and news.get_message(timeout=0.2) is None


def test_all_conditions_must_hold(ask):
    ask("MSET", "a", "1", "b", "2", "c", "3")
    held = ["IFEQ", "a", "1", "IFNE", "b", "1", "XX", "c", "NX", "d", "IFEQ", "b", "2"]
    assert run(ask, ("INCR", "n"), conditions=held) == [1]
    for at, word in ((2, "0"), (5, "2"), (7, "d"), (9, "a"), (12, "0")):
        failed = [*held]
        failed[at] = word
        assert run(ask, ("INCR", "n"), conditions=failed) is None
    assert ask("GET", "n") == "1"


def test_what_the_transaction_writes_is_not_asked(ask):
    ask("SET", "k", "old")
    replies = run(ask, ("SET", "k", "new"), ("GET", "k"), conditions=("IFEQ", "k", "old"))
    assert replies == ["OK", "new"]
    assert run(ask, ("INCR", "n"), conditions=("IFEQ", "k", "old")) is None


def test_a_key_of_another_type_is_an_error(ask):
    ask("RPUSH", "l", "x")
    for writes in ([("INCR", "n")], [("INCR", "n"), ("INCR", "m"), ("INCR", "o")]):
        for condition in ("IFEQ", "IFNE"):
            with pytest.raises(redis.ResponseError, match="wrong kind of value"):
                run(ask, *writes, conditions=(condition, "l", "x"))
    assert run(ask, ("INCR", "n"), conditions=("XX", "l")) == [1]


def test_wrong_words_discard_the_transaction(ask):
    for wrong in (["k"], ["IFEQ"], ["IFEQ", "k"], ["XX", "k", "NX"], ["IFGT", "k", "1"]):
        ask("MULTI")
        ask("INCR", "n")
        with pytest.raises(redis.exceptions.ExecAbortError, match=ABORTED + "syntax error in a condition"):
            ask("EXEC", *wrong)
        with pytest.raises(redis.ResponseError, match="EXEC without MULTI"):
            ask("EXEC", *wrong)
        with pytest.raises(redis.ResponseError, match="^unknown command"):
            ask("NONSENSE")
    too_many = ["XX", "k"] * 10_001
    ask("MULTI")
    with pytest.raises(redis.exceptions.ExecAbortError, match="watched keys and conditions"):
        ask("EXEC", *too_many)
    assert ask("EXISTS", "n") == 0


def test_conditions_go_with_watched_keys(server, ask):
    for changed in (False, True):
        ask("SET", "k", "1")
        ask("WATCH", "w")
        if changed:
            with server.client() as other:
                other.incr("w")
        replies = run(ask, ("INCR", "n"), conditions=("IFEQ", "k", "1"))
        assert replies == (None if changed else [1])


def test_conditions_are_about_the_database_before_the_transaction(ask):
    ask("SELECT", 3)
    ask("SET", "k", "of 3")
    writes = [("SELECT", 5), ("SET", "k", "of 5")]
    assert run(ask, *writes, conditions=("IFEQ", "k", "of 3")) == ["OK", "OK"]
    assert ask("GET", "k") == "of 5"
    assert run(ask, ("SELECT", 3), ("GET", "k"), conditions=("IFEQ", "k", "of 5")) == ["OK", "of 3"]
    for refused in (["nonsense"], ["XX", "k"] * 10_001):
        with pytest.raises(redis.exceptions.ExecAbortError):
            run(ask, ("SELECT", 5), conditions=refused)
        assert ask("GET", "k") == "of 3", "a transaction that is refused selects nothing"


def test_a_repeated_request_is_answered_whatever_holds_by_then(ask):
    ask("SET", "k", "1")
    for _ in range(2):
        ask("CLIENT", "REQUEST", "me", 1)
        assert run(ask, ("SET", "k", "2"), ("INCR", "n"), conditions=("IFEQ", "k", "1")) == ["OK", 1]
    ask("CLIENT", "REQUEST", "me", 2)
    assert run(ask, ("INCR", "n"), conditions=("IFEQ", "k", "1")) is None


def test_only_keys_that_a_user_may_read_are_asked(make_server):
    users = '[[users]]\nname = "default"\npassword = "p"\n'
    users += 'rules = ["on", "+@all", "~mine:*", "%W~yours:*"]\n'
    server = make_server(config=users).start()
    with server.client(password="p", single_connection_client=True) as client:
        ask = client.execute_command
        assert run(ask, ("SET", "yours:k", 1), conditions=("NX", "mine:k")) == ["OK"]
        for condition in (("IFEQ", "yours:k", "1"), ("NX", "theirs"), ("XX", "mine:k", "XX", "theirs")):
            with pytest.raises(redis.exceptions.ExecAbortError, match=ABORTED + "No permissions"):
                run(ask, ("SET", "mine:k", 1), conditions=condition)
            with pytest.raises(redis.ResponseError, match="EXEC without MULTI"):
                ask("EXEC")
        assert ask("EXISTS", "mine:k") == 0


def count(clients, steps, key="n", log="log"):
    """Adds to a counter, and to a list of another shard, if the counter is what each thread has seen."""

    def work(number):
        with clients(number) as client:
            for _ in range(steps):
                while True:
                    seen = client.get(key)
                    conditions = ("NX", key) if seen is None else ("IFEQ", key, seen)
                    with client.pipeline(transaction=False) as pipe:
                        pipe.execute_command("MULTI")
                        pipe.set(key, int(seen or 0) + 1)
                        pipe.rpush(log, number)
                        pipe.execute_command("EXEC", *conditions)
                        if pipe.execute()[-1] is not None:
                            break

    work_in_threads(work, 6)


def test_counting_by_comparison_loses_nothing(server):
    count(lambda _: server.client(), 40)
    with server.client() as client:
        assert client.get("n") == "240" and client.llen("log") == 240


def test_machines_compare_for_each_other(make_cluster):
    cluster = make_cluster(shards=4).start()
    keys = [(f"n{i}", f"log{i}") for i in range(3)]
    for key, log in keys:
        count(lambda number: cluster.nodes[number % 3].client(), 8, key, log)
    with cluster.nodes[0].client() as client:
        for key, log in keys:
            assert client.get(key) == "48" and client.llen(log) == 48
    with cluster.nodes[1].client(single_connection_client=True) as client:
        client.set("text", "x" * 1000)
        client.rpush("l", 1)
        ask, writes = client.execute_command, [("INCR", f"m{i}") for i in range(4)]
        assert run(ask, *writes, conditions=("IFEQ", "text", "x" * 1000)) == [1] * 4
        with pytest.raises(redis.ResponseError, match="wrong kind of value"):
            run(ask, *writes, conditions=("IFEQ", "l", "1"))
        assert client.mget(f"m{i}" for i in range(4)) == ["1"] * 4
