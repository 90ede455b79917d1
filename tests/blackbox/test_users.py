"""Users in the store: made, changed and removed while the server runs."""

import hashlib
import threading
import time

import pytest
import redis
from harness import until
from test_backup import alone, backup


def digest(password):
    return hashlib.sha256(password.encode()).hexdigest()


def login(server, user, password):
    """A client of a user, which has logged in."""
    client = server.client(username=user, password=password)
    can(client.ping)
    return client


def can(call):
    """Whether a user may call a command."""
    try:
        call()
    except redis.exceptions.NoPermissionError:
        return False
    return True


def refused(server, user, password):
    with pytest.raises(redis.AuthenticationError):
        login(server, user, password)
    return True


@pytest.fixture
def operator(server):
    client = server.client()
    yield client
    for user in client.acl_users():
        if user != "default":
            client.acl_deluser(user)
    client.close()


def test_a_user_is_made_with_a_stock_library(server, operator):
    made = operator.acl_setuser(
        "ann", enabled=True, passwords=["+first", "+second"], categories=["+read", "+connection"],
        commands=["+set", "+acl|whoami"], keys=["app:*"], channels=["news"],
    )
    assert made
    facts = operator.acl_getuser("ann")
    assert "on" in facts["flags"] and sorted(facts["passwords"]) == sorted(map(digest, ["first", "second"]))
    assert facts["keys"] == ["~app:*"] and facts["channels"] == ["&news"] and facts["enabled"]
    assert any(line.startswith("user ann on #") for line in operator.acl_list())
    for password in ["first", "second"]:
        client = login(server, "ann", password)
        assert client.acl_whoami() == "ann" and client.set("app:1", "x") and client.get("app:1") == "x"
        for words in (["GET", "b"], ["DEL", "app:1"], ["ACL", "LIST"]):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words)
    refused(server, "ann", "third")
    operator.execute_command("ACL", "SETUSER", "ann", "!" + digest("first"))
    assert refused(server, "ann", "first") and login(server, "ann", "second")
    operator.execute_command("ACL", "SETUSER", "ann", "#" + digest("given as a digest"))
    assert login(server, "ann", "given as a digest")
    assert operator.acl_deluser("ann", "nobody") == 1 and refused(server, "ann", "second")


def test_new_rights_hold_for_all_connections_at_once(make_server):
    server = make_server(workers=2, shards=4).start()
    operator = server.client()
    operator.acl_setuser("ann", enabled=True, nopass=True, categories=["+all"], keys=["*"])
    clients = [login(server, "ann", "any") for _ in range(8)]
    for round_ in range(20):
        operator.acl_setuser("ann", enabled=True, nopass=True, reset=True, commands=["+get"], keys=["a*"])
        for client in clients:
            client.get("a")
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.get("b")
        operator.execute_command("ACL", "SETUSER", "ann", "~*")
        for client in clients:
            client.get("b")
    waits = login(server, "ann", "any")
    operator.execute_command("ACL", "SETUSER", "ann", "+blpop")
    threading.Timer(0.3, operator.acl_deluser, ["ann"]).start()
    with pytest.raises(redis.ConnectionError):
        waits.blpop("nothing", 30)
    for client in clients:
        with pytest.raises(redis.RedisError):
            client.get("a")


def test_operators_see_no_passwords(make_server):
    server = make_server(workers=1, shards=1).start()
    operator = server.client()
    operator.config_set("slowlog-log-slower-than", 0)
    operator.acl_setuser("ann", enabled=True, passwords=["+geheim"])
    assert "geheim" not in str(operator.slowlog_get(100)) + str(operator.acl_list()) + server.said()
    with pytest.raises(redis.ResponseError) as error:
        operator.execute_command("ACL", "SETUSER", "ann", "<geheim-2")
    assert "geheim" not in str(error.value)


def test_users_outlive_everything_but_their_removal(make_server, tmp_path):
    server = make_server(shards=4).start()
    operator = server.client()
    for n in range(30):
        operator.acl_setuser(f"user{n}", enabled=True, passwords=[f"+p{n}"], categories=["+all"], keys=["*"])
    before = operator.acl_list()
    operator.flushall()
    operator.flushdb()
    operator.script_flush()
    assert operator.dbsize() == 0 and operator.keys() == [] and operator.scan() == (0, [])
    path = tmp_path / "backup"
    backup(server, path)
    operator.acl_deluser("user0")
    server.kill()
    server.start()
    assert server.client().acl_list() == [line for line in before if not line.startswith("user user0 ")]
    assert login(server, "user29", "p29").set("k", "v") and refused(server, "user0", "p0")
    server.kill()
    again = alone(path, tmp_path / "restored", shards=2)
    assert again.client().acl_list() == before and login(again, "user0", "p0")
    again.kill()


def test_a_user_may_be_in_the_file_or_in_the_store(make_server):
    server = make_server(shards=1).start()
    operator = server.client()
    operator.acl_setuser("ann", enabled=True, passwords=["+stored"], categories=["+all"])
    for words in (["SETUSER", "default", "off"], ["SETUSER", "default", ">p"]):
        with pytest.raises(redis.ResponseError, match="configuration file"):
            operator.execute_command("ACL", *words)
    server.kill()
    users = '[[users]]\nname = "default"\nrules = ["on", "nopass", "+@all", "~*", "&*"]\n'
    config = users + '[[users]]\nname = "ann"\npassword = "filed"\nrules = ["on", "+@read", "~*"]\n'
    other = make_server(config=config, shards=1)
    other.data = server.data
    other.start()
    # The file decides, also over a user that is in the store.
    assert refused(other, "ann", "stored") and login(other, "ann", "filed")
    lines = other.client().acl_list()
    assert [line for line in lines if line.startswith("user ann")] == ["user ann on ~* resetchannels -@all +@read"]


def test_all_machines_know_of_a_user(make_cluster):
    cluster = make_cluster().start()
    first, second, third = cluster.nodes
    operator = first.client()
    operator.acl_setuser("ann", enabled=True, passwords=["+p"], categories=["+all"], keys=["*"])
    clients = [login(node, "ann", "p") for node in cluster.nodes]
    third.client().execute_command("ACL", "SETUSER", "ann", "-get")
    for client in clients:
        until(lambda client=client: not can(lambda: client.get("a")), 5)
    # A machine that stands still hears of it when it goes on.
    pause = threading.Thread(target=cluster.pause, args=(second, 3))
    pause.start()
    time.sleep(0.5)
    operator.execute_command("ACL", "SETUSER", "ann", "+get", "-set")
    pause.join()
    until(lambda: can(lambda: clients[1].get("a")) and not can(lambda: clients[1].set("a", 1)), 30)
    assert operator.acl_deluser("ann") == 1
    for node in cluster.nodes:
        refused(node, "ann", "p")


def test_users_are_limited(make_server):
    server = make_server(workers=1, shards=1).start()
    operator = server.client()
    passwords = [f"+{n}" for n in range(32)]
    operator.acl_setuser("ann", passwords=passwords)
    with pytest.raises(redis.ResponseError, match="at most 32 passwords"):
        operator.acl_setuser("ann", passwords=["+one more"])
    with pytest.raises(redis.ResponseError, match="at most 1024 bytes"):
        operator.execute_command("ACL", "SETUSER", "ann", "~" + "k" * 1024)
    # 4 MiB of rules.
    rules = [f"~{n:0500}" for n in range(1000)]
    with pytest.raises(redis.ResponseError, match="at most 4194304 bytes"):
        for n in range(20):
            operator.execute_command("ACL", "SETUSER", f"user{n}", *rules)
    assert len(operator.acl_users()) == 10
    begin = time.monotonic()
    operator.execute_command("ACL", "SETUSER", "user0", "resetkeys")
    operator.execute_command("ACL", "SETUSER", "user9", *rules[:10])
    assert time.monotonic() - begin < 5


def test_a_login_without_a_leader_is_answered(make_cluster):
    cluster = make_cluster().start()
    first, second, third = cluster.nodes
    first.client().acl_setuser("ann", enabled=True, passwords=["+p"], categories=["+all"], keys=["*"])
    socket = first.socket()
    lines = socket.makefile("rb")

    def said(line):
        socket.sendall(line.encode() + b"\r\n")
        return lines.readline().decode().split()[0]

    second.kill()
    third.kill()
    until(lambda: said("GET a") == "-CLUSTERDOWN", 30)
    # Whatever came before on the connection: each login has its answer, and the connection goes on.
    for line in ("PING", "AUTH ann p", "PING", "HELLO 3 AUTH ann p", "AUTH ann p", "PING"):
        assert said(line) == ("+PONG" if line == "PING" else "-CLUSTERDOWN"), line
    second.start()
    third.start()
    until(lambda: said("AUTH ann p") == "+OK", 60)
    socket.close()
