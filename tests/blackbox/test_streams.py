"""Streams: groups whose deliveries outlive the server, readers that wait, adds in transactions."""

import itertools
import threading
import time

import pytest
import redis
from harness import Server, until, work_in_threads
from redis.exceptions import ConnectionError, TimeoutError

JOBS = 300
CONSUMERS = 4


def pending(client):
    """Number of entries that a group has not acknowledged."""
    return client.xpending("jobs", "workers")["pending"]


class Worker(threading.Thread):
    """A consumer that does each job once and acknowledges it; first those that it had before."""

    def __init__(self, server, name, stop, done):
        super().__init__(daemon=True)
        self.server, self.name, self.stop, self.done = server, name, stop, done
        self.error = None
        self.start()

    def run(self):
        try:
            while not self.stop.is_set():
                try:
                    self._work(self.server.client(socket_timeout=10))
                except (ConnectionError, TimeoutError):
                    time.sleep(0.05)
        except BaseException as error:
            self.error = error

    def _work(self, client):
        place = "0"
        while not self.stop.is_set():
            found = client.xreadgroup("workers", self.name, {"jobs": place}, count=5, block=200)
            entries = found[0][1] if found else []
            if place == "0" and not entries:
                place = ">"
            for name, fields in entries:
                self.done.append((name, fields["job"]))
                client.xack("jobs", "workers", name)


def test_no_job_is_lost_when_the_server_is_killed(tmp_path):
    """What was delivered and not acknowledged is still pending, and is done after the restart."""
    server = Server(tmp_path).start()
    try:
        client = server.client(decode_responses=True)
        client.xgroup_create("jobs", "workers", "0", mkstream=True)
        stop, done = threading.Event(), []
        workers = [Worker(server, f"worker{n}", stop, done) for n in range(CONSUMERS)]
        added = set()
        for number in itertools.count():
            if len(added) >= JOBS:
                break
            if number % (JOBS // 3) == JOBS // 6:
                server.kill()
                server.start()
            try:
                client = server.client(decode_responses=True, socket_timeout=10)
                added.add(client.xadd("jobs", {"job": number}))
            except (ConnectionError, TimeoutError):
                pass
        until(lambda: {name for name, _ in done} >= added, 30, "all jobs are done")
        until(lambda: pending(server.client(decode_responses=True)) == 0, 30, "all are acknowledged")
        stop.set()
        for worker in workers:
            worker.join(20)
            assert worker.error is None, worker.error
        client = server.client(decode_responses=True)
        names = [name for name, _ in client.xrange("jobs")]
        assert names == sorted(names, key=lambda name: tuple(map(int, name.split("-"))))
        assert set(names) >= added
        assert client.xinfo_groups("jobs")[0]["lag"] == 0
    finally:
        server.kill()


def test_deliveries_are_the_same_after_a_kill(tmp_path):
    server = Server(tmp_path).start()
    try:
        client = server.client(decode_responses=True)
        client.xgroup_create("jobs", "workers", "0", mkstream=True)
        names = [client.xadd("jobs", {"job": n, "of": "ann"}) for n in range(250)]
        client.xreadgroup("workers", "ann", {"jobs": ">"}, count=120)
        client.xreadgroup("workers", "ben", {"jobs": ">"}, count=100)
        client.xack("jobs", "workers", *names[:50])
        client.xdel("jobs", *names[60:70])
        client.xclaim("jobs", "workers", "cid", 0, names[80:90])
        client.xtrim("jobs", maxlen=200, approximate=False)
        asked = [
            ("XRANGE", "jobs", "-", "+"),
            ("XPENDING", "jobs", "workers"),
            ("XINFO", "STREAM", "jobs", "FULL", "COUNT", "0"),
            ("XINFO", "GROUPS", "jobs"),
        ]
        before = [client.execute_command(*words) for words in asked]
        server.kill()
        server.start()
        client = server.client(decode_responses=True)
        assert [client.execute_command(*words) for words in asked] == before
        assert client.type("jobs") == "stream" and client.object("encoding", "jobs") == "stream"
    finally:
        server.kill()


def test_each_entry_goes_to_one_consumer_and_to_each_reader(server):
    server.client().xgroup_create("shared", "group", "$", mkstream=True)
    stop = threading.Event()
    got = [[] for _ in range(6)]

    def read(number):
        client = server.client(decode_responses=True)
        last = "0"
        while not (stop.is_set() and number < 3) and len(got[number]) < 100:
            if number < 3:
                found = client.xreadgroup("group", f"c{number}", {"shared": ">"}, count=2, block=100)
            else:
                found = client.xread({"shared": last}, block=5000)
            for name, _ in found[0][1] if found else []:
                got[number].append(name)
                last = name

    threads = [threading.Thread(target=read, args=(n,), daemon=True) for n in range(6)]
    for thread in threads:
        thread.start()

    def add(number):
        client = server.client()
        for n in range(20):
            client.xadd("shared", {"who": number, "n": n})

    work_in_threads(add, 5)
    until(lambda: sum(map(len, got[:3])) == 100, 20, "the consumers have all")
    until(lambda: all(len(part) == 100 for part in got[3:]), 20, "the readers have all")
    stop.set()
    names = [name for name, _ in server.client(decode_responses=True).xrange("shared")]
    assert sorted(got[0] + got[1] + got[2]) == sorted(names)
    assert all(part == names for part in got[3:]), "in order, and none is left out"


def test_adds_in_transactions_do_not_abort_each_other(server):
    def add(number):
        client = server.client()
        for n in range(30):
            with client.pipeline() as pipe:
                pipe.xadd("busy", {"who": number, "n": n})
                pipe.incr(f"sum{number}")
                pipe.incr(f"other{number}")
                pipe.execute()

    work_in_threads(add, 8)
    client = server.client(decode_responses=True)
    assert client.xlen("busy") == 240
    assert [int(client.get(f"sum{n}")) for n in range(8)] == [30] * 8


def test_the_wait_of_a_consumer_ends_with_its_group(server):
    client = server.client()
    client.xgroup_create("ends", "g", "$", mkstream=True)
    error = []

    def wait():
        with pytest.raises(redis.ResponseError, match="NOGROUP") as raised:
            server.client().xreadgroup("g", "ann", {"ends": ">"}, block=20_000)
        error.append(raised.value)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    until(lambda: client.info("clients")["blocked_clients"] == 1, 10, "it waits")
    client.xgroup_destroy("ends", "g")
    thread.join(10)
    assert "No such key 'ends' or consumer group 'g'" in str(error[0])


def test_an_id_that_a_transaction_saw_is_that_of_the_entry(server):
    client = server.client(decode_responses=True, single_connection_client=True)
    client.execute_command("TXN", "BEGIN")
    names = [client.execute_command("XADD", "seen", "*", "n", n) for n in range(3)]
    assert client.execute_command("XADD", "none", "NOMKSTREAM", "*", "n", 1) is None
    time.sleep(0.05)
    client.execute_command("TXN", "COMMIT")
    assert [name for name, _ in client.xrange("seen")] == names
    with pytest.raises(redis.ResponseError):
        client.execute_command("TXN", "BEGIN")
        client.execute_command("XAUTOCLAIM", "seen", "g", "c", 0, "0")
    client.execute_command("TXN", "ABORT")


def test_entries_are_removed_when_all_groups_have_acknowledged_them(make_server):
    server = make_server()
    server.start()
    with server.client() as client:
        ids = [client.xadd("jobs", {"n": n}) for n in range(4)]
        for group in ("mail", "bills"):
            client.xgroup_create("jobs", group, "0")
        client.xreadgroup("mail", "ann", {"jobs": ">"})
        assert client.xackdel("jobs", "mail", *ids[:2], "7-7", ref_policy="ACKED") == [2, 2, -1]
        client.xreadgroup("bills", "ben", {"jobs": ">"}, count=1)
        assert client.xackdel("jobs", "bills", ids[0], ref_policy="ACKED") == [1]
        assert client.xdelex("jobs", ids[2], ref_policy="DELREF") == [1]
        server.kill()
        server.start()
        assert [entry[0] for entry in client.xrange("jobs")] == [ids[1], ids[3]]
        assert client.xpending("jobs", "mail")["pending"] == 1
        assert client.xack("jobs", "mail", ids[3]) == 1


def test_trimming_leaves_what_a_group_has_not_acknowledged(make_server):
    server = make_server()
    server.start()
    with server.client() as client:
        ids = [client.xadd("jobs", {"n": n}) for n in range(5)]
        client.xgroup_create("jobs", "mail", "0")
        client.xreadgroup("mail", "ann", {"jobs": ">"}, count=4)
        client.xack("jobs", "mail", ids[0], ids[2])
        assert client.xtrim("jobs", maxlen=0, approximate=False, ref_policy="ACKED") == 2
        last = client.xadd("jobs", {"n": 5}, maxlen=3, approximate=False, ref_policy="ACKED")
        assert client.xpending("jobs", "mail")["pending"] == 2
        server.kill()
        server.start()
        assert [entry[0] for entry in client.xrange("jobs")] == [ids[1], *ids[3:], last]
        assert client.xtrim("jobs", minid=ids[3], approximate=False, ref_policy="DELREF") == 1
        assert client.xpending("jobs", "mail")["pending"] == 1
        assert client.xtrim("jobs", maxlen=0, approximate=False) == 3
        assert client.xpending("jobs", "mail")["pending"] == 1, "deliveries stay without an option"


def producers(client, key):
    """What the stream says of producers: pids and iids tracked, iids added, duplicates."""
    facts = client.xinfo_stream(key)
    return [facts[name] for name in ("pids-tracked", "iids-tracked", "iids-added", "iids-duplicates")]


def test_an_entry_is_added_once_although_the_server_is_killed(tmp_path):
    server = Server(tmp_path).start()
    try:
        client = server.client(decode_responses=True)
        names = [client.xadd("once", {"n": n}, idmp=("ann", f"job{n}")) for n in range(50)]
        same = client.xadd("once", {"n": 1, "of": "ben"}, idmpauto="ben")
        client.xadd("set", {"n": 1})
        assert client.xcfgset("set", idmp_maxsize=1, idmp_duration=300)
        client.xadd("set", {"n": 1}, idmp=("ann", "1"))
        client.copy("once", "copy")
        client.rename("set", "moved")
        before = producers(client, "once")
        assert before == [2, 51, 51, 0]
        for _ in range(2):
            server.kill()
            server.start()
            client = server.client(decode_responses=True)
            for key in ("once", "copy"):
                repeat = lambda n: client.xadd(key, {"n": "other"}, idmp=("ann", f"job{n}"))
                assert [repeat(n) for n in range(50)] == names and client.xlen(key) == 51
                assert client.xadd(key, {"of": "ben", "n": 1}, idmpauto="ben") == same
            assert client.xinfo_stream("moved")["idmp-maxsize"] == 1
            assert client.xinfo_stream("moved")["idmp-duration"] == 300
        assert producers(client, "once") == [2, 51, 51, 102]
        # A snapshot has them as well.
        client.bgsave()
        client.xdel("once", names[0])
        server.restart()
        client = server.client(decode_responses=True)
        assert client.xadd("once", {"n": 0}, idmp=("ann", "job0")) == names[0]
        assert client.xlen("once") == 50
        client.xcfgset("once", idmp_duration=1)
        assert client.xadd("once", {"n": 0}, idmp=("ann", "job0")) != names[0]
        first = client.xadd("once", {"n": 0}, idmp=("ann", "soon"))
        again = lambda: client.xadd("once", {"n": 0}, idmp=("ann", "soon"))
        until(lambda: again() != first, 10, "it is forgotten")
    finally:
        server.kill()


def test_producers_that_try_again_at_once_add_each_entry_once(server):
    found = [{} for _ in range(8)]

    def add(number):
        client = server.client(decode_responses=True)
        for n in range(60):
            name = client.xadd("hot", {"n": n}, idmp=(f"p{number % 4}", n))
            found[number][n] = name

    work_in_threads(add, 8)
    client = server.client(decode_responses=True)
    assert client.xlen("hot") == 240 and producers(client, "hot") == [4, 240, 240, 240]
    for number in range(4):
        assert found[number] == found[number + 4]
    added = {name for name, _ in client.xrange("hot")}
    assert {name for part in found for name in part.values()} == added


def test_transactions_over_shards_that_are_repeated_add_each_entry_once(server):
    found = [{} for _ in range(6)]

    def add(number):
        client = server.client(decode_responses=True)
        for n in range(25):
            with client.pipeline() as pipe:
                pipe.xadd("events", {"n": n}, idmp=(f"p{number % 3}", n))
                pipe.incr(f"tries{number}")
                pipe.incr("tries")
                found[number][n] = pipe.execute()[0]

    work_in_threads(add, 6)
    client = server.client(decode_responses=True)
    assert client.xlen("events") == 75 and producers(client, "events") == [3, 75, 75, 75]
    assert found[:3] == found[3:] and client.get("tries") == "150"


def test_transactions_and_scripts_add_once(server):
    client = server.client(decode_responses=True, single_connection_client=True)
    with client.pipeline() as pipe:
        for number in (1, 2, 1):
            pipe.xadd("job", {"n": number}, idmp=("ann", number))
        pipe.incr("elsewhere")
        pipe.incr("still elsewhere")
        one, two, again, *_ = pipe.execute()
    assert one == again != two
    add = "redis.call('XADD', KEYS[1], 'IDMP', 'ann', ARGV[1], '*', 'n', 1)"
    script = f"local first = {add} return {{first, {add}}}"
    assert client.eval(script, 1, "job", 1) == [one, one]
    three, same = client.eval(script, 1, "job", 3)
    assert three == same and client.xlen("job") == 3
    client.execute_command("TXN", "BEGIN")
    told = [client.xadd("job", {"n": n}, idmp=("ben", n)) for n in (1, 2, 1)]
    assert client.xadd("job", {"n": 1}, idmp=("ann", 1)) == one
    assert client.xadd("none", {"n": 1}, idmp=("ann", 1), nomkstream=True) is None
    client.execute_command("TXN", "COMMIT")
    assert told[0] == told[2]
    assert [name for name, _ in client.xrange("job")] == [one, two, three, *told[:2]]
    assert producers(client, "job")[:3] == [2, 5, 5]
    with pytest.raises(redis.ResponseError, match="only with auto-generated IDs"):
        client.execute_command("XADD", "job", "IDMP", "ann", "9", "1-1", "n", 1)
    with pytest.raises(redis.ResponseError, match="no such key"):
        client.xcfgset("none", idmp_maxsize=5)


def rows(found):
    """Entries of a read with CLAIM: the id, and how often each was delivered before."""
    return [(row[0], row[3]) for row in found[0][1]] if found else []


def claim(client, consumer, min_idle_ms, *keys, **options):
    keys = {key: ">" for key in keys or ("jobs",)}
    return client.xreadgroup("g", consumer, keys, claim_min_idle_time=min_idle_ms, **options)


def test_a_read_with_claim_takes_over_what_waits_for_long(make_server):
    server = make_server()
    server.start()
    with server.client(decode_responses=True) as client:
        one, two, three = (client.xadd("jobs", {"n": n}) for n in range(3))
        client.xgroup_create("jobs", "g", "0")
        client.xreadgroup("g", "ann", {"jobs": ">"}, count=2)
        assert rows(claim(client, "ben", 60_000, count=5)) == [(three, 0)]
        time.sleep(0.05)
        [[key, [first, *_]]] = claim(client, "ben", 20, count=2)
        assert key == "jobs" and first[:2] == (one, {"n": "0"}) and first[2] >= 20 and first[3] == 1
        server.kill()
        server.start()
        pending = client.xpending_range("jobs", "g", "-", "+", 10)
        assert [row["consumer"] for row in pending] == ["ben"] * 3
        assert [row["times_delivered"] for row in pending] == [2, 2, 1]
        # Of several streams each has its entries.
        client.xgroup_create("more", "g", "0", mkstream=True)
        four = client.xadd("more", {"n": 4})
        found = claim(client, "cid", 0, "jobs", "more", count=1)
        counts = [(key, part[0][0], part[0][3]) for key, part in found]
        assert counts == [("jobs", three, 1), ("more", four, 0)]
        assert not claim(client, "cid", 60_000, "jobs", "more")
        with client.pipeline() as pipe:
            claim(pipe, "dan", 0)
            pipe.incr("elsewhere")
            pipe.incr("and there")
            assert len(pipe.execute()[0][0][1]) == 3
        words = "'XREADGROUP', 'GROUP', 'g', 'eve', 'CLAIM', 0, 'STREAMS', KEYS[1], '>'"
        found = client.eval(f"return redis.call({words})", 1, "jobs")
        assert {row[0]: row[3] for row in found[0][1]} == {one: 3, two: 3, three: 3}
        client.xdel("jobs", one)
        assert rows(claim(client, "ann", 0)) == [(two, 4), (three, 4)]
        assert client.xpending("jobs", "g")["pending"] == 2, "an entry that is gone is not pending"
        with pytest.raises(redis.ResponseError, match="min-idle-time is not an integer"):
            words = ["XREADGROUP", "GROUP", "g", "ann", "CLAIM", "x", "STREAMS", "jobs", ">"]
            client.execute_command(*words)


def test_what_an_interactive_transaction_claims_is_its_own(server):
    client = server.client(decode_responses=True, single_connection_client=True)
    client.xgroup_create("claimed", "g", "0", mkstream=True)
    one, two = client.xadd("claimed", {"n": 1}), client.xadd("claimed", {"n": 2})
    client.xreadgroup("g", "ann", {"claimed": ">"}, count=1)
    for block in (None, 0):
        client.execute_command("TXN", "BEGIN")
        found = claim(client, "ben", 0, "claimed", block=block)
        assert found[0][0] == "claimed" and [row[0] for row in found[0][1]] == [one, two]
        client.execute_command("TXN", "COMMIT" if block is None else "ABORT")
        pending = client.xpending_range("claimed", "g", "-", "+", 10)
        assert [row["consumer"] for row in pending] == ["ben", "ben"]
    assert [row["times_delivered"] for row in pending] == [2, 1]


def test_a_client_that_waits_gets_what_becomes_due_or_new_or_is_released(server):
    client = server.client(decode_responses=True)
    client.xgroup_create("jobs", "g", "0", mkstream=True)
    one = client.xadd("jobs", {"n": 1})
    client.xreadgroup("g", "ann", {"jobs": ">"})

    def waits(min_idle_ms, then, *keys):
        got = []

        def wait():
            waiting = server.client(decode_responses=True)
            got.append(claim(waiting, "ben", min_idle_ms, *keys, block=15_000))

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        until(lambda: client.info("clients")["blocked_clients"] == 1, 10, "it waits")
        then()
        thread.join(14)
        assert got, "it was not served"
        return got[0]

    begin = time.monotonic()
    assert rows(waits(700, lambda: None)) == [(one, 1)]
    assert time.monotonic() - begin < 10
    added = []
    found = rows(waits(600_000, lambda: added.append(client.xadd("jobs", {"n": 2}))))
    assert found == [(added[0], 0)]
    assert rows(waits(600_000, lambda: client.xnack("jobs", "g", "SILENT", one))) == [(one, 1)]
    client.xgroup_create("others", "g", "0", mkstream=True)
    assert waits(900, lambda: None, "others", "jobs")[0][0] == "jobs"
    assert not claim(client, "ann", 600_000, block=300)


def test_released_entries_go_to_the_next_consumer(make_server):
    server = make_server()
    server.start()
    with server.client(decode_responses=True) as client:
        ids = [client.xadd("jobs", {"n": n}) for n in range(4)]
        client.xgroup_create("jobs", "g", "0")
        client.xreadgroup("g", "ann", {"jobs": ">"}, count=3)
        assert client.xnack("jobs", "g", "FAIL", ids[1], ids[3]) == 1
        assert client.xnack("jobs", "g", "FATAL", ids[0]) == 1
        server.kill()
        server.start()
        listed = client.xpending_range("jobs", "g", "-", "+", 10)
        assert [row["consumer"] for row in listed] == ["", "", "ann"]
        assert [row["times_delivered"] for row in listed] == [2**63 - 1, 1, 1]
        assert listed[0]["time_since_delivered"] == -1
        assert client.xinfo_stream("jobs", full=True)["groups"][0]["nacked-count"] == 2
        taken = rows(claim(client, "ben", 600_000, count=3))
        assert taken == [(ids[0], 2**63 - 1), (ids[1], 1), (ids[3], 0)]
        client.xnack("jobs", "g", "SILENT", ids[2], retrycount=7)
        assert rows(claim(client, "ben", 600_000)) == [(ids[2], 7)]
        with pytest.raises(redis.ResponseError, match="No such key 'jobs' or consumer group 'none'"):
            client.xnack("jobs", "none", "FAIL", ids[0])
