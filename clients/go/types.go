package claret

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Type is a composed type, by its definition.
type Type struct {
	definition string
	name       string
	operations map[string]*operation
}

type operation struct {
	parameters []string
	// commands are the commands of its steps.
	commands []string
}

// ParseType reads a definition, the text of TYPE.DEFINE. Only the server checks it completely.
func ParseType(definition string) (*Type, error) {
	found := &Type{definition: definition, operations: map[string]*operation{}}
	var current *operation
	for _, line := range strings.Split(definition, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		switch {
		case words[0] == "type" && found.name == "" && len(words) > 1:
			found.name = words[1]
		case (words[0] == "op" || words[0] == "query") && len(words) > 1:
			current = &operation{}
			for _, parameter := range words[2:] {
				name, _, _ := strings.Cut(parameter, ":")
				current.parameters = append(current.parameters, name)
			}
			found.operations[words[1]] = current
			if words[0] == "query" {
				current = nil // Whatever its steps are, they only read.
			}
		case words[0] == "part", words[0] == "map", words[0] == "without", words[0] == "expired":
			current = nil
		case current != nil && strings.HasPrefix(words[0], "|"):
			current.commands = append(current.commands, "set") // A program may write.
		case current != nil:
			step := words[0]
			if (step == "return" || step == "require") && len(words) > 1 {
				step = words[1]
			}
			current.commands = append(current.commands, step)
		}
	}
	if found.name == "" {
		return nil, errors.New("claret: a definition begins with 'type' and a name")
	}
	return found, nil
}

// Name is the name of the type.
func (t *Type) Name() string { return t.name }

// Define defines the type, unless it is there already, and returns its version. A program can do
// that whenever it starts. Another definition of the name is an error: see Migrate.
func (t *Type) Define(ctx context.Context, db *DB) (int64, error) {
	return db.Do(ctx, "TYPE.DEFINE", t.name, t.definition).Int64()
}

// Migrate gives the type this definition, which takes the values over, and returns the version.
func (t *Type) Migrate(ctx context.Context, db *DB) (int64, error) {
	return db.Do(ctx, "TYPE.MIGRATE", t.name, t.definition).Int64()
}

// On is the value under a key, on a DB, in a Tx, on a Batch, in sections or under a fence.
func (t *Type) On(on Doer, key string) *Value { return &Value{of: t, on: on, key: key} }

// Value is a value of a composed type.
type Value struct {
	of  *Type
	on  Doer
	key string
}

// Call carries an operation out. In a transaction and on a batch the reply of one that writes is
// known with the commit, as with Do there.
func (v *Value) Call(ctx context.Context, name string, arguments ...any) *redis.Cmd {
	operation := v.of.operations[name]
	full := v.of.name + "." + name
	failed := func(err error) *redis.Cmd {
		command := redis.NewCmd(ctx, "TYPE.CALL", v.key, full)
		command.SetErr(err)
		return command
	}
	if operation == nil {
		return failed(fmt.Errorf("claret: %s has no operation %s", v.of.name, name))
	}
	if len(arguments) != len(operation.parameters) {
		wanted := strings.Join(operation.parameters, ", ")
		return failed(fmt.Errorf("claret: the arguments are %s(%s)", full, wanted))
	}
	command, err := v.command(ctx, operation)
	if err != nil {
		return failed(err)
	}
	return v.on.Do(ctx, append([]any{command, v.key, full}, arguments...)...)
}

// command is the one that carries out an operation: another one if it only reads.
func (v *Value) command(ctx context.Context, operation *operation) (string, error) {
	db := v.on.database()
	for _, step := range operation.commands {
		write, err := db.isWrite(ctx, step)
		if err != nil {
			return "", err
		}
		if write {
			return "TYPE.CALL", nil
		}
	}
	return "TYPE.CALL_RO", nil
}
