// Package door_test is about what is let in: refusals, bodies, the guard against rebinding, principals, initialize, and
// floods of them.
package door_test

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
