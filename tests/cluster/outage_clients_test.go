package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// A client is let go in time while an event of its stream waits for the engine. It fetches the event later.
func TestCloseAfterDuringAnOutage(t *testing.T) {
	for _, link := range links {
		for _, when := range []string{"before", "after"} {
			t.Run(fmt.Sprintf("%v, an event comes %s CloseAfter", link, when), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w, h := newWatchedWorld(t, options{policy: rejoin.Policy{CloseAfter: 5 * time.Second}})
					call, tool := startedCall(t, w)
					w.processes[0].link.SetLink(link)
					if when == "before" {
						require.NoError(t, tool.Progress(2, 0, ""))
					}
					elapse(3 * time.Second)
					require.Equal(t, "200 sse primer@0 1:progress open", kit.Last(call))
					elapse(2 * time.Second)
					require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Last(call))
					if when == "after" {
						require.NoError(t, tool.Progress(2, 0, ""))
					}
					call.Poll()
					require.Equal(t, "200 sse primer@1 open", kit.Last(call))
					w.processes[0].link.SetLink(clustertest.Up)
					elapse(2 * time.Second)
					require.Equal(t, "200 sse primer@1 2:progress open", kit.Last(call))
					tool.Returns("done")
					require.JSONEq(t, `"done"`, string(call.Result()))
					require.Len(t, call.IDs(), 5)
					require.EqualValues(t, 3, h.read(h.all()[0]).state.Last)
				})
			})
		}
	}
}

// The app lets a client go while an event waits: it does not stay until the engine is back.
func TestCloseStreamDuringAnOutage(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		w := newWorld(t, options{})
		call, tool := startedCall(t, w)
		w.processes[0].link.SetLink(clustertest.Refused)
		require.NoError(t, tool.Progress(2, 0, ""))
		require.NoError(t, tool.CloseStream(0))
		elapse(time.Second)
		require.Equal(t, "200 sse primer@0 1:progress retry closed", kit.Last(call))
		w.processes[0].link.SetLink(clustertest.Up)
		tool.Returns("done")
		require.JSONEq(t, `"done"`, string(call.Result()))
		require.Equal(t, "200 sse primer@1 2:progress 3:result closed", kit.Last(call))
	})
}

// A client is cut off while events wait. It gets them when it comes back, in the outage or after it, in order and each once with an id.
func TestAClientThatIsCutOffDuringAnOutage(t *testing.T) {
	for _, link := range links {
		for _, back := range []string{"during", "after"} {
			for _, outage := range []time.Duration{2 * time.Second, time.Minute} {
				t.Run(fmt.Sprintf("%v, comes back %s it, Outage=%v", link, back, outage), func(t *testing.T) {
					kit.Bubble(t, func(t *testing.T) {
						w, h := newWatchedWorld(t, options{cluster: func(c *rejoin.Cluster) { c.Outage = outage }})
						call, tool := startedCall(t, w)
						w.processes[0].link.SetLink(link)
						require.NoError(t, tool.Progress(2, 0, ""))
						elapse(time.Second)
						call.Cut()
						require.NoError(t, tool.Progress(3, 0, ""))
						elapse(4 * time.Second)
						waiting := outage > time.Second*5
						if back == "during" {
							call.Poll()
							require.NoError(t, tool.Progress(4, 0, ""))
							elapse(time.Second)
							if waiting {
								require.Equal(t, "200 sse primer@1 open", kit.Last(call))
							} else {
								require.Equal(t, "200 sse primer@1 -:progress -:progress -:progress open", kit.Last(call))
							}
						} else {
							require.NoError(t, tool.Progress(4, 0, ""))
						}
						w.processes[0].link.SetLink(clustertest.Up)
						elapse(maxHealing)
						if back == "after" {
							call.Poll()
						}
						want := "200 sse primer@1 2:progress 3:progress 4:progress open"
						if back == "during" && !waiting {
							want = "200 sse primer@1 -:progress -:progress -:progress primer@4 open"
						}
						require.Equal(t, want, kit.Last(call))
						require.Equal(t, kit.UpTo(5)[1:], kit.Progress(t, call.Messages()))
						requireRecorded(t, h, call, 4)
						require.NoError(t, tool.CloseStream(0))
						tool.Returns("done")
						require.JSONEq(t, `"done"`, string(call.Result()))
					})
				})
			}
		}
	}
}
