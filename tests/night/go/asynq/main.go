// Asynq: tasks, retries, delays, unique tasks, groups, the archive, priorities, pauses, cancelling.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"claret/libraries/story"

	"github.com/hibiken/asynq"
)

// The work of the tasks, and what it has seen.
type work struct {
	mutex    sync.Mutex
	order    []string
	tries    atomic.Int64
	broken   atomic.Bool
	started  atomic.Bool
	canceled atomic.Bool
}

func (seen *work) did(name string) {
	seen.mutex.Lock()
	defer seen.mutex.Unlock()
	seen.order = append(seen.order, name)
}

func (seen *work) done(name string) int {
	seen.mutex.Lock()
	defer seen.mutex.Unlock()
	count := 0
	for _, one := range seen.order {
		if one == name {
			count++
		}
	}
	return count
}

func main() {
	options := asynq.RedisClientOpt{Addr: story.Address()}
	client, inspector := asynq.NewClient(options), asynq.NewInspector(options)
	defer client.Close()
	defer inspector.Close()
	seen := &work{}
	seen.broken.Store(true)
	server := asynq.NewServer(options, asynq.Config{
		Concurrency:              4,
		Queues:                   map[string]int{"default": 1, "urgent": 3},
		StrictPriority:           true,
		RetryDelayFunc:           soon,
		DelayedTaskCheckInterval: 50 * time.Millisecond,
		TaskCheckInterval:        50 * time.Millisecond,
		GroupGracePeriod:         time.Second,
		GroupMaxSize:             3,
		GroupAggregator:          asynq.GroupAggregatorFunc(together),
		LogLevel:                 asynq.FatalLevel,
	})
	story.Must(server.Start(seen.handlers()))

	results(client, inspector)
	again(client, inspector, seen)
	later(client, seen)
	unique(client, seen)
	archive(client, inspector, seen)
	groups(client, inspector)
	cancel(client, inspector, seen)
	every(options, seen)
	server.Shutdown()
	priorities(options, client, inspector)
	end(inspector)
}

func soon(int, error, *asynq.Task) time.Duration {
	return 50 * time.Millisecond
}

func together(group string, tasks []*asynq.Task) *asynq.Task {
	var names []string
	for _, task := range tasks {
		names = append(names, string(task.Payload()))
	}
	slices.Sort(names)
	text := group + ":" + strings.Join(names, ",")
	return asynq.NewTask("echo", []byte(text), asynq.Retention(time.Hour), asynq.TaskID("together"))
}

func (seen *work) handlers() *asynq.ServeMux {
	mux := asynq.NewServeMux()
	mux.HandleFunc("double", func(_ context.Context, task *asynq.Task) error {
		n := story.Of(strconv.Atoi(string(task.Payload())))
		_, err := task.ResultWriter().Write(fmt.Append(nil, 2*n))
		return err
	})
	mux.HandleFunc("echo", func(_ context.Context, task *asynq.Task) error {
		_, err := task.ResultWriter().Write(task.Payload())
		return err
	})
	mux.HandleFunc("note", func(_ context.Context, task *asynq.Task) error {
		seen.did(string(task.Payload()))
		return nil
	})
	mux.HandleFunc("flaky", func(context.Context, *asynq.Task) error {
		if seen.tries.Add(1) < 3 {
			return errors.New("again")
		}
		return nil
	})
	mux.HandleFunc("broken", func(context.Context, *asynq.Task) error {
		if seen.broken.Load() {
			return errors.New("as it should")
		}
		return nil
	})
	mux.HandleFunc("long", func(ctx context.Context, _ *asynq.Task) error {
		seen.started.Store(true)
		<-ctx.Done()
		seen.canceled.Store(errors.Is(ctx.Err(), context.Canceled))
		return ctx.Err()
	})
	return mux
}

func task(kind string, payload any, options ...asynq.Option) *asynq.Task {
	options = append(options, asynq.Retention(time.Hour))
	return asynq.NewTask(kind, fmt.Append(nil, payload), options...)
}

// Waits until a task is in a state.
func is(inspector *asynq.Inspector, id string, state asynq.TaskState) *asynq.TaskInfo {
	var found *asynq.TaskInfo
	story.Until(id+" is "+state.String(), func() bool {
		info, err := inspector.GetTaskInfo("default", id)
		found = info
		return err == nil && info.State == state
	})
	return found
}

func results(client *asynq.Client, inspector *asynq.Inspector) {
	const count = 50
	var ids []string
	for n := range count {
		ids = append(ids, story.Of(client.Enqueue(task("double", n))).ID)
	}
	sum := 0
	for _, id := range ids {
		sum += story.Of(strconv.Atoi(string(is(inspector, id, asynq.TaskStateCompleted).Result)))
	}
	story.Check("results", sum, count*(count-1))
}

func again(client *asynq.Client, inspector *asynq.Inspector, seen *work) {
	id := story.Of(client.Enqueue(task("flaky", "", asynq.MaxRetry(3)))).ID
	info := is(inspector, id, asynq.TaskStateCompleted)
	story.Check("tries", []any{seen.tries.Load(), info.Retried, info.LastErr}, []any{3, 2, "again"})
}

func later(client *asynq.Client, seen *work) {
	begun := time.Now()
	info := story.Of(client.Enqueue(task("note", "late"), asynq.ProcessIn(1200*time.Millisecond)))
	story.Check("later", info.State.String(), "scheduled")
	story.Until("the late one", func() bool { return seen.done("late") == 1 })
	// Asynq counts in whole seconds.
	story.Check("not before its time", time.Since(begun) > 100*time.Millisecond, true)
}

func unique(client *asynq.Client, seen *work) {
	only := func() error {
		note := task("note", "only", asynq.Unique(time.Minute), asynq.ProcessIn(time.Second))
		_, err := client.Enqueue(note)
		return err
	}
	var added, refused atomic.Int64
	var all sync.WaitGroup
	for range 10 {
		all.Add(1)
		go func() {
			defer all.Done()
			switch err := only(); {
			case err == nil:
				added.Add(1)
			case errors.Is(err, asynq.ErrDuplicateTask):
				refused.Add(1)
			default:
				story.Must(err)
			}
		}()
	}
	all.Wait()
	story.Check("one of ten", []int64{added.Load(), refused.Load()}, []int{1, 9})
	story.Until("the only one", func() bool { return seen.done("only") == 1 })
	story.Until("another is allowed", func() bool { return only() == nil })
	story.Until("the other one", func() bool { return seen.done("only") == 2 })
	named := func() error {
		_, err := client.Enqueue(task("note", "named"), asynq.TaskID("name"), asynq.ProcessIn(time.Hour))
		return err
	}
	story.Must(named())
	story.Check("a name twice", errors.Is(named(), asynq.ErrTaskIDConflict), true)
}

func archive(client *asynq.Client, inspector *asynq.Inspector, seen *work) {
	id := story.Of(client.Enqueue(task("broken", "", asynq.MaxRetry(1)))).ID
	info := is(inspector, id, asynq.TaskStateArchived)
	story.Check("archived", []any{info.Retried, info.LastErr}, []any{1, "as it should"})
	seen.broken.Store(false)
	story.Must(inspector.RunTask("default", id))
	is(inspector, id, asynq.TaskStateCompleted)
	story.Check("run again", len(story.Of(inspector.ListArchivedTasks("default"))), 0)
	story.Must(inspector.RunTask("default", "name"))
	is(inspector, "name", asynq.TaskStateCompleted)
	story.Check("run before its time", seen.done("named"), 1)
}

func groups(client *asynq.Client, inspector *asynq.Inspector) {
	for _, name := range []string{"a", "b", "c"} {
		info := story.Of(client.Enqueue(asynq.NewTask("part", []byte(name), asynq.Group("parts"))))
		story.Check("a part", info.State.String(), "aggregating")
	}
	info := is(inspector, "together", asynq.TaskStateCompleted)
	story.Check("a group", string(info.Result), "parts:a,b,c")
}

func cancel(client *asynq.Client, inspector *asynq.Inspector, seen *work) {
	id := story.Of(client.Enqueue(task("long", "", asynq.MaxRetry(0)))).ID
	story.Until("the long one", seen.started.Load)
	servers := story.Of(inspector.Servers())
	story.Check("servers", []any{len(servers), servers[0].Concurrency}, []any{1, 4})
	story.Until("canceling", func() bool {
		story.Must(inspector.CancelProcessing(id))
		return seen.canceled.Load()
	})
	is(inspector, id, asynq.TaskStateArchived)
	story.Check("canceled", seen.canceled.Load(), true)
}

func every(options asynq.RedisClientOpt, seen *work) {
	scheduler := asynq.NewScheduler(options, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	story.Of(scheduler.Register("@every 1s", task("note", "tick")))
	story.Must(scheduler.Start())
	story.Until("ticks", func() bool { return seen.done("tick") >= 2 })
	scheduler.Shutdown()
	fmt.Println("OK ticks")
}

// A worker of one task at a time takes what is urgent first; a queue that is paused waits.
func priorities(options asynq.RedisClientOpt, client *asynq.Client, inspector *asynq.Inspector) {
	seen := &work{}
	server := asynq.NewServer(options, asynq.Config{
		Concurrency:       1,
		Queues:            map[string]int{"default": 1, "urgent": 3},
		StrictPriority:    true,
		TaskCheckInterval: 50 * time.Millisecond,
		LogLevel:          asynq.FatalLevel,
	})
	for n := range 3 {
		story.Of(client.Enqueue(task("note", fmt.Sprint("slow", n))))
		story.Of(client.Enqueue(task("note", fmt.Sprint("urgent", n)), asynq.Queue("urgent")))
	}
	story.Must(inspector.PauseQueue("default"))
	story.Must(server.Start(seen.handlers()))
	story.Until("what is urgent", func() bool { return seen.done("urgent2") == 1 })
	time.Sleep(200 * time.Millisecond)
	story.Check("paused", seen.done("slow0"), 0)
	story.Must(inspector.UnpauseQueue("default"))
	story.Until("the rest", func() bool { return seen.done("slow2") == 1 })
	server.Shutdown()
	story.Check("in order", strings.Join(seen.order, " "), "urgent0 urgent1 urgent2 slow0 slow1 slow2")
}

// The numbers of the queue, and its end.
func end(inspector *asynq.Inspector) {
	info := story.Of(inspector.GetQueueInfo("default"))
	waiting := info.Pending + info.Active + info.Scheduled + info.Retry + info.Aggregating
	story.Check("waiting", []int{waiting, info.FailedTotal, info.Archived}, []int{0, 5, 1})
	story.Check("archived at last", story.Of(inspector.DeleteAllArchivedTasks("default")), 1)
	story.Must(inspector.DeleteQueue("urgent", true))
	story.Of(inspector.DeleteAllCompletedTasks("default"))
	story.Must(inspector.DeleteQueue("default", false))
	story.Check("queues", len(story.Of(inspector.Queues())), 0)
}
