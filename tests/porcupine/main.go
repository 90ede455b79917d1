// Judges a history with porcupine, a checker of linearizability that shares nothing with Claret.
//
//	porcupine [-timeout SECONDS] [-most N] HISTORY
//
// It reads the history files of `claret check`, as far as the black-box tests write them:
// transactions of GET, INCRBY, RPUSH and LRANGE. Keys that are ever used together form one object,
// and every transaction is one operation on one object. Linearizability is local, so a history whose
// objects are all linearizable is strictly serializable, and the other way round.
//
// The last line of output says how many operations and objects there were and what the verdict is:
// ok, illegal, or unknown if time ran out. The exit status is 0, 1 or 3.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

const lineBytesMax = 16 << 20

// A line of a history file.
type event struct {
	Process int             `json:"process"`
	Kind    string          `json:"type"`
	TimeUs  int64           `json:"time_us"`
	Txn     [][]string      `json:"txn"`
	Replies json.RawMessage `json:"replies"`
}

// Reads a history, up to where more than `most` transactions have begun. Those that are not finished
// there count as indefinite.
func history(path string, most int) ([]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var operations []porcupine.Operation
	open := map[int]int{}
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, lineBytesMax)
	for scanner.Scan() {
		var line event
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		switch line.Kind {
		case "invoke":
			if len(operations) == most {
				// What is answered later may rest on what begins here.
				return operations, nil
			}
			open[line.Process] = len(operations)
			operations = append(operations, porcupine.Operation{
				ClientId: line.Process,
				Input:    line.Txn,
				Call:     line.TimeUs,
				Return:   math.MaxInt64,
			})
		case "ok":
			at, found := open[line.Process]
			if !found {
				continue
			}
			delete(open, line.Process)
			operations[at].Return = line.TimeUs
			if line.Replies == nil {
				// It took effect by now, and its replies were lost with a machine.
				continue
			}
			var replies []json.RawMessage
			if err := json.Unmarshal(line.Replies, &replies); err != nil {
				return nil, fmt.Errorf("%s: replies: %w", path, err)
			}
			operations[at].Output = replies
		case "info":
			delete(open, line.Process)
		}
	}
	return operations, scanner.Err()
}

// Bounds the indefinite transactions, each of which could otherwise have happened at any time, or
// never, which is the same as at the very end. Those that only look mean nothing. Values are appended
// once and stay: an append took effect before a read that shows it was answered, and after every read
// of its key that lacks it was asked.
func bound(operations []porcupine.Operation) []porcupine.Operation {
	shown, seen := map[string]int64{}, map[string][]read{}
	for _, operation := range operations {
		replies, known := operation.Output.([]json.RawMessage)
		if !known {
			continue
		}
		for at, words := range operation.Input.([][]string) {
			if words[0] != "lrange" {
				continue
			}
			values := map[string]bool{}
			for _, value := range elements(replies[at]) {
				values[value] = true
				if first, found := shown[value]; !found || operation.Return < first {
					shown[value] = operation.Return
				}
			}
			seen[words[1]] = append(seen[words[1]], read{operation.Call, values})
		}
	}
	var kept []porcupine.Operation
	for _, operation := range operations {
		if operation.Output == nil {
			txn := operation.Input.([][]string)
			if readsOnly(txn) {
				continue
			}
			first, last := operation.Call, operation.Return
			for _, words := range txn {
				if words[0] != "rpush" {
					continue
				}
				if at, found := shown[words[2]]; found {
					last = min(last, at)
				}
				for _, one := range seen[words[1]] {
					if !one.values[words[2]] && one.call > first {
						first = one.call
					}
				}
			}
			// Reads that contradict each other are for the judge.
			if first <= last {
				operation.Call, operation.Return = first, last
			}
		}
		kept = append(kept, operation)
	}
	return kept
}

// A read of a list: when it was asked, and what it showed.
type read struct {
	call   int64
	values map[string]bool
}

func min(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

func readsOnly(txn [][]string) bool {
	for _, words := range txn {
		if words[0] != "get" && words[0] != "lrange" {
			return false
		}
	}
	return true
}

// The elements that a reply to LRANGE shows.
func elements(reply json.RawMessage) []string {
	var found []string
	if json.Unmarshal(reply, &found) != nil {
		return nil
	}
	return found
}

// Groups of keys that are used together, each under one of its keys.
type objects map[string]string

func (o objects) of(key string) string {
	for {
		above, found := o[key]
		if !found || above == key {
			return key
		}
		key = above
	}
}

func partition(operations []porcupine.Operation) [][]porcupine.Operation {
	groups := objects{}
	for _, operation := range operations {
		txn := operation.Input.([][]string)
		for _, words := range txn {
			groups[groups.of(words[1])] = groups.of(txn[0][1])
		}
	}
	parts := map[string][]porcupine.Operation{}
	for _, operation := range operations {
		name := groups.of(operation.Input.([][]string)[0][1])
		parts[name] = append(parts[name], operation)
	}
	var names []string
	for name := range parts {
		names = append(names, name)
	}
	sort.Strings(names)
	var found [][]porcupine.Operation
	for _, name := range names {
		found = append(found, parts[name])
	}
	return found
}

func main() {
	timeout := flag.Float64("timeout", 60, "seconds")
	most := flag.Int("most", math.MaxInt32, "judge only so many transactions, from the first on")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	operations, err := history(flag.Arg(0), *most)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	operations = bound(operations)
	limit := time.Duration(*timeout * float64(time.Second))
	verdict := porcupine.CheckOperationsTimeout(model(), operations, limit)
	count := len(partition(operations))
	fmt.Printf("%d operations on %d objects: %s\n", len(operations), count, name(verdict))
	os.Exit(map[porcupine.CheckResult]int{porcupine.Ok: 0, porcupine.Illegal: 1}[verdict] +
		map[porcupine.CheckResult]int{porcupine.Unknown: 3}[verdict])
}

func name(verdict porcupine.CheckResult) string {
	switch verdict {
	case porcupine.Ok:
		return "ok"
	case porcupine.Illegal:
		return "illegal"
	default:
		return "unknown"
	}
}
