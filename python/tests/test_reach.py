"""Several addresses, passwords in files, and the end of a client."""

import asyncio

import pytest
from answering import Listener, listeners
from fakes import TABLE, Client
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, ClusterDownError, ResponseError
from redis.retry import Retry

import claret
from claret import aio, reach, script

POLICY = claret.RetryPolicy(pause_s_max=0, deadline_s=5)
NO_LEADER = ClusterDownError("no leader")
# Nothing listens there.
DEAD = "127.0.0.1:1"


def client(*addresses, **how):
    """A client that repeats nothing by itself."""
    return claret.Claret(addresses=addresses, protocol=2, retry=Retry(NoBackoff(), 0), **how)


def aio_client(*addresses, **how):
    """:func:`client` for asyncio."""
    retry = AsyncRetry(NoBackoff(), 0)
    return aio.Claret(addresses=addresses, protocol=2, retry=retry, **how)


@pytest.mark.parametrize(
    "text, place",
    [
        ("db:7000", ("db", 7000)),
        ("db", ("db", 6379)),
        ("[::1]:7000", ("::1", 7000)),
        ("[::1]", ("::1", 6379)),
        ("::1", ("::1", 6379)),
    ],
)
def test_an_address_has_a_host_and_may_have_a_port(text, place):
    assert reach.parsed(text) == place


@pytest.mark.parametrize("addresses", [[], "db:7000", [""], [":7000"], ["db:x"], ["db:70000"]])
def test_wrong_addresses_are_refused_at_once(addresses):
    with pytest.raises(ValueError, match="address"):
        claret.Claret(addresses=addresses)


def test_the_address_that_has_answered_comes_first():
    seeds = reach.Seeds(["a:1", "b:2", "c:3"])
    seeds.prefer(("b", 2))
    assert list(seeds) == [("b", 2), ("c", 3), ("a", 1)]
    seeds.avoid(("a", 1))
    assert next(iter(seeds)) == ("b", 2)
    seeds.avoid(("b", 2))
    assert next(iter(seeds)) == ("c", 3)


def test_addresses_that_are_dead_or_silent_are_passed_over():
    with listeners(Listener(is_silent=True), Listener()) as (silent, well):
        db = client(DEAD, silent.address, well.address, socket_connect_timeout=0.2)
        assert db.execute_command("ECHO", "x") == b"OK"
        assert well.heard[0] == "PING" and well.heard[-1] == "ECHO x"
        db.close()


def test_with_asyncio_addresses_that_are_dead_or_silent_are_passed_over():
    async def story():
        with listeners(Listener(is_silent=True), Listener()) as (silent, well):
            db = aio_client(DEAD, silent.address, well.address, socket_connect_timeout=0.2)
            assert await db.execute_command("ECHO", "x") == b"OK"
            assert well.heard[0] == "PING" and well.heard[-1] == "ECHO x"
            await db.aclose()

    asyncio.run(story())


def test_the_error_names_all_addresses_that_do_not_answer():
    with listeners(Listener(is_silent=True)) as (silent,):
        db = client(DEAD, silent.address, socket_connect_timeout=0.2)
        with pytest.raises(claret.NotReached, match=f"{DEAD}.*{silent.address}") as caught:
            db.execute_command("ECHO", "x")
    assert caught.value.retryable and not caught.value.maybe_committed


def test_with_asyncio_the_error_names_all_addresses():
    async def story():
        with listeners(Listener(is_silent=True)) as (silent,):
            db = aio_client(DEAD, silent.address, socket_connect_timeout=0.2)
            with pytest.raises(claret.NotReached, match=f"{DEAD}.*{silent.address}"):
                await db.execute_command("ECHO", "x")

    asyncio.run(story())


def test_a_password_is_the_first_line_of_its_file_at_that_moment(tmp_path):
    file = tmp_path / "password"
    file.write_text("apple pie\nand a note\n")
    with listeners(Listener()) as (well,):
        db = client(well.address, username="shop", password_file=str(file))
        db.execute_command("ECHO", "x")
        assert "AUTH shop apple pie" in well.heard
        file.write_text("pear")
        db.connection_pool.disconnect()
        db.execute_command("ECHO", "x")
        assert "AUTH shop pear" in well.heard
        db.close()


def test_a_run_without_the_file_of_the_password_ends_at_once(tmp_path):
    with listeners(Listener()) as (well,):
        db = client(well.address, password_file=str(tmp_path / "none"))
        db._writers = script.writers(TABLE)
        with pytest.raises(AuthenticationError, match="file with the password.*none"):
            db.run(lambda tx: tx.get("a"), policy=POLICY)
        assert well.heard == ["PING"]


def test_without_a_leader_the_next_attempt_goes_to_another_address():
    avoided = []
    db = Client([b"OK", b"OK", NO_LEADER], [b"OK", b"OK", b"7", []])
    for connection in db.connection_pool._connections:
        connection.avoid = lambda: avoided.append("here")
    assert db.run(lambda tx: tx.get("a"), policy=POLICY) == b"7"
    assert avoided == ["here"] and db.connection_pool.out == 0


def test_a_closed_client_refuses_everything_and_sends_nothing():
    with listeners(Listener()) as (well,):
        db = client(well.address)
        db._writers = script.writers(TABLE)
        db.close()
        for work in (
            lambda: db.get("a"),
            lambda: db.run(lambda tx: tx.get("a"), policy=POLICY),
            lambda: db.lock("lock").acquire(),
            lambda: db.barrier("b", 1).wait(),
            lambda: db.section("lock").get("a"),
            lambda: db.dispatch().__enter__(),
        ):
            with pytest.raises(claret.ClientClosed):
                work()
        assert well.heard == []


def test_a_closed_client_of_asyncio_refuses_everything():
    async def story():
        async def body(tx):
            return await tx.get("a")

        with listeners(Listener()) as (well,):
            db = aio_client(well.address)
            db._writers = script.writers(TABLE)
            await db.aclose()
            for work in (
                lambda: db.get("a"),
                lambda: db.run(body, policy=POLICY),
                lambda: db.lock("lock").acquire(),
                lambda: db.dispatch().__aenter__(),
            ):
                with pytest.raises(claret.ClientClosed):
                    await work()
            assert well.heard == []

    asyncio.run(story())


def test_single_commands_have_the_labels_of_the_moment_and_no_others():
    answers = {"GET": "-BUSY later", "INCRBY": "-INDEFINITE lost", "FENCE": "-FENCED late"}
    with listeners(Listener(answers=answers)) as (well,):
        db = client(well.address)
        with pytest.raises(claret.BusyError, match="later"):
            db.get("a")
        with pytest.raises(claret.CommitUnknown, match="lost"):
            db.incr("a")
        with pytest.raises(ResponseError, match="FENCED late"):
            db.execute_command("FENCE", "lock", 7, "GET", "a")
        db.close()


def test_a_batch_that_reached_no_server_had_no_effect():
    def filled(db):
        batch = db.batch(claret.RetryPolicy(deadline_s=0))
        batch.incr("n")
        return batch

    async def story():
        db = aio_client(DEAD)
        with pytest.raises(claret.NotReached) as caught:
            await filled(db).execute()
        await db.aclose()
        return caught.value

    db = client(DEAD)
    with pytest.raises(claret.NotReached) as caught:
        filled(db).execute()
    db.close()
    for error in (caught.value, asyncio.run(story())):
        assert error.retryable and not error.maybe_committed
    with listeners(Listener(hangs_at=["MULTI"])) as (hung,):
        db = client(hung.address, socket_timeout=0.2)
        with pytest.raises(claret.CommitUnknown):
            filled(db).execute()
        db.close()
