package conformance_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
)

// The clients of both SDKs are told at once that their session has ended, whether the response that they wait for would come on a stream or
// as the answer to a POST. The tools behind both bridges get the cause.
func TestClientsAreToldThatTheirSessionHasEnded(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"go-sdk v1.8.0": {build(t, "gosdk", "v1.8.0.mod"), "-version", "2025-11-25"},
		"go-sdk v1.6.1": {build(t, "gosdk", "v1.6.1.mod")},
		"mcp-go":        {build(t, "mcpgo", "go.mod"), "-legacy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachBridge(t, program{command: command, version: "2025-11-25"}, map[string]func(*testing.T, program){"is told": caseEnded})
		})
	}
}

// caseEnded: two calls run when an operator ends the session.
func caseEnded(t *testing.T, client program) {
	running, causes := make(chan hand, 2), make(chan error, 2)
	hold := func(speaks bool) func(context.Context, hand, json.RawMessage) (string, error) {
		return func(ctx context.Context, h hand, _ json.RawMessage) (string, error) {
			if speaks {
				if err := h.Progress(1, 2, ""); err != nil {
					return "", err
				}
			}
			running <- h
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "too late", nil
		}
	}
	p := start(t, client, rejoin.Config{Policy: rejoin.Policy{StreamAfter: patience}}, tools{"attached": hold(true), "undecided": hold(false)})
	p.order(t, "call attached")
	p.order(t, "call undecided")
	h := receive(t, running, "a running call")
	receive(t, running, "another")
	p.await(t, 1, "progress", "attached")
	began := time.Now()
	require.NoError(t, p.srv.EndSession(h.Session().Ref()))
	for _, name := range []string{"attached", "undecided"} {
		p.await(t, 1, "error", name)
		require.Contains(t, p.texts("error", name)[0], "the session has ended")
		require.ErrorIs(t, receive(t, causes, "the cause"), rejoin.ErrSessionEnded)
	}
	t.Logf("told after %v", time.Since(began))
	calls := p.wire.all(func(e *exchange) bool { return e.calls("tools/call") })
	require.Len(t, calls, 2)
	for _, call := range calls {
		require.Contains(t, string(call.body), `"data":{"reason":"ended"}`)
	}
	require.NoError(t, p.stdin.Close())
	p.waitFor(t, "the client's end", func() bool { return p.over })
}
