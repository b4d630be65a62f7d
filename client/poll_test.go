package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/client"
)

// A call that the server lets go five times brings every message once, in order, and its result.
func TestACallIsPolledToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, hc := tool(t, rejoin.Config{}, func(ctx context.Context, h *rejoin.Handle) (any, error) {
			for i := range 5 {
				_ = h.Notify("notifications/message", map[string]any{"n": i})
				_ = h.CloseStream(0)
				<-time.After(10 * time.Second)
			}
			return map[string]any{"ok": true}, nil
		})
		s := connect(t, hc, client.Config{Trace: func(e client.TraceEvent) { t.Logf("%+v", e) }})
		call, err := s.Start(t.Context(), "tools/call", map[string]any{"name": "x"})
		require.NoError(t, err)
		var got []string
		for m := range call.Messages() {
			got = append(got, string(m.Params))
		}
		var result map[string]bool
		require.NoError(t, call.Wait(t.Context(), &result))
		require.True(t, result["ok"])
		require.Equal(t, []string{`{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`}, got)
	})
}
