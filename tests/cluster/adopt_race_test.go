package cluster_test

import (
	"fmt"
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

// Requests that come while a session is being adopted wait for that. There is one App.Open, and all are served.
func TestRequestsDuringAnAdoptionWaitForIt(t *testing.T) {
	for _, together := range []bool{false, true} { // do all of them find the record before any adopts?
		kit.Bubble(t, func(t *testing.T) { duringAnAdoption(t, together) })
	}
}

func duringAnAdoption(t *testing.T, together bool) {
	t.Helper()
	o := options{config: byUser}
	of := watch(&o)
	w := newWorld(t, o)
	session := w.openFor(t, 0, "ann")
	w.kill(0)
	w.processes[1].link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
		if c.Op == "find" && together {
			f.Delay = 100 * time.Millisecond
		}
		return f
	})
	goOn := make(chan struct{})
	of(1).opens(func(*http.Request, *rejoin.Session, []byte) error {
		<-goOn
		return nil
	})
	var all []*kit.Response
	for n := range 20 {
		all = append(all,
			w.ask(t, 1, http.MethodPost, session, strings.Replace(kit.Ping, "mine", fmt.Sprint(n), 1), "X-User", "ann"),
			w.ask(t, 1, http.MethodPost, session, note, "X-User", "ann"),
			w.ask(t, 1, http.MethodGet, session, "", "X-User", "ann"))
	}
	foreign := w.ask(t, 1, http.MethodPost, session, kit.Ping, "X-User", "bob")
	elapse(time.Second)
	for _, res := range all {
		require.Equal(t, "open", res.Summary())
	}
	close(goOn)
	got := map[string]int{}
	for _, res := range all {
		got[res.Summary()]++
	}
	require.Equal(t, 20, got[served], "%v", got)
	require.Equal(t, 20, got["202 ended"])
	require.Equal(t, 1, got["200 sse primer@0 open"], "%v", got)
	require.Equal(t, gone, foreign.Summary(), "another user's request does not profit")
	require.Equal(t, 1, of(1).times())
	require.Len(t, of(1).notifications(), 20)
	require.Equal(t, 1, w.processes[1].link.Count("adopt"))
	require.EqualValues(t, 1, w.processes[1].Stats().Adopted)
}

// The client of the first request goes away. The adoption goes on for the others.
func TestTheRequestThatAdoptsMayEnd(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, of := three(t, options{})
		goOn := make(chan struct{})
		of(1).opens(func(r *http.Request, _ *rejoin.Session, _ []byte) error {
			select {
			case <-goOn:
				return nil
			case <-r.Context().Done():
				return r.Context().Err()
			}
		})
		w.use(1)
		call := w.Listen()
		call.Cut()
		other := w.ask(t, 1, http.MethodPost, w.session(), kit.Ping)
		close(goOn)
		require.Equal(t, served, other.Summary())
		require.Equal(t, 1, of(1).times())
	})
}

// All fail if it fails, and the next request tries again.
func TestRequestsDuringAnAdoptionThatFails(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, of := three(t, options{})
		goOn := make(chan struct{})
		of(1).opens(func(*http.Request, *rejoin.Session, []byte) error {
			<-goOn
			return errOpen
		})
		var all []*kit.Response
		for range 5 {
			all = append(all, w.ask(t, 1, http.MethodPost, w.session(), kit.Ping))
		}
		get := w.ask(t, 1, http.MethodGet, w.session(), "", "Mcp-Protocol-Version", kit.Polling)
		close(goOn)
		for _, res := range all {
			require.Equal(t, later, res.Summary())
		}
		require.Regexp(t, `^200 sse strange\(none\.0\.[0-9a-z]+\) retry ended$`, get.Summary())
		require.Equal(t, 1, of(1).times())
		of(1).opens(nil)
		require.Equal(t, served, w.ping(t, 1, w.session()))
	})
}

// Two processes get requests of a lost session at the same time. One adopts it; the client of the other comes back to it.
func TestTwoProcessesAdoptAtOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, of := three(t, options{})
		slow := func(c clustertest.Call) (f clustertest.Fault) {
			if c.Op == "adopt" {
				f.Delay = 100 * time.Millisecond // both have found the record by then
			}
			return f
		}
		w.processes[1].link.SetScript(slow)
		w.processes[2].link.SetScript(slow)
		one := w.ask(t, 1, http.MethodPost, w.session(), kit.Ping)
		two := w.ask(t, 2, http.MethodPost, w.session(), kit.Ping)
		get := w.ask(t, 1, http.MethodGet, w.session(), "")
		held := w.ask(t, 2, http.MethodGet, w.session(), "")
		elapse(time.Second)
		require.Equal(t, []string{served, served}, []string{one.Summary(), two.Summary()}, "the slower one forwards")
		streams := []string{get.Summary(), held.Summary()}
		require.Contains(t, streams, "200 sse primer@0 open")
		require.Equal(t, 1, of(1).times()+of(2).times())
		require.EqualValues(t, 1, w.processes[1].Stats().Adopted+w.processes[2].Stats().Adopted)
		winner := 1
		if w.processes[2].Stats().Adopted == 1 {
			winner = 2
		}
		received := w.processes[winner].Stats().Received
		require.Equal(t, served, w.ping(t, winner, w.session()))
		require.Equal(t, served, w.ping(t, 3-winner, w.session()))
		require.Equal(t, received+1, w.processes[winner].Stats().Received)
	})
}

// The answer of the engine is lost, so the process does not know that it owns the session. Its next request finds out.
func TestAnAdoptionWhoseAnswerIsLost(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, of := three(t, options{})
		w.processes[1].link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
			if c.Op == "adopt" && c.N == 1 {
				f.After = clustertest.ErrUnreachable
			}
			return f
		})
		require.Equal(t, later, w.ping(t, 1, w.session()))
		require.Equal(t, served, w.ping(t, 2, w.session()), "it belongs to the second")
		require.EqualValues(t, 1, w.processes[2].Stats().Forwarded)
		require.Equal(t, served, w.ping(t, 1, w.session()))
		require.Equal(t, 1, of(1).times())
		require.Zero(t, of(2).times())
	})
}

// A process that leaves says so, and its sessions are adopted without waiting for its lease. Close releases those that it has.
func TestAReleasedSessionIsAdoptedAtOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		w.add(o)
		w.kill(0)
		of(1).opens(func(*http.Request, *rejoin.Session, []byte) error { return errOpen })
		require.Equal(t, later, w.ping(t, 1, w.session()), "released: the app cannot open it here")
		began := time.Now()
		require.Equal(t, served, w.ping(t, 2, w.session()))
		require.Zero(t, time.Since(began))
		w.processes[2].Close()
		elapse(time.Second)
		of(1).opens(nil)
		require.Equal(t, served, w.ping(t, 1, w.session()), "Close has released it")
	})
}

// A process that starts anew with the Self of an earlier one replaces it: its sessions are adopted at once, by it or others.
func TestANewProcessAdoptsWhatTheOldOneHad(t *testing.T) {
	for name, by := range map[string]int{"by the new one": 2, "by another": 1} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				o := options{}
				of := watch(&o)
				w := newWorld(t, o)
				first := w.processes[0]
				call, tool := w.run(t, 1)
				tool.Returns("done")
				running := w.CallTool("x", nil)
				lost := first.next()
				elapse(time.Second)
				first.link.SetLink(clustertest.Refused)
				newer := o.start(t, w, "http://0")
				w.processes = append(w.processes, newer)
				t.Cleanup(newer.Close)
				if by == 1 {
					elapse(lease / 3) // it sees that
				}
				require.Equal(t, served, w.ping(t, by, w.session()), "no lease has to run out")
				w.use(by)
				require.Equal(t, `"done"`, string(call.Result()))
				running.Poll()
				require.Equal(t, rejoin.ReasonOwnerLost, running.Err().Reason())
				require.EqualValues(t, 1, w.processes[by].Stats().Adopted)

				first.link.SetLink(clustertest.Up)
				elapse(lease)
				require.ErrorIs(t, lost.Cause(), rejoin.ErrMoved, "the old one was alive after all")
				require.Len(t, of(0).causes(), 1)
				require.ErrorIs(t, of(0).causes()[0], rejoin.ErrMoved)
				require.EqualValues(t, 1, first.Stats().Moved)
				_, refused := kit.Open(t, first.Server)
				require.Equal(t, later, refused, "it serves nothing any more")
				require.Equal(t, later, w.ping(t, 0, w.session()))
				require.Equal(t, served, w.ping(t, by, w.session()))
				elapse(3 * lease)
				require.Equal(t, served, w.ping(t, by, w.session()))
				require.Positive(t, first.log.Count("same Cluster.Self"))
			})
		})
	}
}

// The directory gives a member a count of its own, whatever the others do.
func TestTheMembersOfAWorld(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		elapse(time.Minute)
		view, err := w.engine.Renew(t.Context(), cluster.Member{Process: cluster.Process{Cluster: "test", Incarnation: "x", Self: "http://x"}, Generation: 1, Count: 1}, lease)
		require.NoError(t, err)
		require.Len(t, view.Members, 3)
		view, err = w.engine.Renew(t.Context(), cluster.Member{Process: cluster.Process{Cluster: "other", Incarnation: "x", Self: "http://x"}, Generation: 1, Count: 1}, lease)
		require.NoError(t, err)
		require.Len(t, view.Members, 1, "clusters do not see each other")
	})
}
