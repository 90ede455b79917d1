package claret

import (
	"strings"

	"github.com/redis/go-redis/v9"

	"claret/go/internal/failure"
	"claret/go/internal/resp"
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
	"AUTH":     "use the Options of Connect",
	"HELLO":    "use the Options of Connect",
	"SELECT":   "use Database in the Options of Connect",
	"QUIT":     "use Close",
	"MULTI":    "use Batch or Run",
	"EXEC":     "use Batch or Run",
	"DISCARD":  "use Batch or Run, and return an error",
	"WATCH":    "use Run",
	"UNWATCH":  "use Run",
	"TXN":      "use Run, and its options; return an error to end a transaction without effect",
	"CLIENT":   "use a connection of your own",
	"RESET":    "use a connection of your own",
	"MONITOR":  "use a connection of your own",
	"PSUB":     "use Redis().PSubscribe",
	"SUB":      "use Redis().Subscribe",
	"TOGETHER": "send it as a single command",
}

// adviceFor is what to use instead of a command.
func adviceFor(name string) string {
	if text := advice[name]; text != "" {
		return text
	}
	if strings.HasPrefix(name, "P") {
		return advice["PSUB"]
	}
	return advice["SUB"]
}

// checkSingle refuses a single command that changes the connection for its next user.
func checkSingle(words []any) error {
	words = behindFence(words)
	name := nameOf(words, 0)
	if seconds := alone[name]; seconds != nil && seconds[nameOf(words, 1)] {
		return nil
	}
	if ofConnection[name] || alone[name] != nil {
		return failure.Order(name + " is about a connection of its own: " + adviceFor(name))
	}
	return nil
}

// checkTogether refuses a command that has no place in a transaction, a batch or under a fence.
func checkTogether(words []any) error {
	words = behindFence(words)
	name := nameOf(words, 0)
	seconds := alone[name]
	switch {
	case seconds != nil && seconds[nameOf(words, 1)]:
		return failure.Order(name + " is not allowed together with others: " + advice["TOGETHER"])
	case ofConnection[name] || seconds != nil:
		return failure.Order(name + " is not allowed together with others: " + adviceFor(name))
	}
	return nil
}

// behindFence is the command under FENCE, a name and a token, if there is one.
func behindFence(words []any) []any {
	for nameOf(words, 0) == "FENCE" && len(words) > 3 {
		words = words[3:]
	}
	return words
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
