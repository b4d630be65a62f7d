package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// toolArgs are the arguments of the tool: what it shall do.
type toolArgs struct {
	Call       string `json:"call"`
	Seed       uint64 `json:"seed"`
	Events     int    `json:"events"`     // events on the call's stream, numbered
	For        int    `json:"for"`        // about so many milliseconds
	Pad        int    `json:"pad"`        // most bytes that are added to some events
	Closes     int    `json:"closes"`     // closes of a stream, per hundred events
	Asks       int    `json:"asks"`       // questions to the client
	Standalone int    `json:"standalone"` // events on the standalone stream while the call runs, numbered
	Late       int    `json:"late"`       // events after the call's end, which go to the standalone stream, numbered
	Fill       int    `json:"fill"`       // characters of the result's filling
	Modern     bool   `json:"modern"`     // the call is of the modern era, so its questions need its Handle
}

// outcome is the result of the tool.
type outcome struct {
	Call       string   `json:"call"`
	Sent       int      `json:"sent"`
	Standalone int      `json:"standalone"`
	Late       int      `json:"late"`
	Answers    []string `json:"answers"`
	Failed     string   `json:"failed"` // the first error of a send; "": none
	Filling    string   `json:"filling"`
}

// filling is a text that depends on the arguments alone.
func filling(seed uint64, n int) string {
	random := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // it shall be the same for the same seed
	const letters = "abcdefghijklmnopqrstuvwxyz"
	text := make([]byte, n)
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text)
}

// sender is what a tool uses of its app, for each kind of app.
type sender interface {
	progress(n int) error
	tell(ctx context.Context, kind string, n, pad int) error // a log notification on the call's stream
	tellStandalone(n int) error                              // a log notification on the standalone stream
	closeStream(d time.Duration, standalone bool)
	ask(ctx context.Context, until time.Time) (string, error)
}

// patience is how long a tool waits for an answer.
const patience = 5 * time.Second

// logParams are the params of a log notification.
func logParams(p *toolArgs, kind string, n, pad int) map[string]any {
	return map[string]any{"level": "info", "logger": kind, "data": logData(p, n, pad)}
}

func logData(p *toolArgs, n, pad int) map[string]any {
	data := map[string]any{"call": p.Call, "n": n}
	if pad > 0 {
		data["pad"] = strings.Repeat("x", pad)
	}
	return data
}

// perform is the tool: it does what its arguments say.
func perform(ctx context.Context, p *toolArgs, v sender) (outcome, error) {
	random := rand.New(rand.NewPCG(p.Seed, 1)) //nolint:gosec // it shall be the same for the same seed
	out := outcome{Call: p.Call, Filling: filling(p.Seed, p.Fill)}
	fail := func(what string, err error) {
		if err != nil && out.Failed == "" && ctx.Err() == nil {
			out.Failed = fmt.Sprintf("%s: %v", what, err)
		}
	}
	asks, standalone := p.Asks, p.Standalone
	for n := range p.Events {
		if random.IntN(3) > 0 { // otherwise the event follows at once
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
			v.closeStream(time.Duration(random.IntN(1500))*time.Millisecond, random.IntN(8) == 0)
		}
		if standalone > 0 && random.IntN(2) == 0 {
			standalone--
			fail("standalone", v.tellStandalone(out.Standalone))
			out.Standalone++
		}
		if asks > 0 && random.IntN(2) == 0 {
			asks--
			out.Answers = append(out.Answers, askUser(ctx, v))
		}
	}
	if p.Events == 0 && !pause(ctx, random.IntN(p.For+1)) {
		return out, context.Cause(ctx)
	}
	if p.Late > 0 {
		out.Late = p.Late
		go sendLate(ctx, p, v)
	}
	return out, nil
}

// sendLate sends the events that come after the call's end.
func sendLate(ctx context.Context, p *toolArgs, v sender) {
	random := rand.New(rand.NewPCG(p.Seed, 2)) //nolint:gosec // likewise
	h, lasting := rejoin.HandleFromContext(ctx), context.WithoutCancel(ctx)
	for h.SetPolicy(rejoin.Policy{}) == nil { // until the call has ended
		pause(lasting, 10)
	}
	for n := range p.Late {
		pause(lasting, random.IntN(700))
		_ = v.tell(lasting, "late", n, 0) // the session may be over
	}
}

// askUser asks a question. It returns the user's action, "none" if no answer came, "stalled" if that is not sure, or "error".
func askUser(ctx context.Context, v sender) string {
	begun := time.Now()
	until := begun.Add(patience)
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	said, err := v.ask(ctx, until)
	switch {
	case ctx.Err() != nil && err != nil:
		if waited := time.Since(begun); waited > patience+patience/10 { // this process was kept from running: an answer may have come first
			return fmt.Sprintf("stalled: waited %v, until %v", waited, time.Now().Format(time.RFC3339Nano))
		}
		return "none: until " + time.Now().Format(time.RFC3339Nano)
	case err != nil:
		return "error: " + err.Error()
	}
	return said
}

// pause waits, and reports whether ctx has not ended.
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

// form is the schema of the answer.
var form = map[string]any{"type": "object", "properties": map[string]any{"answer": map[string]any{"type": "string"}}}

// wording is the text of a question: the call, and until when the tool waits.
func wording(p *toolArgs, until time.Time) string {
	return p.Call + " " + until.Format(time.RFC3339Nano)
}
