"""Our package against a server: conflicts, snapshots, exactly once."""

import asyncio
import threading
import time

import pytest
import redis
from harness import until, work_in_threads

import claret
from claret import Best, Counter, Log, Map, Members, Queue, Register, Scores, aio


@claret.transactional
def transfer(tx, source, target, amount):
    """Moves money if there is enough."""
    if int(tx.get(source) or 0) < amount:
        return False
    tx.decrby(source, amount)
    tx.incrby(target, amount)
    return True


def test_reads_see_own_writes_and_nobody_elses(store, server):
    store.set("a", 1)
    with server.client() as other, store.begin() as tx:
        tx.incr("a")
        tx.sadd("s", "x")
        assert tx.get("a") == "2" and tx.sismember("s", "x")
        assert other.get("a") == "1" and not other.exists("s")
    assert store.get("a") == "2" and store.smembers("s") == {"x"}


def test_an_exception_undoes_everything(store):
    with pytest.raises(KeyError), store.begin() as tx:
        tx.set("a", 1)
        assert tx.get("a") == "1"
        tx.hset("h", "f", 1)
        raise KeyError
    assert store.dbsize() == 0
    assert store.ping()


def test_replies_of_writes_come_with_the_commit(store):
    store.sadd("s", "a")
    with store.begin() as tx:
        old, new = tx.sadd("s", "a"), tx.sadd("s", "b")
        total = tx.incrby("n", 5)
        popped = tx.spop("nothing")
        moved = tx.rename("s", "t")
        late = tx.incrby("n", 2)
    assert (old.value, new.value, total.value) == (0, 1, 5)
    assert popped.value is None and moved.value is True and late.value == 7
    assert store.smembers("t") == {"a", "b"}


def test_observed_writes_answer_at_once(store):
    with store.begin(now=True) as tx:
        assert tx.incr("n") == 1
        assert tx.rpush("q", "a", "b") == 2
        assert tx.lpop("q") == "a"
    assert store.lrange("q", 0, -1) == ["b"]


def test_identifiers_told_in_a_transaction_are_those_of_its_commit(server):
    with server.client(single_connection_client=True) as client:
        ask = client.execute_command
        ask("UID.NEXT", "ids")
        ask("TXN", "BEGIN")
        logged = [ask("LOG.APPEND", "log", *values) for values in (["a", "b"], ["c"])]
        added = [ask("XADD", "stream", "*", "f", value) for value in "xy"]
        issued = [ask("UID.NEXT", "ids"), *ask("UID.NEXT", "ids", "COUNT", 2)]
        time.sleep(0.01)
        ask("TXN", "COMMIT")
        entries = ask("LOG.RANGE", "log", "-", "+")
        assert [value for _, value in entries] == ["a", "b", "c"]
        assert logged == [entries[1][0], entries[2][0]]
        assert [entry for entry, _ in client.xrange("stream")] == added
        assert ask("UID.ISSUED", "ids") == 4
        later = [ask("UID.NEXT", "ids") for _ in range(3)]
        assert len({*issued, *later}) == 6


def test_a_refused_write_stops_the_commit(store):
    with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
        with store.begin() as tx:
            tx.set("a", 1)
            tx.execute_command("SET", "b")
    assert store.dbsize() == 0


def test_a_write_that_its_value_refuses_is_reported(store):
    store.rpush("l", 1)
    with pytest.raises(claret.WriteRefused, match="WRONGTYPE"), store.begin() as tx:
        tx.sadd("l", "x")
        tx.set("a", 1)
    assert store.get("a") == "1", "as in MULTI"


def test_transfers_keep_the_sum(store):
    accounts = [f"account:{i}" for i in range(8)]
    for account in accounts:
        store.set(account, 100)

    def work(number):
        for i in range(40):
            source = accounts[(number + i) % 8]
            target = accounts[(number * 3 + i * 5 + 1) % 8]
            if source != target:
                transfer(store, source, target, 1 + i % 7)

    work_in_threads(work, 8)
    assert sum(int(value) for value in store.mget(accounts)) == 800
    assert all(int(value) >= 0 for value in store.mget(accounts))


def test_counting_by_read_and_write_loses_nothing(store):
    @claret.transactional
    def increment(tx):
        tx.set("n", int(tx.get("n") or 0) + 1)

    def work(_):
        for _ in range(25):
            increment(store)

    work_in_threads(work, 8)
    assert store.get("n") == "200"


def test_a_deadlock_is_broken_and_retried(store, server):
    barrier = threading.Barrier(2, timeout=20)
    attempts = [0, 0]

    def cross(tx, mine, own, other):
        attempts[mine] += 1
        tx.get(own)
        if attempts[mine] == 1:
            barrier.wait()
        tx.set(other, mine)
        tx.flush()
        return True

    def work(number):
        with server.client(claret.Claret) as client:
            own, other = ("a", "b") if number == 0 else ("b", "a")
            assert client.run(cross, number, own, other)

    work_in_threads(work, 2)
    assert store.get("a") == "1" and store.get("b") == "0"


def test_observed_deadlocks_are_broken(store, server):
    barrier = threading.Barrier(2, timeout=20)
    attempts = [0, 0]

    def cross(tx, mine, own, other):
        attempts[mine] += 1
        tx.incr(own)
        if attempts[mine] == 1:
            barrier.wait()
        tx.incr(other)

    def work(number):
        with server.client(claret.Claret) as client:
            client.run(cross, number, *(("a", "b") if number == 0 else ("b", "a")), now=True)

    work_in_threads(work, 2)
    assert store.mget("a", "b") == ["2", "2"]
    assert sum(attempts) > 2, "one of them had to give way"


def test_a_reader_is_waited_for_and_others_are_not(store, server):
    store.sadd("s", "a")
    added = threading.Event()

    def add():
        with server.client() as client:
            assert client.sadd("s", "b") == 1
            added.set()

    with server.client() as other, store.begin() as tx:
        assert tx.smembers("s") == {"a"}
        thread = threading.Thread(target=add)
        thread.start()
        assert other.sadd("t", "x") == 1, "another key"
        assert not added.wait(0.3)
        assert tx.smembers("s") == {"a"}
    assert added.wait(5)
    thread.join()
    assert store.scard("s") == 2


def test_different_members_do_not_wait_for_each_other(store, server):
    with server.client(socket_timeout=2) as other, store.begin() as tx:
        assert not tx.sismember("s", "a")
        tx.sadd("s", "a")
        assert other.sadd("s", "b") == 1
    assert store.smembers("s") == {"a", "b"}


def test_a_snapshot_is_of_one_instant(store, server):
    keys = [f"k{i}" for i in range(8)]
    stop = threading.Event()

    def write():
        with server.client(claret.Claret) as client:
            number = 0
            while not stop.is_set():
                number += 1
                with client.batch() as batch:
                    for key in keys:
                        batch.set(key, number)
                time.sleep(0.003)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        seen = set()
        for _ in range(60):
            read = lambda tx: tx.mget(keys[:4]) + [tx.get(keys[4])] + tx.mget(keys[5:])
            values = store.run(read, readonly=True)
            assert len(set(values)) == 1, values
            seen.add(values[0])
            assert len(set(store.mget(keys))) == 1
        assert len(seen) > 1, "the writer was stopped by the reader"
    finally:
        stop.set()
        thread.join(20)


def test_a_snapshot_makes_nobody_wait(store, server):
    store.mset({"a": 1, "b": 1})
    with server.client(socket_timeout=2) as other, store.snapshot() as tx:
        assert tx.get("a") == "1"
        assert other.set("a", 2) is True
        assert tx.get("b") == "1", "of the instant before"
        with pytest.raises(redis.ResponseError, match="READONLY"):
            tx.set("a", 3)
    assert store.get("a") == "2"


def test_a_snapshot_that_came_too_late_says_so(store, server):
    store.set("a", 1)
    with server.client() as other, pytest.raises(claret.ConflictError), store.snapshot() as tx:
        assert tx.get("a") == "1"
        with other.pipeline() as pipe:
            pipe.set("a", 2).set("b", 2)
            pipe.execute()
        tx.get("b")


def test_batches_span_shards_and_answer_in_order(store):
    with store.batch() as batch:
        numbers = [batch.incrby(f"n{i}", i) for i in range(50)]
        read = batch.mget("n3", "n4")
    assert [number.value for number in numbers] == list(range(50))
    assert read.value == ["3", "4"]


def test_a_request_number_counts_once(store, server):
    for words in (["INCR", "n"], ["MULTI"], ["TXN", "BEGIN"]):
        replies = []
        for _ in range(2):
            with server.client(single_connection_client=True) as client:
                client.execute_command("CLIENT", "REQUEST", "me", len(words[0]))
                try:
                    reply = client.execute_command(*words)
                    if words[0] != "INCR":
                        client.execute_command("INCR", words[0])
                        end = ["EXEC"] if words[0] == "MULTI" else ["TXN", "COMMIT"]
                        reply = client.execute_command(*end)
                except redis.ResponseError as error:
                    reply = str(error)
                replies.append(reply)
        assert store.get("n" if words[0] == "INCR" else words[0]) == "1", words
        values = words[0] == "TXN"
        assert replies[1].startswith("REPEATED") if values else replies[0] == replies[1], replies


FORMS = [
    ["INCR a"],
    ["MSET a 5 b 6 c 7"],
    ["MULTI", "INCR a", "ECHO e", "INCR b", "GET c", "EXEC"],
    ["RENAME b d"],
    ["ZRANGESTORE y z 0 -1"],
    ["MULTI", "SADD s 1 2", "SUNIONSTORE t s", "PING", "INCR c", "EXEC"],
    ["TXN BEGIN BLIND", "INCR a", "INCR b", "SADD s 3", "TXN COMMIT"],
    ["TXN BEGIN BLIND STRICT", "INCR a", "INCR e", "TXN COMMIT"],
    ["MULTI", "INCR a", "PUBLISH news one", "CLIENT ID", "EXEC"],
    ["MULTI", "INCR a", "PUBLISH news two", "INCR e", "EXEC"],
    ["PUBLISH news three"],
]


def asked_under(client, number, form, name="repeater"):
    """The reply of the last command of a form under a request number."""
    *before, last = form
    client.execute_command("CLIENT", "REQUEST", name, number)
    for line in before:
        client.execute_command(*line.split())
    return client.execute_command(*last.split())


def test_a_repeated_request_of_any_form_answers_what_it_answered(store, server):
    store.execute_command("ZADD", "z", 1, "m")
    for number, form in enumerate(FORMS):
        replies = []
        for _ in range(3):
            with server.client(single_connection_client=True) as client:
                replies.append(asked_under(client, number, form))
        assert replies[0] == replies[1] == replies[2], (form, replies)
    assert store.mget("a", "b", "c", "d", "e") == ["10", "1", "8", "7", "2"]


def test_a_restarted_server_answers_what_a_request_has_answered(make_server):
    server = make_server().start()
    first = []
    for killed in (False, False, True):
        # What is answered again is kept, and stays so.
        if killed:
            server.kill()
            server.start()
        with server.client(single_connection_client=True) as client:
            client.execute_command("ZADD", "z", 1, "m")
            told = [asked_under(client, number, form) for number, form in enumerate(FORMS)]
        first = first or told
        assert told == first


def test_a_message_that_is_published_under_a_number_is_heard_once(store, server):
    with server.client() as hearer:
        news = hearer.pubsub(ignore_subscribe_messages=True)
        news.subscribe("news")
        news.get_message(timeout=5)
        for number, form in enumerate(FORMS):
            for _ in range(3):
                with server.client(single_connection_client=True) as client:
                    store.execute_command("ZADD", "z", 1, "m")
                    asked_under(client, number, form, "publisher")
        store.publish("news", "end")
        heard = []
        while not heard or heard[-1] != "end":
            message = news.get_message(timeout=10)
            assert message, heard
            heard.append(message["data"])
    assert heard == ["one", "two", "three", "end"]


def test_another_machine_answers_what_a_request_has_answered(make_cluster):
    cluster = make_cluster().start()
    with cluster.nodes[0].client() as client:
        client.zadd("z", {"m": 1})
    for number, form in enumerate(FORMS):
        replies = []
        for node in cluster.nodes:
            with node.client(single_connection_client=True) as client:
                replies.append(asked_under(client, number, form))
        assert replies[0] == replies[1] == replies[2], (form, replies)


def test_the_next_leader_answers_what_a_request_has_answered(make_cluster):
    cluster = make_cluster().start()
    cluster.let_lead(cluster.nodes[0])
    with cluster.nodes[1].client() as client:
        client.zadd("z", {"m": 1})

    def asked(node):
        with node.client(single_connection_client=True) as client:
            return [asked_under(client, number, form) for number, form in enumerate(FORMS)]

    first = asked(cluster.nodes[1])
    cluster.let_lead(cluster.nodes[2])
    assert asked(cluster.nodes[1]) == first, "the lead was handed over"
    cluster.nodes[2].kill()
    assert asked(cluster.nodes[0]) == first, "the leader was lost"


def test_resolving_settles_a_request(store, server):
    assert store.execute_command("TXN", "RESOLVE", "nobody", 1) == 0
    request = ["CLIENT", "REQUEST", "nobody", 1]
    with server.client(single_connection_client=True) as client:
        client.execute_command(*request)
        client.execute_command("TXN", "BEGIN", "BLIND")
        client.execute_command("SET", "a", 1)
        with pytest.raises(redis.ResponseError):
            client.execute_command("TXN", "COMMIT")
        assert not store.exists("a"), "it was promised that it never takes effect"
        client.execute_command("CLIENT", "REQUEST", "nobody", 2)
        client.execute_command("TXN", "BEGIN", "BLIND")
        client.execute_command("SET", "a", 1)
        client.execute_command("TXN", "COMMIT")
    assert store.execute_command("TXN", "RESOLVE", "nobody", 2) == 1
    assert store.get("a") == "1"


def test_resolving_settles_what_another_shard_remembers(make_server):
    """A MULTI, a command and a wait for a lock, under numbers that all shards may be asked about."""
    server = make_server(shards=4, workers=2).start()
    with server.client() as client, server.client(single_connection_client=True) as other:
        for number in range(1, 13):
            other.execute_command("CLIENT", "REQUEST", "who", number)
            if number % 2:
                assert other.incr(f"n{number}") == 1
            else:
                for words in ("MULTI", f"INCR n{number}", f"INCR m{number}"):
                    other.execute_command(*words.split())
                assert other.execute_command("EXEC") == [1, 1]
            assert client.execute_command("TXN", "RESOLVE", "who", number) == 1
        for number in range(13, 25):
            lock = f"lock{number}"
            token = client.execute_command("LOCK.TRY", lock, "LEASE", 60_000)
            pool = other.connection_pool
            connection = pool.get_connection()
            connection.send_command("CLIENT", "REQUEST", "who", number)
            connection.read_response()
            connection.send_command("LOCK.ACQUIRE", lock, "LEASE", 60_000)
            until(lambda lock=lock: client.execute_command("LOCK.WAITERS", lock))
            assert client.execute_command("TXN", "RESOLVE", "who", number) == 0
            client.execute_command("LOCK.RELEASE", lock, token)
            with pytest.raises(redis.ResponseError, match="VOIDED"):
                connection.read_response()
            pool.release(connection)
            assert not client.execute_command("LOCK.HOLDERS", lock)
            assert client.execute_command("TXN", "RESOLVE", "who", number) == 0


def test_an_outcome_that_is_forgotten_is_neither_denied_nor_repeated(store, server):
    def numbered(client, number, *words):
        client.execute_command("CLIENT", "REQUEST", "busy", number)
        return client.execute_command(*words)

    with server.client(single_connection_client=True) as client:
        numbered(client, 1, "TXN", "BEGIN", "BLIND")
        client.execute_command("INCR", "n{busy}")
        client.execute_command("TXN", "COMMIT")
        assert numbered(client, 2, "INCR", "n{busy}") == 2
        for number in range(3, 80):
            numbered(client, number, "INCR", "other{busy}")
        for ask in (
            lambda: client.execute_command("TXN", "RESOLVE", "busy", 1),
            lambda: numbered(client, 2, "INCR", "n{busy}"),
        ):
            with pytest.raises(redis.ResponseError, match="INDEFINITE"):
                ask()
        assert numbered(client, 79, "INCR", "other{busy}") == 77, "this one is remembered"
    assert store.get("n{busy}") == "2"


def test_runs_take_effect_once_across_kills(make_server):
    server = make_server().start()
    store = server.client(claret.Claret, socket_timeout=5)
    done, stop = [0] * 6, threading.Event()
    policy = claret.RetryPolicy(deadline_s=60)

    def step(tx, number):
        tx.incr(f"count:{number}")
        tx.incr("total")

    def work(number):
        while not stop.is_set():
            store.run(step, number, policy=policy)
            done[number] += 1

    def crash():
        for _ in range(3):
            time.sleep(0.7)
            server.restart()
        time.sleep(0.5)
        stop.set()

    crasher = threading.Thread(target=crash)
    crasher.start()
    try:
        work_in_threads(work, 6)
    finally:
        crasher.join()
    counts = [int(store.get(f"count:{i}")) for i in range(6)]
    assert counts == done
    assert int(store.get("total")) == sum(done)


def test_handles_on_a_server(store):
    stock = Counter(store, "stock")
    stock.set(5, low=0)
    assert [stock.attempt(-2) for _ in range(3)] == [True, True, False]
    assert stock.get() == 1 and stock.bounds() == (0, None) and not stock.at_least(2)
    visits = Counter(store, "visits")
    visits.add(10)
    assert visits.add(-3, returning=True) == 7

    best = Best(store, "bids")
    best.create(2)
    for item, score in (("a", 5), ("b", 7), ("c", 6), ("b", 1)):
        best.offer(item, score)
    assert best.top() == [("b", 7.0), ("c", 6.0)]
    assert best.rank("c") == 1 and len(best) == 2 and best.capacity() == 2
    assert list(best) == ["b", "c"]

    log = Log(store, "log")
    log.append("x")
    newest = log.append("y", "z", returning=True)
    assert [entry for _, entry in log.tail(2)] == ["z", "y"]
    assert log.tail(1)[0][0] == newest
    assert list(log) == ["x", "y", "z"] and len(log) == 3
    assert log.trim(1, returning=True) == 2

    fields = Map(store, "h")
    fields["a"] = 1
    fields.update({"b": 2, "c": 3})
    assert fields["a"] == "1" and "b" in fields and len(fields) == 3
    assert sorted(fields) == ["a", "b", "c"] and fields.all() == {"a": "1", "b": "2", "c": "3"}
    assert fields.add("a", 4, returning=True) == 5 and fields.discard("a", returning=True) is True

    members = Members(store, "s")
    members.add("a", "b")
    assert "a" in members and set(members) == {"a", "b"} == members.all()

    scores = Scores(store, "z")
    scores.put("a", 1)
    scores.raise_to("a", 3)
    scores.raise_to("a", 2)
    assert scores.get("a") == 3.0 and scores.add("a", 1.5, returning=True) == 4.5
    assert [tuple(pair) for pair in scores.range()] == [("a", 4.5)] and list(scores) == ["a"]

    queue = Queue(store, "q")
    queue.push("a", "b", "c")
    assert queue.pop() == "a" and queue.move(Queue(store, "r")) == "b"
    assert queue.wait(1) == "c" and queue.wait(0.1) is None and len(queue) == 0

    register = Register(store, "r1")
    assert register.create("x") and not register.create("y")
    assert register.exchange("z") == "x" and register.get() == "z"
    register.set("w", ttl_s=100)
    assert store.ttl("r1") > 90


def test_handles_in_a_transaction(store):
    Counter(store, "stock").set(1, low=0)
    Queue(store, "jobs").push("j")

    @claret.transactional
    def order(tx, who):
        stock = Counter(tx, "stock")
        if not stock.at_least(1):
            return False
        stock.attempt(-1)
        Members(tx, "orders").add(who)
        assert who in Members(tx, "orders")
        Log(tx, "log").append(who)
        return True

    outcomes = []
    work_in_threads(lambda number: outcomes.append(order(store, f"u{number}")), 6)
    assert sorted(outcomes) == [False] * 5 + [True]
    assert len(Members(store, "orders")) == 1 == len(Log(store, "log"))
    with store.begin(now=True) as tx:
        assert Queue(tx, "jobs").move(Queue(tx, "done")) == "j"
        assert Queue(tx, "jobs").wait(5) is None, "there is no waiting in a transaction"
    assert list(Queue(store, "done")) == ["j"]


def test_adds_to_one_counter_make_nobody_wait(store, server):
    with server.client(socket_timeout=2) as other, store.begin(now=True) as tx:
        Counter(tx, "n").add(1)
        assert other.execute_command("COUNTER.ADD", "n", 5)
    assert Counter(store, "n").get() == 6


def test_asyncio(server, store):
    async def story():
        db = server.client(aio.Claret)

        @aio.transactional
        async def move(tx, source, target, amount):
            if int(await tx.get(source) or 0) < amount:
                return False
            tx.decrby(source, amount)
            await tx.incrby(target, amount)
            return True

        await db.mset({"a": 50, "b": 50})
        pairs = [("a", "b"), ("b", "a")] * 20
        await asyncio.gather(*(move(db, *pair, 3) for pair in pairs))
        async with db.snapshot() as tx:
            values = await asyncio.gather(tx.get("a"), tx.get("b"))
        assert sum(map(int, values)) == 100
        async with db.batch() as batch:
            total = batch.incrby("n", 4)
        assert total.value == 4
        assert await Counter(db, "c").add(2, returning=True) == 2
        with pytest.raises(claret.TransactionClosed):
            total_early = None
            async with db.begin() as tx:
                total_early = tx.incr("n")
                total_early.value
        assert await db.get("n") == "4"
        await db.aclose()

    asyncio.run(story())


def test_a_lost_client_frees_what_it_held(store, server):
    holder = server.client(claret.Claret, single_connection_client=False)
    tx = holder.begin()
    tx.smembers("s")
    holder.connection_pool.disconnect()
    with server.client(socket_timeout=5) as other:
        assert other.sadd("s", "x") == 1
    with pytest.raises(claret.CommitUnknown):
        tx.commit()


def test_transactions_that_begin_together_ask_for_the_commands_once(server):
    def asked(db):
        return db.info("commandstats").get("cmdstat_command", {}).get("calls", 0)

    watcher = server.client()
    before = asked(watcher)
    shared = server.client(claret.Claret)
    work_in_threads(lambda _: shared.run(set_x), 8)
    assert asked(watcher) == before + 1

    async def story():
        db = server.client(aio.Claret)
        await asyncio.gather(*(db.run(set_x_later) for _ in range(8)))
        await db.aclose()

    asyncio.run(story())
    assert asked(watcher) == before + 2


def set_x(tx):
    tx.set("x", 1)


async def set_x_later(tx):
    tx.set("x", 1)


def test_pooled_connections_come_back_clean(store):
    others = len(store.client_list())
    for _ in range(20):
        try:
            with store.begin() as tx:
                tx.get("a")
                raise KeyError
        except KeyError:
            pass
        assert store.set("a", 1) is True
    assert len(store.client_list()) < others + 10


def add_one(tx, key):
    """Reads a number and writes the next one."""
    tx.set(key, int(tx.get(key) or 0) + 1)


def aborts(store):
    """Number of transactions that were aborted."""
    return int(store.info("all")["aborted"])


@pytest.mark.parametrize("way", ["all reads", "one read"])
def test_transactions_that_announce_their_writes_stand_in_line(store, way):
    def one(tx):
        tx.set("n", int(tx.for_update.get("n") or 0) + 1)

    def work(_):
        for _ in range(20):
            if way == "one read":
                store.run(one)
            else:
                store.run(add_one, "n", for_update=True)

    before = aborts(store)
    work_in_threads(work, 8)
    assert int(store.get("n")) == 160
    assert aborts(store) == before


def test_programs_that_do_not_announce_their_writes_soon_stand_in_line(store):
    def work(_):
        for _ in range(50):
            store.run(add_one, "n")

    before = aborts(store)
    work_in_threads(work, 8)
    assert int(store.get("n")) == 400
    assert aborts(store) - before <= 20, "those that read before anything was learned"


def test_a_read_shares_a_key_with_one_that_announces_a_write(store, server):
    # Of a key on which transactions have met, the server may have learned that reads announce writes.
    store.set("quiet", 5)
    with server.client() as other, store.begin(for_update=True) as tx:
        assert tx.get("quiet") == "5"
        with store.begin(now=True) as reader:
            assert reader.get("quiet") == "5" and other.get("quiet") == "5"
        tx.set("quiet", 6)
    assert store.get("quiet") == "6"


def test_only_a_read_in_a_transaction_announces_a_write(store):
    say = store.execute_command
    with pytest.raises(redis.ResponseError, match="without TXN BEGIN"):
        say("TXN", "FORUPDATE", "GET", "n")
    with pytest.raises(redis.ResponseError, match="exclude each other"):
        say("TXN", "BEGIN", "READONLY", "FORUPDATE")
    for words in (["SET", "n", 1], ["PING"]):
        with pytest.raises(redis.ResponseError, match="reads keys"), store.begin() as tx:
            tx.for_update.execute_command(*words)
    with store.client() as pinned:
        pinned.execute_command("TXN", "BEGIN")
        with pytest.raises(redis.ResponseError, match="reads keys|TXN COMMIT"):
            pinned.execute_command("TXN", "FORUPDATE", "TXN", "COMMIT")
    with pytest.raises(ValueError):
        store.begin(readonly=True, for_update=True)


def test_the_asynchronous_client_announces_writes_as_well(server):
    with server.client() as client:
        client.delete("n")

    async def story():
        async with aio.Claret(port=server.port, decode_responses=True) as db:
            async with db.begin(for_update=True) as tx:
                assert await tx.get("n") is None
            async with db.begin() as tx:
                assert await tx.for_update.get("n") is None
                tx.set("n", 1)
            assert await db.get("n") == "1"

    asyncio.run(story())


def test_guarded_decrements_of_many_transactions_go_side_by_side(store):
    store.execute_command("COUNTER.SET", "items", 1000, "MIN", 0)

    def take(tx):
        items = Counter(tx, "items")
        assert items.at_least(1)
        items.attempt(-1)

    def work(_):
        for _ in range(50):
            store.run(take)

    before = aborts(store)
    work_in_threads(work, 8)
    assert aborts(store) == before and Counter(store, "items").get() == 600
    with store.begin(now=True) as one, store.begin(now=True) as other:
        for tx in (one, other):
            assert Counter(tx, "items").at_least(1) and Counter(tx, "items").attempt(-1)


def test_the_last_items_are_taken_once(store):
    store.execute_command("COUNTER.SET", "items", 20, "MIN", 0)
    taken = []

    def take(tx):
        items = Counter(tx, "items")
        if not items.at_least(1):
            return 0
        items.attempt(-1)
        return 1

    def work(_):
        taken.extend(store.run(take) for _ in range(10))

    work_in_threads(work, 8)
    assert sum(taken) == 20 and Counter(store, "items").get() == 0
