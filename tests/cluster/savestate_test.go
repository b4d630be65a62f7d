package cluster_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// opOrder notes the operations of a link, in their order.
type opOrder struct {
	mu  sync.Mutex
	ops []string
}

func (o *opOrder) script(c clustertest.Call) clustertest.Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.Op != "renew" {
		o.ops = append(o.ops, c.Op)
	}
	return clustertest.Fault{Delay: 10 * time.Millisecond}
}

func (o *opOrder) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.ops...)
}

// A state that was saved before the response is in the directory before the response, for a plain answer and for a stream.
func TestAResponseWaitsForTheState(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		t.Run(fmt.Sprintf("streamed=%v", streamed), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, h := newWatchedWorld(t, options{})
				first := w.processes[0]
				startedCall(t, w) // so that the key is known
				call := w.CallTool("x", nil)
				tool := first.next()
				if streamed {
					require.NoError(t, tool.Progress(1, 0, ""))
					synctest.Wait()
				}
				var o opOrder
				first.link.SetScript(o.script)
				kit.AtOnce(t, "SaveState", func() { require.NoError(t, tool.Session().SaveState([]byte("s"))) })
				before := len(call.Messages())
				go func() { tool.Answer <- "done" }()
				synctest.Wait()
				require.Equal(t, []string{"save"}, o.all())
				require.Empty(t, h.record().State)
				require.Len(t, call.Messages(), before, "no response yet")
				require.JSONEq(t, `"done"`, string(call.Result()))
				require.Equal(t, "s", string(h.record().State))
				want := []string{"save"}
				if streamed {
					want = append(want, "append")
				}
				require.Equal(t, want, o.all())
				elapse(time.Second)
				require.Equal(t, want, o.all(), "not twice")
			})
		})
	}
}

// A state that cannot be saved fails the call, after StoreTimeout at the latest. It is written later.
func TestAStateThatCannotBeSaved(t *testing.T) {
	for _, link := range links {
		t.Run(fmt.Sprint(link), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, h := newWatchedWorld(t, options{policy: rejoin.Policy{StreamAfter: 10 * time.Second}}) // else the error is an event
				first := w.processes[0]
				startedCall(t, w)
				call := w.CallTool("x", nil)
				tool := first.next()
				first.link.SetLink(link)
				require.NoError(t, tool.Session().SaveState([]byte("s")))
				began := time.Now()
				tool.Returns("done")
				e := call.Err()
				require.LessOrEqual(t, time.Since(began), time.Second, "StoreTimeout")
				require.Equal(t, rejoin.CodeInternal, e.Code)
				require.JSONEq(t, `{"reason":"store"}`, string(e.Data))
				require.Equal(t, 200, call.Status())
				elapse(2 * time.Second)
				first.link.SetLink(clustertest.Up)
				elapse(5 * time.Second)
				require.Equal(t, "s", string(h.record().State), "later")
				saves := first.link.Count("save")
				elapse(time.Minute)
				require.Equal(t, saves, first.link.Count("save"), "and not again")
				other := w.CallTool("x", nil)
				first.next().Returns("done")
				require.JSONEq(t, `"done"`, string(other.Result()))
			})
		})
	}
}

// Many changes cost few writes: those without a response are written soon, together; those that come during a write are in the next one.
func TestManyChangesCostFewWrites(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, h := newWatchedWorld(t, options{})
		first := w.processes[0]
		_, tool := startedCall(t, w)
		before := first.link.Count("save")
		for i := range 1000 {
			require.NoError(t, tool.Session().SaveState(fmt.Append(nil, i)))
		}
		require.Empty(t, h.record().State)
		elapse(200 * time.Millisecond)
		require.Equal(t, "999", string(h.record().State))
		require.Equal(t, before+1, first.link.Count("save"))
		first.link.SetScript(func(clustertest.Call) clustertest.Fault { return clustertest.Fault{Delay: 50 * time.Millisecond} })
		for i := range 1000 { // for a second
			require.NoError(t, tool.Session().SaveState(fmt.Append(nil, 1000+i)))
			kit.Elapse(time.Millisecond)
		}
		elapse(time.Second)
		require.Equal(t, "1999", string(h.record().State))
		require.LessOrEqual(t, first.link.Count("save")-before, 11)
		before = roundTrips(first)
		elapse(2 * time.Second)
		call := w.CallTool("x", nil)
		first.next().Returns("done")
		call.Result()
		require.Equal(t, before, roundTrips(first), "nothing has changed, so nothing is written")
	})
}

// roundTrips is how many operations a process has called, without those of its lease.
func roundTrips(p *process) int { return p.link.Count() - p.link.Count("renew", "join") }

// The engine has lost the record: the whole record is written instead of the state.
func TestAStateOfARecordThatIsLost(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, h := newWatchedWorld(t, options{})
		first := w.processes[0]
		startedCall(t, w)
		call := w.CallTool("x", nil)
		tool := first.next()
		w.engine.Forget()
		var o opOrder
		first.link.SetScript(o.script)
		require.NoError(t, tool.Session().SaveState([]byte("s")))
		tool.Returns("done")
		require.JSONEq(t, `"done"`, string(call.Result()))
		require.Equal(t, []string{"save", "put"}, o.all())
		require.Equal(t, "s", string(h.record().State))
		require.NotEmpty(t, h.record().About)
	})
}

// Another process has adopted the session: its owner finds out when it saves, and the client is told to come back.
func TestAStateOfASessionThatHasMoved(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, h := newWatchedWorld(t, options{})
		first := w.processes[0]
		_, running := startedCall(t, w)
		call := w.CallTool("x", nil)
		tool := first.next()
		require.NoError(t, tool.Progress(1, 0, ""))
		synctest.Wait()
		r := h.record()
		_, _, err := w.engine.Adopt(t.Context(), r.Session, r.Fence, another, time.Hour)
		require.NoError(t, err)
		require.NoError(t, tool.Session().SaveState([]byte("s")))
		elapse(time.Second)
		for _, p := range []*kit.ManualTool{tool, running} {
			require.ErrorIs(t, p.Cause(), rejoin.ErrMoved)
		}
		require.ErrorIs(t, tool.Session().SaveState([]byte("t")), rejoin.ErrSessionEnded)
		require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Last(call))
		require.Empty(t, h.record().State, "nothing of a fenced owner is recorded")
	})
}

// Two responses at once, with one state: both wait for it. The state's function is called from several goroutines.
func TestAStateFunctionIsCalledConcurrently(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, h := newWatchedWorld(t, options{})
		first := w.processes[0]
		_, tool := startedCall(t, w)
		var calls atomic.Int64
		state := func() []byte {
			calls.Add(1)
			return []byte("from a function")
		}
		require.NoError(t, tool.Session().SaveStateFunc(state))
		var wait sync.WaitGroup
		for range 20 {
			call := w.CallTool("x", nil)
			other := first.next()
			wait.Go(func() {
				_ = other.Session().SaveStateFunc(state)
				_ = other.Session().SavedState()
				other.Answer <- "done"
			})
			wait.Go(func() { w.engine.Forget() })
			_ = call
		}
		wait.Wait()
		elapse(lease)
		require.Equal(t, "from a function", string(h.record().State))
		require.Positive(t, calls.Load())
	})
}

// A state that is being written when the session ends does not bring the record back.
func TestAStateThatIsWrittenAtTheEnd(t *testing.T) {
	for _, op := range []string{"save", "put"} {
		t.Run(op, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, h := newWatchedWorld(t, options{})
				first := w.processes[0]
				_, tool := startedCall(t, w)
				key := h.record().Session
				if op == "put" {
					w.engine.Forget()
				}
				first.link.SetScript(func(c clustertest.Call) clustertest.Fault {
					if c.Op == op {
						return clustertest.Fault{Delay: 900 * time.Millisecond, After: errors.New("lost")}
					}
					return clustertest.Fault{}
				})
				require.NoError(t, tool.Session().SaveState([]byte("s")))
				elapse(300 * time.Millisecond)
				tool.Session().End(nil)
				elapse(5 * time.Second)
				_, err := w.engine.Find(t.Context(), key, cluster.Process{})
				require.ErrorIs(t, err, cluster.ErrEnded)
			})
		})
	}
}
