package kit

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// HeadFields are all the header fields of a response that the server sets. RequireHead requires that those which it is not given are absent.
var HeadFields = []string{
	"Content-Type", "Allow", "Retry-After", "Cache-Control", "X-Accel-Buffering", "Mcp-Session-Id", "Mcp-Protocol-Version", "Last-Event-Id",
	"Location", "Content-Encoding", "Accept-Encoding",
}

// RequireHead checks the HeadFields of a response; want are names and values in turn.
func RequireHead(t *testing.T, head http.Header, want ...string) {
	t.Helper()
	expected := http.Header{}
	for i := 0; i < len(want); i += 2 {
		expected.Set(want[i], want[i+1])
	}
	for _, name := range HeadFields {
		require.Equal(t, expected[name], head[name], "the header field %s", name)
	}
}

// RequireStream checks that a response is a stream: its status and its header.
func RequireStream(t *testing.T, res *http.Response) {
	t.Helper()
	require.Equal(t, http.StatusOK, res.StatusCode)
	RequireHead(t, res.Header, StreamHead...)
}

// StreamHead is the header of every stream: names and values in turn.
var StreamHead = []string{"Content-Type", "text/event-stream", "Cache-Control", "no-cache, no-transform", "X-Accel-Buffering", "no"}
