"""Databases (`SELECT`): what is in one is not in another, whatever the command, and names stay names."""

import threading

import pytest
import redis
from clusters import UP_S_MAX
from harness import until, work_in_threads
from test_backup import alone, backup
from test_operating import all_led, claret

DATABASES = 16


@pytest.fixture
def several(server):
    """A client of each database of an empty server."""
    clients = [server.client(db=number) for number in range(DATABASES)]
    clients[0].flushall()
    yield clients
    for client in clients:
        client.close()


def keyspace(client):
    """What `INFO keyspace` says: the numbers of keys and of those that expire, by database."""
    told = client.info("keyspace")
    return {name: (line["keys"], line["expires"]) for name, line in told.items()}


def test_every_database_has_its_own_keys(several):
    for number, client in enumerate(several):
        client.mset({f"k{i}": f"{number}" for i in range(number + 1)})
        client.set("expiring", number, ex=1000)
    for number, client in enumerate(several):
        names = {f"k{i}" for i in range(number + 1)} | {"expiring"}
        assert set(client.keys()) == set(client.scan_iter(count=3)) == names
        assert client.dbsize() == len(names) and client.randomkey() in names
        assert set(client.mget(f"k{i}" for i in range(number + 1))) == {str(number)}
        assert client.client_info()["db"] == number
    assert keyspace(several[0]) == {f"db{n}": (n + 2, 1) for n in range(DATABASES)}
    several[7].flushdb()
    assert [client.dbsize() for client in several] == [0 if n == 7 else n + 2 for n in range(DATABASES)]
    several[0].flushdb()
    assert keyspace(several[0]) == {f"db{n}": (n + 2, 1) for n in range(1, DATABASES) if n != 7}
    several[3].flushall()
    assert keyspace(several[0]) == {} and not any(client.dbsize() for client in several)


def test_scripts_are_in_no_database(several):
    sha = several[5].script_load("return redis.call('incr', KEYS[1])")
    assert several[5].evalsha(sha, 1, "n") == 1 and several[6].evalsha(sha, 1, "n") == 1
    several[5].flushdb()
    several[5].flushall()
    assert several[6].evalsha(sha, 1, "n") == 1 and keyspace(several[0]) == {"db6": (1, 0)}
    several[6].script_flush()
    assert several[6].get("n") == "1"


def test_a_pipeline_may_go_from_database_to_database(several):
    client = several[0]
    with client.pipeline(transaction=False) as pipe:
        for round_ in range(3):
            for number in range(DATABASES):
                pipe.execute_command("SELECT", number)
                pipe.incrby(f"n{number % 5}", number)
                pipe.mget(f"n{i}" for i in range(5))
        pipe.execute_command("SELECT", 0)
        replies = pipe.execute()
    for at in range(48):
        number, round_ = at % DATABASES, at // DATABASES
        value = number * (round_ + 1)
        told = [None if i != number % 5 else str(value) for i in range(5)]
        assert replies[3 * at : 3 * at + 3] == [True, value, told]


def test_clients_of_all_databases_at_once(server, several):
    def work(number):
        with server.client(db=number) as client:
            for step in range(100):
                client.incr("n")
                client.rpush(f"list{step % 3}", number)
                with client.pipeline() as pipe:
                    pipe.incr("n").move("n", (number + 1) % DATABASES).incr("m").execute()

    work_in_threads(work, DATABASES)
    # Whatever moved is still there: what a client finds in its database was put there, or by its neighbour.
    assert [client.get("m") for client in several] == ["100"] * DATABASES
    for number, client in enumerate(several):
        assert sum(client.llen(f"list{i}") for i in range(3)) == 100
        assert set(client.lrange("list0", 0, -1)) == {str(number)}


def test_a_moved_key_wakes_who_waits_for_it(server, several):
    got = []

    def wait():
        with server.client(db=4) as client:
            got.append(client.blpop(["none", "queue"], timeout=20))

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(lambda: several[0].info("clients")["blocked_clients"] == 1)
    several[0].rpush("queue", "of another database")
    assert several[0].move("queue", 4)
    waiting.join(20)
    assert got == [("queue", "of another database")]


def test_everything_is_there_after_a_crash(make_server):
    server = make_server(shards=3).start()
    for number in range(DATABASES):
        with server.client(db=number) as client:
            client.set("k", number)
            client.set("expiring", number, px=500 if number == 3 else 1_000_000)
    server.restart()
    with server.client(db=3) as client:
        assert client.get("k") == "3"
        until(lambda: client.dbsize() == 1, what="the expiry")
        client.save()
    with server.client(db=9) as client:
        client.flushdb()
    server.restart()
    with server.client() as client:
        told = {f"db{n}": (2, 1) for n in range(DATABASES) if n not in (3, 9)}
        assert keyspace(client) == {**told, "db3": (1, 0)}
    for number in range(DATABASES):
        with server.client(db=number) as client:
            assert client.get("k") == (None if number == 9 else str(number))


def test_the_slot_of_a_key_is_that_of_its_name(several):
    slots = {client.cluster("KEYSLOT", "{tag}a") for client in several}
    assert slots == {several[0].cluster("KEYSLOT", "tag")}
    slot = slots.pop()
    several[0].mset({"{tag}a": 0, "{tag}b": 0})
    several[6].mset({"{tag}c": 6})
    for number, names in ((0, ["{tag}a", "{tag}b"]), (6, ["{tag}c"]), (7, [])):
        assert several[number].cluster("COUNTKEYSINSLOT", slot) == len(names)
        assert sorted(several[number].cluster("GETKEYSINSLOT", slot, 10)) == names


def test_locks_are_in_the_database_of_their_client(server, several):
    here, there = several[0], several[2]
    token = there.execute_command("LOCK.ACQUIRE", "lock", "OWNER", "ann")
    assert here.execute_command("LOCK.HOLDERS", "lock") == []
    assert here.execute_command("LOCK.TRY", "lock", "OWNER", "ben") > 0
    assert there.execute_command("LOCK.TRY", "lock", "OWNER", "ben") is None
    assert there.execute_command("LOCK.WAITERS", "lock") == []
    waiting = threading.Thread(target=lambda: server.client(db=2).execute_command(
        "LOCK.ACQUIRE", "lock", "TIMEOUT", 20_000, "OWNER", "cid"))
    waiting.start()
    until(lambda: there.execute_command("LOCK.WAITERS", "lock"))
    assert here.execute_command("LOCK.WAITERS", "lock") == []
    assert there.execute_command("FENCE", "lock", token, "SET", "{lock}k", "fenced")
    assert (here.get("{lock}k"), there.get("{lock}k")) == (None, "fenced")
    assert there.execute_command("LOCK.RELEASE", "lock", token) == 1
    waiting.join(20)
    assert there.execute_command("LOCK.HOLDERS", "lock")[0][1] == "cid"
    assert there.execute_command("LOCK.SECTION", "{s}lock", "INCR", "{s}n") == 1
    assert (here.get("{s}n"), there.get("{s}n")) == (None, "1")
    elected = there.execute_command("ELECTION.CAMPAIGN", "chair", "ann")
    assert elected and here.execute_command("ELECTION.LEADER", "chair") is None
    assert there.execute_command("ELECTION.LEADER", "chair")[0] == elected


def test_an_interactive_transaction_may_span_databases(server, several):
    other = several[8]
    with server.client(single_connection_client=True) as one:
        ask = one.execute_command
        ask("SET", "n", 1)
        assert ask("TXN", "BEGIN")
        assert ask("GET", "n") == "1"
        assert ask("SELECT", 8)
        assert ask("GET", "n") is None and ask("SET", "n", 8)
        assert ask("TXN", "FORUPDATE", "GET", "m") is None
        assert len(ask("TXN", "HOLDERS", "m")) == 3
        assert other.get("n") is None
        assert ask("SELECT", 0) and ask("INCR", "n") == 2
        ask("TXN", "COMMIT")
        assert ask("GET", "n") == "2"
    assert other.get("n") == "8"


def test_a_script_that_looks_at_all_keys_sees_what_it_wrote(several):
    text = "redis.call('set', 'new', 1) redis.call('del', 'old') return redis.call('keys', '*')"
    for client in several[:3]:
        client.mset({"old": 1, "kept": 1})
        assert sorted(client.eval(text, 0)) == ["kept", "new"]


def test_patterns_of_users_are_about_names(make_server):
    config = """
password = "boss"

[[users]]
name = "reports"
password = "r"
rules = ["on", "+@all", "~report:*"]
"""
    server = make_server(config=config).start()
    reader = server.client(username="reports", password="r", db=5)
    assert reader.set("report:1", "x") and reader.eval("return redis.call('get', 'report:1')", 0) == "x"
    assert reader.move("report:1", 6) and reader.copy("report:1", "report:2") is False
    for words in (
        ["GET", "secret"],
        ["COPY", "report:1", "secret", "DB", "0"],
        ["MOVE", "secret", "0"],
        ["TXN", "HOLDERS", "secret"],
        ["EVAL", "return redis.call('get', 'secret')", "0"],
    ):
        with pytest.raises(redis.ResponseError, match="ermission"):
            reader.execute_command(*words)


# The keys of database 1 in the store, and one of the store's own.
RESERVED = [b"\0\xc1d\x01k", b"\0\xc1script:" + b"0" * 40]


@pytest.mark.parametrize("key", RESERVED)
def test_no_name_leads_into_another_database(several, key):
    several[1].set("k", "kept")
    lines = [["GET", key], ["SET", key, 1], ["MGET", "a", key], ["RENAME", "a", key], ["COPY", key, "a"]]
    lines += [["COPY", key, "a", "DB", 2], ["COPY", "a", key, "DB", 2], ["MOVE", key, 0], ["MOVE", key, 2]]
    lines += [["BLPOP", key, 1], ["XREAD", "STREAMS", key, 0], ["WATCH", key], ["LOCK.TRY", key]]
    lines += [["FENCE", key, 1, "GET", "a"], ["FENCE", "a", 1, "GET", key], ["LOCK.SECTION", "a", "GET", key]]
    lines += [["TXN", "HOLDERS", key], ["EVAL", "return redis.call('get', ARGV[1])", 0, key]]
    lines += [["EVAL", "return 1", 1, key], ["LOCK.WAITERS", key], ["LOCK.ACQUIRE", key, "NEAR"]]
    for client in several[:3]:
        client.set("a", 1)
        for words in lines:
            with pytest.raises(redis.ResponseError, match="store's own|hash slot|syntax"):
                client.execute_command(*words)
        assert client.exists("a")
    assert several[1].get("k") == "kept" and [c.dbsize() for c in several[:3]] == [1, 2, 1]


def test_a_numbered_transaction_selects_nothing(server, several):
    with server.client(single_connection_client=True) as one:
        one.execute_command("CLIENT", "REQUEST", "shop", 1)
        one.execute_command("MULTI")
        with pytest.raises(redis.ResponseError, match="SELECT before MULTI"):
            one.execute_command("SELECT", 2)
        one.execute_command("DISCARD")
        one.execute_command("SELECT", 2)
        for _ in range(2):
            one.execute_command("CLIENT", "REQUEST", "shop", 2)
            assert one.execute_command("INCR", "n") == 1
        one.execute_command("SET", "k", 2)
        for _ in range(2):
            one.execute_command("CLIENT", "REQUEST", "shop", 3)
            assert one.execute_command("FLUSHDB")
    several[0].set("k", 0)
    assert [client.get("k") for client in several[:3]] == ["0", None, None]


def test_a_cluster_has_databases_too(make_cluster):
    cluster = make_cluster().start()
    cluster.nodes[0].client().flushall()
    for number, node in enumerate(cluster.nodes):
        with node.client(db=number + 1) as client:
            client.mset({f"k{i}": number for i in range(20)})
    for number, node in enumerate(cluster.nodes):
        with node.client(db=(number + 1) % 3 + 1) as client:
            assert client.dbsize() == len(client.keys()) == 20
            assert set(client.mget(client.keys())) == {str((number + 1) % 3)}
            assert client.randomkey().startswith("k") and len(list(client.scan_iter())) == 20
    with cluster.nodes[2].client(db=1) as client:
        assert keyspace(client) == {f"db{n}": (20, 0) for n in (1, 2, 3)}
        client.flushdb()
        assert keyspace(client) == {f"db{n}": (20, 0) for n in (2, 3)}


def numbers(client):
    """Every key of a database with its value."""
    names = list(client.scan_iter(count=50))
    return dict(zip(names, client.mget(names), strict=True))


def test_a_split_and_a_backup_take_all_databases_along(make_cluster, tmp_path):
    cluster = make_cluster(shards=1).start()
    until(lambda: all_led(cluster), UP_S_MAX)
    first = cluster.nodes[0]
    first.client().flushall()
    wanted = {number: {f"k{i}": str(number) for i in range(100)} for number in (0, 1, 15)}
    for number, values in wanted.items():
        with first.client(db=number) as client:
            client.mset(values)
    claret(first, "split", 0)
    for number, values in wanted.items():
        with cluster.nodes[1].client(db=number) as client:
            assert numbers(client) == values and client.dbsize() == 100
    backup(cluster.nodes[2], tmp_path / "backup")
    server = alone(tmp_path / "backup", tmp_path / "alone")
    try:
        for number, values in wanted.items():
            with server.client(db=number) as client:
                assert numbers(client) == values
                assert keyspace(client) == {f"db{n}": (100, 0) for n in wanted}
    finally:
        server.kill()


def test_texts_of_scripts_are_no_keys_that_expire(make_server):
    client = make_server().start().client()
    client.set("plain", 1)
    client.set("timed", 1, ex=1000)
    for number in range(5):
        assert client.eval(f"return {number}", 0) == number
    told = client.info("keyspace")["db0"]
    assert (told["keys"], told["expires"]) == (2, 1)
