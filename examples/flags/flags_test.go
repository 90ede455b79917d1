package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	claret "claret/go"
	"claret/go/clarettest"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, true func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !true(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it took too long until ", what)
		}
	}
}

// instance is one instance of the service.
type instance struct {
	t     *testing.T
	flags *Flags
	url   string
}

func startInstance(t *testing.T, s *clarettest.Server) *instance {
	t.Helper()
	db, err := claret.Connect(claret.Options{Addresses: []string{s.Addr}})
	check(t, err)
	ctx, stop := context.WithCancel(context.Background())
	flags := NewFlags(db)
	ended := make(chan struct{})
	go func() {
		flags.Follow(ctx)
		close(ended)
	}()
	server := httptest.NewServer(handler(flags))
	t.Cleanup(func() {
		server.Close()
		stop()
		<-ended
		_ = db.Close()
	})
	i := &instance{t, flags, server.URL}
	until(t, "the instance has read the flags", func() bool {
		values, _ := flags.All()
		return values != nil
	})
	return i
}

func (i *instance) do(method, name, body string) (int, string) {
	request, err := http.NewRequest(method, i.url+"/flags/"+name, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, strings.TrimSpace(string(text))
}

func (i *instance) put(name, value string) {
	i.t.Helper()
	if status, text := i.do("PUT", name, value); status != http.StatusNoContent {
		i.t.Errorf("PUT %s: %d %s", name, status, text)
	}
}

func (i *instance) expect(name, value string) {
	i.t.Helper()
	status, text := i.do("GET", name, "")
	if status != http.StatusOK || text != value {
		i.t.Errorf("%s is %d %s, not %s", name, status, text, value)
	}
}

// all is the flags with their version, as text.
func (i *instance) all() string {
	values, version := i.flags.All()
	text, _ := json.Marshal(values)
	return fmt.Sprint(version, string(text))
}

func agree(t *testing.T, one, other *instance) {
	t.Helper()
	until(t, "the instances agree", func() bool { return one.all() == other.all() })
}

func TestAChangeIsSeenAtOnceHereAndSoonThere(t *testing.T) {
	s := clarettest.Start(t)
	one, other := startInstance(t, s), startInstance(t, s)
	one.put("dark-mode", `{"percent": 20}`)
	one.expect("dark-mode", `{"percent":20}`)
	agree(t, one, other)
	other.expect("dark-mode", `{"percent":20}`)
	for name, wrong := range map[string]string{"dark-mode": "{", strings.Repeat("n", 101): "1"} {
		if status, _ := one.do("PUT", name, wrong); status != http.StatusBadRequest {
			t.Errorf("PUT of %s is %d", wrong, status)
		}
	}
	if status, _ := one.do("GET", "unknown", ""); status != http.StatusNotFound {
		t.Errorf("an unknown flag is %d", status)
	}
}

func TestInstancesThatWriteAtTheSameTimeAgree(t *testing.T) {
	s := clarettest.Start(t)
	both := []*instance{startInstance(t, s), startInstance(t, s)}
	const writers, changes = 6, 10
	var all sync.WaitGroup
	for writer := 0; writer < writers; writer++ {
		all.Add(1)
		go func(to *instance) {
			defer all.Done()
			for n := 0; n < changes; n++ {
				to.put("flag-"+strconv.Itoa(n%4), strconv.Itoa(n))
			}
		}(both[writer%2])
	}
	all.Wait()
	agree(t, both[0], both[1])
	if _, version := both[0].flags.All(); version != writers*changes {
		t.Errorf("%d changes have made version %d", writers*changes, version)
	}
}

func TestReadsGoOnWhileTheStoreIsDownAndNoChangeIsMissed(t *testing.T) {
	s := clarettest.Start(t)
	one, other := startInstance(t, s), startInstance(t, s)
	one.put("banner", "false")
	agree(t, one, other)
	s.Kill()
	one.expect("banner", "false")
	other.expect("banner", "false")
	if status, _ := one.do("PUT", "banner", "1"); status != http.StatusServiceUnavailable {
		t.Errorf("PUT without a store is %d", status)
	}
	s.Restart()
	// By a client without a subscription, before or after the instances are back.
	db, err := claret.Connect(claret.Options{Addresses: []string{s.Addr}})
	check(t, err)
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err = NewFlags(db).Set(ctx, "banner", json.RawMessage("true"))
	check(t, err)
	until(t, "the change is seen", func() bool { return one.all() == `2{"banner":true}` })
	agree(t, one, other)
}

func TestAGapInTheAnnouncementsIsFilled(t *testing.T) {
	s := clarettest.Start(t)
	one, other := startInstance(t, s), startInstance(t, s)
	// A change without its announcement, as if that had been lost on the way.
	batch := one.flags.db.Batch()
	batch.Add("SET", versionKey, 1)
	batch.Add("HSET", flagsKey, "lost", "true")
	_, err := batch.Execute(context.Background())
	check(t, err)
	one.put("next", "1")
	agree(t, one, other)
	other.expect("lost", "true")
	other.expect("next", "1")
}
