// Package tests examines the client with real servers, which clarettest starts.
package tests

import (
	"context"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	claret "claret/go"
	"claret/go/clarettest"
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

// abandons names the variable with which a program of tests ends without its clean-up.
const abandons = "CLARET_TEST_ABANDONS"

func TestAServerEndsWithTheProgramOfItsTests(t *testing.T) {
	if path := os.Getenv(abandons); path != "" {
		check(t, os.WriteFile(path, []byte(clarettest.Start(t).Addr), 0o600))
		// As a test does whose -timeout is over.
		os.Exit(2)
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with its parent")
	}
	path := t.TempDir() + "/address"
	program := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	program.Env = append(os.Environ(), abandons+"="+path)
	if err := program.Run(); err == nil {
		t.Fatal("the program should have failed")
	}
	address, err := os.ReadFile(path)
	check(t, err)
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		connection, err := net.Dial("tcp", string(address))
		if err != nil {
			return
		}
		_ = connection.Close()
		if time.Now().After(until) {
			t.Fatal("the server still listens")
		}
	}
}
