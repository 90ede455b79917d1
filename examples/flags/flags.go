package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"maps"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	claret "claret/go"
)

// The flags are a hash, beside the number of changes so far. A change is announced on a channel.
const (
	flagsKey   = "flags"
	versionKey = "flags:version"
	channel    = "flags:changes"
)

// quietMax is the longest time without an announcement before the connection is tried.
const quietMax = 10 * time.Second

// change is one change of a flag, as it is announced. Its version is that of all flags after it.
type change struct {
	Version int64           `json:"version"`
	Name    string          `json:"name"`
	Value   json.RawMessage `json:"value"`
}

// Flags has all flags in memory and follows their changes.
type Flags struct {
	db *claret.DB

	mutex   sync.RWMutex
	version int64
	// values is nil until the flags have been read.
	values map[string]json.RawMessage
}

// NewFlags is without flags until Follow has read them.
func NewFlags(db *claret.DB) *Flags { return &Flags{db: db} }

// Get is the value of a flag, or nil, and whether the flags have been read at all.
func (f *Flags) Get(name string) (value json.RawMessage, loaded bool) {
	f.mutex.RLock()
	defer f.mutex.RUnlock()
	return f.values[name], f.values != nil
}

// All is all flags, or nil if they have not been read, and the version that they are of.
func (f *Flags) All() (map[string]json.RawMessage, int64) {
	f.mutex.RLock()
	defer f.mutex.RUnlock()
	return maps.Clone(f.values), f.version
}

// Set changes a flag and returns the new version.
func (f *Flags) Set(ctx context.Context, name string, value json.RawMessage) (int64, error) {
	for {
		version, err := f.trySet(ctx, name, value)
		if !errors.Is(err, claret.ErrGuard) {
			return version, err
		}
		// Another instance was faster: the next version is one more.
	}
}

// trySet returns ErrGuard if another change has taken the next version.
func (f *Flags) trySet(ctx context.Context, name string, value json.RawMessage) (int64, error) {
	old, err := f.db.Get(ctx, versionKey).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	next := change{Version: 1, Name: name, Value: value}
	batch := f.db.Batch()
	if old == "" {
		batch.IfAbsent(versionKey)
	} else {
		batch.IfEqual(versionKey, old)
		number, err := strconv.ParseInt(old, 10, 64)
		if err != nil {
			return 0, err
		}
		next.Version = number + 1
	}
	message, err := json.Marshal(next)
	if err != nil {
		return 0, err
	}
	// The announcement is in the batch: there is none of a change that did not take effect.
	batch.Add("SET", versionKey, next.Version)
	batch.Add("HSET", flagsKey, name, string(value))
	batch.Add("PUBLISH", channel, message)
	if _, err := batch.Execute(ctx); err != nil && !errors.Is(err, claret.ErrRepeated) {
		return 0, err
	}
	// So that this instance answers the new value at once.
	if !f.apply(next) {
		return next.Version, f.load(ctx)
	}
	return next.Version, nil
}

// apply takes over a change. It is false if changes before it are missing.
func (f *Flags) apply(next change) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	switch {
	case f.values == nil || next.Version > f.version+1:
		return false
	case next.Version == f.version+1:
		f.version, f.values[next.Name] = next.Version, next.Value
	}
	// An older version is known already: announcements may come late, or twice.
	return true
}

// load reads all flags and their version at one instant.
func (f *Flags) load(ctx context.Context) error {
	var version int64
	var texts map[string]string
	err := f.db.Snapshot(ctx, func(ctx context.Context, tx *claret.Tx) error {
		var err error
		version, err = tx.Get(ctx, versionKey).Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		texts, err = tx.HGetAll(ctx, flagsKey).Result()
		return err
	})
	if err != nil {
		return err
	}
	values := make(map[string]json.RawMessage, len(texts))
	for name, text := range texts {
		values[name] = json.RawMessage(text)
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.values == nil || version > f.version {
		f.version, f.values = version, values
	}
	return nil
}

// catchUp reads the flags if their version is not the known one.
func (f *Flags) catchUp(ctx context.Context) error {
	f.mutex.RLock()
	loaded, known := f.values != nil, f.version
	f.mutex.RUnlock()
	if loaded {
		version, err := f.db.Get(ctx, versionKey).Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		if version == known {
			return nil
		}
	}
	return f.load(ctx)
}

// Follow reads the flags and takes over changes, until the context ends.
func (f *Flags) Follow(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.follow(ctx); err != nil && ctx.Err() == nil {
			log.Print("flags may be old: ", err)
			pause(ctx, 200*time.Millisecond)
		}
	}
}

// follow goes on until the connection breaks. Announcements during the break are lost, so the
// version is compared after the subscription has begun: what comes later is announced to it.
func (f *Flags) follow(ctx context.Context) error {
	subscription := f.db.Redis().Subscribe(ctx, channel)
	defer subscription.Close()
	defer context.AfterFunc(ctx, func() { subscription.Close() })()
	for asked := false; ; {
		message, err := subscription.ReceiveTimeout(ctx, quietMax)
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() && !asked {
			// A connection that has died silently does not answer.
			asked = true
			if err = subscription.Ping(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		asked = false
		switch message := message.(type) {
		case *redis.Subscription, *redis.Pong:
			err = f.catchUp(ctx)
		case *redis.Message:
			var next change
			if err = json.Unmarshal([]byte(message.Payload), &next); err == nil && !f.apply(next) {
				err = f.load(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}
