// Package lifetime_test tests how long sessions and streams live, how many there may be, and that nothing is left of them.
package lifetime_test

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
