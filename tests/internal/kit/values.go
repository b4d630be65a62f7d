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

// RequireSpread checks that a client was told base, or up to a fifth more.
func RequireSpread(t *testing.T, base, got time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, got, base.Truncate(time.Millisecond))
	require.LessOrEqual(t, got, base*6/5+time.Millisecond)
}

// IDsIn are the event ids in a response, the oldest first.
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

// Get answers a GET that is refused, or ends.
func Get(t *testing.T, c *rejointest.Client, header ...string) string {
	t.Helper()
	body, res := ReadAll(t, c.Do(Request(t, http.MethodGet, "", header...)))
	if body == "" {
		return fmt.Sprintf("%d %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
	if res.StatusCode == http.StatusOK {
		return Events(body)
	}
	return Refusal(t, body, res)
}

// Progress are the progress values among messages, in order.
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

// UpTo is 0, 1, … n-1.
func UpTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// Atoi is strconv.Atoi.
func Atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// Position is what an event id says.
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
