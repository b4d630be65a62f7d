//go:build nginx

package proxy

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/client"
)

// entrance is where clients connect.
type entrance interface {
	url() string
	client() *http.Client
}

// user is a client that is connected through a proxy.
type user interface {
	// call calls the tool and returns the text of its result. heard gets the messages of its progress.
	call(ctx context.Context, heard func(message string)) (string, error)
}

// users are the kinds of client. told gets log messages that come outside of calls.
var users = map[string]func(t *testing.T, n entrance, told func(message string)) user{
	"package client": func(t *testing.T, n entrance, told func(string)) user { return connect(t, n, told) },
	"go-sdk":         connectGoSDK(""),
}

// packageClient is a session of package client with a record of its trace.
type packageClient struct {
	*client.Session
	wire *record
}

// connect connects in the legacy era, whose streams most tests are about.
func connect(t *testing.T, n entrance, told func(string)) packageClient {
	t.Helper()
	return connectIn(t, n, client.EraLegacy, told)
}

func connectIn(t *testing.T, n entrance, era client.Era, told func(string)) packageClient {
	t.Helper()
	wire := &record{changed: make(chan struct{})}
	cfg := client.Config{
		HTTP: n.client(), Era: era, Trace: wire.add, Backoff: 20 * time.Millisecond, Attempts: 1000, Logger: slog.New(slog.DiscardHandler),
	}
	if told != nil {
		cfg.OnNotification = func(_ string, params json.RawMessage) {
			var p struct{ Data string }
			_ = json.Unmarshal(params, &p)
			told(p.Data)
		}
	}
	s, err := client.Connect(deadline(t), n.url(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { requireClosed(t, s.Close(context.WithoutCancel(t.Context()))) })
	return packageClient{s, wire}
}

func (u packageClient) call(ctx context.Context, heard func(string)) (string, error) {
	c, err := u.Start(ctx, "tools/call", map[string]any{
		"name": "work", "arguments": map[string]any{}, "_meta": map[string]any{"progressToken": "t"},
	})
	if err != nil {
		return "", err
	}
	for m := range c.Messages() {
		var p struct{ Message, StatusMessage string }
		_ = json.Unmarshal(m.Params, &p)
		heard(p.Message + p.StatusMessage) // of progress, or of a task
	}
	var result struct{ Content []struct{ Text string } }
	if err := c.Wait(ctx, &result); err != nil {
		return "", err
	}
	return result.Content[0].Text, nil
}

// requireClosed requires that a session was closed without an error, but not after a test that has failed for another reason.
func requireClosed(t *testing.T, err error) {
	if !t.Failed() {
		require.NoError(t, err)
	}
}

// goSDKClient is a session of the official Go client.
type goSDKClient struct {
	*mcp.ClientSession
	heard *messageTarget
}

// connectGoSDK connects with a version; "": the newest, if the server does not direct the client to another.
func connectGoSDK(version string) func(t *testing.T, n entrance, told func(string)) user {
	return func(t *testing.T, n entrance, told func(string)) user { return enterGoSDK(t, n, version, told) }
}

func enterGoSDK(t *testing.T, n entrance, version string, told func(string)) user {
	t.Helper()
	heard := &messageTarget{}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { heard.put(r.Params.Message) },
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			if text, ok := r.Params.Data.(string); ok && told != nil {
				told(text)
			}
		},
	})
	transport := &mcp.StreamableClientTransport{Endpoint: n.url(), HTTPClient: n.client()}
	s, err := c.Connect(deadline(t), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(t, err)
	t.Cleanup(func() { requireClosed(t, s.Close()) })
	return goSDKClient{s, heard}
}

func (u goSDKClient) call(ctx context.Context, heard func(string)) (string, error) {
	u.heard.set(heard)
	params := &mcp.CallToolParams{Name: "work"}
	params.SetProgressToken("t")
	result, err := u.CallTool(ctx, params)
	if err != nil {
		return "", err
	}
	return result.Content[0].(*mcp.TextContent).Text, nil
}

// messageTarget passes messages on to a function that can be changed.
type messageTarget struct {
	mu sync.Mutex
	to func(string)
}

func (s *messageTarget) set(to func(string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = to
}

func (s *messageTarget) put(message string) {
	s.mu.Lock()
	to := s.to
	s.mu.Unlock()
	to(message)
}

// record keeps trace events.
type record struct {
	mu      sync.Mutex
	all     []client.TraceEvent
	changed chan struct{}
}

func (r *record) add(e client.TraceEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *record) list(want func(client.TraceEvent) bool) (found []client.TraceEvent, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.all), func(e client.TraceEvent) bool { return !want(e) }), r.changed
}

// wait waits until there are count such events, or returns the cause of ctx's end.
func (r *record) wait(ctx context.Context, count int, want func(client.TraceEvent) bool) error {
	for {
		found, changed := r.list(want)
		if len(found) >= count {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// polls matches the polls of a stream: GETs with an event id.
func polls(stream string) func(client.TraceEvent) bool {
	return func(e client.TraceEvent) bool {
		return e.Kind == client.TracePoll && e.Stream == stream && e.EventID != ""
	}
}

// broken matches connections that did not end cleanly.
func broken(e client.TraceEvent) bool { return e.Kind == client.TraceEnd && e.Err != nil }

// deadline is a context with the deadline of a wait.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
