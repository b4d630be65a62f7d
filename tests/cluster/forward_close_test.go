package cluster_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Close also ends the calls that this process has forwarded, or http.Server.Shutdown would wait for them, and their clients would get no answer at last.
func TestCloseEndsForwardedCalls(t *testing.T) {
	ends := map[string]string{
		"a call without a head":                               "200 error(-32000,2) shutdown answered",
		"a call without a head, of a client that cannot poll": "200 error(-32000,2) shutdown answered",
		"a stream":                                           "200 sse primer@0 1:progress retry closed",
		"a stream of a client that cannot poll":              "200 sse comment 1:progress -:error(-32000,2) shutdown closed",
		"a stream that is resumed":                           "200 sse primer@0 1:progress retry closed",
		"the standalone stream":                              "200 sse primer@0 retry closed",
		"the standalone stream of a client that cannot poll": "200 sse comment closed",
	}
	for name, x := range lostExchanges {
		for _, again := range []bool{false, true} { // it comes after an earlier Close
			t.Run(name, func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w, owner, front := newForwarded(t, options{version: x.version, policy: x.policy})
					require.Equal(t, served, w.ping(t, 1, w.session())) // it knows the owner
					if again {
						front.Close()
						synctest.Wait()
					}
					call := x.begin(t, w)
					elapse(time.Second)
					front.Close()
					if again && call.Open() == 0 { // it was told to come back before
						return
					}
					require.Equal(t, ends[name], kit.Last(call))
					require.NoError(t, w.net.Shutdown("1", time.Second))
					require.Zero(t, front.Stats().OwnerLost)
					require.EqualValues(t, 1, owner.Stats().Sessions)
				})
			})
		}
	}
}

// What takes no longer than a lease is not ended: its client would have to do it again.
func TestCloseWaitsForWhatIsShort(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w, _, front := newForwarded(t, options{})
		other := w.open(t, 0)
		for _, id := range []string{w.session(), other} {
			require.Equal(t, served, w.ping(t, 1, id))
		}
		w.net.Hang("0", true)
		told := w.ask(t, 1, http.MethodPost, w.session(), `{"jsonrpc":"2.0","method":"notifications/x"}`)
		deleted := w.ask(t, 1, http.MethodDelete, other, "")
		front.Close()
		elapse(time.Second)
		w.net.Hang("0", false)
		require.Equal(t, "202 ended", told.Summary())
		require.Equal(t, "204 ended", deleted.Summary())
	})
}
