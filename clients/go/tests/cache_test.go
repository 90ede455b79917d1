package tests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	claret "claret/go"
	"claret/go/clarettest"
)

// gate passes everything on, unless it is shut: then it holds back what the server says.
type gate struct {
	address string
	mutex   sync.Mutex
}

func gateTo(t *testing.T, to string) *gate {
	t.Helper()
	g := &gate{}
	g.address = between(t, to, g.pass)
	return g
}

func (g *gate) pass(client, server net.Conn) {
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	part := make([]byte, 4096)
	for {
		count, err := server.Read(part)
		g.mutex.Lock()
		_, failed := client.Write(part[:count])
		g.mutex.Unlock()
		if err != nil || failed != nil {
			return
		}
	}
}

func TestCacheDoesNotAnswerForASilentServer(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	direct := connect(t, s.Addr)
	check(t, direct.Set(ctx, "x", "1", 0).Err())
	g := gateTo(t, s.Addr)
	cache := connect(t, g.address).Cache(claret.CacheOptions{})
	for i := 0; i < 3; i++ {
		value, err := cache.Get(ctx, "x")
		check(t, err)
		equal(t, value, "1")
	}
	equal(t, cache.Stats(), claret.CacheStats{Hits: 2, Misses: 1})
	g.mutex.Lock()
	check(t, direct.Set(ctx, "x", "2", 0).Err())
	time.Sleep(2100 * time.Millisecond)
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err := cache.Get(short, "x")
	g.mutex.Unlock()
	equal(t, errors.Is(err, context.DeadlineExceeded), true)
	value, err := cache.Get(ctx, "x")
	check(t, err)
	equal(t, value, "2")
}

func TestCachedReplyBelongsToItsReader(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	check(t, db.HSet(ctx, "h", "f", "1").Err())
	check(t, db.RPush(ctx, "l", "a", "b").Err())
	cache := db.Cache(claret.CacheOptions{})
	for i := 0; i < 2; i++ {
		fields, err := cache.HGetAll(ctx, "h")
		check(t, err)
		equal(t, fmt.Sprint(fields), "map[f:1]")
		fields["f"] = "2"
		reply, err := cache.Read(ctx, "hgetall", "h")
		check(t, err)
		equal(t, fmt.Sprint(reply), "map[f:1]")
		reply.(map[any]any)["f"] = "2"
		row, err := cache.Read(ctx, "LRANGE", "l", 0, -1)
		check(t, err)
		equal(t, fmt.Sprint(row), "[a b]")
		row.([]any)[0] = "c"
	}
	equal(t, cache.Stats(), claret.CacheStats{Hits: 4, Misses: 2})
	_, err := cache.Get(ctx, "absent")
	equal(t, errors.Is(err, redis.Nil), true)
}

func TestCacheReadsOneKeyOnly(t *testing.T) {
	ctx, db := limited(t), connect(t, clarettest.Start(t).Addr)
	cache := db.Cache(claret.CacheOptions{})
	for _, words := range [][]any{
		{"MGET", "a", "b"},
		{"SINTER", "a", "b"},
		{"SORT_RO", "a", "BY", "w_*"},
		{"LCS", "a", "b"},
		{"SET", "a", "1"},
		{"INCR", "a"},
		{"RANDOMKEY", "a"},
		{"NOTHING", "a"},
	} {
		_, err := cache.Read(ctx, words[0].(string), words[1].(string), words[2:]...)
		equal(t, errors.Is(err, claret.ErrOrder), true)
	}
	for i := 0; i < 2; i++ {
		row, err := cache.Read(ctx, "MGET", "a")
		check(t, err)
		equal(t, fmt.Sprint(row), "[<nil>]")
	}
	equal(t, cache.Stats(), claret.CacheStats{Hits: 1, Misses: 1})
	equal(t, db.Exists(ctx, "a").Val(), 0)
}

func TestCacheReadsAreSharedByGoroutines(t *testing.T) {
	ctx, s := limited(t), clarettest.Start(t)
	db := connect(t, s.Addr)
	cache := db.Cache(claret.CacheOptions{MaxEntries: 50})
	var readers sync.WaitGroup
	for reader := 0; reader < 8; reader++ {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for i := 0; i < 500; i++ {
				key := fmt.Sprint("k", i%100)
				if _, err := cache.Get(ctx, key); err != nil && !errors.Is(err, redis.Nil) {
					t.Error(err)
				}
			}
		}()
	}
	for i := 0; i < 200; i++ {
		check(t, db.Set(ctx, fmt.Sprint("k", i%100), i, 0).Err())
	}
	readers.Wait()
	stats := cache.Stats()
	equal(t, stats.Hits+stats.Misses, 4000)
	for i := 100; i < 200; i++ {
		until := time.Now().Add(2 * time.Second)
		for {
			value, err := cache.Get(ctx, fmt.Sprint("k", i%100))
			check(t, err)
			if value == fmt.Sprint(i) {
				break
			}
			equal(t, time.Now().Before(until), true)
		}
	}
}
