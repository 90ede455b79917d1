package tests

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	claret "claret/go"
	"claret/go/clarettest"
)

func TestSeedThatAcceptsAndDoesNotAnswer(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer silent.Close()
	db := open(t, claret.Options{
		Addresses:      []string{silent.Addr().String(), s.Addr},
		ConnectTimeout: 200 * time.Millisecond,
	})
	equal(t, db.Incr(ctx, "n").Val(), 1)
	begun := time.Now()
	equal(t, db.Incr(ctx, "n").Val(), 2)
	equal(t, time.Since(begun) < 150*time.Millisecond, true)
}

func TestServerThatIsGone(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	db := connect(t, s.Addr)
	check(t, db.Ping(ctx).Err())
	s.Kill()
	err := db.Incr(ctx, "n").Err()
	equal(t, errors.Is(err, claret.ErrConnection) || errors.Is(err, claret.ErrUnknown), true)
	body := func(_ context.Context, tx *claret.Tx) error {
		tx.Write("INCR", "n")
		return nil
	}
	err = db.Run(ctx, body, claret.Deadline(100*time.Millisecond))
	equal(t, errors.Is(err, claret.ErrConnection), true)
	s.Restart()
	check(t, db.Run(ctx, body))
	equal(t, db.Get(ctx, "n").Val(), "1")
}

func TestClientThatIsClosed(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	check(t, db.Ping(ctx).Err())
	check(t, db.Close())
	body := func(_ context.Context, tx *claret.Tx) error {
		tx.Write("INCR", "n")
		return nil
	}
	for _, err := range []error{
		db.Incr(ctx, "n").Err(), db.Incr(context.Background(), "n").Err(), db.Run(ctx, body),
	} {
		equal(t, errors.Is(err, claret.ErrClosed) && !claret.MayHaveHappened(err), true)
	}
}

func TestPasswordFromAFile(t *testing.T) {
	hash := exec.Command(clarettest.Binary(t), "hash-password")
	hash.Stdin = strings.NewReader("secret\n")
	text, err := hash.Output()
	check(t, err)
	config := fmt.Sprintf("[[users]]\nname = \"ann\"\npassword_hash = %q\nrules = [%q, %q, %q]\n",
		strings.TrimSpace(string(text)), "on", "+@all", "~*")
	folder := t.TempDir()
	settings, file := filepath.Join(folder, "claret.toml"), filepath.Join(folder, "password")
	check(t, os.WriteFile(settings, []byte(config), 0o600))
	ctx, s := limited(t), clarettest.Start(t, "--config", settings)
	check(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	db := open(t, claret.Options{
		Addresses: []string{s.Addr}, Username: "ann", PasswordFile: file,
	})
	equal(t, db.Do(ctx, "ACL", "WHOAMI").Val(), any("ann"))
	check(t, db.Run(ctx, func(_ context.Context, tx *claret.Tx) error {
		tx.Write("INCR", "n")
		return nil
	}))
	check(t, os.WriteFile(file, []byte("wrong\n"), 0o600))
	bad := open(t, claret.Options{
		Addresses: []string{s.Addr}, Username: "ann", PasswordFile: file,
	})
	equal(t, strings.Contains(fmt.Sprint(bad.Incr(ctx, "n").Err()), "WRONGPASS"), true)
	err = bad.Run(ctx, func(_ context.Context, tx *claret.Tx) error {
		tx.Write("INCR", "n")
		return nil
	})
	equal(t, strings.Contains(fmt.Sprint(err), "WRONGPASS"), true)
}

func TestBatchWithGuards(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	check(t, db.Set(ctx, "order", "paid", 0).Err())
	ship := func(fill func(*claret.Batch)) (*redis.IntCmd, error) {
		batch := db.Batch()
		fill(batch)
		batch.Set(ctx, "order", "shipped", 0)
		length := batch.RPush(ctx, "outbox", 7)
		_, err := batch.Execute(ctx)
		return length, err
	}
	length, err := ship(func(b *claret.Batch) { b.IfEqual("order", "paid"); b.IfAbsent("hold") })
	check(t, err)
	equal(t, length.Val(), 1)
	for _, guard := range []func(*claret.Batch){
		func(b *claret.Batch) { b.IfEqual("order", "paid") },
		func(b *claret.Batch) { b.IfNotEqual("order", "shipped") },
		func(b *claret.Batch) { b.IfExists("hold") },
		func(b *claret.Batch) { b.IfAbsent("order") },
	} {
		length, err = ship(guard)
		equal(t, errors.Is(err, claret.ErrGuard), true)
		equal(t, errors.Is(length.Err(), claret.ErrClosed), true)
	}
	equal(t, db.LLen(ctx, "outbox").Val(), 1)
}

func TestLostAnswerOfABatchTakesEffectOnce(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	db := connect(t, judge(t, s.Addr, rule{"EXEC", "lose", 1}).address)
	batch := db.Batch()
	n := batch.Add("INCR", "n")
	_, err := batch.Execute(ctx)
	check(t, err)
	number, err := n.Int()
	check(t, err)
	equal(t, number, 1)
	equal(t, db.Get(ctx, "n").Val(), "1")
}

func TestDispatchKeepsTheOrder(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	d, err := db.Dispatch(ctx)
	check(t, err)
	futures := make([]*claret.Future, 2000)
	for i := range futures {
		futures[i] = d.Send("INCR", "n")
	}
	for i, future := range futures {
		n, err := future.Int(ctx)
		check(t, err)
		equal(t, n, int64(i+1))
	}
	_, err = d.Send("SET", "x", futures[0]).Value(ctx)
	equal(t, errors.Is(err, claret.ErrOrder), true)
	_, err = d.Send("GET", "nothing").Value(ctx)
	equal(t, errors.Is(err, redis.Nil), true)
	check(t, d.Close())
	unseen, err := db.Dispatch(ctx)
	check(t, err)
	unseen.Send("LPUSH", "n", 1)
	unseen.Send("INCR", "n")
	equal(t, unseen.Close() == nil, false)
	equal(t, db.Get(ctx, "n").Val(), "2001")
}

func TestTypeInATransaction(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	auctions, err := claret.ParseType(`
type auction
part best topk with topk.init 1
part bids counter

op bid amount:number bidder
  topk.put best $bidder $amount
  counter.add bids 1

op count
  return counter.get bids
`)
	check(t, err)
	version, err := auctions.Define(ctx, db)
	check(t, err)
	equal(t, version, 1)
	var count any
	check(t, db.Run(ctx, func(ctx context.Context, tx *claret.Tx) error {
		lot := auctions.On(tx, "lot")
		lot.Call(ctx, "bid", 5, "ann")
		lot.Call(ctx, "bid", 6, "ben")
		count, err = lot.Call(ctx, "count").Result()
		return err
	}))
	equal(t, count, any(int64(2)))
	equal(t, auctions.On(db, "lot").Call(ctx, "bid", 5).Err() == nil, false)
	equal(t, auctions.On(db, "lot").Call(ctx, "close").Err() == nil, false)
}
