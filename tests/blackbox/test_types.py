"""Composed types: clients define them while the server runs, and no replica can carry them out otherwise."""

import asyncio
import json
import operator
import pathlib
import threading

import claret
import pytest
import redis
from claret import aio
from clusters import UP_S_MAX
from harness import until

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "types"
COUNTER = """
type tally
part n counter
op add by:int
  counter.add n $by
op get
  return counter.get n
"""
# With one part more, one operation less and another one changed.
LATER = """
type tally
part n counter
part last string
op add by:int
  counter.add n $by
  set last $by
op both
  return counter.get n
  return get last
"""


def define(client, *names):
    """Defines shipped types."""
    for name in names:
        text = (EXAMPLES / f"{name}.type").read_text()
        assert client.execute_command("TYPE.DEFINE", name, text) >= 1


def call(client, words, *arguments):
    """Calls an operation."""
    return client.execute_command(*words.split(), *arguments)


def best(client, words):
    """The best bid, in either form of the protocol: the bidder and the price."""
    reply = call(client, words)
    bidder, price = reply[0] if isinstance(reply[0], list) else reply
    return bidder, float(price)


def test_every_shipped_type_does_its_work(db):
    define(db, "auction", "stock", "post", "seats", "presence", "limiter")
    assert call(db, "auction.bid a 5 ann") == 1 and call(db, "AUCTION.BID a 7 ben") == 1
    assert best(db, "auction.close a") == ("ben", 7)
    with pytest.raises(redis.ResponseError, match="CLOSED the auction is over"):
        call(db, "auction.bid a 9 ann")
    assert call(db, "stock.add s 3") == 1 and call(db, "stock.reserve s o1 2 60000") == 1
    assert call(db, "stock.reserve s o2 2 60000") == 0 and call(db, "stock.free s") == 1
    assert call(db, "stock.buy s o1") == 1 and call(db, "stock.free s") == 1
    call(db, "post.write p", "two words")
    assert call(db, "post.like p ann") == call(db, "post.like p ann") == call(db, "post.repost p ben") == "OK"
    assert call(db, "post.show p") == ["two words", 1, 1] and call(db, "post.liked p ben") == 0
    assert call(db, "seats.take h 7a ann") == 1 and call(db, "seats.take h 7a ben") == 0
    assert call(db, "seats.leave h 7a ben") == 0 and call(db, "seats.who h 7a") == "ann"
    assert call(db, "presence.beat room ann 60000") == "OK" and call(db, "presence.all room") == ["ann"]
    assert [call(db, f"limiter.take l r{n} 60000") for n in range(3)] == [1, 1, 1]
    assert call(db, "limiter.left l") == 97
    assert [db.type(key) for key in "aspl"] == ["auction", "stock", "post", "limiter"]
    assert [name for name in db.scan_iter(_type="STOCK")] == ["s"]


def test_the_page_of_the_shipped_types_shows_what_happens(make_server):
    server = make_server().start()
    define(server.client(), "auction", "stock", "post", "seats", "presence", "limiter", "bucket")
    shown, typed = "", []
    for line in (EXAMPLES / "README.md").read_text().split("\n"):
        if line.startswith("    > "):
            typed.append(line.removeprefix("    > "))
        elif typed and line.startswith("    "):
            shown += line.removeprefix("    ") + "\n"
    assert len(typed) > 25
    printed = [server.cli(*words.split(), flags=["--no-raw"]) for words in typed]
    assert "\n".join(line.rstrip() for line in printed) + "\n" == shown


def test_what_expires_comes_back_by_itself(db):
    define(db, "stock", "presence")
    call(db, "stock.add s 5")
    assert call(db, "stock.reserve s slow 3 60000") == 1 and call(db, "stock.reserve s quick 2 150") == 1
    assert call(db, "stock.free s") == 0
    until(lambda: call(db, "stock.free s") == 2, 5)
    with pytest.raises(redis.ResponseError, match="GONE"):
        call(db, "stock.buy s quick")
    assert call(db, "stock.release s slow 3") == 1 and call(db, "stock.free s") == 5
    call(db, "presence.beat room ann 150")
    until(lambda: not db.exists("room"), 5)


def test_calls_are_commands_like_others(db):
    define(db, "auction")
    with db.pipeline() as pipe:
        for price in range(20):
            pipe.execute_command("auction.bid", "a", price, f"bidder{price}")
        pipe.execute_command("auction.best", "a")
        assert pipe.execute()[:-1] == [1] * 20
    assert best(db, "auction.best a") == ("bidder19", 19)
    pipe = db.pipeline(transaction=False)
    for price in range(20, 40):
        pipe.execute_command("TYPE.CALL", "a", "auction.bid", price, "eve")
    assert pipe.execute() == [1] * 20
    assert best(db, "TYPE.CALL_RO a auction.best") == ("eve", 39)
    text = """
        redis.call('auction.bid', KEYS[1], ARGV[1], 'zed')
        local best = redis.call('auction.best', KEYS[1])
        return {best[1], redis.call('auction.count', 'a')}
    """
    assert db.eval(text, 1, "a", 50) == ["zed", 41]
    with db.client() as client:
        client.execute_command("TXN", "BEGIN")
        assert call(client, "auction.bid a 60 ann") == 1
        assert best(client, "auction.best a") == ("ann", 60) and best(db, "auction.best a") == ("zed", 50)
        client.execute_command("TXN", "COMMIT")
    assert best(db, "auction.best a") == ("ann", 60)
    assert db.copy("a", "b") and call(db, "auction.count b") == 42
    assert db.rename("b", "c") and best(db, "auction.best c") == ("ann", 60)
    assert db.memory_usage("a") > 0 and db.expire("a", 100) and db.delete("a", "c") == 2


def test_every_mistake_has_its_error(db):
    define(db, "auction", "post")
    call(db, "auction.bid a 5 ann")
    db.set("string", 1)
    for words, error in [
        ("auction.bid a", "wrong number of arguments for 'auction.bid' command: key amount bidder"),
        ("auction.bid a much ann", "amount is not a valid number"),
        ("auction.burn a", "has no operation 'burn', only bid, best, count, close"),
        ("auktion.bid a 1 x", "unknown command 'auktion.bid'"),
        ("counter.nothing a", "unknown command 'counter.nothing'"),
        ("auction.bid string 1 x", "WRONGTYPE"),
        ("post.like a ann", "WRONGTYPE"),
        ("get a", "WRONGTYPE"),
        ("TYPE.CALL a bid 1 x", "name an operation of a type"),
        ("TYPE.CALL a auktion.bid 1 x", "there is no type auktion"),
        ("TYPE.CALL_RO a auction.bid 1 x", "writes using *_ro"),
        ("TYPE.GET nothing", "there is no type nothing"),
        ("TYPE.LAWS nothing", "there is no type nothing"),
        ("TYPE.MIGRATE auction x", "line 1: a definition begins with 'type'"),
    ]:
        with pytest.raises(redis.RedisError) as raised:
            call(db, words)
        assert error.removeprefix("WRONGTYPE") in str(raised.value), (words, str(raised.value))
    for name, text, error in [
        ("other", COUNTER, "the definition is of tally, and not of other"),
        ("auction", COUNTER.replace("tally", "auction"), "has another definition, version"),
        ("cluster", COUNTER.replace("tally", "cluster"), "is the beginning of the command cluster"),
        ("lock", COUNTER.replace("tally", "lock"), "is the name of a built-in type"),
        ("get", COUNTER.replace("tally", "get"), "is the beginning of the command get"),
        ("tally", COUNTER + "\nop o\n require counter.get n = 1 else error MOVED x", "act on the code MOVED"),
        ("tally", COUNTER + "x" * 9000, "at most 8192 bytes"),
    ]:
        with pytest.raises(redis.ResponseError, match=error):
            db.execute_command("TYPE.DEFINE", name, text)
    with pytest.raises(redis.ResponseError, match="of another kind"):
        db.execute_command("TYPE.MIGRATE", "auction", COUNTER.replace("tally", "auction"))
    define(db, "auction")
    assert call(db, "TYPE.DROP auction") == 1 and call(db, "TYPE.DROP auction") == 0
    with pytest.raises(redis.ResponseError, match="unknown command"):
        call(db, "auction.best a")
    assert db.type("a") == "auction" and db.delete("a") == 1


def test_a_name_that_is_no_type_is_refused_everywhere(db):
    """Also behind FENCE, where a command cannot wait until the definitions are read."""
    define(db, "auction")
    for words, error in [
        ("FENCE l 1 json.get k", "unknown command 'JSON.GET'"),
        ("FENCE l 1 auction.nothing k", "has no operation 'nothing'"),
    ]:
        for _ in range(3):
            with pytest.raises(redis.ResponseError) as raised:
                call(db, words)
            if "call again" not in str(raised.value):
                break
        assert error in str(raised.value)
    assert call(db, "FENCE l 1 auction.bid a 5 ann") == 1


def test_laws_tell_what_commutes_and_why_not(db):
    define(db, "auction", "seats")
    laws = {(a, b): (verdict, why) for a, b, verdict, why in call(db, "TYPE.LAWS auction")}
    assert laws["bid", "bid"] == ("always", "") and laws["bid", "best"][0] == "by-state"
    assert laws["bid", "close"] == ("never", "closed: exists and set")
    laws = {(a, b): verdict for a, b, verdict, _ in call(db, "TYPE.LAWS seats")}
    assert laws["take", "take"] == laws["take", "leave"] == "other-arguments"
    listed = str(call(db, "TYPE.LIST"))
    assert "auction.bid key amount bidder" in listed and "part taken hash" in listed


def test_bids_of_transactions_go_side_by_side(db, server):
    """Transactions that have bid and not committed do not keep others from bidding."""
    define(db, "auction")
    clients = [server.client(db=db.connection_pool.connection_kwargs.get("db", 0)) for _ in range(8)]
    with_txn = [client.client() for client in clients]
    for number, client in enumerate(with_txn):
        client.execute_command("TXN", "BEGIN")
        assert call(client, f"auction.bid a {number} bidder{number}") == 1
    for client in with_txn:
        client.execute_command("TXN", "COMMIT")
    assert best(db, "auction.best a") == ("bidder7", 7) and call(db, "auction.count a") == 8


def test_types_and_values_survive_restarts_and_snapshots(make_server):
    server = make_server(shards=2).start()
    client = server.client()
    define(client, "stock", "auction")
    for number in range(20):
        call(client, f"stock.add s{number} 10")
        assert call(client, f"stock.reserve s{number} o{number} 4 600000") == 1
    server.kill()
    server.start()
    client = server.client()
    assert [call(client, f"stock.free s{number}") for number in range(20)] == [6] * 20
    client.execute_command("SAVE")
    server.kill()
    server.start()
    client = server.client()
    assert [call(client, f"stock.buy s{number} o{number}") for number in range(20)] == [1] * 20
    assert [call(client, f"stock.free s{number}") for number in range(20)] == [6] * 20


def wait_for(counts, more, of=None):
    """Waits until each of the first counts, or of all, has become larger by so much."""
    wanted = [count + more for count in counts[:of]]
    until(lambda: all(map(operator.ge, counts, wanted)), UP_S_MAX)


def test_a_definition_changes_under_load_and_nothing_is_lost(make_cluster):
    """Clients of three machines add while the type is migrated, and a machine is killed."""
    cluster = make_cluster(shards=2).start()
    first = cluster.nodes[0].client()
    until(lambda: first.execute_command("TYPE.DEFINE", "tally", COUNTER) == 1, UP_S_MAX)
    done, unsure, stop = [0] * 3, [0] * 3, threading.Event()

    def adds(number):
        while not stop.is_set():
            try:
                client = cluster.nodes[number].client()
                while not stop.is_set():
                    call(client, f"tally.add t{number % 2} 1")
                    done[number] += 1
            except redis.ResponseError as error:
                # What was not carried out says so.
                assert any(word in str(error) for word in ("TRYAGAIN", "call again", "CLUSTERDOWN")) or (
                    "INDEFINITE" in str(error)
                ), error
                unsure[number] += "INDEFINITE" in str(error)
            except redis.ConnectionError:
                unsure[number] += 1

    threads = [threading.Thread(target=adds, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    wait_for(done, 50)
    assert first.execute_command("TYPE.MIGRATE", "tally", LATER) == 2
    wait_for(done, 50)
    cluster.nodes[2].kill()
    wait_for(done, 50, of=2)
    stop.set()
    for thread in threads:
        thread.join()
    sums = [call(first, f"tally.both t{number}") for number in range(2)]
    assert [last for _, last in sums] == ["1", "1"]
    total = sum(number for number, _ in sums)
    assert sum(done) <= total <= sum(done) + sum(unsure)


def test_handles_have_the_operations_of_a_definition(store):
    auctions = claret.Type((EXAMPLES / "auction.type").read_text())
    assert auctions.define(store) >= 1 and auctions.operations["bid"] == ["amount", "bidder"]
    lot = auctions(store, "lot")
    assert lot.bid(5, "ann") == 1 and lot.bid(7, bidder="ben") == 1 and lot.count() == 2

    def outbid(txn, bidder):
        """Reads the number of bids, and bids as much."""
        lot = auctions(txn, "lot")
        return lot.bid(lot.count() + 10, bidder)

    reply = store.run(outbid, "eve")
    assert reply.value == 1 and lot.count() == 3 and "eve" in str(lot.best())
    with store.batch() as batch:
        first, second = auctions(batch, "lot").bid(20, "fay"), auctions(batch, "lot").count()
    assert (first.value, second.value) == (1, 4)
    with pytest.raises(AttributeError, match="only bid, best, count, close"):
        lot.burn
    for wrong in ((1,), (1, "a", "b")):
        with pytest.raises(TypeError, match=r"auction.bid\(amount, bidder\)"):
            lot.bid(*wrong)
    with pytest.raises(redis.ResponseError, match="another definition"):
        claret.Type("type auction\npart n counter\nop add\n counter.add n 1").define(store)


def test_handles_work_with_asyncio(server):
    async def story():
        async with server.client(aio.Claret) as db:
            auctions = claret.Type((EXAMPLES / "auction.type").read_text())
            assert await auctions.define(db) >= 1
            assert await auctions(db, "later").bid(5, "ann") == 1

            async def outbid(txn, bidder):
                lot = auctions(txn, "later")
                await lot.bid(await lot.count() + 10, bidder)

            await db.run(outbid, "eve")
            assert await auctions(db, "later").count() == 2

    asyncio.run(story())


def test_rights_on_types_are_those_of_commands(db, server):
    define(db, "auction")
    call(db, "auction.bid a 1 ann")
    db.acl_setuser("reader", enabled=True, nopass=True, keys=["a*"], commands=["+type.call_ro"])
    try:
        reader = server.client(username="reader", password="any")
        assert best(reader, "auction.best a") == ("ann", 1)
        with pytest.raises(redis.exceptions.NoPermissionError):
            call(reader, "auction.bid a 2 eve")
        with pytest.raises(redis.exceptions.NoPermissionError):
            call(reader, "auction.best b")
        with pytest.raises(redis.exceptions.NoPermissionError):
            call(reader, "TYPE.DROP auction")
    finally:
        db.acl_deluser("reader")


def test_definitions_are_written_and_read_in_json(db):
    call(db, "TYPE.DROP depot")
    text = (EXAMPLES / "stock.type").read_text().replace("type stock", "type depot")
    version = call(db, "TYPE.DEFINE depot", text)
    written = json.loads(call(db, "TYPE.GET depot JSON"))
    assert written["type"] == "depot" and written["version"] == version
    assert written["parts"][0]["with"] == "counter.set 0 min 0"
    # The same definition in the other form.
    assert call(db, "TYPE.DEFINE depot", json.dumps(written, indent=2)) == version
    written["operations"].append({"name": "empty", "steps": ["return counter.atleast free 1"]})
    assert call(db, "TYPE.MIGRATE depot", json.dumps(written)) == version + 1
    assert call(db, "depot.add d 2") == 1 and call(db, "depot.empty d") == 1
    written["operations"][-1]["steps"] = ["return get nothing"]
    with pytest.raises(redis.ResponseError, match="operation empty, step 1: there is no part"):
        call(db, "TYPE.MIGRATE depot", json.dumps(written))
    with pytest.raises(redis.ResponseError, match="syntax error"):
        call(db, "TYPE.GET depot XML")
