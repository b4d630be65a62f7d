package rejoin

import (
	"bytes"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIdleSessionsAreSmall: a session that does nothing holds little, however much its client sent to open it. Others run beside this, so
// the limit is far from what is measured, and far below what the bodies are.
func TestIdleSessionsAreSmall(t *testing.T) {
	const sessions, body, limit = 300, 64 << 10, 16 << 10
	b := newBench(t, Policy{}, echoCall)
	open := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"x":"` +
		strings.Repeat("x", body) + `"}},"clientInfo":{"name":"t","version":"1"}}}`
	held := func() int64 {
		runtime.GC()
		runtime.GC() // the first one only empties pools halfway
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := held()
	for range sessions {
		b.post(t, open)
		b.do()
		require.Equal(t, http.StatusOK, b.sink.status)
	}
	share := (held() - before) / sessions
	t.Logf("%d bytes", share)
	require.Less(t, share, int64(limit))
	for _, s := range b.srv.all() {
		require.True(t, bytes.Equal([]byte(`{"name":"t","version":"1"}`), s.clientInfo()), "what is kept of it")
		require.Empty(t, s.outs)
		require.Empty(t, s.conns)
		require.Len(t, s.streams, 1)
		require.Equal(t, 1, cap(s.streams))
	}
}
