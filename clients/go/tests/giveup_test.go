package tests

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	claret "claret/go"
	"claret/go/clarettest"
)

func TestGrantIsReleasedIfTheRenewalAfterAWaitFails(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	direct := connect(t, s.Addr)
	db := connect(t, judge(t, s.Addr, rule{"LOCK.RENEW", "refuse", 1000}).address)
	first, err := direct.Lock(ctx, "l", claret.LockOptions{})
	check(t, err)
	short, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
	defer cancel()
	time.AfterFunc(700*time.Millisecond, func() { _ = first.Unlock(ctx) })
	_, err = db.Lock(short, "l", claret.LockOptions{Lease: 5 * time.Second})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	_, err = direct.Lock(ctx, "l", claret.LockOptions{NoWait: true})
	check(t, err)
}

func TestRenewalAfterAWaitIsRepeated(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	direct := connect(t, s.Addr)
	db := connect(t, judge(t, s.Addr, rule{"LOCK.RENEW", "drop", 2}).address)
	first, err := direct.Lock(ctx, "l", claret.LockOptions{})
	check(t, err)
	time.AfterFunc(700*time.Millisecond, func() { _ = first.Unlock(ctx) })
	lock, err := db.Lock(ctx, "l", claret.LockOptions{Lease: 5 * time.Second})
	check(t, err)
	check(t, lock.Unlock(ctx))
}

func TestRenewalGoesOnOverAFreshConnection(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	j := judge(t, s.Addr)
	db := connect(t, j.address)
	lock, err := db.Lock(ctx, "l", claret.LockOptions{Lease: 1200 * time.Millisecond})
	check(t, err)
	j.add(rule{"LOCK.RENEW", "hang", 1})
	time.Sleep(2 * time.Second)
	equal(t, lock.Held(), true)
	check(t, lock.Unlock(ctx))
}

func TestWaitThatIsGivenUpLeavesNoLock(t *testing.T) {
	giveUp(t, func(ctx context.Context, db *claret.DB, name string) (*claret.Lock, error) {
		return db.Lock(ctx, name, claret.LockOptions{})
	})
}

func TestCampaignThatIsGivenUpLeavesNoLead(t *testing.T) {
	giveUp(t, func(ctx context.Context, db *claret.DB, name string) (*claret.Lock, error) {
		lead, err := db.Campaign(ctx, name, "here", claret.LockOptions{})
		if err != nil {
			return nil, err
		}
		return lead.Lock, nil
	})
}

func giveUp(
	t *testing.T, acquire func(context.Context, *claret.DB, string) (*claret.Lock, error),
) {
	ctx, s := limited(t), clarettest.Start(t)
	db := connect(t, s.Addr)
	given := 0
	for i := 0; i < 100; i++ {
		name := fmt.Sprint("l", i)
		first, err := acquire(ctx, db, name)
		check(t, err)
		short, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			lock, err := acquire(short, db, name)
			if err == nil {
				err = lock.Unlock(ctx)
			}
			ended <- err
		}()
		time.Sleep(3 * time.Millisecond)
		time.AfterFunc(time.Duration(i%20*25)*time.Microsecond, cancel)
		check(t, first.Unlock(ctx))
		if err := <-ended; err != nil {
			given++
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
	}
	// Nor does the server grant it later.
	time.Sleep(300 * time.Millisecond)
	for i := 0; i < 100; i++ {
		holders, err := db.Do(ctx, "LOCK.HOLDERS", fmt.Sprint("l", i)).Slice()
		check(t, err)
		if len(holders) > 0 {
			t.Errorf("%d is held by %v", i, holders)
		}
	}
	t.Log("given up:", given)
}

func TestGrantBehindANilIsFoundUnderItsNumber(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	direct := connect(t, s.Addr)
	db := connect(t, judge(t, s.Addr, rule{"LOCK.ACQUIRE", "nil", 1}).address)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err := db.Lock(short, "l", claret.LockOptions{})
	equal(t, errors.Is(err, context.DeadlineExceeded), true)
	_, err = direct.Lock(ctx, "l", claret.LockOptions{NoWait: true})
	check(t, err)
}
