package claret

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"claret/go/internal/failure"
	"claret/go/internal/link"
	"claret/go/internal/script"
)

const (
	// remainsMax is how long the giving up of a wait may take; what is left of it goes on afterwards.
	remainsMax = 500 * time.Millisecond
	// unblockPause is the time between attempts to end a wait, which may not have begun yet.
	unblockPause = 10 * time.Millisecond
)

// giveBack gives back what may have been granted, and waits a little for that.
func giveBack(remains, then func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer then()
		remains()
	}()
	timer := time.NewTimer(remainsMax)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// attempt sends one request for the lock. If the context ends first, the server may grant the lock
// in that moment: the connection then stays open for the answer, of which the function that it
// returns takes care.
func (l *Lock) attempt(
	ctx context.Context, wait time.Duration, request *script.Request, words []any, search func(),
) (reply any, remains func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	lane, err := l.db.lanes.TakeToWait()
	if err != nil {
		return nil, nil, err
	}
	within := context.WithoutCancel(ctx)
	opening := []redis.Cmder{
		redis.NewCmd(within, "CLIENT", "ID"), redis.NewCmd(within, request.Words()...),
	}
	command := redis.NewCmd(within, words...)
	done := make(chan error, 1)
	go func() {
		done <- lane.Begin(within, limitOf(wait), "LOCK", opening, []redis.Cmder{command})
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		return nil, func() { l.endWait(lane, done, command, search) }, ctx.Err()
	}
	if err != nil {
		// The connection is closed: the server then takes back what it would grant too late.
		lane.Abandon()
		if token, isGranted := command.Val().(int64); isGranted && failure.IsOpening(err) {
			// It was granted without a number.
			remains = func() { l.discard(token) }
		}
		return nil, remains, err
	}
	lane.Release()
	reply, err = replyOf(command)
	return reply, nil, err
}

// endWait ends a wait, and gives back a lock that was granted in that moment.
func (l *Lock) endWait(lane *link.Lane, done chan error, command *redis.Cmd, search func()) {
	ctx, cancel := context.WithTimeout(context.Background(), l.db.options.ConnectTimeout)
	defer cancel()
	err, clean := l.unblock(ctx, lane, done)
	if err != nil || !clean {
		// What was asked to end its wait may do so later, which must not be that of another user.
		lane.Abandon()
	} else {
		lane.Release()
	}
	if err == nil {
		if token, isGranted := command.Val().(int64); isGranted {
			l.discard(token)
			return
		}
	}
	search()
}

// unblock makes the server answer a wait on a lane. It tells the error of the lane, and whether
// each request to end the wait was answered.
func (l *Lock) unblock(ctx context.Context, lane *link.Lane, done chan error) (err error, clean bool) {
	for clean = true; ; {
		id := lane.ID()
		if id == 0 {
			// It was not sent yet.
			return context.Canceled, false
		}
		err := l.db.Do(ctx, "CLIENT", "UNBLOCK", id).Err()
		if err != nil {
			clean = false
		}
		if failure.IsReply(err) {
			// It is not permitted.
			return err, clean
		}
		timer := time.NewTimer(unblockPause)
		select {
		case err = <-done:
			timer.Stop()
			return err, clean
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err(), false
		}
	}
}

// search looks under the number of a request for a lock that was granted, and gives it back.
func (l *Lock) search(request *script.Request, command []any) {
	ctx, cancel := context.WithTimeout(context.Background(), l.db.options.ConnectTimeout)
	defer cancel()
	words := append([]any{}, command...)
	options := l.options
	if words[0] == "LOCK.ACQUIRE" {
		words[0] = "LOCK.TRY"
		options.NoWait = true
	}
	words = append(words, options.words(time.Millisecond)...)
	for attempts := script.Default.Begin(); attempts.Next(ctx); {
		reply, err := l.db.askAndWait(ctx, time.Millisecond, request, words)
		if token, isGranted := reply.(int64); isGranted && err == nil {
			l.discard(token)
			return
		}
		if err == nil || !isPassing(err) {
			return
		}
	}
}

// discard releases a token that is not going to be used, if the server can be reached.
func (l *Lock) discard(token int64) {
	ctx, cancel := context.WithTimeout(context.Background(), l.db.options.ConnectTimeout)
	defer cancel()
	for attempts := script.Default.Begin(); attempts.Next(ctx); {
		err := l.db.Do(ctx, "LOCK.RELEASE", l.name, token).Err()
		if err == nil || !isPassing(err) {
			return
		}
	}
}
