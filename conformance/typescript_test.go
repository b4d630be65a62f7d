//go:build node

package conformance_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// The official TypeScript clients need npm and node, which `go test work` must not: `make clients` runs these tests.

func TestTypeScript(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "./install").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, client := range []program{
		{command: []string{"v1"}, rereads: true},
		{command: []string{"v2"}, probes: true},
	} {
		name := client.command[0]
		client.command = []string{"node_modules/.bin/node", "clients/typescript/client.mjs", name}
		client.version, client.listens, client.cursor = "2025-11-25", true, true
		t.Run(name, func(t *testing.T) {
			t.Run("connects", func(t *testing.T) { caseConnects(t, client) })
			t.Run("polls", func(t *testing.T) { casePolls(t, client) })
			t.Run("idle", func(t *testing.T) { caseIdle(t, client, 20) })
			t.Run("fails", func(t *testing.T) { caseFails(t, client) })
			t.Run("asks", func(t *testing.T) { caseAsks(t, client) })
			t.Run("resumes what has ended", func(t *testing.T) { caseResumes(t, client) })
		})
	}
}

// caseResumes: what has ended can be read again from anywhere, and whoever has read all of it is told so, not left waiting.
func caseResumes(t *testing.T, client program) {
	p := start(t, client, rejoin.Config{}, tools{
		"quick": quick,
		"short": func(_ context.Context, h *rejoin.Handle, _ json.RawMessage) (string, error) {
			return "done", h.Notify("notifications/message", map[string]any{"level": "info", "data": "step"})
		},
	})
	p.order(t, "again short")
	p.requireSeen(t, "result", "short", "done")
	p.requireSeen(t, "result", "again", "done")
	p.requireSeen(t, "log", "", "step", "step")
	post := p.wire.all(func(e *exchange) bool { return e.calls("tools/call") })[0]
	resumed := p.wire.wait(t, 2, "resumption", func(e *exchange) bool { return e.ended && p.polls(post)(e) })
	require.Equal(t, http.StatusOK, resumed[0].status)
	require.Equal(t, http.StatusNoContent, resumed[1].status)
	p.requireQuick(t)
	p.leave(t)
	require.Len(t, p.wire.all(p.polls(post)), 2, "nobody polls for what has ended")
}
