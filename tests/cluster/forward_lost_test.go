package cluster_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// losses are the ways in which a process loses an owner to which it has forwarded a request. The owner reaches the engine in all of them but the first, so
// for the cluster it is alive.
var losses = map[string]func(w *world){
	"it dies": func(w *world) {
		w.processes[0].link.SetLink(clustertest.Refused)
		w.net.Refuse("0", true)
		w.net.Reset("0")
	},
	"its connections break, and it cannot be reached": func(w *world) {
		w.net.Refuse("0", true)
		w.net.Reset("0")
	},
	"it hangs": func(w *world) {
		w.net.Hang("0", true)
	},
	"another process starts at its address": func(w *world) {
		w.net.Reset("0")
		w.addAt(options{}, "http://0")
	},
}

// lostExchanges are requests whose owner is lost while it works on them, and what their client gets.
var lostExchanges = map[string]struct {
	version string
	policy  rejoin.Policy
	begin   func(t *testing.T, w *world) *rejointest.Call
	want    string
}{
	"a call without a head": {
		policy: rejoin.Policy{Mode: rejoin.ModeJSON}, want: "200 error(-32000,2) owner_lost answered",
		begin: func(_ *testing.T, w *world) *rejointest.Call { return w.CallTool("x", nil) },
	},
	"a call without a head, of a client that cannot poll": {
		version: kit.Legacy, policy: rejoin.Policy{Mode: rejoin.ModeJSON}, want: "200 error(-32000,2) owner_lost answered",
		begin: func(_ *testing.T, w *world) *rejointest.Call { return w.CallTool("x", nil) },
	},
	"a stream": {want: "200 sse primer@0 1:progress retry closed", begin: midStream},
	"a stream of a client that cannot poll": {
		version: kit.Legacy, want: "200 sse comment 1:progress -:error(-32000,2) owner_lost closed", begin: midStream,
	},
	"a stream that is resumed": {
		want: "200 sse primer@0 1:progress retry closed",
		begin: func(t *testing.T, w *world) *rejointest.Call {
			call := midStream(t, w)
			call.Cut()
			call.PollFrom(call.IDs()[0])
			return call
		},
	},
	"the standalone stream": {
		want:  "200 sse primer@0 retry closed",
		begin: func(_ *testing.T, w *world) *rejointest.Call { return w.Listen() },
	},
	"the standalone stream of a client that cannot poll": {
		version: kit.Legacy, want: "200 sse comment closed",
		begin: func(_ *testing.T, w *world) *rejointest.Call { return w.Listen() },
	},
}

func midStream(t *testing.T, w *world) *rejointest.Call {
	t.Helper()
	call := w.CallTool("x", nil)
	require.NoError(t, w.processes[0].next().Progress(1, 0, ""))
	call.WaitMessages(1)
	return call
}

// Whatever becomes of the owner of a session in the middle of a request that was forwarded to it, the client knows within a lease: with an answer
// after which it need not wait, or with a stream that ends between two events and says when to come back.
func TestAnOwnerIsLostInTheMiddle(t *testing.T) {
	for what, lose := range losses {
		for name, x := range lostExchanges {
			t.Run(what+", "+name, func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w, _, front := newForwarded(t, options{version: x.version, policy: x.policy})
					call := x.begin(t, w)
					elapse(time.Second)
					require.Equal(t, 1, call.Open())
					began := time.Now()
					lose(w)
					for call.Open() > 0 && time.Since(began) < 2*lease {
						elapse(10 * time.Millisecond)
					}
					require.Equal(t, x.want, kit.Last(call))
					require.LessOrEqual(t, time.Since(began), lease)
					require.EqualValues(t, 1, front.Stats().OwnerLost)
					require.Equal(t, 1, front.log.Count("was lost while it answered"))
				})
			})
		}
	}
}

// A client that was told to come back goes on where it was: once the session is adopted, or once the owner can be reached again.
func TestAClientComesBackAfterItsOwnerWasLost(t *testing.T) {
	for what, lose := range losses {
		t.Run(what, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w, owner, front := newForwarded(t, options{})
				call, listen := midStream(t, w), w.Listen()
				lose(w)
				elapse(lease) // both were told
				require.Equal(t, []int{0, 0}, []int{call.Open(), listen.Open()})
				alive := false
				switch what {
				case "it hangs":
					w.net.Hang("0", false)
					alive = true
				case "its connections break, and it cannot be reached":
					w.net.Refuse("0", false)
					alive = true
				}
				for began := time.Now(); time.Since(began) < lease+5*time.Second; elapse(500 * time.Millisecond) {
					for _, c := range []*rejointest.Call{call, listen} {
						if c.Open() == 0 && !strings.Contains(kit.Last(c), "error") {
							require.Equal(t, http.StatusOK, c.Status(), c)
							c.Poll()
						}
					}
				}
				require.Equal(t, 1, listen.Open(), listen)
				if alive {
					require.Equal(t, "200 sse primer@1 open", kit.Last(call))
					require.Zero(t, front.Stats().Adopted)
					require.EqualValues(t, 1, owner.Stats().Sessions)
					return
				}
				require.Equal(t, rejoin.ReasonOwnerLost, call.Err().Reason())
				require.EqualValues(t, 1, front.Stats().Adopted)
			})
		})
	}
}

// An owner that is silent for less than a lease is waited for, and a call that takes long is not silence.
func TestAnOwnerThatPausesLosesNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, front := newForwarded(t, options{policy: rejoin.Policy{Mode: rejoin.ModeJSON}})
		call := w.CallTool("x", nil)
		tool := owner.next()
		listen := w.Listen()
		for range 10 {
			elapse(2 * lease)
			w.net.Hang("0", true)
			elapse(lease / 5)
			w.net.Hang("0", false)
		}
		elapse(time.Hour)
		tool.Returns("done")
		require.Equal(t, "200 result answered", kit.Last(call))
		require.Equal(t, "200 sse primer@0 open", kit.Last(listen))
		require.Zero(t, front.Stats().OwnerLost)
	})
}

// Half an event must not end cleanly: some clients would take it for a whole one.
func TestAnOwnerIsLostInsideAnEvent(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, _ := newForwarded(t, options{})
		call := w.CallTool("x", nil)
		tool := owner.next()
		require.NoError(t, tool.Progress(1, 0, ""))
		call.WaitMessages(1)
		call.Freeze()
		require.NoError(t, tool.Progress(2, 0, strings.Repeat("x", 900<<10)))
		synctest.Wait()
		w.net.Refuse("0", true)
		w.net.Reset("0")
		call.Thaw()
		elapse(time.Second)
		require.Regexp(t, "broken$", kit.Last(call))
		w.net.Refuse("0", false)
		call.Poll()
		call.WaitMessages(2)
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// A request that has provably not arrived is sent again until it arrives or its client has waited for a lease. A tool runs once.
func TestARequestWaitsForAnOwnerThatCannotBeReached(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, front := newForwarded(t, options{})
		w.net.Refuse("0", true)
		w.net.Reset("0")
		call := w.CallTool("x", nil)
		elapse(lease / 2)
		require.Equal(t, "open", kit.Last(call))
		w.net.Refuse("0", false)
		owner.next().Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Len(t, kit.Summaries(call), 1)
		require.Zero(t, front.Stats().Unreachable)

		w.net.Refuse("0", true)
		w.net.Reset("0")
		began := time.Now()
		call = w.CallTool("x", nil)
		require.Equal(t, rejoin.ReasonUnreachable, call.Err().Reason())
		require.InDelta(t, lease, time.Since(began), float64(lease/4))
		require.Equal(t, "200 error(-32000,3) unreachable answered", kit.Last(call))
		require.Regexp(t, `^200 sse strange\(none\.0\.[0-9a-z]+\) retry closed$`, kit.Last(w.Listen()), "a GET does not wait")
		require.EqualValues(t, 2, front.Stats().Unreachable)
	})
}

// An owner that has died is replaced while a request waits for it: the request is served by its own process then, and no client needs to act.
func TestARequestWaitsForAnAdoption(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, _, front := newForwarded(t, options{})
		losses["it dies"](w)
		elapse(lease)
		for _, v := range []string{"a", "b"} {
			call := w.CallTool(v, nil)
			front.next().Returns("done")
			require.Equal(t, `"done"`, string(call.Result()))
		}
		require.EqualValues(t, 1, front.Stats().Adopted)
	})
}

// Many streams of an owner that is lost are one incident, and not as many lines in the log.
func TestALostOwnerDoesNotFloodTheLog(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, _, front := newForwarded(t, options{})
		for range 200 {
			w.ask(t, 1, http.MethodGet, w.open(t, 0), "", "Mcp-Protocol-Version", kit.Polling)
		}
		w.net.Refuse("0", true)
		w.net.Reset("0")
		elapse(time.Second)
		require.EqualValues(t, 200, front.Stats().OwnerLost)
		require.LessOrEqual(t, front.log.Count("lost while"), 20)
		require.NotZero(t, front.log.Count("lost while"))
	})
}

// An owner that can be reached again just before its client has waited for a lease, and hangs: the client does not wait for one more.
func TestAnOwnerThatHangsWhenItIsReachedAtLast(t *testing.T) {
	for _, refused := range []time.Duration{lease / 5, lease / 2, lease * 9 / 10} {
		kit.Bubble(t, func(t *testing.T) {
			w, _, _ := newForwarded(t, options{policy: rejoin.Policy{Mode: rejoin.ModeJSON}})
			w.net.Refuse("0", true)
			w.net.Reset("0")
			began := time.Now()
			call := w.CallTool("x", nil)
			elapse(refused)
			w.net.Refuse("0", false)
			w.net.Hang("0", true)
			require.NotEmpty(t, call.Err().Reason())
			require.LessOrEqual(t, time.Since(began), lease, "%v", refused)
			w.net.Hang("0", false)
		})
	}
}
