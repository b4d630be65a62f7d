package gosdk

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/bounds"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// A handler blocks, and its client sends too many notifications. Those with room are handled later, and the session continues.
func TestNotificationsBeyondTheLimitAreDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		var handled atomic.Int64
		s := newServer(&mcp.ServerOptions{RootsListChangedHandler: func(context.Context, *mcp.RootsListChangedRequest) {
			handled.Add(1)
			<-release
		}}, map[string]handler{"x": quick})
		var logged logBuffer
		c := rejointest.New(t, New(s), rejointest.Config{Server: rejoin.Config{Logger: logged.logger()}})
		const changed = "notifications/roots/list_changed"
		for range markerCount - 1 { // with initialized, one marker
			c.Notify(changed, nil)
		}
		for range bounds.Notes - markerCount + 50 {
			c.Notify(changed, nil)
		}
		call := c.CallTool("x", nil)
		expect(t, "a call behind them", call.Messages())
		close(release)
		call.Result()
		if got, want := handled.Load(), int64(bounds.Notes-1); got != want { // initialized counts too
			t.Errorf("%d were handled, want %d", got, want)
		}
		if n := logged.count("are dropped"); n != 1 {
			t.Errorf("it was logged %d times", n)
		}
		for range 3 * bounds.Notes { // one at a time, there is always room
			c.Notify(changed, nil)
		}
		synctest.Wait()
		if got, want := handled.Load(), int64(4*bounds.Notes-1); got != want {
			t.Errorf("%d were handled later, want %d", got-bounds.Notes+1, want-bounds.Notes+1)
		}
	})
}

// With random sizes and random answers of markers, the limits are never exceeded by much, and notifications are not refused for ever.
func TestBacklog(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var b backlog
		set := false
		for range 5000 {
			if set && r.IntN(400) == 0 {
				b.markerAnswered()
				set = b.mark()
				continue
			}
			size := r.IntN(1 << r.IntN(23))
			bytes := b.marked.bytes + b.unmarked.bytes
			ok, _ := b.admit(size)
			if !ok && !set {
				t.Fatalf("refused with nothing on its way: %+v", b)
			}
			if ok && bytes >= bounds.NoteBytes || b.marked.count+b.unmarked.count > bounds.Notes {
				t.Fatalf("too much: %+v", b)
			}
			if ok && b.mark() {
				set = true
			}
		}
	}
}

// Cancelled calls whose tools go on are bounded by rejoin. The refusal names the limit, and pings are answered.
func TestCancelledCallsThatRunOnCountAgainstMaxConcurrent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newServer(nil, map[string]handler{"x": quick, "stubborn": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			<-release
			return text("x"), nil
		}})
		c := rejointest.New(t, New(s), rejointest.Config{Server: rejoin.Config{MaxConcurrent: 4}})
		for range 4 * 4 {
			c.CallTool("stubborn", nil).Cancel("enough")
		}
		synctest.Wait()
		if err := c.CallTool("x", nil).Err(); !strings.Contains(err.Message, "Config.MaxConcurrent") {
			t.Error(err)
		}
		c.Start("ping", nil).Result()
		close(release)
		synctest.Wait()
		c.CallTool("x", nil).Result()
	})
}

// Calls of deleted sessions count too, until their tools have returned.
func TestCallsOfDeletedSessionsThatRunOnAreLimited(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = 20
		release := make(chan struct{})
		var running atomic.Int64
		s := newServer(nil, map[string]handler{"stubborn": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			running.Add(1)
			<-release
			running.Add(-1)
			return text("x"), nil
		}})
		srv, err := rejoin.NewServer(New(s), rejoin.Config{MaxSessions: most, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		do := func(method, session, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, "/mcp", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			w := httptest.NewRecorder()
			go srv.Serve(w, r)
			synctest.Wait()
			return w
		}
		defer synctest.Wait()
		defer srv.Close()
		open := func() (id string, status int) {
			w := do(http.MethodPost, "", initialize)
			return w.Header().Get("Mcp-Session-Id"), w.Code
		}
		for range 10 * most {
			id, status := open()
			if status != http.StatusOK {
				break
			}
			do(http.MethodPost, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			do(http.MethodPost, id, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"stubborn"}}`)
			do(http.MethodDelete, id, "")
		}
		if n := running.Load(); n < most/2 || n > most+1 {
			t.Errorf("%d tools run", n)
		}
		close(release)
		for range 100 { // the SDK does not answer calls of an ended session: the garbage collector releases them
			runtime.GC()
			synctest.Wait()
			if _, status := open(); status == http.StatusOK {
				return
			}
		}
		t.Error("no session can be opened although all tools have returned")
	})
}
