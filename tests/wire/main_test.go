// Package wire_test is a table of what single requests are answered with, row by row, to the last header field: every verb,
// every refusal.
package wire_test

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
