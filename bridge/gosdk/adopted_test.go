package gosdk

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/adoptions"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// subscribedServer is a server whose subscribe handler is given.
func subscribedServer(subscribe func(context.Context, *mcp.SubscribeRequest) error, tools map[string]handler) *mcp.Server {
	return newServer(&mcp.ServerOptions{
		SubscribeHandler: subscribe, UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	}, tools)
}

func accept(context.Context, *mcp.SubscribeRequest) error { return nil }

// The subscribe handler at the adopter has the header and the values of the request that adopted the session. Its context ends with the session, also
// with a version of the SDK that does not end it.
func TestASubscriptionThatIsRestored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var got []any
		var cause error
		second := subscribedServer(func(ctx context.Context, r *mcp.SubscribeRequest) error {
			got = []any{r.Params.URI, r.Extra.Header.Get("X-Trace"), ctx.Value(trace{})}
			<-ctx.Done()
			cause = context.Cause(ctx)
			return cause
		}, nil)
		p := adoptions.Start(t, nil, New(subscribedServer(accept, nil)), New(second))
		p.Values = func(r *http.Request) context.Context { return context.WithValue(r.Context(), trace{}, r.URL.Path) }
		c := p.Connect(t, rejointest.Config{Header: http.Header{"X-Trace": {"7"}}})
		c.Start("resources/subscribe", map[string]string{"uri": "a:1"}).Result()
		p.Kill(0)
		p.Use(1)
		c.Start("ping", nil).Result()
		synctest.Wait()
		if want := []any{"a:1", "7", "/mcp"}; !slices.Equal(got, want) {
			t.Errorf("the handler got %v, want %v", got, want)
		}
		c.Delete()
		if !errors.Is(cause, rejoin.ErrSessionEnded) {
			t.Errorf("its context ended with %v", cause)
		}
		if n := len(slices.Collect(second.Sessions())); n != 0 {
			t.Errorf("%d sessions of the SDK's are left", n)
		}
	})
}

// A client that unsubscribes while its subscription is being restored is not subscribed afterwards, here and at the next adoption.
func TestUnsubscribingWhileItIsRestored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		second := subscribedServer(func(context.Context, *mcp.SubscribeRequest) error { <-release; return nil }, map[string]handler{"x": quick})
		third := subscribedServer(accept, nil)
		p := adoptions.Start(t, nil, New(subscribedServer(accept, nil)), New(second), New(third))
		c := p.Connect(t, rejointest.Config{})
		for _, uri := range []string{"a:1", "a:2"} {
			c.Start("resources/subscribe", map[string]string{"uri": uri}).Result()
		}
		p.Kill(0)
		p.Use(1)
		unsubscribed := c.Start("resources/unsubscribe", map[string]string{"uri": "a:1"})
		c.CallTool("x", nil).Result() // others do not wait
		close(release)
		unsubscribed.Result()
		listen := c.Listen()
		update := func(s *mcp.Server) {
			for _, uri := range []string{"a:1", "a:2"} {
				_ = s.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri})
				synctest.Wait()
			}
		}
		update(second)
		expect(t, "the standalone stream", listen.Messages(), "updated a:2")
		listen.Cut()
		p.Kill(1)
		p.Use(2)
		listen = c.Listen()
		update(third)
		expect(t, "the standalone stream", listen.Messages(), "updated a:2")
	})
}

// A subscription that the adopter's handler refuses is logged. It stays in the state, so the next owner tries again.
func TestASubscriptionThatCannotBeRestored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log logBuffer
		second := subscribedServer(func(context.Context, *mcp.SubscribeRequest) error { return errors.New("no such thing") }, nil)
		third := subscribedServer(accept, nil)
		p := adoptions.Start(t, log.logger(), New(subscribedServer(accept, nil)), New(second), New(third))
		c := p.Connect(t, rejointest.Config{})
		c.Start("resources/subscribe", map[string]string{"uri": "a:1"}).Result()
		p.Kill(0)
		p.Use(1)
		c.Start("ping", nil).Result()
		synctest.Wait()
		if log.count("a subscription could not be restored") != 1 || log.count("no such thing") != 1 {
			t.Errorf("logged:\n%s", log.lines.String())
		}
		c.Start("logging/setLevel", map[string]string{"level": "error"}).Result()
		p.Kill(1)
		p.Use(2)
		listen := c.Listen()
		synctest.Wait()
		_ = third.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: "a:1"})
		expect(t, "the standalone stream", listen.Messages(), "updated a:1")
	})
}

// The adopter chooses the server by the request that adopts the session. If it has none, the session ends.
func TestNewFuncAtAnAdoption(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var chosen atomic.Pointer[string]
		choose := func(n string) rejoin.App {
			return NewFunc(func(r *http.Request) *mcp.Server {
				name := n + r.Header.Get("X-Tenant")
				chosen.Store(&name)
				if r.Header.Get("X-Tenant") == "none" {
					return nil
				}
				return newServer(nil, map[string]handler{"x": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return text("%s", name), nil
				}})
			})
		}
		p := adoptions.Start(t, nil, choose("1"), choose("2"), choose("3"))
		header := http.Header{"X-Tenant": {"a"}}
		c := p.Connect(t, rejointest.Config{Header: header})
		for n, want := range []string{"1a", "2b"} {
			if n > 0 {
				p.Kill(n - 1)
				p.Use(n)
			}
			header.Set("X-Tenant", want[1:])
			call := c.CallTool("x", nil)
			call.Result()
			header.Set("X-Tenant", "other") // only the first request counts
			c.CallTool("x", nil).Result()
			expect(t, "the server", call.Messages(), "result "+want)
			if *chosen.Load() != want {
				t.Errorf("it was called for %q", *chosen.Load())
			}
		}
		p.Kill(1)
		p.Use(2)
		header.Set("X-Tenant", "none")
		call := c.CallTool("x", nil)
		if call.Err(); call.Status() != http.StatusNotFound {
			t.Errorf("%v", call)
		}
	})
}

// The SDK's own client goes on without initializing anew: what ran gets an error, and everything else is as before.
func TestTheRealClientAtAnAdoption(t *testing.T) {
	bubble(t, func(t *testing.T) {
		begun := make(chan struct{})
		var servers []*mcp.Server
		var apps []rejoin.App
		for range 3 {
			s := subscribedServer(accept, map[string]handler{
				"quick": quick,
				"wait": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					err := progress(ctx, req, 1, "begun")
					begun <- struct{}{}
					<-ctx.Done()
					return nil, err
				},
				"ask": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					r, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "color", RequestedSchema: colors})
					if err != nil {
						return nil, err
					}
					req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{})
					elapse(10 * adoptions.Lease)
					return text("%v", r.Content["color"]), req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "high"})
				},
			})
			servers = append(servers, s)
			apps = append(apps, New(s))
		}
		p := adoptions.Start(t, nil, apps...)
		wire := adoptions.NewWire(t, p)
		var mu sync.Mutex
		var heard []string
		hear := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, what)
		}
		c, err := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"color": "blue"}}, nil
			},
			ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { hear("updated " + r.Params.URI) },
			LoggingMessageHandler:  func(_ context.Context, r *mcp.LoggingMessageRequest) { hear(r.Params.Data.(string)) },
		}).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://rejoin.test/mcp", HTTPClient: wire.Client}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		ok(c.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "error"}))
		ok(c.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "a:1"}))
		id := c.ID()
		for n := range 2 {
			ran := make(chan error, 1)
			go func() {
				_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "wait", Meta: mcp.Meta{"progressToken": "t"}})
				ran <- err
			}()
			<-begun
			synctest.Wait() // it reads the stream
			wire.Cut()
			p.Use(n + 1) // before the others know that the owner is dead: the client must hold out
			p.Kill(n)
			if err := <-ran; err == nil || !strings.Contains(err.Error(), "was lost") {
				t.Errorf("the call that ran: %v", err)
			}
			_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "quick"})
			ok(err)
			res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
			ok(err)
			if got := res.Content[0].(*mcp.TextContent).Text; got != "blue" {
				t.Errorf("the answer: %q", got)
			}
			ok(servers[n+1].ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: "a:1"}))
			elapse(adoptions.Lease)
		}
		synctest.Wait()
		if want := []string{"high", "updated a:1", "high", "updated a:1"}; !slices.Equal(heard, want) {
			t.Errorf("heard %q, want %q", heard, want)
		}
		if c.ID() != id || wire.Initialized.Load() != 1 {
			t.Errorf("%d times initialized", wire.Initialized.Load())
		}
		ok(c.Close())
		if n := p.Servers[2].Stats().Sessions; n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}
