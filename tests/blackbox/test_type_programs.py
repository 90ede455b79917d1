"""Operations of composed types that are programs of the script language."""

import concurrent.futures
import json
import time
import uuid

import claret
import pytest
import redis
from harness import until
from test_types import call, define

BOARD = """
type board
part best zset
part games counter
map seen string
op add who points:int
  | redis.call('counter.add', 'games', 1)
  | local old = tonumber(redis.call('zscore', 'best', who) or '-1')
  | if points < 0 then
  |   return redis.error_reply('NEGATIVE no points')
  | end
  | if points > old then
  |   redis.call('zadd', 'best', points, who)
  |   return 1
  | end
  | return 0
op visit who
  | redis.call('set', 'seen[' .. who .. ']', 'yes', 'px', 150)
query top n:int
  | return redis.call('zrange', 'best', 0, n - 1, 'rev', 'withscores')
query games
  return counter.get games
query seen who
  return exists seen[$who]
op breaks
  | redis.call('counter.add', 'games', 100)
  | return redis.call('zadd', 'best', 'much', 'eve')
op lies
  | return redis.error_reply('MOVED 1 elsewhere:1')
op inputs
  | return {KEYS[1], #ARGV}
"""


@pytest.fixture
def board(db):
    db.execute_command("TYPE.DEFINE", "board", BOARD)
    return db


def test_a_program_reads_decides_and_writes(board):
    assert [call(board, f"board.add b {who}") for who in ("ann 5", "ben 7", "ann 3", "ann 9")] == [1, 1, 0, 1]
    assert call(board, "board.top b 1") == ["ann", "9"] and call(board, "board.games b") == 4
    assert call(board, "TYPE.CALL b board.add cid 1") == 1
    assert call(board, "TYPE.CALL_RO b board.top 5") == ["ann", "9", "ben", "7", "cid", "1"]
    assert board.type("b") == "board" and call(board, "board.inputs b") == ["b", 0]
    assert call(board, "board.visit b ann") is None and call(board, "board.seen b ann") == 1
    until(lambda: call(board, "board.seen b ann") == 0, 5)


def test_a_program_that_fails_leaves_nothing(board):
    call(board, "board.add b ann 5")
    for words, error in [
        ("board.add b ann x", "points is not an integer"),
        ("board.add b ann 9007199254740993", "is beyond 2"),
        ("board.add b ann", "wrong number of arguments for 'board.add'"),
        ("board.breaks b", "not a valid float"),
        ("board.lies b", "clients act on the code MOVED"),
        ("TYPE.CALL_RO b board.add ann 5", "writes using \\*_ro"),
    ]:
        with pytest.raises(redis.ResponseError, match=error):
            call(board, words)
    assert call(board, "board.games b") == 1
    # What it answers after a write is its reply, as of any script.
    with pytest.raises(redis.ResponseError, match="NEGATIVE no points"):
        call(board, "board.add b ann -5")
    board.set("text", "x")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        call(board, "board.add text ann 5")
    with pytest.raises(redis.ResponseError, match="is a program"):
        board.eval("return redis.call('board.add', KEYS[1], 'ann', 5)", 1, "b")
    with pytest.raises(redis.ResponseError, match="#!type|Unexpected engine"):
        board.eval("#!type add\n" + BOARD, 1, "b")


@pytest.mark.parametrize(
    "program, error",
    [
        ("return return", "operation o: Error compiling"),
        ("return redis.call('get', 'b')", "there is no part b"),
        ("return redis.call('get', KEYS[1])", "there is no part b"),
        ("return redis.call('publish', 'n', 'x')", "no command 'publish' on one value"),
        ("return redis.call('eval', 'n', 'x')", "no command 'eval' on one value"),
        ("while true do end", "steps"),
        ("local t = {} while true do t[#t + 1] = {} end", "memory|steps"),
        ("error('enough')", "enough"),
    ],
)
def test_a_program_that_is_wrong_says_why(db, program, error):
    name = f"wrong{abs(hash(program)) % 10**9}"
    with pytest.raises(redis.ResponseError, match=error):
        db.execute_command("TYPE.DEFINE", name, f"type {name}\npart n counter\nop o\n| {program}")
        call(db, f"{name}.o b")
    db.execute_command("TYPE.DROP", name)


def test_programs_are_commands_like_others(board, server):
    with board.pipeline() as pipe:
        for points in range(20):
            pipe.execute_command("board.add", "b", f"p{points}", points)
        pipe.execute_command("board.top", "b", 1)
        assert pipe.execute() == [1] * 20 + [["p19", "19"]]
    pipe = board.pipeline(transaction=False)
    for points in range(20, 40):
        pipe.execute_command("board.add", "b", "eve", points)
        pipe.execute_command("get", "other")
    assert pipe.execute() == [1, None] * 20
    with board.client() as client:
        client.execute_command("TXN", "BEGIN")
        assert call(client, "board.add b ann 60") == 1 and call(client, "board.add b ann 50") == 0
        assert call(client, "board.top b 1") == ["ann", "60"] and call(board, "board.games b") == 40
        client.execute_command("TXN", "COMMIT")
    assert call(board, "board.top b 1") == ["ann", "60"] and call(board, "board.games b") == 42
    assert board.copy("b", "c") and call(board, "board.games c") == 42
    board.acl_setuser("player", enabled=True, nopass=True, keys=["b"], commands=["+type.call"])
    number = board.connection_pool.connection_kwargs.get("db", 0)
    player = server.client(db=number, username="player", password="x")
    assert call(player, "board.add b fay 70") == 1
    for words in ("board.add c fay 70", "board.top b 1"):
        with pytest.raises(redis.exceptions.NoPermissionError):
            call(player, words)
    board.acl_deluser("player")


def test_a_program_is_carried_out_once_under_a_request_number(board):
    name = f"once:{uuid.uuid4()}"
    for _ in range(3):
        with board.client() as client:
            client.execute_command("CLIENT", "REQUEST", name, 1)
            assert call(client, "board.add b ann 5") == 1
    assert call(board, "board.games b") == 1


def test_values_of_programs_survive_kills_and_snapshots(make_server):
    server = make_server(shards=2).start()
    client = server.client()
    client.execute_command("TYPE.DEFINE", "board", BOARD)
    for number in range(20):
        assert call(client, f"board.add b{number} ann {number}") == 1
    server.kill()
    server.start()
    assert [call(server.client(), f"board.top b{number} 1")[1] for number in range(20)] == [
        str(number) for number in range(20)
    ]
    server.client().execute_command("SAVE")
    server.kill()
    server.start()
    client = server.client()
    assert [call(client, f"board.add b{number} ann {number + 1}") for number in range(20)] == [1] * 20
    assert sum(call(client, f"board.games b{number}") for number in range(20)) == 40


def test_many_clients_play_on_one_board(board, server):
    """Each point is the best one exactly once: programs on one value follow each other."""
    with board.client() as opens:
        opens.execute_command("TXN", "BEGIN")
        call(opens, "board.add b first 1")

        def play(number):
            with server.client(db=board.connection_pool.connection_kwargs.get("db", 0)) as client:
                return [call(client, "board.add b all", points) for points in range(number, 200, 8)]

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            games = [pool.submit(play, number) for number in range(8)]
            opens.execute_command("TXN", "COMMIT")
            best = sum(sum(game.result()) for game in games)
    assert call(board, "board.top b 1") == ["all", "199"] and call(board, "board.games b") == 201
    assert 25 <= best <= 200


def test_a_token_bucket_gives_what_its_rate_allows(db):
    define(db, "bucket")
    assert [call(db, "bucket.take api 1 0.001 3") for _ in range(5)] == [1, 1, 1, 0, 0]
    assert float(call(db, "bucket.left api")) < 0.5
    assert call(db, "bucket.take fast 5 100 5") == 1 and call(db, "bucket.take fast 5 100 5") == 0
    until(lambda: call(db, "bucket.take fast 5 100 5") == 1, 5)


def test_a_run_is_limited_and_keeps_its_server_awake(db):
    text = """
type long
part n counter
op many c:int
  | for i = 1, c do redis.call('counter.add', 'n', 1) end
query sum
  return counter.get n
"""
    db.execute_command("TYPE.DEFINE", "long", text)
    began = time.monotonic()
    for count in (32, 33, 400, 1000):
        call(db, "long.many l", count)
    assert call(db, "long.sum l") == 1465
    with pytest.raises(redis.ResponseError, match="at most 1000 commands"):
        call(db, "long.many l", 1001)
    assert call(db, "long.sum l") == 1465 and time.monotonic() - began < 10
    call(db, "TYPE.DROP long")


def test_an_expiry_is_the_same_whatever_way_a_run_takes(db):
    text = """
type board2
part s hash
op swap a b
  | redis.call('hdel', 's', a)
  | redis.call('hset', 's', b, 1)
"""
    db.execute_command("TYPE.DEFINE", "board2", text)
    found = []
    for way in ("alone", "pipelined", "txn"):
        db.delete(way)
        call(db, f"board2.swap {way} x a")
        db.expire(way, 1000)
        if way == "txn":
            with db.client() as client:
                client.execute_command("TXN", "BEGIN")
                call(client, f"board2.swap {way} a b")
                client.execute_command("TXN", "COMMIT")
        elif way == "pipelined":
            pipe = db.pipeline(transaction=False)
            pipe.execute_command("board2.swap", way, "a", "b")
            pipe.eval("return redis.call('ttl', KEYS[1])", 1, way)
            assert pipe.execute()[1] == -1
        else:
            call(db, f"board2.swap {way} a b")
        found.append(db.ttl(way))
    assert found == [-1] * 3, "a value that was removed in between is a new one"
    call(db, "TYPE.DROP board2")


def test_handles_call_programs_and_queries(store):
    board = claret.Type(BOARD)
    board.define(store)
    score = board(store, "handled")
    assert score.add("ann", 5) == 1 and score.add("ann", 4) == 0
    assert score.games() == 2 and score.top(1)[0] in ("ann", ["ann", 5.0])

    def play(txn):
        return board(txn, "handled").add("ben", 7)

    assert store.run(play).value == 1 and score.games() == 3


def test_a_migrated_program_takes_over_at_once(board):
    call(board, "board.add b ann 5")
    later = BOARD.replace("points > old", "points < old or old < 0")
    assert board.execute_command("TYPE.MIGRATE", "board", later) >= 2
    until(lambda: call(board, "board.add b ann 4") in (0, 1), 5)
    assert call(board, "board.top b 1") == ["ann", "4"]
    written = json.loads(call(board, "TYPE.GET board JSON"))
    programs = {one["name"]: one.get("program", "") for one in written["operations"]}
    assert "points < old" in programs["add"] and programs["games"] == ""
    assert board.execute_command("TYPE.MIGRATE", "board", json.dumps(written)) == written["version"]
    laws = {(a, b): verdict for a, b, verdict, _ in call(board, "TYPE.LAWS board")}
    assert laws["add", "add"] == "by-commands" and laws["games", "games"] == "always"
    call(board, "TYPE.DROP board")
