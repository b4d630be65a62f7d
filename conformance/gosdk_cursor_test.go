package conformance_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// The official Go client ends its session if a resume is refused. A client may hold a cursor past the end of a stream, from a process that had
// more of the stream. Such a cursor is not refused: the call fails with a reason, and the session goes on. On the standalone stream even that
// is not needed: what is sent later comes.
func TestGoSDKOutlivesACursorPastTheEnd(t *testing.T) {
	messages := make(chan string, 10)
	release := make(chan struct{})
	s := connect(t, rejoin.Config{}, tools{
		"long": func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
			if err := h.CloseStream(soon); err != nil {
				return "", err
			}
			<-release
			return "done", nil
		},
		"quick": func(context.Context, hand, json.RawMessage) (string, error) { return "done", nil },
		"listened": func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
			if err := h.CloseStandaloneStream(soon); err != nil {
				return "", err
			}
			return "done", h.Session().Notify(context.Background(), "notifications/message", json.RawMessage(`{"level":"info","data":"heard"}`))
		},
	}, &mcp.ClientOptions{LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
		messages <- r.Params.Data.(string)
	}}, nil)
	s.wire.wait(t, 1, "standalone stream", s.wire.standalone())
	s.wire.next = farCursors{s.wire.next}

	_, err := s.call(s.ctx, "long", nil)
	var e *jsonrpc.Error
	require.ErrorAs(t, err, &e)
	require.JSONEq(t, `{"reason":"expired"}`, string(e.Data))
	s.requireCall(t, "quick", "done")
	close(release)

	s.requireCall(t, "listened", "done")
	require.Equal(t, "heard", receive(t, messages, "a message on the standalone stream"))
	s.requireCall(t, "quick", "done")
	require.EqualValues(t, 2, s.srv.Stats().Expired)
}

// farCursors replaces each cursor by one past the end of its stream.
type farCursors struct{ next http.RoundTripper }

func (f farCursors) RoundTrip(r *http.Request) (*http.Response, error) {
	if cursor := r.Header.Get("Last-Event-ID"); cursor != "" {
		r = r.Clone(r.Context())
		stream, _, _ := strings.Cut(cursor, ".")
		r.Header.Set("Last-Event-ID", stream+".1000")
	}
	return f.next.RoundTrip(r)
}
