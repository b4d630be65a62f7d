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

// elapse lets virtual time pass. Call it in a bubble only.
func elapse(d time.Duration) { <-time.After(d) }

// goroutines waits until all goroutines of this test's bubble are blocked, and counts those whose stack contains part.
func goroutines(part string) (count int) {
	synctest.Wait()
	buf := make([]byte, 4<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	_, rest, _ := strings.Cut(all[0], "synctest bubble ") // the first is the current one
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

// newServer returns a server of the SDK with tools.
func newServer(opts *mcp.ServerOptions, tools map[string]handler) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, opts)
	for name, run := range tools {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, mcp.ToolHandler(run))
	}
	return s
}

// acceptAll answers each request of the server as a user who accepts.
func acceptAll(method string, _ json.RawMessage) (any, error) {
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

// summary is a message in short: the last part of the method, and its text.
func summary(raw json.RawMessage) string {
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

func summaries(messages []json.RawMessage) []string {
	var all []string
	for _, m := range messages {
		all = append(all, summary(m))
	}
	return all
}

// expect compares the messages of a stream with their expected summaries.
func expect(t *testing.T, what string, messages []json.RawMessage, want ...string) {
	t.Helper()
	if got := summaries(messages); !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// logBuffer keeps what a logger writes.
type logBuffer struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.Write(p)
}

func (b *logBuffer) count(part string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.lines.String(), part)
}

func (b *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
