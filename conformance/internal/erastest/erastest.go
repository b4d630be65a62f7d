// Package erastest checks that an app serves both eras. The suite checks everything; this test is faster, and needs no node.
package erastest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	stdadapter "github.com/rejoin-mcp/rejoin/adapters/stdlib"
)

// Run opens a session with one request and lists the tools without a session with the next.
func Run(t *testing.T, app rejoin.App) {
	t.Helper()
	srv, err := rejoin.NewServer(app, rejoin.Config{Eras: rejoin.EraBoth})
	require.NoError(t, err)
	defer srv.Close()
	handler := stdadapter.New(srv)
	post := func(body string, header ...string) string {
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
		return w.Body.String()
	}
	require.Contains(t, post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`), `"protocolVersion":"2025-11-25"`)
	require.Contains(t, post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"), `"test_reconnection"`)
}
