package claret

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"claret/go/internal/failure"
	"claret/go/internal/script"
)

// SectionOptions say how a section waits for its lock. All may be left out; see LockOptions.
type SectionOptions struct {
	// Timeout is the longest wait for the lock; 0 waits until the context ends.
	Timeout time.Duration
	// Owner is the name in LOCK.WAITERS. Default: the names of the machine and the process.
	Owner string
	// Shared admits holders that share the lock, Limit that many holders in all.
	Shared bool
	Limit  int
	// Detect refuses with ErrDeadlock a wait that would close a cycle. It needs an Owner.
	Detect bool
}

// Section carries out commands under a lock, each with the lock and its release in one request.
// There is no lease, and no lock that can be left behind.
type Section struct {
	db      *DB
	name    string
	options LockOptions
	failed  error

	mutex sync.Mutex
	token int64
}

// Section makes sections of a lock. Their commands use keys of the hash slot of the lock.
func (db *DB) Section(name string, options SectionOptions) *Section {
	filled, err := LockOptions{
		Timeout: options.Timeout,
		Owner:   options.Owner,
		Shared:  options.Shared,
		Limit:   options.Limit,
		Detect:  options.Detect,
	}.filled()
	return &Section{db: db, name: name, options: filled, failed: err}
}

// Token is the fencing token of the last section, for other systems that check it; 0 if there was
// none.
func (s *Section) Token() int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.token
}

// Do waits in turn for the lock, carries out a command and releases the lock. ErrNotAcquired says
// that the lock was not free in time. If the connection breaks it is sent again, and takes effect
// once; ErrUnknown says that it may have taken effect, also when the context has ended.
func (s *Section) Do(ctx context.Context, words ...any) *redis.Cmd {
	command := redis.NewCmd(ctx, words...)
	err := s.failed
	if err == nil {
		err = checkTogether(words)
	}
	var row []any
	if err == nil {
		row, err = s.carryOut(ctx, words)
	}
	if err != nil {
		command.SetErr(err)
		return command
	}
	s.mutex.Lock()
	s.token, _ = row[0].(int64)
	s.mutex.Unlock()
	switch value := row[1].(type) {
	case nil:
		command.SetErr(redis.Nil)
	case error:
		command.SetErr(failure.Translate(value))
	default:
		command.SetVal(value)
	}
	return command
}

// carryOut returns the token and the reply.
func (s *Section) carryOut(ctx context.Context, words []any) ([]any, error) {
	counter := s.db.requests.Borrow()
	defer s.db.requests.Return(counter)
	begun, tries := time.Now(), newTries(counter)
	for attempts := script.Default.Begin(); attempts.Next(ctx); {
		row, err := s.attempt(ctx, left(s.options.Timeout, begun), tries.request, words)
		switch {
		case err == nil && row != nil:
			return row, nil
		case err == nil && tries.sent:
			return nil, failure.New(ErrUnknown, "the first request may still wait for "+s.name, nil)
		case err == nil:
			return nil, failure.New(ErrNotAcquired, "the lock "+s.name+" was not free in time", nil)
		}
		if last := tries.failed(err); last != nil {
			return nil, last
		}
		attempts.AfterWait(err)
	}
	return nil, tries.ended(ctx)
}

// attempt sends the section once. Without a row the lock was not free in time. In a transaction, nil
// for that differs from the nil of a command.
func (s *Section) attempt(
	ctx context.Context, wait time.Duration, request *script.Request, words []any,
) (row []any, err error) {
	lane, err := s.db.lanes.TakeToWait()
	if err != nil {
		return nil, err
	}
	opening := []redis.Cmder{redis.NewCmd(ctx, request.Words()...), redis.NewCmd(ctx, "MULTI")}
	section := append([]any{"LOCK.SECTION", s.name}, s.options.place(wait)...)
	commands := []redis.Cmder{
		redis.NewCmd(ctx, section...), redis.NewCmd(ctx, words...), redis.NewCmd(ctx, "EXEC"),
	}
	if err := lane.Begin(ctx, limitOf(wait), "MULTI", opening, commands); err != nil {
		// The connection is closed: the server then takes the section out of the queue.
		lane.Abandon()
		return nil, err
	}
	lane.Release()
	for _, command := range commands {
		if err := command.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, failure.Translate(err)
		}
	}
	row, _ = commands[len(commands)-1].(*redis.Cmd).Val().([]any)
	return row, nil
}
