package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// margin: an answer that the server has accepted this long before the tool gives up must reach the tool.
const margin = 2 * time.Second

// reply answers a question, in one of the ways in which users do, or does not.
func (c *call) reply(seed uint64, m message) {
	s, begun, late := c.s, time.Now(), c.s.late.Load()
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the same for the same seed
	answer := `"result":{"action":"accept","content":{"answer":"yes"}}`
	switch r.IntN(8) {
	case 0:
		answer = `"result":{"action":"decline"}`
	case 1:
		answer = `"error":{"code":-1,"message":"no user"}`
	case 2:
		s.wait(patience + time.Second) // too late
	case 3:
		return
	default:
		s.wait(time.Duration(r.IntN(1000)) * time.Millisecond)
	}
	if s.gone.Load() {
		return
	}
	s.ledger.count("questions answered")
	if !s.notify(context.Background(), "an answer", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)) {
		return
	}
	_, last, _ := strings.Cut(m.Params.Message, " ")
	until, err := time.Parse(time.RFC3339Nano, last)
	now := time.Now()
	// The question has a time of the wall clock, which may be changed, so the monotonic clock must agree. The answer does not count if this
	// process was kept from running meanwhile.
	if err == nil && until.Sub(now) > margin && until.Sub(now) <= patience && now.Sub(begun) < patience-margin && s.late.Load() == late {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.taken = append(c.taken, fmt.Sprintf("%s to %s at %s, until %s", answer, m.ID, now.Format(time.RFC3339Nano), last))
	}
}

// checkAnswers checks that the tool got every answer that came in time. c.mu is held.
func (c *call) checkAnswers(w *clientConn, out outcome) {
	had := 0
	for _, said := range out.Answers {
		kind, _, _ := strings.Cut(said, ":")
		c.s.ledger.count("tools told: " + kind)
		if kind != "none" { // "stalled" may have been an answer
			had++
		}
	}
	if had < len(c.taken) {
		c.faultf(w, "answers were taken in time, %q, and the tool has had %d: %q", c.taken, had, out.Answers)
	}
}
