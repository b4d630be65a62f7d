package wire_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func inMode(mode rejoin.Mode) rejointest.Config {
	return rejointest.Config{Server: rejoin.Config{KeepAlive: -1, Policy: rejoin.Policy{Mode: mode}}}
}

// The form of the answer to a POST with a request depends on the policy, the client's Accept and the writer. The transports specification, "sending
// messages to the server" 5.
var modeRows = []row{
	{"Auto: plain JSON if the response is there within StreamAfter", func(t *testing.T) {
		w := newWorld(t, inMode(rejoin.ModeAuto))
		call, tool := w.call()
		kit.Elapse(100*time.Millisecond - time.Nanosecond)
		tool.Returns("done")
		require.Equal(t, "200 result answered", kit.Last(call))
		kit.RequireHead(t, call.Header(), "Content-Type", "application/json")
		require.EqualValues(t, 1, w.c.Server().Stats().Streams, "it is not recorded")
	}},
	{"Auto: a stream after StreamAfter, or as soon as anything else has to be sent", func(t *testing.T) {
		w := newWorld(t, inMode(rejoin.ModeAuto))
		slow, tool := w.call()
		kit.Elapse(100 * time.Millisecond)
		require.Equal(t, "200 sse primer@0 open", kit.Last(slow))
		kit.RequireHead(t, slow.Header(), kit.StreamHead...)
		tool.Returns("done")
		require.Equal(t, "200 sse primer@0 1:result closed", kit.Last(slow))
		for name, send := range map[string]func(*kit.ManualTool){
			"1:message":    func(p *kit.ManualTool) { require.NoError(t, p.Notify("notifications/message", nil)) },
			"1:progress":   func(p *kit.ManualTool) { require.NoError(t, p.Progress(1, 0, "")) },
			"1:roots/list": func(p *kit.ManualTool) { go func() { _ = p.Ask(p.Ctx, "roots/list", nil, nil) }() },
			"retry":        func(p *kit.ManualTool) { require.NoError(t, p.CloseStream(0)) },
		} {
			call, tool := w.call()
			send(tool)
			require.Contains(t, kit.Last(call), "200 sse primer@0 "+name, name)
			kit.RequireHead(t, call.Header(), kit.StreamHead...)
		}
	}},
	{"SSE: a stream, whose primer a fast answer shares", func(t *testing.T) {
		w := newWorld(t, inMode(rejoin.ModeSSE))
		fast, tool := w.call()
		tool.Returns("done")
		require.Equal(t, "200 sse primer@0 1:result closed", kit.Last(fast))
		kit.RequireHead(t, fast.Header(), kit.StreamHead...)
		slow, _ := w.call()
		kit.Elapse(time.Millisecond - time.Nanosecond)
		require.Equal(t, "open", kit.Last(slow))
		kit.Elapse(time.Nanosecond)
		require.Equal(t, "200 sse primer@0 open", kit.Last(slow))
	}},
	{"SSE: initialize and ping are answered as in Auto", func(t *testing.T) {
		w := newWorld(t, inMode(rejoin.ModeSSE))
		w.answers(w.request(http.MethodPost, kit.Ping))
		body, res := kit.ReadAll(t, w.c.Do(w.request(http.MethodPost, kit.Initialize, "Mcp-Session-Id", "")))
		require.Equal(t, "result", kit.MessageSummary(body))
		kit.RequireHead(t, res.Header, "Content-Type", "application/json", "Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"))
		body, _ = kit.ReadAll(t, w.c.Do(w.request(http.MethodPost, kit.Ping, "Accept", "text/event-stream")))
		require.Equal(t, "primer@0 1:result", kit.EventsSummary(body), "where the client takes nothing else")
	}},
	{"JSON: never a stream; messages go to the standalone stream, progress is dropped, questions fail", func(t *testing.T) {
		w := newWorld(t, inMode(rejoin.ModeJSON))
		w.noStream(func() {})
	}},
	{"an Accept of JSON alone is mode JSON", func(t *testing.T) {
		cfg := inMode(rejoin.ModeSSE)
		cfg.Header = http.Header{"Accept": {"application/json"}}
		w := newWorld(t, cfg)
		w.noStream(func() {}, "Accept", "text/event-stream")
	}},
	{"through a writer that cannot flush it is as in mode JSON, but the client can be sent away", func(t *testing.T) {
		buffer := &kit.Buffering{On: true}
		cfg := inMode(rejoin.ModeSSE)
		cfg.Handler, cfg.Server.Logger = buffer.Handler, kit.QuietLogger()
		w := newWorld(t, cfg)
		w.noStream(func() { buffer.On = false }, closable)
	}},
	{"JSON: a question travels on the standalone stream where one is attached", func(t *testing.T) {
		cfg := inMode(rejoin.ModeJSON)
		cfg.OnRequest = func(string, json.RawMessage) (any, error) { return "roots", nil }
		w := newWorld(t, cfg)
		listen := w.c.Listen()
		call, tool := w.call()
		var got string
		require.NoError(t, tool.Ask(tool.Ctx, "roots/list", nil, &got))
		require.Equal(t, "roots", got)
		require.Equal(t, "200 sse primer@0 1:roots/list open", kit.Last(listen))
		tool.Returns("done")
		require.Equal(t, "200 result answered", kit.Last(call))
	}},
	{"initialize is answered when its response is there, and nothing of a failed one stays", func(t *testing.T) {
		app := &kit.Fake{OnRequest: func(c *rejoin.Call) {
			go func() { kit.Elapse(time.Minute); _ = c.Fail(rejoin.Errorf(rejoin.CodeInvalidParams, "no")) }()
		}}
		s := kit.NewServer(t, app, rejoin.Config{Policy: rejoin.Policy{Mode: rejoin.ModeSSE}})
		res := kit.Serve(s, kit.Request(t, http.MethodPost, kit.Initialize))
		kit.Elapse(time.Minute - time.Nanosecond)
		require.Equal(t, "open", res.Summary())
		kit.Elapse(time.Nanosecond)
		require.Equal(t, `200 error(-32602,"mine") ended`, res.Summary())
		kit.RequireHead(t, res.Head, "Content-Type", "application/json")
		require.Equal(t, rejoin.Stats{}, s.Stats())
	}},
}

const closable = "the client can be sent away"

// noStream checks what happens if a call can have no stream. unblock makes GETs work; header is what they need.
func (w *rowWorld) noStream(unblock func(), header ...string) {
	w.t.Helper()
	t := w.t
	call, tool := w.call()
	require.NoError(t, tool.Progress(1, 0, ""))
	require.NoError(t, tool.Notify("notifications/message", nil))
	require.ErrorIs(t, tool.Ask(context.Background(), "roots/list", nil, nil), rejoin.ErrNoStream)
	if slices.Contains(header, closable) {
		header = nil
		require.True(t, tool.Resumable())
	} else {
		require.ErrorIs(t, tool.CloseStream(0), rejoin.ErrNotResumable)
	}
	kit.Elapse(time.Hour)
	require.Equal(t, "open", kit.Last(call))
	tool.Returns("done")
	require.Equal(t, "200 result answered", kit.Last(call))
	kit.RequireHead(t, call.Header(), "Content-Type", "application/json")
	unblock()
	require.Equal(t, "primer@0 1:message", w.streams(w.get(header...)))
}
