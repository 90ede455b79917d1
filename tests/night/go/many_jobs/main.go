// Asynq: so many tasks, while the server is killed again and again. Prints how many were done. The program
// ends when all are done, or when nothing was done for so many seconds as its third argument says.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"claret/libraries/story"

	"github.com/hibiken/asynq"
)

func main() {
	wanted := story.Of(strconv.Atoi(os.Args[2]))
	patience := time.Duration(story.Of(strconv.Atoi(os.Args[3]))) * time.Second
	options := asynq.RedisClientOpt{Addr: story.Address()}
	var mutex sync.Mutex
	done := map[string]bool{}
	server := asynq.NewServer(options, asynq.Config{
		Concurrency:              20,
		RetryDelayFunc:           soon,
		DelayedTaskCheckInterval: time.Second,
		TaskCheckInterval:        100 * time.Millisecond,
		LogLevel:                 asynq.FatalLevel,
	})
	story.Must(server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		mutex.Lock()
		defer mutex.Unlock()
		done[string(task.Payload())] = true
		return nil
	})))
	count := func() int {
		mutex.Lock()
		defer mutex.Unlock()
		return len(done)
	}
	add(options, wanted)
	fmt.Println("added", wanted)
	before, since := -1, time.Now()
	for count() < wanted && time.Since(since) < patience {
		if now := count(); now != before {
			before, since = now, time.Now()
		}
		time.Sleep(50 * time.Millisecond)
	}
	fmt.Println("done", count())
	os.Exit(0)
}

func soon(int, error, *asynq.Task) time.Duration {
	return 100 * time.Millisecond
}

// Adds the tasks, eight at a time.
func add(options asynq.RedisClientOpt, wanted int) {
	client := asynq.NewClient(options)
	numbers := make(chan int)
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := range numbers {
				enqueue(client, n)
			}
		}()
	}
	for n := range wanted {
		numbers <- n
	}
	close(numbers)
	all.Wait()
}

// Adds a task. If it is not known whether it was added, it has the same name the next time.
func enqueue(client *asynq.Client, n int) {
	task := asynq.NewTask("job", []byte(strconv.Itoa(n)), asynq.MaxRetry(100))
	for {
		// What is done stays known for a while, so that no task is added twice.
		_, err := client.Enqueue(task, asynq.TaskID(fmt.Sprint("job-", n)), asynq.Retention(time.Hour))
		if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
