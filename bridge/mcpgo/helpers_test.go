package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
)

func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// same fails the test if got is not want.
func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// elapse lets time pass.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// list collects values in order.
type list[T any] struct {
	mu  sync.Mutex
	all []T
}

func (l *list[T]) add(v T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, v)
}

func (l *list[T]) got() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]T(nil), l.all...)
}

type handler = func(ctx context.Context, s *server.MCPServer, request mcp.CallToolRequest) (string, error)

// newMCP makes an mcp-go server.
func newMCP(hooks *server.Hooks, tools map[string]handler) *server.MCPServer {
	s := server.NewMCPServer("test", "1", server.WithToolCapabilities(true), server.WithResourceCapabilities(true, true),
		server.WithLogging(), server.WithElicitation(), server.WithRoots(), server.WithHooks(hooks))
	s.EnableSampling()
	for name, f := range tools {
		s.AddTool(mcp.NewTool(name), func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text, err := f(ctx, s, request)
			if err != nil {
				return nil, err
			}
			return mcp.NewToolResultText(text), nil
		})
	}
	return s
}

// progress sends a progress notification.
func progress(ctx context.Context, s *server.MCPServer, token string, n int) error {
	return s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": token, "progress": n})
}

func elicit(ctx context.Context, s *server.MCPServer, message string) (string, error) {
	r, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
		Message: message, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
	}})
	if err != nil {
		return "", err
	}
	content, _ := r.Content.(map[string]any)
	echo, _ := content["echo"].(string)
	return echo, nil
}

func sample(ctx context.Context, s *server.MCPServer, prompt string) (string, error) {
	r, err := s.RequestSampling(ctx, mcp.CreateMessageRequest{CreateMessageParams: mcp.CreateMessageParams{
		SystemPrompt: prompt, MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent("?")}},
	}})
	if err != nil {
		return "", err
	}
	content, ok := r.Content.(mcp.TextContent)
	if !ok {
		return "", errors.New("the content is not a text")
	}
	return content.Text, nil
}

func listRoots(ctx context.Context, s *server.MCPServer) (string, error) {
	r, err := s.RequestRoots(ctx, mcp.ListRootsRequest{})
	if err != nil || len(r.Roots) != 1 {
		return "", errors.Join(errors.New("no root"), err)
	}
	return r.Roots[0].URI, nil
}

// echo answers a request of the server with the text of the question, as the client.
func echo(method string, params json.RawMessage) (any, error) {
	var p struct {
		Message string `json:"message"`
		Prompt  string `json:"systemPrompt"`
	}
	if params != nil {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, err
		}
	}
	switch method {
	case "elicitation/create":
		return map[string]any{"action": "accept", "content": map[string]string{"echo": p.Message}}, nil
	case "sampling/createMessage":
		return map[string]any{"role": "assistant", "model": "m", "content": map[string]string{"type": "text", "text": p.Prompt}}, nil
	case "roots/list":
		return map[string]any{"roots": []map[string]string{{"uri": "file:///root"}}}, nil
	}
	return nil, rejoin.Errorf(rejoin.CodeMethodNotFound, "not known")
}

// summary is a message in short: its method and what distinguishes it from others, or its text.
func summary(t *testing.T, message json.RawMessage) string {
	t.Helper()
	var m struct {
		Method string `json:"method"`
		Params struct {
			Token    string          `json:"progressToken"`
			Progress json.RawMessage `json:"progress"`
			Message  string          `json:"message"`
			Prompt   string          `json:"systemPrompt"`
			Data     string          `json:"data"`
			URI      string          `json:"uri"`
		} `json:"params"`
		Result struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"result"`
		Error *rejoin.Error `json:"error"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		t.Fatalf("%s: %v", message, err)
	}
	p := m.Params
	parts := []string{m.Method, p.Token, string(p.Progress), p.Message, p.Prompt, p.Data, p.URI}
	switch {
	case m.Error != nil:
		parts = []string{"error", m.Error.Message}
	case m.Method == "" && len(m.Result.Content) > 0:
		parts = []string{"result", m.Result.Content[0].Text}
	case m.Method == "":
		parts = []string{"result"}
	}
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}

func summaries(t *testing.T, call *rejointest.Call) []string {
	t.Helper()
	out := []string{}
	for _, m := range call.Messages() {
		out = append(out, summary(t, m))
	}
	return out
}

func newServer(t *testing.T, app rejoin.App, cfg rejoin.Config) *rejoin.Server {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	srv, err := rejoin.NewServer(app, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return srv
}

// exchange sends an HTTP request and returns the complete response.
func exchange(srv *rejoin.Server, method, session, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	srv.Serve(w, r)
	return w
}

func initialize(version string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version +
		`","capabilities":{"elicitation":{},"sampling":{},"roots":{}},"clientInfo":{"name":"raw","version":"7"}}}`
}

// post sends a body that the client itself would not send.
func post(t *testing.T, c *rejointest.Client, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Path, r.Host = "", ""
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return c.Do(r)
}

func rest(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
