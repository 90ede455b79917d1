package tests

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	claret "claret/go"
	"claret/go/clarettest"
)

// waits are calls that wait for a lock, an arrival or a reply until their context ends.
var waits = map[string]func(ctx context.Context, db *claret.DB) error{
	"lock": func(ctx context.Context, db *claret.DB) error {
		_, err := db.Lock(ctx, "{l}", claret.LockOptions{})
		return err
	},
	"near": func(ctx context.Context, db *claret.DB) error {
		_, err := db.Lock(ctx, "near", claret.LockOptions{Near: true})
		return err
	},
	"next": func(ctx context.Context, db *claret.DB) error {
		_, err := db.Lock(ctx, "{l}", claret.LockOptions{Next: true})
		return err
	},
	"campaign": func(ctx context.Context, db *claret.DB) error {
		_, err := db.Campaign(ctx, "{l}", "here", claret.LockOptions{})
		return err
	},
	"section": func(ctx context.Context, db *claret.DB) error {
		return db.Section("{l}", claret.SectionOptions{}).Do(ctx, "INCR", "{l}:n").Err()
	},
	"stay": func(ctx context.Context, db *claret.DB) error {
		retained, err := db.Retain("{l}", claret.LockOptions{})
		if err != nil {
			return err
		}
		_, err = retained.Enter(ctx, 0)
		return err
	},
	"barrier": func(ctx context.Context, db *claret.DB) error {
		_, err := db.Barrier(ctx, "b", 2, claret.BarrierOptions{})
		return err
	},
	"observe": func(ctx context.Context, db *claret.DB) error {
		return db.Observe(ctx, "e", func(*claret.Leader) bool { return true })
	},
	"run": func(ctx context.Context, db *claret.DB) error {
		return db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
			return tx.AskForUpdate(ctx, "GET", "held").Err()
		}, claret.Deadline(time.Minute))
	},
}

// giveUpAll gives up all waits at once, and expects each to end within a second.
func giveUpAll(t *testing.T, db *claret.DB, before func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	var since time.Time
	for name, wait := range waits {
		name, wait := name, wait
		group.Add(1)
		go func() {
			defer group.Done()
			err := wait(ctx, db)
			late := time.Since(since)
			if !errors.Is(err, context.Canceled) || late > time.Second {
				t.Errorf("%s: %v after %v", name, err, late)
			}
			if claret.MayHaveHappened(err) && name == "lock" {
				t.Errorf("%s: %v", name, err)
			}
		}()
	}
	before()
	since = time.Now()
	cancel()
	group.Wait()
}

// hold keeps locks and a key from all waits.
func hold(ctx context.Context, t *testing.T, db *claret.DB) (release func()) {
	t.Helper()
	lock, err := db.Lock(ctx, "{l}", claret.LockOptions{})
	check(t, err)
	near, err := db.Lock(ctx, "near", claret.LockOptions{Near: true})
	check(t, err)
	check(t, db.Set(ctx, "held", "1", 0).Err())
	held, end := make(chan error), make(chan struct{})
	go func() {
		held <- db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
			err := tx.AskForUpdate(ctx, "GET", "held").Err()
			held <- err
			<-end
			return err
		}, claret.Now(), claret.IdleTimeout(0), claret.Timeout(0))
	}()
	check(t, <-held)
	return func() {
		close(end)
		check(t, <-held)
		check(t, lock.Unlock(ctx))
		check(t, near.Unlock(ctx))
	}
}

func TestCallerThatGivesUpLeavesNothing(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	db, other := connect(t, s.Addr), connect(t, s.Addr)
	release := hold(ctx, t, other)
	giveUpAll(t, db, func() { time.Sleep(300 * time.Millisecond) })
	time.Sleep(700 * time.Millisecond)
	for _, words := range [][]any{
		{"LOCK.WAITERS", "{l}"}, {"BARRIER.WAITING", "b"},
	} {
		left, err := other.Do(ctx, words...).Slice()
		check(t, err)
		equal(t, fmt.Sprint(left), "[]")
	}
	release()
	// Nor does the server carry anything out later.
	lock, err := other.Lock(ctx, "{l}", claret.LockOptions{NoWait: true})
	check(t, err)
	check(t, lock.Unlock(ctx))
	near, err := other.Lock(ctx, "near", claret.LockOptions{Near: true, Timeout: 5 * time.Second})
	check(t, err)
	check(t, near.Unlock(ctx))
	equal(t, other.Exists(ctx, "{l}:n").Val(), 0)
	short := claret.BarrierOptions{Timeout: 100 * time.Millisecond}
	_, err = other.Barrier(ctx, "b", 2, short)
	equal(t, errors.Is(err, claret.ErrNotAcquired), true)
}

func TestCallerThatGivesUpDoesNotWaitForAServerThatStandsStill(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	db, other := connect(t, s.Addr), connect(t, s.Addr)
	hold(ctx, t, other)
	info := other.Info(ctx, "server").Val()
	_, text, _ := strings.Cut(info, "process_id:")
	pid, err := strconv.Atoi(strings.Fields(text)[0])
	check(t, err)
	giveUpAll(t, db, func() {
		time.Sleep(300 * time.Millisecond)
		check(t, syscall.Kill(pid, syscall.SIGSTOP))
		time.Sleep(100 * time.Millisecond)
	})
	giveUpAll(t, connect(t, s.Addr), func() { time.Sleep(100 * time.Millisecond) })
}

func TestArrivalThatIsGivenUpAtTheLastMomentCountsForAllOrNone(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	gone := 0
	for i := 0; i < 60; i++ {
		short, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			_, err := db.Barrier(short, "b", 2, claret.BarrierOptions{})
			ended <- err
		}()
		time.Sleep(4 * time.Millisecond)
		time.AfterFunc(time.Duration(i*60)*time.Microsecond, cancel)
		time.Sleep(time.Millisecond)
		_, err := db.Barrier(ctx, "b", 2, claret.BarrierOptions{Timeout: 300 * time.Millisecond})
		alone := <-ended
		if alone != nil {
			gone++
			equal(t, errors.Is(alone, context.Canceled), true)
		}
		if (alone == nil) != (err == nil) && !claret.MayHaveHappened(alone) {
			t.Fatalf("%v, and the other %v", alone, err)
		}
		cancel()
	}
	equal(t, gone > 0, true)
}
