package calls_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin"
	"github.com/rejoin-mcp/rejoin/rejointest"
	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// Notify has the same form on the handle and on the session. The context alone decides about the stream.
func TestParamsOfNotifications(t *testing.T) {
	raw := json.RawMessage(`{"n":1}`)
	var none *json.RawMessage
	params := map[string]any{
		"a struct": struct {
			N int `json:"n"`
		}{1},
		"a map":          map[string]int{"n": 1},
		"a raw message":  raw,
		"a pointer":      &raw,
		"nothing":        nil,
		"no raw message": json.RawMessage(nil),
		"no pointer":     none,
	}
	want := func(name string) string {
		if strings.HasPrefix(name, "no") {
			return `{"jsonrpc":"2.0","method":"notifications/x"}`
		}
		return `{"jsonrpc":"2.0","method":"notifications/x","params":{"n":1}}`
	}
	kit.Bubble(t, func(t *testing.T) {
		var order []string
		for _, name := range slices.Sorted(maps.Keys(params)) {
			order = append(order, want(name))
		}
		c := kit.New(t, kit.Tool(func(ctx context.Context, h *rejoin.Handle) (any, error) {
			for _, name := range slices.Sorted(maps.Keys(params)) {
				require.NoError(t, h.Notify("notifications/x", params[name]))
			}
			for _, name := range slices.Sorted(maps.Keys(params)) {
				require.NoError(t, h.Session().Notify(ctx, "notifications/x", params[name]))
			}
			for _, name := range slices.Sorted(maps.Keys(params)) { // on the standalone stream
				require.NoError(t, h.Session().Notify(context.Background(), "notifications/x", params[name]))
			}
			for _, bad := range []any{make(chan int), func() {}} {
				require.ErrorContains(t, h.Notify("notifications/x", bad), "params")
				require.ErrorContains(t, h.Session().Notify(ctx, "notifications/x", bad), "params")
				require.ErrorContains(t, h.Session().Notify(context.Background(), "notifications/x", bad), "params")
			}
			return nil, nil
		}), rejointest.Config{})
		beside := c.Listen()
		call := c.CallTool("x", nil)
		require.Equal(t, `{}`, string(call.Result()))
		got := func(call *rejointest.Call) (all []string) {
			for _, m := range call.Messages() {
				if !bytes.Contains(m, []byte(`"result"`)) {
					all = append(all, string(m))
				}
			}
			return all
		}
		require.Equal(t, slices.Concat(order, order), got(call))
		require.Equal(t, order, got(beside))
	})
}
