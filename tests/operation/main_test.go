// Package operation_test tests the operation of a server: draining, shutting down, replicas, and what an operator sees and does.
package operation_test

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
