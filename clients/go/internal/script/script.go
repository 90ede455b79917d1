// Package script has the commands of a transaction, sent and still to be sent, without input or
// output.
package script

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"claret/go/internal/failure"
)

var (
	errOpen = failure.Order("a write is answered when its transaction commits")
	errGone = failure.New(failure.ErrClosed, "the transaction did not commit", nil)
	errLost = failure.New(failure.ErrRepeated, "the connection broke before its replies came", nil)
)

// queued is the reply of the server to a write that is answered with the commit.
const queued = "QUEUED"

// entry is an unsent command, and the one of the program that gets its reply.
type entry struct {
	words []any
	to    redis.Cmder
	sent  *redis.Cmd
}

// Script is the commands of one attempt: a first one that opens it, and a last one that makes it
// take effect.
type Script struct {
	begin  []any
	end    []any
	unsent []*entry
	flying []*entry
	// Commands in the order in which the commit will answer them.
	queued []*entry
	// Commands that were answered at once.
	early []*entry
	// Why the commit must not be sent any more.
	fault   error
	started bool
}

// New makes a script.
func New(begin, end []any) *Script { return &Script{begin: begin, end: end} }

// Started tells whether something was sent.
func (s *Script) Started() bool { return s.started }

// Len is the number of deferred commands.
func (s *Script) Len() int {
	count := len(s.queued) + len(s.early)
	for _, one := range s.unsent {
		if one.to != nil {
			count++
		}
	}
	return count
}

// Defer adds a command whose reply arrives with the commit. Until then it has the error returned.
func (s *Script) Defer(command redis.Cmder) error {
	command.SetErr(errOpen)
	s.unsent = append(s.unsent, &entry{words: command.Args(), to: command})
	return errOpen
}

// Opening gives the commands that must be accepted before any other: behind a refused one, the
// others would be carried out singly. The request is the number of the script, or nil.
func (s *Script) Opening(ctx context.Context, request *Request) []redis.Cmder {
	begin := redis.NewCmd(ctx, s.begin...)
	if request == nil {
		return []redis.Cmder{begin}
	}
	return []redis.Cmder{redis.NewCmd(ctx, request.Words()...), begin}
}

// Take gives the commands to send now, of which the last one is the program's, or the end if that
// is nil.
func (s *Script) Take(ctx context.Context, last redis.Cmder) ([]redis.Cmder, error) {
	if last == nil && s.fault != nil {
		return nil, s.fault
	}
	if last == nil {
		last = redis.NewCmd(ctx, s.end...)
	}
	s.started = true
	s.flying, s.unsent = s.unsent, nil
	commands := make([]redis.Cmder, 0, len(s.flying)+1)
	for _, one := range s.flying {
		one.sent = redis.NewCmd(ctx, one.words...)
		commands = append(commands, one.sent)
	}
	return append(commands, last), nil
}

// Again forgets the replies, because the same commands are sent once more.
func (s *Script) Again() { s.queued, s.early, s.fault = nil, nil, nil }

// Digest processes the replies to the commands of Take. Its error is one that prevents the
// transaction, or else that of the last command.
func (s *Script) Digest(last redis.Cmder) error {
	for _, one := range s.flying {
		value, err := one.sent.Result()
		switch {
		case err != nil && !errors.Is(err, redis.Nil):
			if s.fault == nil {
				s.fault = failure.Translate(err)
			}
		case value == queued:
			s.queued = append(s.queued, one)
		default:
			s.early = append(s.early, one)
		}
	}
	err := failure.Translate(last.Err())
	var known *failure.Error
	if s.fault != nil && (err == nil || !errors.As(err, &known) || known.Kind == failure.ErrUndone) {
		// This error is the reason for which the server has undone the transaction.
		return s.fault
	}
	return err
}

// Settle distributes the replies of a commit and returns them, with errors as values.
func (s *Script) Settle(replies []any) (values []any, refused *failure.Refused) {
	give := func(one *entry, value any) {
		if err, isError := value.(error); isError && !errors.Is(err, redis.Nil) {
			value = failure.Translate(err)
			if refused == nil {
				refused = &failure.Refused{}
			}
			write := failure.Write{Command: name(one.words), Err: value.(error)}
			refused.Writes = append(refused.Writes, write)
		}
		fill(one.to, value)
		values = append(values, value)
	}
	for _, one := range s.early {
		value, err := one.sent.Result()
		if err != nil {
			value = nil
		}
		give(one, value)
	}
	for i, one := range s.queued {
		if i < len(replies) {
			give(one, replies[i])
		}
	}
	return values, refused
}

// Lose records that the transaction took effect, and that its replies are lost.
func (s *Script) Lose() { s.close(errLost) }

// Drop records that the transaction did not take effect.
func (s *Script) Drop() { s.close(errGone) }

func (s *Script) close(err error) {
	for _, some := range [][]*entry{s.unsent, s.flying, s.queued, s.early} {
		for _, one := range some {
			if one.to != nil {
				one.to.SetErr(err)
			}
		}
	}
}

// WasQueued tells whether a command was answered only as one whose reply comes later.
func WasQueued(command redis.Cmder) bool {
	switch command := command.(type) {
	case *redis.Cmd:
		return command.Val() == queued
	case *redis.StatusCmd:
		return command.Val() == queued
	}
	return false
}

func name(words []any) string {
	text, _ := words[0].(string)
	return strings.ToUpper(text)
}
