package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	claret "claret/go"
	"claret/go/clarettest"
)

func TestWrongOptionsSendNothing(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	for name, option := range map[string]claret.Option{
		"long":     claret.Once(strings.Repeat("x", 60)),
		"empty":    claret.Once(""),
		"space":    claret.Once("a b"),
		"control":  claret.Once("a\nb"),
		"idle":     claret.IdleTimeout(-time.Second),
		"duration": claret.Timeout(-time.Second),
	} {
		err := db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
			tx.Write("SET", "a", 1)
			return tx.Flush(ctx)
		}, option)
		if !errors.Is(err, claret.ErrOrder) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	equal(t, db.Exists(ctx, "a").Val(), 0)
	check(t, db.Run(ctx, func(_ context.Context, tx *claret.Tx) error {
		tx.Write("SET", "a", 1)
		return nil
	}, claret.Once(strings.Repeat("x", 59))))
	equal(t, db.Exists(ctx, "a").Val(), 1)
}

func TestNothingIsCarriedOutBehindARefusedOpening(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	direct := connect(t, s.Addr)
	for i, refused := range []string{"TXN BEGIN", "CLIENT REQUEST", "MULTI"} {
		// On a new connection, and on one that has accepted the same before.
		for _, warm := range []bool{false, true} {
			j := judge(t, s.Addr)
			db := connect(t, j.address)
			key, other := fmt.Sprint("n", i, warm), fmt.Sprint("m", i, warm)
			perform := func(key string) error {
				if refused == "MULTI" {
					batch := db.Batch()
					batch.Add("INCR", key)
					batch.Add("INCR", other)
					_, err := batch.Execute(ctx)
					return err
				}
				return db.Run(ctx, func(_ context.Context, tx *claret.Tx) error {
					tx.Write("INCR", key)
					tx.Write("INCR", other)
					return nil
				})
			}
			if warm {
				check(t, perform("warm"))
				check(t, direct.Del(ctx, other).Err())
			}
			j.add(rule{refused, "refuse", 1})
			err := perform(key)
			both := direct.MGet(ctx, key, other).Val()
			if warm && !errors.Is(err, claret.ErrUnknown) {
				t.Fatalf("%s: %v %v", refused, err, both)
			}
			if !warm && (err != nil || both[0] != "1" || both[1] != "1") {
				t.Fatalf("%s: %v %v", refused, err, both)
			}
			for _, n := range both {
				if n != nil && n != "1" {
					t.Fatalf("%s: twice: %v", refused, both)
				}
			}
		}
	}
}

func TestRefusedOpeningUnderATextIsNotRepeated(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	db := connect(t, judge(t, s.Addr, rule{"TXN BEGIN", "refuse", 1}).address)
	err := db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
		tx.Write("INCR", "n")
		_ = tx.Get(ctx, "n").Err()
		return errors.New("own")
	}, claret.Once("text"))
	equal(t, errors.Is(err, claret.ErrBusy), true)
	equal(t, db.Exists(ctx, "n").Val(), 0)
}

func TestClosedConnectionIsReplacedBeforeAnOpening(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	db := connect(t, s.Addr)
	perform := func() error {
		return db.Run(ctx, func(_ context.Context, tx *claret.Tx) error {
			tx.Write("INCR", "n")
			return nil
		}, claret.AttemptsMax(1))
	}
	check(t, perform())
	s.Restart()
	check(t, perform())
	equal(t, db.Get(ctx, "n").Val(), "2")
}

func TestCommandsOfAConnectionAreRefused(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	lock, err := db.Lock(ctx, "{l}", claret.LockOptions{})
	check(t, err)
	for _, line := range []string{
		"AUTH x", "CLIENT REPLY OFF", "client request a 1", "DISCARD", "EXEC", "HELLO 3", "MONITOR",
		"multi", "PSUBSCRIBE a", "PUNSUBSCRIBE", "QUIT", "RESET", "SELECT 1", "SSUBSCRIBE a",
		"SUBSCRIBE a", "SUNSUBSCRIBE", "TXN ABORT", "TXN BEGIN", "UNSUBSCRIBE", "UNWATCH", "WATCH a",
	} {
		var words, texts []any
		for _, word := range strings.Fields(line) {
			words, texts = append(words, []byte(word)), append(texts, word)
		}
		for name, err := range map[string]error{
			"single":   db.Do(ctx, words...).Err(),
			"texts":    db.Do(ctx, texts...).Err(),
			"redis":    db.Redis().Do(context.Background(), words...).Err(),
			"fenced":   db.Fenced(lock).Do(ctx, words...).Err(),
			"by words": db.Do(ctx, append([]any{"FENCE", "{l}", lock.Token()}, words...)...).Err(),
			"batch": func() error {
				batch := db.Batch()
				batch.Add("SET", "x", 1)
				batch.Add(words...)
				_, err := batch.Execute(ctx)
				return err
			}(),
			"transaction": db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
				tx.Write("SET", "x", 1)
				_ = tx.Ask(ctx, words...)
				return nil
			}),
			"do": db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
				return tx.Do(ctx, texts...).Err()
			}),
			"write": db.Run(ctx, func(_ context.Context, tx *claret.Tx) error {
				tx.Write("SET", "x", 1)
				tx.Write(words...)
				return nil
			}),
			"update": db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
				tx.Write("SET", "x", 1)
				_ = tx.AskForUpdate(ctx, words...)
				return nil
			}),
		} {
			if !errors.Is(err, claret.ErrOrder) {
				t.Fatalf("%s %s: %v", line, name, err)
			}
		}
	}
	_, err = db.Pipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Select(ctx, 1).Err() })
	equal(t, errors.Is(err, claret.ErrOrder), true)
	equal(t, db.Exists(ctx, "x").Val(), 0)
	check(t, db.Do(ctx, "CLIENT", "ID").Err())
	check(t, db.Do(ctx, "TXN", "RESOLVE", "a", 1).Err())
	check(t, db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
		tx.AskForUpdate(ctx, "EXISTS", "x")
		return nil
	}))
	_, err = db.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "x", 1, 0).Err() })
	check(t, err)
}

func TestVoidedTextGoesOnWithTheNextNumber(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	// On a new connection, and on one that has accepted the same before.
	for i, text := range []string{"first", "second"} {
		check(t, db.Do(ctx, "TXN", "RESOLVE", "once:"+text, 1).Err())
		for j := 0; j < 2; j++ {
			check(t, db.Run(ctx, func(_ context.Context, tx *claret.Tx) error {
				tx.Write("INCR", "n")
				tx.Write("INCR", "m")
				return nil
			}, claret.Once(text)))
		}
		for _, n := range db.MGet(ctx, "n", "m").Val() {
			equal(t, fmt.Sprint(n), fmt.Sprint(i+1))
		}
	}
}
