"""Backups of everything at one moment, taken while clients go on, and what is restored from them."""

import json
import random
import subprocess
import threading
import time

import pytest
from clusters import TAGS, UP_S_MAX, Cluster, Transfer, Worker
from harness import Server, binary, until
from redis.exceptions import NoPermissionError, ResponseError
from test_operating import all_led, claret

TOTAL = 1000 * len(TAGS)
# Seconds since 1970, later than any of these tests ends.
EXPIRES = int(time.time()) + 10_000


def run(*words, fails=False, timeout_s=120):
    """Runs the binary; gives what it printed, or why it failed."""
    command = [binary(), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def backup(node, path):
    """Takes a backup; gives what is in it."""
    return json.loads(run("backup", path, "--json", "--url", f"redis://127.0.0.1:{node.port}"))


def restored(path, folder, cluster_name="restored", count=3, shards=None):
    """A new cluster with what is in a backup."""
    folder.mkdir()
    cluster = Cluster(folder, count=count, shards=shards)
    for node in cluster.nodes:
        node.flags += ["--cluster-name", cluster_name]
        run("restore", path, "--dir", node.data, *node.flags)
    cluster.options["shards"] = 3
    return cluster.start()


def alone(path, folder, shards=None):
    """A server with what is in a backup."""
    folder.mkdir()
    server = Server(folder, shards=shards)
    run("restore", path, "--dir", server.data, *server.flags)
    return server.start()


def fill(client):
    """Writes something of every kind; gives how to see it again."""
    client.set("string", "\0 bytes", exat=EXPIRES)
    client.incrby("number", 41)
    client.rpush("list", *range(100))
    client.sadd("set", *range(100))
    client.hset("hash", mapping={f"field{n}": n for n in range(100)})
    client.zadd("zset", {f"member{n}": n / 3 for n in range(100)})
    client.set("big", "x" * 3_000_000)
    client.set("short", "gone soon", px=1)
    with client.pipeline(transaction=False) as pipe:
        for key in range(2000):
            pipe.set(f"key:{key}", key)
        for tag in TAGS:
            pipe.set(f"account:{tag}", 1000)
        pipe.execute()


def check(client):
    """Whether what `fill` wrote is there."""
    assert client.get("string") == "\0 bytes"
    assert client.expiretime("string") == EXPIRES and client.ttl("number") == -1
    assert client.get("number") == "41"
    assert client.lrange("list", 0, -1) == [str(n) for n in range(100)]
    assert client.smembers("set") == {str(n) for n in range(100)}
    assert client.hgetall("hash") == {f"field{n}": str(n) for n in range(100)}
    assert client.zscore("zset", "member50") == 50 / 3 and client.zcard("zset") == 100
    assert client.strlen("big") == 3_000_000 and client.get("short") is None
    assert client.mget(f"key:{key}" for key in range(2000)) == [str(key) for key in range(2000)]


def total(client):
    """The money in all accounts."""
    return sum(int(value) for value in client.mget(f"account:{tag}" for tag in TAGS))


class Interactive(Worker):
    """Moves money in transactions that read before they write."""

    moved = aborted = 0

    def work(self):
        source, target = random.sample(TAGS, 2)

        def move(client):
            with client.client() as one:
                try:
                    one.execute_command("TXN", "BEGIN")
                    have = int(one.get(f"account:{source}"))
                    one.set(f"account:{source}", have - 1)
                    one.incr(f"account:{target}")
                    one.execute_command("TXN", "COMMIT")
                    return True
                except ResponseError as error:
                    if not str(error).startswith(("the transaction was", "INDEFINITE", "TXNABORT")):
                        raise
                    try:
                        one.execute_command("TXN", "ABORT")
                    except ResponseError:
                        pass
                    return False

        done, moved = self.roaming.do(move)
        self.moved += bool(done and moved)
        self.aborted += not (done and moved)


class Marker(Worker):
    """Writes numbers one after the other, each to another shard, and remembers what was said."""

    started = acknowledged = 0

    def work(self):
        number = self.started = self.started + 1
        done, _ = self.roaming.do(
            lambda client: client.set(f"mark:{self.number}:{number}", number)
        )
        # What is unknown may be there or not; it is not counted on.
        if done:
            self.acknowledged = number
            self.known.append(number)

    @property
    def known(self):
        return self.__dict__.setdefault("_known", [])


def marks(markers):
    """What every marker has been told is there, and what it has begun."""
    return [(len(marker.known), marker.started) for marker in markers]


def judge(client, markers, before, after):
    """What a restored cluster has of the marks: all from before, none from after, and no gap."""
    for marker, (known, _), (_, started) in zip(markers, before, after, strict=True):
        have = {int(key.split(":")[2]) for key in client.keys(f"mark:{marker.number}:*")}
        missing = set(marker.known[:known]) - have
        assert not missing, f"acknowledged before the backup and not in it: {sorted(missing)[:5]}"
        late = {number for number in have if number > started}
        assert not late, f"begun after the backup and in it: {sorted(late)[:5]}"
        # A mark was written when all before it were answered.
        gaps = {number for number in marker.known if number < max(have, default=0)} - have
        assert not gaps, f"an earlier write is missing although a later one is there: {gaps}"


def survives(cluster, client_of):
    """A restored cluster takes writes, and goes on without any one of its machines."""
    until(lambda: all_led(cluster), UP_S_MAX)
    cluster.nodes[0].kill()
    cluster.wait(cluster.nodes[1:])
    with client_of(cluster.nodes[1]) as client:
        assert total(client) == TOTAL
        client.set("after", "the loss")
    cluster.nodes[0].start()
    cluster.wait()
    cluster.kill_and_restart(cluster.nodes[1], 0)
    cluster.wait()
    with client_of(cluster.nodes[0]) as client:
        assert client.get("after") == "the loss" and total(client) == TOTAL


def test_a_server_is_restored(make_server, tmp_path):
    server = make_server(shards=3).start()
    with server.client() as client:
        fill(client)
        client.execute_command("CLIENT", "SETNAME", "x")
    path = tmp_path / "one.backup"
    about = backup(server, path)
    assert about["shards"] == 3 and about["cluster"] == ""
    assert not (tmp_path / "one.backup.part").exists()
    with server.client() as client:
        client.flushall()
    for shards in (None, 1, 5):
        other = alone(path, tmp_path / f"restored{shards}", shards)
        try:
            with other.client() as client:
                check(client)
                assert total(client) == TOTAL
                client.incr("number")
            other.restart()
            with other.client() as client:
                assert client.get("number") == "42"
        finally:
            other.kill()


def test_a_request_number_is_known_after_a_restore(make_server, tmp_path):
    server = make_server(shards=2).start()

    def count(of):
        with of.client(single_connection_client=True) as client:
            client.execute_command("CLIENT", "REQUEST", "shop", 7)
            return client.execute_command("INCR", "counter")

    assert count(server) == 1
    path = tmp_path / "numbers.backup"
    assert backup(server, path)["requests"] == 1
    for shards in (2, 3):
        other = alone(path, tmp_path / f"restored{shards}", shards)
        assert count(other) == 1 and other.client().get("counter") == "1"
        other.kill()


def test_scripts_are_in_a_backup(make_server, tmp_path):
    server = make_server(shards=3).start()
    names = [server.client().script_load(f"return {n}") for n in range(10)]
    library = "#!lua name=l\nredis.register_function('f', function() return 'kept' end)"
    server.client().function_load(library)
    path = tmp_path / "scripts.backup"
    backup(server, path)
    other = alone(path, tmp_path / "restored", 5)
    assert [other.client().evalsha(name, 0) for name in names] == list(range(10))
    assert other.client().fcall("f", 0) == "kept"
    assert other.client().dbsize() == 0
    other.kill()


def test_what_cannot_be_done_is_refused_before_anything_is_touched(make_server, tmp_path):
    server = make_server(shards=2).start()
    with server.client() as client:
        client.set("a", 1)
    url = f"redis://127.0.0.1:{server.port}"
    path, there = tmp_path / "whole", tmp_path / "there"
    backup(server, path)
    there.write_text("mine")
    assert "exists already" in run("backup", there, "--url", url, fails=True)
    assert there.read_text() == "mine"
    server.kill()
    run("backup", tmp_path / "nobody", "--url", url, fails=True)
    assert sorted(p.name for p in tmp_path.glob("nobody*")) == []
    full = tmp_path / "full"
    full.mkdir()
    (full / "photo.jpg").write_text("x")
    assert "is not empty" in run("restore", path, "--dir", full, fails=True)
    assert "is not empty" in run("restore", path, "--dir", server.data, fails=True)
    whole = path.read_bytes()
    broken = {
        "cut": whole[:-1],
        "short": whole[: len(whole) // 2],
        "flipped": whole[:-60] + bytes([whole[-60] ^ 1]) + whole[-59:],
        "longer": whole + b"\0",
        "other": b"dear diary, " + whole[12:],
        "newer": whole[:8] + b"\x09" + whole[9:],
    }
    why = {"other": "not a backup", "newer": "version 9"}
    for name, text in broken.items():
        bad = tmp_path / name
        bad.write_bytes(text)
        new = tmp_path / f"new-{name}"
        assert why.get(name, "damaged") in run("restore", bad, "--dir", new, fails=True)
        assert not new.exists()
        run("backup", "--verify", bad, fails=True)
    assert "keys      1," in run("backup", "--verify", path)


def test_only_administrators_take_backups(make_server, tmp_path):
    config = '[[users]]\nname = "app"\npassword = "pw"\nrules = ["on", "+@all", "-@admin", "~*"]\n'
    server = make_server(config=config).start()
    with server.client(username="app", password="pw") as client:
        client.set("a", 1)
        with pytest.raises(NoPermissionError):
            client.execute_command("BACKUP", "BEGIN")


def test_a_backup_that_is_given_up_holds_nobody_up(make_server):
    server = make_server(shards=2).start()
    with server.client() as client:
        client.set("a", 1)
        cut, _, _, _, shards = client.execute_command("BACKUP", "BEGIN")
        assert sum(keys for _, keys in shards) == 1
        client.incr("a")
        with server.client() as other, pytest.raises(ResponseError, match="another backup"):
            other.execute_command("BACKUP", "BEGIN")
        client.incr("a")
        assert client.execute_command("BACKUP", "END", cut)
        with pytest.raises(ResponseError, match="NOCUT|does not keep"):
            client.execute_command("BACKUP", "READ", cut, 0, 0)
        again = client.execute_command("BACKUP", "BEGIN")
        assert again[0] != cut and client.get("a") == "3"
        for wrong in ([], ["READ"], ["READ", "x", 0, 0], ["READ", 1, 99, 0], ["END", "x"], ["?"]):
            with pytest.raises(ResponseError):
                client.execute_command("BACKUP", *wrong)


def loaded(make_cluster, split):
    cluster = make_cluster().start()
    until(lambda: all_led(cluster), UP_S_MAX)
    with cluster.nodes[0].client() as client:
        fill(client)
    if split:
        claret(cluster.nodes[0], "split", 1)
        claret(cluster.nodes[0], "split", 0)
    return cluster


@pytest.mark.parametrize("split", [False, True])
def test_a_cluster_is_backed_up_while_clients_go_on(make_cluster, tmp_path, split):
    cluster = loaded(make_cluster, split)
    stop = threading.Event()
    movers = [Transfer(cluster, number, stop) for number in range(3)]
    movers += [Interactive(cluster, number, stop) for number in range(2)]
    markers = [Marker(cluster, number, stop) for number in range(3)]
    taken = []
    time.sleep(1)
    for number in range(3):
        before = marks(markers)
        path = tmp_path / f"backup{number}"
        about = backup(cluster.nodes[number], path)
        taken.append((path, before, marks(markers)))
        assert about["shards"] == (5 if split else 3)
        print(f"writes waited for {about['held_us'] / 1000:.1f} ms")
        time.sleep(0.3)
    Worker.finish([*movers, *markers], cluster)
    assert all(mover.moved > 0 for mover in movers)
    for node in cluster.nodes:
        node.kill()
    for number, (path, before, after) in enumerate(taken):
        other = alone(path, tmp_path / f"alone{number}", shards=2)
        with other.client() as client:
            check(client)
            assert total(client) == TOTAL, f"backup {number}"
            judge(client, markers, before, after)
        other.kill()
    path, before, after = taken[-1]
    new = restored(path, tmp_path / "new")
    try:
        with new.nodes[2].client() as client:
            check(client)
            assert total(client) == TOTAL
            judge(client, markers, before, after)
        survives(new, Server.client)
    finally:
        for node in new.nodes:
            node.kill()


def test_a_leader_that_is_lost_spoils_no_backup(make_cluster, tmp_path):
    cluster = loaded(make_cluster, split=False)
    with cluster.nodes[0].client() as client, client.pipeline(transaction=False) as pipe:
        for key in range(150_000):
            pipe.set(f"much:{key}", "x" * 300)
        pipe.execute()
    stop = threading.Event()
    movers = [Transfer(cluster, number, stop) for number in range(3)]
    markers = [Marker(cluster, number, stop) for number in range(3)]
    asked, others = cluster.nodes[0], cluster.nodes[1:]
    url = f"redis://127.0.0.1:{asked.port}"
    taken, again = [], 0
    # Whether a leader goes in the middle is a matter of luck: until one has.
    for number in range(24):
        if number >= 6 and again > 0:
            break
        before = marks(markers)
        path = tmp_path / f"backup{number}"
        command = [binary(), "backup", path, "--url", url]
        victim = others[number % 2]
        cluster.let_lead(victim)
        process = subprocess.Popen(command, stdout=-3, stderr=subprocess.PIPE, text=True)
        time.sleep(random.uniform(0.0, 0.3))
        cluster.kill_and_restart(victim, 0.2)
        _, said = process.communicate(timeout=120)
        after = marks(markers)
        assert process.returncode == 0, said
        again += said.count("trying again")
        taken.append((path, before, after))
        cluster.wait()
    Worker.finish([*movers, *markers], cluster)
    print(f"begun again {again} times")
    assert again > 0, "no leader was lost in the middle"
    for node in cluster.nodes:
        node.kill()
    for number, (path, before, after) in enumerate(taken):
        other = alone(path, tmp_path / f"alone{number}", shards=2)
        with other.client() as client:
            assert total(client) == TOTAL, f"backup {number}"
            judge(client, markers, before, after)
            check(client)
        other.kill()


def test_a_new_cluster_has_a_name_of_its_own(make_cluster, tmp_path):
    cluster = loaded(make_cluster, split=False)
    path = tmp_path / "backup"
    backup(cluster.nodes[1], path)
    node = cluster.nodes[0]
    new = tmp_path / "other"
    error = run("restore", path, "--dir", new, *node.flags, fails=True)
    assert "another name" in error and not new.exists()
    run("restore", path, "--dir", new, *node.flags, "--same-name")
    third = tmp_path / "third"
    error = run("restore", path, "--dir", third, *node.flags, "--join", fails=True)
    assert "--join" in error and not third.exists()


def test_an_interrupted_backup_leaves_no_file(make_server, tmp_path):
    server = make_server(shards=2).start()
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for key in range(100_000):
            pipe.set(f"much:{key}", "x" * 1000)
        pipe.execute()
    path = tmp_path / "backup"
    command = [binary(), "backup", path, "--url", f"redis://127.0.0.1:{server.port}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    process.stderr.readline()
    process.send_signal(2)
    _, said = process.communicate(timeout=30)
    assert process.returncode != 0 and "interrupted" in said
    assert sorted(p.name for p in tmp_path.glob("backup*")) == []
    # The servers have forgotten it.
    backup(server, path)
    process = subprocess.Popen([*command[:2], tmp_path / "killed", *command[3:]], stderr=-1)
    process.stderr.readline()
    process.kill()
    process.wait()
    assert not (tmp_path / "killed").exists()
    with server.client() as client:
        assert client.set("goes", "on")
