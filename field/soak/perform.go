package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// part is what a client tells the tool to do, as its arguments.
type part struct {
	Call   string `json:"call"`
	Seed   uint64 `json:"seed"`
	Events int    `json:"events"` // numbered, on the call's stream
	For    int    `json:"for"`    // milliseconds, about
	Pad    int    `json:"pad"`    // bytes more in some events
	Closes int    `json:"closes"` // in a hundred events
	Asks   int    `json:"asks"`   // the client, so often
	Asides int    `json:"asides"` // numbered, on the standalone stream, meanwhile
	Late   int    `json:"late"`   // numbered, after the call's end, so on the standalone stream
}

// outcome is the result of the tool.
type outcome struct {
	Call    string   `json:"call"`
	Sent    int      `json:"sent"`
	Asides  int      `json:"asides"`
	Late    int      `json:"late"`
	Answers []string `json:"answers"`
	Failed  string   `json:"failed"` // why something could not be sent
}

// voice is what an app of either kind gives its tool.
type voice interface {
	progress(n int) error
	tell(ctx context.Context, kind string, n, pad int) error // a log notification on the call's stream
	aside(n int) error                                       // a log notification on the standalone stream
	letGo(d time.Duration, standalone bool)
	ask(ctx context.Context, until time.Time) (string, error)
}

// patience is how long a tool waits for an answer of its client's user.
const patience = 5 * time.Second

// remark is the params of a log notification.
func remark(p *part, kind string, n, pad int) map[string]any {
	return map[string]any{"level": "info", "logger": kind, "data": remarkData(p, n, pad)}
}

func remarkData(p *part, n, pad int) map[string]any {
	data := map[string]any{"call": p.Call, "n": n}
	if pad > 0 {
		data["pad"] = strings.Repeat("x", pad)
	}
	return data
}

// perform is the tool.
func perform(ctx context.Context, p *part, v voice) (outcome, error) {
	random := rand.New(rand.NewPCG(p.Seed, 1)) //nolint:gosec // it shall be the same for the same seed
	out := outcome{Call: p.Call}
	fail := func(what string, err error) {
		if err != nil && out.Failed == "" && ctx.Err() == nil {
			out.Failed = fmt.Sprintf("%s: %v", what, err)
		}
	}
	asks, asides := p.Asks, p.Asides
	for n := range p.Events {
		if random.IntN(3) > 0 { // else a burst
			if !pause(ctx, random.IntN(3*p.For/p.Events+1)) {
				return out, context.Cause(ctx)
			}
		}
		pad := 0
		if p.Pad > 0 && random.IntN(8) == 0 {
			pad = random.IntN(p.Pad)
		}
		if random.IntN(2) == 0 {
			fail("progress", v.progress(n))
		} else {
			fail("tell", v.tell(ctx, "call", n, pad))
		}
		out.Sent++
		if random.IntN(100) < p.Closes {
			v.letGo(time.Duration(random.IntN(1500))*time.Millisecond, random.IntN(8) == 0)
		}
		if asides > 0 && random.IntN(2) == 0 {
			asides--
			fail("aside", v.aside(out.Asides))
			out.Asides++
		}
		if asks > 0 && random.IntN(2) == 0 {
			asks--
			out.Answers = append(out.Answers, inquire(ctx, v))
		}
	}
	if p.Events == 0 && !pause(ctx, random.IntN(p.For+1)) {
		return out, context.Cause(ctx)
	}
	if p.Late > 0 {
		out.Late = p.Late
		go speakOn(ctx, p, v)
	}
	return out, nil
}

// speakOn says what comes after the call's end.
func speakOn(ctx context.Context, p *part, v voice) {
	random := rand.New(rand.NewPCG(p.Seed, 2)) //nolint:gosec // likewise
	h, calm := rejoin.HandleFromContext(ctx), context.WithoutCancel(ctx)
	for h.SetPolicy(rejoin.Policy{}) == nil { // it has not ended
		pause(calm, 10)
	}
	for n := range p.Late {
		pause(calm, random.IntN(700))
		_ = v.tell(calm, "late", n, 0) // the session may be over
	}
}

// inquire asks the user, and says what came of it.
func inquire(ctx context.Context, v voice) string {
	begun := time.Now()
	until := begun.Add(patience)
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	said, err := v.ask(ctx, until)
	switch {
	case ctx.Err() != nil && err != nil:
		if waited := time.Since(begun); waited > patience+patience/10 { // the machine stood still: which came first, nobody knows
			return fmt.Sprintf("stalled: waited %v, until %v", waited, time.Now().Format(time.RFC3339Nano))
		}
		return "none: until " + time.Now().Format(time.RFC3339Nano)
	case err != nil:
		return "error: " + err.Error()
	}
	return said
}

// pause waits, and reports whether ctx still goes on.
func pause(ctx context.Context, ms int) bool {
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// form is what the user is asked to fill in.
var form = map[string]any{"type": "object", "properties": map[string]any{"answer": map[string]any{"type": "string"}}}

// wording is a question: whose it is, and how long it waits.
func wording(p *part, until time.Time) string { return p.Call + " " + until.Format(time.RFC3339Nano) }
