package claret

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"claret/go/internal/failure"
	"claret/go/internal/script"
)

const (
	leaseDefault = 30 * time.Second
	// trusted is the part of a lease in percent that its holder relies on: clocks may differ in speed.
	trusted = 90
)

// LockOptions say how a lock is acquired. All may be left out.
type LockOptions struct {
	// Lease is the time for which the lock stays held if its holder is lost. While the holder lives
	// it is renewed. Default: 30 seconds.
	Lease time.Duration
	// Timeout is the longest wait; 0 waits until the context ends.
	Timeout time.Duration
	// NoWait does not wait at all.
	NoWait bool
	// Owner is the name in LOCK.HOLDERS. Default: the names of the machine and the process.
	Owner string
	// Shared admits other holders that share the lock too.
	Shared bool
	// Limit admits that many holders in all; 0 is one alone.
	Limit int
	// Detect refuses with ErrDeadlock a wait that would close a cycle of owners. It needs an Owner
	// that nothing else uses at the same time.
	Detect bool
	// Near lets the server that the client is connected to keep the lock, and pass it from client to
	// client without a write. Next lets a release pass the lock on before it is on disk. What such a
	// lock guards must be guarded by Fenced: Tx.Require refuses it. Both are held alone.
	Near, Next bool
	// tokens is the number of fencing tokens of the grant.
	tokens int
}

func (o LockOptions) filled() (LockOptions, error) {
	if o.Lease == 0 {
		o.Lease = leaseDefault
	}
	switch {
	case o.Lease < time.Millisecond:
		return o, errors.New("claret: a lease has a millisecond at least")
	case o.Shared && o.Limit > 0:
		return o, errors.New("claret: a lock is shared or has a limit")
	case o.Detect && o.Owner == "":
		return o, errors.New("claret: Detect needs an Owner")
	case o.isRemote() && (o.Shared || o.Limit > 0 || o.Near && o.Detect):
		return o, errors.New("claret: a lock with Near or Next is held alone, and Near detects no cycles")
	case o.Near && o.Next:
		return o, errors.New("claret: a lock has Near or Next, not both")
	}
	if o.Owner == "" {
		o.Owner = ownerDefault()
	}
	return o, nil
}

// isRemote tells whether the server's word about the holder is not to be relied on.
func (o LockOptions) isRemote() bool { return o.Near || o.Next }

func ownerDefault() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// Held is a lock that Fenced, Batch.Fence and Tx.Require accept: a Lock, a Leadership or a Stay.
type Held interface {
	// Name is the key of the lock.
	Name() string
	// Token is the fencing token. It is larger than those of all holders before.
	Token() int64
	// grant is the token by which the server knows the holder; an ErrOrder if it cannot be asked.
	grant() (int64, error)
	lose()
}

// Lock is a lock that is held. Its lease is renewed in the background until Unlock. It is safe for
// concurrent use.
type Lock struct {
	db      *DB
	name    string
	token   int64
	options LockOptions
	ctx     context.Context
	cancel  context.CancelCauseFunc
	stop    context.CancelFunc
	ended   chan struct{}

	mutex sync.Mutex
	until time.Time
	over  bool
}

// Lock waits in turn for a lock. ErrNotAcquired says that it was not free in time, ErrDeadlock that
// the wait would close a cycle. The request has a number: if the connection breaks it is repeated,
// and granted once.
func (db *DB) Lock(ctx context.Context, name string, options LockOptions) (*Lock, error) {
	command := "LOCK.ACQUIRE"
	switch {
	case options.NoWait && options.isRemote():
		// Such a lock needs a wait, however short.
		options.NoWait, options.Timeout = false, time.Millisecond
	case options.NoWait:
		command = "LOCK.TRY"
	}
	return db.acquire(ctx, name, options, []any{command, name})
}

// acquire carries out a command that grants a lock, to which the options are added.
func (db *DB) acquire(
	ctx context.Context, name string, options LockOptions, command []any,
) (*Lock, error) {
	options, err := options.filled()
	if err != nil {
		return nil, err
	}
	counter := db.requests.Borrow()
	lock := &Lock{db: db, name: name, options: options, ended: make(chan struct{})}
	remains, err := lock.obtain(ctx, counter, command)
	if remains == nil {
		db.requests.Return(counter)
	} else {
		giveBack(remains, func() { db.requests.Return(counter) })
	}
	if err != nil {
		return nil, err
	}
	lock.ctx, lock.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	renewing, stop := context.WithCancel(context.Background())
	lock.stop = stop
	go lock.keep(renewing)
	return lock, nil
}

// obtain requests the lock until it is held. If it fails, the function that it returns, unless that
// is nil, gives back what may have been granted all the same.
func (l *Lock) obtain(
	ctx context.Context, counter *script.Counter, command []any,
) (remains func(), err error) {
	for {
		token, asked, again, remains, err := l.ask(ctx, counter.Next(), command)
		if err != nil {
			return remains, err
		}
		l.token, l.until = token, asked.Add(l.relied())
		// The server may have ended the grant if it noticed the end of a first connection.
		if !again && time.Since(asked) <= l.options.Lease/10 {
			return nil, nil
		}
		held, err := l.confirm(ctx)
		if err != nil {
			return func() { l.discard(token) }, err
		}
		if held {
			return nil, nil
		}
		l.over = false
	}
}

// ask requests the lock under a number until there is an answer; again tells that it was repeated.
func (l *Lock) ask(
	ctx context.Context, request *script.Request, command []any,
) (token int64, asked time.Time, again bool, remains func(), err error) {
	begun, options := time.Now(), l.options
	search := func() { l.search(request, command) }
	attempts := script.Default.Begin()
	for {
		if !attempts.Next(ctx) {
			if again {
				remains = search
			}
			return 0, asked, again, remains, failure.Ended(ctx, err)
		}
		asked = time.Now()
		wait := left(options.Timeout, begun)
		if options.NoWait {
			wait = time.Millisecond
		}
		words := append(append([]any{}, command...), options.words(wait)...)
		var reply any
		reply, remains, err = l.attempt(ctx, wait, request, words, search)
		if err == nil {
			token, isGranted := reply.(int64)
			if !isGranted {
				err = failure.New(ErrNotAcquired, "the lock "+l.name+" was not free in time", nil)
			}
			return token, asked, again, nil, err
		}
		if !isPassing(err) {
			if again && remains == nil {
				remains = search
			}
			return 0, asked, again, remains, err
		}
		again = true
		attempts.AfterWait(err)
	}
}

// confirm renews the lease of a lock that was just granted, until there is an answer.
func (l *Lock) confirm(ctx context.Context) (held bool, err error) {
	fresh := false
	for attempts := script.Default.Begin(); attempts.Next(ctx); fresh = true {
		held, err = l.renew(ctx, fresh)
		if err == nil || ctx.Err() == nil && !isPassing(err) && !errors.Is(err, context.DeadlineExceeded) {
			return held, err
		}
	}
	return false, failure.Ended(ctx, err)
}

// words are the options of a lock.
func (o LockOptions) words(wait time.Duration) []any {
	words := []any{"LEASE", o.Lease.Milliseconds()}
	if o.Near {
		words = append(words, "NEAR")
	}
	if o.Next {
		words = append(words, "NEXT")
	}
	words = append(words, o.place(wait)...)
	if o.tokens > 0 {
		words = append(words, "TOKENS", o.tokens)
	}
	return words
}

// place are the options of a place in the queue, which a section has as well.
func (o LockOptions) place(wait time.Duration) []any {
	words := []any{"OWNER", o.Owner}
	if wait > 0 && !o.NoWait {
		words = append(words, "TIMEOUT", milliseconds(wait))
	}
	if o.Shared {
		words = append(words, "SHARED")
	}
	if o.Limit > 0 {
		words = append(words, "LIMIT", o.Limit)
	}
	if o.Detect {
		words = append(words, "DETECT")
	}
	return words
}

// Name is the key of the lock.
func (l *Lock) Name() string { return l.name }

// Token is the fencing token of the grant.
func (l *Lock) Token() int64 { return l.token }

func (l *Lock) grant() (int64, error) {
	if l.options.isRemote() {
		return 0, failure.Order("the server does not tell who holds a lock with Near or Next: use Fenced")
	}
	return l.token, nil
}

// Held tells whether the holder can rely on the lock, by this machine's monotonic clock. It asks no
// server: another holder may have taken the lock if this process was stopped since.
func (l *Lock) Held() bool { return l.left() > 0 }

// Context is done when the lock is lost or released. Its context.Cause is ErrLockLost if it was
// lost. It has the values of the context with which the lock was acquired.
func (l *Lock) Context() context.Context { return l.ctx }

func (l *Lock) left() time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.over {
		return 0
	}
	return time.Until(l.until)
}

func (l *Lock) relied() time.Duration { return l.options.Lease * trusted / 100 }

// renew begins the lease anew; false means that the lock is lost. The answer must come within a part
// of the lease, so that there is time for other attempts, over fresh connections.
func (l *Lock) renew(ctx context.Context, fresh bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, max(l.options.Lease/6, time.Millisecond))
	defer cancel()
	take := l.db.lanes.TakeToWait
	if fresh {
		take = l.db.lanes.TakeFresh
	}
	lane, err := take()
	if err != nil {
		return false, err
	}
	asked := time.Now()
	lease := l.options.Lease.Milliseconds()
	command := redis.NewCmd(ctx, "LOCK.RENEW", l.name, l.token, "LEASE", lease)
	if err := lane.Exchange(ctx, 0, command); err != nil {
		lane.Abandon()
		return false, failure.GaveUp(ctx, failure.Broken(err))
	}
	lane.Release()
	renewed, err := command.Int64()
	err = failure.Translate(err)
	if err != nil {
		return false, err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if renewed == 0 {
		l.over = true
		return false, nil
	}
	l.until = asked.Add(l.relied())
	return true, nil
}

// keep renews the lease until it is told to stop, and tells when the lock is lost.
func (l *Lock) keep(ctx context.Context) {
	defer close(l.ended)
	third := l.options.Lease / 3
	pause, fresh := third, false
	for {
		rest := l.left()
		if rest <= 0 {
			l.lose()
			return
		}
		if !script.Sleep(ctx, min(pause, rest)) {
			return
		}
		within, cancel := context.WithTimeout(ctx, max(l.left(), 0))
		held, err := l.renew(within, fresh)
		cancel()
		fresh = err != nil
		switch {
		case err != nil:
			pause = third / 10
		case held:
			pause = third
		}
	}
}

// lose marks the lock as lost.
func (l *Lock) lose() { l.end(failure.New(ErrLockLost, "the lock "+l.name, nil)) }

// end ends the time in the lock; the cause is nil if it is released.
func (l *Lock) end(cause error) {
	l.mutex.Lock()
	l.over = true
	l.mutex.Unlock()
	l.cancel(cause)
}

// StopRenewing ends the renewal of the lease, as if this process had been stopped: for tests of
// what happens then. The lock ends with its lease.
func (l *Lock) StopRenewing() {
	l.stop()
	<-l.ended
	time.AfterFunc(l.left(), l.lose)
}

// Unlock releases the lock. ErrLockLost says that it was no longer held. If the server cannot be
// reached the lock ends with its lease. A context that has ended does not prevent the release.
func (l *Lock) Unlock(ctx context.Context) error {
	l.stop()
	<-l.ended
	if ctx.Err() != nil {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.db.options.ConnectTimeout)
		defer cancel()
		ctx = within
	}
	lost := !l.Held()
	l.end(nil)
	counter := l.db.requests.Borrow()
	defer l.db.requests.Return(counter)
	// Under a number, a release whose answer was lost has the same answer when it is repeated.
	request, words := counter.Next(), []any{"LOCK.RELEASE", l.name, l.token}
	var last error
	for attempts := script.Default.Begin(); attempts.Next(ctx); {
		reply, err := l.db.askWithin(ctx, l.db.options.ReplyTimeout, request, words)
		if err == nil && reply == int64(0) || lost && errors.Is(err, ErrClosed) {
			return failure.New(ErrLockLost, "the lock "+l.name, nil)
		}
		if err == nil {
			return nil
		}
		last = err
		if !isPassing(err) {
			break
		}
	}
	return failure.Ended(ctx, failure.Broken(last))
}

// Fenced carries out commands under the token of a lock.
type Fenced struct {
	db   *DB
	held Held
}

// Fenced has commands on keys of one hash slot, which are refused with ErrLockLost, and change
// nothing, if a later holder of the lock has written there.
func (db *DB) Fenced(held Held) *Fenced { return &Fenced{db: db, held: held} }

// Do carries out a command.
func (f *Fenced) Do(ctx context.Context, words ...any) *redis.Cmd {
	words = append([]any{"FENCE", f.held.Name(), f.held.Token()}, words...)
	if err := checkTogether(words); err != nil {
		command := redis.NewCmd(ctx, words...)
		command.SetErr(err)
		return command
	}
	return f.db.Do(ctx, words...)
}

// isPassing tells whether a request with a number is to be sent again.
func isPassing(err error) bool {
	switch {
	case failure.IsOpening(err):
		return false
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.Is(err, ErrBusy), errors.Is(err, ErrUnknown), errors.Is(err, ErrConnection):
		return true
	}
	return !failure.IsKnown(err) && !failure.IsReply(err)
}

// left is the time that is left of a limit; 0 is none.
func left(limit time.Duration, since time.Time) time.Duration {
	if limit <= 0 {
		return 0
	}
	return max(time.Millisecond, limit-time.Since(since))
}

func milliseconds(wait time.Duration) int64 {
	return max(1, int64((wait+time.Millisecond/2)/time.Millisecond))
}
