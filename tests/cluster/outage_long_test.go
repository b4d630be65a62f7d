package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/cluster/clustertest"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// talk is a stream on which a test sends messages with the values 1, 2, … as progress.
type talk struct {
	call *rejointest.Call
	send func(value int) error
	tool *kit.ManualTool // of the call, if it is one
}

// talks are a request's stream and a standalone one.
var talks = map[string]func(t *testing.T, w *world) talk{
	"request": func(_ *testing.T, w *world) talk {
		call := w.CallTool("x", nil)
		tool := w.processes[0].next()
		return talk{call, func(value int) error { return tool.Progress(float64(value), 0, "") }, tool}
	},
	"standalone": func(t *testing.T, w *world) talk {
		t.Helper()
		call := w.Listen()
		_ = w.CallTool("x", nil)
		session := w.processes[0].next().Session()
		return talk{call, func(value int) error {
			return session.Notify(context.Background(), "notifications/progress", map[string]int{"progressToken": 1, "progress": value})
		}, nil}
	},
}

var links = []clustertest.Link{clustertest.Refused, clustertest.Silent, clustertest.Deaf}

// requireRecorded requires that the engine has the values 1 to n, each once, as the events 1 to n of the call's stream.
func requireRecorded(t *testing.T, h *history, call *rejointest.Call, n int) {
	t.Helper()
	synctest.Wait()
	name, _, _ := strings.Cut(call.IDs()[0], ".")
	for _, k := range h.all() {
		if k.Stream != name {
			continue
		}
		l := h.read(k)
		require.EqualValues(t, n, l.state.Last)
		for i, data := range l.events {
			require.Contains(t, string(data), fmt.Sprintf(`"progress":%d`, i+1))
		}
		return
	}
	require.Fail(t, "the engine has never heard of the stream")
}

// An outage that is shorter than Cluster.Outage: events wait, and all leave with ids.
func TestAShortOutage(t *testing.T) {
	for name, start := range talks {
		for _, link := range links {
			t.Run(fmt.Sprintf("%s, %v", name, link), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w, h := newWatchedWorld(t, options{})
					first, s := w.processes[0], start(t, w)
					require.NoError(t, s.send(1))
					synctest.Wait()
					first.link.SetLink(link)
					for i := 2; i <= 20; i++ {
						require.NoError(t, s.send(i))
						elapse(time.Second)
					}
					require.Len(t, s.call.Messages(), 1, "unsent")
					first.link.SetLink(clustertest.Up)
					elapse(2 * time.Second)
					require.Equal(t, kit.UpTo(21)[1:], kit.Progress(t, s.call.Messages()))
					require.Len(t, s.call.IDs(), 21, "a primer, and an id for each")
					requireRecorded(t, h, s.call, 20)
				})
			})
		}
	}
}

// An outage that is longer: events leave without ids, and have ids again when the engine is back. A reader that stays gets no event twice, and is
// told where it is.
func TestALongOutage(t *testing.T) {
	for name, start := range talks {
		for _, link := range links {
			t.Run(fmt.Sprintf("%s, %v", name, link), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w, h := newWatchedWorld(t, options{cluster: func(c *rejoin.Cluster) { c.Outage = 5 * time.Second }})
					first, s := w.processes[0], start(t, w)
					require.NoError(t, s.send(1))
					synctest.Wait()
					first.link.SetLink(link)
					require.NoError(t, s.send(2))
					require.NoError(t, s.send(3))
					elapse(4 * time.Second)
					require.Len(t, s.call.Messages(), 1, "unsent")
					elapse(4 * time.Second)
					require.Equal(t, "200 sse primer@0 1:progress -:progress -:progress open", kit.Last(s.call))
					for i := 4; i <= 6; i++ {
						require.NoError(t, s.send(i))
						elapse(5 * time.Second)
					}
					require.Equal(t, "200 sse primer@0 1:progress"+strings.Repeat(" -:progress", 5)+" open", kit.Last(s.call), "they do not wait again")
					if s.tool != nil {
						require.ErrorIs(t, s.tool.CloseStream(0), rejoin.ErrNotResumable)
					}
					first.link.SetLink(clustertest.Up)
					elapse(maxHealing)
					require.Equal(t, "200 sse primer@0 1:progress"+strings.Repeat(" -:progress", 5)+" primer@6 open", kit.Last(s.call), "it is told where it is")
					require.NoError(t, s.send(7))
					synctest.Wait()
					require.Equal(t, "200 sse primer@0 1:progress"+strings.Repeat(" -:progress", 5)+" primer@6 7:progress open", kit.Last(s.call))
					requireRecorded(t, h, s.call, 7)
					s.call.Cut()
					s.call.Poll()
					require.Equal(t, "200 sse primer@7 open", kit.Last(s.call), "resumable again, and nothing twice")
					s.call.PollFrom(s.call.IDs()[0])
					require.Contains(t, kit.Last(s.call), "1:progress 2:progress 3:progress 4:progress 5:progress 6:progress 7:progress open")
					if s.tool != nil {
						require.NoError(t, s.tool.CloseStream(0))
					}
					w.kill(0)
					w.use(1)
					s.call.PollFrom(s.call.IDs()[0])
					require.Contains(t, lastOf(s.call), "1:progress 2:progress 3:progress 4:progress 5:progress 6:progress 7:progress")
				})
			})
		}
	}
}

// maxHealing is how long it takes at most until a stream is healed: until the next renewal.
const maxHealing = lease

// The answer to an append is lost: the event is recorded once.
func TestAnAppendWhoseAnswerWasLost(t *testing.T) {
	for name, start := range talks {
		for _, instant := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, instant=%v", name, instant), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					w, h := newWatchedWorld(t, options{instant: instant})
					s := start(t, w)
					for i := 1; i <= 10; i++ {
						once(w, "append", clustertest.Fault{After: errors.New("lost")})
						require.NoError(t, s.send(i))
						elapse(time.Second)
					}
					require.Equal(t, kit.UpTo(11)[1:], kit.Progress(t, s.call.Messages()))
					require.Len(t, s.call.IDs(), 11)
					requireRecorded(t, h, s.call, 10)
				})
			})
		}
	}
}

// Messages that wait for the engine are bounded. A response is never refused.
func TestTheQueueOfAnOutageIsBounded(t *testing.T) {
	for _, link := range links {
		t.Run(fmt.Sprint(link), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := newWorld(t, options{})
				call, tool := startedCall(t, w)
				w.processes[0].link.SetLink(link)
				taken, full := 0, false
				for i := range 300 {
					switch err := tool.Progress(float64(i+2), 0, strings.Repeat("x", 10_000)); {
					case err == nil:
						taken++
						require.False(t, full, "a later one is not taken, for it would be out of order")
					default:
						require.ErrorIs(t, err, rejoin.ErrFull)
						full = true
					}
				}
				require.True(t, full)
				require.InDelta(t, 1<<20, taken*10_000, 60_000, "a mebibyte, and the one that is being appended")
				tool.Returns(strings.Repeat("y", 2<<20))
				require.Equal(t, "200 sse primer@0 1:progress open", kit.Last(call))
				w.processes[0].link.SetLink(clustertest.Up)
				elapse(5 * time.Second)
				require.Equal(t, kit.UpTo(taken + 2)[1:], kit.Progress(t, call.Messages()))
				require.Len(t, call.Result(), 2<<20+2)
				require.Len(t, call.IDs(), taken+3)
			})
		})
	}
}

// A result that left without an id because the engine was away for too long is given to the engine afterwards.
func TestAResultOfALongOutageReachesTheEngine(t *testing.T) {
	for _, link := range links {
		t.Run(fmt.Sprint(link), func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				w := newWorld(t, options{cluster: func(c *rejoin.Cluster) { c.Outage = 2 * time.Second }})
				call, tool := startedCall(t, w)
				w.processes[0].link.SetLink(link)
				require.NoError(t, tool.Progress(2, 0, ""))
				tool.Returns("done")
				elapse(10 * time.Second)
				require.Equal(t, "200 sse primer@0 1:progress -:progress -:result closed", kit.Last(call))
				w.processes[0].link.SetLink(clustertest.Up)
				elapse(maxHealing)
				w.kill(0)
				w.use(1)
				call.PollFrom(call.IDs()[0])
				require.Equal(t, "200 sse primer@0 1:progress 2:progress 3:result closed", kit.Last(call))
			})
		})
	}
}
