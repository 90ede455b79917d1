// Package clarettest starts servers for the tests of a program.
//
//	func TestTransfer(t *testing.T) {
//		srv := clarettest.Start(t)
//		db, err := claret.Connect(claret.Options{Addresses: []string{srv.Addr}})
//		...
//		srv.Restart() // kill -9, and a start on the same files
//	}
package clarettest

import (
	"fmt"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// readyMax is the time in which a server must be ready, even after it was killed.
const readyMax = 30 * time.Second

// shownMax is the most of the server's output, in bytes, that a failed test shows.
const shownMax = 4000

// Ports are below those from which systems take the local end of a connection: a client that dials
// a killed server again and again could otherwise be connected to itself, and keep the port.
const portMin, portMax = 10_000, 32_000

// Server is a server with a folder and a port of its own, which it keeps when it is started again.
type Server struct {
	// Addr is its address, as host:port.
	Addr string

	t         testing.TB
	binary    string
	arguments []string
	log       string
	process   *exec.Cmd
	ended     chan struct{}
}

// Start starts a server without data, which is killed when the test ends; on Linux also when the
// program of the tests is killed, or ends because of its -timeout. The arguments are added to
// those of `claret serve`. Its program is that of CLARET_BIN, or else `claret` on PATH; without one
// the test fails.
func Start(t testing.TB, arguments ...string) *Server {
	t.Helper()
	s := &Server{t: t, binary: Binary(t), Addr: freeAddress()}
	folder, err := os.MkdirTemp("", "claret-")
	s.check(err)
	s.log = filepath.Join(folder, "log.txt")
	_, port, err := net.SplitHostPort(s.Addr)
	s.check(err)
	s.arguments = []string{"serve", "--port", port, "--dir", filepath.Join(folder, "data")}
	s.arguments = append(s.arguments, arguments...)
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("the server at %s wrote:\n%s", s.Addr, last(s.Log(), shownMax))
		}
		_ = os.RemoveAll(folder)
	})
	s.Restart()
	return s
}

// Binary is the program that Start starts.
func Binary(t testing.TB) string {
	t.Helper()
	name := os.Getenv("CLARET_BIN")
	if name == "" {
		name = "claret"
	}
	found, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("there is no server to start: %v. Put claret on PATH, or set CLARET_BIN to its path", err)
	}
	return found
}

// Restart kills the server, if it runs, and starts it on the same files and the same port.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	before := len(s.Log())
	log, err := os.OpenFile(s.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	s.check(err)
	defer func() { _ = log.Close() }()
	process := exec.Command(s.binary, s.arguments...)
	process.Stdout, process.Stderr = log, log
	endWithParent(process)
	begun, ended := make(chan error), make(chan struct{})
	go func() {
		// For Linux the thread that has started a process is its parent: it must not end earlier.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := process.Start()
		begun <- err
		if err == nil {
			_ = process.Wait()
		}
		close(ended)
	}()
	s.check(<-begun)
	s.process, s.ended = process, ended
	for until := time.Now().Add(readyMax); !strings.Contains(s.Log()[before:], "is ready"); {
		select {
		case <-ended:
			s.t.Fatal("the server has ended before it was ready")
		case <-time.After(5 * time.Millisecond):
			if time.Now().After(until) {
				s.t.Fatalf("the server was not ready in %v", readyMax)
			}
		}
	}
}

// Kill ends the server without warning, as kill -9 does, if it runs.
func (s *Server) Kill() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		<-s.ended
		s.process = nil
	}
}

// Log is everything that the server has written, since it was first started.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.log)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Sprint(err)
	}
	return string(text)
}

func (s *Server) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func last(text string, most int) string {
	if len(text) > most {
		return text[len(text)-most:]
	}
	return text
}

func freeAddress() string {
	for {
		port := strconv.Itoa(portMin + rand.Intn(portMax-portMin))
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = listener.Close()
			return "127.0.0.1:" + port
		}
	}
}
