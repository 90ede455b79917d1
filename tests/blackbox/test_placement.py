"""Placement rules: keys that begin alike are on one shard, and nothing else about them is different."""

import threading

import pytest
import redis
from clusters import UP_S_MAX
from harness import Failed, Server, until
from test_backup import backup, restored, run
from test_operating import all_led, claret

RULES = ["--placement", "cart:*:,session:"]
# Names that the rules concern, and whose slots would be others.
PLACED = [f"cart:ann:{n}" for n in range(20)] + [f"session:{n}" for n in range(20)]
FREE = [f"cart{n}" for n in range(20)] + [f"cart:{{ben}}:{n}" for n in range(20)]


@pytest.fixture
def placed(make_server):
    """A server of four shards with rules."""
    return make_server(*RULES, shards=4).start()


def slots_of(client, names):
    """The slots of these keys, as the server says."""
    return {client.cluster("KEYSLOT", name) for name in names}


def test_keys_with_the_same_prefix_have_its_slot(placed):
    client = placed.client()
    for names, tag in ((PLACED[:20], "cart:ann:"), (PLACED[20:], "session:"), (FREE[20:], "ben")):
        assert slots_of(client, names) == slots_of(client, [tag]), tag
    assert len(slots_of(client, FREE[:20])) == 20
    client.mset({name: name for name in PLACED + FREE})
    slot = client.cluster("KEYSLOT", "session:")
    assert client.cluster("COUNTKEYSINSLOT", slot) == 20
    assert set(client.cluster("GETKEYSINSLOT", slot, 50)) == set(PLACED[20:])
    assert client.config_get("placement") == {"placement": "cart:*:,session:"}


def test_names_are_names_everywhere(placed):
    client, other = placed.client(), placed.client(db=3)
    client.mset({name: name for name in PLACED + FREE})
    assert client.mget(PLACED) == PLACED and client.dbsize() == len(PLACED + FREE)
    assert set(client.scan_iter(count=7)) == set(client.keys()) == set(PLACED + FREE)
    assert set(client.keys("session:*")) == set(PLACED[20:])
    assert client.randomkey() in PLACED + FREE
    assert client.rename("cart:ann:0", "plain") and client.rename("plain", "cart:bea:0")
    assert client.get("cart:bea:0") == "cart:ann:0"
    assert client.copy("cart:ann:1", "cart:ann:0") and client.copy("cart:ann:1", "cart:ann:1", 3)
    assert client.move("cart:ann:2", 3) and set(other.keys()) == {"cart:ann:1", "cart:ann:2"}
    assert other.get("cart:ann:2") == "cart:ann:2" and client.get("cart:ann:2") is None
    client.rpush("session:list", 3, 1, 2)
    client.mset({f"session:weight{n}": -n for n in range(1, 4)} | {f"cart:v:{n}": n * n for n in range(1, 4)})
    sorted_ = client.sort("session:list", by="session:weight*", get=["#", "cart:v:*"], store="cart:s:1")
    assert sorted_ == 6 and client.lrange("cart:s:1", 0, -1) == ["3", "9", "2", "4", "1", "1"]
    assert client.blpop(["cart:none:", "session:list"], 1) == ("session:list", "3")
    client.xadd("cart:ann:log", {"a": 1})
    assert client.xread({"cart:ann:log": 0})[0][0] == "cart:ann:log"
    client.flushdb()
    assert client.dbsize() == 0 and other.dbsize() == 2
    client.flushall()
    assert other.dbsize() == 0


def test_scripts_transactions_and_locks_find_the_same_keys(placed):
    client = placed.client()
    text = """
        redis.call('set', KEYS[1], ARGV[1])
        redis.call('incr', 'session:built' .. ARGV[1])
        return {redis.call('get', KEYS[1]), redis.call('exists', 'session:built' .. ARGV[1], 'plain')}
    """
    client.set("plain", 1)
    for number in range(5):
        assert client.eval(text, 1, f"session:{number}", number) == [str(number), 2]
        assert client.eval(text, 2, f"cart:ann:{number}", "plain", number) == [str(number), 2]
        assert client.get(f"session:built{number}") == "2" and client.get(f"session:{number}") == str(number)
    with client.pipeline() as pipe:
        pipe.watch("cart:ann:1")
        pipe.multi()
        pipe.incr("cart:ann:1").incr("plain").get("session:1")
        assert pipe.execute() == [2, 2, "1"]
        pipe.watch("cart:ann:1")
        client.incr("cart:ann:1")
        pipe.multi()
        pipe.incr("cart:ann:1")
        with pytest.raises(redis.WatchError):
            pipe.execute()
    with placed.client(single_connection_client=True) as one:
        one.execute_command("TXN", "BEGIN")
        assert one.incr("cart:ann:1") == 4 and one.get("session:built1") == "2"
        assert len(client.execute_command("TXN", "HOLDERS", "cart:ann:1")) >= 3
        one.execute_command("TXN", "COMMIT")
    token = client.execute_command("LOCK.ACQUIRE", "cart:ann:lock", "OWNER", "ann")
    assert client.execute_command("FENCE", "cart:ann:lock", token, "INCR", "cart:ann:1") == 5
    assert client.execute_command("LOCK.HOLDERS", "cart:ann:lock")[0][1] == "ann"
    got = []
    waiting = threading.Thread(target=lambda: got.append(placed.client().blpop("session:queue", 20)))
    waiting.start()
    until(lambda: client.info("clients")["blocked_clients"] == 1)
    client.rpush("session:queue", "job")
    waiting.join(20)
    assert got == [("session:queue", "job")]


def test_rules_stay_with_the_data(placed):
    client = placed.client()
    client.mset({name: name for name in PLACED})
    placed.flags[placed.flags.index(RULES[1])] = "session:"
    placed.kill()
    with pytest.raises(Failed, match="created with the placement rules cart:\\*:,session:, not session:"):
        placed.start()
    at = placed.flags.index("--placement")
    del placed.flags[at : at + 2]
    placed.start()
    assert placed.client().mget(PLACED) == PLACED
    assert len(slots_of(placed.client(), PLACED)) == 2


def test_a_wrong_rule_is_refused_and_the_error_says_what_is_right(make_server):
    for rule, why in (("*:", "before, behind"), ("a{b}", "braces"), ("a:,a:", "twice"), ("a b", "spaces")):
        with pytest.raises(Failed, match=why):
            make_server("--placement", rule).start()


@pytest.mark.parametrize(("before", "after"), [("none", RULES[1]), (RULES[1], "none"), (RULES[1], None)])
def test_a_backup_is_restored_under_other_rules(make_server, tmp_path, before, after):
    server = make_server("--placement", before, shards=3).start()
    client = server.client()
    client.mset({name: name for name in PLACED + FREE})
    client.expire("cart:ann:1", 10_000)
    token = client.execute_command("LOCK.ACQUIRE", "cart:ann:lock", "OWNER", "ann")
    assert client.execute_command("FENCE", "cart:ann:lock", token, "SET", "cart:ann:0", "fenced")
    with server.client(single_connection_client=True) as one:
        one.execute_command("CLIENT", "REQUEST", "shop", 1)
        assert one.incr("session:n") == 1
    backup(server, tmp_path / "backup")
    rules = ["--placement", after] if after else []
    new = Server(tmp_path, *rules, shards=2)
    run("restore", tmp_path / "backup", "--dir", new.data, *new.flags)
    new.start()
    try:
        client = new.client()
        wanted = ["fenced", *PLACED[1:], *FREE]
        assert client.mget(["cart:ann:0", *PLACED[1:], *FREE]) == wanted
        assert client.dbsize() == len(wanted) + 2 and client.ttl("cart:ann:1") > 9_000
        assert len(slots_of(client, PLACED)) == (len(PLACED) if after == "none" else 2)
        with new.client(single_connection_client=True) as one:
            one.execute_command("CLIENT", "REQUEST", "shop", 1)
            assert one.incr("session:n") == 1
        with pytest.raises(redis.ResponseError, match="FENCED"):
            client.execute_command("FENCE", "cart:ann:lock", token - 1, "GET", "cart:ann:0")
    finally:
        new.kill()


def test_a_cluster_is_restored_with_the_rules_of_its_backup(make_server, tmp_path):
    server = make_server(*RULES, shards=2).start()
    server.client().mset({name: name for name in PLACED + FREE})
    backup(server, tmp_path / "backup")
    cluster = restored(tmp_path / "backup", tmp_path / "new")
    try:
        until(lambda: all_led(cluster), UP_S_MAX)
        for node in cluster.nodes:
            client = node.client()
            assert client.mget(PLACED + FREE) == PLACED + FREE
            assert len(slots_of(client, PLACED)) == 2
            assert client.config_get("placement") == {"placement": RULES[1]}
    finally:
        for node in cluster.nodes:
            node.kill()


def test_what_concerns_all_keys_ends_whatever_the_rules_are(make_server):
    client = make_server("--placement", ",".join("0123456789"), shards=4).start().client()
    client.mset({str(n): n for n in range(100)})
    with client.pipeline() as pipe:
        pipe.dbsize().keys("1*").set("new", 1).flushall().dbsize()
        replies = pipe.execute()
    assert (replies[0], len(replies[1]), replies[4]) == (100, 11, 0)
    assert client.eval("redis.call('set', '7', 1) return redis.call('keys', '*')", 0) == ["7"]
    assert client.execute_command("DBSIZE") == 1 and client.randomkey() == "7"


def test_machines_with_other_rules_are_left_out(make_cluster):
    cluster = make_cluster()
    for node, rule in zip(cluster.nodes, ("none", "cart:*:", "cart:*:")):
        node.flags += ["--placement", rule]
        node.start()
    odd, others = cluster.nodes[0], cluster.nodes[1:]
    cluster.wait(others)
    until(lambda: "placement rules" in odd.said(), UP_S_MAX)
    for number in range(30):
        assert [node.client().incr(f"cart:c{number}:n") for node in others] == [1, 2]
    with pytest.raises(redis.exceptions.ClusterDownError):
        odd.client().incr("cart:c1:n")


def test_an_existing_cluster_keeps_its_rules(make_cluster):
    cluster = make_cluster().start()
    node = cluster.nodes[0]
    node.kill()
    node.flags += ["--placement", "cart:*:"]
    with pytest.raises(Failed, match="created with the placement rules bull"):
        node.start()


def test_a_cluster_its_newcomers_and_its_splits_have_the_rules(make_cluster):
    cluster = make_cluster(shards=1).start()
    until(lambda: all_led(cluster), UP_S_MAX)
    names = [f"bull:mail:{n}" for n in range(50)] + [f"bull:{n}:id" for n in range(50)]
    clients = [node.client() for node in cluster.nodes]
    clients[0].mset({name: name for name in names})
    assert all(client.mget(names) == names for client in clients)
    claret(cluster.nodes[0], "split", 0)
    assert all(client.mget(names) == names for client in clients)
    text = "return redis.call('get', KEYS[1]) .. redis.call('get', 'bull:mail:' .. ARGV[1])"
    for number, client in enumerate(clients):
        assert client.eval(text, 1, "bull:mail:0", number) == f"bull:mail:0bull:mail:{number}"
        assert slots_of(client, names[:50]) == {client.cluster("KEYSLOT", "bull:mail:")}
    newcomer, name = cluster.newcomer(4)
    claret(cluster.nodes[0], "add", name)
    newcomer.start()
    try:
        until(lambda: "the shard map has epoch" in newcomer.said(), UP_S_MAX)
        assert newcomer.client().mget(names) == names
        assert slots_of(newcomer.client(), names[:50]) == {clients[0].cluster("KEYSLOT", "bull:mail:")}
        assert newcomer.client().config_get("placement") == clients[0].config_get("placement")
    finally:
        newcomer.kill()


def test_cluster_clients_are_told_where_the_keys_are(make_cluster):
    cluster = make_cluster().start()
    until(lambda: all_led(cluster), UP_S_MAX)
    client = redis.RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port, decode_responses=True)
    try:
        for number in range(30):
            assert client.set(f"bull:queue{number}:id", number)
            assert client.get(f"bull:queue{number}:id") == str(number)
    finally:
        client.close()
    assert cluster.nodes[1].client().get("bull:queue7:id") == "7"
