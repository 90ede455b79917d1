package tests

import (
	"context"
	"errors"
	"testing"
	"time"

	claret "claret/go"
	"claret/go/clarettest"
)

func TestSectionIsCarriedOutOnceWhenItsAnswerIsLost(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	direct := connect(t, s.Addr)
	j := judge(t, s.Addr, rule{"EXEC", "lose", 1})
	section := connect(t, j.address).Section("{l}", claret.SectionOptions{})
	equal(t, section.Token(), 0)
	equal(t, section.Do(ctx, "INCR", "{l}:n").Val(), any(int64(1)))
	first := section.Token()
	equal(t, direct.Get(ctx, "{l}:n").Val(), "1")
	equal(t, section.Do(ctx, "INCR", "{l}:n").Val(), any(int64(2)))
	equal(t, section.Token() > first, true)
}

func TestSectionIsUnknownWhenItsFirstRequestMayStillWait(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	lock, err := connect(t, s.Addr).Lock(ctx, "{l}", claret.LockOptions{})
	check(t, err)
	db := connect(t, judge(t, s.Addr, rule{"EXEC", "lose", 1}).address)
	options := claret.SectionOptions{Timeout: 300 * time.Millisecond}
	err = db.Section("{l}", options).Do(ctx, "INCR", "{l}:n").Err()
	equal(t, errors.Is(err, claret.ErrUnknown), true)
	check(t, lock.Unlock(ctx))
}

func TestSectionTakesOperationsOfATypeButNotSelect(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	visits, err := claret.ParseType("type visits\npart n counter\nop add by:int\n  counter.add n $by\n")
	check(t, err)
	_, err = visits.Define(ctx, db)
	check(t, err)
	section := db.Section("{l}", claret.SectionOptions{})
	check(t, visits.On(section, "{l}:v").Call(ctx, "add", 2).Err())
	equal(t, errors.Is(section.Do(ctx, "SELECT", 1).Err(), claret.ErrOrder), true)
	wrong := claret.SectionOptions{Shared: true, Limit: 2}
	equal(t, db.Section("{l}", wrong).Do(ctx, "INCR", "{l}:n").Err() != nil, true)
	equal(t, db.Exists(ctx, "{l}:n").Val(), 0)
}

func TestReleaseWhoseAnswerIsLostTellsWhetherTheLockWasHeld(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	direct := connect(t, s.Addr)
	for _, options := range []claret.LockOptions{{}, {Near: true}, {Next: true}} {
		j := judge(t, s.Addr)
		db := connect(t, j.address)
		lock, err := db.Lock(ctx, "l", options)
		check(t, err)
		j.add(rule{"LOCK.RELEASE", "lose", 1})
		check(t, lock.Unlock(ctx))
		options.Lease = 3 * time.Second
		lock, err = db.Lock(ctx, "l", options)
		check(t, err)
		check(t, direct.Del(ctx, "l").Err())
		j.add(rule{"LOCK.RELEASE", "lose", 1})
		err = lock.Unlock(ctx)
		// The server that keeps a lock learns of the deletion by a message.
		if !errors.Is(err, claret.ErrLockLost) && !options.Near {
			t.Fatal(err)
		}
	}
}

func TestLocksWithNearAndNextAreGuardedByFences(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	for _, options := range []claret.LockOptions{{Near: true}, {Next: true}} {
		lock, err := db.Lock(ctx, "l", options)
		check(t, err)
		check(t, db.Fenced(lock).Do(ctx, "INCR", "n").Err())
		err = db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
			tx.Incr(ctx, "n")
			return tx.Require(ctx, lock)
		})
		equal(t, errors.Is(err, claret.ErrOrder), true)
		check(t, lock.Unlock(ctx))
		options.Shared = true
		_, err = db.Lock(ctx, "l", options)
		equal(t, err != nil, true)
	}
	_, err := db.Lock(ctx, "l", claret.LockOptions{Near: true, Next: true})
	equal(t, err != nil, true)
	_, err = db.Retain("l", claret.LockOptions{Near: true})
	equal(t, errors.Is(err, claret.ErrOrder), true)
	_, err = db.Campaign(ctx, "l", "here", claret.LockOptions{Next: true})
	equal(t, errors.Is(err, claret.ErrOrder), true)
	equal(t, db.Get(ctx, "n").Val(), "2")
}
