package calls_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
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

// enders are the ways in which the server's side ends a session.
var enders = map[string]func(*rejoin.Server, *rejoin.Session){
	"the app":      func(_ *rejoin.Server, s *rejoin.Session) { s.End(errors.New("enough")) },
	"the operator": func(srv *rejoin.Server, s *rejoin.Session) { _ = srv.EndSession(s.Ref()) },
}

// When the server ends a session, every client that waits for a response is told, on a stream or as plain JSON, and for each member of a batch.
// The standalone stream ends cleanly, and tools get the cause.
func TestWhoWaitsIsToldThatTheSessionHasEnded(t *testing.T) {
	for by, end := range enders {
		t.Run(by, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				app, next := kit.ManualTools()
				s := kit.NewServer(t, app, rejoin.Config{KeepAlive: -1, Policy: rejoin.Policy{StreamAfter: -1}})
				open := kit.Serve(s, kit.Request(t, http.MethodPost, strings.Replace(kit.Initialize, kit.Polling, kit.Batches, 1)))
				require.Equal(t, "200 result ended", open.Summary())
				id := open.Head.Get("Mcp-Session-Id")
				var tools []*kit.ManualTool
				serve := func(calls int, body string, header ...string) *kit.Response {
					w := kit.Serve(s, kit.InSession(t, id, body, header...))
					for range calls {
						tools = append(tools, next())
					}
					return w
				}
				body := func(ids ...int) string {
					var all []string
					for _, n := range ids {
						all = append(all, kit.CallBody(fmt.Sprint(n), `{"_meta":{"progressToken":1}}`))
					}
					return "[" + strings.Join(all, ",") + "]"
				}
				sse := []string{"Accept", "text/event-stream"}
				one := serve(1, kit.CallBody("1", "{}"))
				oneSSE := serve(1, kit.CallBody("2", "{}"), sse...)
				two := serve(2, body(3, 4))
				tools[2].Returns("done") // held back until the batch has its other responses
				twoSSE := serve(2, body(5, 6), sse...)
				three := serve(3, body(7, 8, 9))
				require.NoError(t, tools[7].Progress(1, 0, ""))
				tools[6].Returns("done") // one of the three
				r := kit.Request(t, http.MethodGet, "", "Accept", "text/event-stream", "Mcp-Session-Id", id)
				listen := kit.Serve(s, r)
				require.Equal(t, "200 sse comment open", listen.Summary())

				end(s, tools[0].Session())
				require.Equal(t, "200 error(-32000,1) ended ended", one.Summary())
				require.Equal(t, "200 sse comment 1:error(-32000,2) ended ended", oneSSE.Summary())
				require.Regexp(t, `^200 \[result error\(-32000,[34]\) ended\] ended$`, two.Summary())
				require.Equal(t, "200 sse comment 1:error(-32000,5) ended 2:error(-32000,6) ended ended", twoSSE.Summary())
				require.Regexp(t, `^200 sse comment 1:progress 2:result 3:error\(-32000,[789]\) ended 4:error\(-32000,[789]\) ended ended$`, three.Summary())
				for n := range 9 {
					all := one.Body.String() + oneSSE.Body.String() + two.Body.String() + twoSSE.Body.String() + three.Body.String()
					require.Equal(t, 1, strings.Count(all, fmt.Sprintf(`"id":%d,`, n+1)), "one answer for %d", n+1)
				}
				require.Equal(t, "200 sse comment ended", listen.Summary(), "nobody waits there")
				for _, tool := range tools {
					if cause := tool.Cause(); cause != nil && !errors.Is(cause, rejoin.ErrSessionEnded) {
						require.ErrorContains(t, cause, "context canceled", "it was answered")
					}
				}
				require.ErrorIs(t, tools[0].Cause(), rejoin.ErrSessionEnded)
				require.Equal(t, "404 error(-32001,null) ended", kit.Serve(s, kit.InSession(t, id, kit.Ping)).Summary())
				require.Zero(t, s.Stats().Sessions+s.Stats().StoredBytes)
				kit.Elapse(time.Second) // for the tools to end
			})
		})
	}
}

// A response was recorded, and perhaps not written, when the session ends: the client gets either the response or the error, not both. The same
// holds for a client that has stopped reading.
func TestAResponseThatIsBeingWrittenWhenTheSessionEnds(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		store := eventstore.NewMemory(eventstore.MemoryConfig{SessionBytes: -1})
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store}})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(0, 0, ""))
		call.Freeze()
		for i := range 100 {
			require.NoError(t, tool.Progress(float64(i+1), 0, strings.Repeat("x", 5000)))
		}
		tool.Returns("done")
		require.NoError(t, c.Server().EndSession(tool.Session().Ref()))
		call.Thaw()
		synctest.Wait()
		require.Regexp(t, `[0-9]+:progress 102:error\(-32000,2\) ended closed$`, kit.Last(call), "what was under way, and the error under the number of the response")
		require.Zero(t, call.Open())
	})
}

// Sessions end at the same time as responses, messages, closes, polls and cancellations. No client gets two answers to a request. A client
// that was not disconnected gets one, unless it cancelled the request or disconnected.
func TestEndsThatCross(t *testing.T) {
	const calls = 12
	rounds := 300 / kit.Fewer * 4
	ended, results := 0, 0
	for round := range rounds {
		kit.Bubble(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(round), 5))
			app, next := kit.ManualTools()
			mode := []rejoin.Mode{rejoin.ModeAuto, rejoin.ModeSSE}[round%2]
			s := kit.NewServer(t, app, rejoin.Config{KeepAlive: -1, Logger: kit.QuietLogger(), Policy: rejoin.Policy{Mode: mode, StreamAfter: -1}})
			id := kit.OpenReady(t, s)
			var posts, polls []*kit.Response
			var tools []*kit.ManualTool
			for n := range calls {
				posts = append(posts, kit.Serve(s, kit.InSession(t, id, kit.CallBody(fmt.Sprint(n), `{"_meta":{"progressToken":1}}`))))
				tools = append(tools, next())
				if r.IntN(2) == 0 {
					require.NoError(t, tools[n].Progress(0, 0, ""))
				}
			}
			synctest.Wait()
			var acts []func()
			cancelled := map[int]bool{}
			for n, tool := range tools {
				switch r.IntN(6) {
				case 0, 1:
					acts = append(acts, func() { letReturn(tool) })
				case 2:
					acts = append(acts, func() { _ = tool.Progress(1, 0, ""); letReturn(tool) })
				case 3:
					acts = append(acts, func() { _ = tool.CloseStream(0) })
				case 4:
					if ids := kit.IDsIn(posts[n]); len(ids) > 0 {
						g := kit.Request(t, http.MethodGet, "", "Accept", "text/event-stream", "Mcp-Session-Id", id, "Last-Event-ID", ids[0])
						w := &kit.Response{Head: http.Header{}}
						polls = append(polls, w)
						acts = append(acts, func() { s.Serve(w, g) })
					}
				case 5:
					cancelled[n] = true
					acts = append(acts, func() {
						w := kit.Response{Head: http.Header{}}
						s.Serve(&w, kit.InSession(t, id, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, n)))
					})
				}
			}
			session := tools[0].Session()
			acts = append(acts, func() { session.End(nil) }, func() { _ = s.EndSession(session.Ref()) })
			r.Shuffle(len(acts), func(i, j int) { acts[i], acts[j] = acts[j], acts[i] })
			start := make(chan struct{})
			for _, act := range acts {
				go func() { <-start; act() }()
			}
			close(start)
			synctest.Wait()
			kit.Elapse(time.Second)
			var later strings.Builder
			for _, w := range polls {
				_ = w.Summary()
				later.WriteString(w.Body.String())
			}
			for n, w := range posts {
				summary := w.Summary()
				require.Regexp(t, ` ended$`, summary)
				answer := regexp.MustCompile(fmt.Sprintf(`"id":%d,"(result|error)`, n))
				answers := answer.FindAllStringSubmatch(w.Body.String()+later.String(), -1)
				require.LessOrEqual(t, len(answers), 1, "%s\n%s", summary, later.String())
				away := strings.Contains(summary, "retry")
				if len(answers) == 0 {
					require.True(t, away || cancelled[n], "call %d, round %d: %s", n, round, summary)
					continue
				}
				if answers[0][1] == "error" {
					ended++
				} else {
					results++
				}
			}
			require.Zero(t, s.Stats().Sessions)
		})
	}
	t.Logf("%d errors, %d results", ended, results)
	require.NotZero(t, ended)
	require.NotZero(t, results)
}

// letReturn lets a tool return, unless its context ends first.
func letReturn(tool *kit.ManualTool) {
	select {
	case tool.Answer <- "done":
	case <-tool.Ctx.Done():
	}
}
