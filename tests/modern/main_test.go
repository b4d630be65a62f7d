// Package modern_test tests requests of the modern era, which have no sessions: how they reach the handler, their streams, and how they end.
package modern_test

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
