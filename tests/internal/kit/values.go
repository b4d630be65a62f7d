package kit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/rejointest"
)

// RequireSpread requires that a retry time is base plus a jitter of at most a fifth.
func RequireSpread(t *testing.T, base, got time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, got, base.Truncate(time.Millisecond))
	require.LessOrEqual(t, got, base*6/5+time.Millisecond)
}

// IDsIn returns the event ids in a response, in order.
func IDsIn(w *Response) (ids []string) {
	synctest.Wait()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	for line := range strings.Lines(w.Body.String()) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			ids = append(ids, strings.TrimSpace(id))
		}
	}
	return ids
}

// Get sends a GET whose response ends, and returns a summary: of the events, of the refusal, or the status and the content type of an empty
// response.
func Get(t *testing.T, c *rejointest.Client, header ...string) string {
	t.Helper()
	body, res := ReadAll(t, c.Do(Request(t, http.MethodGet, "", header...)))
	if body == "" {
		return fmt.Sprintf("%d %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
	if res.StatusCode == http.StatusOK {
		return EventsSummary(body)
	}
	return Refusal(t, body, res)
}

// Progress returns the values of the progress notifications among messages, in order.
func Progress(t *testing.T, messages []json.RawMessage) (values []int) {
	t.Helper()
	for _, raw := range messages {
		var m struct {
			Method string
			Params struct{ Progress int }
		}
		require.NoError(t, json.Unmarshal(raw, &m))
		if m.Method == "notifications/progress" {
			values = append(values, m.Params.Progress)
		}
	}
	return values
}

// UpTo returns 0, 1, … n-1.
func UpTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// Atoi is strconv.Atoi; an error fails the test.
func Atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// Position splits an event id into the stream's name and the position.
func Position(id string) (stream string, at uint64, ok bool) {
	stream, rest, _ := strings.Cut(id, ".")
	number, _, _ := strings.Cut(rest, ".")
	at, err := strconv.ParseUint(number, 10, 64)
	return stream, at, err == nil && len(stream) == 22
}

// ShortID is an event id without the name of its stream.
func ShortID(id string) string {
	_, rest, _ := strings.Cut(id, ".")
	return rest
}
