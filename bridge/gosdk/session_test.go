package gosdk

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// DELETE does not wait for tools: here they return after its answer.
func TestDeleteEndsCallsAtOnce(t *testing.T) {
	f := newFixture(t, rejoin.Config{Policy: rejoin.Policy{Mode: rejoin.ModeSSE}}, nil)
	c := (&client{t: t, url: f.url}).initialize("2025-11-25")
	n := receive(t, "the session", f.opened)
	res := c.call("1", "block", "x")
	receive(t, "the tool", f.started)
	if res := c.do("DELETE", "", ""); res.StatusCode != http.StatusNoContent {
		t.Fatalf("DELETE: %s", res.Status)
	}
	if cause := receive(t, "the context's end", f.causes); cause != rejoin.ErrSessionEnded {
		t.Fatalf("the tool's context ended with %v", cause)
	}
	res.primer()
	res.expectBlock("")
	if res := c.call("2", "whoami", ""); res.StatusCode != http.StatusNotFound {
		t.Fatalf("a call after DELETE: %s", res.Status)
	}
	close(f.release)
	f.waitEnded(n)
}

func TestInitializeFails(t *testing.T) {
	f := newFixture(t, rejoin.Config{}, nil)
	c := &client{t: t, url: f.url}
	for _, params := range []string{`{"protocolVersion":7}`, `[]`, `null`} {
		res := c.do("POST", `{"jsonrpc":"2.0","id":"i","method":"initialize","params":`+params+`}`, "")
		body := res.rest()
		if res.Header.Get("Mcp-Session-Id") != "" || !strings.Contains(body, `"error"`) || !strings.Contains(body, `"id":"i"`) {
			t.Fatalf("%s: %s %v %s", params, res.Status, res.Header, body)
		}
		select {
		case n := <-f.opened: // otherwise the request was refused before Open
			f.waitEnded(n)
		default:
		}
		for range f.srv.Sessions() {
			t.Fatalf("%s left a session", params)
		}
	}
}

// A client that requests a newer version than initialize can negotiate can be asked questions too.
func TestInitializeIsClamped(t *testing.T) {
	f := newFixture(t, rejoin.Config{}, nil)
	c := (&client{t: t, url: f.url}).initialize("2026-07-28")
	res := c.call("1", "work", "sky")
	res.primer()
	res.expect("notifications/progress 1 sky")
	res.expect("elicitation/create 0 sky")
}

// If a handler panics or ends its goroutine, its call is answered.
func TestPanic(t *testing.T) {
	var logged bytes.Buffer
	f := newFixture(t, rejoin.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, nil)
	c := (&client{t: t, url: f.url}).initialize("2025-11-25")
	for _, tool := range []string{"panic", "goexit", "whoami"} {
		res := c.call("1", tool, "")
		if body := res.rest(); strings.Contains(body, "-32603") != (tool != "whoami") || strings.Contains(body, "own fault") {
			t.Fatalf("%s: %s %s", tool, res.Status, body)
		}
	}
	if !strings.Contains(logged.String(), "own fault") || !strings.Contains(logged.String(), "did not return") {
		t.Errorf("not logged: %s", logged.String())
	}
}

// The bridge answers the SDK's pings while the client is away.
func TestKeepAlive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer(&mcp.ServerOptions{KeepAlive: 10 * time.Second}, map[string]handler{"x": quick})
		var pings, failed atomic.Int64
		s.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				res, err := next(ctx, method, req)
				if method == "ping" {
					if pings.Add(1); err != nil {
						failed.Add(1)
					}
				}
				return res, err
			}
		})
		c := rejointest.New(t, New(s), rejointest.Config{})
		elapse(5*time.Minute + time.Second)
		if pings.Load() != 30 || failed.Load() != 0 {
			t.Errorf("%d of %d pings failed", failed.Load(), pings.Load())
		}
		c.CallTool("x", nil).Result()
		c.Delete()
		if n := goroutines("startKeepalive"); n != 0 {
			t.Errorf("%d keep-alives go on", n)
		}
	})
}

// If the server closes a session, the session ends for the client too.
func TestServerCloses(t *testing.T) {
	f := newFixture(t, rejoin.Config{}, nil)
	c := (&client{t: t, url: f.url}).initialize("2025-11-25")
	n := receive(t, "the session", f.opened)
	over := n.session.Done()
	if err := n.ss.Close(); err != nil {
		t.Fatal(err)
	}
	receive(t, "rejoin's session to end", over)
	if res := c.call("1", "whoami", ""); res.StatusCode != http.StatusNotFound {
		t.Fatal(res.Status)
	}
}

func TestNewFunc(t *testing.T) {
	f := newFixture(t, rejoin.Config{}, nil)
	f.serve(rejoin.Config{}, NewFunc(func(r *http.Request) *mcp.Server {
		if r.Header.Get("X-Trace") == "" {
			return nil
		}
		return f.mcp
	}))
	if res := (&client{t: t, url: f.url}).do("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, ""); res.StatusCode != http.StatusBadRequest {
		t.Fatal(res.Status)
	}
	c := (&client{t: t, url: f.url, headers: map[string]string{"X-Trace": "here"}}).initialize("2025-11-25")
	res := c.call("1", "work", "sky")
	res.primer()
	res.expect("notifications/progress 1 sky")
}
