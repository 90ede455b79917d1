package claret

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"

	"claret/go/internal/failure"
	"claret/go/internal/script"
)

// Batch is commands that take effect together, over any keys, at one instant and in one round
// trip. It has the commands of go-redis as methods; like those of Do and Add, their replies are
// known when Execute has returned, and are errors until then. A batch has a request number: if the
// connection breaks it is sent again, and takes effect once. It may be executed once.
type Batch struct {
	redis.Cmdable

	db     *DB
	mutex  sync.Mutex
	words  *script.Script
	guards []any
	failed error
	done   bool
}

// Batch begins a batch.
func (db *DB) Batch() *Batch {
	batch := &Batch{db: db, words: script.New([]any{"MULTI"}, nil)}
	batch.Cmdable = db.typed(batch.process)
	return batch
}

// Do adds a command.
func (b *Batch) Do(ctx context.Context, words ...any) *redis.Cmd {
	command := redis.NewCmd(ctx, words...)
	command.SetErr(b.process(ctx, command))
	return command
}

// Add adds a command.
func (b *Batch) Add(words ...any) *Deferred {
	return script.NewDeferred(b.Do(context.Background(), words...))
}

// Fence puts all of the batch, which must be on keys of one hash slot, under the fencing token of a
// lock: Execute returns ErrLockLost, and nothing takes effect, if a later holder has written there.
func (b *Batch) Fence(held Held) { b.Add("FENCE", held.Name(), held.Token()) }

// IfEqual lets the batch take effect only if a key has this string.
func (b *Batch) IfEqual(key string, value any) { b.guard("IFEQ", key, value) }

// IfNotEqual lets the batch take effect only if a key is absent or has another string.
func (b *Batch) IfNotEqual(key string, value any) { b.guard("IFNE", key, value) }

// IfExists lets the batch take effect only if a key exists.
func (b *Batch) IfExists(key string) { b.guard("XX", key) }

// IfAbsent lets the batch take effect only if a key is absent.
func (b *Batch) IfAbsent(key string) { b.guard("NX", key) }

func (b *Batch) guard(words ...any) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.failed == nil {
		b.failed = script.CheckWords(words)
	}
	b.guards = append(b.guards, words...)
}

func (b *Batch) process(_ context.Context, command redis.Cmder) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.done {
		return failure.New(ErrClosed, "the batch has been executed", nil)
	}
	if err := checkTogether(command.Args()); err != nil {
		if b.failed == nil {
			b.failed = err
		}
		return err
	}
	return b.words.Defer(command)
}

// Execute carries the commands out and returns their replies, of which those that are refused are
// errors, also named by a WriteRefusedError. ErrGuard says that a guard did not hold, ErrUndone
// that a command is wrong: nothing took effect. ErrRepeated says that it took effect, but that the
// replies are lost; ErrUnknown that the server could not be reached again.
func (b *Batch) Execute(ctx context.Context) ([]any, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.done {
		return nil, failure.New(ErrClosed, "the batch has been executed", nil)
	}
	b.done = true
	values, err := b.execute(ctx)
	switch {
	case err == nil, errors.Is(err, ErrWriteRefused):
	case errors.Is(err, ErrRepeated):
		b.words.Lose()
	default:
		b.words.Drop()
	}
	return values, failure.GaveUp(ctx, err)
}

func (b *Batch) execute(ctx context.Context) ([]any, error) {
	if b.failed != nil {
		return nil, b.failed
	}
	if b.words.Len() == 0 {
		return nil, nil
	}
	counter := b.db.requests.Borrow()
	defer b.db.requests.Return(counter)
	tries := newTries(counter)
	exec := redis.NewCmd(ctx, append([]any{"EXEC"}, b.guards...)...)
	commands, err := b.words.Take(ctx, exec)
	if err != nil {
		return nil, err
	}
	for attempts := script.Default.Begin(); attempts.Next(ctx); {
		err := b.attempt(ctx, tries.request, commands)
		if err == nil {
			return b.settle(exec)
		}
		if err := tries.failed(err); err != nil {
			return nil, err
		}
	}
	return nil, tries.ended(ctx)
}

// tries are attempts at commands that take effect together, and once: under a request number.
type tries struct {
	counter *script.Counter
	// request is the number of the next attempt.
	request *script.Request
	// sent tells whether an earlier attempt may have taken effect.
	sent bool
	last error
}

func newTries(counter *script.Counter) *tries {
	return &tries{counter: counter, request: counter.Next()}
}

// failed notes the error of an attempt, and returns it unless there may be another attempt.
func (t *tries) failed(err error) error {
	t.last = err
	switch {
	case failure.IsOpening(err):
		// Under this number the server may have carried out a part: it is not used again.
		if t.sent || !errors.Is(err, ErrBusy) {
			return openingFailed(err, t.sent)
		}
		t.request = t.counter.Next()
	case errors.Is(err, ErrConnection), errors.Is(err, ErrBusy):
	case errors.Is(err, ErrUnknown), !failure.IsKnown(err) && !failure.IsReply(err):
		t.sent = true
	case errors.Is(err, ErrClosed):
		return openingFailed(err, t.sent)
	default:
		return err
	}
	return nil
}

// ended is the error when there is no further attempt.
func (t *tries) ended(ctx context.Context) error {
	if t.sent {
		t.last = failure.New(ErrUnknown, t.last.Error(), t.last)
	}
	return failure.Ended(ctx, t.last)
}

// openingFailed is the error of a refused beginning, or of a closed client; lost tells that an earlier
// attempt under the same number may have taken effect.
func openingFailed(err error, lost bool) error {
	if lost && !errors.Is(err, ErrUnknown) {
		return failure.New(ErrUnknown, err.Error(), nil)
	}
	return err
}

func (b *Batch) attempt(
	ctx context.Context, request *script.Request, commands []redis.Cmder,
) error {
	lane, err := b.db.lanes.Take(ctx)
	if err != nil {
		return err
	}
	b.words.Again()
	for _, command := range commands {
		command.SetErr(nil)
	}
	opening := b.words.Opening(ctx, request)
	limit := b.db.options.ReplyTimeout
	if err := lane.Begin(ctx, limit, "MULTI", opening, commands); err != nil {
		lane.Abandon()
		return err
	}
	lane.Release()
	err = b.words.Digest(commands[len(commands)-1])
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

func (b *Batch) settle(exec *redis.Cmd) ([]any, error) {
	row, isRow := exec.Val().([]any)
	if !isRow {
		return nil, failure.New(ErrGuard, "", nil)
	}
	values, refused := b.words.Settle(row)
	if refused != nil {
		return values, refused
	}
	return values, nil
}
