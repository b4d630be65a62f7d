package main

import (
	"fmt"
	"maps"
	"sync"
)

// ledger counts what happens to all clients, and collects faults.
type ledger struct {
	mu     sync.Mutex
	counts map[string]int64
	faults []string
	all    int
}

// count adds one to a count.
func (l *ledger) count(what string) { l.add(what, 1) }

func (l *ledger) add(what string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = map[string]int64{}
	}
	l.counts[what] += n
}

// enough is how many faults are kept.
const enough = 30

func (l *ledger) faultf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all++
	if len(l.faults) < enough {
		l.faults = append(l.faults, fmt.Sprintf(format, args...))
	}
}

// take returns the counts, and the faults since the last call.
func (l *ledger) take() (map[string]int64, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := maps.Clone(l.counts)
	if counts == nil {
		counts = map[string]int64{}
	}
	counts["faults"] = int64(l.all)
	faults := l.faults
	if len(faults) > 0 {
		l.faults = make([]string, 0, 1)
	}
	return counts, faults
}
