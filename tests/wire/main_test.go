// Package wire_test is a table of the answers to single requests, row by row, with all header fields: every verb, every refusal.
package wire_test

import (
	"testing"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
