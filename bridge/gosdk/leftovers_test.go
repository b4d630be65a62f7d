package gosdk

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// leftovers is what a bridge and its server still hold.
type leftovers struct{ sessions, goroutines int }

func (a *app) leftovers(s *mcp.Server) (l leftovers) {
	for range s.Sessions() {
		l.sessions++
	}
	l.goroutines = goroutines("go-sdk")
	return l
}

// pending counts the calls and notifications in s.incoming.
func (s *session) pending() (calls, notes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.incoming {
		if k.call == nil {
			notes++
		} else {
			calls++
		}
	}
	return calls, notes
}

// directClient calls Server.Serve for each request, without a connection.
type directClient struct {
	srv     *rejoin.Server
	session string
}

func (c *directClient) do(method, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://example.com/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	w := httptest.NewRecorder()
	c.srv.Serve(w, r)
	return w
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
	`"clientInfo":{"name":"c","version":"1"}}}`

func (c *directClient) open() error {
	c.session = ""
	w := c.do("POST", strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	if c.session = w.Header().Get("Mcp-Session-Id"); c.session == "" {
		return errors.New(w.Body.String())
	}
	return nil
}

// runSession is a complete session. Tools return and panic; in each tenth session another one still waits for an answer when the session ends.
func (c *directClient) runSession(n int) error {
	if err := c.open(); err != nil {
		return err
	}
	for _, m := range []string{
		`"method":"notifications/initialized"`, `"method":"notifications/nonsense"`, `"id":1,"method":"tools/call","params":{"name":"quick"}`,
		`"id":2,"method":"tools/call","params":{"name":"panic"}`, `"id":3,"method":"resources/subscribe","params":{"uri":"a:1"}`,
	} {
		if w := c.do("POST", `{"jsonrpc":"2.0",`+m+`}`); w.Code >= http.StatusBadRequest {
			return errors.New(w.Body.String())
		}
	}
	var stays sync.WaitGroup
	if n%10 == 0 {
		stays.Go(func() { c.do("POST", `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"asks"}}`) })
		synctest.Wait()
	}
	if w := c.do("DELETE", ""); w.Code != http.StatusNoContent {
		return errors.New(w.Body.String())
	}
	stays.Wait()
	return nil
}

func TestTenThousandSessionsLeaveNothing(t *testing.T) {
	const rounds, each = 5, 2000
	var ended atomic.Int64
	var bridged *app
	bubble(t, func(t *testing.T) {
		s := newServer(&mcp.ServerOptions{
			Logger:             slog.New(slog.DiscardHandler),
			SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
			InitializedHandler: func(_ context.Context, r *mcp.InitializedRequest) {
				go func() { _ = r.Session.Wait(); ended.Add(1) }()
			},
		}, map[string]handler{
			"quick": quick,
			"panic": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("at the tool's") },
			"asks": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				_, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "x", RequestedSchema: colors})
				return nil, err
			},
		})
		bridged = New(s).(*app)
		srv, err := rejoin.NewServer(bridged, rejoin.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer srv.Close()
		var heap []uint64
		for round := range rounds {
			for n := range each {
				c := &directClient{srv: srv}
				if err := c.runSession(n); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if got, want := ended.Load(), int64((round+1)*each); got != want {
				t.Errorf("%d sessions ended, and %d were told so", want, got)
			}
			if l := bridged.leftovers(s); l.sessions != 0 || l.goroutines != 0 {
				t.Errorf("left: %+v", l)
			}
			runtime.GC()
			runtime.GC() // frees what finalizers of the first one have released
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			heap = append(heap, m.HeapAlloc)
		}
		t.Logf("heap after each %d sessions: %d", each, heap)
		if growth := int64(heap[rounds-1]) - int64(heap[0]); growth > (rounds-1)*each*100 {
			t.Errorf("the heap grew by %d bytes", growth)
		}
	})
}

// A running session does not keep messages that are answered or handled, or that the SDK has dropped. Notifications are released by the garbage
// collector, so this test uses a real clock.
func TestASessionForgetsWhatIsOver(t *testing.T) {
	s := newServer(nil, map[string]handler{"quick": quick})
	watched := &recordingApp{app: New(s).(*app), opened: make(chan *session, 1)}
	srv, err := rejoin.NewServer(watched, rejoin.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	c := &directClient{srv: srv}
	if err := c.open(); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		for _, m := range []string{
			`"method":"notifications/initialized"`, `"method":"notifications/nonsense"`, `"method":"notifications/progress","params":[]`,
			`"id":1,"method":"tools/call","params":{"name":"quick"}`, `"id":2,"method":"nonsense"`,
		} {
			c.do("POST", `{"jsonrpc":"2.0",`+m+`}`)
		}
	}
	n := receive(t, "the session", watched.opened)
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		runtime.GC()
		calls, notes := n.pending()
		if calls == 0 && notes < 8 { // the array of the SDK's queue may keep some
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d calls and %d notifications are still known", calls, notes)
		}
	}
}

// However a session ends, the SDK's session ends once, its handlers get rejoin's cause, and nothing is left.
func TestEveryEndOfASessionEndsTheSDKsOnce(t *testing.T) {
	type ending func(*rejointest.Client, *mcp.ServerSession)
	for name, end := range map[string]struct {
		do    ending
		cause error // of the tool's context
	}{
		"DELETE":       {func(c *rejointest.Client, _ *mcp.ServerSession) { c.Delete() }, rejoin.ErrSessionEnded},
		"expiry":       {func(*rejointest.Client, *mcp.ServerSession) { elapse(2 * time.Hour) }, rejoin.ErrAbandoned},
		"EndSession":   {func(c *rejointest.Client, _ *mcp.ServerSession) { endAll(c.Server()) }, rejoin.ErrSessionEnded},
		"Server.Close": {func(c *rejointest.Client, _ *mcp.ServerSession) { c.Server().Close() }, rejoin.ErrShutdown},
		"many at once": {func(c *rejointest.Client, ss *mcp.ServerSession) {
			go ss.Close()
			go c.Server().Close()
			endAll(c.Server())
		}, nil},
		"ServerSession.Close": {func(_ *rejointest.Client, ss *mcp.ServerSession) { go ss.Close() }, nil}, // which waits for the tool
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				causes := make(chan error, 1)
				letGo := make(chan struct{})
				s := newServer(nil, map[string]handler{"block": func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					select {
					case <-ctx.Done():
					case <-letGo:
					}
					causes <- context.Cause(ctx)
					return text("x"), nil
				}})
				bridged := New(s).(*app)
				c := rejointest.New(t, bridged, rejointest.Config{})
				var ss *mcp.ServerSession
				for ss = range s.Sessions() { // the only one
				}
				waited := 0
				go func() { _ = ss.Wait(); waited++ }()
				call := c.CallTool("block", nil)
				elapse(time.Second)
				call.Cut()
				end.do(c, ss)
				synctest.Wait()
				close(letGo)
				synctest.Wait()
				if waited != 1 {
					t.Errorf("the SDK's session ended %d times", waited)
				}
				select {
				case cause := <-causes:
					if end.cause != nil && cause != end.cause { // also if ctx.Done and letGo are ready at the same time
						t.Errorf("the tool ended with %v", cause)
					}
				default:
					t.Error("the tool runs on")
				}
				if l := bridged.leftovers(s); l.sessions != 0 || l.goroutines != 0 {
					t.Errorf("left: %+v", l)
				}
				if n := c.Server().Stats().Sessions; n != 0 {
					t.Errorf("%d sessions of rejoin's are left", n)
				}
			})
		})
	}
}

func endAll(srv *rejoin.Server) {
	for info := range srv.Sessions() {
		_ = srv.EndSession(info.Ref)
	}
}

// A server that was created for one session, or for one modern request, is not kept longer. It is released by the garbage collector, so this test uses
// a real clock.
func TestServersOfNewFuncAreNotKept(t *testing.T) {
	bridged := NewFunc(func(*http.Request) *mcp.Server {
		return newServer(&mcp.ServerOptions{
			SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		}, map[string]handler{"quick": quick, "panic": quick})
	}).(*app)
	srv, err := rejoin.NewServer(bridged, rejoin.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	for range 10 {
		if err := (&directClient{srv: srv}).runSession(1); err != nil {
			t.Fatal(err)
		}
		if bridged.server(nil) == nil {
			t.Fatal("no server")
		}
	}
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		runtime.GC()
		n := 0
		bridged.haveMiddleware.Range(func(any, any) bool { n++; return true })
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d servers are still known", n)
		}
	}
}
