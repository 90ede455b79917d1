"""Clients that are broken, greedy or wicked, and one beside them that must not notice."""

import os
import random
import resource
import select
import shutil
import socket
import subprocess
import threading
import time

import pytest
import redis
from harness import Server, command, free_port, read_all, until

# About twice what the tests leave in the store.
MEMORY_BYTES_MAX = 500 << 20
IDLE = 10_000 if os.environ.get("CLARET_KILL_S") else 2_000


class Neighbour(threading.Thread):
    """A well-behaved client: counts up and measures how long each step takes."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.client = server.client()
        self.stop = threading.Event()
        self.delays_s = []
        self.error = None

    def run(self):
        count = int(self.client.get("neighbour") or 0)
        try:
            while not (self.delays_s and self.stop.is_set()):
                begin = time.monotonic()
                count += 1
                assert self.client.incr("neighbour") == count
                self.delays_s.append(time.monotonic() - begin)
                time.sleep(0.002)
        except BaseException as error:
            self.error = error


@pytest.fixture(autouse=True)
def neighbour(server):
    """Beside every test; afterwards the server is well and has not grown."""
    beside = Neighbour(server)
    beside.start()
    yield beside
    beside.stop.set()
    beside.join(30)
    assert beside.error is None, repr(beside.error)
    delays = sorted(beside.delays_s)
    assert delays[len(delays) // 2] < 0.25, "the neighbour was slowed down"
    assert delays[-1] < 5, "the neighbour had to wait"
    assert server.alive(), server.said()
    # What was freed is given back to the system within ten seconds (`memory.rs`), not at once.
    until(lambda: server.rss_bytes() < MEMORY_BYTES_MAX, 30, "giving memory back")


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """A server of which little is asked."""
    server = Server(tmp_path_factory.mktemp("quiet")).start()
    yield server
    server.kill()


@pytest.fixture
def undisturbed(server, quiet, neighbour):
    """The neighbour waits for the others of its server for 50 ms at most.

    What the machine does to servers and clients meanwhile is what the client of a server without other
    clients sees, and how long threads that could run have waited for a processor.
    """
    control = Neighbour(quiet)
    control.start()
    begin = len(neighbour.delays_s)
    ran_before, waited_before = server.scheduled_ns()
    yield
    delays = sorted(neighbour.delays_s[begin:])
    ran, waited = server.scheduled_ns()
    crowded = 1 + (waited - waited_before) / max(ran - ran_before, 1)
    control.stop.set()
    control.join(30)
    assert control.error is None, repr(control.error)
    usual = sorted(control.delays_s)
    late, usually = (sorted_s[int(len(sorted_s) * 0.98)] for sorted_s in (delays, usual))
    assert late < 0.05 * crowded + 2 * usually, (crowded, delays[-20:], usual[-20:])


def answer(server, data, timeout_s=10):
    """What the server says to some bytes, to the end of the connection."""
    with server.socket(timeout_s) as client:
        try:
            client.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return read_all(client, timeout_s)


BROKEN = {
    "bulk of a gigabyte": b"*1\r\n$999999999\r\n",
    "bulk of one byte too many": b"*1\r\n$8388609\r\n",
    "one word too many": b"*1048577\r\n",
    "words beyond 31 bits": b"*2147483648\r\n",
    "words beyond 64 bits": b"*99999999999999999999999\r\n",
    "null bulk": b"*1\r\n$-1\r\n",
    "negative bulk": b"*1\r\n$-9\r\n",
    "array in array": b"*1\r\n*1\r\n$4\r\nPING\r\n",
    "number in array": b"*1\r\n:4\r\n",
    "length of letters": b"*1\r\n$x\r\n",
    "count of letters": b"*x\r\n",
    "no line end after bulk": b"*1\r\n$4\r\nPINGPING\r\n",
    "endless inline": b"A" * 70_000,
    "unbalanced quotes": b"GET 'unbalanced\r\n",
    "stars": b"*" * 100 + b"\r\n",
    "endless count": b"*1" * 40_000,
    "endless zeros": b"*" + b"0" * 70_000,
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_frames_get_a_named_error_and_are_dropped(server, name):
    server.client().delete("after")
    said = answer(server, command("PING") + BROKEN[name] + command("SET", "after", "x"), 3)
    replies = said.split(b"\r\n")
    assert replies[0] == b"+PONG", said[:200]
    assert replies[1].startswith(b"-ERR"), said[:200]
    assert len(replies) == 3 and len(said) < 500, said[:500]
    assert not server.client().exists("after")


def test_empty_commands_are_skipped(server):
    assert answer(server, b"\r\n*0\r\n*-1\r\n" + command("QUIT"), 5) == b"+OK\r\n"


TOO_LARGE = {
    "an argument": (command("SET", "large", b"x" * (20 << 20)), b"8388608 bytes"),
    "a frame": (command("SADD", "large", *[b"x" * (1 << 20)] * 40), b"16777216 bytes"),
    "words": (b"*1500000\r\n" + b"$1\r\na\r\n" * 1_500_000, b"1048576 words"),
    "many words of a frame": (
        b"*1048576\r\n" + (b"$64\r\n" + b"x" * 64 + b"\r\n") * 1_048_576,
        b"16777216 bytes",
    ),
}


@pytest.mark.parametrize("large, limit", TOO_LARGE.values(), ids=TOO_LARGE)
def test_what_is_too_large_is_refused_and_the_connection_goes_on(server, large, limit):
    before = server.rss_bytes()
    with server.socket(60) as client:
        client.sendall(command("SET", "before", "1") + large + command("GET", "before"))
        said = b""
        while said.count(b"\r\n") < 4:
            piece = client.recv(1000)
            assert piece, f"the connection is closed after {said}"
            said += piece
        first, error, *rest = said.split(b"\r\n")
        assert first == b"+OK" and rest == [b"$1", b"1", b""], said
        assert error.startswith(b"-ERR Protocol error") and limit in error, said
        client.sendall(command("MULTI") + command("SET", "before", "2") + large + command("EXEC"))
        said = b""
        while said.count(b"\r\n") < 4:
            said += client.recv(1000)
        assert said.split(b"\r\n")[3].startswith(b"-EXECABORT"), said
    assert server.client().get("before") == "1" and not server.client().exists("large")
    assert server.rss_bytes() - before < 64 << 20, "nothing is kept of it"


def test_what_is_too_large_from_a_client_of_redis_py(server):
    with server.client(single_connection_client=True) as client:
        for _ in range(3):
            with pytest.raises(redis.ResponseError, match="at most 8388608 bytes"):
                client.set("large", b"x" * (100 << 20))
        assert client.ping()
        client.set("large", b"x" * (8 << 20))
        assert client.strlen("large") == 8 << 20 and client.delete("large") == 1


def test_a_queue_of_transactions_ends_at_the_limit(server):
    with server.client(single_connection_client=True) as client:
        client.execute_command("MULTI")
        with pytest.raises(redis.RedisError):
            for _ in range(64):
                client.execute_command("SET", "a", "x" * (1 << 20))
        with pytest.raises(redis.RedisError):
            client.execute_command("EXEC")
    with server.client(single_connection_client=True) as client:
        client.execute_command("TXN", "BEGIN", "BLIND")
        with pytest.raises(redis.RedisError):
            for _ in range(64):
                client.execute_command("SET", "a", "x" * (1 << 20))


HTTP = {
    "post": b"POST / HTTP/1.1\r\n",
    "put": b"PUT /index HTTP/1.1\r\n",
    "get": b"GET / HTTP/1.1\r\n",
    "host": b"Host: 127.0.0.1:6379\r\n",
    "header": b"Content-Type: text/plain\r\n",
    "as words": command("POST", "/"),
}


@pytest.mark.parametrize("head", HTTP.values(), ids=HTTP)
def test_what_follows_a_line_of_http_is_not_carried_out(make_server, head):
    server = make_server().start()
    head += b"Host: 127.0.0.1\r\nContent-Length: 14\r\n\r\n"
    begin = time.monotonic()
    said = answer(server, head + b"SET pwned 1\r\n" + command("SET", "pwned", "1"))
    assert said.startswith(b"-ERR") and b"HTTP" in said and said.count(b"\r\n") == 1, said
    assert time.monotonic() - begin < 5, "the connection is closed at once"
    assert not server.client().exists("pwned")
    assert "sends HTTP" in server.said()


def test_http_behind_other_commands_in_one_transaction_ends_it(server):
    said = answer(server, command("MULTI") + b"POST / HTTP/1.1\r\nSET pwned 1\r\nEXEC\r\n")
    assert said.startswith(b"+OK\r\n-ERR") and said.count(b"\r\n") == 2, said
    assert not server.client().exists("pwned")


def test_curl_cannot_write(make_server):
    server = make_server().start()
    url = f"http://127.0.0.1:{server.port}/"
    line = ["curl", "-s", "-X", "POST", "--data-binary", "SET pwned 1\r\n", "-m", "10", url]
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    assert subprocess.run(line, capture_output=True, timeout=20).returncode != 0
    assert not server.client().exists("pwned")


def test_http_at_the_port_for_zookeepers_protocol_is_closed_and_told(make_server):
    port = free_port()
    server = make_server("--zookeeper-port", str(port)).start()
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert read_all(client) == b""
    assert "sends HTTP" in server.said()


def test_half_commands_and_hasty_farewells(server):
    whole = command("SET", "half", "x" * 100)
    for end in range(1, len(whole), 7):
        with server.socket() as client:
            client.sendall(whole[:end])
    assert not server.client().exists("half")
    with server.socket() as client:
        for at in range(len(whole)):
            client.sendall(whole[at : at + 1])
        assert client.recv(100) == b"+OK\r\n"
    for _ in range(50):
        with server.socket() as client:
            client.sendall(command("SET", "hasty", "y" * 1000) * 20)


def test_random_bytes(server):
    chance = random.Random(4711)
    alphabet = [b"*", b"$", b"\r\n", b"1", b"3", b"-", b"GET", b"\x00", b"\xff", b" ", b":", b"'"]
    for _ in range(300):
        data = b"".join(chance.choices(alphabet, k=chance.randint(1, 60)))
        with server.socket() as client:
            client.sendall(data + chance.randbytes(chance.randint(0, 50)))
    assert server.client().ping()


def drain(client, count):
    """Reads so many bytes and keeps none; gives the last few."""
    last = b""
    while count > 0:
        piece = client.recv(min(count, 1 << 20))
        assert piece, f"the connection is closed with {count} bytes missing"
        count -= len(piece)
        last = (last + piece)[-64:]
    return last


def bulks(count, size):
    """How many bytes an array of strings has."""
    return len(b"*%d\r\n" % count) + count * (len(b"$%d\r\n" % size) + size + 2)


@pytest.fixture(autouse=True)
def emptied():
    """Nothing: the large records are made once for the tests of this file."""


@pytest.fixture(scope="module")
def large(server):
    """Records with large replies."""
    client = server.client()
    for _ in range(60):
        client.rpush("large list", *[b"x" * 1024] * 1024)
    for i in range(11):
        client.set(f"large {i}", b"y" * (3 << 20))
    client.set("large", b"z" * (1 << 20))
    for i in range(0, 200_000, 10_000):
        client.hset("large hash", mapping={f"field {n:06}": b"v" * 76 for n in range(i, i + 10_000)})
    client.sadd("large set", b"m" * 60_000)
    yield client
    client.flushall()


READERS = {
    "LRANGE of 60 MiB": (command("LRANGE", "large list", 0, -1), bulks(60 * 1024, 1024)),
    "MGET of 33 MiB": (command("MGET", *[f"large {i}" for i in range(11)]), bulks(11, 3 << 20)),
    "40 GETs of 1 MiB": (command("GET", "large") * 40, 40 * (bulks(1, 1 << 20) - 4)),
    "20 HGETALLs of 20 MB": (
        command("HGETALL", "large hash") * 20,
        20 * (len(b"*400000\r\n") + 200_000 * (len(b"$12\r\n\r\n$76\r\n\r\n") + 12 + 76)),
    ),
    "EXEC of 120 MiB": (
        command("MULTI") + command("LRANGE", "large list", 0, -1) * 2 + command("EXEC"),
        len(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n") + 2 * bulks(60 * 1024, 1024),
    ),
    "SRANDMEMBER of 600 MB": (command("SRANDMEMBER", "large set", -10_000), bulks(10_000, 60_000)),
}


@pytest.mark.parametrize("request_bytes, count", READERS.values(), ids=READERS)
def test_a_client_that_reads_gets_its_replies_however_large(
    server, large, undisturbed, request_bytes, count
):
    before = server.rss_bytes()
    with server.socket(60) as client:
        client.sendall(request_bytes + command("PING"))
        time.sleep(1)
        assert server.rss_bytes() - before < 100 << 20
        assert drain(client, count + len(b"+PONG\r\n")).endswith(b"\r\n+PONG\r\n")
        assert server.rss_bytes() - before < 150 << 20


def test_a_slow_reader_is_paused_or_dropped(server):
    client = server.client()
    client.set("big", "x" * (1 << 20))
    before = server.rss_bytes()
    with server.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(0.5)
        request, sent = command("GET", "big") * 100, 0
        try:
            for _ in range(200):
                slow.sendall(request)
                sent += 100
        except OSError:
            pass
        time.sleep(1)
        assert server.rss_bytes() - before < 200 << 20
    until(lambda: server.client().ping())


def test_a_deaf_subscriber_is_dropped(server):
    with server.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(command("SUBSCRIBE", "loud"))
        client = server.client()
        until(lambda: client.pubsub_numsub("loud")[0][1] == 1)
        text = "x" * (1 << 20)
        for _ in range(100):
            if client.publish("loud", text) == 0:
                break
        until(lambda: client.pubsub_numsub("loud")[0][1] == 0, 20, "dropping the subscriber")


def test_thousands_of_idle_connections(server):
    limit = IDLE + 500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, hard), hard))
    count = min(IDLE, hard - 500)
    before = server.rss_bytes()
    idle = []
    try:
        for _ in range(count):
            idle.append(server.socket())
        client = server.client()
        until(lambda: client.info("clients")["connected_clients"] >= count, 30)
        assert server.rss_bytes() - before < 20_000 * count
        for connection in idle[::50]:
            connection.sendall(command("PING"))
        assert all(connection.recv(10) == b"+PONG\r\n" for connection in idle[::50])
    finally:
        for connection in idle:
            connection.close()
    until(lambda: server.client().info("clients")["connected_clients"] < 100, 30)


def test_a_long_pipeline_without_reading_is_answered_in_order(server):
    count = 100_000
    with server.socket(60) as client:
        writer = threading.Thread(
            target=lambda: client.sendall(b"".join(command("INCR", "long") for _ in range(count)))
        )
        writer.start()
        received = b""
        while received.count(b"\r\n") < count:
            chunk = client.recv(1 << 20)
            assert chunk
            received += chunk
        writer.join()
    assert received == b"".join(b":%d\r\n" % i for i in range(1, count + 1))


def flood(server, requests, seconds):
    """Sends requests and reads nothing; gives the most memory that the server took meanwhile."""
    most, end = 0, time.monotonic() + seconds
    with server.socket(0.2) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            client.sendall(requests)
        except OSError:
            pass
        while time.monotonic() < end:
            most = max(most, server.rss_bytes())
            time.sleep(0.02)
    return most


FLOODS = {
    "SRANDMEMBER of 6 GB": command("SRANDMEMBER", "large set", -100_000),
    "400 HGETALLs of 20 MB": command("HGETALL", "large hash") * 400,
    "1000 parts of a string": command("GETRANGE", "large 1", 1, -1) * 1000,
    "HGETALLs behind small ones": command("HGETALL", "no hash") * 300
    + command("HGETALL", "large hash") * 300,
    "HGETALLs behind a barrier": command("MSET", "a", 1, "b", 2, "c", 3, "d", 4)
    + command("HGETALL", "large hash") * 400,
    "a transaction of HGETALLs": command("MULTI")
    + command("HGETALL", "large hash") * 400
    + command("EXEC"),
    "a transaction of parts of a string": command("MULTI")
    + command("GETRANGE", "large 1", 1, -1) * 1000
    + command("EXEC"),
}


@pytest.mark.parametrize("requests", FLOODS.values(), ids=FLOODS)
def test_who_reads_nothing_costs_little_memory_and_others_no_time(
    server, large, undisturbed, requests
):
    before = server.rss_bytes()
    most = flood(server, requests, 3)
    assert most - before < 450 << 20, f"{(most - before) >> 20} MiB"


def test_many_large_replies_that_are_not_read_are_bounded(server, large, undisturbed):
    # How many are made at once depends on the replies before: after small ones it is many.
    request, count = READERS["LRANGE of 60 MiB"]
    for _ in range(8):
        with server.socket(40) as client:
            client.sendall(request)
            drain(client, count)
    before, idle = server.rss_bytes(), []
    try:
        for _ in range(60):
            idle.append(server.socket())
            idle[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            idle[-1].sendall(command("HGETALL", "large hash") * 3)
        time.sleep(4)
        assert server.rss_bytes() - before < 450 << 20
        # A client that reads has its turn when the others are closed.
        with server.socket(40) as client:
            client.sendall(command("LRANGE", "large list", 0, 99))
            drain(client, bulks(100, 1024))
        until(lambda: "has read none of its replies" in server.said(), 20)
    finally:
        for connection in idle:
            connection.close()


def test_half_sent_arguments_are_bounded_and_the_next_whole_one_is_taken(server, undisturbed):
    before, half = server.rss_bytes(), []
    argument = b"*3\r\n$3\r\nSET\r\n$6\r\nhalves\r\n$8388608\r\n" + b"x" * ((8 << 20) - 1)
    try:
        for _ in range(80):
            half.append(server.socket())
            half[-1].sendall(argument)
        assert server.rss_bytes() - before < 400 << 20
        client = server.client()
        until(lambda: try_to_set(client, "whole", b"w" * (2 << 20)), 10)
        assert client.strlen("whole") == 2 << 20
        # The oldest, or the newest if all came within a second.
        refused = select.select(half, [], [], 10)[0][0]
        said = refused.recv(1000)
        assert said.startswith(b"-BUSY"), said
        refused.sendall(b"x\r\n" + command("PING"))
        assert refused.recv(100) == b"+PONG\r\n", "the refused one can be used on"
    finally:
        for connection in half:
            connection.close()
    assert not server.client().exists("halves")


def try_to_set(client, key, value):
    """Whether there was room for a command."""
    try:
        return client.set(key, value)
    except redis.ResponseError as error:
        assert str(error).startswith("BUSY"), error
        return False


BIG, LOW = 2**63 - 1, -(2**63)

EDGES = [
    ("INCRBY", "max", 1),
    ("INCR", "max"),
    ("DECRBY", "min", 1),
    ("DECRBY", "max", LOW),
    ("INCRBY", "max", BIG + 1),
    ("INCRBYFLOAT", "max", "inf"),
    ("INCRBYFLOAT", "max", "nan"),
    ("INCRBYFLOAT", "huge", "1e308"),
    ("HINCRBY", "h", "max", 1),
    ("SETRANGE", "s", BIG, "x"),
    ("SETRANGE", "s", 600_000_000, "x"),
    ("SETRANGE", "s", -1, "x"),
    ("GETRANGE", "s", LOW, BIG),
    ("GETRANGE", "s", BIG, LOW),
    ("SETBIT", "s", 2**33, 1),
    ("SETBIT", "s", BIG, 1),
    ("GETBIT", "s", BIG),
    ("LRANGE", "l", LOW, BIG),
    ("LTRIM", "l2", LOW, BIG),
    ("LINDEX", "l", LOW),
    ("LSET", "l", LOW, "x"),
    ("LREM", "l2", LOW, "x"),
    ("LPOP", "l2", BIG),
    ("LPOS", "l", "a", "RANK", LOW),
    ("LPOS", "l", "a", "COUNT", BIG, "MAXLEN", BIG),
    ("LMPOP", BIG, "l2", "LEFT"),
    ("SRANDMEMBER", "set", LOW),
    ("SRANDMEMBER", "set", -1_000_000_000),
    ("SRANDMEMBER", "set", BIG),
    ("SPOP", "set2", BIG),
    ("SPOP", "set2", -1),
    ("HRANDFIELD", "h", LOW, "WITHVALUES"),
    ("HRANDFIELD", "h", -1_000_000_000),
    ("ZRANDMEMBER", "z", LOW),
    ("ZRANDMEMBER", "z", -1_000_000_000, "WITHSCORES"),
    ("SINTERCARD", BIG, "set"),
    ("ZADD", "z", "nan", "a"),
    ("ZADD", "z", "inf", "inf"),
    ("ZINCRBY", "z", "-inf", "inf"),
    ("ZRANGE", "z", LOW, BIG),
    ("ZRANGE", "z", "-inf", "+inf", "BYSCORE", "LIMIT", LOW, BIG),
    ("ZRANGEBYSCORE", "z", "(inf", "(-inf", "LIMIT", BIG, LOW),
    ("ZREMRANGEBYRANK", "z", BIG, LOW),
    ("ZUNIONSTORE", "zz", BIG, "z"),
    ("ZUNIONSTORE", "zz", 1, "z", "WEIGHTS", "nan"),
    ("ZPOPMIN", "z2", BIG),
    ("EXPIRE", "s", BIG),
    ("EXPIRE", "s", LOW),
    ("PEXPIREAT", "l2", BIG),
    ("SET", "s2", "x", "EX", BIG),
    ("SET", "s2", "x", "PX", 0),
    ("GETEX", "s", "PXAT", LOW),
    ("SCAN", 2**64 - 1),
    ("SCAN", 2**64),
    ("SCAN", 0, "COUNT", BIG),
    ("SCAN", 0, "MATCH", "*" * 5000 + "b"),
    ("KEYS", "[" * 5000),
    ("KEYS", "*a" * 2000 + "b"),
    ("SSCAN", "set", BIG, "COUNT", BIG),
    ("BLPOP", "nothing", "-1"),
    ("BLPOP", "nothing", "1e400"),
    ("BLPOP", "nothing", "nan"),
    ("WAIT", BIG, 1),
    ("CLIENT", "KILL", "ID", BIG),
    ("OBJECT", "FREQ", "s"),
    ("MSET", "a"),
    ("COPY", "s", "s"),
    ("SELECT", BIG),
    ("COUNTER.ADD", "c", BIG),
    ("COUNTER.ADD", "c", BIG),
    ("COUNTER.GET", "c"),
    ("COUNTER.SET", "c2", 1, "MIN", 5, "MAX", 2),
    ("TOPK.INIT", "t", BIG),
    ("TOPK.PUT", "t", "a", "nan"),
    ("TOPK.BEST", "t", BIG),
    ("BAG.ADD", "b", "1e999"),
    ("LOG.TAIL", "log", BIG),
    ("LOG.TRIM", "log", "MAXLEN", LOW),
    ("LOG.RANGE", "log", "9" * 40, "+"),
    ("CAPLOG.INIT", "log2", BIG),
    ("UID.NEXT", "u", "COUNT", BIG),
    ("HELLO", BIG),
    ("CLIENT", "REQUEST", "x" * 70, BIG),
    ("CLIENT", "REQUEST", "x", -1),
    ("record.fetch", "s"),
    ("record.put", "s", "x"),
]


def test_numbers_at_the_edge_are_answered(server):
    client = server.client(socket_timeout=10)
    client.mset({"max": BIG, "min": LOW, "huge": "1.7e308", "s": "abc"})
    client.hset("h", mapping={"max": BIG, "b": 1})
    client.rpush("l", *"abc")
    client.rpush("l2", *"abc")
    client.sadd("set", *"abc")
    client.sadd("set2", *"abc")
    client.zadd("z", {"a": 1, "b": 2})
    client.zadd("z2", {"a": 1})
    for words in EDGES:
        try:
            reply = client.execute_command(*words)
        except redis.ResponseError as error:
            assert str(error) and "\n" not in str(error)
        except redis.ConnectionError as error:
            raise AssertionError(f"{words} ended the connection: {error}") from error
        else:
            assert len(str(reply)) < 40 << 20, words
    assert (client.get("max"), client.get("min")) == (str(BIG), str(LOW))
    assert client.hget("h", "max") == str(BIG)
    assert client.lrange("l", 0, -1) == ["a", "b", "c"]


def test_keys_that_stand_twice_in_a_command(server):
    client = server.client()
    client.delete("k", "s", "l", "z", "n")
    client.mset({"k": 1})
    client.sadd("s", "a", "b")
    client.rpush("l", "a", "b")
    client.zadd("z", {"a": 1})
    assert client.execute_command("DEL", "k", "k") == 1
    assert client.execute_command("MSET", "k", 1, "k", 2) is True
    assert client.get("k") == "2"
    assert client.execute_command("EXISTS", "k", "k", "k") == 3
    assert client.mget("k", "k") == ["2", "2"]
    assert client.sinterstore("s", "s", "s") == 2
    assert client.smove("s", "s", "a") == 1 and client.scard("s") == 2
    assert client.lmove("l", "l", "LEFT", "RIGHT") == "a"
    assert client.lrange("l", 0, -1) == ["b", "a"]
    assert client.rename("k", "k") is True and client.get("k") == "2"
    assert client.zunionstore("z", ["z", "z"]) == 1 and client.zscore("z", "a") == 2
    assert client.execute_command("MSETNX", "n", 1, "n", 2) == 1
    assert client.get("n") == "2"
    assert client.blpop(["l", "l"], 1)[1] == "b"


def test_every_command_survives_wrong_words(server):
    # Saving everything is among them, and there is to be little of it.
    for key in list(server.client().scan_iter("large*")):
        server.client().delete(key)
    client = server.client(socket_timeout=1)
    client.mset({"k": "text"})
    avoid = "quit shutdown reset hello auth flushall flushdb client".split()
    names = server.cli("COMMAND", "LIST").split("\n")
    names = [name for name in names if name not in avoid and "subscribe" not in name]
    assert len(names) > 150
    chance = random.Random(99)
    odd = ["k", "", "0", "-1", str(BIG), "nan", "x" * 1000, "\r\n", "(", "*", "LIMIT", "STORE", "1"]
    for name in names:
        for count in range(5):
            try:
                client.execute_command(name, *chance.choices(odd, k=count))
            except redis.TimeoutError:
                assert name.startswith(("b", "wait", "lock.", "election.")), name
                client.connection_pool.disconnect()
            except redis.ResponseError as error:
                assert str(error), name
            if name in ("multi", "txn", "watch"):
                client.connection_pool.disconnect()
    assert client.ping()


def test_wicked_words_cannot_forge_replies(server):
    wicked = b"x\r\n+OK\r\n$3\r\nabc\r\n"
    said = answer(server, command(wicked) + command("GET", wicked, wicked) + command("QUIT"), 5)
    lines = said.split(b"\r\n")
    assert len(lines) == 4 and lines[2] == b"+OK", said
    assert lines[0].startswith(b"-ERR") and lines[1].startswith(b"-ERR")


def test_memory_above_its_limit_is_refused(make_server):
    server = make_server(config='maxmemory = "100mb"\n').start()
    client = server.client()
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        for i in range(400):
            client.set(f"k{i}", "x" * (1 << 20))
            if i % 20 == 0:
                time.sleep(0.15)
    assert server.rss_bytes() < 400 << 20
    assert client.get("k0") == "x" * (1 << 20)
    assert client.delete("k0") == 1


def test_a_noted_command_is_answered_though_nothing_follows(server):
    """Replies that say little may wait for the next one, but not for a client that waits too."""
    with server.socket(timeout_s=5) as client:
        client.sendall(command("MULTI") + command("SET", "a", "1"))
        assert receive(client, len(b"+OK\r\n+QUEUED\r\n")) == b"+OK\r\n+QUEUED\r\n"
        client.sendall(command("SET", "b", "2") + command("EXEC"))
        expected = b"+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n"
        assert receive(client, len(expected)) == expected
        client.sendall(command("TXN", "BEGIN", "BLIND"))
        assert receive(client, len(b"+OK\r\n")) == b"+OK\r\n"


def receive(client, count):
    """Exactly so many bytes."""
    data = b""
    while len(data) < count:
        piece = client.recv(count - len(data))
        assert piece, "the server has closed the connection"
        data += piece
    return data
