// Package modern_test is about requests of the era without sessions: the way around the machine, its streams, and how they
// end.
package modern_test

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
