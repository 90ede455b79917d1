package tests

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	claret "claret/go"
	"claret/go/clarettest"
)

func TestTypedCommandsInATransaction(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	check(t, db.Set(ctx, "ann", 100, 0).Err())
	var left, added *redis.IntCmd
	var missing *redis.StringCmd
	check(t, db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
		held, err := tx.Get(ctx, "ann").Int()
		if err != nil || held < 30 {
			return fmt.Errorf("ann has %d: %w", held, err)
		}
		left = tx.DecrBy(ctx, "ann", 30)
		added = tx.SAdd(ctx, "ledger", "one", "two")
		missing = tx.LPop(ctx, "nothing")
		if !errors.Is(left.Err(), claret.ErrOrder) {
			return fmt.Errorf("a reply before the commit: %v", left.Err())
		}
		return nil
	}))
	equal(t, left.Val(), 70)
	equal(t, added.Val(), 2)
	equal(t, errors.Is(missing.Err(), redis.Nil), true)
}

func TestNoUpdateIsLostUnderContention(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	for _, options := range [][]claret.Option{nil, {claret.Update()}, {claret.Now()}} {
		check(t, db.Set(ctx, "n", 0, 0).Err())
		var group sync.WaitGroup
		for i := 0; i < 8; i++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for j := 0; j < 25; j++ {
					err := db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
						n, err := tx.Get(ctx, "n").Int()
						tx.Write("SET", "n", n+1)
						return err
					}, options...)
					if err != nil {
						t.Error(err)
					}
				}
			}()
		}
		group.Wait()
		equal(t, db.Get(ctx, "n").Val(), "200")
	}
}

func TestMoreTransactionsThanConnections(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	db := open(t, claret.Options{Addresses: []string{s.Addr}, Transactions: 2})
	var group sync.WaitGroup
	for i := 0; i < 10; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			err := db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
				tx.Write("INCR", "n")
				return tx.Flush(ctx)
			})
			if err != nil {
				t.Error(err)
			}
		}()
	}
	group.Wait()
	equal(t, db.Get(ctx, "n").Val(), "10")
}

func TestDeferredRepliesAreNotValues(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	for name, misuse := range map[string]func(*claret.Tx, *claret.Deferred){
		"a word":          func(tx *claret.Tx, d *claret.Deferred) { tx.Write("SET", "x", d) },
		"a typed word":    func(tx *claret.Tx, d *claret.Deferred) { tx.Set(ctx, "x", d, 0) },
		"in a text":       func(tx *claret.Tx, d *claret.Deferred) { tx.Set(ctx, fmt.Sprintf("k:%v", d), 1, 0) },
		"in a question":   func(tx *claret.Tx, d *claret.Deferred) { tx.Ask(ctx, "GET", fmt.Sprint("k", d)) },
		"a typed command": func(tx *claret.Tx, _ *claret.Deferred) { tx.Write("SET", "x", tx.Incr(ctx, "i")) },
	} {
		err := db.Run(ctx, func(_ context.Context, tx *claret.Tx) error {
			ticket := tx.Write("INCR", "tickets")
			if _, err := ticket.Value(); !errors.Is(err, claret.ErrOrder) {
				return fmt.Errorf("a value before the commit: %v", err)
			}
			// Its error is overlooked.
			misuse(tx, ticket)
			return nil
		})
		if !errors.Is(err, claret.ErrOrder) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	equal(t, db.Exists(ctx, "tickets", "x", "i").Val(), 0)
}

func TestFailureOfTheFunctionRollsBack(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	own := errors.New("own")
	var late *claret.Deferred
	err := db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
		late = tx.Write("INCR", "n")
		check(t, tx.Flush(ctx))
		return own
	})
	equal(t, err, own)
	_, err = late.Value()
	equal(t, errors.Is(err, claret.ErrClosed), true)
	func() {
		defer func() { _ = recover() }()
		_ = db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
			tx.Write("INCR", "n")
			check(t, tx.Flush(ctx))
			panic("own")
		})
	}()
	// Nothing is left locked.
	equal(t, db.Incr(ctx, "n").Val(), 1)
}

func TestTransactionIsOfNoUseAfterItsEnd(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	var kept *claret.Tx
	check(t, db.Run(ctx, func(_ context.Context, tx *claret.Tx) error {
		kept = tx
		tx.Write("SET", "x", 1)
		return nil
	}))
	equal(t, errors.Is(kept.Get(ctx, "x").Err(), claret.ErrClosed), true)
	equal(t, errors.Is(kept.Set(ctx, "x", 2, 0).Err(), claret.ErrClosed), true)
	equal(t, db.Get(ctx, "x").Val(), "1")
}

func TestRefusedCommands(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	check(t, db.RPush(ctx, "list", 1).Err())
	body := func(_ context.Context, tx *claret.Tx) error {
		tx.Write("INCR", "n")
		tx.Write("INCR", "list")
		return nil
	}
	err := db.Run(ctx, body)
	equal(t, errors.Is(err, claret.ErrUndone), true)
	equal(t, db.Exists(ctx, "n").Val(), 0)
	err = db.Run(ctx, body, claret.Lax())
	var refused *claret.WriteRefusedError
	if !errors.As(err, &refused) || !errors.Is(err, claret.ErrWriteRefused) {
		t.Fatal(err)
	}
	equal(t, refused.Writes[0].Command, "INCR")
	equal(t, db.Get(ctx, "n").Val(), "1")
}

func TestEndOfTheContextWhileOthersHoldTheKey(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	check(t, db.Set(ctx, "n", 5, 0).Err())
	check(t, db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
		check(t, tx.Get(ctx, "n").Err())
		// Neither a transaction nor a single command can write what was read.
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		err := db.Run(short, func(_ context.Context, other *claret.Tx) error {
			other.Write("INCR", "n")
			return nil
		})
		equal(t, errors.Is(err, context.DeadlineExceeded), true)
		equal(t, claret.MayHaveHappened(err), true)
		again, stop := context.WithCancel(ctx)
		time.AfterFunc(100*time.Millisecond, stop)
		equal(t, errors.Is(db.Incr(again, "n").Err(), context.Canceled), true)
		return nil
	}))
}

func TestLostAnswerOfACommitIsAskedFor(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	db := connect(t, judge(t, s.Addr, rule{"TXN COMMIT", "lose", 1}).address)
	var reply *claret.Deferred
	attempts := 0
	check(t, db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
		attempts++
		reply = tx.Write("INCR", "n")
		return nil
	}))
	equal(t, connect(t, s.Addr).Get(ctx, "n").Val(), "1")
	if _, err := reply.Value(); attempts == 1 && !errors.Is(err, claret.ErrRepeated) {
		t.Fatal(err)
	}
}

func TestOnceInTwoProcesses(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	for _, db := range []*claret.DB{
		connect(t, judge(t, s.Addr, rule{"TXN COMMIT", "lose", 2}).address), connect(t, s.Addr),
	} {
		err := db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
			n, err := tx.Get(ctx, "n").Int()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			tx.Write("SET", "n", n+1)
			return nil
		}, claret.Once("order-8f3a"))
		if err != nil && !errors.Is(err, claret.ErrRepeated) {
			t.Fatal(err)
		}
	}
	equal(t, connect(t, s.Addr).Get(ctx, "n").Val(), "1")
}

func TestSnapshotIsOfOneInstant(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	check(t, db.MSet(ctx, "a", 1, "b", 1).Err())
	check(t, db.Snapshot(ctx, func(ctx context.Context, tx *claret.Tx) error {
		first, err := tx.Get(ctx, "a").Result()
		if err != nil {
			return err
		}
		if err := db.Run(ctx, func(_ context.Context, other *claret.Tx) error {
			other.Write("INCR", "a")
			other.Write("INCR", "b")
			return nil
		}); err != nil {
			return err
		}
		second, err := tx.Get(ctx, "b").Result()
		if err == nil && first != second {
			err = fmt.Errorf("%s and %s are of two instants", first, second)
		}
		return err
	}))
}
