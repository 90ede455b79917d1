package claret

import (
	"errors"

	"claret/go/internal/failure"
)

// Kinds of errors, for errors.Is. Other error replies, for instance of a wrong command, are those
// of go-redis; the end of a context is its own error.
var (
	// ErrConflict: the transaction had to give way. It had no effect. Run repeats it.
	ErrConflict = failure.ErrConflict
	// ErrBusy: the server asks to come back later. It had no effect.
	ErrBusy = failure.ErrBusy
	// ErrUndone: a command of a strict transaction or a batch was refused. Nothing took effect.
	ErrUndone = failure.ErrUndone
	// ErrWriteRefused: it took effect except for the writes that WriteRefusedError names.
	ErrWriteRefused = failure.ErrWriteRefused
	// ErrUnknown: the outcome was lost with the connection.
	ErrUnknown = failure.ErrUnknown
	// ErrRepeated: it took effect once, and its replies are lost.
	ErrRepeated = failure.ErrRepeated
	// ErrVoided: another process has asked for the outcome under its number, which has no effect
	// any more. Run goes on with the next number.
	ErrVoided = failure.ErrVoided
	// ErrDeadlock: waiting for the lock would close a cycle. Release your locks and start again.
	ErrDeadlock = failure.ErrDeadlock
	// ErrLockLost: the lock is no longer held. A fenced command had no effect.
	ErrLockLost = failure.ErrLockLost
	// ErrNotAcquired: the lock was not free in time, or not all parties came to the barrier.
	ErrNotAcquired = failure.ErrNotAcquired
	// ErrGuard: a guard of a batch did not hold. Nothing took effect.
	ErrGuard = failure.ErrGuard
	// ErrOrder: a deferred reply was used as a value, or an operation is not allowed here.
	ErrOrder = failure.ErrOrder
	// ErrClosed: the transaction, the dispatch or the client has ended.
	ErrClosed = failure.ErrClosed
	// ErrConnection: the server could not be reached. It had no effect.
	ErrConnection = failure.ErrConnection
)

// Error is an error with a kind and labels, for errors.As.
type Error = failure.Error

// WriteRefusedError names the refused writes of a transaction or batch that otherwise took effect,
// for errors.As.
type WriteRefusedError = failure.Refused

// Retryable tells whether an error says that there was no effect and that running it again may
// succeed.
func Retryable(err error) bool {
	var known *Error
	return errors.As(err, &known) && known.Retryable()
}

// MayHaveHappened tells whether an error says that it is unknown if it took effect.
func MayHaveHappened(err error) bool {
	var known *Error
	return errors.As(err, &known) && known.MayHaveHappened()
}

// IsBusy tells whether an error says that the server asks to back off.
func IsBusy(err error) bool {
	var known *Error
	return errors.As(err, &known) && known.Busy()
}
