package script

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand"
	"sync"
	"time"

	"claret/go/internal/failure"
)

// Request is a name and a number under which a request takes effect once.
type Request struct {
	Name   string
	Number int64
}

// Words announce the number of the command that follows.
func (r *Request) Words() []any { return []any{"CLIENT", "REQUEST", r.Name, r.Number} }

// Requests are names that are unique for ever, each with a count. Each open request has a name of
// its own: the server remembers the outcomes of the last numbers of each name, and of requests
// under one name, the others could make it forget the outcome that one still has to ask for.
type Requests struct {
	prefix string

	mutex sync.Mutex
	made  int
	free  []*Counter
}

// Counter is a borrowed name with its count.
type Counter struct {
	name string
	last int64
}

// Next is a number that was never used.
func (c *Counter) Next() *Request {
	c.last++
	return &Request{Name: c.name, Number: c.last}
}

// NewRequests makes the names of one client.
func NewRequests() *Requests {
	var unique [16]byte
	if _, err := rand.Read(unique[:]); err != nil {
		panic(err)
	}
	return &Requests{prefix: "go-" + hex.EncodeToString(unique[:])}
}

// Borrow lends a name.
func (r *Requests) Borrow() *Counter {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if last := len(r.free) - 1; last >= 0 {
		counter := r.free[last]
		r.free = r.free[:last]
		return counter
	}
	r.made++
	return &Counter{name: fmt.Sprintf("%s-%d", r.prefix, r.made)}
}

// Return takes a name back.
func (r *Requests) Return(counter *Counter) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.free = append(r.free, counter)
}

// Retry is the number and the time of attempts, and the pauses between them.
type Retry struct {
	// Deadline is the time after which there is no further attempt.
	Deadline time.Duration
	// AttemptsMax is the most attempts; 0 is no limit.
	AttemptsMax int
}

// Default retries for ten seconds.
var Default = Retry{Deadline: 10 * time.Second}

const (
	pauseMin = 500 * time.Microsecond
	pauseMax = 50 * time.Millisecond
)

// Attempts counts the attempts of one run.
type Attempts struct {
	retry Retry
	since time.Time
	// asked is the beginning of the last attempt.
	asked time.Time
	made  int
}

// Begin begins to count.
func (r Retry) Begin() *Attempts { return &Attempts{retry: r, since: time.Now()} }

// Next pauses before the next attempt; false means that there is none any more.
func (a *Attempts) Next(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	if a.made > 0 {
		late := time.Since(a.since) >= a.retry.Deadline
		if late || a.made == a.retry.AttemptsMax || !Sleep(ctx, pause(a.made)) {
			return false
		}
	}
	a.made++
	a.asked = time.Now()
	return true
}

// AfterWait begins to count anew if the last attempt was sent, and took long: it has had a server for
// long.
func (a *Attempts) AfterWait(err error) {
	wasSent := errors.Is(failure.Broken(err), failure.ErrUnknown)
	if wasSent && time.Since(a.asked) > time.Second {
		*a = *a.retry.Begin()
	}
}

// pause is drawn at random, so that rivals do not meet again.
func pause(attempt int) time.Duration {
	longest := pauseMax
	if attempt < 7 {
		longest = min(pauseMax, pauseMin<<attempt)
	}
	return time.Duration(mathrand.Int63n(int64(longest)))
}

// Sleep waits; false means that the context has ended first.
func Sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
