package gosdk

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// sendingMiddleware adds a middleware that sends messages before and after the tool, and once more in last, after the call has ended. A
// session received from other gets a message during the call.
func sendingMiddleware(s *mcp.Server) (last func(*testing.T), other chan *mcp.ServerSession) {
	var ctx context.Context
	var session *mcp.ServerSession
	other = make(chan *mcp.ServerSession, 1)
	log := func(ctx context.Context, ss *mcp.ServerSession, note string) error {
		return ss.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: note})
	}
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(c context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method != "tools/call" {
				return next(c, method, req)
			}
			ss := req.GetSession().(*mcp.ServerSession)
			ctx, session = c, ss
			if err := log(c, ss, "before"); err != nil {
				return nil, err
			}
			select {
			case ss := <-other:
				if err := log(c, ss, "from another session"); err != nil {
					return nil, err
				}
			default:
			}
			if err := ss.Ping(c, &mcp.PingParams{Meta: mcp.Meta{"note": "asked"}}); err != nil {
				return nil, err
			}
			res, err := next(c, method, req)
			return res, errors.Join(err, log(c, ss, "after"))
		}
	})
	return func(t *testing.T) {
		t.Helper()
		err := session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "p", Message: "late"})
		if err = errors.Join(err, log(ctx, session, "late")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	}, other
}

func quick(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("x"), nil }

func TestMiddlewareAddedAfterNewSendsOnTheCallsStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer(nil, map[string]handler{"x": quick})
		app := New(s)
		last, other := sendingMiddleware(s)
		var sessions []*rejointest.Client
		var standalone []*rejointest.Call
		for range 2 {
			c := rejointest.New(t, app, rejointest.Config{OnRequest: acceptAll})
			c.Start("logging/setLevel", map[string]string{"level": "info"}).Result()
			sessions, standalone = append(sessions, c), append(standalone, c.Listen())
		}
		second := slices.Collect(s.Sessions())[1]
		blocked := make(chan struct{})
		s.AddTool(&mcp.Tool{Name: "block", InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				<-blocked
				return text("x"), nil
			})
		same := sessions[1].CallTool("block", nil) // a call with the same number, in another session
		other <- second
		call := sessions[0].CallTool("x", nil)
		call.Result()
		last(t)
		close(blocked)
		same.Result()
		elapse(time.Second) // until the SDK has sent list_changed for the new tool
		expect(t, "the call", call.Messages(), "message before", "ping asked", "message after", "result x")
		expect(t, "the standalone stream", standalone[0].Messages(), "message late", "list_changed")
		expect(t, "the other call", same.Messages(), "message before", "ping asked", "message after", "result x")
		expect(t, "the other standalone stream", standalone[1].Messages(), "message from another session", "list_changed")
	})
}

// If the contexts of the SDK have no known id, messages are not lost, and this is logged once.
func TestWhereTheSDKDoesNotTellRequestsApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newServer(nil, map[string]handler{"x": quick})
		bridged := New(s).(*app)
		if bridged.idKey == nil {
			t.Error("this version of the SDK does not")
		}
		bridged.idKey = nil
		last, _ := sendingMiddleware(s)
		var logged logBuffer
		for range 2 {
			c := rejointest.New(t, bridged, rejointest.Config{OnRequest: acceptAll, Server: rejoin.Config{Logger: logged.logger()}})
			c.Start("logging/setLevel", map[string]string{"level": "info"}).Result()
			standalone := c.Listen()
			call := c.CallTool("x", nil)
			call.Result()
			last(t)
			expect(t, "the call", call.Messages(), "result x")
			got := summaries(standalone.Messages()) // the bridge answers pings outside of calls
			if want := []string{"message before", "message after", "progress late", "message late"}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if n := logged.count("does not tell requests apart"); n != 1 {
			t.Errorf("it was logged %d times", n)
		}
	})
}

// A cancelled call ends while it waits in the SDK's queue, and while it waits in a middleware outside ours.
func TestACancelledCallEndsWhereverItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		var began atomic.Int64
		s := newServer(&mcp.ServerOptions{RootsListChangedHandler: func(context.Context, *mcp.RootsListChangedRequest) { <-release }},
			map[string]handler{"x": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				began.Add(1)
				return text("x"), nil
			}})
		app := New(s)
		held := make(chan struct{}, 1)
		s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				if method != "prompts/list" {
					return next(ctx, method, req)
				}
				<-ctx.Done()
				held <- struct{}{}
				return nil, ctx.Err()
			}
		})
		c := rejointest.New(t, app, rejointest.Config{})
		c.Start("prompts/list", nil).Cancel("enough")
		synctest.Wait()
		select {
		case <-held:
		default:
			t.Error("the middleware's context goes on")
		}
		c.Notify("notifications/roots/list_changed", nil)
		c.CallTool("x", nil).Cancel("enough")
		close(release)
		synctest.Wait()
		if began.Load() != 0 {
			t.Error("the tool was begun")
		}
		c.CallTool("x", nil).Result()
	})
}

// When a session ends, the context of a middleware outside ours ends too, wherever its call is at that moment.
func TestTheEndOfASessionReachesMiddlewareAddedAfterNew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var held atomic.Int64
		giveUp := make(chan struct{})
		s := newServer(nil, map[string]handler{"x": quick})
		app := New(s)
		s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				if method != "tools/call" {
					return next(ctx, method, req)
				}
				held.Add(1)
				defer held.Add(-1)
				select {
				case <-ctx.Done():
				case <-giveUp:
				}
				return nil, ctx.Err()
			}
		})
		srv, err := rejoin.NewServer(app, rejoin.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer srv.Close()
		for range 50 {
			var crossing sync.WaitGroup
			for range 8 {
				c := &directClient{srv: srv}
				if err := c.open(); err != nil {
					t.Fatal(err)
				}
				c.do("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				crossing.Go(func() { c.do("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`) })
				crossing.Go(func() { c.do("DELETE", "") })
			}
			crossing.Wait()
			synctest.Wait()
		}
		if n := held.Load(); n > 0 {
			t.Errorf("%d are still there", n)
		}
		close(giveUp)
		synctest.Wait()
	})
}
