package streams_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/eventstore"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestGetMustAcceptStreams(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := kit.New(t, &kit.Fake{}, rejointest.Config{})
		for _, no := range []string{"application/json", "text/html", "text/event-stream;q=0", "application/*"} {
			require.Equal(t, "406 error(-32600,null)", kit.Get(t, c, "Accept", no), no)
			require.Equal(t, "406 error(-32600,null)", kit.Get(t, c, "Accept", no, "Last-Event-ID", "garbage"), "%s: at once, whatever the cursor", no)
		}
		for _, yes := range []string{"", "*/*", "text/*", "text/event-stream", "application/json, text/event-stream;q=0.1"} {
			res := c.Do(kit.Request(t, http.MethodGet, "", "Accept", yes))
			require.Equal(t, http.StatusOK, res.StatusCode, "%q", yes)
			require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
			require.NoError(t, res.Body.Close())
		}
	})
}

// While a request runs, and while events of it are left, a cursor is served. After that a GET gets 204: there is nothing to poll for.
func TestGetOfARequestStream(t *testing.T) {
	for _, version := range []string{kit.Polling, kit.Legacy} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := kit.New(t, app, rejointest.Config{Version: version})
			call := c.CallTool("x", nil)
			tool := next()
			require.NoError(t, tool.Progress(1, 0, ""))
			require.NoError(t, tool.Progress(2, 0, ""))
			ids := call.IDs()
			first, second := ids[len(ids)-2], ids[len(ids)-1]
			call.PollFrom(first)
			require.Equal(t, greeted("200 sse <greet>@1 2:progress open", version), kit.Last(call))
			tool.Returns("done")
			require.Equal(t, greeted("200 sse <greet>@1 2:progress 3:result closed", version), kit.Last(call))
			for range 3 { // as often as requested
				call.PollFrom(second)
				require.Equal(t, strings.Replace(greeted("200 sse <greet>@1 3:result closed", version), "@1", "@2", 1), kit.Last(call))
			}
			ids = call.IDs()
			call.PollFrom(ids[len(ids)-1])
			require.Equal(t, "204 sse answered", kit.Last(call))
			require.Equal(t, "text/event-stream", call.Header().Get("Content-Type"))
		})
	}
}

// A cursor whose events were dropped is not refused: the answer has an error in place of each response that will not come any more.
func TestGetOfADroppedStream(t *testing.T) {
	for _, version := range []string{kit.Polling, kit.Legacy} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := kit.New(t, app, rejointest.Config{Version: version, Server: rejoin.Config{Policy: rejoin.Policy{Retain: time.Minute}}})
			call := c.CallTool("x", nil)
			tool := next()
			require.NoError(t, tool.Progress(1, 0, ""))
			ids := call.IDs()
			call.Cut()
			tool.Returns("done")
			kit.Elapse(2 * time.Minute)
			require.EqualValues(t, 1, c.Server().Stats().Streams)
			call.PollFrom(ids[len(ids)-1])
			require.Equal(t, greeted("200 sse <greet>@1 2:error(-32000,2) expired closed", version), kit.Last(call))
			call.Poll()
			require.Equal(t, "204 sse answered", kit.Last(call), "the error's id is the last")
			require.EqualValues(t, 1, c.Server().Stats().Expired)
			if version == kit.Polling {
				call.PollFrom(ids[0])
				require.Equal(t, "200 sse primer@0 1:error(-32000,2) expired closed", kit.Last(call), "also from further back")
			}
		})
	}
}

// A cursor of the standalone stream is served from the oldest event that is kept.
func TestGetOfAStandaloneStreamWithAGap(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		store := eventstore.NewMemory(eventstore.MemoryConfig{BacklogBytes: 8 << 10})
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{Store: store}})
		listen := c.Listen()
		c.CallTool("x", nil)
		tool := next()
		notify := func(n int) {
			require.NoError(t, tool.Session().Notify(context.Background(), "notifications/progress",
				json.RawMessage(fmt.Sprintf(`{"progress":%d,"x":%q}`, n, strings.Repeat("x", 1000)))))
		}
		notify(0)
		require.Equal(t, []int{0}, kit.Progress(t, listen.Messages()))
		listen.Cut()
		for i := 1; i < 30; i++ {
			notify(i)
		}
		cursor := listen.IDs()[1]
		res := c.Do(kit.Request(t, http.MethodGet, "", "Last-Event-ID", cursor))
		got := make([]byte, 5000)
		_, err := res.Body.Read(got)
		require.NoError(t, err)
		require.Regexp(t, `^id: [^.]{22}\.1\.[0-9a-z]+\nretry: 1000\ndata: \n\nevent: message\nid: [^.]{22}\.2[0-9]\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":2[0-9],`, string(got))
		require.NoError(t, res.Body.Close())
		require.EqualValues(t, 1, c.Server().Stats().Expired, "the gap is counted")
		require.NotZero(t, c.Server().Stats().Evicted)
	})
}

// A cursor that this session never issued is refused, without more information: neither whether a stream exists, nor its position.
func TestGetOfAnUnknownCursor(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""))
		mine, _, _ := strings.Cut(call.IDs()[1], ".")
		other := kit.New(t, app, rejointest.Config{})
		foreign := other.CallTool("x", nil)
		require.NoError(t, next().Progress(1, 0, ""))
		undecided := c.CallTool("x", nil) // no id of it was ever sent
		require.Equal(t, "open", kit.Last(undecided))
		bodies := map[string]bool{}
		for name, cursor := range map[string]string{
			"garbage": "garbage", "a number": "17", "past all numbers": mine + ".18446744073709551616", "another spelling": mine + ".01", "another server's": foreign.IDs()[1],
			"a stream that never was": "AAAAAAAAAAAAAAAAAAAAAA.0", "the start of one": mine, "very long": strings.Repeat("x", 10_000),
			"white space inside": mine + ". 1",
		} {
			body, res := kit.ReadAll(t, c.Do(kit.Request(t, http.MethodGet, "", "Last-Event-ID", cursor)))
			require.Equal(t, "400 error(-32600,null) unknown", kit.Refusal(t, body, res), name)
			bodies[body] = true
		}
		require.Len(t, bodies, 1, "the same words for all")
		require.Equal(t, 1, call.Open(), "and nothing was taken over")
	})
}

// A cursor past the end of a stream of the session is answered like an expired one, because the official Go client ends its session if a poll is refused.
// The answer has a new id each time, and no number that a later event may get.
func TestGetPastTheEnd(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""))
		mine, _, _ := strings.Cut(call.IDs()[1], ".")
		seen := map[string]bool{}
		ask := func(cursor string) {
			body, res := kit.ReadAll(t, c.Do(kit.Request(t, http.MethodGet, "", "Last-Event-ID", cursor)))
			kit.RequireStream(t, res)
			require.Contains(t, body, `"id":2,"error":{"code":-32000,`)
			require.Contains(t, body, `"data":{"reason":"expired"}`)
			ids := regexp.MustCompile(`(?m)^id: (.*)$`).FindAllStringSubmatch(body, -1)
			require.Len(t, ids, 2, body)
			for _, id := range ids {
				require.Regexp(t, `\.[0-9]+\.[0-9a-z]+$`, id[1])
				require.False(t, seen[id[1]], "no id comes twice")
				seen[id[1]] = true
			}
		}
		for _, at := range []string{".2", ".2", ".18446744073709551615", ".7.abc"} {
			ask(mine + at)
		}
		for id := range maps.Clone(seen) {
			ask(id)
		}
		require.Equal(t, 1, call.Open(), "nothing was taken over")
		require.NoError(t, tool.Progress(2, 0, ""))
		tool.Returns("done")
		require.Equal(t, "200 sse primer@0 1:progress 2:progress 3:result closed", kit.Last(call), "the call goes on")
		ask(mine + ".4")
		require.EqualValues(t, len(seen)/2, c.Server().Stats().Expired, "counted")

		listen := c.Listen()
		tell := func() { require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", nil)) }
		tell()
		listen.Cut()
		tell()
		name, _, _ := strings.Cut(listen.IDs()[0], ".")
		listen.PollFrom(name + ".99")
		require.Equal(t, "200 sse primer@1 2:x open", kit.Last(listen), "the standalone stream goes on from what was written")
	})
}

// A cursor of another session of the same server is refused too.
func TestGetOfAnotherSessionsCursor(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		require.NoError(t, next().Progress(1, 0, ""))
		_, res := kit.Post(t, c, kit.Initialize, "Mcp-Session-Id", "")
		second := res.Header.Get("Mcp-Session-Id")
		for _, id := range append(call.IDs(), c.Listen().IDs()...) {
			require.Equal(t, "400 error(-32600,null) unknown", kit.Get(t, c, "Mcp-Session-Id", second, "Last-Event-ID", id))
		}
		require.Equal(t, 1, call.Open())
	})
}

// A GET without a cursor gets the events that were never written to a connection, and no older ones. An empty cursor counts as none.
func TestGetWithoutACursor(t *testing.T) {
	for _, version := range []string{kit.Polling, kit.Legacy} {
		kit.Bubble(t, func(t *testing.T) {
			app, next := kit.ManualTools()
			c := kit.New(t, app, rejointest.Config{Version: version})
			c.CallTool("x", nil)
			tool := next()
			notify := func() {
				require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", nil))
			}
			notify()
			notify()
			first := c.Listen()
			require.Equal(t, greeted("200 sse <greet>@0 1:x 2:x open", version), kit.Last(first))
			second := c.Listen()
			require.Equal(t, strings.Replace(greeted("200 sse <greet>@1 open", version), "@1", "@2", 1), kit.Last(second))
			require.Zero(t, first.Open())
			second.Cut()
			notify()
			third := c.Listen()
			require.Equal(t, strings.Replace(greeted("200 sse <greet>@1 3:x open", version), "@1", "@2", 1), kit.Last(third))
			res := c.Do(kit.Request(t, http.MethodGet, "", "Last-Event-ID", " "))
			require.Equal(t, http.StatusOK, res.StatusCode, "an empty one is absent")
			require.Zero(t, third.Open())
		})
	}
}

func TestNoStandaloneStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{Server: rejoin.Config{NoStandalone: true}})
		body, res := kit.ReadAll(t, c.Do(kit.Request(t, http.MethodGet, "")))
		require.Equal(t, "405 error(-32600,null)", kit.Refusal(t, body, res))
		require.Contains(t, body, "NoStandalone")
		require.Equal(t, "POST, DELETE", res.Header.Get("Allow"))

		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Session().Notify(context.Background(), "notifications/x", nil), "that nobody can hear it is no error")
		require.NoError(t, tool.Progress(1, 0, ""))
		call.Poll()
		require.Equal(t, "200 sse primer@1 open", kit.Last(call), "a resume is served")
		require.NoError(t, tool.CloseStandaloneStream(0), "a client that is away stays away")
	})
}

// Too many GETs are delayed, by up to a second, and told to come back later. None is refused, because a client that polls for its result would end its
// session.
func TestTooManyGets(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""))
		cursor := call.IDs()[1]
		slowed := 0
		for range 300 {
			began := time.Now()
			res := c.Do(kit.Request(t, http.MethodGet, "", "Last-Event-ID", cursor))
			require.Equal(t, http.StatusOK, res.StatusCode)
			took := time.Since(began)
			require.LessOrEqual(t, took, time.Second)
			head := make([]byte, 200)
			n, err := res.Body.Read(head)
			require.NoError(t, err)
			if took > 0 {
				slowed++
				require.NotContains(t, string(head[:n]), "retry: 1000\n", "the client is told to come back later")
			}
			_ = res.Body.Close()
		}
		require.Greater(t, slowed, 100)
		require.Less(t, slowed, 201, "the first ones come at once")
		require.NoError(t, tool.Cause())
		kit.Elapse(time.Minute)
		began := time.Now()
		call.Poll()
		require.Zero(t, time.Since(began), "it is forgiven")
		require.Equal(t, "200 sse primer@1 open", kit.Last(call))
	})
}

// A stream that has not sent its head yet can be taken over like any other.
func TestManyGetsAtOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		app, next := kit.ManualTools()
		c := kit.New(t, app, rejointest.Config{})
		call := c.CallTool("x", nil)
		tool := next()
		require.NoError(t, tool.Progress(1, 0, ""))
		id, cursor := tool.Session().ID(), call.IDs()[1]
		var all []*kit.Response
		for range 250 {
			r := kit.Request(t, http.MethodGet, "", "Last-Event-ID", cursor)
			r.Header.Set("Mcp-Session-Id", id)
			all = append(all, kit.Serve(c.Server(), r))
		}
		kit.Elapse(time.Second)
		tool.Returns("done")
		for i, w := range all[:249] {
			require.Equal(t, "200 sse primer@1 retry ended", w.Summary(), "%d", i)
		}
		require.Equal(t, "200 sse primer@1 2:result ended", all[249].Summary(), "the newest wins")
	})
}
