package gosdk

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rejoin-mcp/rejoin"
)

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// elapse lets virtual time pass: outside of a bubble it would take as long as it says.
func elapse(d time.Duration) { <-time.After(d) }

// goroutines counts what runs in this test's bubble and has that in its stack, once all of it has come to rest.
func goroutines(part string) (count int) {
	synctest.Wait()
	buf := make([]byte, 4<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	_, rest, _ := strings.Cut(all[0], "synctest bubble ") // the first is the one that asks
	number, _, _ := strings.Cut(rest, "]")
	for _, stack := range all[1:] {
		if head, _, _ := strings.Cut(stack, "\n"); strings.Contains(head, "synctest bubble "+number+"]") && strings.Contains(stack, part) {
			count++
		}
	}
	return count
}

// handler is a tool.
type handler func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error)

// newServer makes a server of the SDK's with tools.
func newServer(opts *mcp.ServerOptions, tools map[string]handler) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, opts)
	for name, run := range tools {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, mcp.ToolHandler(run))
	}
	return s
}

// answers is a client's user: it says yes to everything.
func answers(method string, _ json.RawMessage) (any, error) {
	switch method {
	case "elicitation/create":
		return json.RawMessage(`{"action":"accept","content":{"color":"blue"}}`), nil
	case "sampling/createMessage":
		return json.RawMessage(`{"role":"assistant","model":"m","content":{"type":"text","text":"yes"}}`), nil
	case "roots/list":
		return json.RawMessage(`{"roots":[]}`), nil
	case "ping":
		return json.RawMessage(`{}`), nil
	}
	return nil, rejoin.Errorf(rejoin.CodeMethodNotFound, "%s", method)
}

// say is a message as the tests write it: the method's last part, and what it says.
func say(raw json.RawMessage) string {
	var m struct {
		Method string
		Params struct {
			Message, SystemPrompt, Data, URI string
			Meta                             struct{ Note string } `json:"_meta"`
		}
		Result struct{ Content []struct{ Text string } }
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return err.Error()
	}
	p := m.Params
	switch {
	case m.Error != nil:
		return "error " + m.Error.Message
	case m.Method == "" && len(m.Result.Content) == 1:
		return "result " + m.Result.Content[0].Text
	case m.Method == "":
		return "result"
	}
	return strings.TrimSpace(m.Method[strings.LastIndex(m.Method, "/")+1:] + " " + p.Message + p.SystemPrompt + p.Data + p.URI + p.Meta.Note)
}

func said(messages []json.RawMessage) []string {
	var all []string
	for _, m := range messages {
		all = append(all, say(m))
	}
	return all
}

// expect compares what a stream has brought so far.
func expect(t *testing.T, what string, messages []json.RawMessage, want ...string) {
	t.Helper()
	if got := said(messages); !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// journal is a logger that remembers.
type journal struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.Write(p)
}

func (j *journal) count(part string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.lines.String(), part)
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }
