// Package story holds what the programs beside it share: each lets a library do its work on the server
// whose port is its first argument, and prints a line for every part of the work that went as expected.
package story

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// Port is the first argument of the program.
func Port() string {
	if len(os.Args) < 2 {
		Fail("say the port of a server")
	}
	return os.Args[1]
}

// Address is where the server listens.
func Address() string {
	return "127.0.0.1:" + Port()
}

// Client connects to the server as go-redis does by itself.
func Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: Address()})
}

// Fail ends the program.
func Fail(form string, words ...any) {
	fmt.Printf("FAILED "+form+"\n", words...)
	os.Exit(1)
}

// Must ends the program if there is an error.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// Of is the value of a call that must not fail.
func Of[T any](value T, err error) T {
	Must(err)
	return value
}

// Check prints a value if it is the expected one, and ends the program otherwise.
func Check(name string, got, want any) {
	found, expected := text(got), text(want)
	if found != expected {
		Fail("%s: %s, not %s", name, found, expected)
	}
	fmt.Println("OK", name+":", found)
}

// Until waits for a condition.
func Until(name string, condition func() bool) {
	deadline := time.Now().Add(30 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			Fail("%s: this did not happen in time", name)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func text(value any) string {
	if err, ok := value.(error); ok {
		return err.Error()
	}
	return string(Of(json.Marshal(value)))
}
