package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	claret "claret/go"
)

type runOptions struct {
	Strict      *bool  `json:"strict"`
	Update      bool   `json:"update"`
	ReadOnly    bool   `json:"readonly"`
	AttemptsMax int    `json:"attempts_max"`
	Deadline    int64  `json:"deadline"`
	Once        string `json:"once"`
}

func (o runOptions) all() []claret.Option {
	var found []claret.Option
	add := func(wanted bool, option claret.Option) {
		if wanted {
			found = append(found, option)
		}
	}
	add(o.Strict != nil && !*o.Strict, claret.Lax())
	add(o.Update, claret.Update())
	add(o.ReadOnly, claret.ReadOnly())
	add(o.AttemptsMax > 0, claret.AttemptsMax(o.AttemptsMax))
	add(o.Deadline > 0, claret.Deadline(duration(o.Deadline)))
	add(o.Once != "", claret.Once(o.Once))
	return found
}

// step is a step of the body of a transaction.
type step struct {
	Ask     []any           `json:"ask"`
	Write   []any           `json:"write"`
	As      string          `json:"as"`
	Update  bool            `json:"update"`
	Pause   *string         `json:"pause"`
	Use     *string         `json:"use"`
	Require *string         `json:"require"`
	Fail    *string         `json:"fail"`
	Return  json.RawMessage `json:"return"`
}

// body is the function of a transaction.
type body struct {
	agent    *agent
	asked    request
	under    *call
	attempts int
	known    map[string]any
	result   any
}

var errBody = errors.New("the program's own function failed")

func (a *agent) run(
	ctx context.Context, db *claret.DB, asked request, under *call,
) (any, error) {
	made := &body{agent: a, asked: asked, under: under}
	if err := db.Run(ctx, made.call, asked.Options.all()...); err != nil {
		return nil, err
	}
	value, err := settled(made.result)
	if err != nil {
		return nil, err
	}
	return map[string]any{"value": value, "attempts": made.attempts}, nil
}

func (b *body) call(ctx context.Context, tx *claret.Tx) error {
	b.attempts++
	b.known, b.result = map[string]any{}, nil
	for _, step := range b.asked.Body {
		if err := b.step(ctx, tx, step); err != nil {
			return err
		}
	}
	return nil
}

func (b *body) step(ctx context.Context, tx *claret.Tx, step step) (err error) {
	switch {
	case step.Ask != nil:
		send := tx.Ask
		if step.Update {
			send = tx.AskForUpdate
		}
		b.known[step.As], err = reply(send(ctx, b.words(step.Ask)...))
	case step.Write != nil:
		b.known[step.As] = tx.Write(b.words(step.Write)...)
	case step.Pause != nil:
		if b.attempts == 1 {
			write(event{ID: b.asked.ID, Event: "paused", At: *step.Pause})
			select {
			case <-b.under.resume:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	case step.Use != nil:
		tx.Write("SET", "used", b.known[*step.Use])
	case step.Require != nil:
		held, err := b.agent.locks.get(*step.Require)
		if err != nil {
			return err
		}
		return tx.Require(ctx, held.held)
	case step.Fail != nil:
		return fmt.Errorf("%w: %s", errBody, *step.Fail)
	case step.Return != nil:
		var expression any
		if err := json.Unmarshal(step.Return, &expression); err != nil {
			return err
		}
		b.result = b.value(expression)
	}
	return err
}

func (b *body) words(expressions []any) []any {
	words := make([]any, len(expressions))
	for i, expression := range expressions {
		words[i] = b.value(expression)
	}
	return words
}

// value is the value of an expression; deferred replies stay what they are.
func (b *body) value(expression any) any {
	switch expression := expression.(type) {
	case []any:
		return b.words(expression)
	case map[string]any:
		if name, isVariable := expression["var"].(string); isVariable {
			return b.known[name]
		}
		terms := expression["add"].([]any)
		first, _ := strconv.ParseInt(fmt.Sprint(b.value(terms[0])), 10, 64)
		return strconv.FormatInt(first+int64(terms[1].(float64)), 10)
	}
	return expression
}

// settled has replies in the place of deferred ones.
func settled(value any) (any, error) {
	switch value := value.(type) {
	case []any:
		found := make([]any, len(value))
		for i, one := range value {
			var err error
			if found[i], err = settled(one); err != nil {
				return nil, err
			}
		}
		return found, nil
	case *claret.Deferred:
		known, err := value.Value()
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		return known, err
	}
	return value, nil
}
