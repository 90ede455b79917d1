"""The console: a page for people, and the numbers that it shows."""

import hashlib
import json
import signal
import threading
import urllib.request

import pytest
import redis
from clusters import UP_S_MAX
from harness import free_port, page, until

SLOTS = 16_384


def numbers(port):
    """What the page is told, if the server answers."""
    status, text = page(port, "/console.json")
    return json.loads(text) if status == 200 else None


def with_console(node):
    """Lets a node that is not started have a console; gives its port."""
    port = free_port()
    node.flags += ["--metrics-port", str(port)]
    return port


def test_the_page_is_whole_and_asks_nobody_else(make_server):
    server = make_server()
    port = with_console(server)
    server.start()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/console", timeout=5) as answer:
        text, headers = answer.read().decode(), answer.headers
    assert headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "<script src" not in text and "<link" not in text and "://" not in text
    assert 'fetch("console.json"' in text and "does not answer" in text
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/console.json", timeout=5) as answer:
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["Cache-Control"] == "no-store"


def test_scripts_are_shown_with_their_runs_and_steps(make_server):
    server = make_server(shards=3)
    port = with_console(server)
    server.start()
    one = "return redis.call('incr', KEYS[1])"
    many = "for i = 1, 100 do redis.call('incr', 'k' .. i) end"
    library = "#!lua name=l\nredis.register_function('twice', function(k, a) return a[1] * 2 end)"
    with server.client() as client:
        for _ in range(5):
            client.eval(one, 1, "k")
        for _ in range(2):
            client.eval(many, 0)
        client.set("word", "x")
        with pytest.raises(redis.ResponseError):
            client.eval(one, 1, "word")
        client.function_load(library)
        assert client.fcall("twice", 0, 4) == 8
    counts = {(told["function"] or told["text"]): told for told in numbers(port)["scripts"]}
    told = counts[hashlib.sha1(one.encode()).hexdigest()]
    assert (told["at_shards"], told["at_gateways"], told["failed"]) == (6, 0, 1)
    told = counts[hashlib.sha1(many.encode()).hexdigest()]
    assert (told["at_shards"], told["at_gateways"], told["failed"]) == (0, 2, 0)
    assert told["steps"] > 200
    told = counts["twice"]
    assert (told["at_shards"], told["at_gateways"], told["failed"]) == (0, 1, 0)
    assert numbers(port)["scripts"][0]["text"] == hashlib.sha1(many.encode()).hexdigest()
    metrics = page(port, "/metrics")[1]
    for line in ['scripts_total{at="shard"} 6', 'scripts_total{at="gateway"} 3', "scripts_failed_total 1"]:
        assert f"claret_{line}\n" in metrics, line


def test_a_server_that_is_alone_tells_of_itself(make_server):
    server = make_server(shards=3)
    port = with_console(server)
    server.start()
    with server.client() as client:
        for number in range(100):
            client.set(f"key:{number}", number)
    told = numbers(port)
    assert told["cluster"] is None and told["ready"] and told["answering"] == told["workers"] == 2
    slots = sorted(slot for shard in told["shards"] for slot in shard["slots"])
    assert sum(last - first + 1 for first, last in slots) == SLOTS
    assert slots[0][0] == 0 and slots[-1][1] == SLOTS - 1
    assert sum(shard["here"]["keys"] for shard in told["shards"]) == 100
    assert sum(shard["here"]["requests"] for shard in told["shards"]) >= 100
    assert {shard["leader"] for shard in told["shards"]} == {1}
    assert told["gateway"]["commands"] >= 100 and told["memory"]["used_bytes"] > 0
    assert told["log"]["log_syncs_total"] > 0 and told["hot_keys"] == []


def wait_for_a_lock(server, key, **options):
    """Lets one transaction wait until another one lets go of a key."""
    with server.client(**options) as first, server.client(**options) as second:
        first.execute_command("TXN", "BEGIN")
        first.execute_command("INCR", key)

        def wait():
            second.execute_command("TXN", "BEGIN")
            second.execute_command("INCR", key)
            second.execute_command("TXN", "COMMIT")

        waiting = threading.Thread(target=wait)
        waiting.start()
        until(lambda: waiting_now(server, options) == 1, 10, "a wait")
        first.execute_command("TXN", "COMMIT")
        waiting.join(10)
        assert not waiting.is_alive()


def waiting_now(server, options):
    """How many requests wait for a lock, by the command that tells."""
    with server.client(**options) as client:
        return client.info("transactions")["lock_waiting_now"]


def test_hot_keys_are_named_to_those_who_could_read_them(make_server):
    server = make_server()
    port = with_console(server)
    server.start()
    wait_for_a_lock(server, "<b>hot</b>")
    told = numbers(port)
    assert told["shows_keys"]
    [hot] = told["hot_keys"]
    assert hot["key"] == "<b>hot</b>" and hot["waits"] == 1 and hot["waited_us"] > 0
    assert told["conflicts"] and told["conflicts"][0]["count"] >= 1


def test_keys_are_not_named_where_a_password_is_needed(make_server):
    server = make_server(config='password = "s3cret"\n')
    port = with_console(server)
    server.start()
    wait_for_a_lock(server, "customer:4711", password="s3cret")
    _, text = page(port, "/console.json")
    told = json.loads(text)
    assert not told["shows_keys"] and told["hot_keys"][0]["key"] is None
    assert told["hot_keys"][0]["waits"] == 1 and "4711" not in text


def test_a_cluster_is_seen_from_every_machine(make_cluster):
    cluster = make_cluster(shards=6)
    ports = [with_console(node) for node in cluster.nodes]
    cluster.start()

    def whole(port):
        told = numbers(port)
        if not told or not told["ready"]:
            return None
        machines = told["cluster"]["machines"]
        up = all(machine["connected"] for machine in machines)
        led = all(shard["leader"] for shard in told["shards"])
        return told if up and led else None

    seen = [until(lambda: whole(port), UP_S_MAX, "a whole cluster") for port in ports]
    for number, told in enumerate(seen, 1):
        machines = told["cluster"]["machines"]
        assert [machine["machine"] for machine in machines] == [1, 2, 3]
        assert told["cluster"]["machine"] == number
        assert {machine["level"] for machine in machines} == {told["cluster"]["level"]}
        assert sum(machine["leads"] for machine in machines) == len(told["shards"]) == 6
        assert all(shard["holders"] == [1, 2, 3] for shard in told["shards"])

    cluster.nodes[2].kill()

    def lost():
        machines = numbers(ports[0])["cluster"]["machines"]
        return not machines[2]["connected"] and machines[2]["level"] is None

    until(lost, UP_S_MAX, "machine 3 to be missed")


def test_a_server_that_stands_still_does_not_answer(make_server):
    server = make_server()
    port = with_console(server)
    server.start()
    assert numbers(port)
    server.process.send_signal(signal.SIGSTOP)
    try:
        # What was on its way when the signal came is answered still.
        until(lambda: page(port, "/console.json")[0] == 0, 10, "the server to stand still")
    finally:
        server.process.send_signal(signal.SIGCONT)
    until(lambda: numbers(port), 10, "the server to answer again")


def worst(port):
    """The worst that a console says of its machine, or nothing."""
    told = numbers(port)
    return told["troubles"][0]["text"] if told and told["troubles"] else ""


def test_the_worst_stands_on_top(make_server):
    server = make_server(config='maxmemory = "1gb"\n')
    port = with_console(server)
    server.start()
    told = numbers(port)
    assert told["ready"] and told["troubles"] == []
    assert page(port, "/ready") == (200, "ready\n")
    with server.client() as client:
        client.set("a", "x" * (4 << 20))
        client.config_set("maxmemory", "2mb")
        until(lambda: "writes that grow are refused" in worst(port), 10, "a refusal on top")
        code, text = page(port, "/ready")
        assert code == 200 and "writes that grow are refused" in text
        client.config_set("maxmemory", "1gb")
        until(lambda: worst(port) == "", 10, "a console without troubles")
    _, text = page(port, "/console")
    assert 'd.troubles[0]' in text and "stands out" in text


def test_a_machine_that_stands_still_is_on_top_of_the_others_consoles(make_cluster):
    cluster = make_cluster()
    ports = [with_console(node) for node in cluster.nodes]
    cluster.start()
    until(lambda: numbers(ports[0])["troubles"] == [], UP_S_MAX, "a whole cluster")
    cluster.nodes[2].process.send_signal(signal.SIGSTOP)
    try:
        until(lambda: "machine 3 is not connected" in worst(ports[0]), 20, "machine 3 to be missed")
        told = numbers(ports[0])
        assert told["troubles"][0]["grade"] == "bad"
    finally:
        cluster.nodes[2].process.send_signal(signal.SIGCONT)
    until(lambda: worst(ports[0]) == "", UP_S_MAX, "a whole cluster again")
