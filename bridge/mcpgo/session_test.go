package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// lifecycle records which sessions mcp-go registers and unregisters.
func lifecycle(hooks *server.Hooks) *list[string] {
	l := &list[string]{}
	hooks.AddOnRegisterSession(func(ctx context.Context, s server.ClientSession) {
		info, _ := s.(server.SessionWithClientInfo)
		versioned, _ := s.(server.SessionWithProtocolVersion)
		answered := ""
		if h := rejoin.HandleFromContext(ctx); h.Session() != nil {
			answered = h.Session().Version()
		}
		l.add(fmt.Sprintf("+%s %s %q", info.GetClientInfo().Name, versioned.ProtocolVersion(), answered))
	})
	hooks.AddOnUnregisterSession(func(context.Context, server.ClientSession) { l.add("-") })
	return l
}

// A session is registered before its client gets the answer of initialize, and unregistered once. DELETE cancels at once.
func TestASessionsLife(t *testing.T) {
	for _, how := range []string{"DELETE", "the app", "Close"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hooks, causes, ids, stay := &server.Hooks{}, &list[error]{}, &list[string]{}, make(chan struct{})
				seen := lifecycle(hooks)
				s := newMCP(hooks, map[string]handler{
					"stubborn": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
						ids.add(server.ClientSessionFromContext(ctx).SessionID())
						<-ctx.Done()
						causes.add(context.Cause(ctx))
						<-stay // ignores the end of ctx
						_ = progress(ctx, s, "p", 1)
						return "", nil
					},
					"end": func(ctx context.Context, _ *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
						rejoin.HandleFromContext(ctx).Session().End(errors.New("enough"))
						return "", nil
					},
				})
				c := rejointest.New(t, New(s), rejointest.Config{})
				same(t, "opened", seen.got(), []string{`+rejointest 2025-11-25 ""`})
				c.CallTool("stubborn", nil)
				want, text := rejoin.ErrSessionEnded, rejoin.ErrSessionEnded.Error()
				switch how {
				case "DELETE":
					c.Delete()
				case "the app":
					c.CallTool("end", nil)
					text += ": enough"
				case "Close":
					c.Server().Close()
					want, text = rejoin.ErrShutdown, rejoin.ErrShutdown.Error()
				}
				synctest.Wait()
				same(t, "ended", seen.got(), []string{`+rejointest 2025-11-25 ""`, "-"})
				if got := causes.got(); len(got) != 1 || !errors.Is(got[0], want) || got[0].Error() != text {
					t.Errorf("the tool ended with %v, want %s", got, text)
				}
				if err := s.SendNotificationToSpecificClient(ids.got()[0], "notifications/x", nil); !errors.Is(err, server.ErrSessionNotFound) {
					t.Fatal(err)
				}
				close(stay)
			})
		})
	}
}

// If initialize fails, nothing is left.
func TestAFailingInitializeLeavesNothing(t *testing.T) {
	broken := func(why string) *server.Hooks {
		hooks := &server.Hooks{}
		switch why {
		case "refused":
			hooks.AddOnRequestInitialization(func(context.Context, any, any) error { return errors.New("no") })
		case "a hook before panics":
			hooks.AddBeforeInitialize(func(context.Context, any, *mcp.InitializeRequest) { panic("x") })
		case "a hook after panics":
			hooks.AddAfterInitialize(func(context.Context, any, *mcp.InitializeRequest, *mcp.InitializeResult) { panic("x") })
		case "a hook of the registration panics":
			hooks.AddOnRegisterSession(func(context.Context, server.ClientSession) { panic("x") })
		}
		return hooks
	}
	for _, why := range []string{"refused", "a hook before panics", "a hook after panics", "a hook of the registration panics"} {
		t.Run(why, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				hooks, ids := broken(why), &list[string]{}
				s := newMCP(hooks, nil)
				app := New(s)
				srv := newServer(t, &recordingApp{App: app, opened: func(s *rejoin.Session) { ids.add(s.ID()) }}, rejoin.Config{})
				res := exchange(srv, http.MethodPost, "", initialize("2025-11-25"))
				if res.Header().Get("Mcp-Session-Id") != "" {
					t.Fatal(res.Body)
				}
				synctest.Wait()
				same(t, "sessions", srv.Stats().Sessions, 0)
				if err := s.SendNotificationToSpecificClient(ids.got()[0], "x", nil); !errors.Is(err, server.ErrSessionNotFound) {
					t.Fatal(err)
				}
			})
		})
	}
}

// A request that reaches the bridge after it was cancelled, or after its session has ended, runs no tool.
func TestARequestThatComesTooLate(t *testing.T) {
	for _, how := range []string{"DELETE", "cancelled"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ran, hold := &list[string]{}, make(chan struct{})
				c := rejointest.New(t, &recordingApp{App: New(newMCP(&server.Hooks{}, map[string]handler{
					"act": func(context.Context, *server.MCPServer, mcp.CallToolRequest) (string, error) {
						ran.add("act")
						return "", nil
					},
				})), release: hold}, rejointest.Config{})
				call := c.CallTool("act", nil)
				if how == "DELETE" {
					c.Delete()
				} else {
					call.Cancel("")
				}
				close(hold)
				synctest.Wait()
				same(t, "ran", len(ran.got()), 0)
			})
		})
	}
}

// A client that requests the modern version with initialize gets the newest version that has initialize, with all its features.
func TestInitializeWithTheModernVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		begin := make(chan struct{})
		close(begin)
		asked := &list[bool]{}
		c := rejointest.New(t, New(newMCP(&server.Hooks{}, map[string]handler{"mixed": mixed(begin)})), rejointest.Config{
			OnRequest: echo, Handler: func(srv *rejoin.Server) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					if bytes.Contains(body, []byte(`"initialize"`)) {
						body = bytes.Replace(body, []byte(`"2025-11-25"`), []byte(`"2026-07-28"`), 1)
						asked.add(bytes.Contains(body, []byte(`"2026-07-28"`)))
					}
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
					srv.Serve(w, r)
				})
			},
		})
		same(t, "asked for it", asked.got(), []bool{true})
		call := c.CallTool("mixed", map[string]string{"name": "a"})
		call.Result()
		same(t, "messages", summaries(t, call), mixedWants("a"))
	})
}

// Nothing is left of ten thousand sessions.
func TestNothingIsLeftOfTenThousandSessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hooks, open, ids := &server.Hooks{}, 0, []string{}
		hooks.AddOnRegisterSession(func(_ context.Context, s server.ClientSession) { open++; ids = append(ids[:0], s.SessionID()) })
		hooks.AddOnUnregisterSession(func(context.Context, server.ClientSession) { open-- })
		s := newMCP(hooks, map[string]handler{
			"tell": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				s.SendNotificationToAllClients("notifications/all", nil)
				return "told", progress(ctx, s, "p", 1)
			},
		})
		srv := newServer(t, New(s), rejoin.Config{})
		visit := func() {
			res := exchange(srv, http.MethodPost, "", initialize("2025-11-25"))
			id := res.Header().Get("Mcp-Session-Id")
			if id == "" {
				t.Fatal(res.Body)
			}
			res = exchange(srv, http.MethodPost, id, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tell"}}`)
			if !json.Valid(res.Body.Bytes()) && res.Header().Get("Content-Type") != "text/event-stream" {
				t.Fatal(res.Body)
			}
			if res = exchange(srv, http.MethodDelete, id, ""); res.Code != http.StatusNoContent {
				t.Fatal(res.Code, res.Body)
			}
		}
		heap := func() uint64 {
			synctest.Wait()
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		for range 100 {
			visit()
		}
		before := heap()
		for range 10_000 {
			visit()
		}
		if grown := int64(heap()) - int64(before); grown > 8<<20 {
			t.Errorf("%d KiB more on the heap", grown>>10)
		}
		same(t, "registered", open, 0)
		same(t, "sessions", srv.Stats().Sessions, 0)
		if err := s.SendNotificationToSpecificClient(ids[0], "x", nil); !errors.Is(err, server.ErrSessionNotFound) {
			t.Error(err)
		}
		// The bubble fails if a goroutine is left.
	})
}
