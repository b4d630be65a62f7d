package store_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// losses are the ways in which a database can have lost a stream that had two events.
var losses = map[string]struct {
	keep uint64
	gone bool
}{
	"all of it": {0, false}, "the last event": {1, false}, "and says that it was dropped": {0, true},
}

// lossyWorld is a client of a server whose store can lose data.
type lossyWorld struct {
	*rejointest.Client
	store *kit.LossyStore
	next  func() *kit.ManualTool
	log   *kit.Log
}

func newLossyWorld(t *testing.T, policy rejoin.Policy) *lossyWorld {
	t.Helper()
	w := &lossyWorld{store: kit.NewLossyStore(), log: &kit.Log{}}
	app, next := kit.ManualTools()
	w.next = next
	w.Client = rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{
		Store: w.store, KeepAlive: -1, Policy: policy, Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	}})
	return w
}

// callWithTwoEvents starts a call whose client has read two events.
func (w *lossyWorld) callWithTwoEvents(t *testing.T) (*rejointest.Call, *kit.ManualTool) {
	t.Helper()
	call := w.CallTool("x", nil)
	tool := w.next()
	require.NoError(t, tool.Progress(0, 0, ""))
	require.NoError(t, tool.Progress(1, 0, ""))
	synctest.Wait()
	return call, tool
}

// told checks that a loss was logged, once for the stream, and counted.
func (w *lossyWorld) told(t *testing.T) {
	t.Helper()
	require.Equal(t, 1, w.log.Count("has lost events of a stream"))
	require.Positive(t, w.Server().Stats().StoreFailed)
}

// A client that has read everything misses nothing when the store loses it: the stream goes on, without ids, and the response comes.
func TestLostDataThatWasRead(t *testing.T) {
	for name, loss := range losses {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := newLossyWorld(t, rejoin.Policy{})
				call, tool := w.callWithTwoEvents(t)
				w.store.Lose(loss.keep, loss.gone)
				require.NoError(t, tool.Progress(2, 0, ""))
				require.ErrorIs(t, tool.CloseStream(0), rejoin.ErrNotResumable)
				tool.Returns("done")
				require.Equal(t, "200 sse primer@0 1:progress 2:progress -:progress -:result closed", kit.Last(call))
				require.Equal(t, `"done"`, string(call.Result()))
				w.told(t)
			})
		})
	}
}

// The loss is noticed only at the response: the client gets it, and never a clean end without it.
func TestLostDataBeforeTheResponse(t *testing.T) {
	for name, loss := range losses {
		for _, away := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", away), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w := newLossyWorld(t, rejoin.Policy{})
					call, tool := w.callWithTwoEvents(t)
					if away {
						call.Cut()
					}
					w.store.Lose(loss.keep, loss.gone)
					tool.Returns("done")
					if away {
						call.Poll()
						require.Equal(t, "200 sse primer@2 -:result closed", kit.Last(call))
					} else {
						require.Equal(t, "200 sse primer@0 1:progress 2:progress -:result closed", kit.Last(call))
					}
					require.Equal(t, `"done"`, string(call.Result()))
					w.told(t)
				})
			})
		}
	}
}

// If the store lost events before they were read, the client gets an error for its request, in each phase of its stream. The call and the session go
// on, and no poll gets 204.
func TestLostDataThatWasNotRead(t *testing.T) {
	for name, loss := range losses {
		for _, phase := range []string{"running", "went on", "sealed"} {
			t.Run(name+", "+phase, func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w := newLossyWorld(t, rejoin.Policy{})
					call := w.CallTool("x", nil)
					tool := w.next()
					require.NoError(t, tool.CloseStream(0))
					call.WaitClosed()
					require.NoError(t, tool.Progress(0, 0, ""))
					require.NoError(t, tool.Progress(1, 0, ""))
					if phase == "sealed" {
						tool.Returns("done")
					}
					w.store.Lose(loss.keep, loss.gone)
					if phase == "went on" {
						require.NoError(t, tool.Progress(2, 0, ""))
					}
					call.Poll()
					want := "200 sse primer@0 1:error(-32603,2) store closed"
					if loss.keep == 1 {
						want = "200 sse primer@0 1:progress 2:error(-32603,2) store closed"
					}
					require.Equal(t, want, kit.Last(call))
					w.told(t)
					if phase != "sealed" {
						require.NoError(t, tool.Cause(), "the call goes on")
						require.NoError(t, tool.Progress(3, 0, ""))
						tool.Returns("done")
					}
					other := w.CallTool("x", nil)
					w.next().Returns("fine")
					require.Equal(t, `"fine"`, string(other.Result()), "and so does the session")
				})
			})
		}
	}
}

// The standalone stream skips what was lost, the log says so, and the stream goes on.
func TestLostDataOfTheStandaloneStream(t *testing.T) {
	for name, loss := range losses {
		for _, on := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", on), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w := newLossyWorld(t, rejoin.Policy{})
					w.CallTool("x", nil)
					s := w.next().Session()
					tell := func() { require.NoError(t, s.Notify(context.Background(), "notifications/x", nil)); synctest.Wait() }
					listen := w.Listen()
					listen.Cut()
					tell()
					tell()
					w.store.Lose(loss.keep, loss.gone)
					if on {
						tell()
					}
					listen.Poll()
					tell()
					want := "200 sse primer@0"
					if loss.keep == 1 {
						want += " 1:x"
					}
					want += strings.Repeat(" -:x", map[bool]int{false: 1, true: 2}[on]) + " open"
					require.Equal(t, want, kit.Last(listen))
					w.told(t)
					require.Positive(t, w.Server().Stats().Expired)
					require.Equal(t, 1, w.log.Count("were dropped before its client came back"))
				})
			})
		}
	}
}

// If a loss happens at the same time as an append, a read, a close or a resume, every client still gets an end.
func TestLostDataCrosses(t *testing.T) {
	for seed := range 30 {
		kit.Bubble(t, func(t *testing.T) {
			w := newLossyWorld(t, rejoin.Policy{CloseAfter: 40 * time.Millisecond, Retry: 3 * time.Millisecond})
			var calls []*rejointest.Call
			var tools []*kit.ManualTool
			for range 8 {
				calls = append(calls, w.CallTool("x", nil))
				tools = append(tools, w.next())
			}
			time.AfterFunc(time.Duration(seed)*2*time.Millisecond, func() { w.store.Lose(uint64(seed%4), seed%3 == 0) })
			for i, tool := range tools {
				go func() {
					for k := range 10 {
						_ = tool.Progress(float64(k), 0, "")
						kit.Elapse(time.Duration(5+i) * time.Millisecond)
					}
					select {
					case tool.Answer <- "done":
					case <-tool.Ctx.Done(): // the client was told, and the server has ended the call
					}
				}()
			}
			for _, call := range calls {
				for {
					kit.Elapse(5 * time.Millisecond)
					synctest.Wait()
					last := kit.Last(call)
					if !strings.HasSuffix(last, " closed") {
						continue
					}
					if strings.Contains(last, "result") || strings.Contains(last, "error") {
						break
					}
					require.Contains(t, last, "retry", "a clean end without an answer")
					call.Poll()
					require.NotEqual(t, 204, call.Status())
				}
			}
		})
	}
}
