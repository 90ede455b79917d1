package tests

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// between accepts connections at an address, and lets a function pass on what is said on each one and
// on another one to a server. Both are closed when it returns.
func between(t *testing.T, to string, pass func(client, server net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				server, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer server.Close()
				pass(client, server)
			}()
		}
	}()
	return listener.Addr().String()
}

// rule says what becomes of requests that begin with some words, so often: "refuse" answers with an
// error, "drop" cuts the connection, "lose" passes on and cuts it instead of an answer, "hang" answers
// nothing any more on the connection, "nil" passes on but answers nil, late.
type rule struct {
	words, action string
	times         int
}

// judging passes requests on one by one, except for those of its rules.
type judging struct {
	address string
	mutex   sync.Mutex
	rules   []rule
}

func judge(t *testing.T, to string, rules ...rule) *judging {
	t.Helper()
	j := &judging{rules: rules}
	j.address = between(t, to, j.pass)
	return j
}

func (j *judging) add(one rule) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.rules = append(j.rules, one)
}

func (j *judging) action(words string) string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	for i := range j.rules {
		one := &j.rules[i]
		if one.times > 0 && strings.HasPrefix(words, one.words) {
			one.times--
			return one.action
		}
	}
	return ""
}

func (j *judging) pass(client, server net.Conn) {
	requests, replies := bufio.NewReader(client), bufio.NewReader(server)
	for {
		raw, words, err := request(requests)
		if err != nil {
			return
		}
		action := j.action(strings.ToUpper(words))
		switch action {
		case "refuse":
			_, err = io.WriteString(client, "-BUSY come later\r\n")
		case "drop":
			return
		case "hang":
			_, _ = io.Copy(io.Discard, requests)
			return
		default:
			if _, err = server.Write(raw); err == nil {
				var reply bytes.Buffer
				err = copyReply(&reply, replies)
				if action == "lose" {
					return
				}
				if action == "nil" {
					time.Sleep(200 * time.Millisecond)
					reply.Reset()
					reply.WriteString("_\r\n")
				}
				if err == nil {
					_, err = client.Write(reply.Bytes())
				}
			}
		}
		if err != nil {
			return
		}
	}
}

func request(from *bufio.Reader) (raw []byte, words string, err error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return nil, "", err
	}
	raw = append(raw, line...)
	count, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	var found []string
	for i := 0; i < count; i++ {
		if line, err = from.ReadString('\n'); err != nil {
			return nil, "", err
		}
		length, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		text := make([]byte, length+2)
		if _, err = io.ReadFull(from, text); err != nil {
			return nil, "", err
		}
		raw = append(append(raw, line...), text...)
		found = append(found, string(text[:length]))
	}
	return raw, strings.Join(found, " "), nil
}

func copyReply(to *bytes.Buffer, from *bufio.Reader) error {
	line, err := from.ReadString('\n')
	if err != nil {
		return err
	}
	to.WriteString(line)
	count, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '$', '=', '!':
		if count >= 0 {
			_, err = io.CopyN(to, from, int64(count)+2)
		}
		return err
	case '%':
		count *= 2
	case '*', '~', '>':
	default:
		return nil
	}
	for i := 0; i < count; i++ {
		if err := copyReply(to, from); err != nil {
			return err
		}
	}
	return nil
}
