package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// call is one call of a tool, from the request to its result.
type call struct {
	s     *session
	r     *rand.Rand
	name  string
	id    int64
	args  toolArgs
	track track

	mu          sync.Mutex
	users       *rand.Rand // decides how questions are answered, which several connections may bring
	next        int        // the number of the next event
	answered    bool
	contact     time.Time // when the client was last in contact with the server
	longest     time.Duration
	late0       int64 // clientProcess.late when the call began
	cancelled   atomic.Bool
	hung        atomic.Bool
	takeovers   atomic.Int32
	taken       []string // answers that the server accepted early enough, see margin
	unanswered  int      // resumes that were cut before their answer: the server may receive them at any time, or never
	mayHaveNoID bool     // the first connection was cut, so the server may not know that the client has an id
}

func newCall(s *session, k int) *call {
	r := rand.New(rand.NewPCG(s.r.Uint64(), uint64(k))) //nolint:gosec // the same for the same seed
	c := &call{s: s, r: r, name: fmt.Sprintf("%s/%d", s.name, k), id: s.ids.Add(1), late0: s.late.Load()}
	c.users = rand.New(rand.NewPCG(r.Uint64(), 0)) //nolint:gosec // likewise
	c.args = toolArgs{Call: c.name, Seed: r.Uint64(), For: 1 + r.IntN(4000)}
	switch longest := int(s.job.Longest.Milliseconds()); r.IntN(8) {
	case 0: // fast and without events: the answer is probably plain JSON
		c.args.For = 1 + r.IntN(20)
		return c
	case 1:
		c.args.For = 1 + r.IntN(longest)
	case 2:
		c.args.For = 1
	}
	c.args.For = min(c.args.For, int(s.job.Longest.Milliseconds()))
	c.args.Events = 1 + r.IntN(20)
	c.args.Closes = [...]int{0, 5, 15, 40}[r.IntN(4)]
	if r.IntN(4) == 0 {
		c.args.Pad = 8000
	}
	if r.IntN(3) == 0 {
		c.args.Standalone = r.IntN(4)
	}
	if r.IntN(4) == 0 {
		c.args.Late = 1 + r.IntN(3)
	}
	if r.IntN(4) == 0 && s.version != "2025-03-26" {
		c.args.Asks = 1 + r.IntN(2)
	}
	return c
}

func (c *call) about() time.Duration { return time.Duration(c.args.For) * time.Millisecond }

func (c *call) faultf(w *clientConn, format string, args ...any) {
	c.s.faultf(w, "call "+c.name, format, args...)
}

func (c *call) body() []byte {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.id, "method": "tools/call", "params": map[string]any{
		"name": "perform", "arguments": &c.args, "_meta": map[string]any{"progressToken": c.name},
	}})
	if err != nil {
		panic(err)
	}
	return b
}

// run makes the call, and polls until its end.
func (c *call) run(ctx context.Context) {
	s := c.s
	s.ledger.count("calls")
	session := ctx
	limit := c.about() + time.Duration(c.args.Asks)*patience + 2*maxSilence
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(limit, func() { c.hung.Store(true); cancel() }).Stop()
	if c.r.IntN(16) == 0 {
		time.AfterFunc(time.Duration(c.r.Int64N(int64(c.about())+1)), func() { s.work.Go(func() { c.cancel(session) }) })
	}
	w, err := s.pool.get(ctx, s.site.Addr)
	if err != nil {
		c.faultf(nil, "%v", err)
		return
	}
	defer context.AfterFunc(ctx, func() { w.disconnect(false) })()
	s.planEnd(c.r, w, c.about()+200*time.Millisecond)
	h := s.header()
	switch c.r.IntN(6) {
	case 0:
		h["Soak-Close-After"] = (time.Duration(20+c.r.IntN(2000)) * time.Millisecond).String()
	case 1:
		h["Soak-Stream"] = "yes"
	}
	c.noteContact() // the client may not read for long, while the server waits for it to come back
	resp, err := w.send(http.MethodPost, s.site, h, c.body())
	if err == nil {
		s.noteContact()
	}
	c.noteContact()
	switch {
	case err != nil:
		s.drop(w)
		w.disconnect(false)
		c.broken(w, "the answer", err)
	case resp.streams():
		c.mayHaveNoID = true
		c.read(w, resp, 0)
		c.mayHaveNoID = w.cut.Load()
		c.follow(ctx)
	default:
		body, err := resp.text()
		s.drop(w)
		switch {
		case err != nil:
			w.disconnect(false)
			c.broken(w, "the answer", err)
			return
		case resp.status == http.StatusOK && body != "":
			s.ledger.count("plain answers")
			c.message(w, []byte(body))
		case body == "" && c.cancelled.Load():
			s.ledger.count("cancelled before the head")
		case !s.explained(resp.status, nil):
			c.faultf(w, "status %d: %s", resp.status, body)
		}
		s.pool.put(w)
	}
}

// broken handles the end of a connection that brought no id.
func (c *call) broken(w *clientConn, what string, err error) {
	switch {
	case c.s.gone.Load():
		c.s.ledger.count("lost: the session was given up")
	case errors.Is(err, errCut) || w.cut.Load():
		c.s.ledger.count("cuts")
		c.s.ledger.count("lost: cut before any id")
	default:
		c.faultf(w, "%s: %v", what, err)
	}
}

func (c *call) noteContact() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.contact, c.longest = time.Now(), c.longestAway()
}

// longestAway is an upper bound on the longest time between two contacts with the server. c.mu is held.
func (c *call) longestAway() time.Duration {
	if c.contact.IsZero() {
		return 0
	}
	return max(c.longest, time.Since(c.contact)+time.Duration(c.s.late.Load()-c.late0))
}

// read reads one connection to its end, and returns the time after which to poll.
func (c *call) read(w *clientConn, resp *response, pos int) time.Duration {
	r := &reading{s: c.s, t: &c.track, w: w, what: "call " + c.name, pos: pos, each: c.message}
	r.run(resp)
	c.noteContact()
	c.mu.Lock()
	defer c.mu.Unlock()
	clean := r.err != nil && !errors.Is(r.err, errCut) && !w.cut.Load()
	switch {
	case !clean, c.answered, c.cancelled.Load(), c.s.gone.Load():
	case !c.s.polls && c.unanswered > 0: // a resume that was cut has arrived late, and has taken over
		c.unanswered--
	case c.s.polls && !r.told, !c.s.polls && c.takeovers.Load() == 0:
		c.faultf(w, "the stream ended without a reason")
	}
	if r.told {
		c.s.ledger.count("let go")
	}
	return r.retry
}

// message handles a message of the call that has not come before.
func (c *call) message(w *clientConn, data []byte) {
	m, err := parse(data)
	if err != nil {
		c.faultf(w, "%v: %s", err, data)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.answered && m.Error != nil && m.Error.Data.Reason == "expired": // a newer connection had the rest
	case c.answered:
		c.faultf(w, "after the response: %s", data)
	case m.Method == "notifications/progress" && m.Params.ProgressToken == c.name:
		c.number(w, int(m.Params.Progress)-1, data)
	case m.Method == "notifications/message" && m.Params.Logger == "call" && m.Params.Data.Call == c.name:
		c.number(w, m.Params.Data.N, data)
	case m.Method == "elicitation/create":
		seed := c.users.Uint64()
		c.s.work.Go(func() { c.reply(seed, m) })
	case m.Method == "notifications/cancelled": // a question was withdrawn
	case m.Method == "" && string(m.ID) == fmt.Sprint(c.id):
		c.answered = true
		c.result(w, m, data)
	default:
		c.faultf(w, "what is this? %s", data)
	}
}

func (c *call) number(w *clientConn, n int, data []byte) {
	if n != c.next {
		c.faultf(w, "event %d where %d was due: %s", n, c.next, data)
	}
	c.next = n + 1
}
