package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// storeTimeout is the default of Config.StoreTimeout.
const storeTimeout = 5 * time.Second

// One operation of a store fails in some way, or all of its kind from one on. Every call still ends in time, with its result or an error that says why.
// Events come in order, once, on as many connections as needed. The session and another session go on, DELETE does not wait, nothing is left, and the
// failure is counted.
func TestAStoreThatFailsAtAnyOperation(t *testing.T) {
	clean := faultyPlay(t, stroke{})
	require.Zero(t, clean.s.Stats().StoreFailed)
	require.EqualValues(t, 4, clean.asides.Load())
	once, ever := []bool{false}, []bool{false, true}
	for _, test := range []struct {
		op, kind string
		ever     []bool
		step     int
		errors   bool          // calls may end with an error
		delay    time.Duration // for each operation that a call waits for, one after the other
	}{
		{"append", "fails", ever, 1, false, 0},
		{"append", "panics", once, 1, false, 0},
		{"append", "lies", once, 1, false, 0},
		{"append", "is gone", ever, 1, false, 0},
		{"append", "drags", ever, 1, false, dragged},
		{"append", "blocks", ever, 1, false, storeTimeout},
		{"read", "fails", ever, 1, true, 0},
		{"read", "panics", once, 1, true, 0},
		{"read", "drags", ever, 1, false, dragged},
		{"read", "blocks", ever, 1, true, storeTimeout},
		{"drop", "fails", ever, 1, false, 0},
		{"drop", "panics", once, 1, false, 0},
		{"drop", "lies", once, 1, false, 0},
		{"drop", "drags", ever, 1, false, 0}, // no client waits for it
		{"drop", "blocks", ever, 1, false, 0},
		{"dropsession", "fails", ever, 1, false, 0},
		{"dropsession", "panics", once, 1, false, 0},
		{"dropsession", "lies", once, 1, false, 0},
		{"dropsession", "drags", ever, 1, false, 0},
		{"dropsession", "blocks", ever, 1, false, 0},
		{"mark", "panics", once, 4, false, 0},
	} {
		for n := 1; n <= clean.store.seen[test.op]; n += test.step {
			for _, on := range test.ever {
				how := stroke{kind: test.kind, op: test.op, n: n, ever: on}
				w := faultyPlay(t, how)
				w.judge(how, clean, test.errors)
				most := clean.took + test.delay*time.Duration(w.inTurn(how))
				if test.errors || test.delay > 0 {
					most += 2 * time.Second // one or two more polls
				}
				require.LessOrEqual(t, w.took, most, how)
			}
		}
	}
}

// faultyPlay runs play in a bubble of its own.
func faultyPlay(t *testing.T, how stroke) (w *faultyWorld) {
	t.Helper()
	kit.Bubble(t, func(t *testing.T) {
		w = &faultyWorld{t: t}
		w.ends = w.play(how)
	})
	if t.Failed() {
		t.FailNow()
	}
	w.t = t
	return w
}

// inTurn returns for how many failing operations one call may wait, one after the other. If one was waited for in vain, its stream asks for no other of
// this kind; and one tool sends on two streams.
func (w *faultyWorld) inTurn(how stroke) int {
	switch {
	case how.kind == "drags":
		return w.store.fired
	case how.ever:
		return 2
	}
	return 1
}

// judge compares how the clients ended with how they end without a failure.
func (w *faultyWorld) judge(how stroke, clean *faultyWorld, mayFail bool) {
	w.t.Helper()
	fired, errors := w.store.fired, 0
	for name, want := range clean.ends {
		end := w.ends[name]
		switch {
		case end == want:
		case mayFail && strings.HasPrefix(end, "error "): // with fewer messages
			errors++
		case strings.HasSuffix(name, " cancelled") && strings.HasPrefix(end, "cancelled "): // before all messages had come
		case strings.HasSuffix(name, " ") && mayFail && how.ever && strings.HasPrefix(end, "unknown "): // nothing ever comes on the standalone stream
		default:
			w.t.Fatalf("%v: %s: %s, not %s", how, name, end, want)
		}
	}
	if !how.ever {
		require.LessOrEqual(w.t, fired, 1, how)
		require.LessOrEqual(w.t, errors, fired, "%v: others than the one that it met", how)
	}
	if fired == 0 { // the order of events at the same time differs
		require.Less(w.t, w.store.seen[how.op], how.n, how)
	}
	if mayFail && how.ever && how.n == 1 {
		require.GreaterOrEqual(w.t, errors, 6, "%v: all that need the store to read", how)
	}
	if !mayFail {
		require.Zero(w.t, w.unasked.Load(), "%v: questions without an answer", how)
		require.Equal(w.t, clean.asides.Load(), w.asides.Load(), how)
	}
	counted := fired
	if how.kind == "drags" || how.op == "mark" { // a mark is a hint
		counted = 0
	}
	require.EqualValues(w.t, counted, w.s.Stats().StoreFailed, how)
}
