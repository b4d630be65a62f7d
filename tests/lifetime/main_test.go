// Package lifetime_test is about how long sessions and streams live, how many there may be, and what is left of them:
// nothing.
package lifetime_test

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
