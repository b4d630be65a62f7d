// Package door_test tests which requests are accepted: refusals, bodies, the guard against rebinding, principals, initialize, and floods of
// requests.
package door_test

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
