package cluster_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// drain begins a drain of the first process, whose end done gets.
func (w *world) drain(t *testing.T, limit time.Duration) (done chan error) {
	t.Helper()
	done = kit.Drain(t, w.processes[0].Server, limit)
	synctest.Wait()
	return done
}

// An idle session is released at once, and the next request anywhere adopts it, also one that comes to the process that drains.
func TestADrainReleasesIdleSessions(t *testing.T) {
	for n, where := range []string{"at the process that drains", "at another one"} {
		t.Run(where, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := newWorld(t, options{})
				other := w.open(t, 0)
				listen := w.Listen()
				synctest.Wait()
				require.NoError(t, <-w.drain(t, time.Hour))
				require.Equal(t, "200 sse primer@0 retry closed", kit.Last(listen))
				require.Empty(t, kit.Sessions(w.processes[0].Server))
				require.Equal(t, served, w.ping(t, n, w.session()))
				require.Equal(t, served, w.ping(t, n, other))
				w.use(n)
				listen.Poll()
				require.Equal(t, []string{"200 sse primer@0 retry closed", "200 sse primer@0 open"}[n], kit.Last(listen), "no stream lasts at a process that drains")
				require.EqualValues(t, 2, w.processes[1].Stats().Adopted)
				require.Zero(t, w.processes[0].Stats().Adopted+w.processes[0].Stats().Refused)
			})
		})
	}
}

// A session with a running call stays, and takes every request until nothing of it runs. Its clients are let go once.
func TestASessionWithARunningCallStaysDuringADrain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		first := w.processes[0]
		listen := w.Listen()
		call := w.CallTool("x", nil)
		tool := first.next()
		require.NoError(t, tool.Progress(1, 0, ""))
		call.WaitMessages(1)
		done := w.drain(t, time.Hour)
		require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Last(call))
		require.Equal(t, "200 sse primer@0 retry closed", kit.Last(listen))
		w.use(1)
		call.Poll()
		listen.Poll()
		require.NoError(t, tool.Session().Notify(t.Context(), "notifications/x", nil))
		for n := range 2 {
			require.Equal(t, served, w.ping(t, n, w.session()))
			require.Equal(t, "202 ended", w.ask(t, n, http.MethodPost, w.session(), `{"jsonrpc":"2.0","method":"notifications/x"}`).Summary())
		}
		require.Equal(t, "200 sse primer@1 open", kit.Last(call))
		require.Equal(t, "200 sse primer@0 1:x open", kit.Last(listen))
		more := w.CallTool("more", nil)
		second := first.next()
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		elapse(time.Minute)
		require.Empty(t, done, "the second call runs")
		second.Returns("done too")
		require.Equal(t, `"done too"`, string(more.Result()))
		require.NoError(t, <-done)
		require.Equal(t, "200 sse primer@0 1:x retry closed", kit.Last(listen))
		require.Zero(t, w.processes[1].Stats().Adopted)
		listen.Poll()
		require.Equal(t, "200 sse primer@1 open", kit.Last(listen))
		require.EqualValues(t, 1, w.processes[1].Stats().Adopted)
	})
}

// A result that was not fetched does not keep a drain: the next owner serves it.
func TestTheNextOwnerServesWhatWasNotFetched(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call, tool := w.run(t, 2)
		tool.Returns("done")
		began := time.Now()
		require.NoError(t, <-w.drain(t, time.Hour))
		require.Less(t, time.Since(began), time.Second)
		w.use(1)
		call.Poll()
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// A new session is opened at another process: a client that asks for one is not refused.
func TestInitializeDuringADrain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		w.run(t, 1)
		w.drain(t, time.Hour)
		id := w.open(t, 0)
		require.Len(t, kit.Sessions(w.processes[1].Server), 1)
		require.Equal(t, served, w.ping(t, 0, id))
		require.Zero(t, w.processes[0].Stats().Refused)
	})
}

// Without another process a session stays, and is served, until nothing runs anywhere. New sessions are refused.
func TestADrainOfTheOnlyProcess(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		w.processes[1].Close()
		elapse(lease)
		other := w.open(t, 0)
		call, tool := w.run(t, 1)
		done := w.drain(t, time.Hour)
		require.Equal(t, served, w.ping(t, 0, other))
		_, refused := kit.Open(t, w.processes[0].Server)
		require.Equal(t, later, refused)
		tool.Returns("done")
		require.NoError(t, <-done)
		w.add(options{})
		w.use(2)
		require.Equal(t, served, w.ping(t, 2, other))
		call.Poll()
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// A process that comes while another one drains takes over what is idle.
func TestAProcessComesDuringADrain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		w.processes[1].Close()
		elapse(lease)
		other := w.open(t, 0)
		w.run(t, 1)
		w.drain(t, time.Hour)
		require.Len(t, kit.Sessions(w.processes[0].Server), 2)
		w.add(options{})
		elapse(lease)
		require.Len(t, kit.Sessions(w.processes[0].Server), 1)
		require.Equal(t, served, w.ping(t, 0, other))
		require.EqualValues(t, 1, w.processes[2].Stats().Adopted)
	})
}

// Where more than one process drains, a session goes to one that does not.
func TestTwoProcessesDrain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		w.add(options{})
		require.NoError(t, <-kit.Drain(t, w.processes[1].Server, time.Hour))
		require.NoError(t, <-w.drain(t, time.Hour))
		for range 20 {
			res := kit.Serve(w.processes[0].Server, kit.Request(t, http.MethodPost, kit.Initialize))
			elapse(lease / 2)
			require.Equal(t, served, res.Summary())
			for n := range 2 {
				again := w.ask(t, n, http.MethodPost, res.Head.Get("Mcp-Session-Id"), kit.Ping)
				elapse(lease / 2)
				require.Equal(t, served, again.Summary())
			}
		}
		last := w.ask(t, 0, http.MethodPost, w.session(), kit.Ping)
		elapse(lease / 2)
		require.Equal(t, served, last.Summary())
		require.Len(t, kit.Sessions(w.processes[2].Server), 21)
	})
}

// At the end of its time a drain fails what runs, and releases the sessions: the client gets the error from the next owner.
func TestADrainOfAClusterThatTakesTooLong(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call, tool := w.run(t, 1)
		attached := midStream(t, w)
		w.use(1)
		done := w.drain(t, time.Minute)
		attached.Poll()
		plain := w.CallTool("x", nil)
		w.processes[0].next()
		elapse(time.Minute)
		require.Equal(t, &rejoin.DrainError{Running: 3}, <-done)
		require.ErrorIs(t, tool.Cause(), rejoin.ErrShutdown)
		for _, c := range []interface {
			Poll()
			Err() *rejoin.Error
		}{call, attached, plain} {
			require.Equal(t, rejoin.ReasonShutdown, c.Err().Reason())
		}
		require.Equal(t, served, w.ping(t, 1, w.session()))
		require.EqualValues(t, 1, w.processes[1].Stats().Adopted)
	})
}

// Requests that cross the end of a session that Close ends are served by the next owner.
func TestRequestsThatCrossTheEndOfADrain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		w.run(t, 1)
		frozen := midStream(t, w)
		frozen.Freeze()
		w.drain(t, time.Minute)
		elapse(time.Minute - time.Second)
		frozen.Poll()
		frozen.Freeze()
		elapse(time.Second)
		for n := range 2 {
			res := w.ask(t, n, http.MethodPost, w.session(), kit.Ping)
			elapse(lease / 2) // it may look for the next owner more than once
			require.Equal(t, served, res.Summary())
		}
	})
}

// An event that the engine has not got yet keeps a session here.
func TestADrainWaitsForTheEngine(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call, tool := w.run(t, 1)
		w.processes[0].link.SetLink(clustertest.Refused)
		tool.Returns("done")
		done := w.drain(t, time.Hour)
		elapse(5 * time.Second)
		require.Empty(t, done)
		w.processes[0].link.SetLink(clustertest.Up)
		elapse(5 * time.Second)
		require.NoError(t, <-done)
		w.use(1)
		call.Poll()
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// An engine that loses its data while sessions are released gets them again before.
func TestAnEngineForgetsBeforeARelease(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call, tool := w.run(t, 1)
		tool.Returns("done")
		w.engine.Forget()
		require.NoError(t, <-w.drain(t, time.Hour))
		elapse(3 * lease)
		w.use(1)
		call.Poll()
		require.Equal(t, `"done"`, string(call.Result()))
		require.Equal(t, served, w.ping(t, 0, w.session()))
	})
}

// A process that has left its cluster, and still gets requests, sends each to the owner of its session: others would not serve it.
func TestRequestsToAProcessThatHasLeft(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		for range 8 {
			w.add(options{})
		}
		elapse(lease)
		require.NoError(t, <-w.drain(t, time.Hour))
		w.processes[0].Close()
		elapse(3 * lease) // all others know that the engine has lost nothing
		for n := range 8 {
			id := w.open(t, n+1)
			began := time.Now()
			require.Equal(t, served, w.ping(t, 0, id))
			require.Zero(t, time.Since(began))
		}
		require.Equal(t, gone, w.ping(t, 0, strings.Repeat("A", 26)))
	})
}

// Other processes keep no connection to one that drains: http.Server.Shutdown would end it under a request that may have run.
func TestNoConnectionIsKeptToAProcessThatDrains(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		w.run(t, 1)
		other := w.open(t, 0)
		w.ask(t, 1, http.MethodGet, other, "") // a second connection
		dials := func() int {
			before := w.net.Dialed()
			require.Equal(t, served, w.ping(t, 1, w.session()))
			return w.net.Dialed() - before
		}
		require.Equal(t, 1, dials())
		require.Equal(t, 0, dials())
		w.drain(t, time.Hour)
		require.LessOrEqual(t, dials(), 1)
		for range 3 {
			require.Equal(t, 1, dials())
		}
	})
}

// The same, where the record is there again because something else has written it meanwhile.
func TestAnEngineForgetsAndIsToldARecordBeforeARelease(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call, tool := w.run(t, 1)
		tool.Returns("done")
		w.engine.Forget()
		require.NoError(t, tool.Session().SaveState([]byte("1")))
		elapse(200 * time.Millisecond)
		require.NoError(t, <-w.drain(t, time.Hour))
		elapse(3 * lease)
		w.use(1)
		call.Poll()
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// The same, where an event of another call has made the owner write the record again.
func TestAnEngineForgetsAndGetsAnEventBeforeARelease(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call, tool := w.run(t, 1)
		_, other := w.run(t, 1)
		tool.Returns("done")
		w.engine.Forget()
		require.NoError(t, other.Progress(2, 0, ""))
		other.Returns("done")
		require.NoError(t, <-w.drain(t, time.Hour))
		elapse(3 * lease)
		w.use(1)
		call.Poll()
		require.Equal(t, `"done"`, string(call.Result()))
	})
}

// An engine goes back: it has the records, and none of the logs. A drain notices that before it releases a session.
func TestAnEngineLosesTheLogsBeforeARelease(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		elapse(2 * lease)
		call, tool := w.run(t, 2)
		tool.Returns("done")
		elapse(time.Second)
		found, err := w.engine.Find(t.Context(), kit.KeyOf(w.session()), cluster.Process{})
		require.NoError(t, err)
		w.engine.Forget()
		require.NoError(t, w.engine.Put(t.Context(), found.Record, time.Hour))
		require.NoError(t, <-w.drain(t, time.Hour))
		w.use(1)
		call.Poll()
		require.Equal(t, `"done"`, string(call.Result()))
	})
}
