"""Kept locks: order and tokens of stays, and when the lock is given back."""

import math
import time

import pytest

import claret
from claret.keep import Keep, Kept, Stay


class Grant:
    """A grant to a process, as far as it is needed here."""

    lost = False
    left = 20.0

    def __init__(self, token):
        self.token = token


def arrivals(kept, count):
    stays = [Stay("lock", None) for _ in range(count)]
    kept.line.extend(stays)
    return stays


def through(kept, stay):
    """Begins and ends a stay; returns its token, and the grant to give back."""
    assert kept.is_next(stay) and kept.enter(stay)
    token = stay.token
    assert kept.take_back() is None, "there is a stay"
    assert stay.end()
    kept.leave(stay)
    return token, kept.take_back()


def test_a_lock_stays_and_each_stay_has_a_token_of_its_own():
    kept, grant = Kept(cohort=2, tokens=100), Grant(50)
    [first] = arrivals(kept, 1)
    assert not kept.enter(first), "the process does not have it"
    kept.granted(grant)
    assert through(kept, first) == (50, None)
    for number in range(1, 4):
        [stay] = arrivals(kept, 1)
        assert through(kept, stay) == (50 + number, None)
    assert kept.grant is grant
    with pytest.raises(claret.NotAcquired):
        first.token
    with pytest.raises(claret.LockLost):
        first.require()


def test_a_recalled_lock_goes_back_without_waiters_or_after_a_cohort():
    kept, grant = Kept(cohort=2, tokens=100), Grant(50)
    kept.granted(grant)
    kept.recalled = True
    assert kept.take_back() is grant and kept.take_back() is None
    kept.granted(grant)
    assert kept.take_back() is None, "no other client wants it any more"
    stays = arrivals(kept, 5)
    assert through(kept, stays[0]) == (50, None)
    kept.recalled = True
    assert through(kept, stays[1]) == (51, None)
    assert through(kept, stays[2]) == (52, grant)
    assert not kept.enter(stays[3]), "it is asked for anew"
    other = Grant(900)
    kept.granted(other)
    assert through(kept, stays[3]) == (900, None)
    kept.recalled = True
    assert through(kept, stays[4]) == (901, other), "there is no further waiter"


def test_a_block_has_an_end_and_so_has_a_lock_that_is_closed():
    kept, grant = Kept(cohort=2, tokens=2), Grant(50)
    kept.granted(grant)
    stays = arrivals(kept, 3)
    assert through(kept, stays[0]) == (50, None)
    assert through(kept, stays[1]) == (51, grant)
    kept.granted(Grant(60))
    kept.closed = True
    assert kept.enter(stays[2])
    kept.leave(stays[2])
    assert kept.take_back().token == 60


def test_a_lost_lock_is_left_to_its_lease_and_its_stay_knows():
    kept, grant = Kept(cohort=2, tokens=10), Grant(50)
    kept.granted(grant)
    first, second = arrivals(kept, 2)
    assert kept.enter(first) and not kept.is_next(second)
    grant.lost = True
    assert first.lost and kept.take_back() is None
    with pytest.raises(claret.LockLost):
        first.require()
    assert kept.lapse(grant) is first and kept.lapse(grant) is None
    assert kept.is_next(second) and not kept.enter(second)
    kept.granted(Grant(90))
    assert kept.enter(second)
    # A stay of the former grant ends late, and blocks no other.
    assert first.end()
    kept.leave(first)
    assert kept.inside is second
    with pytest.raises(ValueError):
        Kept(cohort=0, tokens=1)


def course(users, away_s=1_000.0):
    """Simulates a lock whose next user is ours or another client in turns: number of requests, and
    of recalls from a process without a stay."""
    keep, has, asked, recalled = Keep(), False, 0, 0
    for ours in users:
        if ours and has:
            keep.came_back()
        elif ours:
            keep.granted(math.inf if asked == 0 else away_s, 0.02)
            asked += 1
            has = keep.keeps
        elif has:
            keep.recalled()
            recalled += 1
            has = False
    return asked, recalled


def test_whether_it_pays_to_keep_a_lock_is_found_out_and_followed():
    alone, turns = [True], [True, False]
    assert course(alone * 1_000, away_s=0.0) == (2, 0)
    assert course(alone * 1_000) == (8, 0)
    assert course(turns * 1_000) == (1_000, 3 + (1_000 - 56) // 64), "a try for 64 in the end"
    asked, recalled = course([True] * 100 + turns * 500 + [True] * 500)
    assert recalled < 20 and asked < 8 + 500 + 64


def test_an_adaptive_lock_goes_back_unheard_until_it_pays_to_keep_it():
    kept = Kept(cohort=2, tokens=100, adaptive=True)
    long_after = time.monotonic() + 1_000.0
    for turn in range(7):
        [stay] = arrivals(kept, 1)
        grant = Grant(50 + turn)
        kept.granted(grant, long_after)
        assert kept.recalled, "the process does not listen for other clients"
        assert through(kept, stay) == (50 + turn, grant)
    [stay] = arrivals(kept, 1)
    grant = Grant(90)
    kept.granted(grant, long_after)
    assert not kept.recalled and through(kept, stay) == (90, None)
    kept.recall()
    assert kept.take_back() is grant, "another client wanted it while there was no stay"
    [stay] = arrivals(kept, 1)
    kept.granted(Grant(99), long_after)
    assert kept.recalled, "it goes back each time again"
