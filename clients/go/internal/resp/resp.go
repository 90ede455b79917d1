// Package resp writes commands and reads replies, for connections on which both happen side by
// side, which those of go-redis do not allow.
package resp

import (
	"bufio"
	"encoding"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"time"
)

// Error is an error reply.
type Error string

func (e Error) Error() string { return string(e) }

// RedisError makes it an error reply for go-redis.
func (Error) RedisError() {}

// errProtocol is an answer that is no reply.
var errProtocol = errors.New("claret: the answer is not of the Redis protocol")

// Append adds a command to a buffer.
func Append(buffer []byte, words []any) ([]byte, error) {
	buffer = append(buffer, '*')
	buffer = strconv.AppendInt(buffer, int64(len(words)), 10)
	buffer = append(buffer, "\r\n"...)
	for _, word := range words {
		text, err := Text(word)
		if err != nil {
			return nil, err
		}
		buffer = append(buffer, '$')
		buffer = strconv.AppendInt(buffer, int64(len(text)), 10)
		buffer = append(buffer, "\r\n"...)
		buffer = append(append(buffer, text...), "\r\n"...)
	}
	return buffer, nil
}

// Text is a word as go-redis writes it.
func Text(word any) ([]byte, error) {
	switch word := word.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(word), nil
	case []byte:
		return word, nil
	case bool:
		if word {
			return []byte("1"), nil
		}
		return []byte("0"), nil
	case float32:
		return strconv.AppendFloat(nil, float64(word), 'f', -1, 64), nil
	case float64:
		return strconv.AppendFloat(nil, word, 'f', -1, 64), nil
	case time.Time:
		return word.AppendFormat(nil, time.RFC3339Nano), nil
	case time.Duration:
		return strconv.AppendInt(nil, word.Nanoseconds(), 10), nil
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return []byte(fmt.Sprint(word)), nil
	case encoding.BinaryMarshaler:
		return word.MarshalBinary()
	}
	return nil, fmt.Errorf("claret: a %T is no word of a command", word)
}

// Read reads a reply. Error replies are values; the error is that of the connection. Values are
// those of go-redis: text, int64, float64, bool, nil, big integers, slices and maps.
func Read(from *bufio.Reader) (any, error) {
	for {
		value, isReply, err := ReadFrame(from)
		if err != nil || isReply {
			return value, err
		}
	}
}

// ReadFrame reads one frame; what the server pushes by itself is not a reply, and attributes are nil.
func ReadFrame(from *bufio.Reader) (value any, isReply bool, err error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return nil, false, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, false, errProtocol
	}
	kind, rest := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return rest, true, nil
	case '-':
		return Error(rest), true, nil
	case ':':
		value, err = strconv.ParseInt(rest, 10, 64)
	case ',':
		value, err = float(rest)
	case '#':
		value = rest == "t"
	case '_':
	case '(':
		number, isNumber := new(big.Int).SetString(rest, 10)
		if !isNumber {
			err = errProtocol
		}
		value = number
	case '$', '=', '!':
		value, err = readText(from, kind, rest)
	case '*', '~', '>':
		value, err = readRow(from, rest)
	case '%':
		value, err = readMap(from, rest)
	case '|':
		// Attributes of the reply that follows.
		_, err = readMap(from, rest)
		return nil, false, err
	default:
		err = errProtocol
	}
	return value, kind != '>', err
}

func float(text string) (float64, error) {
	switch text {
	case "inf":
		return math.Inf(1), nil
	case "-inf":
		return math.Inf(-1), nil
	}
	return strconv.ParseFloat(text, 64)
}

func readText(from *bufio.Reader, kind byte, length string) (any, error) {
	count, err := strconv.Atoi(length)
	if err != nil || count < 0 {
		return nil, err
	}
	text := make([]byte, count+2)
	if _, err := io.ReadFull(from, text); err != nil {
		return nil, err
	}
	text = text[:count]
	switch {
	case kind == '!':
		return Error(text), nil
	case kind == '=' && count >= 4:
		// Three letters and a colon say what kind of text it is.
		return string(text[4:]), nil
	}
	return string(text), nil
}

func readRow(from *bufio.Reader, length string) (any, error) {
	count, err := strconv.Atoi(length)
	if err != nil || count < 0 {
		return nil, err
	}
	row := make([]any, 0, min(count, 1024))
	for i := 0; i < count; i++ {
		value, err := Read(from)
		if err != nil {
			return nil, err
		}
		row = append(row, value)
	}
	return row, nil
}

func readMap(from *bufio.Reader, length string) (any, error) {
	count, err := strconv.Atoi(length)
	if err != nil || count < 0 {
		return nil, err
	}
	found := make(map[any]any, min(count, 1024))
	for i := 0; i < count; i++ {
		key, err := Read(from)
		if err != nil {
			return nil, err
		}
		value, err := Read(from)
		if err != nil {
			return nil, err
		}
		switch key.(type) {
		case []any, map[any]any:
			key = fmt.Sprint(key)
		}
		found[key] = value
	}
	return found, nil
}
