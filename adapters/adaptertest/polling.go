package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// The stream of a call is closed three times, and its client polls. Every message comes once, in order, on streams that hold nothing else.
func polling(e *exam) {
	c := e.start(app(func(ctx context.Context, _ *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		for i := range 3 {
			_ = h.Progress(float64(i), 3, "")
			if err := h.CloseStream(10 * time.Second); err != nil {
				return nil, err
			}
			elapse(time.Minute)
		}
		return "done", nil
	}), rejointest.Config{Handler: e.mount("/mcp")})
	call := c.CallTool("x", nil)
	for i := range 3 {
		if retry := call.WaitClosed(); retry < 10*time.Second {
			e.Errorf("the client is to be back after %v, not 10 s", retry)
		}
		e.wantMessages(call, i+1)
		elapse(time.Minute / 2)
		call.Poll()
	}
	if got := string(call.Result()); got != `"done"` {
		e.Errorf("result %s", got)
	}
	e.wantMessages(call, 4)
	all := responses(call)
	if len(all) != 4 {
		e.Errorf("%d responses, not 4", len(all))
	}
	for i, a := range all {
		e.wantStream(a, fmt.Sprint("response ", i+1))
	}
	call.Poll()
	if status := call.Status(); status != http.StatusNoContent {
		e.Errorf("a poll when nothing is left: %d, not 204", status)
	}
}

// wantMessages checks that a call has received the first n of these: progress 0, 1, 2, the response.
func (e *exam) wantMessages(call *rejointest.Call, n int) {
	e.Helper()
	raw := call.Messages()
	if len(raw) != n {
		e.Errorf("%d messages, not %d: %s", len(raw), n, raw)
		return
	}
	for i := range raw {
		m, _ := parse(raw[i])
		if i == 3 && m.Result == nil || i < 3 && (m.Method != "notifications/progress" || m.Params.Progress != i) {
			e.Errorf("message %d is %s", i, raw[i])
		}
	}
}

// What a tool sends after its request is over waits in its log. It must not appear in what other clients read at that time.
func lateMessages(e *exam) {
	const away, reading = 30, 10
	c := e.start(app(func(ctx context.Context, r *rejoin.Request) (any, error) {
		var params struct{ Name string }
		if err := r.Bind(&params); err != nil {
			return nil, err
		}
		h := rejoin.HandleFromContext(ctx)
		_ = h.Progress(0, 0, params.Name)
		if params.Name[:4] == "away" {
			if err := h.CloseStream(time.Hour / 2); err != nil {
				return nil, err
			}
		}
		for i := range 20 {
			elapse(time.Second)
			_ = h.Progress(float64(i+1), 0, params.Name)
		}
		return params.Name, nil
	}), rejointest.Config{Handler: e.mount("/mcp")})
	var calls []*rejointest.Call
	var names []string
	start := func(kind string, n int) {
		for i := range n {
			names = append(names, fmt.Sprint(kind, i))
			calls = append(calls, c.CallTool(names[len(names)-1], nil))
		}
	}
	start("away", away)
	for _, call := range calls {
		call.WaitClosed()
	}
	start("reading", reading)
	nowhere := e.send(c, request(http.MethodGet, "/no/where", ""))
	for range 25 {
		if a := e.send(c, request(http.MethodPost, "/mcp", ping)); a.body != pong {
			e.Errorf("a ping's answer is %q", a.body)
		}
		if a := e.send(c, request(http.MethodGet, "/no/where", "")); a.body != nowhere.body || a.status != nowhere.status {
			e.Errorf("the answer of another route has become %q from %q", a.body, nowhere.body)
		}
		elapse(time.Second)
	}
	for i, call := range calls {
		name := names[i]
		if i < away && len(call.Messages()) != 1 {
			e.Errorf("%s was away and got %s", name, call.Messages())
		}
		if i < away {
			call.Poll()
		}
		if got := string(call.Result()); got != fmt.Sprintf("%q", name) {
			e.Errorf("the result of %s is %s", name, got)
		}
		if n := len(call.Messages()); n != 22 {
			e.Errorf("%s brought %d messages, not 22", name, n)
		}
		for _, raw := range call.Messages() {
			if m, _ := parse(raw); m.Result == nil && m.Params.Message != name {
				e.Errorf("%s got %s", name, raw)
			}
		}
		for _, a := range responses(call) {
			e.wantStream(a, name)
		}
	}
}

// A tool that panics disturbs no other request. Its client gets one JSON-RPC error, and neither the router's recover middleware nor its error
// handler adds anything.
func panics(e *exam) {
	var log warnings
	c := e.start(app(func(ctx context.Context, r *rejoin.Request) (any, error) {
		h := rejoin.HandleFromContext(ctx)
		var params struct{ Name string }
		_ = r.Bind(&params)
		switch params.Name {
		case "streaming":
			_ = h.Progress(1, 0, "")
			elapse(time.Second)
		case "away":
			_ = h.Progress(1, 0, "")
			_ = h.CloseStream(0)
			elapse(time.Second)
		}
		panic("the tool's own fault")
	}), rejointest.Config{Server: rejoin.Config{Logger: log.logger()}, Handler: e.mount("/mcp")})
	for _, name := range []string{"at once", "streaming", "away"} {
		call := c.CallTool(name, nil)
		if err := call.Err(); err.Code != rejoin.CodeInternal || err.Message != "internal error" {
			e.Errorf("%s: the error is %v", name, err)
		}
		all := responses(call)
		for _, a := range all {
			if name != "at once" {
				e.wantStream(a, name)
				continue
			}
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"internal error"}}`, call.ID())
			if a.body != want || a.status != http.StatusOK {
				e.Errorf("%s: answered with %+v", name, a)
			}
		}
		if want := map[string]int{"at once": 1, "streaming": 1, "away": 2}[name]; len(all) != want {
			e.Errorf("%s: %d responses, not %d", name, len(all), want)
		}
	}
	if a := e.send(c, request(http.MethodPost, "/mcp", ping)); a.body != pong {
		e.Errorf("after panics a ping is answered with %+v", a)
	}
}
