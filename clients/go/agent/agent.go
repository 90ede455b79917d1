package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	claret "claret/go"
)

// lock is what the runner knows by the name of a lock, and its client.
type lock struct {
	held
	db *claret.DB
}

type held interface {
	claret.Held
	Held() bool
}

// kept is a retained lock and its client.
type kept struct {
	*claret.Retained
	db *claret.DB
}

// agent has the clients, locks and kept locks by name, and the calls by number.
type agent struct {
	calls   sync.Map
	clients names[*claret.DB]
	locks   names[lock]
	kept    names[kept]
	caches  names[*claret.Cache]
}

// names are things by name.
type names[T any] struct {
	mutex sync.Mutex
	known map[string]T
}

func (n *names[T]) put(name string, one T) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.known == nil {
		n.known = map[string]T{}
	}
	n.known[name] = one
}

func (n *names[T]) get(name string) (T, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	one, isKnown := n.known[name]
	if !isKnown {
		return one, fmt.Errorf("there is no %q", name)
	}
	return one, nil
}

func (n *names[T]) take(name string) (T, error) {
	one, err := n.get(name)
	n.mutex.Lock()
	defer n.mutex.Unlock()
	delete(n.known, name)
	return one, err
}

func (a *agent) carryOut(ctx context.Context, asked request, under *call) (any, error) {
	switch asked.Do {
	case "hello":
		return hello(), nil
	case "open":
		db, err := connect(asked)
		if err == nil {
			a.clients.put(asked.Client, db)
		}
		return nil, err
	case "close":
		db, err := a.clients.get(asked.Client)
		if err != nil {
			return nil, err
		}
		return nil, db.Close()
	case "resume", "cancel":
		if other, isKnown := a.calls.Load(asked.Request); isKnown && asked.Do == "resume" {
			other.(*call).resume <- struct{}{}
		} else if isKnown {
			other.(*call).cancel()
		}
		return nil, nil
	case "unlock", "held", "fenced", "stop_renewing", "proclaim", "resign", "enter", "give_back":
		return a.withLock(ctx, asked)
	case "cached", "cache_stats", "close_cache":
		return a.withCache(ctx, asked)
	}
	db, err := a.clients.get(asked.Client)
	if err != nil {
		return nil, err
	}
	return a.withClient(ctx, db, asked, under)
}

func (a *agent) withClient(
	ctx context.Context, db *claret.DB, asked request, under *call,
) (any, error) {
	switch asked.Do {
	case "command":
		return reply(db.Do(ctx, anys(asked.Words)...))
	case "run":
		return a.run(ctx, db, asked, under)
	case "batch":
		return batch(ctx, db, asked)
	case "dispatch":
		return dispatch(ctx, db, asked)
	case "lock":
		held, err := db.Lock(ctx, asked.Name, options(asked))
		if err != nil {
			return nil, err
		}
		return a.granted(asked.As, held, db), nil
	case "campaign":
		led, err := db.Campaign(ctx, asked.Name, asked.Value, options(asked))
		if err != nil {
			return nil, err
		}
		return a.granted(asked.As, led, db), nil
	case "leader":
		leader, err := db.Leader(ctx, asked.Name)
		if err != nil || leader == nil {
			return nil, err
		}
		return leader.Value, nil
	case "observe":
		return observe(ctx, db, asked)
	case "barrier":
		within := claret.BarrierOptions{Timeout: wait(asked)}
		return db.Barrier(ctx, asked.Name, asked.Parties, within)
	case "retained":
		retained, err := db.Retain(asked.Name, options(asked))
		if err == nil {
			a.kept.put(asked.As, kept{retained, db})
		}
		return nil, err
	case "section":
		section := db.Section(asked.Name, claret.SectionOptions{
			Timeout: wait(asked),
			Owner:   asked.Owner,
			Shared:  asked.Shared,
			Limit:   asked.Limit,
			Detect:  asked.Detect,
		})
		value, err := reply(section.Do(ctx, anys(asked.Words)...))
		return map[string]any{"value": plain(value), "token": section.Token()}, err
	case "define", "migrate", "operate":
		return operate(ctx, db, asked)
	case "cache":
		limits := claret.CacheOptions{MaxEntries: asked.Entries, MaxReplyBytes: asked.ReplyBytes}
		a.caches.put(asked.As, db.Cache(limits))
		return nil, nil
	}
	return nil, fmt.Errorf("this agent does not know %q", asked.Do)
}

func (a *agent) withLock(ctx context.Context, asked request) (any, error) {
	switch asked.Do {
	case "enter":
		kept, err := a.kept.get(asked.Retained)
		if err != nil {
			return nil, err
		}
		stay, err := kept.Enter(ctx, wait(asked))
		if err != nil {
			return nil, err
		}
		return a.granted(asked.As, stay, kept.db), nil
	case "give_back":
		kept, err := a.kept.take(asked.Retained)
		if err == nil {
			kept.Close()
		}
		return nil, err
	case "proclaim", "resign":
		found, err := a.locks.get(asked.Election)
		if err != nil {
			return nil, err
		}
		if asked.Do == "proclaim" {
			return nil, found.held.(*claret.Leadership).Proclaim(ctx, asked.Value)
		}
		return nil, found.held.(*claret.Leadership).Resign(ctx)
	}
	found, err := a.locks.get(asked.Lock)
	if err != nil {
		return nil, err
	}
	switch asked.Do {
	case "held":
		return found.Held(), nil
	case "fenced":
		return reply(found.db.Fenced(found.held).Do(ctx, anys(asked.Words)...))
	case "stop_renewing":
		found.held.(interface{ StopRenewing() }).StopRenewing()
		return nil, nil
	}
	_, err = a.locks.take(asked.Lock)
	switch found := found.held.(type) {
	case *claret.Lock:
		err = found.Unlock(ctx)
	case *claret.Leadership:
		err = found.Resign(ctx)
	case *claret.Stay:
		err = found.Leave()
	}
	if errors.Is(err, claret.ErrLockLost) {
		// The stories do not ask whether it was still held.
		err = nil
	}
	return nil, err
}

func (a *agent) withCache(ctx context.Context, asked request) (any, error) {
	cache, err := a.caches.get(asked.Cache)
	if err != nil {
		return nil, err
	}
	switch asked.Do {
	case "cache_stats":
		stats := cache.Stats()
		return map[string]any{"hits": stats.Hits, "misses": stats.Misses, "dropped": stats.Dropped}, nil
	case "close_cache":
		return nil, cache.Close()
	}
	// A command without a key gets an empty one, and is refused.
	words := append(asked.Words, "")
	value, err := cache.Read(ctx, words[0], words[1], anys(asked.Words[min(2, len(asked.Words)):])...)
	return noNil(value, err)
}

func (a *agent) granted(as string, held held, db *claret.DB) any {
	a.locks.put(as, lock{held, db})
	return map[string]any{"token": held.Token()}
}

// wait is the longest wait; 0 is without limit.
func wait(asked request) time.Duration {
	if asked.Timeout == nil {
		return 0
	}
	return max(time.Millisecond, duration(*asked.Timeout))
}

func options(asked request) claret.LockOptions {
	return claret.LockOptions{
		Lease:   duration(asked.Lease),
		Timeout: wait(asked),
		NoWait:  asked.Timeout != nil && *asked.Timeout == 0,
		Owner:   asked.Owner,
		Shared:  asked.Shared,
		Limit:   asked.Limit,
		Detect:  asked.Detect,
		Near:    asked.Near,
		Next:    asked.Next,
	}
}

func connect(asked request) (*claret.DB, error) {
	options := claret.Options{
		Addresses:    asked.Addresses,
		Username:     asked.Username,
		PasswordFile: asked.Password,
	}
	if asked.TLS != "" {
		text, err := os.ReadFile(asked.TLS)
		if err != nil {
			return nil, err
		}
		options.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
		options.TLS.RootCAs.AppendCertsFromPEM(text)
	}
	if asked.Certificate != "" {
		own, err := tls.LoadX509KeyPair(asked.Certificate, asked.CertificateKey)
		if err != nil {
			return nil, err
		}
		options.TLS.Certificates = []tls.Certificate{own}
	}
	return claret.Connect(options)
}

// reply is the reply of a command, nil among them.
func reply(command *redis.Cmd) (any, error) {
	return noNil(command.Result())
}

// noNil is a reply whose absence is no error.
func noNil(value any, err error) (any, error) {
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return value, err
}

func batch(ctx context.Context, db *claret.DB, asked request) (any, error) {
	commands := db.Batch()
	for _, words := range asked.Commands {
		commands.Add(anys(words)...)
	}
	for _, guard := range asked.Guards {
		if guard[1] == nil {
			commands.IfAbsent(*guard[0])
		} else {
			commands.IfEqual(*guard[0], *guard[1])
		}
	}
	replies, err := commands.Execute(ctx)
	if errors.Is(err, claret.ErrGuard) {
		return nil, nil
	}
	return replies, err
}

func dispatch(ctx context.Context, db *claret.DB, asked request) (any, error) {
	sent, err := db.Dispatch(ctx)
	if err != nil {
		return nil, err
	}
	futures := make([]*claret.Future, 0, len(asked.Commands))
	for _, words := range asked.Commands {
		futures = append(futures, sent.Send(anys(words)...))
	}
	replies := make([]any, 0, len(futures))
	for _, future := range futures {
		value, err := future.Value(ctx)
		if err != nil && !errors.Is(err, redis.Nil) {
			value = err
		}
		replies = append(replies, value)
	}
	return replies, sent.Close()
}

func observe(ctx context.Context, db *claret.DB, asked request) (any, error) {
	values := []any{}
	err := db.Observe(ctx, asked.Name, func(leader *claret.Leader) bool {
		if leader != nil {
			values = append(values, leader.Value)
		}
		return len(values) < asked.Count
	})
	return values, err
}

func operate(ctx context.Context, db *claret.DB, asked request) (any, error) {
	made, err := claret.ParseType(asked.Definition)
	if err != nil {
		return nil, err
	}
	switch asked.Do {
	case "define":
		return made.Define(ctx, db)
	case "migrate":
		return made.Migrate(ctx, db)
	}
	return reply(made.On(db, asked.Key).Call(ctx, asked.Operation, anys(asked.Arguments)...))
}
