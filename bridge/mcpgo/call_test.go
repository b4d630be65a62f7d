package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

type traceKey struct{}

// numbered gives each HTTP request a number, in its header and in its context.
func numbered(srv *rejoin.Server) http.Handler {
	var n atomic.Int64
	next := stdadapter.New(srv)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number := strconv.FormatInt(n.Add(1), 10)
		r.Header.Set("X-Number", number)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), traceKey{}, number)))
	})
}

// A handler sees the HTTP request of its own call, not of initialize, also after that request has ended.
func TestHeaderAndValuesAreThoseOfTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release, late := make(chan struct{}), &list[any]{}
		s := newMCP(&server.Hooks{}, map[string]handler{
			"who": func(ctx context.Context, _ *server.MCPServer, request mcp.CallToolRequest) (string, error) {
				go func() {
					<-release
					late.add(ctx.Value(traceKey{}))
				}()
				got := request.Header.Get("X-Number")
				request.Header.Set("X-Number", "spoilt") // a tool may change its header
				return got + " " + ctx.Value(traceKey{}).(string), nil
			},
		})
		notified := &list[any]{}
		s.AddNotificationHandler("notifications/x", func(ctx context.Context, _ mcp.JSONRPCNotification) {
			notified.add(ctx.Value(traceKey{}))
		})
		c := rejointest.New(t, New(s), rejointest.Config{Handler: numbered}) // 1 and 2: initialize, initialized
		for _, want := range []string{"result 3 3", "result 4 4"} {
			call := c.CallTool("who", nil)
			call.Result()
			same(t, "seen", summaries(t, call), []string{want})
		}
		c.Notify("notifications/x", nil)
		synctest.Wait()
		same(t, "seen by a notification's handler", notified.got(), []any{"5"})
		close(release)
		synctest.Wait()
		if got := late.got(); len(got) != 2 || got[0] == got[1] || got[0] == nil || got[1] == nil {
			t.Fatalf("after the calls: %v", got)
		}
	})
}

// Two calls of one batch come with one HTTP header. If one tool changes its header, the other does not see it.
func TestTheHeaderIsTheCallsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		spoilt := make(chan struct{})
		c := rejointest.New(t, New(newMCP(&server.Hooks{}, map[string]handler{
			"spoil": func(_ context.Context, _ *server.MCPServer, request mcp.CallToolRequest) (string, error) {
				request.Header.Set("Content-Type", "spoilt")
				close(spoilt)
				return "", nil
			},
			"look": func(_ context.Context, _ *server.MCPServer, request mcp.CallToolRequest) (string, error) {
				<-spoilt
				return "type " + request.Header.Get("Content-Type"), nil
			},
		})), rejointest.Config{Version: "2025-03-26"})
		const call = `{"jsonrpc":"2.0","id":"%","method":"tools/call","params":{"name":"%"}}`
		body := "[" + strings.ReplaceAll(call, "%", "spoil") + "," + strings.ReplaceAll(call, "%", "look") + "]"
		if got := rest(t, post(t, c, body)); !strings.Contains(got, "type application/json") {
			t.Fatal(got)
		}
	})
}

// An error of mcp-go keeps its code and its data.
func TestDataOfAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := rejointest.New(t, New(newMCP(&server.Hooks{}, map[string]handler{
			"go": func(context.Context, *server.MCPServer, mcp.CallToolRequest) (string, error) {
				return "", mcp.URLElicitationRequiredError{Elicitations: []mcp.ElicitationParams{{ElicitationID: "e"}}}
			},
		})), rejointest.Config{})
		e := c.CallTool("go", nil).Err()
		same(t, "code", e.Code, mcp.URL_ELICITATION_REQUIRED)
		same(t, "data", strings.Contains(string(e.Data), `"elicitationId":"e"`), true)
	})
}

// The handle works at any depth: in middleware, in a context derived from another.
func TestTheHandleAtAnyDepth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newMCP(&server.Hooks{}, map[string]handler{
			"deep": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				ctx, cancel := context.WithCancel(context.WithValue(ctx, traceKey{}, "x"))
				defer cancel()
				return "deep", errors.Join(rejoin.HandleFromContext(ctx).CloseStream(0), progress(ctx, s, "p", 2))
			},
		})
		s.Use(func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
			return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if err := rejoin.HandleFromContext(ctx).Notify("notifications/progress", map[string]any{"progressToken": "p", "progress": 1}); err != nil {
					return nil, err
				}
				return next(ctx, r)
			}
		})
		call := rejointest.New(t, New(s), rejointest.Config{}).CallTool("deep", nil)
		call.WaitClosed()
		call.Result()
		same(t, "messages", summaries(t, call), []string{"notifications/progress p 1", "notifications/progress p 2", "result deep"})
	})
}

// Ids that a float64 cannot hold, and ids that differ only in their type, come back unchanged, and cancel only their own call.
func TestIdsAreTheClients(t *testing.T) {
	bubble(t, func(t *testing.T) {
		causes, release := &list[error]{}, make(chan struct{})
		c := rejointest.New(t, New(newMCP(&server.Hooks{}, map[string]handler{
			"block": func(ctx context.Context, _ *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				select {
				case <-ctx.Done():
					causes.add(context.Cause(ctx))
				case <-release:
				}
				return "done", nil
			},
		})), rejointest.Config{})
		ids := []string{`1`, `1.5`, `9007199254740993`, `"1"`, `1.0`, `"é\u0041"`}
		streams := map[string]*http.Response{}
		for _, id := range ids {
			streams[id] = post(t, c, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"block"}}`)
		}
		c.Notify("notifications/cancelled", map[string]any{"requestId": json.RawMessage(`"1"`)})
		synctest.Wait()
		same(t, "cancelled", causes.got(), []error{rejoin.ErrCancelled})
		close(release)
		for id, stream := range streams {
			want := 1
			if id == `"1"` {
				want = 0
			}
			if got := strings.Count(rest(t, stream), `"id":`+id+`,`); got != want {
				t.Errorf("%d responses with id %s, want %d", got, id, want)
			}
		}
	})
}

// If a tool gives up a question, the question is withdrawn with the same id.
func TestAQuestionThatIsGivenUpIsWithdrawn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		c := rejointest.New(t, New(newMCP(&server.Hooks{}, map[string]handler{
			"impatient": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				asking, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("no longer wanted"))
				defer cancel()
				_, err := elicit(asking, s, "?")
				if !errors.Is(err, context.DeadlineExceeded) {
					return "", err
				}
				_, err = elicit(asking, s, "never asked")
				return err.Error(), nil
			},
		})), rejointest.Config{OnRequest: func(string, json.RawMessage) (any, error) {
			<-end
			return nil, errors.New("too late")
		}})
		call := c.CallTool("impatient", nil)
		call.Result()
		messages := call.Messages()
		same(t, "messages", summaries(t, call), []string{"elicitation/create ?", "notifications/cancelled", "result context deadline exceeded"})
		var asked struct {
			ID json.RawMessage `json:"id"`
		}
		var withdrawn struct {
			Params struct {
				ID     json.RawMessage `json:"requestId"`
				Reason string          `json:"reason"`
			} `json:"params"`
		}
		if err := errors.Join(json.Unmarshal(messages[0], &asked), json.Unmarshal(messages[1], &withdrawn)); err != nil {
			t.Fatal(err)
		}
		same(t, "id", string(withdrawn.Params.ID), string(asked.ID))
		same(t, "reason", withdrawn.Params.Reason, "no longer wanted")
	})
}

// If the client answers with an error, or with an invalid result, the tool gets an error.
func TestErrorsOfTheClientReachTheTool(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := rejointest.New(t, New(newMCP(&server.Hooks{}, map[string]handler{
			"ask": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				_, refused := elicit(ctx, s, "?")
				var e *rejoin.Error
				if !errors.As(refused, &e) || e.Code != -1 || string(e.Data) != `"d"` {
					return "", refused
				}
				_, nonsense := sample(ctx, s, "?")
				_, roots := listRoots(ctx, s)
				if nonsense == nil || roots == nil {
					return "", errors.New("no error")
				}
				return refused.Error(), nil
			},
		})), rejointest.Config{OnRequest: func(method string, _ json.RawMessage) (any, error) {
			if method == "elicitation/create" {
				return nil, &rejoin.Error{Code: -1, Message: "no", Data: json.RawMessage(`"d"`)}
			}
			return map[string]any{"content": 5, "roots": 5}, nil
		}})
		call := c.CallTool("ask", nil)
		call.Result()
		same(t, "the tool", summaries(t, call)[3], "result elicitation/create: JSON-RPC error -1: no")
	})
}

// If a handler panics, its call is answered, and other calls continue.
func TestPanicsAreAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		begin, release := make(chan struct{}), make(chan struct{})
		s := newMCP(&server.Hooks{}, map[string]handler{
			"panic": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				if err := progress(ctx, s, "p", 1); err != nil {
					return "", err
				}
				panic("the tool's own fault")
			},
			"unfit": func(context.Context, *server.MCPServer, mcp.CallToolRequest) (string, error) { return "", nil },
			"wait": func(context.Context, *server.MCPServer, mcp.CallToolRequest) (string, error) {
				close(begin)
				<-release
				return "fine", nil
			},
		})
		s.AddTool(mcp.NewTool("unfit"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultStructured(make(chan int), "no JSON"), nil
		})
		notified := make(chan struct{})
		s.AddNotificationHandler("notifications/x", func(context.Context, mcp.JSONRPCNotification) {
			defer close(notified)
			panic("its fault too")
		})
		c := rejointest.New(t, New(s), rejointest.Config{})
		waiting := c.CallTool("wait", nil)
		<-begin
		call := c.CallTool("panic", nil)
		same(t, "error", *call.Err(), rejoin.Error{Code: rejoin.CodeInternal, Message: "internal error"})
		same(t, "messages", summaries(t, call), []string{"notifications/progress p 1", "error internal error"})
		same(t, "error", *c.CallTool("unfit", nil).Err(), rejoin.Error{Code: rejoin.CodeInternal, Message: "internal error"})
		c.Notify("notifications/x", nil)
		<-notified
		close(release)
		waiting.Result()
		same(t, "the other", summaries(t, waiting), []string{"result fine"})
	})
}

// panicking panics when it is encoded.
type panicking struct{}

func (panicking) MarshalJSON() ([]byte, error) { panic("not today") }

// A notification that cannot be encoded is dropped. Others are not.
func TestANotificationThatCannotBeEncoded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		c := rejointest.New(t, New(newMCP(&server.Hooks{}, map[string]handler{
			"odd": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				for _, v := range []any{panicking{}, make(chan int)} {
					if err := s.SendNotificationToClient(ctx, "notifications/x", map[string]any{"v": v}); err != nil {
						return "", err
					}
				}
				return "done", progress(ctx, s, "p", 1)
			},
		})), rejointest.Config{Server: rejoin.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
		call := c.CallTool("odd", nil)
		call.Result()
		same(t, "messages", summaries(t, call), []string{"notifications/progress p 1", "result done"})
		same(t, "warnings", strings.Count(log.String(), "a notification was dropped"), 2)
	})
}

// mcp-go handles a request with a member "result" as a response and returns nothing, so the bridge answers with an error.
func TestARequestThatLooksLikeAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := rejointest.New(t, New(newMCP(&server.Hooks{}, nil)), rejointest.Config{})
		got := rest(t, post(t, c, `{"jsonrpc":"2.0","id":"q","method":"ping","result":{"x":1}}`))
		if !strings.Contains(got, `"id":"q"`) || !strings.Contains(got, `-32600`) {
			t.Fatal(got)
		}
		if _, err := (&session{}).splitResponse(nil); err.Code != rejoin.CodeInvalidRequest {
			t.Fatal(err)
		}
	})
}
