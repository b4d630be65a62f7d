package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// subject is the reference store with a flaw, as the exam takes it.
func subject(limit int, flaw string) (Features, func(testing.TB) eventstore.Store) {
	return Features{Bounded: limit > 0}, func(testing.TB) eventstore.Store {
		return &client{ref: newReference(limit, flaw)}
	}
}

func TestReferencePasses(t *testing.T) {
	for name, limit := range map[string]int{"plain": 0, "bounded": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			f, open := subject(limit, "")
			Run(t, f, open)
		})
	}
}

// TestFlawsAreFound breaks one rule at a time. The rule's own test must notice.
func TestFlawsAreFound(t *testing.T) {
	for flaw, clause := range map[string]string{
		"forgets the seal":                             "seal",
		"appends after the seal":                       "seal",
		"seals early":                                  "readers beside the appender",
		"repeats fail":                                 "repeat",
		"repeats append":                               "repeat",
		"repeats may differ":                           "repeat",
		"repeats may seal":                             "repeat",
		"takes gaps":                                   "sequence",
		"takes old numbers":                            "sequence",
		"begins anywhere":                              "sequence",
		"takes the unknown for dropped":                "sequence",
		"does not say how far it got":                  "sequence",
		"seals what it refuses":                        "catch up",
		"takes one event of a batch":                   "batch",
		"forgets the seal of a batch":                  "batch",
		"records what follows a conflict":              "a batch is whole",
		"compares only what is not followed":           "a batch is whole",
		"refuses a repeat with more behind":            "repeat a batch",
		"records a repeat again with more behind":      "repeat a batch",
		"takes a repeat with more behind for a repeat": "repeat a batch",
		"knows its last event only":                    "repeat a batch",
		"records a batch in parts":                     "batches beside readers",
		"refuses an empty batch":                       "begin",
		"begins what was dropped":                      "begin",
		"takes an empty batch behind a gap":            "begin",
		"makes an event of an empty batch":             "begin",
		"keeps the slice of a batch":                   "the slice is the caller's",
		"tells logs apart by About":                    "one log per name",
		"two handles, two logs":                        "one log per name",
		"knows the last handle only":                   "handles of many names",
		"joins names":                                  "any name",
		"cuts names at NUL":                            "any name",
		"ignores case":                                 "any name",
		"ignores the session":                          "sessions apart",
		"reads from the start":                         "read windows",
		"reads the cursor's event":                     "read windows",
		"ignores the byte bound":                       "byte bound",
		"returns nothing beyond the byte bound":        "byte bound",
		"counts a byte bound from the next event on":   "byte bound",
		"shortens large events":                        "large events",
		"shares its buffer":                            "data stays as it was",
		"wipes data when it drops":                     "data stays as it was",
		"marks create":                                 "marks are hints",
		"ignores contexts":                             "ended context",
		"restores from event 1 on":                     "restore an unknown log",
		"restores no seal":                             "restore an unknown log",
		"restores nothing without events":              "restore an unknown log",
		"restores behind what it had":                  "restore a known log",
		"restores less than it has":                    "restore refused",
		"restores what is sealed":                      "restore refused",
		"restores a seal over another":                 "restore refused",
		"fails to restore again":                       "restore repeated",
		"restores in two steps":                        "restore beside readers",
		"restores what was dropped":                    "drop",
		"drops nothing":                                "drop",
		"drops once":                                   "drop",
		"comes back after a drop":                      "drop",
		"reads after a drop":                           "drop before use",
		"drops all sessions":                           "drop session",
		"keeps sealed logs of a dropped session":       "drop session",
		"spares handles when it drops a session":       "drop session",
		"works on after close":                         "close",
		"trims running logs":                           "full",
		"evicts what was only written":                 "full",
		"refuses a seal":                               "full takes a seal",
		"records what fits of a batch":                 "full takes no part of a batch",
		"needs room for both":                          "full and restore",
		"loses what it cannot restore":                 "full and restore",
		"never evicts":                                 "sealed logs make room",
		"forgets where it begins":                      "backlogs make room",
	} {
		t.Run(flaw, func(t *testing.T) {
			f, open := subject(1<<20, flaw)
			i := slices.IndexFunc(rules, func(r rule) bool { return r.name == clause })
			why := attempt(rules[i], f, open)
			if why == "" {
				t.Fatalf("the rule %q passes", clause)
			}
			t.Log(why)
		})
	}
}

// TestEveryRuleCanFail checks that a store that does nothing fails every rule.
func TestEveryRuleCanFail(t *testing.T) {
	f, _ := subject(1<<20, "")
	for _, r := range rules {
		why := attempt(r, f, func(testing.TB) eventstore.Store { return dead{} })
		if why == "" && r.skip(f) == "" {
			t.Errorf("the rule %q passes with a store that does nothing", r.name)
		}
	}
}

// dead is a store that does nothing.
type dead struct{ eventstore.Store }

func (dead) Log(eventstore.Key) eventstore.Log         { return dead{} }
func (dead) DropSession(context.Context, string) error { return errDead }
func (dead) Close() error                              { return nil }

func (dead) Append(context.Context, uint64, [][]byte, bool) error  { return errDead }
func (dead) Restore(context.Context, uint64, [][]byte, bool) error { return errDead }
func (dead) Mark(eventstore.Mark)                                  {}
func (dead) Drop(context.Context) error                            { return errDead }
func (dead) Read(context.Context, uint64, []eventstore.Event, int) (int, eventstore.State, error) {
	return 0, eventstore.State{}, errDead
}

var errDead = errors.New("dead")

func TestSkipsSayWhy(t *testing.T) {
	for _, r := range rules {
		for _, f := range []Features{{}, {Bounded: true}} {
			why := r.skip(f)
			if needed := r.needs == bounded && !f.Bounded || r.needs == unbounded && f.Bounded; needed != (why != "") {
				t.Errorf("rule %q with %+v: skip says %q", r.name, f, why)
			}
			if why != "" && !strings.Contains(why, "Features.") {
				t.Errorf("rule %q: %q does not name the field", r.name, why)
			}
		}
	}
	names := map[string]bool{}
	for _, r := range rules {
		if names[r.name] {
			t.Errorf("two rules are named %q", r.name)
		}
		names[r.name] = true
	}
}

// attempt runs one rule and returns its complaints.
func attempt(r rule, f Features, open func(testing.TB) eventstore.Store) string {
	rec := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				rec.Errorf("panic: %v", p)
			}
		}()
		r.try(rec, f, open)
	}()
	<-done
	return strings.Join(rec.complaints, "; ")
}

// recorder is a testing.TB that records failures.
type recorder struct {
	testing.TB
	mu         sync.Mutex
	complaints []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := fmt.Sprintf(format, args...); !slices.Contains(r.complaints, c) && len(r.complaints) < 3 {
		r.complaints = append(r.complaints, c)
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }
func (r *recorder) Helper()           {}
