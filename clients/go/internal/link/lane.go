package link

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"claret/go/internal/failure"
)

// GraceMax is the longest delay of the answer to a wait after its time.
const GraceMax = 10 * time.Second

var errKilled = errors.New("the connection was closed by the client")

// Lane is a connection for one user at a time, on which a packet of commands is exchanged for
// their replies. Closing it ends a wait at once, which a connection of go-redis cannot.
type Lane struct {
	lanes  *Lanes
	client *redis.Client
	conn   *redis.Conn

	mutex   sync.Mutex
	socket  net.Conn
	killed  bool
	counted bool
}

// Exchange sends commands in one packet and reads their replies into them. Its error is that of
// the connection, which is then of no further use; error replies are errors of their commands. The
// replies must come within the limit, if that is above 0.
func (l *Lane) Exchange(ctx context.Context, limit time.Duration, commands ...redis.Cmder) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if limit > 0 {
		timer := time.AfterFunc(limit, l.kill)
		defer l.unlessLate(timer.Stop)
	}
	defer l.unlessLate(context.AfterFunc(ctx, l.kill))
	pipe := l.conn.Pipeline()
	for _, command := range commands {
		_ = pipe.Process(ctx, command)
	}
	_, err := pipe.Exec(ctx)
	// An error of the connection is not always that of a command, too. It may be an error reply: a
	// wrong password for instance.
	broken := err
	for _, command := range commands {
		switch err := command.Err(); {
		case err != nil && !failure.IsReply(err):
			l.kill()
			return failure.GaveUp(ctx, err)
		case err != nil:
			broken = nil
		}
	}
	if broken != nil {
		l.kill()
	}
	return failure.GaveUp(ctx, broken)
}

// unlessLate calls off a kill. One that has begun must not hit the next user, so it is completed.
func (l *Lane) unlessLate(callOff func() bool) {
	if !callOff() {
		l.kill()
	}
}

// Socket is the open connection itself, for a user that reads and writes it alone. Nothing must be
// outstanding on it when the lane is given back.
func (l *Lane) Socket(ctx context.Context, limit time.Duration) (net.Conn, error) {
	if err := l.Exchange(ctx, limit, redis.NewCmd(ctx, "PING")); err != nil {
		return nil, err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.socket, nil
}

func (l *Lane) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	socket, err := l.lanes.seeds.Dial(ctx)
	if err != nil {
		return nil, err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.killed {
		socket.Close()
		return nil, errKilled
	}
	l.socket = socket
	return socket, nil
}

func (l *Lane) kill() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.killed = true
	if l.socket != nil {
		l.socket.Close()
	}
}

// Abandon closes the lane, because replies may be outstanding on it.
func (l *Lane) Abandon() {
	l.kill()
	l.Release()
}

// Release gives the lane back.
func (l *Lane) Release() {
	l.mutex.Lock()
	usable := !l.killed
	l.mutex.Unlock()
	// Once it is kept, it may be another user's.
	seats, counted := l.lanes.seats, l.counted
	_ = l.conn.Close()
	if !usable || !l.lanes.keep(l) {
		_ = l.client.Close()
	}
	if counted {
		<-seats
	}
}

// Lanes lends connections.
type Lanes struct {
	seeds   *Seeds
	options redis.Options
	seats   chan struct{}

	mutex  sync.Mutex
	idle   []*Lane
	closed bool
}

// NewLanes makes lanes, of which so many transactions use one at once.
func NewLanes(seeds *Seeds, options redis.Options, most int) *Lanes {
	options.PoolSize, options.MinIdleConns = 1, 0
	options.ReadTimeout, options.WriteTimeout = -1, -1
	return &Lanes{seeds: seeds, options: options, seats: make(chan struct{}, most)}
}

// Take lends a lane to a transaction, when one is free.
func (l *Lanes) Take(ctx context.Context) (*Lane, error) {
	select {
	case l.seats <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	lane, err := l.take()
	if err != nil {
		<-l.seats
		return nil, err
	}
	lane.counted = true
	return lane, nil
}

// TakeToWait lends a lane for a wait, such as that for a lock. Waits are not counted: otherwise
// they could use up all lanes, and the holder of the lock would have none to go on with.
func (l *Lanes) TakeToWait() (*Lane, error) {
	lane, err := l.take()
	if err == nil {
		lane.counted = false
	}
	return lane, err
}

func (l *Lanes) take() (*Lane, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed {
		return nil, failure.New(failure.ErrClosed, "the client is closed", nil)
	}
	var lane *Lane
	if last := len(l.idle) - 1; last >= 0 {
		lane, l.idle = l.idle[last], l.idle[:last]
	} else {
		lane = &Lane{lanes: l}
		options := l.options
		options.Dialer = lane.dial
		lane.client = redis.NewClient(&options)
	}
	// It checks whether the connection is still open, and otherwise opens another one.
	lane.conn = lane.client.Conn()
	return lane, nil
}

func (l *Lanes) keep(lane *Lane) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed || len(l.idle) >= cap(l.seats) {
		return false
	}
	l.idle = append(l.idle, lane)
	return true
}

// Close closes the idle lanes now and the others when they are given back.
func (l *Lanes) Close() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.closed = true
	for _, lane := range l.idle {
		_ = lane.client.Close()
	}
	l.idle = nil
}
