//go:build unix

package main

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// How a call has ended for its client.
const (
	answered  = "result"
	failed    = "error"            // a JSON-RPC error, see Why
	noID      = "no event id"      // its connection was lost before an id, or was refused by what is in between: it may have run
	refusedBy = "refused"          // 503: it has not run
	gone      = "session gone"     // 404
	vanished  = "nothing is known" // 204, 400 or an end without an answer: the server does not know it
	gaveUp    = "client gave up"   // an SDK went by its own rules; Rescue says what a poll brought then
	hung      = "hung"             // the client waited far too long
)

// record is what the client of a call has seen of it. Its methods are safe for concurrent use; fields are read when the call has ended.
type record struct {
	Name, Kind, App, Session string

	Work  work
	Begun time.Time

	mu      sync.Mutex
	Ended   time.Time
	Outcome string
	Why     string
	Rescue  string // of a call that its client gave up
	Got     []int  // the numbers of its events, as they came
	Asides  []int  // of its events on the standalone stream
	Due     int    // how many of those its tool has sent, by its result
	Listens bool   // its client reads the standalone stream, from before the call
	Faults  []fault
	Expired bool // it was told that the server no longer has some of its events
}

// fault is something that a client has seen and that must not be.
type fault struct{ What, Detail string }

// end notes how the call has ended, once.
func (r *record) end(outcome, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Outcome == "" {
		r.Ended, r.Outcome, r.Why = time.Now(), outcome, why
	}
}

func (r *record) isOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Outcome != ""
}

func (r *record) faulty(what, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Faults = append(r.Faults, fault{what, detail})
}

// event notes an event of the call's stream by its text.
func (r *record) event(text string) {
	call, n, ok := parseEvent(text)
	if !ok || call != r.Name {
		r.faulty(foreign, text+" came to "+r.Name)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Got = append(r.Got, n)
}

// lacks reports whether events on the standalone stream are due.
func (r *record) lacks() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Listens && len(r.Asides) < r.Due
}

// has reports how many events have come.
func (r *record) has() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.Got)
}

// result notes the result by its text.
func (r *record) result(text string) {
	call, sent, asides, ok := parseResult(text)
	if !ok || call != r.Name || sent != r.Work.Events {
		r.faulty(foreign, text+" is the result of "+r.Name)
	}
	r.mu.Lock()
	r.Due = asides
	r.mu.Unlock()
	r.end(answered, "")
}

// parseEvent reads what eventText writes.
func parseEvent(text string) (call string, n int, ok bool) {
	call, number, ok := strings.Cut(text, "#")
	n, err := strconv.Atoi(number)
	return call, n, ok && err == nil
}

// ledger has the records of all calls. Safe for concurrent use.
type ledger struct {
	mu      sync.Mutex
	calls   []*record
	byName  map[string]*record
	refusal []time.Time // of sessions that could not be opened
	faults  []fault     // that belong to no call
}

func newLedger() *ledger { return &ledger{byName: map[string]*record{}} }

func (l *ledger) begin(r *record) {
	r.Begun = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, r)
	l.byName[r.Name] = r
}

func (l *ledger) notOpened() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusal = append(l.refusal, time.Now())
}

func (l *ledger) faulty(what, detail string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fault{what, detail})
}

// aside notes an event of a standalone stream.
func (l *ledger) aside(session, text string) {
	call, n, ok := parseEvent(text)
	l.mu.Lock()
	r := l.byName[call]
	l.mu.Unlock()
	if !ok || r == nil || r.Session != session {
		l.faulty(foreign, text+" came on the standalone stream of another session")
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Asides = append(r.Asides, n)
}

// all returns the records so far.
func (l *ledger) all() []*record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}
