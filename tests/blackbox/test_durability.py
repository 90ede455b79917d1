"""What a start makes of the data directory, whatever happened to it."""

import random
import re
import shutil

import pytest
from harness import Failed, work_in_threads

KEYS = 300


def fill(server, prefix="k"):
    """Writes keys one by one, each acknowledged."""
    with server.client() as client:
        for i in range(KEYS):
            client.set(f"{prefix}{i}", i)
        with client.pipeline() as pipe:
            for i in range(KEYS):
                pipe.sadd(f"{prefix}set", i)
            pipe.execute()


def check(server, prefix="k"):
    """Everything that was acknowledged is there."""
    with server.client() as client:
        values = client.mget([f"{prefix}{i}" for i in range(KEYS)])
        assert values == [str(i) for i in range(KEYS)]
        assert client.scard(f"{prefix}set") == KEYS


def newest_log(server):
    """The file of the log that is written to, and how many bytes of it are in use."""
    files = [path for path in (server.data / "log").iterdir() if path.suffix == ".raftlog"]
    path = max(files, key=lambda file: file.name)
    return path, len(path.read_bytes().rstrip(b"\0"))


def flip(path, at):
    """Inverts a byte of a file."""
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0xFF]))


def test_everything_is_there_after_a_kill(make_server):
    server = make_server().start()
    fill(server)
    for _ in range(3):
        server.restart()
        check(server)


@pytest.mark.parametrize("durability", ["always", "everysec", "none"])
def test_a_clean_stop_keeps_everything(make_server, durability):
    server = make_server("--durability", durability).start()
    assert f"durability {durability}" in server.ready_line
    fill(server)
    assert server.terminate() == 0
    server.start()
    check(server)
    assert server.terminate() == 0


def test_everysec_survives_the_end_of_the_process(make_server):
    server = make_server("--durability", "everysec").start()
    fill(server)
    server.restart()
    check(server)


def test_none_goes_back_to_the_last_snapshot(make_server):
    server = make_server("--durability", "none").start()
    fill(server, "a")
    with server.client() as client:
        assert client.save()
    fill(server, "b")
    server.restart()
    check(server, "a")
    with server.client() as client:
        assert client.ping()


def test_a_torn_tail_is_cut(make_server):
    server = make_server().start()
    fill(server)
    server.kill()
    path, used = newest_log(server)
    with open(path, "r+b") as file:
        file.seek(used)
        file.write(random.Random(7).randbytes(333))
    server.start()
    check(server)
    fill(server, "more")
    server.restart()
    check(server)
    check(server, "more")


def test_a_half_record_at_the_end_is_cut(make_server):
    server = make_server().start()
    fill(server)
    # Nobody heard of the last batch's success if it is not whole, so it may go; what is before it
    # must stay. The kill makes sure that no closing batch follows, and what the server knows of the
    # log is what it knew while that batch was being written.
    known = (server.data / "DURABLE").read_bytes()
    with server.client() as client:
        client.set("late", 1)
    server.kill()
    (server.data / "DURABLE").write_bytes(known)
    path, used = newest_log(server)
    with open(path, "r+b") as file:
        file.truncate(used - 3)
    server.start()
    assert "known to have been durable" in server.said() and "never" not in server.said()
    with server.client() as client:
        values = client.mget([f"k{i}" for i in range(KEYS)])
    assert values == [str(i) for i in range(KEYS)]


def refuses(server):
    """What a server says that does not start."""
    with pytest.raises(Failed) as caught:
        server.start()
    return str(caught.value)


def test_a_log_that_others_have_cut_short_is_refused(make_server):
    server = make_server().start()
    fill(server)
    server.kill()
    path, used = newest_log(server)
    whole = path.read_bytes()
    for left in (used - 3, used // 2, 0):
        path.write_bytes(whole[:left])
        said = refuses(server)
        assert "acknowledged writes" in said and "backup" in said and "DURABLE" in said, said
        assert path.read_bytes() == whole[:left], "nothing was changed"
    path.write_bytes(whole)
    server.start()
    check(server)


@pytest.mark.parametrize("durability", ["always", "everysec"])
def test_a_log_that_is_gone_is_refused_like_a_missing_snapshot(make_server, durability):
    server = make_server("--durability", durability).start()
    fill(server)
    assert server.terminate() == 0
    log, away = server.data / "log", server.folder / "away"
    log.rename(away)
    assert "acknowledged writes" in refuses(server)
    assert not log.exists(), "nothing was changed"
    log.mkdir()
    assert "put the log's files back" in refuses(server).lower()
    log.rmdir()
    away.rename(log)
    server.start()
    check(server)
    assert server.terminate() == 0
    # The way out that it names.
    shutil.rmtree(log)
    (server.data / "DURABLE").unlink()
    server.start()
    assert server.client().dbsize() == 0


def test_a_snapshot_that_is_gone_is_refused_although_the_log_is_empty(make_server):
    server = make_server().start()
    fill(server)
    with server.client() as client:
        assert client.save()
    assert server.terminate() == 0
    for path in (server.data / "snapshots").iterdir():
        path.unlink()
    said = refuses(server)
    assert "missing" in said and "backup" in said


def test_damage_in_the_middle_is_refused_with_advice(make_server):
    server = make_server().start()
    fill(server)
    assert server.terminate() == 0
    path, used = newest_log(server)
    flip(path, used // 2)
    before = path.read_bytes()
    with pytest.raises(Failed) as caught:
        server.start()
    said = str(caught.value)
    assert "damaged" in said and str(path) in said and "backup" in said
    assert path.read_bytes() == before, "nothing was changed"
    flip(path, used // 2)
    server.start()
    check(server)


def test_a_damaged_snapshot_is_refused_or_made_up_for(make_server):
    server = make_server("--durability", "none").start()
    fill(server)
    assert server.terminate() == 0
    snapshots = sorted((server.data / "snapshots").iterdir())
    assert snapshots
    flip(snapshots[-1], snapshots[-1].stat().st_size // 2)
    with pytest.raises(Failed) as caught:
        server.start()
    assert "snapshot" in str(caught.value) and "backup" in str(caught.value)


def test_snapshots_shorten_the_log(make_server):
    config = 'snapshot_log_bytes = "1mb"\n'
    server = make_server(config=config).start()
    with server.client() as client:
        for i in range(60):
            with client.pipeline() as pipe:
                for j in range(10):
                    pipe.set(f"v{j}", f"{i:06}" * 2000)
                pipe.execute()
    fill(server)
    server.restart()
    assert list((server.data / "snapshots").iterdir())
    check(server)
    with server.client() as client:
        assert client.get("v3") == "000059" * 2000


def test_another_version_is_refused(make_server):
    server = make_server().start()
    assert server.terminate() == 0
    manifest = server.data / "MANIFEST"
    text = manifest.read_text()
    manifest.write_text(re.sub(r"format = \d+", "format = 999", text))
    with pytest.raises(Failed, match="format 999.*start the version that wrote it"):
        server.start()
    manifest.write_text(text)
    server.start()


def test_another_number_of_shards_is_refused(make_server):
    server = make_server(shards=2).start()
    fill(server)
    assert server.terminate() == 0
    server.flags[server.flags.index("--shards") + 1] = "3"
    with pytest.raises(Failed, match="created with 2 shards, not 3.*--shards 2"):
        server.start()
    server.flags[server.flags.index("--shards") + 1] = "2"
    server.start()
    check(server)


def test_one_server_per_directory(make_server, tmp_path):
    first = make_server().start()
    second = make_server()
    second.data = first.data
    with pytest.raises(Failed, match="another server is running"):
        second.start()
    assert first.alive() and first.client().ping()


def test_a_foreign_directory_is_left_alone(make_server):
    server = make_server()
    server.data.mkdir()
    (server.data / "holiday.jpg").write_text("x")
    with pytest.raises(Failed, match="not a data directory"):
        server.start()
    assert [path.name for path in server.data.iterdir()] == ["holiday.jpg"]


def test_a_directory_is_private(make_server):
    server = make_server().start()
    assert server.data.stat().st_mode & 0o077 == 0
    for path in server.data.rglob("*"):
        if path.is_file() and path.stat().st_size:
            assert path.stat().st_mode & 0o077 == 0, path


def test_large_values_from_many_clients_at_once_are_all_there_after_a_kill(make_server):
    """Far more than one log entry may hold comes in together."""
    server = make_server().start()
    size = 7 << 20
    count = 24

    def write(number):
        server.client(socket_timeout=60).set(f"large{number}", bytes([65 + number]) * size)

    work_in_threads(write, count)
    server.kill()
    server.start()
    store = server.client(socket_timeout=60)
    for number in range(count):
        assert store.strlen(f"large{number}") == size
        assert store.getrange(f"large{number}", size - 1, -1) == chr(65 + number)
