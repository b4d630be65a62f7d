// Package streams_test tests streams and connections: closing, resuming, taking over, what is written and when, and writers that hold back.
package streams_test

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
