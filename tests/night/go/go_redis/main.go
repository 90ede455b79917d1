// The client go-redis in both protocols: pipelines, transactions, scripts, messages, streams.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"claret/libraries/story"

	"github.com/redis/go-redis/v9"
)

func main() {
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: story.Address(), Protocol: protocol})
		ctx := context.Background()
		story.Must(client.FlushAll(ctx).Err())
		fmt.Println("OK protocol", protocol)
		pipelines(ctx, client)
		values(ctx, client)
		transactions(ctx, client)
		scripts(ctx, client)
		messages(ctx, client)
		streams(ctx, client)
		story.Must(client.Close())
	}
}

func pipelines(ctx context.Context, client *redis.Client) {
	const pieces = 1000
	commands, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := range pieces {
			pipe.Set(ctx, fmt.Sprint("key:", n), n, time.Minute)
			pipe.IncrBy(ctx, "sum", int64(n))
		}
		return nil
	})
	story.Must(err)
	story.Check("pipeline", len(commands), 2*pieces)
	story.Check("sum", commands[len(commands)-1].(*redis.IntCmd).Val(), pieces*(pieces-1)/2)
	names := []string{}
	scan := client.Scan(ctx, 0, "key:*", 100).Iterator()
	for scan.Next(ctx) {
		names = append(names, scan.Val())
	}
	story.Must(scan.Err())
	slices.Sort(names)
	story.Check("scanned", len(slices.Compact(names)), pieces)
	pipe := client.Pipeline()
	good, bad, after := pipe.Get(ctx, "key:7"), pipe.LPush(ctx, "key:7", 1), pipe.Get(ctx, "nothing")
	_, err = pipe.Exec(ctx)
	story.Check("the first error of a pipeline", err, bad.Err())
	story.Check("said by the server", bad.Err().Error()[:9], "WRONGTYPE")
	story.Check("the others", []any{good.Val(), errors.Is(after.Err(), redis.Nil)}, []any{"7", true})
}

type user struct {
	Name string `redis:"name"`
	Age  int    `redis:"age"`
}

func values(ctx context.Context, client *redis.Client) {
	story.Must(client.HSet(ctx, "user", user{"Ada", 36}).Err())
	var found user
	story.Must(client.HGetAll(ctx, "user").Scan(&found))
	story.Check("a struct", found, user{"Ada", 36})
	best, worst := redis.Z{Score: 1.5, Member: "a"}, redis.Z{Score: -2, Member: "b"}
	story.Must(client.ZAdd(ctx, "board", worst, best).Err())
	all := redis.ZRangeArgs{Key: "board", Start: 0, Stop: -1, Rev: true}
	ranked := story.Of(client.ZRangeArgsWithScores(ctx, all).Result())
	story.Check("ranked", ranked, []redis.Z{best, worst})
	story.Check("added once", story.Of(client.SetNX(ctx, "once", 1, time.Minute).Result()), true)
	story.Check("not twice", story.Of(client.SetNX(ctx, "once", 2, time.Minute).Result()), false)
	err := client.BLPop(ctx, time.Second, "empty").Err()
	story.Check("nothing to take", errors.Is(err, redis.Nil), true)
	go func() {
		time.Sleep(100 * time.Millisecond)
		story.Must(client.RPush(ctx, "empty", "now").Err())
	}()
	taken := story.Of(client.BLPop(ctx, 10*time.Second, "empty").Result())
	story.Check("taken when it comes", taken, []string{"empty", "now"})
}

func transactions(ctx context.Context, client *redis.Client) {
	both := story.Of(client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, "{t}:a")
		pipe.Incr(ctx, "b")
		return nil
	}))
	counts := []int64{both[0].(*redis.IntCmd).Val(), both[1].(*redis.IntCmd).Val()}
	story.Check("a transaction", counts, []int{1, 1})

	const workers, turns = 8, 25
	var all sync.WaitGroup
	for range workers {
		all.Add(1)
		go func() {
			defer all.Done()
			for range turns {
				increment(ctx, client)
			}
		}()
	}
	all.Wait()
	story.Check("watched by several", story.Of(client.Get(ctx, "watched").Int()), workers*turns)

	err := client.Watch(ctx, func(tx *redis.Tx) error {
		story.Must(client.Set(ctx, "seen", "another", 0).Err())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, "seen", "mine", 0).Err()
		})
		return err
	}, "seen")
	story.Check("a change in between", errors.Is(err, redis.TxFailedErr), true)
	story.Check("is kept", story.Of(client.Get(ctx, "seen").Result()), "another")
}

// Adds one, as often as it takes.
func increment(ctx context.Context, client *redis.Client) {
	for {
		err := client.Watch(ctx, func(tx *redis.Tx) error {
			n, err := tx.Get(ctx, "watched").Int()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				return pipe.Set(ctx, "watched", n+1, 0).Err()
			})
			return err
		}, "watched")
		if !errors.Is(err, redis.TxFailedErr) {
			story.Must(err)
			return
		}
	}
}

func scripts(ctx context.Context, client *redis.Client) {
	story.Must(client.ScriptFlush(ctx).Err())
	script := redis.NewScript(`
		local n = redis.call("INCRBY", KEYS[1], ARGV[1])
		return {n, "text", {1, false}, redis.call("TYPE", KEYS[1])["ok"]}`)
	err := script.EvalSha(ctx, client, []string{"scripted"}, 1).Err()
	story.Check("not known yet", redis.HasErrorPrefix(err, "NOSCRIPT"), true)
	story.Check("not loaded", story.Of(script.Exists(ctx, client).Result()), []bool{false})
	for turn := 1; turn <= 3; turn++ {
		got := story.Of(script.Run(ctx, client, []string{"scripted"}, 2).Slice())
		story.Check("run", got, []any{2 * turn, "text", []any{1, nil}, "string"})
		if turn == 2 {
			story.Must(client.ScriptFlush(ctx).Err())
		}
	}
	story.Must(script.Load(ctx, client).Err())
	story.Check("loaded", story.Of(script.Exists(ctx, client).Result()), []bool{true})
	reads := redis.NewScript(`return redis.call("GET", KEYS[1])`)
	story.Check("only reads", story.Of(reads.RunRO(ctx, client, []string{"scripted"}).Text()), "6")
	writes := redis.NewScript(`return redis.call("SET", KEYS[1], 1)`)
	err = writes.RunRO(ctx, client, []string{"scripted"}).Err()
	story.Check("refused to write", err != nil && strings.Contains(err.Error(), "read-only"), true)
}

func messages(ctx context.Context, client *redis.Client) {
	const count = 100
	some := client.Subscribe(ctx, "news")
	pattern := client.PSubscribe(ctx, "new*")
	story.Of(some.Receive(ctx))
	story.Of(pattern.Receive(ctx))
	for n := range count {
		if story.Of(client.Publish(ctx, "news", n).Result()) != 2 {
			story.Fail("two listen")
		}
	}
	heard := 0
	for n := range count {
		first, second := <-some.Channel(), <-pattern.Channel()
		if first.Payload == fmt.Sprint(n) && second.Payload == first.Payload && second.Pattern == "new*" {
			heard++
		}
	}
	story.Check("heard in order by both", heard, count)
	story.Check("channels", story.Of(client.PubSubChannels(ctx, "*").Result()), []string{"news"})
	story.Must(some.Close())
	story.Must(pattern.Close())
	story.Until("nobody listens", func() bool {
		return story.Of(client.Publish(ctx, "news", 0).Result()) == 0
	})
}

func streams(ctx context.Context, client *redis.Client) {
	const count = 50
	story.Must(client.XGroupCreateMkStream(ctx, "orders", "shop", "0").Err())
	err := client.XGroupCreateMkStream(ctx, "orders", "shop", "0").Err()
	story.Check("a group twice", redis.HasErrorPrefix(err, "BUSYGROUP"), true)
	for n := range count {
		story.Must(client.XAdd(ctx, &redis.XAddArgs{Stream: "orders", Values: map[string]any{"n": n}}).Err())
	}
	// One consumer works, one dies with what it took.
	take := func(consumer string, most int64) []redis.XMessage {
		found, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: "shop", Consumer: consumer, Streams: []string{"orders", ">"}, Count: most,
			Block: 50 * time.Millisecond,
		}).Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		story.Must(err)
		return found[0].Messages
	}
	seen, acknowledged := map[string]bool{}, 0
	finish := func(some []redis.XMessage) {
		for _, message := range some {
			seen[message.Values["n"].(string)] = true
			acknowledged += int(story.Of(client.XAck(ctx, "orders", "shop", message.ID).Result()))
		}
	}
	story.Check("taken by one that dies", len(take("dies", 10)), 10)
	for some := take("works", 7); len(some) > 0; some = take("works", 7) {
		finish(some)
	}
	story.Check("done at first", len(seen), count-10)
	pending := story.Of(client.XPending(ctx, "orders", "shop").Result())
	story.Check("pending", []any{pending.Count, pending.Consumers}, []any{10, map[string]int{"dies": 10}})
	start := "0-0"
	for {
		claim := &redis.XAutoClaimArgs{
			Stream: "orders", Group: "shop", Consumer: "works", Start: start, Count: 4,
		}
		some, next, err := client.XAutoClaim(ctx, claim).Result()
		story.Must(err)
		finish(some)
		if next == "0-0" {
			break
		}
		start = next
	}
	story.Check("all done, each once", []int{len(seen), acknowledged}, []int{count, count})
	group := story.Of(client.XInfoGroups(ctx, "orders").Result())[0]
	numbers := []int64{group.Consumers, group.Pending, group.Lag, group.EntriesRead}
	story.Check("the group", numbers, []int{2, 0, 0, count})
	story.Check("trimmed", story.Of(client.XTrimMaxLen(ctx, "orders", 5).Result()), count-5)
	left := story.Of(client.XRange(ctx, "orders", "-", "+").Result())
	story.Check("left", []any{len(left), left[0].Values}, []any{5, map[string]string{"n": "45"}})
}
