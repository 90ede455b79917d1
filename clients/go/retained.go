package claret

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"claret/go/internal/failure"
	"claret/go/internal/script"
)

const (
	// cohort is the most stays after another client wants the lock.
	cohort = 16
	// tokensOfGrant is so many that a grant is seldom used up.
	tokensOfGrant = 1024
)

// Retained is a lock that stays with this process, for all its goroutines, until another client
// wants it. Entering it again costs nothing meanwhile. Goroutines take turns in the order of their
// arrival, each under a fencing token of its own. It is safe for concurrent use.
type Retained struct {
	db      *DB
	name    string
	options LockOptions

	mutex sync.Mutex
	// changed is closed at each change, and replaced.
	changed chan struct{}
	grant   *Lock
	// used is the number of tokens of the grant that are used up.
	used int64
	// recalled tells that another client wants the lock, afterwards how many stays began since.
	recalled   bool
	afterwards int
	inside     *Stay
	line       []*Stay
	closed     bool
}

// Retain makes a lock that stays with this process. Nothing is sent until it is entered. Of the
// options, Timeout does not count: it is given to Enter. The lock is held alone, and detects no
// deadlocks.
func (db *DB) Retain(name string, options LockOptions) (*Retained, error) {
	if options.Shared || options.Limit > 0 || options.Detect || options.isRemote() {
		return nil, failure.Order("a retained lock is held alone, by this process, and detects no deadlocks")
	}
	options.tokens = tokensOfGrant
	options, err := options.filled()
	if err != nil {
		return nil, err
	}
	return &Retained{db: db, name: name, options: options, changed: make(chan struct{})}, nil
}

// Enter waits in turn for a stay in the lock, so long at most; 0 waits until the context ends.
// ErrNotAcquired says that it was not free in time.
func (r *Retained) Enter(ctx context.Context, timeout time.Duration) (*Stay, error) {
	stay := &Stay{of: r}
	r.mutex.Lock()
	r.line = append(r.line, stay)
	r.mutex.Unlock()
	if err := r.enter(ctx, stay, timeout); err != nil {
		r.give(func() { r.remove(stay) })
		return nil, err
	}
	return stay, nil
}

func (r *Retained) enter(ctx context.Context, stay *Stay, timeout time.Duration) error {
	begun, within := time.Now(), ctx
	if timeout > 0 {
		limited, cancel := context.WithDeadline(ctx, begun.Add(timeout))
		defer cancel()
		within = limited
	}
	for {
		r.mutex.Lock()
		if r.closed {
			r.mutex.Unlock()
			return failure.New(ErrClosed, "the lock "+r.name+" was given back for good", nil)
		}
		if r.inside != nil || r.line[0] != stay {
			changed := r.changed
			r.mutex.Unlock()
			select {
			case <-changed:
				continue
			case <-within.Done():
				if err := ctx.Err(); err != nil {
					return err
				}
				return failure.New(ErrNotAcquired, "the lock "+r.name, nil)
			}
		}
		old := r.takeBack()
		entered := r.admit(stay)
		r.mutex.Unlock()
		if entered {
			return nil
		}
		release(old)
		options := r.options
		options.Timeout = left(timeout, begun)
		grant, err := r.db.Lock(ctx, r.name, options)
		if err != nil {
			return err
		}
		r.mutex.Lock()
		r.grant, r.used, r.recalled, r.afterwards = grant, 0, false, 0
		r.mutex.Unlock()
		go r.listen(grant)
	}
}

// admit lets the first of the line in, if the process has the lock.
func (r *Retained) admit(stay *Stay) bool {
	if r.grant == nil {
		return false
	}
	stay.granted, stay.token = r.grant, r.grant.Token()+r.used
	r.used++
	if r.recalled {
		r.afterwards++
	}
	r.line = r.line[1:]
	r.inside = stay
	return true
}

// takeBack returns the grant, which the process no longer has, if it is to be given back now.
func (r *Retained) takeBack() *Lock {
	if r.grant == nil || r.inside != nil {
		return nil
	}
	others := r.recalled && (len(r.line) == 0 || r.afterwards >= cohort)
	if !others && !r.closed && r.grant.Held() && r.used < tokensOfGrant {
		return nil
	}
	grant := r.grant
	r.grant = nil
	return grant
}

// remove ends a stay, or takes a waiting one out of the line.
func (r *Retained) remove(stay *Stay) {
	if r.inside == stay {
		r.inside = nil
	}
	for at, one := range r.line {
		if one == stay {
			r.line = append(r.line[:at:at], r.line[at+1:]...)
			return
		}
	}
}

// give changes the state, and gives the grant back if that is now due.
func (r *Retained) give(change func()) {
	r.mutex.Lock()
	change()
	grant := r.takeBack()
	close(r.changed)
	r.changed = make(chan struct{})
	r.mutex.Unlock()
	release(grant)
}

// listen waits until another client wants the lock, or it is lost, as long as the process has this
// grant. Its lease is renewed meanwhile as that of any lock.
func (r *Retained) listen(grant *Lock) {
	ctx := grant.Context()
	third := r.options.Lease / 3
	for ctx.Err() == nil {
		words := []any{"LOCK.WANTED", r.name, grant.Token(), "TIMEOUT", milliseconds(third)}
		reply, err := r.db.askAndWait(ctx, third, nil, words)
		waiters, isTold := reply.(int64)
		switch {
		case err != nil:
			script.Sleep(ctx, third/10)
		case isTold && waiters == 0:
			grant.lose()
		case isTold:
			r.give(func() {
				if r.grant == grant {
					r.recalled = true
				}
			})
			<-ctx.Done()
		}
	}
	r.give(func() {
		if r.grant == grant {
			// It is lost: its stay is told by its context.
			r.grant, r.inside = nil, nil
		}
	})
}

// release gives a grant, if there is one, to the next waiter. If that fails it ends with its lease.
func release(grant *Lock) {
	if grant != nil {
		_ = grant.Unlock(context.Background())
	}
}

// Close gives the lock back when its current stay ends; there are no further stays.
func (r *Retained) Close() { r.give(func() { r.closed = true }) }

// Stay is one stay in a retained lock.
type Stay struct {
	of      *Retained
	granted *Lock
	token   int64
	over    atomic.Bool
}

// Name is the key of the lock.
func (s *Stay) Name() string { return s.of.name }

// Token is the fencing token of this stay alone.
func (s *Stay) Token() int64 { return s.token }

func (s *Stay) grant() (int64, error) { return s.granted.grant() }

func (s *Stay) lose() { s.granted.lose() }

// Held tells whether the holder can rely on the lock; see Lock.Held.
func (s *Stay) Held() bool { return !s.over.Load() && s.granted.Held() }

// Context is done when the lock is lost, and later when the process has given it back.
func (s *Stay) Context() context.Context { return s.granted.Context() }

// Leave ends the stay. The lock stays with the process unless another client wants it. ErrLockLost
// says that it was no longer held.
func (s *Stay) Leave() error {
	if s.over.Swap(true) {
		return nil
	}
	held := s.granted.Held()
	s.of.give(func() { s.of.remove(s) })
	if !held {
		return failure.New(ErrLockLost, "the lock "+s.of.name, nil)
	}
	return nil
}
