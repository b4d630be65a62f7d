//go:build redis

package subject

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/internal/redistest"
)

// engineAddr returns the address of a new engine, for subjects that need one.
var engineAddr = func(t *testing.T) string {
	t.Helper()
	return redistest.New(t, redistest.Options{}).Addr()
}

func TestASubjectOverRedisNeedsAnEngine(t *testing.T) {
	s, ok := Find("rejoin-redis-sse")
	require.True(t, ok)
	_, err := s.New(Options{Gate: NewGate()})
	require.ErrorContains(t, err, "needs the address of an engine")
}
