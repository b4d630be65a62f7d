package load_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/bench/internal/load"
)

// The head of a modern request repeats what its body says, and each request says for itself whether its client takes tasks.
func TestModernRequests(t *testing.T) {
	for _, test := range []struct {
		raw          []byte
		method, name string
		tasks        bool
	}{
		{load.CallModern(12, "echo", `{"text":"t"}`, false), "tools/call", "echo", false},
		{load.CallModern(12, "echo", `{"text":"t"}`, true), "tools/call", "echo", true},
		{load.GetTask(12, "n.X"), "tasks/get", "n.X", true},
	} {
		in := bufio.NewReader(bytes.NewReader(test.raw))
		r, err := http.ReadRequest(in)
		require.NoError(t, err, "%s", test.raw)
		var body struct {
			ID     int
			Method string
			Params struct {
				Name, TaskID string
				Meta         struct {
					Version      string `json:"io.modelcontextprotocol/protocolVersion"`
					Capabilities struct {
						Extensions map[string]struct{}
					} `json:"io.modelcontextprotocol/clientCapabilities"`
				} `json:"_meta"`
			}
		}
		require.NoError(t, json.NewDecoder(r.Body).Decode(&body))
		require.Equal(t, 12, body.ID)
		require.Equal(t, []string{test.method, test.method}, []string{body.Method, r.Header.Get("Mcp-Method")})
		require.Equal(t, []string{test.name, test.name}, []string{body.Params.Name + body.Params.TaskID, r.Header.Get("Mcp-Name")})
		require.Equal(t, []string{"2026-07-28", "2026-07-28"}, []string{body.Params.Meta.Version, r.Header.Get("Mcp-Protocol-Version")})
		_, declared := body.Params.Meta.Capabilities.Extensions["io.modelcontextprotocol/tasks"]
		require.Equal(t, test.tasks, declared)
		require.Zero(t, in.Buffered(), "bytes after the request")
	}
}
