package streams_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// drip is a response whose client reads only so many bytes a second.
type drip struct {
	kit.Response
	rate  int
	began time.Time
	took  time.Duration // how long the connection lasted
}

func (w *drip) Write(p []byte) (int, error) {
	kit.Elapse(time.Duration(len(p)) * time.Second / time.Duration(w.rate))
	return w.Response.Write(p)
}

func serveSlowly(s *rejoin.Server, r *http.Request, rate int) *drip {
	w := &drip{Response: kit.Response{Head: http.Header{}}, rate: rate, began: time.Now()}
	go func() {
		s.Serve(w, r)
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.took, w.Ended = time.Since(w.began), true
	}()
	synctest.Wait()
	return w
}

// wait waits until the response has ended, at most an hour.
func (w *drip) wait(t *testing.T) string {
	t.Helper()
	for range 36000 {
		w.Mu.Lock()
		ended := w.Ended
		w.Mu.Unlock()
		if ended {
			break
		}
		kit.Elapse(100 * time.Millisecond)
	}
	summary := w.Summary()
	require.Regexp(t, ` ended$`, summary, "it lasts")
	return summary
}

// CloseAfter limits every connection whose client can poll, also of a slow client, whether its call runs or has ended, and whatever its tool did before.
// Each connection brings something, and together they bring everything, once and in order.
func TestCloseAfterBoundsASlowReader(t *testing.T) {
	const after, rate = 5 * time.Second, 100_000
	for name, test := range map[string]struct {
		size, n    int // the events that are sent while the client is disconnected
		ended      bool
		standalone bool
		close      bool
		most       time.Duration // how much longer than CloseAfter a connection may last
	}{
		"a call that runs":                {size: 5000, n: 400, most: 300 * time.Millisecond},
		"a call that ended":               {size: 5000, n: 400, ended: true, most: 300 * time.Millisecond},
		"a call that ended, small":        {size: 10, n: 15_000, ended: true, most: 300 * time.Millisecond},
		"a call whose tool closes it":     {size: 5000, n: 400, close: true, most: 300 * time.Millisecond},
		"the standalone stream":           {size: 5000, n: 400, standalone: true, most: 300 * time.Millisecond},
		"each event takes longer":         {size: 700_000, n: 5, ended: true, most: 3 * time.Second},
		"each event takes longer, runs":   {size: 700_000, n: 5, most: 3 * time.Second},
		"all of it takes as long":         {size: 1000, n: 400, ended: true, most: 300 * time.Millisecond},
		"a standalone stream, large ones": {size: 700_000, n: 3, standalone: true, most: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				s := kit.NewServer(t, app, rejoin.Config{
					Store: eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: -1, BacklogBytes: -1}), KeepAlive: -1, Logger: kit.QuietLogger(),
					Policy: rejoin.Policy{CloseAfter: after, StreamAfter: time.Millisecond},
				})
				id := kit.OpenReady(t, s)
				post := kit.Serve(s, kit.InSession(t, id, `{"jsonrpc":"2.0","id":"mine","method":"x","params":{"_meta":{"progressToken":1}}}`))
				tool := next()
				kit.Elapse(after)
				require.Regexp(t, `^200 sse primer@0 retry ended$`, post.Summary())
				cursor := kit.IDsIn(post)[0]
				if test.standalone {
					kit.Serve(s, get(t, id, cursor)) // the stream of a client that is late in polling its call is not closed again
					listen := kit.Serve(s, get(t, id, ""))
					kit.Elapse(after)
					cursor = kit.IDsIn(listen)[0]
				}
				big := strings.Repeat("x", test.size)
				for i := range test.n {
					if test.standalone {
						require.NoError(t, tool.Session().Notify(context.Background(), "notifications/progress", []byte(`{"x":"`+big+`"}`)))
						continue
					}
					require.NoError(t, tool.Progress(float64(i), 0, big))
				}
				all := uint64(test.n)
				if test.ended {
					tool.Returns("done")
					all++
				}
				at, connections := uint64(0), 0
				for at < all {
					w := serveSlowly(s, get(t, id, cursor), rate)
					if test.close && connections == 0 {
						require.NoError(t, tool.CloseStream(7*time.Second))
					}
					summary := w.wait(t)
					connections++
					require.LessOrEqual(t, w.took, after+test.most, "connection %d: %s", connections, summary[:min(len(summary), 200)])
					words := strings.Fields(summary)
					from := at
					for _, id := range kit.IDsIn(&w.Response)[1:] {
						_, seq, _ := kit.Position(id)
						require.Equal(t, at+1, seq, "in order, and each once")
						at, cursor = seq, id
					}
					require.Greater(t, at, from, "a connection that brings nothing brings nobody further")
					require.Equal(t, at == all && test.ended, words[len(words)-2] != "retry", "who has not got the response is told to come back: %s", summary[max(0, len(summary)-200):])
				}
				if name != "all of it takes as long" {
					require.Greater(t, connections, 2, "CloseAfter bounds each")
				}
				if test.ended {
					require.Equal(t, "204 sse ended", kit.Serve(s, get(t, id, cursor)).Summary())
					return
				}
				tool.Returns("done")
			})
		})
	}
}

func get(t *testing.T, session, cursor string) *http.Request {
	t.Helper()
	r := kit.Request(t, http.MethodGet, "", "Accept", "text/event-stream", "Mcp-Session-Id", session)
	if cursor != "" {
		r.Header.Set("Last-Event-ID", cursor)
	}
	return r
}

// A client that cannot poll is not disconnected, however slow it is. Without CloseAfter a close writes all events that were there at the time of the close.
func TestASlowReaderThatGetsAll(t *testing.T) {
	const rate, n = 100_000, 400
	for name, test := range map[string]struct {
		version string
		after   time.Duration
		end     func(*testing.T, *kit.ManualTool)
		want    string
		runs    bool
	}{
		"it cannot poll": {kit.Legacy, time.Second, func(_ *testing.T, tool *kit.ManualTool) { tool.Returns("done") }, `401:result ended$`, false},
		"a close":        {kit.Polling, -1, func(t *testing.T, tool *kit.ManualTool) { require.NoError(t, tool.CloseStream(0)) }, `400:progress retry ended$`, true},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				s := kit.NewServer(t, app, rejoin.Config{
					Store: eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: -1}), KeepAlive: -1, Policy: rejoin.Policy{CloseAfter: test.after},
				})
				open := kit.Serve(s, kit.Request(t, http.MethodPost, strings.Replace(kit.Initialize, kit.Polling, test.version, 1)))
				require.Equal(t, "200 result ended", open.Summary())
				r := kit.InSession(t, open.Head.Get("Mcp-Session-Id"), `{"jsonrpc":"2.0","id":"mine","method":"x","params":{"_meta":{"progressToken":1}}}`)
				w := serveSlowly(s, r, rate)
				tool := next()
				big := strings.Repeat("x", 5000)
				for i := range n {
					require.NoError(t, tool.Progress(float64(i), 0, big))
				}
				test.end(t, tool)
				require.Regexp(t, test.want, w.wait(t))
				require.Greater(t, w.took, 20*time.Second)
				if test.runs {
					tool.Returns("done")
				}
			})
		})
	}
}

// A poll that was held for CloseAfter does not increase the retry: the response of a call that sends nothing for long, and a notification on an idle
// standalone stream, are never later than the first retry.
func TestHeldPollsComeBackSoon(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{KeepAlive: -1, Policy: rejoin.Policy{CloseAfter: 5 * time.Second}}})
		listen, call := c.Listen(), c.CallTool("x", nil)
		tool := next()
		for range 20 {
			retry := call.WaitClosed()
			kit.RequireSpread(t, time.Second, retry)
			kit.RequireSpread(t, time.Second, listen.WaitClosed())
			kit.Elapse(retry)
			call.Poll()
			listen.Poll()
		}
		require.Equal(t, 1, listen.Open())
		kit.Elapse(5*time.Second + time.Nanosecond)
		began := time.Now()
		tool.Returns("done")
		require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", nil))
		kit.Elapse(max(call.WaitClosed(), listen.WaitClosed())) // until both clients are due
		call.Poll()
		listen.Poll()
		require.Regexp(t, "1:result closed$", kit.Last(call))
		require.Regexp(t, "1:x open$", kit.Last(listen))
		require.LessOrEqual(t, time.Since(began), 1201*time.Millisecond)
	})
}

// An empty poll that ends at once increases the retry, until one is held.
func TestPollsThatComeAndGoComeLess(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{KeepAlive: -1, Policy: rejoin.Policy{CloseAfter: 5 * time.Second}}})
		call := c.CallTool("x", nil)
		tool := next()
		closes := func(held bool) time.Duration {
			if !held {
				require.NoError(t, tool.CloseStream(0))
			}
			retry := call.WaitClosed()
			kit.Elapse(retry)
			call.Poll()
			return retry
		}
		kit.RequireSpread(t, time.Second, closes(false)) // the POST was not a poll
		kit.RequireSpread(t, 1500*time.Millisecond, closes(false))
		kit.RequireSpread(t, 2250*time.Millisecond, closes(false))
		kit.RequireSpread(t, time.Second, closes(true))
		kit.RequireSpread(t, time.Second, closes(true))
		kit.RequireSpread(t, 1500*time.Millisecond, closes(false))
		tool.Returns("done")
	})
}
