// Package cache keeps the replies to reads in memory until the server says that they have changed.
package cache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"claret/go/internal/failure"
	"claret/go/internal/resp"
)

const (
	// joinMax is how long reads wait for an attempt to connect before they do without the cache.
	joinMax = 3 * time.Second
	// pauseMin is the time from an attempt to connect that has failed to the next one.
	pauseMin = 50 * time.Millisecond
	// entriesDefault and replyBytesDefault are the limits unless the program says otherwise.
	entriesDefault, replyBytesDefault = 10_000, 64 << 10
)

// keys is how many keys a command reads: one, or as many as its words say.
type keys int

const (
	one keys = iota
	several
)

// Options say what a cache keeps.
type Options struct {
	// MaxEntries is the most replies that are kept; those not used for longest go first.
	// Default: 10,000.
	MaxEntries int
	// MaxReplyBytes is the size above which a reply is not kept. Default: 64 KiB.
	MaxReplyBytes int
}

// Stats are numbers since the beginning of a cache.
type Stats struct {
	// Hits are reads that sent no request, because the reply was there or under way. Misses are the
	// others.
	Hits, Misses int64
	// Dropped are replies that were kept, until their key was written or the connection was lost.
	Dropped int64
}

// Source is where a cache reads.
type Source struct {
	// Open opens a connection in version 3 of the protocol; the function closes it.
	Open func(ctx context.Context) (socket net.Conn, cut func(), err error)
	// IsOpen tells whether the client is open.
	IsOpen func() bool
	// Ask carries a command out over another connection.
	Ask func(ctx context.Context, words ...any) *redis.Cmd
}

// Cache answers reads from memory while the server watches what was read. It is safe for concurrent
// use. Of two reads of a key the later one never shows an older value. The value may be older than that
// of the store: ordinarily by the way of a message, and while machines do not hear each other by about
// five seconds. So a cache has no place in a transaction: its reads must come from the store.
type Cache struct {
	source Source
	ctx    context.Context
	end    context.CancelFunc

	mutex sync.Mutex
	store store
	stats Stats
	// link is the connection, or nil.
	link *link
	// attempt is closed when the attempt to connect that is under way ends; nil if there is none.
	attempt chan struct{}
	// joinUntil is when reads no longer wait for the attempt, notBefore when the next one may begin.
	joinUntil, notBefore time.Time
	// reads are the commands known to read, by name.
	reads  map[string]keys
	closed bool
}

// New makes a cache, which connects at the first read.
func New(source Source, options Options) *Cache {
	if options.MaxEntries <= 0 {
		options.MaxEntries = entriesDefault
	}
	if options.MaxReplyBytes <= 0 {
		options.MaxReplyBytes = replyBytesDefault
	}
	ctx, end := context.WithCancel(context.Background())
	return &Cache{source: source, ctx: ctx, end: end, store: newStore(options), reads: map[string]keys{}}
}

// Read is the reply to a command that reads one key, which is its first argument: from memory if the
// reply to these words is there. Its error is redis.Nil if there is none, ErrOrder if the command is
// another one. Without a connection of its own the cache asks over those of the client.
//
// A command whose reply depends on time or chance, such as PTTL or SRANDMEMBER, is not for a cache.
func (c *Cache) Read(ctx context.Context, command, key string, args ...any) (any, error) {
	value, err := c.read(ctx, command, key, args)
	return copied(value), err
}

// Get is the text under a key; its error is redis.Nil if there is none.
func (c *Cache) Get(ctx context.Context, key string) (string, error) {
	value, err := c.read(ctx, "GET", key, nil)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(value), nil
}

// HGetAll is the fields of a hash with their values.
func (c *Cache) HGetAll(ctx context.Context, key string) (map[string]string, error) {
	value, err := c.read(ctx, "HGETALL", key, nil)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	if fields, isMap := value.(map[any]any); isMap {
		for name, one := range fields {
			found[fmt.Sprint(name)] = fmt.Sprint(one)
		}
	}
	return found, nil
}

// Stats are the numbers until now.
func (c *Cache) Stats() Stats {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.stats
}

// Close drops everything and closes the connection. Reads are an ErrClosed then.
func (c *Cache) Close() error {
	c.mutex.Lock()
	c.closed = true
	c.store.clear()
	c.mutex.Unlock()
	c.end()
	return nil
}

func (c *Cache) read(ctx context.Context, command, key string, args []any) (any, error) {
	words := append([]any{strings.ToUpper(command), key}, args...)
	identity, err := resp.Append(nil, words)
	if err != nil {
		return nil, err
	}
	if err := c.check(ctx, words[0].(string), len(args) == 0); err != nil {
		return nil, err
	}
	c.join(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	asked, err := c.look(string(identity), key)
	if err != nil {
		return nil, err
	}
	if asked == nil {
		return c.askOutside(ctx, words, key)
	}
	select {
	case <-asked.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if asked.isLost {
		return c.askOutside(ctx, words, key)
	}
	return asked.reply()
}

// look finds a request whose reply is kept, or that is under way, or begins one; nil if there is no
// connection to ask over.
func (c *Cache) look(identity, key string) (*slot, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed || !c.source.IsOpen() {
		return nil, failure.New(failure.ErrClosed, "the cache is closed", nil)
	}
	found := c.store.find(identity, key)
	if found != nil && found.isKept() && c.link != nil && c.link.isFresh() {
		c.stats.Hits++
		c.store.touch(found)
		return found, nil
	}
	if found != nil && !found.isKept() {
		c.stats.Hits++
		return found, nil
	}
	c.stats.Misses++
	asked := newSlot(identity, key)
	if c.link == nil || !c.link.send(asked) {
		return nil, nil
	}
	c.store.begin(asked)
	return asked, nil
}

// askOutside reads over another connection, whose order with that of the cache is unknown: what the
// cache has of the key may be older than the reply, and is dropped.
func (c *Cache) askOutside(ctx context.Context, words []any, key string) (any, error) {
	value, err := c.ask(ctx, words...).Result()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.drop(c.store.forget(key))
	return value, err
}

// ask carries out a command that only reads, so that it can be repeated.
func (c *Cache) ask(ctx context.Context, words ...any) *redis.Cmd {
	reply := c.source.Ask(ctx, words...)
	if errors.Is(reply.Err(), failure.ErrUnknown) && ctx.Err() == nil {
		reply = c.source.Ask(ctx, words...)
	}
	if err := reply.Err(); errors.Is(err, failure.ErrUnknown) {
		reply.SetErr(failure.GaveUp(ctx, failure.New(failure.ErrConnection, err.Error(), nil)))
	}
	return reply
}

// check refuses a command unless the server's table says that it reads one key, its first argument.
func (c *Cache) check(ctx context.Context, name string, isAlone bool) error {
	c.mutex.Lock()
	found, isKnown := c.reads[name]
	c.mutex.Unlock()
	if !isKnown {
		rows, err := c.ask(ctx, "COMMAND", "INFO", name).Slice()
		if err != nil {
			return err
		}
		// Operations of types that clients define are in no table, and may write.
		if len(rows) == 1 {
			found, isKnown = keysOf(rows[0])
		}
	}
	if !isKnown || found == several && !isAlone {
		return failure.Order(name + " is not a command that reads one key, its first argument")
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.reads[name] = found
	return nil
}

// keysOf tells how many keys a command reads, by its row of COMMAND INFO, and whether it only reads.
func keysOf(about any) (count keys, isRead bool) {
	row, _ := about.([]any)
	if len(row) < 5 || row[3] != any(int64(1)) {
		return one, false
	}
	flags, _ := row[2].([]any)
	if row[4] != any(int64(1)) {
		count = several
	}
	has := func(flag any) bool { return slices.Contains(flags, flag) }
	isRead = has("readonly") && !has("movablekeys") && !has("blocking")
	return count, isRead
}

// join begins an attempt to connect, unless there is a connection, and waits a little for its end.
func (c *Cache) join(ctx context.Context) {
	c.mutex.Lock()
	now := time.Now()
	if c.attempt == nil && c.link == nil && !c.closed && now.After(c.notBefore) {
		c.attempt, c.joinUntil = make(chan struct{}), now.Add(joinMax)
		go c.connect()
	}
	attempt, wait := c.attempt, c.joinUntil.Sub(now)
	c.mutex.Unlock()
	if attempt == nil || wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-attempt:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// connect makes one attempt to connect, and serves the connection until it is lost.
func (c *Cache) connect() {
	made, err := connect(c.ctx, c.source, c)
	c.mutex.Lock()
	c.link = made
	close(c.attempt)
	c.attempt = nil
	if err != nil {
		c.notBefore = time.Now().Add(pauseMin)
	}
	c.mutex.Unlock()
	if err != nil {
		return
	}
	made.serve(c.ctx)
	// Nothing tells any more what has changed.
	c.mutex.Lock()
	c.link = nil
	c.drop(c.store.clear())
	c.mutex.Unlock()
	made.fail()
}

// invalidated drops the replies of keys; no list stands for all keys.
func (c *Cache) invalidated(keys any) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	names, isList := keys.([]any)
	if !isList {
		c.drop(c.store.clear())
	}
	for _, name := range names {
		if key, isText := name.(string); isText {
			c.drop(c.store.forget(key))
		}
	}
}

// arrived takes the reply to a request.
func (c *Cache) arrived(asked *slot, value any) {
	c.mutex.Lock()
	asked.value = value
	c.store.keep(asked)
	c.mutex.Unlock()
	close(asked.done)
}

func (c *Cache) drop(count int) { c.stats.Dropped += int64(count) }
