package rejoin

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/internal/lazy"
)

// Package context finds the inner context of a lazy.Context. So derived contexts are cancelled at once, not by goroutines that wait, and end
// with its cause. See lazy.Context.Value.
func TestContextOfACallIsKnownToItsPackage(t *testing.T) {
	type key struct{}
	enough := errors.New("enough")
	for name, c := range map[string]context.Context{
		"a call":         &callContext{Context: lazy.Context{Values: context.WithValue(t.Context(), key{}, 1)}},
		"a session":      &lazy.Context{},
		"a notification": &notificationContext{values: context.WithValue(t.Context(), key{}, 1), s: &Session{}},
	} {
		derived, cancel := context.WithCancel(c)
		defer cancel()
		require.NoError(t, derived.Err(), name)
		switch c := c.(type) {
		case *callContext:
			require.Equal(t, 1, c.Value(key{}))
			c.Cancel(enough)
		case *lazy.Context:
			require.Nil(t, c.Value(key{}))
			c.Cancel(enough)
		case *notificationContext:
			require.Equal(t, 1, c.Value(key{}))
			c.s.context().Cancel(enough)
		}
		require.ErrorIs(t, derived.Err(), context.Canceled, "%s: a goroutine would need some time for it", name)
		require.Equal(t, enough, context.Cause(derived), name)
		require.Equal(t, enough, context.Cause(c), name)
		require.ErrorIs(t, c.Err(), context.Canceled, name)
	}
}

// A progress notification that is written by hand reads as if encoding/json had written it.
func TestProgressIsWrittenAsByEncodingJSON(t *testing.T) {
	numbers := []float64{
		0, math.Copysign(0, -1), 1, -1, 0.5, 1.0 / 3, 100, 1e6, 1 << 53, 1<<53 + 2, -1 << 60, 123456789.25, 1e20, 1e21, 1e300, math.MaxFloat64,
		1e-6, 9e-7, 1e-300, math.SmallestNonzeroFloat64,
	}
	for _, done := range numbers {
		for _, total := range numbers {
			for _, message := range []string{"", "step", "größe \"x\"\n<&>\u2028", "\xff"} {
				got, err := appendProgress(nil, []byte(`"t"`), done, total, message)
				require.NoError(t, err)
				var wire struct {
					Version string `json:"jsonrpc"`
					Method  string `json:"method"`
					Params  struct {
						Token   string   `json:"progressToken"`
						Done    *float64 `json:"progress"`
						Total   *float64 `json:"total"`
						Message *string  `json:"message"`
					} `json:"params"`
				}
				require.NoError(t, json.Unmarshal(got, &wire), "%s", got)
				require.Equal(t, []string{"2.0", "notifications/progress", "t"}, []string{wire.Version, wire.Method, wire.Params.Token})
				require.InDelta(t, done, *wire.Params.Done, 0, "%s", got)
				require.Equal(t, total != 0, wire.Params.Total != nil, "%s", got)
				if total != 0 {
					require.InDelta(t, total, *wire.Params.Total, 0, "%s", got)
				}
				require.Equal(t, message != "", wire.Params.Message != nil, "%s", got)
				if message != "" {
					require.Equal(t, strings.ToValidUTF8(message, "\ufffd"), *wire.Params.Message)
				}
			}
		}
	}
	for _, odd := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err := appendProgress(nil, []byte("1"), odd, 0, "")
		require.ErrorContains(t, err, "JSON has no such number")
		_, err = appendProgress(nil, []byte("1"), 0, odd, "")
		require.ErrorContains(t, err, "JSON has no such number")
	}
}
