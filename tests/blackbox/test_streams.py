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
