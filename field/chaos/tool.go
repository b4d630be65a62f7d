//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// work is what a call asks of the tool.
type work struct {
	Call   string `json:"call"`
	Events int    `json:"events"` // on the call's stream, numbered
	For    int    `json:"for"`    // about so many milliseconds
	Aside  int    `json:"aside"`  // events on the standalone stream, numbered
	Seed   uint64 `json:"seed"`
}

// planned is how long the tool takes at most, if the machine does not delay it.
func (w *work) planned() time.Duration { return time.Duration(w.For) * time.Millisecond }

// outlet is how a tool sends, for each kind of app.
type outlet interface {
	progress(n int, text string) error
	aside(text string) error
}

// eventText is the text of an event: whose it is, and its number.
func eventText(call string, n int) string { return fmt.Sprintf("%s#%d", call, n) }

// resultText is the result of a call: whose it is, and how many events it has sent on both streams.
func resultText(call string, sent, asides int) string {
	return fmt.Sprintf("%s=%d+%d", call, sent, asides)
}

// parseResult reads what resultText writes.
func parseResult(text string) (call string, sent, asides int, ok bool) {
	call, counts, ok := strings.Cut(text, "=")
	n, err := fmt.Sscanf(counts, "%d+%d", &sent, &asides)
	return call, sent, asides, ok && n == 2 && err == nil
}

// perform is the tool. Each thing it does stands in the oracle before rejoin gets it, and again when rejoin has taken it.
func (o *oracle) perform(ctx context.Context, session string, w *work, out outlet) (string, error) {
	random := rand.New(rand.NewPCG(w.Seed, 1)) //nolint:gosec // the same for the same seed
	o.write(entry{Do: toolBegan, Call: w.Call, Session: session})
	aside, asides := 0, w.Aside
	for n := range w.Events {
		if err := pause(ctx, time.Duration(random.IntN(w.For/w.Events+1))*time.Millisecond); err != nil {
			o.write(entry{Do: toolFailed, Call: w.Call, Error: err.Error()})
			return "", err
		}
		o.write(entry{Do: toolSends, Call: w.Call, N: n})
		switch err := out.progress(n, eventText(w.Call, n)); {
		case err == nil:
			o.write(entry{Do: toolSent, Call: w.Call, N: n})
		case strings.Contains(err.Error(), eventstore.ErrFull.Error()): // go-sdk does not wrap it
			o.write(entry{Do: toolFull, Call: w.Call, N: n})
		default:
			o.write(entry{Do: toolFailed, Call: w.Call, N: n, Error: err.Error()})
			return "", err
		}
		if asides > 0 && random.IntN(2) == 0 {
			asides--
			if out.aside(eventText(w.Call, aside)) == nil {
				o.write(entry{Do: toolAside, Call: w.Call, N: aside})
				aside++
			}
		}
	}
	if w.Events == 0 {
		if err := pause(ctx, w.planned()); err != nil {
			o.write(entry{Do: toolFailed, Call: w.Call, Error: err.Error()})
			return "", err
		}
	}
	o.write(entry{Do: toolReturns, Call: w.Call, N: w.Events})
	return resultText(w.Call, w.Events, aside), nil
}

// pause waits, and returns the cause if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
