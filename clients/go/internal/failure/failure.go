// Package failure has the labelled errors of the client.
package failure

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Kinds of errors, to be compared with errors.Is.
var (
	ErrConflict     = errors.New("claret: the transaction had to give way to another one")
	ErrBusy         = errors.New("claret: the server asks to come back later")
	ErrUndone       = errors.New("claret: a command was refused, and nothing took effect")
	ErrWriteRefused = errors.New("claret: it took effect except for refused writes")
	ErrUnknown      = errors.New("claret: the outcome was lost")
	ErrRepeated     = errors.New("claret: it took effect once, and its replies are lost")
	ErrVoided       = errors.New("claret: its number was asked for before, and takes no effect any more")
	ErrDeadlock     = errors.New("claret: waiting for the lock would close a deadlock cycle")
	ErrLockLost     = errors.New("claret: the lock is no longer held")
	ErrNotAcquired  = errors.New("claret: not granted in time")
	ErrGuard        = errors.New("claret: a guard did not hold, and nothing took effect")
	ErrOrder        = errors.New("claret: not allowed at this point")
	ErrClosed       = errors.New("claret: it has ended")
	ErrConnection   = errors.New("claret: the server could not be reached")
)

// Error is an error with a kind, which errors.Is finds, and with labels that tell how to react.
type Error struct {
	// Kind is one of the Err variables of the package.
	Kind error
	// Text is what the server or the client has to say about it.
	Text string
	// Cause is the error behind it, or nil.
	Cause error
}

// New makes an error of a kind.
func New(kind error, text string, cause error) *Error {
	return &Error{Kind: kind, Text: text, Cause: cause}
}

// Order makes an error about a wrong use of the client.
func Order(text string) *Error { return New(ErrOrder, text, nil) }

// Error is the text of the error.
func (e *Error) Error() string {
	if e.Text == "" {
		return e.Kind.Error()
	}
	return e.Kind.Error() + ": " + e.Text
}

// Unwrap gives errors.Is and errors.As the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// Retryable tells whether it had no effect and may succeed when it is run again.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case ErrConflict, ErrBusy, ErrDeadlock, ErrNotAcquired, ErrVoided:
		return true
	}
	return false
}

// MayHaveHappened tells whether it is unknown if it took effect.
func (e *Error) MayHaveHappened() bool { return e.Kind == ErrUnknown }

// Busy tells whether the server asks to back off.
func (e *Error) Busy() bool { return e.Kind == ErrBusy }

// IsKnown tells whether an error has a kind.
func IsKnown(err error) bool {
	var known *Error
	return errors.As(err, &known)
}

// Refused is the error of a transaction that took effect except for the writes that it names. It
// is an ErrWriteRefused.
type Refused struct {
	// Writes are the refused writes, in the order of the transaction.
	Writes []Write
}

// Write is a refused write.
type Write struct {
	// Command is its name.
	Command string
	// Err is the reason.
	Err error
}

// Error names the first refused write.
func (e *Refused) Error() string {
	first := e.Writes[0]
	return ErrWriteRefused.Error() + ": " + first.Command + ": " + first.Err.Error()
}

// Unwrap gives errors.Is the kind.
func (e *Refused) Unwrap() error { return ErrWriteRefused }

// Opening is the error of an attempt that the server refused to begin. It must not be repeated under
// its number.
type Opening struct {
	// Err is the reason, or an ErrUnknown if other commands may have been carried out singly.
	Err error
}

// Error is the text of the reason.
func (e *Opening) Error() string { return e.Err.Error() }

// Unwrap gives errors.Is and errors.As the reason.
func (e *Opening) Unwrap() error { return e.Err }

// IsOpening tells whether an error is that of a refused beginning.
func IsOpening(err error) bool {
	var opening *Opening
	return errors.As(err, &opening)
}

var byCode = map[string]error{
	"TXNABORT":    ErrConflict,
	"BUSY":        ErrBusy,
	"CLUSTERDOWN": ErrBusy,
	"DEADLOCK":    ErrDeadlock,
	"FENCED":      ErrLockLost,
	"REPEATED":    ErrRepeated,
	"EXECABORT":   ErrUndone,
	"VOIDED":      ErrVoided,
	"INDEFINITE":  ErrUnknown,
}

// IsReply tells whether an error is a reply of the server, nil among them, so that the connection
// is in order.
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// Translate gives an error reply its kind. Other error replies, such as that to a wrong command,
// stay as they are.
func Translate(err error) error {
	if err == nil || !IsReply(err) {
		return err
	}
	code, rest, _ := strings.Cut(err.Error(), " ")
	if kind := byCode[code]; kind != nil {
		return New(kind, rest, err)
	}
	return err
}

// Broken is the error of a single command without a reply: ErrConnection if it was never sent, or
// ErrClosed if the client was closed before.
func Broken(err error) error {
	var dial *net.OpError
	switch {
	case err == nil, IsReply(err), IsKnown(err):
		return err
	case errors.Is(err, redis.ErrClosed):
		return New(ErrClosed, "the client is closed", err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return New(ErrConnection, err.Error(), err)
	case isTransport(err):
		return New(ErrUnknown, "the connection broke before the reply came: "+err.Error(), err)
	}
	return err
}

func isTransport(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// GaveUp adds the reason for which a context has ended, if it has, to an error that it brought
// about.
func GaveUp(ctx context.Context, err error) error {
	reason := ctx.Err()
	if err == nil || reason == nil || errors.Is(err, reason) {
		return err
	}
	var known *Error
	if errors.As(err, &known) {
		return New(known.Kind, known.Text, errors.Join(reason, err))
	}
	return errors.Join(reason, err)
}

// Ended is the error when there is no further attempt: that of the last one, or of the context if
// there was none.
func Ended(ctx context.Context, last error) error {
	if last == nil {
		return ctx.Err()
	}
	return GaveUp(ctx, last)
}
