package main

import (
	"encoding/json"
	"hash/fnv"
	"reflect"
	"sort"
	"strconv"

	"github.com/anishathalye/porcupine"
)

// The value of every key of an object: a number, or a list as JSON without the brackets. A state is
// never changed once it is made.
type state map[string]string

// What the transactions of the tests do to the keys of one object.
func model() porcupine.Model {
	return porcupine.Model{
		Partition: partition,
		Init:      func() interface{} { return state{} },
		Step: func(before, input, output interface{}) (bool, interface{}) {
			replies, _ := output.([]json.RawMessage)
			return step(before.(state), input.([][]string), replies)
		},
		Equal: func(a, b interface{}) bool { return reflect.DeepEqual(a, b) },
		Hash:  func(of interface{}) uint64 { return of.(state).hash() },
	}
}

// Carries a transaction out. Without replies it is not known what it answered.
func step(before state, txn [][]string, replies []json.RawMessage) (bool, state) {
	after := state{}
	for key, value := range before {
		after[key] = value
	}
	for at, words := range txn {
		answer := after.do(words)
		if replies != nil && !same(answer, replies[at]) {
			return false, nil
		}
	}
	return true, after
}

// Carries a command out; gives its answer as JSON.
func (s state) do(words []string) string {
	key := words[1]
	value, found := s[key]
	switch words[0] {
	case "get":
		if !found {
			return "null"
		}
		return quoted(value)
	case "incrby":
		sum := number(value) + number(words[2])
		s[key] = strconv.FormatInt(sum, 10)
		return s[key]
	case "rpush":
		if found {
			value += ","
		}
		s[key] = value + quoted(words[2])
		// Elements have no commas.
		return strconv.Itoa(1 + commas(s[key]))
	case "lrange":
		return "[" + value + "]"
	default:
		panic("no model of the command " + words[0])
	}
}

func quoted(word string) string {
	bytes, err := json.Marshal(word)
	if err != nil {
		panic(err)
	}
	return string(bytes)
}

func number(word string) int64 {
	value, err := strconv.ParseInt(word, 10, 64)
	if err != nil && word != "" {
		panic(err)
	}
	return value
}

func commas(text string) int {
	count := 0
	for _, char := range text {
		if char == ',' {
			count++
		}
	}
	return count
}

// Whether an answer is the reply that was noted, but for blanks outside of words, of which there are
// none within.
func same(answer string, reply json.RawMessage) bool {
	at := 0
	for _, char := range reply {
		if char == ' ' {
			continue
		}
		if at == len(answer) || answer[at] != char {
			return false
		}
		at++
	}
	return at == len(answer)
}

func (s state) hash() uint64 {
	var keys []string
	for key := range s {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	hash := fnv.New64a()
	for _, key := range keys {
		hash.Write([]byte(key))
		hash.Write([]byte{0})
		hash.Write([]byte(s[key]))
		hash.Write([]byte{0})
	}
	return hash.Sum64()
}
