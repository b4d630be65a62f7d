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
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// An event waits while the engine is away. It leaves when the engine is back, with its id.
func TestEventsWaitForAnEngineThatIsAway(t *testing.T) {
	for _, link := range []clustertest.Link{clustertest.Refused, clustertest.Silent, clustertest.Deaf} {
		t.Run(fmt.Sprint(link), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := newWorld(t, options{})
				first := w.processes[0]
				call := w.CallTool("x", nil)
				tool := first.next()
				require.NoError(t, tool.Progress(1, 0, ""))
				synctest.Wait()
				first.link.SetLink(link)
				began := time.Now()
				require.NoError(t, tool.Progress(2, 0, ""))
				require.LessOrEqual(t, time.Since(began), time.Second, "a tool waits for one attempt at most (StoreTimeout)")
				kit.AtOnce(t, "the next event waits behind that one", func() { require.NoError(t, tool.Progress(3, 0, "")) })
				elapse(8 * time.Second)
				require.Equal(t, "200 sse primer@0 1:progress open", kit.Last(call), "unsent")
				first.link.SetLink(clustertest.Up)
				elapse(3 * time.Second)
				require.Equal(t, "200 sse primer@0 1:progress 2:progress 3:progress open", kit.Last(call))
				tool.Returns("done")
				require.Equal(t, `"done"`, string(call.Result()))
			})
		})
	}
}

// After Outage an event is delivered without an id. When the engine is back, the next ones have ids again, and what left without one is not lost.
func TestAfterAnOutageEventsHaveIDsAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{cluster: func(c *rejoin.Cluster) { c.Outage = 2 * time.Second }})
		first := w.processes[0]
		call := w.CallTool("x", nil)
		tool := first.next()
		require.NoError(t, tool.Progress(1, 0, ""))
		synctest.Wait()
		first.link.SetLink(clustertest.Refused)
		require.NoError(t, tool.Progress(2, 0, ""))
		elapse(4 * time.Second)
		require.Equal(t, "200 sse primer@0 1:progress -:progress open", kit.Last(call))
		require.ErrorIs(t, tool.CloseStream(0), rejoin.ErrNotResumable, "the client could not come back to another process")
		first.link.SetLink(clustertest.Up)
		elapse(lease)
		require.Equal(t, "200 sse primer@0 1:progress -:progress primer@2 open", kit.Last(call), "it is told where it is")
		require.NoError(t, tool.CloseStream(0))
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Len(t, call.Messages(), 3, "nothing twice")
	})
}

// A result that was recorded in an outage reaches the engine afterwards, although nothing follows it.
func TestAResultOfAnOutageReachesTheEngine(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{cluster: func(c *rejoin.Cluster) { c.Outage = -1 }})
		first := w.processes[0]
		call := w.CallTool("x", nil)
		tool := first.next()
		require.NoError(t, tool.Progress(1, 0, ""))
		require.NoError(t, tool.CloseStream(0))
		first.link.SetLink(clustertest.Refused)
		tool.Returns("done")
		first.link.SetLink(clustertest.Up)
		elapse(lease)
		appended := first.link.Count("append")
		w.kill(0)
		w.use(1)
		require.Equal(t, `"done"`, string(call.Result()))
		require.Positive(t, appended)
	})
}

func TestAnEngineThatIsAwayRefusesNewSessions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		first.link.SetLink(clustertest.Refused)
		_, refused := kit.Open(t, first.Server)
		require.Contains(t, refused, "503")
		elapse(2 * lease)
		_, refused = kit.Open(t, first.Server)
		require.Contains(t, refused, "503")
		first.link.SetLink(clustertest.Up)
		elapse(lease)
		id, refused := kit.Open(t, first.Server)
		require.NotEmpty(t, id, refused)
	})
}

// The head of a response does not wait for ever for an engine that is slow. The id follows.
func TestAPrimerWaitsForItsStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{policy: rejoin.Policy{StreamAfter: time.Millisecond}})
		first := w.processes[0]
		first.link.SetScript(func(c clustertest.Call) clustertest.Fault {
			if c.Op == "append" {
				return clustertest.Fault{Before: errors.New("slow")}
			}
			return clustertest.Fault{}
		})
		call := w.CallTool("x", nil)
		tool := first.next()
		elapse(900 * time.Millisecond)
		require.Equal(t, "open", kit.Last(call), "no head yet")
		elapse(200 * time.Millisecond)
		require.Equal(t, "200 sse comment open", kit.Last(call))
		require.ErrorIs(t, tool.CloseStream(0), rejoin.ErrNotResumable)
		first.link.SetScript(nil)
		elapse(2 * time.Second)
		require.Equal(t, "200 sse comment primer@0 open", kit.Last(call))
		require.NoError(t, tool.CloseStream(0))
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// Events that are sent while one is being appended travel together.
func TestEventsThatWaitTravelTogether(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		call := w.CallTool("x", nil)
		tool := first.next()
		require.NoError(t, tool.Progress(0, 0, ""))
		synctest.Wait()
		before := first.link.Count("append")
		first.link.SetScript(func(clustertest.Call) clustertest.Fault { return clustertest.Fault{Delay: 10 * time.Millisecond} })
		for i := range 100 {
			go func() { _ = tool.Progress(float64(i+1), 0, "") }()
		}
		elapse(time.Second)
		require.Len(t, call.Messages(), 101)
		require.LessOrEqual(t, first.link.Count("append")-before, 3)
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// A server that has just been made joins its cluster before it refuses anybody.
func TestTheFirstRequestWaitsUntilItsServerHasJoined(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		engine := cluster.NewMemory(eventstore.MemoryConfig{})
		slow := clustertest.NewFaulty(engine, engine, func(clustertest.Call) clustertest.Fault { return clustertest.Fault{Delay: 50 * time.Millisecond} })
		app, _ := kit.ManualTools()
		s := kit.NewServer(t, app, rejoin.Config{Store: slow, Cluster: &rejoin.Cluster{Name: "test", Self: "http://0", Transport: kit.NoNetwork}, Logger: kit.QuietLogger()})
		defer elapse(time.Minute)
		defer s.Close()
		id, status := kit.OpenNow(t, s, kit.Initialize)
		require.NotEmpty(t, id, status)
	})
}
