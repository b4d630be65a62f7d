package cluster_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// No request waits longer than a lease for an owner that has died, for the adoption that follows, and for the engine together: whenever it comes, however
// many come, and however slow the engine and App.Open are. It is told to come back then, and the adoption goes on.
func TestNobodyWaitsLongerThanALease(t *testing.T) {
	for _, opens := range []time.Duration{0, 4 * time.Second, time.Hour} {
		for _, slow := range []time.Duration{0, 900 * time.Millisecond} {
			for after := time.Duration(0); after <= 2*lease; after += 1500 * time.Millisecond {
				t.Run(fmt.Sprintf("%v after the death, App.Open takes %v and the engine %v", after, opens, slow), func(t *testing.T) {
					kit.Bubble(t, func(t *testing.T) { waitsNoLonger(t, opens, slow, after) })
				})
			}
		}
	}
}

func waitsNoLonger(t *testing.T, opens, slow, after time.Duration) {
	t.Helper()
	o := options{}
	of := watch(&o)
	w := newWorld(t, o)
	knows(t, w, 1)
	dies(w)
	of(1).opens(func(*http.Request, *rejoin.Session, []byte) error {
		kit.Elapse(opens)
		return nil
	})
	w.processes[1].link.SetScript(func(c clustertest.Call) (f clustertest.Fault) {
		if c.Op == "find" || c.Op == "adopt" || c.Op == "release" {
			f.Delay = slow
		}
		return f
	})
	elapse(after)
	began := time.Now()
	all := map[*kit.Response]time.Duration{} // when each was sent
	for range 4 {
		for _, v := range verbs[:4] {
			all[w.ask(t, 1, v.method, w.session(), v.body, "Mcp-Protocol-Version", kit.Polling)] = time.Since(began)
		}
		elapse(time.Second)
	}
	for len(all) > 0 {
		for res, sent := range all {
			if got := res.Summary(); got != "open" {
				require.NotRegexp(t, "^404", got)
				delete(all, res)
				continue
			}
			require.LessOrEqual(t, time.Since(began)-sent, lease)
		}
		elapse(50 * time.Millisecond)
	}
	elapse(2 * time.Hour)
}

// Requests of others who know the session id do not hold up those of its user: each of them looks once, and learns nothing.
func TestRequestsOfOthersDoNotHoldUpAnAdoption(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{config: byUser})
		session := w.openFor(t, 0, "ann")
		w.kill(0)
		w.processes[1].link.SetScript(slowFind)
		var others []*kit.Response
		bob := func(n int) {
			for range n {
				others = append(others, w.ask(t, 1, http.MethodPost, session, kit.Ping, "X-User", "bob"))
			}
		}
		bob(100)
		mine := w.ask(t, 1, http.MethodPost, session, kit.Ping, "X-User", "ann")
		bob(100)
		elapse(250 * time.Millisecond)
		require.Equal(t, served, mine.Summary(), "after the search of another, and one of its own")
		for _, res := range others {
			require.Equal(t, gone, res.Summary())
		}
		require.EqualValues(t, 1, w.processes[1].Stats().Adopted)
		require.LessOrEqual(t, w.processes[1].link.Count("find"), 2)
	})
}

// A request that has not found its session here, and looks for it when another one has just adopted it, finds that. The session is not adopted again: that
// would end its calls.
func TestARequestThatCrossesTheEndOfASearch(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		goOn := make(chan struct{})
		o := options{config: func(c *rejoin.Config) {
			c.Principal = func(r *http.Request) string { // it is asked for before the session is looked for
				if r.Header.Get("X-Wait") != "" {
					<-goOn
				}
				return ""
			}
		}}
		of := watch(&o)
		w := newWorld(t, o)
		w.lose()
		var late []*kit.Response
		for _, v := range verbs[:5] {
			late = append(late, w.ask(t, 1, v.method, w.session(), v.body, "X-Wait", "1"))
		}
		call := w.CallTool("x", nil)
		tool := w.processes[1].next()
		close(goOn)
		for _, res := range late {
			require.Regexp(t, "^20", res.Summary())
		}
		require.Equal(t, 1, of(1).times())
		require.Empty(t, of(1).causes())
		require.NoError(t, tool.Cause())
		tool.Returns("done")
		require.Equal(t, `"done"`, string(call.Result()))
		require.Equal(t, 1, w.processes[1].link.Count("adopt"))
	})
}
