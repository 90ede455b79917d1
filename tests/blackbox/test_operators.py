"""Commands for operators: slow commands, durations, pauses, refusals, watching."""

import threading
import time

import pytest
import redis
from harness import until


def slowest(client, **options):
    return client.slowlog_get(-1, **options)


def names(entries):
    return [entry["command"].split(b" ")[0].lower() for entry in entries]


@pytest.fixture
def watched(make_server):
    """A server that takes every command for slow."""
    server = make_server(workers=2, shards=4).start()
    client = server.client()
    client.config_set("slowlog-log-slower-than", 0)
    client.slowlog_reset()
    return server, client


def test_slow_commands_of_all_workers_come_in_one_list(watched):
    server, client = watched
    clients = [server.client(client_name=f"c{n}") for n in range(6)]
    for number, each in enumerate(clients):
        each.set(f"key{number}", "v")
    entries = slowest(client)
    sets = [entry for entry in entries if entry["command"].startswith(b"SET key")]
    assert {entry["command"] for entry in sets} == {b"SET key%d v" % n for n in range(6)}
    assert {entry["client_name"] for entry in sets} == {b"c%d" % n for n in range(6)}
    ids = [entry["id"] for entry in entries]
    assert ids == sorted(ids, reverse=True) and len(set(ids)) == len(ids)
    assert all(abs(entry["start_time"] - time.time()) < 60 for entry in entries)
    assert client.slowlog_len() >= 6
    assert len(client.slowlog_get(2)) == 2
    client.config_set("slowlog-log-slower-than", -1)
    client.slowlog_reset()
    assert client.slowlog_len() == 0
    client.set("a", "b")
    assert slowest(client) == []


def test_the_slow_log_keeps_as_many_as_it_is_told(watched):
    server, client = watched
    client.config_set("slowlog-max-len", 5)
    for number in range(40):
        server.client().set(f"k{number}", "v")
    assert len(slowest(client)) == 5 and client.slowlog_len() == 5
    client.config_set("slowlog-max-len", 0)
    assert slowest(client) == []
    for wrong in (-1, 4097, "x"):
        with pytest.raises(redis.ResponseError, match="slowlog-max-len"):
            client.config_set("slowlog-max-len", wrong)
    assert client.config_get("slowlog-max-len") == {"slowlog-max-len": "0"}


def test_long_commands_are_cut_and_passwords_not_shown(watched):
    server, client = watched
    client.set("k", "x" * 200)
    client.rpush("l", *range(50))
    with pytest.raises(redis.AuthenticationError):
        server.client(username="ann", password="geheim").ping()
    with pytest.raises(redis.ResponseError):
        client.config_set("requirepass", "geheim")
    said = [entry["command"] for entry in slowest(client)]
    assert b"SET k " + b"x" * 128 + b"... (72 more bytes)" in said
    cut = next(words for words in said if words.startswith(b"RPUSH"))
    assert cut.endswith(b"28 ... (21 more arguments)"), cut
    assert not any(b"geheim" in words for words in said)
    assert any(b"(redacted)" in words for words in said)


def test_a_wait_that_a_client_asks_for_is_not_slow(make_server):
    client = (server := make_server().start()).client()
    client.config_set("slowlog-log-slower-than", 300_000)
    client.slowlog_reset()
    assert client.blpop("none", timeout=1) is None
    late = threading.Timer(0.6, lambda: server.client().rpush("some", "a"))
    late.start()
    assert client.blpop("some", timeout=5) == ("some", "a")
    assert names(slowest(client)) == []
    # A script that computes is slow, in spite of its words being few.
    client.config_set("slowlog-log-slower-than", 1_000)
    client.eval("local n = 0 for i = 1, 300000 do n = n + i end return n", 0)
    assert b"eval" in names(slowest(client))


def test_a_transaction_and_a_pipeline_are_in_the_slow_log(watched):
    _, client = watched
    with client.pipeline() as pipe:
        pipe.set("a", 1).incr("a").execute()
    with client.pipeline(transaction=False) as pipe:
        for number in range(100):
            pipe.set(f"p{number}", number)
        pipe.execute()
    said = [entry["command"] for entry in slowest(client)]
    assert b"EXEC" in said and b"SET p99 99" in said and b"SET p0 0" in said


def test_durations_of_commands_are_counted(make_server):
    client = make_server().start().client()
    for _ in range(20):
        client.get("k")
    told = client.execute_command("LATENCY HISTOGRAM", "get", "set")
    assert list(told) == ["get"] and told["get"]["calls"] == 20
    bounds, counts = zip(*told["get"]["histogram_usec"].items())
    assert list(bounds) == sorted(bounds) and list(counts) == sorted(counts) and counts[-1] == 20
    assert "get" in client.execute_command("LATENCY HISTOGRAM")
    client.config_resetstat()
    assert client.execute_command("LATENCY HISTOGRAM", "get") == {}


def test_the_worst_second_of_slow_commands_is_remembered(make_server):
    client = make_server().start().client()
    burn = "local n = 0 for i = 1, 1000000 do n = n + i end return n"
    client.eval(burn, 0)
    assert client.latency_latest() == []
    client.config_set("latency-monitor-threshold", 1)
    client.eval(burn, 0)
    [[event, second, latest, worst]] = client.latency_latest()
    assert event == "command" and abs(second - time.time()) < 60 and 1 <= latest <= worst
    assert client.latency_history("command") == [[second, latest]]
    assert client.latency_history("nosuch") == []
    assert client.latency_reset() == 1
    assert client.latency_reset() == 0
    assert client.latency_latest() == []
    with pytest.raises(redis.ResponseError, match="LATENCY"):
        client.execute_command("LATENCY", "DOCTOR")


def test_operators_rights_are_needed(make_server):
    users = (
        '[[users]]\nname = "default"\nrules = ["on", "nopass", "+@all", "~*", "&*"]\n'
        '[[users]]\nname = "lim"\nrules = ["on", "nopass", "+@all", "-@admin", "~*"]\n'
    )
    server = make_server(config=users).start()
    limited = server.client(username="lim", password="any")
    for words in ["SLOWLOG GET", "LATENCY LATEST", "CONFIG SET hz 10"]:
        with pytest.raises(redis.exceptions.NoPermissionError):
            limited.execute_command(*words.split())
    server.client().execute_command("MULTI")
    with server.client().pipeline() as pipe:
        pipe.execute_command("SLOWLOG LEN")
        pipe.execute_command("LATENCY LATEST")
        assert isinstance(pipe.execute()[0], int)


def test_settings_that_have_no_meaning_here_are_refused_with_the_reason(make_server):
    client = make_server().start().client()
    client.config_set("hash-max-listpack-entries", 64)
    assert client.config_get("hash-max-listpack-entries") == {"hash-max-listpack-entries": "64"}
    for name, value, why in [
        ("timeout", 10, "idle connections are not closed"),
        ("maxmemory-policy", "allkeys-lru", "nothing is evicted"),
        ("requirepass", "geheim", "configuration file"),
        ("port", 1, "immutable"),
    ]:
        with pytest.raises(redis.ResponseError, match=why):
            client.config_set(name, value)
    # All or none.
    with pytest.raises(redis.ResponseError):
        client.execute_command("CONFIG", "SET", "hz", "20", "timeout", "5")
    assert client.config_get("hz") == {"hz": "10"}
    client.config_set("maxmemory-policy", "noeviction")


def held(client, line):
    """A thread that has sent a command, and where its reply appears."""
    replies = []
    thread = threading.Thread(target=lambda: replies.append(client.execute_command(*line.split())))
    thread.start()
    return thread, replies


def test_a_pause_holds_commands_of_all_workers_back_and_loses_none(make_server):
    server = make_server(workers=2, shards=4).start()
    operator = server.client()
    clients = [server.client() for _ in range(6)]
    for client in clients:
        client.ping()
    operator.client_pause(60_000)
    sent = [held(client, f"RPUSH list {number}") for number, client in enumerate(clients)]
    sent.append(held(server.client(), "GET none"))
    time.sleep(0.4)
    assert not any(replies for _, replies in sent)
    operator.client_unpause()
    for thread, replies in sent:
        thread.join(10)
        assert len(replies) == 1
    assert sorted(operator.lrange("list", 0, -1)) == list("012345")


def test_a_pause_of_writes_lets_reads_through(make_server):
    server = make_server(workers=2, shards=4).start()
    operator, reader = server.client(), server.client()
    operator.set("a", "1")
    operator.client_pause(60_000, all=False)
    assert reader.get("a") == "1" and reader.mget("a", "b") == ["1", None]
    with reader.pipeline() as pipe:
        assert pipe.get("a").execute() == ["1"]
    lines = ["SET a 2", "EVAL return(redis.call('incr',KEYS[1])) 1 n", "PUBLISH c m", "LPOP none"]
    sent = [held(server.client(), line) for line in lines]
    transaction = server.client().pipeline()
    transaction.set("b", "2").get("a")
    queued = threading.Thread(target=transaction.execute)
    queued.start()
    time.sleep(0.4)
    assert not any(replies for _, replies in sent) and queued.is_alive()
    assert reader.get("a") == "1" and reader.get("n") is None and reader.get("b") is None
    operator.client_unpause()
    for thread, replies in sent:
        thread.join(10)
        assert len(replies) == 1
    queued.join(10)
    assert (reader.get("a"), reader.get("n"), reader.get("b")) == ("2", "1", "2")


def test_a_pause_ends_by_itself_and_keeps_the_order_of_pipelines(make_server):
    server = make_server(workers=2, shards=4).start()
    operator, client = server.client(), server.client()
    begin = time.monotonic()
    operator.client_pause(700)
    with client.pipeline(transaction=False) as pipe:
        for number in range(300):
            pipe.rpush("list", number)
        assert pipe.execute() == list(range(1, 301))
    assert time.monotonic() - begin > 0.65
    assert client.lrange("list", 0, -1) == [str(number) for number in range(300)]
    # The later end counts, and a client that leaves is forgotten.
    operator.client_pause(60_000)
    operator.client_pause(1)
    gone = server.socket()
    gone.sendall(b"SET gone 1\r\n")
    time.sleep(0.2)
    gone.close()
    thread, replies = held(client, "GET list2")
    time.sleep(0.3)
    assert not replies
    operator.client_unpause()
    thread.join(10)
    assert replies == [None]
    # A pause without an end in sight does not keep clients from connecting, and operators from ending it.
    operator.client_pause(86_400_000)
    server.client(client_name="late").client_unpause()
    for words in ["-1", "86400001", "x", "5 MAYBE", "5 ALL 6", ""]:
        with pytest.raises(redis.ResponseError):
            operator.execute_command(f"CLIENT PAUSE {words}".strip())
    assert client.ping()


def test_paused_commands_that_take_too_much_memory_end_the_pause(make_server):
    server = make_server(workers=1, shards=1).start()
    operator = server.client()
    operator.client_pause(60_000)
    value = "x" * (6 << 20)
    sent = [held(server.client(), f"SET k{number} {value}") for number in range(12)]
    for thread, replies in sent:
        thread.join(20)
        assert replies


LIMITED = (
    '[[users]]\nname = "default"\nrules = ["on", "nopass", "+@all", "~*", "&*"]\n'
    '[[users]]\nname = "lim"\nrules = ["on", "nopass", "+@all", "-@admin", "-del", "~a*", "&c"]\n'
)


def test_refusals_are_listed_for_operators(make_server):
    server = make_server(config=LIMITED, workers=2, shards=2).start()
    operator = server.client()
    for _ in range(3):
        limited = server.client(username="lim", password="any")
        for line in ["DEL a", "GET b", "PUBLISH d m", "EVAL return(redis.call('get','z')) 0"]:
            with pytest.raises(redis.ResponseError):
                limited.execute_command(*line.split())
    with pytest.raises(redis.AuthenticationError):
        server.client(username="ann", password="geheim").ping()
    entries = operator.acl_log(100)
    seen = {(e["reason"], e["context"], e["object"], e["username"]): e["count"] for e in entries}
    assert seen == {
        ("command", "toplevel", "del", "lim"): 3,
        ("key", "toplevel", "b", "lim"): 3,
        ("channel", "toplevel", "d", "lim"): 3,
        ("key", "lua", "z", "lim"): 3,
        ("auth", "toplevel", "HELLO", "ann"): 1,
    }
    assert "geheim" not in str(entries)
    assert len(operator.acl_log(2)) == 2
    operator.acl_log_reset()
    assert operator.acl_log() == []
    operator.config_set("acllog-max-len", 0)
    with pytest.raises(redis.ResponseError):
        limited.delete("a")
    assert operator.acl_log() == []


def test_passwords_are_made(make_server):
    client = make_server().start().client()
    passwords = {client.acl_genpass() for _ in range(20)}
    assert len(passwords) == 20 and all(len(password) == 64 for password in passwords)
    assert len(client.acl_genpass(5)) == 2 and len(client.acl_genpass(4096)) == 1024
    for wrong in ("0", "4097", "x", "-1"):
        with pytest.raises(redis.ResponseError):
            client.execute_command("ACL", "GENPASS", wrong)


class Monitor:
    """A connection that monitors, without a library."""

    def __init__(self, server, hello=b""):
        self.socket = server.socket()
        self.lines = self.socket.makefile("rb")
        self.socket.sendall(hello + b"MONITOR\r\n")
        while self.lines.readline() != b"+OK\r\n":
            pass

    def until(self, word):
        """The lines up to one with a word in it."""
        seen = []
        while not seen or word not in seen[-1]:
            seen.append(self.lines.readline())
            assert seen[-1].startswith(b"+"), seen
        return seen


def test_a_monitor_sees_the_commands_of_all_workers(make_server):
    server = make_server(workers=2, shards=4).start()
    monitors = [Monitor(server) for _ in range(3)]
    clients = [server.client() for _ in range(4)]
    for number, client in enumerate(clients):
        client.set(f"k{number}", "a\r\nb")
    clients[0].config_get("port")
    with pytest.raises(redis.AuthenticationError):
        server.client(username="ann", password="geheim").ping()
    with clients[1].pipeline() as pipe:
        pipe.incr("n").execute()
    clients[0].eval("return redis.call('get', KEYS[1])", 1, "k0")
    clients[2].select(3)
    clients[2].set("end0", "v")
    time.sleep(0.3)
    clients[3].set("end1", "v")
    for monitor in monitors:
        seen = b"".join(monitor.until(b"end1"))
        for number in range(4):
            assert b'"SET" "k%d" "a\\r\\nb"' % number in seen
        assert b"(redacted)" in seen and b"geheim" not in seen
        words = [b'"MULTI"', b'"INCRBY" "n" "1"', b'"EXEC"', b'"EVAL"', b'"SET" "end0"']
        for word in [*words, b" [3 127.0.0.1:"]:
            assert word in seen, word
        assert b'"CONFIG"' not in seen
        monitor.socket.close()
    clients[0].set("still", "there")


def test_a_monitor_ends_with_reset_and_needs_a_right(make_server):
    server = make_server(config=LIMITED, workers=1, shards=1).start()
    with pytest.raises(redis.exceptions.NoPermissionError):
        server.client(username="lim", password="any").execute_command("MONITOR")
    monitor = Monitor(server, hello=b"HELLO 3\r\n")
    monitor.socket.sendall(b"RESET\r\n")
    assert monitor.until(b"RESET")
    client = server.client()
    client.set("a", "1")
    monitor.socket.sendall(b"PING\r\n")
    assert monitor.lines.readline() == b"+PONG\r\n"
    with client.pipeline() as pipe:
        pipe.execute_command("MONITOR")
        with pytest.raises(redis.ResponseError):
            pipe.execute()
    most = [Monitor(server) for _ in range(16)]
    refused = server.socket()
    refused.sendall(b"MONITOR\r\n")
    assert refused.recv(100).startswith(b"-ERR at most 16 connections")
    most[0].socket.close()


def test_a_monitor_that_reads_nothing_is_disconnected(make_server):
    server = make_server(workers=1, shards=1).start()
    monitor = Monitor(server)
    client, value = server.client(), "x" * 1000
    for _ in range(70):
        with client.pipeline(transaction=False) as pipe:
            for number in range(1_000):
                pipe.set(f"k{number}", value)
            pipe.execute()
    until(lambda: "does not read its notifications, or what it monitors" in server.said())
    assert client.ping()


def test_a_client_without_tracking_is_told_so(make_server):
    client = make_server().start().client()
    assert client.client_getredir() == -1
    info = client.execute_command("CLIENT TRACKINGINFO")
    info = info if isinstance(info, dict) else dict(zip(info[::2], info[1::2]))
    assert list(info["flags"]) == ["off"] and info["redirect"] == -1 and info["prefixes"] == []


@pytest.mark.parametrize("mode", ["ALL", "WRITE"])
def test_many_clients_in_a_pause_do_not_keep_others_from_their_turn(make_server, mode):
    server = make_server(workers=1, shards=2).start()
    operator = server.client()
    operator.rpush("list", *range(100))
    operator.execute_command("CLIENT PAUSE", 60_000, mode)
    waiting = []
    for number in range(60):
        connection = server.socket()
        connection.sendall(b"MULTI\r\nLRANGE list 0 -1\r\nSET k%d v\r\nEXEC\r\nKEYS k*\r\n" % number)
        waiting.append(connection)
    time.sleep(0.3)
    if mode == "WRITE":
        for _ in range(30):
            assert len(server.client().lrange("list", 0, -1)) == 100
    assert server.client().client_unpause()
    for connection in waiting:
        connection.sendall(b"QUIT\r\n")
        received = b""
        while b"+OK\r\n" not in received[5:] or not received.endswith(b"+OK\r\n"):
            part = connection.recv(100_000)
            assert part, received[-200:]
            received += part
        assert received.count(b"+QUEUED") == 2
    assert operator.dbsize() == 61
