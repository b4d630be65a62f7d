package cluster_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// greeted starts a response that begins with a primer.
var greeted = map[string]func(w *world) *rejointest.Call{
	"request": func(w *world) *rejointest.Call {
		call := w.CallTool("x", nil)
		_ = w.processes[0].next()
		elapse(time.Millisecond) // StreamAfter
		return call
	},
	"standalone": func(w *world) *rejointest.Call { return w.Listen() },
}

// appendsBlock makes appends wait until the channel is closed.
func appendsBlock(block <-chan struct{}) func(clustertest.Call) clustertest.Fault {
	return func(c clustertest.Call) clustertest.Fault {
		if c.Op == "append" {
			return clustertest.Fault{Block: block}
		}
		return clustertest.Fault{}
	}
}

// streamsOf returns the streams that the engine has of the session of the only record.
func streamsOf(t *testing.T, w *world, session string) []cluster.Stream {
	t.Helper()
	found, err := w.engine.Find(t.Context(), session, cluster.Process{})
	require.NoError(t, err)
	r := found.Record
	_, streams, err := w.engine.Adopt(t.Context(), session, r.Fence, another, time.Hour)
	require.NoError(t, err)
	return streams
}

// No id of a stream leaves before the engine knows the stream: it has an empty log with its description.
func TestAStreamIsKnownBeforeItsPrimer(t *testing.T) {
	for name, start := range greeted {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, h := newWatchedWorld(t, options{policy: rejoin.Policy{StreamAfter: time.Millisecond}})
				block := make(chan struct{})
				w.processes[0].link.SetScript(appendsBlock(block))
				call := start(w)
				require.Equal(t, "open", kit.Last(call), "no head")
				elapse(500 * time.Millisecond)
				require.Equal(t, "open", kit.Last(call), "no head")
				close(block)
				synctest.Wait()
				require.Equal(t, "200 sse primer@0 open", kit.Last(call))
				streams := streamsOf(t, w, h.all()[0].Session)
				require.Len(t, streams, 1)
				require.Zero(t, streams[0].Last)
				require.Equal(t, name == "standalone", streams[0].Backlog)
				require.Contains(t, call.IDs()[0], streams[0].Name)
				if name == "request" {
					require.JSONEq(t, fmt.Sprintf(`{"n":2,"method":"tools/call","ids":[%s],"retain":300000000000}`, call.ID()), streams[0].About)
				}
			})
		})
	}
}

// If that takes a second, the head leaves with a comment. The primer follows, and then the client can be let go.
func TestAPrimerThatComesLater(t *testing.T) {
	for name, start := range greeted {
		for _, fail := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, fail=%v", name, fail), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w := newWorld(t, options{policy: rejoin.Policy{StreamAfter: time.Millisecond}, config: func(c *rejoin.Config) { c.StoreTimeout = 10 * time.Second }})
					block := make(chan struct{})
					if fail {
						w.processes[0].link.SetScript(func(c clustertest.Call) clustertest.Fault {
							if c.Op == "append" {
								return clustertest.Fault{Before: errors.New("no")}
							}
							return clustertest.Fault{}
						})
					} else {
						w.processes[0].link.SetScript(appendsBlock(block))
					}
					call := start(w)
					elapse(990 * time.Millisecond)
					require.Equal(t, "open", kit.Last(call))
					elapse(20 * time.Millisecond)
					require.Equal(t, "200 sse comment open", kit.Last(call))
					elapse(time.Second)
					require.Equal(t, "200 sse comment open", kit.Last(call))
					w.processes[0].link.SetScript(nil)
					close(block)
					elapse(2 * time.Second)
					require.Equal(t, "200 sse comment primer@0 open", kit.Last(call))
					require.Len(t, call.IDs(), 1)
					call.Cut()
					call.Poll()
					require.Equal(t, "200 sse primer@0 open", kit.Last(call), "resumable")
				})
			})
		}
	}
}

// A GET that resumes a stream waits for nothing: the engine knows the stream.
func TestAResumeDoesNotWait(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call, tool := startedCall(t, w)
		require.NoError(t, tool.CloseStream(0))
		before := w.processes[0].link.Count("append", "read")
		w.processes[0].link.SetScript(appendsBlock(make(chan struct{})))
		kit.AtOnce(t, "a resume", func() { call.Poll() })
		require.Equal(t, "200 sse primer@1 open", kit.Last(call))
		require.Equal(t, before, w.processes[0].link.Count("append", "read"))
		w.processes[0].link.SetScript(nil)
	})
}

// The engine has forgotten a stream that was begun and is empty, and its client comes back: the owner serves it.
func TestAResumeOfAnEmptyStreamThatWasForgotten(t *testing.T) {
	for name, start := range greeted {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := newWorld(t, options{policy: rejoin.Policy{StreamAfter: time.Millisecond}})
				call := start(w)
				require.Equal(t, "200 sse primer@0 open", kit.Last(call))
				call.Cut()
				w.engine.Forget()
				call.Poll()
				require.Equal(t, "200 sse primer@0 open", kit.Last(call))
				elapse(lease)
				w.kill(0)
				w.use(1)
				call.Poll()
				if name == "request" {
					require.Equal(t, fmt.Sprintf("200 sse primer@0 0~:error(-32000,%s) owner_lost closed", call.ID()), lastOf(call))
					return
				}
				require.Equal(t, "200 sse primer@0 open", kit.Last(call))
			})
		})
	}
}

// The events of a stream whose first append takes long: the head leaves after a second, without an id, and events have ids as soon as they are recorded.
func TestTheFirstEventTakesLong(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, h := newWatchedWorld(t, options{config: func(c *rejoin.Config) { c.StoreTimeout = 10 * time.Second }})
		call := w.CallTool("x", nil)
		tool := w.processes[0].next()
		block := make(chan struct{})
		w.processes[0].link.SetScript(appendsBlock(block))
		go func() { _ = tool.Progress(1, 0, "") }()
		elapse(900 * time.Millisecond)
		require.Equal(t, "open", kit.Last(call))
		elapse(200 * time.Millisecond)
		require.Equal(t, "200 sse comment open", kit.Last(call))
		require.ErrorIs(t, tool.CloseStream(0), rejoin.ErrNotResumable)
		close(block)
		elapse(time.Second)
		require.Equal(t, "200 sse comment primer@0 1:progress open", kit.Last(call))
		require.NoError(t, tool.CloseStream(0))
		call.Poll()
		requireRecorded(t, h, call, 1)
		requireGoesOn(t, w, call, tool, 1)
	})
}

// The client of a stream that is not known yet is cut off. It cannot come back: it has no id. The call runs on, and nothing is left.
func TestAClientIsCutOffBeforeItsPrimer(t *testing.T) {
	for _, after := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} {
		kit.Bubble(t, func(t *testing.T) {
			w := newWorld(t, options{policy: rejoin.Policy{StreamAfter: time.Millisecond}, config: func(c *rejoin.Config) { c.StoreTimeout = 10 * time.Second }})
			resting := len(kit.Goroutines())
			call := w.CallTool("x", nil)
			tool := w.processes[0].next()
			block := make(chan struct{})
			w.processes[0].link.SetScript(appendsBlock(block))
			elapse(after)
			call.Cut()
			require.NoError(t, tool.Cause())
			close(block)
			elapse(time.Second)
			require.Empty(t, call.IDs())
			tool.Returns("done")
			elapse(time.Second)
			kit.RequireRested(t, resting)
			w.Delete()
		})
	}
}
