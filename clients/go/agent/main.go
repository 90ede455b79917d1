// Command agent does what the stories of clients/conformance ask for with the Go client.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// offers are the requests and options that the agent has.
const offers = "hello open close command run resume cancel batch guards dispatch lock unlock held " +
	"fenced stop_renewing campaign proclaim resign leader observe barrier retained enter give_back " +
	"define migrate operate section once addresses near next tls certificate password_file closed " +
	"cache cached cache_stats close_cache"

// request is one line of the runner. Fields that a request does not have are empty.
type request struct {
	ID             int64       `json:"id"`
	Do             string      `json:"do"`
	Client         string      `json:"client"`
	Addresses      []string    `json:"addresses"`
	TLS            string      `json:"tls"`
	Certificate    string      `json:"certificate"`
	CertificateKey string      `json:"certificate_key"`
	Username       string      `json:"username"`
	Password       string      `json:"password_file"`
	Words          []string    `json:"words"`
	Options        runOptions  `json:"options"`
	Body           []step      `json:"body"`
	Request        int64       `json:"request"`
	Commands       [][]string  `json:"commands"`
	Guards         [][]*string `json:"guards"`
	Name           string      `json:"name"`
	As             string      `json:"as"`
	Lease          int64       `json:"lease"`
	Timeout        *int64      `json:"timeout"`
	Shared         bool        `json:"shared"`
	Limit          int         `json:"limit"`
	Owner          string      `json:"owner"`
	Detect         bool        `json:"detect"`
	Near           bool        `json:"near"`
	Next           bool        `json:"next"`
	Lock           string      `json:"lock"`
	Value          string      `json:"value"`
	Election       string      `json:"election"`
	Count          int         `json:"count"`
	Parties        int         `json:"parties"`
	Retained       string      `json:"retained"`
	Definition     string      `json:"definition"`
	Key            string      `json:"key"`
	Operation      string      `json:"operation"`
	Arguments      []string    `json:"arguments"`
	Cache          string      `json:"cache"`
	Entries        int         `json:"entries"`
	ReplyBytes     int         `json:"reply_bytes"`
}

type answer struct {
	ID    int64 `json:"id"`
	Value any   `json:"value"`
}

type refusal struct {
	ID    int64        `json:"id"`
	Error *failureLine `json:"error"`
}

type event struct {
	ID    int64  `json:"id"`
	Event string `json:"event"`
	At    string `json:"at"`
}

var output sync.Mutex

func write(line any) {
	text, err := json.Marshal(line)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

// call is a request under way.
type call struct {
	cancel context.CancelFunc
	resume chan struct{}
}

func main() {
	agent := &agent{}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		ctx, cancel := context.WithCancel(context.Background())
		// Known before the next line is read, which may be about it.
		under := &call{cancel: cancel, resume: make(chan struct{}, 16)}
		agent.calls.Store(asked.ID, under)
		go func() {
			value, err := agent.carryOut(ctx, asked, under)
			agent.calls.Delete(asked.ID)
			cancel()
			if err != nil {
				write(refusal{ID: asked.ID, Error: described(err)})
				return
			}
			write(answer{ID: asked.ID, Value: plain(value)})
		}()
	}
}

func hello() any {
	return map[string]any{"client": "go", "offers": strings.Fields(offers)}
}

func duration(milliseconds int64) time.Duration {
	return time.Duration(milliseconds) * time.Millisecond
}

func anys(words []string) []any {
	found := make([]any, len(words))
	for i, word := range words {
		found[i] = word
	}
	return found
}
