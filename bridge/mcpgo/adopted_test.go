package mcpgo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/bridge/internal/adoptions"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

func quick(context.Context, *server.MCPServer, mcp.CallToolRequest) (string, error) {
	return "done", nil
}

// recordingHooks records the sessions that are registered and unregistered, and why.
func recordingHooks(name string, seen *list[string]) *server.Hooks {
	hooks := &server.Hooks{}
	hooks.AddOnRegisterSession(func(ctx context.Context, s server.ClientSession) {
		seen.add(fmt.Sprint(name, " registers ", s.(server.SessionWithClientInfo).GetClientInfo().Name, " for ", ctx.Value(requestKey{})))
	})
	hooks.AddOnUnregisterSession(func(ctx context.Context, _ server.ClientSession) {
		cause := Cause(ctx)
		seen.add(fmt.Sprint(name, " unregisters, moved: ", errors.Is(cause, rejoin.ErrMoved), ", ended: ", errors.Is(cause, rejoin.ErrSessionEnded)))
		if ctx.Err() != nil {
			seen.add("the context of the hook has ended")
		}
	})
	return hooks
}

type requestKey struct{}

// The adopter registers the session, with the values of the request that adopts it. The old owner's hook learns that the session has moved.
func TestHooksAtAnAdoption(t *testing.T) {
	bubble(t, func(t *testing.T) {
		seen := &list[string]{}
		p := adoptions.Start(t, nil, New(newMCP(recordingHooks("1", seen), nil)), New(newMCP(recordingHooks("2", seen), nil)))
		p.Values = func(r *http.Request) context.Context { return context.WithValue(r.Context(), requestKey{}, r.Method) }
		c := p.Connect(t, rejointest.Config{})
		p.Kill(0)
		p.Use(1)
		listen := c.Listen()
		p.Return(0)
		listen.Cut()
		c.Delete()
		same(t, "hooks", seen.got(), []string{
			"1 registers rejointest for POST", "2 registers rejointest for GET", "1 unregisters, moved: true, ended: true",
			"2 unregisters, moved: false, ended: true",
		})
		if Cause(t.Context()) != nil {
			t.Error("a context that is not of a hook has a cause")
		}
	})
}

// A session's own tools are functions, so they are lost, unless a hook of the adopter adds them again.
func TestToolsOfASessionAtAnAdoption(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var apps []rejoin.App
		for _, name := range []string{"", "lost", "own"} {
			hooks := &server.Hooks{}
			s := newMCP(hooks, map[string]handler{"quick": quick})
			hooks.AddOnRegisterSession(func(_ context.Context, session server.ClientSession) {
				if name == "lost" {
					return
				}
				if err := s.AddSessionTool(session.SessionID(), mcp.NewTool("own"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return mcp.NewToolResultText("own"), nil
				}); err != nil {
					t.Error(err)
				}
			})
			apps = append(apps, New(s))
		}
		p := adoptions.Start(t, nil, apps...)
		c := p.Connect(t, rejointest.Config{})
		own := func() bool { return strings.Contains(string(c.Start("tools/list", nil).Result()), `"own"`) }
		same(t, "of the first", own(), true)
		p.Kill(0)
		p.Use(1)
		same(t, "of the second", own(), false)
		c.CallTool("own", nil).Err()
		c.CallTool("quick", nil).Result()
		p.Kill(1)
		p.Use(2)
		same(t, "of the third", own(), true)
		call := c.CallTool("own", nil)
		call.Result()
		same(t, "its result", summaries(t, call), []string{"result own"})
	})
}

// If a hook panics when the session is adopted, mcp-go does not keep the session, and the next request tries again.
func TestAHookThatPanicsAtAnAdoption(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, late := range []bool{false, true} {
			panics := true
			seen := &list[string]{}
			hooks := recordingHooks("2", seen)
			hooks.AddOnRegisterSession(func(context.Context, server.ClientSession) {
				if panics {
					panics = false
					if late {
						elapse(10 * adoptions.Lease)
						return
					}
					panic("once")
				}
			})
			p := adoptions.Start(t, nil, New(newMCP(&server.Hooks{}, nil)), New(newMCP(hooks, nil)))
			c := p.Connect(t, rejointest.Config{})
			p.Kill(0)
			p.Use(1)
			refused := c.Start("ping", nil)
			refused.Err()
			same(t, "the status", refused.Status(), http.StatusServiceUnavailable)
			elapse(20 * adoptions.Lease)
			same(t, "hooks", len(seen.got()), 2)
			c.Start("ping", nil).Result()
			c.Delete()
			same(t, "hooks", len(seen.got()), 4)
		}
	})
}

// All that mcp-go knows of the client's capabilities goes on.
func TestCapabilitiesAtAnAdoption(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var apps []rejoin.App
		got := &list[string]{}
		for range 2 {
			apps = append(apps, New(newMCP(&server.Hooks{}, map[string]handler{
				"look": func(ctx context.Context, _ *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
					c, _ := server.ClientSessionFromContext(ctx).(*clientSession)
					got.add(fmt.Sprintf("%s %+v", encodeForTest(t, c.GetClientCapabilities()), c.GetClientInfo()))
					return "", nil
				},
			})))
		}
		p := adoptions.Start(t, nil, apps...)
		c := p.Connect(t, rejointest.Config{Capabilities: map[string]any{
			"elicitation": map[string]any{"form": struct{}{}, "url": struct{}{}}, "roots": map[string]any{"listChanged": true},
			"sampling": map[string]any{"tools": struct{}{}, "context": struct{}{}}, "experimental": map[string]any{"x": map[string]any{"y": 1}},
			"extensions": map[string]any{"a/b": struct{}{}}, "tasks": map[string]any{"list": struct{}{}, "cancel": struct{}{}},
		}})
		c.CallTool("look", nil).Result()
		p.Kill(0)
		p.Use(1)
		c.CallTool("look", nil).Result()
		same(t, "the adopter", got.got()[1], got.got()[0])
		for _, name := range []string{"url", "listChanged", "experimental", "extensions", "tasks"} {
			if !strings.Contains(got.got()[1], name) {
				t.Errorf("%s is missing: %s", name, got.got()[1])
			}
		}
	})
}

func encodeForTest(t *testing.T, v any) string {
	t.Helper()
	raw, err := encode(v)
	if err != nil {
		t.Error(err)
	}
	return string(raw)
}

// mcp-go's own client goes on without initializing anew: what ran gets an error, and everything else is as before.
func TestTheRealClientAtAnAdoption(t *testing.T) {
	bubble(t, func(t *testing.T) {
		begun := make(chan struct{})
		var apps []rejoin.App
		var servers []*server.MCPServer
		for range 3 {
			s := newMCP(&server.Hooks{}, map[string]handler{
				"quick": quick,
				"wait": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
					err := progress(ctx, s, "t", 1)
					begun <- struct{}{}
					<-ctx.Done()
					return "", err
				},
				"ask": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
					if err := s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevelInfo, "l", "too low")); err != nil {
						return "", err
					}
					text, err := sample(ctx, s, "sampled")
					if err == nil {
						err = rejoin.HandleFromContext(ctx).CloseStream(0)
					}
					elapse(10 * adoptions.Lease)
					return text, err
				},
			})
			servers, apps = append(servers, s), append(apps, New(s))
		}
		p := adoptions.Start(t, nil, apps...)
		net := adoptions.NewWire(t, p)
		wire, err := transport.NewStreamableHTTP("http://rejoin.test/mcp", transport.WithHTTPBasicClient(net.Client), continuousListening,
			transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		c := client.NewClient(wire, client.WithElicitationHandler(echoHandlers{}), client.WithSamplingHandler(echoHandlers{}))
		heard := &list[string]{}
		c.OnNotification(func(n mcp.JSONRPCNotification) { heard.add(n.Method) })
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		ok(c.Start(t.Context()))
		request := mcp.InitializeRequest{}
		request.Params.ProtocolVersion = "2025-11-25"
		request.Params.ClientInfo = mcp.Implementation{Name: "sdk", Version: "1"}
		_, err = c.Initialize(t.Context(), request)
		ok(err)
		ok(c.SetLevel(t.Context(), mcp.SetLevelRequest{Params: mcp.SetLevelParams{Level: mcp.LoggingLevelError}}))
		call := func(tool string) (string, error) {
			r := mcp.CallToolRequest{}
			r.Params.Name = tool
			result, err := c.CallTool(t.Context(), r)
			if err != nil {
				return "", err
			}
			text, _ := result.Content[0].(mcp.TextContent)
			return text.Text, nil
		}
		id := wire.GetSessionId()
		for n := range 2 {
			ran := make(chan error, 1)
			go func() {
				_, err := call("wait")
				ran <- err
			}()
			<-begun
			synctest.Wait() // it reads the stream
			net.Cut()
			p.Use(n + 1) // before the others know that the owner is dead: the client must hold out
			p.Kill(n)
			if err := <-ran; err == nil { // this client does not come back when its connection breaks, so it has an error of its own
				t.Error("the call that ran was answered")
			}
			text, err := call("quick")
			ok(err)
			same(t, "quick", text, "done")
			text, err = call("ask")
			ok(err)
			same(t, "the answer", text, "sampled")
			elapse(adoptions.Lease)
			servers[n+1].AddTool(mcp.NewTool("more"), nil)
			elapse(adoptions.Lease)
		}
		same(t, "heard", heard.got(), []string{
			"notifications/progress", "notifications/tools/list_changed", "notifications/progress", "notifications/tools/list_changed",
		})
		same(t, "the session", wire.GetSessionId(), id)
		same(t, "initialized", net.Initialized.Load(), 1)
		ok(c.Close())
		synctest.Wait()
		same(t, "sessions", p.Servers[2].Stats().Sessions, 0)
	})
}
