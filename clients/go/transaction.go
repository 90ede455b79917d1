package claret

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"claret/go/internal/failure"
	"claret/go/internal/link"
	"claret/go/internal/script"
)

// Deferred is the reply of a write, known when its transaction or batch has committed.
type Deferred = script.Deferred

// Tx is one attempt at a transaction. It has the commands of go-redis as methods.
//
// Reads answer at once and see the transaction's own writes. Writes travel with the next read or
// with the commit, and answer with the commit: until then their Err, and that of their Result, is
// an ErrOrder, which the program can pass over. After the commit the command has its reply. Any
// other error that a method returns also makes the transaction fail, so that an error that is
// overlooked is not committed.
//
// It is safe for concurrent use in the function of its transaction.
type Tx struct {
	redis.Cmdable

	ctx context.Context
	run *run

	mutex sync.Mutex
	lane  *link.Lane
	words *script.Script
	open  bool
	// Why the transaction cannot commit.
	failed error
	// The lane cannot be used again.
	broken bool
	// The server may take the connection to be in the transaction.
	live bool
}

func (r *run) newTx(ctx context.Context, lane *link.Lane) *Tx {
	words := script.New(r.begin, []any{"TXN", "COMMIT"})
	tx := &Tx{ctx: ctx, run: r, lane: lane, words: words, open: true}
	tx.Cmdable = r.db.typed(tx.process)
	return tx
}

// Do sends a command: at once if it reads, and with the next one if it is a write, whose reply
// comes with the commit.
func (tx *Tx) Do(ctx context.Context, words ...any) *redis.Cmd {
	command := redis.NewCmd(ctx, words...)
	command.SetErr(tx.process(ctx, command))
	return command
}

// Ask sends a command now and returns with its reply.
func (tx *Tx) Ask(ctx context.Context, words ...any) *redis.Cmd {
	command := redis.NewCmd(ctx, words...)
	command.SetErr(tx.ask(ctx, command))
	return command
}

// AskForUpdate is Ask for a command whose keys are written afterwards. Of transactions that
// announce a write of a key one has it at a time, and none of them has to be run again.
func (tx *Tx) AskForUpdate(ctx context.Context, words ...any) *redis.Cmd {
	command := redis.NewCmd(ctx, append([]any{"TXN", "FORUPDATE"}, words...)...)
	tx.mutex.Lock()
	defer tx.mutex.Unlock()
	command.SetErr(tx.askChecked(ctx, command, words))
	return command
}

// Write adds a command that travels with the next one or with the commit. A deferred reply among
// its words makes the transaction fail with ErrOrder.
func (tx *Tx) Write(words ...any) *Deferred {
	command := redis.NewCmd(tx.ctx, words...)
	command.SetErr(tx.write(tx.ctx, command))
	return script.NewDeferred(command)
}

// Flush sends the writes so far, so that the server can process them already.
func (tx *Tx) Flush(ctx context.Context) error { return tx.Ask(ctx, "PING").Err() }

// Require makes the transaction take effect only if a lock is held: otherwise it returns an
// ErrLockLost, and nothing takes effect. No other client is granted the lock before the commit.
func (tx *Tx) Require(ctx context.Context, held Held) error {
	grant, err := held.grant()
	if err != nil {
		return tx.fail(err)
	}
	left, err := tx.Ask(ctx, "LOCK.HELD", held.Name(), grant).Int64()
	if err == nil && left <= 0 {
		held.lose()
		err = failure.New(ErrLockLost, held.Name(), nil)
		tx.fail(err)
	}
	return err
}

func (tx *Tx) process(ctx context.Context, command redis.Cmder) error {
	if tx.run.manner.readOnly || tx.run.manner.now {
		return tx.ask(ctx, command)
	}
	write, err := tx.run.db.isWrite(ctx, command.Name())
	if err != nil {
		return tx.fail(err)
	}
	if write {
		return tx.write(ctx, command)
	}
	return tx.ask(ctx, command)
}

// write defers a command.
func (tx *Tx) write(ctx context.Context, command redis.Cmder) error {
	if tx.run.manner.readOnly || tx.run.manner.now {
		return tx.ask(ctx, command)
	}
	tx.mutex.Lock()
	defer tx.mutex.Unlock()
	if err := tx.usable(command.Args()); err != nil {
		return err
	}
	return tx.words.Defer(command)
}

// ask sends a command and reads its reply into it.
func (tx *Tx) ask(ctx context.Context, command redis.Cmder) error {
	tx.mutex.Lock()
	defer tx.mutex.Unlock()
	return tx.askChecked(ctx, command, command.Args())
}

// askChecked asks, if words may be part of the transaction: those of the command of the program.
func (tx *Tx) askChecked(ctx context.Context, command redis.Cmder, words []any) error {
	if err := tx.usable(words); err != nil {
		return err
	}
	_, err := tx.exchange(ctx, command)
	if err == nil && !tx.run.manner.now && script.WasQueued(command) {
		err = failure.Order("a write is answered when its transaction commits: use Write")
		tx.note(err)
	}
	return err
}

func (tx *Tx) usable(words []any) error {
	if !tx.open {
		return failure.New(ErrClosed, "the transaction has ended", nil)
	}
	if tx.failed != nil {
		return tx.failed
	}
	err := checkTogether(words)
	tx.note(err)
	return err
}

// exchange sends all that is unsent and a last command, which is the commit if it is nil; it
// returns the reply to the commit.
func (tx *Tx) exchange(ctx context.Context, last redis.Cmder) (any, error) {
	var opening []redis.Cmder
	if !tx.words.Started() {
		opening = tx.words.Opening(ctx, tx.run.request)
	}
	commands, err := tx.words.Take(ctx, last)
	if err != nil {
		return nil, err
	}
	tx.live = true
	limit := tx.run.db.options.ReplyTimeout
	if opening == nil {
		err = tx.lane.Exchange(ctx, limit, commands...)
	} else {
		err = tx.lane.Begin(ctx, limit, tx.run.kind, opening, commands)
	}
	if err != nil {
		tx.broken = true
		tx.note(err)
		return nil, err
	}
	tx.live = last != nil
	end := commands[len(commands)-1]
	if err = tx.words.Digest(end); failure.IsKnown(err) {
		tx.note(err)
	}
	if last != nil || err != nil {
		return nil, err
	}
	return end.(*redis.Cmd).Val(), nil
}

// fail records why the transaction cannot commit.
func (tx *Tx) fail(err error) error {
	tx.mutex.Lock()
	defer tx.mutex.Unlock()
	tx.note(err)
	return err
}

func (tx *Tx) note(err error) {
	if tx.failed == nil {
		tx.failed = err
	}
}

// end keeps a function from using its transaction later; it returns why it cannot commit.
func (tx *Tx) end() error {
	tx.mutex.Lock()
	defer tx.mutex.Unlock()
	tx.open = false
	return tx.failed
}

// commit makes the transaction take effect. An ErrUnknown says that its answer was lost.
func (tx *Tx) commit(ctx context.Context) error {
	tx.mutex.Lock()
	defer tx.mutex.Unlock()
	if !tx.words.Started() && tx.words.Len() == 0 {
		return nil
	}
	replies, err := tx.exchange(ctx, nil)
	switch {
	case err == nil:
	case failure.IsOpening(err):
		return err
	case tx.broken && !errors.Is(err, ErrConnection) && !failure.IsReply(err):
		text := "the connection broke during the commit: " + err.Error()
		return failure.New(ErrUnknown, text, err)
	default:
		return err
	}
	row, _ := replies.([]any)
	_, refused := tx.words.Settle(row)
	if refused != nil {
		return refused
	}
	return nil
}

// abort ends the transaction at the server, for the next user of the connection.
func (tx *Tx) abort() {
	// The caller may have given up: the connection must be clean all the same, or is closed.
	ctx, limit := context.Background(), tx.run.db.options.ConnectTimeout
	if tx.ctx.Err() != nil {
		limit = min(limit, remainsMax)
	}
	command := redis.NewCmd(ctx, "TXN", "ABORT")
	if tx.lane.Exchange(ctx, limit, command) != nil {
		tx.broken = true
	}
}

// manner is how a transaction is run.
type manner struct {
	readOnly, now, lax, update bool
	idle, timeout              *time.Duration
	// named tells that there is a once.
	named bool
	once  string
	retry script.Retry
}

// Option says how a transaction is run.
type Option func(*manner)

// ReadOnly makes a transaction that only reads: it sees one instant, and takes no locks.
func ReadOnly() Option { return func(m *manner) { m.readOnly = true } }

// Now lets writes answer at once, at the price of locks that others may have to wait for.
func Now() Option { return func(m *manner) { m.now = true } }

// Lax lets a transaction take effect except for commands that are refused, which are then named by
// a WriteRefusedError. Without it nothing takes effect if one is refused, which is ErrUndone.
func Lax() Option { return func(m *manner) { m.lax = true } }

// Update announces that what the transaction reads is written afterwards. Of such transactions one
// has a key at a time, and the others wait in line instead of being run again.
func Update() Option { return func(m *manner) { m.update = true } }

// Once names a transaction by a text under which it takes effect once, in whatever process it is
// run again. A repeated one changes nothing. It has the replies of the first one, or ErrRepeated if
// it has read something or the server has not kept them.
func Once(text string) Option { return func(m *manner) { m.named, m.once = true, text } }

// AttemptsMax limits the number of attempts.
func AttemptsMax(most int) Option { return func(m *manner) { m.retry.AttemptsMax = most } }

// Deadline is the time after which there is no further attempt. Default: 10 seconds.
func Deadline(after time.Duration) Option { return func(m *manner) { m.retry.Deadline = after } }

// IdleTimeout is the longest pause between commands while other clients wait for locks of the
// transaction; 0 is no limit. Default: the server's.
func IdleTimeout(pause time.Duration) Option { return func(m *manner) { m.idle = &pause } }

// Timeout is the longest duration of the transaction while other clients wait for its locks; 0 is
// no limit. Default: the server's.
func Timeout(duration time.Duration) Option { return func(m *manner) { m.timeout = &duration } }

func (m manner) words() []any {
	words := []any{"TXN", "BEGIN"}
	if m.readOnly {
		return append(words, "READONLY")
	}
	for _, option := range []struct {
		wanted bool
		word   string
	}{{!m.now, "BLIND"}, {!m.lax, "STRICT"}, {m.update, "FORUPDATE"}} {
		if option.wanted {
			words = append(words, option.word)
		}
	}
	if m.idle != nil {
		words = append(words, "IDLE", m.idle.Milliseconds())
	}
	if m.timeout != nil {
		words = append(words, "TIMEOUT", m.timeout.Milliseconds())
	}
	return words
}

// onceMax is the longest text of Once: with a prefix it is a name of 64 bytes at most.
const onceMax = 59

// check refuses what the server would refuse. It would carry out singly what is sent behind that.
func (m manner) check() error {
	switch {
	case m.named && (m.once == "" || len(m.once) > onceMax):
		return failure.Order("the text of Once has 1 to 59 bytes")
	case strings.IndexFunc(m.once, func(r rune) bool { return r == ' ' || unicode.IsControl(r) }) >= 0:
		return failure.Order("the text of Once has neither spaces nor control characters")
	case m.idle != nil && *m.idle < 0, m.timeout != nil && *m.timeout < 0:
		return failure.Order("IdleTimeout and Timeout are not negative")
	}
	return nil
}

// Run calls a function with a transaction until it commits. The function may be called many times:
// it must do nothing but use the transaction, and begin anew each time. If it returns an error
// nothing takes effect, and Run returns that error.
//
// Other errors are of the kinds of this package: ErrConflict, ErrBusy or ErrConnection when the
// attempts are used up, ErrUndone if a command was refused, ErrUnknown if the outcome was lost and
// could not be asked for. When the context ends, nothing takes effect, unless that was during the
// commit: the error is then an ErrUnknown as well.
func (db *DB) Run(
	ctx context.Context, function func(ctx context.Context, tx *Tx) error, options ...Option,
) error {
	how := manner{retry: script.Default}
	for _, option := range options {
		option(&how)
	}
	if how.readOnly && (how.update || how.once != "") {
		return failure.Order("a transaction that only reads is neither for update nor once")
	}
	if err := how.check(); err != nil {
		return err
	}
	run := run{db: db, manner: how, function: function, begin: how.words()}
	run.kind = fmt.Sprint(run.begin, how.once != "")
	return run.all(ctx)
}

// Snapshot calls a function with a transaction that only reads: all that it reads is of one
// instant. It takes no locks. The function may be called again.
func (db *DB) Snapshot(ctx context.Context, function func(ctx context.Context, tx *Tx) error) error {
	return db.Run(ctx, function, ReadOnly())
}

type run struct {
	db       *DB
	manner   manner
	function func(context.Context, *Tx) error
	// The first command, and the name of its kind; see link.Lane.Begin.
	begin []any
	kind  string
	// The last attempt, if its lane is not given back.
	last    *Tx
	request *script.Request
	counter *script.Counter
}

func (r *run) all(ctx context.Context) error {
	r.counter = r.db.requests.Borrow()
	defer r.db.requests.Return(r.counter)
	defer func() {
		if r.last != nil {
			r.leave(r.last, false)
		}
	}()
	switch {
	case r.manner.readOnly:
	case r.manner.once != "":
		r.request = &script.Request{Name: "once:" + r.manner.once, Number: 1}
	default:
		r.request = r.counter.Next()
	}
	var last error
	// Whether an attempt may have taken effect under the number of Once.
	lost := false
	for attempts := r.manner.retry.Begin(); attempts.Next(ctx); {
		again, err := r.attempt(ctx, &lost)
		if !again {
			if failure.IsOpening(err) {
				err = openingFailed(err, lost)
			}
			return err
		}
		last = err
	}
	if lost && !errors.Is(last, ErrUnknown) {
		last = failure.New(ErrUnknown, last.Error(), last)
	}
	return failure.Ended(ctx, last)
}

// attempt runs the function once; it tells whether to try again.
func (r *run) attempt(ctx context.Context, lost *bool) (again bool, err error) {
	var lane *link.Lane
	if r.last != nil {
		// Run again on the same connection, a transaction keeps its age, and so does not starve.
		lane = r.last.lane
	} else if lane, err = r.db.lanes.Take(ctx); err != nil {
		return false, err
	}
	tx := r.newTx(ctx, lane)
	r.last = tx
	err, own := r.call(ctx, tx)
	if errors.Is(err, ErrVoided) && r.request != nil {
		r.request = &script.Request{Name: r.request.Name, Number: r.request.Number + 1}
	}
	transient := errors.Is(err, ErrConflict) || errors.Is(err, ErrVoided) || errors.Is(err, ErrBusy) ||
		tx.broken && !failure.IsReply(err)
	if failure.IsOpening(err) && !errors.Is(err, ErrVoided) {
		// The number is not used again.
		transient = errors.Is(err, ErrBusy) && r.manner.once == ""
		if transient && r.request != nil {
			r.request = r.counter.Next()
		}
	}
	again = !own && transient && ctx.Err() == nil
	if err != nil && !errors.Is(err, ErrWriteRefused) {
		tx.words.Drop()
	}
	r.leave(tx, again)
	if !own && errors.Is(err, ErrUnknown) && !failure.IsOpening(err) {
		return r.resolve(ctx, tx, err, lost)
	}
	if own || err == nil {
		return false, err
	}
	return again, failure.GaveUp(ctx, err)
}

// call runs the function and commits. It tells whether an error is the function's own.
func (r *run) call(ctx context.Context, tx *Tx) (err error, own bool) {
	defer tx.end()
	err = r.function(ctx, tx)
	if failed := tx.end(); failed != nil && (err == nil || tx.isTransient()) {
		return failed, false
	}
	if err != nil {
		return err, true
	}
	if err := ctx.Err(); err != nil {
		return err, false
	}
	return tx.commit(ctx), false
}

// isTransient tells whether the transaction is to be run again, whatever the function has made of
// its error.
func (tx *Tx) isTransient() bool {
	return tx.broken || errors.Is(tx.failed, ErrConflict) || errors.Is(tx.failed, ErrBusy)
}

// resolve finds out what became of a commit whose answer was lost.
func (r *run) resolve(ctx context.Context, tx *Tx, lost error, maybe *bool) (bool, error) {
	switch {
	case ctx.Err() != nil:
		return false, failure.GaveUp(ctx, lost)
	case r.manner.readOnly:
		return false, nil
	case r.manner.once != "":
		// To ask would forbid the number for ever if it had no effect. Running it again under the
		// same number takes effect once in any case.
		*maybe = true
		return true, lost
	}
	for attempts := r.manner.retry.Begin(); attempts.Next(ctx); {
		// The question itself makes the answer certain: a commit of which the server does not know
		// cannot take effect any more.
		did, err := r.db.Do(ctx, "TXN", "RESOLVE", r.request.Name, r.request.Number).Int64()
		switch {
		case err == nil && did == 1:
			tx.words.Lose()
			return false, nil
		case err == nil:
			r.request = r.counter.Next()
			return true, failure.New(ErrConflict, lost.Error(), lost)
		case errors.Is(err, ErrClosed):
			return false, lost
		case failure.IsReply(err) && !Retryable(err):
			return false, failure.New(ErrUnknown, "asking was refused: "+err.Error(), lost)
		}
	}
	return false, failure.GaveUp(ctx, lost)
}

// leave decides about the lane after an attempt. One that is run again begins anew without ending
// the last one, because the server keeps its age.
func (r *run) leave(tx *Tx, again bool) {
	if again && !tx.broken {
		return
	}
	if !tx.broken && tx.live {
		tx.abort()
	}
	if tx.broken {
		tx.lane.Abandon()
	} else {
		tx.lane.Release()
	}
	r.last = nil
}
