package cluster_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// back reconnects the first process, which was taken for dead, with the engine.
func (w *world) back() {
	w.processes[0].link.SetLink(clustertest.Up)
	elapse(lease)
}

// A call of an owner that was alive after all writes again. The engine refuses that, and all of its session ends there.
func TestAnOwnerThatWasAliveAfterAll(t *testing.T) {
	for _, instant := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			o := options{instant: instant}
			of := watch(&o)
			w := newWorld(t, o)
			first := w.processes[0]
			call := w.CallTool("x", nil)
			tool := first.next()
			require.NoError(t, tool.Progress(1, 0, ""))
			elapse(time.Second)
			other := w.CallTool("y", nil)
			quiet := first.next()
			elapse(time.Second)
			listen := w.Listen()
			require.Equal(t, "200 sse primer@0 1:progress open", kit.Last(call))
			second := w.lose()
			require.Equal(t, served, w.ping(t, 1, w.session()))
			first.link.SetLink(clustertest.Up)
			_ = tool.Progress(2, 0, "") // before the process has renewed its lease
			elapse(time.Second)

			require.ErrorIs(t, tool.Cause(), rejoin.ErrMoved)
			require.ErrorIs(t, quiet.Cause(), rejoin.ErrMoved, "all its calls")
			require.ErrorIs(t, tool.Cause(), rejoin.ErrSessionEnded)
			require.Len(t, of(0).causes(), 1)
			require.ErrorIs(t, of(0).causes()[0], rejoin.ErrMoved)
			require.Equal(t, rejoin.Stats{Moved: 1, Opened: 1}, onlyThese(first.Stats()))
			require.Equal(t, rejoin.Stats{Adopted: 1, Sessions: 1}, onlyThese(second.Stats()))
			require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Last(call), "its client is told to come back")
			require.Equal(t, "200 sse primer@0 retry closed", kit.Last(listen))
			require.Equal(t, rejoin.ReasonOwnerLost, call.Err().Reason())
			require.Equal(t, "200 sse primer@1 1~:error(-32000,2) owner_lost closed", kit.Last(call), "nothing was appended")
			require.Equal(t, rejoin.ReasonOwnerLost, other.Err().Reason())
			of(1).send(t, "a")
			listen.Poll()
			require.Equal(t, "200 sse primer@0 1:a open", kit.Last(listen))
			require.Error(t, of(0).last().s.SaveState([]byte("x")))
			require.Empty(t, of(1).causes())
			require.Equal(t, served, w.ping(t, 0, w.session()), "the old owner serves it as any other process does")
			require.EqualValues(t, 1, first.Stats().Forwarded)
		})
	}
}

// Nothing of the session writes. The owner finds out all the same, when it is back.
func TestAnOwnerThatWritesNothingFindsOut(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		call := w.CallTool("x", nil)
		tool := w.processes[0].next()
		listen := w.Listen()
		elapse(time.Second)
		w.lose()
		require.Equal(t, later, w.ping(t, 0, w.session()), "its lease is over")
		require.Equal(t, served, w.ping(t, 1, w.session()))
		w.processes[0].link.SetLink(clustertest.Up)
		for range 100 {
			elapse(100 * time.Millisecond)
			if got := w.ping(t, 0, w.session()); got != later {
				require.Equal(t, served, got)
				require.NotZero(t, w.processes[0].Stats().Forwarded, "two processes would serve one session")
			}
		}
		require.Equal(t, served, w.ping(t, 0, w.session()))
		require.Greater(t, w.processes[1].Stats().Received, int64(50))
		require.ErrorIs(t, tool.Cause(), rejoin.ErrMoved)
		require.Len(t, of(0).causes(), 1)
		require.True(t, strings.HasSuffix(kit.Last(listen), "retry closed"), kit.Last(listen))
		require.True(t, strings.HasSuffix(kit.Last(call), "retry closed"), kit.Last(call))
		require.EqualValues(t, 1, w.processes[0].Stats().Moved)
	})
}

// An owner that was away for so long, and whose session nobody has asked for, goes on with it.
func TestAnOwnerThatNobodyReplacedGoesOn(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		call := w.CallTool("x", nil)
		tool := w.processes[0].next()
		require.NoError(t, tool.Progress(1, 0, ""))
		w.kill(0)
		require.NoError(t, tool.Progress(2, 0, ""))
		require.Equal(t, later, w.ping(t, 0, w.session()))
		w.back()
		require.Equal(t, served, w.ping(t, 0, w.session()))
		require.NoError(t, tool.Cause())
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Empty(t, of(0).causes())
		require.Equal(t, served, w.ping(t, 1, w.session()))
		require.EqualValues(t, 1, w.processes[1].Stats().Forwarded)
	})
}

// A result that the old owner made is recorded nowhere. The client gets what the adopter says, once.
func TestAResultOfAFencedOwnerIsNotRecorded(t *testing.T) {
	for _, instant := range []bool{true, false} {
		kit.Bubble(t, func(t *testing.T) {
			w := newWorld(t, options{instant: instant})
			call, tool := w.run(t, 2)
			w.lose()
			call.Poll()
			require.Equal(t, "200 sse primer@2 2~:error(-32000,2) owner_lost closed", kit.Last(call))
			w.processes[0].link.SetLink(clustertest.Up)
			tool.Returns("too late") // before the process has renewed its lease
			elapse(time.Minute)
			for _, id := range call.IDs()[:3] {
				get := w.ask(t, 1, http.MethodGet, w.session(), "", "Last-Event-ID", id)
				require.NotContains(t, get.Summary(), "result")
				require.True(t, strings.HasSuffix(get.Summary(), "2~:error(-32000,2) owner_lost ended"), get.Summary())
			}
			require.EqualValues(t, 1, w.processes[0].Stats().Moved)
		})
	}
}

// State that the old owner saves does not reach the adopter, nor those after it.
func TestStateOfAFencedOwnerIsNotSaved(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		w.add(o)
		require.NoError(t, of(0).last().s.SaveState([]byte("shared")))
		elapse(time.Second)
		w.lose()
		require.NoError(t, of(0).last().s.SaveState([]byte("late")))
		require.Equal(t, served, w.ping(t, 1, w.session()))
		w.back()
		require.ErrorIs(t, of(0).causes()[0], rejoin.ErrMoved)
		require.EqualValues(t, 1, w.processes[0].Stats().Moved)
		w.kill(1)
		require.Equal(t, served, w.ping(t, 2, w.session()))
		require.Equal(t, "shared", string(of(2).last().state))
	})
}

// The end of a session at its old owner ends it there only.
func TestADeleteAtAFencedOwner(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		w.lose()
		require.Equal(t, served, w.ping(t, 1, w.session()))
		require.NoError(t, w.processes[0].EndSession(of(0).last().s.Ref()))
		w.back()
		require.Equal(t, served, w.ping(t, 1, w.session()))
		require.Equal(t, served, w.ping(t, 0, w.session()))
		require.EqualValues(t, 1, w.processes[0].Stats().Forwarded)
		require.Empty(t, of(1).causes())
	})
}

// An adoption that was decided while the owner was away, and arrives when it is back: the owner asks once more.
func TestAnAdoptionThatArrivesLate(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		w.Listen()
		second := w.lose()
		second.link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
			if c.Op == "adopt" {
				f.Delay = 900 * time.Millisecond
			}
			return f
		})
		w.processes[0].link.SetLink(clustertest.Up)
		elapse(lease/3 - 100*time.Millisecond) // it renews its lease soon
		adopts := w.ask(t, 1, http.MethodPost, w.session(), kit.Ping)
		elapse(200 * time.Millisecond)
		require.Equal(t, served, w.ping(t, 0, w.session()))
		elapse(2 * lease)
		require.Equal(t, served, adopts.Summary())
		require.ErrorIs(t, of(0).causes()[0], rejoin.ErrMoved)
		require.Equal(t, served, w.ping(t, 0, w.session()))
		require.EqualValues(t, 1, w.processes[1].Stats().Received)
		require.Equal(t, served, w.ping(t, 1, w.session()))
	})
}

// A request that has found the session just before it moved is not told that there is no such session: it is served elsewhere.
func TestARequestThatCrossesAMove(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		goOn := make(chan struct{})
		o := options{config: func(c *rejoin.Config) {
			c.Principal = func(r *http.Request) string {
				if r.Header.Get("X-Wait") != "" {
					<-goOn
				}
				return ""
			}
		}}
		of := watch(&o)
		w := newWorld(t, o)
		var key string
		w.processes[0].link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
			if c.Op == "append" {
				key = c.Session
			}
			return f
		})
		of(0).send(t, "a")
		var all []*kit.Response
		for _, v := range sessionVerbs {
			if v.method != http.MethodDelete {
				all = append(all, w.ask(t, 0, v.method, w.session(), v.body, "X-Wait", "1", "Mcp-Protocol-Version", kit.Polling))
			}
		}
		found, err := w.engine.Find(t.Context(), key, cluster.Process{})
		require.NoError(t, err)
		_, _, err = w.engine.Adopt(t.Context(), key, found.Record.Fence, cluster.Member{
			Process: cluster.Process{Cluster: "test", Incarnation: "thief", Self: "http://thief"},
		}, time.Hour)
		require.NoError(t, err)
		_ = of(0).last().s.Notify(t.Context(), "notifications/b", nil)
		elapse(time.Second)
		require.EqualValues(t, 1, w.processes[0].Stats().Moved)
		close(goOn)
		for _, res := range all {
			require.NotContains(t, res.Summary(), "404")
		}
		elapse(lease)
		require.Equal(t, "200 error(-32000,\"mine\") unreachable ended", all[0].Summary(), "there is no such process")
		require.Regexp(t, `^200 sse strange\(none\.0\.[0-9a-z]+\) retry ended$`, all[3].Summary(), "held")
	})
}
