package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// session is a client, from initialize to its end.
type session struct {
	*clientProcess
	site    site
	name    string
	r       *rand.Rand // of its own goroutine; calls have their own
	version string
	polls   bool
	id      string
	pool    pool
	listen  *listener
	ids     atomic.Int64
	contact atomic.Int64 // when the client was last in contact with the server, in nanoseconds since began
	late0   int64        // clientProcess.late when the session began
	gone    atomic.Bool  // the session was deleted or abandoned: nothing that happens now is a fault
	left    atomic.Bool  // the client has disappeared
	conns   sync.Map     // the *clientConn that read a stream
	work    group
}

func newSession(c *clientProcess, client, n int, r *rand.Rand) *session {
	s := &session{clientProcess: c, site: c.sites[(client+n)%len(c.sites)], r: r, version: "2025-11-25", polls: true}
	s.name, s.late0 = fmt.Sprintf("%d.%d", client, n), c.late.Load()
	if old := r.IntN(6); old < 2 {
		s.version, s.polls = [...]string{"2025-06-18", "2025-03-26"}[old], false
	}
	s.listen = &listener{s: s, heard: map[string]*[2]int{}, due: map[string][2]int{}, misplacedCalls: map[string]bool{}}
	return s
}

// faultf records a fault.
func (s *session) faultf(w *clientConn, what, format string, args ...any) {
	last := ""
	if w != nil {
		last = "\n\t" + strings.ReplaceAll(strings.TrimSpace(w.lastReceived()), "\n", "\n\t")
	}
	s.ledger.faultf("seed %d, client %s (%s, %s, %s), %s: %s%s",
		s.job.Seed, s.name, s.site.Router, s.site.App, s.version, what, fmt.Sprintf(format, args...), last)
}

func (s *session) noteContact() { s.contact.Store(int64(time.Since(began))) }

// silentFor is an upper bound on the time since the last contact.
func (s *session) silentFor() time.Duration {
	return time.Since(began) - time.Duration(s.contact.Load()) + time.Duration(s.late.Load()-s.late0)
}

// began is when the process began. Times are counted from it, because the wall clock may be changed.
var began = time.Now()

func (s *session) header() header {
	h := header{"Accept": "application/json, text/event-stream"}
	if s.id != "" {
		h["Mcp-Session-Id"] = s.id
		h["Mcp-Protocol-Version"] = s.version
	}
	return h
}

// live runs the client.
func (s *session) live(ctx context.Context) {
	defer s.pool.close()
	if !s.open(ctx) {
		return
	}
	s.ledger.count("sessions")
	if s.r.IntN(3) > 0 {
		s.listen.begin(ctx)
	}
	slots := make(chan struct{}, 1+s.r.IntN(3))
	calls := 1 + s.r.IntN(12)
	end := s.r.IntN(10)
	for k := range calls {
		if !s.waitForNextCall(s.r) || s.gone.Load() {
			break
		}
		if s.r.IntN(8) == 0 {
			s.sendInvalid(ctx)
		}
		slots <- struct{}{}
		c := newCall(s, k)
		s.work.Go(func() {
			defer func() { <-slots }()
			c.run(ctx)
		})
	}
	switch {
	case end < 2 && !s.isStopping(): // while calls run
		s.remove(ctx)
	case end == 2 && !s.isStopping():
		s.disappear()
	default:
		s.work.Wait()
		s.listen.settle(ctx)
		switch {
		case end < 7:
			s.remove(ctx)
		case end == 7 && !s.isStopping():
			s.returnTooLate(ctx)
		default: // the client never deletes its session
			s.disappear()
		}
	}
	s.settled()
}

// settled waits until everything has ended that the session has begun.
func (s *session) settled() {
	s.listen.end()
	done := make(chan struct{})
	go func() { s.work.Wait(); s.listen.work.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * maxSilence):
		s.faultf(nil, "the end", "its streams or calls have not ended after %v", 2*maxSilence)
	}
}

// short sends a request whose answer comes at once, and reads the answer.
func (s *session) short(ctx context.Context, method string, h header, body string) (status int, answer string, w *clientConn, err error) {
	w, err = s.pool.get(ctx, s.site.Addr)
	if err != nil {
		return 0, "", nil, err
	}
	resp, err := w.send(method, s.site, h, []byte(body))
	if err != nil {
		w.disconnect(false)
		return 0, "", w, err
	}
	answer, err = resp.text()
	if err != nil || resp.last {
		w.disconnect(false)
	} else {
		s.pool.put(w)
	}
	if id := resp.header.Get("Mcp-Session-Id"); id != "" && s.id == "" {
		s.id = id
	}
	return resp.status, answer, w, err
}

// notify sends a notification or an answer, which must be accepted with 202. It reports whether it was.
func (s *session) notify(ctx context.Context, what, body string) bool {
	status, answer, w, err := s.short(ctx, http.MethodPost, s.header(), body)
	if err == nil && status == http.StatusAccepted {
		s.noteContact()
		return true
	}
	if !s.explained(status, err) {
		s.faultf(w, what, "status %d, %v: %s", status, err, answer)
	}
	return false
}

// explained reports whether a status or an error was to be expected: the session has ended, or the client has cut the connection.
func (s *session) explained(status int, err error) bool {
	switch {
	case s.gone.Load():
		return true
	case errors.Is(err, errCut):
		return true
	case status == http.StatusNotFound && s.silentFor() >= s.job.IdleTTL:
		s.gone.Store(true)
		s.ledger.count("session idle too long")
		return true
	}
	return false
}

// open opens the session.
func (s *session) open(ctx context.Context) bool {
	s.noteContact()
	if s.r.IntN(40) == 0 { // the client first cuts a connection before the answer
		if w, err := dial(ctx, s.site.Addr); err == nil {
			w.cutAfter.Store(s.r.Int64N(300))
			_, _ = w.send(http.MethodPost, s.site, s.header(), s.initialize())
			w.disconnect(true)
			s.ledger.count("cuts")
		}
	}
	status, answer, w, err := s.short(ctx, http.MethodPost, s.header(), string(s.initialize()))
	if err != nil || status != http.StatusOK || s.id == "" || !strings.Contains(answer, `"protocolVersion":"`+s.version+`"`) {
		s.faultf(w, "initialize", "status %d, %v: %s", status, err, answer)
		return false
	}
	s.noteContact()
	if !s.notify(ctx, "initialized", `{"jsonrpc":"2.0","method":"notifications/initialized"}`) {
		return false
	}
	if s.site.App == "own" {
		return true
	}
	status, answer, w, err = s.short(ctx, http.MethodPost, s.header(), `{"jsonrpc":"2.0","id":"level","method":"logging/setLevel","params":{"level":"debug"}}`)
	if err != nil || status != http.StatusOK || !strings.Contains(answer, `"result":{}`) {
		if s.explained(status, err) {
			return false
		}
		s.faultf(w, "logging/setLevel", "status %d, %v: %s", status, err, answer)
		return false
	}
	return true
}

func (s *session) initialize() []byte {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": map[string]any{
		"protocolVersion": s.version, "clientInfo": map[string]any{"name": "soak", "version": "1"},
		"capabilities": map[string]any{"elicitation": map[string]any{}},
	}})
	if err != nil {
		panic(err)
	}
	return b
}
