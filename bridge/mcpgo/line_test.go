package mcpgo

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// A sender that was on its way when the call ended is waited for; nobody gets on that way afterwards, and then nothing is left of it.
func TestAnOutboxWaitsForTheLastThatIsExpected(t *testing.T) {
	bubble(t, func(t *testing.T) {
		got := &list[string]{}
		var o outbox
		o.init(func(n mcp.JSONRPCNotification) { got.add(n.Method) })
		same(t, "before", o.expect(), true)
		synctest.Wait() // the goroutine has begun
		o.end()
		same(t, "while one is expected", o.expect(), true)
		ch := o.channel()
		ch <- note("a")
		o.flush()
		o.channel() <- note("b")
		synctest.Wait()
		same(t, "forwarded", got.got(), []string{"a", "b"})
		same(t, "after", o.expect(), false)
		same(t, "channel", o.channel() == nil, true)
		o.flush()
		o.end()
	})
}

// Who expects waits for room, and goes on when there is some, also after the end.
func TestAnOutboxThatIsFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		open, forwarded, passed := make(chan struct{}), &list[string]{}, &list[bool]{}
		var o outbox
		o.init(func(n mcp.JSONRPCNotification) {
			<-open
			forwarded.add(n.Method)
		})
		for range room {
			o.expect()
			o.channel() <- mcp.JSONRPCNotification{}
		}
		for range 3 * room {
			go func() {
				if o.expect() {
					o.channel() <- mcp.JSONRPCNotification{}
					passed.add(true)
				}
			}()
		}
		synctest.Wait()
		same(t, "passed while it is full", len(passed.got()), 0)
		o.end()
		close(open)
		synctest.Wait()
		same(t, "of which were sent", len(forwarded.got()), room+len(passed.got()))
		if o.expect() {
			t.Fatal("it is still alive")
		}
	})
}

// Also who sends after the call has room on the session's own way.
func TestASenderAfterTheCallExpectsToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		forward := func(mcp.JSONRPCNotification) {}
		main := &line{}
		main.out.init(forward)
		l := &line{main: main}
		l.out.init(forward)
		l.over()
		l.UpgradeToSSEWhenReceiveNotification()
		same(t, "expected", main.out.expected, 1)
		l.NotificationChannel() <- mcp.JSONRPCNotification{}
		l.flush()
		same(t, "expected", main.out.expected, 0)
		main.out.end()
	})
}

// A session that a hook has kept is as good as the one from the context: the call's context decides where its question goes.
func TestAKeptSessionAsksOnTheStreamOfTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hooks, kept := &server.Hooks{}, &list[server.ClientSession]{}
		hooks.AddOnRegisterSession(func(_ context.Context, s server.ClientSession) { kept.add(s) })
		c := rejointest.New(t, New(newMCP(hooks, map[string]handler{
			"url": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				if err := progress(ctx, s, "p", 1); err != nil {
					return "", err
				}
				_, err := s.RequestURLElicitation(ctx, kept.got()[0], "e", "https://example.com", "there")
				return "asked", err
			},
		})), rejointest.Config{OnRequest: echo, Capabilities: map[string]any{"elicitation": map[string]any{"url": struct{}{}}}})
		listen := c.Listen()
		call := c.CallTool("url", nil)
		call.Result()
		same(t, "the call", toldAll(t, call), []string{"notifications/progress p 1", "elicitation/create there", "result asked"})
		same(t, "standalone", toldAll(t, listen), []string{})
	})
}

// Resources and templates of a session are listed to it alone.
func TestResourcesOfASession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hooks := &server.Hooks{}
		var s *server.MCPServer
		hooks.AddOnRegisterSession(func(_ context.Context, session server.ClientSession) {
			id := session.SessionID()
			err := errors.Join(s.AddSessionResource(id, mcp.NewResource("own:1", "own"), nil),
				s.AddSessionResourceTemplate(id, mcp.NewResourceTemplate("own:{x}", "owns"), nil))
			if err != nil {
				panic(err)
			}
			hooks.OnRegisterSession = nil // only the first
		})
		s = newMCP(hooks, nil)
		app := New(s)
		c, other := rejointest.New(t, app, rejointest.Config{}), rejointest.New(t, app, rejointest.Config{})
		for method, name := range map[string]string{"resources/list": `"own:1"`, "resources/templates/list": `"own:{x}"`} {
			same(t, method, strings.Contains(string(c.Start(method, nil).Result()), name), true)
			same(t, method, strings.Contains(string(other.Start(method, nil).Result()), name), false)
		}
	})
}

// A session that ends while it is registered is unregistered all the same.
func TestASessionThatEndsWhileItIsRegistered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hooks := &server.Hooks{}
		seen := life(hooks)
		hooks.AddOnRegisterSession(func(ctx context.Context, _ server.ClientSession) {
			rejoin.HandleFromContext(ctx).Session().End(nil) // tells the app before it returns
		})
		srv := newServer(t, New(newMCP(hooks, nil)), rejoin.Config{})
		res := exchange(srv, http.MethodPost, "", initialize("2025-11-25"))
		if res.Header().Get("Mcp-Session-Id") != "" {
			t.Fatal(res.Body)
		}
		synctest.Wait()
		same(t, "seen", seen.got(), []string{`+raw 2025-11-25 ""`, "-"})
		same(t, "sessions", srv.Stats().Sessions, 0)
	})
}
