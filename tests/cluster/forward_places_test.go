package cluster_test

import (
	"crypto/rand"
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

// A process asks the directory once where a session is, however many ask at once, and then only when it has moved.
func TestWhereASessionIsIsAskedOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, _, front := newForwarded(t, options{})
		front.link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
			if c.Op == "find" {
				f.Delay = 100 * time.Millisecond
			}
			return f
		})
		var all []*kit.Response
		for range 64 {
			all = append(all, w.ask(t, 1, http.MethodPost, w.session(), `{"jsonrpc":"2.0","method":"notifications/x"}`))
		}
		elapse(time.Second)
		for _, res := range all {
			require.Equal(t, "202 ended", res.Summary())
		}
		for range 1000 {
			require.Equal(t, served, w.ping(t, 1, w.session()))
		}
		require.Equal(t, 1, front.link.Count("find"))
		require.EqualValues(t, 1064, front.Stats().Forwarded)
	})
}

// While the engine is away, what is known of living owners still serves their sessions.
func TestRequestsAreForwardedWhileTheEngineIsAway(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, front := newForwarded(t, options{})
		require.Equal(t, served, w.ping(t, 1, w.session()))
		front.link.SetLink(clustertest.Refused)
		for range 10 {
			elapse(lease)
			require.Equal(t, served, w.ping(t, 1, w.session()), "it has no lease itself")
		}
		owner.link.SetLink(clustertest.Refused)
		elapse(lease)
		require.Equal(t, later, w.ping(t, 1, w.session()), "its owner must not serve it now")
	})
}

// An id that was made up costs no look at the directory if it has not the form of one, and a flood of others is bounded per second. Sessions whose
// place is known do not notice.
func TestAFloodOfUnknownSessionIDs(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, _, front := newForwarded(t, options{})
		require.Equal(t, served, w.ping(t, 1, w.session()))
		elapse(3 * lease)
		before := front.link.Count("find")
		for _, id := range []string{"x", strings.Repeat("A", 25), strings.Repeat("a", 26), strings.Repeat("A", 27), "AAAAAAAAAAAAAAAAAAAAAAAAA1"} {
			require.Equal(t, gone, w.ping(t, 1, id))
		}
		require.Equal(t, before, front.link.Count("find"))
		refused := 0
		for range 10 {
			for range 500 {
				switch got := w.ping(t, 1, rand.Text()); got {
				case gone:
				case later:
					refused++
				default:
					t.Fatal(got)
				}
				require.Equal(t, served, w.ping(t, 1, w.session()))
			}
			elapse(100 * time.Millisecond)
		}
		require.LessOrEqual(t, front.link.Count("find")-before, 2000)
		require.EqualValues(t, refused, front.Stats().Unsearched)
		require.Positive(t, refused)
		held := w.ask(t, 1, http.MethodGet, rand.Text(), "", "Mcp-Protocol-Version", kit.Polling)
		require.Regexp(t, `^(200 sse strange\(none\.0\.[0-9a-z]+\) retry ended|404 .*)$`, held.Summary())
		elapse(time.Second)
		require.Equal(t, gone, w.ping(t, 1, rand.Text()))
	})
}

// A session that ends at its owner is gone in every process, and so is one that has ended through another process.
func TestASessionEndsThroughAnotherProcess(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, front := newForwarded(t, options{})
		id := w.open(t, 0)
		require.Equal(t, served, w.ping(t, 1, id))
		require.Equal(t, "204 ended", w.ask(t, 1, http.MethodDelete, id, "").Summary())
		require.Equal(t, gone, w.ping(t, 1, id))
		require.Equal(t, gone, w.ping(t, 0, id))
		require.Equal(t, served, w.ping(t, 1, w.session()))
		for s := range owner.Sessions() {
			require.NoError(t, owner.EndSession(s.Ref))
		}
		require.Equal(t, gone, w.ping(t, 1, w.session()))
		require.Zero(t, front.Stats().OwnerLost+front.Stats().Unreachable)
	})
}

// A record that this process cannot read tells where the owner is all the same: only adopting the session is not possible.
func TestASessionOfALaterVersionIsForwarded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, front := newForwarded(t, options{})
		owner.link.SetScript(nil)
		found, err := w.engine.Find(t.Context(), kit.KeyOf(w.session()), cluster.Process{})
		require.NoError(t, err)
		later := *found.Record
		later.Format, later.About = 99, []byte("something new")
		require.NoError(t, w.engine.Put(t.Context(), &later, time.Hour))
		require.Equal(t, served, w.ping(t, 1, w.session()))
		require.EqualValues(t, 1, front.Stats().Forwarded)
		w.kill(0)
		w.net.Refuse("0", true)
		res := w.ask(t, 1, http.MethodPost, w.session(), kit.Ping)
		elapse(lease)
		require.Equal(t, `503 error(-32000,"mine") ended`, res.Summary())
		require.Zero(t, front.Stats().Adopted)
	})
}

// Stats and SessionInfo say what was forwarded, and by whom.
func TestWhatIsSaidOfForwardedRequests(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, front := newForwarded(t, options{})
		call, listen := midStream(t, w), w.Listen()
		synctest.Wait()
		info := kit.Sessions(owner.Server)[0]
		require.EqualValues(t, 2, info.Forwarded)
		require.Equal(t, []string{"http://1", "http://1"}, []string{info.Streams[0].Via, info.Streams[1].Via})
		w.use(0)
		call.Poll()
		synctest.Wait()
		info = kit.Sessions(owner.Server)[0]
		require.Equal(t, []string{"http://1", ""}, []string{info.Streams[0].Via, info.Streams[1].Via})
		call.Cut()
		listen.Cut()
		synctest.Wait()
		require.Empty(t, kit.Sessions(owner.Server)[0].Streams[0].Via)
		require.Empty(t, kit.Sessions(front.Server))
		require.EqualValues(t, 2, front.Stats().Forwarded)
		require.EqualValues(t, 2, owner.Stats().Received)
		require.Zero(t, front.Stats().Connections)
	})
}

// A process that drains lets forwarded streams go, so that their clients come back through another one, and waits for answers that could not be
// fetched later. No session is adopted for that.
func TestADrainOfAProcessThatForwards(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, front := newForwarded(t, options{policy: rejoin.Policy{StreamAfter: 30 * time.Second}})
		call, listen := midStream(t, w), w.Listen()
		quick := w.CallTool("quick", nil)
		tool := owner.next()
		done := kit.Drain(t, front.Server, time.Minute)
		require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Last(call))
		require.Equal(t, "200 sse primer@0 retry closed", kit.Last(listen))
		elapse(10 * time.Second)
		select {
		case err := <-done:
			t.Fatal("it did not wait: ", err)
		default:
		}
		tool.Returns("done")
		require.Equal(t, "200 result answered", kit.Last(quick))
		elapse(time.Second)
		require.NoError(t, <-done)
		require.Equal(t, served, w.ping(t, 1, w.session()), "it still forwards")
		require.Zero(t, front.Stats().Adopted+front.Stats().OwnerLost)
		w.use(0)
		call.Poll()
		require.Equal(t, "200 sse primer@1 open", kit.Last(call))
	})
}

// Close of a process that forwards ends nothing at the owners, and tells its clients that it ends.
func TestACloseOfAProcessThatForwards(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, owner, front := newForwarded(t, options{policy: rejoin.Policy{Mode: rejoin.ModeJSON}})
		plain := w.CallTool("x", nil)
		tool := owner.next()
		listen := w.Listen()
		front.Close()
		synctest.Wait()
		require.Equal(t, "200 sse primer@0 retry closed", kit.Last(listen))
		require.Equal(t, "200 error(-32000,2) shutdown answered", kit.Last(plain))
		require.NoError(t, tool.Cause())
		require.NotEmpty(t, kit.Sessions(owner.Server))
	})
}

// A process whose Self is the address of another one says so loudly, and opens no more sessions until that is mended.
func TestSelfIsTheAddressOfAnotherProcess(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := options{}
		w := newWorld(t, o)
		o.cluster = func(c *rejoin.Cluster) { c.Name = "other" }
		p := w.add(o) // at http://2, where the first process answers
		w.net.Serve("2", http.HandlerFunc(w.processes[0].Serve))
		w.open(t, 2)
		elapse(time.Second)
		require.Equal(t, 1, p.log.Count("is the address of another one"))
		_, refused := kit.Open(t, p.Server)
		require.Equal(t, later, refused)
		w.net.Serve("2", http.HandlerFunc(p.Serve))
		elapse(lease + time.Second)
		_, refused = kit.Open(t, p.Server)
		require.Equal(t, later, refused, "it asks")
		elapse(time.Second)
		w.open(t, 2)
	})
}
