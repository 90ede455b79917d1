"""Commands that the blocking client sends, and its treatment of replies."""

import pytest
from fakes import BREAK, Client, error
from redis.exceptions import AuthenticationError

import claret
from claret import script

POLICY = claret.RetryPolicy(pause_s_max=0, deadline_s=5)


class Db(Client):
    """A client with prepared replies, and one for single commands."""

    def __init__(self, *replies):
        super().__init__(*replies)
        self.asked = []
        self.resolution = 0

    def execute_command(self, *args, **options):
        self.asked.append(args)
        if isinstance(self.resolution, Exception):
            raise self.resolution
        return self.resolution


def test_writes_travel_with_the_next_read_and_with_the_commit():
    db = Db([b"OK", b"QUEUED", b"7", b"QUEUED", ["OK", 8]])
    with db.begin() as tx:
        first = tx.set("a", 1)
        assert db.sent == []
        assert tx.get("b") == b"7"
        second = tx.incr("b")
        with pytest.raises(claret.TransactionClosed):
            first.value
    assert db.sent == [["TXN BEGIN BLIND", "SET a 1", "GET b"], ["INCRBY b 1", "TXN COMMIT"]]
    assert (first.value, second.value) == (True, 8)
    assert db.connection_pool.out == 0


def test_an_exception_rolls_back():
    db = Db([b"OK", b"7", b"OK"])
    with pytest.raises(KeyError), db.begin() as tx:
        tx.get("a")
        tx.set("a", 1)
        raise KeyError
    assert db.sent == [["TXN BEGIN BLIND", "GET a"], ["TXN ABORT"]]
    assert db.connection_pool.out == 0


def test_what_was_never_sent_needs_no_connection():
    db = Db()
    with pytest.raises(KeyError), db.begin() as tx:
        tx.set("a", 1)
        raise KeyError
    assert db.sent == []


def test_a_snapshot_does_not_defer():
    db = Db([b"OK", error("ERR 'set' can write"), b"OK"])
    with pytest.raises(claret.transaction.ResponseError, match="can write"), db.snapshot() as tx:
        tx.set("a", 1)
    assert db.sent == [["TXN BEGIN READONLY", "SET a 1"], ["TXN ABORT"]]


def test_a_conflict_ends_the_transaction_and_frees_the_connection():
    db = Db([b"OK", error("TXNABORT too old"), b"OK"])
    with pytest.raises(claret.ConflictError, match="too old"), db.begin() as tx:
        tx.get("a")
    assert db.sent[-1] == ["TXN ABORT"]
    with pytest.raises(claret.TransactionClosed):
        tx.get("a")
    assert db.connection_pool.out == 0


def test_a_run_is_repeated_on_its_connection():
    db = Db([b"OK", b"OK", error("TXNABORT x"), b"OK", b"OK", b"7", b"QUEUED", ["OK"]])
    seen = []

    def step(tx, more):
        seen.append(tx.get("a"))
        tx.set("a", more)
        return more

    assert db.run(step, 5, policy=POLICY) == 5
    opening = ["CLIENT REQUEST me-1 1", "TXN BEGIN BLIND STRICT", "GET a"]
    assert db.sent == [opening, opening, ["SET a 5", "TXN COMMIT"]]
    assert seen == [b"7"]
    assert db.connection_pool.out == 0


def test_a_run_gives_up_as_its_policy_says():
    db = Db([b"OK", b"OK", error("TXNABORT x")] * 1 + [b"OK", b"OK", error("BUSY y"), b"OK"])
    with pytest.raises(claret.BusyError):
        db.run(lambda tx: tx.get("a"), policy=claret.RetryPolicy(attempts_max=2))
    assert len(db.sent) == 3 and db.sent[-1] == ["TXN ABORT"]


def test_other_errors_are_not_retried():
    db = Db([b"OK", b"OK", error("WRONGTYPE no"), b"OK"])
    with pytest.raises(claret.transaction.ResponseError, match="WRONGTYPE"):
        db.run(lambda tx: tx.get("a"), policy=POLICY)
    assert db.sent[1:] == [["TXN ABORT"]]


def test_a_lost_commit_that_took_effect_is_not_repeated():
    db = Db([b"OK", b"OK", b"QUEUED", BREAK])
    db.resolution = 1
    replies = []

    def step(tx):
        replies.append(tx.set("a", 1))
        return "done"

    assert db.run(step, policy=POLICY) == "done"
    assert db.asked == [("TXN", "RESOLVE", "me-1", 1)]
    assert len(replies) == 1
    with pytest.raises(claret.RepeatedError):
        replies[0].value


def test_a_lost_commit_without_effect_is_repeated_under_a_new_number():
    db = Db([b"OK", BREAK], [b"OK", b"OK", b"QUEUED", ["OK"]])
    assert db.run(lambda tx: tx.set("a", 1), policy=POLICY).value is True
    assert db.sent[1][0] == "CLIENT REQUEST me-1 2"


def test_a_lost_commit_without_any_answer_is_unknown():
    for answer in (error("NOPERM no"), claret.ClientClosed("it is closed")):
        db = Db([b"OK", b"OK", b"QUEUED", BREAK])
        db.resolution = answer
        with pytest.raises(claret.CommitUnknown) as caught:
            db.run(lambda tx: tx.set("a", 1), policy=POLICY)
        assert caught.value.maybe_committed and not caught.value.retryable


def test_a_connection_that_breaks_before_the_commit_is_replaced():
    db = Db([b"OK", b"OK", BREAK], [b"OK", b"OK", b"7", []])
    assert db.run(lambda tx: tx.get("a"), policy=POLICY) == b"7"
    assert db.sent[1][0] == "CLIENT REQUEST me-1 1", "nothing was spent"
    assert db.asked == []


def test_a_closed_connection_is_not_silently_opened_again():
    db = Db([b"OK", b"7"])
    tx = db.begin()
    tx.get("a")
    db.connection_pool._connections[0].is_connected = False
    tx.set("a", 1)
    with pytest.raises(claret.CommitUnknown, match="was closed"):
        tx.commit()
    assert len(db.sent) == 1


def test_a_write_that_the_server_refuses_to_queue_stops_the_commit():
    refused = error("ERR wrong number of arguments")
    db = Db([b"OK", refused, b"7", b"OK"])
    with pytest.raises(claret.transaction.ResponseError, match="wrong number"), db.begin() as tx:
        tx.set("a", 1)
        tx.get("b")
    assert db.sent[-1] == ["TXN ABORT"]
    db = Db([b"OK", refused, error("EXECABORT discarded")])
    with pytest.raises(claret.transaction.ResponseError, match="wrong number"), db.begin() as tx:
        tx.set("a", 1)


def test_a_caught_refusal_still_stops_the_commit():
    db = Db([b"OK", error("ERR no"), b"7", b"OK"])
    tx = db.begin()
    tx.set("a", 1)
    with pytest.raises(claret.transaction.ResponseError):
        tx.get("b")
    with pytest.raises(claret.transaction.ResponseError, match="no"):
        tx.commit()
    assert ["TXN COMMIT"] not in db.sent
    assert db.connection_pool.out == 0


def test_a_write_that_its_value_refuses_is_reported_after_the_commit():
    db = Db([b"OK", b"QUEUED", b"QUEUED", [error("WRONGTYPE no"), 3]])
    tx = db.begin()
    bad, good = tx.incr("a"), tx.incr("b")
    with pytest.raises(claret.WriteRefused, match="INCR.*WRONGTYPE") as caught:
        tx.commit()
    assert [name for name, _ in caught.value.errors] == ["INCRBY"]
    assert good.value == 3
    with pytest.raises(claret.transaction.ResponseError, match="WRONGTYPE"):
        bad.value


def test_a_strict_run_says_so_and_raises_that_nothing_took_effect():
    undone = error("EXECABORT Transaction discarded because of previous errors: WRONGTYPE no")
    db = Db([b"OK", b"OK", b"QUEUED", undone])
    with pytest.raises(claret.Undone, match="WRONGTYPE no") as caught:
        db.run(lambda tx: tx.incr("a"), policy=POLICY)
    assert not (caught.value.retryable or caught.value.maybe_committed)
    assert db.sent == [
        ["CLIENT REQUEST me-1 1", "TXN BEGIN BLIND STRICT", "INCRBY a 1", "TXN COMMIT"]
    ]
    db = Db([b"OK", b"OK", b"QUEUED", [error("WRONGTYPE no")]])
    with pytest.raises(claret.WriteRefused):
        db.run(lambda tx: tx.incr("a"), strict=False, policy=POLICY)
    assert db.sent[0][1] == "TXN BEGIN BLIND"


def test_how_long_others_may_wait_is_said_when_it_begins():
    db = Db([b"OK", b"7", []])
    with db.begin(now=True, strict=True, idle_timeout=1.5, transaction_timeout=0) as tx:
        assert tx.get("a") == b"7"
    assert db.sent[0] == ["TXN BEGIN STRICT IDLE 1500 TIMEOUT 0", "GET a"]


def test_replies_given_early_find_their_commands():
    db = Db([b"OK", b"QUEUED", None, b"QUEUED", ["OK", 2]])
    with db.begin() as tx:
        one, nothing, two = tx.set("a", 1), tx.lmove("q", "r"), tx.incr("a")
    assert (one.value, nothing.value, two.value) == (True, None, 2)


def test_options_of_redis_py_reach_its_conversions():
    db = Db([b"OK", b"QUEUED", [[b"a", b"1"]]])
    with db.begin() as tx:
        popped = tx.zpopmin("z", 1)
    assert [(member, float(score)) for member, score in popped.value] == [(b"a", 1.0)]


def test_a_batch_is_one_packet_and_is_repeated_under_its_number():
    db = Db([b"OK", b"OK", BREAK], [b"OK", b"OK", b"QUEUED", b"QUEUED", ["OK", b"1"]])
    with db.batch(POLICY) as batch:
        batch.set("a", 1)
        read = batch.get("a")
    packet = ["CLIENT REQUEST me-1 1", "MULTI", "SET a 1", "GET a", "EXEC"]
    assert db.sent == [packet, packet]
    assert read.value == b"1"
    assert len(batch) == 0


def test_a_batch_that_took_effect_before_has_lost_its_replies():
    replies = [b"OK", b"OK", b"QUEUED", error("REPEATED before")]
    db = Db(replies)
    with db.batch(POLICY) as batch:
        write = batch.set("a", 1)
    with pytest.raises(claret.RepeatedError):
        write.value
    batch = Db(replies).batch(POLICY)
    batch.set("a", 1)
    with pytest.raises(claret.RepeatedError):
        batch.execute()


def test_a_batch_whose_replies_are_lost_is_unknown_if_it_cannot_be_repeated():
    for refusal in (AuthenticationError("wrong"), claret.ClientClosed("it is closed")):
        batch = Db([refusal]).batch(POLICY)
        batch.set("a", 1)
        with pytest.raises(type(refusal)):
            batch.execute()
        batch = Db([b"OK", BREAK], [refusal]).batch(POLICY)
        batch.set("a", 1)
        with pytest.raises(claret.CommitUnknown, match=str(refusal)):
            batch.execute()


def test_errors_in_a_batch_are_raised_or_listed():
    replies = [b"OK", b"OK", b"QUEUED", b"QUEUED", ["OK", error("WRONGTYPE no")]]
    for strict in (True, False):
        batch = Db(replies).batch(POLICY)
        batch.set("a", 1)
        batch.get("b")
        if strict:
            with pytest.raises(claret.WriteRefused):
                batch.execute()
        else:
            assert "WRONGTYPE" in str(batch.execute(raise_on_error=False)[1])


def test_functions_compose():
    @claret.transactional
    def inner(tx, value):
        tx.set("a", value)
        return value

    @claret.transactional
    def outer(tx):
        return inner(tx, 1) + inner(tx, 2)

    db = Db([b"OK", b"OK", b"QUEUED", b"QUEUED", ["OK", "OK"]])
    assert outer(db) == 3
    assert len(db.sent) == 1


def test_a_server_without_txn_is_refused_before_anything_is_sent():
    with pytest.raises(claret.ClaretError, match="not Claret"):
        script.writers({"get": {"flags": ["readonly"]}})
