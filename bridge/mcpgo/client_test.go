package mcpgo

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// The tests of this file use real sockets, a real clock and mcp-go's client. They wait for events; patience bounds the wait.
const patience = 2 * time.Minute

// echoHandlers answers the questions of tools, as the client.
type echoHandlers struct{}

func (echoHandlers) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"echo": r.Params.Message},
	}}, nil
}

func (echoHandlers) CreateMessage(_ context.Context, r mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	return &mcp.CreateMessageResult{
		Model: "m", SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent(r.SystemPrompt)},
	}, nil
}

func (echoHandlers) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: "file:///root"}}}, nil
}

type sdkClient struct {
	*client.Client

	version string
	methods chan string // of the notifications that it gets
}

// continuousListening opens the standalone stream, which keeps the client in the legacy era.
var continuousListening = transport.WithContinuousListening() //nolint:staticcheck // of the modern era only

// dial connects a client of mcp-go that requests a version.
func dial(t *testing.T, url, version string, options ...transport.StreamableHTTPCOption) *sdkClient {
	t.Helper()
	wire, err := transport.NewStreamableHTTP(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	c := &sdkClient{methods: make(chan string, 1000)}
	c.Client = client.NewClient(wire,
		client.WithElicitationHandler(echoHandlers{}), client.WithSamplingHandler(echoHandlers{}), client.WithRootsHandler(echoHandlers{}))
	c.OnNotification(func(n mcp.JSONRPCNotification) { c.methods <- n.Method })
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := mcp.InitializeRequest{}
	r.Params.ProtocolVersion = version
	r.Params.ClientInfo = mcp.Implementation{Name: "sdk", Version: "1"}
	result, err := c.Initialize(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	c.version = result.ProtocolVersion
	return c
}

func (c *sdkClient) call(ctx context.Context, t *testing.T, tool, name string) string {
	t.Helper()
	r := mcp.CallToolRequest{}
	r.Params.Name, r.Params.Arguments = tool, map[string]any{"name": name}
	result, err := c.CallTool(ctx, r)
	if err != nil || result.IsError || len(result.Content) != 1 {
		t.Fatal(result, err)
	}
	text, _ := result.Content[0].(mcp.TextContent)
	return text.Text
}

func listening(t *testing.T, app rejoin.App, eras rejoin.Eras) string {
	t.Helper()
	srv := newServer(t, app, rejoin.Config{Eras: eras, Policy: rejoin.Policy{Retry: 10 * time.Millisecond}})
	hs := httptest.NewServer(stdadapter.New(srv))
	t.Cleanup(hs.Close)
	t.Cleanup(srv.Close) // before hs.Close, which would wait for the streams
	return hs.URL
}

// Whatever version the client prefers, it gets 2025-11-25 here, and all that this version has: questions and polling.
func TestTheRealClient(t *testing.T) {
	begin := make(chan struct{})
	close(begin)
	s := newMCP(&server.Hooks{}, map[string]handler{"mixed": mixed(begin)})
	url := listening(t, New(s), rejoin.EraLegacy)
	for _, asks := range []string{v2026, "2025-11-25"} {
		c := dial(t, url, asks, continuousListening)
		same(t, "version", c.version, "2025-11-25")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		same(t, "result", c.call(ctx, t, "mixed", "a"), "a")
		for range 2 * mixedRounds / 5 { // progress and logs
			next(ctx, t, c.methods)
		}
		cancel()
	}
}

func next(ctx context.Context, t *testing.T, methods <-chan string) string {
	t.Helper()
	select {
	case method := <-methods:
		return method
	case <-ctx.Done():
		t.Fatal("the notification did not come")
		return ""
	}
}

// One URL serves both eras. A modern client gets input requests and notifications of changes, and cancels when it closes its connection.
func TestTheRealClientInBothEras(t *testing.T) {
	begin, begun, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	close(begin)
	s := newMCP(&server.Hooks{}, map[string]handler{
		"mixed": mixed(begin),
		"block": func(ctx context.Context, _ *server.MCPServer, _ mcp.CallToolRequest) (string, error) {
			close(begun)
			<-ctx.Done()
			close(ended)
			return "", ctx.Err()
		},
	})
	s.AddTool(mcp.NewTool("input"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if answer := server.ElicitationResponse(r.Params.InputResponses, "q"); answer != nil {
			content, _ := answer.Content.(map[string]any)
			text, _ := content["echo"].(string)
			return mcp.NewToolResultText(text), nil
		}
		return server.NewInputRequestBuilder("").Elicit("q", mcp.ElicitationParams{
			Message: "why?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
		}).ToolResult(), nil
	})
	url := listening(t, New(s), rejoin.EraBoth)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	modern, legacy := dial(t, url, ""), dial(t, url, "2025-11-25", continuousListening)
	same(t, "versions", []string{modern.version, legacy.version}, []string{v2026, "2025-11-25"})
	same(t, "legacy", legacy.call(ctx, t, "mixed", "a"), "a")
	for _, c := range []*sdkClient{modern, legacy} {
		same(t, c.version, c.call(ctx, t, "input", ""), "why?")
	}

	stop, err := modern.ListenAsync(ctx, mcp.SubscriptionFilter{ToolsListChanged: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	same(t, "first", next(ctx, t, modern.methods), mcp.MethodNotificationSubscriptionsAcknowledged)
	s.AddTool(mcp.NewTool("more"), nil)
	same(t, "then", next(ctx, t, modern.methods), mcp.MethodNotificationToolsListChanged)
	for next(ctx, t, legacy.methods) != mcp.MethodNotificationToolsListChanged {
	}

	calling, leave := context.WithCancel(ctx)
	go func() {
		<-begun
		leave()
	}()
	r := mcp.CallToolRequest{}
	r.Params.Name = "block"
	if _, err := modern.CallTool(calling, r); err == nil {
		t.Fatal("it was answered")
	}
	select {
	case <-ended:
	case <-ctx.Done():
		t.Fatal("the tool was not cancelled")
	}
}
