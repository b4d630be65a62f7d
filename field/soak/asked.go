package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// ample is how long before the end of a tool's patience an answer must have been taken, so that it is the tool's.
const ample = 2 * time.Second

// reply is what the user does about a question.
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
		s.wait(patience + time.Second) // late
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
	// Both clocks must say so: the wall's, which the question is in, may be set. And while the machine stands still nothing is sure.
	if err == nil && until.Sub(now) > ample && until.Sub(now) <= patience && now.Sub(begun) < patience-ample && s.late.Load() == late {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.taken = append(c.taken, fmt.Sprintf("%s to %s at %s, until %s", answer, m.ID, now.Format(time.RFC3339Nano), last))
	}
}

// checkAnswers checks that the tool has had every answer that came in time. c.mu is held.
func (c *call) checkAnswers(w *wire, out outcome) {
	had := 0
	for _, said := range out.Answers {
		kind, _, _ := strings.Cut(said, ":")
		c.s.ledger.count("tools told: " + kind)
		if kind != "none" { // stalled ones may have been any
			had++
		}
	}
	if had < len(c.taken) {
		c.faultf(w, "answers were taken in time, %q, and the tool has had %d: %q", c.taken, had, out.Answers)
	}
}
