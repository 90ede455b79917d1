package claret

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"claret/go/internal/failure"
	"claret/go/internal/script"
)

// observeMax is the longest wait of one request, after which a lost server is noticed.
const observeMax = time.Minute

// Leadership is the lead of an election: a lock whose holder has a value, which others can read and
// follow. Its Context is done when the lead is lost.
type Leadership struct {
	*Lock
}

// Campaign waits in turn until it is elected, and then leads with a value. See DB.Lock; a lead is
// held alone, so Shared and Limit are not for it.
func (db *DB) Campaign(
	ctx context.Context, name, value string, options LockOptions,
) (*Leadership, error) {
	if options.Shared || options.Limit > 0 || options.isRemote() {
		return nil, failure.Order("an election has one leader, which the server knows")
	}
	if options.NoWait {
		// The server has no campaign without a wait.
		options.NoWait, options.Timeout = false, time.Millisecond
	}
	lock, err := db.acquire(ctx, name, options, []any{"ELECTION.CAMPAIGN", name, value})
	if err != nil {
		return nil, err
	}
	return &Leadership{lock}, nil
}

// Proclaim replaces the leader's value. ErrLockLost says that the lead is lost.
func (l *Leadership) Proclaim(ctx context.Context, value string) error {
	version, err := l.db.Do(ctx, "ELECTION.PROCLAIM", l.name, l.token, value).Int64()
	if err == nil && version == 0 {
		l.lose()
		return failure.New(ErrLockLost, "the lead of "+l.name, nil)
	}
	return err
}

// Resign ends the lead; see Lock.Unlock.
func (l *Leadership) Resign(ctx context.Context) error { return l.Unlock(ctx) }

// Leader is the leader of an election.
type Leader struct {
	// Token is its fencing token.
	Token int64
	// Owner is its name, Value what it proclaims.
	Owner, Value string
	// Left is what was left of its lease when the server answered.
	Left time.Duration
	// Version grows with every leader and every value.
	Version int64
}

// Leader is the current leader of an election, or nil.
func (db *DB) Leader(ctx context.Context, name string) (*Leader, error) {
	command := db.Do(ctx, "ELECTION.LEADER", name)
	if errors.Is(command.Err(), redis.Nil) {
		return nil, nil
	}
	row, err := command.Slice()
	if err != nil {
		return nil, err
	}
	leader, _ := leaderOf(row)
	return leader, nil
}

// Observe calls a function with the current leader of an election, if there is one, and then
// whenever the leader or its value changes, until it returns false; nil says that there is no
// leader any more. Versions may be skipped, but the newest is not. It ends with the error of the
// context, or with one of the server.
func (db *DB) Observe(ctx context.Context, name string, next func(*Leader) bool) error {
	var seen int64
	var last error
	attempts := script.Default.Begin()
	for attempts.Next(ctx) {
		wait := milliseconds(observeMax)
		words := []any{"ELECTION.OBSERVE", name, "AFTER", seen, "TIMEOUT", wait}
		reply, err := db.askAndWait(ctx, observeMax, nil, words)
		if err != nil && !isPassing(err) {
			return failure.GaveUp(ctx, err)
		}
		last = err
		if err == nil {
			attempts = script.Default.Begin()
		} else {
			attempts.AfterWait(err)
		}
		if row, isRow := reply.([]any); isRow {
			leader, version := leaderOf(row)
			seen = version
			if !next(leader) {
				return nil
			}
		}
	}
	return failure.Ended(ctx, last)
}

// leaderOf is the leader in a reply, or nil, and the version.
func leaderOf(row []any) (*Leader, int64) {
	if len(row) < 5 {
		return nil, 0
	}
	version, _ := row[4].(int64)
	token, isLed := row[0].(int64)
	if !isLed {
		return nil, version
	}
	owner, _ := row[1].(string)
	value, _ := row[2].(string)
	rest, _ := row[3].(int64)
	left := time.Duration(rest) * time.Millisecond
	return &Leader{Token: token, Owner: owner, Value: value, Left: left, Version: version}, version
}

// BarrierOptions say how a party waits at a barrier. All may be left out.
type BarrierOptions struct {
	// Timeout is the longest wait; 0 waits until the context ends.
	Timeout time.Duration
	// Owner is the name in BARRIER.WAITING. Default: the names of the machine and the process.
	Owner string
}

// Barrier waits until that many parties have arrived, and returns the number of their generation,
// which is the same for all and larger than those before. ErrNotAcquired says that not all came in
// time, which takes the own arrival back; ErrUnknown that this is uncertain, because the connection
// broke in between. When the context ends, the arrival is taken back as well: its error is an
// ErrUnknown unless the server has confirmed that.
func (db *DB) Barrier(
	ctx context.Context, name string, parties int, options BarrierOptions,
) (int64, error) {
	if options.Owner == "" {
		options.Owner = ownerDefault()
	}
	counter := db.requests.Borrow()
	finish := func() { db.requests.Return(counter) }
	defer func() { finish() }()
	unknown := func(err error) error {
		return failure.GaveUp(ctx, failure.New(ErrUnknown, "the arrival at "+name+" may count", err))
	}
	request, begun, sent := counter.Next(), time.Now(), false
	var last error
	for attempts := script.Default.Begin(); attempts.Next(ctx); {
		limit := left(options.Timeout, begun)
		words := []any{"BARRIER.WAIT", name, parties, "OWNER", options.Owner}
		if limit > 0 {
			words = append(words, "TIMEOUT", milliseconds(limit))
		}
		reply, left, err := db.wait(ctx, limit, request, words)
		isCertain := !sent
		switch {
		case left != nil:
			// The number is free when the wait has ended, which may be later.
			whenEnded := finish
			finish = func() {}
			reply, isCertain = left.withdraw(request, name, whenEnded)
			isCertain = isCertain && !sent
		case err == nil && reply == nil && !sent:
			err = failure.New(ErrNotAcquired, "not all parties came to "+name+" in time", nil)
			var unsettled error
			reply, unsettled = db.settled(ctx, request, name)
			isCertain = unsettled == nil
		case err != nil && isPassing(err):
			last = err
			sent = sent || !errors.Is(err, ErrBusy) && !errors.Is(err, ErrConnection)
			attempts.AfterWait(err)
			continue
		}
		if generation, isReleased := reply.(int64); isReleased {
			return generation, nil
		}
		if !isCertain {
			return 0, unknown(err)
		}
		return 0, failure.GaveUp(ctx, err)
	}
	if sent {
		return 0, unknown(last)
	}
	return 0, failure.Ended(ctx, last)
}
