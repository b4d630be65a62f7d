//go:build node

package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// The official TypeScript clients need npm and node, which `go test work` must not need: `make clients` runs these tests.

func TestTypeScript(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "./install").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, client := range []program{
		{command: []string{"v1"}, rereads: true, eras: rejoin.EraBoth},
		{command: []string{"v2"}, probes: true}, // it falls back
	} {
		name := client.command[0]
		client.command = typeScript(name)
		client.version, client.listens, client.cursor = "2025-11-25", true, true
		t.Run(name, func(t *testing.T) {
			eachBridge(t, client, polledCases())
			own := client
			own.app, own.eras = newApp, rejoin.EraLegacy // it supports only this era
			t.Run("connects", func(t *testing.T) { caseConnects(t, own) })
			t.Run("polls", func(t *testing.T) { casePolls(t, own) })
			t.Run("idle", func(t *testing.T) { caseIdle(t, own, 20) })
			t.Run("fails", func(t *testing.T) { caseFails(t, own) })
			t.Run("asks", func(t *testing.T) { caseAsks(t, own) })
			t.Run("resumes what has ended", func(t *testing.T) { caseResumes(t, own) })
			two := own
			two.processes = 2
			t.Run("two processes", func(t *testing.T) {
				t.Run("waits", func(t *testing.T) { caseWaits(t, two) })
				t.Run("polls", func(t *testing.T) { casePolls(t, two) })
				for turns := range 2 {
					two.tells = "SSE stream disconnected: TypeError: terminated"
					t.Run(fmt.Sprintf("the owner dies during a call, %d", turns), func(t *testing.T) { caseOwnerDies(t, two, turns, true) })
					t.Run(fmt.Sprintf("the owner dies while it listens, %d", turns), func(t *testing.T) { caseOwnerDies(t, two, turns, false) })
				}
			})
		})
	}
	t.Run("v2-legacy", func(t *testing.T) {
		eachBridge(t, program{command: typeScript("v2-legacy"), version: "2025-11-25", listens: true, cursor: true, eras: rejoin.EraBoth},
			polledCases())
	})
	for _, name := range []string{"v2", "v2-modern"} {
		t.Run(name+" in the modern era", func(t *testing.T) {
			eachBridge(t, program{command: typeScript(name), version: "2026-07-28", eras: rejoin.EraBoth},
				map[string]func(*testing.T, program){"modern": caseModern})
		})
	}
}

func typeScript(name string) []string {
	return []string{"node_modules/.bin/node", "clients/typescript/client.mjs", name}
}

// caseResumes: a call that has ended can be read again from any event. A client that has read everything is told so and does not wait.
func caseResumes(t *testing.T, client program) {
	p := start(t, client, rejoin.Config{}, tools{
		"quick": quick,
		"short": func(_ context.Context, h hand, _ json.RawMessage) (string, error) {
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
