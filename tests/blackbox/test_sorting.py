"""Commands that compute: `SORT` with keys that it finds on the way, `LCS`, and writers of several keys."""

import threading
import time

import pytest
import redis


def refusal(client, *words):
    """The error of a command."""
    with pytest.raises(redis.ResponseError) as error:
        client.execute_command(*words)
    return str(error.value)


@pytest.fixture
def client(server):
    """A client of an empty server with two shards."""
    client = server.client()
    client.flushall()
    yield client
    client.close()


def test_all_keys_that_a_sort_finds_are_read_at_one_moment(client, server):
    client.rpush("players", *range(8))
    stop = threading.Event()

    def play():
        with server.client() as other:
            turn = 0
            while not stop.is_set():
                with other.pipeline(transaction=True) as pipe:
                    for player in range(8):
                        pipe.set(f"score_{player}", (player + turn) % 8)
                        pipe.hset(f"about_{player}", "score", (player + turn) % 8)
                    pipe.execute()
                turn += 1

    player = threading.Thread(target=play)
    player.start()
    try:
        until = time.monotonic() + 2
        seen = set()
        while time.monotonic() < until or len(seen) < 2:
            found = client.sort("players", by="score_*", get=["#", "score_*", "about_*->score"])
            if found[1] is None:
                continue
            assert found[1::3] == found[2::3] == [str(n) for n in range(8)], found
            seen.add(tuple(found[::3]))
            assert client.sort("players", by="about_*->score", get="score_*", store="sorted") == 8
            assert client.lrange("sorted", 0, -1) == [str(n) for n in range(8)]
    finally:
        stop.set()
        player.join()


def test_a_transaction_and_a_script_sort_what_they_have_written(client):
    sort = ["SORT", "l", "BY", "w_*", "GET", "#", "GET", "w_*"]
    client.rpush("l", "a", "b")
    client.mset({"w_a": 1, "w_b": 2})
    client.execute_command("TXN", "BEGIN")
    client.set("w_a", 3)
    client.rpush("l", "c")
    assert client.execute_command(*sort) == ["c", None, "b", "2", "a", "3"]
    assert client.execute_command(*sort, "STORE", "d") == 6
    assert client.lrange("d", 0, -1) == ["c", "", "b", "2", "a", "3"]
    client.execute_command("TXN", "COMMIT")
    script = "redis.call('set', 'w_c', '9') return redis.call(unpack(ARGV))"
    assert client.eval(script, 1, "l", *sort) == ["b", "2", "a", "3", "c", "9"]
    assert client.eval(script, 0, *sort, "DESC", "LIMIT", 0, 1) == ["c", "9"]


def test_patterns_lead_out_of_no_database(client, server):
    with server.client(db=3) as other:
        other.set("secret", "x")
        other.rpush("l", "secret")
        assert other.sort("l", by="nosort", get="*") == ["x"]
    reserved = b"\x00\xc1d\x03secret"
    client.rpush("l", "secret", reserved, "k" * 70_000)
    assert client.sort("l", by="nosort", get="*") == [None, None, None]
    assert client.sort("l", by="nosort", get=b"\x00\xc1d\x03*") == [None, None, None]


def test_a_sort_names_the_limit_that_it_reaches(client):
    client.rpush("many", *range(100_000))
    assert client.sort("many", desc=True, start=0, num=1) == ["99999"]
    assert "at most 5000 keys" in refusal(client, "SORT", "many", "BY", "w_*")
    assert "at most 5000 keys" in refusal(client, "SORT", "many", "GET", "w_*", "LIMIT", 0, 5_001)
    assert client.sort("many", start=0, num=5_000, get="w_*") == [None] * 5_000
    assert "at most 100000 elements" in refusal(client, "SORT", "many", "GET", "#", "GET", "#")
    client.rpush("many", 1)
    assert "at most 100000 elements" in refusal(client, "SORT", "many", "STORE", "many")
    assert client.llen("many") == 100_001
    # A value that is found again and again counts each time.
    client.rpush("same", *["a"] * 100)
    client.set("w_a", "x" * 1_000_000)
    assert "at most 12582912 bytes" in refusal(client, "SORT", "same", "BY", "x", "GET", "w_*")
    assert "at most 12582912 bytes" in refusal(client, "SORT", "same", "BY", "w_*", "ALPHA")
    assert client.exists("d") == 0


def test_strings_that_are_too_long_to_compare_are_refused(client):
    client.mset({"a": "ab" * 8_192, "b": "ba" * 8_192, "long": "x" * (8 << 20), "short": "xyx"})
    begin = time.monotonic()
    assert client.execute_command("LCS", "a", "b", "LEN") == 16_383
    assert time.monotonic() - begin < 2
    assert client.execute_command("LCS", "long", "short") == "xx"
    assert "limit of 268435456" in refusal(client, "LCS", "long", "a")
    client.rpush("l", 1)
    assert "must contain string values" in refusal(client, "LCS", "a", "l")


def test_strings_are_set_together_with_one_expiry_or_not_at_all(client):
    put = lambda *words: client.execute_command("MSETEX", *words)  # noqa: E731
    assert put(2, "a", 1, "b", 2) == 1 and client.mget("a", "b") == ["1", "2"]
    assert put(2, "a", 3, "c", 4, "NX") == 0 and put(2, "a", 3, "c", 4, "XX") == 0
    assert client.mget("a", "c") == ["1", None]
    assert put(2, "a", 5, "b", 6, "EX", 100, "XX") == 1 and 0 < client.ttl("b") <= 100
    assert put(1, "a", 7, "KEEPTTL") == 1 and client.ttl("a") > 0
    assert put(1, "a", 8) == 1 and client.ttl("a") == -1
    assert put(3, "x", 1, "x", 2, "x", 3, "NX", "PX", 100_000) == 1 and client.get("x") == "3"
    assert put(1, "a", 9, "EXAT", 1) == 1 and client.get("a") is None
    client.rpush("l", 1)
    assert put(1, "l", "string", "XX") == 1 and client.get("l") == "string"
    for words in [(0, "a", 1), ("x", "a", 1), (-1, "a", 1)]:
        assert refusal(client, "MSETEX", *words) == "invalid numkeys value"
    for words in [(2, "a", 1), (2, "a", 1, "b"), (1 << 62, "a", 1)]:
        assert refusal(client, "MSETEX", *words) == "wrong number of key-value pairs"
    for words in ["NX XX", "NX NX", "EX 1 PX 1", "KEEPTTL EX 1", "EX", "b 2"]:
        assert refusal(client, "MSETEX", 1, "b", 1, *words.split()) != "", words
    assert "invalid expire time in 'msetex'" in refusal(client, "MSETEX", 1, "b", 1, "EX", 0)
    assert client.get("b") == "6"
    script = "return redis.call('msetex', 2, 'p', 1, 'q', 2, 'NX')"
    assert client.eval(script, 2, "p", "q") == 1 and client.eval(script, 2, "p", "q") == 0
    with client.pipeline(transaction=True) as pipe:
        pipe.execute_command("MSETEX", 1, "p", 5, "XX").execute_command("HGETDEL", "h", "FIELDS", 1, "f")
        assert pipe.execute() == [1, [None]]


def test_a_key_says_how_long_ago_it_was_written(client):
    client.set("k", "v")
    assert client.object("IDLETIME", "k") <= 5 and client.object("REFCOUNT", "k") == 1
    assert client.object("IDLETIME", "none") is None and client.object("FREQ", "none") is None
    assert "LFU" in refusal(client, "OBJECT", "FREQ", "k")
    assert client.execute_command("LOLWUT", "VERSION", 5).startswith("Claret ver. ")
