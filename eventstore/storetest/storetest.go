package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// Features are the differences that the contract allows. The zero value is for a store that never runs out of room.
type Features struct {
	// Bounded says that the store can run out of room, and evicts. Then one session's limit must be from 1 MiB to 16 MiB, and a
	// limit for all sessions, if there is one, must be larger. The exam also tests what must be evicted and what must never be.
	// If Bounded is false, no Append may return ErrFull.
	Bounded bool
}

// patience is the deadline of a rule. Only a broken store reaches it.
const patience = 30 * time.Second

// Run runs the exam. open returns an empty store. Run opens one for each rule, and closes it.
func Run(t *testing.T, f Features, open func(t testing.TB) eventstore.Store) {
	t.Helper()
	for _, r := range rules {
		if why := r.skip(f); why != "" {
			t.Logf("not asked: %q: %s", r.name, why)
			continue
		}
		t.Run(r.name, func(t *testing.T) { r.try(t, f, open) })
	}
}

// rule is the test of one clause of the contract.
type rule struct {
	name  string
	needs needs
	test  func(e *exam)
}

type needs uint8

const (
	nothing needs = iota
	bounded
	unbounded
)

var rules = []rule{
	{"an empty log", nothing, emptyLog},
	{"sequence", nothing, sequence},
	{"catch up", nothing, catchUp},
	{"repeat", nothing, repeat},
	{"seal", nothing, seal},
	{"batch", nothing, batch},
	{"a batch is whole", nothing, batchIsWhole},
	{"repeat a batch", nothing, repeatBatch},
	{"batches beside readers", nothing, batchesBesideReaders},
	{"begin", nothing, begin},
	{"the slice is the caller's", nothing, sliceIsTheCallers},
	{"one log per name", nothing, oneLogPerName},
	{"handles of many names", nothing, manyHandles},
	{"any name", nothing, anyName},
	{"sessions apart", nothing, sessionsApart},
	{"read windows", nothing, readWindows},
	{"byte bound", nothing, byteBound},
	{"large events", nothing, largeEvents},
	{"data stays as it was", nothing, dataStays},
	{"readers beside the appender", nothing, readersBesideAppender},
	{"marks are hints", nothing, marksAreHints},
	{"ended context", nothing, endedContext},
	{"restore an unknown log", nothing, restoreUnknown},
	{"restore a known log", nothing, restoreKnown},
	{"restore refused", nothing, restoreRefused},
	{"restore repeated", nothing, restoreRepeated},
	{"restore beside readers", nothing, restoreBesideReaders},
	{"drop", nothing, drop},
	{"drop before use", nothing, dropBeforeUse},
	{"drop session", nothing, dropSession},
	{"drop beside an append", nothing, dropBesideAppend},
	{"close", nothing, closed},
	{"no limit", unbounded, noLimit},
	{"full", bounded, full},
	{"full takes a seal", bounded, fullTakesSeal},
	{"full takes no part of a batch", bounded, fullTakesNoPart},
	{"full and restore", bounded, fullAndRestore},
	{"sealed logs make room", bounded, sealedMakeRoom},
	{"backlogs make room", bounded, backlogsMakeRoom},
}

func (r rule) skip(f Features) string {
	switch {
	case r.needs == bounded && !f.Bounded:
		return "Features.Bounded is not set: this store never runs out of room"
	case r.needs == unbounded && f.Bounded:
		return "Features.Bounded is set: this store may run out of room"
	}
	return ""
}

func (r rule) try(t testing.TB, f Features, open func(t testing.TB) eventstore.Store) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e := &exam{TB: t, Features: f, ctx: ctx, store: open(t)}
	defer e.close(e.store)
	r.test(e)
}

// exam is one run of a rule.
type exam struct {
	testing.TB
	Features
	ctx   context.Context
	store eventstore.Store
}

func (e *exam) close(s eventstore.Store) {
	if err := s.Close(); err != nil {
		e.Errorf("Close: %v", err)
	}
}

// log returns a handle of a log of session "s".
func (e *exam) log(stream string) eventstore.Log {
	return e.store.Log(eventstore.Key{Session: "s", Stream: stream})
}
