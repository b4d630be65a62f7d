package cluster_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

const (
	maxRetry = 1200 * time.Millisecond // 1 s and its jitter
	// inTime is how long a client waits at most for the result or the error of a call that it can resume, after the owner was lost.
	inTime = 2*lease + maxRetry + 5*time.Second
)

// ends are the ways in which an owner is lost. In the last one its clients and the other processes still reach it.
var ends = map[string]func(w *world, o options){
	"it dies": func(w *world, _ options) { dies(w) },
	"it is stopped": func(w *world, _ options) {
		w.processes[0].link.SetLink(clustertest.Silent)
		w.net.Hang("0", true)
	},
	"it is cut off from the engine": func(w *world, _ options) { w.processes[0].link.SetLink(clustertest.Refused) },
	"another one starts in its place": func(w *world, o options) {
		dies(w)
		w.addAt(o, "http://0")
	},
}

// heirs are the processes that the client reaches afterwards.
var heirs = map[string]func(t *testing.T, w *world, o options) int{
	"one that knew the owner":       func(*testing.T, *world, options) int { return 1 },
	"one that was never asked":      func(*testing.T, *world, options) int { return 2 },
	"one that starts after the end": func(_ *testing.T, w *world, o options) int { w.add(o); return len(w.processes) - 1 },
}

// A call that its client can resume ends within two leases, a retry and the time for App.Open after the owner was lost, whichever way it was lost,
// whenever that is between two renewals, and whichever process the client comes to. App.Open may take 5 s, or fail once.
func TestACallOfALostOwnerEndsInTime(t *testing.T) {
	for how, lose := range ends {
		for who, heir := range heirs {
			for _, opens := range []string{"at once", "takes long", "fails at first"} {
				t.Run(fmt.Sprintf("%s, %s, App.Open %s", how, who, opens), func(t *testing.T) {
					for at, when := range []time.Duration{0, 2900 * time.Millisecond} { // the process that the client is connected to; after a renewal
						kit.Bubble(t, func(t *testing.T) { endsInTime(t, lose, heir, opens, when, at) })
					}
				})
			}
		}
	}
}

func endsInTime(t *testing.T, lose func(*world, options), heir func(*testing.T, *world, options) int, opens string, when time.Duration, at int) {
	t.Helper()
	o := options{}
	var opened atomic.Int32
	of := watch(&o)
	app := o.app
	o.app = func(n int) (rejoin.App, func() *kit.ManualTool) {
		a, next := app(n)
		a.(*watched).opens(func(_ *http.Request, _ *rejoin.Session, _ []byte) error {
			if opened.Add(1) != 2 || opens == "at once" { // the first is that of the owner
				return nil
			}
			if opens == "fails at first" {
				return errOpen
			}
			kit.Elapse(4900 * time.Millisecond)
			return nil
		})
		return a, next
	}
	w := newWorld(t, o)
	w.add(o)
	w.use(at)
	var calls []*rejointest.Call
	for range 2 {
		call := w.CallTool("x", nil)
		require.NoError(t, w.processes[0].next().Progress(1, 0, ""))
		call.WaitMessages(1)
		calls = append(calls, call)
	}
	listen := w.Listen()
	knows(t, w, 1)
	elapse(time.Minute + when)
	lose(w, o)
	began := time.Now()
	n := heir(t, w, o)
	if at == 0 { // the connections of its clients break
		for _, call := range append(calls, listen) {
			call.Cut()
		}
	}
	w.use(n)
	follow(append(calls, listen), func() bool {
		return time.Since(began) > inTime || isOver(calls[0]) && isOver(calls[1]) && listen.Open() == 1 && w.processes[n].Stats().Adopted > 0
	})
	require.LessOrEqual(t, time.Since(began), inTime, listen)
	for _, call := range calls {
		require.Contains(t, kit.Last(call), "owner_lost closed")
		require.Equal(t, rejoin.ReasonOwnerLost, call.Err().Reason())
		require.Equal(t, kit.UpTo(2)[1:], kit.Progress(t, call.Messages()))
	}
	require.NoError(t, of(n).last().s.Notify(t.Context(), "notifications/a", nil))
	require.Len(t, listen.Messages(), 1, "it is read at the adopter")
	require.Equal(t, served, w.ping(t, n, w.session()))
}

// follow polls for calls as their clients do, each after the longest retry, until that is enough.
func follow(calls []*rejointest.Call, enough func() bool) {
	const step = 200 * time.Millisecond
	since := make([]time.Duration, len(calls)) // it has no connection
	for ; !enough(); elapse(step) {
		for i, call := range calls {
			switch since[i] += step; {
			case call.Open() > 0:
				since[i] = 0
			case since[i] > maxRetry && !isOver(call):
				call.Poll()
			}
		}
	}
}

func isOver(call *rejointest.Call) bool {
	return call.Open() == 0 && strings.Contains(kit.Last(call), "owner_lost")
}

// Streams that come through another process end when that knows the owner to be dead, though the owner answers: what happens from then on does not come
// through it. Its calls go on, and their answers in plain JSON arrive.
func TestStreamsOfADeadOwnerThatAnswers(t *testing.T) {
	for version, ended := range map[string]string{kit.Polling: "200 sse primer@0 retry closed", kit.Legacy: "200 sse comment closed"} {
		kit.Bubble(t, func(t *testing.T) {
			w, owner, front := newForwarded(t, options{version: version, policy: rejoin.Policy{Mode: rejoin.ModeJSON}})
			call, listen := w.CallTool("x", nil), w.Listen()
			tool := owner.next()
			owner.link.SetLink(clustertest.Refused)
			began := time.Now()
			for listen.Open() > 0 && time.Since(began) < 3*lease {
				elapse(100 * time.Millisecond)
			}
			require.Equal(t, ended, kit.Last(listen))
			require.Greater(t, time.Since(began), lease)
			require.LessOrEqual(t, time.Since(began), 2*lease)
			require.EqualValues(t, 1, front.Stats().OwnerLost)
			require.NoError(t, tool.Cause())
			tool.Returns("done")
			require.Equal(t, "200 result answered", kit.Last(call))
		})
	}
}
