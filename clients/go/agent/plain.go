package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	claret "claret/go"
)

// failureLine is an error as the runner reads it.
type failureLine struct {
	Kind            string `json:"kind"`
	Retryable       bool   `json:"retryable"`
	MayHaveHappened bool   `json:"may_have_happened"`
	Message         string `json:"message"`
}

// kinds of errors; the first one that fits counts.
var kinds = []struct {
	is   error
	kind string
}{
	{errBody, "body"},
	{context.Canceled, "cancelled"},
	{claret.ErrUnknown, "unknown"},
	{claret.ErrConflict, "conflict"},
	{claret.ErrVoided, "conflict"},
	{claret.ErrBusy, "busy"},
	{claret.ErrUndone, "undone"},
	{claret.ErrWriteRefused, "write_refused"},
	{claret.ErrRepeated, "repeated"},
	{claret.ErrDeadlock, "deadlock"},
	{claret.ErrLockLost, "lock_lost"},
	{claret.ErrNotAcquired, "not_acquired"},
	{claret.ErrOrder, "order"},
	{claret.ErrClosed, "closed"},
	{claret.ErrConnection, "connection"},
}

func described(err error) *failureLine {
	line := &failureLine{
		Kind:            "agent",
		Retryable:       claret.Retryable(err),
		MayHaveHappened: claret.MayHaveHappened(err),
		Message:         err.Error(),
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		line.Kind = "rejected"
	}
	for _, one := range kinds {
		if errors.Is(err, one.is) {
			line.Kind = one.kind
			break
		}
	}
	return line
}

// plain is a reply as JSON has it.
func plain(value any) any {
	switch value := value.(type) {
	case []any:
		found := make([]any, len(value))
		for i, one := range value {
			found[i] = plain(one)
		}
		return found
	case map[any]any:
		found := make(map[string]any, len(value))
		for key, one := range value {
			found[fmt.Sprint(key)] = plain(one)
		}
		return found
	case map[string]any:
		found := make(map[string]any, len(value))
		for key, one := range value {
			found[key] = plain(one)
		}
		return found
	case error:
		return map[string]any{"error": described(value)}
	}
	return value
}
