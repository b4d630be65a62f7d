package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

// reporting is a tool that reports progress and returns at once.
func reporting(steps int) handler {
	return func(ctx context.Context, s *server.MCPServer, r mcp.CallToolRequest) (string, error) {
		for i := range steps {
			if err := progress(ctx, s, r.GetString("name", ""), i); err != nil {
				return "", err
			}
		}
		return "done", nil
	}
}

// reportOf returns the summaries of the messages of such a call.
func reportOf(name string, steps int) []string {
	out := []string{}
	for i := range steps {
		out = append(out, fmt.Sprintf("notifications/progress %s %d", name, i))
	}
	return append(out, "result done")
}

// eventSummaries returns the summaries of the events of a stream.
func eventSummaries(t *testing.T, stream string) []string {
	t.Helper()
	out := []string{}
	for line := range strings.Lines(stream) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			out = append(out, summary(t, json.RawMessage(data)))
		}
	}
	return out
}

func modernClient(t *testing.T, app rejoin.App) *rejointest.Client {
	t.Helper()
	return rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Eras: rejoin.EraBoth}})
}

// withoutTasks is a modernClient whose server leaves tasks/… and server/discover to mcp-go.
func withoutTasks(t *testing.T, app rejoin.App) *rejointest.Client {
	t.Helper()
	return rejointest.New(t, app, rejointest.Config{Server: rejoin.Config{Eras: rejoin.EraBoth, Tasks: rejoin.Tasks{Off: true}}})
}

// callBody returns a tools/call.
func callBody(tool, name string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"name":"` + name + `"}}}`
}

func modernCall(t *testing.T, c *rejointest.Client, tool, name string) []string {
	t.Helper()
	return eventSummaries(t, rest(t, c.Do(modernRequest(t.Context(), t, v2026, "tools/call", tool, callBody(tool, name)))))
}

func TestAModernCallGetsAllThatWasSentBeforeItsResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const calls, many = 200, 5000
		c := modernClient(t, New(newMCP(&server.Hooks{}, map[string]handler{
			"few": reporting(3), "many": reporting(many),
			"panics": func(ctx context.Context, s *server.MCPServer, r mcp.CallToolRequest) (string, error) {
				_, _ = reporting(3)(ctx, s, r)
				panic("oh")
			},
		})))
		for i := range calls {
			name := strconv.Itoa(i)
			same(t, "few", modernCall(t, c, "few", name), reportOf(name, 3))
		}
		same(t, "many", modernCall(t, c, "many", "m"), reportOf("m", many))
		want := reportOf("p", 3)
		want[3] = "error internal error"
		same(t, "panics", modernCall(t, c, "panics", "p"), want)
	})
}

func TestTheRealModernClientGetsAllThatWasSent(t *testing.T) {
	const calls, steps = 200, 3
	url := listening(t, New(newMCP(&server.Hooks{}, map[string]handler{"few": reporting(steps)})), rejoin.EraBoth)
	c := dial(t, url, "")
	same(t, "version", c.version, v2026)
	seen := make(chan string, calls*steps)
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		seen <- fmt.Sprint(n.Params.AdditionalFields["progressToken"], " ", n.Params.AdditionalFields["progress"])
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range calls {
		name := strconv.Itoa(i)
		same(t, "result", c.call(ctx, t, "few", name), "done")
		for step := range steps {
			same(t, "progress", next(ctx, t, seen), fmt.Sprint(name, " ", step))
		}
	}
}

// Each modern request has a different session id, so data that is stored by session id is not shared by all clients.
func TestAModernSessionIsOfItsRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ids list[string]
		c := modernClient(t, New(newMCP(&server.Hooks{}, map[string]handler{
			"who": func(ctx context.Context, _ *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				session, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo)
				if !ok {
					return "", fmt.Errorf("%T", session)
				}
				ids.add(session.SessionID())
				return session.GetClientInfo().Name, nil
			},
		})))
		for range 3 {
			body := rest(t, c.Do(modernRequest(t.Context(), t, v2026, "tools/call", "who", callBody("who", ""))))
			same(t, "client", summary(t, json.RawMessage(body)), "result m")
		}
		got := ids.got()
		slices.Sort(got)
		if got = slices.Compact(got); len(got) != 3 || got[0] == "" {
			t.Fatal(got)
		}
	})
}

// Messages after the answer are dropped. Neither the response nor the sender sees an error.
func TestAModernCallIsOverWhenItIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		late, sent := make(chan struct{}), &list[error]{}
		c := modernClient(t, New(newMCP(&server.Hooks{}, map[string]handler{
			"leave": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				go func() {
					<-late
					sent.add(progress(ctx, s, "late", 1))
				}()
				return "done", progress(ctx, s, "early", 0)
			},
		})))
		same(t, "messages", modernCall(t, c, "leave", ""), []string{"notifications/progress early 0", "result done"})
		close(late)
		synctest.Wait()
		same(t, "sent", sent.got(), []error{nil})
	})
}

// A notification that is sent after the answer was written is not written, also if the handler has not returned.
func TestNothingIsWrittenAfterAModernAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := &bufferedResponse{header: http.Header{}}
		l := newModernSession(w, t.Context())
		var ch chan<- mcp.JSONRPCNotification
		r := modernRequest(t.Context(), t, v2026, "tools/call", "x", callBody("x", ""))
		l.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			l.UpgradeToSSEWhenReceiveNotification()
			ch = l.NotificationChannel()
			_, _ = w.Write([]byte("{}\n"))
		}), r)
		ch <- mcp.JSONRPCNotification{JSONRPC: "2.0"}
		synctest.Wait()
		same(t, "answer", w.body.String(), "{}\n")
	})
}

// If a client does not read, its tool waits, at most until the connection ends.
func TestAModernCallWithoutAReader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ended list[int]
		c := modernClient(t, New(newMCP(&server.Hooks{}, map[string]handler{
			"endless": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				n := 0
				for ctx.Err() == nil && progress(ctx, s, "p", n) == nil {
					n++
				}
				ended.add(n)
				return "", ctx.Err()
			},
		})))
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		_ = c.Do(modernRequest(ctx, t, v2026, "tools/call", "endless", callBody("endless", "")))
		synctest.Wait()
		same(t, "ended", len(ended.got()), 0)
		leave()
		synctest.Wait()
		same(t, "ended", len(ended.got()), 1)
	})
}

// unencodable panics when it is encoded.
type unencodable struct{}

func (unencodable) MarshalJSON() ([]byte, error) { panic("no words") }

func TestAModernNotificationThatIsNoJSON(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := modernClient(t, New(newMCP(&server.Hooks{}, map[string]handler{
			"mute": func(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
				if err := s.SendNotificationToClient(ctx, "no", map[string]any{"x": unencodable{}}); err != nil {
					return "", err
				}
				return "done", progress(ctx, s, "p", 1)
			},
		})))
		same(t, "messages", modernCall(t, c, "mute", ""), []string{"notifications/progress p 1", "result done"})
	})
}

// A task of mcp-go's own outlives the request that created it, and the next request finds it, if rejoin makes no tasks.
func TestAModernTaskOutlivesItsRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := server.NewMCPServer("test", "1", server.WithTaskCapabilities(true, true, true))
		s.AddTool(mcp.NewTool("task", mcp.WithTaskSupport(mcp.TaskSupportOptional)),
			func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcp.NewToolResultText("done"), progress(ctx, s, "p", 1)
			})
		c := withoutTasks(t, New(s))
		begin := strings.Replace(callBody("task", ""), `"arguments"`, `"task":{"ttl":60000},"arguments"`, 1)
		body := rest(t, c.Do(modernRequest(t.Context(), t, v2026, "tools/call", "task", begin)))
		_, id, _ := strings.Cut(body, `"taskId":"`)
		id, _, _ = strings.Cut(id, `"`)
		elapse(time.Second)
		get := `{"jsonrpc":"2.0","id":8,"method":"tasks/get","params":{"taskId":"` + id + `"}}`
		got := rest(t, c.Do(modernRequest(t.Context(), t, v2026, "tasks/get", "", get)))
		if id == "" || !strings.Contains(got, `"status":"completed"`) {
			t.Fatal(body, got)
		}
	})
}
