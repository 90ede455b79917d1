"""Whether the judges of histories can say no: what a healthy server did, and lies about it."""

import json
import threading
import time

import pytest
from clusters import Cluster, Worker
from histories import ACCOUNTS, History, Observer, fill, judge, judge_outside, look, porcupine

SECONDS = 3
CLIENTS = 6


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """What clients of three healthy machines saw, line by line."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), shards=3)
    try:
        history = History(cluster.folder / "history.jsonl")
        cluster.start()
        fill(cluster, history)
        stop = threading.Event()
        observers = [Observer(cluster, number, stop, history) for number in range(CLIENTS)]
        time.sleep(SECONDS)
        Worker.finish(observers, cluster)
        look(cluster, history, observers)
        history.file.close()
    finally:
        for node in cluster.nodes:
            node.kill()
    return [json.loads(line) for line in history.path.read_text().splitlines()]


def completed(events, suits):
    """A transaction from the middle that suits, with its completion."""
    open_by, found = {}, []
    for event in events:
        if event["type"] == "invoke":
            open_by[event["process"]] = event
        elif event["type"] == "ok":
            invoked = open_by[event["process"]]
            if suits(invoked["txn"], event["replies"]):
                found.append((invoked, event))
    return found[len(found) // 2]


def seen_by_later_reads(events):
    """What was acknowledged before a read was asked that saw it."""
    open_by, acknowledged_at, seen = {}, {}, set()
    for at, event in enumerate(events):
        if event["type"] == "invoke":
            open_by[event["process"]] = at, event["txn"]
        elif event["type"] == "ok":
            asked_at, txn = open_by[event["process"]]
            for words, reply in zip(txn, event["replies"]):
                if words[0] == "lrange":
                    seen |= {one for one in reply if acknowledged_at.get(one, at) < asked_at}
                elif words[0] == "rpush":
                    acknowledged_at[words[2]] = at
    return seen


def nothing(events):
    """nothing"""


def replies_that_were_lost(events):
    """transactions that took effect and whose replies nobody knows"""
    answered = [e for e in events if e["type"] == "ok" and e["process"] < CLIENTS]
    for event in answered[::20]:
        del event["replies"]


def a_lost_append(events):
    """an append that was acknowledged and that nobody sees"""
    # The last append to a list may have nobody who read it: to lose that one is no lie.
    seen = seen_by_later_reads(events)

    def suits(txn, _):
        return len(txn) == 1 and txn[0][0] == "rpush" and txn[0][2] in seen

    value = completed(events, suits)[0]["txn"][0][2]
    for event in events:
        event["replies"] = [
            [one for one in reply if one != value] if isinstance(reply, list) else reply
            for reply in event.get("replies", [])
        ]


def a_stale_read(events):
    """a list without its last element"""
    _, ok = completed(events, lambda txn, replies: txn[0][0] == "lrange" and len(replies[0]) > 9)
    # The last elements may have been concurrent.
    ok["replies"][0] = ok["replies"][0][: -CLIENTS - 1]


def swapped_elements(events):
    """a list whose first elements are in another order than for everybody else"""
    _, ok = completed(events, lambda txn, replies: txn[0][0] == "lrange" and len(replies[0]) > 9)
    first, second, *rest = ok["replies"][0]
    ok["replies"][0] = [second, first, *rest]


def money_from_nowhere(events):
    """an account that is seen with too much"""
    _, ok = completed(events, lambda txn, _: len(txn) == len(ACCOUNTS) and txn[0][0] == "get")
    ok["replies"][0] = str(int(ok["replies"][0]) + 1000)


TRUTHS = [nothing, replies_that_were_lost]
LIES = [a_lost_append, a_stale_read, swapped_elements, money_from_nowhere]


def file_of(events, change, tmp_path):
    """A history, changed."""
    copy = json.loads(json.dumps(events))
    change(copy)
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in copy))
    return path


@pytest.mark.parametrize("change", [*TRUTHS, *LIES])
def test_our_checkers_believe_the_truth_only(events, change, tmp_path):
    verdicts = judge(file_of(events, change, tmp_path))
    valid = all(verdict["valid"] is not False for verdict in verdicts.values())
    assert valid == (change in TRUTHS), json.dumps(verdicts)[:400]


@pytest.mark.parametrize("change", [*TRUTHS, *LIES])
def test_the_checker_that_is_not_ours_believes_the_truth_only(events, change, tmp_path):
    if not porcupine():
        pytest.skip("there is no Go to build it with: cargo xtask setup")
    expected = "ok" if change in TRUTHS else "illegal"
    assert judge_outside(file_of(events, change, tmp_path)) == expected, change.__doc__
