// Package tests examines the client with real servers, which it starts from CLARET_BIN.
package tests

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	claret "claret/go"
)

// server is a server of its own for one test.
type server struct {
	t       *testing.T
	address string
	folder  string
	config  string
	process *exec.Cmd
}

// start starts a server on an empty folder; the lines of a configuration file may be empty.
func start(t *testing.T, config string) *server {
	t.Helper()
	binary := os.Getenv("CLARET_BIN")
	if binary == "" {
		t.Skip("CLARET_BIN names no server")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	address := listener.Addr().String()
	check(t, listener.Close())
	s := &server{t: t, address: address, folder: t.TempDir(), config: config}
	check(t, os.Chmod(s.folder, 0o700))
	t.Cleanup(s.kill)
	s.restart()
	return s
}

// restart starts the server, on its folder and its port.
func (s *server) restart() {
	s.t.Helper()
	_, port, err := net.SplitHostPort(s.address)
	check(s.t, err)
	arguments := []string{"serve", "--port", port, "--dir", filepath.Join(s.folder, "data")}
	if s.config != "" {
		file := filepath.Join(s.folder, "claret.toml")
		check(s.t, os.WriteFile(file, []byte(s.config), 0o600))
		arguments = append(arguments, "--config", file)
	}
	s.process = exec.Command(os.Getenv("CLARET_BIN"), arguments...)
	ready := &output{}
	s.process.Stdout, s.process.Stderr = ready, ready
	check(s.t, s.process.Start())
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if strings.Contains(ready.String(), "is ready") {
			return
		}
		if time.Now().After(until) {
			s.t.Fatalf("the server is not ready: %s", ready)
		}
	}
}

// kill ends the server with kill -9.
func (s *server) kill() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}

// output collects what a process writes.
type output struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (o *output) Write(text []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.String()
}

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
