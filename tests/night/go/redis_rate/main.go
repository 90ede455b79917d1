// The rate limiter of go-redis: a burst is allowed exactly, then no more until some time has passed.
package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"claret/libraries/story"

	"github.com/go-redis/redis_rate/v10"
)

func main() {
	ctx := context.Background()
	client := story.Client()
	defer client.Close()
	limiter := redis_rate.NewLimiter(client)

	limit := redis_rate.Limit{Rate: 5, Burst: 40, Period: time.Hour}
	var allowed atomic.Int64
	var all sync.WaitGroup
	for range 10 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 20 {
				allowed.Add(int64(story.Of(limiter.Allow(ctx, "burst", limit)).Allowed))
			}
		}()
	}
	all.Wait()
	story.Check("a burst of 200", allowed.Load(), 40)
	over := story.Of(limiter.Allow(ctx, "burst", limit))
	story.Check("over it", []int{over.Allowed, over.Remaining}, []int{0, 0})
	story.Check("the next one in minutes", over.RetryAfter.Round(time.Minute).Minutes(), 12)
	story.Check("all of it in hours", over.ResetAfter.Round(time.Hour).Hours(), 8)
	story.Check("another user", story.Of(limiter.Allow(ctx, "other", limit)).Remaining, 39)

	ten := redis_rate.PerHour(10)
	first := story.Of(limiter.AllowN(ctx, "some", ten, 4))
	story.Check("four of ten", []int{first.Allowed, first.Remaining}, []int{4, 6})
	story.Check("not seven more", story.Of(limiter.AllowN(ctx, "some", ten, 7)).Allowed, 0)
	most := story.Of(limiter.AllowAtMost(ctx, "some", ten, 7))
	story.Check("but six", []int{most.Allowed, most.Remaining}, []int{6, 0})
	story.Check("none at last", story.Of(limiter.AllowAtMost(ctx, "some", ten, 7)).Allowed, 0)
	story.Must(limiter.Reset(ctx, "some"))
	story.Check("anew", story.Of(limiter.Allow(ctx, "some", ten)).Remaining, 9)

	fast := redis_rate.Limit{Rate: 2, Burst: 1, Period: time.Second}
	story.Check("one", story.Of(limiter.Allow(ctx, "fast", fast)).Allowed, 1)
	refused := story.Of(limiter.Allow(ctx, "fast", fast))
	story.Check("two at once", refused.Allowed, 0)
	time.Sleep(refused.RetryAfter + 20*time.Millisecond)
	story.Check("after the time it said", story.Of(limiter.Allow(ctx, "fast", fast)).Allowed, 1)
	time.Sleep(1200 * time.Millisecond)
	story.Check("its key expires", story.Of(client.Exists(ctx, "rate:fast").Result()), 0)
}
