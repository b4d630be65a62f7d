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

// A closed outbox waits for a sender with a reservation. Then it refuses all others, and its goroutine returns.
func TestAClosedOutboxWaitsForReservations(t *testing.T) {
	bubble(t, func(t *testing.T) {
		got := &list[string]{}
		var o outbox
		o.init(func(n mcp.JSONRPCNotification) { got.add(n.Method) })
		same(t, "before", o.reserve(), true)
		synctest.Wait() // the goroutine is running
		o.close()
		same(t, "while a place is reserved", o.reserve(), true)
		ch := o.channel()
		ch <- notification("a")
		o.flush()
		o.channel() <- notification("b")
		synctest.Wait()
		same(t, "forwarded", got.got(), []string{"a", "b"})
		same(t, "after", o.reserve(), false)
		same(t, "channel", o.channel() == nil, true)
		o.flush()
		o.close()
	})
}

// A sender waits for room, and gets it later, also after the outbox was closed.
func TestAnOutboxThatIsFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release, forwarded, passed := make(chan struct{}), &list[string]{}, &list[bool]{}
		var o outbox
		o.init(func(n mcp.JSONRPCNotification) {
			<-release
			forwarded.add(n.Method)
		})
		for range capacity {
			o.reserve()
			o.channel() <- mcp.JSONRPCNotification{}
		}
		for range 3 * capacity {
			go func() {
				if o.reserve() {
					o.channel() <- mcp.JSONRPCNotification{}
					passed.add(true)
				}
			}()
		}
		synctest.Wait()
		same(t, "passed while it is full", len(passed.got()), 0)
		o.close()
		close(release)
		synctest.Wait()
		same(t, "of which were sent", len(forwarded.got()), capacity+len(passed.got()))
		if o.reserve() {
			t.Fatal("it is not closed")
		}
	})
}

// A sender after the end of the call reserves a place in the outbox of the session.
func TestASenderAfterTheCallReservesToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		forward := func(mcp.JSONRPCNotification) {}
		main := &clientSession{}
		main.outbox.init(forward)
		l := &clientSession{main: main}
		l.outbox.init(forward)
		l.endCall()
		l.UpgradeToSSEWhenReceiveNotification()
		same(t, "reserved", main.outbox.reserved, 1)
		l.NotificationChannel() <- mcp.JSONRPCNotification{}
		l.flush()
		same(t, "reserved", main.outbox.reserved, 0)
		main.outbox.close()
	})
}

// A question through a session that a hook has kept also goes to the stream of the call whose context is passed.
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
		same(t, "the call", summaries(t, call), []string{"notifications/progress p 1", "elicitation/create there", "result asked"})
		same(t, "standalone", summaries(t, listen), []string{})
	})
}

// Resources and templates of a session are listed for this session only.
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
			hooks.OnRegisterSession = nil // for the first session only
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

// A session that ends during its registration is unregistered.
func TestASessionThatEndsWhileItIsRegistered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hooks := &server.Hooks{}
		seen := lifecycle(hooks)
		hooks.AddOnRegisterSession(func(ctx context.Context, _ server.ClientSession) {
			rejoin.HandleFromContext(ctx).Session().End(nil) // calls Ended of the app before it returns
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
