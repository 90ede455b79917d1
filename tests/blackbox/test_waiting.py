"""Commands that wait for something to take: who is served, and when."""

from harness import until

ROUNDS = 200


def waiting(client):
    return client.info("clients")["blocked_clients"]


def test_clients_are_served_in_the_order_in_which_they_are_seen_to_wait(make_server):
    server = make_server(shards=2, workers=2).start()
    with server.client() as client:
        pool = client.connection_pool
        first, second = pool.get_connection(), pool.get_connection()
        inversions = []
        for number in range(ROUNDS):
            key = f"list:{number}"
            first.send_command("BLPOP", key, 0)
            until(lambda: waiting(client) == 1)
            second.send_command("BLPOP", key, 0)
            until(lambda: waiting(client) == 2)
            client.rpush(key, "a", "b")
            got = [first.read_response(), second.read_response()]
            if got != [[key, "a"], [key, "b"]]:
                inversions.append(got)
        pool.release(first)
        pool.release(second)
    assert not inversions, f"{len(inversions)} of {ROUNDS}, the first is {inversions[0]}"


def test_who_is_listed_as_waiting_can_be_released(make_server):
    server = make_server().start()
    with server.client() as client:
        pool = client.connection_pool
        connection = pool.get_connection()
        connection.send_command("CLIENT", "ID")
        number = connection.read_response()
        connection.send_command("BLPOP", "a", "b", "c", 0)

        def is_listed():
            row = [row for row in client.client_list() if row["id"] == str(number)]
            return "b" in row[0]["flags"]

        until(is_listed)
        assert waiting(client) == 1
        assert client.client_unblock(number)
        assert connection.read_response() is None
        assert waiting(client) == 0 and not is_listed()
        pool.release(connection)


def test_who_waits_for_a_lock_goes_on_when_its_key_holds_something_else(make_server):
    server = make_server().start()
    with server.client() as client:
        pool = client.connection_pool
        connection = pool.get_connection()
        assert client.execute_command("LOCK.ACQUIRE", "lock", "LEASE", 60_000) > 0
        connection.send_command("LOCK.ACQUIRE", "lock", "LEASE", 60_000)
        until(lambda: client.execute_command("LOCK.WAITERS", "lock"))
        with client.pipeline() as pipe:
            pipe.delete("lock").set("lock", "x")
            pipe.execute()
        assert not connection.can_read(timeout=0.3)
        assert client.get("lock") == "x"
        client.delete("lock")
        assert connection.read_response() > 0
        pool.release(connection)
