"""Pauses, request numbers, deferred replies, labels of errors."""

import os
import uuid

import pytest

import claret
from claret import errors, script


def test_pauses_grow_to_their_limit_and_end():
    policy = claret.RetryPolicy(attempts_max=40, pause_s_min=0.001, pause_s_max=0.05)
    pauses = list(policy.pauses())
    assert len(pauses) == 40 and pauses[0] == 0
    assert all(0 <= pause <= 0.05 for pause in pauses)
    assert len(set(pauses)) > 30, "rivals must not meet again"
    assert max(policy.pause(1) for _ in range(100)) <= 0.002


def test_one_attempt_is_always_made_and_a_deadline_ends_the_others():
    assert len(list(claret.RetryPolicy(deadline_s=0).pauses())) == 1
    assert len(list(claret.RetryPolicy(attempts_max=1).pauses())) == 1


def test_request_numbers_differ_even_after_a_fork(monkeypatch):
    requests = script.Requests()
    with requests.borrow() as numbered:
        first, second = next(numbered), next(numbered)
        with requests.borrow() as other:
            assert next(other)[0] != first[0], "a name belongs to one at a time"
    assert first[0] == second[0] and first[1] < second[1]
    assert len(first[0]) <= 64
    with requests.borrow() as one, requests.borrow() as two:
        again = [next(one), next(two)]
    assert [number for name, number in again if name == first[0]] == [3], "names are used again"
    child = os.getpid() + 1
    monkeypatch.setattr(script.os, "getpid", lambda: child)
    with requests.borrow() as numbered:
        assert next(numbered)[0] not in [first[0], again[0][0], again[1][0]]


def test_a_thread_may_ask_for_its_first_number_while_another_does(monkeypatch):
    requests, draw, names = script.Requests(), uuid.uuid4, []

    def borrow():
        with requests.borrow() as numbered:
            names.append(next(numbered)[0])

    def interrupted():
        monkeypatch.setattr(script.uuid, "uuid4", draw)
        borrow()
        return draw()

    monkeypatch.setattr(script.uuid, "uuid4", interrupted)
    borrow()
    assert len(set(names)) == 2


def test_deferred_replies_convert_and_raise():
    reply = claret.Deferred()._then(int)._then(lambda n: n + 1)
    assert "open" in repr(reply)
    reply._set(b"4")
    assert reply.value == 5 and "5" in repr(reply)
    reply = claret.Deferred()._then(int)
    reply._set(ValueError("no"))
    with pytest.raises(ValueError):
        reply.value


def test_labels_follow_the_code_of_the_error():
    for text, kind in [
        ("TXNABORT gave way", errors.ConflictError),
        ("BUSY later", errors.BusyError),
        ("REPEATED before", errors.RepeatedError),
    ]:
        error = errors.translate(errors.ResponseError(text))
        assert type(error) is kind and str(error) == text.split(" ", 1)[1]
    down = errors.translate(errors.ClusterDownError("shard 1 has no leader"))
    assert type(down) is errors.NoLeader and down.retryable and "no leader" in str(down)
    other = errors.ResponseError("WRONGTYPE no")
    assert errors.translate(other) is other
    assert errors.ConflictError.retryable and not errors.ConflictError.maybe_committed
    assert errors.BusyError.busy and errors.CommitUnknown.maybe_committed
