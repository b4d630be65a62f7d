package errlog

import (
	"bytes"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorsAreCounted(t *testing.T) {
	var (
		out bytes.Buffer
		n   atomic.Int64
	)
	log := slog.New(New(slog.NewTextHandler(&out, nil), &n))
	log.Warn("a warning")
	require.Zero(t, n.Load())
	log.Error("one")
	log.With("a", 1).WithGroup("g").Error("two")
	require.EqualValues(t, 2, n.Load())
	for _, text := range []string{"a warning", "one", "two"} {
		require.Contains(t, out.String(), text)
	}
}
