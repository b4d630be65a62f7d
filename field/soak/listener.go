package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// listener reads the session's standalone stream. It checks the events that tools send there, and those that they send after their end.
type listener struct {
	s        *session
	track    track
	begun    bool
	settling atomic.Bool
	ended    atomic.Bool
	work     group

	mu             sync.Mutex
	heard          map[string]*[2]int // for each call: how many events came that it sent there while it ran, and after its end
	due            map[string][2]int
	misplacedCalls map[string]bool // calls from which something came here that belongs to their own streams
	lossy          bool            // events may be missing: a GET without a cursor skips what was written to an earlier connection
}

// begin starts to read the stream, with short gaps, until end is called.
func (l *listener) begin(ctx context.Context) {
	l.begun = true
	r := rand.New(rand.NewPCG(l.s.r.Uint64(), 0)) //nolint:gosec // the same for the same seed
	l.work.Go(func() {
		for !l.ended.Load() && !l.s.gone.Load() {
			if l.track.size() > 0 && r.IntN(8) == 0 && !l.settling.Load() { // a second connection takes over
				other := rand.New(rand.NewPCG(r.Uint64(), 0)) //nolint:gosec // likewise
				l.s.ledger.count("takeovers")
				l.work.Go(func() { l.read(ctx, other) })
			}
			retry := l.read(ctx, r)
			if r.IntN(4) == 0 && !l.settling.Load() {
				retry += time.Duration(r.IntN(3000)) * time.Millisecond
			}
			l.s.wait(max(retry, 10*time.Millisecond))
		}
	})
}

func (l *listener) read(ctx context.Context, r *rand.Rand) time.Duration {
	s := l.s
	h := s.header()
	h["Accept"] = "text/event-stream"
	id, pos, named := l.track.newest()
	if named {
		h["Last-Event-ID"] = id
	}
	w, err := dial(ctx, s.site.Addr)
	if err != nil {
		if ctx.Err() == nil {
			s.faultf(nil, "standalone", "%v", err)
		}
		return time.Second
	}
	defer context.AfterFunc(ctx, func() { w.disconnect(false) })()
	if l.settling.Load() {
		s.keep(w)
	} else {
		s.planEnd(r, w, 8*time.Second)
	}
	if l.ended.Load() {
		w.disconnect(false)
	}
	resp, err := w.send(http.MethodGet, s.site, h, nil)
	rd := &reading{s: s, t: &l.track, w: w, what: "standalone", pos: pos, each: l.take}
	s.ledger.count("listens")
	switch {
	case err != nil:
		s.drop(w)
		w.disconnect(false)
		if !w.cut.Load() && !s.gone.Load() {
			s.faultf(w, "standalone", "%v", err)
		}
	case resp.streams():
		s.noteContact()
		rd.run(resp)
		clean := !errors.Is(rd.err, errCut) && !w.cut.Load()
		if clean && !s.gone.Load() && s.polls && !rd.told {
			s.faultf(w, "standalone", "it ended without a reason")
		}
	default:
		body, _ := resp.text()
		s.drop(w)
		s.pool.put(w)
		if !s.explained(resp.status, nil) {
			s.faultf(w, "standalone", "status %d: %s", resp.status, body)
		}
	}
	s.noteContact()
	if !named && !rd.named {
		l.mu.Lock()
		l.lossy = true
		l.mu.Unlock()
	}
	return rd.retry
}

// take checks a message that has not come before.
func (l *listener) take(w *clientConn, data []byte) {
	m, err := parse(data)
	kind := map[string]int{"standalone": 0, "late": 1}
	k, known := kind[m.Params.Logger]
	if err == nil && l.misplaced(w, m, data) {
		return
	}
	if err != nil || !known || m.Method != "notifications/message" {
		l.s.faultf(w, "standalone", "what is this? %s", data)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.heard[m.Params.Data.Call]
	if next == nil {
		next = new([2]int)
		l.heard[m.Params.Data.Call] = next
	}
	if n := m.Params.Data.N; n != next[k] && (!l.lossy || n < next[k]) {
		l.s.faultf(w, "standalone", "event %d where %d was due: %s", n, next[k], data)
	}
	next[k] = m.Params.Data.N + 1
	l.s.ledger.count("events aside")
}

// misplaced reports whether a message belongs to a call's own stream. It comes here if the call has ended without a result (its client
// cancelled it, or did not poll in time) and its tool still sends. For a call with a result that is a fault.
func (l *listener) misplaced(w *clientConn, m message, data []byte) bool {
	call := m.Params.Data.Call
	switch {
	case m.Method == "notifications/cancelled": // a question was withdrawn
		return true
	case m.Method == "elicitation/create":
		call, _, _ = strings.Cut(m.Params.Message, " ")
	case m.Params.Logger != "call":
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.misplacedCalls[call] = true
	if _, completed := l.due[call]; completed {
		l.s.faultf(w, "standalone", "a call with a result said this here: %s", data)
	}
	return true
}

// expect notes how many events a completed call has sent here.
func (l *listener) expect(call string, standalone, late int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due[call] = [2]int{standalone, late}
	if l.misplacedCalls[call] {
		l.s.faultf(nil, "standalone", "call %s has its result, and had said things here that belong to its own stream", call)
	}
}

// missing returns a call with events that have not come; "" if there is none. With lossy, events may be missing without a fault.
func (l *listener) missing() (call string, want, got [2]int, lossy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, due := range l.due {
		if h := l.heard[name]; h != nil {
			got = *h
		} else {
			got = [2]int{}
		}
		if got != due {
			return name, due, got, l.lossy
		}
	}
	return "", want, got, l.lossy
}

// settle waits until all events have come that are due.
func (l *listener) settle(ctx context.Context) {
	l.settling.Store(true)
	if !l.begun {
		if l.s.r.IntN(2) == 0 || l.s.gone.Load() {
			return
		}
		l.begin(ctx)
	}
	for limit := time.Now().Add(maxSilence); !l.s.gone.Load(); {
		call, want, got, lossy := l.missing()
		switch {
		case lossy:
			l.s.ledger.count("standalone streams that cannot be accounted for")
			return
		case call == "":
			l.s.ledger.count("standalone streams accounted for")
			return
		case time.Now().After(limit):
			l.s.faultf(nil, "standalone", "of call %s came %d, and not %d", call, got, want)
			return
		}
		pause(ctx, 50)
	}
}

// end stops reading.
func (l *listener) end() {
	l.ended.Store(true)
	l.s.cutAll(false)
}
