package tests

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	claret "claret/go"
	"claret/go/clarettest"
)

func TestLockIsRenewedAndLost(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	options := claret.LockOptions{Lease: 300 * time.Millisecond}
	lock, err := db.Lock(ctx, "{l}", options)
	check(t, err)
	time.Sleep(700 * time.Millisecond)
	equal(t, lock.Held(), true)
	check(t, db.Fenced(lock).Do(ctx, "SET", "{l}:x", "first").Err())
	lock.StopRenewing()
	next, err := db.Lock(ctx, "{l}", options)
	check(t, err)
	<-lock.Context().Done()
	equal(t, errors.Is(context.Cause(lock.Context()), claret.ErrLockLost), true)
	equal(t, lock.Held(), false)
	equal(t, next.Token() > lock.Token(), true)
	check(t, db.Fenced(next).Do(ctx, "SET", "{l}:x", "second").Err())
	err = db.Fenced(lock).Do(ctx, "SET", "{l}:x", "late").Err()
	equal(t, errors.Is(err, claret.ErrLockLost), true)
	batch := db.Batch()
	batch.Fence(lock)
	batch.Set(ctx, "{l}:x", "late", 0)
	_, err = batch.Execute(ctx)
	if !errors.Is(err, claret.ErrLockLost) {
		t.Fatal(err)
	}
	equal(t, db.Get(ctx, "{l}:x").Val(), "second")
	equal(t, errors.Is(lock.Unlock(ctx), claret.ErrLockLost), true)
	check(t, next.Unlock(ctx))
}

func TestLockIsReleasedAfterTheEndOfTheContext(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	short, cancel := context.WithCancel(ctx)
	lock, err := db.Lock(short, "l", claret.LockOptions{})
	check(t, err)
	cancel()
	check(t, lock.Unlock(short))
	_, err = db.Lock(ctx, "l", claret.LockOptions{NoWait: true})
	check(t, err)
	_, err = db.Lock(ctx, "l", claret.LockOptions{NoWait: true})
	equal(t, errors.Is(err, claret.ErrNotAcquired) && claret.Retryable(err), true)
}

func TestLostAnswerOfALockIsGrantedOnce(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	db := connect(t, judge(t, s.Addr, rule{"LOCK.ACQUIRE", "lose", 1}).address)
	lock, err := db.Lock(ctx, "l", claret.LockOptions{})
	check(t, err)
	equal(t, lock.Held(), true)
	check(t, lock.Unlock(ctx))
}

func TestTransactionRequiresALock(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	lock, err := db.Lock(ctx, "l", claret.LockOptions{})
	check(t, err)
	publish := func(ctx context.Context, tx *claret.Tx) error {
		tx.Write("INCR", "n")
		// Its error is overlooked.
		_ = tx.Require(ctx, lock)
		return nil
	}
	check(t, db.Run(ctx, publish))
	check(t, db.Del(ctx, "l").Err())
	equal(t, errors.Is(db.Run(ctx, publish), claret.ErrLockLost), true)
	equal(t, db.Get(ctx, "n").Val(), "1")
}

func TestRetainedLockTakesTurns(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	db, other := connect(t, s.Addr), connect(t, s.Addr)
	kept, err := db.Retain("l", claret.LockOptions{})
	check(t, err)
	defer kept.Close()
	var group sync.WaitGroup
	var inside, stays atomic.Int32
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for j := 0; j < 50; j++ {
				stay, err := kept.Enter(ctx, 0)
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two are inside")
				}
				stays.Add(1)
				inside.Add(-1)
				if err := stay.Leave(); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for i := 0; i < 5; i++ {
		lock, err := other.Lock(ctx, "l", claret.LockOptions{})
		check(t, err)
		equal(t, inside.Load(), 0)
		check(t, lock.Unlock(ctx))
	}
	group.Wait()
	equal(t, stays.Load(), 200)
}

func TestElectionIsObserved(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	db, other := connect(t, s.Addr), connect(t, s.Addr)
	seen := make(chan string, 16)
	watching, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- other.Observe(watching, "e", func(leader *claret.Leader) bool {
			if leader == nil {
				seen <- "none"
			} else {
				seen <- leader.Value
			}
			return true
		})
	}()
	lead, err := db.Campaign(ctx, "e", "here", claret.LockOptions{})
	check(t, err)
	equal(t, <-seen, "here")
	check(t, lead.Proclaim(ctx, "there"))
	equal(t, <-seen, "there")
	check(t, lead.Resign(ctx))
	equal(t, <-seen, "none")
	leader, err := other.Leader(ctx, "e")
	equal(t, leader == nil && err == nil, true)
	stop()
	equal(t, errors.Is(<-ended, context.Canceled), true)
	equal(t, errors.Is(lead.Proclaim(ctx, "late"), claret.ErrLockLost), true)
}

func TestBarrierReleasesAllTogether(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	generations := make(chan int64, 3)
	for i := 0; i < 3; i++ {
		go func() {
			generation, err := db.Barrier(ctx, "b", 3, claret.BarrierOptions{})
			if err != nil {
				t.Error(err)
			}
			generations <- generation
		}()
	}
	first := <-generations
	equal(t, <-generations, first)
	equal(t, <-generations, first)
	short := claret.BarrierOptions{Timeout: 50 * time.Millisecond}
	_, err := db.Barrier(ctx, "b", 3, short)
	equal(t, errors.Is(err, claret.ErrNotAcquired), true)
}
