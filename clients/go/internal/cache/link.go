package cache

import (
	"bufio"
	"context"
	"net"
	"sync"
	"time"

	"claret/go/internal/failure"
	"claret/go/internal/resp"
)

const (
	// beatEvery is the time between requests that show whether the server still answers.
	beatEvery = 500 * time.Millisecond
	// freshMax is the age of the newest request with an answer up to which kept replies count: after
	// that, notices of changes may be on their way, or the process may have been stopped.
	freshMax = 2 * time.Second
	// silenceMax is the time without a word of the server after which the connection is lost.
	silenceMax = 10 * time.Second
	// underWayMax is the most requests without a reply; further reads do without the cache.
	underWayMax = 4096
)

// sent is a request that was sent; without a slot it is one for a sign of life.
type sent struct {
	slot *slot
	at   time.Time
}

// link is a connection on which the server watches what is read.
type link struct {
	socket net.Conn
	from   *bufio.Reader
	cut    func()
	cache  *Cache
	wake   chan struct{}

	mutex   sync.Mutex
	queue   []*slot
	waiting []sent
	// heard is when the last request was sent that was answered.
	heard time.Time
	ended bool
}

func connect(ctx context.Context, source Source, cache *Cache) (*link, error) {
	socket, cut, err := source.Open(ctx)
	if err != nil {
		return nil, err
	}
	made := &link{
		socket: patient{socket},
		from:   bufio.NewReader(patient{socket}),
		cut:    cut,
		cache:  cache,
		wake:   make(chan struct{}, 1),
		heard:  time.Now(),
	}
	if err := made.begin(ctx); err != nil {
		cut()
		return nil, err
	}
	return made, nil
}

// patient waits for the server as long as it sends or takes something now and then.
type patient struct{ net.Conn }

func (p patient) Read(into []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(silenceMax)); err != nil {
		return 0, err
	}
	return p.Conn.Read(into)
}

func (p patient) Write(from []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(silenceMax)); err != nil {
		return 0, err
	}
	return p.Conn.Write(from)
}

// begin asks the server to watch what is read.
func (l *link) begin(ctx context.Context) error {
	defer context.AfterFunc(ctx, l.cut)()
	request, err := resp.Append(nil, []any{"CLIENT", "TRACKING", "ON"})
	if err != nil {
		return err
	}
	if _, err := l.socket.Write(request); err != nil {
		return err
	}
	reply, err := resp.Read(l.from)
	if refused, isError := reply.(resp.Error); isError {
		return failure.Translate(refused)
	}
	return err
}

// isFresh tells whether the server was heard of a short time ago.
func (l *link) isFresh() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return time.Since(l.heard) < freshMax
}

// send lines a request up; it tells whether there was room.
func (l *link) send(asked *slot) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.ended || len(l.queue)+len(l.waiting) >= underWayMax {
		return false
	}
	l.queue = append(l.queue, asked)
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return true
}

// serve carries requests and replies until the connection breaks or the context ends.
func (l *link) serve(ctx context.Context) {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, l.cut)
	go l.write(ended)
	l.read()
	close(ended)
	stop()
	l.cut()
}

func (l *link) write(ended chan struct{}) {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		isBeat := false
		select {
		case <-ended:
			return
		case <-l.wake:
		case <-beat.C:
			isBeat = true
		}
		packet, err := l.packet(isBeat)
		if err == nil {
			_, err = l.socket.Write(packet)
		}
		if err != nil {
			// The reader finds the connection closed.
			l.cut()
			return
		}
	}
}

// packet is the requests that are lined up, which wait for replies from now on.
func (l *link) packet(isBeat bool) ([]byte, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := time.Now()
	var packet []byte
	for _, asked := range l.queue {
		packet = append(packet, asked.identity...)
		l.waiting = append(l.waiting, sent{asked, now})
	}
	l.queue = nil
	if !isBeat {
		return packet, nil
	}
	l.waiting = append(l.waiting, sent{nil, now})
	return resp.Append(packet, []any{"PING"})
}

func (l *link) read() {
	for {
		value, isReply, err := resp.ReadFrame(l.from)
		if err != nil {
			return
		}
		if !isReply {
			if message, isList := value.([]any); isList && len(message) == 2 && message[0] == "invalidate" {
				l.cache.invalidated(message[1])
			}
			continue
		}
		asked, isKnown := l.answered()
		if !isKnown {
			return
		}
		if asked != nil {
			l.cache.arrived(asked, value)
		}
	}
}

// answered takes the request whose reply is there.
func (l *link) answered() (*slot, bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.waiting) == 0 {
		return nil, false
	}
	first := l.waiting[0]
	l.waiting = l.waiting[1:]
	l.heard = first.at
	return first.slot, true
}

// fail tells waiting readers that the connection is lost.
func (l *link) fail() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.ended = true
	for _, asked := range l.queue {
		asked.lose()
	}
	for _, one := range l.waiting {
		if one.slot != nil {
			one.slot.lose()
		}
	}
	l.queue, l.waiting = nil, nil
}

func (s *slot) lose() {
	s.isLost = true
	close(s.done)
}
