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
	// accepted are the kinds of openings that this connection has accepted.
	accepted map[string]bool
	// bound tells that what is being sent is for this connection and no other one; missed, that the
	// connection was found closed before anything was sent.
	bound, missed bool
	// id is the number of the connection at the server, or 0.
	id int64
}

// Begin sends the commands that open something, and others behind them. Behind a refused one the
// others would be carried out singly, so they wait for its reply, unless the connection has accepted
// the same kind before. A refusal is a failure.Opening, and the connection is then closed.
func (l *Lane) Begin(
	ctx context.Context, limit time.Duration, kind string, opening, commands []redis.Cmder,
) error {
	l.mutex.Lock()
	known := l.accepted[kind]
	l.mutex.Unlock()
	if known {
		all := append(append([]redis.Cmder{}, opening...), commands...)
		missed, err := l.exchangeBound(ctx, limit, all)
		if !missed {
			if err != nil {
				return err
			}
			return l.refused(opening, commands)
		}
		// Nothing was sent.
		l.replace()
		for _, command := range all {
			command.SetErr(nil)
		}
	}
	if err := l.Exchange(ctx, limit, opening...); err != nil {
		return notBegun(ctx, err)
	}
	if err := l.refused(opening, nil); err != nil {
		return err
	}
	l.mutex.Lock()
	l.accepted[kind] = true
	if id, isNumber := opening[0].(*redis.Cmd).Val().(int64); isNumber {
		// It was asked for with CLIENT ID.
		l.id = id
	}
	l.mutex.Unlock()
	_, err := l.exchangeBound(ctx, limit, commands)
	return err
}

// exchangeBound is Exchange on the open connection and no other one; missed tells that it was found
// closed, and nothing was sent.
func (l *Lane) exchangeBound(
	ctx context.Context, limit time.Duration, commands []redis.Cmder,
) (missed bool, err error) {
	l.mutex.Lock()
	l.bound, l.missed = true, false
	l.mutex.Unlock()
	err = l.Exchange(ctx, limit, commands...)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.bound = false
	return l.missed, err
}

// notBegun is the error of a connection that broke before anything but an opening was sent.
func notBegun(ctx context.Context, err error) error {
	if failure.IsReply(err) || failure.IsKnown(err) {
		return err
	}
	return failure.GaveUp(ctx, failure.New(failure.ErrConnection, err.Error(), err))
}

// refused looks for a refusal among the replies to an opening, with which commands were sent.
func (l *Lane) refused(opening, commands []redis.Cmder) error {
	for _, command := range opening {
		err := command.Err()
		if err == nil || errors.Is(err, redis.Nil) {
			continue
		}
		l.Cut()
		for _, other := range commands {
			if err := other.Err(); err == nil || errors.Is(err, redis.Nil) {
				text := "the server refused to begin, and may have carried out commands singly: "
				unknown := failure.New(failure.ErrUnknown, text+command.Err().Error(), nil)
				return &failure.Opening{Err: unknown}
			}
		}
		return &failure.Opening{Err: failure.Translate(err)}
	}
	return nil
}

// replace gives a lane whose connection was found closed another one.
func (l *Lane) replace() {
	_ = l.conn.Close()
	_ = l.client.Close()
	l.mutex.Lock()
	l.killed, l.socket = false, nil
	l.mutex.Unlock()
	l.make()
	l.conn = l.client.Conn()
}

func (l *Lane) make() {
	options := l.lanes.options
	options.Dialer = l.dial
	l.client = redis.NewClient(&options)
}

// ID is the number of the connection at the server, if an opening has asked for it; 0 says that
// nothing was sent behind an opening yet.
func (l *Lane) ID() int64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.id
}

// Exchange sends commands in one packet and reads their replies into them. Its error is that of
// the connection, which is then of no further use; error replies are errors of their commands. The
// replies must come within the limit, if that is above 0.
func (l *Lane) Exchange(ctx context.Context, limit time.Duration, commands ...redis.Cmder) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if limit > 0 {
		timer := time.AfterFunc(limit, l.Cut)
		defer l.unlessLate(timer.Stop)
	}
	defer l.unlessLate(context.AfterFunc(ctx, l.Cut))
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
			l.Cut()
			return failure.GaveUp(ctx, err)
		case err != nil:
			broken = nil
		}
	}
	if broken != nil {
		l.Cut()
	}
	return failure.GaveUp(ctx, broken)
}

// unlessLate calls off a kill. One that has begun must not hit the next user, so it is completed.
func (l *Lane) unlessLate(callOff func() bool) {
	if !callOff() {
		l.Cut()
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
	l.mutex.Lock()
	if l.bound {
		l.missed = true
		l.mutex.Unlock()
		return nil, failure.New(failure.ErrConnection, "the connection was closed meanwhile", nil)
	}
	l.mutex.Unlock()
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
	l.socket, l.accepted, l.id = socket, map[string]bool{}, 0
	return socket, nil
}

// Cut closes the connection, which ends what is under way on it.
func (l *Lane) Cut() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.killed = true
	if l.socket != nil {
		l.socket.Close()
	}
}

// Abandon closes the lane, because replies may be outstanding on it.
func (l *Lane) Abandon() {
	l.Cut()
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
	if !l.lanes.keep(l, usable) {
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
	lent   map[*Lane]bool
	closed bool
}

// NewLanes makes lanes, of which so many transactions use one at once.
func NewLanes(seeds *Seeds, options redis.Options, most int) *Lanes {
	options.PoolSize, options.MinIdleConns = 1, 0
	options.ReadTimeout, options.WriteTimeout = -1, -1
	seats := make(chan struct{}, most)
	return &Lanes{seeds: seeds, options: options, seats: seats, lent: map[*Lane]bool{}}
}

// Take lends a lane to a transaction, when one is free.
func (l *Lanes) Take(ctx context.Context) (*Lane, error) {
	select {
	case l.seats <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	lane, err := l.take(false)
	if err != nil {
		<-l.seats
		return nil, err
	}
	lane.counted = true
	return lane, nil
}

// TakeToWait lends a lane for a wait, such as that for a lock. Waits are not counted: otherwise
// they could use up all lanes, and the holder of the lock would have none to go on with.
func (l *Lanes) TakeToWait() (*Lane, error) { return l.take(false) }

// TakeFresh is TakeToWait with a connection that was not used before.
func (l *Lanes) TakeFresh() (*Lane, error) { return l.take(true) }

func (l *Lanes) take(fresh bool) (*Lane, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed {
		return nil, failure.New(failure.ErrClosed, "the client is closed", nil)
	}
	var lane *Lane
	if last := len(l.idle) - 1; last >= 0 && !fresh {
		lane, l.idle = l.idle[last], l.idle[:last]
		lane.counted = false
	} else {
		lane = &Lane{lanes: l}
		lane.make()
	}
	// It checks whether the connection is still open, and otherwise opens another one.
	lane.conn = lane.client.Conn()
	l.lent[lane] = true
	return lane, nil
}

func (l *Lanes) keep(lane *Lane, usable bool) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.lent, lane)
	if !usable || l.closed || len(l.idle) >= cap(l.seats) {
		return false
	}
	l.idle = append(l.idle, lane)
	return true
}

// IsOpen tells whether lanes are lent.
func (l *Lanes) IsOpen() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return !l.closed
}

// Close closes all lanes: what is under way ends with an error.
func (l *Lanes) Close() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.closed = true
	for _, lane := range l.idle {
		_ = lane.client.Close()
	}
	l.idle = nil
	for lane := range l.lent {
		lane.Cut()
	}
}
