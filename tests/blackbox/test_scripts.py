"""Scripts: all or nothing over any shards, once, known everywhere, and harmless to others."""

import hashlib
import random
import statistics
import threading
import time

import pytest
import redis
from clusters import UP_S_MAX
from harness import command, free_port, page, read_all, until, work_in_threads
from test_operating import all_led

TRANSFER = """
local have = tonumber(redis.call('get', KEYS[1]) or '0')
if have < tonumber(ARGV[1]) then return redis.error_reply('SHORT of money') end
redis.call('decrby', KEYS[1], ARGV[1])
redis.call('incrby', KEYS[2], ARGV[1])
redis.call('rpush', 'moved', ARGV[1])
return have - ARGV[1]
"""


def sha(text):
    """The name of a script."""
    return hashlib.sha1(text.encode()).hexdigest()


def test_money_moves_between_any_shards_and_none_is_lost(server):
    client = server.client()
    client.flushall()
    accounts = [f"account:{n}" for n in range(8)]
    for account in accounts:
        client.set(account, 100)
    transfer = server.client().register_script(TRANSFER)

    def work(number):
        own = server.client()
        for step in range(40):
            keys = [accounts[(number + step) % 8], accounts[(number * 3 + step + 1) % 8]]
            try:
                transfer(keys=keys, args=[7], client=own)
            except redis.ResponseError as error:
                assert str(error) == "SHORT of money" or "SHORT" in str(error)

    work_in_threads(work, 8)
    assert sum(int(client.get(account)) for account in accounts) == 800
    assert client.llen("moved") <= 320


def test_a_raised_error_undoes_everything(server):
    client = server.client()
    client.flushall()
    client.set("text", "x")
    for text, wanted in [
        ("redis.call('set', 'a', 1) redis.call('set', 'b', 2) error('stop')", "stop"),
        ("redis.call('set', 'a', 1) redis.call('sadd', 'text', 1)", "WRONGTYPE"),
        ("redis.call('set', 'a', 1) return redis.call('sadd', 'text', 1)", "WRONGTYPE"),
        ("redis.call('set', 'a', 1) return redis.call('nosuch')", "Unknown Redis command"),
        ("redis.call('set', 'a', 1) while true do end", "limit of 20000000 steps"),
    ]:
        with pytest.raises(redis.ResponseError, match=wanted):
            client.eval(text, 0)
        assert client.mget("a", "b") == [None, None], text
    returned = "redis.call('set', 'a', 1) return {err = 'MINE is kept'}"
    with pytest.raises(redis.ResponseError, match="MINE is kept"):
        client.eval(returned, 0)
    assert client.get("a") == "1", "a returned error is a reply"
    ignored = "redis.pcall('sadd', 'text', 1) redis.call('set', 'b', 2) return 'done'"
    assert client.eval(ignored, 0) == "done" and client.get("b") == "2"


def test_a_script_is_known_to_all_and_survives_a_crash(make_server):
    server = make_server(shards=4, workers=2).start()
    text, other = "return redis.call('incr', KEYS[1])", "return ARGV[1]"
    assert server.client().script_load(text) == sha(text)
    assert server.client().eval(other, 0, "x") == "x"
    # Connections are spread over workers.
    for client in [server.client() for _ in range(8)]:
        assert client.evalsha(sha(other), 0, "y") == "y"
        assert client.evalsha(sha(text).upper(), 1, "n") > 0
    assert server.client().dbsize() == 1 and server.client().keys("*") == ["n"]
    assert list(server.client().scan_iter()) == ["n"]
    server.client().flushall()
    server.restart()
    for client in [server.client() for _ in range(4)]:
        assert client.evalsha(sha(text), 1, "n") > 0
        assert client.script_exists(sha(text), "f" * 40) == [True, False]
    server.client().script_flush()
    for client in [server.client() for _ in range(8)]:
        with pytest.raises(redis.exceptions.NoScriptError):
            client.evalsha(sha(text), 1, "n")
    with pytest.raises(redis.ResponseError, match="the store's own"):
        server.client().set(b"\x00\xc1script:" + sha(text).encode(), "return 1")


def test_a_script_is_known_on_all_machines_of_a_cluster(make_cluster):
    cluster = make_cluster().start()
    loaded, run = "return redis.call('incr', KEYS[1])", "return ARGV[1] .. '!'"
    first = cluster.nodes[0].client()
    first.function_load("#!lua name=l\nredis.register_function('f', function() return 'old' end)")
    assert first.script_load(loaded) == sha(loaded) and first.eval(run, 0, "a") == "a!"
    for number, node in enumerate(cluster.nodes, 1):
        assert node.client().evalsha(sha(loaded), 1, "n") == number
        assert node.client().evalsha(sha(run), 0, "b") == "b!"
        assert node.client().fcall("f", 0) == "old"
    first.function_load(
        "#!lua name=l\nredis.register_function('f', function() return 'new' end)", replace=True
    )
    assert [node.client().fcall("f", 0) for node in cluster.nodes] == ["new"] * 3
    cluster.nodes[0].kill()

    def goes_on():
        try:
            run_again = cluster.nodes[1].client()
            return run_again.evalsha(sha(loaded), 1, "m") > 0 and run_again.fcall("f", 0) == "new"
        except redis.ResponseError:
            return False

    until(goes_on, 30)


def test_scripts_are_loaded_and_flushed_in_a_transaction(server):
    client = server.client()
    text = "return 'known'"
    with client.pipeline() as pipe:
        pipe.execute_command("SCRIPT", "LOAD", text)
        pipe.evalsha(sha(text), 0)
        pipe.execute_command("SCRIPT", "EXISTS", sha(text))
        pipe.execute_command("SCRIPT", "HELP")
        found = pipe.execute()
    assert found[:3] == [sha(text), "known", [True]] and len(found[3]) > 3
    with client.pipeline() as pipe:
        pipe.execute_command("SCRIPT", "FLUSH")
        assert pipe.execute() in ([True], ["OK"])
    for other in [server.client() for _ in range(8)]:
        with pytest.raises(redis.exceptions.NoScriptError):
            other.evalsha(sha(text), 0)


def test_a_script_sees_the_names_of_all_keys_behind_its_own_writes(server):
    client = server.client()
    client.flushall()
    client.mset({"a:1": 1, "a:2": 2, "b:1": 3})
    text = """
        redis.call('del', 'a:1') redis.call('set', 'a:3', 1) redis.call('sadd', 'b:2', 1)
        redis.call('incr', 'a:2')
        local names = redis.call('keys', 'a:*')
        table.sort(names)
        return names"""
    assert client.eval(text, 0) == ["a:2", "a:3"]
    assert sorted(client.keys("*")) == ["a:2", "a:3", "b:1", "b:2"]
    with pytest.raises(redis.ResponseError, match="before it writes"):
        client.eval("redis.call('set', 'c', 1) return redis.call('dbsize')", 0)
    assert client.eval("return redis.call('dbsize')", 0) == 4


def test_scripts_run_in_transactions_of_both_kinds(server):
    client = server.client()
    client.flushall()
    pipeline = client.pipeline(transaction=True)
    pipeline.set("a", 1).eval("return redis.call('get', 'a') .. redis.call('incr', 'b')", 0)
    pipeline.eval("redis.call('set', 'c', 1) error('no')", 0)
    pipeline.evalsha(sha("return redis.call('get', 'a') .. redis.call('incr', 'b')"), 0)
    first, second, third, fourth = pipeline.execute(raise_on_error=False)
    assert (first, second, fourth) == (True, "11", "12") and isinstance(third, redis.ResponseError)
    assert client.exists("c") == 0
    with server.client() as own:
        connection = own.connection_pool.get_connection()

        def ask(*words):
            connection.send_command(*words)
            return connection.read_response()

        ask("TXN", "BEGIN")
        ask("SET", "a", "5")
        assert ask("EVAL", "redis.call('append', 'a', ARGV[1]) return redis.call('get', 'a')", 0, "6") == "56"
        assert client.get("d") is None
        ask("EVAL", "redis.call('set', 'd', 1) return 1", "0")
        ask("TXN", "COMMIT")
        assert client.mget("a", "d") == ["56", "1"]


def test_a_script_under_a_request_number_takes_effect_once(server):
    client = server.client()
    client.flushall()
    text = "redis.call('incr', 'x') return {redis.call('incr', 'y'), ARGV[1]}"
    for word in ("first", "second"):
        own = server.client()
        connection = own.connection_pool.get_connection()
        for words in (("CLIENT", "REQUEST", "me", "1"), ("EVAL", text, "0", word)):
            connection.send_command(*words)
            reply = connection.read_response()
        assert reply == [1, "first"]
    assert client.mget("x", "y") == ["1", "1"]


def test_messages_of_scripts_arrive_in_the_order_of_their_effects(make_cluster):
    cluster = make_cluster().start()
    until(lambda: all_led(cluster), UP_S_MAX)
    text = """
        local n = redis.call('incr', KEYS[1])
        redis.call('publish', 'news', n)
        if ARGV[1] == 'no' then error('undone') end
        redis.call('spublish', 'shard', n)
        return {redis.call('publish', 'news', 'n ' .. n), n}
    """
    listeners = [node.client().pubsub(ignore_subscribe_messages=True) for node in cluster.nodes]
    for listener in listeners:
        listener.subscribe("news")
        listener.get_message(timeout=5)
    for node in cluster.nodes:
        with node.client() as client:
            pipe = client.pipeline(transaction=False)
            for number in range(60):
                pipe.eval(text, 1, "n", "no" if number % 3 == 2 else "yes")
            replies = pipe.execute(raise_on_error=False)
        assert [isinstance(reply, redis.ResponseError) for reply in replies] == [False, False, True] * 20
        assert all(reply[0] == 0 for reply in replies if isinstance(reply, list))
    wanted = [word for n in range(1, 121) for word in (str(n), f"n {n}")]
    for listener in listeners:
        heard = []
        until(lambda: heard.extend(iter(lambda: listener.get_message(timeout=0.1), None)) or len(heard) == 240)
        heard = [found["data"] for found in heard]
        # Those of different machines may overtake each other on their way.
        for at in (0, 80, 160):
            assert [word for word in heard if word in wanted[at : at + 80]] == wanted[at : at + 80]
        listener.close()


def test_messages_of_a_script_go_out_if_it_takes_effect(server):
    client = server.client()
    listener = client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe("news")
    listener.get_message(timeout=5)
    with pytest.raises(redis.ResponseError):
        client.eval("redis.call('publish', 'news', 'undone') error('no')", 0)
    assert client.eval("return redis.call('publish', 'news', 'done')", 0) == 0
    found = None

    def heard():
        nonlocal found
        found = listener.get_message(timeout=0.2)
        return found

    until(heard)
    assert found["data"] == "done"
    listener.close()


def test_scripts_that_do_not_conflict_wait_for_nobody(server):
    client = server.client()
    client.flushall()
    adders = "redis.call('sadd', 'members', ARGV[1]) redis.call('incrby', 'count', 1) return 1"

    def work(number):
        own = server.client()
        for n in range(100):
            own.eval(adders, 0, f"{number}-{n}")

    before = client.info("stats")
    work_in_threads(work, 8)
    after = client.info("stats")
    assert client.scard("members") == 800 and client.get("count") == "800"
    if "transactions_retried" in after:
        retried = after["transactions_retried"] - before["transactions_retried"]
        assert retried == 0, "nothing excludes another one"


@pytest.mark.parametrize("keys", [[], ["h"]])
def test_an_error_that_a_script_has_caught_is_over(make_server, keys):
    client = make_server().start().client()
    client.hset("h", mapping={"c": 1, "d": 2})
    text = "local x = redis.pcall('INCR', 'h') redis.call('HDEL', 'h', 'c') return x.err ~= nil"
    assert client.eval(text, len(keys), *keys) == 1
    assert client.hgetall("h") == {"d": "2"}
    with client.pipeline() as multi:
        multi.eval("return redis.call('HGET', 'h', 'no')", len(keys), *keys)
        assert multi.execute() == [None], "EXEC answers a list, also with a script alone"
    time = "local t = redis.call('TIME') redis.call('SET', '{h}t', t[1]) return t"
    assert abs(int(client.eval(time, len(keys), *keys)[0]) - client.time()[0]) <= 1


@pytest.mark.parametrize("keys", [[], ["h"]])
def test_an_error_that_a_script_ignores_is_over(make_server, keys):
    client = make_server().start().client()
    client.hset("h", mapping={"c": 1, "d": 2})
    text = """redis.pcall('INCR', 'h')
    redis.pcall('HDEL', 'h', 'd')
    redis.call('HINCRBY', 'h', 'c', 4)
    redis.pcall('LREM', 'h', 1, 'a')
    redis.call('HSETNX', 'h', 'e', 5)"""
    assert client.eval(text, len(keys), *keys) is None
    assert client.hgetall("h") == {"c": "5", "e": "5"}
    client.execute_command("TXN", "BEGIN", "STRICT")
    client.eval(text, len(keys), *keys)
    client.execute_command("TXN", "COMMIT")
    assert client.hgetall("h") == {"c": "9", "e": "5"}


@pytest.mark.parametrize("keys", [[], ["s"]])
def test_a_script_that_fails_behind_dropped_replies_ends(make_server, keys):
    """Gateways run scripts that declare no key, and shards the others."""
    server = make_server(shards=4).start()
    client = server.client(socket_timeout=10)
    texts = [
        "redis.call('sadd', 's', 'x') error('raised')",
        "redis.call('sadd', 's', 'x') redis.call('rpush', 'l', '1') error('raised')",
        "redis.call('sadd', 's', 'x') redis.call('incr', 's') redis.call('sadd', 's', 'y')",
    ]
    for number, text in enumerate(texts):
        with pytest.raises(redis.ResponseError):
            client.eval(text, len(keys), *keys)
        for _ in range(2):
            client.execute_command("CLIENT", "REQUEST", f"me {keys}", number + 1)
            with pytest.raises(redis.ResponseError):
                client.eval(text, len(keys), *keys)
        with pytest.raises(redis.ResponseError), client.pipeline() as multi:
            multi.eval(text, len(keys), *keys)
            multi.execute()
    assert client.keys() == [] and client.sadd("s", "z") == 1


def test_hostile_scripts_harm_only_themselves(make_server):
    server = make_server(shards=4, workers=2).start()
    client = server.client()
    client.set("k", "v")
    hostile = [
        "while true do end",
        "local t = {} while true do t[#t + 1] = string.rep('x', 1000) end",
        "return string.rep('x', 1e9)",
        "local function f() return 1 + f() end return f()",
        "for i = 1, 1e9 do redis.call('get', 'k') end",
        "return string.find(string.rep('a', 60), string.rep('a?', 60) .. string.rep('a', 60) .. 'b')",
        "local t = {} t[1] = t return t",
        "local t = {} for i = 1, 2000 do t = {t} end return cjson.encode(t)",
    ]

    def delays(seconds):
        found, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.monotonic()
            assert client.get("k") == "v"
            found.append(time.monotonic() - begun)
        return statistics.quantiles(found, n=100)[98]

    before = delays(1)
    memory = server.rss_bytes()
    stop, unharmed = threading.Event(), []

    def attack(keys):
        own = server.client(socket_timeout=60)
        while not stop.is_set():
            for text in hostile:
                try:
                    reply = own.eval(text, len(keys), *keys)
                    # The reply to tables that contain themselves ends with the error.
                    while isinstance(reply, list):
                        reply = reply[0]
                    if not isinstance(reply, redis.ResponseError):
                        unharmed.append(text)
                except redis.ResponseError:
                    pass

    # Gateways run scripts without keys, and shards those with keys.
    threads = [threading.Thread(target=attack, args=(keys,)) for keys in ([], ["mine"])]
    for thread in threads:
        thread.start()
    late = delays(4)
    stop.set()
    for thread in threads:
        thread.join()
    assert unharmed == []
    # Between two pieces of a script others go ahead. The machine of this test may be busy besides.
    usual = max(before, delays(1))
    assert late < 0.1 + usual, f"{late:.3f} s at the 99th percentile; {usual:.3f} s without scripts"
    assert server.rss_bytes() < memory + (256 << 20)
    assert client.get("k") == "v"


NOTE = "redis.call('rpush', KEYS[1], ARGV[1])"
FAILS = f"{NOTE} error('it is undone')"
# Where they can be run: beside the record, by the gateway only, or not beside all records that they name.
NOTES = [
    f"{NOTE} return ARGV[1]",
    f"{NOTE} redis.log(redis.LOG_DEBUG, 'noted') return ARGV[1]",
    f"{NOTE} redis.call('publish', 'channel', ARGV[1]) return ARGV[1]",
    f"{NOTE} redis.call('incr', 'other' .. ARGV[1] % 7) return ARGV[1]",
    f"local n = redis.call('llen', KEYS[1]) {NOTE} return n",
    FAILS,
]


@pytest.mark.parametrize("shards", [1, 4])
def test_scripts_and_commands_of_a_pipeline_keep_their_order(make_server, shards):
    server = make_server(shards=shards).start()
    client = server.client()
    texts = [(text, client.script_load(text)) for text in NOTES]
    draw = random.Random(7)
    for _ in range(30):
        client.delete("log")
        expected = []
        pipe = client.pipeline(transaction=False)
        for n in range(150):
            kind = draw.randrange(len(NOTES) + 3)
            text, name = texts[kind % len(NOTES)]
            key = draw.choice(["log", "log", f"log{n}"])
            if kind == len(NOTES):
                pipe.rpush(key, n)
            elif draw.randrange(4):
                pipe.evalsha(name, 1, key, n)
            else:
                pipe.eval(text, 1, key, n)
            if key == "log" and kind != NOTES.index(FAILS):
                expected.append(str(n))
        replies = pipe.execute(raise_on_error=False)
        assert len(replies) == 150
        assert client.lrange("log", 0, -1) == expected


def test_scripts_that_a_client_sends_ahead_share_writes_to_the_disk(make_server):
    port = free_port()
    server = make_server("--metrics-port", str(port)).start()

    def syncs():
        lines = page(port, "/metrics")[1].splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("claret_log_syncs_total "))

    client = server.client()
    name = client.script_load(NOTE + " return redis.call('llen', KEYS[1])")
    client.evalsha(name, 1, "log", 0)
    before = syncs()
    pipe = client.pipeline(transaction=False)
    for n in range(1, 500):
        pipe.evalsha(name, 1, "log", n)
    assert pipe.execute() == list(range(2, 501))
    assert syncs() - before < 100


def test_a_script_is_answered_though_one_behind_it_waits(make_server):
    server = make_server().start()
    holder, ahead = server.socket(10), server.socket(10)
    holder.sendall(command("TXN", "BEGIN") + command("SET", "{a}z", 1))
    assert read_all(holder, 0.5) == b"+OK\r\n+OK\r\n"
    increment = "return redis.call('incr', KEYS[1])"
    ahead.sendall(command("EVAL", increment, 1, "{a}a") + command("EVAL", increment, 1, "{a}z"))
    assert read_all(ahead, 0.5) == b":1\r\n"
    holder.sendall(command("TXN", "COMMIT"))
    assert read_all(ahead, 0.5) == b":2\r\n"


def test_lost_rights_and_pauses_hold_for_scripts_that_were_sent_ahead(make_server):
    server = make_server().start()
    client, ahead = server.client(), server.socket(20)
    slow = "for i = 1, 60000 do end return redis.call('incr', KEYS[1])"
    for change in (["CLIENT", "PAUSE", 100_000, "WRITE"], ["ACL", "SETUSER", "u", "-eval"]):
        client.execute_command("ACL", "SETUSER", "u", "on", "nopass", "allkeys", "+@all")
        ahead.sendall(command("AUTH", "u", "any"))
        assert read_all(ahead, 0.5) == b"+OK\r\n"
        client.delete("n")
        ahead.sendall(command("EVAL", slow, 1, "n") * 500)
        until(lambda: int(client.get("n") or 0) > 5)
        client.execute_command(*change)
        counted = int(client.get("n"))
        time.sleep(0.5)
        # One may have been under way.
        assert int(client.get("n")) <= counted + 1 < 500
        client.client_unpause()
        assert read_all(ahead, 1)


@pytest.mark.parametrize("multi", [False, True])
def test_a_script_writes_to_one_record_as_often_as_it_likes(make_server, multi):
    """Work per write must not grow with the number of writes: what took hours takes a moment."""
    server = make_server().start()
    client = server.client(socket_timeout=60)
    for command in ("'rpush', KEYS[1], i", "'zadd', KEYS[1], i, i", "'hset', KEYS[1], i, i"):
        client.delete("k")
        pipe = client.pipeline(transaction=multi)
        pipe.eval(f"for i = 1, 10000 do redis.call({command}) end return 7", 1, "k").ping()
        began = time.monotonic()
        assert pipe.execute() == [7, True]
        assert time.monotonic() - began < 20
        count = {"r": client.llen, "z": client.zcard, "h": client.hlen}[command[1]]
        assert count("k") == 10000


def test_many_scripts_in_one_transaction_take_a_moment(server):
    client = server.client(socket_timeout=60)
    client.delete("q:n", "q:z", "q:l")
    text = """
    local n = redis.call('incr', KEYS[1] .. ':n')
    redis.call('zadd', KEYS[1] .. ':z', n, n)
    redis.call('rpush', KEYS[1] .. ':l', n)
    return n
    """
    name = client.script_load(text)
    pipe = client.pipeline(transaction=True)
    for _ in range(300):
        pipe.evalsha(name, 1, "q")
    began = time.monotonic()
    assert pipe.execute() == list(range(1, 301))
    assert time.monotonic() - began < 10
    assert (client.zcard("q:z"), client.llen("q:l")) == (300, 300)


def test_a_user_may_do_in_a_script_what_it_may_do_without(make_server):
    config = """
password = "boss"

[[users]]
name = "worker"
password = "w"
rules = ["on", "~jobs:*", "+@read", "+@write", "+@scripting"]

[[users]]
name = "reader"
password = "r"
rules = ["on", "~*", "+get"]
"""
    server = make_server(config=config).start()
    worker = server.client(username="worker", password="w")
    assert worker.eval("return redis.call('set', 'jobs:1', 1)", 0) == "OK"
    with pytest.raises(redis.ResponseError, match="NOPERM|permission"):
        worker.eval("return redis.call('set', 'other', 1)", 0)
    reader = server.client(username="reader", password="r")
    with pytest.raises(redis.ResponseError, match="NOPERM|permission"):
        reader.eval("return 1", 0)


SHOP = """#!lua name=shop
local function price() return {0} end
for line = 1, 20 do redis.log(redis.LOG_WARNING, 'registering', line) end
redis.register_function('sell', function(keys, args)
  local left = redis.call('decr', keys[1])
  if left < 0 then return redis.error_reply('SOLD out') end
  redis.call('incrby', 'earned', price())
  redis.call('rpush', keys[2], args[1])
  return price()
end)
redis.register_function{{function_name='earned', flags={{'no-writes'}}, callback=function()
  return tonumber(redis.call('get', 'earned') or 0)
end}}
"""


def test_functions_work_over_shards_and_survive_a_kill(server):
    client = server.client()
    client.flushall()
    assert client.function_load(SHOP.format(5)) == "shop"
    client.set("stock", 3)
    assert [client.fcall("sell", 2, "stock", "buyers", who) for who in "abc"] == [5, 5, 5]
    with pytest.raises(redis.ResponseError, match="SOLD out"):
        client.fcall("sell", 2, "stock", "buyers", "d")
    with pytest.raises(redis.ResponseError, match="write flag"):
        client.fcall_ro("sell", 2, "stock", "buyers", "d")
    assert client.fcall_ro("earned", 0) == 15
    server.kill()
    server.start()
    client = server.client()
    assert client.fcall("earned", 0) == 15
    assert client.lrange("buyers", 0, -1) == ["a", "b", "c"]
    assert "registering" not in server.said()
    batch = client.pipeline(transaction=True)
    batch.set("stock", 1)
    batch.fcall("sell", 2, "stock", "buyers", "e")
    batch.get("earned")
    assert batch.execute() == [True, 5, "20"]
    with server.client() as alone:
        alone.execute_command("TXN", "BEGIN")
        alone.execute_command("INCRBY", "earned", 100)
        assert alone.fcall("earned", 0) == 120
        alone.execute_command("TXN", "ABORT")
    client.flushall()
    assert client.fcall("earned", 0) == 0, "data go, libraries stay"
    # Another database has other records and the same libraries.
    with server.client(db=3) as other:
        other.set("stock", 1)
        assert other.fcall("sell", 2, "stock", "buyers", "f") == 5
        assert other.get("earned") == "5"
    assert client.get("earned") is None
    assert client.function_delete("shop")
    with pytest.raises(redis.ResponseError, match="Function not found"):
        client.fcall("earned", 0)


def test_a_library_is_exchanged_in_one_step(server):
    client = server.client()
    client.flushall()
    library = """#!lua name=pair
redis.register_function('left', function() return {0} end)
redis.register_function('right', function() return {0} end)
"""
    client.function_load(library.format(0))
    seen = []

    def look(stop):
        own = server.client()
        while not stop.is_set():
            batch = own.pipeline(transaction=True)
            batch.fcall("left", 0)
            batch.fcall("right", 0)
            seen.append(batch.execute())

    stop = threading.Event()
    lookers = [threading.Thread(target=look, args=(stop,)) for _ in range(3)]
    for looker in lookers:
        looker.start()
    for version in range(1, 60):
        client.function_load(library.format(version), replace=True)
        assert client.fcall("left", 0) == version
    stop.set()
    for looker in lookers:
        looker.join()
    assert len(seen) > 50
    assert all(left == right for left, right in seen), "a MULTI sees one version"


def test_libraries_that_are_too_much_are_refused(server):
    client = server.client()
    client.function_flush()
    for library, error in [
        ("#!lua name=ever\nwhile true do end", "too many steps"),
        ("#!lua name=calls\nredis.call('set', 'k', 1)", "inside a script invocation"),
        ("#!lua name=none\nlocal x = 1", "No functions registered"),
        ("#!lua name=globals\nx = 1", "readonly table"),
        ("#!lua name=long\n-- " + "x" * (1 << 20), "at most 1048576 bytes"),
    ]:
        with pytest.raises(redis.ResponseError, match=error):
            client.function_load(library)
    body = "-- " + "x" * 1_000_000
    for number in range(4):
        text = f"redis.register_function('f{number}', function() return {number} end)"
        client.function_load(f"#!lua name=large{number}\n{text}\n{body}")
    with pytest.raises(redis.ResponseError, match="all libraries together"):
        client.function_load(f"#!lua name=more\nredis.register_function('g', function() end)\n{body}")
    assert client.fcall("f3", 0) == 3
    assert len(client.function_list()) == 4
    client.function_flush()
    assert client.function_list() == []
