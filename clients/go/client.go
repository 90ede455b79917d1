// Package claret is a client for Claret: go-redis with transactions, locks, elections, barriers,
// ordered pipelines and types of one's own.
package claret

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"claret/go/internal/cache"
	"claret/go/internal/failure"
	"claret/go/internal/link"
	"claret/go/internal/script"
)

// Options say how to reach a database.
type Options struct {
	// Addresses are host:port of one or more machines. The first one that answers is used, and when
	// it fails the next one. Default: 127.0.0.1:6379.
	Addresses []string
	// TLS, if given, is for all connections. Without a ServerName, the host of the address counts.
	TLS *tls.Config
	// Username and Password log in. PasswordFile is a file with the password, read at each
	// connection, so that it may be replaced.
	Username, Password, PasswordFile string
	// Database is the number of the database.
	Database int
	// ConnectTimeout is the longest time for one address to answer. Default: 5 seconds.
	ConnectTimeout time.Duration
	// ReplyTimeout is the longest time for a reply; waits for locks and the like come on top.
	// Default: 1 minute.
	ReplyTimeout time.Duration
	// Transactions is the most transactions, batches and dispatches at once, each of which has a
	// connection of its own; others wait for one. Default: 64.
	Transactions int
}

func (o Options) filled() Options {
	if len(o.Addresses) == 0 {
		o.Addresses = []string{"127.0.0.1:6379"}
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 5 * time.Second
	}
	if o.ReplyTimeout <= 0 {
		o.ReplyTimeout = time.Minute
	}
	if o.Transactions <= 0 {
		o.Transactions = 64
	}
	return o
}

// DB is a database. It has the commands of go-redis as methods, each of which is sent at once and
// never repeated by the client. It is safe for concurrent use.
type DB struct {
	redis.Cmdable

	options  Options
	client   *redis.Client
	facade   *redis.Client
	lanes    *link.Lanes
	requests *script.Requests

	mutex   sync.Mutex
	writers map[string]bool
}

// Doer carries out commands given as words: a DB, a Tx, a Batch, a Fenced or a Section.
type Doer interface {
	Do(ctx context.Context, words ...any) *redis.Cmd
	database() *DB
}

func (db *DB) database() *DB { return db }

func (tx *Tx) database() *DB { return tx.run.db }

func (b *Batch) database() *DB { return b.db }

func (f *Fenced) database() *DB { return f.db }

func (s *Section) database() *DB { return s.db }

// Connect opens a database. Connections are made when they are needed, so its errors are about the
// options.
func Connect(options Options) (*DB, error) {
	options = options.filled()
	for _, address := range options.Addresses {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, err
		}
	}
	if options.Password != "" && options.PasswordFile != "" {
		return nil, errors.New("claret: a password or a file with it, not both")
	}
	seeds := link.NewSeeds(options.Addresses, options.TLS, options.ConnectTimeout)
	base := redis.Options{
		Addr:     options.Addresses[0],
		Username: options.Username,
		Password: options.Password,
		DB:       options.Database,
		Protocol: 3,
		// A command that is repeated by itself might take effect twice.
		MaxRetries:               -1,
		DialerRetries:            1,
		DialTimeout:              options.ConnectTimeout * time.Duration(len(options.Addresses)),
		ReadTimeout:              options.ReplyTimeout,
		WriteTimeout:             options.ReplyTimeout,
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if options.PasswordFile != "" {
		base.CredentialsProviderContext = passwordFrom(options)
	}
	db := &DB{
		options:  options,
		lanes:    link.NewLanes(seeds, base, options.Transactions),
		requests: script.NewRequests(),
	}
	main := base
	main.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return seeds.Dial(ctx) }
	db.client = redis.NewClient(&main)
	db.client.AddHook(labels{db})
	db.Cmdable = db.client
	// Of this client only the typed methods are used: it never connects.
	db.facade = redis.NewClient(&base)
	return db, nil
}

func passwordFrom(options Options) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) {
		text, err := os.ReadFile(options.PasswordFile)
		return options.Username, strings.TrimRight(string(text), "\r\n"), err
	}
}

// Do carries out a command given as words. An error reply is the command's error.
func (db *DB) Do(ctx context.Context, words ...any) *redis.Cmd { return db.client.Do(ctx, words...) }

// Redis is the client of go-redis behind the single commands, for what has no method here, such as
// subscriptions. Do not close it.
func (db *DB) Redis() *redis.Client { return db.client }

// Close closes the connections. What is under way ends with an error.
func (db *DB) Close() error {
	db.lanes.Close()
	_ = db.facade.Close()
	return db.client.Close()
}

// Cache keeps replies to reads in memory, over a connection of its own on which the server says what
// has changed; see Cache.Read. It ends with Close, or with the database.
type Cache = cache.Cache

// CacheOptions say how much a Cache keeps.
type CacheOptions = cache.Options

// CacheStats are the numbers of a Cache.
type CacheStats = cache.Stats

// Cache makes a cache of the database. It connects at the first read.
func (db *DB) Cache(options CacheOptions) *Cache {
	open := func(ctx context.Context) (net.Conn, func(), error) {
		lane, err := db.lanes.TakeFresh()
		if err != nil {
			return nil, nil, err
		}
		socket, err := lane.Socket(ctx, db.options.ReplyTimeout)
		if err != nil {
			lane.Abandon()
			return nil, nil, err
		}
		return socket, sync.OnceFunc(lane.Abandon), nil
	}
	return cache.New(cache.Source{Open: open, IsOpen: db.lanes.IsOpen, Ask: db.Do}, options)
}

// typed has go-redis' methods for commands that a function takes.
func (db *DB) typed(take script.Hook) redis.Cmdable {
	conn := db.facade.Conn()
	conn.AddHook(take)
	return conn
}

// isWrite tells by the server's own table whether a command may change data.
func (db *DB) isWrite(ctx context.Context, name string) (bool, error) {
	db.mutex.Lock()
	defer db.mutex.Unlock()
	if db.writers == nil {
		names, err := db.client.CommandList(ctx, &redis.FilterBy{ACLCat: "write"}).Result()
		if err != nil {
			return false, err
		}
		writers := make(map[string]bool, len(names))
		for _, name := range names {
			writers[strings.ToLower(name)] = true
		}
		db.writers = writers
	}
	// Those of go-redis are in lower case, and need no copy.
	return db.writers[strings.ToLower(name)], nil
}

// askAndWait sends a command, under a number if that is not nil, over a connection of its own, waits
// for the reply, which may take this long (0: without limit), and returns it; nil is nil.
func (db *DB) askAndWait(
	ctx context.Context, wait time.Duration, request *script.Request, words []any,
) (any, error) {
	return db.askWithin(ctx, limitOf(wait), request, words)
}

// askWithin is askAndWait with the longest time for the reply.
func (db *DB) askWithin(
	ctx context.Context, limit time.Duration, request *script.Request, words []any,
) (any, error) {
	lane, err := db.lanes.TakeToWait()
	if err != nil {
		return nil, err
	}
	command := redis.NewCmd(ctx, words...)
	if request == nil {
		err = lane.Exchange(ctx, limit, command)
	} else {
		opening := []redis.Cmder{redis.NewCmd(ctx, request.Words()...)}
		err = lane.Begin(ctx, limit, "REQUEST", opening, []redis.Cmder{command})
	}
	if err != nil {
		// The connection is closed: the server then takes back what it would grant too late.
		lane.Abandon()
		return nil, err
	}
	lane.Release()
	return replyOf(command)
}

func replyOf(command *redis.Cmd) (any, error) {
	if err := command.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return nil, failure.Translate(err)
	}
	return command.Val(), nil
}

// limitOf is the longest time for the reply to a wait.
func limitOf(wait time.Duration) time.Duration {
	if wait > 0 {
		return wait + link.GraceMax
	}
	return 0
}

// labels gives the errors of single commands their kinds, refuses deferred replies as words, and lets
// a context end a command that is under way.
type labels struct {
	db *DB
}

func (labels) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l labels) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if err := script.CheckWords(command.Args()); err != nil {
			return err
		}
		name := nameOf(command.Args(), 0)
		if !isOfProgram(command) && (name == "HELLO" || name == "AUTH") {
			// The beginning of a new connection, which comes by here too.
			return next(ctx, command)
		}
		if err := checkSingle(command.Args()); err != nil {
			return err
		}
		send := next
		if ctx.Done() != nil {
			// A shared connection of go-redis goes on waiting when the context has ended.
			send = l.overLane
		}
		return failure.GaveUp(ctx, failure.Broken(failure.Translate(send(ctx, command))))
	}
}

func (l labels) overLane(ctx context.Context, command redis.Cmder) error {
	lane, err := l.db.lanes.TakeToWait()
	if err != nil {
		return err
	}
	limit := l.db.options.ReplyTimeout
	if waiting[nameOf(command.Args(), 0)] {
		limit = 0
	}
	if err := lane.Exchange(ctx, limit, command); err != nil {
		lane.Abandon()
		return err
	}
	lane.Release()
	return command.Err()
}

// isOtherDatabase tells whether a command is a SELECT other than that of a new connection.
func (l labels) isOtherDatabase(command redis.Cmder) bool {
	words := command.Args()
	return nameOf(words, 0) == "SELECT" && nameOf(words, 1) != strconv.Itoa(l.db.options.Database)
}

func (l labels) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		for _, command := range commands {
			err := script.CheckWords(command.Args())
			if err == nil && (isOfProgram(command) || l.isOtherDatabase(command)) {
				err = checkSingle(command.Args())
			}
			if err != nil {
				return err
			}
		}
		err := next(ctx, commands)
		for _, command := range commands {
			command.SetErr(failure.Broken(failure.Translate(command.Err())))
		}
		return failure.GaveUp(ctx, failure.Broken(failure.Translate(err)))
	}
}

// waiting are commands whose reply may take as long as they say.
var waiting = set("BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX BZPOPMIN WAIT WAITAOF " +
	"XREAD XREADGROUP LOCK.ACQUIRE LOCK.SECTION LOCK.WANTED ELECTION.CAMPAIGN ELECTION.OBSERVE " +
	"BARRIER.WAIT")

func set(names string) map[string]bool {
	found := map[string]bool{}
	for _, name := range strings.Fields(names) {
		found[name] = true
	}
	return found
}
