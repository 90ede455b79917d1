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

// givenUp is a wait whose caller has given up. Its connection stays open for the answer: the server
// may grant, or release, in that moment.
type givenUp struct {
	db      *DB
	lane    *link.Lane
	done    chan error
	command *redis.Cmd
}

// wait sends a request that waits, under its number. If the context ends first, what it returns ends
// the wait.
func (db *DB) wait(
	ctx context.Context, wait time.Duration, request *script.Request, words []any,
) (reply any, left *givenUp, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	lane, err := db.lanes.TakeToWait()
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
		done <- lane.Begin(within, limitOf(wait), "WAIT", opening, []redis.Cmder{command})
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		return nil, &givenUp{db, lane, done, command}, ctx.Err()
	}
	if err != nil {
		// The connection is closed: the server then takes back what it would grant too late.
		lane.Abandon()
		if failure.IsOpening(err) {
			// It may have been granted without a number.
			reply = command.Val()
		}
		return reply, nil, err
	}
	lane.Release()
	reply, err = replyOf(command)
	return reply, nil, err
}

// attempt sends one request for the lock. The function that it returns, unless that is nil, gives
// back what the server may have granted although the context has ended.
func (l *Lock) attempt(
	ctx context.Context, wait time.Duration, request *script.Request, words []any, search func(),
) (reply any, remains func(), err error) {
	reply, left, err := l.db.wait(ctx, wait, request, words)
	if left != nil {
		remains = func() {
			reply, isAnswered := left.end()
			if token, isGranted := reply.(int64); isGranted && isAnswered {
				l.discard(token)
			} else {
				search()
			}
		}
	}
	if token, isGranted := reply.(int64); isGranted && err != nil {
		remains = func() { l.discard(token) }
	}
	return reply, remains, err
}

// withdraw takes an arrival at a barrier back, and calls a function when the wait has ended. It
// returns the generation if the arrival counts, and whether it is certain that it does or does not.
func (g *givenUp) withdraw(
	request *script.Request, name string, then func(),
) (generation any, isCertain bool) {
	type outcome struct {
		generation any
		isCertain  bool
	}
	ended := make(chan outcome, 1)
	giveBack(func() {
		isSent := g.lane.ID() != 0
		reply, isAnswered := g.end()
		if isAnswered && reply == nil {
			ctx, cancel := context.WithTimeout(context.Background(), g.db.options.ConnectTimeout)
			defer cancel()
			var err error
			reply, err = g.db.settled(ctx, request, name)
			isAnswered = err == nil
		}
		ended <- outcome{reply, isAnswered || !isSent}
	}, then)
	select {
	case got := <-ended:
		return got.generation, got.isCertain
	default:
		return nil, false
	}
}

// settled tells whether an arrival whose wait has ended in vain counts all the same, because it was
// on its way to the log: then the generation is the reply to any write under its number.
func (db *DB) settled(
	ctx context.Context, request *script.Request, name string,
) (generation any, err error) {
	words := []any{"LOCK.RELEASE", name, 0}
	reply, err := db.askWithin(ctx, db.options.ReplyTimeout, request, words)
	if reply == int64(0) || failure.IsReply(err) && !failure.IsKnown(err) {
		// A user without the right to ask goes by the first answer.
		return nil, nil
	}
	return reply, err
}

// end makes the server answer the wait; it tells whether there is an answer.
func (g *givenUp) end() (reply any, isAnswered bool) {
	ctx, cancel := context.WithTimeout(context.Background(), g.db.options.ConnectTimeout)
	defer cancel()
	isEnded, err, isClean := g.unblock(ctx)
	if !isEnded {
		g.lane.Cut()
		go func() {
			<-g.done
			g.lane.Release()
		}()
		return nil, false
	}
	if err != nil || !isClean {
		// What was asked to end its wait may do so later, which must not be that of another user.
		g.lane.Cut()
	}
	g.lane.Release()
	if err != nil {
		return nil, false
	}
	reply, err = replyOf(g.command)
	return reply, err == nil
}

// unblock asks the server to end the wait until it is answered. It tells whether it is, with the
// error of the connection, and whether each request to end the wait was answered.
func (g *givenUp) unblock(ctx context.Context) (isEnded bool, err error, isClean bool) {
	for isClean = true; ; {
		id := g.lane.ID()
		if id == 0 {
			// It was not sent yet.
			return false, nil, false
		}
		err := g.db.Do(ctx, "CLIENT", "UNBLOCK", id).Err()
		if err != nil {
			isClean = false
		}
		if failure.IsReply(err) {
			// It is not permitted.
			return false, err, false
		}
		timer := time.NewTimer(unblockPause)
		select {
		case err = <-g.done:
			timer.Stop()
			return true, err, isClean
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false, ctx.Err(), false
		}
	}
}

// search looks under the number of a request for a lock that was granted, and gives it back.
func (l *Lock) search(request *script.Request, command []any) {
	ctx, cancel := context.WithTimeout(context.Background(), l.db.options.ConnectTimeout)
	defer cancel()
	words := append([]any{}, command...)
	options := l.options
	if words[0] == "LOCK.ACQUIRE" && !options.isRemote() {
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
