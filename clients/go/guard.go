package claret

import (
	"strings"

	"github.com/redis/go-redis/v9"

	"claret/go/internal/failure"
	"claret/go/internal/resp"
	"claret/go/internal/script"
)

// ofConnection are commands that change a connection for its next user, or have no single reply.
var ofConnection = set("AUTH DISCARD EXEC HELLO MONITOR MULTI PSUBSCRIBE PUNSUBSCRIBE QUIT RESET " +
	"SELECT SSUBSCRIBE SUBSCRIBE SUNSUBSCRIBE UNSUBSCRIBE UNWATCH WATCH")

// alone are commands that change a connection with some second words, and with these do not.
var alone = map[string]map[string]bool{
	"TXN":    set("RESOLVE HOLDERS HELP"),
	"CLIENT": set("ID INFO LIST KILL UNBLOCK GETNAME GETREDIR TRACKINGINFO PAUSE UNPAUSE HELP"),
}

// advice tells what to use instead.
var advice = map[string]string{
	"AUTH":    "use the Options of Connect",
	"HELLO":   "use the Options of Connect",
	"SELECT":  "use Database in the Options of Connect",
	"QUIT":    "use Close",
	"MULTI":   "use Batch or Run",
	"EXEC":    "use Batch or Run",
	"DISCARD": "use Batch or Run, and return an error",
	"WATCH":   "use Run",
	"UNWATCH": "use Run",
	"TXN":     "use Run, and its options; return an error to end a transaction without effect",
	"CLIENT":  "use a connection of your own",
	"RESET":   "use a connection of your own",
	"MONITOR": "use a connection of your own",
}

// adviceFor is what to use instead of a command.
func adviceFor(name string) string {
	if text := advice[name]; text != "" {
		return text
	}
	if strings.HasPrefix(name, "P") {
		return "use Redis().PSubscribe"
	}
	return "use Redis().Subscribe"
}

// checkSingle refuses a single command that changes the connection for its next user.
func checkSingle(words []any) error {
	name, isOfConnection, isAllowed := examine(words)
	if isOfConnection && !isAllowed {
		return failure.Order(name + " is about a connection of its own: " + adviceFor(name))
	}
	return nil
}

// checkTogether refuses a command that has no place in a transaction, a batch or under a fence, and
// deferred replies as its words.
func checkTogether(words []any) error {
	if err := script.CheckWords(words); err != nil {
		return err
	}
	name, isOfConnection, isAllowed := examine(words)
	if !isOfConnection {
		return nil
	}
	text := adviceFor(name)
	if isAllowed {
		text = "send it as a single command"
	}
	return failure.Order(name + " is not allowed together with others: " + text)
}

// examine is the name of a command, under any FENCE with a name and a token; whether it is about its
// connection; and if so, whether it is allowed as a single one.
func examine(words []any) (name string, isOfConnection, isAllowed bool) {
	name = nameOf(words, 0)
	for name == "FENCE" && len(words) > 3 {
		words = words[3:]
		name = nameOf(words, 0)
	}
	if seconds := alone[name]; seconds != nil {
		return name, true, seconds[nameOf(words, 1)]
	}
	return name, ofConnection[name], false
}

// nameOf is a word of a command in capitals.
func nameOf(words []any, at int) string {
	if at >= len(words) {
		return ""
	}
	text, err := resp.Text(words[at])
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(string(text))), " ")
	return name
}

// isOfProgram tells whether a command of a pipeline of go-redis was given as words. Those that begin
// a new connection, and a transaction of go-redis, come by the same way, but are typed.
func isOfProgram(command redis.Cmder) bool {
	_, isWords := command.(*redis.Cmd)
	return isWords
}
