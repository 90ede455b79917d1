package script

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"claret/go/internal/failure"
)

// mark stands in the text of a deferred reply, so that a word made from that text is found out.
const mark = "<claret: not the reply, which comes later>"

// DeferredReply is what replies that come later have in common: none of them can be a word of a
// command.
type DeferredReply struct{}

// String does not have the reply. A command with this text among its words is refused.
func (DeferredReply) String() string { return mark }

// MarshalBinary refuses to be a word of a command of go-redis.
func (DeferredReply) MarshalBinary() ([]byte, error) { return nil, errMisused }

func (DeferredReply) isDeferredReply() {}

var errMisused = failure.Order("this is not the reply, which comes later: read its Value then")

// CheckWords returns an ErrOrder if one of the words is a reply that has not arrived.
func CheckWords(words []any) error {
	for _, word := range words {
		switch word := word.(type) {
		case interface{ isDeferredReply() }, redis.Cmder:
			return errMisused
		case string:
			if strings.Contains(word, mark) {
				return errMisused
			}
		case []byte:
			if strings.Contains(string(word), mark) {
				return errMisused
			}
		}
	}
	return nil
}

// Deferred is the reply of a write, known when the transaction or batch has committed. It is not
// the reply itself: as a word of a command it makes the transaction fail with ErrOrder.
type Deferred struct {
	DeferredReply
	command *redis.Cmd
}

// NewDeferred makes the deferred reply of a command.
func NewDeferred(command *redis.Cmd) *Deferred { return &Deferred{command: command} }

// Value is the reply. Its error is redis.Nil if there is none, the error reply if it is one, an
// ErrOrder before the commit, an ErrClosed if there was no commit, and an ErrRepeated if the
// transaction took effect but its replies were lost.
func (d *Deferred) Value() (any, error) { return d.command.Result() }

// Int is the reply as an integer; see Value.
func (d *Deferred) Int() (int64, error) { return d.command.Int64() }

// Text is the reply as text; see Value.
func (d *Deferred) Text() (string, error) { return d.command.Text() }

// fill gives a command its reply.
func fill(command redis.Cmder, value any) {
	if value == nil {
		command.SetErr(redis.Nil)
		return
	}
	if err, isError := value.(error); isError {
		command.SetErr(failure.Translate(err))
		return
	}
	command.SetErr(nil)
	fits := true
	switch command := command.(type) {
	case *redis.Cmd:
		command.SetVal(value)
	case *redis.StatusCmd:
		fits = setIf(command.SetVal, value)
	case *redis.StringCmd:
		fits = setIf(command.SetVal, value)
	case *redis.IntCmd:
		fits = setIf(command.SetVal, value)
	case *redis.FloatCmd:
		var number float64
		number, fits = float(value)
		command.SetVal(number)
	case *redis.BoolCmd:
		command.SetVal(value == int64(1) || value == true || value == "OK")
	case *redis.SliceCmd:
		fits = setIf(command.SetVal, value)
	case *redis.StringSliceCmd:
		var row []string
		row, fits = texts(value)
		command.SetVal(row)
	default:
		fits = false
	}
	if !fits {
		command.SetErr(failure.Order("this reply has no such form here: use Write"))
	}
}

// setIf sets a value if it is of the type, and tells whether it is.
func setIf[T any](set func(T), value any) bool {
	typed, fits := value.(T)
	if fits {
		set(typed)
	}
	return fits
}

func float(value any) (float64, bool) {
	switch value := value.(type) {
	case float64:
		return value, true
	case string:
		number, err := strconv.ParseFloat(value, 64)
		return number, err == nil
	}
	return 0, false
}

func texts(value any) ([]string, bool) {
	row, fits := value.([]any)
	found := make([]string, 0, len(row))
	for _, one := range row {
		text, isText := one.(string)
		fits = fits && isText
		found = append(found, text)
	}
	return found, fits
}

// Hook takes the commands of a typed interface of go-redis.
type Hook func(ctx context.Context, command redis.Cmder) error

// DialHook is as go-redis wants it.
func (h Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook takes each command.
func (h Hook) ProcessHook(redis.ProcessHook) redis.ProcessHook { return redis.ProcessHook(h) }

// ProcessPipelineHook refuses pipelines.
func (h Hook) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error {
		return failure.Order("there is no pipeline here: its commands travel together anyhow")
	}
}
