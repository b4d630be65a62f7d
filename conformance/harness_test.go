package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// soon is the time after which a disconnected client shall poll.
const soon = 10 * time.Millisecond

var errNotText = errors.New("the result is not one text")

// tool is a tool of the server under test. It returns the text of the result.
type tool func(ctx context.Context, h hand, args json.RawMessage) (string, error)

// tools are the tools of a server, by name.
type tools map[string]tool

// session is a client of the official Go SDK that is connected to a server of its own.
type session struct {
	*mcp.ClientSession
	ctx  context.Context // for all calls: a context that ended with its call would cut off the end of the stream
	srv  *rejoin.Server
	wire *wire
}

// connect starts a server with the tools and connects a client to it. Nil options are the SDK's defaults: a client of both eras that prefers
// the newest version.
func connect(t *testing.T, cfg rejoin.Config, list tools, options *mcp.ClientOptions, how *mcp.ClientSessionOptions) session {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	srv, err := rejoin.NewServer(newApp(list), cfg)
	require.NoError(t, err)
	mux := http.NewServeMux()
	stdadapter.Register(mux, "/mcp", srv)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	wire := newWire(transport)
	client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1"}, options)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	s, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: server.URL + "/mcp", HTTPClient: &http.Client{Transport: wire},
	}, how)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close(), "the session must live until its client ends it")
		require.Zero(t, srv.Stats().Sessions, "the client's DELETE leaves nothing")
		require.Zero(t, srv.Stats().StoredBytes, "the client's DELETE leaves nothing")
	})
	return session{s, ctx, srv, wire}
}

// appInfo is what the apps of these tests say that they are.
var appInfo = rejoin.Info{Name: "interop", Version: "1", Capabilities: map[string]any{"tools": struct{}{}, "logging": struct{}{}}}

// newApp is an app of rejoin's own that runs the tools and lists none.
func newApp(list tools) rejoin.App { return rejoin.NewApp(appInfo, list.handle) }

// handle answers tools/call, and no other method.
func (list tools) handle(ctx context.Context, r *rejoin.Request) (any, error) {
	var params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := r.Bind(&params); err != nil {
		return nil, err
	}
	call, ok := list[params.Name]
	if r.Method != "tools/call" || !ok {
		return nil, rejoin.Errorf(rejoin.CodeMethodNotFound, "no such tool or method")
	}
	text, err := call(ctx, rejoin.HandleFromContext(ctx), params.Arguments)
	if err != nil {
		return nil, err
	}
	return map[string]any{"content": []map[string]any{{"type": "text", "text": text}}}, nil
}

// call calls a tool, with its name as the progress token, and returns the text of its result.
func (s session) call(ctx context.Context, name string, args any) (string, error) {
	return s.callAs(ctx, name, name, args)
}

func (s session) callAs(ctx context.Context, name, token string, args any) (string, error) {
	params := &mcp.CallToolParams{Name: name, Arguments: args}
	params.SetProgressToken(token)
	result, err := s.CallTool(ctx, params)
	if err != nil {
		return "", err
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok || len(result.Content) != 1 {
		return "", errNotText
	}
	return text.Text, nil
}

// requireCall calls a tool, and requires the text of its result.
func (s session) requireCall(t *testing.T, name, want string) {
	t.Helper()
	got, err := s.call(s.ctx, name, nil)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// receive waits for a value.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("did not come: %s", what)
		panic("unreachable")
	}
}
