package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// An engine that is away for longer than a lease expires every lease at once. No call of an owner that lives is lost for that, in whichever order the
// processes reach the engine again, and though clients ask all of them, all the time.
func TestAnEngineThatIsAwayForLongerThanALeaseKillsNoCall(t *testing.T) {
	for _, link := range links {
		for _, first := range []int{0, 1, 2} { // the process that reaches the engine first
			for _, apart := range []time.Duration{0, lease / 3, lease * 9 / 10} {
				t.Run(fmt.Sprintf("%v, process %d is back first, the others %v later", link, first, apart), func(t *testing.T) {
					kit.Bubble(t, func(t *testing.T) { outlive(t, link, first, apart) })
				})
			}
		}
	}
}

func outlive(t *testing.T, link clustertest.Link, first int, apart time.Duration) {
	t.Helper()
	o := options{cluster: func(c *rejoin.Cluster) { c.Outage = time.Hour }}
	of := watch(&o)
	w := newWorld(t, o)
	w.add(o)
	parked, parkedTool := w.run(t, 1)
	streaming := w.CallTool("x", nil)
	streamingTool := w.processes[0].next()
	quick := w.CallTool("x", nil)
	quickTool := w.processes[0].next()
	knows(t, w, 1) // the second process knows where the session is, and the third does not
	w.away(link)
	ask := func(d time.Duration) {
		t.Helper()
		for began := time.Now(); time.Since(began) < d; elapse(500 * time.Millisecond) {
			for n := range w.processes {
				for _, v := range verbs[:4] {
					res := w.ask(t, n, v.method, w.session(), v.body, "Mcp-Protocol-Version", kit.Polling)
					asked := time.Now()
					for res.Summary() == "open" {
						elapse(100 * time.Millisecond)
						require.LessOrEqual(t, time.Since(asked), lease, "process %d, %s", n, v.name)
					}
					require.NotRegexp(t, "^4|owner_lost", res.Summary(), "process %d, %s", n, v.name)
				}
			}
		}
	}
	ask(3 * lease)
	require.NoError(t, streamingTool.Progress(2, 0, ""))
	require.NoError(t, parkedTool.Progress(2, 0, ""))
	w.processes[first].link.SetLink(clustertest.Up)
	ask(apart)
	w.away(clustertest.Up)
	ask(lease / 3)
	for n := range w.processes {
		require.Equal(t, served, w.ping(t, n, w.session()), "process %d, a third of a lease after the engine is back", n)
	}
	ask(2 * lease)
	for _, tool := range []*kit.ManualTool{parkedTool, streamingTool, quickTool} {
		require.NoError(t, tool.Cause())
		tool.Returns("done")
	}
	for _, call := range []*rejointest.Call{parked, streaming, quick} {
		require.Equal(t, `"done"`, string(call.Result()))
	}
	require.Equal(t, kit.UpTo(3)[1:], kit.Progress(t, parked.Messages()))
	for n, p := range w.processes {
		require.Zero(t, p.Stats().Adopted+p.Stats().Moved, "process %d", n)
	}
	require.Empty(t, of(0).causes())
	require.Equal(t, 1, of(0).times()+of(1).times()+of(2).times())
}

// An engine that comes back empty, after it was away for longer than a lease, ends no session: 404 is never the answer, and two leases later at most all
// is as it was.
func TestAnEngineThatComesBackEmptyEndsNoSession(t *testing.T) {
	for _, first := range []int{0, 1, 2} {
		for _, away := range []time.Duration{0, 3 * lease} {
			t.Run(fmt.Sprintf("away for %v, process %d is back first", away, first), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) { comesBackEmpty(t, first, away) })
			})
		}
	}
}

func comesBackEmpty(t *testing.T, first int, away time.Duration) {
	t.Helper()
	o := options{}
	of := watch(&o)
	w := newWorld(t, o)
	w.add(o)
	call, tool := w.run(t, 2)
	idle := w.open(t, 2)
	elapse(3 * lease)
	w.away(clustertest.Silent)
	elapse(away)
	w.engine.Forget()
	w.processes[first].link.SetLink(clustertest.Up)
	ask := func(d time.Duration) {
		t.Helper()
		for began := time.Now(); time.Since(began) < d; elapse(400 * time.Millisecond) {
			for n := range w.processes {
				for _, id := range []string{w.session(), idle} {
					for _, v := range verbs[:4] {
						res := w.ask(t, n, v.method, id, v.body, "Mcp-Protocol-Version", kit.Polling)
						for res.Summary() == "open" {
							elapse(100 * time.Millisecond)
						}
						require.NotRegexp(t, "^4|owner_lost", res.Summary(), "process %d, %s", n, v.name)
					}
				}
			}
		}
	}
	ask(lease / 2)
	w.away(clustertest.Up)
	ask(lease * 2)
	for n := range w.processes {
		require.Equal(t, served, w.ping(t, n, w.session()))
		require.Equal(t, served, w.ping(t, n, idle))
		require.Equal(t, gone, w.ping(t, n, nobody), "two leases later it is sure again")
	}
	tool.Returns("done")
	require.Equal(t, `"done"`, string(call.Result()))
	for n, p := range w.processes {
		require.Zero(t, p.Stats().Adopted+p.Stats().Moved, "process %d", n)
		require.Empty(t, of(n).causes())
	}
}

// old is an engine that says that it has lost nothing for an hour, as one does in whose place another was put.
type old struct{ cluster.Directory }

func (o old) Find(ctx context.Context, session string, by cluster.Process) (cluster.Found, error) {
	found, err := o.Directory.Find(ctx, session, by)
	found.Age = time.Hour
	return found, err
}

// A count that is lower than what was written, or missing, is enough: no session is unknown then.
func TestALowerCountSaysThatTheEngineWentBack(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		w.add(options{cluster: func(c *rejoin.Cluster) { c.Directory = old{w.engine} }})
		elapse(3 * lease)
		require.Equal(t, gone, w.ping(t, 2, nobody))
		w.engine.Forget()
		require.Equal(t, later, w.ping(t, 2, nobody))
		require.Equal(t, later, w.ping(t, 2, w.session()))
		elapse(lease / 3)
		require.Equal(t, later, w.ping(t, 2, nobody), "for a lease after it has noticed")
		require.Equal(t, served, w.ping(t, 2, w.session()))
		elapse(lease)
		require.Equal(t, gone, w.ping(t, 2, nobody))
	})
}

// A process serves its sessions until its lease has run out, and not a moment longer, though no renewal has failed yet: it looks at the clock.
func TestALeaseEndsByTheClock(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		var renewed atomic.Value // when the last renewal that succeeds has begun
		var hangs atomic.Bool
		first.link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
			switch {
			case c.Op == "renew" && hangs.Load():
				f.Delay = time.Hour
			case c.Op == "renew":
				renewed.Store(time.Now())
			}
			return f
		})
		elapse(lease + time.Second)
		hangs.Store(true)
		elapse(time.Until(renewed.Load().(time.Time).Add(lease - time.Millisecond)))
		require.Equal(t, served, w.ping(t, 0, w.session()))
		elapse(time.Millisecond)
		require.Equal(t, later, w.ping(t, 0, w.session()))
		_, refused := kit.Open(t, first.Server)
		require.Equal(t, later, refused)
	})
}

// What the client sends back of a held stream means that it has no cursor, at every process: now and when the session is served again.
func TestWhatAHeldStreamHasGivenIsNoCursor(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		w.add(o)
		dies(w)
		header := []string{"Mcp-Protocol-Version", kit.Polling}
		for range 3 {
			held := w.ask(t, 1, http.MethodGet, w.session(), "", header...)
			require.Equal(t, heldNew, withoutNonce.ReplaceAllString(held.Summary(), "(none.0.x)"))
			ids := kit.IDsIn(held)
			require.Len(t, ids, 1)
			header = []string{"Mcp-Protocol-Version", kit.Polling, "Last-Event-ID", ids[0]}
		}
		elapse(2 * lease)
		get := w.ask(t, 2, http.MethodGet, w.session(), "", header...)
		require.Equal(t, "200 sse primer@0 open", get.Summary())
		of(2).send(t, "a")
		require.Equal(t, "200 sse primer@0 1:a open", get.Summary())
		require.False(t, strings.HasPrefix(kit.IDsIn(get)[0], "none"))
	})
}

// initialize is refused while the engine is away: at once, or when one operation has timed out, and whether the lease still lasts or not.
func TestInitializeWhileTheEngineIsAway(t *testing.T) {
	for _, link := range links {
		for _, since := range []time.Duration{0, lease - time.Second, 3 * lease} {
			kit.Bubble(t, func(t *testing.T) {
				w := newWorld(t, options{})
				first := w.processes[0]
				first.link.SetLink(link)
				elapse(since)
				before := first.Stats().Sessions
				began := time.Now()
				res := kit.Serve(first.Server, kit.Request(t, http.MethodPost, kit.Initialize))
				for res.Summary() == "open" && time.Since(began) < lease {
					elapse(10 * time.Millisecond)
				}
				require.Equal(t, later, res.Summary())
				require.Equal(t, "1", res.Head.Get("Retry-After"))
				require.LessOrEqual(t, time.Since(began), storeTimeout)
				require.Equal(t, before, first.Stats().Sessions)
				first.link.SetLink(clustertest.Up)
				elapse(lease / 3)
				w.open(t, 0)
			})
		}
	}
}
