package cache

import (
	"container/list"

	"github.com/redis/go-redis/v9"

	"claret/go/internal/failure"
	"claret/go/internal/resp"
)

// partBytes is the share of each part of a reply in its size, beside its text.
const partBytes = 16

// slot is a request under way, whose reply is kept afterwards.
type slot struct {
	identity, key string
	// value is the reply, which may be a resp.Error.
	value any
	// place is among the kept replies; nil while the request is under way.
	place *list.Element
	// done is closed when the reply is there, or lost.
	done   chan struct{}
	isLost bool
}

func newSlot(identity, key string) *slot {
	return &slot{identity: identity, key: key, done: make(chan struct{})}
}

func (s *slot) isKept() bool { return s.place != nil }

// reply is the value in the manner of go-redis.
func (s *slot) reply() (any, error) {
	if s.value == nil {
		return nil, redis.Nil
	}
	if refused, isError := s.value.(resp.Error); isError {
		return nil, failure.Translate(refused)
	}
	return s.value, nil
}

// store has slots by key and words.
type store struct {
	limits Options
	keys   map[string]map[string]*slot
	// kept are those with replies, the one used last in front.
	kept *list.List
}

func newStore(limits Options) store {
	return store{limits: limits, keys: map[string]map[string]*slot{}, kept: list.New()}
}

func (s *store) find(identity, key string) *slot { return s.keys[key][identity] }

func (s *store) touch(found *slot) { s.kept.MoveToFront(found.place) }

// begin notes a request that is under way, in place of a reply that is there.
func (s *store) begin(asked *slot) {
	if old := s.find(asked.identity, asked.key); old != nil {
		s.remove(old)
	}
	slots := s.keys[asked.key]
	if slots == nil {
		slots = map[string]*slot{}
		s.keys[asked.key] = slots
	}
	slots[asked.identity] = asked
}

// keep keeps the reply to a request, unless its key has changed meanwhile, or it is an error or large.
// Those used longest ago make room.
func (s *store) keep(asked *slot) {
	if s.find(asked.identity, asked.key) != asked {
		return
	}
	if _, isError := asked.value.(resp.Error); isError || sizeOf(asked.value) > s.limits.MaxReplyBytes {
		s.remove(asked)
		return
	}
	asked.place = s.kept.PushFront(asked)
	for s.kept.Len() > s.limits.MaxEntries {
		s.remove(s.kept.Back().Value.(*slot))
	}
}

func (s *store) remove(old *slot) {
	slots := s.keys[old.key]
	delete(slots, old.identity)
	if len(slots) == 0 {
		delete(s.keys, old.key)
	}
	if old.isKept() {
		s.kept.Remove(old.place)
	}
}

// forget drops the replies of a key, and lets those under way not be kept.
func (s *store) forget(key string) (dropped int) {
	for _, old := range s.keys[key] {
		if old.isKept() {
			dropped++
		}
		s.remove(old)
	}
	return dropped
}

// clear is forget for all keys.
func (s *store) clear() (dropped int) {
	dropped = s.kept.Len()
	*s = newStore(s.limits)
	return dropped
}

// sizeOf is about the bytes of memory of a reply.
func sizeOf(value any) int {
	size := partBytes
	switch value := value.(type) {
	case string:
		size += len(value)
	case []any:
		for _, one := range value {
			size += sizeOf(one)
		}
	case map[any]any:
		for name, one := range value {
			size += sizeOf(name) + sizeOf(one)
		}
	}
	return size
}

// copied is a reply that its reader may change.
func copied(value any) any {
	switch value := value.(type) {
	case []any:
		row := make([]any, len(value))
		for i, one := range value {
			row[i] = copied(one)
		}
		return row
	case map[any]any:
		found := make(map[any]any, len(value))
		for name, one := range value {
			found[name] = copied(one)
		}
		return found
	}
	return value
}
