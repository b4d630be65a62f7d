package cluster_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

const note = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`

// Whatever the first request of a session is, the process that gets it adopts the session.
func TestAnyRequestAdopts(t *testing.T) {
	for name, one := range map[string]struct{ method, body, want string }{
		"a request":                      {http.MethodPost, kit.Ping, served},
		"a notification":                 {http.MethodPost, note, "202 ended"},
		"an answer to a lost question":   {http.MethodPost, `{"jsonrpc":"2.0","id":"q-1","result":{}}`, "202 ended"},
		"an error to one":                {http.MethodPost, `{"jsonrpc":"2.0","id":"q-1","error":{"code":-1,"message":"no"}}`, "202 ended"},
		"a cancellation":                 {http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, "202 ended"},
		"a cancellation of an unknown":   {http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`, "202 ended"},
		"a GET":                          {http.MethodGet, "", "200 sse primer@0 open"},
		"a request that is not accepted": {http.MethodPost, kit.Initialize, "400 error(-32600,\"mine\") ended"},
		"DELETE":                         {http.MethodDelete, "", "204 ended"},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				o := options{}
				of := watch(&o)
				w := newWorld(t, o)
				call, _ := w.run(t, 1)
				second := w.lose()
				if name == "a request that is not accepted" { // initialize with the id of a session opens another: the id may be that of an ended one
					id, _ := kit.Open(t, second.Server)
					require.NotEqual(t, w.session(), id)
					require.Equal(t, "200 result ended", w.ask(t, 1, one.method, w.session(), one.body).Summary())
					require.Zero(t, second.Stats().Adopted)
					require.Equal(t, served, w.ping(t, 1, w.session()))
				}
				require.Equal(t, one.want, w.ask(t, 1, one.method, w.session(), one.body).Summary())
				require.EqualValues(t, 1, second.Stats().Adopted)
				if name == "DELETE" {
					require.Equal(t, gone, w.ping(t, 1, w.session()))
					require.Len(t, of(1).causes(), 1, "the app was told")
					return
				}
				if name == "a notification" {
					require.Equal(t, []string{"notifications/roots/list_changed"}, of(1).notifications())
				}
				call.Poll()
				require.Equal(t, "200 sse primer@1 1~:error(-32000,2) owner_lost closed", kit.Last(call))
				require.Equal(t, served, w.ping(t, 1, w.session()))
				require.Empty(t, of(1).causes())
			})
		})
	}
}

// DELETE ends the session for all processes, and deletes what the engine has of it.
func TestDeleteAtTheAdopterEndsTheSessionEverywhere(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		of := watch(&o)
		w := newWorld(t, o)
		w.add(o)
		call, tool := w.run(t, 3)
		tool.Returns(strings.Repeat("x", 1000))
		held, _ := w.engine.Usage()
		require.Greater(t, held, int64(1000))
		w.lose()
		w.Delete()
		held, _ = w.engine.Usage()
		require.Zero(t, held)
		for n := range 2 {
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
				body := ""
				if method == http.MethodPost {
					body = kit.Ping
				}
				require.Equal(t, gone, w.ask(t, n+1, method, w.session(), body).Summary(), method)
			}
			require.Equal(t, gone, w.ask(t, n+1, http.MethodGet, w.session(), "", "Last-Event-ID", call.IDs()[0]).Summary())
			require.Equal(t, gone, w.ask(t, n+1, http.MethodPost, w.session(), note).Summary())
		}
		require.Zero(t, of(2).times(), "nothing is adopted for that")
		elapse(15 * time.Minute)
		require.Equal(t, gone, w.ping(t, 1, w.session()), "after its tombstone too")
	})
}

// The principal is compared before anything happens: who knows the id of another user's session adopts nothing, and learns nothing.
func TestAnotherPrincipalAdoptsNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{config: byUser}
		of := watch(&o)
		w := newWorld(t, o)
		session := w.openFor(t, 0, "ann")
		w.kill(0)
		second := w.processes[1]
		for _, user := range []string{"bob", "", "Ann", "ann "} {
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
				body := ""
				if method == http.MethodPost {
					body = kit.Ping
				}
				require.Equal(t, gone, w.ask(t, 1, method, session, body, "X-User", user).Summary(), "%s %q", method, user)
			}
		}
		require.Zero(t, of(1).times())
		require.Zero(t, second.link.Count("adopt"))
		require.Equal(t, served, w.ask(t, 1, http.MethodPost, session, kit.Ping, "X-User", "ann").Summary())
		require.Equal(t, gone, w.ask(t, 1, http.MethodPost, session, kit.Ping, "X-User", "bob").Summary(), "nor afterwards")
		require.EqualValues(t, 1, second.Stats().Adopted)
	})
}

// The same while the owner is alive: a session of another user does not exist.
func TestAnotherPrincipalOfALivingOwnersSession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{config: byUser})
		session := w.openFor(t, 0, "ann")
		for _, user := range []string{"bob", "ann", "bob", "ann", "ann", "", "Ann", "ann ", "ann"} { // also where the place is remembered, and who asked last
			want := gone
			if user == "ann" {
				want = served
			}
			require.Equal(t, want, w.ask(t, 1, http.MethodPost, session, kit.Ping, "X-User", user).Summary(), "%q", user)
		}
		require.EqualValues(t, 4, w.processes[1].Stats().Forwarded)
	})
}

// initialize with the id of a session opens a new one, as with the id of an ended session: clients keep sending it. The old one goes on.
func TestInitializeWithTheIDOfASessionElsewhere(t *testing.T) {
	for name, dead := range map[string]bool{"the owner is alive": false, "the owner is dead": true} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := newWorld(t, options{})
				if dead {
					w.kill(0)
				}
				res := w.ask(t, 1, http.MethodPost, w.session(), kit.Initialize)
				require.Equal(t, served, res.Summary())
				mine := res.Head.Get("Mcp-Session-Id")
				require.NotEqual(t, w.session(), mine)
				require.Equal(t, served, w.ping(t, 1, mine))
				if dead {
					require.Equal(t, served, w.ping(t, 1, w.session()))
					require.Equal(t, `400 error(-32600,"mine") ended`, w.ask(t, 1, http.MethodPost, w.session(), kit.Initialize).Summary(), "it is here now")
					return
				}
				require.Equal(t, served, w.ping(t, 0, w.session()))
			})
		})
	}
}

// A batch of an older version adopts too. Whether the session's version has batches is known only then.
func TestABatchAdopts(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		session := w.openAs(t, 0, kit.Batches)
		w.kill(0)
		require.Equal(t, "200 [result result] ended", w.ask(t, 1, http.MethodPost, session, "["+kit.Ping+","+strings.Replace(kit.Ping, "mine", "other", 1)+"]").Summary())
		require.Equal(t, `400 error(-32600,null) ended`, w.ask(t, 1, http.MethodPost, w.session(), "["+kit.Ping+"]").Summary())
		require.EqualValues(t, 2, w.processes[1].Stats().Adopted)
	})
}

// Ids of requests that ran at the lost owner may be used again: here nothing runs with them.
func TestRequestIDsMayBeUsedAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		session := w.open(t, 0)
		w.ask(t, 0, http.MethodPost, session, kit.CallBody("7", "{}"))
		w.processes[0].next()
		elapse(time.Second)
		require.Equal(t, `400 error(-32600,7) ended`, w.ask(t, 0, http.MethodPost, session, kit.CallBody("7", "{}")).Summary())
		w.kill(0)
		again := w.ask(t, 1, http.MethodPost, session, kit.CallBody("7", "{}"))
		w.processes[1].next().Returns("again")
		require.Equal(t, served, again.Summary())
	})
}

// A process that is not ready yet cannot say whose a session is. For a lease after that it cannot say that a session is nobody's: an owner may be about
// to restore it in an engine that has lost its data.
func TestAProcessThatHasNotJoinedServesNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		w := newWorld(t, o)
		p := o.start(t, w, "http://late")
		t.Cleanup(p.Close)
		res := kit.Serve(p.Server, kit.InSession(t, nobody, kit.Ping))
		require.Contains(t, []string{later, gone}, res.Summary())
		elapse(time.Second)
		require.Equal(t, later, kit.Serve(p.Server, kit.InSession(t, nobody, kit.Ping)).Summary(), "a young engine may have lost it")
		elapse(2 * lease)
		require.Equal(t, gone, kit.Serve(p.Server, kit.InSession(t, nobody, kit.Ping)).Summary())
	})
}

// A session that has ended stays ended, although the engine does not know yet. As soon as it answers it knows.
func TestASessionThatHasEndedIsNotBroughtBack(t *testing.T) {
	for name, link := range map[string]clustertest.Link{"the engine is slow": clustertest.Up, "it is away": clustertest.Refused} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				o := options{}
				of := watch(&o)
				w := newWorld(t, o)
				first := w.processes[0]
				first.link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
					if c.Op == "end" && link == clustertest.Up {
						f.Delay = 900 * time.Millisecond
					}
					return f
				})
				first.link.SetLink(link)
				session := w.session()
				require.Equal(t, "204 ended", w.ask(t, 0, http.MethodDelete, session, "").Summary())
				for range 5 {
					elapse(100 * time.Millisecond)
					require.Contains(t, []string{gone, later}, w.ping(t, 0, session))
				}
				elapse(10 * time.Second)
				first.link.SetLink(clustertest.Up)
				elapse(10 * time.Second)
				require.Equal(t, gone, w.ping(t, 0, session))
				require.Equal(t, gone, w.ping(t, 1, session), "the engine was told")
				require.Equal(t, 1, of(0).times(), "it was not opened again")
			})
		})
	}
}
