"""redis-cli, as people type it."""

import pytest


@pytest.fixture(autouse=True)
def empty(server):
    server.cli("FLUSHALL")


def test_one_liners(server):
    assert server.cli("PING") == "PONG"
    assert server.cli("SET", "greeting", "hello world") == "OK"
    assert server.cli("GET", "greeting") == "hello world"
    assert server.cli("INCR", "n") == "1"
    assert server.cli("RPUSH", "l", "a", "b", "c") == "3"
    assert server.cli("LRANGE", "l", 0, -1).split("\n") == ["a", "b", "c"]
    assert server.cli("HSET", "h", "f", "1", "g", "2") == "2"
    assert server.cli("HGETALL", "h").split("\n") == ["f", "1", "g", "2"]
    assert server.cli("TYPE", "h") == "hash"
    assert server.cli("DBSIZE") == "4"
    assert server.cli("GET", "nothing") == ""


def test_errors_say_what_redis_says(server):
    server.cli("RPUSH", "l", "a")
    assert server.cli("GET", "l").startswith("WRONGTYPE Operation against a key")
    assert server.cli("GET").startswith("ERR wrong number of arguments for 'get' command")
    assert server.cli("FROBNICATE", "x").startswith("ERR unknown command 'FROBNICATE'")
    server.cli("SET", "s", "x")
    assert server.cli("INCR", "s").startswith("ERR value is not an integer or out of range")


def test_the_third_protocol(server):
    server.cli("HSET", "h", "f", "1")
    server.cli("ZADD", "z", "1.5", "a")
    assert server.cli("PING", flags=["-3"]) == "PONG"
    assert server.cli("HGETALL", "h", flags=["-3", "--no-raw"]) == '1# "f" => "1"'
    assert "(double) 1.5" in server.cli("ZSCORE", "z", "a", flags=["-3", "--no-raw"])


def test_scan_sees_every_key_once(server):
    stdin = "".join(f"SET key:{i} {i}\n" for i in range(500)) + "SET other 1\n"
    assert server.cli(stdin=stdin).count("OK") == 501
    found = server.cli(flags=["--scan", "--pattern", "key:*"]).split("\n")
    assert sorted(found) == sorted(f"key:{i}" for i in range(500))


def test_a_session_from_standard_input(server):
    stdin = "MULTI\nINCRBY a 5\nINCRBY b -5\nEXEC\nGET a\nGET b\n"
    assert server.cli(stdin=stdin).split("\n") == ["OK", "QUEUED", "QUEUED", "5", "-5", "5", "-5"]


def test_mass_insertion_by_pipe(server):
    stdin = "".join(f"*3\r\n$3\r\nSET\r\n$6\r\nm{i:05}\r\n$1\r\nx\r\n" for i in range(5000))
    printed = server.cli(stdin=stdin, flags=["--pipe"])
    assert "errors: 0, replies: 5000" in printed
    assert server.cli("DBSIZE") == "5000"


def test_transactions_of_our_own(server):
    stdin = "SET a 1\nTXN BEGIN\nGET a\nINCR a\nGET a\nTXN COMMIT\nGET a\n"
    lines = server.cli(stdin=stdin).split("\n")
    assert lines[:5] == ["OK", "OK", "1", "2", "2"] and lines[-1] == "2"
    stdin = "TXN BEGIN BLIND\nSET b 1\nTXN ABORT\nEXISTS b\n"
    assert server.cli(stdin=stdin).split("\n") == ["OK", "QUEUED", "OK", "0"]


def test_binary_values_survive(server):
    assert server.cli("SET", "b", stdin="a\r\n\tb\xff", flags=["-x"]) == "OK"
    assert server.cli("GET", "b", flags=["--no-raw"]).startswith(r'"a\r\n\tb')


def test_command_tables(server):
    assert int(server.cli("COMMAND", "COUNT")) > 200
    assert "zadd" in server.cli("COMMAND", "LIST").split("\n")
    assert "Adds" in server.cli("COMMAND", "DOCS", "counter.add")
