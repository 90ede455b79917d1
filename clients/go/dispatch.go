package claret

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"claret/go/internal/failure"
	"claret/go/internal/link"
	"claret/go/internal/resp"
	"claret/go/internal/script"
)

// window is the most unanswered commands of a dispatch.
const window = 256

// Dispatch sends commands without waiting for replies. They take effect in the order in which they
// are sent, on all shards, and other clients see them in that order. It is for one goroutine:
// commands of two have no order.
type Dispatch struct {
	ctx     context.Context
	lane    *link.Lane
	socket  net.Conn
	release func() bool
	buffer  []byte
	waiting chan *Future
	ended   chan struct{}

	mutex  sync.Mutex
	closed bool
	broken error
	unseen []*Future
}

// Future is a reply that may not have arrived yet. It is not the reply itself: as a word of a
// command it is an ErrOrder.
type Future struct {
	script.DeferredReply
	done  chan struct{}
	value any
	err   error
	seen  atomic.Bool
}

// Dispatch begins to send commands over a connection of its own. When the context ends, the
// connection is closed; replies that are outstanding then are errors. Close ends the dispatch.
func (db *DB) Dispatch(ctx context.Context) (*Dispatch, error) {
	lane, err := db.lanes.Take(ctx)
	if err != nil {
		return nil, err
	}
	socket, err := lane.Socket(ctx, db.options.ReplyTimeout)
	if err != nil {
		lane.Abandon()
		return nil, failure.GaveUp(ctx, failure.Broken(err))
	}
	dispatch := &Dispatch{
		ctx:     ctx,
		lane:    lane,
		socket:  socket,
		waiting: make(chan *Future, window),
		ended:   make(chan struct{}),
	}
	dispatch.release = context.AfterFunc(ctx, func() { socket.Close() })
	go dispatch.read()
	return dispatch, nil
}

// Send sends a command. It waits only if very many commands are unanswered.
func (d *Dispatch) Send(words ...any) *Future {
	future := &Future{done: make(chan struct{})}
	if err := d.send(future, words); err != nil {
		d.fail(future, err)
	}
	return future
}

func (d *Dispatch) send(future *Future, words []any) error {
	if err := d.check(words); err != nil {
		return err
	}
	buffer, err := resp.Append(d.buffer[:0], words)
	if err != nil {
		return err
	}
	d.buffer = buffer
	// In line before it is sent: its reply may come at once. If it waits for room, replies are read
	// meanwhile.
	d.waiting <- future
	if _, err := d.socket.Write(buffer); err != nil {
		// The reader finds the connection closed, and fails this future with the others.
		d.socket.Close()
	}
	return nil
}

func (d *Dispatch) check(words []any) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	switch {
	case d.closed:
		return failure.New(ErrClosed, "the dispatch has ended", nil)
	case d.broken != nil:
		return d.broken
	case len(words) == 0:
		return failure.Order("a command has words")
	}
	return checkTogether(words)
}

// read gives the replies to the futures, in their order.
func (d *Dispatch) read() {
	defer close(d.ended)
	from := bufio.NewReader(d.socket)
	for future := range d.waiting {
		d.mutex.Lock()
		err := d.broken
		d.mutex.Unlock()
		var value any
		if err == nil {
			if value, err = resp.Read(from); err != nil {
				err = d.lose(err)
			}
		}
		reply, isError := value.(error)
		switch {
		case err != nil:
			d.fail(future, err)
		case isError:
			d.fail(future, failure.Translate(reply))
		case value == nil:
			future.finish(nil, redis.Nil)
		default:
			future.finish(value, nil)
		}
	}
}

// lose records that the connection broke.
func (d *Dispatch) lose(err error) error {
	d.socket.Close()
	lost := failure.New(ErrUnknown, "the connection broke before the reply came", err)
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.broken = failure.GaveUp(d.ctx, lost)
	return d.broken
}

func (d *Dispatch) fail(future *Future, err error) {
	future.finish(nil, err)
	d.mutex.Lock()
	defer d.mutex.Unlock()
	// Those that the program has seen make room.
	if len(d.unseen) >= window {
		kept := d.unseen[:0]
		for _, one := range d.unseen {
			if !one.seen.Load() {
				kept = append(kept, one)
			}
		}
		d.unseen = kept
	}
	if len(d.unseen) < window {
		d.unseen = append(d.unseen, future)
	}
}

// Close waits for all replies and gives the connection back. It returns the first error that the
// program has not seen.
func (d *Dispatch) Close() error {
	d.mutex.Lock()
	closed := d.closed
	d.closed = true
	d.mutex.Unlock()
	if closed {
		return nil
	}
	close(d.waiting)
	<-d.ended
	if d.release() && d.broken == nil {
		d.lane.Release()
	} else {
		d.lane.Abandon()
	}
	for _, future := range d.unseen {
		if !future.seen.Load() {
			return future.err
		}
	}
	return nil
}

func (f *Future) finish(value any, err error) {
	f.value, f.err = value, err
	close(f.done)
}

// Done is closed when the reply has arrived.
func (f *Future) Done() <-chan struct{} { return f.done }

// Value waits for the reply. Its error is redis.Nil if there is none, the error reply if it is one,
// and ErrUnknown if the connection broke before it came.
func (f *Future) Value(ctx context.Context) (any, error) {
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.seen.Store(true)
	return f.value, f.err
}

// Int waits for the reply, as an integer; see Value.
func (f *Future) Int(ctx context.Context) (int64, error) {
	value, err := f.Value(ctx)
	if err != nil {
		return 0, err
	}
	number, isNumber := value.(int64)
	if !isNumber {
		return 0, errors.New("claret: the reply is no integer")
	}
	return number, nil
}

// Text waits for the reply, as text; see Value.
func (f *Future) Text(ctx context.Context) (string, error) {
	value, err := f.Value(ctx)
	if err != nil {
		return "", err
	}
	text, isText := value.(string)
	if !isText {
		return "", errors.New("claret: the reply is no text")
	}
	return text, nil
}
