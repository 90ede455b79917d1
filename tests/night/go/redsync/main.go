// Redsync: a mutex that is contended, extended, and lost when its time is over.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"claret/libraries/story"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
)

func main() {
	client := story.Client()
	defer client.Close()
	locks := redsync.New(goredis.NewPool(client))

	contend(locks)

	held := locks.NewMutex("work", redsync.WithExpiry(10*time.Second))
	other := locks.NewMutex("work", redsync.WithExpiry(10*time.Second))
	story.Must(held.TryLock())
	var taken *redsync.ErrTaken
	story.Check("a second one is refused", errors.As(other.TryLock(), &taken), true)
	story.Check("another cannot free it", free(other), false)
	story.Check("it is valid", story.Of(held.Valid()), true)
	before := held.Until()
	time.Sleep(20 * time.Millisecond)
	story.Check("extended", story.Of(held.Extend()), true)
	story.Check("for longer", held.Until().After(before), true)
	left := story.Of(client.PTTL(context.Background(), "work").Result())
	story.Check("the server knows", left > 9*time.Second && left <= 10*time.Second, true)
	story.Check("freed", story.Of(held.Unlock()), true)
	story.Must(other.TryLock())
	story.Check("free for another", story.Of(other.Unlock()), true)

	expire(locks)
}

// Many goroutines add to a number that only the mutex protects.
func contend(locks *redsync.Redsync) {
	const workers, turns = 8, 15
	count := 0
	var all sync.WaitGroup
	for range workers {
		all.Add(1)
		go func() {
			defer all.Done()
			options := []redsync.Option{
				redsync.WithTries(2000), redsync.WithRetryDelay(3 * time.Millisecond),
				redsync.WithExpiry(20 * time.Second),
			}
			mutex := locks.NewMutex("counter", options...)
			for range turns {
				story.Must(mutex.Lock())
				seen := count
				time.Sleep(time.Millisecond)
				count = seen + 1
				if !story.Of(mutex.Unlock()) {
					story.Fail("the mutex was lost")
				}
			}
		}()
	}
	all.Wait()
	story.Check("one after another", count, workers*turns)
}

// The time of a mutex ends while it is held.
func expire(locks *redsync.Redsync) {
	late := locks.NewMutex("late", redsync.WithExpiry(200*time.Millisecond))
	story.Must(late.Lock())
	time.Sleep(400 * time.Millisecond)
	story.Check("not valid any more", valid(late), false)
	story.Check("not extended any more", extend(late), false)
	_, err := late.Unlock()
	story.Check("expired", errors.Is(err, redsync.ErrLockAlreadyExpired), true)
	next := locks.NewMutex("late", redsync.WithExpiry(10*time.Second))
	story.Must(next.Lock())
	story.Check("the late one does not free it", free(late), false)
	story.Check("still held", story.Of(next.Valid()), true)
	story.Check("freed by its owner", story.Of(next.Unlock()), true)

	again := locks.NewMutex("again", redsync.WithExpiry(200*time.Millisecond), redsync.WithSetNXOnExtend())
	story.Must(again.Lock())
	time.Sleep(400 * time.Millisecond)
	story.Check("taken again by extending", story.Of(again.Extend()), true)
	story.Check("and freed", story.Of(again.Unlock()), true)
}

func valid(mutex *redsync.Mutex) bool {
	ok, err := mutex.Valid()
	return ok && err == nil
}

func extend(mutex *redsync.Mutex) bool {
	ok, err := mutex.Extend()
	return ok && err == nil
}

func free(mutex *redsync.Mutex) bool {
	ok, err := mutex.Unlock()
	return ok && err == nil
}
