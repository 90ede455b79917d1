// Package tests examines the client with real servers, which clarettest starts.
package tests

import (
	"context"
	"testing"
	"time"

	claret "claret/go"
)

// connect opens a client for the duration of a test.
func connect(t *testing.T, addresses ...string) *claret.DB {
	t.Helper()
	return open(t, claret.Options{Addresses: addresses})
}

func open(t *testing.T, options claret.Options) *claret.DB {
	t.Helper()
	db, err := claret.Connect(options)
	check(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, found, wanted T) {
	t.Helper()
	if found != wanted {
		t.Fatalf("found %v, wanted %v", found, wanted)
	}
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
